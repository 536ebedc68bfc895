"""Matrices in files, read and written block by block: Zarr, HDF5, and AnnData in either.

Workers open the files themselves, so the paths must mean the same to all of them.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.adapters.distributed.blocks import BLOCK_BYTES, BLOCK_ROWS, evaluate, load_dask
from harmonicalign.adapters.distributed.result import DistributedResult
from harmonicalign.inputs.frames import is_dask

__all__ = ["open_lazy", "write_embedding"]


_HDF5 = (".h5ad", ".h5", ".hdf5", ".h5mu")


def open_lazy(path: str | os.PathLike[str], key: str = "X", *, chunk_rows: int | None = None) -> Any:
    """A matrix of a file as a dask array of blocks of rows; nothing is read yet.

    Parameters
    ----------
    path
        A Zarr store, or an HDF5 file (``.h5ad``, ``.h5``, …). AnnData's layout is understood in both.
    key
        Which matrix: "X", "layers/counts", "obsm/X_pca", …: a plain array, or a CSR matrix as AnnData
        stores it, whose blocks are then CSR. For a Zarr store that is itself an array, "".
    chunk_rows
        Rows per block; by default as many as make up about 64 MiB, at most 20,000.
    """
    da = load_dask().array
    path = os.fspath(path)
    with _opened(path) as root:
        found = _element(root, key, path)
        sparse = not hasattr(found, "shape")
        if sparse:
            shape, kind, row_bytes = _sparse_facts(found, key, path)
        else:
            shape, kind = tuple(found.shape), np.dtype(found.dtype)
            row_bytes = int(np.prod(shape[1:])) * kind.itemsize
    if len(shape) != 2:
        raise ValueError(f"{key!r} of {path} has {len(shape)} dimension(s); expected rows by columns")
    rows = chunk_rows or int(np.clip(BLOCK_BYTES // max(1, row_bytes), 100, BLOCK_ROWS))
    chunks = da.core.normalize_chunks((rows, -1), shape)
    starts = np.concatenate([[0], np.cumsum(chunks[0])])
    # One small column tells every block which rows are its own.
    spans = da.from_array(np.stack([starts[:-1], starts[1:]], axis=1), chunks=(1, 2))
    empty = np.empty((0, 0), dtype=kind)
    return da.map_blocks(
        _read,
        spans,
        path=path,
        key=key,
        dtype=kind,
        meta=sp.csr_matrix(empty) if sparse else empty,
        chunks=chunks,
    )


def write_embedding(
    result: Any,
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    key: str = "obsm/X_harmonic",
    *,
    in_place: bool = False,
    client: Any = None,
) -> None:
    """Write coordinates to files block by block, all of them or none.

    Into a Zarr store the workers write themselves; the array appears under its name when it is
    complete. HDF5 has one writer, so blocks come through this process, one at a time, into a file of
    their own; when they are complete they go into a copy of `path`, which then takes its place.

    Parameters
    ----------
    result
        A `DistributedResult`, a dask array, or a list of them.
    path
        A Zarr store or HDF5 file (``.h5ad``), new or existing; one for each dataset.
    key
        Name of the array in the file.
    in_place
        For HDF5: put the complete array into the file itself. That needs no room for a copy, but an
        interruption in these last seconds may leave the file damaged.
    client
        What computes a bare dask array; a `DistributedResult` knows its own.
    """
    if isinstance(result, DistributedResult):
        client, result = client or result.client, result.embedding
    arrays = [result] if is_dask(result) else list(result)
    paths = [Path(path)] if isinstance(path, str | os.PathLike) else [Path(p) for p in path]
    if len(paths) != len(arrays):
        raise ValueError(f"path names {len(paths)} file(s) for {len(arrays)} array(s); give one for each")
    if len({p.resolve() for p in paths}) < len(paths):
        raise ValueError("path names the same file twice; each array needs its own")
    for array, target in zip(arrays, paths, strict=True):
        if target.suffix in _HDF5:
            _write_hdf5(array, target, key, in_place, client)
        else:
            _write_zarr(array, target, key, client)


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """An HDF5 file or a Zarr store, opened to read."""
    if path.endswith(_HDF5):
        with _h5py().File(path, "r") as file:
            yield file
        return
    if "://" not in path and not os.path.isdir(path):
        raise FileNotFoundError(f"no Zarr store or HDF5 file at {path}")
    yield _zarr().open(path, mode="r")


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError("HDF5 files need h5py: pip install 'harmonicalign[scverse]'") from error
    return h5py


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError("Zarr stores need zarr: pip install 'harmonicalign[dask]'") from error
    return zarr


def _element(root: Any, key: str, path: str) -> Any:
    if not key:
        return root
    try:
        return root[key]
    except KeyError:
        there = ", ".join(sorted(root.keys())) if hasattr(root, "keys") else "a single array"
        raise KeyError(f"{path} has no {key!r}; it holds {there}") from None


def _sparse_facts(group: Any, key: str, path: str) -> tuple[tuple[int, ...], Any, int]:
    """Shape, type and mean bytes per row of a CSR matrix in AnnData's layout."""
    kind = group.attrs.get("encoding-type")
    if kind != "csr_matrix":
        hint = "; convert it to CSR to read it by rows" if kind == "csc_matrix" else ""
        raise ValueError(f"{key!r} of {path} is stored as {kind!r}; expected an array or a CSR matrix{hint}")
    shape = tuple(int(n) for n in group.attrs["shape"])
    entry = group["data"].dtype.itemsize + group["indices"].dtype.itemsize
    return shape, np.dtype(group["data"].dtype), group["data"].shape[0] * entry // max(1, shape[0])


def _read(span: Array, *, path: str, key: str) -> Any:
    """The rows of one block, by whichever process needs them."""
    start, stop = (int(n) for n in span[0])
    with _opened(path) as root:
        found = _element(root, key, path)
        if hasattr(found, "shape"):
            return found[start:stop]
        ends = np.asarray(found["indptr"][start : stop + 1])
        inside = slice(int(ends[0]), int(ends[-1]))
        parts = (found["data"][inside], found["indices"][inside], ends - ends[0])
        return sp.csr_matrix(parts, shape=(stop - start, int(found.attrs["shape"][1])))


def _write_zarr(array: Any, path: Path, key: str, client: Any) -> None:
    da, zarr = load_dask().array, _zarr()
    existed = path.exists()
    root = zarr.open_group(str(path), mode="a") if existed else zarr.create_group(str(path))
    parent, _, name = key.rpartition("/")
    group = root.require_group(parent) if parent else root
    waiting = f".{name}.{uuid.uuid4().hex}"
    # Every block of the store is written by one task alone, so its rows must be those of one task.
    array = array.rechunk((max(array.chunks[0]), -1))
    target = group.create_array(waiting, shape=array.shape, chunks=array.chunksize, dtype=array.dtype)
    target.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    folder = path / parent
    try:
        evaluate(da.store(array, target, lock=False, compute=False), client)
        old = folder / f".{name}.{uuid.uuid4().hex}"
        if (folder / name).exists():
            os.replace(folder / name, old)
        os.replace(folder / waiting, folder / name)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(folder / waiting, ignore_errors=True)
        raise
    if root.metadata.consolidated_metadata is not None:
        zarr.consolidate_metadata(str(path))


def _write_hdf5(array: Any, path: Path, key: str, in_place: bool, client: Any) -> None:
    h5py = _h5py()
    mark = uuid.uuid4().hex
    # Blocks may be read from the very file, so they are gathered in one of their own first.
    gathered, copy = (path.with_name(f".{path.name}.{mark}.{end}.tmp") for end in ("array", "file"))
    try:
        with h5py.File(gathered, "w") as file:
            target = file.create_dataset("array", array.shape, array.dtype)
            target.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
            start = 0
            for block in array.blocks.ravel():
                values = evaluate(block, client)
                target[start : start + len(values)] = values
                start += len(values)
        if not in_place and path.exists():
            shutil.copy2(path, copy)
        with h5py.File(path if in_place else copy, "a") as file, h5py.File(gathered, "r") as source:
            waiting = f"{key}.{mark}"
            file.require_group(key.rpartition("/")[0] or "/")
            source.copy("array", file, waiting)
            if key in file:
                del file[key]
            file.move(waiting, key)
        if not in_place:
            os.replace(copy, path)
    finally:
        gathered.unlink(missing_ok=True)
        copy.unlink(missing_ok=True)
