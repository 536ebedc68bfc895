"""``report``: the page on a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harmonicalign.adapters.cli import _options as options
from harmonicalign.adapters.cli._fit import load_model
from harmonicalign.adapters.cli._groups import SAYING, Saying
from harmonicalign.adapters.cli._inputs import check_column, load, reading_plan, sources
from harmonicalign.adapters.cli._results import Writing, beside, check_targets, labels_by_key
from harmonicalign.adapters.cli._verdict import assessed, conclude, say_files
from harmonicalign.adapters.cli.align import linked_names
from harmonicalign.adapters.report import write_assessment
from harmonicalign.adapters.report.comparison import Comparison

__all__ = ["report"]


def report(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL", help="Model that align saved (.npz).")],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="Aligned data that align wrote, for labels."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Report to write; by default beside the model."),
    ] = None,
    labels: Annotated[
        str | None, typer.Option("--labels", "-l", metavar="COLUMN", help="Column of obs to colour by.")
    ] = None,
    comparison: Annotated[
        Path | None,
        typer.Option(
            "--comparison", metavar="FILE", help="Table that compare wrote (.csv), to be shown in the report."
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="Heading of the report.")
    ] = None,
    key_added: options.KeyAdded = "harmonic",
    force: options.Force = False,
    strict: options.Strict = False,
    saying: Saying = SAYING,
) -> None:
    """Write the report on a model: one self-contained HTML file."""
    with saying.session("report") as run:
        out = out or beside(model_file, ".html")
        check_targets({"out": out}, {"out": (".html", ".htm")}, force)
        if labels is not None and not files:
            raise ValueError(
                "--labels needs the aligned data to take them from; give their file after the model"
            )
        others = Comparison.of(comparison)
        inputs = sources(files or [])
        run.stages.expect([*reading_plan(inputs), ("verdict", 1.0), ("writing", 1.0)])
        model = load_model(model_file)
        data: Any = {}
        if inputs:
            data = load(run, inputs, alignment=key_added)
            check_column(data, labels, "--labels")
        known = None if labels is None else labels_by_key(data, model, key_added, labels)
        assessment = assessed(run, model, known, labels or "", linked_names(data, key_added))
        with Writing(run, {"out": out}, force) as results, results.to("out") as file:
            write_assessment(assessment, file, title=title, comparison=others, force=True)
        result = conclude(run, assessment, strict)
        say_files(run, {"out": out})
        run.finish(**result, files={"report": out})
