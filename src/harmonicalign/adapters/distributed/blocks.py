"""What both strategies share: matrices as blocks of rows that fit into memory, and who computes them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign.inputs.frames import is_dask
from harmonicalign.inputs.validate import check_rows

__all__ = [
    "Noted",
    "as_blocks",
    "blocks_of",
    "connect",
    "evaluate",
    "keep",
    "matched",
    "matching",
    "noted",
]


BLOCK_BYTES = 2**26
"""A block of a dense matrix is cut so that it has at most about this size."""

BLOCK_ROWS = 20_000
"""And no block has more rows than this, however few its columns are."""


def load_dask() -> Any:
    """The package dask with its arrays, or an error that says how to install it."""
    try:
        import dask
        import dask.array
    except ImportError as error:
        raise ImportError("this needs Dask: pip install 'harmonicalign[dask]'") from error
    return dask


def connect(client: Any) -> Any:
    """A client from a client, from a scheduler's address, or None for whatever dask is set to use."""
    if not isinstance(client, str):
        return client
    try:
        import distributed
    except ImportError as error:
        raise ImportError("client= needs dask.distributed: pip install 'harmonicalign[dask]'") from error
    package: Any = distributed
    return package.Client(client)


def keep(value: Any, client: Any) -> Any:
    """Compute a delayed value and leave it where it was computed.

    It stays a node of the task graph: if its worker is lost, it is computed anew. Graphs built on it
    hold it on the cluster, but only where it is an argument of its own: dask (2026.8) forgets futures
    that stand in lists.
    """
    return load_dask().persist(value)[0] if client is None else client.persist(value)


def evaluate(value: Any, client: Any) -> Any:
    """Compute a delayed value and bring it here."""
    return load_dask().compute(value)[0] if client is None else client.compute(value, sync=True)


def as_blocks(name: str, x: Any) -> Any:
    """A matrix as a dask array whose blocks hold whole rows, few enough to be worked on at once.

    Blocks are only cut, never put together, so that no row moves between workers.
    """
    if not is_dask(x):
        rows = check_rows(name, x, min_rows=3)
        chunks = (BLOCK_ROWS, -1)
        x = load_dask().array.from_array(rows, chunks=chunks, asarray=not sp.issparse(rows))
    if getattr(x, "ndim", None) != 2:
        raise ValueError(f"{name} must be a dask array of rows by columns, got {x!r}")
    if np.isnan(x.shape).any():
        raise ValueError(f"{name} has blocks of unknown size; call its compute_chunk_sizes() first")
    if x.dtype.kind not in "fiub":
        raise ValueError(f"{name} has entries of type {x.dtype}; it must hold real numbers")
    if x.shape[0] < 3 or x.shape[1] < 1:
        raise ValueError(f"{name} has shape {x.shape}; at least 3 rows and 1 column are required")
    if x.numblocks[1] > 1:
        x = x.rechunk({1: -1})
    most = BLOCK_ROWS
    if not sp.issparse(x._meta):
        most = int(np.clip(BLOCK_BYTES // (x.shape[1] * x.dtype.itemsize), 100, BLOCK_ROWS))
    if max(x.chunks[0]) > most or 0 in x.chunks[0]:
        parts = [np.full(-(-size // most), size) for size in x.chunks[0] if size > 0]
        cut = [[size // len(p) + (j < size % len(p)) for j, size in enumerate(p)] for p in parts]
        x = x.rechunk({0: tuple(int(size) for block in cut for size in block)})
    return x


def matching(name: str, signals: Any, x: Any) -> Any:
    """Signals in blocks of the same rows as those of `x`; `x` itself where none are given."""
    if signals is None or signals is x:
        return x
    if not is_dask(signals):
        signals = as_blocks(name, signals)
    if signals.ndim != 2 or signals.shape[0] != x.shape[0]:
        raise ValueError(f"{name} has shape {signals.shape}; expected {x.shape[0]} rows, as the dataset has")
    return signals.rechunk({0: x.chunks[0], 1: -1})


def matched(datasets: Sequence[Any], signals: Sequence[Any] | None) -> tuple[list[Any], list[Any]]:
    """Datasets in blocks, and their signals in blocks of the same rows."""
    x = [as_blocks(f"datasets[{i}]", d) for i, d in enumerate(datasets)]
    given = [None] * len(x) if signals is None else list(signals)
    if len(given) != len(x):
        raise ValueError(f"signals has {len(given)} matrices for {len(x)} datasets; give one for each")
    return x, [matching(f"signals[{i}]", g, d) for i, (g, d) in enumerate(zip(given, x, strict=True))]


def blocks_of(x: Any) -> list[Any]:
    """The blocks of a dask array, one delayed matrix each."""
    return list(x.to_delayed().ravel())


def stacked(*parts: Any) -> Any:
    """Pieces of one matrix put together; sparse stays sparse."""
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts, format="csr") if any(map(sp.issparse, parts)) else np.vstack(list(parts))


@dataclass(frozen=True)
class Noted:
    """A value that was computed elsewhere, and the warnings that were raised there."""

    value: Any
    warnings: tuple[tuple[type[Warning], str], ...]

    def repeat_warnings(self) -> None:
        """Raise the warnings again, here."""
        for category, message in self.warnings:
            warnings.warn(message, category, stacklevel=4)


def noted(function: Callable[..., Any], *args: Any) -> Noted:
    """Call a function; its warnings would otherwise end in a worker's log."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = function(*args)
    seen = dict.fromkeys((w.category, str(w.message)) for w in caught if issubclass(w.category, UserWarning))
    return Noted(value, tuple(seen))
