"""Differences to keep: datasets that hold the levels of a covariate in different shares.

    python benchmarks/covariates.py                     # results/covariates.csv
    python benchmarks/covariates.py --tasks pbmc --seeds 1

Every task has a covariate that is confounded with the datasets: most rows of one dataset have one of its
levels and most rows of another dataset the other one. The alignment is fitted without and with
``covariates=``. *agreement* is the share of rows whose five nearest rows of the other datasets predict their
class and level; *mixing* is that of the datasets among rows of one class and level, 0 where they are apart
and 1 where they mix as at random; *rows* is how many rows of the smallest dataset the alignment was found on.
Figures are means over seeds.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from tasks import data_dir, read

from harmonicalign import HarmonicAlignment
from harmonicalign.datasets import load_digits_pair
from harmonicalign.metrics import mixing_entropy

Parts = tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]
"""Datasets, classes of their rows, and levels of their rows."""


def simulated(seed: int, shares: Sequence[float] = (0.9, 0.1), n: int = 400, n_genes: int = 200) -> Parts:
    """Five classes, an offset for every dataset, and an effect on the treated."""
    rng = np.random.default_rng(seed)
    classes = 1.5 * rng.normal(size=(5, n_genes)) * (rng.random((5, n_genes)) < 0.3)
    treatment = 1.5 * rng.normal(size=n_genes) * (rng.random(n_genes) < 0.2)
    x, kinds, levels = [], [], []
    for share in shares:
        kind, on = rng.choice(5, n), rng.random(n) < share
        offset = rng.normal(0, 0.7, n_genes)
        x.append(classes[kind] + on[:, None] * treatment + offset + rng.normal(size=(n, n_genes)))
        kinds.append(kind)
        levels.append(on)
    return x, kinds, levels


def pbmc(seed: int, shares: Sequence[float] = (0.9, 0.1, 0.5)) -> Parts:
    """Blood cells by three chemistries; a tenth of the genes is raised in cells drawn as treated."""
    data = read(data_dir() / "pbmc_symphony_3tech" / "pbmc_symphony.npz")
    rows, rng = data["X"].toarray(), np.random.default_rng(seed)
    effect = rng.random(rows.shape[1]) * (rng.random(rows.shape[1]) < 0.1)
    x, kinds, levels = [], [], []
    for share, chemistry in zip(shares, np.unique(data["donor"]), strict=True):
        own = rows[data["donor"] == chemistry]
        on = rng.random(len(own)) < share
        x.append(own + on[:, None] * effect * (rng.random(own.shape) < 0.7))
        kinds.append(data["cell_type_broad"][data["donor"] == chemistry])
        levels.append(on)
    return x, kinds, levels


def cytometry(seed: int, kept: float = 0.1) -> Parts:
    """Blood of two people on two days; of each person a tenth is kept on one of the days."""
    data = read(data_dir() / "cytof_shaham" / "cytof_shaham.npz")
    rng = np.random.default_rng(seed)
    x, kinds, levels = [], [], []
    for day, few in (("1", "2"), ("2", "1")):
        parts = []
        for person in "12":
            name = f"p{person}d{day}_baseline"
            own, kind = np.log1p(np.maximum(data[f"X_{name}"], 0)), data[f"y_{name}"]
            n = int(kept * len(own)) if person == few else len(own)
            rows = np.sort(rng.permutation(len(own))[:n])
            parts.append((own[rows], kind[rows], np.full(n, person)))
        for out, held in zip((x, kinds, levels), zip(*parts, strict=True), strict=True):
            out.append(np.concatenate(held))
    return x, kinds, levels


def digits(seed: int) -> Parts:
    """Two halves of the digits, 30 % of the pixels of one scrambled; few digits below five in one of them."""
    pair, rng = load_digits_pair(preserved=0.7, random_state=seed), np.random.default_rng(seed)
    x, kinds, levels = [], [], []
    for rows, kind, few in ((pair.x, pair.labels_x, True), (pair.y, pair.labels_y, False)):
        level = kind >= 5
        keep = (level != few) | (rng.random(len(kind)) < 0.1)
        x.append(rows[keep])
        kinds.append(kind[keep])
        levels.append(level[keep])
    return x, kinds, levels


TASKS: dict[str, Callable[[int], Parts]] = {
    "simulated, 90 and 10 % treated": simulated,
    "simulated, 2,000 rows each": lambda seed: simulated(seed, n=2000),
    "simulated, three datasets": lambda seed: simulated(seed, (0.9, 0.1, 0.5), 500),
    "simulated, controls beside 90 % treated": lambda seed: simulated(seed, (0.0, 0.9), 1000),
    "simulated, equal shares": lambda seed: simulated(seed, (0.5, 0.5)),
    "pbmc": pbmc,
    "cytometry": cytometry,
    "digits": digits,
}


def agreement(z: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> float:
    """Share of rows whose label is predicted, over labels that the other dataset has."""
    found = []
    for i, j in permutations(range(len(z)), 2):
        known = np.isin(labels[j], labels[i])
        told = KNeighborsClassifier(5).fit(z[i], labels[i]).predict(z[j][known])
        found.append(np.mean(told == labels[j][known]))
    return float(np.mean(found))


def measure(parts: Parts) -> dict[str, float]:
    """Figures of one draw of a task."""
    x, kinds, levels = parts
    labels = [
        np.char.add(np.char.add(k.astype(str), "/"), v.astype(str))
        for k, v in zip(kinds, levels, strict=True)
    ]
    out: dict[str, float] = {}
    for name, covariates in (("without", None), ("with", levels)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = HarmonicAlignment(random_state=0).fit(x, covariates=covariates)
        out[f"agreement_{name}"] = agreement(model.embedding_, labels)
        out[f"mixing_{name}"] = mixing_entropy(model.embedding_, 30, labels=labels)
    out["rows"] = min(len(rows) for rows in model.model_.landmarks)
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "covariates.csv")
    given = parser.parse_args(arguments)
    lines = []
    for task in given.tasks:
        found = [measure(TASKS[task](seed)) for seed in range(given.seeds)]
        lines.append({"task": task} | {k: round(statistics.mean(f[k] for f in found), 4) for k in found[0]})
        print(lines[-1], flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    sys.exit(main())
