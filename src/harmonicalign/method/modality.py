r"""Readings: where the signals are not the datasets' own columns, what both say about where a row lies.

RNA and chromatin, or RNA and proteins, are two modalities. Some signals of one correspond to signals of the
other, but what the datasets' own components are worth differs: the graph of sparse chromatin is mostly noise.
So both count only as far as they say something about the other dataset. With S the weighted signals of two
datasets, centred, the best approximation of their products of given rank is

.. math:: S_X S_Y^T ≈ U Λ V^T, \qquad C_X = U Λ^{1/2}, \quad C_Y = V Λ^{1/2}.

These canonical components C of the signals are in both datasets linear in S. Directions in which only one of
the two varies, such as its noise, have no part in them. A row has a second reading of the same position: what
its components P predict of C, by a regression whose ridge is chosen by leaving rows out. Where components
know nothing of what the datasets share, the prediction shrinks to nothing; where signals are noisy it is the
better of the two. The reading of a row is the mean of C and its prediction.

Of more datasets the canonical components are the leading eigenvectors of the matrix of all products between
different datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from harmonicalign._typing import Array, Pair
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.rows import blend, unit_rows
from harmonicalign.engines.threads import in_threads
from harmonicalign.evidence.relations import column_variances
from harmonicalign.inputs.rows import dense_columns
from harmonicalign.method.anchors import find_anchors
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.maps import LinearMap, Side, component_maps, leading_signals
from harmonicalign.method.problem import PairAlignment, PairProblem

__all__ = ["Reading", "foretold", "met_in_readings", "reading_maps"]

Reading = tuple[LinearMap, LinearMap]
"""Maps of the signals and of the components of a dataset; the reading of a row is the sum of both."""

_DENSE = 800
"""Rows in total up to which all eigenpairs are computed at once."""

_PENALTIES = np.logspace(-4, 3, 15)
"""Ridges that are tried, relative to the mean variance of the components."""


def reading_maps(
    sides: Sequence[Side],
    centres: Sequence[Array],
    weights: Array,
    worth: Array,
    config: MethodConfig = DEFAULT,
) -> tuple[Reading, ...]:
    """Maps of the rows of every dataset to their readings.

    Parameters
    ----------
    sides
        The datasets.
    centres
        For every dataset, the centre that is subtracted from its signals.
    weights
        Weight of every signal.
    worth
        Priority of every signal: if there are too many signals, those with the largest values are used.
    config
        Number of canonical components, maximum number of signals, and share of the prediction.
    """
    chosen = leading_signals(worth, config.most_signals)
    out = []
    shown = [dense_columns(s.signals, chosen) * weights[chosen] for s in sides]
    axes = _canonical_axes([s - s.mean(axis=0) for s in shown], config.canonical_components)
    share = config.predicted_share
    for side, rows, own, centre in zip(sides, shown, axes, centres, strict=True):
        matrix = np.zeros((len(weights), own.shape[1]))
        matrix[chosen] = weights[chosen, None] * own
        predicted = _prediction(side.components, (rows - rows.mean(axis=0)) @ own)
        # The prediction knows C up to the mean; at the mean of the signals both readings are the same.
        mean = (np.asarray(side.signals.mean(axis=0)).ravel() - centre) @ matrix
        signal_map = LinearMap((1 - share) * matrix, -(1 - share) * (centre @ matrix))
        out.append((signal_map, LinearMap(share * predicted.matrix, share * (predicted.shift + mean))))
    return tuple(out)


def met_in_readings(problem: PairProblem, found: PairAlignment) -> PairAlignment:
    """The alignment of a pair with its anchors and maps found anew in the readings of both datasets.

    In each step mutual neighbours become anchors, and these with the readings determine the map of the
    components; rows are compared by both together.

    Parameters
    ----------
    problem
        The two datasets.
    found
        Their alignment, whose feature weights are used.
    """
    config, known = problem.config, found.correspondence
    centres, history = found.centres, found.history
    worth = known.weights * known.energy
    if not worth.any():
        return found
    read = reading_maps(problem.sides, centres, known.weights, worth, config)
    x, y = (_read(one, side) for one, side in zip(read, problem.sides, strict=True))
    joint: Pair = unit_rows(x), unit_rows(y)
    for _ in range(config.n_steps):
        pairing = find_anchors(*joint, config, known=problem.known)
        maps = component_maps(problem.sides, pairing, (x, y), config)
        q = problem.directions(problem.mapped(maps))
        joint = (
            blend(q[0], unit_rows(x), config.modality_balance),
            blend(q[1], unit_rows(y), config.modality_balance),
        )
    everything = bool((known.weights == 1).all())
    new = problem.outcome(
        found.start, pairing, maps, joint, problem.centres(pairing), trust_columns=everything, history=history
    )
    return new if everything else replace(new, correspondence=known)


def foretold(sides: tuple[Side, Side], weights: Array, config: MethodConfig = DEFAULT) -> float:
    """How well signals that are held out agree between rows that the other signals bring together.

    Weights that follow from the agreement of single signals are noise where many signals agree a little, and
    needed where links are wrong. What they are worth shows in signals that had no say: rows are matched by
    the canonical components of the others, and the correlation of a held-out signal with its mean over a
    row's matches is averaged over all signals, whatever their weight. Those that do not correspond add zero.

    Parameters
    ----------
    sides
        The two datasets.
    weights
        Weight of every signal.
    config
        Number of folds, rows and neighbours, and of signals: those that vary most in both.
    """
    rng = np.random.RandomState(0)
    chosen = [np.sort(rng.permutation(s.signals.shape[0])[: config.examined_rows]) for s in sides]
    spread = np.multiply(*(column_variances(s.signals) for s in sides))
    kept = leading_signals(spread, config.examined_features)
    shown = [_centred(dense_columns(s.signals[r], kept)) for s, r in zip(sides, chosen, strict=True)]
    fold = rng.permutation(np.arange(len(kept)) % config.feature_folds)

    def agreement(f: int) -> float:
        others = np.where(fold == f, 0.0, weights[kept])
        axes = _canonical_axes([s * others for s in shown], config.canonical_components)
        x, y = (unit_rows((s * others) @ own) for s, own in zip(shown, axes, strict=True))
        k = min(config.n_anchors, len(x), len(y))
        total = 0.0
        for (own, a), (other, b) in permutations([(x, shown[0]), (y, shown[1])]):
            near = nearest_rows(other, k, own, exact=False).indices
            told = _centred(b[:, fold == f][near].mean(axis=1))
            total += float(_correlations(a[:, fold == f], told).sum())
        return total / 2

    return sum(in_threads(agreement, range(int(fold.max()) + 1))) / len(kept)


def _centred(x: Array) -> Array:
    return np.asarray(x - x.mean(axis=0))


def _correlations(x: Array, y: Array) -> Array:
    """Correlation of every column of x with that of y, both centred; 0 where one does not vary."""
    size = np.linalg.norm(x, axis=0) * np.linalg.norm(y, axis=0)
    return np.asarray(np.divide((x * y).sum(axis=0), size, out=np.zeros(len(size)), where=size > 0))


def _read(reading: Reading, side: Side) -> Array:
    """Readings of the landmarks of a dataset."""
    return np.asarray(reading[0].apply(side.signals) + reading[1].apply(side.components))


def _canonical_axes(signals: Sequence[Array], most: int) -> list[Array]:
    """For every dataset the directions of its centred signals that give their canonical components."""
    scaled = [s / np.sqrt(len(s)) for s in signals]
    edges = np.cumsum([0, *(len(s) for s in scaled)])

    def between(u: Array) -> Array:
        told = [s.T @ u[a:b] for s, a, b in zip(scaled, edges, edges[1:], strict=False)]
        total = np.sum(told, axis=0)
        return np.concatenate([s @ (total - own) for s, own in zip(scaled, told, strict=True)])

    n, width = int(edges[-1]), signals[0].shape[1]
    k = min(most, width, min(map(len, signals)) - 1)
    if not between(np.random.RandomState(0).standard_normal(n)).any():  # they have nothing in common
        return [np.eye(width)[:, :k] for _ in signals]
    values, vectors = _leading(between, n, k)
    kept = values > 1e-10 * max(values.max(initial=0), np.finfo(float).tiny)
    if not kept.any():
        return [np.eye(width)[:, :k] for _ in signals]
    values, vectors = values[kept], vectors[:, kept]
    told = [s.T @ vectors[a:b] for s, a, b in zip(scaled, edges, edges[1:], strict=False)]
    total = np.sum(told, axis=0)
    # A row's canonical components are its signals times these: U Λ^½, with columns of size Λ^½.
    return [(total - own) / values * np.sqrt(values / values[0]) for own in told]


def _leading(between: Callable[[Array], Array], n: int, k: int) -> tuple[Array, Array]:
    """Leading eigenpairs of a symmetric operator of n rows, largest first."""
    if n <= _DENSE:
        values, vectors = scipy.linalg.eigh(between(np.eye(n)), subset_by_index=(n - k, n - 1))
    else:
        operator = LinearOperator((n, n), matvec=between, matmat=between, dtype=np.float64)
        start = np.random.RandomState(0).standard_normal(n)
        try:
            values, vectors = eigsh(operator, k=k, which="LA", v0=start, tol=1e-6, maxiter=50)
        except ArpackNoConvergence as found:
            # Eigenvalues of zero never converge in relative terms; those that did are the ones wanted.
            values, vectors = found.eigenvalues, found.eigenvectors
    order = np.argsort(-values)
    return values[order], vectors[:, order]


def _prediction(components: Array, wanted: Array) -> LinearMap:
    """Ridge regression, with the ridge of every column chosen by leaving one row out at a time."""
    mean = components.mean(axis=0)
    u, d, vt = scipy.linalg.svd(components - mean, full_matrices=False)
    middle = wanted.mean(axis=0)
    seen = u.T @ wanted
    penalties = _PENALTIES * np.mean(d**2)
    total = d[:, None] ** 2 + penalties
    # Components that do not vary, as of a single kind of row, predict the mean.
    filters = np.divide(d[:, None] ** 2, total, out=np.zeros_like(total), where=total > 0)
    leverage = (u**2) @ filters + 1 / len(wanted)
    errors = np.stack(
        [
            (((wanted - middle - u @ (filters[:, [j]] * seen)) / (1 - leverage[:, [j]])) ** 2).sum(axis=0)
            for j in range(len(penalties))
        ]
    )
    best = filters[:, errors.argmin(axis=0)]
    matrix = vt.T @ (best / np.where(d > 0, d, 1)[:, None] * seen)
    return LinearMap(matrix, middle - mean @ matrix)
