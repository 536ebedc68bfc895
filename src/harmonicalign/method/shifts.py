"""Local shifts: what is left of the differences between datasets after their maps, taken up place by place.

Rows of all datasets move towards their anchors, as far as other datasets support them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.engines import cpu
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.method.anchors import find_anchors, masses
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.tangents import project

__all__ = ["LocalShift", "common_offset", "local_shifts", "shift_towards"]


@dataclass(frozen=True)
class LocalShift:
    """A smooth displacement, known at some places.

    Attributes
    ----------
    places
        Joint coordinates where the displacement is known, (m, d).
    displacement
        The displacement there, (m, d).
    """

    places: Array
    displacement: Array

    def apply(self, z: Array, config: MethodConfig = DEFAULT) -> Array:
        """Displaced rows: each moves by the weighted displacement of the places nearest to it."""
        k = min(config.shift_places, len(self.places))
        distances, indices = cpu.nearest(self.places, k, z, exact=False)
        weights = _gaussian(distances, distances[:, -1:])
        weights /= weights.sum(axis=1, keepdims=True)
        moved = z.copy()

        def move(rows: slice) -> None:
            for j in range(indices.shape[1]):
                moved[rows] += weights[rows, j, None] * self.displacement[indices[rows, j]]

        cpu.in_threads(move, cpu.row_slices(len(z), 64 * z.shape[1]))
        return np.asarray(moved)


def local_shifts(
    z: Sequence[Array], steps: Sequence[float], random_state: int, config: MethodConfig = DEFAULT
) -> list[Array]:
    """Displacements of the datasets' rows towards each other.

    Anchors are found between rows projected onto the tangent planes of their own dataset, where noise does
    not hide them. Mutual neighbours lie where two clouds face each other, so one round falls short.

    Parameters
    ----------
    z
        Joint coordinates of every dataset's rows.
    steps
        How much of the way to the others every dataset goes in a round; with 0 its rows stay.
    random_state
        Seed of the sample that confidence is measured against.
    config
        Numbers and rules of the method.
    """
    flat = [project(rows, rows, config=config) for rows in z]
    moves = [np.zeros_like(rows) for rows in z]
    batch = np.repeat(np.arange(len(z)), [len(rows) for rows in z])
    for _ in range(config.shift_rounds):
        placed = [a + b for a, b in zip(z, moves, strict=True)]
        support = row_confidence(placed, random_state=random_state, config=config)
        together = np.vstack(placed)
        k = min(config.meeting_rows + 1, len(together))
        near = cpu.nearest(together, k, together, exact=False)[1][:, 1:]
        now = [a + b for a, b in zip(flat, moves, strict=True)]
        for i, step in enumerate(steps):
            if step:
                own = batch == i
                met = np.mean(own[near] != own[:, None], axis=1)
                others = _Cloud(
                    np.vstack(now[:i] + now[i + 1 :]),
                    np.concatenate(support[:i] + support[i + 1 :]),
                    met[~own],
                )
                moves[i] += step * shift_towards(others, _Cloud(now[i], support[i], met[own]), config)
    return moves


def common_offset(x: Array, y: Array, random_state: int, config: MethodConfig = DEFAULT) -> Array:
    """One displacement of all rows of y that brings the mean of their anchors onto that of x's."""
    x_flat, y_flat = project(x, x, config=config), project(y, y, config=config)
    offset = np.zeros(y.shape[1])
    for _ in range(config.shift_rounds):
        support_x, support_y = row_confidence([x, y + offset], random_state=random_state, config=config)
        pairing = _supported_anchors(x_flat, support_x, y_flat + offset, support_y, config)
        if pairing.sum() > 0:
            mass_x, mass_y = masses(pairing)
            offset = mass_x @ x_flat - mass_y @ y_flat
    return offset


def _supported_anchors(
    x: Array, support_x: Array, y: Array, support_y: Array, config: MethodConfig
) -> sp.csr_matrix:
    """Mutual neighbours, weighted by the confidence of both rows."""
    power = config.shift_anchor_power
    weights = sp.diags_array(support_x**power), sp.diags_array(support_y**power)
    pairing = find_anchors(x, y, config)
    return sp.csr_matrix(weights[0] @ pairing @ weights[1])


@dataclass(frozen=True)
class _Cloud:
    """Rows of one dataset or of several, and what is known of each.

    Attributes
    ----------
    rows
        Joint coordinates.
    support
        Confidence of every row.
    met
        Share of the other side among the nearest rows of each.
    """

    rows: Array
    support: Array
    met: Array


def shift_towards(others: _Cloud, own: _Cloud, config: MethodConfig = DEFAULT) -> Array:
    r"""Displacement of a dataset's rows towards the others: their anchors' mean displacement, by confidence.

    Three things reduce it. Of its square, twice the share that is due to averaging over few anchors. Where
    the datasets meet already there is nothing to correct: of densities :math:`p` and :math:`q`, rows of the
    one have a share :math:`q / (p + q)` of rows of the other around them, and those of the other :math:`p /
    (p + q)`; where both are present these add up to 1 however their densities differ, and where they miss
    each other to less. And a dataset of fewer than 1000 rows is averaged over a fifth of them, which is
    wide: differences within it may be other classes, so the fewer rows there are the less is corrected.
    """
    y = own.rows
    pairing = _supported_anchors(others.rows, others.support, y, own.support, config)
    mass = np.asarray(pairing.sum(axis=0)).ravel()
    paired = np.flatnonzero(mass > 0)
    if not paired.size:
        return np.zeros_like(y)
    towards = (pairing.T @ others.rows)[paired] / mass[paired, None] - y[paired]
    wide = int(np.clip(len(y) // config.shift_share, config.shift_least_rows, config.shift_rows))
    k = min(len(paired), wide)
    distances, indices = cpu.nearest(y[paired], k, y, exact=False)
    weights = _gaussian(distances, np.median(distances, axis=1, keepdims=True)) * mass[paired][indices]
    weights /= weights.sum(axis=1, keepdims=True)
    smoother = sp.csr_matrix(
        (weights.ravel(), indices.ravel(), np.arange(0, weights.size + 1, k)), shape=(len(y), len(paired))
    )
    mean = smoother @ towards
    square = np.sum(mean**2, axis=1)
    variance = np.maximum(smoother @ np.sum(towards**2, axis=1) - square, 0)
    by_chance = config.shift_noise * variance * np.sum(weights**2, axis=1)
    kept = np.maximum(1 - np.divide(by_chance, square, out=np.ones_like(square), where=square > 0), 0)
    meeting = own.met[paired] + (pairing.T @ others.met)[paired] / mass[paired]
    apart = np.clip(config.apart * (1 - smoother @ meeting), 0, 1)
    return np.asarray((wide / config.shift_rows * apart * own.support * kept)[:, None] * mean)


def _gaussian(distances: Array, scale: Array) -> Array:
    """``exp(-(d/scale)²)``; where the scale is 0, rows that coincide count and others do not."""
    ratio = np.divide(distances, scale, out=np.where(distances > 0, np.inf, 0.0), where=scale > 0)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-(ratio**2)))
