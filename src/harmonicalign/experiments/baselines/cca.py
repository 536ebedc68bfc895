"""Canonical correlation analysis with known pairs: an upper reference, as it uses what others must find.

References
----------
H. Hotelling. Relations between two sets of variates. Biometrika 28, 321-377 (1936).
doi:10.1093/biomet/28.3-4.321
B. Thompson. Canonical correlation analysis: uses and interpretation. Sage (1984).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harmonicalign.experiments.baselines._common import (
    Dataset,
    Embedding,
    check_dense,
    check_pairs,
    check_positive,
)


@dataclass(frozen=True, eq=False)  # pairs may be an array, which has no single truth value to compare
class CCA:
    """Project both datasets on the directions in which known pairs correlate most.

    Parameters
    ----------
    pairs
        One line per known pair: a row number of the first dataset, a row number of the second. None: the rows
        correspond in order.
    n_components
        Canonical directions to keep; no more than either dataset has.
    n_pca
        Principal components of each dataset that enter. With as many columns as pairs, any two datasets
        correlate perfectly; reducing first is what makes the directions mean something.
    """

    name: ClassVar[str] = "cca"

    pairs: ArrayLike | None = None
    n_components: int = 30
    n_pca: int = 50

    def __post_init__(self) -> None:
        check_positive(n_components=self.n_components, n_pca=self.n_pca)

    def fit_transform(self, datasets: Sequence[Dataset]) -> list[Embedding]:
        """Fit on the pairs and project all rows.

        Parameters
        ----------
        datasets
            Two matrices; their columns need not correspond, nor be equally many.

        Returns
        -------
        list of ndarray
            Canonical variates, unit variance over the pairs, best correlated first.
        """
        x, y = check_dense(datasets, exactly=2, same_columns=False)
        pairs = check_pairs(self.pairs, len(x), len(y))
        white_x = _whitener(x[pairs[:, 0]], self.n_pca, 0)
        white_y = _whitener(y[pairs[:, 1]], self.n_pca, 1)
        x, y = x - x[pairs[:, 0]].mean(axis=0), y - y[pairs[:, 1]].mean(axis=0)
        x, y = x @ white_x, y @ white_y
        u, _, vt = np.linalg.svd(x[pairs[:, 0]].T @ y[pairs[:, 1]], full_matrices=False)
        d = min(self.n_components, u.shape[1])
        return [x @ u[:, :d], y @ vt[:d].T]


def _whitener(x: NDArray[np.float64], n_pca: int, i: int) -> NDArray[np.float64]:
    """Projection on the leading principal components, each at unit variance over the rows given."""
    _, s, vt = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    rank = int(np.count_nonzero(s > s[0] * 1e-10)) if s[0] > 0 else 0
    if rank == 0:
        raise ValueError(f"datasets[{i}]: all paired rows are equal, nothing can correlate; give other pairs")
    d = min(n_pca, rank)
    whitener: NDArray[np.float64] = vt[:d].T / s[:d] * np.sqrt(len(x))
    return whitener
