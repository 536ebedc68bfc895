"""Labels and quantities as they come: text that compares, and which of the two a column is."""

from __future__ import annotations

from typing import Any

import numpy as np

from harmonicalign._typing import Array

__all__ = ["as_text", "is_categorical"]

_MOST_WHOLE_NUMBERS = 40
"""Integers with more distinct values than this are quantities, not categories."""


def as_text(values: Any) -> Array:
    """Labels as text, the same for 3, 3.0 and "3"; missing ones are empty."""
    values = np.asarray(values)
    if values.dtype.kind in "iubU":
        return np.asarray(values.astype(str))
    return np.array([_text(v) for v in values.tolist()], dtype=str)


def is_categorical(values: Array) -> bool:
    """Strings, booleans and integers with few values are categories; other numbers are quantities."""
    if values.dtype.kind in "fiu":
        known = values[np.isfinite(values)]
        if known.size and (known != np.rint(known)).any():
            return False
        return len(np.unique(known)) <= _MOST_WHOLE_NUMBERS
    return True


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
