r"""Neighbours of the joint graph in the format of scanpy: distances, and memberships in [0, 1].

The kernel of the joint graph suits diffusion: it is wide and density-normalised. Layouts and clustering
need local weights on one scale, so those that UMAP defines are given to the same neighbours,

.. math:: w_{ij} = e^{-(d_{ij} - ρ_i) / σ_i}, \qquad \sum_j w_{ij} = \log_2 k, \qquad
          W = w + w^T - w ∘ w^T

with ρ the distance to the nearest neighbour and the sum over the k nearest.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.paper.graph import Graph

__all__ = ["N_NEIGHBORS", "neighbour_graph"]


N_NEIGHBORS = 15
"""Neighbours of each row; scanpy's default."""

_BLOCK_BYTES = 2**20
"""Differences between rows are formed in blocks that stay in the processor's cache."""


def neighbour_graph(graph: Graph) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Memberships (symmetric) and distances of the nearest neighbours of every row of a graph."""
    assert graph.rows is not None
    n = graph.n_rows
    # The kernel is symmetric: one half says which rows are neighbours.
    kernel = sp.triu(sp.coo_array(graph.kernel), k=1, format="coo")
    far = _distances(graph.rows, kernel.row, kernel.col)
    row, column = np.concatenate([kernel.row, kernel.col]), np.concatenate([kernel.col, kernel.row])
    far = np.concatenate([far, far])
    order = np.lexsort((far, row))
    row, column, far = row[order], column[order], far[order]
    rank = np.arange(len(row)) - np.searchsorted(row, np.arange(n))[row]
    near = rank < N_NEIGHBORS
    row, column, far, rank = row[near], column[near], far[near], rank[near]
    table = np.full((n, N_NEIGHBORS), np.inf)
    table[row, rank] = far
    weights = _memberships(table)[row, rank]
    one_way, distances = (
        # Neighbours keep an entry, even if tiny, because stored zeros would be dropped.
        sp.csr_matrix(
            (np.maximum(values, np.finfo(np.float32).tiny).astype(np.float32), (row, column)), shape=(n, n)
        )
        for values in (weights, far)
    )
    back = sp.csr_matrix(one_way.T)
    return sp.csr_matrix(one_way + back - one_way.multiply(back)), distances


def _memberships(distances: Array) -> Array:
    """Weights of each row's neighbours, nearest first; infinite distances have none."""
    there = np.isfinite(distances)
    known = np.maximum(there.sum(axis=1, keepdims=True), 2)
    finite = np.where(there, distances, 0)
    excess = np.where(there, distances - finite[:, :1], 0)
    # Where many neighbours are equally near no scale is small enough; this one then is.
    least = np.maximum(1e-3 * finite.sum(axis=1, keepdims=True) / known, 1e-12)
    low, high = least, np.full_like(least, np.inf)
    scale = np.maximum(excess.max(axis=1, keepdims=True), least)
    for _ in range(40):
        weights = np.where(there, np.exp(-excess / scale), 0)
        too_wide = weights.sum(axis=1, keepdims=True) > np.log2(known)
        low, high = np.where(too_wide, low, scale), np.where(too_wide, scale, high)
        scale = np.where(np.isinf(high), 2 * scale, (low + high) / 2)
    return np.asarray(np.where(there, np.exp(-excess / scale), 0))


def _distances(rows: Array, first: Array, second: Array) -> Array:
    """Distances between pairs of rows."""
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    out = np.empty(len(first), dtype=np.float32)
    step = max(1, _BLOCK_BYTES // (4 * rows.shape[1]))
    for start in range(0, len(first), step):
        pairs = slice(start, start + step)
        difference = rows[first[pairs]] - rows[second[pairs]]
        out[pairs] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    return out
