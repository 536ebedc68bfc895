"""Names that callers still use; what they stand for is in the modules they are imported from here."""

from __future__ import annotations

import scipy.linalg  # noqa: F401

from harmonicalign._typing import Array
from harmonicalign.engines.distances import all_distances, row_distances
from harmonicalign.engines.eigen import leading_eigenpairs
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.threads import in_threads, row_slices

__all__ = [
    "all_distances",
    "in_threads",
    "leading_eigenpairs",
    "nearest",
    "nearest_rows",
    "row_distances",
    "row_slices",
]


def nearest(x: Array, k: int, queries: Array | None = None, *, exact: bool = True) -> tuple[Array, Array]:
    """Distances and indices of `nearest_rows`."""
    found = nearest_rows(x, k, queries, exact=exact)
    return found.distances, found.indices
