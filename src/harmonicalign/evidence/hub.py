"""Signals of several datasets that are linked pair by pair, in the features of one of them, the hub.

The value of a feature of the hub in another dataset is the mean of the features linked with it there,
weighted by the links. A dataset without links to the hub is expressed in the features of one that it is
linked with, and through them in those of the hub.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import MatrixLike
from harmonicalign.evidence.known import SignalMap
from harmonicalign.inputs.links import check_links

__all__ = ["signals_from_links"]


def signals_from_links(
    links: Mapping[tuple[int, int], MatrixLike],
    widths: Sequence[int],
    names: Sequence[object] | None = None,
) -> list[SignalMap]:
    """Maps from the features of every dataset to those of the hub that all of them have relatives of.

    Parameters
    ----------
    links
        Weights ≥ 0 between the features of two datasets, by numbers of datasets.
    widths
        Number of features of every dataset.
    names
        Names of the datasets in messages.
    """
    names = range(len(widths)) if names is None else names
    checked = {
        (i, j): check_links(matrix, (widths[i], widths[j]), f"links of {names[i]!r} and {names[j]!r}")
        for (i, j), matrix in links.items()
    }
    degree = [sum(i in pair for pair in checked) for i in range(len(widths))]
    hub = int(np.argmax(degree))
    found = {hub: sp.csr_matrix(sp.eye_array(widths[hub]))}
    while reach := [pair for pair in checked if (pair[0] in found) != (pair[1] in found)]:
        i, j = max(reach, key=lambda pair: checked[pair].nnz)
        matrix = checked[i, j]
        if i in found:
            i, j, matrix = j, i, matrix.T
        found[i] = _means(sp.csr_matrix(matrix @ found[j]))
    if lost := [i for i in range(len(widths)) if i not in found]:
        raise ValueError(
            f"links do not join dataset {names[lost[0]]!r} to the others; add links with one of them, or "
            "leave it out"
        )
    common = np.logical_and.reduce([np.diff(m.tocsc().indptr) > 0 for m in found.values()])
    if common.sum() < 2:
        raise ValueError(
            f"links: {common.sum()} features of dataset {names[hub]!r} have relatives in all datasets; at "
            "least 2 are needed. Align the datasets two at a time, or add links"
        )
    zero = np.zeros(int(common.sum()))
    return [SignalMap(sp.csr_matrix(found[i][:, common]), zero) for i in range(len(widths))]


def _means(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Columns that sum to one, or stay empty."""
    total = np.asarray(matrix.sum(axis=0), dtype=np.float64).ravel()
    return sp.csr_matrix(matrix @ sp.diags_array(1 / np.where(total > 0, total, 1)))
