"""Validation of rows, labels and values; conversion between classes and their indices."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Labels, Matrix, MatrixLike
from harmonicalign.inputs.frames import layout_of, names_of, numbers_of, opened
from harmonicalign.inputs.labels import is_missing, label_objects
from harmonicalign.inputs.names import columns_like
from harmonicalign.inputs.validate import check_rows

__all__ = [
    "UNASSIGNED",
    "coordinates",
    "encoded",
    "hold_values",
    "label_list",
    "named",
    "same_width",
    "stacked",
    "value_columns",
]

logger = logging.getLogger("harmonicalign")


UNASSIGNED = "unassigned"
"""Label of rows whose confidence is below the threshold; as a source label it means missing."""

_LARGEST = 1e100
"""Largest absolute value accepted, because values are squared."""


def coordinates(name: str, x: MatrixLike) -> Array:
    """Aligned coordinates as a dense array; raises an error for other input."""
    if sp.issparse(x):
        raise ValueError(f"{name} is sparse; pass the aligned coordinates")
    return np.asarray(check_rows(name, x), dtype=np.float64)


def same_width(rows: Array, new: Array) -> None:
    """Check that source and target have the same number of columns."""
    if rows.shape[1] != new.shape[1]:
        raise ValueError(
            f"target has {new.shape[1]} columns but source has {rows.shape[1]}; "
            "pass the aligned coordinates of both"
        )


def stacked(source: MatrixLike | Sequence[MatrixLike], given: object, name: str) -> tuple[Array, list[Any]]:
    """Rows of all sources stacked, and the labels or values of each source."""
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
    """Number of rows, or None if there are no rows."""
    if hasattr(part, "shape"):
        return int(part.shape[0]) if len(part.shape) else None
    return len(part) if hasattr(part, "__len__") and not isinstance(part, str) else None


def label_list(part: Labels) -> list[object]:
    """Labels of one source as a list of plain Python objects; unlabelled rows are mentioned in the log."""
    items = label_objects("labels", part)
    if lost := sum(is_missing(item) for item in items if item is not None):
        logger.warning("labels: %d of %d rows hold NaN, NA or NaT and count as unlabelled", lost, len(items))
    return items


def _missing(label: object) -> bool:
    return is_missing(label) or (isinstance(label, str) and (not label.strip() or label == UNASSIGNED))


def encoded(labels: Sequence[object], n: int) -> tuple[Array, Array]:
    """The classes, sorted if possible, and the class index of every row (−1: none)."""
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
    """An array of one type (text, integers, floats, booleans) if possible, otherwise of dtype object."""
    if any(all(isinstance(v, kind) for v in names) for kind in (str, bool)) or all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in names
    ):
        return np.asarray(names)
    out = np.empty(len(names), dtype=object)
    out[:] = names
    return out


def named(classes: Array, best: Array, unsure: Array | None) -> Array:
    """Labels from class indices; `unsure` rows are unassigned."""
    labels = classes[best]
    if unsure is None:
        return np.asarray(labels)
    # Numbers and text need dtype object; the dtype must not depend on whether any row is unassigned.
    width = f"<U{max(len(UNASSIGNED), labels.dtype.itemsize // 4)}" if labels.dtype.kind == "U" else object
    labels = labels.astype(width)
    labels[unsure] = UNASSIGNED
    return np.asarray(labels)


def hold_values(names: Sequence[object], parts: Sequence[Any], threshold: float | None = None) -> bool:
    """Whether all sources have values (floating-point numbers) rather than labels; a mixture is refused.

    A threshold serves labels and is refused beside values.
    """
    kinds = [_is_floating(part) for part in parts]
    if not kinds:
        raise ValueError("labels is empty; pass the labels of at least one dataset")
    if any(kinds) and not all(kinds):
        raise ValueError(
            f"labels of {names[kinds.index(True)]!r} are values (floating-point numbers), but those of "
            f"{names[kinds.index(False)]!r} are labels; pass labels (text or whole numbers) or values for all"
        )
    if all(kinds) and threshold is not None:
        raise ValueError(
            "threshold serves labels, but these are values (floating-point numbers), which have a spread; "
            "drop threshold, or pass labels as text or whole numbers"
        )
    if all(kinds) and all(_looks_like_codes(part) for part in parts):
        logger.warning(
            "labels are floating-point numbers and are transferred as values, although all are whole; if "
            "they are classes, pass whole numbers or text (pandas makes numbers with gaps floating-point: "
            'labels.astype("Int64") undoes that)'
        )
    return all(kinds)


def _is_floating(part: Any) -> bool:
    """Whether an argument holds floating-point numbers, of whatever library it is."""
    if isinstance(part, list | tuple):
        known = [item for item in part if not is_missing(item)]
        if len(known) < len(part) and not any(isinstance(item, float | np.floating) for item in known):
            return False  # NaN among whole numbers or text: labels, some of them missing
        return bool(known) and np.asarray(known).dtype.kind == "f"
    part = opened(part)
    if layout_of(part).names is not None:
        return bool(np.asarray(numbers_of("values", part)).dtype.kind == "f")
    kind = getattr(getattr(part, "dtype", None), "kind", None)
    if kind is None and hasattr(part, "to_numpy"):
        return str(getattr(part, "dtype", getattr(part, "type", ""))).lower().startswith(("float", "double"))
    return bool((np.asarray(part).dtype.kind if kind is None else kind) == "f")


def _looks_like_codes(part: Any) -> bool:
    """Whether numbers are whole and recur as labels do, with gaps among them."""
    if sp.issparse(part) or np.ndim(part) != 1:
        return False
    values = _plain_values(part)
    known = values[~np.isnan(values)]
    return bool(
        0 < len(known) < len(values)
        and (known == np.round(known)).all()
        and 2 * len(np.unique(known)) <= len(known)
    )


def _plain_values(part: Any) -> Array:
    """Values as numbers, NaN where they are missing."""
    if sp.issparse(part):
        part = part.toarray()
    part = numbers_of("values", part)
    if isinstance(part, np.ma.MaskedArray):
        part = np.ma.filled(part.astype(np.float64), np.nan)
    if hasattr(part, "to_numpy") and str(getattr(part, "dtype", ""))[:1].isupper():  # may hold NA
        part = [np.nan if is_missing(item) else item for item in part.to_list()]
    if np.asarray(part).dtype.kind in "Mm":
        raise ValueError("values are dates or times; turn them into numbers, such as days, first")
    try:
        return np.asarray(part, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"values must be numbers ({error}); use transfer_labels for labels") from error


def value_columns(parts: Sequence[Matrix], n: int) -> tuple[Array, bool]:
    """Values of all sources as columns, and whether they were given as one-dimensional arrays."""
    tables = []
    for part in _same_columns(parts):
        table = _plain_values(part)
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


def _same_columns(parts: Sequence[Any]) -> Sequence[Any]:
    """Values of all sources with columns in the order of the first, where they have names."""
    names = [names_of(part) for part in parts]
    if names[0] is None or any(n is None or sorted(n) != sorted(names[0]) for n in names):
        if any(n is not None for n in names) and len(parts) > 1:
            raise ValueError(
                "values of the sources have different columns, or only some have names; pass the same columns"
            )
        return parts
    return [columns_like("values", part, None, names[0], f"source {i}") for i, part in enumerate(parts)]
