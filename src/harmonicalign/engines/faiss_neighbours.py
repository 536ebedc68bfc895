"""Nearest neighbours on the CPU: all pairs while they are few, an inverted file of faiss beyond.

Up to some thousand rows products of matrices and `smallest` are two to three times as quick as faiss's search
of all pairs, most of which is heaps. Beyond, an inverted file looks at 2 % of the rows.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from harmonicalign._typing import Array
from harmonicalign.engines.devices import neighbours_on, search_device
from harmonicalign.engines.distances import in_single, measured_again
from harmonicalign.engines.products import both_by_products, nearest_by_products
from harmonicalign.engines.protocols import NeighbourEngine, Neighbours, check_k
from harmonicalign.engines.threads import in_threads, owned, row_slices

__all__ = ["FaissNeighbours", "nearest_both", "nearest_rows"]

logger = logging.getLogger("harmonicalign")

DEVICE_PAIRS = 1e6
"""Pairs of rows from which on a search goes to the device, if there is one; fewer take longer there.

A tuning constant of the engine, like the others here: it decides on time, and on results by rounding only.
`benchmarks/gpu.py` times fits whose landmarks are searched on the device and on the host.
"""

TABLE_PAIRS = 2**24
"""Pairs of rows up to which all distances are kept for searches in both directions: a bound on memory."""

_PROBED_QUERIES = 256
"""Queries that the recall of an inverted file is measured on."""

_PART_ROWS = 4096
"""Rows that a thread searches the lists for at a time."""

_ROUNDS, _SAMPLE = 4, 16
"""Rounds of k-means that find the lists, and rows for each list that they see."""


@dataclass(frozen=True)
class FaissNeighbours:
    """The k nearest rows, compared in single precision.

    Attributes
    ----------
    exact
        True computes the distances of the neighbours found again in float64, exactly 0 for equal
        rows; False leaves them at the search's single precision, which is much quicker.
    exact_pairs
        Up to this many pairs of rows are compared with each other; beyond, an inverted file is searched.
    few_rows
        Fewer rows than this are all compared, however many queries there are: lists of them would be too
        short.
    recall
        Share of the true neighbours that an inverted file is made to find.
    """

    exact: bool = True
    exact_pairs: float = 1e8
    few_rows: int = 1000
    recall: float = 0.96

    def __call__(self, x: Array, k: int, queries: Array | None = None) -> Neighbours:
        """The k rows of `x` nearest to each query; see `NeighbourEngine`."""
        check_k(k, len(x), queries is None)
        with owned():
            base, sought, scale = in_single(x, queries)
            squared, indices, recall = self._search(base, None if queries is None else sought, k)
            if self.exact:
                return measured_again(indices, x if queries is None else queries, x, recall)
            return Neighbours(indices, np.sqrt(squared, dtype=np.float64) * scale, recall)

    def _search(self, base: Array, sought: Array | None, k: int) -> tuple[Array, Array, float]:
        """Squared distances and numbers of the k nearest rows, in single precision, and the recall."""
        n_queries = len(base if sought is None else sought)
        if len(base) * n_queries <= self.exact_pairs or len(base) < self.few_rows:
            return *nearest_by_products(base, sought, k), 1.0
        if sought is not None:
            return _search_lists(base, sought, k, self.recall)
        # One more than asked for, because a row finds itself; equal rows may hide it, hence the mask.
        squared, found, recall = _search_lists(base, base, k + 1, self.recall)
        other = found != np.arange(len(base))[:, None]
        other[other.all(axis=1), -1] = False
        return squared[other].reshape(-1, k), found[other].reshape(-1, k), recall


def nearest_rows(x: Array, k: int, queries: Array | None = None, *, exact: bool = True) -> Neighbours:
    """The k nearest rows of `x` for each query row, nearest first, as `FaissNeighbours` finds them.

    Within `searching_on` a device, many pairs of rows that need single precision only are compared there.

    Parameters
    ----------
    x
        Rows to search, (n, d).
    k
        How many neighbours, at most n (n − 1 without `queries`).
    queries
        Rows to find neighbours of. By default the rows of `x` themselves, each without itself.
    exact
        Whether distances are computed again in float64.
    """
    engine: NeighbourEngine = FaissNeighbours(exact=exact)
    n_queries = len(x if queries is None else queries)
    if not exact and search_device() != "cpu" and len(x) * n_queries >= DEVICE_PAIRS:
        engine = neighbours_on(search_device()) or engine
    return engine(x, k, queries)


def nearest_both(x: Array, y: Array, k: int) -> tuple[Array, Array]:
    """Numbers of the k nearest rows of `y` for each row of `x`, and the reverse, nearest first.

    The two searches of `nearest_rows` in single precision, for half of the products while few enough rows are
    compared for all distances to be kept.

    Parameters
    ----------
    x, y
        Rows, (n, d) and (m, d).
    k
        How many neighbours, at most the smaller of n and m.
    """
    n_pairs = len(x) * len(y)
    if n_pairs > TABLE_PAIRS or (search_device() != "cpu" and n_pairs >= DEVICE_PAIRS):
        forward, backward = (nearest_rows(b, k, a, exact=False).indices for a, b in ((x, y), (y, x)))
        return forward, backward
    check_k(k, min(len(x), len(y)), False)
    with owned():
        of_y, of_x, _ = in_single(y, x)
        return both_by_products(of_x, of_y, k)


def _search_lists(base: Array, sought: Array, k: int, recall: float) -> tuple[Array, Array, float]:
    """The same from an inverted file, deep enough to find a share `recall` of the neighbours of a sample."""
    rng = np.random.RandomState(0)
    own = sought is base
    base, sought = _without_empty_directions(base, sought, rng)
    index, centres, lists = _inverted_file(base, rng)
    sample = sought[rng.randint(len(sought), size=_PROBED_QUERIES)]
    found_recall = _probe_deep_enough(index, base, sample, k, recall)
    logger.info(
        "neighbours: inverted file of %d lists, %d searched, recall %.3f",
        index.nlist,
        index.nprobe,
        found_recall,
    )
    # Queries of one list after each other scan the same lists, which are then still in the cache.
    order = np.argsort(lists if own else _nearest_centre(sought, centres), kind="stable")
    squared, found = np.empty((len(sought), k), np.float32), np.empty((len(sought), k), np.int64)

    def search(rows: slice) -> None:
        some = order[rows]
        squared[some], found[some] = index.search(sought[some], k)

    in_threads(search, row_slices(len(sought), 1, block_bytes=_PART_ROWS))
    short = np.flatnonzero(found[:, -1] < 0)
    if short.size:
        # Near the edge of the data the lists searched may hold fewer than k rows.
        squared[short], found[short] = nearest_by_products(base, sought[short], k)
    return np.maximum(squared, 0, out=squared), found, found_recall


def _inverted_file(base: Array, rng: np.random.RandomState) -> tuple[Any, Array, Array]:
    """The rows in lists around k-means centres, the centres, and the number of every row's list."""
    import faiss
    from faiss.contrib import ivf_tools

    tools: Any = ivf_tools  # not typed
    n_lists = int(max(2 * len(base) ** 0.5, len(base) / 200))
    centres = _means(base[rng.randint(len(base), size=min(len(base), _SAMPLE * n_lists))], n_lists)
    quantizer = faiss.IndexFlatL2(base.shape[1])
    quantizer.add(centres)
    index = faiss.IndexIVFFlat(quantizer, base.shape[1], n_lists)
    lists = _nearest_centre(base, centres)
    tools.add_preassigned(index, base, lists)
    return index, centres, lists


def _means(rows: Array, n_centres: int) -> Array:
    """Centres of clusters by a few rounds of k-means, which begins with the first rows.

    Faiss has it too; but here it runs in our threads, and its sums are the same whatever their number.
    """
    centres = rows[:n_centres].copy()
    for _ in range(_ROUNDS):
        nearest = _nearest_centre(rows, centres)
        order = np.argsort(nearest, kind="stable")
        there, starts, counts = np.unique(nearest[order], return_index=True, return_counts=True)
        centres[there] = np.add.reduceat(rows[order], starts, axis=0) / counts[:, None]
    return centres


def _nearest_centre(rows: Array, centres: Array) -> Array:
    """Number of the centre nearest to each row."""
    return nearest_by_products(centres, rows, 1)[1][:, 0]


def _without_empty_directions(base: Array, sought: Array, rng: np.random.RandomState) -> tuple[Array, Array]:
    """The same rows in fewer columns, where some directions hold nothing: distances stay as they are."""
    some = base[rng.randint(len(base), size=20_000)].astype(np.float64)
    some -= some.mean(axis=0)
    variances, axes = scipy.linalg.eigh(some.T @ some)
    kept = int((variances > 1e-7 * variances[-1]).sum())
    if kept == 0 or kept > 0.9 * base.shape[1]:
        return base, sought
    turn = np.ascontiguousarray(axes[:, -kept:], dtype=np.float32)
    turned = base @ turn
    return turned, turned if sought is base else sought @ turn


def _probe_deep_enough(index: Any, base: Array, sample: Array, k: int, wanted: float) -> float:
    """Set how many lists are searched so that a sample's recall is as wanted; return its recall.

    How deep that is depends on the data's dimension, so it is measured and not guessed.
    """
    reach = nearest_by_products(base, sample, k)[0][:, -1:]
    index.nprobe = 8
    while True:
        # Counted by distance: among equally near rows any will do.
        recall = float((index.search(sample, k)[0] <= reach * (1 + 1e-4) + 1e-12).mean())
        if recall >= wanted or index.nprobe >= index.nlist:
            return recall
        index.nprobe = min(index.nlist, int(1.15 * index.nprobe))
