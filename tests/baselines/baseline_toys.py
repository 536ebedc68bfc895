"""Data that the tests of several comparison methods use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

Toy = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]


def shifted_clusters() -> Toy:
    """Three clusters on different rays, the second batch shifted by the same vector throughout."""
    rng = np.random.default_rng(0)
    centres = 6 * np.eye(8)[:3] + 3
    labels_x, labels_y = rng.integers(3, size=150), rng.integers(3, size=120)
    x = centres[labels_x] + 0.5 * rng.normal(size=(150, 8))
    y = centres[labels_y] + 0.5 * rng.normal(size=(120, 8)) + 3 * np.eye(8)[7]
    return x, y, labels_x, labels_y


def transfer_accuracy(
    z: list[NDArray[np.float64]], labels_x: NDArray[np.int64], labels_y: NDArray[np.int64]
) -> float:
    """Labels of the second dataset from the 5 nearest rows of the first."""
    return float(KNeighborsClassifier(5).fit(z[0], labels_x).score(z[1], labels_y))


def same_batch_share(z: list[NDArray[np.float64]]) -> float:
    """Share of a row's ten nearest others that are of its own dataset: one half when equal sizes mix."""
    from sklearn.neighbors import NearestNeighbors

    batch = np.repeat(np.arange(len(z)), [len(rows) for rows in z])
    found = NearestNeighbors(n_neighbors=10).fit(np.vstack(z)).kneighbors(return_distance=False)
    return float(np.mean(batch[found] == batch[:, None]))
