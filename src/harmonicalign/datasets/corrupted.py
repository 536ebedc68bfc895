"""The paper's experiment: features corrupted by a partly orthogonal matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array, ArrayLike, Labels, RandomState
from harmonicalign.datasets._draws import random_orthogonal, share_of
from harmonicalign.inputs.validate import check_integer, check_rows, random_state_from

__all__ = ["CorruptedPair", "corrupted_pair", "corruption_matrix", "load_digits_pair"]


@dataclass(frozen=True, eq=False)
class CorruptedPair:
    """Two disjoint samples of one dataset, the second with most of its features corrupted.

    Attributes
    ----------
    x
        (n_x, d), the uncorrupted sample.
    y
        (n_y, d), ``y_clean @ matrix``.
    labels_x, labels_y
        Labels of the rows.
    y_clean
        (n_y, d), the second sample before corruption.
    matrix
        (d, d), the paper's ``O_p``.
    preserved
        (d,) booleans: the columns of ``y`` that are features of ``x``.
    rows_x, rows_y
        Indices of the rows in the original data.
    """

    __repr__ = short_repr

    x: Array
    y: Array
    labels_x: Array
    labels_y: Array
    y_clean: Array
    matrix: Array
    preserved: Array
    rows_x: Array
    rows_y: Array


def corruption_matrix(
    n_features: int, preserved: float, random_state: RandomState = None
) -> tuple[Array, Array]:
    """The paper's ``O_p``: a random orthogonal matrix with a share of its columns replaced by the identity's.

    Parameters
    ----------
    n_features
        The number d of features.
    preserved
        The share p of columns replaced, from 0 (all corrupted) to 1 (the identity); their number is rounded.
    random_state
        Seed of the matrix and of the choice of columns.

    Returns
    -------
    matrix
        (d, d); ``y @ matrix`` corrupts ``y``. Orthogonal for p = 0 and p = 1 only, as in the paper.
    mask
        (d,) booleans, True for the columns kept.

    Examples
    --------
    >>> matrix, mask = corruption_matrix(4, 0.5, random_state=0)
    >>> int(mask.sum()), bool((matrix[:, mask] == np.eye(4)[:, mask]).all())
    (2, True)
    """
    d = check_integer("n_features", n_features, minimum=1)
    share = share_of("preserved", preserved)
    rng = random_state_from(random_state)
    matrix = random_orthogonal(d, rng)
    mask = np.zeros(d, dtype=bool)
    mask[rng.permutation(d)[: round(share * d)]] = True
    matrix[:, mask] = np.eye(d)[:, mask]
    return matrix, mask


def corrupted_pair(
    X: ArrayLike, y: Labels, n_x: int, n_y: int, preserved: float, random_state: RandomState = None
) -> CorruptedPair:
    """Two disjoint random samples of the rows of ``X``, the second corrupted (Fig. 2).

    Parameters
    ----------
    X
        (n, d), the data.
    y
        (n,), labels of its rows.
    n_x, n_y
        Sizes of the two samples, together at most n.
    preserved
        Share of the features that the corruption does not change, from 0 to 1.
    random_state
        Seed of the samples and of the corruption.

    Examples
    --------
    >>> pair = corrupted_pair(np.arange(40.0).reshape(10, 4), np.arange(10), 5, 5, 0.5, random_state=0)
    >>> pair.y.shape, int(pair.preserved.sum())
    ((5, 4), 2)
    """
    rows = np.asarray(X)
    labels = np.asarray(y)
    if rows.ndim != 2:
        raise ValueError(f"X has shape {rows.shape}; pass a matrix of rows by features")
    if labels.shape != (len(rows),):
        raise ValueError(f"y has shape {labels.shape} but X has {len(rows)} rows; pass one label per row")
    n_x = check_integer("n_x", n_x, minimum=1)
    n_y = check_integer("n_y", n_y, minimum=1)
    if n_x + n_y > len(rows):
        raise ValueError(
            f"n_x + n_y is {n_x + n_y} but X has {len(rows)} rows, and the samples are disjoint; "
            "lower n_x or n_y"
        )
    rng = random_state_from(random_state)
    order = rng.permutation(len(rows))
    rows_x, rows_y = order[:n_x], order[n_x : n_x + n_y]
    matrix, mask = corruption_matrix(rows.shape[1], preserved, rng)
    x = np.asarray(check_rows("X", rows[rows_x]), dtype=np.float64)
    y_clean = np.asarray(check_rows("X", rows[rows_y]), dtype=np.float64)
    return CorruptedPair(
        x=x,
        y=y_clean @ matrix,
        labels_x=labels[rows_x],
        labels_y=labels[rows_y],
        y_clean=y_clean,
        matrix=matrix,
        preserved=mask,
        rows_x=rows_x,
        rows_y=rows_y,
    )


def load_digits_pair(
    preserved: float = 0.35, n_x: int | None = None, n_y: int | None = None, random_state: RandomState = None
) -> CorruptedPair:
    """Corrupted pair of scikit-learn's 1,797 digits of 8 × 8 pixels, which need no download.

    Parameters
    ----------
    preserved
        Share of the pixels that the corruption does not change.
    n_x, n_y
        Sizes of the samples; by default half of the images each, or all images not in the other sample.
    random_state
        Seed of the samples and of the corruption.

    Examples
    --------
    >>> load_digits_pair(0.5, n_x=100, n_y=200, random_state=0).y.shape
    (200, 64)
    """
    from sklearn.datasets import load_digits

    data, target = load_digits(return_X_y=True)
    if n_x is None:
        n_x = len(data) // 2 if n_y is None else len(data) - n_y
    if n_y is None:
        n_y = len(data) - n_x
    return corrupted_pair(data, target, n_x, n_y, preserved, random_state)
