"""Errors of files, each as one sentence."""

from __future__ import annotations

import errno
import re
from pathlib import Path

__all__ = ["DataFileError", "is_refusal", "missing", "one_line", "read_error", "write_error"]


class DataFileError(ValueError):
    """A data file that cannot be read or written in its format."""


_WRITE_REASONS = {
    errno.ENOSPC: "no space is left on the device; free some or write elsewhere",
    errno.EDQUOT: "the disk quota is used up; free some space or write elsewhere",
    errno.EFBIG: "it would grow beyond the largest size allowed for a file here; write elsewhere",
    errno.EACCES: "you may not write to that folder; write elsewhere or change its permissions",
    errno.EPERM: "you may not write to that folder; write elsewhere or change its permissions",
    errno.EROFS: "the folder is on a read-only file system; write elsewhere",
    errno.ENAMETOOLONG: "its name is too long; choose a shorter one",
    errno.ENOTDIR: "a part of its path is a file, not a folder",
}


def one_line(error: BaseException) -> str:
    """The message of an error on one line, shortened if long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:199] + "…"


def missing(package: str, purpose: str, extra: str = "cli") -> ImportError:
    """The error for an optional package that is not installed."""
    return ImportError(f"{purpose} needs {package}: pip install 'harmonicalign[{extra}]'")


def read_error(path: Path, kind: str, error: Exception) -> Exception:
    """The error to raise for an exception of a reader."""
    if isinstance(error, PermissionError):
        return DataFileError(f"{path} cannot be read: you lack the permission to open it")
    if isinstance(error, MemoryError):
        return DataFileError(f"{path} does not fit into memory; read it backed or give a smaller file")
    return DataFileError(
        f"{path} cannot be read as {kind}: it is damaged, cut short or something else "
        f"({type(error).__name__}: {one_line(error)})"
    )


def is_refusal(error: Exception) -> bool:
    """Whether an error is the system's refusal to write: no space, no permission and the like."""
    return _number_of(error) in _WRITE_REASONS


def write_error(path: Path, error: Exception) -> Exception:
    """The error to raise for an exception of a writer."""
    number = _number_of(error)
    if number in _WRITE_REASONS:
        return DataFileError(f"{path} was not written: {_WRITE_REASONS[number]}")
    notes = " ".join(getattr(error, "__notes__", []))
    return DataFileError(
        f"{path} was not written: {one_line(error)}"
        + (f" ({' '.join(notes.split())[:200]})" if notes else "")
    )


def _number_of(error: BaseException | None) -> int | None:
    """System's number of an error; HDF5 puts it in the message, sometimes that of the cause."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno
        if found := re.search(r"errno = (\d+)", str(error)):
            return int(found[1])
        error = error.__cause__ or error.__context__
    return None
