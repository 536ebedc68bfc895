"""Whether two datasets that were aligned look like the same things: neighbours must predict each other.

Alignment brings rows together whether or not they have counterparts: threes next to eights, T cells next to B
cells. What a row's neighbours in its own dataset say about its signals, its neighbours in the other dataset
then say only in part. Where datasets have classes in common, they say nearly as much about most rows,
at least of the dataset with fewer classes of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.evidence.relations import column_variances
from harmonicalign.inputs.rows import dense_columns

__all__ = ["predicted_share"]


def predicted_share(
    coordinates: Sequence[Array],
    signals: Sequence[Any],
    weights: Array | None = None,
    *,
    random_state: int = 0,
    config: EvidenceConfig = EVIDENCE,
) -> float:
    """How well the other dataset predicts signals, relative to the own one: 1 is as well, 0 is not at all.

    Every row's signals are predicted by the mean of its nearest rows, once in its own dataset and once in the
    other; correlations with its own values are compared feature by feature, on samples of equal size. Rows
    whose two predictions differ most are left out, because some may have no counterpart.

    A dataset's value is the median of the ratios of its features, each weighted by how well it is predicted
    and by how much it corresponds. Features that vary in one dataset only count there: that the other cannot
    predict them is what tells different things apart. The larger of both values is returned, because a
    dataset may have classes beside those of the other; NaN if hardly any feature can be predicted.

    Parameters
    ----------
    coordinates
        Joint coordinates of two datasets.
    signals
        Their signals, with the same columns.
    weights
        Weights of the features, how much they correspond; None weights all the same.
    random_state
        Seed of the samples.
    config
        Numbers of rows, features and neighbours.
    """
    rng = np.random.RandomState(random_state)
    size = min(config.examined_rows, *(len(c) for c in coordinates))
    k = config.overlap_neighbours
    if size <= 2 * k:
        return float("nan")
    rows = [np.sort(rng.permutation(len(c))[:size]) for c in coordinates]
    spread = column_variances(signals[0]) * column_variances(signals[1])
    columns = np.sort(np.argsort(-spread, kind="stable")[: config.overlap_features])
    places = [c[r] for c, r in zip(coordinates, rows, strict=True)]
    values = [dense_columns(s[r], columns) for s, r in zip(signals, rows, strict=True)]
    trust: Array = np.ones(len(columns)) if weights is None else np.asarray(weights)[columns]
    found = []
    for i in (0, 1):
        near = nearest_rows(places[i], k + 1, places[i], exact=False).indices
        itself = near == np.arange(size)[:, None]
        itself[~itself.any(axis=1), -1] = True  # among duplicates a row may not find itself
        own = values[i][near[~itself].reshape(size, k)].mean(axis=1)
        near = nearest_rows(places[1 - i], k, places[i], exact=False).indices
        other = values[1 - i][near].mean(axis=1)
        variance = column_variances(values[i])
        precision = np.divide(trust, variance, out=np.zeros_like(variance), where=variance > 1e-12)
        kept = _alike(own, other, precision, config)
        own, other = (_correlations(values[i][kept], mean[kept]) for mean in (own, other))
        found.append(_middle(own, other, trust, config))
    return float(np.fmax(found[0], found[1]))


def _alike(own: Array, other: Array, precision: Array, config: EvidenceConfig) -> Array:
    """Which rows are compared: those whose predictions differ least, beside what all differ by."""
    apart = own - other
    apart = (apart - apart.mean(axis=0)) ** 2 @ precision
    return np.asarray(apart <= np.quantile(apart, config.compared_rows))


def _middle(own: Array, other: Array, trust: Array, config: EvidenceConfig) -> float:
    """Weighted median of the ratios of the features that one dataset predicts itself."""
    known = np.flatnonzero(own > config.least_predicted)
    if len(known) < config.fewest_features:
        return float("nan")
    ratio = other[known] / own[known]
    order = np.argsort(ratio, kind="stable")
    reached = np.cumsum((trust[known] * own[known] ** 2)[order])
    return float(ratio[order][np.searchsorted(reached, reached[-1] / 2)])


def _correlations(x: Array, y: Array) -> Array:
    """Correlation of every column of one matrix with the same column of another."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    size = np.linalg.norm(x, axis=0) * np.linalg.norm(y, axis=0)
    return np.asarray(np.divide((x * y).sum(axis=0), size, out=np.zeros(x.shape[1]), where=size > 1e-12))
