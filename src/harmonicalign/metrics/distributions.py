"""Distributions of features: the earth mover's distance, column by column."""

from __future__ import annotations

import numpy as np

from harmonicalign._typing import Array, ArrayLike, MatrixLike
from harmonicalign.metrics.checks import as_columns, blocks, dense_part, row_weights

__all__ = ["earth_movers_distance"]


def earth_movers_distance(
    x: MatrixLike, y: MatrixLike, *, x_weights: ArrayLike | None = None, y_weights: ArrayLike | None = None
) -> Array:
    r"""Earth mover's (Wasserstein-1) distance between the distributions of every column.

    .. math:: W_s = \int_{−∞}^{∞} \left| F^X_s(v) − F^Y_s(v) \right| dv

    with :math:`F_s` the (weighted) cumulative distribution of column s.

    Parameters
    ----------
    x, y
        (n_x, d) and (n_y, d), dense or sparse, of any real type; 1-D input is one column.
    x_weights, y_weights
        Optional weight per row, not negative; they are scaled to add up to one.

    Returns
    -------
    distances
        (d,), in the units of the columns.

    Examples
    --------
    >>> earth_movers_distance([[0, 1], [2, 3]], [[1, 1], [3, 3]])
    array([1., 0.])
    """
    x, y = as_columns("x", x), as_columns("y", y)
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"x has {x.shape[1]} columns but y has {y.shape[1]}; pass the shared columns of both"
        )
    n_x, n_columns = x.shape
    n_y = y.shape[0]
    mass = np.concatenate(
        [row_weights("x_weights", x_weights, n_x), -row_weights("y_weights", y_weights, n_y)]
    )
    distances = np.empty(n_columns)
    for columns in blocks(n_columns, n_x + n_y):
        values = np.concatenate([dense_part(x, columns), dense_part(y, columns)])
        order = np.argsort(values, axis=0, kind="stable")
        gaps = np.diff(np.take_along_axis(values, order, axis=0), axis=0)
        excess = np.cumsum(mass[order], axis=0)[:-1]
        distances[columns] = np.einsum("ij,ij->j", np.abs(excess), gaps)
    return distances
