r"""Corrected features: signals of every dataset in the units of a reference.

Values are mapped to the reference by local quantiles: within a neighbourhood c of the common space, the value
at rank p becomes the value of the reference at rank p,

.. math:: x' = \sum_c u_c\, Q^{ref}_{c}\left(F_{c}(x)\right)

with u the membership of a row in the neighbourhoods. Neighbourhoods with rows of only one dataset are not
used; matching the quantiles of whole datasets cannot make this distinction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array, Matrix, MatrixLike, RandomState
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.threads import owned
from harmonicalign.inputs.names import refuse_other_orders
from harmonicalign.inputs.validate import check_data, check_integer, random_state_from
from harmonicalign.uses.smooth import check_coordinates, row_trust

__all__ = ["Corrected", "correct"]


_CHUNK_ENTRIES = 2_000_000
"""Number of entries in a chunk of columns; each needs about 100 bytes."""

_MOST_CLUSTERED = 20_000
"""Maximum number of rows on which neighbourhoods are found."""

_MEMBERSHIPS = 3
"""Number of neighbourhoods that a row belongs to."""

_MOST_TILT = 1.5
"""Maximum factor by which memberships are adjusted towards the composition of the reference."""

_FEWEST_ROWS = 10
"""Minimum number of rows (by weight) of either dataset for a neighbourhood to be used."""

_LEAST_WEIGHT = 0.05
"""Minimum weight of a row, because confidence is also low in a dense region next to a sparse one."""


@dataclass(frozen=True)
class Corrected:
    """Signals in the units of a reference.

    Attributes
    ----------
    values
        Corrected signals of every dataset: a list of matrices, or the form in which the datasets were given.
    reference
        The reference dataset: its number, or its name where datasets have one.
    """

    __repr__ = short_repr

    values: Any
    reference: Any


@owned()
def correct(
    signals: Sequence[MatrixLike],
    coordinates: Sequence[Array],
    reference: int = 0,
    *,
    confidence: Sequence[Array] | None = None,
    n_clusters: int | str = "auto",
    random_state: RandomState = 0,
) -> Corrected:
    """Correct the signals of every dataset to the units of a reference dataset.

    Within overlapping neighbourhoods of the common space, quantiles of a dataset are mapped to those of the
    reference; the value of a row is the mean over its neighbourhoods. Where either dataset has too few rows
    of high confidence, entries move like entries of the same value elsewhere. The displacements of each
    column are shrunk by the share that is expected between two samples of one distribution, so datasets that
    do not differ remain unchanged.

    Equal values (mostly zeros) are ranked by a random draw around their prediction from the joint
    coordinates, so that many equal values at the detection limit can spread.

    Parameters
    ----------
    signals
        Signals of every dataset, all dense or all sparse. Of sparse data only the stored entries are used
        and change; zeros remain zeros.
    coordinates
        Joint coordinates of the rows of every dataset.
    reference
        Index of the reference dataset, which is returned unchanged.
    confidence
        Confidence of each row, in [0, 1]; by default `row_confidence`.
    n_clusters
        Number of neighbourhoods; "auto" is a quarter of the square root of the smallest number of rows, and
        at most 50. More neighbourhoods follow finer differences and more noise.
    random_state
        Seed of the neighbourhoods and of the ranks within ties.

    Returns
    -------
    corrected
        A list with one matrix per dataset: dense arrays, or CSR with the pattern of the input.
    """
    refuse_other_orders("signals", signals)
    matrices = [check_data(f"signals[{i}]", s) for i, s in enumerate(signals)]
    # Values of a reference in double precision may overflow in single precision.
    matrices = [m.astype(np.result_type(*(m.dtype for m in matrices)), copy=False) for m in matrices]
    places = check_coordinates(coordinates, [m.shape[0] for m in matrices])
    if len({m.shape[1] for m in matrices}) > 1:
        raise ValueError(
            f"signals have {[m.shape[1] for m in matrices]} columns; pass the shared ones of each"
        )
    if len({sp.issparse(m) for m in matrices}) > 1:
        raise ValueError("signals are partly dense and partly sparse; make them all one or the other")
    reference = check_integer("reference", reference, maximum=len(matrices) - 1)
    weights = [np.maximum(w, _LEAST_WEIGHT) for w in row_trust(confidence, places)]
    smallest = min(map(len, places))
    if isinstance(n_clusters, str) and n_clusters == "auto":
        n_clusters = int(np.clip(round(smallest**0.5 / 4), 1, 50))
    k = check_integer("n_clusters", n_clusters, minimum=1, maximum=smallest)
    rng = random_state_from(random_state)
    centres = _centres(places, k, rng)
    members = [_memberships(z, centres) for z in places]
    shares = _shares(*members[reference], weights[reference], k)
    sides = [
        _Side(m.tocsc() if sp.issparse(m) else m.copy(), z, c, _balanced(c, u, w, shares), w)
        for m, z, (c, u), w in zip(matrices, places, members, weights, strict=True)
    ]
    for columns in _chunks([side.matrix for side in sides]):
        target = _ranks(sides[reference], columns, k, rng)
        for i, side in enumerate(sides):
            if i != reference:
                own = _ranks(side, columns, k, rng)
                _put(side.matrix, columns, own.values + _displacement(side, own, target, k))
    found = [sp.csr_matrix(side.matrix) if sp.issparse(side.matrix) else side.matrix for side in sides]
    return Corrected(values=found, reference=reference)


@dataclass(frozen=True)
class _Side:
    """One dataset: signals (dense or CSC), joint coordinates, neighbourhoods and weight of each row."""

    matrix: Matrix
    coordinates: Array
    cluster: Array
    membership: Array
    weight: Array


@dataclass(frozen=True)
class _Ranks:
    """Entries of some columns and, for each of their memberships, the rank in its neighbourhood.

    `row`, `column` and `values` are by entry. The others are by entry and membership, sorted by
    segment (a column in a neighbourhood) and rank; `place` numbers them as they were before.
    `total` is the weight in each segment.
    """

    row: Array
    column: Array
    values: Array
    place: Array
    segment: Array
    rank: Array
    value: Array
    weight: Array
    total: Array


def _ranks(side: _Side, columns: slice, k: int, rng: np.random.RandomState) -> _Ranks:
    row, column, values = _get(side.matrix, columns)
    width, m = columns.stop - columns.start, side.cluster.shape[1]
    by_value = np.lexsort((_tie_breaks(side, row, column, values, width, rng), values))
    segment = (column[:, None] * k + side.cluster[row])[by_value].ravel()
    order = np.argsort(segment, kind="stable")  # stable: keeps the order of values within a segment
    place = (by_value[:, None] * m + np.arange(m)).ravel()[order]
    segment, weight = segment[order], (side.membership * side.weight[:, None])[row].ravel()[place]
    total = np.bincount(segment, weight, minlength=width * k)
    below = np.cumsum(weight) - weight / 2 - np.concatenate([[0.0], np.cumsum(total)])[segment]
    rank = np.clip(below / np.maximum(total[segment], 1e-300), 0, 1)
    return _Ranks(row, column, values, place, segment, rank, values[place // m], weight, total)


def _tie_breaks(
    side: _Side, row: Array, column: Array, values: Array, width: int, rng: np.random.RandomState
) -> Array:
    """A draw for each entry around its ridge prediction from the joint coordinates.

    The prediction alone would reduce the variance within ties.
    """
    z = np.c_[side.coordinates, np.ones(len(side.coordinates))]
    block = sp.csc_matrix((values, (row, column)), shape=(len(z), width))
    fit = np.linalg.solve(z.T @ z + 1e-3 * len(z) * np.eye(z.shape[1]), (block.T @ z).T)
    predicted = (z @ fit)[row, column]
    n = np.maximum(np.bincount(column, minlength=width), 1)
    spread = np.sqrt(np.bincount(column, (values - predicted) ** 2, minlength=width) / n)
    return np.asarray(predicted + spread[column] * rng.standard_normal(len(values)))


def _displacement(side: _Side, own: _Ranks, target: _Ranks, k: int) -> Array:
    """Displacement of every entry."""
    if not len(target.value) or not len(own.value):
        return np.zeros(len(own.values))
    # One interpolation for all segments: ranks in segment s lie in [2s, 2s + 1].
    ends = np.zeros((2, len(own.total)))
    change = np.flatnonzero(np.diff(target.segment))
    for end, at in zip(ends, (np.r_[0, change + 1], np.r_[change, len(target.segment) - 1]), strict=True):
        end[target.segment[at]] = target.rank[at]
    rank = np.clip(own.rank, *ends[:, own.segment])
    moved = np.interp(2 * own.segment + rank, 2 * target.segment + target.rank, target.value) - own.value

    known = (own.total >= _FEWEST_ROWS) & (target.total >= _FEWEST_ROWS)
    moved *= (known * _beyond_chance(own, moved, target.total, known, k))[own.segment]
    by_entry = np.empty(moved.size)
    by_entry[own.place] = moved
    shares = side.membership[own.row] * known[own.column[:, None] * k + side.cluster[own.row]]
    support = shares.sum(axis=1)
    local = (shares * by_entry.reshape(shares.shape)).sum(axis=1) / np.maximum(support, 1e-300)
    elsewhere = np.zeros(len(local))
    for c in np.unique(own.column[support < 0.999]):
        entries = np.flatnonzero(own.column == c)
        elsewhere[entries] = _by_value(own.values[entries], local[entries], support[entries] > 0.5)
    return np.asarray(support * local + (1 - support) * elsewhere)


def _beyond_chance(own: _Ranks, moved: Array, target_total: Array, known: Array, k: int) -> Array:
    """For every segment, the share of its column's displacement that sampling does not explain.

    The mean squared difference between quantiles of samples of n and m rows of one distribution of variance
    σ² is about 2σ²(1/n + 1/m).
    """

    def mean(values: Array) -> Array:
        sums = np.bincount(own.segment, own.weight * values, minlength=len(own.total))
        return np.asarray(sums / np.maximum(own.total, 1e-300))

    variance = mean((own.value - mean(own.value)[own.segment]) ** 2)
    chance = 2 * variance * (1 / np.maximum(own.total, 1) + 1 / np.maximum(target_total, 1))
    mass = own.total * known
    found, expected = ((mass * v).reshape(-1, k).sum(axis=1) for v in (mean(moved**2), chance))
    explained = np.divide(expected, found, out=np.ones(len(found)), where=found > 0)
    return np.repeat(np.maximum(1 - explained, 0), k)


def _by_value(values: Array, displacement: Array, known: Array) -> Array:
    """Displacement of entries as a function of their value, learned where it is known."""
    if not known.any():
        return np.zeros(len(values))
    order = np.flatnonzero(known)[np.argsort(values[known], kind="stable")]
    edges = np.linspace(0, len(order), int(np.clip(len(order) // 20, 1, 20)) + 1).astype(np.int64)
    at, by = (np.add.reduceat(v[order], edges[:-1]) / np.diff(edges) for v in (values, displacement))
    return np.asarray(np.interp(values, at, by))


def _centres(coordinates: Sequence[Array], k: int, rng: np.random.RandomState) -> Array:
    """Centres of neighbourhoods, found on equally many rows of each dataset."""
    size = min(_MOST_CLUSTERED // len(coordinates), min(map(len, coordinates)))
    sample = np.vstack([z[rng.permutation(len(z))[:size]] for z in coordinates])
    return np.asarray(KMeans(k, n_init=1, random_state=rng).fit(sample).cluster_centers_)


def _memberships(coordinates: Array, centres: Array) -> tuple[Array, Array]:
    """The neighbourhoods nearest to each row, and its memberships, which sum to one."""
    near = nearest_rows(centres, min(len(centres), _MEMBERSHIPS), coordinates)
    distances, cluster = near.distances, near.indices
    excess = distances**2 - distances[:, :1] ** 2
    # With this scale, a typical row belongs to its second neighbourhood slightly less than to its first.
    scale = 2 * float(np.median(excess[:, min(1, len(centres) - 1)]))
    weights = np.exp(-excess / max(scale, np.finfo(np.float64).tiny))
    return cluster, weights / weights.sum(axis=1, keepdims=True)


def _shares(cluster: Array, membership: Array, weight: Array, k: int) -> Array:
    """Share of the rows of a dataset, by weight, in each of k neighbourhoods."""
    mass = np.bincount(cluster.ravel(), (membership * weight[:, None]).ravel(), minlength=k)
    return np.asarray(mass / weight.sum())


def _balanced(cluster: Array, membership: Array, weight: Array, shares: Array) -> Array:
    """Memberships adjusted so that the neighbourhoods have the shares of the reference, within bounds.

    Small shifts between datasets remain after alignment, so rows between two neighbourhoods are biased
    towards one of them. The bounded adjustment corrects this and hardly affects rows that clearly belong to
    one.
    """
    tilt, tilted, most = np.ones(len(shares)), membership, _MOST_TILT
    for _ in range(10):
        found = _shares(cluster, tilted, weight, len(shares))
        tilt = np.clip(tilt * (shares + 1e-3) / (found + 1e-3), 1 / most, most)
        tilted = membership * tilt[cluster]
        tilted /= tilted.sum(axis=1, keepdims=True)
    return tilted


def _get(matrix: Matrix, columns: slice) -> tuple[Array, Array, Array]:
    """Row, column (counted from the first of `columns`) and value of every entry, by column."""
    if sp.issparse(matrix):
        stored = slice(*matrix.indptr[[columns.start, columns.stop]])
        sizes = np.diff(matrix.indptr[columns.start : columns.stop + 1])
        return (
            matrix.indices[stored],
            np.repeat(np.arange(len(sizes)), sizes),
            matrix.data[stored].astype(float),
        )
    column, row = np.divmod(np.arange(len(matrix) * (columns.stop - columns.start)), len(matrix))
    return row, column, matrix[:, columns].ravel(order="F").astype(np.float64)


def _put(matrix: Matrix, columns: slice, values: Array) -> None:
    """Write values in the order of `_get`."""
    if sp.issparse(matrix):
        matrix.data[slice(*matrix.indptr[[columns.start, columns.stop]])] = values
    else:
        matrix[:, columns] = values.reshape(-1, len(matrix)).T


def _chunks(matrices: Sequence[Matrix], size: int = _CHUNK_ENTRIES) -> Iterator[slice]:
    """Ranges of columns that hold about `size` entries, by membership, of the largest dataset."""
    n, d = max(m.shape[0] for m in matrices), matrices[0].shape[1]
    counts = [np.diff(m.indptr) if sp.issparse(m) else np.full(d, n) for m in matrices]
    # Predictions that break ties are dense, so empty columns cost something too.
    entries = np.maximum(_MEMBERSHIPS * np.max(counts, axis=0), n / 4)
    edges = np.flatnonzero(np.diff(np.cumsum(entries) // size)) + 1
    for start, stop in pairwise([0, *edges.tolist(), d]):
        yield slice(start, stop)
