"""Mixing: how evenly the neighbourhoods of rows draw on all datasets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harmonicalign._typing import Array, Labels, MatrixLike
from harmonicalign.inputs.validate import check_integer
from harmonicalign.metrics.checks import count_per_row, dense, neighbour_blocks, neighbour_count, row_labels

__all__ = ["mixing_entropy"]


def mixing_entropy(
    datasets: Sequence[MatrixLike], k: int = 30, *, labels: Sequence[Labels] | None = None
) -> float:
    r"""How well datasets mix: entropy of the datasets in a neighbourhood, relative to a random draw.

    Of the k nearest neighbours of row i among all other rows, let :math:`c_{id}` come from dataset d, which
    has :math:`n_d` rows. The score is

    .. math:: \frac1D \sum_d \min\left(1, \frac{\operatorname{mean}_{i ∈ d} H(p_i)}{E_d}\right), \qquad
              p_{id} = \frac{c_{id} / n_d}{\sum_e c_{ie} / n_e}, \qquad H(p) = −\sum_d p_d \log p_d,

    where :math:`E_d` is the mean of the same entropy over k rows drawn at random, without replacement, from
    all other rows (20,000 draws from a generator of its own). So 1 is as well mixed as by chance, whatever
    k and the sizes of the datasets, and 0 is separate. A dataset that mixes more evenly than by chance
    scores 1.

    Parameters
    ----------
    datasets
        Two or more aligned datasets of one width.
    k
        The number of neighbours, 2 or more; at most the number of other rows.
    labels
        Optionally a label per row of every dataset. The score is then computed among the rows of each label
        that two or more datasets have (with k lowered where a label has fewer rows), and averaged with
        the numbers of rows as weights: classes that only one dataset has are rightly unmixed, and a class
        commoner in one dataset than in another is no failure either.

    Returns
    -------
    mixing
        Between 0 and 1, larger is better mixed.

    Examples
    --------
    >>> a, b = np.arange(40.0)[:, None], np.arange(20.0)[:, None] + 1000.0
    >>> mixing_entropy([a, b], k=5)
    0.0
    """
    if len(datasets) < 2:
        raise ValueError(f"datasets holds {len(datasets)} dataset(s); mixing needs two or more")
    rows = [dense(f"datasets[{i}]", x) for i, x in enumerate(datasets)]
    for i, x in enumerate(rows):
        if x.shape[1] != rows[0].shape[1]:
            raise ValueError(
                f"datasets[{i}] has {x.shape[1]} columns but datasets[0] has {rows[0].shape[1]}; "
                "pass the aligned coordinates"
            )
    stacked = np.concatenate(rows)
    source = np.repeat(np.arange(len(rows)), [len(x) for x in rows])
    k = check_integer("k", k, minimum=2)
    if labels is None:
        neighbour_count("k", k, len(stacked) - 1, "datasets (less the row itself)")
        return _mixing(stacked, source, k)
    if len(labels) != len(rows):
        raise ValueError(
            f"labels holds {len(labels)} arrays but there are {len(rows)} datasets; pass one for each"
        )
    flat = np.concatenate(
        [
            row_labels(f"labels[{i}]", c, f"datasets[{i}]", x)
            for i, (c, x) in enumerate(zip(labels, rows, strict=True))
        ]
    )
    scores, weights = [], []
    for label in np.unique(flat):
        member = flat == label
        size = int(member.sum())
        if len(np.unique(source[member])) > 1 and size > 2:
            scores.append(_mixing(stacked[member], source[member], min(k, size - 1)))
            weights.append(size)
    if not scores:
        raise ValueError(
            "labels: no label occurs in two datasets, so nothing should mix; check that they are spelt alike"
        )
    return float(np.average(scores, weights=weights))


def _mixing(stacked: Array, source: Array, k: int) -> float:
    """The score of :func:`mixing_entropy` for rows of the datasets numbered by `source`."""
    _, source = np.unique(source, return_inverse=True)
    sizes = np.bincount(source)
    total = np.zeros(len(sizes))
    for rows, neighbours in neighbour_blocks(
        stacked, stacked, k, width=max(k, len(sizes)), exclude_self=True
    ):
        entropy = _balanced_entropy(count_per_row(source[neighbours], len(sizes)), sizes)
        total += np.bincount(source[rows], weights=entropy, minlength=len(sizes))
    expected = np.array([_expected_entropy(sizes, d, k) for d in range(len(sizes))])
    # A dataset of one row beside one other always has that other as its neighbour: it is left out.
    voting = expected > 0
    return float(np.minimum(total[voting] / sizes[voting] / expected[voting], 1.0).mean())


def _expected_entropy(sizes: Array, own: int, k: int, n_draws: int = 20_000) -> float:
    """Mean entropy of k rows drawn without replacement from all rows but one of dataset `own`."""
    others = sizes - (np.arange(len(sizes)) == own)
    counts = np.random.default_rng(0).multivariate_hypergeometric(others, k, size=n_draws)
    return float(_balanced_entropy(counts, sizes).mean())


def _balanced_entropy(counts: Array, sizes: Array) -> Array:
    """Entropy of every row of counts, taken in proportion to the sizes of the datasets."""
    p = counts / sizes
    p = p / p.sum(axis=1, keepdims=True)
    return np.asarray(-(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1))
