"""Accuracy of alignment methods over a suite of real tasks, in one table.

    python benchmarks/accuracy.py                      # every task whose data are there
    python benchmarks/accuracy.py --tasks pancreas pbmc_all --methods none mnn default
    python benchmarks/accuracy.py --mnist              # corrupted MNIST over p: 3 pairs x 3 matrices
    python benchmarks/accuracy.py --methods default --device cuda
    python benchmarks/accuracy.py --methods paper_local --tasks pbmc_all pbmc_3pv1_5p    # with a local kernel
    python benchmarks/accuracy.py --leave-out pbmc  # its tasks, by constants chosen without them; or: all

Accuracy is that of 5-nearest-neighbour labels across datasets, mixing the entropy of dataset labels
among neighbours where classes are shared, over that of rows drawn at random; see `tasks.score`. Each row
is printed when it is known and appended to a CSV. Data are read as `tasks` says. How `--leave-out` chooses
is in `chosen`; its rows have the method "left_out". `publish.py` makes the tables of the documentation.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import chosen
import numpy as np
import tasks
from sklearn.metrics import roc_auc_score

from harmonicalign import HarmonicAlignment
from harmonicalign.experiments import baselines
from harmonicalign.method import MethodConfig

METHODS = ("none", "mnn", "harmony", "scanorama", "paper", "default")
DEFAULT_TASKS = [
    name for name in tasks.names() if not name.startswith("mnist_p35_") and name != "worms_projected"
]
"""All but MNIST of other sizes, and the flatworms without their links."""


def run(
    method: str, task: tasks.Task, seed: int = 0, device: str = "cpu", config: MethodConfig | None = None
) -> tuple[list[np.ndarray], Any]:
    """Embeddings by one method, and the fitted model where it is ours."""
    common = task.common or task.datasets
    if method in ("default", "left_out"):
        # Ours takes links between different columns as they are; others need one space of columns.
        datasets = common if task.links is None else task.datasets
        model = HarmonicAlignment(random_state=seed, device=device, config=config)
        return model.fit(datasets, links=task.links).embedding_, model
    if method in ("paper", "paper_local"):
        kernel = {"n_neighbors": 5, "max_neighbors": 30} if method == "paper_local" else {}
        model = HarmonicAlignment(method="paper", random_state=seed, **kernel).fit(common)
        return model.embedding_, model
    return baselines.get(method).fit_transform(common), None


def measure(
    task: tasks.Task, method: str, device: str = "cpu", config: MethodConfig | None = None
) -> dict[str, Any]:
    """Scores, time and what the model says of itself."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        embedding, model = run(method, task, device=device, config=config)
    out: dict[str, Any] = {"task": task.name, "method": method, "seconds": time.perf_counter() - start}
    out |= tasks.score(task, embedding)
    if method in ("default", "left_out"):
        out |= {"share": model.share_, "p": model.significance_.p}
        one_sided = np.concatenate(task.one_sided)
        if one_sided.sum() > 10 and not one_sided.all():
            out["confidence_auc"] = roc_auc_score(~one_sided, np.concatenate(model.confidence_))
        if task.truth is not None and 0 < task.truth.mean() < 1:
            varies = np.sqrt(tasks.column_variance(task.datasets[0])) > 0.02
            out["weight_auc"] = roc_auc_score(task.truth, model.feature_weights_)
            out["weight_auc_varying"] = roc_auc_score(task.truth[varies], model.feature_weights_[varies])
    return out


def mnist_runs(percentages: tuple[int, ...]) -> Iterator[Callable[[], tasks.Task]]:
    for p in percentages:
        for pair in range(3):
            for matrix in range(3):
                yield partial(tasks.mnist, p, pair, matrix_seed=matrix)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=DEFAULT_TASKS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--mnist", action="store_true", help="corrupted MNIST over p, default method")
    parser.add_argument("--leave-out", nargs="+", metavar="FAMILY", choices=["all", *tasks.FAMILIES])
    parser.add_argument("--percentages", type=int, nargs="+", default=list(tasks.MNIST_PERCENTAGES))
    parser.add_argument("--device", default="cpu", help="of the default method")
    parser.add_argument("--csv", type=Path, default=Path(__file__).parent / "results" / "accuracy.csv")
    options = parser.parse_args()
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    if options.leave_out:
        leave_out(options)
    elif options.mnist:
        mnist_table(options)
    else:
        table(
            options, {name: partial(measure, method=name, device=options.device) for name in options.methods}
        )


def record(path: Path, row: dict[str, Any]) -> None:
    new = not path.exists()
    fields = [
        "task",
        "method",
        "accuracy",
        "joint",
        "mixing",
        "seconds",
        "share",
        "p",
        "confidence_auc",
        "weight_auc",
        "weight_auc_varying",
    ]
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fields, extrasaction="ignore")
        if new:
            writer.writeheader()
        writer.writerow(row)


def replace_designs(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows of `regimes` or `simulated` into their CSV, in the place of older ones of the same runs."""
    fields = ["table", "design", "method", "data", "accuracy", "joint", "mixing"]
    keys = fields[:4]
    new = {tuple(str(row[k]) for k in keys) for row in rows}
    # A method that was measured by dataset no longer needs the mean that stood for it.
    new |= {(*key[:3], "mean") for key in new}
    old: list[dict[str, Any]] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            old = [r for r in csv.DictReader(file) if tuple(r[k] for k in keys) not in new]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(old)
        writer.writerows(
            {k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()} for row in rows
        )


def table(options: argparse.Namespace, methods: dict[str, Callable[[tasks.Task], dict[str, Any]]]) -> None:
    print(f"{'task':<30}" + "".join(f"{name[:16]:>18}" for name in methods) + "   (accuracy/mixing)")
    totals: dict[str, list[float]] = {name: [] for name in methods}
    for task_name in options.tasks:
        task = tasks.make(task_name)
        line = f"{task_name:<30}"
        for name, method in methods.items():
            try:
                row = method(task) | {"method": name}
            except (ImportError, ValueError, MemoryError) as error:
                print(f"{name} on {task_name}: {error}", file=sys.stderr)
                line += f"{'-':>18}"
                continue
            record(options.csv, row)
            totals[name].append(row["accuracy"])
            line += f"{row['accuracy']:>12.3f}/{row['mixing']:.2f} "
        print(line, flush=True)
    print(f"{'mean':<30}" + "".join(f"{np.mean(v) if v else np.nan:>12.3f}      " for v in totals.values()))


def leave_out(options: argparse.Namespace) -> None:
    """The tasks of each family, by the constants chosen without it."""
    families = list(tasks.FAMILIES) if "all" in options.leave_out else options.leave_out
    asked = options.tasks
    print(f"by the runs in {chosen.runs()}")
    for family in families:
        config, changed = chosen.without(family)
        shown = ", ".join(f"{name} = {value}" for name, value in changed.items()) or "nothing changes"
        print(f"without {family}: {shown}")
        options.tasks = [name for name in asked if tasks.family(name) == family]
        table(
            options, {"left_out": partial(measure, method="left_out", device=options.device, config=config)}
        )


def mnist_table(options: argparse.Namespace) -> None:
    print(
        f"{'p %':>4} {'accuracy':>9} {'least':>6} {'weight AUC':>15} {'(varying)':>13} "
        f"{'share':>6} {'p<.05':>6} {'s':>5}"
    )
    for p in options.percentages:
        rows = [measure(make(), "default") for make in mnist_runs((p,))]
        for row in rows:
            record(options.csv, row)
        auc = (
            [row.get("weight_auc", np.nan) for row in rows],
            [row.get("weight_auc_varying", np.nan) for row in rows],
        )
        accuracy = [row["accuracy"] for row in rows]
        print(
            f"{p:>4} {np.mean(accuracy):>9.3f} {min(accuracy):>6.3f} "
            f"{np.mean(auc[0]):>15.3f} {np.mean(auc[1]):>13.3f} "
            f"{np.mean([row['share'] for row in rows]):>6.2f} "
            f"{np.mean([row['p'] < 0.05 for row in rows]):>6.2f} "
            f"{np.mean([row['seconds'] for row in rows]):>5.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
