"""``map``: new cells into a reference that was aligned before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from harmonicalign.adapters import io
from harmonicalign.adapters.cli import _options as options
from harmonicalign.adapters.cli._contents import About, describe, kind_of
from harmonicalign.adapters.cli._fit import load_model
from harmonicalign.adapters.cli._groups import RUNNING, Running
from harmonicalign.adapters.cli._inputs import Source, check_column, load, plain_names, reading_plan, sources
from harmonicalign.adapters.cli._preflight import which_to_normalize
from harmonicalign.adapters.cli._results import Writing, beside, check_targets, keeps_everything
from harmonicalign.adapters.cli._session import Session
from harmonicalign.adapters.cli._verdict import conclude, say_files
from harmonicalign.adapters.cli.transfer import write_frame

__all__ = ["map_query"]

_FEW_KNOWN = 0.5


def map_query(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model of the reference, which align saved (.npz).")
    ],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="File of new cells.")],
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            "-r",
            metavar="FILE",
            help="Aligned data that align wrote beside the model; needed for --labels and --obsm.",
        ),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--labels", "-l", metavar="COLUMN", help="Column of the reference's obs to transfer; repeatable."
        ),
    ] = None,
    obsm: Annotated[
        list[str] | None,
        typer.Option(
            "--obsm", metavar="NAME", help="Entry of the reference's obsm to transfer, such as X_umap."
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            metavar="NAME",
            help="The cells are more of this dataset of the model (the same run, the same donor).",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name of the new dataset; by default its file's."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Mapped data; default QUERY.mapped.h5ad. A table holds labels and confidence.",
        ),
    ] = None,
    model_out: Annotated[
        Path | None,
        typer.Option("--model-out", metavar="FILE", help="Also save a model that knows the new dataset."),
    ] = None,
    var_key: options.VarKey = None,
    obs: options.ObsColumns = None,
    transpose: options.Transpose = False,
    arcsinh: options.Arcsinh = None,
    layer: options.Layer = None,
    normalize: options.Normalize = None,
    key_added: options.KeyAdded = "harmonic",
    running: Running = RUNNING,
) -> None:
    r"""Place new cells in a reference without moving what is there.

    The new cells are a dataset of their own, which may have a batch effect; with --dataset they are more
    cells of a known one. h5ad gets coordinates in obsm\["X_harmonic"], labels in obs\["COLUMN_pred"] with the
    probability that they are right in obs\["COLUMN_conf"], and how well the reference supports each cell in
    obs\["harmonic_confidence"].
    """
    with running.session("map") as run:
        (source,) = sources([query])
        known = [] if reference is None else sources([reference])
        if (labels or obsm) and not known:
            raise ValueError(
                "--labels and --obsm come from the data of the reference: give it as --reference"
            )
        out = out or beside(source.path, ".mapped.h5ad")
        table = io.find_format(out).name in ("csv", "tsv", "parquet")
        if not (table or keeps_everything(out)):
            raise ValueError(f"--out is {out}; mapped cells go into .h5ad, .zarr, .csv, .tsv or .parquet")
        targets = {"out": out} if model_out is None else {"out": out, "model-out": model_out}
        read = [source.path, model_file, *(s.path for s in known)]
        check_targets(targets, {"model-out": (".npz",)}, running.force, read, running.overwrite_input)
        run.stages.expect([*reading_plan([source, *known]), ("mapping", 3.0), ("writing", 0.5)])
        model = load_model(model_file)
        atlas = load(run, known, alignment=key_added) if known else None
        for column in labels or ():
            check_column(atlas, column, "--labels")
        data = _read(run, source, obs=obs, transpose=transpose, arcsinh=arcsinh, var_key=var_key)
        about = describe(data, source.name, layer)
        scaled = _to_normalize(run, about, model, normalize, source, arcsinh)
        from harmonicalign.adapters import scverse

        with run.stages.stage("mapping"):
            grown = scverse.map_query(
                data, model, reference=atlas, dataset=dataset, key=name or source.name, obs=labels or (),
                obsm=obsm or (), layer=layer, normalize=scaled, key_added=key_added,
            )  # fmt: skip
        assessment = _assessed(run, grown, data, dataset, key_added)
        with Writing(run, targets, running.force) as results:
            with results.to("out") as file:
                if table:
                    write_frame(_table(data, labels or [], key_added), file)
                else:
                    io.write(data, file)
            if model_out is not None:
                with results.to("model-out") as file:
                    grown.save(file)
        _tell(run, assessment, data, labels or [], key_added, targets, running.strict)


def _read(run: Session, source: Source, **options: Any) -> Any:
    """The query as one AnnData."""
    data = load(run, [source], **options, alone=True)
    if hasattr(data, "mod"):
        raise ValueError(f"{source.path} holds several modalities; name one, as {source.path}::MODALITY")
    return data


def _to_normalize(
    run: Session, about: About, model: Any, given: list[str] | None, source: Source, arcsinh: float | None
) -> bool:
    """Whether to normalise the query: what it holds, against what the model holds."""
    signals = model.fitted_.at_hand().inputs.signals[0]
    theirs = kind_of(signals[: min(300, signals.shape[0])])
    plain = [about.name] if arcsinh is not None else plain_names([source], [about.name])
    if theirs == "counts" and list(given or ["auto"]) == ["auto"]:
        return False
    chosen = bool(which_to_normalize(given, [about], plain))
    if chosen:
        run.remark(f"{about.name}: counts are scaled to equal totals, then log(1 + x)")
    mine = "log" if chosen else about.values
    if "scaled" in (mine, theirs) and mine != theirs:
        run.warn(
            f"the query holds {mine} values and the model was fitted on {theirs} values: bring the query to "
            "the form of the reference"
        )
    return chosen


def _assessed(run: Session, model: Any, data: Any, dataset: str | None, alignment: str) -> Any:
    """The verdict on the new cells."""
    from harmonicalign.adapters.verdict import assess_added

    number = len(model.keys_) - 1 if dataset is None else model.fitted_.position(dataset)
    confidence = data.obs[f"{alignment}_confidence"].to_numpy()
    with run.stages.stage("verdict"):
        return assess_added(model, number, confidence, run.remarks)


def _table(data: Any, labels: list[str], alignment: str) -> Any:
    """A line for every new cell: labels with their confidence, and its own."""
    wanted = [f"{column}_{end}" for column in labels for end in ("pred", "conf", "spread")]
    kept = [c for c in wanted if c in data.obs]
    return data.obs[[*kept, f"{alignment}_confidence"]].rename_axis("name")


def _tell(
    run: Session, assessment: Any, data: Any, labels: list[str], alignment: str, written: Any, strict: bool
) -> None:
    result = conclude(run, assessment, strict, brief=True)
    confidence = data.obs[f"{alignment}_confidence"].to_numpy()
    result |= {"rows": int(data.n_obs), "median_confidence": float(np.median(confidence))}
    low = float(np.mean(confidence < _FEW_KNOWN))
    run.say(
        f"  {data.n_obs:,} cells mapped, median confidence {np.median(confidence):.2f}; "
        f"{100 * low:.0f} % are little like any cell of the reference (below {_FEW_KNOWN})"
    )
    for column in labels:
        if f"{column}_conf" not in data.obs:
            continue
        counts = data.obs[f"{column}_pred"].value_counts()
        mean = float(data.obs[f"{column}_conf"].mean())
        result.setdefault("labels", {})[column] = {
            "rows": {str(k): int(v) for k, v in counts.items() if v},
            "confidence": mean,
        }
        run.say(f"  {column}: mean probability that a label is right {mean:.2f}")
        lines = [{column: str(k), "cells": int(v)} for k, v in counts.items() if v]
        run.table(lines[:20], [column, "cells"])
    say_files(run, written)
    run.finish(**result, files=written)
