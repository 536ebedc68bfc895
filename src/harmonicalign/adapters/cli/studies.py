"""``compare``, ``reproduce`` and ``demo``: comparisons, the paper's experiments, and a demonstration."""

from __future__ import annotations

import csv
import io as text_io
from pathlib import Path
from typing import Annotated, Any

import typer

from harmonicalign.adapters.cli import _options as options
from harmonicalign.adapters.cli._fit import Fit
from harmonicalign.adapters.cli._groups import READING, SAYING, Reading, Saying
from harmonicalign.adapters.cli._inputs import by_batch, load, reading_plan, sources
from harmonicalign.adapters.cli._results import check_targets
from harmonicalign.adapters.cli._session import Session
from harmonicalign.adapters.cli._stages import fit_plan
from harmonicalign.adapters.io import check_target, replacing

__all__ = ["compare", "demo", "reproduce"]

_COLUMNS = ("method", "label_agreement", "mixing", "mixing_within_labels", "seconds", "p", "verdict", "note")


def _experiments() -> list[str]:
    from harmonicalign.experiments import NAMES

    return list(NAMES)


def _compared() -> list[str]:
    from harmonicalign.experiments.compare import METHODS

    return list(METHODS)


def compare(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES", help="Two or more inputs, or one with --batch-key."),
    ],
    labels: Annotated[
        str | None,
        typer.Option("--labels", "-l", metavar="COLUMN", help="Column of obs with labels to score by."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help="Method to run; may be repeated: none, mnn, harmony, scanorama, scvi, magan, wang, paper, "
            "harmonicalign. By default all that are installed but for the three that take minutes (scvi, "
            "magan, wang).",
            autocompletion=_compared,
        ),
    ] = None,
    neighbors: Annotated[
        int, typer.Option("--neighbors", metavar="NUMBER", min=1, help="Neighbours that vote on a label.")
    ] = 5,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Table to write (.csv).")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", help="Picture of all embeddings side by side (.png)."),
    ] = None,
    scib: Annotated[bool, typer.Option("--scib", help="Add metrics of scIB (needs scib-metrics).")] = False,
    reading: Reading = READING,
    n_vars: options.NVars = None,
    normalize: options.Normalize = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    overwrite_input: options.OverwriteInput = False,
    saying: Saying = SAYING,
) -> None:
    """Align your data with several methods and score each.

    All methods run at their defaults on the same features, chosen and normalised as align does.
    label_agreement is the share of rows whose nearest rows of the other datasets have their label; mixing is
    0 where datasets are separate and 1 where they mix as at random, among all rows and within labels; p and
    verdict are those of align. The rest says what a method would need.
    """
    with saying.session("compare") as run:
        targets = {name: path for name, path in (("out", out), ("picture", picture)) if path is not None}
        inputs = sources(files)
        check_targets(
            targets, {"picture": (".png", ".pdf", ".svg")}, force, [s.path for s in inputs], overwrite_input
        )
        fit = Fit(batch_key=reading.batch_key, n_vars=n_vars, normalize=normalize, arcsinh=reading.arcsinh)
        fit.options()
        run.stages.expect([*reading_plan(inputs), ("comparing", 5.0)])
        data = load(run, inputs, **vars(reading))
        seen = fit.say_preflight(run, data, inputs)
        options_ = {
            # Matrices without names of features stay as they are, where nothing is to be normalised.
            "normalize": seen.normalize or False,
            "n_vars": fit.options().get("n_vars"),
            "n_neighbors": neighbors,
            "random_state": seed,
            "scib": scib,
        }
        table = _compare(
            run, by_batch(data, reading.batch_key), (labels, methods or None), picture, force, options_
        )
        if out is not None:
            _write_rows(table, out, force)
        columns = dict.fromkeys([*_COLUMNS[:-1], *table[0], _COLUMNS[-1]])
        shown = [c for c in columns if c != "columns" and any(line[c] not in (None, "") for line in table)]
        run.table(table, shown)
        for path in targets.values():
            run.say(f"  wrote {path}")
        run.finish(table=table, out=out, picture=picture)


def _compare(
    run: Session,
    data: dict[str, Any],
    what: tuple[str | None, list[str] | None],
    picture: Path | None,
    force: bool,
    given: dict[str, Any],
) -> list[dict[str, Any]]:
    """The table, and the picture if one is wanted."""
    from harmonicalign.experiments import compare as compare_methods

    with run.stages.stage("comparing"):
        if picture is None:
            return compare_methods(data, *what, **given)
        with replacing(picture, force=force) as temporary:
            # The format follows from the ending, which a temporary name lacks.
            named = temporary.with_name(f"{temporary.name}{picture.suffix}")
            table = compare_methods(data, *what, **given, picture=named)
            named.rename(temporary)
            return table


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="An experiment, or 'all'; without it they are listed.",
            autocompletion=_experiments,
        ),
    ] = "",
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", "-d", metavar="PATH", help="File or folder of data; may be repeated."),
    ] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", metavar="NUMBER", min=1, help="Repeats.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small data that need no download.")] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for numbers and figures.")
    ] = Path("reproduce-output"),
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", metavar="NUMBER", min=1, help="Number of parallel processes.")
    ] = 1,
    markers: Annotated[
        list[str] | None,
        typer.Option("--marker", metavar="NAME", help="For 'batch': the two markers to draw."),
    ] = None,
    saying: Saying = SAYING,
) -> None:
    """Run an experiment of the paper; write its numbers and figures.

    An interrupted run continues where it stopped.
    """
    with saying.session("reproduce") as run:
        from harmonicalign import experiments

        if not name:
            titles = experiments.describe()
            run.table([{"name": n, "what it shows": t} for n, t in titles.items()], ["name", "what it shows"])
            run.finish(experiments=titles)
            return
        # The runner shows its own progress bar.
        run.stages.stop()
        reports = experiments.reproduce(
            name,
            data=data or None,
            seeds=seeds,
            quick=quick,
            out=out,
            jobs=jobs,
            progress=not saying.quiet,
            markers=markers or (),
        )
        for report in reports:
            run.say(str(report))
        run.finish(
            experiments=[{"name": r.name, "folder": r.folder, "files": list(r.files)} for r in reports]
        )


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for figures and report.")
    ] = Path("demo-output"),
    seed: options.Seed = 0,
    force: options.Force = False,
    saying: Saying = SAYING,
) -> None:
    """Align two halves of scikit-learn's digits, most pixels of one of them scrambled.

    Needs no data. Prints scores and writes figures and a report.
    """
    with saying.session("demo") as run:
        report = out / "report.html"
        check_target(report, force=True)
        if out.is_dir() and any(out.iterdir()) and not force:
            raise FileExistsError(f"{out} is not empty; choose another folder, or replace it with --force")
        run.stages.expect([*fit_plan(2), ("drawing", 4.0), ("report", 1.0)])
        from harmonicalign import demo as shown
        from harmonicalign.datasets import load_digits_pair
        from harmonicalign.estimator import HarmonicAlignment

        pair = load_digits_pair(preserved=0.35, random_state=seed)
        model = HarmonicAlignment(random_state=seed).fit([pair.x, pair.y])
        scores = shown.scores(pair, model)
        with run.stages.stage("drawing"):
            pictures = shown.draw(pair, model, out)
        with run.stages.stage("report"):
            shown.report(pair, model, out)
        run.say(
            f"Two halves of the digits, {len(pair.x)} and {len(pair.y)} images of {pair.x.shape[1]} pixels; "
            f"in the second only {int(pair.preserved.sum())} pixels are preserved."
        )
        for name, score in scores.items():
            run.say(f"  5-nearest-neighbour accuracy, {name:<30} {score:.3f}")
        run.say(f"  significance {model.significance_}")
        _say_files(run, [*pictures, report])
        run.finish(
            accuracy=scores,
            significance=model.significance_.summary(),
            files=[*pictures, report],
        )


def _say_files(run: Session, files: list[Path]) -> None:
    for file in files:
        run.say(f"  {file}")


def _write_rows(rows: list[dict[str, Any]], path: Path, force: bool) -> None:
    text = text_io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with replacing(path, force=force) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")
