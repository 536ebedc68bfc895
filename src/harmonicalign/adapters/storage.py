"""Models in one file: arrays in a ``.npz``, everything else in a JSON header; nothing is ever executed.

Arrays that are equal are written once, and packed where that makes them smaller.

A model is a tree of a few known types (arrays, sparse matrices, the package's frozen dataclasses,
lists, dicts, numbers, text). Saving writes the arrays as entries and the tree as JSON that refers to
them; loading rebuilds the tree from the types named here and refuses anything else.
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
from harmonicalign.evidence.correspondence import Correspondence
from harmonicalign.evidence.known import SignalMap
from harmonicalign.evidence.significance import Significance
from harmonicalign.fitted.alignment import FittedAlignment
from harmonicalign.fitted.conventions import check_container
from harmonicalign.fitted.parameters import Parameters
from harmonicalign.inputs.frames import Layout
from harmonicalign.inputs.parse import Inputs
from harmonicalign.inputs.rows import AbsentRows
from harmonicalign.inputs.settings import Settings
from harmonicalign.method.config import MethodConfig
from harmonicalign.method.embed import Embedding
from harmonicalign.method.maps import LinearMap
from harmonicalign.method.memory import available_bytes, told
from harmonicalign.method.model import RefinedModel
from harmonicalign.method.problem import PairAlignment
from harmonicalign.method.shifts import LocalShift
from harmonicalign.method.space import JointSpace
from harmonicalign.paper.align import Alignment, MultiAlignment
from harmonicalign.paper.graph import Graph
from harmonicalign.paper.harmonics import Harmonics
from harmonicalign.paper.joint import Joint
from harmonicalign.paper.model import PaperModel
from harmonicalign.paper.reduction import Reduction

__all__ = ["TYPES", "Stored", "read_alignment", "read_tree", "write_alignment", "write_tree"]

FORMAT = 11
"""Raised whenever a file of one version would mean something else, or nothing, to another."""

_HEADER = "header"
_MAGIC = "harmonicalign model"
_PARTS = ("data", "indices", "indptr")

_MODELS = {cls.__name__: cls for cls in (PaperModel, RefinedModel)}

TYPES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        AbsentRows,
        Alignment,
        Correspondence,
        Embedding,
        FittedAlignment,
        Graph,
        Harmonics,
        Inputs,
        Joint,
        JointSpace,
        Layout,
        LinearMap,
        LocalShift,
        MethodConfig,
        MultiAlignment,
        PairAlignment,
        Parameters,
        Reduction,
        Settings,
        SignalMap,
        Significance,
        *_MODELS.values(),
    )
}
"""Every type that a file of a fitted alignment may name."""

_TRIED_ROWS = 20
"""Rows of each dataset with which an alignment that was read is tried out."""

_UNPACKED, _HARMLESS = 200, 256 * 2**20
"""A model file holds at most so many times its size; up to so many bytes are always read."""

_SAMPLE, _WORTHWHILE = 2**16, 0.9
"""Bytes of an array that are packed to see whether that pays, and the share of them that may remain."""


@dataclasses.dataclass(frozen=True)
class Stored:
    """What one file holds.

    Attributes
    ----------
    params
        Parameters of the estimator.
    features
        Names and number of the columns, as scikit-learn keeps them.
    fitted
        The alignment.
    container
        What `HarmonicAlignment.set_output` chose, if anything.
    """

    params: dict[str, Any]
    features: dict[str, Any]
    fitted: FittedAlignment
    container: str | None = None


def write_alignment(path: str | os.PathLike[str], stored: Stored) -> Path:
    """Write a fitted alignment to one ``.npz`` file, all of it or nothing."""
    fitted = dataclasses.replace(stored.fitted, inputs=stored.fitted.inputs.without_containers())
    tree = {field.name: getattr(stored, field.name) for field in dataclasses.fields(stored)}
    # The default's coordinates are those of its model.
    tree["fitted"] = dataclasses.replace(fitted, embedding=()) if _holds_coordinates(fitted) else fitted
    return write_tree(path, tree, TYPES)


def read_alignment(path: str | os.PathLike[str]) -> Stored:
    """Read what `write_alignment` wrote; parts that do not belong together raise `ModelFileError`."""
    tree = read_tree(path, TYPES)
    try:
        stored = _completed(Stored(**tree))
        _check_parts(stored)
        if stored.fitted.metric == "euclidean":
            with np.errstate(all="ignore"):
                _try_out(stored.fitted)
    except Exception as error:  # any error raised by inconsistent parts
        raise ModelFileError(
            f"{path} does not hold a whole model ({type(error).__name__}: {error}); "
            "it is damaged or was not written by harmonicalign"
        ) from error
    return stored


def _holds_coordinates(fitted: FittedAlignment) -> bool:
    """Whether the model keeps the coordinates of the rows as they are, and need not compute them."""
    return isinstance(fitted.model, RefinedModel)


def _completed(stored: Stored) -> Stored:
    """The same with the coordinates that the file leaves out."""
    fitted = stored.fitted
    if not isinstance(fitted, FittedAlignment) or not _holds_coordinates(fitted) or fitted.embedding != ():
        return stored
    filled = dataclasses.replace(fitted, embedding=tuple(fitted.model.coordinates()))
    return dataclasses.replace(stored, fitted=filled)


def _check_parts(stored: Stored) -> None:
    """Check that the parts of a model file are consistent."""
    unknown = set(stored.features) - {"n_features_in_", "feature_names_in_"}
    if unknown:
        raise ValueError(f"it sets {sorted(map(str, unknown))}")
    named = {field.name for field in dataclasses.fields(Parameters)} | {"random_state", "verbose"}
    if not set(stored.params) <= named:
        raise ValueError(f"it has the parameters {sorted(map(str, set(stored.params) - named))}")
    fitted, models = stored.fitted, tuple(_MODELS.values())
    if not isinstance(fitted, FittedAlignment) or not isinstance(fitted.inputs, Inputs):
        raise ValueError("the model or its data are of another type")
    if not isinstance(fitted.model, models) or not isinstance(fitted.embedding, tuple):
        raise ValueError("the model or its coordinates are of another type")
    if not isinstance(fitted.settings, Settings) or not isinstance(fitted.parameters, Parameters):
        raise ValueError("its settings or its parameters are of another type")
    if not isinstance(fitted.seed, int) or not isinstance(fitted.signals_given, bool):
        raise ValueError("its seed or what it knows of its signals are of another type")
    if stored.container is not None:
        check_container(stored.container)
    inputs, n = fitted.inputs, len(fitted.inputs.datasets)
    lengths = {len(part) for part in (fitted.embedding, inputs.keys, inputs.signals, inputs.containers)}
    if lengths != {n} or len(fitted.model.reductions) != n:
        raise ValueError("its parts are for different numbers of datasets")
    _check_names(inputs)
    for z, data, signals in zip(fitted.embedding, inputs.datasets, inputs.signals, strict=True):
        if z.shape != (data.shape[0], fitted.width) or signals.shape[0] != data.shape[0]:
            raise ValueError("rows of its data and of its coordinates differ in number")
        if z.dtype.kind != "f" or not np.isfinite(z).all():
            raise ValueError("its coordinates are not finite numbers")


def _check_names(inputs: Inputs) -> None:
    """Check that names of columns are those of the data and of the signals."""
    for layouts, matrices in ((inputs.layouts, inputs.datasets), (inputs.signal_layouts, None)):
        if len(layouts) not in (0, len(inputs.datasets)):
            raise ValueError("its names of columns are for another number of datasets")
        for i, layout in enumerate(layouts):
            if not isinstance(layout, Layout) or not isinstance(layout.names, list | None):
                raise ValueError("its names of columns are of another type")
            if layout.names is None:
                continue
            if matrices is not None and len(layout.names) != matrices[i].shape[1]:
                raise ValueError("its data and the names of its columns differ in number")
            if matrices is None and not set(inputs.signal_names or []) <= set(layout.names):
                raise ValueError("its signals are not among its columns")


def _try_out(fitted: FittedAlignment) -> None:
    """Place a few rows of every dataset, to see that the parts of an alignment fit together."""
    for i, (data, signals) in enumerate(zip(fitted.inputs.datasets, fitted.inputs.signals, strict=True)):
        if isinstance(data, AbsentRows):
            rows, shared = data.means[None], signals.means[None]
        else:
            some = np.unique(np.linspace(0, data.shape[0] - 1, _TRIED_ROWS).astype(np.int64))
            rows, shared = data[some], signals[some]
        placed = fitted.model.place(i, rows, fitted.linked(i, shared))
        if placed.shape != (rows.shape[0], fitted.width) or not np.isfinite(placed).all():
            raise ValueError("its rows cannot be placed")


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
