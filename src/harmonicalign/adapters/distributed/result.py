"""What a distributed fit hands back: coordinates as dask arrays, and a model that stays on the workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array
from harmonicalign.adapters.distributed.blocks import as_blocks, evaluate, load_dask, matching
from harmonicalign.fitted.protocol import AlignedModel
from harmonicalign.inputs.validate import check_rows

__all__ = ["DistributedResult"]


@dataclass(frozen=True)
class DistributedResult:
    """Datasets aligned on a cluster.

    Attributes
    ----------
    embedding
        Aligned coordinates of every dataset, dask arrays that are computed block by block when they
        are asked for; one array in the order of the input where that was one matrix with batches.
    width
        Number of coordinates.
    model
        The fitted model, delayed: it is held by a worker. `fetch_model` brings it here.
    placer
        The part of it that places rows, delayed: every worker that needs it gets a copy.
    sample
        Rows and signals of every dataset on which the model was fitted, delayed.
    confidence
        For every dataset, how well the others support each row's place, in [0, 1], as dask arrays;
        None where the method has no such measure.
    client
        The client that computes; None for dask's own choice.
    dtype
        Type of the coordinates.
    """

    __repr__ = short_repr

    embedding: list[Any]
    width: int
    model: Any
    placer: Any
    sample: Any
    confidence: list[Any] | None
    client: Any
    dtype: Any

    def fetch_model(self) -> AlignedModel:
        """The fitted model; its size is that of the sample, not of the datasets."""
        model: AlignedModel = evaluate(self.model, self.client)
        return model

    def fetch_sample(self) -> tuple[list[Any], list[Any]]:
        """Rows and signals of every dataset on which the model was fitted."""
        rows, signals = evaluate(self.sample, self.client)
        return list(rows), list(signals)

    def place(self, i: int, rows: Any, signals: Any = None) -> Any:
        """Coordinates of more rows of dataset i, block by block, by the extension of the fitted model.

        Parameters
        ----------
        i
            Number of the dataset.
        rows
            Its rows, a dask array.
        signals
            Their signals where the fit had any apart from the rows.
        """
        da = load_dask().array
        x = as_blocks("rows", rows)
        s = matching("signals", signals, x)
        return da.map_blocks(
            _place,
            x,
            s,
            i=i,
            model=self.placer,
            as_type=self.dtype,
            dtype=self.dtype,
            meta=np.empty((0, 0), self.dtype),
            chunks=(x.chunks[0], (self.width,)),
        )


def _place(rows: Any, signals: Any, *, i: int, model: Any, as_type: Any) -> Array:
    placed = model.place(i, check_rows("rows", rows), check_rows("signals", signals))
    return np.asarray(placed, dtype=as_type)
