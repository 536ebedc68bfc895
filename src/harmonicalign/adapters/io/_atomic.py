"""Atomic writes: under a temporary name in the same folder, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harmonicalign._hidden import hidden_name, recover, remove, rename
from harmonicalign._typing import PathLike
from harmonicalign.adapters.io._errors import DataFileError, is_refusal, write_error

__all__ = ["check_target", "replacing"]

_OUR_FOLDERS = (".zgroup", "zarr.json", "matrix.mtx", "matrix.mtx.gz")
"""A folder is replaced only if it holds one of these, which mark it as data."""


def check_target(
    path: PathLike,
    *,
    force: bool = False,
    folder: bool = False,
    sources: Iterable[PathLike] = (),
    over_sources: bool = False,
) -> Path:
    """Refuse a target that could not be written, before a long computation starts.

    Parameters
    ----------
    path
        Where something will be written. Links are followed.
    force
        Whether an existing target may be replaced.
    folder
        Whether a folder will be written rather than a file.
    sources
        Files and folders that the result is made of.
    over_sources
        Whether one of these may be replaced, which takes more than `force`.

    Returns
    -------
    target
        The path with links resolved.

    Raises
    ------
    FileExistsError
        If something is there and `force` is not set.
    DataFileError
        If the target is a folder where a file will be written or the other way round, its folder is
        read-only, or it is one of the sources (also through a link), lies in one or holds one.
    """
    try:
        target = Path(os.path.realpath(path))
        recover(target)
        exists = target.exists()
    except (OSError, ValueError) as error:
        raise write_error(Path(path), error) from error
    if not over_sources:
        _check_sources(path, target, sources)
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


def _check_sources(path: PathLike, target: Path, sources: Iterable[PathLike]) -> None:
    """Refuse a target that is one of the sources, lies in one or holds one."""
    for source in sources:
        real = Path(os.path.realpath(source))
        try:
            same = real == target or os.path.samefile(real, target)
        except OSError:  # one of them does not exist
            same = False
        if same:
            what = "one of the inputs" + ("" if os.fspath(path) == os.fspath(source) else f", {source}")
        elif real in target.parents:
            what = f"a part of the input {source}"
        elif target in real.parents:
            what = f"a folder that holds the input {source}"
        else:
            continue
        raise DataFileError(
            f"{path} is {what}, which is not replaced; choose another name, or allow overwriting inputs "
            "(over_sources)"
        )


@contextmanager
def replacing(
    path: PathLike,
    *,
    force: bool = False,
    folder: bool = False,
    sources: Iterable[PathLike] = (),
    over_sources: bool = False,
) -> Iterator[Path]:
    """A temporary name to write to, which is renamed to `path` if the block succeeds.

    Otherwise, also on Ctrl-C, it is removed together with any folders made for it. What a process that was
    killed left there is removed by the next one that writes to that folder.

    Parameters
    ----------
    path
        The target; missing folders above it are made.
    force
        Replace an existing target.
    folder
        The block makes a folder rather than a file.
    sources, over_sources
        As for `check_target`.

    Yields
    ------
    temporary
        A path in the target's folder, with the target's ending, which does not exist yet.
    """
    target = check_target(path, force=force, folder=folder, sources=sources, over_sources=over_sources)
    temporary = hidden_name(target)
    made = _missing_folders(target.parent)
    try:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            _sync(temporary)
            if target.exists() and not force:
                raise FileExistsError(f"{path} has been made by somebody else meanwhile; it was left alone")
            rename(temporary, target)
        except DataFileError:
            raise
        except Exception as error:
            # Errors of the disk get a one-sentence message; other errors are not about the target.
            if is_refusal(error):
                raise write_error(Path(path), error) from error
            raise
    except BaseException:
        remove(temporary)
        for created in made:
            if created.is_dir() and not any(created.iterdir()):
                created.rmdir()
        raise


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
