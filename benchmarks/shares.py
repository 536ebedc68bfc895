"""Unequal shares of the classes: ``python benchmarks/shares.py [--tasks pbmc_3pv2_5p] [--draws 5]``.

In the second dataset of a task each class is thinned at random, the rarest to a tenth of the most common
(factors are log-uniform between .1 and 1). Beside it the same number of rows is kept whatever their class. A
method that takes composition for a batch effect loses accuracy on the first and not on the second. Figures
are those of `tasks.score`; the last lines say how far the default is from equal shares, and in how many draws
it is the most accurate method. Writes ``shares.csv``.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tasks

from harmonicalign import HarmonicAlignment
from harmonicalign.experiments import baselines

TASKS = ("pbmc_3pv2_5p", "pancreas", "cortex")
FIELDS = ("task", "draw", "shares", "method", "rows", "accuracy", "joint", "mixing")


def thinned(task: tasks.Task, draw: int) -> dict[str, tasks.Task]:
    """The task with the classes of its second dataset in unequal shares, and with as many rows at random."""
    rng = np.random.default_rng([draw, len(task.labels[1])])
    classes, codes = np.unique(task.labels[1], return_inverse=True)
    factors = 10 ** rng.uniform(-1, 0, len(classes))
    factors[rng.permutation(len(classes))[:2]] = 0.1, 1.0
    unequal = np.flatnonzero(rng.random(len(codes)) < factors[codes])
    equal = np.sort(rng.permutation(len(codes))[: len(unequal)])
    return {"unequal": _kept(task, unequal), "equal": _kept(task, equal)}


def _kept(task: tasks.Task, rows: np.ndarray) -> tasks.Task:
    datasets = task.common or task.datasets
    return tasks.Task(task.name, [datasets[0], datasets[1][rows]], [task.labels[0], task.labels[1][rows]])


def embedded(task: tasks.Task, method: str) -> list[Any]:
    """Coordinates by a method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == "default":
            return HarmonicAlignment(random_state=0).fit(task.datasets).embedding_
        return baselines.get(method).fit_transform(task.datasets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=[name for name in TASKS if name in tasks.names()])
    parser.add_argument("--methods", nargs="+", default=["none", "mnn", "harmony", "default"])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--csv", type=Path, default=Path(__file__).parent / "results" / "shares.csv")
    options = parser.parse_args()
    if not options.tasks:
        sys.exit(f"no task's file is in {tasks.data_dir()}")
    found: dict[tuple[str, int, str, str], float] = {}
    with options.csv.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for name in options.tasks:
            for draw in range(options.draws):
                for shares, task in thinned(tasks.make(name), draw).items():
                    for method in options.methods:
                        score = tasks.score(task, embedded(task, method))
                        found[name, draw, shares, method] = score["accuracy"]
                        kept = {key: round(score[key], 4) for key in ("accuracy", "joint", "mixing")}
                        row = {"task": name, "draw": draw, "shares": shares, "method": method}
                        writer.writerow(row | {"rows": task.datasets[1].shape[0]} | kept)
                        file.flush()
                        print(*row.values(), *kept.values(), flush=True)
    for name in options.tasks if "default" in options.methods else ():
        lost = [
            found[name, d, "equal", "default"] - found[name, d, "unequal", "default"]
            for d in range(options.draws)
        ]
        best = [
            all(found[name, d, "unequal", m] <= found[name, d, "unequal", "default"] for m in options.methods)
            for d in range(options.draws)
        ]
        print(f"{name}: lost {np.round(lost, 3).tolist()} against equal shares; best in {sum(best)} draws")


if __name__ == "__main__":
    main()
