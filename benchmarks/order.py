"""Do mixtures keep their order? ``python benchmarks/order.py``.

RNA of three cell lines mixed in seven known proportions, by two protocols. A regression (5 nearest
neighbours, or ridge) learns the proportions from the embedded rows of one dataset and predicts them for the
other. The figure is the rank correlation of predicted and known proportions, the mean over lines and
directions, beside that of each dataset alone (principal components, ten-fold cross-validation).
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import tasks
from null import components
from scipy.stats import spearmanr
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsRegressor

from harmonicalign import HarmonicAlignment
from harmonicalign.experiments import baselines

LINES = ("H2228", "H1975", "HCC827")
REGRESSIONS = {"5-NN": lambda: KNeighborsRegressor(5), "ridge": lambda: RidgeCV(np.logspace(-2, 4, 13))}


def order(predicted: np.ndarray, known: np.ndarray) -> float:
    """Mean rank correlation over the lines."""
    return float(np.mean([spearmanr(a, b).statistic for a, b in zip(predicted.T, known.T, strict=True)]))


def embedded(datasets: list[Any], method: str) -> list[np.ndarray]:
    """Coordinates by a method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == "default":
            return HarmonicAlignment(random_state=0).fit(datasets).embedding_
        return baselines.get(method).fit_transform(datasets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=["none", "mnn", "harmony", "default"])
    options = parser.parse_args()
    if "mixtures" not in tasks.names():
        parser.exit(message=f"skipped: the mixtures are not in {tasks.data_dir()}\n")
    stored = tasks.read(tasks.data_dir() / "sc_mixology" / "rnamix.npz")
    known = [np.c_[*(stored[f"{line}_prop_{name}"] for line in LINES)] for name in ("celseq2", "sortseq")]
    datasets = tasks.make("mixtures").datasets
    placed = {method: embedded(datasets, method) for method in options.methods}
    for name, regression in REGRESSIONS.items():
        alone = [
            order(cross_val_predict(regression(), components(x), p, cv=10), p)
            for x, p in zip(datasets, known, strict=True)
        ]
        print(f"{name}: alone {alone[0]:.3f}, {alone[1]:.3f}")
        for method, z in placed.items():
            found = [order(regression().fit(z[i], known[i]).predict(z[1 - i]), known[1 - i]) for i in (0, 1)]
            share = np.mean(found) / max(alone)
            print(f"  {method:<10}{found[0]:.3f} {found[1]:.3f}, {share:.3f} of the better dataset alone")


if __name__ == "__main__":
    main()
