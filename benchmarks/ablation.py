"""What every constant of the default method is worth: one changed at a time, over tasks of several families.

    python benchmarks/ablation.py                               # all constants that have other values to try
    python benchmarks/ablation.py --only n_anchors apart        # some of them
    python benchmarks/ablation.py --tasks pancreas pbmc_all --seeds 0 1 2 --jobs 8
    python benchmarks/ablation.py --anew --table docs/ablation.md    # after a change of the default; the page

Nothing is patched: the configuration is replaced (`dataclasses.replace`). A change is that of the accuracy of
5-nearest-neighbour labels across datasets (`tasks.score`) against the default on the same task and seed;
changes of mixing are beside it. Runs are appended to a CSV and not repeated when the script starts again,
even if the code has changed since: ``--anew`` begins with an empty file. ``--minutes`` ends it early.

When all constants are known, each family of data is held out in turn: the constants are chosen on the others
(`chosen`), and its tasks are run with them.
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

import chosen
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
    parser.add_argument("--anew", action="store_true", help="forget the runs of the CSV")
    parser.add_argument("--table", type=Path, help="write the table as a Markdown page")
    parser.add_argument("--csv", type=Path, default=Path(__file__).parent / "results" / "ablation.csv")
    options = parser.parse_args()
    known = {c.name for c in constants(DEFAULT)}
    if unknown := set(options.only or ()) - known:
        parser.error(f"no constant is named {', '.join(sorted(unknown))}")
    wanted = [c for c in constants(DEFAULT) if not options.only or c.name in options.only]
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    if options.anew:
        options.csv.unlink(missing_ok=True)
    done = read(options.csv)
    run_all(list(variants(wanted)), options.tasks, options, done)
    complete = not options.only and all(
        (label, repr(value), t, str(s)) in done
        for label, value, _ in variants(wanted)
        for t in options.tasks
        for s in options.seeds
    )
    if complete:
        for family, members in held_out(options).items():
            run_all([without(family, options)], members, options, done)
    for label, value, _ in variants(wanted):
        if label and all(
            (label, repr(value), t, str(s)) in done for t in options.tasks for s in options.seeds
        ):
            print(line(label, value, options, done), flush=True)
    if options.table:
        options.table.write_text(page(wanted, options, done), encoding="utf-8")


Variant = tuple[str, Any, MethodConfig]


def run_all(
    wanted: list[Variant], names: list[str], options: argparse.Namespace, done: dict[Any, Any]
) -> None:
    """Every run that is not in the file yet, seed by seed."""
    start = time.monotonic()
    left = [
        ((label, repr(value), name, str(seed)), (name, config, seed))
        for seed in options.seeds
        for label, value, config in wanted
        for name in names
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


def held_out(options: argparse.Namespace) -> dict[str, list[str]]:
    """Families of the tasks, with their tasks."""
    found: dict[str, list[str]] = {}
    for name in options.tasks:
        found.setdefault(tasks.family(name), []).append(name)
    return found


def without(family: str, options: argparse.Namespace) -> Variant:
    """The default with its constants chosen on the tasks of the other families."""
    config, changed = chosen.without(family, options.csv)
    return f"without {family}", changed, config


def variants(wanted: list[Constant]) -> Iterator[Variant]:
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
        "Made by `python benchmarks/ablation.py --anew --table docs/ablation.md`; every constant is a field",
        "of `harmonicalign.method.MethodConfig`. Changes are thousandths of the accuracy of "
        "5-nearest-neighbour",
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
    return "\n".join([*rows, "", *left_out(options, done)]) + "\n"


def left_out(options: argparse.Namespace, done: dict[Any, Any]) -> list[str]:
    """The section on constants chosen without a family of data, if its tasks were run with them."""
    lines, sums = [], []
    for family, members in held_out(options).items():
        label, changed, _ = without(family, options)
        keys = [(task, str(seed)) for task in members for seed in options.seeds]
        if any((label, repr(changed), *key) not in done for key in keys):
            return []
        runs = [
            [done[name, value, *key][0] for key in keys]
            for name, value in (("", "None"), (label, repr(changed)))
        ]
        shown = ", ".join(f"`{name}` = {value}" for name, value in changed.items()) or "nothing"
        lines.append(f"| {family} | {shown} | {np.mean(runs[0]):.3f} | {np.mean(runs[1]):.3f} |")
        sums += list(zip(*runs, strict=True))
    ours, other = np.mean(sums, axis=0)
    return [
        "## Chosen without it",
        "",
        "Each family of data is held out in turn. On the tasks of all others every constant takes the tried",
        f"value that is best there, if it gains at least {chosen.LEAST_GAIN} of accuracy in the mean over",
        "families, one constant at a time; then the tasks of the family are run with all of these changes",
        "together (`benchmarks/ablation.py`). This says how much the values owe to the data they are",
        "reported on. The rules themselves were written with all families in sight, which no table can undo.",
        "",
        "| held out | would be changed | default | chosen without it |",
        "|---|---|---|---|",
        *lines,
        f"| all tasks | | {ours:.3f} | {other:.3f} |",
    ]


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
