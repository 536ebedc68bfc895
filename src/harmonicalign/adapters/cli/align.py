"""The command ``align``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harmonicalign.adapters import io
from harmonicalign.adapters.cli import _options as options
from harmonicalign.adapters.cli._fit import Fit
from harmonicalign.adapters.cli._groups import FITTING, READING, RUNNING, Fitting, Reading, Running
from harmonicalign.adapters.cli._inputs import Source, check_column, check_entry, load, reading_plan, sources
from harmonicalign.adapters.cli._lazy import align_lazily, check_engine
from harmonicalign.adapters.cli._results import (
    Writing,
    beside,
    check_targets,
    coordinates,
    joined,
    keeps_everything,
    labels_by_key,
)
from harmonicalign.adapters.cli._session import Session
from harmonicalign.adapters.cli._verdict import assessed, conclude, named, say_files, say_scores
from harmonicalign.adapters.report import write_assessment
from harmonicalign.adapters.report.comparison import Comparison
from harmonicalign.adapters.scverse._uses import same_rows

__all__ = ["align", "linked_names"]


def align(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES", help="Two or more inputs, or one with --batch-key, or one h5mu."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Aligned data; by default FIRST.aligned.h5ad. Tables get the coordinates.",
        ),
    ] = None,
    model_file: Annotated[
        Path | None,
        typer.Option("--model", "-m", metavar="FILE", help="Also save the model (.npz), for other commands."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Report to write; by default beside the aligned data."),
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    labels: Annotated[
        str | None,
        typer.Option("--labels", "-l", metavar="COLUMN", help="Column of obs to score and colour by."),
    ] = None,
    backed: options.Backed = False,
    reading: Reading = READING,
    links: options.Links = None,
    peaks: options.Peaks = None,
    genes: options.Genes = None,
    anchors: options.Anchors = None,
    covariates: options.Covariates = None,
    fitting: Fitting = FITTING,
    engine: options.Engine = "memory",
    scheduler: options.Scheduler = None,
    running: Running = RUNNING,
) -> None:
    r"""Align datasets; write them with aligned coordinates, a report and, if asked, the model.

    Several inputs are joined into one file, with a column "dataset" in obs. In h5ad and zarr results stand in
    obsm\["X_harmonic"], and scanpy uses neighbors_key="harmonic". With --engine dask, files larger than
    memory are read in blocks, and a zarr store gets the coordinates of every dataset under its name.
    """
    with running.session("align") as run:
        fit = Fit.of(
            reading, fitting, links=links, peaks=peaks, genes=genes, anchors=anchors, covariates=covariates
        )
        key_added, force = fit.key_added, running.force
        inputs = sources(files)
        check_engine(engine, scheduler)
        if engine == "dask":
            unused = {
                "--batch-key": reading.batch_key,
                "--report": report,
                "--labels": labels,
                "--obs": reading.obs,
                "--transpose": reading.transpose,
                "--arcsinh": reading.arcsinh,
                "--n-vars": fitting.n_vars,
                "--normalize": fitting.normalize,
                "--links": links,
                "--peaks": peaks,
                "--genes": genes,
                "--anchors": anchors,
                "--covariate": covariates,
                "--strict": running.strict,
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
        files_out = _targets(inputs, out, model_file, report, no_report)
        check_targets(
            files_out,
            {"model": (".npz",), "report": (".html", ".htm")},
            force,
            [*(s.path for s in inputs), links, genes],
            running.overwrite_input,
        )
        run.stages.expect([*reading_plan(inputs), ("verdict", 1.0), *[("writing", 1.0)] * len(files_out)])
        data = load(run, inputs, **vars(reading), backed=backed)
        check_column(data, labels, "--labels")
        for column in covariates or ():
            check_entry(data, "obs", column, "--covariate")
        model = fit.run(run, data, chosen, inputs)
        known = None if labels is None else labels_by_key(data, model, key_added, labels)
        assessment = assessed(run, model, known, labels or "", linked_names(data, key_added))
        with Writing(run, files_out, force) as results:
            with results.to("out") as file:
                whole = keeps_everything(files_out["out"])
                result = joined(data, model, key_added) if whole else coordinates(data, model, key_added)
                io.write(result, file)
            if "model" in files_out:
                with results.to("model") as file:
                    model.save(file)
            if "report" in files_out:
                with results.to("report") as file:
                    others = Comparison(command=_compare_command(files, reading, labels))
                    write_assessment(assessment, file, comparison=others, force=True)
        _tell(run, assessment, files_out, same_rows(data, model, key_added), running.strict)


def _targets(
    inputs: Sequence[Source], out: Path | None, model: Path | None, report: Path | None, no_report: bool
) -> dict[str, Path]:
    """Files to write, by option."""
    modalities = len(inputs) == 1 and inputs[0].key is None and io.find_format(inputs[0].path).name == "h5mu"
    out = out or beside(inputs[0].path, ".aligned.h5mu" if modalities else ".aligned.h5ad")
    if keeps_everything(out) and modalities != (io.find_format(out).name == "h5mu"):
        raise ValueError(
            f"--out is {out}; modalities of one .h5mu go into an .h5mu, "
            "anything else into an .h5ad or another format"
        )
    targets = {"out": out, "model": model, "report": None if no_report else report or beside(out, ".html")}
    return {name: path for name, path in targets.items() if path is not None}


def _compare_command(files: Sequence[str], reading: Reading, labels: str | None) -> str:
    """The command that compares other methods on the same data."""
    given = {"--batch-key": reading.batch_key, "--var-key": reading.var_key, "--labels": labels}
    words = ["harmonicalign", "compare", *files]
    words += [word for name, value in given.items() if value is not None for word in (name, value)]
    return shlex.join([*words, "--out", "methods.csv", "--picture", "methods.png"])


def linked_names(data: Any, alignment: str) -> list[list[str]] | None:
    """Names of the features on both sides of links, which models do not keep."""
    parts = list(data.values()) if isinstance(data, dict) else list(getattr(data, "mod", {}).values())
    if len(parts) != 2 or any("links" not in part.uns.get(alignment, {}) for part in parts):
        return None
    linked = [set(map(str, parts[0].uns[alignment]["links"][side])) for side in ("first", "second")]
    return [
        [str(n) for n in part.var_names if str(n) in own] for part, own in zip(parts, linked, strict=True)
    ]


def _tell(
    run: Session, assessment: Any, written: dict[str, Path], same: dict[str, float], strict: bool
) -> None:
    model = assessment.subject.model
    rows = {str(key): len(z) for key, z in zip(model.keys_, model.embedding_, strict=True)}
    result = conclude(run, assessment, strict)
    result["scores"] |= same
    test = model.model_.significance
    result |= {
        **({} if test is None else {"significance": test.summary()}),
        "datasets": rows,
        "coordinates": int(model.embedding_[0].shape[1]),
        "stages": model.timings_,
        "files": written,
    }
    run.say(f"  datasets: {named(rows)}")
    say_scores(run, result["scores"], result["confidence"])
    say_files(run, written)
    run.finish(**result)
