"""Votes on new and held-out rows: nearest neighbours, random walks, support vector machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from harmonicalign._typing import Array, MatrixLike
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.paper.graph import kernel_graph
from harmonicalign.uses.calibration import FOLDS, fit_scale

__all__ = ["diffusion", "knn", "nearest_others", "svm", "walk_over"]


_PENALTIES = (0.2, 1.0, 5.0)
"""Values of C that are tried for the SVM, on coordinates scaled to a total variance of 2."""

_MOST_STEPS = 2000
_TOLERANCE = 1e-4


def knn(rows: Array, signals: Array, new: Array, k: int, tested: Array) -> tuple[Array, Array, Array]:
    """Kernel-weighted means over the nearest rows, for new rows and for tested rows (without themselves)."""
    near = nearest_rows(rows, min(k, len(rows)), new)
    found = _weights(near.distances, near.indices, len(rows)) @ signals
    if len(rows) < 2:
        return found, np.empty((0, signals.shape[1])), np.empty(0, dtype=np.int64)
    k = min(k, len(rows) - 1)
    return found, _weights(*nearest_others(rows, k, tested), len(rows)) @ signals, tested


def nearest_others(rows: Array, k: int, chosen: Array) -> tuple[Array, Array]:
    """Nearest rows of the chosen ones, each without itself."""
    near = nearest_rows(rows, k + 1, rows[chosen])
    distances, indices = near.distances, near.indices
    other = indices != chosen[:, None]
    other[other.all(axis=1), -1] = False  # duplicates came first: drop the last neighbour instead
    return distances[other].reshape(-1, k), indices[other].reshape(-1, k)


def _weights(distances: Array, indices: Array, n: int) -> sp.csr_matrix:
    k = distances.shape[1]
    scale = distances[:, (k - 1) // 2]
    # If half the neighbours are duplicates of the row, only these are used.
    ratio = distances / np.where(scale > 0, scale, 1)[:, None]
    weights = np.where(scale[:, None] > 0, np.exp(-(ratio**2)), (distances == 0).astype(np.float64))
    weights /= weights.sum(axis=1, keepdims=True)
    return sp.csr_matrix(
        (weights.ravel(), indices.ravel(), np.arange(0, weights.size + 1, k)), shape=(len(distances), n)
    )


def walk_over(given: MatrixLike | None, rows: Array, new: Array, n_neighbors: int) -> sp.csr_matrix:
    """Random walk on source, target and possibly more rows; checked if given, otherwise built."""
    n = len(rows) + len(new)
    if given is None:
        if n < 3:
            raise ValueError(f"source and target have {n} rows together; diffusion needs three or more")
        graph = kernel_graph(
            np.vstack([rows, new]), n_neighbors=min(n_neighbors, n - 1), max_neighbors=3 * n_neighbors
        )
        return sp.csr_matrix(graph.transitions)
    matrix = sp.csr_matrix(given, dtype=np.float64)
    if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < n:
        raise ValueError(
            f"transitions has shape {matrix.shape}; it must be square with a row for each of the {len(rows)} "
            f"source rows, then the {len(new)} target rows (which must not be the same rows), then any others"
        )
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    if not np.isfinite(matrix.data).all() or (matrix.data < 0).any() or np.abs(sums - 1).max() > 1e-6:
        raise ValueError("transitions must hold probabilities: no entry negative, every row with sum 1")
    return matrix


def diffusion(
    matrix: sp.csr_matrix, known: Array, signals: Array, target: slice, held: Sequence[Array]
) -> tuple[Array, Array, Array]:
    """Expected signal at the first known row that a random walk reaches, for target and held-out rows."""
    found = _absorbed(matrix, known, signals)[target]
    if FOLDS * sum(map(len, held)) <= len(known):
        # Such a small sample can be held out at once; as many known rows remain as with one fold.
        held = [np.concatenate(held)]
    tried, of = [np.empty((0, signals.shape[1]))], [np.empty(0, dtype=np.int64)]
    for fold in held if len(known) > 1 else []:
        rest = np.setdiff1d(np.arange(len(known)), fold)
        tried.append(_absorbed(matrix, known[rest], signals[rest])[known[fold]])
        of.append(fold)
    return found, np.vstack(tried), np.concatenate(of)


def _absorbed(matrix: sp.csr_matrix, known: Array, signals: Array) -> Array:
    """Harmonic extension of the signals of known rows; 0 where no walk reaches a known row.

    A fixed-point iteration; an additional column holds the probability of having been absorbed, which gives
    the stopping rule and corrects for early stopping.
    """
    n = matrix.shape[0]
    unknown = np.setdiff1d(np.arange(n), known)
    inner, outer = matrix[unknown][:, unknown], matrix[unknown][:, known]
    fixed = outer @ np.hstack([signals, np.ones((len(known), 1))])
    current, change = fixed, np.inf
    pieces = connected_components(matrix, directed=False)[1]
    reachable = np.isin(pieces[unknown], pieces[known])
    for _ in range(_MOST_STEPS):
        if change <= _TOLERANCE and (current[reachable, -1] > 0).all():
            break
        following = inner @ current + fixed
        # The absorbed mass only increases, and its increase bounds that of every class.
        change = float(np.max(following[:, -1] - current[:, -1], initial=0.0))
        current = following
    mass = current[:, -1:]
    reached = mass > 0
    out = np.empty((n, signals.shape[1]))
    out[known] = signals
    out[unknown] = np.divide(current[:, :-1], mass, out=np.zeros_like(current[:, :-1]), where=reached)
    return out


def svm(
    rows: Array, codes: Array, new: Array, n_classes: int, held: Sequence[Array]
) -> tuple[Array, Array, Array]:
    """Decision values of new and of held-out rows, with the C of the highest likelihood on the latter."""
    centre = rows.mean(axis=0)
    scale = float(np.sqrt(np.var(rows, axis=0).sum() / 2)) or 1.0
    rows, new = (rows - centre) / scale, (new - centre) / scale
    of = np.concatenate(held)
    trials: list[tuple[float, float, Array]] = []
    for penalty in _PENALTIES:
        tried = []
        for fold in held:
            # Training on more than the calibration sample does not help.
            rest = np.setdiff1d(of, fold)
            tried.append(_decision(rows[rest], codes[rest], rows[fold], n_classes, penalty))
        scores = np.vstack(tried)
        trials.append((fit_scale(scores, codes[of])[0], penalty, scores))
    _, penalty, tested = min(trials, key=lambda trial: trial[:2])
    return _decision(rows, codes, new, n_classes, penalty), tested, of


def _decision(rows: Array, codes: Array, new: Array, n_classes: int, penalty: float) -> Array:
    """One column of decision values per class; classes without a row get a large negative value."""
    from sklearn.svm import LinearSVC

    present = np.unique(codes)
    if len(present) < 2:
        values = np.ones((len(new), len(present)))
    else:
        # The primal solver is deterministic, but without a seed it would advance the global generator.
        machine = LinearSVC(C=penalty, dual=False, max_iter=5000, random_state=0)
        values = machine.fit(rows, codes).decision_function(new)
        values = np.c_[-values, values] if values.ndim == 1 else values
    out = np.repeat(np.minimum(values.min(axis=1, initial=0.0), -1.0)[:, None], n_classes, axis=1)
    out[:, present] = values
    return out
