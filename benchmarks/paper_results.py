"""The experiments of the paper anew: the CSVs and figures that ``docs/results.md`` is made from.

    python benchmarks/paper_results.py                              # the default anew; 15 minutes of a core
    python benchmarks/paper_results.py size batch                   # in some of the experiments
    python benchmarks/paper_results.py corruption --where matrix=0  # a third of it
    python benchmarks/paper_results.py --methods none mnn paper     # others anew; half an hour
    python benchmarks/publish.py                                    # then: tables and numbers of the page

Seconds of a processor for the default, all repeats: multi 115, manifolds 142 (others: 32
and 32), size 39, transfer 49, batch 17, reconstruction 13.

``results/reproduce/EXPERIMENT/results.csv`` has every number, ``results/reproduce/runs.csv`` says with which
code and packages each method was measured. Only the methods asked for are measured, the rows of the others
stay; an experiment whose cells measure several methods at once is measured as a whole. Finished cells are
kept in ``build/paper`` under the digest of the code, so that an interrupted run continues.

``results/reproduce/earlier.csv`` has means and standard deviations of methods that do not change (others, and
the published one) from the run of version 0.1.0, copied from the tables of the page, because its single
numbers were not kept. They serve until a method is measured here; MAGAN needs a GPU and was not. In figures
three rows of equal mean and spread stand for its repeats.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tasks

from harmonicalign.experiments import NAMES
from harmonicalign.experiments._runner import Experiment, Plan, _save, code_digest, run, versions
from harmonicalign.experiments._tables import to_csv
from harmonicalign.experiments.reproduce import _experiment

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "reproduce"
FIGURES = ROOT / "docs" / "_static" / "results"
METHODS = ("default", "shape")
CURVES = ("fusion.png", "fusion_overlap.png", "manifolds.png")
"""Figures with numbers of other methods that the earlier run did not keep: drawn when these are anew, too."""

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """Lines of a CSV, with numbers as numbers and without empty values."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: number(v) for key, v in row.items() if v != ""} for row in csv.DictReader(file)]


def number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def of_method(name: str, methods: set[str]) -> bool:
    """Whether a method's name in a row, such as "paper, ℓ = 8", is one of `methods`."""
    return name in methods or name.split(",")[0] in methods


def earlier(experiment: str, there: set[str]) -> list[Row]:
    """Rows of the mean and spread of methods that are not `there`: m − s, m and m + s."""
    rows = []
    for row in read(RESULTS / "earlier.csv"):
        if row["experiment"] == experiment and str(row.get("method", "")) not in there:
            where = {k: v for k, v in row.items() if k not in ("experiment", "value", "mean", "sd")}
            spread = row.get("sd", 0)
            rows += [where | {row["value"]: row["mean"] + step * spread} for step in (-1, 0, 1)]
    return rows


def renew(experiment: Experiment, methods: set[str], where: dict[str, str], cache: Path, jobs: int) -> None:
    """Measure what is asked for, and write CSV and figures from it and from the rows that stay."""
    plan = Plan(data=(str(tasks.data_dir()),))
    cells = [
        cell
        for cell in experiment.cells(plan)
        if ("method" not in cell or of_method(cell["method"], methods))
        and all(key not in cell or str(cell[key]) in values.split(",") for key, values in where.items())
    ]
    report = run(experiment, plan, cells, cache / experiment.name, jobs=jobs, progress=True)
    fresh = read(report.folder / "results.csv")
    path = RESULTS / experiment.name / "results.csv"
    whole = not any("method" in c for c in cells)
    stay = [] if whole else [r for r in read(path) if not of_method(str(r["method"]), methods)]
    rows = sorted(stay + fresh, key=lambda row: order(experiment, row))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_csv(rows), encoding="utf-8")
    wanted = {json.dumps(c, sort_keys=True) for c in cells}
    kept = [json.loads(f.read_text()) for f in sorted((report.folder / "cells").iterdir())]
    extras = [(k["cell"], k["extra"]) for k in kept if json.dumps(k["cell"], sort_keys=True) in wanted]
    extras = sorted((e for e in extras if e[1]), key=lambda e: cells.index(e[0]))
    there = {str(row.get("method", "")) for row in rows}
    for name, thing in experiment.outputs(earlier(experiment.name, there) + rows, extras).items():
        whole = {"none", "mnn", "paper"} <= there and not where
        if (FIGURES / name).exists() and (whole or name not in CURVES):
            save(FIGURES / name, thing)
    note(experiment.name, sorted({str(r.get("method", "all")).split(",")[0] for r in fresh}))


def order(experiment: Experiment, row: Row) -> Any:
    """By method within the order of the cells; rows of one method stay in the order they were measured."""
    names = ["none", "wang", "mnn", "paper", "default", "shape", "procrustes"]
    method = str(row.get("method", "")).split(",")[0]
    return names.index(method) if method in names else -1


def save(path: Path, figure: Any) -> None:
    """A picture with a palette of 256 colours: a third of the size."""
    from PIL import Image

    _save(path, figure)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256)
    small.save(path, optimize=True)


def note(experiment: str, methods: list[str]) -> None:
    """Which code and packages measured what."""
    path = RESULTS / "runs.csv"
    found = versions()
    packages = ("python", "numpy", "scipy", "scikit-learn", "faiss-cpu")
    now = {
        "code": code_digest(),
        "date": datetime.now(UTC).date().isoformat(),
        **{p: found.get(p, "") for p in packages},
    }
    rows = [r for r in read(path) if (r["experiment"], r["method"]) not in {(experiment, m) for m in methods}]
    rows += [{"experiment": experiment, "method": m, **now} for m in methods]
    path.write_text(to_csv(sorted(rows, key=lambda r: (r["experiment"], r["method"]))), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiments", nargs="*", default=[], help="by default all")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--where", nargs="+", default=[], metavar="KEY=VALUE,…", help="only such cells")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "paper", help="finished cells")
    options = parser.parse_args()
    known = NAMES[:-1]
    if unknown := set(options.experiments) - set(known):
        parser.error(f"no experiment is named {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    for name in options.experiments or [n for n in known if n != "chunks" or "paper" in options.methods]:
        print(name, file=sys.stderr, flush=True)
        where = dict(pair.split("=", 1) for pair in options.where)
        cache = options.cache / code_digest()
        renew(_experiment(name), set(options.methods), where, cache, options.jobs)


if __name__ == "__main__":
    main()
