"""AnnData and MuData files: HDF5 and zarr."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harmonicalign.adapters.io import _survey
from harmonicalign.adapters.io._errors import DataFileError, missing
from harmonicalign.adapters.io._limits import check_fits, check_growth

if TYPE_CHECKING:
    from anndata import AnnData
    from mudata import MuData

__all__ = ["read_h5ad", "read_h5mu", "read_zarr", "write_h5ad", "write_h5mu", "write_zarr"]

_BACKED = "read it backed"

_SURVEY = str(Path(_survey.__file__))

_PATIENCE, _BYTES_PER_SECOND = 15, 20e6
"""Seconds of processor time for looking at a file, and bytes of it that take another second."""

_STALL = 10
"""How much longer the clock on the wall may show, on a busy machine or where files come over a network."""

_LIMITED = """
import runpy, sys
seconds, sys.argv = int(sys.argv[1]), sys.argv[2:]
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
except (ImportError, ValueError, OSError):
    pass
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script with a limit of processor time, where the system has such limits."""


def read_h5ad(path: Path, *, backed: bool = False, trusted: bool = False) -> AnnData:
    """An AnnData file, its matrix left on disk if `backed`."""
    import anndata
    import h5py

    found = _surveyed(path, trusted)
    with h5py.File(path, "r") as file:
        if "mod" in file and "X" not in file:
            raise DataFileError(f"{path} is named as an AnnData file but holds MuData; rename it to .h5mu")
        if "obs" not in file or "var" not in file:
            there = ", ".join(sorted(file)[:5]) or "nothing"
            raise DataFileError(f"{path} is an HDF5 file but not AnnData: it holds {there}, not obs and var")
    _check_sizes(path, {n: b for n, b in found.items() if not (backed and n == "X")}, trusted, backed)
    return anndata.read_h5ad(path, backed="r" if backed else None)


def read_h5mu(path: Path, key: str | None = None, *, trusted: bool = False) -> AnnData | MuData:
    """A MuData file, or one modality of it as AnnData."""
    import h5py

    mudata = _mudata()
    found = _surveyed(path, trusted)
    with h5py.File(path, "r") as file:
        if "mod" not in file:
            raise DataFileError(f"{path} is named as a MuData file but holds no modalities (mod)")
        if key is not None and key not in file["mod"]:
            raise DataFileError(f"{path} has no modality {key!r}; it has {', '.join(sorted(file['mod']))}")
    _check_sizes(path, found, trusted, backed=True)
    data = mudata.read_h5mu(path)
    return data if key is None else data[key]


def read_zarr(path: Path, *, trusted: bool = False) -> AnnData:
    """A zarr store of AnnData."""
    zarr = _zarr()
    import anndata

    stored = _stored_bytes(path, trusted)
    group = zarr.open_group(path, mode="r")
    if "obs" not in group or "var" not in group:
        found = ", ".join(sorted(group)[:5]) or "nothing"
        raise DataFileError(f"{path} is a zarr store but not AnnData: it holds {found}, not obs and var")
    arrays = [item for _, item in group.members(max_depth=None) if isinstance(item, zarr.Array)]
    # A chunk is unpacked as a whole, however small the array is.
    promised = sum(max(item.nbytes, math.prod(item.chunks) * item.dtype.itemsize) for item in arrays)
    check_fits(path, promised)
    if not trusted:
        check_growth(path, promised, stored)
    return anndata.read_zarr(path)


def _stored_bytes(folder: Path, trusted: bool) -> int:
    """Bytes of all files of a folder; links to elsewhere and what is no file are refused."""
    total = 0
    for file in folder.rglob("*"):
        name = file.relative_to(folder)
        if file.is_symlink() and not trusted:
            raise _outside(folder, f"{name} is a link to {file.readlink()}")
        if not file.is_dir():
            if not file.is_file():
                raise DataFileError(f"{folder} is damaged: {name} is a pipe, a device or a link to nothing")
            total += file.stat().st_size
    return total


def _surveyed(path: Path, trusted: bool) -> dict[str, int]:
    """Bytes of what is at the top of an HDF5 file, by name; other files are not read unless trusted."""
    found = _examine(path)
    if found["outside"] and not trusted:
        raise _outside(path, found["outside"][0])
    if found["broken"]:
        raise DataFileError(f"{path} is damaged: {found['broken'][0]}")
    return dict(found["bytes"])


def _outside(path: Path, what: str) -> DataFileError:
    return DataFileError(
        f"{path} would read other files of this machine: {what}; if you know where it comes from, read it as "
        "trusted (trusted=True)"
    )


def _check_sizes(path: Path, found: dict[str, int], trusted: bool, backed: bool) -> None:
    promised = sum(found.values())
    check_fits(path, promised, "" if backed else _BACKED)
    if not trusted:
        check_growth(path, promised, path.stat().st_size)


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


def _examine(path: Path, executable: str | None = None, patience: float | None = None) -> dict[str, Any]:
    """What `survey` finds in a file, found by another process.

    Some damage makes the HDF5 library crash or never return. `executable` is the interpreter that opens the
    file, by default this one; if there is none, this process does. `patience` is the limit in seconds of
    processor time, which does not depend on what else the machine does, in addition to that for the size of
    the file.
    """
    executable = sys.executable if executable is None else executable
    limit = (_PATIENCE if patience is None else patience) + path.stat().st_size / _BYTES_PER_SECOND
    script = ["-I", "-c", _LIMITED, str(math.ceil(limit)), _SURVEY, str(path.resolve())]
    try:
        if not executable:
            return _survey.survey(str(path))
        done = subprocess.run([executable, *script], capture_output=True, timeout=_STALL * limit)
        if done.returncode == -getattr(signal, "SIGXCPU", math.nan):
            raise subprocess.TimeoutExpired(executable, limit)
    except subprocess.TimeoutExpired:
        raise DataFileError(f"{path} is damaged: the HDF5 library gets lost in it") from None
    except OSError:
        return _survey.survey(str(path))
    if done.returncode < 0:
        raise DataFileError(f"{path} is damaged: the HDF5 library crashes on it (signal {-done.returncode})")
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        found = {"error": done.stderr.decode(errors="replace").strip().rpartition("\n")[2]}
    if "error" in found:
        raise DataFileError(
            f"{path} cannot be read as HDF5: it is damaged, cut short or something else "
            f"({found['error'][:200]})"
        )
    return found


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
