"""Unsupervised domain adaptation: labels of a source, none of the target; ours beside methods of skada.

    pip install -e '.[adaptation]'             # skada and POT
    python benchmarks/adaptation.py            # writes results/adaptation.csv
    python benchmarks/adaptation.py --methods harmonicalign   # the others' rows stay as they are
    python benchmarks/publish.py               # the page of documentation

Both domains are seen without labels, as is usual in this field, and the target is scored whole. Every method
gives rows of both domains in one space, in which a 1-NN and a logistic regression learn from the source;
JDOT learns its own regression and has no such space. Nothing is tuned on the target; of subspace alignment,
whose dimension has no default, two are shown. Data are read as `tasks` says.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tasks
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from harmonicalign import HarmonicAlignment

CSV = Path(__file__).parent / "results" / "adaptation.csv"
OURS = "harmonicalign"

Pair = tuple[np.ndarray, np.ndarray]


def turned(task: tasks.Task) -> tasks.Task:
    """The task with source and target exchanged."""
    return replace(
        task,
        name=f"{task.name}_turned",
        datasets=task.datasets[::-1],
        labels=task.labels[::-1],
        directions=((0, 1),),
    )


TASKS: dict[str, Callable[[], tasks.Task]] = {
    "mnist_usps": lambda: tasks.make("mnist_usps"),
    "usps_mnist": lambda: tasks.make("usps_mnist"),
    "coil": lambda: tasks.make("coil"),
    "coil_turned": lambda: turned(tasks.make("coil")),
    "usps_mnist_rotated": lambda: tasks.make("usps_mnist_rotated"),
    "coil_rotated": lambda: tasks.make("coil_rotated"),
}
"""Source first. In the last two a part of the target's pixels is scrambled."""


# --------------------------------------------------------------------------------------------------------
# methods: source, its labels, target -> both in one space


def _none(x: np.ndarray, labels: np.ndarray, y: np.ndarray, seed: int) -> Pair:
    return x, y


def _ours(x: np.ndarray, labels: np.ndarray, y: np.ndarray, seed: int) -> Pair:
    zx, zy = HarmonicAlignment(random_state=seed).fit([x, y]).embedding_
    return zx, zy


def _skada(adapter: str, **parameters: Any) -> Callable[[np.ndarray, np.ndarray, np.ndarray, int], Pair]:
    def run(x: np.ndarray, labels: np.ndarray, y: np.ndarray, seed: int) -> Pair:
        skada = _package()
        domain = np.repeat([1, -2], [len(x), len(y)])
        masked = np.concatenate([labels, np.full(len(y), -1)])
        method = getattr(skada, adapter)(**parameters)
        adapted = method.fit_transform(np.vstack([x, y]), masked, sample_domain=domain)
        return adapted[: len(x)], adapted[len(x) :]

    return run


def _package() -> Any:
    try:
        import skada
    except ImportError as error:
        raise ImportError("this method needs skada: pip install 'harmonicalign[adaptation]'") from error
    return skada


def jdot(x: np.ndarray, y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels of the target by JDOT with a logistic regression."""
    method = _package().JDOTClassifier(LogisticRegression(max_iter=1000), n_iter_max=10)
    domain = np.repeat([1, -2], [len(x), len(y)])
    masked = np.concatenate([labels, np.full(len(y), -1)])
    method.fit(np.vstack([x, y]), masked, sample_domain=domain)
    return np.asarray(method.predict(y))


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray, int], Pair] | None] = {
    "none": _none,
    "coral": _skada("CORALAdapter"),
    "subspace_20": _skada("SubspaceAlignmentAdapter", n_components=20, random_state=0),
    "subspace_50": _skada("SubspaceAlignmentAdapter", n_components=50, random_state=0),
    "ot": _skada("OTMappingAdapter"),
    "jdot": None,  # no space of its own
    OURS: _ours,
}


def on_one_scale(source: np.ndarray, target: np.ndarray) -> Pair:
    """Both divided by one number, after which the source's columns vary by 1 on average.

    The penalty of a regression depends on the scale of its input, and the methods differ in theirs.
    """
    scale = np.sqrt(np.mean(np.var(source, axis=0)))
    return source / scale, target / scale


def measure(task: tasks.Task, method: str, seed: int = 0) -> dict[str, Any]:
    """Accuracy on the target by 1-NN and by logistic regression."""
    x, y = (np.asarray(d, dtype=np.float64) for d in task.datasets)
    classes, labels = np.unique(task.labels[0], return_inverse=True)
    truth = np.searchsorted(classes, task.labels[1])
    start = time.perf_counter()
    run = METHODS[method]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if run is None:
            predicted = {"one_nn": None, "linear": jdot(*on_one_scale(x, y), labels)}
            seconds = time.perf_counter() - start
        else:
            zx, zy = run(x, labels, y, seed)
            seconds = time.perf_counter() - start
            zx, zy = on_one_scale(zx, zy)
            learners = {
                "one_nn": KNeighborsClassifier(1),
                "linear": LogisticRegression(max_iter=1000),
            }
            predicted = {name: learner.fit(zx, labels).predict(zy) for name, learner in learners.items()}
    scores = {k: "" if p is None else float(np.mean(p == truth)) for k, p in predicted.items()}
    return {"task": task.name, "method": method, "seed": seed, "seconds": seconds, **scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--csv", type=Path, default=CSV)
    options = parser.parse_args()
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    print(f"{'task':<22}" + "".join(f"{m:>16}" for m in options.methods) + "   (1-NN/linear)")
    for name in options.tasks:
        task = replace(TASKS[name](), name=name)
        line = f"{name:<22}"
        for method in options.methods:
            try:
                rows.append(measure(task, method))
            except ImportError as error:
                print(f"{method} on {name}: {error}", file=sys.stderr)
                line += f"{'-':>16}"
                continue
            nearest, linear = rows[-1]["one_nn"], rows[-1]["linear"]
            shown = f"{nearest:.3f}" if nearest != "" else "-"
            line += f"{f'{shown}/{linear:.3f}':>16}"
        print(line, flush=True)
    if rows:
        write(options.csv, rows)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Put rows in the place of those of the same task and method; others stay as they are."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    if path.exists():
        with path.open(newline="") as file:
            found = {(r["task"], r["method"]): dict(r) for r in csv.DictReader(file)}
    for row in rows:
        shown = {k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()}
        found[row["task"], row["method"]] = shown
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(found.values())


if __name__ == "__main__":
    main()
