"""How accurate could an alignment be? What a dataset's own labels tell of its rows.

    python benchmarks/accuracy.py            # writes results/accuracy.csv
    python benchmarks/ceiling.py             # every task of the suite, beside those figures

An alignment predicts rows of one dataset from labels of another. Here they are predicted from labels of
their own dataset, on the columns as they were measured, before any were mixed: by the 5 nearest other rows,
and by a support vector machine that is trained on nine tenths of them and predicts the last. No alignment
sees so much; it can pass these figures only by what it gains from the other dataset's rows.

The last lines give the mean lead of each over the most accurate *other* method of every task, chosen with
hindsight, over the tasks for which the CSV holds that method and the default. The figures are appended to the
CSV as the methods ``own_5-NN`` and ``own_SVM``.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import tasks
from accuracy import DEFAULT_TASKS, METHODS, record
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

N_COMPONENTS = 50


def as_measured(name: str) -> tasks.Task:
    """The task before columns were mixed."""
    return tasks.make("mnist_p100" if name.startswith("mnist_p") else name.removesuffix("_rotated"))


def ceiling(task: tasks.Task) -> dict[str, float]:
    """Accuracy from a dataset's own labels, over the rows and directions that `tasks.score` counts."""
    found: dict[str, list[float]] = {"own 5-NN": [], "own SVM": []}
    directions = task.directions or tuple((i, i) for i in range(len(task.datasets)))
    for source, target in directions:
        z, y = _components((task.common or task.datasets)[target]), np.asarray(task.labels[target])
        counted = np.isin(y, task.labels[source])
        predicted = {"own 5-NN": tasks.nearest_labels(z, y), "own SVM": _by_machine(z, y)}
        for name, labels in predicted.items():
            found[name].append(float(np.mean(labels[counted] == y[counted])))
    return {name: float(np.mean(values)) for name, values in found.items()}


def _components(x: Any) -> np.ndarray:
    n = min(N_COMPONENTS, min(x.shape) - 1)
    reduce = TruncatedSVD(n, random_state=0) if sp.issparse(x) else PCA(n, random_state=0)
    return np.asarray(reduce.fit_transform(x))


def _by_machine(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    if len(np.unique(y)) == 1:
        return y
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # classes of fewer than ten rows are in some folds only
        return np.asarray(cross_val_predict(SVC(C=10), z, y, cv=folds))


def measured(path: Path) -> dict[tuple[str, str], float]:
    """Accuracy by task and method; of several measurements the last."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {(row["task"], row["method"]): float(row["accuracy"]) for row in csv.DictReader(file)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=DEFAULT_TASKS)
    parser.add_argument("--csv", type=Path, default=Path(__file__).parent / "results" / "accuracy.csv")
    options = parser.parse_args()
    accuracy = measured(options.csv)
    known: dict[str, dict[str, float]] = {}
    leads = []
    print(f"{'task':<32}{'best other':>16}{'default':>12}{'own 5-NN':>12}{'own SVM':>12}")
    for name in options.tasks:
        source = as_measured(name)
        if source.name not in known:
            known[source.name] = ceiling(source)
        own = known[source.name]
        for label, value in own.items():
            record(options.csv, {"task": name, "method": label.replace(" ", "_"), "accuracy": value})
        others = {m: accuracy[name, m] for m in METHODS if m != "default" and (name, m) in accuracy}
        best = max(others.values(), default=np.nan)
        row = [accuracy.get((name, "default"), np.nan), *own.values()]
        leads.append([value - best for value in row])
        print(f"{name:<32}{best:>16.3f}" + "".join(f"{value:>12.3f}" for value in row), flush=True)
    complete = np.array(leads)[~np.isnan(leads).any(axis=1)]
    if len(complete):
        mean = complete.mean(axis=0)
        print(f"{f'mean lead, {len(complete)} tasks':<48}" + "".join(f"{value:>+12.3f}" for value in mean))


if __name__ == "__main__":
    main()
