"""A score of held-out rows in the form in which scikit-learn's searches and cross-validations take one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
from sklearn.utils.metadata_routing import MetadataRequest

from harmonicalign._typing import Array, Labels, MatrixLike
from harmonicalign.metrics.labels import knn_label_agreement
from harmonicalign.metrics.mixing import mixing_entropy

__all__ = ["AlignmentScorer", "Measure", "alignment_scorer"]

Measure = Callable[[list[Array], "list[Array] | None"], float]
"""A score of the coordinates of every dataset and, where they are known, the labels of their rows."""


def alignment_scorer(measure: str | Measure = "label_agreement", *, k: int = 5) -> AlignmentScorer:
    """A scorer for `sklearn.model_selection`, for one stacked matrix with a `batch` label per row.

    Rows that a model was not fitted on are placed by its `transform`, and then scored. scikit-learn passes
    `batch` on to the scorer only if ``sklearn.set_config(enable_metadata_routing=True)`` was called.

    Parameters
    ----------
    measure
        "label_agreement": share of rows whose label, `y`, is the commonest among the `k` nearest rows of
        another dataset, mean over all ordered pairs of datasets that have a label in common. "mixing":
        `mixing_entropy`, which needs no labels. "mixing_within_labels": the same among rows of one label.
        Or a function of the list of coordinates and the list of labels (None without `y`); larger is better.
    k
        Number of neighbours, at most as many as there are.

    Returns
    -------
    scorer
        For ``GridSearchCV(scoring=…)``, `cross_val_score`, and so on.

    Examples
    --------
    >>> import sklearn
    >>> from sklearn.model_selection import StratifiedKFold, cross_val_score
    >>> from harmonicalign import HarmonicAlignment
    >>> from harmonicalign.datasets import load_digits_pair
    >>> pair = load_digits_pair(preserved=0.7, n_x=150, n_y=150, random_state=0)
    >>> x, y = np.vstack([pair.x, pair.y]), np.concatenate([pair.labels_x, pair.labels_y])
    >>> batch = np.repeat(["clean", "scrambled"], 150)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     model = HarmonicAlignment(random_state=0).set_fit_request(batch=True)
    ...     folds = list(StratifiedKFold(3).split(x, batch))  # each with rows of both datasets
    ...     scores = cross_val_score(
    ...         model, x, y, cv=folds, scoring=alignment_scorer(), params={"batch": batch}
    ...     )
    >>> bool(scores.mean() > 0.5)
    True
    """
    if isinstance(measure, str) and measure not in _MEASURES:
        raise ValueError(f"measure is {measure!r}; expected a function or one of {', '.join(_MEASURES)}")
    return AlignmentScorer(measure, k)


class AlignmentScorer:
    """What `alignment_scorer` returns: a function of an estimator, rows, labels and batches.

    Parameters
    ----------
    measure, k
        As in `alignment_scorer`.
    """

    def __init__(self, measure: str | Measure, k: int) -> None:
        self.measure = measure
        self.k = k

    def __repr__(self) -> str:
        return f"alignment_scorer({self.measure!r}, k={self.k})"

    def __call__(
        self, estimator: Any, X: MatrixLike, y: Labels | None = None, *, batch: Labels | None = None
    ) -> float:
        """Score of rows of several datasets.

        Parameters
        ----------
        estimator
            A fitted `HarmonicAlignment`, or a pipeline that ends in one.
        X
            One matrix of rows of all datasets.
        y
            Labels, one per row.
        batch
            The dataset of every row.
        """
        if batch is None:
            raise ValueError(
                "the scorer needs the dataset of every row: call "
                "sklearn.set_config(enable_metadata_routing=True) and pass batch=… to fit of the search "
                "(params={'batch': …} in cross_val_score)"
            )
        codes = np.asarray(batch)
        keys = np.unique(codes)
        if len(keys) < 2:
            raise ValueError(
                f"the rows to score are all of dataset {keys.tolist()[0]!r}; use folds with rows of every "
                "dataset, such as StratifiedKFold().split(X, batch)"
            )
        coordinates = np.asarray(estimator.transform(X, batch=batch))
        labels = None if y is None else np.asarray(y)
        places = [coordinates[codes == key] for key in keys]
        classes = None if labels is None else [labels[codes == key] for key in keys]
        if callable(self.measure):
            return float(self.measure(places, classes))
        return _MEASURES[self.measure](places, classes, self.k)

    def get_metadata_routing(self) -> MetadataRequest:
        """What scikit-learn is to pass on: `batch`."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="batch", alias=True)
        return request


def _label_agreement(places: list[Array], labels: list[Array] | None, k: int) -> float:
    classes = _needed(labels, "label_agreement")
    scores = []
    for i, j in permutations(range(len(places)), 2):
        both = np.isin(classes[j], classes[i])
        if both.any():
            voters = min(k, len(places[i]))
            scores.append(
                knn_label_agreement(places[i], classes[i], places[j][both], classes[j][both], voters)
            )
    if not scores:
        raise ValueError("y: no two datasets have a label in common, so labels cannot be compared")
    return float(np.mean(scores))


def _mixing(places: list[Array], labels: list[Array] | None, k: int) -> float:
    return mixing_entropy(places, min(k, sum(map(len, places)) - 1))


def _mixing_within_labels(places: list[Array], labels: list[Array] | None, k: int) -> float:
    return mixing_entropy(places, k, labels=_needed(labels, "mixing_within_labels"))


def _needed(labels: list[Array] | None, measure: str) -> list[Array]:
    if labels is None:
        raise ValueError(f"{measure!r} compares labels: pass y, or use measure='mixing'")
    return labels


_MEASURES: dict[str, Callable[[list[Array], list[Array] | None, int], float]] = {
    "label_agreement": _label_agreement,
    "mixing": _mixing,
    "mixing_within_labels": _mixing_within_labels,
}
