"""What is claimed of an aligned pair: features judged without their own help, and doubts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harmonicalign._typing import Array
from harmonicalign.evidence.doubts import doubts_about_columns, doubts_about_rows
from harmonicalign.evidence.geometric import untested_if_geometric
from harmonicalign.evidence.held_out import held_out
from harmonicalign.evidence.relations import relate
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.maps import Side
from harmonicalign.method.problem import PairAlignment

__all__ = ["doubts", "judged"]


def judged(
    found: PairAlignment,
    sides: tuple[Side, Side],
    own_columns: bool,
    random_state: int = 0,
    config: MethodConfig = DEFAULT,
) -> PairAlignment:
    """The alignment with what is claimed of it: scores and p-values of held-out features, and its test.

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
    """What should make users doubt the alignment of a pair, in words.

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
        said = doubts_about_rows(names, coordinates, signals, found.correspondence.share, config)
    return said
