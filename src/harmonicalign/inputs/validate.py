"""Validation of arguments: every error names the argument, what was found and what to do."""

from __future__ import annotations

import datetime
import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._exceptions import NotNumbersError
from harmonicalign._typing import Array, Matrix, MatrixLike, RandomState
from harmonicalign.inputs.frames import numbers_of
from harmonicalign.inputs.labels import is_missing

__all__ = [
    "check_data",
    "check_integer",
    "check_number",
    "check_rows",
    "check_symmetric",
    "random_state_from",
]


_RANGE = (1e-50, 1e50)
"""Range in which squares and products of a few numbers stay within double precision."""

_SINGLE_RANGE = (1e-9, 1e9)
"""The same for single precision."""


def check_number(
    name: str,
    value: object,
    *,
    minimum: float = -np.inf,
    maximum: float = np.inf,
    above: float = -np.inf,
) -> float:
    """A finite real number within its range, as a float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if not np.isfinite(number) or not minimum <= number <= maximum or not number > above:
        lower = f"> {above:g}" if above > -np.inf else f">= {minimum:g}" if minimum > -np.inf else ""
        upper = f"<= {maximum:g}" if maximum < np.inf else ""
        allowed = " and ".join(part for part in (lower, upper) if part) or "finite"
        raise ValueError(f"{name} must be {allowed}, got {number:g}")
    return number


def check_integer(name: str, value: object, *, minimum: int = 0, maximum: int | None = None) -> int:
    """A whole number within its range, as an int."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    number = int(value)
    if number < minimum or (maximum is not None and number > maximum):
        allowed = f">= {minimum}" if maximum is None else f"between {minimum} and {maximum}"
        raise ValueError(f"{name} must be {allowed}, got {number}")
    return number


def check_rows(name: str, x: MatrixLike, *, min_rows: int = 1) -> Matrix:
    """A finite real matrix, dense (float32 or float64) or CSR; the input itself is never written to.

    Integers and booleans become float64. Tables of pandas, polars and pyarrow are taken as they are. Missing
    entries (NaN, NA, masked) and entries that are no numbers (text, dates, categories) raise an error.
    """
    x = numbers_of(name, x)
    if sp.issparse(x):
        matrix = sp.csr_matrix(x)
        if matrix.dtype.kind not in "fiub":
            raise ValueError(f"{name} has entries of type {matrix.dtype}; it must hold real numbers")
        matrix = matrix.astype(_float_type(matrix.dtype), copy=False)
        values = matrix.data
    else:
        matrix = _dense_numbers(name, x)
        values = matrix
    n_rows, n_columns = matrix.shape
    if n_rows < min_rows:
        raise ValueError(
            f"{name} has {n_rows} row(s) (shape={matrix.shape}) while a minimum of {min_rows} is required"
        )
    if n_columns == 0:
        raise ValueError(f"{name} has 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required.")
    if not np.isfinite(values).all():
        n_nan, n_inf = int(np.isnan(values).sum()), int(np.isinf(values).sum())
        raise ValueError(
            f"{name} contains {n_nan} NaN and {n_inf} infinity value(s); "
            "drop or impute those rows or columns before aligning"
        )
    return matrix


def check_data(name: str, x: MatrixLike, *, min_rows: int = 1) -> Matrix:
    """`check_rows`, and a check that values can be squared and summed without overflow.

    Values outside this range are probably a mistake and would overflow or underflow in a later stage. Values
    in single precision that need a wider range become float64.
    """
    matrix = check_rows(name, x, min_rows=min_rows)
    values = matrix.data if sp.issparse(matrix) else matrix
    largest = max(float(values.max(initial=0)), -float(values.min(initial=0)))
    if largest == 0:
        return matrix
    least, most = _RANGE
    if not least <= largest <= most:
        raise ValueError(
            f"{name} has its largest value at {largest:.3g}; it must be between {least:g} and {most:g}: "
            "multiply the data by a constant, or drop the rows or columns with such values"
        )
    if matrix.dtype == np.float32 and not _SINGLE_RANGE[0] <= largest <= _SINGLE_RANGE[1]:
        return matrix.astype(np.float64)
    return matrix


def _dense_numbers(name: str, x: Any) -> Array:
    """A dense matrix of float32 or float64, which may hold NaN."""
    if isinstance(x, np.ma.MaskedArray):
        if n_masked := int(np.ma.getmaskarray(x).sum()):
            raise ValueError(
                f"{name} has {n_masked} masked value(s), which are missing; "
                "drop or impute those rows or columns before aligning"
            )
        x = x.data
    try:
        matrix = np.asarray(x)
    except ValueError as error:
        raise ValueError(
            f"{name} has rows of different lengths; give each as many columns, or, if they are "
            "datasets of one column, reshape each with .reshape(-1, 1)"
        ) from error
    if matrix.ndim != 2:
        raise ValueError(
            f"{name} has {matrix.ndim} dimension(s); expected 2D array of rows by columns. "
            "Reshape your data, for example with .reshape(-1, 1) for a single column"
        )
    if matrix.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has entries of type {matrix.dtype}")
    if matrix.dtype.kind == "O":
        matrix = _of_objects(name, matrix)
    if matrix.dtype.kind not in "fiub":
        kind = "dates or times" if matrix.dtype.kind in "Mm" else "text"
        raise NotNumbersError(
            f"{name} has entries of type {matrix.dtype} ({kind}) that are not numbers; "
            "drop or encode such columns first"
        )
    return np.asarray(matrix.astype(_float_type(matrix.dtype), copy=False))


def _of_objects(name: str, matrix: Array) -> Array:
    """Numbers from a matrix of objects, NaN where they are missing."""
    kinds = {type(value) for value in matrix.ravel()}
    foreign = (str, bytes, datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
    if wrong := next((k for k in kinds if issubclass(k, foreign) and k.__name__ != "NaTType"), None):
        raise NotNumbersError(
            f"{name} has entries of type {wrong.__name__} that are not numbers; "
            "drop or encode such columns first"
        )
    if any(kind.__name__ in ("NAType", "NaTType", "MaskedConstant") for kind in kinds):
        filled = [np.nan if is_missing(value) else value for value in matrix.ravel()]
        matrix = np.asarray(filled, dtype=object).reshape(matrix.shape)
    try:
        return np.asarray(matrix.astype(np.float64))
    except (TypeError, ValueError) as error:
        raise NotNumbersError(
            f"{name} has entries that are not numbers ({error}); drop or encode such columns first"
        ) from error


def _float_type(dtype: np.dtype[Any]) -> type[np.float32] | type[np.float64]:
    return np.float32 if dtype == np.float32 else np.float64


def check_symmetric(name: str, matrix: Matrix) -> None:
    """A square matrix equal to its transpose up to rounding."""
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} has shape {matrix.shape}; a precomputed matrix must be square")
    difference = abs(matrix - matrix.T)
    largest = float(difference.max()) if matrix.shape[0] else 0.0
    if largest > 1e-8 * max(1.0, float(abs(matrix).max())):
        raise ValueError(
            f"{name} is not symmetric (entries differ from their mirror by up to {largest:.3g}); "
            "symmetrise it, for example with (m + m.T) / 2"
        )


def random_state_from(random_state: RandomState) -> np.random.RandomState:
    """A `RandomState` from None, a seed, a `RandomState` or a `Generator`."""
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.integers(2**32, dtype=np.uint64))
    from sklearn.utils import check_random_state

    try:
        return check_random_state(random_state)  # type: ignore[no-any-return]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state is {random_state!r}; expected None, a seed from 0 to 2**32 - 1, or a generator"
        ) from error
