"""Fits of the default method: datasets to a model, and adding a dataset to a fitted model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from harmonicalign._exceptions import AlignmentWarning, DisconnectedGraphWarning
from harmonicalign._progress import Progress, fit_plan
from harmonicalign._typing import Array, Matrix
from harmonicalign.engines.threads import in_threads
from harmonicalign.evidence.significance import Significance
from harmonicalign.inputs.rows import same_matrix
from harmonicalign.inputs.settings import FitOptions
from harmonicalign.method.anchors import known_pairs
from harmonicalign.method.choose import align_pair
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.embed import joint_map
from harmonicalign.method.maps import Side
from harmonicalign.method.model import AddedRows, RefinedModel
from harmonicalign.method.problem import PairAlignment
from harmonicalign.method.space import joint_space, pooled_correspondence, spanning_tree
from harmonicalign.method.verdicts import doubts, judged
from harmonicalign.paper.graph import kernel_graph
from harmonicalign.paper.harmonics import harmonics
from harmonicalign.paper.reduction import Reduction, reduce_rows

__all__ = ["add_dataset", "fit_refined"]

Anchors = Mapping[tuple[int, int], Any]


def fit_refined(
    datasets: Sequence[Matrix],
    signals: Sequence[Matrix],
    names: Sequence[str],
    options: FitOptions,
    *,
    anchors: Anchors,
    n_landmarks: int,
    progress: Progress,
    config: MethodConfig = DEFAULT,
) -> RefinedModel:
    """Fit the default method.

    Parameters
    ----------
    datasets, signals
        Representation and signals of every dataset.
    names
        Their names, for messages.
    options
        Options of the user.
    anchors
        Rows known to match, by pair of dataset indices.
    n_landmarks
        Maximum number of landmarks per dataset.
    progress
        Receives every stage.
    config
        Configuration of the method.
    """
    sizes, seed = [d.shape[0] for d in datasets], options.seed
    hubs = min(config.n_hubs, len(sizes) - 1)
    progress.expect(fit_plan(sizes, hubs * len(sizes) - hubs * (hubs + 1) // 2, n_landmarks))
    rng, described = np.random.default_rng(seed), []
    for i, (data, signal, name) in enumerate(zip(datasets, signals, names, strict=True)):
        with progress.stage(f"harmonics of {name}"):
            must = _anchored_rows(anchors, i)
            described.append(_describe(data, signal, i, options, n_landmarks, must, rng, name))
    reductions, components, landmarks, sides = zip(*described, strict=True)
    pairs = _align_pairs(sides, sizes, names, anchors, landmarks, options, progress, config)
    parents, order = spanning_tree(
        len(sides),
        {pair: found.kinship for pair, found in pairs.items()},
        [(n, float(np.var(side.components, axis=0).sum())) for n, side in zip(sizes, sides, strict=True)],
    )
    chosen = {
        i: pairs[parents[i], i]
        if (parents[i], i) in pairs
        else pairs[i, parents[i]].reversed((sides[parents[i]], sides[i]))
        for i in order[1:]
    }
    own = all(same_matrix(d, s) for d, s in zip(datasets, signals, strict=True))
    with threadpool_limits(1, user_api="blas"):
        chosen = {
            i: judged(found, (sides[parents[i]], sides[i]), own_columns=own, random_state=seed, config=config)
            for i, found in chosen.items()
        }
    tests = [found.significance for found in chosen.values()]
    significance = max(tests, key=lambda test: (test.by_chance, test.opposed, test.p))
    with progress.stage("joint space"), threadpool_limits(1, user_api="blas"):
        space = joint_space(sides, parents, order, chosen, seed, own_columns=own, config=config)
        parts = [(i, c, s) for i, (c, s) in enumerate(zip(components, signals, strict=True))]
        if options.device == "cpu":
            # Mostly single-threaded numpy passes over all rows, so datasets are processed in parallel.
            z: list[Any] = in_threads(lambda part: space.place(*part), parts)
        else:
            z = [space.place_on(options.device, *part) for part in parts]
    doubtful = []
    for i, found in chosen.items():
        pair = parents[i], i
        places = [np.asarray(space.place(j, sides[j].components, sides[j].signals)) for j in pair]
        said = (names[pair[0]], names[i])
        doubtful += doubts(said, found, (sides[pair[0]], sides[i]), places, config)
    _warn(significance, [(names[parents[i]], names[i], found) for i, found in chosen.items()], doubtful)
    with progress.stage("joint map"):
        joint = joint_map(z, options.kernel["anisotropy"], seed, options.device, config)
    return RefinedModel(
        reductions=reductions,
        landmarks=landmarks,
        harmonics=tuple(side.harmonics for side in sides),
        pairs=chosen,
        space=space,
        correspondence=pooled_correspondence(list(chosen.values())),
        significance=significance,
        joint=joint,
        t=options.settings.t,
    )


def add_dataset(
    model: RefinedModel,
    datasets: Sequence[Matrix],
    signals: Sequence[Matrix],
    new: Matrix,
    new_signals: Matrix,
    options: FitOptions,
    *,
    n_landmarks: int,
) -> RefinedModel:
    """The model with one more dataset, aligned with the best of its largest datasets.

    Existing coordinates do not change: the new dataset is mapped into the existing common space and placed on
    the existing joint map.

    Parameters
    ----------
    model
        The fitted model.
    datasets, signals
        Datasets and signals of the fit.
    new, new_signals
        Representation and signals of the new dataset.
    options
        As in the fit; the settings are those of the new dataset only.
    n_landmarks
        Maximum number of landmarks of the new dataset.
    """
    config, seed, number = model.config, options.seed, len(datasets)
    rng, nothing = np.random.default_rng(seed), np.empty(0, dtype=np.int64)
    with threadpool_limits(1, user_api="blas"):
        reduction, components, chosen, side = _describe(
            new, new_signals, 0, options, n_landmarks, nothing, rng, "the new dataset"
        )
        hubs = sorted(range(number), key=lambda i: -datasets[i].shape[0])[: config.n_hubs]
        sides = {
            i: Side(
                model.reductions[i].apply(datasets[i][model.landmarks[i]]),
                signals[i][model.landmarks[i]],
                model.harmonics[i],
            )
            for i in hubs
        }
        tried = {i: _align(sides[i], side, None, options, config) for i in hubs}
        parent = max(hubs, key=lambda i: tried[i].kinship)
        pair = sides[parent], side
        own = same_matrix(new, new_signals)
        found = judged(tried[parent], pair, own_columns=own, random_state=seed, config=config)
        said = "the model", "the new dataset"
        _warn(found.significance, [(*said, found)], doubts(said, found, pair, config=config))
        placed = np.vstack([model.space.place(i, s.components, s.signals) for i, s in sides.items()])
        space = model.space.joined_by(side, parent, sides[parent], found, placed, seed)
        z = space.place(number, components, new_signals)
        # All rows of a dataset are added at once and are also neighbours of each other.
        projected = model.joint.project(z, together=True)
        added = AddedRows(model.joint.extend(projected, together=True), z, projected)
    return replace(
        model,
        reductions=(*model.reductions, reduction),
        landmarks=(*model.landmarks, chosen),
        harmonics=(*model.harmonics, side.harmonics),
        pairs={**model.pairs, number: found},
        space=space,
        added=(*model.added, added),
    )


def _describe(
    data: Matrix,
    signals: Matrix,
    i: int,
    options: FitOptions,
    n_landmarks: int,
    must: Array,
    rng: np.random.Generator,
    name: str,
) -> tuple[Reduction, Array, Array, Side]:
    """One dataset: reduction, principal components, landmarks, and its `Side`."""
    settings, seed = options.settings, options.seed
    reduction, components = reduce_rows(data, settings.n_pca[i], seed)
    chosen = _landmarks(len(components), n_landmarks, must, rng)
    graph = kernel_graph(components[chosen], n_neighbors=settings.n_neighbors[i], **options.kernel)
    with warnings.catch_warnings():
        # Separate clusters are common in real data, and this method can handle them.
        warnings.simplefilter("ignore", DisconnectedGraphWarning)
        k = min(settings.n_harmonics[i], len(chosen) - 1)
        found = harmonics(graph, k, random_state=seed, name=name)
    shown = signals[chosen] if len(chosen) < signals.shape[0] else signals
    return reduction, components, chosen, Side(components[chosen], shown, found)


def _anchored_rows(anchors: Anchors, i: int) -> Array:
    """Rows of dataset i that have a known pair."""
    rows = [np.asarray(pairs)[:, pair.index(i)] for pair, pairs in anchors.items() if i in pair]
    return np.unique(np.concatenate(rows)) if rows else np.empty(0, dtype=np.int64)


def _landmarks(n: int, most: int, must: Array, rng: np.random.Generator) -> Array:
    """Landmarks: all rows, or a sample that includes the rows with known pairs."""
    if n <= most:
        return np.arange(n)
    must = must[:most]
    if not len(must):
        return np.sort(rng.choice(n, most, replace=False, shuffle=False))
    rest = np.setdiff1d(np.arange(n), must, assume_unique=True)
    return np.sort(np.concatenate([must, rng.choice(rest, most - len(must), replace=False)]))


def _align(x: Side, y: Side, known: Any, options: FitOptions, config: MethodConfig) -> PairAlignment:
    """Alignment of a pair, with the bands and seed of the user."""
    return align_pair(
        x,
        y,
        config,
        known=known,
        n_bands=options.settings.n_bands,
        first_band=options.first_band,
        random_state=options.seed,
    )


def _align_pairs(
    sides: Sequence[Side],
    sizes: Sequence[int],
    names: Sequence[str],
    anchors: Anchors,
    landmarks: Sequence[Array],
    options: FitOptions,
    progress: Progress,
    config: MethodConfig,
) -> dict[tuple[int, int], PairAlignment]:
    """Alignments of pairs of datasets, the larger one first.

    Every dataset is aligned with each of the few largest, which leaves a choice of partners without the cost
    of all pairs. Datasets with known pairs are also aligned with each other.
    """
    spread = [float(np.var(side.components, axis=0).sum()) for side in sides]
    order = sorted(range(len(sides)), key=lambda i: (-sizes[i], -spread[i]))
    pairs = [(a, b) for rank, a in enumerate(order[: config.n_hubs]) for b in order[rank + 1 :]]
    pairs += [(i, j) for i, j in anchors if (i, j) not in pairs and (j, i) not in pairs]
    out = {}
    for i, j in pairs:
        known = _known(anchors, i, j, landmarks)
        # The matrices are small: threads slow the work down, especially on a busy machine.
        with progress.stage(f"alignment of {names[i]} and {names[j]}"), threadpool_limits(1, user_api="blas"):
            out[i, j] = _align(sides[i], sides[j], known, options, config)
    return out


def _known(anchors: Anchors, x: int, y: int, landmarks: Sequence[Array]) -> Any:
    """Known pairs between two datasets as indices of their landmarks, or None."""
    pairs = anchors.get((x, y))
    if pairs is None and (y, x) in anchors:
        pairs = np.asarray(anchors[y, x])[:, ::-1]
    if pairs is None or not len(pairs):
        return None
    numbers = [np.searchsorted(landmarks[d], np.asarray(pairs)[:, c]) for c, d in enumerate((x, y))]
    return known_pairs(np.stack(numbers, axis=1), len(landmarks[x]), len(landmarks[y]))


def _warn(
    significance: Significance, pairs: Sequence[tuple[str, str, PairAlignment]], doubtful: Sequence[str] = ()
) -> None:
    """Warn of an alignment that was not tested, is not significant, or should be doubted for other reasons.

    Parameters
    ----------
    significance
        The test of the weakest pair.
    pairs
        Names of the two datasets of every pair, and its alignment.
    doubtful
        Other reasons for doubt.
    """
    said = list(doubtful)
    if not significance.tested:
        said.append(
            f"whether the alignment is better than chance was {significance}. Check whether rows of known "
            "groups come together"
        )
    elif significance.by_chance:
        said.append(
            f"the alignment is no better than chance ({significance}): wrongly paired features agree as "
            "well. Check that the columns of signals mean the same in every dataset (those of two separate "
            "PCAs or SVDs do not) and are in the same order, that they vary, and that the datasets overlap"
        )
    opposed = [f"{one} and {other}" for one, other, found in pairs if found.significance.opposed]
    if opposed:
        said.append(
            f"columns of {'; '.join(opposed)} seem to go opposite ways: they have the same correlations with "
            "each other in both datasets, but the opposite skewness. If large values in one dataset mean "
            "small values in the other (Ct values and counts, methylation and expression), negate its "
            "columns and fit again"
        )
    for text in said:
        warnings.warn(text, AlignmentWarning, stacklevel=4)
