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
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.engines.threads import in_threads
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.inputs.rows import dense_columns

__all__ = ["Relations", "column_variances", "relate"]


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
