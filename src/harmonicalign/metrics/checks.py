"""What every metric needs: inputs in one form (or an error that says what is wrong), neighbours, counts."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, ArrayLike, Labels, Matrix, MatrixLike
from harmonicalign.inputs.blocks import blocks, neighbour_blocks
from harmonicalign.inputs.names import refuse_other_orders
from harmonicalign.inputs.validate import check_integer, check_rows

__all__ = [
    "as_columns",
    "blocks",
    "count_per_row",
    "dense",
    "dense_part",
    "neighbour_blocks",
    "neighbour_count",
    "of_one_width",
    "paired",
    "row_labels",
    "row_weights",
]


def dense(name: str, x: MatrixLike) -> Array:
    """Dense rows in double precision."""
    if sp.issparse(x):
        raise ValueError(f"{name} is sparse; pass the aligned (or reduced) coordinates, or {name}.toarray()")
    return np.asarray(check_rows(name, x), dtype=np.float64)


def of_one_width(name: str, x: MatrixLike, other: str, y: MatrixLike) -> tuple[Array, Array]:
    """Dense rows of two datasets in one space."""
    refuse_other_orders(f"{name} and {other}", [x, y])
    x, y = dense(name, x), dense(other, y)
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"{name} has {x.shape[1]} columns but {other} has {y.shape[1]}; "
            "distances across datasets need one space: pass the aligned coordinates"
        )
    return x, y


def paired(x: MatrixLike, y: MatrixLike, *, same_width: bool) -> tuple[Array, Array]:
    """Dense rows of two datasets, which are pairs."""
    x, y = of_one_width("x", x, "y", y) if same_width else (dense("x", x), dense("y", y))
    if len(x) != len(y):
        raise ValueError(
            f"x has {len(x)} rows but y has {len(y)}; "
            "the rows must be pairs: put the partners in the same order"
        )
    return x, y


def neighbour_count(name: str, k: int, available: int, of: str) -> int:
    """A number of neighbours, no more than there are rows to choose from."""
    count = check_integer(name, k, minimum=1)
    if count > available:
        raise ValueError(f"{name} is {count} but {of} has only {available} rows to choose from; lower {name}")
    return count


def row_labels(name: str, labels: Labels, of: str, rows: Array) -> Array:
    """One label per row, none missing and all of one type."""
    array = np.asarray(labels)
    if array.shape != (len(rows),):
        raise ValueError(
            f"{name} has shape {array.shape} but {of} has {len(rows)} rows; pass one label per row"
        )
    if array.dtype.kind not in "fO":
        return array
    n_missing = sum(value is None or value != value for value in array.tolist())
    if n_missing:
        raise ValueError(f"{name} has {n_missing} missing value(s); leave those rows out")
    if array.dtype.kind == "O" and not all(isinstance(value, str) for value in array):
        raise ValueError(f"{name} mixes types; pass strings only, for example {name}.astype(str)")
    return array.astype(str) if array.dtype.kind == "O" else array


def as_columns(name: str, x: MatrixLike) -> Matrix:
    """A matrix whose columns can be sliced: dense, or compressed by column."""
    if sp.issparse(x):
        return sp.csc_matrix(check_rows(name, x))
    return check_rows(name, np.asarray(x)[:, None] if np.ndim(x) == 1 else x)


def dense_part(x: Matrix, columns: slice) -> Array:
    """Some columns of a matrix, dense or sparse, as a dense array."""
    part = x[:, columns]
    return np.asarray(part.toarray() if isinstance(part, sp.csc_matrix) else part, dtype=np.float64)


def row_weights(name: str, weights: ArrayLike | None, n: int) -> Array:
    """Weights of rows that add up to one."""
    if weights is None:
        return np.full(n, 1 / n)
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"{name} has shape {weights.shape} but there are {n} rows; pass one weight per row")
    total = weights.sum()
    if not np.isfinite(total) or (weights < 0).any() or total <= 0:
        raise ValueError(f"{name} must be finite, not negative, and not all zero")
    return np.asarray(weights / total)


def count_per_row(codes: Array, n_codes: int) -> Array:
    """Histogram of every row of an integer matrix, (rows, n_codes)."""
    offset = np.arange(len(codes))[:, None] * n_codes
    counts = np.bincount((codes + offset).ravel(), minlength=len(codes) * n_codes)
    return np.asarray(counts.reshape(len(codes), n_codes))
