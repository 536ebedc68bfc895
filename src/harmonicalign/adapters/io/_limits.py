"""Limits for compressed files, as a few bytes can claim to hold terabytes."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harmonicalign.adapters.io._errors import DataFileError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["DEFLATE_RATIO", "Metered", "available_memory", "check_fits", "packer"]

DEFLATE_RATIO = 1032
"""Maximum expansion by deflate, which zip and gzip use; a file that claims more is damaged."""


def available_memory(
    meminfo: Path = Path("/proc/meminfo"), ask: Callable[[str], int] | None = None
) -> int | None:
    """Bytes of memory available now; None if unknown.

    Parameters
    ----------
    meminfo
        File in which Linux lists the free memory.
    ask
        Looks up a system value by name; by default `os.sysconf`, which does not exist on Windows.
    """
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        ask = ask or os.sysconf
        return ask("SC_PHYS_PAGES") * ask("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_fits(path: Path, promised: int, hint: str = "", available: int | None = None) -> None:
    """Refuse a file that would not fit into memory.

    Parameters
    ----------
    path
        The file.
    promised
        Bytes that it claims to hold.
    hint
        What else could be done.
    available
        Bytes of free memory; by default what the system says.
    """
    available = available_memory() if available is None else available
    if available is not None and promised > available:
        raise DataFileError(
            f"{path} says it holds {_size(promised)}, and {_size(available)} of memory are free; "
            f"it is damaged or too large to be read at once{hint and '; ' + hint}"
        )


class Metered(io.RawIOBase):
    """A stream that stops at the size of the free memory; gzip does not give the size in advance."""

    def __init__(self, path: Path, stream: io.BufferedIOBase) -> None:
        self.path, self.stream, self.passed = path, stream, 0
        available = available_memory()
        self.limit = float("inf") if available is None else available

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer).cast("B")
        part = self.stream.read(len(room))
        room[: len(part)] = part
        self.passed += len(part)
        if self.passed > self.limit:
            raise DataFileError(
                f"{self.path} unpacks to more than the {_size(int(self.limit))} of free memory"
            )
        return len(part)


@contextmanager
def packer(path: Path) -> Iterator[gzip.GzipFile]:
    """A gzip file to write to; equal content gives equal files, whatever the time and name."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        yield packed


def _size(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024:
            return f"{n:,.0f} {unit}" if unit == "B" else f"{n:,.1f} {unit}"
        n /= 1024
    return f"{n:,.1f} TiB"
