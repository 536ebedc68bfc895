"""AnnData and MuData files: HDF5 and zarr."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harmonicalign.adapters.io._errors import DataFileError, missing
from harmonicalign.adapters.io._limits import check_fits

if TYPE_CHECKING:
    from anndata import AnnData
    from h5py import Dataset, File, Group
    from mudata import MuData

__all__ = ["read_h5ad", "read_h5mu", "read_zarr", "write_h5ad", "write_h5mu", "write_zarr"]

_BACKED = "read it backed"

_EXAMINE = """
import sys, h5py
def look(name, item):
    dict(item.attrs)
    if isinstance(item, h5py.Dataset) and (item.dtype.hasobject or item.size <= 10**6):
        item[()]
with h5py.File(sys.argv[1], "r") as file:
    look("/", file)
    file.visititems(look)
"""
_PATIENCE, _BYTES_PER_SECOND = 45, 20e6


def read_h5ad(path: Path, *, backed: bool = False) -> AnnData:
    """An AnnData file, its matrix left on disk if `backed`."""
    import anndata
    import h5py

    _examine(path)
    with h5py.File(path, "r") as file:
        if "mod" in file and "X" not in file:
            raise DataFileError(f"{path} is named as an AnnData file but holds MuData; rename it to .h5mu")
        if "obs" not in file or "var" not in file:
            found = ", ".join(sorted(file)[:5]) or "nothing"
            raise DataFileError(f"{path} is an HDF5 file but not AnnData: it holds {found}, not obs and var")
        check_fits(path, _promised(file, skip="X" if backed else None), "" if backed else _BACKED)
    return anndata.read_h5ad(path, backed="r" if backed else None)


def read_h5mu(path: Path, key: str | None = None) -> AnnData | MuData:
    """A MuData file, or one modality of it as AnnData."""
    import h5py

    mudata = _mudata()
    _examine(path)
    with h5py.File(path, "r") as file:
        if "mod" not in file:
            raise DataFileError(f"{path} is named as a MuData file but holds no modalities (mod)")
        if key is not None and key not in file["mod"]:
            raise DataFileError(f"{path} has no modality {key!r}; it has {', '.join(sorted(file['mod']))}")
        check_fits(path, _promised(file))
    data = mudata.read_h5mu(path)
    return data if key is None else data[key]


def read_zarr(path: Path) -> AnnData:
    """A zarr store of AnnData."""
    zarr = _zarr()
    import anndata

    group = zarr.open_group(path, mode="r")
    if "obs" not in group or "var" not in group:
        found = ", ".join(sorted(group)[:5]) or "nothing"
        raise DataFileError(f"{path} is a zarr store but not AnnData: it holds {found}, not obs and var")
    members = group.members(max_depth=None)
    check_fits(path, sum(item.nbytes for _, item in members if isinstance(item, zarr.Array)))
    return anndata.read_zarr(path)


def write_h5ad(data: AnnData, path: Path) -> None:
    """Write AnnData as HDF5."""
    data.write_h5ad(path)


def write_h5mu(data: AnnData | MuData, path: Path) -> None:
    """Write MuData as HDF5."""
    _mudata()
    if not hasattr(data, "mod"):
        raise DataFileError("an h5mu file holds MuData, and the data is one AnnData; write h5ad instead")
    data.write_h5mu(path)


def write_zarr(data: AnnData, path: Path) -> None:
    """Write AnnData as a zarr store."""
    _zarr()
    data.write_zarr(path)


def _examine(path: Path, executable: str | None = None, patience: float | None = None) -> None:
    """Let another process open a file first: some damage makes the HDF5 library crash or never return.

    `executable` is the interpreter that opens it, by default this one; if there is none, nothing is
    examined. `patience` is the time limit in seconds, in addition to that for the size of the file.
    """
    executable = sys.executable if executable is None else executable
    if not executable:
        return
    limit = (_PATIENCE if patience is None else patience) + path.stat().st_size / _BYTES_PER_SECOND
    try:
        # Errors that the library reports are raised by the reader that follows.
        code = subprocess.run(
            [executable, "-I", "-c", _EXAMINE, str(path.resolve())], capture_output=True, timeout=limit
        ).returncode
    except subprocess.TimeoutExpired:
        raise DataFileError(f"{path} is damaged: the HDF5 library gets lost in it") from None
    except OSError:
        return
    if code < 0:
        raise DataFileError(f"{path} is damaged: the HDF5 library crashes on it (signal {-code})")


def _promised(file: File, skip: str | None = None) -> int:
    """Bytes that the arrays of an HDF5 file unpack to."""
    total = 0

    def add(name: str, item: Dataset | Group) -> None:
        nonlocal total
        if hasattr(item, "shape") and item.shape is not None and (name.split("/")[0] != skip):
            total += int(np.prod(item.shape, dtype=object)) * item.dtype.itemsize

    file.visititems(add)
    return total


def _mudata() -> Any:
    try:
        import mudata
    except ImportError as error:
        raise missing("mudata", "a MuData file", "scverse") from error
    return mudata


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise missing("zarr", "a zarr store") from error
    return zarr
