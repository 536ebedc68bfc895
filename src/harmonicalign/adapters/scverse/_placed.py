"""Rows of annotated data located in the model, also after rows were dropped or reordered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.adapters.scverse._data import Part, is_anndata, is_mudata, lookup, modality_prefix, unknown
from harmonicalign.estimator import HarmonicAlignment
from harmonicalign.inputs.rows import find_rows

__all__ = ["Placed", "datasets_of", "find", "info_of", "placed"]


@dataclass(frozen=True)
class Placed:
    """Rows of one dataset of a model.

    Attributes
    ----------
    part
        Where the rows are.
    number
        Number of the dataset in the model.
    positions
        For every row, its number in that dataset.
    """

    part: Part
    number: int
    positions: Array


def placed(data: Any, model: HarmonicAlignment, alignment: str) -> list[Placed]:
    """Rows of every dataset of the model that the data hold, in the model's order."""
    found = {_number(part, model): part for part in _parts(data, model, alignment)}
    slot = f"X_{alignment}"
    return [
        Placed(part, number, _positions(part, model.embedding_[number], slot))
        for number, part in sorted(found.items())
    ]


def info_of(adata: Any, alignment: str) -> dict[str, Any]:
    """What `align` noted about a dataset's input."""
    if alignment not in adata.uns:
        raise unknown("uns of data (which align annotates)", alignment, adata.uns)
    info: dict[str, Any] = adata.uns[alignment]["input"]
    return info


def datasets_of(data: Any) -> list[Any]:
    """The AnnData objects in whatever form they come."""
    if is_anndata(data):
        return [data]
    values = data.mod.values() if is_mudata(data) else data.values() if hasattr(data, "values") else data
    return list(values)


def find(name: str, wanted: Any, model: HarmonicAlignment, held: Sequence[Placed]) -> Placed:
    """The rows of a dataset that is named by its key or number."""
    keys = model.keys_
    if wanted in keys:
        number = keys.index(wanted)
    elif str(wanted) in map(str, keys):
        number = list(map(str, keys)).index(str(wanted))
    else:
        raise unknown(f"the model (named in {name})", wanted, keys)
    for one in held:
        if one.number == number:
            return one
    raise ValueError(f"{name} names dataset {wanted!r}, of which data holds no rows; pass all datasets")


def _parts(data: Any, model: HarmonicAlignment, alignment: str) -> list[Part]:
    parts = []
    for adata in datasets_of(data):
        info = info_of(adata, alignment)
        if info["form"] != "batches":
            key = str(info["dataset"])
            parts.append(Part(key, adata, prefix=modality_prefix(key, adata)))
            continue
        labels = np.asarray(lookup("obs", adata.obs, info["batch_key"]).astype(str))
        for key in np.unique(labels).tolist():
            parts.append(Part(key, adata, np.flatnonzero(labels == key)))
    return parts


def _number(part: Part, model: HarmonicAlignment) -> int:
    keys = [str(key) for key in model.keys_]
    if str(part.key) not in keys:
        raise unknown("the model", part.key, model.keys_)
    return keys.index(str(part.key))


def _positions(part: Part, coordinates: Array, slot: str) -> Array:
    own = np.asarray(part.take(lookup(f"obsm of dataset {part.key!r}", part.adata.obsm, slot)))
    if own.shape == coordinates.shape and np.array_equal(own, coordinates):
        return np.arange(len(own))
    found = find_rows(coordinates, own)
    lost = int((found < 0).sum())
    if lost:
        raise ValueError(
            f"obsm[{slot!r}]: {lost} of {len(own)} rows of dataset {part.key!r} are not in the model; "
            "pass the model that wrote it, and leave its coordinates as they are"
        )
    return found
