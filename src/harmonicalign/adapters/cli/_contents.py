"""What the numbers and names of one dataset look like, from some of its rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.adapters.scverse._data import Part
from harmonicalign.adapters.scverse._matrix import Store

__all__ = ["IN_WORDS", "About", "about_part", "describe", "kind_of"]

_SAMPLE = 300
"""Rows of each dataset that are looked at."""

_LARGEST_LOG = 25.0
"""No logarithm of a count is larger; totals scaled to 10,000 stay below 10."""

_CENTRED = 0.5
"""Scaled data have column means below this many standard deviations, in a batch of them, too."""

_ENSEMBL = re.compile(r"ENS[A-Z]*[GTP]\d{6,}")
_SYMBOL = re.compile(r"[A-Za-z][A-Za-z0-9.\-]{1,14}")
_PEAK = re.compile(r"(chr)?[\w.]+[:\-_]\d+[\-_]\d+")

IN_WORDS = {
    "counts": "counts",
    "log": "logarithms (or of that size)",
    "scaled": "scaled (mean zero)",
    "zero or one": "0 and 1",
    "other": "neither counts nor logarithms",
    "nothing": "no matrix",
}


@dataclass(frozen=True)
class About:
    """One dataset.

    Attributes
    ----------
    name
        Its name.
    rows, features
        Its shape.
    values
        "counts", "log", "scaled", "zero or one", "other" or "nothing".
    zeros
        Share of zeros.
    largest
        The largest value of the sample.
    names
        What its features are named by: "Ensembl", "symbols", "peaks", "numbers" or "other".
    repeated_features, repeated_rows
        Number of names that occur more than once.
    finite
        Whether the sample is free of NaN and infinity.
    """

    name: str
    rows: int
    features: int
    values: str
    zeros: float
    largest: float
    names: str
    repeated_features: int
    repeated_rows: int
    finite: bool

    def line(self) -> dict[str, Any]:
        """A line of the table for people."""
        return {
            "dataset": self.name,
            "cells": f"{self.rows:,}",
            "features": f"{self.features:,}",
            "values": IN_WORDS[self.values],
            "largest": f"{self.largest:.4g}",
            "zeros": f"{100 * self.zeros:.0f} %",
            "named by": self.names,
        }


def describe(data: Any, name: str, layer: str | None) -> About:
    """What one AnnData holds."""
    return about_part(Part(name, data), layer)


def kind_of(block: Any) -> str:
    """What the numbers of some rows look like."""
    values = block.data if sp.issparse(block) else np.ravel(block)
    if values.dtype.kind not in "biuf":
        return "other"
    values = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    if not values.size:
        return "other"
    if values.min() < 0:
        return "scaled" if _is_centred(block) else "other"
    if values.dtype.kind in "biu" or bool((values == np.floor(values)).all()):
        return "counts" if values.max() > 1 else "zero or one"
    return "log" if values.max() <= _LARGEST_LOG else "other"


def _is_centred(block: Any) -> bool:
    """Whether most columns have a mean near zero, as after scaling to unit variance."""
    dense = np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)
    spread = dense.std(axis=0)
    varies = np.isfinite(spread) & (spread > 0)
    shift = np.abs(dense.mean(axis=0)[varies]) / spread[varies]
    return bool(shift.size) and float(np.median(shift)) < _CENTRED


def about_part(part: Part, layer: str | None) -> About:
    """What one dataset holds."""
    values = _sampled(part, layer)
    features = part.names
    rows = [str(name) for name in part.take(part.adata.obs_names)]
    known = np.empty(0) if values is None else values.data if sp.issparse(values) else np.ravel(values)
    finite = bool(np.isfinite(known).all()) if known.dtype.kind == "f" else True
    known = known[np.isfinite(known)] if known.dtype.kind == "f" else known
    size = 0 if values is None else values.shape[0] * values.shape[1]
    return About(
        name=str(part.key),
        rows=part.n_rows,
        features=len(features),
        values="nothing" if values is None else kind_of(values),
        zeros=1 - float(np.count_nonzero(known)) / size if size else 0.0,
        largest=float(known.max()) if known.size else 0.0,
        names=_named_by(features),
        repeated_features=len(features) - len(set(features)),
        repeated_rows=len(rows) - len(set(rows)),
        finite=finite,
    )


def _sampled(part: Part, layer: str | None) -> Any:
    """Some rows of a dataset's matrix, spread over it; None where there is no matrix."""
    if layer is None and not part.adata.isbacked and part.adata.X is None:
        return None
    store = Store(part.adata, layer, False, f"X of dataset {part.key!r}")
    own = np.arange(part.adata.n_obs) if part.rows is None else part.rows
    rows: Array = own[np.unique(np.linspace(0, len(own) - 1, _SAMPLE).astype(np.int64))]
    block = store.matrix[rows]
    if hasattr(block, "dask"):
        block = block.compute()
    return sp.csr_matrix(block) if sp.issparse(block) else np.asarray(block)


def _named_by(names: Sequence[str]) -> str:
    """Which kind of identifier most names are."""
    if not names:
        return "other"
    some = [names[i] for i in np.unique(np.linspace(0, len(names) - 1, 500).astype(int))]
    if all(name.isdecimal() for name in some):
        return "numbers"
    for kind, pattern in (("Ensembl", _ENSEMBL), ("peaks", _PEAK), ("symbols", _SYMBOL)):
        if 2 * sum(bool(pattern.match(name)) for name in some) > len(some):
            return kind
    return "other"
