"""Procrustes alignment with known pairs: an upper reference, as it uses what the other methods must find.

References
----------
P. H. Schönemann. A generalized solution of the orthogonal Procrustes problem. Psychometrika 31, 1-10 (1966).
doi:10.1007/BF02289451
J. C. Gower. Generalized Procrustes analysis. Psychometrika 40, 33-51 (1975). doi:10.1007/BF02291478
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harmonicalign.experiments.baselines._common import Dataset, Embedding, check_dense, check_pairs


@dataclass(frozen=True, eq=False)  # pairs may be an array, which has no single truth value to compare
class Procrustes:
    """Shift, scale and rotate the second dataset onto the first, by least squares over known pairs.

    Parameters
    ----------
    pairs
        One line per known pair: a row number of the first dataset, a row number of the second. None: the rows
        correspond in order.
    scale
        Also fit one scale factor.
    """

    name: ClassVar[str] = "procrustes"

    pairs: ArrayLike | None = None
    scale: bool = True

    def fit_transform(self, datasets: Sequence[Dataset]) -> list[Embedding]:
        """Move the second dataset onto the first.

        Parameters
        ----------
        datasets
            Two matrices. The narrower one is filled up with columns of zeros, as Gower does.

        Returns
        -------
        list of ndarray
            The first dataset as it is, and the second in its space.
        """
        x, y = check_dense(datasets, exactly=2, same_columns=False)
        pairs = check_pairs(self.pairs, len(x), len(y))
        width = max(x.shape[1], y.shape[1])
        x, y = _pad(x, width), _pad(y, width)
        paired_x, paired_y = x[pairs[:, 0]], y[pairs[:, 1]]
        mean_x, mean_y = paired_x.mean(axis=0), paired_y.mean(axis=0)
        paired_x, paired_y = paired_x - mean_x, paired_y - mean_y
        u, s, vt = np.linalg.svd(paired_y.T @ paired_x)
        spread = float(np.sum(paired_y**2))
        factor = float(s.sum()) / spread if self.scale and spread > 0 else 1.0
        return [x, factor * (y - mean_y) @ (u @ vt) + mean_x]


def _pad(x: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    return np.pad(x, ((0, 0), (0, width - x.shape[1])))
