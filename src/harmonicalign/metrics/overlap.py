"""Neighbourhoods of paired rows: how much of them two datasets share, size by size or in one number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, MatrixLike, RandomState
from harmonicalign.inputs.validate import check_integer, check_number, check_rows, random_state_from
from harmonicalign.metrics.checks import dense, neighbour_blocks, neighbour_count, paired

__all__ = ["knn_auc", "neighbourhood_overlap"]


def neighbourhood_overlap(
    x: MatrixLike,
    y: MatrixLike,
    sizes: int | Sequence[int] = 10,
    *,
    reference: MatrixLike | None = None,
    mode: str = "across",
) -> Array:
    r"""Overlap of the neighbourhoods of paired rows, for every neighbourhood size (the paper's Fig. 3d).

    With pairs :math:`f(i) \in F` (row i of ``x``) and :math:`g(i) \in G` (row i of ``y``), the value for
    size k is the mean over i of

    .. math:: \frac1k \left| N_k(f(i); F) \cap N_k(g(i); F) \right|  \qquad (\text{across})

    .. math:: \frac1k \left| N_k(f(i); F ∖ f(i)) \cap N_k(g(i); G ∖ g(i)) \right|  \qquad (\text{within})

    where :math:`N_k(z; F)` holds the indices of the k rows of F nearest to z. ``across`` asks whether a row
    of ``y`` is placed where its partner is: its neighbours are sought among the rows of ``x``, the partner
    is one of the candidates, and size 1 is the share of partners found exactly. ``within`` is
    the paper's sentence taken literally. It does not change when either dataset is moved rigidly, so it tells
    whether the two geometries agree, not whether they have been aligned. Chance is about k/n,
    and more where rows crowd together. Exchange ``x`` and ``y`` for the other direction of ``across``.

    Parameters
    ----------
    x, y
        Aligned datasets of n paired rows each; of one width for ``across``.
    sizes
        One or more neighbourhood sizes k.
    reference
        Where the true neighbourhoods :math:`N_k(f(i); F)` are taken, (n, any width): usually the rows of
        ``x`` before alignment, so that an alignment that flattens ``x`` gains nothing by it. Default: ``x``.
    mode
        ``"across"`` or ``"within"``.

    Returns
    -------
    overlap
        (number of sizes,), each between 0 and 1.

    See Also
    --------
    knn_auc : the mean of this curve over sizes up to a tenth of the rows.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [3.0], [7.0]])
    >>> neighbourhood_overlap(x, x + 0.1, sizes=[1, 2])
    array([1., 1.])
    >>> neighbourhood_overlap(x, x + 100.0, sizes=[1, 2])
    array([0.25 , 0.375])
    """
    if mode not in ("across", "within"):
        raise ValueError(f"mode is {mode!r}; it must be 'across' or 'within'")
    x, y = paired(x, y, same_width=mode == "across")
    truth = x if reference is None else dense("reference", reference)
    if len(truth) != len(x):
        raise ValueError(
            f"reference has {len(truth)} rows but x has {len(x)}; "
            "it must hold the same rows in the same order"
        )
    wanted = np.atleast_1d(np.asarray(sizes, dtype=object))
    if wanted.ndim != 1 or wanted.size == 0:
        raise ValueError(f"sizes is {sizes!r}; pass one neighbourhood size or a list of them")
    largest = max(neighbour_count("sizes", k, len(x) - (mode == "within"), "x") for k in wanted)
    curve = _overlap_curve(truth, x, y, largest, mode)
    return np.asarray(curve[wanted.astype(np.int64) - 1])


def knn_auc(
    x: MatrixLike,
    y: MatrixLike,
    reference: MatrixLike,
    *,
    proportion: float = 0.1,
    n_components: int | None = 100,
    random_state: RandomState = None,
) -> float:
    r"""Area under the curve of neighbourhoods found, as in Open Problems' matching of modalities.

    The mean over k = 1 … K of the ``across`` :func:`neighbourhood_overlap`,

    .. math:: \frac1K \sum_{k=1}^{K} \frac1n \sum_i
              \frac1k \left| N_k(r_i; R) \cap N_k(y_i; X) \right|, \qquad K = ⌈\text{proportion} · n⌉,

    with the true neighbourhoods (each row its own first neighbour) taken in a truncated SVD R of the first
    modality before alignment. Chance is about ``proportion / 2``, and more where rows
    crowd together.

    Parameters
    ----------
    x, y
        The aligned modalities, n paired rows each, of one width.
    reference
        The first modality before alignment, (n, any width), dense or sparse.
    proportion
        The largest neighbourhood, as a share of the rows, in (0, 1].
    n_components
        Width of the truncated SVD of ``reference``. A narrower ``reference``, or None, is used as it is (Open
        Problems would drop its last component).
    random_state
        Start of the SVD's iteration; it does not change the result beyond rounding.

    Returns
    -------
    area
        Between 0 and 1.

    Examples
    --------
    >>> x = np.arange(20.0)[:, None] ** 1.5
    >>> knn_auc(x, x, reference=x)
    1.0
    """
    x, y = paired(x, y, same_width=True)
    proportion = check_number("proportion", proportion, above=0.0, maximum=1.0)
    matrix = check_rows("reference", reference)
    if matrix.shape[0] != len(x):
        raise ValueError(
            f"reference has {matrix.shape[0]} rows but x has {len(x)}; "
            "it must hold the same rows in the same order"
        )
    if n_components is not None:
        n_components = check_integer("n_components", n_components, minimum=1)
    if n_components is not None and n_components < min(matrix.shape):
        from sklearn.decomposition import TruncatedSVD

        svd = TruncatedSVD(n_components, algorithm="arpack", random_state=random_state_from(random_state))
        matrix = svd.fit_transform(matrix)
    truth = matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
    largest = int(np.ceil(proportion * len(x)))
    return float(np.mean(_overlap_curve(truth, x, y, largest, "across")))


def _overlap_curve(truth: Array, x: Array, y: Array, largest: int, mode: str) -> Array:
    """Mean overlap for every size 1 … largest.

    An index found at rank a in the one list and b in the other is shared by all sizes above max(a, b), so
    one histogram of these ranks gives the whole curve.
    """
    n = len(x)
    shared = np.zeros(largest, dtype=np.int64)
    within = mode == "within"
    place = np.arange(largest)
    true_blocks = neighbour_blocks(truth, truth, largest, width=n, exclude_self=within)
    found_blocks = neighbour_blocks(y if within else x, y, largest, width=n, exclude_self=within)
    for (_, true), (_, found) in zip(true_blocks, found_blocks, strict=True):
        rank = np.full((len(true), n), largest)
        np.put_along_axis(rank, true, place[None, :], axis=1)
        last = np.maximum(np.take_along_axis(rank, found, axis=1), place)
        shared += np.bincount(last[last < largest], minlength=largest)
    return np.asarray(np.cumsum(shared) / (n * np.arange(1, largest + 1)))
