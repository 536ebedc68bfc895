"""Fitted alignments in one file: which types it may hold, and whether its parts belong together."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

from harmonicalign._exceptions import ModelFileError
from harmonicalign.adapters.storage.trees import read_tree, write_tree
from harmonicalign.evidence.correspondence import Correspondence
from harmonicalign.evidence.known import SignalMap
from harmonicalign.evidence.significance import Significance
from harmonicalign.fitted.alignment import FittedAlignment
from harmonicalign.fitted.conventions import check_container
from harmonicalign.fitted.parameters import Parameters
from harmonicalign.inputs.frames import Layout
from harmonicalign.inputs.parse import Inputs
from harmonicalign.inputs.rows import AbsentRows
from harmonicalign.inputs.settings import Settings
from harmonicalign.method.config import MethodConfig
from harmonicalign.method.embed import Embedding
from harmonicalign.method.maps import LinearMap
from harmonicalign.method.model import RefinedModel
from harmonicalign.method.pooling import PooledModel, Pooling
from harmonicalign.method.problem import PairAlignment
from harmonicalign.method.shifts import LocalShift
from harmonicalign.method.space import JointSpace
from harmonicalign.paper.align import Alignment, MultiAlignment
from harmonicalign.paper.graph import Graph
from harmonicalign.paper.harmonics import Harmonics
from harmonicalign.paper.joint import Joint
from harmonicalign.paper.model import PaperModel
from harmonicalign.paper.reduction import Reduction

__all__ = ["TYPES", "Stored", "read_alignment", "write_alignment"]

_MODELS = {cls.__name__: cls for cls in (PaperModel, PooledModel, RefinedModel)}

TYPES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        AbsentRows,
        Alignment,
        Correspondence,
        Embedding,
        FittedAlignment,
        Graph,
        Harmonics,
        Inputs,
        Joint,
        JointSpace,
        Layout,
        LinearMap,
        LocalShift,
        MethodConfig,
        MultiAlignment,
        PairAlignment,
        Parameters,
        Pooling,
        Reduction,
        Settings,
        SignalMap,
        Significance,
        *_MODELS.values(),
    )
}
"""Every type that a file of a fitted alignment may name."""

_TRIED_ROWS = 20
"""Rows of each dataset with which an alignment that was read is tried out."""


@dataclasses.dataclass(frozen=True)
class Stored:
    """What one file holds.

    Attributes
    ----------
    params
        Parameters of the estimator.
    features
        Names and number of the columns, as scikit-learn keeps them.
    fitted
        The alignment.
    container
        What `HarmonicAlignment.set_output` chose, if anything.
    """

    params: dict[str, Any]
    features: dict[str, Any]
    fitted: FittedAlignment
    container: str | None = None


def write_alignment(path: str | os.PathLike[str], stored: Stored) -> Path:
    """Write a fitted alignment to one ``.npz`` file, all of it or nothing."""
    fitted = dataclasses.replace(stored.fitted, inputs=stored.fitted.inputs.without_containers())
    tree = {field.name: getattr(stored, field.name) for field in dataclasses.fields(stored)}
    if not isinstance(stored.params.get("random_state"), int | np.integer | None):
        # A generator's state has no meaning in another process.
        tree["params"] = {**stored.params, "random_state": None}
    # The default's coordinates are those of its model.
    tree["fitted"] = dataclasses.replace(fitted, embedding=()) if _holds_coordinates(fitted) else fitted
    return write_tree(path, tree, TYPES)


def read_alignment(path: str | os.PathLike[str]) -> Stored:
    """Read what `write_alignment` wrote; parts that do not belong together raise `ModelFileError`."""
    tree = read_tree(path, TYPES)
    try:
        stored = _completed(Stored(**tree))
        _check_parts(stored)
        if stored.fitted.metric == "euclidean":
            with np.errstate(all="ignore"):
                _try_out(stored.fitted)
    except Exception as error:  # any error raised by inconsistent parts
        raise ModelFileError(
            f"{path} does not hold a whole model ({type(error).__name__}: {error}); "
            "it is damaged or was not written by harmonicalign"
        ) from error
    return stored


def _holds_coordinates(fitted: FittedAlignment) -> bool:
    """Whether the model keeps the coordinates of the rows as they are, and need not compute them."""
    return isinstance(fitted.model, PooledModel | RefinedModel)


def _completed(stored: Stored) -> Stored:
    """The same with the coordinates that the file leaves out."""
    fitted = stored.fitted
    if not isinstance(fitted, FittedAlignment) or not _holds_coordinates(fitted) or fitted.embedding != ():
        return stored
    filled = dataclasses.replace(fitted, embedding=tuple(fitted.model.coordinates()))
    return dataclasses.replace(stored, fitted=filled)


def _check_parts(stored: Stored) -> None:
    """Check that the parts of a model file are consistent."""
    unknown = set(stored.features) - {"n_features_in_", "feature_names_in_"}
    if unknown:
        raise ValueError(f"it sets {sorted(map(str, unknown))}")
    named = {field.name for field in dataclasses.fields(Parameters)} | {"random_state", "verbose"}
    if not set(stored.params) <= named:
        raise ValueError(f"it has the parameters {sorted(map(str, set(stored.params) - named))}")
    fitted, models = stored.fitted, tuple(_MODELS.values())
    if not isinstance(fitted, FittedAlignment) or not isinstance(fitted.inputs, Inputs):
        raise ValueError("the model or its data are of another type")
    if not isinstance(fitted.model, models) or not isinstance(fitted.embedding, tuple):
        raise ValueError("the model or its coordinates are of another type")
    if not isinstance(fitted.settings, Settings) or not isinstance(fitted.parameters, Parameters):
        raise ValueError("its settings or its parameters are of another type")
    if not isinstance(fitted.seed, int) or not isinstance(fitted.signals_given, bool):
        raise ValueError("its seed or what it knows of its signals are of another type")
    if stored.container is not None:
        check_container(stored.container)
    inputs, n = fitted.inputs, len(fitted.inputs.datasets)
    lengths = {len(part) for part in (fitted.embedding, inputs.keys, inputs.signals, inputs.containers)}
    if lengths != {n} or len(fitted.model.reductions) != n:
        raise ValueError("its parts are for different numbers of datasets")
    _check_names(inputs)
    for z, data, signals in zip(fitted.embedding, inputs.datasets, inputs.signals, strict=True):
        if z.shape != (data.shape[0], fitted.width) or signals.shape[0] != data.shape[0]:
            raise ValueError("rows of its data and of its coordinates differ in number")
        if z.dtype.kind != "f" or not np.isfinite(z).all():
            raise ValueError("its coordinates are not finite numbers")


def _check_names(inputs: Inputs) -> None:
    """Check that names of columns are those of the data and of the signals."""
    for layouts, matrices in ((inputs.layouts, inputs.datasets), (inputs.signal_layouts, None)):
        if len(layouts) not in (0, len(inputs.datasets)):
            raise ValueError("its names of columns are for another number of datasets")
        for i, layout in enumerate(layouts):
            if not isinstance(layout, Layout) or not isinstance(layout.names, list | None):
                raise ValueError("its names of columns are of another type")
            if layout.names is None:
                continue
            if matrices is not None and len(layout.names) != matrices[i].shape[1]:
                raise ValueError("its data and the names of its columns differ in number")
            if matrices is None and not set(inputs.signal_names or []) <= set(layout.names):
                raise ValueError("its signals are not among its columns")


def _try_out(fitted: FittedAlignment) -> None:
    """Place a few rows of every dataset, to see that the parts of an alignment fit together."""
    for i, (data, signals) in enumerate(zip(fitted.inputs.datasets, fitted.inputs.signals, strict=True)):
        if isinstance(data, AbsentRows):
            rows, shared = data.means[None], signals.means[None]
        else:
            some = np.unique(np.linspace(0, data.shape[0] - 1, _TRIED_ROWS).astype(np.int64))
            rows, shared = data[some], signals[some]
        placed = fitted.model.place(i, rows, fitted.linked(i, shared))
        if placed.shape != (rows.shape[0], fitted.width) or not np.isfinite(placed).all():
            raise ValueError("its rows cannot be placed")
