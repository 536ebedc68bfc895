"""Tables with named columns, of whatever library: their names, parts of them, their numbers, and back again.

pandas, polars and pyarrow are known by their methods, so none of them is imported or needed. Any other table
that speaks the dataframe interchange protocol, narwhals' included, is read through one of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._exceptions import NotNumbersError
from harmonicalign._typing import Array, Matrix

__all__ = [
    "Layout",
    "Named",
    "check_row_labels",
    "is_dask",
    "layout_of",
    "names_of",
    "numbers_of",
    "opened",
    "part_of",
]


@dataclass(frozen=True, eq=False)
class Named:
    """A matrix and the names of its columns: a table that may also be sparse."""

    matrix: Matrix
    names: list[str]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return tuple(self.matrix.shape)


@dataclass(frozen=True, eq=False)
class Layout:
    """How a table was given, so that results can be given back as such a table.

    Attributes
    ----------
    names
        Names of the columns as text; None for what has none, such as arrays.
    library
        "pandas", "polars" or "pyarrow"; "" for what is no table.
    labels
        Names of the columns as they were, where they are not the text.
    index
        Labels of the rows, which only pandas has.
    """

    names: list[str] | None = None
    library: str = ""
    labels: Any = None
    index: Any = None

    @property
    def is_numbered(self) -> bool:
        """Whether the names are those that pandas and polars give to columns without any."""
        names = self.names or []
        return any(names == [f"{prefix}{i}" for i in range(len(names))] for prefix in ("", "column_"))

    def table(self, values: Matrix, names: Sequence[str] | None = None, index: Any = None) -> Any:
        """Values as a table of the same library; arrays stay what they are.

        Parameters
        ----------
        values
            Rows by columns.
        names
            Which of the columns these are; by default all.
        index
            Labels of the rows, for pandas; by default its own.
        """
        if not self.library or self.names is None:
            return values
        chosen = list(self.names if names is None else names)
        if self.library == "pandas":
            import pandas as pd

            columns = chosen
            if self.labels is not None:
                columns = self.labels[[self.names.index(name) for name in chosen]]
            return pd.DataFrame(values, columns=columns, index=index, copy=False)
        if self.library == "polars":
            import polars as pl

            return pl.DataFrame(values, schema=chosen, orient="row")
        import pyarrow as pa

        return pa.Table.from_arrays([pa.array(column) for column in values.T], names=chosen)

    def storable(self) -> Layout:
        """The same as text and numbers, without objects of a library; other row labels are left out."""
        index = None if self.index is None else np.asarray(self.index)
        if index is not None and index.dtype.kind == "O":
            index = index.astype(str) if all(isinstance(v, str) for v in index) else None
        return replace(self, labels=None, index=None if index is None or index.dtype.kind in "Mm" else index)


def is_dask(x: Any) -> bool:
    """Whether `x` is a dask collection; does not import dask."""
    return type(x).__module__.split(".")[0] == "dask"


def opened(x: Any) -> Any:
    """A table of a known library for a table of any other; everything else stays as it is."""
    if isinstance(x, np.ndarray | list | tuple | Named) or sp.issparse(x):
        return x
    if isinstance(x, Iterator):
        raise ValueError(f"a {type(x).__name__} is neither a matrix nor a list; pass list(…) of it")
    lazy = hasattr(x, "collect") and not hasattr(x, "to_numpy")
    if lazy or (hasattr(x, "compute") and hasattr(x, "columns")):
        raise ValueError(
            f"a {type(x).__name__} is not in memory; pass what its .collect() or .compute() returns"
        )
    if hasattr(x, "iloc") and hasattr(x, "to_pandas"):  # from the memory of a GPU, for example
        return x.to_pandas()
    if _library(x) or not any(hasattr(x, name) for name in ("columns", "column_names", "__dataframe__")):
        return x
    if hasattr(x, "to_native"):
        return opened(x.to_native())
    if hasattr(x, "__arrow_c_stream__") or hasattr(x, "__dataframe__"):
        return _through_pyarrow(x)
    return x


def names_of(x: Any) -> list[str] | None:
    """Names of the columns of a table, as text; None for anything else."""
    return layout_of(x).names


def layout_of(x: Any) -> Layout:
    """How a table is given; an empty layout for anything else."""
    if isinstance(x, Named):
        return Layout(list(x.names))
    x = opened(x)
    library = _library(x)
    if not library:
        return Layout()
    if library == "pandas":
        return Layout([str(c) for c in x.columns], library, x.columns, x.index)
    return Layout([str(c) for c in (x.columns if library == "polars" else x.column_names)], library)


def part_of(x: Any, *, rows: Array | None = None, columns: Sequence[int] | None = None) -> Any:
    """Some rows or columns, in a given order, of a table or matrix, as another one of its kind."""
    x = opened(x)
    library = _library(x)
    if isinstance(x, Named):
        names = x.names if columns is None else [x.names[j] for j in columns]
        return Named(part_of(x.matrix, rows=rows, columns=columns), names)
    if library == "pandas":
        x = x if rows is None else x.iloc[rows]
        return x if columns is None else x.iloc[:, list(columns)]
    if library == "polars":
        x = x if rows is None else x[rows]
        return x if columns is None else x[:, list(columns)]
    if library == "pyarrow":
        x = x if rows is None else x.take(np.asarray(rows))
        return x if columns is None else x.select(list(columns))
    # Masked arrays stay masked, so that missing values can be found.
    matrix = x.tocsr() if sp.issparse(x) else np.asanyarray(x)
    matrix = matrix if rows is None else matrix[rows]
    return matrix if columns is None else matrix[:, list(columns)]


def numbers_of(name: str, x: Any) -> Any:
    """The matrix in a table, with NaN where it has no value; everything else stays as it is.

    Columns of dates, text or categories raise an error: as numbers they would mean nothing.
    """
    if isinstance(x, Named):
        return x.matrix
    x = opened(x)
    library = _library(x)
    if not library:
        return x
    kinds = {"pandas": _pandas_kinds, "polars": _polars_kinds, "pyarrow": _pyarrow_kinds}[library](x)
    if kinds:
        column, kind = next(iter(kinds.items()))
        more = f" (and {len(kinds) - 1} more columns)" if len(kinds) > 1 else ""
        raise NotNumbersError(
            f"{name}: column {column!r}{more} holds {kind}, not numbers; drop or encode such columns first"
        )
    if library == "pandas":
        return _pandas_numbers(x)
    if library == "polars":
        # Row-major as arrays are: the memory layout affects the last digits of results.
        return x.to_numpy(order="c")
    return np.column_stack([column.to_numpy() for column in x.columns]) if x.num_columns else np.asarray(x)


def check_row_labels(name: str, given: Any, index: Any, of: str) -> None:
    """Refuse what has the same row labels as something else in another order.

    Parameters
    ----------
    name, given
        The argument, and its value; only what pandas made has row labels.
    index
        Row labels of what it belongs to, or None.
    of
        What it belongs to, for the message.
    """
    own = getattr(given, "index", None)
    if index is None or own is None or callable(own) or not hasattr(given, "iloc"):
        return
    import pandas as pd

    known = pd.Index(index)
    if len(own) != len(known) or own.equals(known) or not (own.is_unique and known.is_unique):
        return
    if own.isin(known).all():
        raise ValueError(
            f"{name} has the row labels of {of} in another order, and rows are matched by position; put them "
            f"into the same order, for example {name}.loc[X.index], or drop the labels: {name}.to_numpy()"
        )


def _library(x: Any) -> str:
    """The library whose methods a table has; "" for what is no table."""
    if isinstance(x, np.ndarray) or sp.issparse(x):
        return ""
    if hasattr(x, "iloc") and hasattr(x, "columns") and not hasattr(x, "compute"):
        return "pandas"
    if hasattr(x, "column_names") and hasattr(x, "num_columns") and hasattr(x, "combine_chunks"):
        return "pyarrow"
    if hasattr(x, "columns") and hasattr(x, "to_numpy") and hasattr(x, "hstack"):
        return "polars"
    return ""


def _through_pyarrow(x: Any) -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ValueError(
            f"a table of type {type(x).__module__}.{type(x).__name__} is read through pyarrow: "
            "pip install pyarrow, or pass a pandas or polars data frame"
        ) from error
    if isinstance(x, pa.RecordBatch):
        return pa.Table.from_batches([x])
    if hasattr(x, "__arrow_c_stream__"):
        return pa.table(x)
    from pyarrow.interchange import from_dataframe

    return from_dataframe(x)


def _pandas_kinds(frame: Any) -> dict[str, str]:
    """What columns hold that are not numbers, by name; columns of objects are looked into later."""
    found = {}
    for column, dtype in zip(frame.columns, frame.dtypes, strict=True):
        kind, name = getattr(dtype, "kind", "O"), str(dtype)
        if kind in "Mm" or name.startswith(("period", "interval")):
            found[str(column)] = "dates or times"
        elif name == "category":
            found[str(column)] = "categories"
        elif kind in "US" or name.startswith(("string", "str")):
            found[str(column)] = "text"
    return found


def _pandas_numbers(frame: Any) -> Array:
    extended = any(not isinstance(d, np.dtype) and not str(d).startswith("Sparse") for d in frame.dtypes)
    if extended and all(d.kind in "fiub" for d in frame.dtypes):
        return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(frame)


def _polars_kinds(frame: Any) -> dict[str, str]:
    found = {}
    for column, dtype in frame.schema.items():
        if dtype.is_temporal():
            found[column] = "dates or times"
        elif not dtype.is_numeric() and str(dtype) not in ("Boolean", "Null"):
            found[column] = {"String": "text", "Categorical": "categories"}.get(str(dtype), str(dtype))
    return found


def _pyarrow_kinds(table: Any) -> dict[str, str]:
    import pyarrow.types as kinds

    numbers = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal, kinds.is_null)
    found = {}
    for column, kind in zip(table.column_names, table.schema.types, strict=True):
        if not any(of_kind(kind) for of_kind in numbers):
            found[column] = "dates or times" if kinds.is_temporal(kind) else str(kind)
    return found
