r"""How good an alignment is: neighbours, labels, pairs, mixing and distributions recovered.

Rows are compared by Euclidean distance. Neighbours are exact (faiss, float32, after centring), found block
by block, so that no n × n matrix is ever held. Where a function speaks of pairs, row ``i`` of the one
dataset and row ``i`` of the other are the same thing measured twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.inputs.blocks import blocks, neighbour_blocks
from harmonicalign.inputs.validate import check_integer, check_number, check_rows, random_state_from
from harmonicalign.metrics.checks import (
    as_columns,
    dense,
    dense_part,
    neighbour_count,
    of_one_width,
    paired,
    row_labels,
    row_weights,
)

__all__ = [
    "earth_movers_distance",
    "expected_calibration_error",
    "foscttm",
    "foscttm_per_row",
    "knn_auc",
    "knn_label_agreement",
    "latent_error",
    "mixing_entropy",
    "neighbourhood_overlap",
]


# --- neighbours of labels ---------------------------------------------------------------------------------


def knn_label_agreement(train: Any, train_labels: Any, test: Any, test_labels: Any, k: int = 5) -> float:
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
        votes = _count_per_row(codes[neighbours], len(classes))
        correct += int(np.sum(classes[votes.argmax(axis=1)] == test_labels[rows]))
    return correct / len(test)


# --- neighbourhoods of pairs ------------------------------------------------------------------------------


def neighbourhood_overlap(
    x: Any, y: Any, sizes: int | Sequence[int] = 10, *, reference: Any = None, mode: str = "across"
) -> Array:
    r"""Overlap of the neighbourhoods of paired rows, for every neighbourhood size (the paper's Fig. 3d).

    With pairs :math:`f(i) \in F` (row i of ``x``) and :math:`g(i) \in G` (row i of ``y``), the value for
    size k is the mean over i of

    .. math:: \frac1k \left| N_k(f(i); F) \cap N_k(g(i); F) \right|  \qquad (\text{across})

    .. math:: \frac1k \left| N_k(f(i); F ∖ f(i)) \cap N_k(g(i); G ∖ g(i)) \right|  \qquad (\text{within})

    where :math:`N_k(z; F)` holds the indices of the k rows of F nearest to z. ``across`` asks whether a row
    of ``y`` is placed where its partner is: its neighbours are sought among the rows of ``x``, the partner
    is one of the candidates, and size 1 is the share of partners found exactly. ``within`` reads the
    paper's sentence by the letter. It does not change when either dataset is moved rigidly, so it tells
    whether the two geometries agree, not whether they have been aligned. Chance is about k/n,
    and more where rows crowd together. Exchange ``x`` and ``y`` for the other direction of ``across``.

    Parameters
    ----------
    x, y
        Aligned datasets of n paired rows each; of one width for ``across``.
    sizes
        One or more neighbourhood sizes k.
    reference
        Where the true neighbourhoods :math:`N_k(f(i); F)` are taken, (n, any width): usually the rows of
        ``x`` before alignment, so that an alignment that flattens ``x`` gains nothing by it. Default: ``x``.
    mode
        ``"across"`` or ``"within"``.

    Returns
    -------
    overlap
        (number of sizes,), each between 0 and 1.

    See Also
    --------
    knn_auc : the mean of this curve over sizes up to a tenth of the rows.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [3.0], [7.0]])
    >>> neighbourhood_overlap(x, x + 0.1, sizes=[1, 2])
    array([1., 1.])
    >>> neighbourhood_overlap(x, x + 100.0, sizes=[1, 2])
    array([0.25 , 0.375])
    """
    if mode not in ("across", "within"):
        raise ValueError(f"mode is {mode!r}; it must be 'across' or 'within'")
    x, y = paired(x, y, same_width=mode == "across")
    truth = x if reference is None else dense("reference", reference)
    if len(truth) != len(x):
        raise ValueError(
            f"reference has {len(truth)} rows but x has {len(x)}; "
            "it must hold the same rows in the same order"
        )
    wanted = np.atleast_1d(np.asarray(sizes, dtype=object))
    if wanted.ndim != 1 or wanted.size == 0:
        raise ValueError(f"sizes is {sizes!r}; pass one neighbourhood size or a list of them")
    largest = max(neighbour_count("sizes", k, len(x) - (mode == "within"), "x") for k in wanted)
    curve = _overlap_curve(truth, x, y, largest, mode)
    return np.asarray(curve[wanted.astype(np.int64) - 1])


def knn_auc(
    x: Any,
    y: Any,
    reference: Any,
    *,
    proportion: float = 0.1,
    n_components: int | None = 100,
    random_state: Any = None,
) -> float:
    r"""Area under the curve of neighbourhoods found, as in Open Problems' matching of modalities.

    The mean over k = 1 … K of the ``across`` :func:`neighbourhood_overlap`,

    .. math:: \frac1K \sum_{k=1}^{K} \frac1n \sum_i
              \frac1k \left| N_k(r_i; R) \cap N_k(y_i; X) \right|, \qquad K = ⌈\text{proportion} · n⌉,

    with the true neighbourhoods (each row its own first neighbour) taken in a truncated SVD R of the first
    modality before alignment. Chance is about ``proportion / 2``, and more where rows
    crowd together.

    Parameters
    ----------
    x, y
        The aligned modalities, n paired rows each, of one width.
    reference
        The first modality before alignment, (n, any width), dense or sparse.
    proportion
        The largest neighbourhood, as a share of the rows, in (0, 1].
    n_components
        Width of the truncated SVD of ``reference``. A narrower ``reference``, or None, is used as it is (Open
        Problems would drop its last component).
    random_state
        Start of the SVD's iteration; it does not change the result beyond rounding.

    Returns
    -------
    area
        Between 0 and 1.

    Examples
    --------
    >>> x = np.arange(20.0)[:, None] ** 1.5
    >>> knn_auc(x, x, reference=x)
    1.0
    """
    x, y = paired(x, y, same_width=True)
    proportion = check_number("proportion", proportion, above=0.0, maximum=1.0)
    matrix = check_rows("reference", reference)
    if matrix.shape[0] != len(x):
        raise ValueError(
            f"reference has {matrix.shape[0]} rows but x has {len(x)}; "
            "it must hold the same rows in the same order"
        )
    if n_components is not None:
        n_components = check_integer("n_components", n_components, minimum=1)
    if n_components is not None and n_components < min(matrix.shape):
        from sklearn.decomposition import TruncatedSVD

        svd = TruncatedSVD(n_components, algorithm="arpack", random_state=random_state_from(random_state))
        matrix = svd.fit_transform(matrix)
    truth = matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
    largest = int(np.ceil(proportion * len(x)))
    return float(np.mean(_overlap_curve(truth, x, y, largest, "across")))


def foscttm(x: Any, y: Any) -> float:
    r"""Fraction of samples closer than the true match, averaged over rows and over both directions.

    .. math:: \frac{1}{2n} \sum_i \left( \frac{|\{ j : d(x_i, y_j) < d(x_i, y_i) \}|}{n − 1}
              + \frac{|\{ j : d(x_j, y_i) < d(x_i, y_i) \}|}{n − 1} \right)

    0 is perfect and 0.5 is chance. Rows as far as the match count one half, so that an alignment that puts
    everything in one place has 0.5 and not 0.

    Parameters
    ----------
    x, y
        Aligned datasets of n ≥ 2 paired rows, of one width.

    Returns
    -------
    fraction
        Between 0 and 1, smaller is better.

    See Also
    --------
    foscttm_per_row : the same before averaging.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [3.0]])
    >>> foscttm(x, x), foscttm(x, np.zeros((3, 1)) + 1.0), foscttm(x, x[::-1])
    (0.0, 0.5, 0.6666666666666666)
    """
    of_x, of_y = foscttm_per_row(x, y)
    return float((of_x.mean() + of_y.mean()) / 2)


def foscttm_per_row(x: Any, y: Any) -> tuple[Array, Array]:
    """Fraction of samples closer than the true match, for every row of either dataset.

    Parameters
    ----------
    x, y
        Aligned datasets of n ≥ 2 paired rows, of one width.

    Returns
    -------
    of_x, of_y
        (n,) each: for row i of ``x`` the share of rows of ``y`` nearer than row i of ``y``, and the reverse.
    """
    x, y = paired(x, y, same_width=True)
    n = len(x)
    if n < 2:
        raise ValueError(
            "x and y have one row each; FOSCTTM compares a match with other rows, pass two or more"
        )
    centre = y.mean(axis=0)
    x, y = x - centre, y - centre
    norms_x, norms_y = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
    own = np.einsum("ij,ij->i", x - y, x - y)
    # Squared distances come from an expansion whose rounding errors are of this size.
    slack = 1e-14 * (np.max(norms_x) + np.max(norms_y)) * np.sqrt(x.shape[1])
    of_x, of_y = np.empty(n), np.zeros(n)
    for rows in blocks(n, n):
        squared = norms_x[rows, None] + norms_y - 2 * (x[rows] @ y.T)
        match = np.arange(len(squared)), np.arange(rows.start, rows.stop)
        beyond = squared - own[rows, None]
        score = (beyond < -slack) + 0.5 * (np.abs(beyond) <= slack)
        score[match] = 0
        of_x[rows] = score.sum(axis=1)
        beyond = squared - own
        score = (beyond < -slack) + 0.5 * (np.abs(beyond) <= slack)
        score[match] = 0
        of_y += score.sum(axis=0)
    return of_x / (n - 1), of_y / (n - 1)


def latent_error(x: Any, y: Any, latent_x: Any, latent_y: Any) -> float:
    r"""Error of the alignment of sampled manifolds, measured in the coordinates they were sampled from.

    For every row of ``x`` take the nearest row of ``y`` in the aligned space and ask how far apart the two
    lie on the manifold, in units of what a random row would give; then the same from ``y``:

    .. math:: \frac12 \left( \frac{\sum_i ‖u_i − v_{n(i)}‖}{\sum_i \operatorname{mean}_j ‖u_i − v_j‖} +
              \frac{\sum_j ‖v_j − u_{m(j)}‖}{\sum_j \operatorname{mean}_i ‖v_j − u_i‖} \right).

    0 is perfect (and, for separately sampled rows, out of reach: the next row is some way off); 1 is
    chance. The rows need not be paired, and the datasets may differ in size.

    Parameters
    ----------
    x, y
        The aligned datasets, (n_x, d) and (n_y, d).
    latent_x, latent_y
        Their true coordinates u and v on the manifold, (n_x, m) and (n_y, m), in which straight
        distance is meaningful (see :class:`harmonicalign.datasets.ManifoldPair`).

    Returns
    -------
    error
        At least 0, smaller is better.

    Examples
    --------
    >>> u = np.array([[0.0], [1.0], [2.0]])
    >>> latent_error(u, u, u, u)
    0.0
    """
    x, y = of_one_width("x", x, "y", y)
    u, v = of_one_width("latent_x", latent_x, "latent_y", latent_y)
    for name, latent, other, rows in (("latent_x", u, "x", x), ("latent_y", v, "y", y)):
        if len(latent) != len(rows):
            raise ValueError(f"{name} has {len(latent)} rows but {other} has {len(rows)}; pass one per row")
    errors = []
    for source, target, from_, to in ((x, y, u, v), (y, x, v, u)):
        found = random = 0.0
        for rows, neighbours in neighbour_blocks(target, source, 1, width=len(target) * to.shape[1]):
            found += float(np.linalg.norm(from_[rows] - to[neighbours[:, 0]], axis=1).sum())
            apart = np.linalg.norm(from_[rows, None, :] - to[None, :, :], axis=2)
            random += float(apart.mean(axis=1).sum())
        if random == 0:
            raise ValueError("latent_x and latent_y hold one single point; the error has no scale")
        errors.append(found / random)
    return float(np.mean(errors))


# --- mixing, distributions, calibration -------------------------------------------------------------------


def mixing_entropy(datasets: Sequence[Any], k: int = 30, *, labels: Sequence[Any] | None = None) -> float:
    r"""How well datasets mix: entropy of the datasets met in a neighbourhood, against that of a random draw.

    Of the k nearest neighbours of row i among all other rows, let :math:`c_{id}` come from dataset d, which
    has :math:`n_d` rows. The score is

    .. math:: \frac1D \sum_d \min\left(1, \frac{\operatorname{mean}_{i ∈ d} H(p_i)}{E_d}\right), \qquad
              p_{id} = \frac{c_{id} / n_d}{\sum_e c_{ie} / n_e}, \qquad H(p) = −\sum_d p_d \log p_d,

    where :math:`E_d` is the mean of the same entropy over k rows drawn at random, without replacement, from
    all other rows (20,000 draws from a generator of its own). So 1 is as well mixed as chance would, whatever
    k and the sizes of the datasets, and 0 is apart. A dataset that meets others more evenly than by chance
    counts as mixed, not as more than mixed.

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


def earth_movers_distance(x: Any, y: Any, *, x_weights: Any = None, y_weights: Any = None) -> Array:
    r"""Earth mover's (Wasserstein-1) distance between the distributions of every column.

    .. math:: W_s = \int_{−∞}^{∞} \left| F^X_s(v) − F^Y_s(v) \right| dv

    with :math:`F_s` the (weighted) cumulative distribution of column s.

    Parameters
    ----------
    x, y
        (n_x, d) and (n_y, d), dense or sparse, of any real type; 1-D input is one column.
    x_weights, y_weights
        Optional weight per row, not negative; they are scaled to add up to one.

    Returns
    -------
    distances
        (d,), in the units of the columns.

    Examples
    --------
    >>> earth_movers_distance([[0, 1], [2, 3]], [[1, 1], [3, 3]])
    array([1., 0.])
    """
    x, y = as_columns("x", x), as_columns("y", y)
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"x has {x.shape[1]} columns but y has {y.shape[1]}; pass the shared columns of both"
        )
    n_x, n_columns = x.shape
    n_y = y.shape[0]
    mass = np.concatenate(
        [row_weights("x_weights", x_weights, n_x), -row_weights("y_weights", y_weights, n_y)]
    )
    distances = np.empty(n_columns)
    for columns in blocks(n_columns, n_x + n_y):
        values = np.concatenate([dense_part(x, columns), dense_part(y, columns)])
        order = np.argsort(values, axis=0, kind="stable")
        gaps = np.diff(np.take_along_axis(values, order, axis=0), axis=0)
        excess = np.cumsum(mass[order], axis=0)[:-1]
        distances[columns] = np.einsum("ij,ij->j", np.abs(excess), gaps)
    return distances


def expected_calibration_error(confidence: Any, correct: Any, n_bins: int = 10) -> float:
    r"""How far confidences are from the accuracy they promise.

    .. math:: \sum_b \frac{n_b}{n} \left| \operatorname{mean}_{i ∈ b} \text{correct}_i
              − \operatorname{mean}_{i ∈ b} \text{confidence}_i \right|

    over ``n_bins`` bins of equal width, the b-th holding confidences in ((b − 1)/n_bins, b/n_bins] (and 0 in
    the first).

    Parameters
    ----------
    confidence
        (n,), between 0 and 1.
    correct
        (n,), whether each prediction was right (booleans, or 0 and 1).
    n_bins
        The number of bins.

    Returns
    -------
    error
        0 (as right as it claims to be) to 1.

    Examples
    --------
    >>> expected_calibration_error([0.5, 0.5, 1.0, 1.0], [True, False, True, True])
    0.0
    >>> expected_calibration_error([1.0, 1.0], [True, False])
    0.5
    """
    n_bins = check_integer("n_bins", n_bins, minimum=1)
    confidence, correct = np.asarray(confidence, dtype=np.float64), np.asarray(correct)
    if confidence.ndim != 1 or confidence.shape != correct.shape or confidence.size == 0:
        raise ValueError(
            f"confidence and correct have shapes {confidence.shape} and {correct.shape}; "
            "pass one value of each per prediction"
        )
    if not ((confidence >= 0) & (confidence <= 1)).all():
        raise ValueError(
            f"confidence runs from {confidence.min():g} to {confidence.max():g}; it must lie between 0 and 1"
        )
    if not np.isin(correct, (0, 1)).all():
        raise ValueError(
            "correct holds values other than True and False (or 1 and 0); pass predicted == true"
        )
    bins = np.clip(np.ceil(confidence * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    excess = np.bincount(bins, weights=correct.astype(np.float64) - confidence, minlength=n_bins)
    return float(np.abs(excess).sum() / len(confidence))


# --- machinery --------------------------------------------------------------------------------------------


def _overlap_curve(truth: Array, x: Array, y: Array, largest: int, mode: str) -> Array:
    """Mean overlap for every size 1 … largest.

    An index found at rank a in the one list and b in the other is shared by all sizes above max(a, b), so
    one histogram of these ranks gives the whole curve.
    """
    n = len(x)
    shared = np.zeros(largest, dtype=np.int64)
    within = mode == "within"
    place = np.arange(largest)
    true_blocks = neighbour_blocks(truth, truth, largest, width=n, exclude_self=within)
    found_blocks = neighbour_blocks(y if within else x, y, largest, width=n, exclude_self=within)
    for (_, true), (_, found) in zip(true_blocks, found_blocks, strict=True):
        rank = np.full((len(true), n), largest)
        np.put_along_axis(rank, true, place[None, :], axis=1)
        last = np.maximum(np.take_along_axis(rank, found, axis=1), place)
        shared += np.bincount(last[last < largest], minlength=largest)
    return np.asarray(np.cumsum(shared) / (n * np.arange(1, largest + 1)))


def _mixing(stacked: Array, source: Array, k: int) -> float:
    """The score of :func:`mixing_entropy` for rows of the datasets numbered by `source`."""
    _, source = np.unique(source, return_inverse=True)
    sizes = np.bincount(source)
    total = np.zeros(len(sizes))
    for rows, neighbours in neighbour_blocks(
        stacked, stacked, k, width=max(k, len(sizes)), exclude_self=True
    ):
        entropy = _balanced_entropy(_count_per_row(source[neighbours], len(sizes)), sizes)
        total += np.bincount(source[rows], weights=entropy, minlength=len(sizes))
    expected = np.array([_expected_entropy(sizes, d, k) for d in range(len(sizes))])
    # A dataset of one row beside one other always meets that other: it has no say.
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


def _count_per_row(codes: Array, n_codes: int) -> Array:
    """Histogram of every row of an integer matrix, (rows, n_codes)."""
    offset = np.arange(len(codes))[:, None] * n_codes
    counts = np.bincount((codes + offset).ravel(), minlength=len(codes) * n_codes)
    return np.asarray(counts.reshape(len(codes), n_codes))
