"""What scikit-learn's conventions ask of an estimator whose result is held in one attribute, ``fitted_``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.utils.validation import check_is_fitted, validate_data

from harmonicalign.inputs.parse import Inputs, parse
from harmonicalign.outputs import CONTAINERS, Wrapper

__all__ = ["attribute", "feature_facts", "forget", "method", "parse_for", "set_container", "wrapper_for"]

_FACTS = ("n_features_in_", "feature_names_in_")
"""What scikit-learn keeps of the columns."""

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
        return get(self.fitted_)

    return property(value)


def method(function: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[Any, _P], _R]:
    """A method that needs the rows at hand, with its own signature and documentation."""

    @wraps(function)
    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        check_is_fitted(self, "fitted_")
        return function(self.fitted_.at_hand(), *args, **kwargs)

    return call


def forget(estimator: Any) -> None:
    """Drop what an earlier fit left, so that fitting again equals fitting anew."""
    for name in [name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")]:
        delattr(estimator, name)


def parse_for(estimator: Any, X: Any, batch: Any, signals: Any, *, corresponding: bool) -> Inputs:
    """Datasets in one form; the estimator remembers number and names of the columns."""
    if batch is None and (sp.issparse(X) or not isinstance(X, list | tuple | dict)):
        if len(set(map(str, getattr(X, "columns", ())))) < len(getattr(X, "columns", ())):
            raise ValueError("X has a column name more than once; make names unique")
        # One plain matrix: scikit-learn's own checks give its messages and remember its names.
        validate_data(estimator, X, accept_sparse="csr", dtype=None, ensure_min_samples=3)
    inputs = parse(X, batch, signals, corresponding=corresponding)
    widths = {d.shape[1] for d in inputs.datasets}
    if len(widths) == 1:
        estimator.n_features_in_ = widths.pop()
    names = getattr(inputs.containers[0], "columns", None)
    if inputs.form == "stacked" and names is not None and all(isinstance(c, str) for c in names):
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    return inputs


def feature_facts(estimator: Any) -> dict[str, Any]:
    """What scikit-learn keeps of the columns, by name."""
    return {name: getattr(estimator, name) for name in _FACTS if hasattr(estimator, name)}


def set_container(estimator: Any, container: str | None) -> None:
    """Remember the container that results are to come in; None changes nothing."""
    if container is None:
        return
    if container not in CONTAINERS:
        raise ValueError(f"transform is {container!r}; expected 'default', 'pandas' or 'polars'")
    estimator._sklearn_output_config = {"transform": container}


def wrapper_for(estimator: Any) -> Wrapper:
    """What puts results into the container that `set_output` or scikit-learn's configuration asks for."""
    chosen = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    chosen = chosen or sklearn.get_config()["transform_output"]
    return Wrapper(chosen, list(estimator.get_feature_names_out()))
