"""Atomic writes: under a temporary name in the same folder, then renamed."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harmonicalign._typing import PathLike
from harmonicalign.adapters.io._errors import DataFileError, is_refusal, write_error

__all__ = ["check_target", "replacing"]

_OUR_FOLDERS = (".zgroup", "zarr.json", "matrix.mtx", "matrix.mtx.gz")
"""A folder is replaced only if it holds one of these, which mark it as data."""


def check_target(path: PathLike, *, force: bool = False, folder: bool = False) -> Path:
    """Refuse a target that could not be written, before a long computation starts.

    Parameters
    ----------
    path
        Where something will be written. Links are followed.
    force
        Whether an existing target may be replaced.
    folder
        Whether a folder will be written rather than a file.

    Returns
    -------
    target
        The path with links resolved.

    Raises
    ------
    FileExistsError
        If something is there and `force` is not set.
    DataFileError
        If the target is a folder where a file will be written or the other way round, or its
        folder is read-only.
    """
    try:
        target = Path(os.path.realpath(path))
        exists = target.exists()
    except (OSError, ValueError) as error:
        raise write_error(Path(path), error) from error
    if exists:
        if folder != target.is_dir():
            found, wanted = ("a folder", "a file") if target.is_dir() else ("a file", "a folder")
            raise DataFileError(f"{path} is {found}, and {wanted} would be written; choose another name")
        if not force:
            raise FileExistsError(f"{path} exists; choose another name, or allow replacing it (force)")
        if folder and any(target.iterdir()) and not any((target / name).exists() for name in _OUR_FOLDERS):
            raise DataFileError(f"{path} is a folder with other things in it, which are not replaced")
    above = target.parent
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise DataFileError(f"{path} was not written: {above} is a file, not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise DataFileError(f"{path} cannot be written: the folder {above} is read-only for you")
    return target


@contextmanager
def replacing(path: PathLike, *, force: bool = False, folder: bool = False) -> Iterator[Path]:
    """A temporary name to write to, which is renamed to `path` if the block succeeds.

    Otherwise, also on Ctrl-C, it is removed together with any folders made for it.

    Parameters
    ----------
    path
        The target; missing folders above it are made.
    force
        Replace an existing target.
    folder
        The block makes a folder rather than a file.

    Yields
    ------
    temporary
        A path in the target's folder, with the target's ending, which does not exist yet.
    """
    target = check_target(path, force=force, folder=folder)
    # The target's name may leave no room for more letters, so only its ending is kept.
    temporary = target.with_name(f".harmonicalign-{uuid.uuid4().hex[:16]}{_ending(target)}")
    made = _missing_folders(target.parent)
    try:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            _sync(temporary)
            if target.exists() and not force:
                raise FileExistsError(f"{path} has been made by somebody else meanwhile; it was left alone")
            _rename(temporary, target)
        except DataFileError:
            raise
        except Exception as error:
            # Errors of the disk get a one-sentence message; other errors are not about the target.
            if is_refusal(error):
                raise write_error(Path(path), error) from error
            raise
    except BaseException:
        _remove(temporary)
        for created in made:
            if created.is_dir() and not any(created.iterdir()):
                created.rmdir()
        raise


def _ending(path: Path) -> str:
    """Ending of a name that determines the format, such as .csv.gz."""
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    return ending if len(ending) <= 20 else ""


def _missing_folders(folder: Path) -> list[Path]:
    """Folders that do not exist yet, innermost first."""
    out = []
    while not folder.exists():
        out.append(folder)
        folder = folder.parent
    return out


def _sync(path: Path) -> None:
    """Flush a file to disk before it is renamed; folders hold too many files for this."""
    if path.is_file():
        with path.open("rb") as handle:
            os.fsync(handle.fileno())


def _rename(temporary: Path, target: Path) -> None:
    if not temporary.is_dir() or not target.exists():
        os.replace(temporary, target)
        return
    # A folder cannot replace one that is not empty: rename the old one first.
    old = temporary.with_suffix(".old")
    os.replace(target, old)
    try:
        os.replace(temporary, target)
    except BaseException:
        os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
