"""Local differences between datasets in the common space, found and taken off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.maps import Side
from harmonicalign.method.problem import PairAlignment, justified
from harmonicalign.method.shifts import LocalShift, local_centring, local_shifts
from harmonicalign.method.space import JointSpace

__all__ = ["Compared", "locally_shifted"]


@dataclass(frozen=True)
class Compared:
    """Rows of a dataset in which it is compared with others: components, signals, level of a covariate."""

    components: Array
    signals: Any
    levels: Array


def locally_shifted(
    space: JointSpace,
    sides: Sequence[Side],
    pairs: Mapping[int, PairAlignment],
    random_state: int = 0,
    compared: Sequence[Compared] | None = None,
    config: MethodConfig = DEFAULT,
) -> JointSpace:
    """The common space with what datasets differ in locally taken off.

    Parameters
    ----------
    space
        The common space, without local shifts.
    sides
        All datasets.
    pairs
        For every dataset but the root, its alignment with its parent.
    random_state
        Seed of samples.
    compared
        The rows of every dataset among which differences over short distances are sought; None for those of
        the sides. More rows serve where the sides hold few.
    config
        Configuration of the method.
    """
    # All datasets move, large ones less, because none is treated as the reference. An alignment that may be
    # chance gives little reason to move.
    meant = {i: justified(pair.significance, config) for i, pair in pairs.items()}
    steps = [meant.get(i, max(meant.values())) for i in range(len(sides))]
    z = [space.place_rigidly(i, side.components, side.signals) for i, side in enumerate(sides)]
    total = sum(map(len, z))
    towards = [step * (1 - len(rows) / total) for step, rows in zip(steps, z, strict=True)]
    moves = local_shifts(z, towards, random_state, config)
    if compared is not None:
        shifts = map(LocalShift, z, moves)
        z = [space.place_rigidly(i, rows.components, rows.signals) for i, rows in enumerate(compared)]
        moves = [shift.apply(rows, config) - rows for shift, rows in zip(shifts, z, strict=True)]
    shifted = [a + b for a, b in zip(z, moves, strict=True)]
    if compared is None:
        centred = local_centring(shifted, steps, config)
    else:
        centred = _centred_by_level(shifted, [rows.levels for rows in compared], steps, config)
    moves = [a + b for a, b in zip(moves, centred, strict=True)]
    return replace(space, shifts=tuple(map(LocalShift, z, moves)))


def _centred_by_level(
    z: Sequence[Array], levels: Sequence[Array], steps: Sequence[float], config: MethodConfig
) -> list[Array]:
    """Displacements that remove what datasets differ in among near rows of one level; others stay."""
    moves = [np.zeros_like(rows) for rows in z]
    for level in np.unique(np.concatenate(list(levels))):
        chosen = [np.flatnonzero(own == level) for own in levels]
        if level >= 0:
            parts = [rows[some] for rows, some in zip(z, chosen, strict=True)]
            for move, some, found in zip(moves, chosen, local_centring(parts, steps, config), strict=True):
                move[some] = found
    return moves
