r"""Correspondence of every feature under a rotation that was found without it.

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

from harmonicalign._typing import Array, Pair
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.pairs import balanced, mutual_pairs
from harmonicalign.engines.rows import unit_rows
from harmonicalign.engines.threads import in_threads
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.evidence.correspondence import Correspondence, scores
from harmonicalign.evidence.relations import relate
from harmonicalign.evidence.significance import false_discovery
from harmonicalign.inputs.rows import dense_columns
from harmonicalign.paper.align import orthogonalize
from harmonicalign.paper.harmonics import Harmonics

__all__ = ["held_out"]


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
        Whether the alignment is no better than chance; no feature is then claimed to correspond.
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
    rows = _Rows.sampled(harmonics, signals, _informative(found, config), rng, config)
    relations = relate(*signals, config) if d <= config.related_features else None

    def judged(f: int) -> tuple[Array, Array, Array]:
        test = np.flatnonzero(fold == f)
        weights = np.where(fold == f, 0.0, found.weights)
        rotation = rows.rotation(spectral, weights, config)
        a = _unit_columns(rows.frequencies[:, None] * spectral[0])
        b = _unit_columns(rows.frequencies[:, None] * (rotation @ spectral[1]))
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
            places = unit_rows((x - centres[0]) * w), unit_rows((y - centres[1]) * w)
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


def _informative(found: Correspondence, config: EvidenceConfig) -> Array:
    """The features in which rows are compared: those of the largest weight times variation."""
    worth = np.sqrt(found.energy) * found.weights
    return np.sort(np.argsort(-worth, kind="stable")[: config.examined_features])


def _mutual(x: Array, y: Array, k: int) -> sp.csr_matrix:
    """Rows that are among each other's k nearest, balanced so that central rows do not dominate."""
    k = min(k, len(x), len(y))
    forward, backward = (nearest_rows(b, k, a, exact=False).indices for a, b in ((x, y), (y, x)))
    i, j = mutual_pairs(forward, backward)
    shape = len(x), len(y)
    return sp.csr_matrix((balanced(i, j, np.ones(len(i)), shape, 5), (i, j)), shape=shape)


def _unit_columns(x: Array) -> Array:
    length = np.linalg.norm(x, axis=0)
    return np.asarray(np.divide(x, length, out=np.zeros_like(x), where=length > 0))
