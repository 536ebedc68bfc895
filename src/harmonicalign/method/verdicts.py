"""What is reported about an aligned pair: scores of held-out features, its test, and reasons for doubt."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harmonicalign._exceptions import AlignmentWarning
from harmonicalign._progress import FEW_DATASETS
from harmonicalign._typing import Array
from harmonicalign.engines.threads import in_threads
from harmonicalign.evidence.confidence import alike_though_apart, predicted_share
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.evidence.correspondence import held_out
from harmonicalign.evidence.geometric import untested_if_geometric
from harmonicalign.evidence.relations import Relations, other_order, relate, separate_decompositions
from harmonicalign.evidence.significance import Significance, false_discovery
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.maps import Side
from harmonicalign.method.problem import PairAlignment
from harmonicalign.method.space import JointSpace

__all__ = ["all_doubts", "doubts", "doubts_about_columns", "doubts_about_rows", "judged", "warn"]


def judged(
    found: PairAlignment,
    sides: tuple[Side, Side],
    own_columns: bool,
    random_state: int = 0,
    config: MethodConfig = DEFAULT,
) -> PairAlignment:
    """The alignment with what is reported about it: scores and p-values of held-out features, and its test.

    Parameters
    ----------
    found
        Alignment of the pair.
    sides
        The two datasets, in the same order.
    own_columns
        Whether the signals are the columns of the representation; otherwise they may be functions of it.
    random_state
        Seed of folds and samples.
    config
        Configuration of the method.
    """
    significance = found.significance
    if not own_columns:
        described = [(s.components, s.harmonics, s.signals) for s in sides]
        significance = untested_if_geometric(significance, described, random_state, config)
    harmonics = found.alignment.harmonics
    x, y = (replace(s, harmonics=h) for s, h in zip(sides, harmonics, strict=True))
    correspondence = held_out(
        (x.harmonics, y.harmonics),
        (x.spectral(), y.spectral()),
        (x.signals, y.signals),
        found.correspondence,
        by_chance=significance.by_chance or bool(significance.untested),
        random_state=random_state,
        config=config,
    )
    return replace(found, significance=significance, correspondence=correspondence)


def doubts(
    names: tuple[str, str],
    found: PairAlignment,
    sides: tuple[Side, Side],
    coordinates: Sequence[Array] | None = None,
    config: MethodConfig = DEFAULT,
) -> list[str]:
    """Reasons to doubt the alignment of a pair, as sentences for users.

    Parameters
    ----------
    names
        Names of the two datasets.
    found
        Their alignment.
    sides
        The datasets, in the same order.
    coordinates
        Joint coordinates of their landmarks; None examines the columns only.
    config
        Configuration of the method.
    """
    test, signals = found.significance, [side.signals for side in sides]
    if not test.tested:
        return []
    relations = relate(signals[0], signals[1], config)
    said = doubts_about_columns(names, signals, relations, found.correspondence.p_values, config)
    if not said and coordinates is not None and not (test.by_chance or test.opposed):
        said = doubts_about_rows(names, coordinates, signals, found.correspondence.weights, config)
    return said


def doubts_about_columns(
    names: tuple[str, str],
    signals: Sequence[Any],
    relations: Relations,
    p_values: Array,
    config: EvidenceConfig = EVIDENCE,
) -> list[str]:
    """What is suspicious about the columns of two datasets' signals.

    Parameters
    ----------
    names
        Names of the datasets.
    signals
        Their signals.
    relations
        Relations between their features.
    p_values
        p-values of features that were held out.
    config
        Bounds.
    """
    one, other = names
    said, agreeing = [], float(false_discovery(p_values).mean())
    if separate_decompositions(signals[0], signals[1], agreeing, config):
        said.append(
            f"the signals of {one} and {other} look like separate PCAs or SVDs: within each, columns are "
            "uncorrelated and in order of their variance. Components of separate decompositions do not "
            "correspond, even where some agree. Use the features themselves as signals, or decompose all "
            "rows together"
        )
    else:
        order = other_order(relations, config)
        if order is not None:
            said.append(f"the columns of {one} and {other} fit better {order}. Check their order")
    return said


def doubts_about_rows(
    names: tuple[str, str],
    coordinates: Sequence[Array],
    signals: Sequence[Any],
    weights: Array,
    config: EvidenceConfig = EVIDENCE,
) -> list[str]:
    """What is suspicious about the rows that were brought together; arguments as in `predicted_share`."""
    found = predicted_share(coordinates, signals, weights, config=config)
    one, other = names
    if not found < config.different_things:
        if alike_though_apart(signals, weights, config) < config.alike_though_apart:
            return []
        return [
            f"only a part of {one} and {other} seems to correspond: many columns do not agree, although "
            "their values are distributed alike in both, so that rows of different kinds may have been "
            "brought together. Do not transfer labels unless known groups come together"
        ]
    return [
        f"{one} and {other} look like different things, at least in part: neighbours in the other dataset "
        f"predict the signals of a row {max(found, 0):.0%} as well as those in its own. Rows that were "
        "brought together may have no counterpart at all; do not transfer labels unless known groups come "
        "together"
    ]


def all_doubts(
    names: Sequence[str],
    pairs: Mapping[int, PairAlignment],
    sides: Sequence[Side],
    space: JointSpace,
    config: MethodConfig,
) -> list[str]:
    """Reasons to doubt the pairs, as sentences for users."""
    parents = space.parents
    both = sorted({j for i in pairs for j in (i, parents[i])})
    found = in_threads(lambda j: space.place(j, sides[j].components, sides[j].signals), both)
    placed = dict(zip(both, found, strict=True))

    def about(i: int) -> list[str]:
        couple = parents[i], i
        named = names[couple[0]], names[couple[1]]
        described = sides[couple[0]], sides[couple[1]]
        # Of two modalities, one may say less about the other than about itself, though the rows are the same.
        readings = all(space.bridges[j] is not None for j in couple)
        own = config
        if readings:  # of which columns distributed alike tell nothing either
            never = float("inf")
            own = replace(config, different_things=config.different_readings, alike_though_apart=never)
        return doubts(named, pairs[i], described, [placed[j] for j in couple], own)

    return [text for said in in_threads(about, list(pairs)) for text in said]


def warn(pairs: Sequence[tuple[str, str, Significance]], doubtful: Sequence[str] = ()) -> None:
    """Warn of alignments that were not tested, are not significant, or should be doubted for other reasons.

    Parameters
    ----------
    pairs
        Names of the two datasets of every pair, and its test.
    doubtful
        Other reasons for doubt.
    """
    said = []
    opposed = [f"{one} and {other}" for one, other, test in pairs if test.opposed]
    for one, other, test in pairs:
        where = "" if len(pairs) == 1 else f" of {one} and {other}"
        if not test.tested:
            said.append(
                f"whether the alignment{where} is better than chance was {test}. Check whether rows of known "
                "groups come together"
            )
        elif test.by_chance:
            said.append(
                f"the alignment{where} is no better than chance ({test}): wrongly paired features agree as "
                "well. Check that the columns of signals mean the same in every dataset (those of two "
                "separate PCAs or SVDs do not) and are in the same order, that they vary, and that the "
                "datasets overlap"
            )
    if len(said) > FEW_DATASETS:
        said = [
            *said[:FEW_DATASETS],
            f"{len(said) - FEW_DATASETS} more alignments are doubtful in the same way",
        ]
    if opposed:
        said.append(
            f"columns of {'; '.join(opposed)} seem to go opposite ways: they have the same correlations with "
            "each other in both datasets, but the opposite skewness. If large values in one dataset mean "
            "small values in the other (Ct values and counts, methylation and expression), negate its "
            "columns and fit again"
        )
    for text in [*doubtful, *said]:
        warnings.warn(text, AlignmentWarning, stacklevel=4)
