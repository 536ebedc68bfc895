"""Fits of the default method: datasets to a model, and adding a dataset to a fitted model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from harmonicalign._exceptions import DisconnectedGraphWarning
from harmonicalign._progress import FEW_DATASETS, Progress, fit_plan
from harmonicalign._typing import Array, Matrix
from harmonicalign.engines.threads import each_in_threads, in_threads, owned
from harmonicalign.evidence.significance import Significance
from harmonicalign.inputs.rows import same_columns
from harmonicalign.inputs.settings import FitOptions
from harmonicalign.method.anchors import known_pairs
from harmonicalign.method.choose import solve
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.embed import embed
from harmonicalign.method.local import Compared, locally_shifted
from harmonicalign.method.maps import Side
from harmonicalign.method.model import RefinedModel
from harmonicalign.method.problem import PairAlignment, PairProblem
from harmonicalign.method.space import JointSpace, joint_space, pooled_correspondence
from harmonicalign.method.units import by_spread, multiplied, spread_factors
from harmonicalign.method.verdicts import all_doubts, doubts, judged, warn
from harmonicalign.paper.graph import kernel_graph
from harmonicalign.paper.harmonics import harmonics
from harmonicalign.paper.reduction import Reduction, reduce_rows

__all__ = ["add_dataset", "fit_refined"]

Anchors = Mapping[tuple[int, int], Any]
T = TypeVar("T")

_NO_ROWS = np.empty(0, dtype=np.int64)


@owned()
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
    progress.expect(fit_plan(sizes, len(sizes) - 1, n_landmarks))
    if anchors:
        anchors = _affordable(anchors, sizes, n_landmarks, seed)

    def describe(i: int) -> tuple[Reduction, Array, Array, Side]:
        must = _anchored_rows(anchors, i) if anchors else _NO_ROWS
        return _describe(datasets[i], signals[i], i, options, n_landmarks, must, names[i])

    with warnings.catch_warnings():
        # Separate clusters are common in real data, and this method can handle them.
        warnings.simplefilter("ignore", DisconnectedGraphWarning)
        described = _each(
            describe, range(len(sizes)), "harmonics", names, progress, at_once=_at_once(datasets, config)
        )
    reductions, components, landmarks, sides = zip(*described, strict=True)
    order = _largest_first(sides, sizes, anchors)
    own = all(same_columns(d, s) for d, s in zip(datasets, signals, strict=True))
    options = replace(options, own_columns=own)
    linked = options.linked and not own
    factors = [spread_factors(side.signals, config) for side in sides] if linked else None
    sides = sides if factors is None else tuple(map(by_spread, sides, factors))
    parents, pairs = _align_with_parents(sides, order, names, anchors, landmarks, options, progress, config)
    couples = {i: (sides[parents[i]], sides[i]) for i in order[1:]}
    with progress.stage("joint space"):
        # Of many datasets the features are judged in the largest; the others would only repeat it.
        largest = order[1 : 1 + FEW_DATASETS]
        claims = in_threads(lambda i: judged(pairs[i], couples[i], own, seed, config), largest)
        pairs |= dict(zip(largest, claims, strict=True))
        space = joint_space(sides, parents, order, pairs, seed, own_columns=own, config=config)
        compared = _compared(components, signals, options, factors, n_landmarks)
        space = locally_shifted(space, sides, pairs, seed, compared, config)
        doubtful = all_doubts(names, pairs, sides, space, config)
        space = space if factors is None else space.of_units(factors)
        z = _placed(space, list(zip(range(len(sizes)), components, signals, strict=True)), options.device)
    warn([(names[parents[i]], names[i], pairs[i].significance) for i in order[1:]], doubtful)
    with progress.stage("embedding"):
        embedding = embed(z, options.n_components, seed, options.device, config)
    significance = _weakest([(sizes[i], pairs[i].significance) for i in order[1:]], sizes[order[0]], config)
    return RefinedModel(
        reductions=reductions,
        landmarks=landmarks,
        harmonics=tuple(side.harmonics for side in sides),
        pairs=pairs,
        space=space,
        correspondence=pooled_correspondence(
            [pairs[i] for i in largest], [min(sizes[i], sizes[parents[i]]) for i in largest]
        ),
        significance=significance,
        embedding=embedding,
    )


def _at_once(datasets: Sequence[Matrix], config: MethodConfig) -> bool:
    """Whether datasets are described side by side: copies of large ones are not made of several at once."""
    stored = [d.nnz if sp.issparse(d) else d.size for d in datasets]
    return len(datasets) > FEW_DATASETS or max(stored) <= config.numbers_at_once


def _placed(space: JointSpace, parts: Sequence[tuple[int, Array, Matrix]], device: Any) -> list[Any]:
    """Joint coordinates of the rows of all datasets; tensors if they are on a device."""
    if device != "cpu":
        return [space.place_on(device, *part) for part in parts]
    # Mostly single-threaded numpy passes over all rows, so datasets are processed in parallel.
    return list(in_threads(lambda part: space.place(*part), parts))


@owned()
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
    among the existing rows.

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
    options = replace(options, own_columns=same_columns(new, new_signals))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedGraphWarning)
        reduction, components, chosen, side = _describe(
            new, new_signals, 0, options, n_landmarks, _NO_ROWS, "the new dataset"
        )
    by_size = sorted(range(number), key=lambda i: -datasets[i].shape[0])
    sides = {
        i: Side(
            model.reductions[i].apply(datasets[i][model.landmarks[i]]),
            signals[i][model.landmarks[i]],
            model.harmonics[i],
        )
        for i in by_size[: config.n_parents]
    }
    parent, found = _best_parent(list(sides), lambda i: _align(sides[i], side, None, options, config))
    couple, said = (sides[parent], side), ("the model", "the new dataset")
    found = judged(found, couple, options.own_columns, seed, config)
    warn([(*said, found.significance)], doubts(said, found, couple, config=config))
    placed = np.vstack([model.space.place(i, s.components, s.signals) for i, s in sides.items()])
    space = model.space.joined_by(side, parent, sides[parent], found, placed, seed)
    # All rows of a dataset are added at once and are also neighbours of each other.
    (z,) = _placed(space, [(number, components, new_signals)], options.device)
    added = model.embedding.place(z, together=True)
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
    name: str,
) -> tuple[Reduction, Array, Array, Side]:
    """One dataset: reduction, principal components, landmarks, and its `Side`."""
    settings, seed = options.settings, options.seed
    reduction, components = reduce_rows(data, settings.n_pca[i], seed)
    if options.balanced is None:
        chosen = _landmarks(len(components), n_landmarks, must, np.random.default_rng([seed, i]))
    else:
        chosen = np.asarray(options.balanced[0][i])
    n_neighbors = min(settings.n_neighbors[i], len(chosen) - 1)
    graph = kernel_graph(components[chosen], n_neighbors=n_neighbors, **options.kernel)
    k = min(settings.n_harmonics[i], len(chosen) - 1)
    found = harmonics(graph, k, random_state=seed, name=name)
    shown = signals[chosen] if len(chosen) < signals.shape[0] else signals
    return reduction, components, chosen, Side(components[chosen], shown, found)


def _compared(
    components: Sequence[Array],
    signals: Sequence[Matrix],
    options: FitOptions,
    factors: Sequence[Array] | None,
    most: int,
) -> list[Compared] | None:
    """A sample of the rows of every dataset, where the landmarks are chosen for something else."""
    if options.balanced is None:
        return None
    out = []
    for i, parts in enumerate(zip(components, signals, options.balanced[1], strict=True)):
        rows = _landmarks(len(parts[0]), most, _NO_ROWS, np.random.default_rng([options.seed, i]))
        own, shown, level = (part[rows] for part in parts)
        out.append(Compared(own, shown if factors is None else multiplied(shown, factors[i]), level))
    return out


def _affordable(anchors: Anchors, sizes: Sequence[int], n_landmarks: int, seed: int) -> Anchors:
    """Known pairs whose rows can all be landmarks: of too many a random sample.

    A dataset with several partners divides its landmarks among them.
    """
    partners = np.bincount([i for pair in anchors for i in pair], minlength=len(sizes))
    most = [n_landmarks // max(1, k) if n > n_landmarks else n for n, k in zip(sizes, partners, strict=True)]
    rng, out = np.random.default_rng(seed), {}
    for (i, j), pairs in anchors.items():
        rows, limit = np.asarray(pairs), min(most[i], most[j])
        few = sizes[i] <= n_landmarks and sizes[j] <= n_landmarks
        sampled = not few and len(rows) > limit
        out[i, j] = rows[np.sort(rng.choice(len(rows), limit, replace=False))] if sampled else rows
    return out


def _anchored_rows(anchors: Anchors, i: int) -> Array:
    """Rows of dataset i that have a known pair."""
    rows = [np.asarray(pairs)[:, pair.index(i)] for pair, pairs in anchors.items() if i in pair]
    return np.unique(np.concatenate(rows)) if rows else _NO_ROWS


def _landmarks(n: int, most: int, must: Array, rng: np.random.Generator) -> Array:
    """Landmarks: all rows, or a sample that includes the rows with known pairs."""
    if n <= most:
        return np.arange(n)
    if not len(must):
        return np.sort(rng.choice(n, most, replace=False, shuffle=False))
    rest = np.setdiff1d(np.arange(n), must, assume_unique=True)
    return np.sort(np.concatenate([must, rng.choice(rest, most - len(must), replace=False)]))


def _align(x: Side, y: Side, known: Any, options: FitOptions, config: MethodConfig) -> PairAlignment:
    """Alignment of a pair, with the bands and seed of the user."""
    return solve(
        PairProblem(
            x,
            y,
            config,
            known=known,
            own_columns=options.own_columns,
            n_bands=options.settings.n_bands,
            first_band=options.first_band,
            random_state=options.seed,
        )
    )


def _largest_first(sides: Sequence[Side], sizes: Sequence[int], anchors: Anchors) -> list[int]:
    """Datasets in the order in which they join: the largest, then partners of those that joined, by size."""
    spread = [float(np.var(side.components, axis=0).sum()) for side in sides]
    left = sorted(range(len(sides)), key=lambda i: (-sizes[i], -spread[i]))
    order = [left.pop(0)]
    while left:
        partners = [i for i in left if any(i in pair and set(pair) & set(order) for pair in anchors)]
        order.append((partners or left)[0])
        left.remove(order[-1])
    return order


def _align_with_parents(
    sides: Sequence[Side],
    order: Sequence[int],
    names: Sequence[str],
    anchors: Anchors,
    landmarks: Sequence[Array],
    options: FitOptions,
    progress: Progress,
    config: MethodConfig,
) -> tuple[list[int], dict[int, PairAlignment]]:
    """Parent of every dataset, −1 for the first, and its alignment with it.

    The parent is the largest dataset, unless the features of the two do not correspond beyond chance. Then
    the next largest ones are tried. Rows known to match decide first.
    """
    if len(order) > FEW_DATASETS:
        config = replace(config, clear_permutations=config.many_permutations)

    def with_parent(position: int) -> tuple[int, PairAlignment]:
        i = order[position]
        known = {j: _known(anchors, j, i, landmarks) if anchors else None for j in order[:position]}
        candidates = sorted(known, key=lambda j: known[j] is None)[: config.n_parents]
        return _best_parent(candidates, lambda j: _align(sides[j], sides[i], known[j], options, config))

    joining = [names[i] for i in order]
    found = _each(with_parent, range(1, len(order)), "alignment", joining, progress)
    parents = dict(zip(order[1:], (parent for parent, _ in found), strict=True))
    pairs = dict(zip(order[1:], (pair for _, pair in found), strict=True))
    return [parents.get(i, -1) for i in range(len(sides))], pairs


def _each(
    work: Callable[[int], T],
    numbers: Sequence[int],
    what: str,
    names: Sequence[str],
    progress: Progress,
    *,
    at_once: bool = True,
) -> list[T]:
    """Results for every number: one stage each for a few datasets, one for all for more; in threads."""
    if len(names) > FEW_DATASETS:
        with progress.stage(f"{what} of {len(numbers)} datasets"):
            return in_threads(work, numbers)
    out = []
    # Closed also where the user interrupts, so that threads are handed back before those of the fit.
    with closing(each_in_threads(work, numbers) if at_once else (work(i) for i in numbers)) as found:
        for i in numbers:
            with progress.stage(f"{what} of {names[i]}"):
                out.append(next(found))
    return out


def _best_parent(
    candidates: Sequence[int], align: Callable[[int], PairAlignment]
) -> tuple[int, PairAlignment]:
    """The first candidate whose features correspond, or the best supported, and the alignment with it."""
    tried: list[tuple[int, PairAlignment]] = []
    for j in candidates:
        tried.append((j, align(j)))
        significance = tried[-1][1].significance
        if not (significance.by_chance or significance.opposed):
            return tried[-1]
    return max(tried, key=lambda found: found[1].support)


def _weakest(tests: Sequence[tuple[int, Significance]], largest: int, config: MethodConfig) -> Significance:
    """The weakest of the tests of datasets of given sizes, without small datasets if others remain."""
    large = [test for size, test in tests if size >= config.small_share * largest]
    return max(large or [test for _, test in tests], key=lambda test: (test.by_chance, test.opposed, test.p))


def _known(anchors: Anchors, x: int, y: int, landmarks: Sequence[Array]) -> Any:
    """Known pairs between two datasets as indices of their landmarks, or None."""
    pairs = anchors.get((x, y))
    if pairs is None and (y, x) in anchors:
        pairs = np.asarray(anchors[y, x])[:, ::-1]
    if pairs is None or not len(pairs):
        return None
    numbers = [np.searchsorted(landmarks[d], np.asarray(pairs)[:, c]) for c, d in enumerate((x, y))]
    return known_pairs(np.stack(numbers, axis=1), len(landmarks[x]), len(landmarks[y]))
