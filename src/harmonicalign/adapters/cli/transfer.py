"""``transfer``: labels or values from some datasets to others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from harmonicalign.adapters import io
from harmonicalign.adapters.cli import _options as options
from harmonicalign.adapters.cli._fit import Fit, aligned
from harmonicalign.adapters.cli._groups import FITTING, READING, RUNNING, Fitting, Reading, Running
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
    joined,
    keeps_everything,
    labels_by_key,
)
from harmonicalign.adapters.cli._session import Session
from harmonicalign.adapters.cli._verdict import assessed, conclude, say_files

__all__ = ["label_table", "transfer", "write_frame"]


def transfer(
    files: options.Files,
    labels: Annotated[
        str, typer.Option("--labels", "-l", metavar="COLUMN", help="Column of obs to transfer.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Table of labels (default FIRST.labels.csv), or .h5ad with all data.",
        ),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            "-s",
            metavar="NAME",
            help="Dataset with labels; may be repeated. By default all that have any.",
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target", "-t", metavar="NAME", help="Dataset to label; may be repeated. By default all others."
        ),
    ] = None,
    how: Annotated[str, typer.Option("--by", metavar="NAME", help="'knn', 'diffusion' or 'svm'.")] = "knn",
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold", metavar="NUMBER", help="Labels with a lower confidence become 'unassigned'."
        ),
    ] = None,
    model_file: options.ModelIn = None,
    backed: options.Backed = False,
    reading: Reading = READING,
    links: options.Links = None,
    fitting: Fitting = FITTING,
    running: Running = RUNNING,
) -> None:
    """Transfer labels (or values) from some datasets to others, each with its confidence.

    The table has a line for every row that was labelled: its name, dataset, label and the probability
    that the label is right.
    """
    with running.session("transfer") as run:
        fit = Fit.of(reading, fitting, links=links)
        key_added = fit.key_added
        inputs = sources(files)
        out = out or beside(inputs[0].path, ".labels.csv")
        if not keeps_everything(out) and io.find_format(out).name not in ("csv", "tsv", "parquet"):
            raise ValueError(f"--out is {out}; labels go into a .csv, .tsv, .parquet, .h5ad, .zarr or .h5mu")
        known_files = [*(s.path for s in inputs), model_file, links]
        check_targets({"out": out}, {}, running.force, known_files, running.overwrite_input)
        run.stages.expect([*reading_plan(inputs), ("labels", 1.0), ("writing", 0.5)])
        alignment = key_added if model_file else None
        data = load(run, inputs, **vars(reading), backed=backed, alignment=alignment)
        check_column(data, labels, "--labels")
        names = dataset_names(data, fit.batch_key, key_added)
        check_names(source or (), names, "--source")
        check_names(target or (), names, "--target")
        if set(source or ()) & set(target or ()) or len(set(target or ())) == len(names):
            raise ValueError("--target names a source, or all datasets; keep one as the source of labels")
        data, model = aligned(run, fit, data, inputs, model_file)
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
        frame = label_table(data, model, key_added, labels, found)
        with Writing(run, {"out": out}, running.force) as results, results.to("out") as file:
            if keeps_everything(out):
                io.write(joined(data, model, key_added), file)
            else:
                write_frame(frame, file)
        _tell(run, assessed(run, model, known, labels), frame, labels, sources_, out, running.strict)


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


def label_table(data: Any, model: Any, alignment: str, column: str, found: dict[Any, Any]) -> Any:
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


def write_frame(frame: Any, path: Path) -> None:
    """Write a table of labels."""
    kind = io.find_format(path).name
    if kind == "parquet":
        frame.to_parquet(path)
    else:
        packed = {"method": "gzip", "mtime": 0} if path.suffix == ".gz" else None
        frame.to_csv(path, sep="," if kind == "csv" else "\t", compression=packed)


def _tell(
    run: Session, assessment: Any, frame: Any, column: str, source: list[Any], out: Path, strict: bool
) -> None:
    values, certainty = frame[f"{column}_pred"], frame.iloc[:, -1]
    result = conclude(run, assessment, strict, brief=True)
    result |= {"rows": len(frame), "source": [str(s) for s in source]}
    if certainty.name == f"{column}_conf":
        counts = values.value_counts()
        result["labels"] = {str(k): int(v) for k, v in counts.items()}
        result["label_confidence"] = float(np.mean(certainty))
        run.say(f"  {len(frame)} rows labelled, mean confidence {result['label_confidence']:.2f}")
        run.table([{"label": str(k), "rows": int(v)} for k, v in counts.items()], ["label", "rows"])
    else:
        run.say(f"  {len(frame)} rows given values")
    say_files(run, {"out": out})
    run.finish(**result, files={"out": out})
