"""Trees of a few known types in one file: arrays in a ``.npz``, everything else in a JSON header.

Nothing is ever executed. Arrays that are equal are written once, and packed where that makes them smaller.
Saving writes the arrays as entries and the tree (lists, dicts, numbers, text, frozen dataclasses) as JSON
that refers to them; loading rebuilds the tree from the types that it is told of and refuses anything else.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._exceptions import ModelFileError
from harmonicalign._hidden import hidden_name
from harmonicalign._typing import Array
from harmonicalign.method.memory import available_bytes, told

__all__ = ["FORMAT", "read_tree", "write_tree"]

FORMAT = 15
"""Raised whenever a file of one version would mean something else, or nothing, to another."""

_HEADER = "header"
_MAGIC = "harmonicalign model"
_PARTS = ("data", "indices", "indptr")

_UNPACKED, _HARMLESS = 200, 256 * 2**20
"""A model file holds at most so many times its size; up to so many bytes are always read."""

_SAMPLE, _WORTHWHILE = 2**16, 0.9
"""Bytes of an array that are packed to see whether that pays, and the share of them that may remain."""


def write_tree(path: str | os.PathLike[str], tree: Any, types: Mapping[str, type]) -> Path:
    """Write a tree to `path`, all of it or nothing.

    The file is written under a temporary name in the same folder and then renamed, so an
    interruption leaves an earlier file whole.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"path is {str(path)!r}; a model file ends in .npz")
    arrays = _Arrays()
    names = {cls: name for name, cls in types.items()}
    header = {"magic": _MAGIC, "format": FORMAT, "tree": _encode(tree, arrays, names, "model")}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = hidden_name(path)
    # Permissions follow the umask, as with `open`; `tempfile` makes files that only their owner can read.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            _write_entries(file, {_HEADER: text, **arrays.by_name})
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


class _Arrays:
    """Arrays of a file by their names; equal ones have one name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Array] = {}
        self._names: dict[tuple[Any, ...], str] = {}

    def add(self, name: str, array: Array) -> str:
        """Keep an array; return its name, which is that of an equal array if there is one."""
        key = (array.dtype.str, array.shape, array.flags.f_contiguous, hashlib.sha256(_bytes(array)).digest())
        known = self._names.setdefault(key, name)
        if known == name:
            self.by_name[name] = array
        return known


def _bytes(array: Array) -> Any:
    """The bytes of an array, in its own order."""
    straight = array.T if array.flags.f_contiguous else np.ascontiguousarray(array)
    return straight.reshape(-1).view(np.uint8) if straight.nbytes else b""


def _write_entries(file: Any, arrays: Mapping[str, Array]) -> None:
    """Write arrays as `numpy.savez` does, packed where a sample says that this pays."""
    with zipfile.ZipFile(file, "w", allowZip64=True, compresslevel=1) as archive:
        for name, array in arrays.items():
            content = _bytes(array)
            start = max(0, len(content) - _SAMPLE) // 2
            sample = bytes(content[start : start + _SAMPLE])
            packed = len(zlib.compress(sample, 1)) < _WORTHWHILE * len(sample)
            archive.compression = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            # Entries that are opened by name have no date, so that equal models are equal files.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                np.lib.format.write_array(out, array, allow_pickle=False)


def read_tree(path: str | os.PathLike[str], types: Mapping[str, type]) -> Any:
    """Read a tree that `write_tree` wrote; any other file raises `ModelFileError`."""
    path = Path(path)
    try:
        _check_sizes(path)
        with np.load(path, allow_pickle=False) as archive:
            stored = _Once(archive)
            header = json.loads(bytes(stored[_HEADER]).decode())
            if not isinstance(header, dict) or header.get("magic") != _MAGIC:
                raise ModelFileError(f"{path} is not a harmonicalign model")
            if header.get("format") != FORMAT:
                raise ModelFileError(
                    f"{path} has model format {header.get('format')}; this version reads format {FORMAT}. "
                    "Upgrade harmonicalign if it is newer; fit the model again if it is older"
                )
            return _decode(header["tree"], stored, types)
    except ModelFileError:
        raise
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read as a model: {error}") from error
    except Exception as error:  # whatever a damaged or hostile file provokes
        raise ModelFileError(
            f"{path} is damaged or not a harmonicalign model ({type(error).__name__}: {error})"
        ) from error


class _Once:
    """Entries of an archive, each read once."""

    def __init__(self, archive: Any) -> None:
        self._archive = archive
        self._read: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._read:
            self._read[name] = self._archive[name]
        return self._read[name]


def _check_sizes(path: Path) -> None:
    """Refuse what is not a file, and archives that expand beyond reason or memory."""
    if path.exists() and not path.is_file():
        raise ModelFileError(f"{path} is a folder, a pipe or a device, not a harmonicalign model")
    with zipfile.ZipFile(path) as archive:
        promised = sum(entry.file_size for entry in archive.infolist())
    size, room = path.stat().st_size, available_bytes()
    if promised > max(_HARMLESS, _UNPACKED * size):
        raise ModelFileError(
            f"{path} has {size} bytes but claims to hold {promised}, which no model does; "
            "so it is damaged or not a harmonicalign model"
        )
    if room is not None and promised > room:
        raise ModelFileError(f"{path} holds {told(promised)}, and {told(room)} of memory are free")


def _encode(value: Any, arrays: _Arrays, names: Mapping[type, str], where: str) -> Any:
    """JSON for `value`; arrays go to `arrays` under the name of the place where they stand."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int | float):
        # JSON has no infinities and no NaN.
        return value if isinstance(value, int) or np.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            items = [_encode(v, arrays, names, f"{where}.{i}") for i, v in enumerate(value.ravel())]
            return {"objects": items, "shape": list(value.shape)}
        if value.dtype.hasobject:
            raise ValueError(f"{where} is a structured array with objects, which a model file cannot hold")
        return {"array": arrays.add(where, value), "shape": list(value.shape)}
    if sp.issparse(value):
        matrix = value.tocsr()
        parts = {part: arrays.add(f"{where}.{part}", getattr(matrix, part)) for part in _PARTS}
        return {"csr": parts, "shape": list(matrix.shape)}
    if type(value) in names:
        fields = {
            f.name: _encode(getattr(value, f.name), arrays, names, f"{where}.{f.name}")
            for f in dataclasses.fields(value)
        }
        return {"type": names[type(value)], "fields": fields}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encode(v, arrays, names, f"{where}.{i}") for i, v in enumerate(value)]}
    if isinstance(value, Mapping):
        items = [
            [_encode(k, arrays, names, f"{where}.key{i}"), _encode(v, arrays, names, f"{where}.{i}")]
            for i, (k, v) in enumerate(value.items())
        ]
        return {"dict": items}
    raise ValueError(
        f"{where} is a {type(value).__name__}, which a model file cannot hold"
        + ("; give numbers instead of a function to save the model" if callable(value) else "")
    )


def _decode(node: Any, stored: Any, types: Mapping[str, type]) -> Any:
    if not isinstance(node, dict):
        return node
    if "array" in node:
        array = stored[node["array"]]
        if list(array.shape) != node["shape"]:
            raise ValueError(f"the array {node['array']!r} has shape {array.shape}, not {node['shape']}")
        return array
    if "csr" in node:
        parts = tuple(stored[node["csr"][part]] for part in _PARTS)
        if any(part.dtype.kind not in kinds for part, kinds in zip(parts, ("fiub", "iu", "iu"), strict=True)):
            raise ValueError(f"the sparse matrix {node['csr']['data']!r} has parts of the wrong type")
        matrix = sp.csr_matrix(parts, shape=tuple(node["shape"]))
        matrix.check_format(full_check=True)
        return matrix
    if "type" in node:
        if node["type"] not in types:
            raise ValueError(f"the header names the unknown type {node['type']!r}")
        return types[node["type"]](**{k: _decode(v, stored, types) for k, v in node["fields"].items()})
    if "list" in node:
        return [_decode(v, stored, types) for v in node["list"]]
    if "tuple" in node:
        return tuple(_decode(v, stored, types) for v in node["tuple"])
    if "dict" in node:
        return {_decode(k, stored, types): _decode(v, stored, types) for k, v in node["dict"]}
    if "objects" in node:
        # One by one: numpy would make a table of a list of lists.
        objects = np.empty(len(node["objects"]), dtype=object)
        for i, item in enumerate(node["objects"]):
            objects[i] = _decode(item, stored, types)
        return objects.reshape(node["shape"])
    if "float" in node:
        return float(node["float"])
    raise ValueError(f"the header holds a value of an unknown kind: {sorted(map(str, node))}")
