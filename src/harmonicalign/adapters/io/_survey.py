"""What is in an HDF5 file, found out without trusting it; also run as a script of its own by `_scverse`.

Some damage makes the HDF5 library crash or never return, so another process looks first. It imports nothing
of this package, since that process is given no paths but those of the interpreter.
"""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any

__all__ = ["survey"]

_DEEPEST = 100
"""Groups within groups; AnnData has a handful."""

_OBJECT_BYTES = 1000
"""Memory of a group or array that is read, beside its numbers."""

_TEXT_BYTES = 64
"""Memory of a text beside its letters."""

_WHOLE, _PART_BYTES = 10**6, 2**24
"""Entries up to which an array is read to see whether it can be; bytes of texts read at a time beyond."""


def survey(path: str) -> dict[str, Any]:
    """Sizes of the content of an HDF5 file, and what it takes from elsewhere.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    found
        "bytes", memory by the name of what is at the top: an array that has several names (links) is read as
        often as it is named. "outside", sentences on what would be read from other files. "broken", sentences
        on what cannot be read at all.
    """
    import h5py

    with h5py.File(path, "r") as file:
        walk = _Walk(os.path.dirname(os.path.abspath(path)))
        top = {name: walk.child(file, name, ()) for name in file}
        walk.attributes(file, "/")
    return {"bytes": top, "outside": walk.outside, "broken": walk.broken}


class _Walk:
    """Goes through a file once, however many names its objects have."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.known: dict[tuple[int, int], int] = {}
        self.outside: list[str] = []
        self.broken: list[str] = []

    def child(self, group: Any, name: str, above: tuple[tuple[int, int], ...]) -> int:
        """Bytes of what a group holds under a name."""
        import h5py

        where = f"{group.name.rstrip('/')}/{name}"
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            self.outside.append(f"{where} is a link to {link.path} in the file {link.filename}")
            return 0
        try:
            item = group[name]
        except KeyError:
            self.broken.append(f"{where} is a link that leads nowhere")
            return 0
        info = h5py.h5o.get_info(item.id)
        key = (info.fileno, info.addr)
        if key in above:
            self.broken.append(f"{where} is a link to a group that it is in")
            return 0
        if len(above) > _DEEPEST:
            self.broken.append(f"{where[:60]} … is more than {_DEEPEST} groups deep")
            return 0
        if key not in self.known:
            self.attributes(item, where)
            if isinstance(item, h5py.Group):
                self.known[key] = _OBJECT_BYTES + sum(self.child(item, n, (*above, key)) for n in item)
            elif isinstance(item, h5py.Dataset):
                self.known[key] = _OBJECT_BYTES + self.array(item, where)
            else:
                self.known[key] = _OBJECT_BYTES
        return self.known[key]

    def attributes(self, item: Any, where: str) -> None:
        """Read all attributes."""
        try:
            dict(item.attrs)
        except Exception as error:
            self.broken.append(f"the attributes of {where} cannot be read ({error})")

    def array(self, item: Any, where: str) -> int:
        """Bytes of an array, which is read in parts to see whether that works."""
        if item.shape is None:
            return 0
        unit, numbers = item.dtype.itemsize, math.prod(map(int, item.shape))
        # A chunk is unpacked as a whole, however small the array is.
        total = unit * max(numbers, math.prod(map(int, item.chunks or (0,))))
        if item.external:
            self.outside.append(f"{where} is stored in the file {item.external[0][0]}")
        elif item.is_virtual:
            self.virtual(item, where)
        elif item.dtype.hasobject and item.ndim < 2:
            total += _TEXT_BYTES * numbers + _letters(item)
        elif not item.dtype.hasobject and numbers <= _WHOLE and total <= 8 * _PART_BYTES:
            item[()]
        return int(total)

    def virtual(self, item: Any, where: str) -> None:
        """Say where an array of other arrays takes them from; what is missing would read as zeros."""
        import h5py

        for source in item.virtual_sources():
            name = source.file_name
            if name == ".":
                if source.dset_name not in item.file:
                    self.broken.append(f"{where} is made of {source.dset_name}, which is missing")
                continue
            self.outside.append(f"{where} is made of {source.dset_name} in the file {name}")
            places = [os.path.join(self.folder, name.replace("%b", "0")), name.replace("%b", "0")]
            there = [place for place in places if os.path.isfile(place)]
            if not there:
                self.broken.append(f"{where} is made of the file {name}, which is missing")
                continue
            with h5py.File(there[0], "r") as file:
                if source.dset_name not in file:
                    self.broken.append(f"{where} is made of {source.dset_name} in {name}, which is missing")


def _letters(item: Any) -> int:
    """Bytes of all texts of an array; one text can stand in millions of entries."""
    if item.ndim == 0:
        return _length(item[()])
    total, start, step = 0, 0, 16
    while start < item.shape[0]:
        part = sum(map(_length, item[start : start + step]))
        total, start = total + part, start + step
        if part < _PART_BYTES:
            step *= 2
        elif step > 1:
            step = max(1, step * _PART_BYTES // part)
    return total


def _length(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") else 0


if __name__ == "__main__":
    try:
        print(json.dumps(survey(sys.argv[1])))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
