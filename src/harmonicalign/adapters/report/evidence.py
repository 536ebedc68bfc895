"""Evidence for or against an alignment: tests of pairs, scores of features, mixing and label agreement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.adapters.report.encode import as_text, is_categorical
from harmonicalign.adapters.report.subject import Subject, gather, sample
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.evidence.correspondence import correspondence
from harmonicalign.evidence.significance import Significance, false_discovery, permutation_test
from harmonicalign.metrics import knn_label_agreement, mixing_entropy
from harmonicalign.paper.align import Alignment, calibrate
from harmonicalign.paper.harmonics import Harmonics

__all__ = ["Features", "Measure", "Pair", "aligned_pairs", "measures", "score_features"]


_MOST_PAIRS = 30
_MOST_ROWS = 6000
"""Sample size for neighbour statistics; larger samples hardly change them."""

_NEIGHBOURS, _VOTERS = 30, 5


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
    share: float | None


@dataclass(frozen=True)
class Measure:
    """One figure before and after alignment; `group` is its topic, `note` explains it."""

    name: str
    group: str
    note: str
    before: float | None
    after: float


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


def score_features(subject: Subject, pairs: list[Pair]) -> Features | None:
    """Which features correspond; None with one dataset, or without columns that could."""
    model = subject.model
    known = model.model_.correspondence
    if known is not None:
        return Features(
            known.scores, known.p_values, false_discovery(known.p_values), known.belief, float(known.share)
        )
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
    return Features(scores, p_values, false_discovery(p_values), None, None)


def measures(subject: Subject) -> tuple[list[Measure], int]:
    """Mixing and agreement of labels, before and after; and the number of rows they were taken on."""
    if len(subject.sizes) < 2:
        return [], 0
    chosen = sample(subject.sizes, _MOST_ROWS)
    n = sum(map(len, chosen))
    after = gather(subject.model.embedding_, chosen)
    before = subject.unaligned(chosen)
    # Do not measure on two-dimensional layouts unless nothing else was given.
    if subject.before is not None and (before is None or subject.before[0].shape[1] > 2):
        before = gather(subject.before, chosen)
    k = min(_NEIGHBOURS, n - 1)
    found = [
        Measure(
            "mixing",
            "mixing",
            f"datasets met among the {k} nearest rows; 1 is mixed at random, 0 is separate",
            None if before is None else mixing_entropy(before, k),
            mixing_entropy(after, k),
        )
    ]
    for name, values in subject.labels.items():
        sampled = [None if v is None else v[c] for v, c in zip(values, chosen, strict=True)]
        known = [v for v in sampled if v is not None]
        if len(known) < 2:
            continue
        categorical = all(map(is_categorical, known))
        measure = _label_measures if categorical else _value_measures
        found += measure(name, sampled, before, after, subject.names)
        if categorical and len(known) == len(sampled):
            found += _mixing_within(name, [as_text(v) for v in known], before, after, k)
    return found, n


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


def _mixing_within(
    name: str, labels: list[Array], before: list[Array] | None, after: list[Array], k: int
) -> list[Measure]:
    """Mixing among rows of one label, independent of labels that are rare or absent on one side."""
    kinds = [set(v.tolist()) - {""} for v in labels]
    shared = {kind for i, one in enumerate(kinds) for other in kinds[i + 1 :] for kind in one & other}
    inside = [np.isin(v, sorted(shared)) for v in labels]
    present = [i for i, rows in enumerate(inside) if rows.any()]
    if len(present) < 2:
        return []

    def mixing(places: list[Array]) -> float:
        rows = [places[i][inside[i]] for i in present]
        return mixing_entropy(rows, k, labels=[labels[i][inside[i]] for i in present])

    note = f"the same among rows of one {name}, for every {name} that several datasets have"
    return [
        Measure(
            f"mixing within {name}",
            f"within:{name}",
            note,
            None if before is None else mixing(before),
            mixing(after),
        )
    ]


def _label_measures(
    name: str, labels: list[Any], before: list[Array] | None, after: list[Array], names: list[str]
) -> list[Measure]:
    """Majority of the nearest rows of the other datasets, against the row's own label."""
    text = [None if v is None else as_text(v) for v in labels]
    out = []
    for i, own in enumerate(text):
        others = [(j, v) for j, v in enumerate(text) if j != i and v is not None]
        if own is None or not others:
            continue
        # A label that no other dataset has cannot be found there.
        shared = np.isin(own, np.concatenate([v for _, v in others])) & (own != "")
        if not shared.any():
            continue

        def agreement(
            rows: list[Array],
            i: int = i,
            own: Array = own,
            shared: Array = shared,
            others: list[tuple[int, Array]] = others,
        ) -> float:
            train = np.concatenate([rows[j][v != ""] for j, v in others])
            marks = np.concatenate([v[v != ""] for _, v in others])
            k = min(_VOTERS, len(train))
            return knn_label_agreement(train, marks, rows[i][shared], own[shared], k)

        left_out = int((~shared).sum())
        note = f"rows whose {_VOTERS} nearest rows of the other datasets vote for their own {name}"
        note += f"; {left_out} without a counterpart are left out" if left_out else ""
        out.append(
            Measure(
                f"{name} found again, {names[i]}",
                f"label:{name}",
                note,
                None if before is None else agreement(before),
                agreement(after),
            )
        )
    return out


def _value_measures(
    name: str, values: list[Any], before: list[Array] | None, after: list[Array], names: list[str]
) -> list[Measure]:
    """Correlation of a quantity with its mean over the nearest rows of the other datasets."""
    columns = [None if v is None else np.asarray(v, dtype=np.float64) for v in values]
    out = []
    for i, own in enumerate(columns):
        others = [(j, v) for j, v in enumerate(columns) if j != i and v is not None and np.isfinite(v).any()]
        if own is None or not others or np.isfinite(own).sum() < 3:
            continue
        rows = np.isfinite(own)
        known = np.concatenate([v[np.isfinite(v)] for _, v in others])

        def agreement(
            places: list[Array],
            i: int = i,
            own: Array = own,
            rows: Array = rows,
            known: Array = known,
            others: list[tuple[int, Array]] = others,
        ) -> float:
            train = np.concatenate([places[j][np.isfinite(v)] for j, v in others])
            near = nearest_rows(train, min(_VOTERS, len(train)), places[i][rows], exact=False).indices
            guess = known[near].mean(axis=1)
            if guess.std() == 0 or own[rows].std() == 0:
                return 0.0
            return float(np.corrcoef(guess, own[rows])[0, 1])

        out.append(
            Measure(
                f"{name} found again, {names[i]}",
                f"value:{name}",
                f"correlation of {name} with its mean over the {_VOTERS} nearest rows of the other datasets",
                None if before is None else agreement(before),
                agreement(after),
            )
        )
    return out
