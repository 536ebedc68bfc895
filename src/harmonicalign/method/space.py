"""Pairwise refinements to one joint space for any number of datasets, which any row can enter.

The pairs that agree best form a tree; along it every dataset's coordinates are carried into those of
the root. What is left of the differences between datasets is taken up locally: rows of all of them move
towards their anchors, as far as other datasets support them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from harmonicalign._typing import Array
from harmonicalign.engines import cpu
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.correspondence import Correspondence
from harmonicalign.method.anchors import masses, mutual_neighbours
from harmonicalign.method.maps import (
    LONGEST,
    LinearMap,
    Side,
    blend,
    directions,
    length_kept,
    ridge_regression,
    signal_maps,
    typical_length,
)
from harmonicalign.method.planes import on_planes
from harmonicalign.method.refine import Refinement

__all__ = ["JointSpace", "LocalShift", "joint_space", "pooled_correspondence", "spanning_tree"]


_SUPPORT_POWER = 4
"""Anchors count by this power of the confidence of their rows, so that doubtful ones hardly do."""

_ROUNDS = 3
"""Rounds of local shifts. More of them mix datasets further, and cost accuracy."""

_NEAR = 200
"""Rows over which shifts are averaged: wide enough that single wrong anchors do not matter."""

_MEET = 30
"""Nearest rows that tell whether datasets meet around a row."""

_APART = 4
"""Rows move all of the way where datasets miss each other by a quarter, and less where they meet."""

_CHANCE = 2
"""So many times of what chance explains of a shift's square is taken off, to be on the safe side."""


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

    def apply(self, z: Array) -> Array:
        """Displaced rows."""
        distances, indices = cpu.nearest(self.places, min(5, len(self.places)), z, exact=False)
        weights = _gaussian(distances, distances[:, -1:])
        weights /= weights.sum(axis=1, keepdims=True)
        moved = z.copy()

        def move(rows: slice) -> None:
            for j in range(indices.shape[1]):
                moved[rows] += weights[rows, j, None] * self.displacement[indices[rows, j]]

        cpu.in_threads(move, cpu.row_slices(len(z), 64 * z.shape[1]))
        return np.asarray(moved)


@dataclass(frozen=True)
class JointSpace:
    """Where rows of every dataset go.

    Attributes
    ----------
    parents
        The tree: for every dataset the one it was aligned with, −1 for the root.
    component_maps, signal_maps
        For every dataset, the maps of its principal components and of its signals, to a typical length of
        1 where length is kept (`harmonicalign.method.maps.length_kept`).
    balance
        How much the signals count beside the components: (φ ρ)^(2 + 2 κ⁴), with φ the share of the signals
        that corresponds, ρ that of the components which the signals know, and κ that of the signals
        which the components know. Anchors are found with φ, because signals that are compared directly
        are sure; where rows end up counts what is complete, and signals that correspond or know a row
        only in part are less so. They are needed still where they know what the components do not; that
        can be told where κ is well below 1, hence its power.
    shifts
        For every dataset, what remains to be moved locally.
    bridges
        For every dataset, a map of its principal components that makes up for signals which do not
        correspond in it; None where none is needed.
    """

    parents: tuple[int, ...]
    component_maps: tuple[LinearMap, ...]
    signal_maps: tuple[LinearMap, ...]
    balance: float
    shifts: tuple[LocalShift, ...]
    bridges: tuple[LinearMap | None, ...]

    def place(self, i: int, components: Array, signals: Any) -> Array:
        """Joint coordinates of rows of dataset i."""
        z = self.place_rigidly(i, components, signals)
        return self.shifts[i].apply(z) if self.shifts else z

    def place_on(self, device: Any, i: int, components: Array, signals: Any) -> Any:
        """The same on a device of torch, as a tensor there."""
        from harmonicalign.engines import torch_joint as engine

        mapped = self.component_maps[i].apply_on(device, components)
        s = self.signal_maps[i].apply_on(device, signals)
        bridge = self.bridges[i]
        if bridge is not None:
            s += bridge.apply_on(device, components)
        places, moves = (self.shifts[i].places, self.shifts[i].displacement) if self.shifts else (None, None)
        kept = length_kept(mapped.shape[1]), length_kept(s.shape[1])
        return engine.placed_rows(mapped, s, kept, LONGEST, self.balance, places, moves)

    def joined_by(
        self,
        side: Side,
        parent: int,
        parent_side: Side,
        refinement: Refinement,
        placed: Array,
        random_state: int,
    ) -> JointSpace:
        """The same space with one dataset more, aligned with `parent`; `placed` are rows it may join.

        The weights of the signals are those of the datasets that were there. Where the new dataset's
        own correspondence says less of a signal, what is missing is predicted from its components, by
        a regression over its anchors.
        """
        into, signals, r = self.component_maps[parent], self.signal_maps[parent], refinement
        trust = r.correspondence.weights
        matrix = trust[:, None] * signals.matrix
        own = LinearMap(matrix, r.centres[0] @ signals.matrix + signals.shift - r.centres[1] @ matrix)
        bridge = None
        if trust.min() < 1:
            wanted = signals.apply(parent_side.signals)
            bridge = _bridge(side.components, own.apply(side.signals), wanted, r.pairing)
        to_root = LinearMap(
            r.maps[1].matrix @ into.matrix, (r.maps[1].shift - r.maps[0].shift) @ into.matrix + into.shift
        )
        grown = replace(
            self,
            parents=(*self.parents, parent),
            component_maps=(*self.component_maps, to_root),
            signal_maps=(*self.signal_maps, own),
            bridges=(*self.bridges, bridge),
        )
        z = grown.place_rigidly(len(self.parents), side.components, side.signals)
        # The parent alone said where it goes, and all rows together may say a little else.
        offset = _offset(placed, z, random_state)
        move = _local_moves([placed, z + offset], [0, 1], random_state)[1]
        return replace(grown, shifts=(*self.shifts, LocalShift(z, offset + move)))

    def place_rigidly(self, i: int, components: Array, signals: Any) -> Array:
        """The same before anything is moved locally."""
        q = directions(self.component_maps[i].apply(components))
        mapped = self.signal_maps[i].apply(signals)
        bridge = self.bridges[i]
        s = directions(mapped if bridge is None else mapped + bridge.apply(components))
        return blend(q, s, self.balance)


def pooled_correspondence(refinements: Sequence[Refinement]) -> Correspondence:
    """What the features say over several pairs."""
    found = [r.correspondence for r in refinements]
    return replace(
        found[0],
        scores=np.mean([f.scores for f in found], axis=0),
        weights=np.mean([f.weights for f in found], axis=0),
        energy=np.mean([f.energy for f in found], axis=0),
        presence=np.mean([f.presence for f in found], axis=0),
        # The least of n p-values, corrected for having been picked.
        p_values=np.minimum(1, len(found) * np.min([f.p_values for f in found], axis=0)),
        share=float(np.mean([f.share for f in found])),
    )


def spanning_tree(
    n: int, scores: Mapping[tuple[int, int], float], sizes: Sequence[Any]
) -> tuple[list[int], list[int]]:
    """The tree over n datasets whose pairs agree best.

    Parameters
    ----------
    n
        Number of datasets.
    scores
        Agreement of each pair that was aligned, in [0, 1].
    sizes
        What decides between datasets that are equally good roots.

    Returns
    -------
    parents, order
        Parent of every dataset (−1 for the root), and an order in which parents come first. The
        root is the dataset whose pairs agree best in all.
    """
    distance = sp.lil_matrix((n, n))
    total = np.zeros(n)
    for (i, j), score in scores.items():
        distance[i, j] = 2.0 - score
        total[[i, j]] += score
    root = max(range(n), key=lambda i: (len(scores) > 1 and total[i], sizes[i]))
    tree = minimum_spanning_tree(distance.tocsr())
    order, parents = breadth_first_order(tree, root, directed=False)
    return [-1 if i == root else int(parents[i]) for i in range(n)], [int(i) for i in order]


def joint_space(
    sides: Sequence[Side],
    parents: Sequence[int],
    order: Sequence[int],
    refinements: Mapping[int, Refinement],
    random_state: int = 0,
    *,
    own_columns: bool = True,
) -> JointSpace:
    """One space for all datasets.

    Parameters
    ----------
    sides
        All datasets.
    parents, order
        The tree, from `spanning_tree`.
    refinements
        For every dataset but the root, its refinement with its parent as the first side.
    random_state
        Seed of joint principal components and samples.
    own_columns
        Whether the signals are the columns that the components were made of, and so know all of them.
    """
    root = order[0]
    width = sides[root].components.shape[1]
    to_root = {root: LinearMap(np.eye(width), np.zeros(width))}
    offsets = {root: np.zeros(sides[root].signals.shape[1])}
    origins, signal_origins = [], []
    for i in order[1:]:
        r, parent = refinements[i], to_root[parents[i]]
        anchor_mean = -r.maps[0].shift
        to_root[i] = LinearMap(
            r.maps[1].matrix @ parent.matrix, (r.maps[1].shift + anchor_mean) @ parent.matrix + parent.shift
        )
        offsets[i] = offsets[parents[i]] + r.centres[0] - r.centres[1]
        origins.append(parent.apply(anchor_mean[None])[0])
        signal_origins.append(r.centres[0] + offsets[parents[i]])
    # Directions are taken from the middle of what corresponds.
    origin, signal_origin = np.mean(origins, axis=0), np.mean(signal_origins, axis=0)
    n = len(sides)
    found = pooled_correspondence(list(refinements.values()))
    into_signals = signal_maps(sides, [signal_origin - offsets[i] for i in range(n)], found, random_state)
    into_root = [LinearMap(to_root[i].matrix, to_root[i].shift - origin) for i in range(n)]
    space = JointSpace(
        parents=tuple(parents),
        component_maps=_to_typical_length(into_root, [side.components for side in sides]),
        signal_maps=_to_typical_length(into_signals, [side.signals for side in sides]),
        balance=_balance(sides, into_signals, found.share, own_columns),
        shifts=(),
        bridges=(None,) * n,
    )
    z = [space.place_rigidly(i, s.components, s.signals) for i, s in enumerate(sides)]
    # They meet in the middle of all rows: no dataset is the one that is right, and large ones move less.
    total = sum(map(len, z))
    moves = _local_moves(z, [1 - len(rows) / total for rows in z], random_state)
    return replace(space, shifts=tuple(map(LocalShift, z, moves)))


def _to_typical_length(maps: Sequence[LinearMap], rows: Sequence[Any]) -> tuple[LinearMap, ...]:
    """The maps, divided by the typical length of what they bring the rows to if any length is kept."""
    if length_kept(maps[0].matrix.shape[1]) == 0:
        return tuple(maps)
    scale = typical_length([m.apply(r) for m, r in zip(maps, rows, strict=True)])
    return tuple(LinearMap(m.matrix / scale, m.shift / scale) for m in maps)


def _balance(
    sides: Sequence[Side], into_signals: Sequence[LinearMap], share: float, own_columns: bool
) -> float:
    """How much signals count beside components; see `JointSpace`."""
    known = knowing = 1.0
    if not own_columns:
        pairs = [
            (side.components, m.apply(side.signals)) for side, m in zip(sides, into_signals, strict=True)
        ]
        known = float(np.mean([_explained(p, s) for p, s in pairs]))
        knowing = float(np.mean([_explained(s, p) for p, s in pairs]))
    return float((share * known) ** (2 + 2 * knowing**4))


def _explained(wanted: Array, given: Array) -> float:
    """Share of the variance of `wanted` that `given` explains, less what as much noise would explain."""
    wanted, given = wanted - wanted.mean(axis=0), given - given.mean(axis=0)
    basis = scipy.linalg.orth(given)
    total, left = np.sum(wanted**2), len(wanted) - 1 - basis.shape[1]
    if total == 0 or left <= 0:
        return 1.0
    unexplained = 1 - np.sum((basis.T @ wanted) ** 2) / total
    return float(np.clip(1 - unexplained * (len(wanted) - 1) / left, 0, 1))


def _local_moves(z: Sequence[Array], steps: Sequence[float], random_state: int) -> list[Array]:
    """Displacements of the datasets' rows towards each other.

    Anchors are found between rows laid onto their own dataset's planes, where noise does not hide them.
    Mutual neighbours lie where two clouds face each other, so one round falls short.

    Parameters
    ----------
    z
        Joint coordinates of every dataset's rows.
    steps
        How much of the way to the others every dataset goes in a round; with 0 its rows stay.
    random_state
        Seed of the sample that confidence is measured against.
    """
    flat = [on_planes(rows, rows) for rows in z]
    moves = [np.zeros_like(rows) for rows in z]
    batch = np.repeat(np.arange(len(z)), [len(rows) for rows in z])
    for _ in range(_ROUNDS):
        placed = [a + b for a, b in zip(z, moves, strict=True)]
        support = row_confidence(placed, random_state=random_state)
        near = _nearest_others(np.vstack(placed))
        now = [a + b for a, b in zip(flat, moves, strict=True)]
        for i, step in enumerate(steps):
            if step:
                own = batch == i
                met = np.mean(own[near] != own[:, None], axis=1)
                others = np.vstack(now[:i] + now[i + 1 :])
                their_support = np.concatenate(support[:i] + support[i + 1 :])
                moves[i] += step * _towards_anchors(
                    others, their_support, met[~own], now[i], support[i], met[own]
                )
    return moves


def _nearest_others(z: Array) -> Array:
    """Numbers of every row's nearest other rows."""
    return cpu.nearest(z, min(_MEET + 1, len(z)), z, exact=False)[1][:, 1:]


def _offset(x: Array, y: Array, random_state: int) -> Array:
    """One displacement of all rows of y that brings the middle of their anchors onto that of x's."""
    x_flat, y_flat = on_planes(x, x), on_planes(y, y)
    offset = np.zeros(y.shape[1])
    for _ in range(_ROUNDS):
        support_x, support_y = row_confidence([x, y + offset], random_state=random_state)
        pairing = _supported_anchors(x_flat, support_x, y_flat + offset, support_y)
        if pairing.sum() > 0:
            mass_x, mass_y = masses(pairing)
            offset = mass_x @ x_flat - mass_y @ y_flat
    return offset


def _supported_anchors(x: Array, support_x: Array, y: Array, support_y: Array) -> sp.csr_matrix:
    """Mutual neighbours, which count as much as both rows are supported."""
    weights = sp.diags_array(support_x**_SUPPORT_POWER), sp.diags_array(support_y**_SUPPORT_POWER)
    return sp.csr_matrix(weights[0] @ mutual_neighbours(x, y) @ weights[1])


def _towards_anchors(
    x: Array, support_x: Array, met_x: Array, y: Array, support_y: Array, met_y: Array
) -> Array:
    r"""Displacement of the rows of y towards x: their anchors' mean displacement, by support.

    Three things take from it. Of its square, twice the share that is due to averaging over few anchors.
    Where the datasets meet already there is nothing to correct: of densities :math:`p` and :math:`q`, rows
    of the one have a share :math:`q / (p + q)` of rows of the other around them, and those of the other
    :math:`p / (p + q)`; where both are there these add up to 1 however their densities differ, and where
    they miss each other to less. And of fewer than 1000 rows a fifth is averaged over, which is wide: what
    differs within it may be other kinds of rows, and the fewer they are the less is corrected.

    Parameters
    ----------
    x, y
        Rows of the other datasets, and those to move.
    support_x, support_y
        Their support, as `row_confidence` tells.
    met_x, met_y
        Share of the other side among the nearest rows of each.
    """
    pairing = _supported_anchors(x, support_x, y, support_y)
    mass = np.asarray(pairing.sum(axis=0)).ravel()
    paired = np.flatnonzero(mass > 0)
    if not paired.size:
        return np.zeros_like(y)
    towards = (pairing.T @ x)[paired] / mass[paired, None] - y[paired]
    wide = int(np.clip(len(y) // 5, 15, _NEAR))
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
    by_chance = _CHANCE * variance * np.sum(weights**2, axis=1)
    kept = np.maximum(1 - np.divide(by_chance, square, out=np.ones_like(square), where=square > 0), 0)
    meeting = met_y[paired] + (pairing.T @ met_x)[paired] / mass[paired]
    apart = np.clip(_APART * (1 - smoother @ meeting), 0, 1)
    return np.asarray((wide / _NEAR * apart * support_y * kept)[:, None] * mean)


def _bridge(components: Array, mapped: Array, wanted: Array, pairing: Any) -> LinearMap:
    """Ridge regression of what `mapped` lacks on the components, over the anchors."""
    mass = np.asarray(pairing.sum(axis=0)).ravel()
    paired = np.flatnonzero(mass > 0)
    x = components[paired]
    y = (pairing.T @ wanted)[paired] / mass[paired, None] - mapped[paired]
    matrix = ridge_regression(x, y, 0.01, mass[paired])
    weights = mass[paired] / mass[paired].sum()
    return LinearMap(matrix, weights @ (y - x @ matrix))


def _gaussian(distances: Array, scale: Array) -> Array:
    """``exp(-(d/scale)²)``; where the scale is 0, rows that coincide count and others do not."""
    ratio = np.divide(distances, scale, out=np.where(distances > 0, np.inf, 0.0), where=scale > 0)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-(ratio**2)))
