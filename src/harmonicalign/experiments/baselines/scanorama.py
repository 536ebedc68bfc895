"""Scanorama, through its package.

References
----------
B. Hie, B. Bryson, B. Berger. Efficient integration of heterogeneous single-cell transcriptomes using
Scanorama. Nature Biotechnology 37, 685-691 (2019). doi:10.1038/s41587-019-0113-3
"""

from __future__ import annotations

import io
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from harmonicalign.experiments.baselines._common import Dataset, Embedding, check_datasets, check_positive


@dataclass(frozen=True)
class Scanorama:
    """Panorama stitching by mutual nearest neighbours among all datasets.

    Parameters
    ----------
    n_components
        Dimensions of the joint SVD; no more than the data has.
    k
        Neighbours in the search for mutual pairs.
    sigma
        Bandwidth of the smoothing of correction vectors.
    alpha
        Smallest share of matched rows for two datasets to be joined.
    random_state
        Seed.
    """

    name: ClassVar[str] = "scanorama"

    n_components: int = 100
    k: int = 20
    sigma: float = 15.0
    alpha: float = 0.1
    random_state: int = 0

    def __post_init__(self) -> None:
        check_positive(n_components=self.n_components, k=self.k, sigma=self.sigma)

    def fit_transform(self, datasets: Sequence[Dataset]) -> list[Embedding]:
        """Integrate the datasets.

        Parameters
        ----------
        datasets
            Two or more matrices with the same columns.

        Returns
        -------
        list of ndarray
            Integrated low-dimensional rows of each dataset.
        """
        checked = [sparse.csr_matrix(x) for x in check_datasets(datasets)]
        rows, columns = sum(x.shape[0] for x in checked), checked[0].shape[1]
        with _as_it_was():
            from scanorama import integrate

            integrated, _ = integrate(
                checked,
                [[f"feature {j}" for j in range(columns)]] * len(checked),
                dimred=max(1, min(self.n_components, rows - 1, columns - 1)),
                knn=self.k,
                sigma=self.sigma,
                alpha=self.alpha,
                approx=False,  # the approximate search is annoy's, which crashes on some machines
                verbose=0,
                seed=self.random_state,
            )
        return [np.asarray(z, dtype=float) for z in integrated]


@contextmanager
def _as_it_was() -> Iterator[None]:
    """Restore the caller's random state and suppress output: the package sets the global seeds and prints."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        # it also prints the number of shared features whatever its verbosity
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
