"""How the default fares where datasets differ in ways that the suite of real tasks does not hold.

    python benchmarks/regimes.py
    python benchmarks/regimes.py --methods default          # after a change of the default
    python benchmarks/regimes.py --data iris circles --regimes shift missing --methods none default

Data that come with scikit-learn are parted in two, and the second half is changed: moved, rescaled, made
noisier, robbed of classes, and so on. Printed are accuracy and mixing as in `accuracy`, means over seeds;
they replace those of the same runs in ``results/designs.csv``, from which `publish` makes a table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from accuracy import measure, replace_designs
from sklearn import datasets
from tasks import Task, random_orthogonal

Array = np.ndarray
Half = tuple[Array, Array]
"""Rows and their labels."""

MOST_ROWS = 1600


def _standardised(load: Callable[..., Half]) -> Half:
    x, labels = load(return_X_y=True)
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1), labels


def _swiss_roll() -> Half:
    x, along = datasets.make_swiss_roll(1000, random_state=0)
    return x, np.argsort(np.argsort(along)) * 20 // 1000


DATA: dict[str, Callable[[], Half]] = {
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "cancer": lambda: _standardised(datasets.load_breast_cancer),
    "wine": lambda: _standardised(datasets.load_wine),
    "iris": lambda: _standardised(datasets.load_iris),
    "swiss_roll": _swiss_roll,
    "moons": lambda: datasets.make_moons(800, noise=0.1, random_state=0),
    "circles": lambda: datasets.make_circles(800, noise=0.05, factor=0.5, random_state=0),
}


def moved(x: Half, y: Half, rng: np.random.RandomState, by: float = 0.5) -> tuple[Half, Half]:
    """An offset of every column, in standard deviations."""
    return x, (y[0] + by * x[0].std(axis=0) * rng.standard_normal(x[0].shape[1]), y[1])


def shift(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """A larger one."""
    return moved(x, y, rng, 1.0)


def same(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """Nothing to align."""
    return x, y


def scale(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """Every column in a unit of its own."""
    return x, (y[0] * np.exp(0.5 * rng.standard_normal(y[0].shape[1])), y[1])


def noise(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """One side is noisier."""
    return x, (y[0] + 0.7 * x[0].std(axis=0) * rng.standard_normal(y[0].shape), y[1])


def dropout(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """Two fifths of one side's values are lost."""
    return x, (y[0] * (rng.uniform(size=y[0].shape) > 0.4), y[1])


def monotone(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """One side's values on another, increasing scale: their square roots."""
    least = np.minimum(x[0].min(axis=0), y[0].min(axis=0))
    return x, (np.sqrt(y[0] - least) * np.sqrt(x[0].std(axis=0)), y[1])


def missing(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """A quarter of the classes is in one dataset only, and another in the other; of few classes one."""
    classes = rng.permutation(np.unique(x[1]))
    few = len(classes) // 4
    gone_x, gone_y = (classes[:few], classes[-few:]) if few else (classes[:0], classes[:1])
    kept_x, kept_y = ~np.isin(x[1], gone_x), ~np.isin(y[1], gone_y)
    return moved((x[0][kept_x], x[1][kept_x]), (y[0][kept_y], y[1][kept_y]), rng)


def unequal(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """Classes in other shares."""
    classes, codes = np.unique(y[1], return_inverse=True)
    shares = rng.dirichlet(np.full(len(classes), 0.7))
    kept = rng.uniform(size=len(codes)) < (shares / shares.max())[codes]
    return moved(x, (y[0][kept], y[1][kept]), rng)


def uneven(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """One dataset has a sixth of the other's rows."""
    return moved((x[0][::6], x[1][::6]), y, rng)


def classwise(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """Every class is moved by an offset of its own."""
    codes = np.unique(y[1], return_inverse=True)[1]
    each = 0.5 * x[0].std(axis=0) * rng.standard_normal((codes.max() + 1, x[0].shape[1]))
    return moved(x, (y[0] + each[codes], y[1]), rng)


def rotated(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """Half of the columns are mixed."""
    mixed = rng.permutation(x[0].shape[1])[: x[0].shape[1] // 2]
    turned = y[0].copy()
    turned[:, mixed] = y[0][:, mixed] @ random_orthogonal(
        len(mixed), np.random.default_rng(rng.randint(2**31))
    )
    return x, (turned, y[1])


def junk(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """As many columns of noise again."""
    spread = x[0].std(axis=0).mean()
    wide = [np.hstack([half[0], spread * rng.standard_normal(half[0].shape)]) for half in (x, y)]
    return moved((wide[0], x[1]), (wide[1], y[1]), rng)


def small(x: Half, y: Half, rng: np.random.RandomState) -> tuple[Half, Half]:
    """Sixty rows each."""
    return moved((x[0][:60], x[1][:60]), (y[0][:60], y[1][:60]), rng)


_ALL = (
    same, moved, shift, scale, noise, dropout, monotone, missing, unequal, uneven, classwise, rotated, junk,
    small,
)  # fmt: skip
REGIMES = {regime.__name__: regime for regime in _ALL}


def make(data: str, regime: str, seed: int) -> Task:
    """One task: a random half of the data against the other half, changed."""
    rows, labels = DATA[data]()
    rng = np.random.RandomState(seed)
    order = rng.permutation(len(rows))[:MOST_ROWS]
    halves = [(rows[part], labels[part]) for part in np.array_split(order, 2)]
    x, y = REGIMES[regime](*halves, rng)
    return Task(f"{data}_{regime}", [x[0], y[0]], [x[1], y[1]], notes=REGIMES[regime].__doc__ or "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--regimes", nargs="+", choices=REGIMES, default=list(REGIMES))
    parser.add_argument("--methods", nargs="+", default=["none", "mnn", "harmony", "default"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--csv", type=Path, default=Path(__file__).parent / "results" / "designs.csv")
    options = parser.parse_args()
    kept: list[dict[str, Any]] = []
    print(f"{'':<24}" + "".join(f"{name:>14}" for name in options.methods) + "   (accuracy/mixing)")
    means: dict[str, list[list[float]]] = {}
    for regime in options.regimes:
        for data in options.data:
            scores = []
            for method in options.methods:
                try:
                    found = [measure(make(data, regime, seed), method) for seed in range(options.seeds)]
                except (ImportError, ValueError) as error:
                    print(f"{method} on {data}, {regime}: {error}", file=sys.stderr)
                    scores.append((np.nan, np.nan))
                    continue
                mean = {
                    key: float(np.mean([r[key] for r in found])) for key in ("accuracy", "joint", "mixing")
                }
                kept.append({"table": "regimes", "design": regime, "method": method, "data": data} | mean)
                scores.append((mean["accuracy"], mean["mixing"]))
            means.setdefault(regime, []).append([accuracy for accuracy, _ in scores])
            shown = "".join(f"{accuracy:>9.3f}/{mixing:.2f}" for accuracy, mixing in scores)
            print(f"{regime + ' ' + data:<24}{shown}", flush=True)
    print()
    for regime, rows in means.items():
        # Over the data that all methods took.
        complete = [row for row in rows if np.isfinite(row).all()]
        if complete:
            shown = "".join(f"{value:>9.3f}     " for value in np.mean(complete, axis=0))
            print(f"{regime + ', mean':<24}{shown}")
    replace_designs(options.csv, kept)


if __name__ == "__main__":
    main()
