"""Signals from rows known to match, for datasets that share no column.

Every known pair is one thing seen by two datasets, so the components of both describe it. Regression over the
pairs predicts these descriptions from the components of either dataset; what is predicted for all rows
means the same in both and can be compared. Components that the other side cannot predict shrink to nothing.
Rows that then are each other's nearest serve as further pairs, with less weight, for another round.

How many components are worth predicting, and whether found pairs help, differs: the proteins of a blood cell
follow from few components of its RNA, and most rows find their partner; of sparse chromatin every component
tells a little, and most found pairs are wrong. Of two datasets both are chosen by known pairs that are held
out: the setting under which their partners are nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Matrix
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.rows import unit_rows
from harmonicalign.inputs.validate import check_data
from harmonicalign.paper.reduction import reduce_rows

__all__ = ["LEAST_PAIRS", "SignalMap", "signals_from_pairs"]

LEAST_PAIRS = 10
"""Fewer pairs are not enough to learn how two sets of components are related."""

_N_COMPONENTS = 15
_MORE_COMPONENTS = 50
_PENALTIES = np.logspace(-3, 3, 13)
_ROUNDS = 3
"""Rounds with found pairs, where these help; more change nothing."""
_FOLDS = 5
"""Parts of the known pairs that are held out in turn."""
_COMPARED = 1500
"""Known pairs that are held out, and rows among which their partners are sought: a bound on cost."""
_NEAREST = 5
_TRUST = 4
"""A known pair counts as much as so many found ones."""


Affine: TypeAlias = tuple[Array, Array]
"""Weights and offset of a regression."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class SignalMap:
    """From the columns of a dataset to its signals: ``rows @ weights + offset``."""

    weights: Matrix
    offset: Array

    def apply(self, rows: Matrix) -> Array:
        """Signals of some rows."""
        made = rows @ self.weights
        return np.asarray((made.toarray() if sp.issparse(made) else made) + self.offset)

    def checked(self, rows: Matrix, n: int) -> Array:
        """Signals of rows as users give them, which must be n rows of the columns of the fit."""
        own = check_data("signals", rows)
        if own.shape != (n, self.weights.shape[0]):
            raise ValueError(
                f"signals has shape {own.shape}; expected {(n, self.weights.shape[0])}, as in the fit"
            )
        return self.apply(own)

    def then(self, weights: Array, offset: Array) -> SignalMap:
        """The map of this one followed by another."""
        return SignalMap(self.weights @ weights, self.offset @ weights + offset)


def signals_from_pairs(
    datasets: Sequence[Matrix],
    pairs: Mapping[tuple[int, int], Array],
    seed: int = 0,
    names: Sequence[object] | None = None,
) -> list[SignalMap]:
    """Maps to columns that correspond, one per dataset, by regression over known pairs.

    Two datasets predict the components of both. Of more, each predicts the components of the one that most
    pairs name, directly or through a dataset that it has pairs with.

    Parameters
    ----------
    datasets
        Rows by columns; columns need not correspond.
    pairs
        Known pairs by numbers of datasets, row numbers as (m, 2).
    seed
        Seed of the decomposition.
    names
        Names of the datasets in messages.
    """
    names = range(len(datasets)) if names is None else names
    counts = np.zeros(len(datasets), dtype=int)
    for (i, j), rows in pairs.items():
        counts[[i, j]] += len(rows)
        if (given := len(np.unique(rows, axis=0))) < LEAST_PAIRS:
            raise ValueError(
                f"anchors name {given} pairs of datasets {names[i]!r} and {names[j]!r}, which share no "
                f"columns; at least {LEAST_PAIRS} are needed to learn how these are related: give more, "
                "or pass signals or links"
            )
    if len(datasets) == 2:
        ((i, _), rows), *_ = pairs.items()
        rows = np.asarray(rows)
        return _of_two(datasets, rows if i == 0 else rows[:, ::-1], seed)
    maps = [_components(data, seed + i) for i, data in enumerate(datasets)]
    own = [component.apply(data) for component, data in zip(maps, datasets, strict=True)]
    hub = int(np.argmax(counts))
    found = {hub: own[hub]}
    while reach := [(i, j) for i, j in pairs if (i in found) != (j in found)]:
        i, j = max(reach, key=lambda pair: len(pairs[pair]))
        known, new = (i, j) if i in found else (j, i)
        rows = np.asarray(pairs[i, j])[:, [0, 1] if known == i else [1, 0]]
        regression = _followed(found[known], own[new], rows)
        maps[new] = maps[new].then(*regression)
        found[new] = own[new] @ regression[0] + regression[1]
    if lost := [i for i in range(len(datasets)) if i not in found]:
        raise ValueError(
            f"anchors do not join dataset {names[lost[0]]!r} to the others, with which it shares no columns; "
            "add pairs with one of them, or pass signals"
        )
    return maps


def _of_two(datasets: Sequence[Matrix], pairs: Array, seed: int) -> list[SignalMap]:
    """Maps of two datasets, by the number of components and the rounds that held-out pairs prefer."""
    widest = max(data.shape[1] for data in datasets)
    most = [
        [_components(data, seed + i, width) for i, data in enumerate(datasets)]
        for width in dict.fromkeys(min(w, widest) for w in (_N_COMPONENTS, _MORE_COMPONENTS))
    ]
    found: list[tuple[float, list[SignalMap], int]] = []
    for maps in most:
        x, y = (m.apply(data) for m, data in zip(maps, datasets, strict=True))
        for rounds in (_ROUNDS, 0):
            found.append((_missed(x, y, pairs, rounds, np.random.default_rng(seed)), maps, rounds))
    # To ask for a gain of a standard error lost what this gains where pairs are few, and no loss.
    _, maps, rounds = min(found, key=lambda tried: tried[0])
    x, y = (m.apply(data) for m, data in zip(maps, datasets, strict=True))
    return [m.then(*known) for m, known in zip(maps, _learned(x, y, pairs, rounds), strict=True)]


def _missed(x: Array, y: Array, pairs: Array, rounds: int, rng: np.random.Generator) -> float:
    """Share of rows that are nearer to a row than the partner it is known to have, in pairs held out."""
    pairs = pairs[rng.permutation(len(pairs))[:_COMPARED]]
    fold = np.arange(len(pairs)) % _FOLDS
    some = [
        np.unique(np.r_[rng.permutation(len(z))[:_COMPARED], rows])
        for z, rows in zip((x, y), pairs.T, strict=True)
    ]
    among = np.column_stack([np.searchsorted(s, rows) for s, rows in zip(some, pairs.T, strict=True)])
    x, y = x[some[0]], y[some[1]]
    missed = 0.0
    for f in range(_FOLDS):
        left, out = among[fold != f], among[fold == f]
        told = [z @ b + c for z, (b, c) in zip((x, y), _learned(x, y, left, rounds), strict=True)]
        a, b = (unit_rows(z - z.mean(axis=0)) for z in told)
        for (own, i), (other, j) in (((a, out[:, 0]), (b, out[:, 1])), ((b, out[:, 1]), (a, out[:, 0]))):
            near = own[i] @ other.T
            missed += float((near > near[np.arange(len(i)), j][:, None]).mean(axis=1).sum())
    return missed / (2 * len(pairs))


def _components(data: Matrix, seed: int, width: int = _N_COMPONENTS) -> SignalMap:
    """Leading components, centred, with rows of mean squared length 1."""
    width = min(width, data.shape[1], data.shape[0] - 1)
    reduction, rows = reduce_rows(data, width, seed)
    axes = np.eye(data.shape[1]) if reduction.axes is None else reduction.axes
    mean = rows.mean(axis=0)
    length = float(np.sqrt(((rows - mean) ** 2).sum(axis=1).mean())) or 1.0
    offset = -mean - (0 if reduction.axes is None else reduction.mean @ axes)
    return SignalMap(axes / length, offset / length)


def _learned(x: Array, y: Array, pairs: Array, rounds: int) -> tuple[Affine, Affine]:
    """Regressions of both datasets' components on what describes the pairs: the components of both."""

    def fit(rows: Array) -> tuple[Affine, Affine]:
        described = np.hstack([x[rows[:, 0]], y[rows[:, 1]]])
        return _regression(x[rows[:, 0]], described), _regression(y[rows[:, 1]], described)

    def signals(both: tuple[Affine, Affine]) -> tuple[Array, Array]:
        return x @ both[0][0] + both[0][1], y @ both[1][0] + both[1][1]

    return _in_rounds(pairs, fit, signals, rounds)


def _followed(known: Array, y: Array, pairs: Array) -> Affine:
    """Regression of y's components on signals that another dataset has already."""

    def fit(rows: Array) -> Affine:
        return _regression(y[rows[:, 1]], known[rows[:, 0]])

    return _in_rounds(pairs, fit, lambda found: (known, y @ found[0] + found[1]), _ROUNDS)


def _in_rounds(
    pairs: Array, fit: Callable[[Array], _T], signals: Callable[[_T], tuple[Array, Array]], rounds: int
) -> _T:
    """Regressions over known pairs, then over these and the rows that they bring together."""
    found = fit(pairs)
    for _ in range(rounds):
        near = _mutual(*signals(found))
        free = ~np.isin(near[:, 0], pairs[:, 0]) & ~np.isin(near[:, 1], pairs[:, 1])
        found = fit(np.vstack([*[pairs] * _TRUST, near[free]]))
    return found


def _mutual(x: Array, y: Array) -> Array:
    """Pairs of rows that are among each other's nearest, (m, 2)."""
    k = min(_NEAREST, len(x), len(y))
    forth, back = nearest_rows(y, k, x).indices, nearest_rows(x, k, y).indices
    i, j = np.repeat(np.arange(len(x)), k), forth.ravel()
    kept = (back[j] == i[:, None]).any(axis=1)
    return np.column_stack([i[kept], j[kept]])


def _regression(own: Array, described: Array) -> Affine:
    """Ridge regression, with a penalty for each target chosen by leaving one pair out."""
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(_PENALTIES, alpha_per_target=True).fit(own, described)
    return model.coef_.T, model.intercept_
