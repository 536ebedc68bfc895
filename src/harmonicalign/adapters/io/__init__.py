"""Common file formats of single-cell data, read into AnnData and written from it.

::

    from harmonicalign import io

    data = io.read("cells.h5ad")     # or .h5mu .zarr .csv .csv.gz .tsv .parquet .npy .npz .fcs,
    io.write(data, "cells.parquet")  # or a folder with matrix.mtx, barcodes.tsv and features.tsv

Nothing in a file is ever executed: no pickles are read. A file that is damaged, wrongly named or of an
unknown format raises `DataFileError` with one sentence about it. Files are written under a temporary name
and renamed, so that a target is either complete or unchanged.
"""

from harmonicalign.adapters.io._atomic import check_target, replacing
from harmonicalign.adapters.io._errors import DataFileError
from harmonicalign.adapters.io._formats import FORMATS, find_format
from harmonicalign.adapters.io._read import read
from harmonicalign.adapters.io._write import write

__all__ = ["FORMATS", "DataFileError", "check_target", "find_format", "read", "replacing", "write"]
