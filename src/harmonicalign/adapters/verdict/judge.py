"""The verdict in plain words: whether the datasets are aligned, how we know, and what to do next.

A verdict is a list of findings. Every rule below looks at the evidence and returns findings of its own; the
worst of them decides. A further rule is one function and its name in `_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.adapters.verdict.measures import Measure
from harmonicalign.adapters.verdict.pairs import Features, Pair, weakest
from harmonicalign.adapters.verdict.words import percent, readable_p, tight

__all__ = ["LOW_CONFIDENCE", "Evidence", "Finding", "Verdict", "judge"]


WEAK = 0.001
"""Above this p, other evidence is needed."""

LOW_CONFIDENCE = 0.7
"""Rows below this have few rows like them in the other datasets."""

_POOR_SUPPORT = 0.7
"""An alignment is doubted if the median confidence of a dataset is lower. The lowest median is 0.72 to 0.99
on ten tasks of benchmarks/tasks.py with classes in common, and below 0.7 on nine of sixteen draws without."""

_FEW_MIXED = 0.3
_LABELS_LOST = 0.05
_LABELS_WON = 0.1
_FEW_SELECTED = 0.05
"""A smaller share of features that correspond one by one needs an explanation beside a passed test."""

_LEVELS = ("note", "good", "doubtful", "bad")
_NEXT = {
    "good": "Next: use the aligned coordinates, transfer labels or correct features.",
    "doubtful": "Next: go through the points under “What to check” before you use the alignment.",
    "bad": "Next: do not use these coordinates; go through the points under “What to check”.",
}


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes
    ----------
    level
        "good", "doubtful", "bad", or "note", which does not change the verdict.
    sentence
        What was found; may be empty.
    advice
        What to check or do about it; may be empty.
    headline
        The verdict in a few words, if this finding decides it.
    """

    level: str
    sentence: str = ""
    advice: str = ""
    headline: str = ""

    def __post_init__(self) -> None:
        if self.level not in _LEVELS:
            raise ValueError(f"level is {self.level!r}; expected one of {', '.join(_LEVELS)}")


@dataclass(frozen=True)
class Verdict:
    """Everything that was found about an alignment; the worst finding decides."""

    findings: tuple[Finding, ...]

    @property
    def level(self) -> str:
        """One of "good", "doubtful", "bad", and "none" where there is nothing to judge."""
        worst = max((f.level for f in self.findings), key=_LEVELS.index, default="note")
        return "none" if worst == "note" else worst

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        deciding = [f.headline for f in self.findings if f.level == self._worst and f.headline]
        return deciding[0] if deciding else "Aligned, with doubts"

    @property
    def aligned(self) -> bool | None:
        """True where the verdict is "Aligned", False where it is that they are not, None in doubt."""
        return {"good": True, "bad": False}.get(self.level)

    @property
    def sentences(self) -> list[str]:
        """How we know."""
        return [f.sentence for f in self.findings if f.sentence]

    @property
    def checks(self) -> list[str]:
        """What to look at, most urgent first."""
        ranked = sorted(self.findings, key=lambda f: -_LEVELS.index(f.level))
        return [f.advice for f in ranked if f.advice]

    @property
    def next(self) -> str:
        """What to do now, in one sentence."""
        return _NEXT.get(self.level, "")

    def summary(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "level": self.level,
            "headline": self.headline,
            "aligned": self.aligned,
            "sentences": self.sentences,
            "checks": self.checks,
            "next": self.next,
        }

    def __str__(self) -> str:
        return "\n".join([f"{self.headline}.", *self.sentences, *(f"- {check}" for check in self.checks)])

    @property
    def _worst(self) -> str:
        return "note" if self.level == "none" else self.level


@dataclass(frozen=True)
class Evidence:
    """What a verdict is made of.

    Attributes
    ----------
    names
        Names of the datasets.
    pairs
        Pairs that were aligned with each other.
    features
        Agreement of the features, if they could be compared.
    measures
        Figures before and after.
    confidence
        Confidence of every row, by dataset; None for one that is not judged.
    warnings
        What the run warned of.
    """

    names: Sequence[str]
    pairs: Sequence[Pair]
    features: Features | None = None
    measures: Sequence[Measure] = ()
    confidence: Sequence[Array | None] | None = None
    warnings: Sequence[str] = ()

    @property
    def tested(self) -> list[Pair]:
        """Pairs with a permutation test."""
        return [pair for pair in self.pairs if pair.significance is not None]

    @property
    def failed(self) -> list[Pair]:
        """Pairs that are no better than chance."""
        return [p for p in self.tested if p.significance is not None and p.significance.by_chance]

    @property
    def opposed(self) -> list[Pair]:
        """Pairs whose columns have opposite signs."""
        return [p for p in self.tested if p.significance is not None and p.significance.opposed]

    def label_means(self) -> dict[str, tuple[float | None, float]]:
        """Mean over datasets of every categorical label's agreement, before and after."""
        groups: dict[str, list[Measure]] = {}
        for m in self.measures:
            if m.kind == "label":
                groups.setdefault(m.label, []).append(m)
        out: dict[str, tuple[float | None, float]] = {}
        for name, found in groups.items():
            known = [m.before for m in found if m.before is not None]
            before = float(np.mean(known)) if known else None
            out[name] = before, float(np.mean([m.after for m in found]))
        return out

    @property
    def labels_won(self) -> bool:
        """Whether a label is found much more often across datasets than before."""
        return any(
            before is not None and after - before > _LABELS_WON and after > 0.5
            for before, after in self.label_means().values()
        )


def judge(evidence: Evidence) -> Verdict:
    """Combine the evidence.

    The permutation test comes first, because only it tests the correspondence of the features. Low
    confidence, mixing or label agreement can weaken the verdict; recovered labels can support an alignment
    that the test leaves open.

    Parameters
    ----------
    evidence
        What was found about an alignment.
    """
    if len(evidence.names) < 2:
        text = "The coordinates are the diffusion map of this dataset alone."
        return Verdict((Finding("note", text, headline="One dataset: nothing to align"),))
    return Verdict(tuple(finding for rule in _RULES for finding in rule(evidence)))


def _test(e: Evidence) -> Iterable[Finding]:
    """The permutation test of the weakest pair."""
    test = weakest(e.pairs)
    if test is None:
        yield Finding(
            "doubtful",
            "Whether the result is better than chance could not be tested.",
            "A test needs at least five columns that vary in both datasets. Labels that several datasets "
            "have can show whether groups meet.",
            "Not tested: whether they are aligned is open",
        )
        return
    which = ""
    if len(e.tested) > 1:
        pair = next(p for p in e.tested if p.significance is test)
        which = f" (the weakest pair: {_of(e.names, pair)})"
    numbers = f"{tight(f'z = {test.z:.1f}')}, {tight('p = ')}{readable_p(test.p)}{which}."
    if e.failed:
        yield from _by_chance(
            e, f"The features agree no better than features paired at random would: {numbers}"
        )
        return
    much = "better" if test.p > WEAK else "far better"
    sentence = f"The features agree {much} than features paired at random: {numbers}"
    if test.p > WEAK and not e.labels_won:
        weak = f"The evidence is not strong (p above {WEAK}): check whether known groups overlap."
        yield Finding("doubtful", sentence, weak, "Probably aligned")
    else:
        yield Finding("good", sentence, headline="Aligned")


def _by_chance(e: Evidence, sentence: str) -> Iterable[Finding]:
    won = e.labels_won
    level = "doubtful" if won else "bad"
    headline = "Not shown to be better than chance" if won else "Not aligned: no better than chance"
    yield Finding(level, sentence, headline=headline)
    if len(e.names) > 2:
        pairs = _listed([_of(e.names, pair) for pair in e.failed])
        advice = f"The pairs that fail: {pairs}. Leave those datasets out and check the others."
        yield Finding(level, advice=advice)
    for advice in (
        "Do the columns mean the same in every dataset, in the same order? The columns of two separate "
        "PCAs or SVDs do not.",
        "Do the columns vary in both datasets, and are their scales comparable?",
        "Do the datasets overlap at all?",
    ):
        yield Finding(level, advice=advice)


def _signs(e: Evidence) -> Iterable[Finding]:
    """Columns whose signs are opposite."""
    if e.opposed:
        listed = _listed([_of(e.names, pair) for pair in e.opposed])
        yield Finding(
            "bad",
            f"Corresponding columns seem to have opposite signs ({listed}): what is more of something in one "
            "dataset is less of it in the other.",
            "Negate the columns of one dataset, and align again.",
            "Probably not aligned: columns run opposite ways",
        )


def _features(e: Evidence) -> Iterable[Finding]:
    """How many features correspond, one by one."""
    if e.features is None:
        return
    n, d = int(e.features.selected.sum()), len(e.features.selected)
    text = f"{n:,} of {d:,} features can be shown to correspond, each by itself"
    passed = bool(e.tested) and not e.failed
    if passed and n < _FEW_SELECTED * d:
        text += "; the test above takes all of them together and sees more"
    yield Finding("note", text + ".")


def _labels(e: Evidence) -> Iterable[Finding]:
    """Labels found among the nearest rows of other datasets."""
    means = e.label_means()
    for name, (before, after) in means.items():
        text = f"{percent(after)} of the rows have the same {name} as their nearest rows of other datasets"
        yield Finding(
            "note", text + ("." if before is None else f"; before alignment {percent(before)} did.")
        )
        if before is not None and before - after > _LABELS_LOST:
            yield Finding(
                "doubtful",
                advice=f"Alignment made {name} harder to find across datasets ({percent(before)} before, "
                f"{percent(after)} now): they may not have needed an alignment.",
            )
    if e.measures and not any(m.kind in ("label", "value") for m in e.measures):
        yield Finding(
            "note",
            advice="No labels were given that several datasets have. If you know groups that they share, see "
            "whether they meet: datasets without any group in common can look aligned, too.",
        )


def _mixing(e: Evidence) -> Iterable[Finding]:
    """Datasets that stay apart."""
    for m in e.measures:
        if m.kind == "mixing" and m.after < _FEW_MIXED:
            yield Finding(
                "doubtful",
                advice=f"The datasets are still separate (mixing {m.after:.2f}, where 1 is fully mixed): "
                "look in the plot for parts that overlap and parts that do not.",
            )


def _support(e: Evidence) -> Iterable[Finding]:
    """Rows without a counterpart."""
    poor, lonely = [], []
    for name, c in zip(e.names, e.confidence or [], strict=False):
        if c is None:
            continue
        median, low = float(np.median(c)), float((c < LOW_CONFIDENCE).mean())
        if median < _POOR_SUPPORT:
            poor.append(f"{name} ({median:.2f})")
        elif low >= 0.02:
            lonely.append(f"{percent(low)} of the rows of {name}")
    if lonely:
        yield Finding(
            "note",
            advice=f"{_listed(lonely)} have a confidence below {LOW_CONFIDENCE}: groups that others lack, or "
            "rows placed badly. Colour by confidence to find them.",
        )
    if poor:
        yield Finding(
            "doubtful",
            advice="Many rows have no close counterpart: the median confidence is low in "
            f"{_listed(poor)}. Datasets without a common class look like this; check that they share what "
            "you expect them to share.",
        )


def _warned(e: Evidence) -> Iterable[Finding]:
    """What the run warned of."""
    return (Finding("note", advice=f"The run warned: {text}") for text in e.warnings)


_RULES: tuple[Callable[[Evidence], Iterable[Finding]], ...] = (
    _test,
    _signs,
    _features,
    _labels,
    _mixing,
    _support,
    _warned,
)


def _listed(items: Sequence[str], most: int = 5) -> str:
    return "; ".join(items[:most]) + (f"; {len(items) - most} more" if len(items) > most else "")


def _of(names: Sequence[str], pair: Pair) -> str:
    return f"{names[pair.one]} and {names[pair.other]}"
