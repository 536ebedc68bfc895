"""Clusters, some of which only one dataset has, with batch effects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array, RandomState
from harmonicalign.datasets._draws import random_orthogonal, share_of, unit
from harmonicalign.inputs.validate import check_integer, check_number, random_state_from

__all__ = ["ClustersPair", "clusters_pair"]


@dataclass(frozen=True, eq=False)
class ClustersPair:
    """Two samples of many unequal clusters, not all in both, with a batch effect on the second.

    Attributes
    ----------
    x, y
        (n_x, d) and (n_y, d).
    labels_x, labels_y
        Cluster of every row.
    shared
        The clusters that are in both datasets.
    shift
        (d,), the part of the batch effect that is common to all clusters.
    corresponds
        (d,) booleans: the columns that mean the same in both.
    """

    __repr__ = short_repr

    x: Array
    y: Array
    labels_x: Array
    labels_y: Array
    shared: Array
    shift: Array
    corresponds: Array


def clusters_pair(
    n_x: int = 1000,
    n_y: int = 1000,
    *,
    n_clusters: int = 20,
    only_x: int = 2,
    only_y: int = 2,
    n_features: int = 50,
    separation: float = 2.0,
    imbalance: float = 1.0,
    shift: float = 1.0,
    corrupted: float = 0.0,
    random_state: RandomState = None,
) -> ClustersPair:
    """Many clusters of very unequal sizes, some in one dataset only, and a batch effect between the two.

    Parameters
    ----------
    n_x, n_y
        Rows of the two datasets, at least two for each of their clusters.
    n_clusters
        Total number of clusters, including those of one dataset only.
    only_x, only_y
        Number of clusters in the first dataset only, and in the second only.
    n_features
        The number d of columns.
    separation
        Mean distance between the centres of two clusters, divided by that between two rows of one cluster.
    imbalance
        The share of the r-th largest cluster of a dataset is proportional to ``r**-imbalance``; the order of
        the clusters differs between the datasets. 0 makes them equal.
    shift
        Length of the batch effect, divided by the mean distance between the centres of two clusters. Every
        cluster has an additional effect of a quarter of this length.
    corrupted
        Share of the columns of ``y`` that are rotated among themselves and so do not correspond.
    random_state
        Seed of all random draws.

    Examples
    --------
    >>> pair = clusters_pair(300, 200, n_clusters=10, only_x=1, only_y=2, random_state=0)
    >>> len(pair.shared), len(np.unique(pair.labels_x)), len(np.unique(pair.labels_y))
    (7, 8, 9)
    """
    n_clusters = check_integer("n_clusters", n_clusters, minimum=1)
    only_x, only_y = check_integer("only_x", only_x), check_integer("only_y", only_y)
    d = check_integer("n_features", n_features, minimum=1)
    separation = check_number("separation", separation, minimum=0.0)
    imbalance = check_number("imbalance", imbalance, minimum=0.0)
    shift = check_number("shift", shift, minimum=0.0)
    share = share_of("corrupted", corrupted)
    if only_x + only_y >= n_clusters:
        raise ValueError(
            f"only_x + only_y is {only_x + only_y} of {n_clusters} clusters: none is left to share; "
            "raise n_clusters"
        )
    rng = random_state_from(random_state)
    order = rng.permutation(n_clusters)
    shared = order[only_x + only_y :]
    clusters = (
        np.concatenate([order[:only_x], shared]),
        np.concatenate([order[only_x : only_x + only_y], shared]),
    )
    # Two rows of unit noise differ by √2 per column (root mean square), and so do centres of unit spread.
    centres = separation * rng.normal(size=(n_clusters, d))
    length = shift * separation * np.sqrt(2 * d)
    effect = length * unit(rng.normal(size=d))
    of_cluster = effect + 0.25 * length * unit(rng.normal(size=(n_clusters, d)))

    labels = [
        _unequal_labels(name, n, present, imbalance, rng)
        for name, n, present in (("n_x", n_x, clusters[0]), ("n_y", n_y, clusters[1]))
    ]
    x, y = (centres[c] + rng.normal(size=(len(c), d)) for c in labels)
    y = y + of_cluster[labels[1]]
    corresponds = np.ones(d, dtype=bool)
    corresponds[rng.permutation(d)[: round(share * d)]] = False
    lost = np.flatnonzero(~corresponds)
    y[:, lost] = y[:, lost] @ random_orthogonal(len(lost), rng)
    return ClustersPair(
        x=x,
        y=y,
        labels_x=labels[0],
        labels_y=labels[1],
        shared=np.sort(shared),
        shift=effect,
        corresponds=corresponds,
    )


def _unequal_labels(
    name: str, n: int, clusters: Array, imbalance: float, rng: np.random.RandomState
) -> Array:
    n = check_integer(name, n, minimum=1)
    if n < 2 * len(clusters):
        raise ValueError(f"{name} is {n} for {len(clusters)} clusters; pass at least {2 * len(clusters)}")
    shares = np.arange(1, len(clusters) + 1) ** -imbalance
    sizes = 2 + rng.multinomial(n - 2 * len(clusters), shares / shares.sum())
    return np.asarray(rng.permutation(np.repeat(rng.permutation(clusters), sizes)))
