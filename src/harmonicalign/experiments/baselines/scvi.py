"""scVI, through its package.

References
----------
R. Lopez, J. Regier, M. B. Cole, M. I. Jordan, N. Yosef. Deep generative modeling for single-cell
transcriptomics. Nature Methods 15, 1053-1058 (2018). doi:10.1038/s41592-018-0229-2
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from harmonicalign.experiments.baselines._common import Dataset, Embedding, check_datasets, check_positive


@dataclass(frozen=True)
class ScVI:
    """A variational autoencoder of counts whose decoder knows the batch.

    Parameters
    ----------
    n_components
        Number of latent variables.
    max_epochs
        Passes over the data; None leaves the choice to the package.
    random_state
        Random seed.
    """

    name: ClassVar[str] = "scvi"

    n_components: int = 10
    max_epochs: int | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        check_positive(n_components=self.n_components, max_epochs=self.max_epochs)

    def fit_transform(self, datasets: Sequence[Dataset]) -> list[Embedding]:
        """Latent means of the rows of every dataset.

        Parameters
        ----------
        datasets
            Two or more matrices of counts with the same columns.

        Returns
        -------
        list of ndarray
            One array per dataset.
        """
        checked = [sparse.csr_matrix(x) for x in check_datasets(datasets)]
        for i, x in enumerate(checked):
            if x.nnz and (x.data.min() < 0 or (x.data != np.floor(x.data)).any()):
                raise ValueError(f"datasets: scVI needs counts, and dataset {i} holds other numbers")
        import anndata
        import scvi

        sizes = [x.shape[0] for x in checked]
        data = anndata.AnnData(sparse.vstack(checked, format="csr").astype(np.float32))
        data.obs["batch"] = np.repeat([f"{i}" for i in range(len(checked))], sizes)
        scvi.settings.seed = self.random_state
        level = logging.getLogger("lightning.pytorch").level
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scvi.model.SCVI.setup_anndata(data, batch_key="batch")
                model = scvi.model.SCVI(data, n_latent=self.n_components)
                model.train(max_epochs=self.max_epochs, enable_progress_bar=False)
                latent = np.asarray(model.get_latent_representation(), dtype=float)
        finally:
            logging.getLogger("lightning.pytorch").setLevel(level)
        return np.split(latent, np.cumsum(sizes)[:-1])
