"""Alignment of datasets that fit into no single memory, on a Dask cluster.

`fit_landmarks` fits a model on a sample of every dataset's rows and places all others by it; `fit_chunks`
is the paper's divide and conquer. Both take and return dask arrays. `open_lazy` and `write_embedding`
read and write files block by block.
"""

from harmonicalign.adapters.distributed.alignment import DistributedAlignment
from harmonicalign.adapters.distributed.chunks import Description, fit_chunks
from harmonicalign.adapters.distributed.files import open_lazy, write_embedding
from harmonicalign.adapters.distributed.inputs import LazyInputs, parse_lazy
from harmonicalign.adapters.distributed.landmarks import choose_landmarks, fit_landmarks
from harmonicalign.adapters.distributed.result import DistributedResult
from harmonicalign.inputs.frames import is_dask
from harmonicalign.inputs.parse import holds_dask

__all__ = [
    "Description",
    "DistributedAlignment",
    "DistributedResult",
    "LazyInputs",
    "choose_landmarks",
    "fit_chunks",
    "fit_landmarks",
    "holds_dask",
    "is_dask",
    "open_lazy",
    "parse_lazy",
    "write_embedding",
]
