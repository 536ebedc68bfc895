r"""Features that have the same relations to each other in two datasets, found without an alignment.

Corresponding features have the same correlations: two markers of one cell type rise together in both
datasets, whatever rotation or offset the rows have. Each feature s therefore has a profile ``r_s`` in either
dataset: the correlations of the feature with the others, of its square with the others, and of the feature
with the squares of the others. The agreement of two profiles is

.. math:: c_s = \frac{\sum_t w_t\, r_{st} \cdot r'_{st}}
                     {\sqrt{\sum_t w_t\, |r_{st}|^2 \; \sum_t w_t\, |r'_{st}|^2}},
          \qquad w_t = \max(c_t, 0)^2,

in which features are weighted by their own agreement; a few iterations from equal weights find both. Squares
matter if there are few features: a mixture of features can have nearly the correlations of a true one, but
it is less skewed. Squares also reveal signs: if all features of one dataset are negated, correlations between
features keep their sign and those between squares and features change it.

Correlations between columns also show where these do not correspond as they are given: because they come in
another order, or from two separate decompositions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import stats

from harmonicalign._typing import Array
from harmonicalign.engines.threads import in_threads
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.inputs.rows import dense_columns

__all__ = ["Order", "Relations", "column_variances", "other_order", "relate", "separate_decompositions"]


_BLOCK_BYTES = 2**20
"""Relations of several permutations are compared together while they take no more than this."""


@dataclass(frozen=True)
class Relations:
    """Relations between features in both of two datasets.

    Attributes
    ----------
    features
        Indices of the features used, (m,).
    n_features
        Total number of features.
    x, y
        Correlations between features, of their squares with features, and of features with squares, in
        the first and the second dataset, (3, m, m); zero between a feature and itself.
    skew
        Agreement of the correlations between squares and features, relative to that between features.
    n_rows
        Rows of the two datasets; 0 if unknown.
    """

    features: Array
    n_features: int
    x: Array
    y: Array
    skew: float
    config: EvidenceConfig = EVIDENCE
    n_rows: tuple[int, int] = (0, 0)

    @property
    def opposed(self) -> bool:
        """Whether features with the same relations seem to have opposite signs."""
        return self.skew < -self.config.opposed_skew

    def negated(self) -> Relations:
        """The relations if all features of the second dataset were negated."""
        signs = np.array([1, -1, -1], dtype=self.y.dtype)
        return replace(self, y=self.y * signs[:, None, None], skew=-self.skew)

    def scores(self, partners: Array | None = None) -> Array:
        """Agreement ``c_s`` of the features' profiles, in [−1, 1].

        Parameters
        ----------
        partners
            For each feature, the position in `features` of its partner in the second dataset, a permutation,
            or several, one per row; None compares each feature with itself.
        """
        if partners is None or partners.ndim == 1:
            y = self.y if partners is None else _reordered(self.y, partners[None])[:, 0]
            return _scores(self.x, y, self.config.relation_steps)
        step = max(1, _BLOCK_BYTES // self.y.nbytes)
        blocks = [partners[start : start + step] for start in range(0, len(partners), step)]

        def compare(some: Array) -> Array:
            return _scores(self.x[:, None], _reordered(self.y, some), self.config.relation_steps)

        return np.concatenate(in_threads(compare, blocks))

    def profiles(self, known: Array) -> tuple[Array, Array]:
        """Profiles of all used features in both datasets, (3m, m), columns of unit length.

        A profile holds the relations to known features, each times the square root of its weight, so that the
        product of two profiles is the agreement of two features. The weights follow from the relations among
        the known features alone.

        Parameters
        ----------
        known
            Which of the used features are known, (m,) of bool.
        """
        among = np.flatnonzero(known)
        x, y = (r.take(among, axis=1).take(among, axis=2) for r in (self.x, self.y))
        root = np.zeros(len(known))
        root[among] = np.maximum(_scores(x, y, self.config.relation_steps), 0)
        a, b = ((r * root[:, None]).reshape(-1, len(known)).astype(np.float64) for r in (self.x, self.y))
        lengths = np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=0)
        x, y = (
            np.divide(p, size, out=np.zeros_like(p), where=size > 0)
            for p, size in zip((a, b), lengths, strict=True)
        )
        return x, y

    def weights(self) -> Array:
        """``max(c_s, 0)²`` of all features, 0 for those that are not used; 1 for all if none agrees."""
        out = np.zeros(self.n_features)
        out[self.features] = np.maximum(self.scores(), 0) ** 2
        return out if out.any() else np.ones(self.n_features)


def relate(x: Any, y: Any, config: EvidenceConfig = EVIDENCE) -> Relations:
    """Relations of the features of two datasets, dense or sparse matrices with the same columns."""
    spread = column_variances(x) * column_variances(y)
    features = np.sort(np.argsort(-spread, kind="stable")[: config.related_features])
    (rx, square_x), (ry, square_y) = (_correlations(s, features, config.clipped_deviations) for s in (x, y))
    # Weights from correlations alone, which do not depend on the signs. Squares are weighted by their spread,
    # because correlations with squares are mostly noise if the squares hardly vary.
    weights = np.maximum(_scores(rx[:1], ry[:1], config.relation_steps), 0) ** 2
    alike = weights @ (rx[0] * ry[0]) @ weights
    skew = (weights * square_x * square_y) @ (rx[1] * ry[1]) @ weights
    rows = x.shape[0], y.shape[0]
    return Relations(features, len(spread), rx, ry, float(skew / alike) if alike > 0 else 0.0, config, rows)


def _reordered(y: Array, partners: Array) -> Array:
    """Relations (a, m, m) with features in each order of `partners`, (n, m), as (a, n, m, m)."""
    if len(partners) == 1:  # of many features, which go one by one, this takes half as long
        return np.asarray(y.take(partners[0], axis=1).take(partners[0], axis=2)[:, None])
    return np.asarray(y[:, partners[:, :, None], partners[:, None, :]])


def _scores(x: Array, y: Array, n_steps: int) -> Array:
    """Agreement of profiles, tables (a, …, m, m) of relations in two datasets, of which x may be shared."""
    both = np.einsum("a...,a...->...", x, y)
    squares_x, squares_y = np.einsum("a...,a...->...", x, x), np.einsum("a...,a...->...", y, y)
    found = weights = np.ones(both.shape[:-1], dtype=both.dtype)
    for _ in range(n_steps):
        of_x, of_y, agreeing = ((m @ weights[..., None])[..., 0] for m in (squares_x, squares_y, both))
        norm = np.sqrt(of_x * of_y)
        found = np.divide(agreeing, norm, out=np.zeros_like(norm), where=norm > 0)
        weights = np.maximum(found, 0) ** 2
    return np.asarray(found, dtype=np.float64)


def column_variances(signals: Any) -> Array:
    """Variance of every column of a dense or sparse matrix."""
    if not sp.issparse(signals):
        return np.asarray(signals.var(axis=0))
    mean = np.asarray(signals.mean(axis=0)).ravel()
    square = np.asarray(signals.multiply(signals).mean(axis=0)).ravel()
    return np.asarray(np.maximum(square - mean**2, 0))


def _correlations(signals: Any, features: Array, most: float) -> tuple[Array, Array]:
    """Correlations of features and squares, (3, m, m), in single precision; spreads of the squares, (m,)."""
    z = _standardised(dense_columns(signals, features))
    square = np.clip(z, -most, most) ** 2
    with_squares = _standardised(square).T @ z / len(z)
    out = np.stack([z.T @ z / len(z), with_squares, with_squares.T]).astype(np.float32)
    out[:, np.arange(len(features)), np.arange(len(features))] = 0
    return out, square.std(axis=0)


def _standardised(x: Array) -> Array:
    """Columns of mean 0 and variance 1; those that do not vary are zero."""
    size = np.abs(x).max(axis=0)
    x = x - x.mean(axis=0)
    spread = x.std(axis=0)
    return np.asarray(np.divide(x, spread, out=np.zeros_like(x), where=spread > 1e-9 * size))


@dataclass(frozen=True)
class Order:
    """Another order of the second dataset's columns, under which the columns agree better.

    Attributes
    ----------
    kind
        "shifted"; "reversed"; or, for pictures whose columns are their pixels row by row, "mirrored" (left
        and right) and "upside down".
    by
        Columns by which they are shifted, also after being reversed; or the width of the pictures.
    partners
        For each column of the first dataset, the column of the second that it looks like, or −1.
    agreement, as_given
        Agreement of the relations between columns, in [−1, 1], in this order and in the one given.
    """

    kind: str
    by: int
    partners: Array
    agreement: float
    as_given: float

    def __str__(self) -> str:
        how = {
            "shifted": f"shifted by {self.by:+d}",
            "reversed": "in reverse order" + (f" and shifted by {self.by:+d}" if self.by else ""),
            "mirrored": f"pixels of pictures {self.by} wide that are mirrored left to right",
            "upside down": f"pixels of pictures {self.by} wide that are upside down",
        }[self.kind]
        kept = np.flatnonzero(self.partners >= 0)
        j = int(kept[len(kept) // 2])
        return (
            f"{how}: column {j} of the first looks like column {self.partners[j]} of the second (agreement "
            f"of the correlations between columns {self.agreement:.2f}, and {self.as_given:.2f} as given)"
        )


def other_order(relations: Relations, config: EvidenceConfig = EVIDENCE) -> Order | None:
    """The order of the second dataset's columns that fits clearly better than the one given, or None.

    The correlations between columns are the same in both datasets if columns correspond, whatever the rows.
    They are compared after shifts, after reversal, and after mirroring pictures of every possible width.
    Neighbouring columns of spectra and pictures are alike, so that the best order must leave clearly less
    disagreement than the one given.
    """
    d = relations.n_features
    strength = (relations.x[0] ** 2).sum(axis=1) + (relations.y[0] ** 2).sum(axis=1)
    strongest = np.argsort(-strength, kind="stable")[: config.ordered_features]
    used = relations.features[np.sort(strongest)]
    place = np.full(d, -1)
    place[relations.features] = np.arange(len(relations.features))
    as_given = _agreement(relations, used, place, np.arange(d), 0.0)
    best: Order | None = None
    for kind, by, partners in _orders(d, config.most_shift):
        found = _agreement(relations, used, place, partners, config.least_overlap)
        if best is None or found > best.agreement:
            best = Order(kind, by, np.where((partners >= 0) & (partners < d), partners, -1), found, as_given)
    if best is None or best.agreement < config.order_agreement:
        return None
    left = (1 - best.agreement) / max(1 - as_given, 1e-12)
    near_all = best.agreement >= config.order_near_all >= as_given
    return best if left <= (2 * config.order_left if near_all else config.order_left) else None


def _orders(d: int, most: int) -> list[tuple[str, int, Array]]:
    """Orders other than the one given: what they are, and the partner of every column."""
    i, reach = np.arange(d), min(most, d // 2)
    out = [("shifted", k, i + k) for k in range(-reach, reach + 1) if k]
    out += [("reversed", k, d - 1 - i + k) for k in range(-reach, reach + 1)]
    for width in range(3, d // 3 + 1):
        if d % width == 0:
            mirrored = (i // width) * width + (width - 1 - i % width)
            out += [("mirrored", width, mirrored), ("upside down", width, d - 1 - mirrored)]
    return out


def _agreement(relations: Relations, used: Array, place: Array, partners: Array, overlap: float) -> float:
    """Cosine between the correlations of columns and those of their partners; −1 if too few have one."""
    other = partners[used]
    there = (other >= 0) & (other < len(place))
    there[there] = place[other[there]] >= 0
    if there.sum() < max(EVIDENCE.fewest_features, overlap * len(used)):
        return -1.0
    p, q = place[used[there]], place[other[there]]
    x, y = (r[0].take(o, axis=0).take(o, axis=1) for r, o in ((relations.x, p), (relations.y, q)))
    size = _length(x, relations.n_rows[0]) * _length(y, relations.n_rows[1])
    return min(1.0, float(np.vdot(x, y)) / size) if size > 0 else 0.0


def _length(correlations: Array, n_rows: int) -> float:
    """Norm of a table of correlations, without the noise of few rows; 0 if that is most of it."""
    squares = correlations.astype(np.float64) ** 2
    noise = float(((1 - squares) ** 2).sum() - len(squares)) / n_rows if n_rows else 0.0
    rest = float(squares.sum()) - noise
    return float(np.sqrt(rest)) if rest > noise else 0.0


def separate_decompositions(x: Any, y: Any, agreeing: float = 0.0, config: EvidenceConfig = EVIDENCE) -> bool:
    """Whether the columns look like the components of two separate PCAs or SVDs.

    Such columns do not correspond, even if some of the first agree up to their sign. Within either dataset
    they are uncorrelated, and in order of their variance. If they are exactly uncorrelated in both, the
    decompositions were separate. If they are as uncorrelated as a sample of the rows would be, this is taken
    to be so unless most columns correspond, as after one decomposition of all rows together.

    Parameters
    ----------
    x, y
        Signals of both datasets.
    agreeing
        Share of the columns that correspond when held out.
    config
        Bounds.
    """
    if min(x.shape) < config.fewest_features or min(y.shape) < config.fewest_features:
        return False
    found = [_uncorrelated(s) for s in (x, y)]
    if not all(ordered for _, ordered in found):
        return False
    bound = (
        config.exactly_uncorrelated if agreeing >= config.one_decomposition else config.nearly_uncorrelated
    )
    return all(size <= bound for size, _ in found)


def _uncorrelated(signals: Any) -> tuple[float, bool]:
    """Root mean square correlation of the columns in units of that of independent ones; whether in order.

    Correlations are taken about the means (PCA) and about zero (SVD), and the smaller figure counts.
    """
    n, d = signals.shape
    columns = np.arange(min(d, 200))
    dense = dense_columns(signals, columns).astype(np.float64)
    sizes, in_order = [], False
    for z in (dense - dense.mean(axis=0), dense):
        length = np.linalg.norm(z, axis=0)
        if not (length > 1e-12 * max(float(length.max()), 1e-300)).all():
            return np.inf, False
        products = (z / length).T @ (z / length)
        sizes.append(float(np.sqrt(n * np.mean(products[~np.eye(len(columns), dtype=bool)] ** 2))))
        rank = stats.spearmanr(length, -columns).statistic if np.ptp(length) > 0 else 0.0
        in_order |= bool(rank >= 0.9)
    return min(sizes), in_order
