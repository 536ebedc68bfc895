"""The command ``align``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from harmonicalign.adapters import io
from harmonicalign.adapters.cli import _options as options
from harmonicalign.adapters.cli._fit import Fit, significance, told
from harmonicalign.adapters.cli._inputs import check_column, load, reading_plan, sources
from harmonicalign.adapters.cli._lazy import align_lazily, check_engine
from harmonicalign.adapters.cli._results import (
    Writing,
    beside,
    check_targets,
    coordinates,
    joined,
    keeps_everything,
    labels_by_key,
    scores,
)
from harmonicalign.adapters.cli._session import Session, session

__all__ = ["align"]


def align(
    files: Annotated[
        list[str], typer.Argument(help="Two or more inputs, or one with --batch-key, or one h5mu.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Aligned data; by default FIRST.aligned.h5ad. Tables get the coordinates."
        ),
    ] = None,
    model_file: Annotated[
        Path | None, typer.Option("--model", "-m", help="Also save the model (.npz), for other commands.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Report to write; by default beside the aligned data.")
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    labels: Annotated[
        str | None, typer.Option("--labels", "-l", help="Column of obs to score and colour by.")
    ] = None,
    batch_key: options.BatchKey = None,
    backed: options.Backed = False,
    obs: options.ObsColumns = None,
    transpose: options.Transpose = False,
    arcsinh: options.Arcsinh = None,
    use_rep: options.UseRep = None,
    layer: options.Layer = None,
    n_vars: options.NVars = None,
    normalize: options.Normalize = False,
    links: options.Links = None,
    peaks: options.Peaks = None,
    genes: options.Genes = None,
    anchors: options.Anchors = None,
    key_added: options.KeyAdded = "harmonic",
    method: options.Method = "refined",
    params: options.Params = None,
    device: options.Device = None,
    engine: options.Engine = "memory",
    scheduler: options.Scheduler = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    r"""Align datasets; write them with aligned coordinates, a report and, if asked, the model.

    Several inputs are joined into one file, with a column "dataset" in obs. In h5ad and zarr results stand in
    obsm\["X_harmonic"], and scanpy uses neighbors_key="harmonic". With --engine dask, files larger than
    memory are read in blocks, and a zarr store gets the coordinates of every dataset under its name.
    """
    with session("align", quiet=quiet, as_json=as_json, debug=debug) as run:
        fit = Fit(
            batch_key=batch_key,
            use_rep=use_rep,
            layer=layer,
            n_vars=n_vars,
            normalize=normalize,
            links=links,
            peaks=peaks,
            genes=genes,
            anchors=anchors,
            key_added=key_added,
            device=device,
            seed=seed,
            method=method,
            params=params,
        )
        inputs = sources(files)
        check_engine(engine, scheduler)
        if engine == "dask":
            unused = {
                "--batch-key": batch_key,
                "--report": report,
                "--labels": labels,
                "--obs": obs,
                "--transpose": transpose,
                "--arcsinh": arcsinh,
                "--n-vars": n_vars,
                "--normalize": normalize,
                "--links": links,
                "--peaks": peaks,
                "--genes": genes,
                "--anchors": anchors,
                "--strict": strict,
            }
            align_lazily(
                run,
                inputs,
                fit,
                scheduler=scheduler,
                out=out,
                model_file=model_file,
                unused=unused,
                force=force,
            )
            return
        chosen = fit.options()
        modalities = (
            len(inputs) == 1 and inputs[0].key is None and io.find_format(inputs[0].path).name == "h5mu"
        )
        out = out or beside(inputs[0].path, ".aligned.h5mu" if modalities else ".aligned.h5ad")
        if keeps_everything(out) and modalities != (io.find_format(out).name == "h5mu"):
            raise ValueError(
                f"--out is {out}; modalities of one .h5mu go into an .h5mu, "
                "anything else into an .h5ad or another format"
            )
        targets = {
            "out": out,
            "model": model_file,
            "report": None if no_report else report or beside(out, ".html"),
        }
        files_out = {name: path for name, path in targets.items() if path is not None}
        check_targets(files_out, {"model": (".npz",), "report": (".html", ".htm")}, force)
        run.stages.expect([*reading_plan(inputs), *[("writing", 1.0)] * len(files_out)])
        data = load(
            run, inputs, batch_key=batch_key, backed=backed, obs=obs, transpose=transpose, arcsinh=arcsinh
        )
        check_column(data, labels, "--labels")
        model = fit.run(run, data, chosen)
        known = None if labels is None else labels_by_key(data, model, key_added, labels)
        measures = scores(data, model, key_added, known, labels)
        with Writing(run, files_out, force) as results:
            with results.to("out") as file:
                whole = keeps_everything(out)
                result = joined(data, model, key_added) if whole else coordinates(data, model, key_added)
                io.write(result, file)
            if "model" in files_out:
                with results.to("model") as file:
                    model.save(file)
            if "report" in files_out:
                with results.to("report") as file:
                    write_report(model, file, data, key_added, labels, known)
        _tell(run, model, files_out, measures, strict)


def write_report(
    model: Any,
    path: Path,
    data: Any,
    alignment: str,
    column: str | None,
    known: dict[Any, Any] | None,
    title: str | None = None,
) -> None:
    """The report on an alignment, coloured by labels if given."""
    from harmonicalign.adapters import report

    report.write_report(
        model,
        path,
        labels=None if known is None or column is None else {column: known},
        feature_names=_linked_names(data, alignment),
        title=title,
        force=True,
    )


def _linked_names(data: Any, alignment: str) -> list[list[str]] | None:
    """Names of the features on both sides of links, which models do not keep."""
    parts = list(data.values()) if isinstance(data, dict) else list(getattr(data, "mod", {}).values())
    if len(parts) != 2 or any("links" not in part.uns.get(alignment, {}) for part in parts):
        return None
    linked = [set(map(str, parts[0].uns[alignment]["links"][side])) for side in ("first", "second")]
    return [
        [str(n) for n in part.var_names if str(n) in own] for part, own in zip(parts, linked, strict=True)
    ]


def _tell(
    run: Session, model: Any, written: dict[str, Path], measures: dict[str, float], strict: bool
) -> None:
    rows = {str(key): len(z) for key, z in zip(model.keys_, model.embedding_, strict=True)}
    confidence = {str(k): float(np.median(c)) for k, c in zip(model.keys_, model.confidence_, strict=True)}
    result: dict[str, Any] = {
        **significance(run, model, strict),
        "datasets": rows,
        "coordinates": int(model.embedding_[0].shape[1]),
        "features": int(model.fitted_.inputs.signals[0].shape[1]),
        "confidence": confidence,
        "scores": measures,
        "stages": model.timings_,
        "files": written,
    }
    run.say(told(model), "bold")
    run.say("  datasets: " + ", ".join(f"{name} ({n} rows)" for name, n in rows.items()))
    if hasattr(model, "feature_selected_"):
        selected = model.feature_selected_
        result["features_selected"] = int(selected.sum())
        run.say(f"  features that correspond: {result['features_selected']} of {len(selected)}")
    run.say("  median confidence: " + ", ".join(f"{k} {v:.2f}" for k, v in confidence.items()))
    for name, value in measures.items():
        run.say(f"  {name.replace('_', ' ')}: {value:.3f}")
    for path in written.values():
        run.say(f"  wrote {path}")
    run.finish(**result)
