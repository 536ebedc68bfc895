"""The experiments of the paper anew: the CSVs and figures that ``docs/results.md`` is made from.

    python benchmarks/paper_results.py                      # all; about an hour of one core
    python benchmarks/paper_results.py size batch           # some of them
    python benchmarks/paper_results.py --methods default    # after a change of the default: a third of that
    python benchmarks/publish.py                            # then: tables and numbers of the page

``results/reproduce/EXPERIMENT/results.csv`` has every number, ``results/reproduce/runs.csv`` says with which
code and packages each method was measured. Cells of an experiment that measure one method are measured for
the methods asked for, the rows of the others stay; cells that measure several are always measured. Finished
cells are kept in ``build/paper`` under the digest of the code, so that an interrupted run continues.

MAGAN needs a GPU and is trained only if it is named (``--methods magan``). The means and standard deviations
of its last training are in ``results/reproduce/magan.csv``, copied from the tables of the page of version
0.1.0: its single numbers were not kept. In figures three rows of equal mean and spread stand for its three
repeats.
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
METHODS = ("none", "mnn", "wang", "shape", "paper", "default")

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


def magan(experiment: str) -> list[Row]:
    """Rows of the mean and spread of MAGAN's last training: for three repeats, m − s, m and m + s."""
    rows = []
    for row in read(RESULTS / "magan.csv"):
        if row["experiment"] == experiment:
            where = {
                k: row[k] for k in ("set", "form", "percent", "size", "classifier", "target") if k in row
            }
            for step in (-1, 0, 1):
                rows.append(where | {"method": "magan", row["value"]: row["mean"] + step * row["sd"]})
    return rows


def renew(experiment: Experiment, methods: set[str], cache: Path, jobs: int) -> None:
    """Measure what is asked for, and write CSV and figures from it and from the rows that stay."""
    plan = Plan(data=(str(tasks.data_dir()),))
    cells = [c for c in experiment.cells(plan) if "method" not in c or of_method(c["method"], methods)]
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
    for name, thing in experiment.outputs(rows + magan(experiment.name), extras).items():
        if name.endswith(".png") and not (name[:5] == "batch" and name != "batch.png"):
            _save(FIGURES / name, thing)
    note(experiment.name, sorted({str(r.get("method", "all")).split(",")[0] for r in fresh}))


def order(experiment: Experiment, row: Row) -> Any:
    """By method within the order of the cells; rows of one method stay in the order they were measured."""
    names = ["none", "wang", "mnn", "paper", "default", "shape"]
    method = str(row.get("method", "")).split(",")[0]
    return names.index(method) if method in names else -1


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
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "paper", help="finished cells")
    options = parser.parse_args()
    known = NAMES[:-1]
    if unknown := set(options.experiments) - set(known):
        parser.error(f"no experiment is named {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    for name in options.experiments or known:
        print(name, file=sys.stderr, flush=True)
        renew(_experiment(name), set(options.methods), options.cache / code_digest(), options.jobs)


if __name__ == "__main__":
    main()
