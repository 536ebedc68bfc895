"""Simulated single cells: kinds in other shares, kinds on one side only, batch effects of several sorts.

    python benchmarks/simulated.py
    python benchmarks/simulated.py --methods default        # after a change of the default
    python benchmarks/simulated.py --regimes "half shared" --methods none harmony default --seeds 4

Counts are drawn from gamma-Poisson distributions over kinds of cells, every second of which is a variety of
the one before it; two datasets differ in depth, in a factor per gene and in the shares of their kinds.
Printed are accuracy across datasets, accuracy over all rows together and mixing, as in `accuracy`, means over
seeds; they replace those of the same runs in ``results/designs.csv``. Where kinds are alike nothing reaches
1: compare within a line.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from accuracy import METHODS, measure, replace_designs
from tasks import Task, log_normalise, variable_columns

REGIMES: dict[str, dict[str, Any]] = {
    "plain": {},
    "strong batch effect": {"batch": 1.2},
    "batch effects by kind": {"by_kind": 0.35},
    "weak differences": {"fold": 0.5, "marked": 0.1},
    "shallow": {"depth": (1500, 400)},
    "other shares": {"evenness": 0.25},
    "half shared": {"shared": 11},
    "few shared": {"n_kinds": 18, "shared": 6},
    "one of three shared": {"n_kinds": 3, "shared": 1},
    "small": {"sizes": (200, 180), "n_kinds": 8},
    "unequal sizes": {"sizes": (4000, 300)},
    "40 kinds": {"sizes": (2500, 2500), "n_kinds": 40},
}


def simulate(
    seed: int,
    *,
    sizes: tuple[int, int] = (1500, 1200),
    n_kinds: int = 22,
    shared: int | None = None,
    n_genes: int = 2000,
    marked: float = 0.12,
    fold: float = 1.0,
    batch: float = 0.5,
    by_kind: float = 0.0,
    depth: tuple[float, float] = (4000, 2500),
    evenness: float = 1.0,
) -> Task:
    """Two datasets of log-normalised counts, their 1000 most variable genes, and the kinds of their cells.

    Parameters
    ----------
    seed
        Seed.
    sizes
        Cells of each dataset.
    n_kinds, shared
        Kinds of cells, and how many of them both datasets have (None: all); the others are in one each.
    n_genes
        Genes.
    marked, fold
        Share of the genes that tell a kind, and the standard deviation of their logarithmic fold change.
    batch, by_kind
        Standard deviation of the second dataset's logarithmic factor per gene, and of one per gene and kind.
    depth
        Mean counts per cell of each dataset.
    evenness
        Parameter of the Dirichlet distribution of the kinds' shares: the smaller, the more uneven.
    """
    rng = np.random.default_rng(seed)
    base = rng.lognormal(0, 1.2, n_genes)
    change = np.where(rng.random((n_kinds, n_genes)) < marked, rng.normal(0, fold, (n_kinds, n_genes)), 0)
    for variety in range(1, n_kinds, 2):
        change[variety] = 0.8 * change[variety - 1] + 0.4 * change[variety]
    order = rng.permutation(n_kinds)
    both, rest = (order, order[:0]) if shared is None else (order[:shared], order[shared:])
    datasets, labels = [], []
    for i, (size, kinds) in enumerate(zip(sizes, (rest[::2], rest[1::2]), strict=True)):
        kinds = np.concatenate([both, kinds])
        shares = np.maximum(rng.dirichlet(np.full(len(kinds), evenness)), 0.01)
        kind = kinds[rng.choice(len(kinds), size, p=shares / shares.sum())]
        effect = rng.normal(0, batch, n_genes) + rng.normal(0, by_kind, (n_kinds, n_genes))
        rate = base * np.exp(change[kind] + i * effect[kind])
        rate *= depth[i] * rng.lognormal(0, 0.4, (size, 1)) / rate.sum(axis=1, keepdims=True)
        counts = rng.poisson(rate * rng.gamma(1 / 0.3, 0.3, rate.shape))
        datasets.append(log_normalise(sp.csr_matrix(counts, dtype=np.float64)))
        labels.append(kind)
    columns = variable_columns(datasets, 1000)
    return Task(f"simulated {seed}", [x[:, columns] for x in datasets], labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regimes", nargs="+", default=list(REGIMES), choices=list(REGIMES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--csv", type=Path, default=Path(__file__).parent / "results" / "designs.csv")
    options = parser.parse_args()
    kept: list[dict[str, Any]] = []
    print(f"{'':<24}" + "".join(f"{name:>18}" for name in options.methods) + "   (accuracy/all rows/mixing)")
    means: dict[str, list[np.ndarray]] = {name: [] for name in options.methods}
    for regime in options.regimes:
        line = f"{regime:<24}"
        for name in options.methods:
            found = []
            for seed in range(options.seeds):
                try:
                    row = measure(simulate(seed, **REGIMES[regime]), name)
                except ImportError as error:
                    print(f"{name}: {error}", file=sys.stderr)
                    break
                found.append([row["accuracy"], row["joint"], row["mixing"]])
            if found:
                means[name].append(np.mean(found, axis=0))
                mean = dict(zip(("accuracy", "joint", "mixing"), means[name][-1].tolist(), strict=True))
                kept.append({"table": "simulated", "design": regime, "method": name, "data": "all"} | mean)
            line += _triple(found)
        print(line, flush=True)
    print(f"{'mean':<24}" + "".join(_triple(found) for found in means.values()))
    replace_designs(options.csv, kept)


def _triple(found: list[Any]) -> str:
    if not found:
        return f"{'-':>18}"
    return f"{'/'.join(f'{value:.2f}' for value in np.mean(found, axis=0)):>18}"


if __name__ == "__main__":
    main()
