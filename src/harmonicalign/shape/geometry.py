"""The shape of one dataset: several kinds of distances between its rows, as ranks, and its harmonics."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.stats import rankdata

from harmonicalign._exceptions import DisconnectedGraphWarning
from harmonicalign._typing import Array
from harmonicalign.engines.distances import all_distances
from harmonicalign.paper.graph import Graph, kernel_graph
from harmonicalign.paper.harmonics import Harmonics, harmonics
from harmonicalign.shape.config import ShapeConfig

__all__ = ["Geometry", "describe", "multiscale_map", "rank_distances"]

_SLOWEST = 0.995
"""Eigenvalues count as at most this: a component of the graph is far from the others, not infinitely."""


@dataclass(frozen=True)
class Geometry:
    """What shape alignment knows of one dataset.

    Attributes
    ----------
    vectors, values
        Each kind of distances by rank, ``C_k ≈ V_k diag(w_k) V_kᵀ``: all V_k side by side, (n, sum of ranks),
        and all w_k.
    kinds
        Columns of `vectors` that belong to each kind.
    squares
        Mean squared distance from each row to all rows, for every kind, (kinds, n).
    psi
        Leading harmonics, (n, n_signed).
    coordinates
        Multi-scale diffusion map, (n, n_harmonics).
    closeness
        Ranks of the mean of all kinds of distances, (n, n).
    """

    vectors: Array
    values: Array
    kinds: tuple[slice, ...]
    squares: Array
    psi: Array
    coordinates: Array
    closeness: Array

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.vectors)

    def rows(self, chosen: Array) -> Geometry:
        """The same distances among some of the rows."""
        vectors = self.vectors[chosen]
        squares = [_mean_squares((vectors[:, k] * self.values[k]) @ vectors[:, k].T) for k in self.kinds]
        return replace(
            self,
            vectors=vectors,
            squares=np.stack(squares),
            psi=self.psi[chosen],
            coordinates=self.coordinates[chosen],
            closeness=self.closeness[np.ix_(chosen, chosen)],
        )

    def alone(self, kind: int) -> Geometry:
        """The same with one kind of distances only."""
        own = self.kinds[kind]
        return replace(
            self,
            vectors=self.vectors[:, own],
            values=self.values[own],
            kinds=(slice(0, own.stop - own.start),),
            squares=self.squares[kind : kind + 1],
        )


def describe(rows: Array, config: ShapeConfig, name: str, seed: int) -> tuple[Geometry, Graph]:
    """Geometry of a dataset, and the graph by which further rows are placed.

    Parameters
    ----------
    rows
        Landmarks, (n, d).
    config
        Numbers of the method.
    name
        Name of the dataset in messages.
    seed
        Seed of the eigensolver.
    """
    distances = all_distances(rows)
    if not distances.any():
        raise ValueError(f"all rows of {name} are equal: it has no shape; leave it out")
    ranked, spectra, graph = [rank_distances(distances)], [], None
    for k in config.n_neighbors:
        near = min(k, len(rows) - 1)
        ranked.append(rank_distances(_hops(distances, near)))
        own = kernel_graph(rows, n_neighbors=near)
        with warnings.catch_warnings():
            # Separate clusters are common, and `_SLOWEST` sees to them.
            warnings.simplefilter("ignore", DisconnectedGraphWarning)
            found = harmonics(own, min(config.n_harmonics, len(rows) - 2), random_state=seed, name=name)
        ranked.append(rank_distances(all_distances(multiscale_map(found))))
        spectra.append(found)
        graph = graph or own
    assert graph is not None
    parts = [_low_rank(c, config.rank) for c in ranked]
    edges = np.cumsum([0, *(len(values) for values, _ in parts)])
    geometry = Geometry(
        vectors=np.hstack([vectors for _, vectors in parts]),
        values=np.concatenate([values for values, _ in parts]),
        kinds=tuple(slice(int(a), int(b)) for a, b in pairwise(edges)),
        squares=np.stack([_mean_squares(c) for c in ranked]),
        psi=spectra[0].psi[:, : config.n_signed],
        coordinates=multiscale_map(spectra[0]),
        closeness=rank_distances(np.mean(ranked, axis=0)),
    )
    return geometry, graph


def rank_distances(distances: Array) -> Array:
    """Distances replaced by their ranks among all pairs of rows, in (0, 1]; the diagonal stays 0.

    Ranks make distances of different kinds and datasets comparable: only their order counts.
    """
    n = len(distances)
    upper = np.triu_indices(n, 1)
    out = np.zeros((n, n), dtype=np.float32)
    out[upper] = rankdata(distances[upper]) / len(upper[0])
    out += out.T
    return out


def multiscale_map(found: Harmonics) -> Array:
    """Diffusion coordinates of all times together, ``φ λ / (1 − λ)``."""
    values = np.clip(found.eigenvalues, 0, _SLOWEST)
    return np.asarray(found.phi * (values / (1 - values)))


def _hops(distances: Array, k: int) -> Array:
    """Steps between rows on the graph of k nearest neighbours, k raised until it is in one piece."""
    n = len(distances)
    order = np.argsort(distances, axis=1, kind="stable")
    while True:
        near = np.zeros((n, n), dtype=bool)
        near[np.arange(n)[:, None], order[:, : k + 1]] = True
        near |= near.T
        np.fill_diagonal(near, False)
        if k >= n - 1 or connected_components(near)[0] == 1:
            break
        k = min(n - 1, k + max(1, k // 2))
    # All rows take one step at a time: much quicker than a search from each of them.
    edges = sp.csr_matrix(near, dtype=np.float32)
    hops, reached = np.zeros((n, n), dtype=np.float32), np.eye(n, dtype=bool)
    new, steps = reached, 0
    while new.any():
        steps += 1
        new = (edges @ new.astype(np.float32) > 0) & ~reached
        hops[new] = steps
        reached |= new
    return hops


def _low_rank(matrix: Array, rank: int) -> tuple[Array, Array]:
    """Eigenpairs of largest magnitude."""
    values, vectors = scipy.linalg.eigh(matrix) if len(matrix) <= 600 else _leading(matrix, rank)
    kept = np.argsort(-np.abs(values))[:rank]
    return values[kept].astype(np.float32), np.ascontiguousarray(vectors[:, kept], dtype=np.float32)


def _leading(matrix: Array, rank: int) -> tuple[Array, Array]:
    """Eigenpairs of a large matrix by block iteration; distances have a spectrum that falls off quickly."""
    block = np.random.RandomState(0).standard_normal((len(matrix), rank + 20)).astype(matrix.dtype)
    for _ in range(6):
        block = scipy.linalg.qr(matrix @ block, mode="economic")[0]
    values, turned = scipy.linalg.eigh(block.T @ (matrix @ block))
    return values, block @ turned


def _mean_squares(matrix: Array) -> Array:
    return np.asarray((matrix**2).mean(axis=1), dtype=np.float32)
