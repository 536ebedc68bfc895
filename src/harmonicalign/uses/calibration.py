"""Calibration by held-out source rows: probabilities from scores, spread from variances."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, nnls

from harmonicalign._typing import Array

__all__ = ["FOLDS", "calibrated", "calibrated_spread", "fit_scale", "held_out", "log_votes"]


FOLDS = 5
"""Number of folds in which rows are held out."""

_MOST_CALIBRATED = 5000
"""Maximum number of source rows used for calibration: enough to fit two numbers."""

_FLOOR = 1e-3
"""Added to votes before their logarithm is taken: a class without a vote is unlikely, not impossible."""


def held_out(codes: Array, rng: np.random.RandomState, most: int = _MOST_CALIBRATED) -> list[Array]:
    """Folds of the rows, or of a sample of at most `most`, each with its share of every class."""
    sample = rng.permutation(len(codes))[:most]
    sample = sample[np.argsort(codes[sample], kind="stable")]
    folds = min(FOLDS, len(sample))
    return [np.sort(sample[i::folds]) for i in range(folds)]


def log_votes(votes: Array) -> Array:
    """Scores from votes: their logarithms."""
    return np.asarray(np.log(votes + _FLOOR))


def calibrated(scores: Array, tested: Array, truth: Array) -> Array:
    """Probabilities from scores, with the scale that fits the held-out rows best."""
    _, beta, eta = fit_scale(tested, truth)
    return _probabilities(scores, beta, eta)


def _probabilities(scores: Array, beta: float, eta: float) -> Array:
    p = np.exp(beta * (scores - scores.max(axis=1, keepdims=True)))
    p *= (1 - eta) / p.sum(axis=1, keepdims=True)
    p += eta / scores.shape[1]
    return np.asarray(p)


def fit_scale(scores: Array, truth: Array) -> tuple[float, float, float]:
    """β and η under which the truth is likeliest, and its mean negative log likelihood with them.

    Two pseudo-observations, one certain hit and one certain miss, keep both finite if no prediction is wrong.
    """
    n, n_classes = scores.shape
    at = (np.arange(n), truth)

    def loss(x: Array) -> float:
        beta, eta = _bounded(x)
        likelihood = _probabilities(scores, beta, eta)[at]
        imagined = np.log(eta / n_classes) + np.log(1 - eta)
        return float(-(np.log(likelihood).sum() + imagined) / (n + 2))

    best = minimize(loss, np.array([0.0, -3.0]), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-7})
    beta, eta = _bounded(best.x)
    return float(best.fun), beta, eta


def _bounded(x: Array) -> tuple[float, float]:
    """β in [e⁻⁵, e⁵] and η in (0, 1) from two free numbers."""
    return float(np.exp(np.clip(x[0], -5, 5))), float(1 / (1 + np.exp(-np.clip(x[1], -15, 15))))


def calibrated_spread(variance: Array, tested: Array, errors: Array) -> Array:
    """√(a · variance + b) with a, b ≥ 0 per column that fit the errors of the held-out rows best."""
    out = np.full(variance.shape, np.nan)
    for j in range(variance.shape[1]):
        usable = np.isfinite(tested[:, j])
        if usable.sum() > 1:
            reached = np.isfinite(variance[:, j])
            a, b = _variance_law(tested[usable, j], errors[usable, j] ** 2)
            out[reached, j] = np.sqrt(a * variance[reached, j] + b)
    return out


def _variance_law(variance: Array, squares: Array) -> tuple[float, float]:
    """The a, b ≥ 0 of ``squares ≈ a · variance + b``, each row weighted by how precisely it should hold.

    The spread of a squared error is proportional to its expectation, so unweighted least squares would be
    dominated by the noisiest rows.
    """
    scale = float(squares.mean())
    if scale == 0:
        return 0.0, 0.0
    design = np.c_[variance / scale, np.ones(len(variance))]
    expected = np.ones(len(variance))
    for _ in range(20):
        law = nnls(design / expected[:, None], squares / scale / expected)[0]
        # Bound the weights, so that no single row dominates.
        expected = np.maximum(design @ law, 1e-3)
    law *= float(np.mean(squares / scale / expected))
    return float(law[0]), float(law[1] * scale)
