"""X or a layer of an AnnData, read block by block from memory, a file or Dask chunks.

Only the rows and columns that are asked for are ever held, and they are normalised on the way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Matrix
from harmonicalign.adapters.scverse._data import lookup

__all__ = ["Matrix", "Store", "column_variances", "looks_like_counts", "read", "whole"]

logger = logging.getLogger("harmonicalign")

_BLOCK_BYTES = 2**25
"""Blocks of rows are about this large."""

_TOTAL = 1e4
"""Counts of a row are scaled to this total before the logarithm, whatever the data."""


@dataclass(frozen=True)
class Store:
    """X (or a layer) of an AnnData, and whether to normalise what is read from it.

    Attributes
    ----------
    adata
        In memory or backed, with a plain, sparse or Dask matrix.
    layer
        Name of the layer; None is X.
    normalize
        Whether to scale rows to equal totals and take ``log(1 + x)``.
    name
        What to call it in messages.
    """

    adata: Any
    layer: str | None
    normalize: bool
    name: str

    @cached_property
    def matrix(self) -> Any:
        """The matrix as stored, by rows."""
        matrix = self.adata.X if self.layer is None else lookup("layers", self.adata.layers, self.layer)
        if matrix is None:
            raise ValueError(f"{self.name} is empty (None); name a layer, or use_rep and signals in obsm")
        if getattr(matrix, "format", None) == "csc" and hasattr(matrix, "to_memory"):
            logger.warning("%s is stored column by column and is read into memory as a whole", self.name)
            matrix = matrix.to_memory()
        return sp.csr_matrix(matrix) if sp.issparse(matrix) and matrix.format != "csr" else matrix

    @property
    def in_memory(self) -> bool:
        """Whether the matrix is a numpy array or a scipy sparse matrix."""
        return sp.issparse(self.matrix) or isinstance(self.matrix, np.ndarray)

    def raw(self, start: int, stop: int) -> Matrix:
        """A range of rows as stored, as a plain array or CSR."""
        if sp.issparse(self.matrix):
            return _csr_rows(self.matrix, start, stop)
        block = self.matrix[start:stop]
        if hasattr(block, "dask"):
            block = block.compute()
        return sp.csr_matrix(block) if sp.issparse(block) else np.asarray(block)

    def blocks(self) -> Iterator[tuple[int, Matrix]]:
        """Ranges of rows from first to last, normalised if that was asked: first row number, and block."""
        for start, stop in self._ranges():
            block = self.raw(start, stop)
            yield start, _log_normalised(block, self.name) if self.normalize else block

    def _ranges(self) -> Iterator[tuple[int, int]]:
        n, d = self.adata.shape
        if hasattr(self.matrix, "chunks") and hasattr(self.matrix, "dask"):
            # A chunk is computed as a whole, so blocks must not cut through one.
            edges = np.concatenate([[0], np.cumsum(self.matrix.chunks[0])])
        else:
            edges = np.arange(n + 1)
        start = 0
        while start < n:
            wanted = start + max(1, int(_BLOCK_BYTES / max(1, _row_bytes(self.matrix, n, d))))
            after = int(np.searchsorted(edges, min(wanted, n), side="right")) - 1
            stop = int(edges[after]) if edges[after] > start else int(edges[after + 1])
            yield start, stop
            start = stop


def _row_bytes(matrix: Any, n: int, d: int) -> float:
    """Memory that a row takes."""
    if sp.issparse(matrix):
        return 12 * float(matrix.nnz) / max(1, n)
    stored = getattr(matrix, "group", None)
    if stored is not None and "data" in stored:  # a sparse matrix in a file
        return 12 * float(stored["data"].shape[0]) / max(1, n)
    dtype = getattr(matrix, "dtype", np.dtype(np.float64))
    return float(d * np.dtype(dtype).itemsize)


def whole(store: Store) -> Matrix | None:
    """The matrix itself where nothing needs to be read or changed, else None."""
    return store.matrix if store.in_memory and not store.normalize else None


def read(store: Store, rows: Sequence[Array | None], columns: Sequence[Array | None]) -> list[Matrix]:
    """Some rows and columns for each of several datasets, in one pass over the matrix.

    Parameters
    ----------
    store
        What to read.
    rows
        For every dataset its row numbers, ascending; None means all.
    columns
        For every dataset the columns to keep; None means all.
    """
    d = store.adata.n_vars
    chosen = [None if c is not None and _is_all(c, d) else c for c in columns]
    matrix = whole(store)
    if matrix is not None and all(c is None for c in chosen):
        return [matrix if r is None else matrix[r] for r in rows]
    pieces: list[list[Matrix]] = [[] for _ in rows]
    for start, block in store.blocks():
        for own, r, c in zip(pieces, rows, chosen, strict=True):
            part = _rows_within(block, start, r)
            if part.shape[0]:
                own.append(part if c is None else _columns(part, c))
    return [_stack(own, d if c is None else len(c)) for own, c in zip(pieces, chosen, strict=True)]


def column_variances(store: Store, rows: Sequence[Array | None]) -> list[Array]:
    """Variance of every column over the rows of several datasets, in one pass over the matrix."""
    n, d = store.adata.shape
    sums, squares = np.zeros((2, len(rows), d))
    for start, block in store.blocks():
        for i, r in enumerate(rows):
            part = _rows_within(block, start, r)
            if sp.issparse(part):
                values = part.data.astype(np.float64)
                sums[i] += np.bincount(part.indices, values, minlength=d)
                squares[i] += np.bincount(part.indices, values**2, minlength=d)
            else:
                part = part.astype(np.float64)
                sums[i] += part.sum(axis=0)
                squares[i] += np.einsum("ij,ij->j", part, part)
    sizes = np.array([n if r is None else len(r) for r in rows])[:, None]
    variances = squares / sizes - (sums / sizes) ** 2
    bad = np.flatnonzero(~np.isfinite(variances).all(axis=0))
    if bad.size:
        raise ValueError(
            f"{store.name} contains NaN or infinity in {bad.size} variable(s) "
            f"(first: {store.adata.var_names[bad[0]]!r}); drop or impute those before aligning"
        )
    return list(np.maximum(variances, 0))


def looks_like_counts(store: Store, n_rows: int = 200) -> bool:
    """Whether the first rows hold whole numbers that are not negative, and some larger than one."""
    block = store.raw(0, min(n_rows, store.adata.n_obs))
    values = block.data if sp.issparse(block) else block
    if not values.size or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        return False
    return bool(values.min() >= 0 and values.max() > 1 and (values == np.floor(values)).all())


def _log_normalised(block: Matrix, name: str) -> Matrix:
    """Rows scaled to one total, then ``log(1 + x)``; rows of zeros stay as they are."""
    values = block.data if sp.issparse(block) else block
    if values.size and values.min() < 0:
        raise ValueError(
            f"normalize expects counts, but {name} holds negative numbers (down to {values.min():g}); "
            "name the layer that has counts, or drop normalize"
        )
    dtype = np.float64 if block.dtype == np.float64 else np.float32
    depth = np.asarray(block.sum(axis=1, dtype=np.float64)).ravel()
    scale = np.divide(_TOTAL, depth, out=np.zeros_like(depth), where=depth > 0)
    if sp.issparse(block):
        data = np.log1p(block.data * np.repeat(scale, np.diff(block.indptr))).astype(dtype)
        return sp.csr_matrix((data, block.indices, block.indptr), shape=block.shape)
    return np.log1p(block * scale[:, None]).astype(dtype)


def _csr_rows(matrix: Any, start: int, stop: int) -> sp.csr_matrix:
    """A range of rows of a CSR matrix that shares its entries, which scipy's own slices copy."""
    inside = slice(matrix.indptr[start], matrix.indptr[stop])
    indptr = matrix.indptr[start : stop + 1] - matrix.indptr[start]
    return sp.csr_matrix(
        (matrix.data[inside], matrix.indices[inside], indptr), shape=(stop - start, matrix.shape[1])
    )


def _rows_within(block: Matrix, start: int, rows: Array | None) -> Matrix:
    """The rows of a block that are among the given ones; the block starts at row `start`."""
    if rows is None:
        return block
    inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + block.shape[0])] - start
    return block if len(inside) == block.shape[0] else block[inside]


def _columns(block: Matrix, columns: Array) -> Matrix:
    # One memory order, so that sums are reproducible bit for bit.
    return block[:, columns] if sp.issparse(block) else np.ascontiguousarray(block[:, columns])


def _is_all(columns: Array, d: int) -> bool:
    return len(columns) == d and bool((columns == np.arange(d)).all())


def _stack(pieces: list[Matrix], width: int) -> Matrix:
    if not pieces:
        return np.empty((0, width))
    if len(pieces) == 1:
        return pieces[0]
    return sp.vstack(pieces, format="csr") if sp.issparse(pieces[0]) else np.vstack(pieces)
