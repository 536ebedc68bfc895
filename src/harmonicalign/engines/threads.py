"""How many threads there are, and work over slices of rows in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

__all__ = ["BLOCK_BYTES", "in_threads", "row_slices", "threads"]

T = TypeVar("T")
R = TypeVar("R")

BLOCK_BYTES = 2**27
"""Temporary arrays are built in blocks of rows of about this size."""


def threads() -> int:
    """Threads to use: the cores this process may run on, or fewer if OMP_NUM_THREADS says so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) > 0 else cores


def row_slices(n_rows: int, bytes_per_row: int, *, block_bytes: int = BLOCK_BYTES) -> list[slice]:
    """Slices of rows whose temporaries stay near `block_bytes`."""
    step = max(1, block_bytes // max(1, bytes_per_row))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def in_threads(work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """What `work` gives for each part, in as many threads as we may use; for large operations of numpy."""
    if len(parts) == 1:
        return [work(parts[0])]
    # Who listens to the progress of a fit is a matter of the context, which threads do not inherit.
    contexts = [copy_context() for _ in parts]
    with ThreadPoolExecutor(threads()) as pool:
        return list(pool.map(lambda context, part: context.run(work, part), contexts, parts))
