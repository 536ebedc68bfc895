"""A fitted model to all that is stated about it: pairs, features, measures, confidence, verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array
from harmonicalign.adapters.verdict.judge import Evidence, Verdict, judge
from harmonicalign.adapters.verdict.measures import MOST_ROWS, Measure, measure, summarised
from harmonicalign.adapters.verdict.pairs import Features, Pair, aligned_pairs, score_features, weakest
from harmonicalign.adapters.verdict.subject import Subject, gather, sample, subject_of

__all__ = ["Assessment", "assess", "assess_added", "assess_subject"]


@dataclass(frozen=True)
class Assessment:
    """What is stated about an alignment, wherever it is stated.

    Attributes
    ----------
    subject
        The model and what was given with it.
    pairs
        Pairs of datasets that were aligned with each other, and their tests.
    features
        Agreement of the features; None with one dataset, or without columns that could correspond.
    measures
        Figures before and after alignment.
    n_measured
        Number of rows that they were counted on.
    confidence
        Confidence of every row, by dataset; None with one dataset.
    verdict
        What follows from all of it.
    """

    __repr__ = short_repr

    subject: Subject
    pairs: list[Pair]
    features: Features | None
    measures: list[Measure]
    n_measured: int
    confidence: list[Array] | None
    verdict: Verdict

    def scores(self) -> dict[str, float]:
        """The figures by short names."""
        out = summarised(self.measures)
        if self.confidence is not None:
            out["confidence"] = float(np.median(np.concatenate(self.confidence)))
        test = weakest(self.pairs)
        return out if test is None else out | {"z": float(test.z), "p": float(test.p)}

    def summary(self) -> dict[str, Any]:
        """Verdict and figures as plain values."""
        out: dict[str, Any] = {
            "aligned": self.verdict.aligned,
            "verdict": self.verdict.summary(),
            "scores": self.scores(),
        }
        if self.confidence is not None and len(self.confidence) == len(self.subject.names):
            names = self.subject.names
            out["confidence"] = {
                name: float(np.median(c)) for name, c in zip(names, self.confidence, strict=True)
            }
        if self.features is not None:
            out["features"] = len(self.features.selected)
            out["features_selected"] = int(self.features.selected.sum())
        return out


def assess(
    model: Any,
    *,
    labels: Any = None,
    before: Any = None,
    names: Any = None,
    warnings: Sequence[str] = (),
) -> Assessment:
    """The verdict on a fitted model, with everything that led to it.

    Parameters
    ----------
    model
        A fitted or loaded `HarmonicAlignment`.
    labels
        A label or value per row that was not used for the alignment: a list by dataset, a dict by key, or one
        array over all rows (None for a dataset without); or a dict of such by name.
    before
        Coordinates before alignment, in the same forms; by default the principal components of the signals
        of all datasets together.
    names
        Names of the datasets; by default their keys.
    warnings
        Warnings of the run, which the verdict repeats.

    Returns
    -------
    assessment
        ``assessment.verdict`` says whether the datasets are aligned, how we know, and what to check;
        ``assessment.scores()`` has the figures.

    Examples
    --------
    >>> from harmonicalign import HarmonicAlignment
    >>> from harmonicalign.datasets import load_digits_pair
    >>> pair = load_digits_pair(preserved=0.5, n_x=200, n_y=200, random_state=0)
    >>> model = HarmonicAlignment(random_state=0).fit([pair.x, pair.y])
    >>> assess(model, labels=[pair.labels_x, pair.labels_y]).verdict.headline
    'Aligned'
    """
    return assess_subject(subject_of(model, before=before, labels=labels, names=names), warnings)


def assess_subject(subject: Subject, warnings: Sequence[str] = ()) -> Assessment:
    """The same for a model whose companions have been checked."""
    pairs = aligned_pairs(subject)
    features = score_features(subject, pairs)
    found, n = _measures(subject)
    confidence = subject.model.confidence_ if len(subject.sizes) > 1 else None
    evidence = Evidence(subject.names, pairs, features, found, confidence, warnings)
    return Assessment(subject, pairs, features, found, n, confidence, judge(evidence))


def assess_added(model: Any, number: int, confidence: Array, warnings: Sequence[str] = ()) -> Assessment:
    """The verdict on one dataset that joined an alignment, as far as it concerns that dataset alone.

    Parameters
    ----------
    model
        A model that knows the dataset.
    number
        Its number.
    confidence
        Confidence of the rows in question.
    warnings
        Warnings of the run, which the verdict repeats.
    """
    subject = subject_of(model)
    pairs = [pair for pair in aligned_pairs(subject) if number in (pair.one, pair.other)]
    listed = [confidence if i == number else None for i in range(len(subject.sizes))]
    evidence = Evidence(subject.names, pairs, None, [], listed, warnings)
    # Labels of the query are what a mapping is for; nobody has them yet.
    return Assessment(subject, pairs, None, [], 0, [confidence], judge(evidence))


def _measures(subject: Subject) -> tuple[list[Measure], int]:
    """Measures, and the number of rows they were taken on."""
    if len(subject.sizes) < 2:
        return [], 0
    chosen = sample(subject.sizes, MOST_ROWS)
    before = subject.unaligned(chosen)
    # Do not measure on two-dimensional layouts unless nothing else was given.
    if subject.before is not None and (before is None or subject.before[0].shape[1] > 2):
        before = gather(subject.before, chosen)
    labels = {
        name: [None if v is None else v[c] for v, c in zip(values, chosen, strict=True)]
        for name, values in subject.labels.items()
    }
    after = gather(subject.model.embedding_, chosen)
    return measure(after, labels, subject.names, before), sum(map(len, chosen))
