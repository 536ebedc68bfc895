"""Make the tables and numbers of README and documentation anew from the CSVs in ``benchmarks/results``.

    python benchmarks/accuracy.py                                   # results/accuracy.csv
    python benchmarks/accuracy.py --tasks worms_projected
    python benchmarks/accuracy.py --leave-out all                   # its column "chosen without it"
    python benchmarks/ceiling.py                                    # its rows of a dataset's own labels
    python benchmarks/scib.py                                       # results/scib*.csv
    python benchmarks/adaptation.py                                 # results/adaptation.csv
    python benchmarks/paper_results.py                              # results/reproduce: the experiments
    python benchmarks/ablation.py --anew                            # results/ablation.csv
    python benchmarks/transfer.py --missing                         # results/missing.csv
    python benchmarks/calibration.py p --jobs 16                    # results/calibration.csv
    python benchmarks/regimes.py; python benchmarks/simulated.py    # results/designs.csv
    python benchmarks/publish.py            # writes README.md and docs/*.md
    python benchmarks/publish.py --check    # changes nothing; the exit status is 1 if anything would change

Figures of speed come from ``docs/_static/speed.csv`` by way of ``figures``, into the same pages. A page says
where its other figures come from: a table stands between ``<!-- table: MAKER WHAT -->`` and
``<!-- end -->``, a number between ``<!--MAKER WHAT-->`` and ``<!--/-->``. What has no CSV stays as it is and
is listed. Of several runs the last counts. Numbers outside of such marks are listed too, unless their section
names the command that makes them; see `trace`.
"""

from __future__ import annotations

import argparse
import csv
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import figures
import paper_numbers
from paper_numbers import NoResultsError

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PAGES = (
    "README.md",
    "docs/coming_from/harmony.md",
    "docs/comparison.md",
    "docs/parameters.md",
    "docs/promises.md",
    "docs/results.md",
    "docs/scaling.md",
    "docs/scib.md",
    "docs/tutorials/domain_adaptation.md",
)

TABLE = re.compile(r"<!-- table: (\w+)([^\n]*?) -->\n\n(.*?)\n\n<!-- end -->", re.DOTALL)
NUMBER = re.compile(r"<!--(\w+) ([^>]*?)-->([^<]*)<!--/-->")

METHODS = {
    "none": "none",
    "mnn": "MNN",
    "harmony": "Harmony",
    "scanorama": "Scanorama",
    "paper": "paper",
    "default": "**harmonicalign**",
    "left_out": "chosen without it",
}
LISTS = {
    "short": (
        ("mnist_p35", "MNIST, 35 % of pixels preserved"),
        ("mnist_p10", "MNIST, 10 % of pixels preserved"),
        ("mnist_p5", "MNIST, 5 % of pixels preserved"),
        ("pancreas", "pancreas, Wang / Xin"),
        ("pancreas_rotated", "the same, 65 % of genes rotated"),
        ("pbmc_all", "PBMC, three chemistries"),
        ("pbmc_removed", "PBMC, types removed from one side"),
        ("cortex", "mouse cortex by library"),
        ("cytometry_p1_baseline", "cytometry by day"),
        ("cytometry_p1_baseline_rotated", "the same, 65 % of proteins rotated"),
        ("jurkat_three", "Jurkat / 293T, three runs"),
        ("worms_projected", "two flatworms, genes projected through sequence similarity"),
    ),
    "long": (
        ("mnist_p35", "MNIST, 35 % of pixels preserved"),
        ("mnist_p10", "MNIST, 10 % of pixels preserved"),
        ("mnist_p5", "MNIST, 5 % of pixels preserved"),
        ("mnist_usps", "MNIST / USPS"),
        ("usps_mnist", "USPS / MNIST"),
        ("usps_mnist_rotated", "the same, 65 % of pixels rotated"),
        ("coil", "objects by range of views"),
        ("coil_rotated", "the same, 75 % of pixels rotated"),
        ("pancreas", "pancreas, Wang / Xin"),
        ("pancreas_rotated", "the same, 65 % of genes rotated"),
        ("pbmc_all", "PBMC, three chemistries"),
        ("pbmc_all_rotated", "the same, 65 % of one's genes rotated"),
        ("pbmc_removed", "PBMC, types removed from one side"),
        ("cortex", "mouse cortex by library"),
        ("cytometry_p1_baseline", "cytometry by day"),
        ("cytometry_p1_baseline_rotated", "the same, 65 % of proteins rotated"),
        ("cytometry_p2_baseline_rotated", "another person's, 65 % of proteins rotated"),
        ("jurkat_three", "Jurkat / 293T, three runs"),
        ("mixtures", "RNA of three lines mixed in known proportions"),
        ("worms_projected", "two flatworms, genes projected through sequence similarity"),
    ),
}


# --------------------------------------------------------------------------------------------------------
# reading and writing


def read(name: str) -> list[dict[str, str]]:
    """Rows of a CSV in the folder of results."""
    path = RESULTS / name
    if not path.exists():
        raise NoResultsError(f"no {path.name}")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def short(value: float, digits: int) -> str:
    """A share without its leading zero, as the tables write it."""
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{min(digits, 2)}f}"


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(line)} |" for line in (head, *body)]
    lines[0] = lines[0].replace("|  |", "| |", 1)
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def with_best(values: Sequence[float | None], digits: int, among: int | None = None) -> list[str]:
    """Cells of one row, the best of the first `among` in bold."""
    known = [v for v in values[:among] if v is not None]
    best = max((round(v, digits) for v in known), default=None)
    cells = ["–" if v is None else short(v, digits) for v in values]
    return [
        f"**{cell}**" if v is not None and i < len(values[:among]) and round(v, digits) == best else cell
        for i, (cell, v) in enumerate(zip(cells, values, strict=True))
    ]


# --------------------------------------------------------------------------------------------------------
# accuracy.csv


def scores(score: str) -> dict[tuple[str, str], float]:
    return {(r["task"], r["method"]): float(r[score]) for r in read("accuracy.csv") if r.get(score)}


def suite_table(score: str, digits: int, which: str, old: str) -> str:
    """Tasks by methods; the column of constants chosen without the family appears once it was measured."""
    found = scores(score)
    listed = [(task, text) for task, text in LISTS[which] if any((task, m) in found for m in METHODS)]
    if missing := [
        f"{task} by {m}" for task, _ in listed for m in METHODS if m != "left_out" and (task, m) not in found
    ]:
        raise NoResultsError(
            f"accuracy.csv lacks {', '.join(missing[:3])}{' and others' * (len(missing) > 3)}"
        )
    methods = [m for m in METHODS if m != "left_out" or all((task, m) in found for task, _ in listed)]
    compared = len(methods) - ("left_out" in methods)
    body = [[text, *with_best([found[task, m] for m in methods], digits, compared)] for task, text in listed]
    return markdown(["", *(METHODS[m] for m in methods)], body)


def suite_number(what: str) -> str:
    """``TASK METHOD``: one accuracy. ``mean METHOD``: over the tasks that all methods have.

    ``mean best`` is the mean of the most accurate other method of every task, ``mean tasks`` their number.
    """
    task, _, method = what.partition(" ")
    found = scores("accuracy")
    if task != "mean":
        if (task, method) not in found:
            raise NoResultsError(f"accuracy.csv lacks {task} by {method}")
        return short(found[task, method], 3)
    needed = {m for m in METHODS if m != "left_out"}
    others = needed - {"default"}
    needed |= {method} - {"best", "tasks"}
    common = [
        t for t in {t for t, _ in found} if t != "worms_projected" and all((t, m) in found for m in needed)
    ]
    if not common:
        raise NoResultsError(f"accuracy.csv has no task with every method and {method}")
    if method == "tasks":
        return str(len(common))
    if method == "best":
        return short(statistics.fmean(max(found[t, m] for m in others) for t in common), 3)
    return short(statistics.fmean(found[t, method] for t in common), 3)


# --------------------------------------------------------------------------------------------------------
# scib*.csv and adaptation.csv

SCIB = {"pca": "PCA", "harmony": "Harmony", "scanorama": "Scanorama", "mnn": "MNN", "scvi": "scVI"}
ADAPTATION = {
    "none": "source only",
    "coral": "CORAL",
    "subspace_20": "subspace, 20",
    "subspace_50": "subspace, 50",
    "ot": "OT mapping",
    "jdot": "JDOT",
}
HOW = ("without", "with")
COVARIATES = {
    "pbmc": "blood cells, three chemistries, a tenth of the genes raised in 90, 10 and 50 %",
    "cytometry": "cytometry of two people on two days, 10 % of one of them left on each day",
    "digits": "digits from two cameras, a tenth of those below five left in one, of the others in the other",
}
DESIGNS = {
    "regimes": {
        "same": "as it is",
        "moved": "moved by ½ standard deviation per column",
        "shift": "moved by 1",
        "missing": "moved, classes missing on a side",
        "unequal": "moved, classes in other proportions",
        "uneven": "moved, six times as many rows",
        "classwise": "each class moved by its own offset",
        "junk": "moved, as many columns of noise again",
        "small": "moved, sixty rows each",
        "scale": "each column in its own unit",
        "noise": "noisier",
        "dropout": "two fifths of the values lost (digits, tumours, wine)",
        "monotone": "square roots",
        "rotated": "half of the columns mixed",
    },
    "simulated": {
        "plain": "plain",
        "strong batch effect": "strong batch effect",
        "batch effects by kind": "batch effects by cell type",
        "weak differences": "weak differences",
        "shallow": "shallow",
        "other shares": "very uneven proportions",
        "half shared": "half of the cell types shared",
        "few shared": "6 of 18 cell types shared",
        "one of three shared": "one of three cell types shared",
        "small": "200 and 180 cells of 8 cell types",
        "unequal sizes": "4000 and 300 cells",
    },
}
NULLS = {
    "gaussian": "independent Gaussian noise",
    "skewed": "skewed columns, all exchanged",
    "factors": "factor models",
    "clusters": "clusters",
    "heavy": "heavy tails",
    "autocorrelated": "columns autocorrelated down the rows",
    "scaled": "columns of unequal scale, the same in both: noise",
    "scaled clusters": "the same of clusters",
    "scaled factors": "the same of factor models",
    "common factor": "a factor that raises all columns",
    "scaled common": "both: such a factor, and the same unequal scales",
    "spectra": "*unrelated smooth curves: neighbouring columns are alike in both*",
}
OURS = {"harmonicalign": "**harmonicalign**"}


def scib_runs() -> dict[tuple[str, str, str], dict[str, float]]:
    rows = read("scib_peers.csv") + read("scib.csv")
    text = ("task", "method", "version", "seed")
    return {
        (r["task"], r["method"], r["seed"]): {k: float(v) for k, v in r.items() if k not in text and v}
        for r in rows
    }


def scib_table(what: str, old: str) -> str:
    """``tasks SCORE``: tasks by methods; ``metrics``: metrics by methods, means over the tasks all have."""
    runs = scib_runs()
    methods = [m for m in SCIB | OURS if any(m == method for _, method, _ in runs)]
    names = [SCIB.get(m) or OURS[m] for m in methods]
    order = list(dict.fromkeys(task for task, _, _ in runs))

    def of(task: str, method: str, score: str) -> list[float]:
        return [r[score] for (t, m, _), r in runs.items() if (t, m) == (task, method) and score in r]

    kind, _, score = what.partition(" ")
    if kind == "tasks":
        body = []
        for task in order:
            values = [of(task, m, score) for m in methods]
            cells = with_best([statistics.fmean(v) if v else None for v in values], 3)
            spread = [f" ± {short(statistics.pstdev(v), 3)}" if len(v) > 1 else "" for v in values]
            body.append([task.replace("_", " "), *(c + s for c, s in zip(cells, spread, strict=True))])
        return markdown(["", *names], body)
    complete = [t for t in order if all(of(t, m, "Total") for m in methods if m != "scvi")]
    methods = [m for m in methods if all(of(t, m, "Total") for t in complete)]
    metrics = list(next(iter(runs.values())))
    body = []
    for metric in (m for m in metrics if m != "seconds"):
        means = [
            statistics.fmean(statistics.fmean(v) for t in complete if (v := of(t, m, metric)))
            for m in methods
        ]
        body.append([metric, *with_best(means, 3)])
    return markdown([f"mean over {len(complete)} sets", *(SCIB.get(m) or OURS[m] for m in methods)], body)


def adaptation_table(what: str, old: str) -> str:
    """Tasks by methods: accuracy on the target by ``one_nn`` or ``linear``."""
    found = {(r["task"], r["method"]): float(r[what]) for r in read("adaptation.csv") if r[what]}
    names = {m: text for m, text in (ADAPTATION | OURS).items() if any(m == method for _, method in found)}
    tasks = list(dict.fromkeys(task for task, _ in found))
    body = [[t.replace("_", " "), *with_best([found.get((t, m)) for m in names], 3)] for t in tasks]
    return markdown(["source → target", *names.values()], body)


def covariates_table(what: str, old: str) -> str:
    """Without and with covariates."""
    body = []
    for row in read("covariates.csv"):
        values = [
            float(row[f"{score}_{how}"]) for score in ("agreement", "mixing") for how in ("without", "with")
        ]
        cells = [*with_best(values[:2], 2), *with_best(values[2:], 2)]
        body.append([COVARIATES.get(row["task"], row["task"]), *cells, f"{float(row['rows']):.0f}"])
    return markdown(["", "agreement without", "with", "mixing without", "with", "cells"], body)


def design_scores(table: str) -> dict[tuple[str, str, str], dict[str, float]]:
    """Scores by design, dataset and method; those of "mean" are over the datasets, if these are known."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    parts: dict[tuple[str, str], list[dict[str, float]]] = {}
    for row in read("designs.csv"):
        if row["table"] == table:
            scores = {k: float(row[k]) for k in ("accuracy", "joint", "mixing") if row[k]}
            found[row["design"], row["data"], row["method"]] = scores
            if row["data"] != "mean":
                parts.setdefault((row["design"], row["method"]), []).append(scores)
    for (design, method), each in parts.items():
        if (design, "mean", method) not in found:
            mean = {k: statistics.fmean(scores[k] for scores in each) for k in each[0]}
            found[design, "mean", method] = mean
    return found


def designs_table(what: str, old: str) -> str:
    """``regimes`` (accuracy) or ``simulated`` (accuracy, over all rows together, mixing)."""
    found = design_scores(what)
    methods = [m for m in METHODS if any(method == m for _, _, method in found)]
    body = []
    for design, text in DESIGNS[what].items():
        lacks = [m for m in methods if (design, "mean", m) not in found]
        if lacks:
            raise NoResultsError(f"designs.csv lacks {design} by {', '.join(lacks)}")
        scores = [found[design, "mean", m] for m in methods]
        if what == "regimes":
            body.append([text, *with_best([s["accuracy"] for s in scores], 3)])
            continue
        columns = [with_best([s[key] for s in scores], 2) for key in ("accuracy", "joint", "mixing")]
        body.append([text, *("/".join(cells) for cells in zip(*columns, strict=True))])
    return markdown(["the second half" if what == "regimes" else "", *(METHODS[m] for m in methods)], body)


def design_number(what: str) -> str:
    """``TABLE; DESIGN; DATA; METHOD``: an accuracy."""
    table, design, data, method = (part.strip() for part in what.split(";"))
    found = design_scores(table).get((design, data, method))
    if found is None:
        raise NoResultsError(f"designs.csv lacks {design} of {data} by {method}")
    return short(found["accuracy"], 3)


def batches_number(what: str) -> str:
    """``TASK METHOD``: accuracy with a dataset split into sixty batches."""
    task, _, method = what.partition(" ")
    found = [r["accuracy"] for r in read("batches.csv") if (r["task"], r["method"]) == (task, method)]
    if not found:
        raise NoResultsError(f"batches.csv lacks {task} by {method}")
    return short(float(found[-1]), 3)


def missing_table(what: str, old: str) -> str:
    """Calibration of transferred labels by the number of classes that the source lacks."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in read("missing.csv"):
        groups.setdefault((row["data"], row["missing"]), []).append(row)
    body = []
    for (data, count), rows in groups.items():
        errors = [float(row["error"]) for row in rows]
        sure = [float(row["confidence_new"]) for row in rows if row["confidence_new"] and count != "0"]
        ends = [short(min(errors), 3), short(max(errors), 3)]
        body.append(
            [
                data,
                count,
                short(statistics.fmean(errors), 3),
                " to ".join(dict.fromkeys(ends)),
                short(statistics.fmean(sure), 2) if sure else "–",
            ]
        )
    head = ["data", "classes that the source lacks", "error, mean", "smallest to largest"]
    return markdown([*head, "confidence in rows of these classes"], body)


def calibration_table(what: str, old: str) -> str:
    """Shares of p-values below each level, on designs without correspondence."""
    found = {row["design"]: row for row in read("calibration.csv")}
    levels = [key for key in next(iter(found.values())) if key.startswith("below_")]

    def line(text: str, rows: Sequence[dict[str, str]]) -> list[str]:
        fits = sum(int(row["fits"]) for row in rows)
        shares = (100 * sum(int(row[key]) for row in rows) / fits for key in levels)
        return [
            text,
            str(fits),
            *(f"{share:.{digits}f} %" for share, digits in zip(shares, (1, 1, 2), strict=True)),
        ]

    promised = [row for row in found.values() if row["promised"] == "1"]
    body = [line(text, [found[name]]) for name, text in NULLS.items() if name in found]
    body.insert(len(promised), line("**these six, on which the promise is made**", promised))
    return markdown(["design", "fits", *(f"p < {key.removeprefix('below_0')}" for key in levels)], body)


TABLES: dict[str, Callable[[str, str], str]] = {
    "accuracy": lambda what, old: suite_table("accuracy", 3, what, old),
    "mixing": lambda what, old: suite_table("mixing", 2, what, old),
    "scib": scib_table,
    "adaptation": adaptation_table,
    "pivot": lambda what, old: paper_numbers.pivot(what, old, RESULTS / "reproduce"),
    "claims": lambda what, old: paper_numbers.claims(RESULTS / "reproduce"),
    "covariates": covariates_table,
    "missing": missing_table,
    "calibration": calibration_table,
    "designs": designs_table,
}
NUMBERS: dict[str, Callable[[str], str]] = {
    "accuracy": suite_number,
    "batches": batches_number,
    "design": design_number,
    "paper": lambda what: paper_numbers.number(what, RESULTS / "reproduce"),
    "state": lambda what: paper_numbers.state(RESULTS / "reproduce"),
}


def remade(text: str, kept: list[str]) -> str:
    """A page with every table and number made anew; what cannot be is added to `kept`, with the reason."""

    def table(match: re.Match[str]) -> str:
        maker, what, old = match[1], match[2].strip(), match[3]
        try:
            new = TABLES[maker](what, old)
        except NoResultsError as error:
            kept.append(f"table {maker} {what[:50]}: {error}")
            return match[0]
        return f"<!-- table: {maker}{' ' * bool(what)}{what} -->\n\n{new}\n\n<!-- end -->"

    def number(match: re.Match[str]) -> str:
        maker, what, _ = match.groups()
        try:
            return f"<!--{maker} {what}-->{NUMBERS[maker](what)}<!--/-->"
        except NoResultsError as error:
            kept.append(f"number {maker} {what}: {error}")
            return match[0]

    return NUMBER.sub(number, TABLE.sub(table, text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page would change")
    options = parser.parse_args()
    changed = False
    with figures.SOURCE.open(newline="", encoding="utf-8") as file:
        speed = list(csv.DictReader(file))
    for name in dict.fromkeys([*PAGES, *figures.PAGES]):
        path = ROOT / name
        kept: list[str] = []
        old = path.read_text(encoding="utf-8")
        new = figures.filled(remade(old, kept), speed)
        changed |= new != old
        print(f"{name}: {'changes' if new != old else 'as it was'}")
        for reason in kept:
            print(f"  kept {reason}")
        if not options.check and new != old:
            path.write_text(new, encoding="utf-8")
    if options.check and changed:
        sys.exit(1)


if __name__ == "__main__":
    main()
