"""Paired rows: the fraction of samples closer than the true match."""

from __future__ import annotations

import numpy as np

from harmonicalign._typing import Array, MatrixLike
from harmonicalign.metrics.checks import blocks, paired

__all__ = ["foscttm", "foscttm_per_row"]


def foscttm(x: MatrixLike, y: MatrixLike) -> float:
    r"""Fraction of samples closer than the true match, averaged over rows and over both directions.

    .. math:: \frac{1}{2n} \sum_i \left( \frac{|\{ j : d(x_i, y_j) < d(x_i, y_i) \}|}{n − 1}
              + \frac{|\{ j : d(x_j, y_i) < d(x_i, y_i) \}|}{n − 1} \right)

    0 is perfect and 0.5 is chance. Rows as far as the match count one half, so that an alignment that puts
    everything in one place has 0.5 and not 0.

    Parameters
    ----------
    x, y
        Aligned datasets of n ≥ 2 paired rows, of one width.

    Returns
    -------
    fraction
        Between 0 and 1, smaller is better.

    See Also
    --------
    foscttm_per_row : the same before averaging.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [3.0]])
    >>> foscttm(x, x), foscttm(x, np.zeros((3, 1)) + 1.0), foscttm(x, x[::-1])
    (0.0, 0.5, 0.6666666666666666)
    """
    of_x, of_y = foscttm_per_row(x, y)
    return float((of_x.mean() + of_y.mean()) / 2)


def foscttm_per_row(x: MatrixLike, y: MatrixLike) -> tuple[Array, Array]:
    """Fraction of samples closer than the true match, for every row of either dataset.

    Parameters
    ----------
    x, y
        Aligned datasets of n ≥ 2 paired rows, of one width.

    Returns
    -------
    of_x, of_y
        (n,) each: for row i of ``x`` the share of rows of ``y`` nearer than row i of ``y``, and the reverse.
    """
    x, y = paired(x, y, same_width=True)
    n = len(x)
    if n < 2:
        raise ValueError(
            "x and y have one row each; FOSCTTM compares a match with other rows, pass two or more"
        )
    centre = y.mean(axis=0)
    x, y = x - centre, y - centre
    norms_x, norms_y = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
    own = np.einsum("ij,ij->i", x - y, x - y)
    # Squared distances come from an expansion whose rounding errors are of this size.
    slack = 1e-14 * (np.max(norms_x) + np.max(norms_y)) * np.sqrt(x.shape[1])
    of_x, of_y = np.empty(n), np.zeros(n)
    for rows in blocks(n, n):
        squared = norms_x[rows, None] + norms_y - 2 * (x[rows] @ y.T)
        match = np.arange(len(squared)), np.arange(rows.start, rows.stop)
        beyond = squared - own[rows, None]
        score = (beyond < -slack) + 0.5 * (np.abs(beyond) <= slack)
        score[match] = 0
        of_x[rows] = score.sum(axis=1)
        beyond = squared - own
        score = (beyond < -slack) + 0.5 * (np.abs(beyond) <= slack)
        score[match] = 0
        of_y += score.sum(axis=0)
    return of_x / (n - 1), of_y / (n - 1)
