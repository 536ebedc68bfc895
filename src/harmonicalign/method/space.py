r"""The common space of any number of datasets, from alignments of pairs.

Every dataset is aligned with a parent, in most cases the largest dataset, and mapped along this tree into
the principal components P of the root. Mapped components Q and weighted signals S of a row (or
its reading, `harmonicalign.method.modality`), with softened lengths, are put side by side,

.. math:: U = [(1 - b) Q, \; b S],

and mapped by one matrix to the common space. Each direction of U is scaled by a power of its reliability
``ρ = 1 − r/2``, with r the variance between near rows of a dataset relative to that of all its rows:
directions in which neighbours differ as much as any two rows are noise. Differences between datasets that
remain are removed by local shifts (`harmonicalign.method.shifts`). New rows are placed by the same maps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from harmonicalign._typing import Array
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.rows import blend, softened
from harmonicalign.engines.threads import in_threads
from harmonicalign.evidence.correspondence import Correspondence
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.maps import LinearMap, Side, ridge_regression, turn, typical_length, weighted_axes
from harmonicalign.method.modality import reading_maps
from harmonicalign.method.problem import PairAlignment
from harmonicalign.method.shifts import LocalShift, common_offset, local_centring, local_shifts

__all__ = ["JointSpace", "joint_space", "pooled_correspondence", "reliable_axes"]

_Units = tuple[list[Array], list[Array]]
"""For every dataset, the centre of its signals, and the factors that bring them to the root's units."""


@dataclass(frozen=True)
class JointSpace:
    """The common space: maps for the rows of every dataset.

    Attributes
    ----------
    parents
        The tree: for every dataset the index of its parent, −1 for the root.
    component_maps, signal_maps
        For every dataset, the maps of its principal components and of its signals.
    lengths
        Typical lengths of mapped components and of mapped signals.
    balance
        How much the signals count beside the components: φ^p, with φ the share of the signals that
        corresponds. Anchors are found with φ, because corresponding signals can be compared directly. For the
        final coordinates the components count for more, because they describe the whole row. Where the
        signals are not the own columns, their place is taken by readings (`harmonicalign.method.modality`),
        and both count the same.
    turns
        For every dataset a turn of its rows towards its parent (`harmonicalign.method.choose`), or None.
    axes
        From components and signals side by side to the common space.
    shifts
        For every dataset, its local shift.
    bridges
        For every dataset, a map of its principal components that is added to its signals: the part of a
        reading that they predict, or of an added dataset what its signals lack; None if not needed.
    config
        Configuration for placing rows.
    """

    parents: tuple[int, ...]
    component_maps: tuple[LinearMap, ...]
    signal_maps: tuple[LinearMap, ...]
    lengths: tuple[float, float]
    balance: float
    turns: tuple[LinearMap | None, ...]
    axes: LinearMap | None
    shifts: tuple[LocalShift, ...]
    bridges: tuple[LinearMap | None, ...]
    config: MethodConfig = DEFAULT

    def place(self, i: int, components: Array, signals: Any) -> Array:
        """Joint coordinates of rows of dataset i."""
        z = self.place_rigidly(i, components, signals)
        return self.shifts[i].apply(z, self.config) if self.shifts else z

    def place_on(self, device: Any, i: int, components: Array, signals: Any) -> Any:
        """The same on a torch device; returns a tensor."""
        from harmonicalign.engines.torch_joint import displaced, to_device

        rows: Any = components
        if signals is components:  # rows that are their own signals go there once
            rows = signals = to_device(components, device)
        z = self.place_rigidly(i, rows, signals, device)
        if not self.shifts:
            return z
        shift = self.shifts[i]
        return displaced(z, shift.places, shift.displacement, self.config.shift_places)

    def place_rigidly(self, i: int, components: Array, signals: Any, device: Any = None) -> Any:
        """Joint coordinates of rows of dataset i without local shifts; a tensor if a device is given."""
        u = self._side_by_side(i, components, signals, device)
        turned = self.turns[i]
        if turned is not None:
            u = turned.apply(u, device)
        return u if self.axes is None else self.axes.apply(u, device)

    def _side_by_side(self, i: int, components: Array, signals: Any, device: Any = None) -> Any:
        """Components and signals of rows of dataset i, with softened lengths."""
        s = _with_bridge(self.signal_maps[i].apply(signals, device), self.bridges[i], components, device)
        relative = self.config.soft_length
        q = self.component_maps[i].apply(components, device)
        of_q, of_s = self.lengths
        return blend(softened(q, of_q, relative), softened(s, of_s, relative), self.balance)

    def of_units(self, factors: Sequence[Array]) -> JointSpace:
        """The space for rows whose signals are not multiplied by these factors yet."""
        maps = [
            LinearMap(f[:, None] * m.matrix, m.shift) for f, m in zip(factors, self.signal_maps, strict=True)
        ]
        return replace(self, signal_maps=tuple(maps))

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
        number, signals = len(self.parents), self.signal_maps[parent]
        weights = found.correspondence.weights
        factors = 1.0 if found.factors is None else found.factors
        matrix = (weights * factors)[:, None] * signals.matrix
        own = LinearMap(matrix, found.centres[0] @ signals.matrix + signals.shift - found.centres[1] @ matrix)
        bridge = None
        if weights.min() < 1 or self.bridges[parent] is not None:
            wanted = signals.apply(parent_side.signals)
            wanted = _with_bridge(wanted, self.bridges[parent], parent_side.components)
            bridge = _bridge(side.components, own.apply(side.signals), wanted, found.pairing, self.config)
        grown = replace(
            self,
            parents=(*self.parents, parent),
            component_maps=(*self.component_maps, _through_parent(found, self.component_maps[parent])),
            signal_maps=(*self.signal_maps, own),
            bridges=(*self.bridges, bridge),
            turns=(*self.turns, None),
        )
        if found.turned:
            near = grown._turned(parent, parent_side)
            turned = turn(near, grown._side_by_side(number, side.components, side.signals), self.config)
            grown = replace(grown, turns=(*self.turns, turned))
        z = grown.place_rigidly(number, side.components, side.signals)
        # The maps depend on the parent only; an offset towards the rows of all large datasets corrects them.
        offset = common_offset(placed, z, random_state, self.config)
        move = local_shifts([placed, z + offset], [0, 1], random_state, self.config)[1]
        move += local_centring([placed, z + offset + move], [0, 1], self.config)[1]
        return replace(grown, shifts=(*self.shifts, LocalShift(z, offset + move)))

    def _turned(self, i: int, side: Side) -> Array:
        """Rows of dataset i side by side, turned, before the common axes."""
        u = self._side_by_side(i, side.components, side.signals)
        turned = self.turns[i]
        return np.asarray(u if turned is None else turned.apply(u))


def pooled_correspondence(pairs: Sequence[PairAlignment], sizes: Sequence[int]) -> Correspondence:
    """Correspondence of the features over several pairs, weighted by the given numbers of rows."""
    found = [pair.correspondence for pair in pairs]
    share = np.asarray(sizes, dtype=np.float64) / sum(sizes)

    def mean(name: str) -> Array:
        return np.asarray(sum(w * getattr(f, name) for w, f in zip(share, found, strict=True)))

    return replace(
        found[0],
        scores=mean("scores"),
        weights=mean("weights"),
        energy=mean("energy"),
        presence=mean("presence"),
        # The smallest of n p-values, corrected for the selection.
        p_values=np.minimum(1, len(found) * np.min([f.p_values for f in found], axis=0)),
        share=float(mean("share")),
    )


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
    """The common space of all datasets, without local shifts.

    Parameters
    ----------
    sides
        All datasets.
    parents, order
        Parent of every dataset, −1 for the root; and an order in which parents come first.
    pairs
        For every dataset but the root, its alignment with its parent as the first side.
    random_state
        Seed of joint principal components.
    own_columns
        Whether the signals are the columns from which the components were computed.
    config
        Configuration of the method.
    """
    sizes = [len(side.components) for side in sides]
    found = pooled_correspondence(
        [pairs[i] for i in order[1:]], [min(sizes[i], sizes[parents[i]]) for i in order[1:]]
    )
    into_root, units = _along_tree(sides, parents, order, pairs)
    into_signals, bridges, config = _signal_maps(sides, units, found, random_state, own_columns, config)
    in_signals = [
        _with_bridge(m.apply(s.signals), b, s.components)
        for m, b, s in zip(into_signals, bridges, sides, strict=True)
    ]
    space = JointSpace(
        parents=tuple(parents),
        component_maps=tuple(into_root),
        signal_maps=into_signals,
        lengths=(
            typical_length([m.apply(s.components) for m, s in zip(into_root, sides, strict=True)]),
            typical_length(in_signals),
        ),
        balance=float(found.share**config.balance_power) if own_columns else config.modality_balance,
        turns=(None,) * len(sides),
        axes=None,
        shifts=(),
        bridges=bridges,
        config=config.for_placing(),
    )
    u = [space._side_by_side(i, s.components, s.signals) for i, s in enumerate(sides)]
    turns: list[LinearMap | None] = [None] * len(sides)
    for i in order[1:]:
        if pairs[i].turned:
            turned = turn(u[parents[i]], u[i], config)
            turns[i], u[i] = turned, turned.apply(u[i])
    return replace(space, turns=tuple(turns), axes=reliable_axes(u, config))


def reliable_axes(u: Sequence[Array], config: MethodConfig) -> LinearMap:
    """Map of rows to principal axes in which every direction is scaled by a power of its reliability.

    With C the covariance of the rows of each dataset, and R that of the differences between a row and its
    nearest ones, both averaged over the datasets by their rows, the directions are the generalised
    eigenvectors of R and C.

    Parameters
    ----------
    u
        Rows of every dataset.
    config
        Number of neighbours, power of the reliability, and number of axes.
    """
    width, total = u[0].shape[1], sum(map(len, u))
    mean = np.sum([rows.sum(axis=0) for rows in u], axis=0) / total

    def products(rows: Array) -> tuple[Array, Array]:
        centred = rows - rows.mean(axis=0)
        k = min(config.confidence_neighbours, len(rows) - 1)
        found, near = nearest_rows(rows, k, exact=False).indices, np.zeros((width, width))
        for j in range(k):
            apart = rows - rows[found[:, j]]
            near += apart.T @ apart / (k * total)
        return centred.T @ centred / total, near

    own, near = (np.sum(parts, axis=0) for parts in zip(*in_threads(products, u), strict=True))
    values, vectors = scipy.linalg.eigh(own)
    # To scale directions by their reliability is to divide by their spread, which moves new rows far if they
    # do not keep to the directions of the others.
    kept = values > config.least_variance * max(values[-1], 0)
    if not kept.any():  # nothing varies within the datasets
        return LinearMap(np.eye(width)[:, : config.n_components], -mean[: config.n_components])
    scale, basis = np.sqrt(values[kept]), vectors[:, kept]
    differing, turned = scipy.linalg.eigh((basis.T @ near @ basis) / np.outer(scale, scale))
    reliability = np.clip(1 - differing / 2, 0, 1) ** config.reliability_power
    filtered = (basis / scale) @ (turned * reliability) @ (turned.T * scale)
    # Filtered rows are in the basis; their principal axes come first.
    covariance = filtered.T @ sum((rows - mean).T @ (rows - mean) for rows in u) @ filtered
    axes = scipy.linalg.eigh(covariance)[1][:, ::-1][:, : config.n_components]
    matrix = filtered @ axes
    return LinearMap(matrix, -mean @ matrix)


def _along_tree(
    sides: Sequence[Side], parents: Sequence[int], order: Sequence[int], pairs: Mapping[int, PairAlignment]
) -> tuple[list[LinearMap], _Units]:
    """For every dataset the map of its components into those of the root, and the units of its signals.

    The origin, from which lengths are measured, is the mean over the anchors.
    """
    root = order[0]
    width = sides[root].components.shape[1]
    to_root = {root: LinearMap(np.eye(width), np.zeros(width))}
    n_signals = sides[root].signals.shape[1]
    offsets, factors = {root: np.zeros(n_signals)}, {root: np.ones(n_signals)}
    origins, signal_origins, weights = [], [], []
    for i in order[1:]:
        found, parent = pairs[i], to_root[parents[i]]
        to_root[i] = _through_parent(found, parent)
        above = factors[parents[i]]
        factors[i] = above if found.factors is None else above * found.factors
        middle = offsets[parents[i]] + above * found.centres[0]
        offsets[i] = middle - factors[i] * found.centres[1]
        origins.append(parent.apply(-found.maps[0].shift[None])[0])
        signal_origins.append(middle)
        weights.append(len(sides[i].components))
    origin = np.average(origins, axis=0, weights=weights)
    signal_origin = np.average(signal_origins, axis=0, weights=weights)
    shifted = [LinearMap(to_root[i].matrix, to_root[i].shift - origin) for i in range(len(sides))]
    centres = [(signal_origin - offsets[i]) / factors[i] for i in range(len(sides))]
    return shifted, (centres, [factors[i] for i in range(len(sides))])


def _through_parent(found: PairAlignment, parent: LinearMap) -> LinearMap:
    """Map of a dataset's components through those of its parent."""
    to_parent = LinearMap(found.maps[1].matrix, found.maps[1].shift - found.maps[0].shift)
    return to_parent.then(parent)


def _signal_maps(
    sides: Sequence[Side],
    units: _Units,
    found: Correspondence,
    random_state: int,
    own_columns: bool,
    config: MethodConfig,
) -> tuple[tuple[LinearMap, ...], tuple[LinearMap | None, ...], MethodConfig]:
    """Maps of signals, bridges, and the configuration with the row length that suits them."""
    worth = found.weights * found.energy
    if own_columns or not worth.any():
        maps = weighted_axes(sides, units[0], found.weights, worth, random_state, config, units[1])
        return maps, (None,) * len(sides), config
    read = reading_maps(sides, units[0], found.weights, worth, config)
    into, bridges = zip(*read, strict=True)
    return into, bridges, replace(config, soft_length=config.modality_length)


def _with_bridge(signals: Any, bridge: LinearMap | None, components: Array, device: Any = None) -> Any:
    """Mapped signals, and what the components add to them."""
    return signals if bridge is None else signals + bridge.apply(components, device)


def _bridge(components: Array, mapped: Array, wanted: Array, pairing: Any, config: MethodConfig) -> LinearMap:
    """Ridge regression of ``wanted − mapped`` on the components, over the anchors."""
    mass = np.asarray(pairing.sum(axis=0)).ravel()
    paired = np.flatnonzero(mass > 0)
    x = components[paired]
    y = (pairing.T @ wanted)[paired] / mass[paired, None] - mapped[paired]
    matrix = ridge_regression(x, y, config.bridge_ridge, mass[paired])
    weights = mass[paired] / mass[paired].sum()
    return LinearMap(matrix, weights @ (y - x @ matrix))
