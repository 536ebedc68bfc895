"""The conclusion in plain words: whether the datasets are aligned, the evidence, and what to check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.adapters.report.evidence import Features, Measure, Pair

__all__ = ["LOW_CONFIDENCE", "Verdict", "judge", "percent", "readable_p", "tight"]


WEAK = 0.001
"""Above this p, other evidence is needed."""

LOW_CONFIDENCE = 0.7
"""Rows below this have few rows like them in the other datasets."""

_POOR_SUPPORT = 0.75
"""Datasets that share what they measure have a higher median confidence than this."""

_FEW_MIXED = 0.3
_LABELS_LOST = 0.05
_LABELS_WON = 0.1


@dataclass(frozen=True)
class Verdict:
    """A finding.

    Attributes
    ----------
    level
        "good", "doubtful", "bad" or "none" (nothing to judge).
    headline
        A few words.
    sentences
        How we know.
    checks
        What to look at next, most urgent first.
    """

    level: str
    headline: str
    sentences: list[str]
    checks: list[str] = field(default_factory=list)


def judge(
    names: Sequence[str],
    pairs: Sequence[Pair],
    features: Features | None,
    measures: Sequence[Measure],
    confidence: Sequence[Array] | None,
) -> Verdict:
    """Combine the evidence.

    The permutation test comes first, because only it tests the correspondence of the features. Low
    confidence, mixing or label agreement can weaken the verdict; recovered labels can support an alignment
    that the test leaves open.
    """
    if len(names) < 2:
        return Verdict(
            "none",
            "One dataset: nothing to align",
            ["The coordinates are the diffusion map of this dataset alone."],
        )
    tests = [pair for pair in pairs if pair.significance is not None]
    chance = [p for p in tests if p.significance is not None and p.significance.by_chance]
    sentences = [_test_sentence(names, tests, chance)]
    sentences += _feature_sentences(features, with_share=not chance)
    sentences += _label_sentences(measures)
    doubts = [
        *_opposed(names, tests),
        *_unsupported(names, confidence),
        *_unmixed(measures),
        *_lost_labels(measures),
    ]
    checks = [*doubts, *_lonely_rows(names, confidence)]
    if not tests:
        level, headline = "doubtful", "Aligned, but not tested"
        checks.append(
            "A test needs at least five columns that vary in both datasets. Labels that several datasets "
            "have can show whether groups meet."
        )
    elif chance:
        won = _labels_won(measures)
        level = "doubtful" if won and not doubts else "bad"
        headline = "Not shown to be better than chance" if won else "Not aligned: no better than chance"
        checks = [*_chance_checks(names, chance, len(names)), *checks]
    elif doubts:
        level, headline = "doubtful", "Aligned, with doubts"
    elif _weakest_p(tests) > WEAK and not _labels_won(measures):
        level, headline = "doubtful", "Probably aligned"
        checks.append(f"The evidence is not strong (p above {WEAK}): check whether known groups overlap.")
    else:
        level, headline = "good", "Aligned"
    if not any(m.group.startswith(("label", "value")) for m in measures):
        checks.append(
            "No labels were given. If you know groups that several datasets have, see whether they meet: "
            "datasets without any group in common can look aligned, too."
        )
    return Verdict(level, headline, sentences, checks)


def readable_p(p: float) -> str:
    """A probability in readable form: 0.03, 4 × 10⁻⁷."""
    if p >= 0.001:
        return f"{p:.2g}"
    if p < 1e-99:
        return "below 10⁻⁹⁹"
    mantissa, exponent = f"{p:.0e}".split("e")
    raised = str(abs(int(exponent))).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return tight(f"{mantissa} × 10") + f"⁻{raised}"


def percent(share: float) -> str:
    """A share in whole percent, with a non-breaking space before the sign."""
    return tight(f"{100 * share:.0f} %")


def tight(text: str) -> str:
    """The text with non-breaking spaces."""
    return text.replace(" ", "\u00a0").replace("-", "−")


def _test_sentence(names: Sequence[str], tests: Sequence[Pair], chance: Sequence[Pair]) -> str:
    if not tests:
        return "The significance of the result could not be tested."
    weakest = max(tests, key=lambda pair: pair.significance.p if pair.significance else 0.0)
    assert weakest.significance is not None
    test = weakest.significance
    numbers = f"{tight(f'z = {test.z:.1f}')}, {tight('p = ')}{readable_p(test.p)}"
    which = "" if len(tests) == 1 else f" (the weakest pair: {_of(names, weakest)})"
    if chance:
        much, end = "no better", " would"
    else:
        much, end = "better" if test.p > WEAK else "far better", ""
    return f"The features agree {much} than features paired at random{end}: {numbers}{which}."


def _weakest_p(tests: Sequence[Pair]) -> float:
    return max(pair.significance.p for pair in tests if pair.significance is not None)


def _feature_sentences(features: Features | None, with_share: bool) -> list[str]:
    if features is None:
        return []
    n, d = int(features.selected.sum()), len(features.selected)
    text = f"{n:,} of {d:,} features correspond at a false discovery rate of {percent(0.05)}"
    if features.share is not None and with_share:
        text += f"; about {percent(features.share)} of the smooth variation lies in features that correspond"
    return [text + "."]


def _label_sentences(measures: Sequence[Measure]) -> list[str]:
    out = []
    for name, (before, after) in _label_means(measures).items():
        text = f"{percent(after)} of the rows have the same {name} as their nearest rows of other datasets"
        text += "." if before is None else f"; before alignment {percent(before)} did."
        out.append(text)
    return out


def _label_means(measures: Sequence[Measure]) -> dict[str, tuple[float | None, float]]:
    """Mean over datasets of every categorical label's agreement, before and after."""
    groups: dict[str, list[Measure]] = {}
    for measure in measures:
        kind, _, name = measure.group.partition(":")
        if kind == "label":
            groups.setdefault(name, []).append(measure)
    out: dict[str, tuple[float | None, float]] = {}
    for name, found in groups.items():
        known = [m.before for m in found if m.before is not None]
        before = float(np.mean(known)) if known else None
        out[name] = before, float(np.mean([m.after for m in found]))
    return out


def _labels_won(measures: Sequence[Measure]) -> bool:
    found = _label_means(measures).values()
    return any(before is not None and after - before > _LABELS_WON and after > 0.5 for before, after in found)


def _lost_labels(measures: Sequence[Measure]) -> list[str]:
    return [
        f"Alignment made {name} harder to find across datasets ({percent(before)} before, {percent(after)} "
        "now): they may not have needed an alignment."
        for name, (before, after) in _label_means(measures).items()
        if before is not None and before - after > _LABELS_LOST
    ]


def _unmixed(measures: Sequence[Measure]) -> list[str]:
    return [
        f"The datasets are still separate (mixing {m.after:.2f}, where 1 is fully mixed): look in the plot "
        "for parts that overlap and parts that do not."
        for m in measures
        if m.group == "mixing" and m.after < _FEW_MIXED
    ]


def _opposed(names: Sequence[str], tests: Sequence[Pair]) -> list[str]:
    opposed = [p for p in tests if p.significance is not None and p.significance.opposed]
    if not opposed:
        return []
    listed = "; ".join(_of(names, pair) for pair in opposed[:5])
    return [
        f"Corresponding columns seem to have opposite signs ({listed}): what is more of something in one "
        "dataset is less of it in the other. Negate the columns of one, and align again."
    ]


def _unsupported(names: Sequence[str], confidence: Sequence[Array] | None) -> list[str]:
    poor = [
        (name, float(np.median(c)))
        for name, c in zip(names, confidence or [], strict=False)
        if np.median(c) < _POOR_SUPPORT
    ]
    if not poor:
        return []
    listed = ", ".join(f"{name} ({median:.2f})" for name, median in poor[:5])
    return [
        f"Most rows have no close counterpart: the median confidence is low in {listed}. Datasets without a "
        "common class look like this; check that they share what you expect them to share."
    ]


def _lonely_rows(names: Sequence[str], confidence: Sequence[Array] | None) -> list[str]:
    out = []
    for name, c in zip(names, confidence or [], strict=False):
        share = float((c < LOW_CONFIDENCE).mean())
        if share >= 0.02 and np.median(c) >= _POOR_SUPPORT:
            out.append(
                f"{percent(share)} of the rows of {name} have a confidence below {LOW_CONFIDENCE}: groups "
                "that the others lack, or rows placed badly. Colour by confidence to find them."
            )
    return out


def _chance_checks(names: Sequence[str], chance: Sequence[Pair], n: int) -> list[str]:
    out = [
        "Do the columns mean the same in every dataset, in the same order? The columns of two separate "
        "PCAs or SVDs do not.",
        "Do the columns vary in both datasets, and are their scales comparable?",
        "Do the datasets overlap at all?",
    ]
    if n > 2:
        listed = "; ".join(_of(names, pair) for pair in chance[:5])
        out.insert(0, f"The pairs that fail: {listed}. Leave those datasets out and check the others.")
    return out


def _of(names: Sequence[str], pair: Pair) -> str:
    return f"{names[pair.one]} and {names[pair.other]}"
