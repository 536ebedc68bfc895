"""Labels recovered from the nearest rows of another dataset."""

from __future__ import annotations

import numpy as np

from harmonicalign._typing import Labels, MatrixLike
from harmonicalign.metrics.checks import (
    count_per_row,
    neighbour_blocks,
    neighbour_count,
    of_one_width,
    row_labels,
)

__all__ = ["knn_label_agreement"]


def knn_label_agreement(
    train: MatrixLike, train_labels: Labels, test: MatrixLike, test_labels: Labels, k: int = 5
) -> float:
    r"""Share of rows whose label is the majority among their nearest neighbours in the other dataset.

    The lazy classification of the paper's Fig. 2: every row of ``test`` takes the commonest label of its
    ``k`` nearest rows of ``train``,

    .. math:: \frac1n \sum_i \left[\, y_i = \operatorname{arg\,max}_c
              \left|\{ j \in N_k(z_i) : c_j = c \}\right| \,\right].

    A tied vote goes to the label that sorts first, as in scikit-learn's ``KNeighborsClassifier``.

    Parameters
    ----------
    train, test
        The aligned datasets, (n_train, d) and (n_test, d).
    train_labels, test_labels
        A label per row: strings, integers or booleans.
    k
        The number of neighbours that vote.

    Returns
    -------
    accuracy
        Between 0 and 1.

    Examples
    --------
    >>> knn_label_agreement([[0.0], [1.0], [9.0]], ["a", "a", "b"], [[0.4], [8.0]], ["a", "b"], k=1)
    1.0
    """
    train, test = of_one_width("train", train, "test", test)
    k = neighbour_count("k", k, len(train), "train")
    train_labels = row_labels("train_labels", train_labels, "train", train)
    test_labels = row_labels("test_labels", test_labels, "test", test)
    if (train_labels.dtype.kind == "U") != (test_labels.dtype.kind == "U"):
        raise ValueError(
            f"train_labels are {train_labels.dtype} and test_labels {test_labels.dtype}: "
            "no label can agree; pass both as strings or both as numbers"
        )
    classes, codes = np.unique(train_labels, return_inverse=True)
    correct = 0
    for rows, neighbours in neighbour_blocks(train, test, k, width=max(k, len(classes))):
        votes = count_per_row(codes[neighbours], len(classes))
        correct += int(np.sum(classes[votes.argmax(axis=1)] == test_labels[rows]))
    return correct / len(test)
