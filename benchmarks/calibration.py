"""Null calibration: how often the evidence claims what is not there, and what it finds where something is.

    python benchmarks/calibration.py p --jobs 16          # p-values on designs without correspondence
    python benchmarks/calibration.py features             # false discoveries among features
    python benchmarks/calibration.py kept                 # true features found in real tasks, before and now
    python benchmarks/calibration.py overlap              # warnings of pairs without a common class
    python benchmarks/calibration.py p --fits 50 --designs gaussian heavy

The designs are made here, with known truth; real tasks are read as `tasks` says and left out if absent. `p`
runs the permutation test on the graphs that a fit would build, without the alignment itself, which the test
does not use, and writes ``results/calibration.csv``; the others fit. 334 fits of each of the six designs on
which promises are made are 2,000; with the other designs they take some 20 minutes of one core.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import tasks

from harmonicalign import HarmonicAlignment, calibrate, harmonics, kernel_graph
from harmonicalign.evidence.relations import relate
from harmonicalign.evidence.significance import Significance, permutation_test
from harmonicalign.method import DEFAULT
from harmonicalign.paper.harmonics import Harmonics

Matrix = np.ndarray
LEVELS = (0.05, 0.01, 0.001)
RESULTS = Path(__file__).parent / "results"
KEPT = (
    "mnist_p10",
    "mnist_p15",
    "mnist_p35",
    "pbmc_3pv1_3pv2_rotated",
    "pbmc_3pv2_5p_rotated",
    "cytometry_p1_baseline_rotated",
    "cytometry_p2_3month_rotated",
)
"""Tasks in which it is known which columns correspond."""


@dataclass(frozen=True)
class Drawn:
    """Two datasets, and which of their columns correspond."""

    x: Matrix
    y: Matrix
    truth: np.ndarray


def gaussian(rng: np.random.RandomState) -> Drawn:
    """Independent noise of 5 to 50 columns."""
    n, m, d = _sizes(rng, 5, 50)
    return _nothing(rng.randn(n, d), rng.randn(m, d))


def skewed(rng: np.random.RandomState) -> Drawn:
    """Skewed factors behind skewed columns, all of which have changed places in the second dataset."""
    return _exchanged(rng, 1.0)


def skewed_half(rng: np.random.RandomState) -> Drawn:
    """The same, of which half have changed places and half correspond."""
    return _exchanged(rng, 0.5)


def factors(rng: np.random.RandomState) -> Drawn:
    """A few factors and noise, with loadings that have nothing to do with each other."""
    n, m, d = _sizes(rng, 10, 50)
    k, noise = rng.randint(2, 8), rng.uniform(0.1, 1)
    return _nothing(*(rng.randn(a, k) @ rng.randn(k, d) + noise * rng.randn(a, d) for a in (n, m)))


def clusters(rng: np.random.RandomState) -> Drawn:
    """Clusters of unequal size around unrelated centres."""
    n, m, d = _sizes(rng, 5, 50)
    k, noise = rng.randint(3, 9), rng.uniform(0.2, 1)
    share = rng.dirichlet(np.full(k, 2.0))
    return _nothing(*(rng.randn(k, d)[rng.choice(k, a, p=share)] + noise * rng.randn(a, d) for a in (n, m)))


def heavy(rng: np.random.RandomState) -> Drawn:
    """Columns and rows of heavy tails: two degrees of freedom, and log-normal scales of columns."""
    n, m, d = _sizes(rng, 5, 50)
    return _nothing(
        *(rng.standard_t(2, (a, d)) * np.exp(0.5 * rng.randn(a, 1) + rng.randn(d)) for a in (n, m))
    )


def scaled(rng: np.random.RandomState, of: Callable[[np.random.RandomState], Drawn] = gaussian) -> Drawn:
    """Another design with columns of unequal scales, the same in both datasets: not exchangeable."""
    drawn = of(rng)
    scale = np.exp(rng.randn(drawn.x.shape[1]))
    return Drawn(drawn.x * scale, drawn.y * scale, drawn.truth)


def common(rng: np.random.RandomState) -> Drawn:
    """One factor that raises all columns, by different amounts, and noise; as sequencing depth does."""
    n, m, d = _sizes(rng, 10, 50)
    noise = rng.uniform(0.3, 1)
    return _nothing(*(rng.randn(a, 1) * rng.uniform(0, 1, d) + noise * rng.randn(a, d) for a in (n, m)))


def spectra(rng: np.random.RandomState) -> Drawn:
    """Unrelated smooth curves: neighbouring columns are alike in both datasets, and nothing else is."""
    n, m, d = _sizes(rng, 20, 50)
    width, k = rng.uniform(1, 4), rng.randint(3, 9)
    near = np.exp(-0.5 * (np.subtract.outer(np.arange(d), np.arange(d)) / width) ** 2)
    return _nothing(*(rng.randn(a, k) @ rng.randn(k, d) @ near + 0.3 * rng.randn(a, d) for a in (n, m)))


def autocorrelated(rng: np.random.RandomState) -> Drawn:
    """Columns that change slowly down the rows, as in time series."""
    n, m, d = _sizes(rng, 5, 50)
    keep = rng.uniform(0.8, 0.99)

    def walk(a: int) -> Matrix:
        steps, out = rng.randn(a, d), np.zeros((a, d))
        for i in range(1, a):
            out[i] = keep * out[i - 1] + steps[i]
        return out

    return _nothing(walk(n), walk(m))


NULLS: dict[str, Callable[[np.random.RandomState], Drawn]] = {
    "gaussian": gaussian,
    "skewed": skewed,
    "factors": factors,
    "clusters": clusters,
    "heavy": heavy,
    "autocorrelated": autocorrelated,
}
"""Designs without any correspondence, on which the promises are made."""

SCALED: dict[str, Callable[[np.random.RandomState], Drawn]] = {
    "scaled": scaled,
    "scaled clusters": partial(scaled, of=clusters),
    "scaled factors": partial(scaled, of=factors),
    "common factor": common,
    "scaled common": partial(scaled, of=common),
    "spectra": spectra,
}
"""Designs in which columns cannot change places: scales, a common factor or neighbours tell them apart."""

DESIGNS = {**NULLS, **SCALED, "skewed half": skewed_half}


def _sizes(rng: np.random.RandomState, least: int, most: int) -> tuple[int, int, int]:
    return rng.randint(150, 301), rng.randint(150, 301), rng.randint(least, most + 1)


def _nothing(x: Matrix, y: Matrix) -> Drawn:
    return Drawn(x, y, np.zeros(x.shape[1], dtype=bool))


def _exchanged(rng: np.random.RandomState, share: float) -> Drawn:
    n, m, d = _sizes(rng, 10, 50)
    loadings, noise = rng.randn(4, d), rng.uniform(0.2, 0.6)
    x, y = (np.exp(0.7 * rng.randn(a, 4)) @ loadings + noise * rng.randn(a, d) for a in (n, m))
    moved = rng.permutation(d)[: max(2, round(share * d))]
    y[:, moved] = y[:, np.roll(moved, 1)]
    truth = np.ones(d, dtype=bool)
    truth[moved] = False
    return Drawn(x, y, truth)


# --------------------------------------------------------------------------------------------------------
# measures


def described(rows: Matrix) -> Harmonics:
    """Harmonics as a fit makes them."""
    n = len(rows)
    least, most = DEFAULT.neighbour_bounds
    near = int(np.clip(round(n**0.5 / DEFAULT.neighbour_root), least, most))
    graph = kernel_graph(
        rows,
        n_neighbors=min(near, n - 1),
        anisotropy=DEFAULT.anisotropy,
        max_neighbors=DEFAULT.kernel_neighbours,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # clusters fall apart, as they may
        return harmonics(graph, min(DEFAULT.n_harmonics, max(2, n // DEFAULT.rows_per_harmonic)))


def tested(drawn: Drawn) -> Significance:
    """The permutation test of a pair."""
    found = [described(rows) for rows in (drawn.x, drawn.y)]
    k = min(h.k for h in found)
    hx, hy = calibrate([h.truncate(k) for h in found])
    spectral = [h.gft(rows - rows.mean(axis=0)) for h, rows in ((hx, drawn.x), (hy, drawn.y))]
    return permutation_test(hx, hy, *spectral, relations=relate(drawn.x, drawn.y))


def p_value(of: tuple[str, int]) -> float:
    """Result of one fit: a design and a seed."""
    name, seed = of
    return tested(DESIGNS[name](np.random.RandomState(seed))).p


def p_values(designs: Sequence[str], n_fits: int, jobs: int, out: Path) -> None:
    """Share of p below each level, by design and over all that make a promise; their counts as a CSV."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # of the processes that are started
    print(f"{'design':<16}{'fits':>6}" + "".join(f"{f'p < {level}':>12}" for level in LEVELS))
    promised: list[float] = []
    rows = []
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        # All are handed over at once, so that no process waits for the last fits of a design.
        running = {d: pool.map(p_value, [(d, s) for s in range(n_fits)], chunksize=4) for d in designs}
        for name in designs:
            found = list(running[name])
            below = [sum(p < level for p in found) for level in LEVELS]
            rows.append([name, int(name in NULLS), n_fits, *below])
            promised += found if name in NULLS else []
            print(_shares(name, found), flush=True)
    if promised:
        print(_shares("all promised", promised))
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["design", "promised", "fits", *(f"below_{level}" for level in LEVELS)])
        writer.writerows(rows)


def _shares(name: str, found: Sequence[float]) -> str:
    p = np.asarray(found)
    return f"{name:<16}{len(p):>6}" + "".join(f"{np.mean(p < level):>12.2%}" for level in LEVELS)


def features(designs: Sequence[str], n_fits: int) -> None:
    """False discoveries among selected features, weights of false ones, and share of true ones found."""
    print(f"{'design':<16}{'fits':>6}{'false':>10}{'± s.e.':>10}{'weight':>10}{'found':>10}")
    for name in designs:
        false, weight, kept = [], [], []
        for seed in range(n_fits):
            drawn = DESIGNS[name](np.random.RandomState(seed))
            model = fitted([drawn.x, drawn.y])
            chosen, truth = model.feature_selected_, drawn.truth
            false.append((chosen & ~truth).sum() / max(1, chosen.sum()))
            weight.append(model.feature_weights_[~truth].mean())
            kept.append(chosen[truth].mean() if truth.any() else np.nan)
        error = np.std(false) / np.sqrt(n_fits)
        share = np.nanmean(kept) if np.isfinite(kept).any() else np.nan
        print(
            f"{name:<16}{n_fits:>6}{np.mean(false):>10.1%}{error:>10.1%}{np.mean(weight):>10.3f}{share:>10.1%}",
            flush=True,
        )


def kept(names: Sequence[str]) -> None:
    """True and false features selected in real tasks, and the test's p."""
    print(f"{'task':<32}{'p':>10}{'true':>6}{'of':>6}{'false':>7}")
    for name in names:
        if name not in tasks.names():
            print(f"{name:<32} skipped: its file is not in {tasks.data_dir()}", file=sys.stderr)
            continue
        task = tasks.make(name)
        assert task.truth is not None
        model, truth = fitted(task.datasets[:2]), task.truth
        chosen, p = model.feature_selected_, model.significance_.p
        counts = (chosen & truth).sum(), truth.sum(), (chosen & ~truth).sum()
        print(f"{name:<32}{p:>10.1g}{counts[0]:>6}{counts[1]:>6}{counts[2]:>7}", flush=True)


def overlap(families: Sequence[str]) -> None:
    """Share of pairs that are warned of: without a common class, which is wanted, and with one."""
    heads = ("none: warned", "(of them p)", "shared: different", "shared: a part")
    print(f"{'family':<16}" + "".join(f"{head:>20}" for head in heads))
    for family in families:
        counts = np.zeros((2, 4), dtype=int)  # with and without a common class: pairs and what is said
        for name, x, y, apart in FAMILIES[family]():
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                HarmonicAlignment(random_state=0).fit([x, y])
            text = " ".join(str(w.message) for w in said)
            chance, different = "better than chance" in text, "look like different things" in text
            part = "only a part of" in text
            # Where classes are shared, only the claim about classes is false; small pairs may well be chance.
            counts[int(apart)] += [1, different or (apart and (chance or part)), chance, part]
            words = "chance " * chance + "different " * different + "part" * part
            print(f"  {name:<60}{words}", file=sys.stderr, flush=True)
        (n, false, _, part), (m, right, chance, _) = counts
        cells = (f"{right} of {m}", str(chance), f"{false} of {n}", f"{part} of {n}")
        print(f"{family:<16}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


Couple = tuple[str, Matrix, Matrix, bool]
"""Name, two datasets, and whether they have no class in common."""


def _couple(name: str, task: tasks.Task, of: tuple[Any, Any], rng: np.random.RandomState, n: int) -> Couple:
    """At most n random rows of the given classes of both datasets."""
    parts = []
    for x, y, classes in zip(task.datasets, task.labels, of, strict=False):
        parts.append(x[rng.permutation(np.flatnonzero(np.isin(y, list(classes))))[:n]])
    return name, parts[0], parts[1], not set(of[0]) & set(of[1])


def _digits() -> Iterator[Couple]:
    for p, seed in product((100, 50, 35), range(5)):
        task, rng = tasks.mnist(p, seed=seed), np.random.RandomState(seed)
        o = rng.permutation(10)
        splits = {"none of 10": (o[:5], o[5:]), "none of 6": (o[:3], o[3:6]), "half": (o[:6], o[3:9])}
        splits |= {"8 of 10": (o[:9], o[1:]), "all": (o, o)}
        for name, of in splits.items():
            if (name == "none of 6" and seed > 2) or (name == "all" and seed > 1):
                continue
            yield _couple(f"{p} % {seed} {name}", task, of, rng, 450)


def _blood() -> Iterator[Couple]:
    t, b, nk, m = ["T_CD4", "T_CD8"], ["B"], ["NK"], ["DC", "Mono_CD14", "Mono_CD16"]
    for pair in ("3pv1_3pv2", "3pv1_5p", "3pv2_5p"):
        task, rng = tasks.make(f"pbmc_{pair}"), np.random.RandomState(0)
        every = np.unique(task.labels[0]).tolist()
        splits = [(t, m), (m, t), (t, b + m), (b + m, t), (t + nk + b, m), (t, b), (t, nk + b)]
        splits += [(every, every), (t + b, t + m), (t + m, b + m), (nk + b + m, nk + m + t)]
        splits += [([c for c in every if c not in m], every), (t, t), (m, m)]
        splits += [(every, [c for c in every if c not in b])]
        for of in splits:
            yield _couple(f"{pair} {' '.join(map('+'.join, of))}"[:60], task, of, rng, 2000)


def _lines() -> Iterator[Couple]:
    task, rng = tasks.make("cell_lines"), np.random.RandomState(0)
    every = np.unique(task.labels[0]).tolist()
    for one in every:
        a, b = (c for c in every if c != one)
        splits = [([one], [a, b]), ([a, b], [one]), ([one], [a]), ([one], [one])]
        for of in [*splits, ([one, a], [one, b]), ([a, b], every)]:
            yield _couple(" ".join(map("+".join, of)), task, of, rng, 2000)
    yield _couple("all", task, (every, every), rng, 2000)


def _islets() -> Iterator[Couple]:
    task, rng = tasks.make("pancreas"), np.random.RandomState(1)
    left, right = (np.unique(y) for y in task.labels)
    both = np.intersect1d(left, right)
    only = [c for c in left if c not in both]
    for i in range(6):
        o = rng.permutation(both)
        yield _couple(f"none {i}", task, (list(o[:2]) + only * (i % 2), list(o[2:])), rng, 2000)
    for i in range(4):
        o = rng.permutation(both)
        yield _couple(f"one shared {i}", task, (o[:2], o[1:3]), rng, 2000)
    for name, of in {"all": (left, right), "lacks": (o[1:], right), "more": (left, o[1:])}.items():
        yield _couple(name, task, of, rng, 2000)


def _few_islets() -> Iterator[Couple]:
    """All types against one or two of those that both datasets have, and the types of the first alone."""
    task, rng = tasks.make("pancreas"), np.random.RandomState(0)
    left, right = (np.unique(y) for y in task.labels)
    both = np.intersect1d(left, right).tolist()
    for kept in [*([one] for one in both), *(list(two) for two in combinations(both, 2))]:
        gone = [c for c in both if c not in kept]
        yield _couple(" ".join(kept), task, ([c for c in left if c not in gone], right), rng, 2000)


def _others() -> Iterator[Couple]:
    """Tasks whose datasets share classes, and that were used for nothing here."""
    for name in OTHERS:
        task, rng = tasks.make(name), np.random.RandomState(0)
        yield _couple(name, task, tuple(np.unique(y) for y in task.labels[:2]), rng, 700)


OTHERS = (
    *("cortex_300", "cortex_removed", "cytometry_p1_baseline_300", "cytometry_p2_3month", "mnist_usps"),
    *("pbmc_removed", "cell_lines_150", "pancreas_200", "pbmc_3pv2_5p_150", "mnist_p35_200x200", "mixtures"),
    *("mnist_p10", "mnist_p15", "mnist_p20", "pbmc_3pv1_3pv2_rotated", "pbmc_3pv2_5p_rotated"),
    *("cytometry_p1_baseline_rotated", "cell_lines_rotated"),
)
FAMILIES: dict[str, Callable[[], Iterator[Couple]]] = {
    "digits": _digits,
    "pbmc": _blood,
    "cell lines": _lines,
    "pancreas": _islets,
    "types missing": _few_islets,
    "other": _others,
}


def fitted(parts: Sequence[Matrix]) -> HarmonicAlignment:
    """A fit whose warnings are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return HarmonicAlignment(random_state=0).fit(list(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measure", choices=["p", "features", "kept", "overlap"])
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--tasks", nargs="+", default=list(KEPT))
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--fits", type=int, default=334, help="fits of every design")
    parser.add_argument("--jobs", type=int, default=1, help="processes for p")
    parser.add_argument("--out", type=Path, default=RESULTS / "calibration.csv", help="counts of p, a CSV")
    options = parser.parse_args()
    if options.fits < 1:
        parser.error("--fits must be at least 1")
    if options.measure == "kept":
        kept(options.tasks)
    elif options.measure == "overlap":
        overlap(options.families)
    elif options.measure == "features":
        features(options.designs, options.fits)
    else:
        designs = [name for name in options.designs if name in {**NULLS, **SCALED}]
        p_values(designs, options.fits, options.jobs, options.out)


if __name__ == "__main__":
    main()
