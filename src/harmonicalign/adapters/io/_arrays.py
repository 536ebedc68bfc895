"""Numpy files: one array, or an archive of several. Pickles are never read."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Matrix
from harmonicalign.adapters.io._errors import DataFileError
from harmonicalign.adapters.io._limits import DEFLATE_RATIO, check_fits

if TYPE_CHECKING:
    from anndata import AnnData
    from numpy.lib.npyio import NpzFile
    from pandas import Series

__all__ = ["read_npy", "read_npz", "write_npy", "write_npz"]


_OBS_NAMES, _VAR_NAMES = "obs_names", "var_names"
_OTHERWISE = {
    _OBS_NAMES: ("cell_names", "cells", "barcodes", "barcode"),
    _VAR_NAMES: ("feature_names", "features", "gene_names", "genes"),
}
"""Other common keys for arrays of names; used if the array is unique text of the right length."""

_PARTS = ("data", "indices", "indptr", "shape")


def read_npy(path: Path) -> AnnData:
    """One matrix as AnnData; rows and columns are numbered."""
    with path.open("rb") as file:
        promised, header = _header(file, path)
    size = path.stat().st_size
    if promised + header != size:
        raise DataFileError(
            f"{path} is cut short or damaged: it has {size} bytes and announces {promised + header}"
        )
    check_fits(path, promised)
    return _anndata(path, _matrix(path, "the array", np.load(path, allow_pickle=False)))


def read_npz(path: Path, key: str | None = None) -> AnnData:
    """One matrix of an archive as AnnData, with the arrays that fit it.

    Compressed sparse rows are four arrays, ``X_data``, ``X_indices``, ``X_indptr`` and ``X_shape``, or
    the archive that `scipy.sparse.save_npz` makes. Arrays with one entry (row) per row of the
    matrix become columns of ``obs`` (entries of ``obsm``); ``obs_names`` (or ``cells``, ``barcodes``)
    and ``var_names`` (or ``genes``, ``feature_names``) are the names of rows and columns.
    """
    _check_archive(path)
    with np.load(path, allow_pickle=False) as stored:
        names = list(stored.files)
        if "header" in names and bytes(stored["header"][:64]).startswith(b'{"magic": "harmonicalign model"'):
            raise DataFileError(f"{path} is a model that harmonicalign saved, not data")
        sparse = _sparse_names(names)
        dense = [
            name for name in names if not any(name == _part(owner, p) for owner in sparse for p in _PARTS)
        ]
        plain = {name: stored[name] for name in dense if name != "format" or "" not in sparse}
        matrices = [owner or "X" for owner in sparse] + [n for n, a in plain.items() if a.ndim == 2]
        chosen = _choose(path, matrices, key)
        if (owner := "" if "" in sparse else chosen) in sparse:
            matrix = _assemble(stored, owner, path)
        else:
            matrix = plain.pop(chosen)
    return _anndata(path, _matrix(path, chosen, matrix), plain)


def write_npy(data: AnnData, path: Path) -> None:
    """Write the matrix alone."""
    if data.X is None:
        raise DataFileError("the data has no matrix X, which is what a numpy file holds; write h5ad or zarr")
    values = np.ascontiguousarray(data.X.toarray() if sp.issparse(data.X) else np.asarray(data.X))
    with path.open("wb") as file:
        # As `np.save` does, but that hides the reason why it could not write.
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(values))
        file.write(values.data)


def write_npz(data: AnnData, path: Path) -> None:
    """Write the matrix, the names, ``obs`` and ``obsm``."""
    if data.X is None:
        raise DataFileError("the data has no matrix X, which is what a numpy file holds; write h5ad or zarr")
    arrays: dict[str, Array] = {
        _OBS_NAMES: np.asarray(data.obs_names, dtype=str),
        _VAR_NAMES: np.asarray(data.var_names, dtype=str),
    }
    if sp.issparse(data.X):
        matrix = data.X.tocsr()
        shape = np.asarray(matrix.shape)
        arrays |= {_part("X", p): shape if p == "shape" else getattr(matrix, p) for p in _PARTS}
    else:
        arrays["X"] = np.asarray(data.X)
    extra = [(str(n), _plain(data.obs[n])) for n in data.obs.columns]
    extra += [(str(n), np.asarray(v)) for n, v in data.obsm.items() if not sp.issparse(v)]
    for name, values in extra:
        if name in arrays:
            raise DataFileError(
                f"two arrays would be called {name!r} in {path.name}; rename one or write h5ad"
            )
        arrays[name] = values
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _plain(column: Series) -> Array:
    """A column as numbers, booleans or text."""
    values = np.asarray(column)
    if values.dtype.kind in "fiub":
        return values
    return np.asarray(column.astype("object").where(column.notna(), ""), dtype=str)


def _header(file: IO[bytes], path: Path) -> tuple[int, int]:
    """Size of an array in bytes according to its header, and size of the header."""
    version = np.lib.format.read_magic(file)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = reader(file)
    if dtype.hasobject:
        raise DataFileError(f"{path} holds pickled Python objects, which are never read; save plain numbers")
    return int(np.prod(shape, dtype=object)) * dtype.itemsize, file.tell()


def _check_archive(path: Path) -> None:
    """Refuse archives whose entries have impossible sizes, before any is unpacked."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        for entry in entries:
            if entry.file_size > DEFLATE_RATIO * max(entry.compress_size, 1) + 1024:
                raise DataFileError(f"{path} is damaged: {entry.filename!r} claims an impossible size")
        check_fits(path, sum(entry.file_size for entry in entries))
        for entry in entries:
            if not entry.filename.endswith(".npy"):
                raise DataFileError(
                    f"{path} holds {entry.filename!r}, which is no array; is it an archive of numpy?"
                )
            with archive.open(entry) as file:
                promised, header = _header(file, path)
            if promised + header != entry.file_size:
                raise DataFileError(
                    f"{path} is damaged: {entry.filename!r} has {entry.file_size} bytes "
                    f"and announces {promised + header}"
                )


def _part(owner: str, part: str) -> str:
    return f"{owner}_{part}" if owner else part


def _sparse_names(names: list[str]) -> list[str]:
    """Names of the sparse matrices in an archive; the one of `scipy.sparse.save_npz` has none."""
    owners = [name[: -len("_indptr")] for name in names if name.endswith("_indptr")]
    if "indptr" in names:
        owners.append("")
    return [owner for owner in owners if all(_part(owner, p) in names for p in _PARTS)]


def _assemble(stored: NpzFile, owner: str, path: Path) -> sp.csr_matrix:
    parts = [stored[_part(owner, p)] for p in _PARTS]
    kind = bytes(stored["format"].item()).decode() if not owner and "format" in stored.files else "csr"
    if kind not in ("csr", "csc"):
        raise DataFileError(f"{path} holds a sparse matrix of the kind {kind!r}; save it as csr")
    matrix = {"csr": sp.csr_matrix, "csc": sp.csc_matrix}[kind](tuple(parts[:3]), shape=tuple(parts[3]))
    matrix.check_format(full_check=True)
    return matrix.tocsr()


def _choose(path: Path, matrices: list[str], key: str | None) -> str:
    if key is not None:
        if key not in matrices:
            raise DataFileError(
                f"{path} has no matrix {key!r}; it has {', '.join(map(repr, matrices)) or 'none at all'}"
            )
        return key
    if "X" in matrices:
        return "X"
    if len(matrices) == 1:
        return matrices[0]
    if not matrices:
        raise DataFileError(f"{path} holds no matrix of rows and columns")
    raise DataFileError(
        f"{path} holds several matrices ({', '.join(map(repr, matrices))}); "
        f"name one, as in {path.name}::{matrices[0]}"
    )


def _matrix(path: Path, name: str, array: Matrix) -> Matrix:
    if array.ndim != 2:
        raise DataFileError(
            f"{path}: {name} has {array.ndim} dimension(s) and not two, rows by columns; reshape it"
        )
    if array.dtype.kind not in "fiub":
        raise DataFileError(f"{path}: {name} holds entries of type {array.dtype}, not real numbers")
    return array


def _are_names(array: Array | None, length: int) -> bool:
    return (
        array is not None
        and array.shape == (length,)
        and array.dtype.kind == "U"
        and len(set(array)) == length
    )


def _anndata(path: Path, matrix: Matrix, others: dict[str, Array] | None = None) -> AnnData:
    import anndata
    import pandas as pd

    n, d = matrix.shape
    if n == 0 or d == 0:
        raise DataFileError(f"{path} holds a matrix without rows or columns (its shape is {matrix.shape})")
    others = dict(others or {})
    names = []
    for key, length in ((_OBS_NAMES, n), (_VAR_NAMES, d)):
        given = others.pop(key, None)
        if given is None:
            fits = [name for name in _OTHERWISE[key] if _are_names(others.get(name), length)]
            given = others.pop(fits[0]) if fits else None
        if given is not None and given.shape != (length,):
            raise DataFileError(f"{path}: {key} has the shape {given.shape}; expected {length} names")
        names.append([str(v) for v in (range(length) if given is None else given)])
    obs = {k: v for k, v in others.items() if v.shape == (n,)}
    out = anndata.AnnData(X=matrix, obs=pd.DataFrame(obs, index=names[0]), var=pd.DataFrame(index=names[1]))
    for key, values in others.items():
        if values.ndim == 2 and values.shape[0] == n and values.dtype.kind in "fiub":
            out.obsm[key] = values
    return out
