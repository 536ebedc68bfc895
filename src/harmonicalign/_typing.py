"""Names for the types that pass between users and the stages; one name per idea."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

__all__ = [
    "Anchors",
    "Array",
    "ArrayLike",
    "Bandwidth",
    "Covariates",
    "Datasets",
    "FloatArray",
    "Labels",
    "Matrix",
    "MatrixLike",
    "Pair",
    "PathLike",
    "RandomState",
    "SparseMatrix",
]

Array: TypeAlias = np.ndarray[Any, Any]
"""A plain array of any shape and type."""

FloatArray: TypeAlias = np.ndarray[Any, np.dtype[np.floating[Any]]]
"""A plain array of floating-point numbers."""

Matrix: TypeAlias = Any
"""Rows by columns: a plain array, or a scipy CSR matrix, which has no static type."""

SparseMatrix: TypeAlias = sp.spmatrix | sp.sparray
"""A scipy sparse matrix of any format."""

MatrixLike: TypeAlias = ArrayLike | SparseMatrix
"""Rows by columns as users pass them: an array, nested lists, a data frame or a sparse matrix."""

Datasets: TypeAlias = MatrixLike | Sequence[MatrixLike] | Mapping[Hashable, MatrixLike]
"""One or several datasets as users pass them: a matrix, a list of them, or a dict that names them."""

Anchors: TypeAlias = ArrayLike | Mapping[tuple[Hashable, Hashable], ArrayLike]
"""Rows known to match: pairs of row numbers of two datasets, or such pairs by pair of datasets."""

Bandwidth: TypeAlias = float | str | ArrayLike | Callable[[Array], ArrayLike]
"""Scale of a kernel: one for all rows, one for each, a rule by name, or a function of the rows."""

Pair: TypeAlias = tuple[Array, Array]
"""One array for each of two datasets."""

Labels: TypeAlias = ArrayLike | Sequence[object]
"""One label per row: text, numbers or truth values; None where a missing label is allowed."""

Covariates: TypeAlias = Labels | Sequence[Labels] | Mapping[Any, Labels]
"""One label per row of every dataset: a sequence for one matrix, else a list or dict of sequences."""

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
"""Where random numbers come from: a seed, a generator of either kind, or None for a new one."""

PathLike: TypeAlias = str | os.PathLike[str]
"""A file or folder."""
