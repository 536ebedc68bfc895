"""One owner of threads: how many there are, who has them, and work over slices of rows in them.

Libraries bring pools of their own: BLAS, OpenMP, and ours. Pools within pools multiply, and on a busy machine
threads that wait for each other by spinning multiply its load. So within `owned`, which every public call
enters first, BLAS and OpenMP have one thread, and work is parallel only through `in_threads`: over parts that
do not depend on the number of threads, so that neither do results. Large decompositions, which BLAS alone
divides, ask for its threads by `blas_threads`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["BLOCK_BYTES", "blas_threads", "each_in_threads", "in_threads", "owned", "row_slices", "threads"]

T = TypeVar("T")
R = TypeVar("R")

BLOCK_BYTES = 2**27
"""Temporary arrays are built in blocks of rows of about this size."""

_LIMITS = ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "LOKY_MAX_CPU_COUNT")
"""Variables of the environment that limit the number of threads. OMP_NUM_THREADS may be a list by level."""


def threads() -> int:
    """Threads that the calling code may use: its share within `in_threads`, else all that were granted.

    By default these are the cores that this process may run on, within the quota of its container, or fewer
    if OMP_NUM_THREADS says so.
    """
    share = getattr(_here, "share", None)
    return _machine() if share is None else int(share)


@contextmanager
def owned(n_jobs: int | None = None) -> Iterator[None]:
    """Take charge of all threads; for every public call that computes, as a decorator or a context.

    Within one that is already open it changes nothing but the number, which can only become smaller. Without
    a number, a limit that the caller set for OpenMP by `threadpoolctl` holds for our threads too.

    Parameters
    ----------
    n_jobs
        Threads to use; −1 for all cores, −2 for all but one, …; None for the default of `threads`.
    """
    outer = getattr(_here, "share", None)
    if outer is not None:
        _blas.look_again()
        with _shared(outer if n_jobs is None else min(outer, _counted(n_jobs))):
            yield
        return
    # Of OpenMP every thread has a number of its own, which other owners leave alone.
    openmp = _numbers(by_thread=True)
    wanted = min(_machine(), *openmp.values()) if n_jobs is None and openmp else _counted(n_jobs)
    # Owners in several threads of the user's (Dask's, say) share the cores; those who come first have more.
    with _blas, _shared(max(1, wanted // len(_blas.owners))):
        _set(dict.fromkeys(openmp, 1))
        try:
            yield
        finally:
            _set(openmp)


def in_threads(work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """What `work` gives for each part, in order, in as many threads as the caller may use.

    The threads share what the caller has: work that calls this again gets fewer threads, down to its own.
    """
    return list(each_in_threads(work, parts))


def each_in_threads(work: Callable[[T], R], parts: Sequence[T]) -> Generator[R, None, None]:
    """The same one by one: the first as soon as it is there, while others are still worked on.

    Who may stop before the last must close it.
    """
    with owned():
        workers = min(threads(), len(parts))
        if workers <= 1:
            yield from map(work, parts)
            return
        share = threads() // workers

        context = copy_context()  # listeners of the progress hear what happens in threads, too

        def begin() -> None:
            _here.share = share
            _set(dict.fromkeys(_numbers(by_thread=True), 1))

        with ThreadPoolExecutor(workers, initializer=begin) as pool:
            yield from pool.map(lambda part: context.copy().run(work, part), parts)


@contextmanager
def blas_threads() -> Iterator[None]:
    """Give BLAS the caller's threads for one large decomposition; results may differ in the last digit."""
    with owned():
        n = threads()
        if n == 1 or not _blas.alone:
            yield
            return
        one = _numbers(by_thread=False) | _numbers(by_thread=True)
        _set(dict.fromkeys(one, n))
        try:
            yield
        finally:
            _set(one)


def row_slices(n_rows: int, bytes_per_row: int, *, block_bytes: int = BLOCK_BYTES) -> list[slice]:
    """Slices of rows whose temporaries stay near `block_bytes`."""
    step = max(1, block_bytes // max(1, bytes_per_row))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


class _Blas:
    """One thread for BLAS while anyone owns threads: its number is one for the process.

    The first owner sets it and the last one restores it. Were each to restore what it found, owners in two
    threads of the user's could leave it at one for ever.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owners: set[int] = set()  # threads; a set, so that one that was interrupted here counts once
        self.before: dict[str, tuple[Any, int]] = {}

    @property
    def alone(self) -> bool:
        """Whether no more than one thread of the user's is in a call of ours."""
        return len(self.owners) <= 1

    def look_again(self) -> None:
        """Limit libraries that were loaded since; modules that are imported late may bring some."""
        if _found[0] != len(sys.modules):
            with self.lock:
                self._limit()

    def __enter__(self) -> None:
        with self.lock:
            self._leave()  # where an interrupt kept this thread from leaving
            self.owners.add(threading.get_ident())
            try:
                self._limit()
            except BaseException:
                self._leave()
                raise

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self._leave()

    def _leave(self) -> None:
        me = threading.get_ident()
        if self.owners == {me}:
            _set(dict(self.before.values()))
            self.before = {}
        self.owners.discard(me)

    def _limit(self) -> None:
        for library, n in _numbers(by_thread=False).items():
            if library.filepath not in self.before:
                self.before[library.filepath] = library, n
                _set({library: 1})


_here = threading.local()
_blas = _Blas()
_found: tuple[int, list[Any]] = (0, [])


@contextmanager
def _shared(share: int) -> Iterator[None]:
    before = getattr(_here, "share", None)
    _here.share = share
    try:
        yield
    finally:
        _here.share = before


def _numbers(*, by_thread: bool) -> dict[Any, int]:
    """The pools of libraries that are loaded, and how many threads they have.

    By thread are those of OpenMP, a BLAS that is built on it included; the others have one number for the
    process. They are looked for again when modules were imported since, for that takes milliseconds.
    """
    global _found
    modules, found = _found
    if modules != len(sys.modules):
        modules, found = len(sys.modules), ThreadpoolController().lib_controllers
        _found = modules, found
    openmp = [lib.user_api == "openmp" or getattr(lib, "threading_layer", "") == "openmp" for lib in found]
    return {
        lib: int(lib.num_threads or 1) for lib, own in zip(found, openmp, strict=True) if own == by_thread
    }


def _set(numbers: dict[Any, int]) -> None:
    for library, n in numbers.items():
        # From 3.7 on threadpoolctl ignores all threads but the first that ever set a number, so that they do
        # not undo each other's; our owners are counted, and must not be ignored.
        getattr(library, "_real_set_num_threads", library.set_num_threads)(n)


def _machine() -> int:
    """Threads by default: cores, or fewer where the environment says so."""
    asked = [os.environ.get(name, "").split(",")[0].strip() for name in _LIMITS]
    return min(_cores(), *(int(n) for n in asked if n.isdigit() and int(n) > 0), sys.maxsize)


def _cores() -> int:
    """Cores that this process may run on, within the quota of its container."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, _quota()))


def _quota(path: str = "/sys/fs/cgroup/cpu.max") -> int:
    """Cores that a container may use at a time, rounded up; very many where nothing limits it."""
    try:
        with open(path, encoding="ascii") as file:
            quota, period = file.read().split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError):  # no such file, or "max", which is no limit
        return sys.maxsize


def _counted(n_jobs: int | None) -> int:
    """A number of threads from the convention of scikit-learn."""
    if n_jobs is None:
        return _machine()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0:
        raise ValueError(f"n_jobs is {n_jobs!r}; expected a number of threads, −1 for all cores, or None")
    return n_jobs if n_jobs > 0 else max(1, _cores() + 1 + n_jobs)
