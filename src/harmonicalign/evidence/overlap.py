"""Whether two datasets that were aligned look like the same things: neighbours must predict each other.

Alignment brings rows together whether or not they have counterparts: threes next to eights, T cells next to B
cells. What a row's neighbours in its own dataset say about its signals, its neighbours in the other dataset
then say only in part. Where datasets have classes in common, they say nearly as much.
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
    share: float = 1.0,
    *,
    random_state: int = 0,
    config: EvidenceConfig = EVIDENCE,
) -> float:
    """How well the other dataset predicts signals, relative to the own one: 1 is as well, 0 is not at all.

    Every row's signals are predicted by the mean of its nearest rows, once in its own dataset and once in the
    other; correlations with its own values are compared feature by feature, on samples of equal size. Of the
    ratios of features that correspond, of which there is a `share`, the median is returned; NaN if hardly any
    feature can be predicted in the own dataset.

    Parameters
    ----------
    coordinates
        Joint coordinates of two datasets.
    signals
        Their signals, with the same columns.
    share
        Share of the features that correspond.
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
    own, other = [], []
    for i in (0, 1):
        near = nearest_rows(places[i], k + 1, places[i], exact=False).indices
        itself = near == np.arange(size)[:, None]
        itself[~itself.any(axis=1), -1] = True  # among duplicates a row may not find itself
        own.append(_correlations(values[i], values[i][near[~itself].reshape(size, k)].mean(axis=1)))
        near = nearest_rows(places[1 - i], k, places[i], exact=False).indices
        other.append(_correlations(values[i], values[1 - i][near].mean(axis=1)))
    return _middle(np.stack(own), np.stack(other), share, config)


def _middle(own: Array, other: Array, share: float, config: EvidenceConfig) -> float:
    """Weighted median, over the features that correspond, of the smaller of both datasets' ratios."""
    least = own.min(axis=0)
    known = np.flatnonzero(least > config.least_predicted)
    if len(known) < config.fewest_features:
        return float("nan")
    ratio = (other[:, known] / own[:, known]).min(axis=0)
    order = np.argsort(ratio)
    reached = np.cumsum(least[known][order] ** 2)
    middle = (1 - np.clip(share, 0.1, 1) / 2) * reached[-1]
    return float(ratio[order][min(np.searchsorted(reached, middle), len(order) - 1)])


def _correlations(x: Array, y: Array) -> Array:
    """Correlation of every column of one matrix with the same column of another."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    size = np.linalg.norm(x, axis=0) * np.linalg.norm(y, axis=0)
    return np.asarray(np.divide((x * y).sum(axis=0), size, out=np.zeros(x.shape[1]), where=size > 1e-12))
