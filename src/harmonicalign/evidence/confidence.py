"""What rows say of an alignment: how well other datasets support and predict their neighbourhoods.

Alignment brings rows together whether or not they have counterparts: threes next to eights, T cells next to B
cells. So there is the confidence of a row, which compares distances in the joint space, and for two datasets
the share of its signals that neighbours in the other dataset predict. Where datasets have classes in common,
these say nearly as much about most rows as neighbours in the row's own dataset, at least of the dataset with
fewer classes of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from harmonicalign._typing import Array
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.evidence.relations import column_variances
from harmonicalign.evidence.significance import Significance
from harmonicalign.inputs.rows import dense_columns

__all__ = ["alike_though_apart", "doubted", "predicted_share", "row_confidence"]


def row_confidence(
    coordinates: Sequence[Array],
    *,
    n_smooth: int | None = None,
    random_state: int = 0,
    config: EvidenceConfig = EVIDENCE,
) -> list[Array]:
    """Confidence of every row, in [0, 1].

    The mean distance of a row to its k nearest rows of its own dataset, divided by that to its k nearest rows
    of the others together: about one where the others have similar rows, small where they have none. Both are
    measured against samples of equal size, so that a dense dataset does not appear close to everything; the
    size depends on the dataset itself and on all others together, so that a small dataset decides nothing.
    The ratio is averaged over neighbours in the same dataset and cut at 1.

    Parameters
    ----------
    coordinates
        Joint coordinates of every dataset.
    n_smooth
        How often the ratio is averaged over neighbours; by default as inside the method
        (``config.confidence_smoothing``).
    random_state
        Seed of the samples.
    config
        Numbers of neighbours and of sampled rows.
    """
    if len(coordinates) < 2:
        return [np.ones(len(c)) for c in coordinates]
    rng = np.random.RandomState(random_state)
    n_smooth = config.confidence_smoothing if n_smooth is None else n_smooth
    sizes = [len(c) for c in coordinates]
    order = [rng.permutation(size) for size in sizes]
    together = np.vstack(list(coordinates)) if len(coordinates) > 2 else None
    shuffled = rng.permutation(sum(sizes)) if together is not None else None
    batch = np.repeat(np.arange(len(sizes)), sizes)
    out = []
    for i, rows in enumerate(coordinates):
        size = min(config.confidence_sample, sizes[i], sum(sizes) - sizes[i])
        k = min(config.confidence_neighbours, size - 1)
        if k < 1:
            out.append(np.ones(len(rows)))
            continue
        sample = np.sort(order[i][:size])
        if together is None or shuffled is None:
            others = coordinates[1 - i][np.sort(order[1 - i][:size])]
        else:
            others = together[np.sort(shuffled[batch[shuffled] != i][:size])]
        out.append(_confidence(rows, sample, others, k, n_smooth))
    return out


def doubted(confidence: Array, tests: Sequence[Significance], config: EvidenceConfig = EVIDENCE) -> Array:
    """Confidence of a dataset's rows if the alignment may mean nothing.

    Rows can be mixed perfectly by an alignment of columns that have nothing to do with each other, and their
    confidence says only that they were mixed. It is reduced if none of the dataset's alignments is
    significant.

    Parameters
    ----------
    confidence
        Confidence of the rows of one dataset.
    tests
        Tests of its alignments with other datasets.
    config
        Factor by which confidence is reduced.
    """
    meaningless = bool(tests) and all(test.by_chance or test.opposed for test in tests)
    return confidence * config.chance_confidence if meaningless else confidence


def _confidence(rows: Array, sample: Array, others: Array, k: int, n_smooth: int) -> Array:
    """Confidence of the rows of one dataset, of which some are a sample, against as many rows of others."""
    found = nearest_rows(rows[sample], k + 1, rows, exact=False)
    near, indices = found.distances, found.indices
    # A sampled row finds itself first, which is dropped; other rows drop their last neighbour instead.
    sampled = np.zeros(len(rows), dtype=bool)
    sampled[sample] = True
    own = np.where(sampled[:, None], near[:, 1:], near[:, :-1]).mean(axis=1)
    other = nearest_rows(others, k, rows, exact=False).distances.mean(axis=1)
    ratio = np.divide(own, other, out=np.ones(len(rows)), where=other > 0)
    for _ in range(n_smooth):
        # The neighbours are sampled rows, also for rows outside the sample.
        ratio = 0.5 * ratio + 0.5 * ratio[sample][indices].mean(axis=1)
    return np.asarray(np.clip(ratio, 0, 1))


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
    predict them is what shows that datasets differ. The larger of both values is returned, because a
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
    counted: Array = np.ones(len(columns)) if weights is None else np.asarray(weights)[columns]
    found = []
    for i in (0, 1):
        near = nearest_rows(places[i], k + 1, places[i], exact=False).indices
        itself = near == np.arange(size)[:, None]
        itself[~itself.any(axis=1), -1] = True  # among duplicates a row may not find itself
        own = values[i][near[~itself].reshape(size, k)].mean(axis=1)
        near = nearest_rows(places[1 - i], k, places[i], exact=False).indices
        other = values[1 - i][near].mean(axis=1)
        variance = column_variances(values[i])
        precision = np.divide(counted, variance, out=np.zeros_like(variance), where=variance > 1e-12)
        kept = _alike(own, other, precision, config)
        own, other = (_correlations(values[i][kept], mean[kept]) for mean in (own, other))
        found.append(_middle(own, other, counted, config))
    return float(np.fmax(found[0], found[1]))


def alike_though_apart(signals: Sequence[Any], weights: Array, config: EvidenceConfig = EVIDENCE) -> float:
    """Rank correlation of the skewness of those columns that do not agree under the alignment.

    Columns that mean something else in the other dataset do not agree, and their values are distributed
    differently. If those that do not agree have the same skewness in both datasets they are likely to be the
    same columns, and what does not agree is the rows: clusters of different kinds were brought together,
    which differ from the rest in other columns. Skewness depends on no unit and no offset.

    Parameters
    ----------
    signals
        Signals of two datasets, with the same columns.
    weights
        Weights of the columns, how much they agree.
    config
        Numbers of rows and columns, and the weight below which a column does not agree.

    Returns
    -------
    correlation
        The correlation less two standard errors of one by chance; −1 if there are too few such columns.
    """
    spread = column_variances(signals[0]) * column_variances(signals[1])
    columns = np.argsort(-spread, kind="stable")[: config.examined_features]
    columns = np.sort(columns[(np.asarray(weights)[columns] < config.not_agreeing) & (spread[columns] > 0)])
    if len(columns) < config.fewest_features:
        return -1.0
    rng = np.random.RandomState(0)
    found = []
    for s in signals:
        rows = np.sort(rng.permutation(s.shape[0])[: config.examined_rows])
        values = dense_columns(s[rows], columns).astype(np.float64)
        values = values - values.mean(axis=0)
        size = np.sqrt((values**2).mean(axis=0))
        found.append(np.divide((values**3).mean(axis=0), size**3, out=np.zeros_like(size), where=size > 0))
    if any(np.ptp(f) == 0 for f in found):
        return -1.0
    by_chance = config.clear_errors / np.sqrt(len(columns) - 1)
    return float(stats.spearmanr(*found).statistic - by_chance)


def _alike(own: Array, other: Array, precision: Array, config: EvidenceConfig) -> Array:
    """Which rows are compared: those whose predictions differ least, beside what all differ by."""
    apart = own - other
    apart = (apart - apart.mean(axis=0)) ** 2 @ precision
    return np.asarray(apart <= np.quantile(apart, config.compared_rows))


def _middle(own: Array, other: Array, weights: Array, config: EvidenceConfig) -> float:
    """Weighted median of the ratios of the features that one dataset predicts itself."""
    known = np.flatnonzero(own > config.least_predicted)
    if len(known) < config.fewest_features:
        return float("nan")
    ratio = other[known] / own[known]
    order = np.argsort(ratio, kind="stable")
    reached = np.cumsum((weights[known] * own[known] ** 2)[order])
    return float(ratio[order][np.searchsorted(reached, reached[-1] / 2)])


def _correlations(x: Array, y: Array) -> Array:
    """Correlation of every column of one matrix with the same column of another."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    size = np.linalg.norm(x, axis=0) * np.linalg.norm(y, axis=0)
    return np.asarray(np.divide((x * y).sum(axis=0), size, out=np.zeros(x.shape[1]), where=size > 1e-12))
