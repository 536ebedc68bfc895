"""Hidden names for what is being written, and what runs that were killed left under such names.

A file is written under a hidden name in the folder of its target and then renamed. The name says which
process writes it, so that a later run can tell what is being written from what nobody will finish.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import re
import shutil
import sys
import time
import uuid
from functools import cache
from pathlib import Path

__all__ = ["ending", "hidden_name", "recover", "remove", "rename", "sweep"]

logger = logging.getLogger("harmonicalign")

_NAME = re.compile(r"\.harmonicalign-([0-9a-f]{8})-(\d+)-[0-9a-f]{12}(\..*)?")
_UNFINISHED_SECONDS = 24 * 3600
"""What processes elsewhere wrote last so long ago is taken for left behind."""


def hidden_name(target: Path) -> Path:
    """A name in the folder of `target` to write to: unused, with the ending of `target`.

    What earlier runs left in that folder when they were killed is removed.
    """
    sweep(target.parent)
    recover(target)
    # The target's name may leave no room for more letters, so only its ending is kept.
    name = f".harmonicalign-{_place()}-{os.getpid()}-{uuid.uuid4().hex[:12]}{ending(target)}"
    return target.with_name(name)


def ending(path: Path) -> str:
    """Ending of a name that determines the format, such as .csv.gz."""
    found = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    return found if len(found) <= 20 else ""


def sweep(folder: Path) -> list[Path]:
    """Remove hidden files and folders whose writer is gone; return them.

    A process elsewhere (another machine or container that shares the folder) cannot be asked for, so what
    it writes counts as left behind a day after the last change.
    """
    removed = []
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # no such folder yet, or not ours to look at
        return []
    for name in names:
        found = _NAME.fullmatch(name)
        if found is None:
            continue
        path = folder / name
        here = found[1] == _place()
        if _is_running(int(found[2])) if here else _age(path) < _UNFINISHED_SECONDS:
            continue
        remove(path)
        if not os.path.lexists(path):
            removed.append(path)
            logger.info("removed %s, which a run that was killed had left", path)
    return removed


def rename(temporary: Path, target: Path) -> None:
    """Give what was written its name, in place of what had it.

    A folder cannot be renamed onto another that is not empty. Where the system can, the two exchange their
    names at once; elsewhere the earlier folder steps aside under a name from which `recover` brings it back.
    """
    if not temporary.is_dir() or not target.exists():
        os.replace(temporary, target)
    elif _exchange(temporary, target):
        remove(temporary)
    else:
        old = _aside(target)
        remove(old)
        os.replace(target, old)
        try:
            os.replace(temporary, target)
        except BaseException:
            os.replace(old, target)
            raise
        remove(old)


def recover(target: Path) -> None:
    """Bring back a folder that a run had set aside when it was killed before the new one had its name."""
    old = _aside(target)
    if not os.path.lexists(old):
        return
    if target.exists():
        remove(old)
    else:
        os.replace(old, target)
        logger.info("%s is back: a run that was to replace it was killed", target)


def remove(path: Path) -> None:
    """Remove a file or folder, if it is there and can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        path.unlink(missing_ok=True)
    except OSError:
        logger.info("%s could not be removed", path)


def _aside(target: Path) -> Path:
    """Name of an earlier folder while a new one takes its place; it follows from the name of the folder."""
    digest = hashlib.sha256(target.name.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return target.with_name(f".harmonicalign-aside-{digest}")


def _exchange(one: Path, other: Path) -> bool:
    """Let two paths exchange their names in one step; False where the system or the disk cannot."""
    if sys.platform != "linux":
        return False
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    here, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(swap(here, os.fsencode(one), here, os.fsencode(other), ctypes.c_uint(both)) == 0)


@cache
def _place() -> str:
    """Where a process number means one process: this machine since it started, and this container."""
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        parts = started + os.readlink("/proc/self/ns/pid")
    except (OSError, AttributeError):
        parts = platform.node()
    return hashlib.sha256(parts.encode()).hexdigest()[:8]


def _is_running(process: int) -> bool:
    """Whether there is a process of that number here; true where that cannot be asked."""
    if sys.platform == "win32":  # where signal 0 would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _age(path: Path) -> float:
    """Seconds since the last change of a file, or of any file in a folder."""
    latest = 0.0
    for file in (path, *(path.rglob("*") if path.is_dir() else ())):
        try:
            latest = max(latest, file.lstat().st_mtime)
        except OSError:
            return 0.0  # it is being changed right now
    return time.time() - latest
