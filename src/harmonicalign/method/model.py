"""The default method as a fitted model: from datasets to coordinates, and where new rows go.

It is immutable and knows nothing of how users hand data over; `HarmonicAlignment` does that.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from harmonicalign._exceptions import AlignmentWarning, DisconnectedGraphWarning
from harmonicalign._progress import Progress, fit_plan
from harmonicalign._typing import Array
from harmonicalign.engines import cpu
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.correspondence import Correspondence
from harmonicalign.evidence.significance import Significance
from harmonicalign.inputs.rows import same_matrix
from harmonicalign.inputs.settings import Settings
from harmonicalign.method.anchors import known_pairs
from harmonicalign.method.embed import JointMap
from harmonicalign.method.maps import Side, unit_rows
from harmonicalign.method.planes import PLANE_ROWS, laid_together, neighbourhood
from harmonicalign.method.refine import Refinement, refine
from harmonicalign.method.space import JointSpace, joint_space, pooled_correspondence, spanning_tree
from harmonicalign.paper.align import MultiAlignment
from harmonicalign.paper.graph import kernel_graph
from harmonicalign.paper.harmonics import Harmonics, harmonics
from harmonicalign.paper.joint import Joint, joint_geometry
from harmonicalign.paper.reduction import Reduction, reduce_rows

__all__ = ["AddedRows", "RefinedModel", "add_dataset", "fit_refined", "placed_confidence"]


_JOINT_DECAY = 4.0
"""Decay of the joint kernel: near neighbours count nearly alike, those beyond the bandwidth hardly."""

_COORDINATES = 2**0.5
"""Length of joint coordinates beside the diffusion map's unit length. Coordinates tell rows apart that the
map brings together: with more of them rows find their like better, with fewer datasets mix better."""

_HUBS = 3
"""Datasets with which every other one is aligned; the best of these pairs are then used."""


@dataclass(frozen=True)
class AddedRows:
    """Rows of a dataset that joined a fitted model, which its joint map does not hold.

    Attributes
    ----------
    phi
        Values of the joint map's harmonics at the rows.
    places
        Their coordinates in the joint space.
    laid
        The same, projected onto the tangent planes of their neighbours.
    """

    phi: Array
    places: Array
    laid: Array


@dataclass(frozen=True)
class RefinedModel:
    """The default method: learned correspondence, anchors, and a joint diffusion map.

    Attributes
    ----------
    reductions
        Principal components of every dataset's representation.
    landmarks
        Rows of every dataset that took part in finding the alignment.
    harmonics
        Harmonics over those rows.
    refinements
        By dataset number, its refinement against its parent in the tree of datasets.
    space
        The joint space.
    correspondence
        What the features say, over all pairs.
    significance
        Permutation test of the weakest pair.
    joint
        Graph and harmonics over the joint coordinates of all rows, laid onto the planes of their neighbours.
    t
        Diffusion time of the joint map.
    added
        Rows of the datasets that joined later, in their order.
    """

    method: ClassVar[str] = "refined"

    reductions: tuple[Reduction, ...]
    landmarks: tuple[Array, ...]
    harmonics: tuple[Harmonics, ...]
    refinements: dict[int, Refinement]
    space: JointSpace
    correspondence: Correspondence
    significance: Significance
    joint: JointMap
    t: float
    added: tuple[AddedRows, ...] = ()

    @property
    def alignment(self) -> MultiAlignment:
        """Correlations and rotations between datasets and those they were aligned with."""
        # Refinements have the parent first; here the smaller number comes first.
        pairs = {}
        for i, refinement in self.refinements.items():
            j = self.space.parents[i]
            pairs[min(i, j), max(i, j)] = refinement.alignment if j < i else refinement.alignment.transposed
        return MultiAlignment(self.harmonics, pairs)

    def parent_of(self, i: int) -> int | None:
        """The dataset that dataset i was aligned with; None for the root of the tree."""
        return None if self.space.parents[i] < 0 else self.space.parents[i]

    def refinement_of(self, i: int) -> Refinement | None:
        """The refinement of dataset i against its parent; None for the root of the tree."""
        return self.refinements.get(i)

    def significance_of(self, i: int) -> Significance | None:
        """Permutation test of dataset i against its parent; None for the root of the tree."""
        found = self.refinement_of(i)
        return None if found is None else found.significance

    def history(self) -> list[tuple[int, dict[str, Any]]]:
        """Every step of the refinements: the number of the dataset, and the record of the step."""
        return [(i, step) for i, found in self.refinements.items() for step in found.history]

    def coordinates(self) -> list[Array]:
        """Joint diffusion map beside joint coordinates, for every dataset."""
        joint = self.joint
        over_rows = joint.harmonics.phi, joint.coordinates, joint.rows
        found = [self._embed(*part) for part in zip(*map(joint.split, over_rows), strict=True)]
        return [*found, *(self._embed(new.phi, new.places, new.laid) for new in self.added)]

    def joint_coordinates(self) -> list[Array]:
        """Where the rows of every dataset are in the joint space, half of the way to their planes."""
        joint = self.joint
        found = zip(joint.split(joint.coordinates), joint.split(joint.rows), strict=True)
        added = ((new.places, new.laid) for new in self.added)
        return [_halfway(places, laid) for places, laid in (*found, *added)]

    def place(self, i: int, rows: Any, signals: Any) -> Array:
        """Coordinates of rows of dataset i: its maps, then Nyström's extension of the joint map."""
        z = self.space.place(i, self.reductions[i].apply(rows), signals)
        laid = self.joint.lay(z)
        return self._embed(self.joint.extend(laid), z, laid)

    def place_jointly(self, i: int, rows: Any, signals: Any) -> Array:
        """Joint coordinates of rows of dataset i."""
        z = self.space.place(i, self.reductions[i].apply(rows), signals)
        return _halfway(z, self.joint.lay(z))

    def place_rigidly(self, i: int, rows: Any, signals: Any) -> Array:
        """Coordinates of rows of dataset i in the joint space before anything is moved locally."""
        return self.space.place_rigidly(i, self.reductions[i].apply(rows), signals)

    def joint_geometry(self, seed: int) -> Joint:
        """Graph and harmonics over the joint coordinates of all datasets, those that joined later too."""
        if not self.added:
            return self.joint
        z = [*self.joint.split(self.joint.coordinates), *(new.places for new in self.added)]
        return _joint_map(z, self.joint.graph.anisotropy, seed, "cpu")

    def confidence(self, datasets: Sequence[Any], signals: Sequence[Any], seed: int) -> list[Array]:
        """How well other datasets support each row's place, before rows are moved towards each other."""
        parts = zip(datasets, signals, strict=True)
        return placed_confidence([self.place_rigidly(i, *part) for i, part in enumerate(parts)], seed)

    def slim(self) -> RefinedModel:
        """Only what places rows: without the joint graph's kernel and the record of the fit."""
        graph = replace(self.joint.graph, kernel=None)
        joint = replace(self.joint, graph=graph, harmonics=replace(self.joint.harmonics, graph=graph))
        return replace(self, joint=joint, harmonics=(), refinements={})

    def _embed(self, phi: Array, z: Array, laid: Array) -> Array:
        """Both side by side; rows go half of the way to their planes.

        What planes leave out is noise to a graph. To the row it is in part its own: datasets mix better
        without it, but rows of which each has one partner are found worse.
        """
        damping = (self.joint.harmonics.frequencies**self.t).astype(phi.dtype, copy=False)
        out = np.empty((len(z), phi.shape[1] + z.shape[1]), dtype=np.result_type(phi, z))

        def fill(rows: slice) -> None:
            out[rows, : phi.shape[1]] = unit_rows(phi[rows] * damping)
            out[rows, phi.shape[1] :] = _halfway(z[rows], laid[rows])

        cpu.in_threads(fill, cpu.row_slices(len(z), 256 * out.shape[1]))
        return out


def _halfway(z: Array, laid: Array) -> Array:
    """Joint coordinates half of the way to the planes of their neighbours (see `RefinedModel._embed`)."""
    return np.asarray(_COORDINATES / 2 * (z + laid))


def fit_refined(
    datasets: Sequence[Any],
    signals: Sequence[Any],
    names: Sequence[str],
    settings: Settings,
    kernel: dict[str, Any],
    *,
    first_band: int,
    anchors: dict[tuple[int, int], Any],
    n_landmarks: int,
    seed: int,
    progress: Progress,
    device: Any = "cpu",
) -> RefinedModel:
    """The default method; `device` is "cpu" or a device of torch for all that touches every row."""
    rng = np.random.default_rng(seed)
    sizes = [d.shape[0] for d in datasets]
    hubs = min(_HUBS, len(sizes) - 1)
    progress.expect(fit_plan(sizes, hubs * len(sizes) - hubs * (hubs + 1) // 2, n_landmarks))
    reductions, landmarks, sides = [], [], []
    for i, (data, signal, name) in enumerate(zip(datasets, signals, names, strict=True)):
        with progress.stage(f"harmonics of {name}"):
            reduction, components = reduce_rows(data, settings.n_pca[i], seed)
            chosen = _landmarks(len(components), n_landmarks, _anchored_rows(anchors, i), rng)
            sides.append(_side(components, signal, chosen, settings, i, kernel, seed, name))
        reductions.append((reduction, components))
        landmarks.append(chosen)
    refinements = _refine_pairs(
        sides,
        sizes,
        names,
        anchors,
        landmarks,
        settings,
        first_band,
        seed,
        progress,
    )
    weights = [
        (len(c), float(np.var(side.components, axis=0).sum()))
        for (_, c), side in zip(reductions, sides, strict=True)
    ]
    agreement = {pair: r.kinship for pair, r in refinements.items()}
    parents, order = spanning_tree(len(sides), agreement, weights)
    chosen_pairs = {
        i: refinements[parents[i], i]
        if (parents[i], i) in refinements
        else refinements[i, parents[i]].reversed((sides[parents[i]], sides[i]))
        for i in order[1:]
    }
    tests = [r.significance for r in chosen_pairs.values()]
    significance = max(tests, key=lambda test: (test.by_chance, test.opposed, test.p))
    _warn_of_chance(significance)
    _warn_of_opposites([(names[parents[i]], names[i], found) for i, found in chosen_pairs.items()])
    with progress.stage("joint space"), threadpool_limits(1, user_api="blas"):
        own = all(same_matrix(d, s) for d, s in zip(datasets, signals, strict=True))
        space = joint_space(sides, parents, order, chosen_pairs, seed, own_columns=own)
        parts = [(i, c, s) for i, ((_, c), s) in enumerate(zip(reductions, signals, strict=True))]
        if device == "cpu":
            # Mostly passes of numpy over all rows, each in one thread: datasets go side by side.
            z: list[Any] = cpu.in_threads(lambda part: space.place(*part), parts)
        else:
            z = [space.place_on(device, *part) for part in parts]
    with progress.stage("joint map"):
        joint = _joint_map(z, kernel["anisotropy"], seed, device)
    return RefinedModel(
        reductions=tuple(r for r, _ in reductions),
        landmarks=tuple(landmarks),
        harmonics=tuple(s.harmonics for s in sides),
        refinements=chosen_pairs,
        space=space,
        correspondence=pooled_correspondence(list(chosen_pairs.values())),
        significance=significance,
        joint=joint,
        t=settings.t,
    )


def _joint_map(z: Sequence[Any], anisotropy: float, seed: int, device: Any) -> JointMap:
    """Graph and harmonics over all rows, laid onto the planes of their neighbours while they are few."""
    n = sum(map(len, z))
    flat, places = z, None
    if n <= PLANE_ROWS:
        if device == "cpu":
            # The matrices are small: threads serve better side by side than within one product.
            with threadpool_limits(1, user_api="blas"):
                flat, places = laid_together(z, within=True)
        else:
            from harmonicalign.engines import torch_joint

            flat, places = torch_joint.on_planes(z, neighbourhood(n), seed)
    joint = joint_geometry(
        flat,
        n_harmonics=joint_harmonics(n),
        n_neighbors=joint_neighbours(n),
        decay=_JOINT_DECAY,
        anisotropy=anisotropy,
        random_state=seed,
        device=device,
    )
    return JointMap(joint.graph, joint.harmonics, joint.batch, places)


def add_dataset(
    model: RefinedModel,
    datasets: Sequence[Any],
    signals: Sequence[Any],
    new: Any,
    new_signals: Any,
    *,
    settings: Settings,
    kernel: dict[str, Any],
    first_band: int,
    n_landmarks: int,
    seed: int,
) -> RefinedModel:
    """A model that knows one dataset more, aligned with the best of the largest it has.

    `settings` are those of the new dataset alone. Nothing that is there moves: the new dataset's maps lead
    into the existing joint space, and its rows take their place on the existing joint map.
    """
    reduction, components = reduce_rows(new, settings.n_pca[0], seed)
    chosen = _landmarks(
        len(components), n_landmarks, np.empty(0, dtype=np.int64), np.random.default_rng(seed)
    )
    side = _side(components, new_signals, chosen, settings, 0, kernel, seed, "the new dataset")
    hubs = sorted(range(len(datasets)), key=lambda i: -datasets[i].shape[0])[:_HUBS]
    sides = {
        i: Side(
            model.reductions[i].apply(datasets[i][model.landmarks[i]]),
            signals[i][model.landmarks[i]],
            model.harmonics[i],
        )
        for i in hubs
    }
    tried = {
        i: refine(sides[i], side, n_bands=settings.n_bands, first_band=first_band, random_state=seed)
        for i in hubs
    }
    parent = max(hubs, key=lambda i: tried[i].kinship)
    _warn_of_chance(tried[parent].significance)
    _warn_of_opposites([("the model", "the new dataset", tried[parent])])
    placed = [model.space.place(i, s.components, s.signals) for i, s in sides.items()]
    space = model.space.joined_by(side, parent, sides[parent], tried[parent], np.vstack(placed), seed)
    return replace(
        model,
        reductions=(*model.reductions, reduction),
        landmarks=(*model.landmarks, chosen),
        harmonics=(*model.harmonics, side.harmonics),
        refinements={**model.refinements, len(datasets): tried[parent]},
        space=space,
        added=(*model.added, _joining(model.joint, space.place(len(datasets), components, new_signals))),
    )


def _joining(joint: JointMap, z: Array) -> AddedRows:
    """All rows of a new dataset among the rows of a joint map: they tell of each other too."""
    laid = joint.lay(z, together=True)
    return AddedRows(joint.extend(laid, together=True), z, laid)


def joint_neighbours(n: int) -> int:
    """Neighbours for a graph of n rows: local, but never so few that it falls apart."""
    return int(np.clip(round(n**0.5 / 4), 5, 10))


def joint_harmonics(n: int) -> int:
    """Harmonics of a joint graph of n rows; more than 50 bring nothing where rows are many (measured)."""
    return min(n - 1, max(10, min(n // 20, 100 if n <= 20_000 else 50)))


def _side(
    components: Array,
    signals: Any,
    chosen: Array,
    settings: Settings,
    i: int,
    kernel: dict[str, Any],
    seed: int,
    name: str,
) -> Side:
    """One dataset, its chosen rows described for the refinement."""
    graph = kernel_graph(components[chosen], n_neighbors=settings.n_neighbors[i], **kernel)
    with warnings.catch_warnings():
        # Separate clusters are common in real data and this method copes with them.
        warnings.simplefilter("ignore", DisconnectedGraphWarning)
        k = min(settings.n_harmonics[i], len(chosen) - 1)
        found = harmonics(graph, k, random_state=seed, name=name)
    return Side(components[chosen], signals[chosen] if len(chosen) < signals.shape[0] else signals, found)


def _anchored_rows(anchors: dict[tuple[int, int], Any], i: int) -> Array:
    """Rows of dataset i that have a known pair."""
    rows = [np.asarray(pairs)[:, pair.index(i)] for pair, pairs in anchors.items() if i in pair]
    return np.unique(np.concatenate(rows)) if rows else np.empty(0, dtype=np.int64)


def _landmarks(n: int, most: int, must: Array, rng: np.random.Generator) -> Array:
    """Rows that find the alignment: all of them, or a sample that holds the rows with known pairs."""
    if n <= most:
        return np.arange(n)
    must = must[:most]
    if not len(must):
        return np.sort(rng.choice(n, most, replace=False, shuffle=False))
    rest = np.setdiff1d(np.arange(n), must, assume_unique=True)
    return np.sort(np.concatenate([must, rng.choice(rest, most - len(must), replace=False)]))


def _known(anchors: dict[tuple[int, int], Any], x: int, y: int, landmarks: Sequence[Array]) -> Any:
    """Known pairs between two datasets in terms of their landmarks, or None."""
    pairs = anchors.get((x, y))
    if pairs is None and (y, x) in anchors:
        pairs = np.asarray(anchors[y, x])[:, ::-1]
    if pairs is None or not len(pairs):
        return None
    numbers = [np.searchsorted(landmarks[d], np.asarray(pairs)[:, c]) for c, d in enumerate((x, y))]
    return known_pairs(np.stack(numbers, axis=1), len(landmarks[x]), len(landmarks[y]))


def _refine_pairs(
    sides: Sequence[Side],
    sizes: Sequence[int],
    names: Sequence[str],
    anchors: dict[tuple[int, int], Any],
    landmarks: Sequence[Array],
    settings: Settings,
    first_band: int,
    seed: int,
    progress: Progress,
) -> dict[tuple[int, int], Refinement]:
    """Refinements of pairs of datasets, the larger one first.

    Every dataset is aligned with each of the three largest, which leaves a choice of partners
    without the cost of all pairs; and datasets with known pairs are aligned with each other.
    """
    order = sorted(
        range(len(sides)), key=lambda i: (-sizes[i], -float(np.var(sides[i].components, axis=0).sum()))
    )
    pairs = [(a, b) for rank, a in enumerate(order[:_HUBS]) for b in order[rank + 1 :]]
    for i, j in anchors:
        if (i, j) not in pairs and (j, i) not in pairs:
            pairs.append((i, j))
    out = {}
    for i, j in pairs:
        # The matrices are small: threads cost more than they bring, and far more on a busy machine.
        with progress.stage(f"alignment of {names[i]} and {names[j]}"), threadpool_limits(1, user_api="blas"):
            out[i, j] = refine(
                sides[i],
                sides[j],
                n_bands=settings.n_bands,
                first_band=first_band,
                known=_known(anchors, i, j, landmarks),
                random_state=seed,
            )
    return out


def _warn_of_chance(significance: Significance) -> None:
    if not significance.tested:
        warnings.warn(
            f"whether the alignment is better than chance was {significance}. Look whether rows of groups "
            "that you know meet",
            AlignmentWarning,
            stacklevel=4,
        )
    elif significance.by_chance:
        warnings.warn(
            f"the alignment is no better than chance ({significance}): permuted features agree as well. "
            "Check that the columns of signals mean the same in every dataset and stand in the same order "
            "(those of two separate PCAs or SVDs do not), that they vary, and that the datasets overlap",
            AlignmentWarning,
            stacklevel=4,
        )


def _warn_of_opposites(pairs: Sequence[tuple[str, str, Refinement]]) -> None:
    """Tell of datasets, given with those they were aligned with, whose columns seem to be negated."""
    opposed = [f"{one} and {other}" for one, other, found in pairs if found.significance.opposed]
    if opposed:
        warnings.warn(
            f"columns of {'; '.join(opposed)} seem to go opposite ways: they are correlated with each other "
            "alike in both datasets, but skewed the other way. Where one has less of what the other has more "
            "of (Ct values, methylation against expression), negate its columns and fit again",
            AlignmentWarning,
            stacklevel=4,
        )


def placed_confidence(coordinates: Sequence[Array], random_state: int = 0) -> list[Array]:
    """Confidence of rows where an alignment placed them, before any was moved towards another.

    As `row_confidence`, between rows laid onto the planes of their neighbours: noise has rows as far
    from their own dataset as from another, and there is less of it there.
    """
    if sum(map(len, coordinates)) <= PLANE_ROWS:
        # Differences between datasets are what is asked for here.
        coordinates = laid_together(coordinates, within=False)[0]
    return row_confidence(coordinates, n_smooth=4, random_state=random_state)
