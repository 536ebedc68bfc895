"""`write`: AnnData to any file, all of it or nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harmonicalign._typing import PathLike
from harmonicalign.adapters.io import _arrays, _cytometry, _folders, _scverse, _tables
from harmonicalign.adapters.io._atomic import replacing
from harmonicalign.adapters.io._errors import DataFileError, write_error
from harmonicalign.adapters.io._formats import find_format

if TYPE_CHECKING:
    from anndata import AnnData
    from mudata import MuData

__all__ = ["write"]

_WRITERS: dict[str, Callable[[Any, Path], None]] = {
    "h5ad": _scverse.write_h5ad,
    "h5mu": _scverse.write_h5mu,
    "zarr": _scverse.write_zarr,
    "parquet": _tables.write_parquet,
    "npy": _arrays.write_npy,
    "npz": _arrays.write_npz,
    "fcs": _cytometry.write_fcs,
    "mtx": _folders.write_folder,
}


def write(
    data: AnnData | MuData,
    path: PathLike,
    *,
    format: str | None = None,
    force: bool = False,
    sources: Iterable[PathLike] = (),
    over_sources: bool = False,
) -> Path:
    """Write data to a file or folder, all of it or nothing.

    Parameters
    ----------
    data
        AnnData, or MuData for .h5mu. h5ad and zarr keep everything; tables and .npz keep the matrix, the
        names and the description of rows (.npz also ``obsm``); .npy, .fcs and folders keep the matrix and,
        but for .npy, the names of its columns.
    path
        Where to: the ending determines the format, as for `read`; a name without one is a folder.
    format
        The format's short name, if the ending does not determine it.
    force
        Overwrite existing files. Without it an existing target raises FileExistsError.
    sources
        Files that the data come from. A target that is one of them, also through a link, is refused whatever
        `force` says.
    over_sources
        Overwrite one of the sources all the same.

    Returns
    -------
    path
        Where it was written.
    """
    path = Path(path)
    kind = find_format(path, format)
    if hasattr(data, "mod") and kind.name != "h5mu":
        raise DataFileError(f"{path} cannot hold MuData; give a name that ends in .h5mu, or one modality")
    if kind.name == "mtx" and path.suffix in (".mtx", ".gz"):
        raise DataFileError(f"{path} names one file, and a folder of three is written; drop the ending")
    held = replacing(path, force=force, folder=kind.folder, sources=sources, over_sources=over_sources)
    with held as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* names are not unique")
        warnings.filterwarnings("ignore", message="Writing zarr v2 data")
        warnings.simplefilter("ignore", FutureWarning)
        warnings.filterwarnings("ignore", module="mudata", category=UserWarning)
        try:
            if kind.name in ("csv", "tsv"):
                separator = "," if kind.name == "csv" else "\t"
                packed = path.name.lower().endswith(".gz")
                _tables.write_text(data, temporary, separator=separator, packed=packed)
            else:
                _WRITERS[kind.name](data, temporary)
        except (DataFileError, ImportError):
            raise
        except Exception as error:  # anything that a format cannot hold
            raise write_error(path, error) from error
    return path
