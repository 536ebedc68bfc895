"""Links between different features: which signal of one dataset corresponds to which of another."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Matrix, MatrixLike

__all__ = ["check_links", "link_signals"]


def check_links(links: MatrixLike, expected: tuple[int, int], name: str = "links") -> sp.csr_matrix:
    """Weights of links as a CSR matrix of the expected shape, without zeros.

    Parameters
    ----------
    links
        Weights ≥ 0, dense or sparse.
    expected
        Numbers of signals of the two datasets.
    name
        What to call it in messages.
    """
    try:
        matrix = sp.csr_matrix(links, copy=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a matrix of numbers, first signals by second signals") from error
    if matrix.shape != expected:
        raise ValueError(f"{name} has shape {matrix.shape}; the datasets' signals make it {expected}")
    if matrix.dtype.kind not in "fiub" or not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
        raise ValueError(
            f"{name} must hold finite numbers that are not negative: 0 is no link; where large values of one "
            "signal mean small values of the other, negate that signal instead"
        )
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not matrix.nnz:
        raise ValueError(f"{name} holds no link; give a positive weight to related signals")
    return matrix


def link_signals(links: MatrixLike, *signals: Matrix) -> tuple[Array, Array]:
    """Pairs of columns of two datasets' signals, one per kept link.

    A link is kept if it is the strongest of its row or of its column, so that each signal has its best
    partner and many weak links do not outweigh the strong ones. Which of the kept links correspond is then
    learned in the same way as for other features.

    Parameters
    ----------
    links
        Weights ≥ 0 between the signals of the first and those of the second dataset, (d_x, d_y),
        dense or sparse; 0 is no link.
    *signals
        Signals of the two datasets.

    Returns
    -------
    columns
        For each of the two datasets, the column indices.
    """
    if len(signals) != 2:
        found = "is one" if len(signals) == 1 else f"are {len(signals)}"
        raise ValueError(
            f"links joins the features of two datasets, but there {found}; drop it, or give a dict of links "
            "by pair of datasets"
        )
    x, y = signals
    matrix = check_links(links, (x.shape[1], y.shape[1]))
    coo = matrix.tocoo()
    best_of_row = np.asarray(matrix.max(axis=1).todense()).ravel()[coo.row]
    best_of_column = np.asarray(matrix.max(axis=0).todense()).ravel()[coo.col]
    kept = (coo.data == best_of_row) | (coo.data == best_of_column)
    order = np.lexsort((coo.col[kept], coo.row[kept]))
    return coo.row[kept][order].astype(np.int64), coo.col[kept][order].astype(np.int64)
