"""What scikit-learn's conventions ask of an estimator whose result is held in one attribute, ``fitted_``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from operator import attrgetter
from threading import Lock, RLock
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.utils.validation import check_is_fitted, validate_data

from harmonicalign._exceptions import AlignmentWarning
from harmonicalign._typing import Array, Datasets, Labels, Matrix
from harmonicalign.engines.threads import owned
from harmonicalign.fitted.given import Given
from harmonicalign.inputs.frames import Layout, layout_of, names_of, part_of
from harmonicalign.inputs.parse import Inputs, parse

__all__ = [
    "Wrapper",
    "at_hand",
    "attribute",
    "check_container",
    "container_of",
    "exclusive",
    "feature_facts",
    "forget",
    "mention_what_is_not_aligned",
    "method",
    "parse_for",
    "placed_for",
    "wrapper_for",
]

_FACTS = ("n_features_in_", "feature_names_in_")
"""What scikit-learn keeps of the columns."""

_CONTAINERS = ("default", "pandas", "polars")
"""What `HarmonicAlignment.set_output` knows."""

_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S")


def attribute(read: str | Callable[[Any], Any], *, refined: bool = False) -> Any:
    """A read-only attribute.

    Parameters
    ----------
    read
        Where it is in ``fitted_``, or a function of ``fitted_``.
    refined
        Only the default method has it.
    """
    get = attrgetter(read) if isinstance(read, str) else read

    def value(self: Any) -> Any:
        check_is_fitted(self, "fitted_")
        if refined and self.fitted_.model.correspondence is None:
            raise AttributeError("only a refined alignment of two or more datasets has this")
        with owned():
            return get(self.fitted_)

    return property(value)


def method(function: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[Any, _P], _R]:
    """A method that needs the rows at hand, with its own signature and documentation."""

    @wraps(function)
    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with owned():
            return function(at_hand(self), *args, **kwargs)

    return call


def at_hand(estimator: Any) -> Any:
    """The fitted alignment, refused where its rows are not in memory."""
    check_is_fitted(estimator, "fitted_")
    return estimator.fitted_.at_hand()


_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""A lock for every estimator; kept here, because estimators are copied and pickled and locks cannot be."""

_LOCKS_LOCK = Lock()


def exclusive(function: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """A method that changes the estimator: other threads wait until it is done."""

    @wraps(function)
    def call(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with _LOCKS_LOCK:
            lock = _LOCKS.setdefault(self, RLock())
        with lock, owned():
            return function(self, *args, **kwargs)

    return call


def mention_what_is_not_aligned(y: Any, batch: Any, n_datasets: int) -> None:
    """Warn of labels, which are not used, and of a single dataset, which is aligned with nothing.

    With `batch`, labels are no mistake: a pipeline passes them on to a classifier.
    """
    said = []
    if y is not None and (batch is None or n_datasets == 1):
        said.append("y is not used: X holds the datasets, and labels play no part in the alignment")
    if n_datasets == 1:
        said.append("there is one dataset, so nothing is aligned and the result is its diffusion map")
    if said:
        warnings.warn(
            f"{'; '.join(said)}. Pass several datasets as fit([x, y]) or fit({{'a': x, 'b': y}}), or one "
            "stacked matrix with batch=…, the label of each row's dataset",
            AlignmentWarning,
            stacklevel=4,
        )


def forget(estimator: Any) -> None:
    """Drop what an earlier fit left, so that fitting again equals fitting anew."""
    for name in [name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")]:
        delattr(estimator, name)


def parse_for(
    estimator: Any,
    X: Datasets,
    batch: Labels | None,
    signals: Datasets | str | None,
    given: Given,
) -> Inputs:
    """Datasets in one form; the estimator remembers number and names of the columns."""
    if batch is None and (sp.issparse(X) or not isinstance(X, list | tuple | dict)):
        names = names_of(X) or []
        if len(set(names)) < len(names):
            raise ValueError("X has a column name more than once; make names unique")
        # One plain matrix: use scikit-learn's checks, messages and feature names.
        validate_data(estimator, X, accept_sparse="csr", dtype=None, ensure_min_samples=3)
    paired = given.anchors is not None
    inputs = parse(X, batch, signals, corresponding=given.links is None, paired=paired)
    widths = {d.shape[1] for d in inputs.datasets}
    if len(widths) == 1:
        estimator.n_features_in_ = widths.pop()
    layout = inputs.layout(0)
    labels = layout.names if layout.labels is None else layout.labels
    if inputs.form == "stacked" and labels is not None and all(isinstance(c, str) for c in labels):
        estimator.feature_names_in_ = np.asarray(labels, dtype=object)
    return inputs


def feature_facts(estimator: Any) -> dict[str, Any]:
    """What scikit-learn keeps of the columns, by name."""
    return {name: getattr(estimator, name) for name in _FACTS if hasattr(estimator, name)}


def check_container(container: str) -> str:
    """The container that results are to come in, if it is known."""
    if container not in _CONTAINERS:
        raise ValueError(f"transform is {container!r}; expected 'default', 'pandas' or 'polars'")
    return container


@dataclass(frozen=True)
class Wrapper:
    """Puts coordinates into a container.

    Attributes
    ----------
    container
        One of 'default', 'pandas' and 'polars'.
    columns
        Names of the coordinates; empty where the container has none.
    """

    container: str
    columns: list[str]

    def wrap(self, result: Array, index: Any) -> Any:
        """Coordinates in the container, with the labels of the rows if there are any; dask arrays stay."""
        if not isinstance(result, np.ndarray) or self.container not in ("pandas", "polars"):
            return result
        return Layout(self.columns, self.container).table(result, index=index)

    def hand_back(self, inputs: Inputs, results: Sequence[Array]) -> Any:
        """Coordinates of every dataset in the form of the input."""
        if inputs.form == "stacked":
            return self.wrap(inputs.restore(list(results)), inputs.all_row_labels())
        return inputs.restore([self.wrap(z, inputs.row_labels(i)) for i, z in enumerate(results)])


def container_of(estimator: Any) -> str | None:
    """The container that `set_output` chose, if it did."""
    chosen: str | None = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    return chosen


def wrapper_for(estimator: Any) -> Wrapper:
    """What puts results into the container that `set_output` or scikit-learn's configuration asks for."""
    chosen = container_of(estimator) or sklearn.get_config()["transform_output"]
    return Wrapper(chosen, [] if chosen == "default" else list(estimator.get_feature_names_out()))


@owned()
def placed_for(
    estimator: Any, X: Datasets, dataset: object, batch: Labels | None, signals: Datasets | None
) -> Any:
    """What `HarmonicAlignment.transform` returns."""
    check_is_fitted(estimator, "fitted_")
    fitted, wrapper = estimator.fitted_, wrapper_for(estimator)
    if batch is not None:
        if dataset is not None:
            raise ValueError("dataset and batch both say where the rows belong; give one of them")
        return wrapper.wrap(_place_stacked(fitted, X, np.asarray(batch), signals), layout_of(X).index)
    if dataset is None and len(fitted.keys) > 1:
        return wrapper.hand_back(*fitted.place_all(X, signals))
    i = 0 if dataset is None else fitted.position(dataset)
    rows = X
    if fitted.is_one_matrix:
        rows = validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
    return wrapper.wrap(fitted.place(i, rows, signals), layout_of(X).index)


def _place_stacked(fitted: Any, X: Matrix, batch: Array, signals: Matrix | None) -> Array:
    """Aligned coordinates of the rows of one matrix, each placed as a row of its dataset."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if batch.shape != (n,):
        raise ValueError(f"batch has shape {batch.shape} but X has {n} rows; give one label per row")
    if signals is not None and np.shape(signals)[0] != n:
        raise ValueError(f"signals has {np.shape(signals)[0]} rows where X has {n}; rows must match")
    out = np.empty((n, fitted.width), dtype=fitted.embedding[0].dtype)
    for key in dict.fromkeys(batch.tolist()):
        if key not in fitted.keys:
            raise ValueError(
                f"batch holds {key!r}, but the datasets are {fitted.keys}; add(rows, key=…) adds another"
            )
        rows = np.flatnonzero(batch == key)
        shown = None if signals is None else part_of(signals, rows=rows)
        out[rows] = fitted.place(fitted.keys.index(key), part_of(X, rows=rows), shown)
    return out
