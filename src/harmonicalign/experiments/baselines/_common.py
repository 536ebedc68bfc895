"""Shared by the comparison methods: validation of input, joint PCA, pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

Embedding: TypeAlias = NDArray[np.float64]
Dataset: TypeAlias = NDArray[np.generic] | sparse.csr_array | sparse.csr_matrix
Checked: TypeAlias = NDArray[np.float64] | sparse.csr_array


def check_datasets(
    datasets: Sequence[Dataset], *, exactly: int | None = None, same_columns: bool = True
) -> list[Checked]:
    """Datasets as float64 matrices (dense or CSR); raises a ValueError for invalid input.

    Parameters
    ----------
    datasets
        Two or more matrices, rows are observations.
    exactly
        The number of datasets the method can take; None for any number from two.
    same_columns
        Whether all must have the same number of columns.
    """
    if not isinstance(datasets, Sequence):
        raise ValueError(
            f"datasets: expected a list of matrices, found {type(datasets).__name__}; pass [x, y]"
        )
    if len(datasets) < 2:
        raise ValueError(f"datasets: need at least two to align, found {len(datasets)}; pass [x, y]")
    if exactly is not None and len(datasets) != exactly:
        raise ValueError(
            f"datasets: this method takes exactly {exactly}, found {len(datasets)}; align them pair by pair"
        )
    checked = [_check_one(data, i) for i, data in enumerate(datasets)]
    columns = [x.shape[1] for x in checked]
    if same_columns and len(set(columns)) > 1:
        raise ValueError(
            f"datasets: this method needs the same columns in every dataset, found {columns}; "
            "keep only the shared features, in the same order"
        )
    return checked


def check_dense(
    datasets: Sequence[Dataset], *, exactly: int | None = None, same_columns: bool = True
) -> list[NDArray[np.float64]]:
    """The same as `check_datasets`, sparse input made dense."""
    checked = check_datasets(datasets, exactly=exactly, same_columns=same_columns)
    return [x.toarray() if isinstance(x, sparse.csr_array) else x for x in checked]


def _check_one(data: Dataset, i: int) -> Checked:
    x: Checked
    try:
        if sparse.issparse(data):
            x = sparse.csr_array(data).astype(np.float64)
        else:
            x = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"datasets[{i}]: not a numeric matrix ({error}); convert it to numbers") from error
    if x.ndim != 2:
        raise ValueError(
            f"datasets[{i}]: expected rows by columns, found {x.ndim} dimension(s); reshape it to two"
        )
    if 0 in x.shape:
        raise ValueError(f"datasets[{i}]: is empty, shape {x.shape}; leave it out")
    values = x.data if isinstance(x, sparse.csr_array) else x
    if bad := int(np.count_nonzero(~np.isfinite(values))):
        raise ValueError(f"datasets[{i}]: {bad} values are NaN or infinite; remove or impute them")
    return x


def check_positive(**values: float | None) -> None:
    """Raise a ValueError naming the first parameter that is not positive; None means "not set"."""
    for name, value in values.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name}={value}: must be positive; raise it")


def check_pairs(pairs: ArrayLike | None, n_x: int, n_y: int) -> NDArray[np.intp]:
    """Known pairs as an array of row indices; None means that the rows correspond in order.

    Parameters
    ----------
    pairs
        One line per pair: a row index of the first dataset and one of the second.
    n_x, n_y
        Rows of the two datasets.
    """
    if pairs is None:
        if n_x != n_y:
            raise ValueError(
                f"pairs=None: rows correspond in order only for equal sizes, found {n_x} and {n_y} rows; "
                "pass pairs as an array of shape (n_pairs, 2)"
            )
        return np.column_stack([np.arange(n_x), np.arange(n_x)])
    found = np.asarray(pairs)
    if found.ndim != 2 or found.shape[1] != 2 or not np.issubdtype(found.dtype, np.integer):
        raise ValueError(
            f"pairs: expected integers of shape (n_pairs, 2), found {found.dtype} of shape {found.shape}; "
            "give one line (row of x, row of y) per pair"
        )
    if len(found) < 2:
        raise ValueError(f"pairs: found {len(found)}; at least two are needed, give more")
    if found.min() < 0 or np.any(found.max(axis=0) >= (n_x, n_y)):
        raise ValueError(
            f"pairs: row numbers run from {found.min()} to {found.max(axis=0).tolist()} for datasets of "
            f"{n_x} and {n_y} rows; number rows from 0"
        )
    return found.astype(np.intp)


def joint_pca(datasets: Sequence[Checked], n_components: int, random_state: int | None) -> list[Embedding]:
    """Joint principal components of all rows, split by dataset; sparse input is not made dense.

    The number of components is reduced if the data have fewer.
    """
    from sklearn.decomposition import PCA

    if any(sparse.issparse(x) for x in datasets):
        stacked: Checked = sparse.csr_array(sparse.vstack([sparse.csr_array(x) for x in datasets]))
        solver = "arpack"
    else:
        stacked, solver = np.vstack([np.asarray(x) for x in datasets]), "auto"
    # strictly fewer than either side: a limit of ARPACK, and the last component is zero after centring
    largest = max(1, min(stacked.shape) - 1)
    pca = PCA(min(n_components, largest), svd_solver=solver, random_state=random_state)
    return split(np.asarray(pca.fit_transform(stacked)), datasets)


def split(stacked: NDArray[np.float64], datasets: Sequence[Checked]) -> list[Embedding]:
    """Split a matrix of all rows into one per dataset."""
    return np.split(stacked, np.cumsum([x.shape[0] for x in datasets])[:-1])
