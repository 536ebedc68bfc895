"""What is to be drawn, brought to one form, or an error that says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

from harmonicalign._typing import Array, ArrayLike

__all__ = ["names_of", "numbered", "per_dataset", "vector"]

_Item = TypeVar("_Item")


def numbered(items: Iterable[_Item]) -> list[tuple[int, _Item]]:
    """Arrays with their numbers; there must be one or more."""
    listed = list(items)
    if not listed:
        raise ValueError("there is nothing to draw: the list of arrays is empty")
    return list(enumerate(listed))


def vector(name: str, values: ArrayLike) -> Array:
    """One or more finite numbers."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"{name} has shape {array.shape}; it must be a list of one or more finite numbers")
    return array


def names_of(
    names: Sequence[str] | None, n: int, kind: str = "dataset", of: str = "the datasets"
) -> list[str]:
    """One name for each of n things; by default their numbers."""
    if names is None:
        return [f"{kind} {i}" for i in range(n)]
    if len(names) != n:
        raise ValueError(f"names has {len(names)} entries but {of} are {n}; pass one for each")
    return [str(name) for name in names]


def per_dataset(name: str, values: Sequence[_Item], coords: list[Array]) -> list[tuple[int, _Item]]:
    """Values for every row of every dataset, with the numbers of the datasets."""
    if len(values) != len(coords):
        raise ValueError(f"{name} has {len(values)} arrays for {len(coords)} datasets; pass one for each")
    for i, (v, c) in enumerate(zip(values, coords, strict=True)):
        if (shape := np.asarray(v).shape) != c.shape[:1]:
            raise ValueError(f"{name}[{i}] has shape {shape} but dataset {i} has {c.shape[0]} rows")
    return list(enumerate(values))
