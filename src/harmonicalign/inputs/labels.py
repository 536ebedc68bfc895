"""Labels of rows as plain objects, whatever they came in, and which of them are missing."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from harmonicalign._typing import Array, Labels

__all__ = ["batch_codes", "is_missing", "label_objects"]


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, NA, NaT or masked."""
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and value != value


def label_objects(name: str, labels: Any) -> list[Any]:
    """One plain Python object per row; missing ones are as they were, masked ones are None.

    Lists are taken item by item, because numpy would make text of numbers beside text, and of NaN.
    """
    if isinstance(labels, list | tuple):
        items = list(labels)
    elif isinstance(labels, np.ma.MaskedArray):
        items = labels.tolist() if labels.ndim == 1 else [labels]
    elif hasattr(labels, "to_pylist"):
        items = labels.to_pylist()
    elif hasattr(labels, "dtype") and not isinstance(labels, np.ndarray | np.generic):
        _refuse_dates(name, getattr(labels.dtype, "kind", ""))
        items = labels.tolist() if hasattr(labels, "tolist") else labels.to_list()
    else:
        array = np.asarray(labels)
        _refuse_dates(name, array.dtype.kind)
        if array.ndim != 1:
            raise ValueError(f"{name} has shape {array.shape}; pass one label per row, not a table")
        items = array.tolist()
    if isinstance(labels, np.ma.MaskedArray) and labels.ndim != 1:
        raise ValueError(f"{name} has shape {labels.shape}; pass one label per row, not a table")
    return [v.item() if isinstance(v, np.generic) and v.dtype.kind not in "Mm" else v for v in items]


def batch_codes(name: str, batch: Labels, n: int, of: str) -> tuple[list[Hashable], Array]:
    """Names of the datasets, sorted, and the number of every row's dataset.

    Every row needs a label, and all must be text, or all numbers: 1 and "1" would otherwise be one dataset
    in some places and two in others.
    """
    if isinstance(batch, str):
        raise ValueError(f"{name} is the text {batch!r}; pass the labels themselves, one per row of {of}")
    shape = (len(batch),) if isinstance(batch, list | tuple) else np.asarray(batch).shape
    if len(shape) != 1 or shape[0] != n:
        raise ValueError(f"{name} has shape {shape} but {of} has {n} rows; give one label per row")
    if type(batch) is np.ndarray and batch.dtype.kind in "iubU":
        names, codes = np.unique(batch, return_inverse=True)
        return names.tolist(), codes
    items = label_objects(name, batch)
    if missing := sum(map(is_missing, items)):
        raise ValueError(
            f"{name} contains NaN: {missing} of {n} rows have no label; every row needs that of its dataset, "
            "so fill it in or leave these rows out"
        )
    if len({_kind(item) for item in items}) > 1:
        raise ValueError(
            f"{name} mixes labels that cannot be sorted or told apart, such as text with numbers (1 and "
            "'1'); make them all text"
        )
    if items and _kind(items[0]) == "other":
        raise ValueError(
            f"{name} has labels of type {type(items[0]).__name__}; make them all text: "
            "[str(label) for label in labels]"
        )
    names, codes = np.unique(np.asarray(items), return_inverse=True)
    return names.tolist(), codes


def _kind(item: object) -> str:
    if isinstance(item, bool):
        return "truth value"
    if isinstance(item, int | float):
        return "number"
    return type(item).__name__ if isinstance(item, str | bytes) else "other"


def _refuse_dates(name: str, kind: str) -> None:
    if kind in ("M", "m"):
        raise ValueError(f"{name} holds dates or times; make them text, for example {name}.astype(str)")
