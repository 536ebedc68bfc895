"""What every constant of the default method is worth: one changed at a time, over tasks of several families.

    python benchmarks/ablation.py                               # all constants that have other values to try
    python benchmarks/ablation.py --only n_anchors apart        # some of them
    python benchmarks/ablation.py --tasks pancreas pbmc_all --seeds 0 1 2 --jobs 8
    python benchmarks/ablation.py --table docs/ablation.md      # the table as a page

Nothing is patched: the configuration is replaced (`dataclasses.replace`). A change is that of the accuracy of
5-nearest-neighbour labels across datasets (`tasks.score`) against the default on the same task and seed;
changes of mixing are beside it. Runs are appended to a CSV and not repeated when the script starts again;
``--minutes`` ends it early.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tasks

from harmonicalign import HarmonicAlignment
from harmonicalign.evidence.config import Constant, constants
from harmonicalign.method import DEFAULT, MethodConfig

TASKS = (
    "mnist_p35_200x200",
    "usps_mnist_300",
    "coil_300",
    "pancreas_200",
    "pancreas_rotated_300",
    "pbmc_3pv2_5p_150",
    "pbmc_3pv1_5p_rotated_300",
    "mixtures_150",
    "cortex_300",
    "cytometry_p1_baseline_rotated_300",
)
"""Small tasks of eight families, three of them with most columns rotated. (Of flatworms 300 rows are too few:
any change moves their accuracy by .2 in either direction.)"""

FIELDS = ("constant", "value", "task", "seed", "accuracy", "mixing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--only", nargs="+", help="names of constants")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end after this time")
    parser.add_argument("--table", type=Path, help="write the table as a Markdown page")
    parser.add_argument("--csv", type=Path, default=Path(__file__).parent / "results" / "ablation.csv")
    options = parser.parse_args()
    known = {c.name for c in constants(DEFAULT)}
    if unknown := set(options.only or ()) - known:
        parser.error(f"no constant is named {', '.join(sorted(unknown))}")
    wanted = [c for c in constants(DEFAULT) if not options.only or c.name in options.only]
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    done = read(options.csv)
    run_all(wanted, options, done)
    for label, value, _ in variants(wanted):
        if label and all(
            (label, repr(value), t, str(s)) in done for t in options.tasks for s in options.seeds
        ):
            print(line(label, value, options, done), flush=True)
    if options.table:
        options.table.write_text(page(wanted, options, done), encoding="utf-8")


def run_all(wanted: list[Constant], options: argparse.Namespace, done: dict[Any, Any]) -> None:
    """Every run that is not in the file yet, seed by seed."""
    start = time.monotonic()
    left = [
        ((label, repr(value), name, str(seed)), (name, config, seed))
        for seed in options.seeds
        for label, value, config in variants(wanted)
        for name in options.tasks
        if (label, repr(value), name, str(seed)) not in done
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        running = {pool.submit(measure, *work): key for key, work in left}
        for finished in as_completed(running):
            if finished.cancelled():
                continue
            key = running[finished]
            done[key] = finished.result()
            append(options.csv, key, done[key])
            if time.monotonic() - start > 60 * options.minutes:
                pool.shutdown(wait=False, cancel_futures=True)


@cache
def make(name: str) -> tasks.Task:
    """A task of the suite, or a sample of one: ``pancreas_rotated_300`` has 300 rows of each dataset."""
    if name in tasks.names():
        return tasks.make(name)
    base, _, n = name.rpartition("_")
    return tasks.subsampled(tasks.make(base), int(n))


def variants(wanted: list[Constant]) -> Iterator[tuple[str, Any, MethodConfig]]:
    """The default, and then one constant changed at a time."""
    yield "", None, DEFAULT
    for constant in wanted:
        for value in constant.tried:
            yield constant.name, value, replace(DEFAULT, **{constant.name: value})


def measure(name: str, config: MethodConfig, seed: int) -> tuple[float, float]:
    """Accuracy and mixing."""
    task = make(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HarmonicAlignment(config=config, random_state=seed).fit(task.datasets)
    found = tasks.score(task, model.embedding_)
    return found["accuracy"], found["mixing"]


def changes(label: str, value: Any, options: argparse.Namespace, done: dict[Any, Any]) -> np.ndarray:
    """Changes of accuracy and mixing, (tasks, 2), in the mean over seeds."""
    return np.array(
        [
            np.mean(
                [
                    np.subtract(
                        done[label, repr(value), task, str(seed)], done["", repr(None), task, str(seed)]
                    )
                    for seed in options.seeds
                ],
                axis=0,
            )
            for task in options.tasks
        ]
    )


def line(label: str, value: Any, options: argparse.Namespace, done: dict[Any, Any]) -> str:
    found = changes(label, value, options, done)
    each = " ".join(f"{1000 * a:+5.0f}" for a in found[:, 0])
    mean = found.mean(axis=0)
    return f"{label + ' = ' + str(value):<52}{1000 * mean[0]:+7.1f} {1000 * mean[1]:+7.1f}   {each}"


def page(wanted: list[Constant], options: argparse.Namespace, done: dict[Any, Any]) -> str:
    """The table of all constants: what they do, where they were measured, what other values change."""
    base = np.mean(
        [done["", repr(None), task, str(s)] for task in options.tasks for s in options.seeds], axis=0
    )
    rows = [
        "# Constants of the default method",
        "",
        "Made by `python benchmarks/ablation.py --table docs/ablation.md`; every constant is a field of",
        "`harmonicalign.method.MethodConfig`. Changes are thousandths of the accuracy of 5-nearest-neighbour",
        f"labels across datasets (mean of the default {base[0]:.3f}, mixing {base[1]:.3f}), over "
        f"{len(options.tasks)} tasks",
        f"({', '.join(options.tasks)}) and {len(options.seeds)} seed(s); *worst*, *best*: single tasks.",
        "Where nothing is tried, the constant bounds cost or guards rounding.",
        "",
        "| constant | value | does | measured | tried | accuracy | worst | best | mixing |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for constant in wanted:
        about = f"| `{constant.name}` | {constant.value} | {constant.does} | {constant.measured} |"
        if not constant.tried:
            rows.append(f"{about} – | – | – | – | – |")
        for value in constant.tried:
            found = 1000 * changes(constant.name, value, options, done)
            mean = found.mean(axis=0)
            rows.append(
                f"{about} {value} | {mean[0]:+.1f} | {found[:, 0].min():+.0f} | {found[:, 0].max():+.0f} | "
                f"{mean[1]:+.1f} |"
            )
            about = "| | | | |"
    return "\n".join(rows) + "\n"


def read(path: Path) -> dict[Any, tuple[float, float]]:
    """Runs that are known from earlier calls."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {
            (r["constant"], r["value"], r["task"], r["seed"]): (float(r["accuracy"]), float(r["mixing"]))
            for r in csv.DictReader(file)
        }


def append(path: Path, key: tuple[str, str, str, str], found: tuple[float, float]) -> None:
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(FIELDS)
        writer.writerow([*key, *found])


if __name__ == "__main__":
    main()
