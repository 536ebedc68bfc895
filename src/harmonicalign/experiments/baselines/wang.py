"""Manifold alignment without correspondence, by matching local geometry.

References
----------
C. Wang, S. Mahadevan. Manifold alignment without correspondence. Proceedings of the 21st International Joint
Conference on Artificial Intelligence (IJCAI), 1273-1278 (2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, eigh
from scipy.spatial.distance import cdist

from harmonicalign.experiments.baselines._common import Dataset, Embedding, check_dense, check_positive


@dataclass(frozen=True)
class WangMahadevan:
    """Linear projections of two datasets that preserve neighbourhoods and match similar ones.

    Every row is described by the distances among itself and its `k` nearest rows. Rows of different datasets
    are similar if these distance matrices agree, for the best order of the neighbours and the best scale. The
    projections minimise

    ``μ Σ W_ij (αᵀx_i - βᵀy_j)² + ½ Σ W^x_ij (αᵀx_i - αᵀx_j)² + ½ Σ W^y_ij (βᵀy_i - βᵀy_j)²``

    by the generalised eigenproblem ``Z L Zᵀ γ = λ Z D Zᵀ γ``.

    Parameters
    ----------
    n_components
        Columns of the result.
    k
        Number of neighbours that describe a row; all k! orders are tried.
    mu
        Weight of matching the datasets relative to preserving the neighbourhoods of each.
    delta
        Bandwidth of all three weights: ``W = exp(-dist/δ²)`` and ``W^x = exp(-‖x_i - x_j‖²/δ²)``. The paper
        has δ = 1, for data scaled accordingly. None takes δ² from the data, separately for each weight: the
        median over rows of the (squared) distance to the k-th closest row, and a tenth of that for W.
    n_pca
        Number of principal components of each dataset. With as many columns as rows ``Z D Zᵀ`` is singular.

    Notes
    -----
    The data-driven bandwidths, the centring and the reduction by PCA are ours. The rest follows the paper as
    we know it; its full text was not available to check every constant.
    """

    name: ClassVar[str] = "wang"

    n_components: int = 10
    k: int = 4
    mu: float = 1.0
    delta: float | None = None
    n_pca: int = 100

    def __post_init__(self) -> None:
        check_positive(
            n_components=self.n_components, k=self.k, mu=self.mu, delta=self.delta, n_pca=self.n_pca
        )
        if self.k > 6:
            raise ValueError(f"k={self.k}: k! orders are tried, which is too many; use 6 or less")

    def fit_transform(self, datasets: Sequence[Dataset]) -> list[Embedding]:
        """Project both datasets into one space.

        Parameters
        ----------
        datasets
            Two matrices; their columns need not correspond, nor be equally many.

        Returns
        -------
        list of ndarray
            Projections of each dataset, smallest eigenvalue first.
        """
        data = check_dense(datasets, exactly=2, same_columns=False)
        for i, rows in enumerate(data):
            if len(rows) <= self.k:
                raise ValueError(f"datasets[{i}]: {len(rows)} rows have no {self.k} neighbours; lower k")
        x, y = (_principal(rows, self.n_pca, i) for i, rows in enumerate(data))

        between = local_geometry_distances(local_geometry(x, self.k), local_geometry(y, self.k))
        # The exponent is linear in dist, so at the wider bandwidth the many dissimilar rows outweigh the
        # few similar ones, and the projections of the two datasets come out with opposite signs.
        w = self._weights(between, share=0.1)
        wx, wy = self._weights(cdist(x, x, "sqeuclidean")), self._weights(cdist(y, y, "sqeuclidean"))
        dx, dy = wx.sum(axis=1), wy.sum(axis=1)

        # Z is block-diagonal (rows of x are columns of Z): each block of Z L Zᵀ and Z D Zᵀ is a small product
        xlx = x.T @ ((dx + self.mu * w.sum(axis=1))[:, None] * x - wx @ x)
        yly = y.T @ ((dy + self.mu * w.sum(axis=0))[:, None] * y - wy @ y)
        xly = -self.mu * x.T @ w @ y
        zlz = np.block([[xlx, xly], [xly.T, yly]])
        zdz = block_diag(x.T @ (dx[:, None] * x), y.T @ (dy[:, None] * y))
        d = min(self.n_components, len(zlz))
        _, gamma = eigh(zlz, zdz, subset_by_index=(0, d - 1))
        return [x @ gamma[: x.shape[1]], y @ gamma[x.shape[1] :]]

    def _weights(self, distances: NDArray[np.float64], share: float = 1.0) -> NDArray[np.float64]:
        if self.delta is not None:
            square = self.delta**2
        else:
            kth = min(self.k, distances.shape[1] - 1)
            square = share * float(np.median(np.partition(distances, kth, axis=1)[:, kth])) or 1.0
        weights: NDArray[np.float64] = np.exp(-distances / square)
        return weights


def _principal(x: NDArray[np.float64], n_pca: int, i: int) -> NDArray[np.float64]:
    """Centred rows on their leading principal components, without those of zero variance."""
    u, s, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    rank = int(np.count_nonzero(s > s[0] * 1e-8)) if s[0] > 0 else 0
    if rank == 0:
        raise ValueError(f"datasets[{i}]: all rows are equal, there is no geometry to match; leave it out")
    d = min(n_pca, rank)
    scores: NDArray[np.float64] = u[:, :d] * s[:d]
    return scores


def local_geometry(x: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Distances among each row and its k nearest, nearest first.

    Parameters
    ----------
    x
        Rows of one dataset.
    k
        Neighbours.

    Returns
    -------
    ndarray of shape (n, k + 1, k + 1)
        The paper's R.
    """
    distances = cdist(x, x)
    np.fill_diagonal(distances, -1.0)  # the row itself comes first even if others coincide with it
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : k + 1]
    np.fill_diagonal(distances, 0.0)
    among: NDArray[np.float64] = distances[nearest[:, :, None], nearest[:, None, :]]
    return among


def local_geometry_distances(rx: NDArray[np.float64], ry: NDArray[np.float64]) -> NDArray[np.float64]:
    """Dissimilarity of the neighbourhoods of two datasets, for the best order and the best scale.

    For one order h of y's neighbours, the best scale leaves ``‖R_y^h - k₁R_x‖² = ‖R_y‖² (1 - c_h²)`` and
    ``‖R_x - k₂R_y^h‖² = ‖R_x‖² (1 - c_h²)`` with ``c_h`` the cosine between the two matrices. The smaller of
    the two, at the best order, is therefore ``min(‖R_x‖, ‖R_y‖) √(1 - max_h c_h²)``: one matrix product for
    each order instead of a loop over pairs of rows.

    Parameters
    ----------
    rx, ry
        Local distances of both datasets, from `local_geometry`.

    Returns
    -------
    ndarray of shape (n_x, n_y)
        The paper's dist(R_x, R_y).
    """
    side = rx.shape[1]
    upper = np.triu_indices(side, 1)
    flat_x = rx[:, upper[0], upper[1]] * np.sqrt(2)  # each distance is twice in the symmetric matrix
    norm_x, norm_y = np.linalg.norm(rx, axis=(1, 2)), np.linalg.norm(ry, axis=(1, 2))
    best = np.zeros((len(rx), len(ry)))
    for order in permutations(range(1, side)):
        h = np.array((0, *order))
        flat_y = ry[:, h[upper[0]], h[upper[1]]] * np.sqrt(2)
        np.maximum(best, flat_x @ flat_y.T, out=best)
    product = np.maximum(norm_x[:, None] * norm_y, np.finfo(float).tiny)  # rows that coincide have R = 0
    cosine = np.minimum(best / product, 1.0)
    distances: NDArray[np.float64] = np.minimum(norm_x[:, None], norm_y) * np.sqrt(1 - cosine**2)
    return distances
