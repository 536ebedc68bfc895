"""Blocks of rows that bound the memory of a computation, and exact neighbours block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harmonicalign._typing import Array

__all__ = ["BLOCK_ENTRIES", "blocks", "neighbour_blocks"]


BLOCK_ENTRIES = 2**22
"""Entries that a block of work may hold at once (32 MiB of float64)."""


def blocks(n: int, width: int, entries: int = BLOCK_ENTRIES) -> Iterator[slice]:
    """Slices of n rows, each of few enough that blocks of `width` entries per row hold at most `entries`."""
    step = max(1, entries // max(1, width))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def neighbour_blocks(
    base: Array,
    query: Array,
    k: int,
    *,
    width: int,
    exclude_self: bool = False,
    entries: int = BLOCK_ENTRIES,
) -> Iterator[tuple[slice, Array]]:
    """The k nearest rows of `base` for every row of `query`, nearest first, a block of queries at a time.

    `width` is how many entries the caller holds per row, and `entries` how many a block may hold. With
    `exclude_self`, `query` is `base` and a row is not its own neighbour.
    """
    import faiss

    # Neighbours do not depend on origin and scale, but precision in float32 does: centre and scale to one.
    centre = base.mean(axis=0)
    scale = max(float(np.abs(base - centre).max()), float(np.abs(query - centre).max())) or 1.0
    index = faiss.IndexFlatL2(base.shape[1])
    index.add(np.ascontiguousarray((base - centre) / scale, dtype=np.float32))
    n_found = k + exclude_self
    for rows in blocks(len(query), max(width, n_found), entries):
        _, found = index.search(
            np.ascontiguousarray((query[rows] - centre) / scale, dtype=np.float32), n_found
        )
        if exclude_self:
            # A duplicate may come before the row itself, or push it off the end: then drop the last.
            other = found != np.arange(rows.start, rows.stop)[:, None]
            other[other.all(axis=1), -1] = False
            found = found[other].reshape(len(found), k)
        yield rows, found
