"""Cases on files and AnnData: cut short, bits flipped, bombs, odd names, payloads for pickle."""

from __future__ import annotations

import gzip
import io as streams
import json
import os
import pickle
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from matrices import clean_rows, contained
from verdict import Violation, check_finite

import harmonicalign as ha

__all__ = ["anndata_case", "data_file_case", "model_file_case"]

Rng = np.random.Generator

_NAMES = [
    "d.h5ad",
    "d.zarr",
    "d.csv",
    "d.csv.gz",
    "d.tsv",
    "d.parquet",
    "d.npy",
    "d.npz",
    "d.fcs",
    "folder",
    "d.h5mu",
]
_CANARY = "canary"


class _Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-files-"))


@cache
def _good_file(name: str) -> Path:
    """A good file of a format, made once."""
    import anndata
    import pandas as pd

    from harmonicalign.adapters import io

    rng = np.random.RandomState(0)
    data = anndata.AnnData(
        X=sp.csr_matrix(rng.poisson(1, (12, 5)).astype(float)) if name == "d.npz" else rng.rand(12, 5),
        obs=pd.DataFrame({"type": pd.Categorical(["T", "B", "NK"] * 4)}, index=[f"c{i}" for i in range(12)]),
        var=pd.DataFrame(index=["CD3", "CD19", "CD56", "HLA-DR", "β2M"]),
        obsm={"X_pca": rng.rand(12, 2)},
    )
    path = _folder() / name
    if name == "d.h5mu":
        import mudata

        data = mudata.MuData({"a": data, "b": data.copy()})
    return io.write(data, path)


@cache
def _good_model(kind: int) -> Path:
    rng = np.random.RandomState(kind)
    rows = np.tanh(rng.randn(50, 3) @ rng.randn(3, 8))
    method = "paper" if kind == 1 else "refined"
    batch = np.repeat(["a", "b"], 25) if kind == 2 else None
    model = ha.HarmonicAlignment(method=method, random_state=0)
    if batch is None:
        model.fit([rows[:25], rows[25:]])
    else:
        model.fit(rows, batch=batch)
    return model.save(_folder() / f"model{kind}.npz")


def _damage(rng: Rng, content: bytes) -> bytes:
    """Bytes that are cut, flipped, doubled, blanked or replaced."""
    kind, size = rng.integers(7), len(content)
    if kind == 0:
        return content[: rng.integers(size)]
    if kind in (1, 2):
        damaged = bytearray(content)
        for _ in range(int(rng.integers(1, 20))):
            damaged[rng.integers(size)] ^= 1 << int(rng.integers(8))
        return bytes(damaged)
    start = int(rng.integers(size))
    if kind == 3:
        return content[:start] + bytes(int(rng.integers(1, 200))) + content[start:]
    if kind == 4:
        stop = min(size, start + int(rng.integers(1, 100)))
        return content[:start] + bytes(stop - start) + content[stop:]
    if kind == 5:
        return content + rng.bytes(int(rng.integers(1, 300)))
    return content[:start] + rng.bytes(20) + content[start + 20 :]


def _npy(array: Any, *, pickled: bool = False) -> bytes:
    out = streams.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=pickled)
    return out.getvalue()


def _crafted_npz(rng: Rng, path: Path, canary: Path) -> None:
    """An archive by somebody who means harm."""
    kind = rng.integers(7)
    payload = np.empty(1, dtype=object)
    payload[0] = _Payload(str(canary))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if kind < 2 else zipfile.ZIP_STORED) as archive:
        if kind == 0:  # a bomb: megabytes here stand for gigabytes
            archive.writestr("X.npy", _npy(np.zeros((200, 20_000))))
            archive.writestr("header.npy", _npy(np.zeros(10**6, np.uint8)))
        elif kind == 1:
            head = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, "
            head += b"'shape': (9000000000, 9), }"
            archive.writestr("X.npy", head.ljust(127) + b"\n")
        elif kind == 2:
            archive.writestr("X.npy", _npy(payload, pickled=True))
            archive.writestr("header.npy", _npy(payload, pickled=True))
        elif kind == 3:
            archive.writestr("../../escaped.npy", _npy(np.eye(4)))
            archive.writestr("/tmp/escaped.npy", _npy(np.eye(4)))
        elif kind == 4:
            archive.writestr("X.npy", pickle.dumps(_Payload(str(canary))))
        elif kind == 5:
            archive.writestr("data.npy", _npy(np.ones(3)))
            archive.writestr("indices.npy", _npy(np.array([0, 10**6, -4])))
            archive.writestr("indptr.npy", _npy(np.array([0, 2, 99])))
            archive.writestr("shape.npy", _npy(np.array([2, 3])))
            archive.writestr("format.npy", _npy(np.array(b"csr")))
        else:
            archive.writestr("X.npy", _npy(clean_rows(rng, 5, 3)))
            archive.writestr("obs_names.npy", _npy(np.array(["<script>", "a/../b", "", "\x00", "é"])))


def _crafted_text(rng: Rng) -> str:
    lines = [
        "a,b,c\n1,2,3\n4,5,6\n",
        "a,b\n1,2,3\n",
        "a,a\n1,2\n3,4\n",
        ",\n,\n",
        "\n\n\n",
        "a,b\n1,x\n2,y\n",
        "a,b\n1e400,2\n3,4\n",
        "name,x\n=cmd|' /C calc'!A0,1\nb,2\n",
        "a;b\n1;2\n",
        '"a,b\n1,2\n',
        "a,b\nnan,inf\n1,2\n",
        "a\tb\n1\t2\n",
        "\ufeffa,b\n1,2\n3,4\n",
        "a," * 3000 + "\n" + "1," * 3000,
        "__import__('os'),b\n1,2\n3,4\n",
        "a,b\n1_000,2\n0x10,4\n",
        "a,b\r1,2\r3,4\r",
    ]
    return lines[rng.integers(len(lines))]


def data_file_case(rng: Rng) -> str:
    """Read a file of data that is damaged, crafted or misnamed."""
    from harmonicalign.adapters import io

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "in"
        folder.mkdir()
        canary = Path(scratch) / _CANARY
        name = _NAMES[rng.integers(len(_NAMES))]
        good = _good_file(name)
        target = folder / name
        draw = rng.random()
        if good.is_dir():
            shutil.copytree(good, target)
            inside = sorted(p for p in target.rglob("*") if p.is_file())
            victim = inside[rng.integers(len(inside))]
            if draw < 0.8:
                victim.write_bytes(_damage(rng, victim.read_bytes() or b"x"))
            elif draw < 0.9:
                victim.unlink()
            elif draw < 0.95:
                victim.unlink()
                victim.symlink_to("/etc/hostname")
        elif draw < 0.65:
            target.write_bytes(_damage(rng, good.read_bytes()))
        elif draw < 0.8:
            target = folder / "crafted.npz"
            _crafted_npz(rng, target, canary)
        elif draw < 0.92:
            packed = rng.random() < 0.2
            target = folder / ("crafted.csv.gz" if packed else rng.choice(["crafted.csv", "crafted.tsv"]))
            text = _crafted_text(rng).encode()
            target.write_bytes(gzip.compress(text) if packed else text)
        elif draw < 0.97:
            target = (
                folder
                / f"misnamed{rng.choice(['.h5ad', '.npy', '.npz', '.csv', '.fcs', '.parquet', '.pkl', ''])}"
            )
            shutil.copy(good, target)
        else:
            target = folder / "p.npy"
            objects = np.empty(1, dtype=object)
            objects[0] = _Payload(str(canary))
            target.write_bytes(_npy(objects, pickled=True))
        options: dict[str, Any] = {}
        if rng.random() < 0.1:
            options = [
                {"key": "nope"},
                {"transpose": True},
                {"arcsinh": 5},
                {"arcsinh": -1},
                {"format": "npy"},
                {"backed": True},
            ][rng.integers(6)]
        before = sorted(str(p) for p in folder.rglob("*"))
        try:
            data = io.read(target, **options)
            if not hasattr(data, "mod"):
                x = data.X
                if x is None and name not in ("d.h5ad", "d.zarr"):
                    raise Violation("data without a matrix")
                if x is not None and x.shape != (data.n_obs, data.n_vars):
                    raise Violation("a matrix of another shape than its names")
            if options.get("backed") and getattr(data, "isbacked", False):
                data.file.close()
        finally:
            if canary.exists():
                raise Violation("a payload was executed")
            if sorted(str(p) for p in folder.rglob("*")) != before:
                raise Violation("reading changed the folder")
    return "read"


def _hostile_tree(rng: Rng, node: Any) -> Any:
    """A JSON tree with one of its nodes replaced."""
    odd = [
        None,
        0,
        -1,
        1e308,
        "x",
        "",
        [],
        {},
        True,
        [[]],
        {"type": "Graph", "fields": {}},
        {"type": "os.system", "fields": {}},
        {"array": "header"},
        {"array": "nope"},
        {"csr": "model", "shape": [1, 1]},
        {"float": "x"},
        {"float": "nan"},
        {"objects": [1], "shape": [10**9]},
        {"list": 3},
        {"dict": [[1]]},
        {"tuple": None},
        {"array": ["a"]},
    ]
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, part in items:
            places.append((value, key))
            walk(part)

    walk(node)
    for _ in range(int(rng.integers(1, 3))):
        owner, key = places[rng.integers(len(places))]
        if rng.random() < 0.2 and isinstance(owner, dict):
            owner.pop(key, None)
        elif isinstance(owner, dict) or key < len(owner):
            owner[key] = odd[rng.integers(len(odd))]
    return node


def model_file_case(rng: Rng) -> str:
    """Load a model file that is damaged or crafted, and use it if it loads."""
    good = _good_model(int(rng.integers(3)))
    with tempfile.TemporaryDirectory() as scratch:
        path, canary = Path(scratch) / "m.npz", Path(scratch) / _CANARY
        draw = rng.random()
        if draw < 0.35:
            path.write_bytes(_damage(rng, good.read_bytes()))
        elif draw < 0.5:
            _crafted_npz(rng, path, canary)
        else:
            with np.load(good) as stored:
                arrays = dict(stored)
            if draw < 0.85:
                header = json.loads(bytes(arrays["header"]).decode())
                text = json.dumps(_hostile_tree(rng, header)).encode()
                if rng.random() < 0.02:
                    text = b"[" * 100_000
                arrays["header"] = np.frombuffer(text, dtype=np.uint8)
            else:  # an array of another shape, type or content
                name = rng.choice(sorted(arrays))
                other: list[Any] = [
                    np.zeros(0),
                    np.zeros((3, 3)),
                    np.array("x"),
                    np.array(np.nan),
                    arrays[name][:1],
                    np.full(arrays[name].shape, np.nan),
                    arrays[name].astype(str),
                ]
                arrays[name] = other[rng.integers(len(other))]
            with path.open("wb") as file:
                np.savez(file, **arrays)
        try:
            model = ha.load(path)
            rows = np.tanh(np.random.RandomState(5).randn(4, model.fitted_.inputs.datasets[0].shape[1]))
            check_finite("transform", model.transform(rows, dataset=model.keys_[0]))
        finally:
            if canary.exists():
                raise Violation("a payload was executed")
    return "load"


def anndata_case(rng: Rng) -> str:
    """Align AnnData of any kind."""
    import anndata
    import pandas as pd

    from harmonicalign.adapters import scverse

    def one(n: int, names: list[str]) -> Any:
        x = clean_rows(rng, n, len(names))
        if rng.random() < 0.05 and x.size:
            x.flat[0] = np.nan
        matrix = contained(rng, x)
        if not (hasattr(matrix, "toarray") or isinstance(matrix, np.ndarray)) or isinstance(
            matrix, np.ma.MaskedArray
        ):
            matrix = x
        elif hasattr(matrix, "toarray") and matrix.format not in ("csr", "csc"):
            matrix = matrix.tocsr()
        obs = pd.DataFrame(index=[f"c{i}" for i in range(n)] if rng.random() < 0.9 else ["c"] * n)
        obs["batch"] = rng.choice(["a", "b", "<b>"], n)
        if rng.random() < 0.1:
            obs["batch"] = None
        out = anndata.AnnData(
            X=None if rng.random() < 0.02 else matrix, obs=obs, var=pd.DataFrame(index=names)
        )
        if rng.random() < 0.3:
            out.obsm["X_pca"] = clean_rows(rng, n, 3)
        if rng.random() < 0.2:
            out.layers["counts"] = rng.poisson(1, (n, len(names)))
        if rng.random() < 0.1:
            out.var["highly_variable"] = rng.random(len(names)) < 0.5
        return out

    def names() -> list[str]:
        d = int(rng.choice([1, 3, 8, 20]))
        pool = [f"g{i}" for i in range(d)]
        draw = rng.random()
        if draw < 0.1:
            return ["../../x", "<script>", *pool][:d]
        if draw < 0.15:
            return [pool[0]] * d
        if draw < 0.2:
            return [f"h{i}" for i in range(d)]
        return [str(v) for v in rng.permutation(pool)]

    sizes = [int(rng.choice([1, 3, 6, 15, 40])) for _ in range(2)]
    options: dict[str, Any] = {}
    if rng.random() < 0.4:
        data: Any = one(sizes[0] + sizes[1], names())
        options["batch_key"] = "batch" if rng.random() < 0.9 else "nope"
    else:
        shared = names()
        data = [one(n, shared if rng.random() < 0.8 else names()) for n in sizes]
        if rng.random() < 0.3:
            data = dict(zip("ab", data, strict=True))
    for name, values in {
        "use_rep": ["X_pca", "nope", 3],
        "layer": ["counts", "nope"],
        "n_vars": [1, 5, "all", 0, "x"],
        "normalize": [True, "x"],
        "signals": ["X_pca", "nope"],
        "anchors": ["obs_names", "x"],
        "key_added": ["", "a/b", "ü"],
        "copy": [True],
        "method": ["paper", "x"],
        "n_neighbors": [1, 0],
    }.items():
        if rng.random() < 0.05:
            options[name] = values[rng.integers(len(values))]
    found = scverse.align(data, **options)
    model = found[1] if options.get("copy") is True else found
    check_finite("embedding_", model.embedding_)
    return "aligned"
