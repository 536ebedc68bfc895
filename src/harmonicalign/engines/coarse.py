"""A graph operator on fewer rows: rows join their strongest neighbours until few groups are left."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from harmonicalign._typing import Array

__all__ = ["coarser"]


def coarser(
    matrix: sp.csr_matrix, known: sp.csr_matrix, most_rows: int
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Compress a symmetric operator to vectors that are constant on groups of rows, up to the known ones.

    Every row joins the neighbour it is tied to most strongly (a round of Borůvka's algorithm); the groups
    are the rows of the next round. Rows that hardly anything ties to the rest stay together, so that the
    eigenvectors they have to themselves survive.

    Parameters
    ----------
    matrix
        Symmetric, (n, n), each row with its diagonal.
    known
        Orthonormal eigenvectors with disjoint supports, one for each component of the graph, (n, c).
    most_rows
        Rounds are made until so many rows are left, or rows join no more.

    Returns
    -------
    small
        ``carryᵀ matrix carry``, (m, m).
    carry
        Orthonormal columns, (n, m), whose span holds the known eigenvectors.
    """
    small, carry = matrix, sp.identity(matrix.shape[0], dtype=np.float32, format="csr")
    weights = np.asarray(known.sum(axis=1)).ravel()
    while small.shape[0] > most_rows:
        groups = _strongest_ties(small)
        n_groups = int(groups.max()) + 1
        if n_groups == small.shape[0]:
            break
        lengths = np.sqrt(np.bincount(groups, weights=weights**2))
        share = (weights / lengths[groups]).astype(np.float32)
        step = sp.csr_matrix((share, groups, np.arange(len(groups) + 1)), shape=(len(groups), n_groups))
        columns = sp.csr_matrix((small.data * share[small.indices], groups[small.indices], small.indptr))
        columns.resize(len(groups), n_groups)
        small = sp.csr_matrix(step.T @ columns)
        carry, weights = carry @ step, lengths
    return sp.csr_matrix((small + small.T) * np.float32(0.5)), carry


def _strongest_ties(matrix: sp.csr_matrix) -> Array:
    """Number of the group of each row, if each joins the neighbour with the largest entry in its row."""
    n = matrix.shape[0]
    rows = np.repeat(np.arange(n, dtype=matrix.indices.dtype), np.diff(matrix.indptr))
    ties = np.where(matrix.indices == rows, 0, matrix.data)
    strongest = np.flatnonzero((ties == np.maximum.reduceat(ties, matrix.indptr[:-1])[rows]) & (ties > 0))
    chosen = np.arange(n)
    chosen[rows[strongest]] = matrix.indices[strongest]
    links = sp.csr_matrix((np.ones(n, dtype=np.int8), chosen, np.arange(n + 1)), shape=(n, n))
    return np.asarray(connected_components(links, directed=False)[1])
