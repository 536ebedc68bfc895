"""Local shifts: removal of differences between datasets that remain after the linear maps.

Rows of every dataset move towards their anchors among the rows of all others, in proportion to their
confidence. The others are represented by a sample of fixed size, so the cost is linear in the number of
datasets. What datasets differ in over shorter distances is then removed by comparing their means among near
rows (`local_centring`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

__all__ = [
    "Cloud",
    "LocalShift",
    "common_offset",
    "facing",
    "local_centring",
    "local_shifts",
    "shift_towards",
]


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


@dataclass(frozen=True)
class Cloud:
    """Rows of one dataset, or of the others, that face each other.

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
        Seed of the samples.
    config
        Configuration of the method.
    """
    flat = np.vstack(in_threads(lambda rows: project(rows, rows, config), z))
    ends = np.cumsum([len(rows) for rows in z])
    own = [slice(end - len(rows), end) for end, rows in zip(ends, z, strict=True)]
    batch = np.repeat(np.arange(len(z)), [len(rows) for rows in z])
    rng = np.random.RandomState(random_state)
    sides = {i: _sides(batch, i, rng, config) for i, step in enumerate(steps) if step}

    def towards_others(placed: Array, moves: Array) -> Array:
        now, out = flat + moves, np.zeros_like(placed)

        def move(i: int) -> None:
            out[own[i]] = shift_towards(*facing(placed, now, *sides[i], random_state, config), config)

        in_threads(move, list(sides))
        return out

    return _in_rounds(z, steps, config.shift_rounds, towards_others)


def _in_rounds(
    z: Sequence[Array], steps: Sequence[float], n_rounds: int, find: Callable[[Array, Array], Array]
) -> list[Array]:
    """Displacements after some rounds, in each of which every dataset takes its step of what is found.

    Parameters
    ----------
    z, steps
        Joint coordinates and step of every dataset.
    n_rounds
        Number of rounds.
    find
        What is found of all rows together, as they are now placed and by what they have moved.
    """
    sizes = [len(rows) for rows in z]
    start, step = np.vstack(list(z)), np.repeat(np.asarray(steps, dtype=np.float64), sizes)[:, None]
    moves = np.zeros_like(start)
    for _ in range(n_rounds):
        moves += step * find(start + moves, moves)
    return np.split(moves, np.cumsum(sizes)[:-1])


def local_centring(z: Sequence[Array], steps: Sequence[float], config: MethodConfig = DEFAULT) -> list[Array]:
    r"""Displacements that remove what datasets still differ in among near rows.

    Anchors average over many rows, so differences that change over shorter distances remain. Among the k
    nearest rows of a row, m are of its own dataset, with mean :math:`\bar x`, and all have the mean
    :math:`\bar z`. Means of few rows differ also by chance, by :math:`c = v (1/m - 1/k)` with v the variance
    of the neighbours within their datasets. The row moves by

    .. math:: -\left(1 - \frac{\sum c}{\sum |\bar x - \bar z|^2}\right)_+ (\bar x - \bar z),

    James and Stein's factor, with sums over all rows: one row tells little of whether the datasets differ
    where it is, but all rows together tell it nearly without error, and if the datasets are random parts of
    one, nothing moves. Nor does a row whose neighbours are all of one dataset.

    Parameters
    ----------
    z
        Joint coordinates of the rows of every dataset.
    steps
        Fraction of the displacement that every dataset takes in a round; 0 leaves its rows in place.
    config
        Configuration of the method.
    """
    batch = np.repeat(np.arange(len(z)), [len(rows) for rows in z])
    k = min(config.centring_neighbours, len(batch))

    def from_own_mean(placed: Array, _: Array) -> Array:
        near = nearest_rows(placed, k, placed, exact=False).indices
        apart, by_chance = _apart(placed, near, batch)
        found = float(np.sum(apart**2))
        beyond = max(0.0, 1 - float(by_chance.sum()) / found) if found > 0 else 0.0
        return -beyond * apart

    return _in_rounds(z, steps, config.centring_rounds, from_own_mean)


def _apart(rows: Array, near: Array, batch: Array) -> tuple[Array, Array]:
    """Mean of the near rows of a row's dataset less that of all, and the square of it that is chance."""
    n, k = near.shape
    own = batch[near] == batch[:, None]
    m = own.sum(axis=1)
    both = (m > 0) & (m < k)
    m = np.where(both, m, 1)
    edges = near.ravel(), np.arange(0, n * k + 1, k)
    of_all = sp.csr_matrix((np.full(n * k, 1 / k), *edges), shape=(n, n))
    of_own = sp.csr_matrix(((own / m[:, None]).ravel(), *edges), shape=(n, n))
    centred = rows - rows.mean(axis=0)
    mean = of_all @ centred
    apart = np.where(both[:, None], of_own @ centred - mean, 0)
    # The sum of squares about the mean, less what is between the dataset's own rows and the others.
    total = k * (of_all @ np.sum(centred**2, axis=1) - np.sum(mean**2, axis=1))
    between = np.sum(apart**2, axis=1) * m * k / np.maximum(k - m, 1)
    variance = np.maximum(total - between, 0) / max(k - 2, 1)
    return apart, both * variance * (1 / m - 1 / k)


def _sides(batch: Array, i: int, rng: np.random.RandomState, config: MethodConfig) -> tuple[Array, Array]:
    """Numbers of the rows of other datasets, or of a sample of them, and of those of dataset i."""
    mine, others = np.flatnonzero(batch == i), np.flatnonzero(batch != i)
    most = max(len(mine), config.reference_rows)
    return (np.sort(rng.choice(others, most, replace=False)) if len(others) > most else others), mine


def facing(
    placed: Array, flat: Array, others: Array, mine: Array, random_state: int, config: MethodConfig
) -> tuple[Cloud, Cloud]:
    """Rows `others` and rows `mine` of a matrix as clouds that face each other.

    Confidence and shares of neighbours are those of the rows as they are placed; the clouds hold the rows
    projected, `flat`.
    """
    support = row_confidence([placed[others], placed[mine]], random_state=random_state, config=config)
    together = np.concatenate([others, mine])
    second = np.arange(len(together)) >= len(others)
    k = min(config.confidence_neighbours + 1, len(together))
    near = nearest_rows(placed[together], k, placed[together], exact=False).indices[:, 1:]
    met = np.mean(second[near] != second[:, None], axis=1)
    return Cloud(flat[others], support[0], met[~second]), Cloud(flat[mine], support[1], met[second])


def common_offset(x: Array, y: Array, random_state: int, config: MethodConfig = DEFAULT) -> Array:
    """One displacement of all rows of y that makes the means of both datasets over their anchors equal."""
    x_flat, y_flat = project(x, x, config), project(y, y, config)
    offset = np.zeros(y.shape[1])
    for _ in range(config.shift_rounds):
        support = row_confidence([x, y + offset], random_state=random_state, config=config)
        pairing = _supported_anchors(x_flat, support[0], y_flat + offset, support[1], config)
        if pairing.sum() > 0:
            mass_x, mass_y = masses(pairing)
            offset = mass_x @ x_flat - mass_y @ y_flat
    return offset


def _supported_anchors(
    x: Array, support_x: Array, y: Array, support_y: Array, config: MethodConfig
) -> sp.csr_matrix:
    """Mutual neighbours, weighted by the confidence of both rows."""
    pairing = find_anchors(x, y, config)
    pairing.data *= np.repeat(support_x, np.diff(pairing.indptr)) * support_y[pairing.indices]
    return pairing


def shift_towards(others: Cloud, own: Cloud, config: MethodConfig = DEFAULT) -> Array:
    r"""Displacement of the rows of a dataset towards the others: a mean over anchors, by confidence.

    It is reduced in three ways. First, its sampling variance is subtracted from its square. Second, it is
    small where the datasets already meet: where they have densities :math:`p` and :math:`q`, rows of the
    first have a share :math:`q / (p + q)` of the second's rows among their neighbours, and rows of the second
    a share :math:`p / (p + q)` of the first's. The two add up to 1 whatever the densities, and to less where
    the datasets miss each other. Third, in a small dataset the mean is taken over a neighbourhood that may
    include several classes; the shift is reduced in proportion.
    """
    y = own.rows
    pairing = _supported_anchors(others.rows, others.support, y, own.support, config)
    mass = np.asarray(pairing.sum(axis=0)).ravel()
    paired = np.flatnonzero(mass > 0)
    if not paired.size:
        return np.zeros_like(y)
    towards = (pairing.T @ others.rows)[paired] / mass[paired, None] - y[paired]
    wide = int(np.clip(len(y) // config.shift_share, 1, config.shift_rows))
    k = min(len(paired), wide)
    near = nearest_rows(y[paired], k, y, exact=False)
    scale = np.median(near.distances, axis=1, keepdims=True)
    weights = gaussian_weights(near.distances, scale) * own.support[paired][near.indices]
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    smoother = sp.csr_matrix(
        (weights.ravel(), near.indices.ravel(), np.arange(0, weights.size + 1, k)),
        shape=(len(y), len(paired)),
    )
    mean = smoother @ towards
    square = np.sum(mean**2, axis=1)
    variance = np.maximum(smoother @ np.sum(towards**2, axis=1) - square, 0) * np.sum(weights**2, axis=1)
    kept = np.maximum(1 - np.divide(variance, square, out=np.ones_like(square), where=square > 0), 0)
    meeting = own.met[paired] + (pairing.T @ others.met)[paired] / mass[paired]
    apart = np.clip(config.apart * (1 - smoother @ meeting), 0, 1)
    return np.asarray((wide / config.shift_rows * apart * own.support * kept)[:, None] * mean)
