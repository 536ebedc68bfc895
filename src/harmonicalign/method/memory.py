"""A plan of memory, made before the work: what a fit will need, what there is, and what would fit instead.

The figures are measured, and rounded up (fits of two datasets of 1,500 to 150,000 rows each, of 30 to 1,000
columns). They are of what a fit adds to the data themselves, and good to about a quarter.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from harmonicalign.method.config import DEFAULT
from harmonicalign.paper.graph import EXACT_ROWS

__all__ = ["NotEnoughMemoryError", "available_bytes", "check", "planned_bytes", "told"]

_BUFFERS, _LEAST = 64 * 2**20, 250 * 2**20
"""Any fit: buffers of the neighbour search and of the solvers; and the least that a small one takes."""

_JOINT_ROW = 4600
"""Refined, per row: joint coordinates, neighbours, kernel, harmonics and embedding of 50 columns each."""

_PLANE_ROW = 2300
"""Refined, per row while rows are laid onto planes: where they were, and their neighbourhoods."""

_PER_PAIR_KEPT, _PER_PAIR_BUILT = 8, 18
"""Paper, up to 10,000 rows: bytes per pair of rows of a kernel that is kept, and of one being built."""

_PER_NEIGHBOUR = 64
"""Paper, beyond: bytes per row and neighbour looked at."""

_PCA_WIDTH = 50

_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Files with the limit on and the use of memory in a container, for both versions of control groups."""


class NotEnoughMemoryError(MemoryError):
    """Work that would not fit into memory, refused before it began."""


def planned_bytes(
    sizes: Sequence[int],
    widths: Sequence[int],
    n_harmonics: Sequence[int],
    n_neighbors: Sequence[int],
    *,
    method: str = "refined",
    n_landmarks: int = 2000,
    n_signals: int = 0,
    itemsize: int = 8,
) -> int:
    """Bytes that a fit adds at its peak, about.

    Parameters
    ----------
    sizes
        Rows of every dataset.
    widths
        Columns that every dataset's graph is built on: its principal components, or all columns.
    n_harmonics, n_neighbors
        Of every dataset, as settled for the fit.
    method
        "refined" or "paper".
    n_landmarks
        Rows of each that find the alignment.
    n_signals
        Columns that are compared.
    itemsize
        Bytes of a number of the data, 4 or 8.
    """
    if method == "paper":
        return max(_LEAST, _BUFFERS + _paper_bytes(sizes, widths, n_harmonics, n_neighbors, n_signals))
    n = sum(sizes)
    landmarks = sum(min(size, n_landmarks) for size in sizes)
    # Wide data that are not reduced are copied once, and enter the joint space on landmarks only.
    beyond = sum(
        size * max(0, width - _PCA_WIDTH) * itemsize for size, width in zip(sizes, widths, strict=True)
    )
    spectra = sum(8 * k * min(size, n_landmarks) for size, k in zip(sizes, n_harmonics, strict=True))
    rows = n * (_JOINT_ROW + (_PLANE_ROW if n <= DEFAULT.tangent_rows else 0)) + beyond
    return max(_LEAST, _BUFFERS + rows + 3 * spectra + 16 * landmarks * n_signals)


def _paper_bytes(
    sizes: Sequence[int],
    widths: Sequence[int],
    n_harmonics: Sequence[int],
    n_neighbors: Sequence[int],
    n_signals: int,
) -> int:
    kept, built = 0, 0
    for n, width, k, neighbours in zip(sizes, widths, n_harmonics, n_neighbors, strict=True):
        pairs = n * n if n <= EXACT_ROWS else 0
        graph = _PER_NEIGHBOUR * n * 5 * neighbours if not pairs else _PER_PAIR_BUILT * pairs
        # More than a third of all harmonics are found by a full decomposition.
        whole = 3 * 8 * n * n if k > n // 3 else 0
        kept += _PER_PAIR_KEPT * pairs + (0 if pairs else graph // 3) + 8 * n * (k + width)
        built = max(built, graph, whole)
    every = sum(n_harmonics)
    coordinates = 2 * 8 * sum(sizes) * every
    return kept + built + coordinates + 8 * n_signals * every


def available_bytes() -> int | None:
    """Bytes that this process can have: free memory, within limits of its container; None if nobody tells."""
    limits = (_free_memory(), *map(_container, _CGROUPS), _address_space())
    known = [limit for limit in limits if limit is not None]
    return max(0, min(known)) if known else None


def _free_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _container(files: tuple[str, str]) -> int | None:
    try:
        limit, used = (Path(file).read_text(encoding="ascii").strip() for file in files)
        return int(limit) - int(used)
    except (OSError, ValueError):  # no such group, or "max", which is no limit
        return None


def _address_space() -> int | None:
    """What a limit on the process itself (``ulimit -v``) leaves."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return int(limit) - pages * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):
        return None


def check(
    sizes: Sequence[int],
    widths: Sequence[int],
    n_harmonics: Sequence[int],
    n_neighbors: Sequence[int],
    *,
    method: str = "refined",
    n_landmarks: int = 2000,
    n_signals: int = 0,
    itemsize: int = 8,
    available: int | None = None,
) -> int:
    """Refuse a fit that would not fit into memory; parameters as in `planned_bytes`.

    Parameters
    ----------
    available
        Bytes that there are; by default `available_bytes`.

    Returns
    -------
    planned
        Bytes that the fit will add, about.

    Raises
    ------
    NotEnoughMemoryError
        With what it would need, what there is, and what would fit.
    """

    def plan(name: str, bytes_of_number: int) -> int:
        return planned_bytes(
            sizes,
            widths,
            n_harmonics,
            n_neighbors,
            method=name,
            n_landmarks=n_landmarks,
            n_signals=n_signals,
            itemsize=bytes_of_number,
        )

    planned = plan(method, itemsize)
    room = available_bytes() if available is None else available
    if room is None or planned <= room:
        return planned
    if method == "paper" and plan("refined", itemsize) <= room:
        instead = f"method='refined' needs about {told(plan('refined', itemsize))}"
    elif method == "refined" and itemsize == 8 and plan("refined", 4) <= room:
        instead = f"as float32 it needs about {told(plan('refined', 4))}"
    else:
        share = max(room - _BUFFERS, 0) / (planned - _BUFFERS)
        rows = int(sum(sizes) * share ** (0.5 if method == "paper" else 1))
        instead = "Dask arrays need no more than a few of their blocks"
        if rows > 3 * len(sizes):
            instead += f", and about {rows:,} of the {sum(sizes):,} rows would fit"
    raise NotEnoughMemoryError(
        f"aligning {sum(sizes):,} rows needs about {told(planned)} of memory and {told(room)} are free; "
        + instead
    )


def told(n: int) -> str:
    """A number of bytes for people."""
    return f"{n / 2**30:,.1f} GiB" if n >= 2**30 else f"{n / 2**20:,.0f} MiB"
