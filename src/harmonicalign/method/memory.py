"""Memory estimate before a fit: what it needs, what is available, and which smaller fit would be possible.

The numbers are measured (fits of two datasets of 2,000 to 150,000 rows each and 50 to 3,000 columns, and of
rows that come thirty times). They cover what a fit needs in addition to the data, within a factor of 1.5.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from harmonicalign.paper.graph import EXACT_ROWS

__all__ = ["NotEnoughMemoryError", "available_bytes", "check", "planned_bytes", "told"]

_BUFFERS = 80 * 2**20
"""Any fit: buffers of the neighbour search and of the solvers."""

_JOINT_ROW = 1880
"""Default method, per row: joint coordinates, neighbours, embedding, tangent planes of a block."""

_SIGNAL = 28
"""Default method, per landmark and signal, while the buffers are not in use: the signals of both sides, and
what is made of them."""

_PER_PAIR_KEPT, _PER_PAIR_BUILT = 8, 18
"""Published method, up to 10,000 rows: bytes per pair of rows of a kernel that is kept, or being built."""

_PER_NEIGHBOUR = 64
"""Published method, more rows: bytes per row and candidate neighbour."""

_PCA_WIDTH = 50

_CGROUPS = (
    (Path("/sys/fs/cgroup"), "", "memory.max", "memory.current", "inactive_file"),
    (
        Path("/sys/fs/cgroup/memory"),
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)
"""Control groups, versions 2 and 1: root, controller, files with the limit and with the memory used, and the
part of the latter that the system gives back when asked."""

_MEMBERSHIP = Path("/proc/self/cgroup")


class NotEnoughMemoryError(MemoryError):
    """Raised before a fit that would not fit into memory."""


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
    """Approximate peak memory of a fit in bytes, without the data.

    Parameters
    ----------
    sizes
        Number of rows of every dataset.
    widths
        Number of columns on which the graph of every dataset is built: principal components, or all columns.
    n_harmonics, n_neighbors
        Values of every dataset in this fit.
    method
        "refined" or "paper".
    n_landmarks
        Maximum number of landmarks per dataset.
    n_signals
        Number of signals.
    itemsize
        Bytes per entry of the data, 4 or 8.
    """
    if method == "paper":
        return _BUFFERS + _paper_bytes(sizes, widths, n_harmonics, n_neighbors, n_signals)
    n = sum(sizes)
    landmarks = sum(min(size, n_landmarks) for size in sizes)
    # Wide data that are not reduced are copied once; their joint coordinates are computed for landmarks only.
    beyond = sum(
        size * max(0, width - _PCA_WIDTH) * itemsize for size, width in zip(sizes, widths, strict=True)
    )
    spectra = sum(8 * k * min(size, n_landmarks) for size, k in zip(sizes, n_harmonics, strict=True))
    return n * _JOINT_ROW + beyond + 3 * spectra + max(_BUFFERS, _SIGNAL * landmarks * n_signals)


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
        # More than a third of all harmonics are computed by a full decomposition.
        whole = 3 * 8 * n * n if k > n // 3 else 0
        kept += _PER_PAIR_KEPT * pairs + (0 if pairs else graph // 3) + 8 * n * (k + width)
        built = max(built, graph, whole)
    every = sum(n_harmonics)
    coordinates = 2 * 8 * sum(sizes) * every
    return kept + built + coordinates + 8 * n_signals * every


def available_bytes() -> int | None:
    """Bytes available to this process: free memory, within the limits of its container; None if unknown."""
    limits = (_free_memory(), *_containers(), _address_space())
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


def _containers() -> list[int | None]:
    """Bytes left in every control group that this process is in, from its own to the root's."""
    try:
        lines = [line.split(":", 2) for line in _MEMBERSHIP.read_text(encoding="utf-8").splitlines()]
    except OSError:
        lines = []
    left = []
    for root, controller, *files in _CGROUPS:
        mine = [line[2] for line in lines if len(line) == 3 and controller in line[1].split(",")]
        own = mine[0] if mine else "/"
        group = PurePosixPath(own.strip("/"))
        # Inside a container the path may be the host's; groups that cannot be seen from here are left out.
        folders = [root / group, *(root / above for above in group.parents)]
        left += [_room(folder, *files) for folder in dict.fromkeys(folders)]
    return left


def _room(folder: Path, limit: str, used: str, given_back: str) -> int | None:
    """Bytes left in a control group; None if it is none or has no limit."""
    try:
        most, taken = (int((folder / file).read_text(encoding="ascii")) for file in (limit, used))
    except (OSError, ValueError):  # no such group, or "max", which is no limit
        return None
    try:
        # Files that were read lately count as used, but make room.
        lines = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        taken -= next((int(line.split()[1]) for line in lines if line.split()[0] == given_back), 0)
    except (OSError, ValueError, IndexError):
        pass
    return most - taken


def _address_space() -> int | None:
    """Bytes left by a limit on the process (``ulimit -v``)."""
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
    *shape: Sequence[int],
    method: str = "refined",
    itemsize: int = 8,
    available: int | None = None,
    **options: Any,
) -> int:
    """Raise an error before a fit that would not fit into memory.

    Parameters
    ----------
    *shape, method, itemsize, **options
        As in `planned_bytes`.
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
        return planned_bytes(*shape, method=name, itemsize=bytes_of_number, **options)

    sizes = shape[0]
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
    """A number of bytes in readable form."""
    return f"{n / 2**30:,.1f} GiB" if n >= 2**30 else f"{n / 2**20:,.0f} MiB"
