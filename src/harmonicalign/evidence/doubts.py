"""What should make users doubt an alignment, in words: for warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harmonicalign._typing import Array
from harmonicalign.evidence.columns import other_order, separate_decompositions
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.evidence.overlap import predicted_share
from harmonicalign.evidence.relations import Relations
from harmonicalign.evidence.significance import false_discovery

__all__ = ["doubts_about_columns", "doubts_about_rows"]


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
    if not found < config.different_things:
        return []
    one, other = names
    return [
        f"{one} and {other} look like different things, at least in part: neighbours in the other dataset "
        f"predict the signals of a row {max(found, 0):.0%} as well as those in its own. Rows that were "
        "brought together may have no counterpart at all; do not transfer labels unless known groups come "
        "together"
    ]
