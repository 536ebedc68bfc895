"""No alignment: the datasets as they are, the lower reference for every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harmonicalign.experiments.baselines._common import (
    Dataset,
    Embedding,
    check_datasets,
    check_dense,
    check_positive,
    joint_pca,
)


@dataclass(frozen=True)
class Unaligned:
    """The datasets as they are.

    Parameters
    ----------
    n_components
        Reduce all rows together to this many principal components; None keeps the columns.
    random_state
        Seed of the PCA's solver.
    """

    name: ClassVar[str] = "none"

    n_components: int | None = None
    random_state: int | None = 0

    def __post_init__(self) -> None:
        check_positive(n_components=self.n_components)

    def fit_transform(self, datasets: Sequence[Dataset]) -> list[Embedding]:
        """Give the datasets back, dense, reduced if asked for.

        Parameters
        ----------
        datasets
            Two or more matrices with the same columns.

        Returns
        -------
        list of ndarray
            One matrix per dataset.
        """
        if self.n_components is None:
            return [x.copy() for x in check_dense(datasets)]
        return joint_pca(check_datasets(datasets), self.n_components, self.random_state)
