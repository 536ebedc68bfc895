r"""Small datasets that do not differ from each other are aligned as one.

A dataset of twenty rows tells little of where it belongs, and sixty of them are aligned with sixty errors.
In most studies they are samples of a few sources (an instrument, a laboratory), and those of one source need
no correction among themselves. So small datasets are pooled as long as Hotelling's test does not tell their
means apart,

.. math:: T^2 = \frac{n_a n_b}{n_a + n_b} (\bar x_a - \bar x_b)^T S^{-1} (\bar x_a - \bar x_b),

with S the covariance within the datasets in joint principal components. The two groups that are most alike
are pooled first, so that later comparisons have more rows. Whatever the groups, users see their own datasets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.stats

from harmonicalign._progress import FEW_DATASETS
from harmonicalign._typing import Array, Matrix
from harmonicalign.evidence.correspondence import Correspondence
from harmonicalign.evidence.significance import Significance
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.model import RefinedModel
from harmonicalign.method.problem import PairAlignment
from harmonicalign.paper.align import MultiAlignment
from harmonicalign.paper.harmonics import Harmonics
from harmonicalign.paper.joint import Joint
from harmonicalign.paper.reduction import Reduction, reduce_rows

__all__ = ["PooledModel", "Pooling", "pooled"]


@dataclass(frozen=True)
class Pooling:
    """Which datasets are aligned as one.

    Attributes
    ----------
    groups
        For every dataset its group; groups are numbered in the order of their first datasets.
    sizes
        Rows of every dataset.
    """

    groups: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def members(self) -> list[list[int]]:
        """Datasets of every group."""
        return [[i for i, own in enumerate(self.groups) if own == g] for g in range(max(self.groups) + 1)]

    def stacked(self, parts: Sequence[Any]) -> list[Any]:
        """Rows of every group, from those of every dataset."""
        return [_stacked([parts[i] for i in members]) for members in self.members]

    def split(self, parts: Sequence[Array]) -> list[Array]:
        """Rows of every dataset, from those of every group."""
        out: dict[int, Array] = {}
        for members, rows in zip(self.members, parts, strict=True):
            ends = np.cumsum([self.sizes[i] for i in members])[:-1]
            out.update(zip(members, np.split(rows, ends), strict=True))
        return [out[i] for i in range(len(self.groups))]


def pooled(
    datasets: Sequence[Matrix], random_state: int = 0, config: MethodConfig = DEFAULT
) -> Pooling | None:
    """Groups of datasets that are aligned as one; None if every dataset is a group of its own.

    Parameters
    ----------
    datasets
        Datasets whose columns mean the same.
    random_state
        Seed of the principal components.
    config
        Number of rows up to which datasets are pooled, and the level of the test.
    """
    sizes = tuple(int(d.shape[0]) for d in datasets)
    small = [i for i, n in enumerate(sizes) if n < config.pooled_rows]
    if len(sizes) <= FEW_DATASETS or len(small) < 2:
        return None
    joined = _alike([datasets[i] for i in small], len(sizes) - len(small), random_state, config)
    groups = np.arange(len(sizes))
    groups[small] = np.asarray(small)[joined]
    if len(np.unique(groups)) == len(groups):
        return None
    # Every group has the number of its first dataset so far.
    numbers = np.unique(groups, return_inverse=True)[1]
    return Pooling(tuple(map(int, numbers)), sizes)


def _alike(datasets: Sequence[Matrix], others: int, random_state: int, config: MethodConfig) -> Array:
    """For every dataset the first one of its group; with the others, two groups remain at least."""
    sizes = np.array([d.shape[0] for d in datasets])
    left = int(sizes.sum()) - len(sizes)
    rows = _stacked(datasets)
    width = min(config.n_components, left // 2, rows.shape[1])
    first = np.arange(len(sizes))
    if width < 1:
        return first
    z = reduce_rows(rows, width if width < min(rows.shape) else None, random_state)[1]
    parts = np.split(np.asarray(z), np.cumsum(sizes)[:-1])
    within = sum((part - part.mean(axis=0)).T @ (part - part.mean(axis=0)) for part in parts) / left
    values, vectors = scipy.linalg.eigh(within)
    kept = values > 1e-10 * max(values[-1], 0)
    k = int(kept.sum())
    if not k:
        return first
    means = np.array([part.mean(axis=0) for part in parts]) @ (vectors[:, kept] / np.sqrt(values[kept]))
    bound = scipy.stats.f.isf(config.pooling_level, k, left - k + 1) * k * left / (left - k + 1)
    weight = sizes.astype(float)
    apart = np.array([_distances(means, weight, i) for i in range(len(means))])
    remaining = len(sizes) + others
    while remaining > 2:
        i, j = sorted(map(int, np.unravel_index(np.argmin(apart), apart.shape)))
        if not apart[i, j] < bound:
            break
        first[first == first[j]] = first[i]
        means[i] = (weight[i] * means[i] + weight[j] * means[j]) / (weight[i] + weight[j])
        weight[i], weight[j] = weight[i] + weight[j], 0
        apart[i] = apart[:, i] = _distances(means, weight, i)
        apart[j] = apart[:, j] = np.inf
        remaining -= 1
    return first


def _distances(means: Array, weight: Array, i: int) -> Array:
    """Hotelling's statistic between a group and all others; infinite to itself and to those that are gone."""
    shared = weight[i] * weight / np.maximum(weight[i] + weight, 1)
    out = np.where(weight > 0, shared * np.sum((means - means[i]) ** 2, axis=1), np.inf)
    out[i] = np.inf
    return np.asarray(out)


def _stacked(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.vstack(list(parts))


@dataclass(frozen=True)
class PooledModel:
    """A model of pooled datasets, with the answers for each of them (`harmonicalign.fitted.protocol`).

    Attributes
    ----------
    model
        The model of the groups.
    pooling
        Which datasets they are.
    """

    method: ClassVar[str] = "refined"

    model: RefinedModel
    pooling: Pooling

    def group_of(self, i: int) -> int:
        """Group of dataset i; datasets that were added later are groups of their own."""
        groups = self.pooling.groups
        return groups[i] if i < len(groups) else max(groups) + 1 + i - len(groups)

    def first_of(self, group: int) -> int:
        """First dataset of a group."""
        members = self.pooling.members
        return members[group][0] if group < len(members) else group - len(members) + len(self.pooling.groups)

    @property
    def n_datasets(self) -> int:
        """Number of datasets, with those that were added later."""
        return len(self.pooling.groups) + len(self.model.added)

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """Principal components of the group of every dataset."""
        return tuple(self.model.reductions[self.group_of(i)] for i in range(self.n_datasets))

    @property
    def harmonics(self) -> tuple[Harmonics, ...]:
        """Harmonics of the group of every dataset."""
        known = self.model.harmonics
        return tuple(known[self.group_of(i)] for i in range(self.n_datasets)) if known else ()

    @property
    def alignment(self) -> MultiAlignment:
        """Correlations and rotations between groups, under the numbers of their first datasets."""
        found = self.model.alignment.pairs
        pairs = {(self.first_of(a), self.first_of(b)): pair for (a, b), pair in found.items()}
        return MultiAlignment(self.harmonics, pairs)

    @property
    def correspondence(self) -> Correspondence:
        """What the features say, over all pairs of groups."""
        return self.model.correspondence

    @property
    def significance(self) -> Significance:
        """Permutation test of the weakest pair of groups."""
        return self.model.significance

    def parent_of(self, i: int) -> int | None:
        """The first dataset of the group with which that of dataset i was aligned."""
        parent = self.model.parent_of(self.group_of(i))
        return None if parent is None else self.first_of(parent)

    def pair_of(self, i: int) -> PairAlignment | None:
        """The alignment of the group of dataset i with its parent; None for others than its first dataset."""
        group = self.group_of(i)
        return self.model.pair_of(group) if self.first_of(group) == i else None

    def tests_of(self, i: int) -> list[Significance]:
        """Permutation tests of the group of dataset i against its parent and its children."""
        return self.model.tests_of(self.group_of(i))

    def history(self) -> list[tuple[int, dict[str, Any]]]:
        """Every step of the alignments, under the first dataset of each group."""
        return [(self.first_of(group), step) for group, step in self.model.history()]

    def coordinates(self) -> list[Array]:
        """Embedding of every dataset."""
        return [*self.pooling.split(self.model.embedding.split()), *self.model.added]

    def place(self, i: int, rows: Any, signals: Any, device: Any = "cpu") -> Array:
        """Embedding of rows of dataset i."""
        return self.model.place(self.group_of(i), rows, signals, device)

    def joint_geometry(self, seed: int) -> Joint:
        """Graph and harmonics of the embedded rows of all datasets."""
        return self.model.embedding.joint_geometry(self.coordinates(), seed)

    def confidence(self, datasets: Sequence[Any], signals: Sequence[Any], seed: int) -> list[Array]:
        """Confidence of each row: how well other groups support it."""
        # Groups and datasets added later are the datasets of the model within.
        found = self.model.confidence(self.stacked(datasets), self.stacked(signals), seed)
        n_groups = len(self.pooling.members)
        return [*self.pooling.split(found[:n_groups]), *found[n_groups:]]

    def stacked(self, parts: Sequence[Any]) -> list[Any]:
        """Rows of every group of the fit, and of every dataset added later, from those of every dataset."""
        fitted = len(self.pooling.groups)
        return [*self.pooling.stacked(parts[:fitted]), *parts[fitted:]]

    def slim(self) -> PooledModel:
        """Only what places rows."""
        return replace(self, model=self.model.slim())
