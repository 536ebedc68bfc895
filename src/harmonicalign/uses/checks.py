"""Validation of rows with labels or values; classes as numbers and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Labels, Matrix, MatrixLike
from harmonicalign.inputs.validate import check_rows

__all__ = [
    "UNASSIGNED",
    "coordinates",
    "encoded",
    "label_list",
    "named",
    "same_width",
    "stacked",
    "value_columns",
]


UNASSIGNED = "unassigned"
"""Label of rows whose confidence is below the threshold; as a source label it means missing."""

_LARGEST = 1e100
"""Largest absolute value accepted, because values are squared."""


def coordinates(name: str, x: MatrixLike) -> Array:
    """Aligned coordinates as an array, or an error that says what is wrong."""
    if sp.issparse(x):
        raise ValueError(f"{name} is sparse; pass the aligned coordinates")
    return np.asarray(check_rows(name, x), dtype=np.float64)


def same_width(rows: Array, new: Array) -> None:
    """Refuse source and target that are not in one space."""
    if rows.shape[1] != new.shape[1]:
        raise ValueError(
            f"target has {new.shape[1]} columns but source has {rows.shape[1]}; "
            "pass the aligned coordinates of both"
        )


def stacked(source: MatrixLike | Sequence[MatrixLike], given: object, name: str) -> tuple[Array, list[Any]]:
    """Rows of all sources stacked, and what was given for each source."""
    if not (isinstance(source, list | tuple) and len(source) and np.ndim(source[0]) == 2):
        rows = [coordinates("source", source)]
        parts: list[Any] = [given]
    else:
        if not isinstance(given, list | tuple) or len(given) != len(source):
            found = f"{len(given)} of them" if isinstance(given, list | tuple) else type(given).__name__
            raise ValueError(f"source is a list of {len(source)} datasets; {name} must be too, found {found}")
        rows = [coordinates(f"source[{i}]", x) for i, x in enumerate(source)]
        parts = list(given)
    for i, (x, part) in enumerate(zip(rows, parts, strict=True)):
        where = f"[{i}]" if len(rows) > 1 else ""
        if x.shape[1] != rows[0].shape[1]:
            raise ValueError(
                f"source{where} has {x.shape[1]} columns but source[0] has {rows[0].shape[1]}; "
                "pass the aligned coordinates"
            )
        size = _length(part)
        if size != len(x):
            found = "one value" if size is None else f"{size} rows"
            raise ValueError(
                f"{name}{where} has {found} but source{where} has {len(x)} rows; pass one per row"
            )
    return np.vstack(rows), parts


def _length(part: object) -> int | None:
    """Number of rows of anything that has rows."""
    if hasattr(part, "shape"):
        return int(part.shape[0]) if len(part.shape) else None
    return len(part) if hasattr(part, "__len__") and not isinstance(part, str) else None


def label_list(part: Labels) -> list[object]:
    """Labels of one source as a list of plain Python objects."""
    if isinstance(part, list | tuple):
        return [v.item() if isinstance(v, np.generic) else v for v in part]
    array = np.asarray(part)
    if array.ndim != 1:
        raise ValueError(f"labels has shape {array.shape}; pass one label per row, not a table")
    return list(array.tolist())


def _missing(label: object) -> bool:
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(label, str):
        return not label.strip() or label == UNASSIGNED
    return isinstance(label, float) and label != label


def encoded(labels: Sequence[object], n: int) -> tuple[Array, Array]:
    """The classes, sorted where they can be, and the number of every row's class (−1: none)."""
    try:
        found = {label: None for label in labels if not _missing(label)}
    except TypeError as error:
        raise ValueError(f"labels must be hashable, such as text or numbers ({error})") from error
    if not found:
        raise ValueError(f"labels: all {n} source rows are unlabelled; there is nothing to transfer")
    names = list(found)
    try:
        names.sort()
    except TypeError:
        names.sort(key=lambda label: (type(label).__name__, str(label)))
    number = {label: i for i, label in enumerate(names)}
    codes = np.array([-1 if _missing(label) else number[label] for label in labels], dtype=np.int64)
    return _array_of(names), codes


def _array_of(names: list[Any]) -> Array:
    """A plain array of one type (text, integers, floats, booleans), else an array of objects."""
    if any(all(isinstance(v, kind) for v in names) for kind in (str, bool)) or all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in names
    ):
        return np.asarray(names)
    out = np.empty(len(names), dtype=object)
    out[:] = names
    return out


def named(classes: Array, best: Array, unsure: Array | None) -> Array:
    """Labels from class numbers; `unsure` rows are unassigned."""
    labels = classes[best]
    if unsure is None:
        return np.asarray(labels)
    # Numbers and text share no plain type; the type must not depend on whether any row is unassigned.
    width = f"<U{max(len(UNASSIGNED), labels.dtype.itemsize // 4)}" if labels.dtype.kind == "U" else object
    labels = labels.astype(width)
    labels[unsure] = UNASSIGNED
    return np.asarray(labels)


def value_columns(parts: Sequence[Matrix], n: int) -> tuple[Array, bool]:
    """Values of all sources as columns, and whether they came as one plain column."""
    tables = []
    for part in parts:
        part = part.toarray() if sp.issparse(part) else part
        try:
            table = np.asarray(part, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"values must be numbers ({error}); use transfer_labels for labels") from error
        if table.ndim > 2 or np.isinf(table).any():
            problem = f"shape {table.shape}" if table.ndim > 2 else "infinite entries"
            raise ValueError(f"values has {problem}; pass finite numbers, one or several columns of them")
        if np.nanmax(np.abs(table), initial=0) > _LARGEST:
            raise ValueError(f"values reach beyond {_LARGEST:g}, where their squares overflow; divide them")
        tables.append(table)
    if len({t.shape[1:] for t in tables}) > 1:
        raise ValueError(f"values of the sources differ in columns: {[t.shape[1:] for t in tables]}")
    flat = tables[0].ndim == 1
    columns = np.concatenate(tables).reshape(n, -1)
    empty = np.flatnonzero(np.isnan(columns).all(axis=0))
    if empty.size or not columns.shape[1]:
        which = f"column {empty[0]} is missing in all rows" if columns.shape[1] else "there is no column"
        raise ValueError(f"values: {which}; there is nothing to transfer")
    return columns, flat
