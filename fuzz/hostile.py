"""Cases that look harmless (columns by name, missing values, graphs in pieces), and files meant to harm."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matrices import clean_rows
from verdict import Violation, check_finite

import harmonicalign as ha

__all__ = ["components_case", "hostile_file_case", "missing_case", "names_case"]

Rng = np.random.Generator

_MOST_TAKEN = 700 * 2**20
"""Bytes that reading a small file may take at most."""


def _related(rng: Rng, n: int, d: int) -> Any:
    """Rows of a curved sheet with some noise."""
    rows = np.tanh(rng.uniform(-1, 1, (n, 3)) @ rng.standard_normal((3, d)))
    return rows + 0.02 * rng.standard_normal((n, d))


def _framed(kind: str, rows: Any, names: list[str]) -> Any:
    """Rows in a frame of one of three libraries."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=names)
    if kind == "polars":
        import polars as pl

        return pl.DataFrame(dict(zip(names, rows.T, strict=True)))
    if kind == "pyarrow":
        import pyarrow as pa

        return pa.table(frame)
    return frame


def names_case(rng: Rng) -> str:
    """Columns in another order are the same columns, or the input is refused."""
    d, n = int(rng.choice([5, 8, 20])), int(rng.choice([20, 40]))
    rows = _related(rng, 2 * n, d)
    names = [f"g{i}" for i in range(d)]
    order = rng.permutation(d)
    kinds = [str(rng.choice(["pandas", "polars", "pyarrow"])) for _ in range(2)]
    method = str(rng.choice(["refined", "paper"]))

    def aligned(second: Any, second_names: list[str]) -> Any:
        model = ha.HarmonicAlignment(method=method, random_state=0)
        x = [_framed(kinds[0], rows[:n], names), _framed(kinds[1], second, second_names)]
        return model.fit(x)

    plain = aligned(rows[n:], names)
    turned = aligned(rows[n:][:, order], [names[i] for i in order])
    # Columns of one dataset are exchanged with one another, so the last digits may differ.
    for a, b in zip(plain.embedding_, turned.embedding_, strict=True):
        if method == "refined" and abs(plain.significance_.z - turned.significance_.z) > 1e-3:
            raise Violation("another order of columns gave another alignment")
        check_finite("embedding_", [a, b])
    kept = turned.transform(_framed("pandas", rows[n:], names), dataset=1)
    if not np.allclose(kept, turned.embedding_[1], atol=1e-5):
        raise Violation("rows of the fit, with their columns in another order, moved")
    return "names"


def missing_case(rng: Rng) -> str:
    """What is missing, in data, batch or labels, is refused or said to be missing."""
    import pandas as pd

    n = 40
    rows = _related(rng, n, 8)
    batch: Any = np.repeat(["a", "b"], n // 2)
    labels: Any = rng.choice(["T", "B"], n // 2)
    nothing: list[Any] = [None, np.nan, pd.NA, pd.NaT]
    missing = nothing[rng.integers(len(nothing))]
    kind = rng.integers(5)
    if kind == 0:
        frame = pd.DataFrame(rows).astype(object)
        frame.iloc[int(rng.integers(n)), int(rng.integers(8))] = missing
        model = ha.HarmonicAlignment(random_state=0).fit(frame, batch=batch)
        raise Violation(f"{missing!r} in the data passed for a number: {model.embedding_[0][0, 0]}")
    if kind == 1:
        frame = pd.DataFrame(rows).astype("Float64")
        frame.iloc[int(rng.integers(n)), 0] = pd.NA
        ha.HarmonicAlignment(random_state=0).fit(frame, batch=batch)
        raise Violation("NA in the data passed for a number")
    if kind == 2:
        given = batch.astype(object)
        given[int(rng.integers(n))] = missing
        model = ha.HarmonicAlignment(random_state=0).fit(rows, batch=given)
        raise Violation(f"{missing!r} in batch became one of the datasets {model.keys_}")
    model = ha.HarmonicAlignment(random_state=0).fit(rows, batch=batch)
    given = labels.astype(object)
    given[: int(rng.integers(1, n // 2))] = missing
    found = model.transfer(given if kind == 3 else pd.Series(given), source="a", target="b")
    strange = {str(label) for label in found.labels} - {"T", "B", "unassigned"}
    if strange:
        raise Violation(f"{missing!r} among the labels became the class {strange}")
    check_finite("probabilities", found.probabilities)
    return "missing"


def components_case(rng: Rng) -> str:
    """Graphs in many pieces, of copies and of clusters far apart."""
    n, pieces = int(rng.choice([60, 200, 600])), int(rng.choice([2, 10, 50]))
    centres = rng.standard_normal((pieces, 6)) * 10.0 ** rng.integers(0, 6)
    spread = rng.choice([0.0, 1e-9, 1e-3, 1.0])
    parts = []
    for _ in range(int(rng.choice([2, 3]))):
        which = rng.integers(0, pieces, n) if rng.random() < 0.7 else np.sort(rng.integers(0, 2, n))
        parts.append(centres[which % pieces] + spread * rng.standard_normal((n, 6)))
    method = str(rng.choice(["refined", "paper"]))
    model = ha.HarmonicAlignment(method=method, random_state=0, n_landmarks=int(rng.choice([50, 2000])))
    model.fit(parts)
    check_finite("embedding_", model.embedding_)
    check_finite("joint_", model.joint_.harmonics.psi)
    check_finite("transform", model.transform(clean_rows(rng, 5, 6), dataset=0))
    if method == "refined":
        check_finite("confidence_", model.confidence_)
    return "components"


def hostile_file_case(rng: Rng) -> str:
    """Read a file that is small and asks for much, or for other files."""
    import anndata

    from harmonicalign.adapters import io

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        secret = folder / "secret"
        secret.write_bytes(np.full(36, 1234.5).tobytes())
        make = _FILES[rng.integers(len(_FILES))]
        good = anndata.AnnData(np.eye(6))
        path = make(rng, folder, good, secret)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        data = io.read(path)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before > _MOST_TAKEN:
            raise Violation(f"a file of {path.stat().st_size} bytes took more than {_MOST_TAKEN} bytes")
        arrays = [data.X, *data.layers.values(), *data.obsm.values()]
        if any(np.any(np.asarray(a) == 1234.5) for a in arrays if a is not None):
            raise Violation(f"{make.__name__}: another file of the machine was read")
    return "read"


def _other_files(rng: Rng, folder: Path, good: Any, secret: Path) -> Path:
    """An h5ad whose numbers are elsewhere."""
    import h5py

    from harmonicalign.adapters import io

    path = io.write(good, folder / "d.h5ad")
    with h5py.File(folder / "other.h5", "w") as other:
        other["s"] = np.full((6, 6), 1234.5)
    where = str(rng.choice(["X", "layers/a", "obsm/a", "uns/a", "obs/a"]))
    with h5py.File(path, "a") as file:
        attributes = dict(file["X"].attrs)
        if where in file:
            del file[where]
        kind = rng.integers(4)
        if kind == 0:
            file[where] = h5py.ExternalLink(str(folder / "other.h5"), "s")
            return path
        if kind == 1:
            made = file.create_dataset(where, (6, 6), "f8", external=[(str(secret), 0, 288)])
        else:
            name = str(folder / ("other.h5" if kind == 2 else "missing.h5"))
            layout = h5py.VirtualLayout((6, 6), "f8")
            layout[:] = h5py.VirtualSource(name, "s", (6, 6))
            made = file.create_virtual_dataset(where, layout, fillvalue=1234.5)
        made.attrs.update(attributes)
    return path


def _many_names(rng: Rng, folder: Path, good: Any, secret: Path) -> Path:
    """An h5ad in which one large array has many names, or groups hold each other."""
    import h5py

    from harmonicalign.adapters import io

    path = io.write(good, folder / "d.h5ad")
    with h5py.File(path, "a") as file:
        group = file[str(rng.choice(["obsm", "uns", "layers"]))]
        array = group.create_dataset(
            "a", (6, int(10 ** rng.integers(5, 9))), "f8", chunks=True, compression=1
        )
        array.attrs.update(dict(file["X"].attrs))
        for i in range(int(rng.integers(1, 40))):
            group[f"b{i}"] = array if rng.random() < 0.5 else h5py.SoftLink(array.name)
        if rng.random() < 0.3:
            group["c"] = group if rng.random() < 0.5 else h5py.SoftLink("/")
    return path


def _store(rng: Rng, folder: Path, good: Any, secret: Path) -> Path:
    """A zarr store with links, pipes or arrays of nothing."""
    import zarr

    from harmonicalign.adapters import io

    path = io.write(good, folder / "d.zarr")
    chunk = next(p for p in (path / "X").rglob("*") if p.is_file() and not p.name.startswith((".", "zarr")))
    kind = rng.integers(4)
    if kind == 0:
        chunk.unlink()
        chunk.symlink_to(secret if rng.random() < 0.5 else "/dev/zero")
    elif kind == 1:
        chunk.unlink()
        os.mkfifo(chunk)
    elif kind == 2:
        (path / "obsm").rename(folder / "elsewhere")
        (path / "obsm").symlink_to(folder / "elsewhere")
    else:
        shape = (6, int(10 ** rng.integers(7, 13)))
        group = zarr.open_group(path, mode="a", use_consolidated=False)["obsm"]
        group.create_array("a", shape=shape, chunks=(6, 10**6), dtype="f8")
        zarr.consolidate_metadata(path)
    return path


def _table(rng: Rng, folder: Path, good: Any, secret: Path) -> Path:
    """A parquet table of one number or text over and over, or a footer that was tampered with."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = int(10 ** rng.integers(3, 7))
    column = np.zeros(n)
    columns: dict[str, Any] = {f"c{i}": column for i in range(int(rng.integers(1, 30)))}
    if rng.random() < 0.5:
        text = pa.array(["x" * int(10 ** rng.integers(1, 6))])
        columns["t"] = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), text)
    path = folder / "d.parquet"
    pq.write_table(pa.table(columns), path, compression="zstd")
    if rng.random() < 0.3:
        content = bytearray(path.read_bytes())
        for _ in range(int(rng.integers(1, 8))):
            content[-int(rng.integers(1, min(len(content), 2000)))] = int(rng.integers(256))
        path.write_bytes(content)
    return path


_FILES: list[Callable[[Rng, Path, Any, Path], Path]] = [_other_files, _many_names, _store, _table]
