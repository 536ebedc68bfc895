"""The common space of any number of datasets, from alignments of pairs.

The pairs that agree best form a spanning tree, along which the coordinates of every dataset are mapped into
those of the root. Differences between datasets that remain are removed by local shifts
(`harmonicalign.method.shifts`). New rows of a dataset can be placed by its maps.
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
from harmonicalign.engines.rows import blend
from harmonicalign.evidence.correspondence import Correspondence
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.maps import (
    LinearMap,
    Side,
    directions,
    length_kept,
    ridge_regression,
    typical_length,
    weighted_axes,
)
from harmonicalign.method.problem import PairAlignment
from harmonicalign.method.shifts import LocalShift, common_offset, local_shifts

__all__ = ["JointSpace", "joint_space", "pooled_correspondence", "spanning_tree"]


@dataclass(frozen=True)
class JointSpace:
    """The common space: maps for the rows of every dataset.

    Attributes
    ----------
    parents
        The tree: for every dataset the index of its parent, −1 for the root.
    component_maps, signal_maps
        For every dataset, the maps of its principal components and of its signals, scaled to a typical length
        of 1 if length is kept (`harmonicalign.method.maps.length_kept`).
    balance
        How much the signals count beside the components: (φ ρ)^(2 + 2 κ⁴), with φ the share of the signals
        that corresponds, ρ the share of the components' variance explained by the signals, and κ that of the
        signals' variance explained by the components. Anchors are found with φ, because corresponding signals
        can be compared directly. For the final coordinates the components count for more, because they
        describe the whole row. Signals are still needed where they contain what the components lack, that is,
        where κ is well below 1; hence its power.
    shifts
        For every dataset, its local shift.
    bridges
        For every dataset, a map of its principal components that compensates for signals which do not
        correspond in it; None if not needed.
    config
        Configuration for placing rows.
    """

    parents: tuple[int, ...]
    component_maps: tuple[LinearMap, ...]
    signal_maps: tuple[LinearMap, ...]
    balance: float
    shifts: tuple[LocalShift, ...]
    bridges: tuple[LinearMap | None, ...]
    config: MethodConfig = DEFAULT

    def place(self, i: int, components: Array, signals: Any) -> Array:
        """Joint coordinates of rows of dataset i."""
        z = self.place_rigidly(i, components, signals)
        return self.shifts[i].apply(z, self.config) if self.shifts else z

    def place_on(self, device: Any, i: int, components: Array, signals: Any) -> Any:
        """The same on a torch device; returns a tensor."""
        from harmonicalign.engines.torch_joint import displaced

        z = self.place_rigidly(i, components, signals, device)
        if not self.shifts:
            return z
        shift = self.shifts[i]
        return displaced(z, shift.places, shift.displacement, self.config.shift_places)

    def joined_by(
        self,
        side: Side,
        parent: int,
        parent_side: Side,
        found: PairAlignment,
        placed: Array,
        random_state: int,
    ) -> JointSpace:
        """The space with one more dataset, aligned with `parent` and shifted towards existing rows `placed`.

        Signals keep the weights of the existing datasets. Where the new dataset gives a signal less weight,
        the missing part is predicted from its components by a regression over the anchors.
        """
        into, signals, r = self.component_maps[parent], self.signal_maps[parent], found
        trust = r.correspondence.weights
        matrix = trust[:, None] * signals.matrix
        own = LinearMap(matrix, r.centres[0] @ signals.matrix + signals.shift - r.centres[1] @ matrix)
        bridge = None
        if trust.min() < 1:
            wanted = signals.apply(parent_side.signals)
            bridge = _bridge(side.components, own.apply(side.signals), wanted, r.pairing, self.config)
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
        # The maps depend on the parent only; an offset towards the rows of all large datasets corrects them.
        offset = common_offset(placed, z, random_state, self.config)
        move = local_shifts([placed, z + offset], [0, 1], random_state, self.config)[1]
        return replace(grown, shifts=(*self.shifts, LocalShift(z, offset + move)))

    def place_rigidly(self, i: int, components: Array, signals: Any, device: Any = None) -> Any:
        """Joint coordinates of rows of dataset i without local shifts; a tensor if a device is given."""
        q = self.component_maps[i].apply(components, device)
        s, bridge = self.signal_maps[i].apply(signals, device), self.bridges[i]
        if bridge is not None:
            s = s + bridge.apply(components, device)
        return blend(directions(q, self.config), directions(s, self.config), self.balance)


def pooled_correspondence(pairs: Sequence[PairAlignment]) -> Correspondence:
    """Correspondence of the features, pooled over several pairs."""
    found = [pair.correspondence for pair in pairs]
    return replace(
        found[0],
        scores=np.mean([f.scores for f in found], axis=0),
        weights=np.mean([f.weights for f in found], axis=0),
        energy=np.mean([f.energy for f in found], axis=0),
        presence=np.mean([f.presence for f in found], axis=0),
        # The smallest of n p-values, corrected for the selection.
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
        Tie-breaker between datasets that are equally good roots.

    Returns
    -------
    parents, order
        Parent of every dataset (−1 for the root), and an order in which parents come first. The root is the
        dataset with the highest total agreement.
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
    pairs: Mapping[int, PairAlignment],
    random_state: int = 0,
    *,
    own_columns: bool = True,
    config: MethodConfig = DEFAULT,
) -> JointSpace:
    """The common space of all datasets.

    Parameters
    ----------
    sides
        All datasets.
    parents, order
        The tree, from `spanning_tree`.
    pairs
        For every dataset but the root, its alignment with its parent as the first side.
    random_state
        Seed of joint principal components and samples.
    own_columns
        Whether the signals are the columns from which the components were computed.
    config
        Configuration of the method.
    """
    root = order[0]
    width = sides[root].components.shape[1]
    to_root = {root: LinearMap(np.eye(width), np.zeros(width))}
    offsets = {root: np.zeros(sides[root].signals.shape[1])}
    origins, signal_origins = [], []
    for i in order[1:]:
        r, parent = pairs[i], to_root[parents[i]]
        anchor_mean = -r.maps[0].shift
        to_root[i] = LinearMap(
            r.maps[1].matrix @ parent.matrix, (r.maps[1].shift + anchor_mean) @ parent.matrix + parent.shift
        )
        offsets[i] = offsets[parents[i]] + r.centres[0] - r.centres[1]
        origins.append(parent.apply(anchor_mean[None])[0])
        signal_origins.append(r.centres[0] + offsets[parents[i]])
    # The origin, from which directions are measured, is the mean over the anchors.
    origin, signal_origin = np.mean(origins, axis=0), np.mean(signal_origins, axis=0)
    n = len(sides)
    found = pooled_correspondence(list(pairs.values()))
    centres = [signal_origin - offsets[i] for i in range(n)]
    worth = found.weights * found.energy
    into_signals = weighted_axes(sides, centres, found.weights, worth, random_state, config)
    into_root = [LinearMap(to_root[i].matrix, to_root[i].shift - origin) for i in range(n)]
    space = JointSpace(
        parents=tuple(parents),
        component_maps=_to_typical_length(into_root, [side.components for side in sides], config),
        signal_maps=_to_typical_length(into_signals, [side.signals for side in sides], config),
        balance=_balance(sides, into_signals, found.share, own_columns, config),
        shifts=(),
        bridges=(None,) * n,
        config=config.for_placing(),
    )
    z = [space.place_rigidly(i, s.components, s.signals) for i, s in enumerate(sides)]
    # All datasets move, large ones less, because none is treated as the reference.
    total = sum(map(len, z))
    moves = local_shifts(z, [1 - len(rows) / total for rows in z], random_state, config)
    return replace(space, shifts=tuple(map(LocalShift, z, moves)))


def _to_typical_length(
    maps: Sequence[LinearMap], rows: Sequence[Any], config: MethodConfig
) -> tuple[LinearMap, ...]:
    """The maps, divided by the typical length of the mapped rows if any length is kept."""
    if length_kept(maps[0].matrix.shape[1], config) == 0:
        return tuple(maps)
    scale = typical_length([m.apply(r) for m, r in zip(maps, rows, strict=True)], config)
    return tuple(LinearMap(m.matrix / scale, m.shift / scale) for m in maps)


def _balance(
    sides: Sequence[Side],
    into_signals: Sequence[LinearMap],
    share: float,
    own_columns: bool,
    config: MethodConfig,
) -> float:
    """Balance of signals and components; see `JointSpace`."""
    known = knowing = 1.0
    if not own_columns:
        pairs = [
            (side.components, m.apply(side.signals)) for side, m in zip(sides, into_signals, strict=True)
        ]
        known = float(np.mean([_explained(p, s) for p, s in pairs]))
        knowing = float(np.mean([_explained(s, p) for p, s in pairs]))
    power = config.balance_power + config.balance_more * knowing**config.balance_known
    return float((share * known) ** power)


def _explained(wanted: Array, given: Array) -> float:
    """Adjusted share of the variance of `wanted` that `given` explains."""
    wanted, given = wanted - wanted.mean(axis=0), given - given.mean(axis=0)
    basis = scipy.linalg.orth(given)
    total, left = np.sum(wanted**2), len(wanted) - 1 - basis.shape[1]
    if total == 0 or left <= 0:
        return 1.0
    unexplained = 1 - np.sum((basis.T @ wanted) ** 2) / total
    return float(np.clip(1 - unexplained * (len(wanted) - 1) / left, 0, 1))


def _bridge(components: Array, mapped: Array, wanted: Array, pairing: Any, config: MethodConfig) -> LinearMap:
    """Ridge regression of ``wanted − mapped`` on the components, over the anchors."""
    mass = np.asarray(pairing.sum(axis=0)).ravel()
    paired = np.flatnonzero(mass > 0)
    x = components[paired]
    y = (pairing.T @ wanted)[paired] / mass[paired, None] - mapped[paired]
    matrix = ridge_regression(x, y, config.bridge_ridge, mass[paired])
    weights = mass[paired] / mass[paired].sum()
    return LinearMap(matrix, weights @ (y - x @ matrix))
