"""What pictures are drawn of, checked and brought to one form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harmonicalign._typing import Array

__all__ = ["enumerated", "names_of", "per_dataset", "vector"]


def enumerated(items: Any) -> list[tuple[int, Any]]:
    """Items with their numbers; there must be some."""
    listed = list(items)
    if not listed:
        raise ValueError("there is nothing to draw: the list of arrays is empty")
    return list(enumerate(listed))


def vector(name: str, values: Any) -> Array:
    """A list of finite numbers."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"{name} has shape {array.shape}; it must be a list of one or more finite numbers")
    return array


def names_of(
    names: Sequence[str] | None, n: int, kind: str = "dataset", of: str = "the datasets"
) -> list[str]:
    """Names as given, one for each of n; by default their numbers."""
    if names is None:
        return [f"{kind} {i}" for i in range(n)]
    if len(names) != n:
        raise ValueError(f"names has {len(names)} entries but {of} are {n}; pass one for each")
    return [str(name) for name in names]


def per_dataset(name: str, values: Sequence[Any], coords: list[Array]) -> list[tuple[int, Any]]:
    """Values with the numbers of their datasets, one for each row of each."""
    if len(values) != len(coords):
        raise ValueError(f"{name} has {len(values)} arrays for {len(coords)} datasets; pass one for each")
    for i, (v, c) in enumerate(zip(values, coords, strict=True)):
        if np.shape(v) != (len(c),):
            raise ValueError(f"{name}[{i}] has shape {np.shape(v)} but dataset {i} has {len(c)} rows")
    return list(enumerate(values))
