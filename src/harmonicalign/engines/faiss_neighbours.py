"""Nearest neighbours on the CPU by faiss: all pairs while they are few, an inverted file beyond."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from harmonicalign._typing import Array
from harmonicalign.engines.distances import in_single, measured_again
from harmonicalign.engines.protocols import Neighbours, check_k
from harmonicalign.engines.threads import row_slices

__all__ = ["FaissNeighbours", "nearest_rows"]

logger = logging.getLogger("harmonicalign")

_PROBED_QUERIES = 256
"""Queries that the recall of an inverted file is measured on."""


@dataclass(frozen=True)
class FaissNeighbours:
    """The k nearest rows by faiss, which compares rows in single precision.

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
        base, sought, scale = in_single(x, queries)
        if queries is not None:
            squared, indices, recall = self._search(base, sought, k)
        else:
            queries = x
            # One more than asked for, because a row finds itself; equal rows may hide it, hence the mask.
            squared, found, recall = self._search(base, base, k + 1)
            other = found != np.arange(len(x))[:, None]
            crowded = other.all(axis=1)
            other[crowded, -1] = False
            indices = found[other].reshape(len(x), -1)
            squared = squared[other].reshape(len(x), -1)
        if not self.exact:
            return Neighbours(indices, np.sqrt(np.maximum(squared, 0), dtype=np.float64) * scale, recall)
        return measured_again(indices, queries, x, recall)

    def _search(self, base: Array, sought: Array, k: int) -> tuple[Array, Array, float]:
        """Squared distances and numbers of the k nearest rows, in single precision, and the recall."""
        if len(base) * len(sought) <= self.exact_pairs or len(base) < self.few_rows:
            return *_flat(base).search(sought, k), 1.0
        return _search_lists(base, sought, k, self.recall)


def nearest_rows(x: Array, k: int, queries: Array | None = None, *, exact: bool = True) -> Neighbours:
    """The k nearest rows of `x` for each query row, nearest first, as `FaissNeighbours` finds them.

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
    return FaissNeighbours(exact=exact)(x, k, queries)


def _flat(base: Array) -> Any:
    """An index that compares all rows."""
    import faiss

    index = faiss.IndexFlatL2(base.shape[1])
    index.add(base)
    return index


def _search_lists(base: Array, sought: Array, k: int, recall: float) -> tuple[Array, Array, float]:
    """The same from an inverted file, deep enough to find a share `recall` of the neighbours of a sample."""
    rng = np.random.RandomState(0)
    own = sought is base
    base, sought = _without_empty_directions(base, sought, rng)
    index, lists = _inverted_file(base, rng)
    sample = sought[rng.randint(len(sought), size=_PROBED_QUERIES)]
    found_recall = _probe_deep_enough(index, base, sample, k, recall)
    logger.info(
        "neighbours: inverted file of %d lists, %d searched, recall %.3f",
        index.nlist,
        index.nprobe,
        found_recall,
    )
    # Queries of one list after each other scan the same lists, which are then still in the cache.
    order = np.argsort(lists if own else _nearest_list(index.quantizer, sought), kind="stable")
    squared, found = np.empty((len(sought), k), np.float32), np.empty((len(sought), k), np.int64)
    for rows in row_slices(len(sought), 4 * (sought.shape[1] + 3 * k)):
        some = order[rows]
        squared[some], found[some] = index.search(sought[some], k)
    short = np.flatnonzero(found[:, -1] < 0)
    if short.size:
        # Near the edge of the data the lists searched may hold fewer than k rows.
        squared[short], found[short] = _flat(base).search(sought[short], k)
    return squared, found, found_recall


def _inverted_file(base: Array, rng: np.random.RandomState) -> tuple[Any, Array]:
    """The rows in lists around k-means centres, and the number of every row's list."""
    import faiss
    from faiss.contrib import ivf_tools

    tools: Any = ivf_tools  # not typed
    n_lists = int(max(2 * len(base) ** 0.5, len(base) / 200))
    quantizer = faiss.IndexFlatL2(base.shape[1])
    index = faiss.IndexIVFFlat(quantizer, base.shape[1], n_lists)
    index.cp.niter, index.cp.min_points_per_centroid = 4, 1
    index.train(base[rng.randint(len(base), size=min(len(base), 16 * n_lists))])
    lists = _nearest_list(quantizer, base)
    tools.add_preassigned(index, base, lists)
    return index, lists


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


def _nearest_list(quantizer: Any, rows: Array) -> Array:
    """Number of the list whose centre is nearest to each row."""
    parts = [quantizer.search(rows[some], 1)[1][:, 0] for some in row_slices(len(rows), 4 * rows.shape[1])]
    return np.concatenate(parts)


def _probe_deep_enough(index: Any, base: Array, sample: Array, k: int, wanted: float) -> float:
    """Set how many lists are searched so that a sample's recall is as wanted; return its recall.

    How deep that is depends on the data's dimension, so it is measured and not guessed.
    """
    reach = _flat(base).search(sample, k)[0][:, -1:]
    index.nprobe = 8
    while True:
        # Counted by distance: among equally near rows any will do.
        recall = float((index.search(sample, k)[0] <= reach * (1 + 1e-5) + 1e-12).mean())
        if recall >= wanted or index.nprobe >= index.nlist:
            return recall
        index.nprobe = min(index.nlist, int(1.15 * index.nprobe))
