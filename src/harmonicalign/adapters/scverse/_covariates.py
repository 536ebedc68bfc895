"""Differences to keep: rows of different levels of a covariate are never taken to match.

Where batches hold the levels of a covariate (treated and control, say) in different shares, neighbours
across batches are often of different levels, and an alignment then removes a part of the difference between
the levels with that between the batches. A first alignment says which rows of two batches are nearest to
each other among those of one level; a second starts from these pairs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.adapters.scverse._data import Part, Parts, lookup
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.estimator import HarmonicAlignment

__all__ = ["levels_of", "pairs_within"]

logger = logging.getLogger("harmonicalign")

_NEIGHBOURS = 5
"""Rows are paired if each is among so many nearest rows of the other batch."""

_MOST_ROWS = 1000
"""Maximum number of rows of each batch that are paired; a refinement finds the others."""

_FEWEST_PAIRS = 3
"""Two batches with fewer pairs are aligned without any."""


def levels_of(parts: Parts, covariates: str | Sequence[str]) -> list[Array]:
    """The level of every row of every dataset, as text; rows without a value have the level ''.

    Parameters
    ----------
    parts
        The datasets.
    covariates
        Columns of obs; of several, every combination of values is a level.
    """
    names = [covariates] if isinstance(covariates, str) else list(covariates)
    levels = [_levels(part, names) for part in parts.parts]
    _check_connected(parts.keys, levels, names)
    return levels


def _levels(part: Part, names: Sequence[str]) -> Array:
    columns = [part.take(lookup(f"obs of dataset {part.key!r}", part.adata.obs, name)) for name in names]
    text = [np.asarray(column.astype(str), dtype=object) for column in columns]
    level = np.array([" | ".join(row) for row in zip(*text, strict=True)], dtype=object)
    level[np.any([np.asarray(column.isna()) for column in columns], axis=0)] = ""
    return level


def _check_connected(keys: Sequence[Any], levels: Sequence[Array], names: Sequence[str]) -> None:
    """Refuse batches whose difference cannot be told from that of a covariate."""
    held = [set(own.tolist()) - {""} for own in levels]
    # Batches that share a level, directly or through others, form a group.
    group: set[int] = {0}
    while grown := {j for j in range(len(held)) if j not in group and any(held[i] & held[j] for i in group)}:
        group |= grown
    apart = [repr(keys[i]) for i in range(len(keys)) if i not in group]
    if apart:
        what = ", ".join(names)
        raise ValueError(
            f"covariates: {what} and the batches cannot be told apart: {', '.join(apart[:5])} "
            f"share(s) no level of {what} with the other batches; leave out the covariate, or align the "
            "levels one by one"
        )


def pairs_within(
    model: HarmonicAlignment, levels: Sequence[Array], seed: int
) -> dict[tuple[Any, Any], Array]:
    """Pairs of rows of two datasets that are near each other in an alignment and of one level.

    Parameters
    ----------
    model
        An alignment that ignores the levels.
    levels
        The level of every row of every dataset.
    seed
        Seed of the sample of rows.
    """
    rng = np.random.default_rng(seed)
    places = model.fitted_.at_hand().joint_coordinates()
    sampled = [np.sort(rng.permutation(len(own))[:_MOST_ROWS]) for own in levels]
    found, lacking = {}, []
    for i, j in combinations(range(len(places)), 2):
        pairs = []
        for level in sorted(set(levels[i][sampled[i]]) & set(levels[j][sampled[j]]) - {""}):
            a, b = (sampled[k][levels[k][sampled[k]] == level] for k in (i, j))
            mutual = _mutual(places[i][a], places[j][b])
            pairs.append(np.stack([a[mutual[:, 0]], b[mutual[:, 1]]], axis=1))
        if sum(map(len, pairs)) < _FEWEST_PAIRS:
            lacking.append(f"{model.keys_[i]!r} and {model.keys_[j]!r}")
        else:
            found[model.keys_[i], model.keys_[j]] = np.concatenate(pairs)
    if lacking:
        logger.warning(
            "covariates: %d pair(s) of batches share no level or too few rows of one (%s); between them the "
            "covariate is not protected",
            len(lacking),
            "; ".join(lacking[:3]),
        )
    return found


def _mutual(x: Array, y: Array) -> Array:
    """Numbers of rows of x and y that are among each other's nearest."""
    forth = nearest_rows(y, min(_NEIGHBOURS, len(y)), x).indices
    back = nearest_rows(x, min(_NEIGHBOURS, len(x)), y).indices
    near = np.zeros((len(x), len(y)), dtype=bool)
    near[np.arange(len(x))[:, None], forth] = True
    seen = np.zeros_like(near)
    seen[back, np.arange(len(y))[:, None]] = True
    return np.argwhere(near & seen)
