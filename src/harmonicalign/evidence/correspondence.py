r"""Which features correspond: agreement of their spectral coefficients across two datasets.

A feature that means the same in both datasets is the same function on the common manifold, so that its
Fourier coefficients agree after the rotation T. With ``x̂_s`` and ``ŷ_s`` the coefficients of signal s
and Λ the eigenvalues, its score is

.. math:: c_s = \mathrm{corr}(Λ \hat x_s,\; Λ T \hat y_s)

and its weight grows with ``max(c_s, 0)²``. Scores of features paired with wrong partners give the null
distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.paper.align import orthogonalize

__all__ = ["Correspondence", "correspondence", "learn_rotation", "scores"]


@dataclass(frozen=True)
class Correspondence:
    """Correspondence of the features under an alignment.

    Attributes
    ----------
    scores
        ``c_s`` of every signal, in [−1, 1].
    weights
        Weights used in the alignment: 1 for all under the hypotheses `AsIs` and `Offset`, otherwise
        ``w_s = max(c_s, 0)²``, raised to ``w_s + (1 − w_s)(4φ − 3)`` if the share φ is above three quarters:
        if nearly all features correspond, an uninformative one probably does too.
    energy
        Smooth variation of a signal in both datasets (product of the norms of ``Λ x̂_s`` and ``Λ ŷ_s``);
        signals that do not vary are uninformative.
    presence
        Smooth variation of a signal in either dataset (mean over the datasets of these norms squared, each
        divided by its mean over all signals).
    p_values
        Probability of a score at least as large with a wrong partner.
    share
        Share φ of the energy in features that correspond, by Storey's estimate: a feature that does not
        correspond agrees less with its partner than with half of the wrong ones in every second case, a
        corresponding one hardly ever.
    enough_presence
        Presence at which a signal's own score counts as much as the mean weight; see `belief`.
    """

    __repr__ = short_repr

    scores: Array
    weights: Array
    energy: Array
    presence: Array
    p_values: Array
    share: float
    enough_presence: float = EVIDENCE.enough_presence

    @property
    def agreement(self) -> float:
        """Mean of ``max(c_s, 0)⁴``, weighted by energy.

        A few features that agree well count for more than many that agree a little.
        """
        total = self.energy.sum()
        return float(self.energy @ np.maximum(self.scores, 0) ** 4 / total) if total > 0 else 0.0

    @property
    def belief(self) -> Array:
        """Weight of every signal, in [0, 1], shrunk to the mean weight where the signal hardly varies.

        It is ``max(c_s, 0)²`` if the signal varies. A signal that hardly varies in either dataset, such as a
        pixel that is blank in nearly all images or a gene expressed in few cells, is uninformative and gets
        the mean weight of all signals. A signal that varies in one dataset only does not correspond.
        """
        own, total = np.maximum(self.scores, 0) ** 2, self.presence.sum()
        if total == 0:
            return np.zeros_like(own)
        known = self.presence / (self.presence + self.enough_presence)
        return np.asarray(known * own + (1 - known) * (self.presence @ own / total))


def scores(rotation: Array, frequencies: Array, spectral_x: Array, spectral_y: Array) -> Array:
    """Correlation ``c_s`` of every signal's coefficients across the datasets."""
    a = frequencies[:, None] * spectral_x
    b = frequencies[:, None] * (rotation @ spectral_y)
    norm = np.linalg.norm(a, axis=0) * np.linalg.norm(b, axis=0)
    return np.asarray(np.divide((a * b).sum(axis=0), norm, out=np.zeros(len(norm)), where=norm > 0))


def learn_rotation(
    band_weights: Array,
    frequencies: Array,
    spectral_x: Array,
    spectral_y: Array,
    *,
    n_iterations: int = EVIDENCE.learning_steps,
    tolerance: float = EVIDENCE.learning_tolerance,
) -> tuple[Array, Array, list[float]]:
    """Rotation and feature weights, estimated in turn.

    Weights are equal at first and then follow from the scores under the current rotation. Stops when the
    weights no longer change.

    Returns
    -------
    rotation, weights, history
        `history` holds the objective, the weighted agreement ``Σ w_s c_s / Σ w_s``, of every step.
    """
    weights = np.ones(spectral_x.shape[1])
    history: list[float] = []
    rotation = np.eye(len(spectral_x), len(spectral_y))
    for _ in range(n_iterations):
        c = band_weights * ((spectral_x * weights) @ spectral_y.T)
        rotation = orthogonalize(c, complete=False)[0]
        found = scores(rotation, frequencies, spectral_x, spectral_y)
        before, weights = weights, np.maximum(found, 0) ** 2
        total = weights.sum()
        history.append(float(weights @ found / total) if total > 0 else 0.0)
        if total == 0:
            weights = np.ones_like(weights)
            break
        if np.abs(weights - before).max() < tolerance:
            break
    return rotation, weights, history


def correspondence(
    rotation: Array,
    frequencies: Array,
    spectral_x: Array,
    spectral_y: Array,
    random_state: np.random.RandomState,
    config: EvidenceConfig = EVIDENCE,
) -> Correspondence:
    """Scores, weights and the share that corresponds, under a given rotation."""
    a, length_a = _unit_columns(frequencies[:, None] * spectral_x)
    b, length_b = _unit_columns(frequencies[:, None] * (rotation @ spectral_y))
    found, energy = (a * b).sum(axis=0), length_a * length_b
    presence = (_relative_squares(length_a) + _relative_squares(length_b)) / 2
    worse, p_values = _against_wrong_partners(a, b, found, random_state, config.wrong_partners)
    total = energy.sum()
    share = float(np.clip(1 - 2 * energy[worse].sum() / total, 0, 1)) if total > 0 else 0.0
    weights = np.maximum(found, 0) ** 2
    if config.full_share < 1:
        weights = weights + (1 - weights) * max(0.0, (share - config.full_share) / (1 - config.full_share))
    if not weights.any():
        weights = np.ones_like(weights)
    return Correspondence(found, weights, energy, presence, p_values, share, config.enough_presence)


def _unit_columns(x: Array) -> tuple[Array, Array]:
    """Columns at unit length, and their lengths; columns of zeros stay zero."""
    length = np.linalg.norm(x, axis=0)
    return np.divide(x, length, out=np.zeros_like(x), where=length > 0), length


def _relative_squares(length: Array) -> Array:
    """Squares of lengths over their mean."""
    if not length.any():
        return length
    squares = (length / length.max()) ** 2
    return np.asarray(squares / squares.mean())


def _against_wrong_partners(
    a: Array, b: Array, found: Array, random_state: np.random.RandomState, n_wrong_partners: int
) -> tuple[Array, Array]:
    """Which signals agree less with their partner than with half of the wrong ones, and p-values.

    The first is computed per signal, because some signals agree with most others. The p-values are computed
    from the wrong partners of all signals together, because a single signal has too few.
    """
    d = a.shape[1]
    if d == 1:
        return np.zeros(1, dtype=bool), np.full(1, 0.5)  # a single signal has no wrong partner
    wrong = random_state.permutation(d)[:n_wrong_partners]
    own = np.zeros((d, len(wrong)), dtype=bool)
    own[wrong, np.arange(len(wrong))] = True
    better, null = np.zeros(d), []
    for one, other in ((a, b), (b, a)):
        agreement = one.T @ other[:, wrong]
        better += ((agreement >= found[:, None]) & ~own).sum(axis=1)
        null.append(agreement[~own])
    pooled = np.sort(np.concatenate(null))
    above = pooled.size - np.searchsorted(pooled, found, side="left")
    n_wrong = 2 * (len(wrong) - own.sum(axis=1))
    return better > n_wrong / 2, (above + 1) / (pooled.size + 1)
