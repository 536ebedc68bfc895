"""Folders as Cell Ranger writes them: a Matrix Market file of features by cells, and names for both."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

import scipy.sparse as sp

from harmonicalign.adapters.io._errors import DataFileError
from harmonicalign.adapters.io._limits import DEFLATE_RATIO, Metered, check_fits, check_text, packer
from harmonicalign.adapters.io._tables import unpacked

if TYPE_CHECKING:
    from anndata import AnnData
    from pandas import DataFrame

__all__ = ["read_folder", "write_folder"]

_HEADER_BYTES, _LINE_BYTES = 2**20, 200
"""Most that the comments of a Matrix Market file take, and an entry on average."""


def read_folder(path: Path) -> AnnData:
    """Matrix, barcodes and features of a folder as AnnData, cells by features.

    File names may have a prefix, as in public archives, and may be packed with gzip. Features are
    named by their symbol where there is one; the identifier is kept in ``var["gene_ids"]``.
    """
    import anndata
    import scipy.io

    matrix_file = path if path.is_file() else _find(path, ("matrix.mtx",))
    folder, prefix = matrix_file.parent, matrix_file.name.split("matrix.mtx")[0]
    barcodes = _table(_find(folder, (f"{prefix}barcodes.tsv",)))
    features = _table(_find(folder, (f"{prefix}features.tsv", f"{prefix}genes.tsv")))
    rows, columns, entries, header = _size(matrix_file)
    expected = (len(features), len(barcodes))
    if (rows, columns) != expected:
        raise DataFileError(
            f"{matrix_file} has {rows} rows and {columns} columns, but {folder} names "
            f"{expected[0]} features and {expected[1]} cells; are the files from one run?"
        )
    size = matrix_file.stat().st_size * (DEFLATE_RATIO if matrix_file.suffix == ".gz" else 1)
    if 4 * entries > size:  # an entry has at least two digits and two separators
        raise DataFileError(f"{matrix_file} is cut short: it announces {entries} entries")
    check_fits(matrix_file, 16 * entries)
    # Releases of scipy that have this argument warn if it is not given.
    kind = {"spmatrix": False} if "spmatrix" in signature(scipy.io.mmread).parameters else {}
    with unpacked(matrix_file) as stream:
        # The parser keeps a line until it ends, however long it is.
        metered = Metered(matrix_file, stream, header + _LINE_BYTES * (entries + 1))
        matrix = sp.csr_matrix(scipy.io.mmread(io.BufferedReader(metered), **kind).T)
    symbols = features.iloc[:, 1] if features.shape[1] > 1 else features.iloc[:, 0]
    out = anndata.AnnData(X=matrix)
    out.obs_names, out.var_names = [str(v) for v in barcodes.iloc[:, 0]], [str(v) for v in symbols]
    out.var["gene_ids"] = features.iloc[:, 0].to_numpy()
    if features.shape[1] > 2:
        out.var["feature_types"] = features.iloc[:, 2].to_numpy()
    # Every genome annotation has symbols with several identifiers.
    out.var_names_make_unique()
    return out


def write_folder(data: AnnData, path: Path) -> None:
    """Write the matrix with the names of cells and features, packed, as newer Cell Rangers do."""
    import scipy.io

    if data.X is None:
        raise DataFileError("the data has no matrix X, which is what such a folder holds; write h5ad or zarr")
    path.mkdir()
    with packer(path / "matrix.mtx.gz") as file:
        scipy.io.mmwrite(file, sp.coo_matrix(data.X.T))
    names = [str(v) for v in data.var_names]
    identifiers = [str(v) for v in data.var["gene_ids"]] if "gene_ids" in data.var else names
    kinds = data.var["feature_types"] if "feature_types" in data.var else ["Gene Expression"] * len(names)
    _write_lines(path / "features.tsv.gz", zip(identifiers, names, map(str, kinds), strict=True))
    _write_lines(path / "barcodes.tsv.gz", ((str(v),) for v in data.obs_names))


def _find(folder: Path, names: tuple[str, ...]) -> Path:
    """The one file in a folder that has one of the names, with or without a prefix, packed or not."""
    files = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    endings = tuple(name + packed for name in names for packed in ("", ".gz"))
    for found in ([p for p in files if p.name in endings], [p for p in files if p.name.endswith(endings)]):
        if len(found) == 1:
            return found[0]
        if found:
            raise DataFileError(
                f"{folder} holds several matrices ({', '.join(p.name for p in found[:5])}); "
                "give the one to read by its own path"
            )
    there = ", ".join(p.name for p in files[:5]) or "nothing"
    raise DataFileError(f"{folder} holds no {' or '.join(names)} (or .gz of it); it holds {there}")


def _size(file: Path) -> tuple[int, int, int, int]:
    """Numbers of rows, columns and entries in the header of a Matrix Market file, and the header's bytes."""
    with unpacked(file) as lines:
        line = lines.readline(_HEADER_BYTES)
        if not line.lower().startswith(b"%%matrixmarket matrix coordinate"):
            raise DataFileError(f"{file} is not a sparse Matrix Market file")
        passed = len(line)
        while line and passed < _HEADER_BYTES:
            line = lines.readline(_HEADER_BYTES - passed)
            passed += len(line)
            if line.strip() and not line.startswith(b"%"):
                rows, columns, entries = (int(number) for number in line.split())
                return rows, columns, entries, passed
    if passed >= _HEADER_BYTES:
        raise DataFileError(f"{file} is damaged: its comments do not end")
    raise DataFileError(f"{file} is cut short: it does not say how large its matrix is")


def _table(file: Path) -> DataFrame:
    import pandas as pd

    check_text(file, lambda: unpacked(file))
    with unpacked(file) as stream:
        # Names such as "NA" and "null" are names; quotes are part of them.
        return pd.read_csv(stream, sep="\t", header=None, dtype=str, keep_default_na=False, quoting=3)


def _write_lines(file: Path, rows: Iterable[Sequence[str]]) -> None:
    with packer(file) as stream:
        for fields in rows:
            if any("\t" in field or "\n" in field for field in fields):
                raise DataFileError(f"the name {fields[0]!r} holds a tab or a line break; rename it")
            stream.write(("\t".join(fields) + "\n").encode())
