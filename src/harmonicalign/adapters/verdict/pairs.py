"""Which datasets were aligned with each other, the tests of those pairs, and the scores of the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.adapters.verdict.subject import Subject
from harmonicalign.evidence.correspondence import correspondence
from harmonicalign.evidence.significance import Significance, false_discovery, permutation_test
from harmonicalign.paper.align import Alignment, calibrate
from harmonicalign.paper.harmonics import Harmonics

__all__ = ["Features", "Pair", "aligned_pairs", "score_features", "weakest"]

_MOST_PAIRS = 30


@dataclass(frozen=True)
class Pair:
    """Two datasets that were aligned with each other.

    `support` and `start` are provided by the default method only; None for the published method.
    """

    one: int
    other: int
    alignment: Alignment
    significance: Significance | None
    support: float | None = None
    start: str | None = None


@dataclass(frozen=True)
class Features:
    """Agreement of every feature across the datasets; `weights` only if learned."""

    scores: Array
    p_values: Array
    selected: Array
    weights: Array | None


def aligned_pairs(subject: Subject) -> list[Pair]:
    """Pairs of datasets with their significance; the published method's are tested here."""
    model = subject.model
    if len(subject.sizes) < 2:
        return []
    known = {}
    for child in range(len(subject.sizes)):
        parent, pair = model.model_.parent_of(child), model.model_.pair_of(child)
        if pair is not None:
            known[min(parent, child), max(parent, child)] = pair
    pairs = []
    for (i, j), found in sorted(model.alignment_.pairs.items()):
        if (i, j) in known:
            own = known[i, j]
            pairs.append(Pair(i, j, found, _if_tested(own.significance), own.support, own.start))
        elif len(pairs) < _MOST_PAIRS:
            pairs.append(Pair(i, j, found, _test(subject, i, j, found)))
    return pairs


def weakest(pairs: Sequence[Pair]) -> Significance | None:
    """The test of the pair that passed it least; None where none was tested."""
    tests = [pair.significance for pair in pairs if pair.significance is not None]
    return max(tests, key=lambda test: (test.by_chance, test.opposed, test.p)) if tests else None


def score_features(subject: Subject, pairs: list[Pair]) -> Features | None:
    """Which features correspond; None with one dataset, or without columns that could."""
    model = subject.model
    known = model.model_.correspondence
    if known is not None:
        return Features(known.scores, known.p_values, false_discovery(known.p_values), known.belief)
    if subject.signals is None or not pairs:
        return None
    rng = np.random.RandomState(0)
    found = []
    for pair in pairs:
        hx, hy = pair.alignment.harmonics
        spectra = _spectrum(hx, subject.signals[pair.one]), _spectrum(hy, subject.signals[pair.other])
        found.append(correspondence(pair.alignment.rotation, hx.frequencies, *spectra, rng))
    # The least of n p-values, corrected for the selection.
    p_values = np.minimum(1, len(found) * np.min([f.p_values for f in found], axis=0))
    scores = np.mean([f.scores for f in found], axis=0)
    return Features(scores, p_values, false_discovery(p_values), None)


def _test(subject: Subject, i: int, j: int, found: Alignment) -> Significance | None:
    """The default method's permutation test for a pair of the published one."""
    if subject.signals is None:
        return None
    k = min(h.k for h in found.harmonics)
    hx, hy = calibrate([h.truncate(k) for h in found.harmonics])
    test = permutation_test(
        hx,
        hy,
        _spectrum(hx, subject.signals[i]),
        _spectrum(hy, subject.signals[j]),
        n_bands=subject.model.settings_.n_bands,
    )
    return _if_tested(test)


def _if_tested(test: Significance) -> Significance | None:
    """None where there were too few features to permute."""
    return test if test.tested else None


def _spectrum(harmonics: Harmonics, signals: Any) -> Array:
    """Fourier coefficients of the centred signals."""
    mean = np.asarray(signals.mean(axis=0)).ravel()
    return harmonics.gft(signals) - np.outer(harmonics.psi.sum(axis=0), mean)
