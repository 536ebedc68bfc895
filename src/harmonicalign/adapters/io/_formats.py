"""File formats by name, and whether the first bytes of a file agree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harmonicalign._typing import PathLike
from harmonicalign.adapters.io._errors import DataFileError

__all__ = ["FORMATS", "Format", "check_content", "find_format"]


@dataclass(frozen=True)
class Format:
    """One file format.

    Attributes
    ----------
    name
        Short name, as `read` and `write` take it.
    suffixes
        Endings of file names.
    title
        What to call it in a sentence.
    folder
        Whether it is a folder.
    """

    name: str
    suffixes: tuple[str, ...]
    title: str
    folder: bool = False


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("h5ad", (".h5ad",), "an AnnData file (h5ad)"),
        Format("h5mu", (".h5mu",), "a MuData file (h5mu)"),
        Format("zarr", (".zarr",), "a zarr store", folder=True),
        Format("csv", (".csv", ".csv.gz"), "a table of comma-separated values"),
        Format("tsv", (".tsv", ".tsv.gz", ".tab", ".txt", ".txt.gz"), "a table of tab-separated values"),
        Format("parquet", (".parquet", ".pq"), "a parquet table"),
        Format("npy", (".npy",), "a numpy array"),
        Format("npz", (".npz",), "an archive of numpy arrays"),
        Format("fcs", (".fcs",), "a cytometry file (FCS)"),
        Format("mtx", ("",), "a folder with a Matrix Market file", folder=True),
    )
}

_SIGNATURES = {
    b"\x89HDF\r\n\x1a\n": ("h5ad", "h5mu"),
    b"MuData (format": ("h5mu",),
    b"\x93NUMPY": ("npy",),
    b"PK\x03\x04": ("npz",),
    b"PK\x05\x06": ("npz",),
    b"PAR1": ("parquet",),
    b"\x1f\x8b": ("csv", "tsv"),
    b"FCS2": ("fcs",),
    b"FCS3": ("fcs",),
}
_BINARY = {name for names in _SIGNATURES.values() for name in names} - {"csv", "tsv"}


def find_format(path: PathLike, name: str | None = None) -> Format:
    """The format a path names by its ending; a folder without one is a Matrix Market folder.

    Parameters
    ----------
    path
        A file or folder, which need not exist.
    name
        The format's short name, if the ending does not determine it.
    """
    if name is not None:
        if name not in FORMATS:
            raise ValueError(f"format is {name!r}; expected one of {', '.join(FORMATS)}")
        return FORMATS[name]
    path = Path(path)
    lower = path.name.lower()
    for known in FORMATS.values():
        if any(suffix and lower.endswith(suffix) for suffix in known.suffixes):
            return known
    if path.is_dir():
        zarr = any((path / marker).exists() for marker in (".zgroup", "zarr.json"))
        return FORMATS["zarr" if zarr else "mtx"]
    if lower.endswith((".mtx", ".mtx.gz")) or (not path.suffix and not path.is_file()):
        return FORMATS["mtx"]
    known_suffixes = " ".join(s for f in FORMATS.values() for s in f.suffixes if s)
    ending = f"the ending {path.suffix!r}" if path.suffix else "no ending"
    raise DataFileError(
        f"{path} has {ending}, which says nothing known about its content; "
        f"expected one of {known_suffixes}, or a folder with matrix.mtx"
    )


def check_content(path: Path, expected: Format) -> None:
    """Refuse a file whose first bytes are those of another format."""
    if expected.folder:
        if not path.is_dir() and not path.name.lower().endswith((".mtx", ".mtx.gz")):
            raise DataFileError(f"{path} is a file, but {expected.title} is a folder")
        return
    if path.is_dir():
        raise DataFileError(f"{path} is a folder, not {expected.title}")
    with path.open("rb") as file:
        start = file.read(16)
    if not start:
        raise DataFileError(f"{path} is empty")
    for signature, names in _SIGNATURES.items():
        if start.startswith(signature):
            if expected.name not in names:
                titles = " or ".join(FORMATS[name].title for name in names)
                ending = FORMATS[names[0]].suffixes[0]
                raise DataFileError(
                    f"{path} is named as {expected.title} but holds {titles}; "
                    f"rename it to end in {ending} or give the right file"
                )
            return
    if expected.name in _BINARY:
        raise DataFileError(f"{path} is not {expected.title}: its first bytes are those of something else")
    if b"\x00" in start:
        raise DataFileError(f"{path} is not {expected.title}: it holds binary data, not text")
