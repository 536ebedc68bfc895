"""``transfer``, ``correct`` and ``report``: uses of an alignment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from harmonicalign.adapters import io
from harmonicalign.adapters.cli import _options as options
from harmonicalign.adapters.cli._fit import Fit, load_model, significance, told
from harmonicalign.adapters.cli._inputs import (
    check_column,
    check_names,
    dataset_names,
    load,
    reading_plan,
    sources,
)
from harmonicalign.adapters.cli._results import (
    Writing,
    beside,
    check_targets,
    is_annotated,
    joined,
    keeps_everything,
    labels_by_key,
)
from harmonicalign.adapters.cli._session import Session, session
from harmonicalign.adapters.cli.align import write_report

__all__ = ["correct", "report", "transfer"]

_FILES = typer.Argument(help="Inputs as for align; with --model the aligned data that align wrote beside it.")
_LAYER = "harmonic_corrected"


def transfer(
    files: Annotated[list[str], _FILES],
    labels: Annotated[str, typer.Option("--labels", "-l", help="Column of obs to transfer.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Table of labels (default FIRST.labels.csv), or .h5ad with all data."
        ),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source", "-s", help="Dataset with labels; may be repeated. By default all that have any."
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", help="Dataset to label; may be repeated. By default all others."),
    ] = None,
    how: Annotated[str, typer.Option("--by", help="'knn', 'diffusion' or 'svm'.")] = "knn",
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Labels with a lower confidence become 'unassigned'.")
    ] = None,
    model_file: options.ModelIn = None,
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
    key_added: options.KeyAdded = "harmonic",
    method: options.Method = "refined",
    params: options.Params = None,
    device: options.Device = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Transfer labels (or values) from some datasets to others, each with its confidence.

    The table has a line for every row that was labelled: its name, dataset, label and the probability
    that the label is right.
    """
    with session("transfer", quiet=quiet, as_json=as_json, debug=debug) as run:
        fit = Fit(
            batch_key=batch_key,
            use_rep=use_rep,
            layer=layer,
            n_vars=n_vars,
            normalize=normalize,
            links=links,
            key_added=key_added,
            device=device,
            seed=seed,
            method=method,
            params=params,
        )
        inputs = sources(files)
        out = out or beside(inputs[0].path, ".labels.csv")
        if not keeps_everything(out) and io.find_format(out).name not in ("csv", "tsv", "parquet"):
            raise ValueError(f"--out is {out}; labels go into a .csv, .tsv, .parquet, .h5ad, .zarr or .h5mu")
        check_targets({"out": out}, {}, force)
        run.stages.expect([*reading_plan(inputs), ("labels", 1.0), ("writing", 0.5)])
        data = load(
            run,
            inputs,
            batch_key=batch_key,
            backed=backed,
            obs=obs,
            transpose=transpose,
            arcsinh=arcsinh,
            alignment=key_added if model_file else None,
        )
        check_column(data, labels, "--labels")
        names = dataset_names(data, batch_key, key_added)
        check_names(source or (), names, "--source")
        check_names(target or (), names, "--target")
        if set(source or ()) & set(target or ()) or len(set(target or ())) == len(names):
            raise ValueError("--target names a source, or all datasets; keep one as the source of labels")
        data, model = _aligned(run, fit, data, model_file)
        from harmonicalign.adapters import scverse

        known = labels_by_key(data, model, key_added, labels)
        sources_, targets = _roles(known, source, target)
        with run.stages.stage("labels"):
            found = scverse.transfer_labels(
                data,
                model,
                labels,
                source=sources_,
                target=targets,
                method=how,
                threshold=threshold,
                alignment=key_added,
            )
        frame = _table(data, model, key_added, labels, found)
        with Writing(run, {"out": out}, force) as results, results.to("out") as file:
            if keeps_everything(out):
                io.write(joined(data, model, key_added), file)
            else:
                _write_frame(frame, file)
        _tell_labels(run, model, frame, labels, sources_, out, strict)


def correct(
    files: Annotated[list[str], _FILES],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Corrected data; by default FIRST.corrected.h5ad."),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", "-r", help="Reference dataset; default the largest."),
    ] = None,
    model_file: options.ModelIn = None,
    batch_key: options.BatchKey = None,
    obs: options.ObsColumns = None,
    transpose: options.Transpose = False,
    arcsinh: options.Arcsinh = None,
    use_rep: options.UseRep = None,
    layer: options.Layer = None,
    n_vars: options.NVars = None,
    normalize: options.Normalize = False,
    key_added: options.KeyAdded = "harmonic",
    method: options.Method = "refined",
    params: options.Params = None,
    device: options.Device = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    r"""Correct the features of all datasets to match a reference dataset, in original units.

    h5ad and zarr get them in layers\["harmonic_corrected"] beside the original data; other formats hold
    the corrected features alone.
    """
    with session("correct", quiet=quiet, as_json=as_json, debug=debug) as run:
        fit = Fit(
            batch_key=batch_key,
            use_rep=use_rep,
            layer=layer,
            n_vars=n_vars,
            normalize=normalize,
            key_added=key_added,
            device=device,
            seed=seed,
            method=method,
            params=params,
        )
        inputs = sources(files)
        out = out or beside(inputs[0].path, ".corrected.h5ad")
        check_targets({"out": out}, {}, force)
        run.stages.expect([*reading_plan(inputs), ("correction", 3.0), ("writing", 1.0)])
        data = load(
            run,
            inputs,
            batch_key=batch_key,
            obs=obs,
            transpose=transpose,
            arcsinh=arcsinh,
            alignment=key_added if model_file else None,
        )
        check_names([reference], dataset_names(data, batch_key, key_added), "--reference")
        data, model = _aligned(run, fit, data, model_file)
        from harmonicalign.adapters import scverse

        with run.stages.stage("correction"):
            scverse.correct(data, model, reference=reference, layer_added=_LAYER, alignment=key_added)
        with Writing(run, {"out": out}, force) as results, results.to("out") as file:
            whole = joined(data, model, key_added)
            io.write(whole if keeps_everything(out) else _only(whole, key_added), file)
        run.say(told(model), "bold")
        run.say(f"  wrote {out}")
        run.finish(**significance(run, model, strict), files={"out": out})


def report(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL", help="Model that align saved (.npz).")],
    files: Annotated[
        list[str] | None, typer.Argument(help="Aligned data that align wrote, for labels.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Report to write; by default beside the model.")
    ] = None,
    labels: Annotated[str | None, typer.Option("--labels", "-l", help="Column of obs to colour by.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="Heading of the report.")] = None,
    key_added: options.KeyAdded = "harmonic",
    force: options.Force = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Write the report on a model: one self-contained HTML file."""
    with session("report", quiet=quiet, as_json=as_json, debug=debug) as run:
        out = out or beside(model_file, ".html")
        check_targets({"out": out}, {"out": (".html", ".htm")}, force)
        if labels is not None and not files:
            raise ValueError(
                "--labels needs the aligned data to take them from; give their file after the model"
            )
        inputs = sources(files or [])
        run.stages.expect([*reading_plan(inputs), ("writing", 1.0)])
        model = load_model(model_file)
        data: Any = {}
        if inputs:
            data = load(run, inputs, alignment=key_added)
            check_column(data, labels, "--labels")
        known = None if labels is None else labels_by_key(data, model, key_added, labels)
        with Writing(run, {"out": out}, force) as results, results.to("out") as file:
            write_report(model, file, data, key_added, labels, known, title)
        run.say(told(model), "bold")
        run.say(f"  wrote {out}")
        run.finish(**significance(run, model, False), files={"report": out})


def _aligned(run: Session, fit: Fit, data: Any, model_file: Path | None) -> tuple[Any, Any]:
    """The data with an alignment in it, and its model: as saved, or fitted now."""
    if model_file is None:
        return data, fit.run(run, data, fit.options())
    model = load_model(model_file)
    if not is_annotated(data, fit.key_added):
        raise ValueError(
            f"--model goes with data that align wrote, and the inputs have no uns[{fit.key_added!r}]; "
            "give that file, or drop --model to align anew"
        )
    return data, model


def _roles(
    known: dict[Any, Any], source: list[str] | None, target: list[str] | None
) -> tuple[list[Any], list[Any] | None]:
    """Source and target datasets of a transfer."""
    if source:
        return list(source), list(target) if target else None
    labelled = [key for key, values in known.items() if values is not None and str(key) not in (target or ())]
    if not target and len(labelled) == len(known):
        # If all have labels, the first is the source, as if the others had none.
        labelled = labelled[:1]
    if not labelled:
        raise ValueError("--target names every dataset that has labels; leave one to take them from")
    return labelled, list(target) if target else None


def _table(data: Any, model: Any, alignment: str, column: str, found: dict[Any, Any]) -> Any:
    """A line for every row that was labelled."""
    import pandas as pd

    from harmonicalign.adapters.scverse._placed import placed

    frames = []
    for one in placed(data, model, alignment):
        key = model.keys_[one.number]
        if key in found:
            rows = one.part.take(one.part.adata.obs)
            wanted = [f"{column}_pred", *(c for c in (f"{column}_conf", f"{column}_spread") if c in rows)]
            frame = rows[wanted].astype({wanted[0]: object})
            frame.insert(0, "dataset", str(key))
            frames.append(frame)
    return pd.concat(frames).rename_axis("name")


def _write_frame(frame: Any, path: Path) -> None:
    kind = io.find_format(path).name
    if kind == "parquet":
        frame.to_parquet(path)
    else:
        packed = {"method": "gzip", "mtime": 0} if path.suffix == ".gz" else None
        frame.to_csv(path, sep="," if kind == "csv" else "\t", compression=packed)


def _tell_labels(
    run: Session, model: Any, frame: Any, column: str, source: list[Any], out: Path, strict: bool
) -> None:
    values, certainty = frame[f"{column}_pred"], frame.iloc[:, -1]
    run.say(told(model), "bold")
    result: dict[str, Any] = {
        **significance(run, model, strict),
        "rows": len(frame),
        "source": [str(s) for s in source],
    }
    if certainty.name == f"{column}_conf":
        counts = values.value_counts()
        result |= {
            "labels": {str(k): int(v) for k, v in counts.items()},
            "confidence": float(np.mean(certainty)),
        }
        run.say(f"  {len(frame)} rows labelled, mean confidence {result['confidence']:.2f}")
        run.table([{"label": str(k), "rows": int(v)} for k, v in counts.items()], ["label", "rows"])
    else:
        run.say(f"  {len(frame)} rows given values")
    run.say(f"  wrote {out}")
    run.finish(**result, files={"out": out})


def _only(whole: Any, alignment: str) -> Any:
    """The corrected features alone, with names and description of the rows."""
    import anndata

    keep = [c for c in whole.obs.columns if not str(c).startswith(f"{alignment}_")]
    return anndata.AnnData(whole.layers[_LAYER], obs=whole.obs[keep], var=whole.var[[]])
