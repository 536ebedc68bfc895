r"""Which features correspond: agreement of their spectral coefficients across two datasets.

A feature that means the same in both datasets is the same function on the common manifold, so that its
Fourier coefficients agree after the rotation T. With ``x̂_s`` and ``ŷ_s`` the coefficients of signal s
and Λ the eigenvalues, its score is

.. math:: c_s = \mathrm{corr}(Λ \hat x_s,\; Λ T \hat y_s)

and its weight grows with ``max(c_s, 0)²``. Scores of features paired with wrong partners give the null
distribution.

An alignment makes the features agree that it was learned from, also where none corresponds: with as many
harmonics as features, some rotation suits all of them. The features are therefore divided into folds, and
each fold is judged by a rotation that the other folds find: their weights, rows that are mutual neighbours in
the other folds' signals, and the rotation between the harmonics of these rows, by turns. The score of a
feature is the agreement of its coefficients under that rotation. For its p-value its relations to the
features of the other folds stand beside them, unless there are very many features: with few, relations know
more. A feature that does not correspond then agrees with its own partner as with any wrong one, so that its
rank among wrong partners is a p-value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array, Pair
from harmonicalign.engines.faiss_neighbours import nearest_both
from harmonicalign.engines.pairs import mutual_pairs, normalised
from harmonicalign.engines.rows import unit_rows
from harmonicalign.engines.threads import in_threads
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.evidence.relations import relate
from harmonicalign.evidence.significance import false_discovery
from harmonicalign.inputs.rows import dense_columns
from harmonicalign.paper.align import orthogonalize
from harmonicalign.paper.harmonics import Harmonics

__all__ = ["Correspondence", "correspondence", "held_out", "learn_rotation", "scores"]


@dataclass(frozen=True)
class Correspondence:
    """Correspondence of the features under an alignment.

    Attributes
    ----------
    scores
        ``c_s`` of every signal, in [−1, 1].
    weights
        Weights used in the alignment: 1 for all under the hypothesis `Offset`, otherwise
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
    better, null = np.zeros(d), []
    for one, other in ((a, b), (b, a)):
        agreement = one.T @ other[:, wrong]
        agreement[wrong, np.arange(len(wrong))] = -np.inf  # its own partner is no wrong one
        better += (agreement >= found[:, None]).sum(axis=1)
        null.append(agreement.ravel())
    pooled = np.sort(np.concatenate(null))
    above = pooled.size - np.searchsorted(pooled, found, side="left")
    n_wrong = np.full(d, 2 * len(wrong))
    n_wrong[wrong] -= 2
    return better > n_wrong / 2, (above + 1) / (n_wrong.sum() + 1)


def held_out(
    harmonics: tuple[Harmonics, Harmonics],
    spectral: Pair,
    signals: tuple[Any, Any],
    found: Correspondence,
    *,
    by_chance: bool = False,
    random_state: int = 0,
    config: EvidenceConfig = EVIDENCE,
) -> Correspondence:
    """The correspondence with scores and p-values of features that were held out.

    Parameters
    ----------
    harmonics
        Harmonics of both datasets, equally many, with calibrated frequencies.
    spectral
        Fourier coefficients of their signals.
    signals
        The signals, dense or CSR.
    found
        Correspondence under the alignment; its weights start the folds, and stay as they are.
    by_chance
        Whether the alignment is no better than chance; no feature is then reported to correspond.
    random_state
        Seed of the folds and samples.
    config
        Numbers of folds, rows and steps.
    """
    d, rng = spectral[0].shape[1], np.random.RandomState(random_state)
    if d < config.fewest_features:
        return replace(found, p_values=np.ones(d)) if by_chance else found
    fewest = config.feature_folds if d > config.few_to_hold_out else d
    fold = rng.permutation(np.arange(d) % fewest)
    wrong = rng.permutation(d)[: config.wrong_partners]
    # Rows are compared in the features of the largest weight times variation.
    worth = np.sqrt(found.energy) * found.weights
    compared = np.sort(np.argsort(-worth, kind="stable")[: config.examined_features])
    rows = _Rows.sampled(harmonics, signals, compared, rng, config)
    relations = relate(*signals, config) if d <= config.related_features else None

    def judged(f: int) -> tuple[Array, Array, Array]:
        test = np.flatnonzero(fold == f)
        weights = np.where(fold == f, 0.0, found.weights)
        rotation = rows.rotation(spectral, weights, config)
        a, _ = _unit_columns(rows.frequencies[:, None] * spectral[0])
        b, _ = _unit_columns(rows.frequencies[:, None] * (rotation @ spectral[1]))
        alone = (a[:, test] * b[:, test]).sum(axis=0)
        if relations is not None:
            profiles = relations.profiles(fold != f)
            a, b = (np.vstack(both) / np.sqrt(2) for both in zip((a, b), profiles, strict=True))
        others = test[:, None] != wrong[None, :]
        partners = [
            np.where(others, one[:, test].T @ other[:, wrong], np.nan) for one, other in ((a, b), (b, a))
        ]
        return alone, (a[:, test] * b[:, test]).sum(axis=0), np.stack(partners, axis=1)

    held, agreement, null = np.zeros(d), np.zeros(d), np.full((d, 2, len(wrong)), np.nan)
    for f, parts in enumerate(in_threads(judged, range(fewest))):
        held[fold == f], agreement[fold == f], null[fold == f] = parts
    p_values = np.ones(d) if by_chance else _ranks(agreement, null)
    return replace(found, scores=held, p_values=p_values)


def _ranks(agreement: Array, null: Array) -> Array:
    """p-values of agreements from those with wrong partners, (d, 2, w), NaN where there is none.

    Wrong partners of features that correspond agree as well as these are correlated, which says nothing about
    features that do not correspond. The ranks are therefore computed once more among the wrong partners of
    the features that were not selected, as long as this selects more.
    """
    p_values = _rank_among(null, agreement)
    selected = false_discovery(p_values)
    while selected.any() and not selected.all():
        among_rest = _rank_among(null[~selected], agreement)
        if false_discovery(among_rest).sum() <= selected.sum():
            break
        p_values, selected = among_rest, false_discovery(among_rest)
    return p_values


def _rank_among(null: Array, agreement: Array) -> Array:
    pooled = np.sort(null[np.isfinite(null)])
    above = pooled.size - np.searchsorted(pooled, agreement, side="left")
    return np.asarray((above + 1) / (pooled.size + 1))


@dataclass(frozen=True)
class _Rows:
    """A sample of the rows of both datasets: harmonics, diffusion coordinates and the features compared."""

    psi: Pair
    diffusion: Pair
    signals: Pair
    features: Array
    frequencies: Array

    @classmethod
    def sampled(
        cls,
        harmonics: tuple[Harmonics, Harmonics],
        signals: tuple[Any, Any],
        features: Array,
        rng: np.random.RandomState,
        config: EvidenceConfig,
    ) -> _Rows:
        chosen = [np.sort(rng.permutation(h.n_rows)[: config.examined_rows]) for h in harmonics]
        parts = [
            (h.psi[rows], (h.phi * h.frequencies)[rows], dense_columns(s[rows], features))
            for h, s, rows in zip(harmonics, signals, chosen, strict=True)
        ]
        (psi_x, at_x, x), (psi_y, at_y, y) = parts
        return cls((psi_x, psi_y), (at_x, at_y), (x, y), features, harmonics[0].frequencies)

    def rotation(self, spectral: Pair, weights: Array, config: EvidenceConfig) -> Array:
        """The rotation that features of positive weight find."""
        known = weights > 0
        x, y = self.signals
        centres = x.mean(axis=0), y.mean(axis=0)
        rotation = np.zeros((len(spectral[0]), len(spectral[1])))
        for step in range(config.steps_held_out):
            w = weights[self.features]
            used = np.flatnonzero(w)
            scaled = [(s[:, used] - c[used]) * w[used] for s, c in zip((x, y), centres, strict=True)]
            places = unit_rows(scaled[0]), unit_rows(scaled[1])
            if step > 0:  # by then the geometry is known to the rotation
                at = unit_rows(self.diffusion[0]), unit_rows(self.diffusion[1] @ rotation.T)
                places = np.hstack([at[0], places[0]]), np.hstack([at[1], places[1]])
            pairing = _mutual(*places, config.confidence_neighbours)
            mass = max(float(pairing.sum()), 1e-300)
            centres = (
                np.asarray(pairing.sum(axis=1)).ravel() @ x / mass,
                np.asarray(pairing.sum(axis=0)).ravel() @ y / mass,
            )
            rotation = orthogonalize(self.psi[0].T @ (pairing @ self.psi[1]), complete=False)[0]
            found = np.maximum(scores(rotation, self.frequencies, *spectral), 0) ** 2
            weights = np.where(known, found, 0.0)
        return rotation


def _mutual(x: Array, y: Array, k: int) -> sp.csr_matrix:
    """Rows that are among each other's k nearest, normalised so that central rows do not dominate."""
    k = min(k, len(x), len(y))
    i, j = mutual_pairs(*nearest_both(x, y, k))
    shape = len(x), len(y)
    return sp.csr_matrix((normalised(i, j, np.ones(len(i)), shape), (i, j)), shape=shape)
