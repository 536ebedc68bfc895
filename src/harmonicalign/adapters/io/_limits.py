"""Limits for compressed files, as a few bytes can claim to hold terabytes."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from harmonicalign.adapters.io._errors import DataFileError
from harmonicalign.method.memory import available_bytes

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["DEFLATE_RATIO", "Metered", "check_fits", "check_growth", "check_text", "packer"]

DEFLATE_RATIO = 1032
"""Maximum expansion by deflate, which zip and gzip use; a file that claims more is damaged."""

_HARMLESS = 256 * 2**20
"""Bytes to which any file may unpack."""

_FIELD_BYTES = 64
"""Memory of a field of a table in pandas beside the text itself: 34 were measured for short numbers; names
take more."""

_CHUNK = 2**20


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
        Bytes of free memory; by default what there is within the limits of the container and the process.
    """
    available = available_bytes() if available is None else available
    if available is not None and promised > available:
        raise DataFileError(
            f"{path} says it holds {_size(promised)}, and {_size(available)} of memory are free; "
            f"it is damaged or too large to be read at once{hint and '; ' + hint}"
        )


def check_growth(path: Path, promised: int, stored: int) -> None:
    """Refuse a file whose content is out of all proportion to its size, as no real data are.

    Parameters
    ----------
    path
        The file.
    promised
        Bytes that it claims to hold.
    stored
        Bytes that it takes on the disk.
    """
    if promised > max(_HARMLESS, DEFLATE_RATIO * stored):
        raise DataFileError(
            f"{path} says it holds {_size(promised)} in {_size(stored)} on the disk, as real data never do; "
            "if you know where it comes from, read it as trusted (trusted=True)"
        )


def check_text(path: Path, chunks: Callable[[], AbstractContextManager[IO[bytes]]]) -> None:
    """Refuse a table of text that would not fit into memory, before it is parsed.

    Parameters
    ----------
    path
        The file, for its size and for messages.
    chunks
        Opens the text, unpacked; it is read through once, in small parts, unless even the worst text of that
        size would fit.
    """
    available = available_bytes()
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    most = path.stat().st_size * (DEFLATE_RATIO if packed else 1)
    if available is None or most * (1 + _FIELD_BYTES) <= available:
        return
    needed = 0
    with chunks() as stream:
        while part := stream.read(_CHUNK):
            # No field without a separator or the end of a line beside it.
            fields = sum(part.count(mark) for mark in b",;\t\n ")
            needed += len(part) + _FIELD_BYTES * fields
            if needed > available:
                raise DataFileError(
                    f"{path} unpacks to more than the {_size(available)} of free memory can hold as a table"
                    if packed
                    else f"{path} takes more than the {_size(available)} of free memory as a table"
                )


class Metered(io.RawIOBase):
    """A stream that stops at a limit; gzip does not give the size in advance.

    Parameters
    ----------
    path
        The file, for messages.
    stream
        What to read from.
    limit
        Bytes that may pass; by default those of free memory.
    """

    def __init__(self, path: Path, stream: IO[bytes], limit: int | None = None) -> None:
        self.path, self.stream, self.passed = path, stream, 0
        limit = available_bytes() if limit is None else limit
        self.limit = float("inf") if limit is None else limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer).cast("B")
        part = self.stream.read(len(room))
        room[: len(part)] = part
        self.passed += len(part)
        if self.passed > self.limit:
            raise DataFileError(f"{self.path} unpacks to more than the {_size(self.limit)} it may have")
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
