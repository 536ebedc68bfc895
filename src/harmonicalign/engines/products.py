"""All distances between rows by products of matrices, and the smallest of each row, block by block.

A product gives distances at the speed of arithmetic; finding the smallest among them would take several times
as long by a heap or a partition. So the columns of a block are first reduced to the minima of groups. The
k-th smallest minimum bounds the k-th smallest distance, and only what lies within the bound is sorted.
"""

from __future__ import annotations

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.engines.threads import in_threads, row_slices

__all__ = ["both_by_products", "completed", "nearest_by_products", "padded", "partial_block", "smallest"]

BLOCK_BYTES = 2**22
"""A block of distances has about this size, so that it stays in the cache from product to selection."""

GROUPS = 8
"""Minima are taken over so many columns (4 to 32 were tried, for 200 to 10,000 rows and k from 5 to 46)."""


def nearest_by_products(base: Array, sought: Array | None, k: int) -> tuple[Array, Array]:
    """Squared distances and numbers of the k nearest rows of `base`, nearest first, in single precision.

    Parameters
    ----------
    base
        Rows to search, float32.
    sought
        Rows to find neighbours of, float32; None for those of `base`, each without itself.
    k
        How many.
    """
    queries = base if sought is None else sought
    columns, lengths = padded(base)
    squared, found = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)

    def search(rows: slice) -> None:
        block = partial_block(queries[rows], columns, lengths)
        if sought is None:
            own = np.arange(rows.start, rows.stop)
            block[own - rows.start, own] = np.inf
        values, found[rows] = smallest(block, k)
        squared[rows] = completed(values, queries[rows])

    in_threads(search, row_slices(len(queries), 4 * len(columns), block_bytes=BLOCK_BYTES))
    return squared, found


def both_by_products(x: Array, y: Array, k: int) -> tuple[Array, Array]:
    """Numbers of the k nearest rows of `y` for each row of `x`, and of `x` for each of `y`, nearest first.

    The products of both searches are the same table, which is made once and kept whole.

    Parameters
    ----------
    x, y
        Rows, float32.
    k
        How many, at most as many as either has rows.
    """
    (left, of_x), (right, of_y) = padded(x), padded(y)
    table = np.zeros((len(left), len(right)), np.float32)
    forward, backward = np.empty((len(x), k), np.int64), np.empty((len(y), k), np.int64)

    def search(rows: slice) -> None:
        np.matmul(left[rows] * np.float32(-2), right.T, out=table[rows])
        forward[rows] = smallest(table[rows] + of_y, k)[1]

    def search_back(columns: slice) -> None:
        backward[columns] = smallest(np.add(table[:, columns].T, of_x, order="C"), k)[1]

    in_threads(search, row_slices(len(x), 4 * len(right), block_bytes=BLOCK_BYTES))
    in_threads(search_back, row_slices(len(y), 4 * len(left), block_bytes=BLOCK_BYTES))
    return forward, backward


def padded(rows: Array) -> tuple[Array, Array]:
    """Rows, filled up to whole groups by some that lie infinitely far, and the squares of their lengths."""
    more = -len(rows) % GROUPS
    lengths = np.full(len(rows) + more, np.inf, dtype=np.float32)
    np.einsum("ij,ij->i", rows, rows, out=lengths[: len(rows)])
    if more:
        rows = np.concatenate([rows, np.zeros((more, rows.shape[1]), dtype=np.float32)])
    return rows, lengths


def partial_block(queries: Array, columns: Array, lengths: Array) -> Array:
    """Squared distances from each query to what `padded` returned, less the square of the query's length."""
    block = (queries * np.float32(-2)) @ columns.T
    block += lengths
    return np.asarray(block)


def completed(values: Array, queries: Array) -> Array:
    """Squared distances from some of a `partial_block`, never negative."""
    values += np.einsum("ij,ij->i", queries, queries)[:, None]
    return np.maximum(values, 0, out=values)


def smallest(block: Array, k: int) -> tuple[Array, Array]:
    """The k smallest entries of every row, smallest first, and their columns.

    Parameters
    ----------
    block
        Plain array whose number of columns is a multiple of `GROUPS`.
    k
        How many, at most as many as there are columns.
    """
    n, width = block.shape
    if k == 1:
        columns = block.argmin(axis=1)[:, None]
        return np.take_along_axis(block, columns, axis=1), columns
    if width < 2 * GROUPS * k:
        columns = np.argpartition(block, min(k, width) - 1, axis=1)[:, :k]
        columns.sort(axis=1)  # so that equal distances are found in the order of the rows
        values = np.take_along_axis(block, columns, axis=1)
    else:
        # Groups are columns that lie apart, so that the minimum of several rows of memory is taken at once.
        lows = block.reshape(n, GROUPS, width // GROUPS).min(axis=1)
        lows.partition(k - 1, axis=1)
        values, columns = _within(block, lows[:, k - 1 : k])
    order = np.argsort(values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(columns, order, axis=1)


def _within(block: Array, bounds: Array) -> tuple[Array, Array]:
    """Entries within a bound for every row and their columns, in order; filled up with infinite ones."""
    n, width = block.shape
    flat = np.flatnonzero(block <= bounds)
    rows = flat // width
    counts = np.bincount(rows, minlength=n)
    most = int(counts.max())
    places = np.arange(len(flat)) + (np.arange(n) * most - np.cumsum(counts) + counts)[rows]
    values, columns = np.full(n * most, np.inf, dtype=np.float32), np.zeros(n * most, dtype=np.int64)
    values[places] = block.ravel()[flat]
    columns[places] = flat - rows * width
    return values.reshape(n, most), columns.reshape(n, most)
