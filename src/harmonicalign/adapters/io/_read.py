"""`read`: any file as AnnData."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from harmonicalign._hidden import recover
from harmonicalign._typing import PathLike
from harmonicalign.adapters.io import _arrays, _cytometry, _folders, _scverse, _tables
from harmonicalign.adapters.io._errors import DataFileError, missing, one_line, read_error
from harmonicalign.adapters.io._formats import Format, check_content, find_format
from harmonicalign.inputs.validate import check_number

if TYPE_CHECKING:
    from anndata import AnnData
    from mudata import MuData

__all__ = ["read"]


def read(
    path: PathLike,
    *,
    format: str | None = None,
    key: str | None = None,
    backed: bool = False,
    obs: Sequence[str] = (),
    transpose: bool = False,
    arcsinh: float | None = None,
    trusted: bool = False,
) -> AnnData | MuData:
    r"""Read a file or folder of data.

    Parameters
    ----------
    path
        An .h5ad, .h5mu, .zarr, .csv(.gz), .tsv(.gz), .parquet, .npy, .npz or .fcs file, or a folder
        with ``matrix.mtx``, ``barcodes.tsv`` and ``features.tsv``.
    format
        The format's short name (see `FORMATS`), if the ending does not determine it.
    key
        Which matrix of an .npz archive, or which modality of an .h5mu file.
    backed
        Leave the matrix of an .h5ad file on disk.
    obs
        For tables: columns of numbers that describe the rows rather than measure something. Columns of
        text always do.
    transpose
        For tables: rows are features and columns are cells.
    arcsinh
        Replace the matrix by arcsinh(X / arcsinh), as is usual with 5 for mass cytometry and 150 for
        flow cytometry.
    trusted
        You know where the file comes from: follow its links to other files, and read it even if it holds more
        than a thousand times its size. Otherwise such files (.h5ad, .h5mu, .zarr, .parquet) are refused.

    Returns
    -------
    data
        AnnData; for .h5mu without `key`, MuData.

    Raises
    ------
    DataFileError
        If the file is damaged, of an unknown format, too large for memory, or wrongly named.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import os, tempfile
    >>> from harmonicalign.adapters import io
    >>> file = os.path.join(tempfile.mkdtemp(), "cells.csv")
    >>> with open(file, "w") as out:
    ...     _ = out.write("cell,CD3,CD19,type\na,1.5,0,T\nb,0,2.5,B\n")
    >>> data = io.read(file)
    >>> list(data.var_names), list(data.obs["type"])
    (['CD3', 'CD19'], ['T', 'B'])
    """
    path = Path(path)
    try:
        exists = path.exists()
    except (OSError, ValueError) as error:
        raise DataFileError(f"{str(path)!r} is no path of a file: {one_line(error)}") from error
    if not exists:
        recover(path)
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist{_nearest(path)}")
    if not (path.is_file() or path.is_dir()):
        raise DataFileError(f"{path} is a pipe or a device, not a file; write what it gives to a file first")
    kind = find_format(path, format)
    _check_options(path, kind, key=key, backed=backed, obs=obs, transpose=transpose)
    try:
        import anndata  # noqa: F401
    except ImportError as error:
        raise missing("anndata", "reading files of data", "scverse") from error
    try:
        check_content(path, kind)
        with warnings.catch_warnings():
            # Repeated names are checked where names are matched; old storage formats are still supported.
            warnings.filterwarnings("ignore", message=".* names are not unique")
            warnings.simplefilter("ignore", FutureWarning)
            warnings.filterwarnings("ignore", module="mudata", category=UserWarning)
            data = _reader(kind.name, key, backed, obs, transpose, trusted)(path)
    except (DataFileError, ImportError):
        raise
    except Exception as error:  # anything that a damaged or hostile file may raise
        raise read_error(path, kind.title, error) from error
    return data if arcsinh is None else _arcsinh(data, arcsinh, path)


def _reader(
    name: str, key: str | None, backed: bool, obs: Sequence[str], transpose: bool, trusted: bool
) -> Callable[[Path], AnnData | MuData]:
    table = {"obs": obs, "transpose": transpose}
    readers: dict[str, Callable[[Path], AnnData | MuData]] = {
        "h5ad": lambda path: _scverse.read_h5ad(path, backed=backed, trusted=trusted),
        "h5mu": lambda path: _scverse.read_h5mu(path, key, trusted=trusted),
        "zarr": lambda path: _scverse.read_zarr(path, trusted=trusted),
        "csv": lambda path: _tables.read_text(path, separator=",", **table),  # type: ignore[arg-type]
        "tsv": lambda path: _tables.read_text(path, separator="\t", **table),  # type: ignore[arg-type]
        "parquet": lambda path: _tables.read_parquet(path, trusted=trusted, **table),  # type: ignore[arg-type]
        "npy": _arrays.read_npy,
        "npz": lambda path: _arrays.read_npz(path, key),
        "fcs": _cytometry.read_fcs,
        "mtx": _folders.read_folder,
    }
    return readers[name]


def _check_options(path: Path, kind: Format, **given: object) -> None:
    """Refuse options that the format does not use."""
    understood = {
        "key": ("npz", "h5mu"),
        "backed": ("h5ad",),
        "obs": ("csv", "tsv", "parquet"),
        "transpose": ("csv", "tsv", "parquet"),
    }
    for name, value in given.items():
        if value and kind.name not in understood[name]:
            raise ValueError(
                f"{name} is for {' and '.join(understood[name])} files, and {path} is {kind.title}; "
                "leave it out"
            )


def _arcsinh(data: AnnData | MuData, cofactor: float, path: Path) -> AnnData:
    cofactor = check_number("arcsinh", cofactor, above=0)
    if hasattr(data, "mod") or getattr(data, "isbacked", False):
        raise ValueError(f"arcsinh needs one matrix in memory; {path} gives something else")
    matrix = data.X
    if sp.issparse(matrix):
        data.X = (matrix / cofactor).arcsinh()
    else:
        data.X = np.arcsinh(np.asarray(matrix) / cofactor)
    return data


def _nearest(path: Path) -> str:
    """A hint at a file of a similar name in the same folder."""
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}"
    names = [p.name for p in path.parent.iterdir() if not p.name.startswith(".")]
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {path.parent / near[0]}?" if near else ""
