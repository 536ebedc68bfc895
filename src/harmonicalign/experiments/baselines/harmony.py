"""Harmony, through the package harmonypy.

References
----------
I. Korsunsky, N. Millard, J. Fan, et al. Fast, sensitive and accurate integration of single-cell data with
Harmony. Nature Methods 16, 1289-1296 (2019). doi:10.1038/s41592-019-0619-0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harmonicalign.experiments.baselines._common import (
    Dataset,
    Embedding,
    check_datasets,
    check_positive,
    joint_pca,
    split,
)


@dataclass(frozen=True)
class Harmony:
    """Joint PCA, then soft clustering with a correction per cluster (Harmony).

    Parameters
    ----------
    n_components
        Principal components of all rows together.
    sigma
        Width of the soft clusters. With the default of the package, clusters of distant datasets contain rows
        of one dataset only, and nothing is corrected; wider clusters help then.
    theta
        Weight of the diversity of datasets within a cluster; None for the package's default.
    max_iter
        Maximum number of rounds of clustering and correction.
    random_state
        Random seed.
    """

    name: ClassVar[str] = "harmony"

    n_components: int = 50
    sigma: float = 0.1
    theta: float | None = None
    max_iter: int = 10
    random_state: int = 0

    def __post_init__(self) -> None:
        check_positive(n_components=self.n_components, max_iter=self.max_iter, sigma=self.sigma)

    def fit_transform(self, datasets: Sequence[Dataset]) -> list[Embedding]:
        """Correct the datasets' joint principal components.

        Parameters
        ----------
        datasets
            Two or more matrices with the same columns.

        Returns
        -------
        list of ndarray
            Corrected components of each dataset.
        """
        checked = check_datasets(datasets)
        from harmonypy import run_harmony

        stacked = np.vstack(joint_pca(checked, self.n_components, self.random_state))
        labels = np.repeat([f"dataset {i}" for i in range(len(checked))], [x.shape[0] for x in checked])
        result = run_harmony(
            stacked,
            {"dataset": labels},
            "dataset",
            sigma=self.sigma,
            theta=self.theta,
            max_iter_harmony=self.max_iter,
            random_state=self.random_state,
            verbose=False,
            ncores=1,  # the experiments are parallel over their cells already
        )
        corrected = np.asarray(result.Z_corr, dtype=float)
        # Before version 2.0 the package returned components by rows. joint_pca leaves fewer components than
        # rows, so the shape is unambiguous.
        if corrected.shape != stacked.shape:
            corrected = corrected.T
        return split(corrected, checked)
