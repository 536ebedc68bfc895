"""Hostile matrices: shapes, types, containers, and values that break careless numerics."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["any_matrix", "clean_rows", "contained", "contained_alike", "pair_of_rows"]

Array = np.ndarray[Any, Any]
Rng = np.random.Generator

_SPARSE = [
    *(
        sp.csr_matrix,
        sp.csc_matrix,
        sp.coo_matrix,
        sp.lil_matrix,
        sp.dok_matrix,
        sp.bsr_matrix,
        sp.dia_matrix,
    ),
    *(sp.csr_array, sp.csc_array, sp.coo_array, sp.lil_array, sp.dok_array),
]
_TYPES = ["float64", "float32", "float16", "longdouble", "int8", "int64", "uint8", "bool", ">f8", "<f4"]
_BAD_TYPES = ["complex128", "object", "str", "datetime64[s]", "bytes"]


def clean_rows(rng: Rng, n: int, d: int) -> Array:
    """Finite float64 rows of one of many awkward kinds."""
    kind = rng.integers(18)
    plain = rng.standard_normal((n, d))
    # Most scales are such that an answer is owed; the others must be refused.
    reach = 300 if rng.random() < 0.15 else 45
    if kind == 0:
        return plain
    if kind == 1:  # a curved sheet
        latent = rng.uniform(-1, 1, (n, 2))
        return np.asarray(np.tanh(latent @ rng.standard_normal((2, d))) + 0.01 * plain)
    if kind == 2:  # clusters far apart: graphs in pieces
        return np.asarray(plain + 10.0 ** rng.integers(1, 12) * rng.integers(0, 4, n)[:, None])
    if kind == 3:  # many exact copies
        return np.asarray(plain[rng.integers(0, max(1, n // 5), n)])
    if kind == 4:  # constant columns
        plain[:, rng.random(d) < 0.6] = rng.choice([0.0, 1.0, -3e5, 1e-200])
        return plain
    if kind == 5:  # nothing varies
        return np.full((n, d), rng.choice([0.0, 1.0, -1e5, -1e300 if reach > 45 else 1e-40]))
    if kind == 6:  # ties: a lattice
        return rng.integers(0, 3, (n, d)).astype(float)
    if kind == 7:  # heavy tails
        return np.asarray(rng.standard_cauchy((n, d)))
    if kind == 8:
        return np.asarray(rng.pareto(0.2, (n, d)).clip(0, 10.0**reach))
    if kind == 9:  # one scale from the edges of double precision
        return np.asarray(plain * 10.0 ** rng.uniform(-reach, reach))
    if kind == 10:  # a scale for every column
        with np.errstate(over="ignore"):
            return np.asarray((plain * 10.0 ** rng.uniform(-reach, reach, d)).clip(-1e307, 1e307))
    if kind == 11:  # a circle: pairs of equal eigenvalues
        angle = 2 * np.pi * np.arange(n) / max(n, 1)
        return (
            np.resize(np.c_[np.cos(angle), np.sin(angle)], (n, d))
            if d != 2
            else np.c_[np.cos(angle), np.sin(angle)]
        )
    if kind == 12:  # a simplex: all distances equal, all eigenvalues equal
        return np.eye(n, d) if d >= n else np.eye(n)[:, :d]
    if kind == 13:  # one wild row
        if n:
            plain[rng.integers(n)] *= 10.0 ** rng.integers(3, reach)
        return plain
    if kind == 14:  # counts
        return rng.poisson(rng.gamma(0.3, 1.0, d), (n, d)).astype(float)
    if kind == 15:  # numbers below the smallest normal one
        return np.asarray(plain * 10.0 ** (-320 if reach > 45 else -45))
    if kind == 16:  # a large offset with a little variation on it
        return np.asarray(10.0 ** rng.integers(3, 16) + plain)
    return np.sort(plain, axis=0)


def contained(rng: Rng, rows: Array) -> Any:
    """The same numbers as another type, in another container."""
    choice = rng.random()
    if choice < 0.35:
        return rows
    with np.errstate(all="ignore"):
        if choice < 0.5:
            return rows.astype(rng.choice(_TYPES))
        if choice < 0.65:
            few = np.where(rng.random(rows.shape) < rng.choice([0.0, 0.3, 0.9]), rows, 0)
            kind = _SPARSE[rng.integers(len(_SPARSE))]
            return kind(few.astype(rng.choice(["float64", "float32", "int64", "bool"])))
    if choice < 0.7:
        return np.asfortranarray(rows)
    if choice < 0.74:
        return np.repeat(rows, 2, axis=1)[:, ::2]
    if choice < 0.78:
        fixed = rows.copy()
        fixed.flags.writeable = False
        return fixed
    if choice < 0.82:
        return rows.tolist()
    if choice < 0.92:
        return _table(rng, rows)
    if choice < 0.95:
        return np.ma.masked_array(rows, mask=rng.random(rows.shape) < 0.05)
    return rows[::-1]


def contained_alike(rng: Rng, parts: list[Array]) -> list[Any]:
    """Several datasets in containers of their own; sometimes all are tables, whose columns go by names."""
    if rng.random() < 0.3:
        return [_table(rng, part) for part in parts]
    return [contained(rng, part) for part in parts]


def _table(rng: Rng, rows: Array) -> Any:
    """A table of any library, its columns in any order."""
    import pandas as pd

    names = [f"g{i}" for i in range(rows.shape[1])]
    rng.shuffle(names)
    if rng.random() < 0.2:
        names = [rng.choice(["a", "b", "<script>alert(1)</script>", ""]) for _ in names]
    frame = pd.DataFrame(rows, columns=names)
    library = rng.random()
    if len(set(names)) < len(names) or library < 0.6:
        return frame
    if library < 0.8:
        import polars as pl

        return pl.DataFrame(rows, schema=names, orient="row")
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False)


def any_matrix(rng: Rng, n: int | None = None, d: int | None = None) -> Any:
    """A matrix that may be fine, awkward or plain wrong."""
    n = int(rng.choice([0, 1, 2, 3, 4, 5, 8, 15, 25, 40, 60])) if n is None else n
    d = int(rng.choice([0, 1, 2, 3, 5, 12, 30])) if d is None else d
    wrong = rng.random()
    if wrong < 0.9:
        return contained(rng, clean_rows(rng, n, d))
    rows = clean_rows(rng, n, d)
    if wrong < 0.93:
        if rows.size:
            rows.flat[rng.integers(rows.size)] = rng.choice([np.nan, np.inf, -np.inf])
        return contained(rng, rows)
    if wrong < 0.96:
        kind = rng.choice(_BAD_TYPES)
        if kind == "object":
            objects = rows.astype(object)
            if objects.size:
                objects.flat[0] = rng.choice([None, "x", [1, 2]], shuffle=False) if False else None
            return objects
        with np.errstate(all="ignore"):
            return np.nan_to_num(rows, posinf=0, neginf=0).clip(-1e9, 1e9).astype(kind)
    oddities: list[Any] = [
        None,
        3,
        "file.csv",
        [],
        {},
        rows.ravel(),
        rows[None],
        [rows.tolist(), [1]],
        np.array(1.0),
        set(),
        object(),
        [[1, 2], [3]],
        iter([1, 2]),
        b"bytes",
        [None, None],
        {"a": None},
        np.empty((0, 0)),
        lambda: 1,
    ]
    return oddities[rng.integers(len(oddities))]


def pair_of_rows(rng: Rng, n_sets: int, *, most: int = 45) -> list[Array]:
    """Clean datasets with as many columns, some related and some not."""
    d = int(rng.choice([1, 2, 3, 6, 12, 30]))
    sizes = [int(rng.choice([3, 4, 6, 10, 20, 30, most])) for _ in range(n_sets)]
    if rng.random() < 0.5:
        latent = clean_rows(rng, sum(sizes), d)
        parts = np.split(latent[rng.permutation(len(latent))], np.cumsum(sizes)[:-1])
    else:
        parts = [clean_rows(rng, n, d) for n in sizes]
    if rng.random() < 0.3:
        with np.errstate(over="ignore"):
            parts[0] = (parts[0] * 10.0 ** rng.integers(-8, 8)).clip(-1e307, 1e307)
    return parts
