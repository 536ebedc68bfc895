r"""Transfer of labels and values between datasets, with calibrated probabilities.

All computations are in aligned coordinates. There are three methods:

- "knn": the k nearest source rows of a target row vote with weights :math:`e^{-(d/ε)^2}`, ε the
  distance to the k/2-th of them.
- "diffusion": label propagation on a graph of all rows with fixed source rows,
  :math:`F_U = (I - P_{UU})^{-1} P_{UL} Y_L`: the expected label of the first labelled row that a random walk
  reaches.
- "svm": a linear support vector machine, one class against the rest.

Scores s become probabilities as :math:`p_c = (1 - η)\, e^{β s_c} / \sum_{c'} e^{β s_{c'}} + η / C`. The two
parameters β and η maximise the likelihood of the labels of the source, each predicted from the other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array, ArrayLike, Labels, MatrixLike, RandomState
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.threads import owned
from harmonicalign.inputs.validate import check_integer, check_number, random_state_from
from harmonicalign.uses.calibration import calibrated, calibrated_spread, held_out, log_votes
from harmonicalign.uses.checks import (
    UNASSIGNED,
    coordinates,
    encoded,
    label_list,
    named,
    same_width,
    stacked,
    value_columns,
)
from harmonicalign.uses.novelty import FEW_STRANGE, FEWEST, known_probability
from harmonicalign.uses.votes import diffusion, knn, nearest_others, svm, walk_over

__all__ = ["UNASSIGNED", "LabelTransfer", "ValueTransfer", "transfer_labels", "transfer_values"]


_SUPPORT = (0.65, 0.95)
"""Confidence of a row (`support`) up to which the source lacks its class, and from which it has it.

Measured on MNIST with some digits removed from the source: 0.67 to 0.90 for rows of those digits (median
0.73), 0.94 or more for 95 % of the others.
"""

_COMMON = 0.3
"""A row is no outlier if for this share of the source's rows neighbours are farther away than for the row."""


@dataclass(frozen=True)
class LabelTransfer:
    """Labels transferred to a target, and their confidence.

    Attributes
    ----------
    labels
        Label of every target row; "unassigned" below the threshold.
    confidence
        Probability that the label is right (that of the most likely class, even if not assigned).
    probabilities
        Probability of every class for every row, (n_target, n_classes). Rows sum to one, or to less if a low
        confidence (`support`) indicates that the row may belong to none of these classes.
    classes
        The classes, in the order of the columns of `probabilities`.
    """

    __repr__ = short_repr

    labels: Array
    confidence: Array
    probabilities: Array
    classes: Array


@dataclass(frozen=True)
class ValueTransfer:
    """Values transferred to a target, and their expected error.

    Attributes
    ----------
    values
        Expected value of every target row, in the shape of the source's values.
    spread
        Expected root mean square error of each value, of the same shape; NaN if a column has too few known
        values to estimate it.
    """

    __repr__ = short_repr

    values: Array
    spread: Array


@owned()
def transfer_labels(
    source: MatrixLike | Sequence[MatrixLike],
    labels: Labels | Sequence[Labels],
    target: MatrixLike,
    *,
    method: str = "knn",
    n_neighbors: int = 10,
    transitions: MatrixLike | None = None,
    support: ArrayLike | None = None,
    threshold: float | None = None,
    random_state: RandomState = 0,
) -> LabelTransfer:
    """Transfer labels from one or several sources to a target.

    Parameters
    ----------
    source
        Aligned coordinates of the labelled rows, or a list of such arrays, one per dataset.
    labels
        One label per source row (a list of such sequences if `source` is a list): text, numbers or anything
        hashable. None, NaN, "" and "unassigned" mean that the row has no label.
    target
        Aligned coordinates of the rows to label.
    method
        "knn", "diffusion" or "svm"; see `harmonicalign.uses.transfer`.
    n_neighbors
        Number of neighbours that vote ("knn"), or that determine the bandwidth of the graph ("diffusion"
        without `transitions`).
    transitions
        For "diffusion": row-stochastic matrix over the rows of all sources in their order, then those
        of the target, then any others through which labels may flow. By default that of a kernel
        graph over source and target.
    support
        Confidence of each target row with respect to the source, in [0, 1], from `row_confidence`. Rows
        may belong to a class that the source lacks unless all have full confidence; by how much this
        reduces the probabilities of each is estimated from the coordinates
        (`harmonicalign.uses.novelty`). With fewer than a hundred rows in source or target the confidence
        itself reduces the probabilities of rows far from the source: from 0.95 (no reduction) to 0.65 (to
        zero). If less than 20 % of the target seems to be of other classes, both have to agree.
    threshold
        Rows whose confidence is below this are "unassigned". None assigns every row.
    random_state
        Seed of the folds and samples used for calibration.

    Returns
    -------
    transfer
        Labels, confidence, probabilities and classes.

    Examples
    --------
    >>> source = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]
    >>> labels = ["low", "low", "low", "high", None, "high"]
    >>> transfer_labels(source, labels, [[0.05], [5.05]], n_neighbors=2).labels
    array(['low', 'high'], dtype='<U4')
    """
    if method not in ("knn", "diffusion", "svm"):
        raise ValueError(f"method is {method!r}; expected 'knn', 'diffusion' or 'svm'")
    n_neighbors = check_integer("n_neighbors", n_neighbors, minimum=1)
    if threshold is not None:
        threshold = check_number("threshold", threshold, minimum=0, maximum=1)
    rows, parts = stacked(source, labels, "labels")
    classes, codes = encoded([label for part in parts for label in label_list(part)], len(rows))
    new = coordinates("target", target)
    same_width(rows, new)
    known = np.flatnonzero(codes >= 0)
    held = held_out(codes[known], random_state_from(random_state))
    seen = _known_class(support, rows[known], new, n_neighbors, np.sort(np.concatenate(held)))
    reached = np.ones(len(new))
    if len(classes) == 1:
        # With one class, only a low confidence of the row can reduce its probability.
        best, probabilities = np.zeros(len(new), dtype=np.int64), np.ones((len(new), 1))
    else:
        if method == "svm":
            scores, tested, of = svm(rows[known], codes[known], new, len(classes), held)
        else:
            onehot = np.eye(len(classes))[codes[known]]
            if method == "knn":
                votes, tried, of = knn(rows[known], onehot, new, n_neighbors, np.sort(np.concatenate(held)))
            else:
                matrix = walk_over(transitions, rows, new, n_neighbors)
                votes, tried, of = diffusion(
                    matrix, known, onehot, slice(len(rows), len(rows) + len(new)), held
                )
            reached = (votes.sum(axis=1) > 0).astype(np.float64)
            scores, tested = log_votes(votes), log_votes(tried)
        probabilities = calibrated(scores, tested, codes[known][of])
        best = np.argmax(scores, axis=1)
    probabilities = np.minimum(probabilities, 1) * (seen * reached)[:, None]
    confidence = probabilities.max(axis=1)
    return LabelTransfer(
        labels=named(classes, best, None if threshold is None else confidence < threshold),
        confidence=confidence,
        probabilities=probabilities,
        classes=classes,
    )


@owned()
def transfer_values(
    source: MatrixLike | Sequence[MatrixLike],
    values: MatrixLike | Sequence[MatrixLike],
    target: MatrixLike,
    *,
    method: str = "knn",
    n_neighbors: int = 10,
    transitions: MatrixLike | None = None,
    random_state: RandomState = 0,
) -> ValueTransfer:
    """Transfer values from one or several sources to a target.

    Parameters
    ----------
    source
        Aligned coordinates of the rows with values, or a list of such arrays, one per dataset.
    values
        One number per source row, or several columns (a list of such arrays if `source` is a list). NaN means
        missing; each column is transferred from the rows that have it.
    target
        Aligned coordinates of the rows to predict.
    method
        "knn" or "diffusion".
    n_neighbors, transitions, random_state
        As in `transfer_labels`.

    Returns
    -------
    transfer
        Values and their spread: the standard deviation among the rows that vote, calibrated with two
        parameters per column on held-out source rows.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 50)[:, None]
    >>> found = transfer_values(x, 3 * x[:, 0], [[0.25], [0.5]])
    >>> np.round(found.values, 1)
    array([0.8, 1.5])
    """
    if method not in ("knn", "diffusion"):
        raise ValueError(f"method is {method!r}; expected 'knn' or 'diffusion' ('svm' is for labels)")
    n_neighbors = check_integer("n_neighbors", n_neighbors, minimum=1)
    rows, parts = stacked(source, values, "values")
    columns, flat = value_columns(parts, len(rows))
    new = coordinates("target", target)
    same_width(rows, new)
    rng = random_state_from(random_state)
    matrix = walk_over(transitions, rows, new, n_neighbors) if method == "diffusion" else None
    out, spread = np.empty((2, len(new), columns.shape[1]))
    patterns, group = np.unique(~np.isnan(columns), axis=1, return_inverse=True)
    for number, present in enumerate(patterns.T):
        chosen = np.flatnonzero(group.ravel() == number)
        known = np.flatnonzero(present)
        truth = columns[np.ix_(known, chosen)]
        centre = truth.mean(axis=0)
        # First and second moments, and the weight that reached each row.
        moments = np.hstack([truth - centre, (truth - centre) ** 2, np.ones((len(known), 1))])
        held = held_out(np.zeros(len(known), dtype=np.int64), rng)
        if matrix is None:
            found, tried, of = knn(rows[known], moments, new, n_neighbors, np.sort(np.concatenate(held)))
        else:
            found, tried, of = diffusion(matrix, known, moments, slice(len(rows), len(rows) + len(new)), held)
        mean, variance = _mean_and_variance(found, len(chosen))
        out[:, chosen] = mean + centre
        expected, noise = _mean_and_variance(tried, len(chosen))
        spread[:, chosen] = calibrated_spread(variance, noise, truth[of] - centre - expected)
    return ValueTransfer(*(a[:, 0] if flat else a for a in (out, spread)))


def _known_class(support: ArrayLike | None, rows: Array, new: Array, k: int, tested: Array) -> Array:
    """Probability that a row belongs to a class of the source.

    If all have full confidence they do. Otherwise it is estimated (`known_probability`), unless rows or
    strange rows are few. It is then low only for rows of low confidence that are also farther from the
    source than the rows of the source are from each other, because confidence is also low where one dataset
    is only denser than the other.
    """
    n = len(new)
    if support is None:
        return np.ones(n)
    values = np.asarray(support, dtype=np.float64)
    if values.shape != (n,):
        raise ValueError(f"support has shape {values.shape} but target has {n} rows; pass one number per row")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("support must lie between 0 and 1")
    probability = np.zeros(n)
    if min(len(rows), n) >= FEWEST and (values < 1).any():
        probability = known_probability(rows, new, k)
        if np.mean(1 - probability) >= FEW_STRANGE:
            return probability
    low, high = _SUPPORT
    factor = np.clip((values - low) / (high - low), 0, 1)
    if len(rows) > 1:
        k = min(k, len(rows) - 1)
        own = np.sort(nearest_others(rows, k, tested)[0].mean(axis=1))
        distance = nearest_rows(rows, k, new).distances.mean(axis=1)
        farther = 1 - np.searchsorted(own, distance) / len(own)
        factor = np.maximum(factor, np.minimum(farther / _COMMON, 1))
    # So few strange rows may be chance, and so may a low confidence: a row is doubted where both agree.
    return np.maximum(factor, probability)


def _mean_and_variance(moments: Array, n_columns: int) -> tuple[Array, Array]:
    """Mean and variance under the weights; rows without weight get mean 0 and an infinite variance."""
    mean, square, mass = moments[:, :n_columns], moments[:, n_columns:-1], moments[:, -1:]
    return mean, np.where(mass > 0, np.maximum(square - mean**2, 0), np.inf)
