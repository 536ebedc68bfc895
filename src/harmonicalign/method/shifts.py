"""Local shifts: removal of differences between datasets that remain after the linear maps.

Rows of all datasets move towards their anchors, in proportion to their confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.rows import displace, gaussian_weights
from harmonicalign.engines.threads import in_threads, row_slices
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.method.anchors import find_anchors, masses
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.tangents import project

__all__ = ["LocalShift", "common_offset", "local_shifts", "shift_towards"]


@dataclass(frozen=True)
class LocalShift:
    """A smooth displacement, given at some points.

    Attributes
    ----------
    places
        Joint coordinates of these points, (m, d).
    displacement
        Displacement at these points, (m, d).
    """

    places: Array
    displacement: Array

    def apply(self, z: Array, config: MethodConfig = DEFAULT) -> Array:
        """Displaced rows: each moves by the weighted mean displacement of the points nearest to it."""
        near = nearest_rows(self.places, min(config.shift_places, len(self.places)), z, exact=False)
        moved = z.copy()
        in_threads(
            lambda rows: displace(moved[rows], self.displacement, near[rows]),
            row_slices(len(z), 320 * z.shape[1]),
        )
        return moved


def local_shifts(
    z: Sequence[Array], steps: Sequence[float], random_state: int, config: MethodConfig = DEFAULT
) -> list[Array]:
    """Displacements of the rows of all datasets towards each other.

    Anchors are found between rows projected onto the tangent planes of their own dataset, to reduce noise.
    Mutual neighbours lie where two point clouds face each other, so one round falls short.

    Parameters
    ----------
    z
        Joint coordinates of the rows of every dataset.
    steps
        Fraction of the shift that every dataset takes in a round; 0 leaves its rows in place.
    random_state
        Seed of the samples for confidence.
    config
        Configuration of the method.
    """
    flat = [project(rows, rows, config=config) for rows in z]
    moves = [np.zeros_like(rows) for rows in z]
    batch = np.repeat(np.arange(len(z)), [len(rows) for rows in z])
    for _ in range(config.shift_rounds):
        placed = [a + b for a, b in zip(z, moves, strict=True)]
        support = row_confidence(placed, random_state=random_state, config=config)
        together = np.vstack(placed)
        k = min(config.meeting_rows + 1, len(together))
        near = nearest_rows(together, k, together, exact=False).indices[:, 1:]
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
    """One displacement of all rows of y that makes the means of both datasets over their anchors equal."""
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
    """Rows of one dataset or of several, with confidence and share of neighbours from the other side.

    Attributes
    ----------
    rows
        Joint coordinates.
    support
        Confidence of every row.
    met
        For every row, the share of the other side among its nearest rows.
    """

    rows: Array
    support: Array
    met: Array


def shift_towards(others: _Cloud, own: _Cloud, config: MethodConfig = DEFAULT) -> Array:
    r"""Displacement of the rows of a dataset towards the others: a mean over anchors, by confidence.

    It is reduced in three ways. First, twice its sampling variance is subtracted from its square. Second, it
    is small where the datasets already meet: where they have densities :math:`p` and :math:`q`, rows of the
    first have a share :math:`q / (p + q)` of the second's rows among their neighbours, and rows of the second
    a share :math:`p / (p + q)` of the first's. The two add up to 1 whatever the densities, and to less where
    the datasets miss each other. Third, with fewer than 1000 rows the mean is taken over a fifth of them, a
    neighbourhood that may include several classes; the shift is reduced in proportion.
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
    near = nearest_rows(y[paired], k, y, exact=False)
    scale = np.median(near.distances, axis=1, keepdims=True)
    weights = gaussian_weights(near.distances, scale) * mass[paired][near.indices]
    weights /= weights.sum(axis=1, keepdims=True)
    smoother = sp.csr_matrix(
        (weights.ravel(), near.indices.ravel(), np.arange(0, weights.size + 1, k)),
        shape=(len(y), len(paired)),
    )
    mean = smoother @ towards
    square = np.sum(mean**2, axis=1)
    variance = np.maximum(smoother @ np.sum(towards**2, axis=1) - square, 0)
    by_chance = config.shift_noise * variance * np.sum(weights**2, axis=1)
    kept = np.maximum(1 - np.divide(by_chance, square, out=np.ones_like(square), where=square > 0), 0)
    meeting = own.met[paired] + (pairing.T @ others.met)[paired] / mass[paired]
    apart = np.clip(config.apart * (1 - smoother @ meeting), 0, 1)
    return np.asarray((wide / config.shift_rows * apart * own.support * kept)[:, None] * mean)
