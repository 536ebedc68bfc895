"""Mutual nearest neighbours batch correction.

References
----------
L. Haghverdi, A. T. L. Lun, M. D. Morgan, J. C. Marioni. Batch effects in single-cell RNA-sequencing data are
corrected by matching mutual nearest neighbors. Nature Biotechnology 36, 421-427 (2018).
doi:10.1038/nbt.4091
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from harmonicalign.experiments.baselines._common import (
    Checked,
    Dataset,
    Embedding,
    check_datasets,
    check_positive,
    joint_pca,
)

_CHUNK = 1024  # rows whose kernel weights to all paired rows are held at once


@dataclass(frozen=True)
class MNN:
    """Correct every dataset towards the first by its mutual nearest neighbours.

    Rows are scaled to unit length. The second dataset is corrected towards the first, the third towards the
    two merged, and so on in the order given. Each mutual pair gives a correction vector, and a row moves by
    the average of these vectors, weighted by a Gaussian kernel of its distance to the paired rows of its own
    dataset.

    Parameters
    ----------
    k
        Two rows are a pair if each is among the other's `k` nearest in the other dataset.
    sigma
        Bandwidth of the kernel ``exp(-d² / 2σ²)``, on the scale of unit-length rows.
    cosine
        Scale rows to unit length first. Switch off only for data that is already on one scale; `sigma` is
        then in its units.
    n_components
        Reduce the (scaled) rows together to this many principal components first; needed for sparse data with
        many columns, which the correction would fill. None keeps the columns.
    random_state
        Seed of the PCA's solver.

    Notes
    -----
    The optional steps of the authors' package that rescale the variance along the correction or remove
    biological subspaces are left out. The paper's full text was not at hand: that σ is the standard deviation
    of the kernel is our reading.
    """

    name: ClassVar[str] = "mnn"

    k: int = 20
    sigma: float = 0.1
    cosine: bool = True
    n_components: int | None = None
    random_state: int | None = 0

    def __post_init__(self) -> None:
        check_positive(k=self.k, sigma=self.sigma, n_components=self.n_components)

    def fit_transform(self, datasets: Sequence[Dataset]) -> list[Embedding]:
        """Correct the datasets.

        Parameters
        ----------
        datasets
            Two or more matrices with the same columns; the first is the reference and does not move.

        Returns
        -------
        list of ndarray
            The corrected rows of each dataset, on the scale of unit-length rows.
        """
        scaled = check_datasets(datasets)
        if self.cosine:
            scaled = [_unit_rows(x, i) for i, x in enumerate(scaled)]
        if self.n_components is None:
            rows = [x.toarray() if isinstance(x, sparse.csr_array) else x for x in scaled]
        else:
            rows = joint_pca(scaled, self.n_components, self.random_state)
        corrected = [rows[0]]
        for target in rows[1:]:
            reference = np.vstack(corrected)
            pairs = mutual_pairs(reference, target, self.k)
            corrected.append(target + smoothed_correction(reference, target, pairs, self.sigma))
        return corrected


def _unit_rows(x: Checked, i: int) -> Checked:
    """Rows at unit length; a row of zeros has no direction to keep."""
    norms = np.sqrt(np.asarray((x * x).sum(axis=1))).ravel()
    if zeros := int(np.count_nonzero(norms == 0)):
        raise ValueError(
            f"datasets[{i}]: {zeros} rows are all zero and cannot be scaled to unit length; "
            "remove them or set cosine=False"
        )
    if isinstance(x, sparse.csr_array):
        return sparse.csr_array(sparse.diags_array(1 / norms) @ x)
    unit: NDArray[np.float64] = np.asarray(x) / norms[:, None]
    return unit


def mutual_pairs(x: NDArray[np.float64], y: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """Pairs (row of x, row of y) in which each is among the other's k nearest in the other dataset.

    Parameters
    ----------
    x, y
        Rows in one space.
    k
        Neighbours; no more than a dataset has are taken.

    Returns
    -------
    ndarray of shape (n_pairs, 2)
        Never empty: the closest two rows of all are always mutual.
    """
    in_y = _neighbour_matrix(x, y, k)
    in_x = _neighbour_matrix(y, x, k)
    mutual = in_y.multiply(in_x.T).tocoo()
    return np.column_stack([mutual.row, mutual.col]).astype(np.intp)


def _neighbour_matrix(queries: NDArray[np.float64], base: NDArray[np.float64], k: int) -> sparse.csr_array:
    """A one wherever a row of `base` is among the k nearest of a row of `queries`."""
    from sklearn.neighbors import NearestNeighbors

    # brute force is exact, works in chunks of bounded memory, and trees do not help in many dimensions
    search = NearestNeighbors(n_neighbors=min(k, len(base)), algorithm="brute").fit(base)
    return sparse.csr_array(search.kneighbors_graph(queries))


def smoothed_correction(
    reference: NDArray[np.float64],
    target: NDArray[np.float64],
    pairs: NDArray[np.intp],
    sigma: float,
    chunk_rows: int = _CHUNK,
) -> NDArray[np.float64]:
    """The vector by which each row of the target moves.

    ``u(y) = Σ w(y, y_l) (x_m - y_l) / Σ w(y, y_l)`` over all pairs (m, l), with
    ``w(y, y_l) = exp(-‖y - y_l‖² / 2σ²)``.

    Parameters
    ----------
    reference, target
        Rows in one space.
    pairs
        Mutual pairs (row of reference, row of target).
    sigma
        Bandwidth of the kernel.
    chunk_rows
        Rows of the target whose kernel weights are held at once.
    """
    # The kernel sees only the target's row of a pair, so pairs that share it are summed up beforehand.
    paired, which, count = np.unique(pairs[:, 1], return_inverse=True, return_counts=True)
    anchors = target[paired]
    partners = sparse.csr_array(
        (np.ones(len(pairs)), (which, pairs[:, 0])), shape=(len(paired), len(reference))
    )
    vectors = partners @ reference - count[:, None] * anchors
    squares = np.einsum("ij,ij->i", anchors, anchors)

    correction = np.empty_like(target)
    for start in range(0, len(target), chunk_rows):
        chunk = slice(start, start + chunk_rows)
        # ‖y‖² is the same for all weights of a row and drops out of the ratio
        exponent = (2 * target[chunk] @ anchors.T - squares) / (2 * sigma**2)
        exponent -= exponent.max(axis=1, keepdims=True)  # far from every pair all weights would round to zero
        weights = np.exp(exponent)
        correction[chunk] = (weights @ vectors) / (weights @ count)[:, None]
    return correction
