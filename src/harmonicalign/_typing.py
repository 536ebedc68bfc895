"""Names for the kinds of arrays that pass between the stages."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["Array", "FloatArray", "Matrix", "Pair"]

Array: TypeAlias = np.ndarray[Any, Any]
"""A plain array of any shape and type."""

FloatArray: TypeAlias = np.ndarray[Any, np.dtype[np.floating[Any]]]
"""A plain array of floating-point numbers."""

Matrix: TypeAlias = Any
"""Rows by columns: a plain array, or a scipy CSR matrix, which has no static type."""

Pair: TypeAlias = tuple[Array, Array]
"""One array for each of two datasets."""
