"""Principal components of a representation, for dense and sparse data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array
from harmonicalign.inputs.validate import random_state_from

__all__ = ["Reduction", "leading_axes", "reduce_rows"]


@dataclass(frozen=True)
class Reduction:
    """A projection on principal axes, or no reduction.

    Attributes
    ----------
    mean
        Column means, (d,).
    axes
        Principal axes, (d, k); None leaves the columns as they are.
    variances
        Variance along each axis.
    """

    __repr__ = short_repr

    mean: Array
    axes: Array | None
    variances: Array

    def apply(self, x: Any) -> Array:
        """Coordinates of the rows of `x`; sparse rows are centred without becoming dense."""
        if self.axes is None:
            return np.asarray(x.toarray() if sp.issparse(x) else x)
        return np.asarray(x @ self.axes - self.mean @ self.axes)


def reduce_rows(x: Any, n_components: int | None, random_state: Any = 0) -> tuple[Reduction, Array]:
    """Principal components of `x`: the projection, and the projected rows.

    Parameters
    ----------
    x
        Rows by columns, dense or CSR.
    n_components
        Number of components; None, or at least the number of columns or rows, means no reduction.
    random_state
        Seed of the randomised solver, used for large and wide data.
    """
    n, d = x.shape
    if n_components is None or n_components >= min(n, d):
        reduction = Reduction(mean=np.zeros(d), axes=None, variances=np.empty(0))
        return reduction, reduction.apply(x)
    if n_components == n - 1 < d:
        return _all_components(x)
    from sklearn.decomposition import PCA

    solver = "covariance_eigh" if d <= 1500 and n >= d else "arpack" if sp.issparse(x) else "randomized"
    pca = PCA(n_components, svd_solver=solver, random_state=random_state_from(random_state))
    # If nothing varies, any axes are valid, and the shares of variance, which are not used, are 0/0.
    with np.errstate(divide="ignore", invalid="ignore"):
        try:
            pca.fit(x)
        except ArpackError:
            # Lanczos' iteration cannot start on a matrix without variance.
            pca.set_params(svd_solver="full").fit(x.toarray())
    reduction = Reduction(mean=pca.mean_, axes=pca.components_.T, variances=pca.explained_variance_)
    return reduction, reduction.apply(x)


def _all_components(x: Any) -> tuple[Reduction, Array]:
    """All components of few rows with many columns: a decomposition no larger than the rows."""
    rows = np.asarray(x.toarray() if sp.issparse(x) else x)
    n, mean = len(rows), rows.mean(axis=0)
    _, values, axes = scipy.linalg.svd(rows - mean, full_matrices=False)
    # Of n centred rows one component never varies.
    axes = axes[: n - 1]
    flips = np.sign(axes[np.arange(n - 1), np.abs(axes).argmax(axis=1)])
    reduction = Reduction(mean, (axes * flips[:, None]).T, values[: n - 1] ** 2 / (n - 1))
    return reduction, reduction.apply(x)


def leading_axes(x: Array, k: int, random_state: int = 0) -> Array:
    """Leading right singular vectors of a dense matrix, (columns, k), without centring.

    Small matrices are decomposed through the smaller Gram matrix, others by randomised subspace iteration,
    which is several times faster and as accurate for the leading axes.
    """
    n, d = x.shape
    k = min(k, n, d)
    if min(n, d) <= 300:
        if d <= n:
            return np.asarray(scipy.linalg.eigh(x.T @ x, subset_by_index=[d - k, d - 1])[1][:, ::-1])
        left = scipy.linalg.eigh(x @ x.T, subset_by_index=[n - k, n - 1])[1][:, ::-1]
        return np.asarray(scipy.linalg.qr(x.T @ left, mode="economic")[0])
    q = np.random.RandomState(random_state).standard_normal((d, min(d, n, k + 20)))
    for _ in range(5):
        q = scipy.linalg.qr(x.T @ scipy.linalg.qr(x @ q, mode="economic")[0], mode="economic")[0]
    return np.asarray(q @ scipy.linalg.svd(x @ q, full_matrices=False)[2][:k].T)
