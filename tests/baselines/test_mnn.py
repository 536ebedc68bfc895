from __future__ import annotations

import numpy as np
import pytest
from baseline_toys import same_batch_share, shifted_clusters, transfer_accuracy

from harmonicalign.experiments.baselines.mnn import MNN, mutual_pairs, smoothed_correction


def three_cluster_toy(seed=0):
    """The paper's toy: three clusters of which the second batch lacks one, in other proportions.

    The batch effect is orthogonal to all differences between clusters, as the paper assumes.
    """
    rng = np.random.default_rng(seed)
    centres = np.zeros((3, 20))
    centres[:, :3] = 8 * np.eye(3)
    labels_x = rng.choice([0, 1, 2], p=[0.3, 0.5, 0.2], size=400)
    labels_y = rng.choice([0, 1], p=[0.65, 0.35], size=400)
    x = centres[labels_x] + 0.6 * rng.normal(size=(400, 20))
    y = centres[labels_y] + 0.6 * rng.normal(size=(400, 20))
    y[:, 10:13] += 3
    return x, y, labels_x, labels_y


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("reference_has_more", [True, False])
def test_shared_clusters_merge_and_one_batch_alone_has_its_own(seed, reference_has_more):
    x, y, labels_x, labels_y = three_cluster_toy(seed)
    if reference_has_more:
        zx, zy = MNN().fit_transform([x, y])
    else:
        zy, zx = MNN().fit_transform([y, x])

    def gap(a, labels_a, c, b, labels_b, d):
        return np.linalg.norm(a[labels_a == c].mean(axis=0) - b[labels_b == d].mean(axis=0))

    for shared in (0, 1):
        before = gap(unit(x), labels_x, shared, unit(y), labels_y, shared)
        assert gap(zx, labels_x, shared, zy, labels_y, shared) < 0.4 * before
        # the third cluster is about as far from the shared ones, of either batch, as it was
        assert gap(zx, labels_x, 2, zx, labels_x, shared) > 0.8 * gap(
            unit(x), labels_x, 2, unit(x), labels_x, shared
        )
        assert gap(zx, labels_x, 2, zy, labels_y, shared) > 0.8 * gap(
            unit(x), labels_x, 2, unit(x), labels_x, shared
        )
    assert transfer_accuracy([zx, zy], labels_x, labels_y) == 1.0


def test_shared_rows_mix_as_they_did_not_before():
    x, y, labels_x, _ = three_cluster_toy()
    x = x[labels_x < 2]
    assert same_batch_share([unit(x), unit(y)]) > 0.95
    # clusters are of unequal size in the two batches, so perfect mixing is above one half
    assert same_batch_share(MNN().fit_transform([x, y])) < 0.75


def test_the_reference_does_not_move():
    x, y, labels_x, labels_y = shifted_clusters()
    z = MNN(cosine=False, sigma=1.0).fit_transform([x, y])
    np.testing.assert_array_equal(z[0], x)
    assert transfer_accuracy(z, labels_x, labels_y) == 1.0


def test_later_datasets_are_corrected_towards_all_merged_before():
    """The first has only cluster 0 and the third only cluster 1; what they share is in the second."""
    rng = np.random.default_rng(3)
    centres = 8 * np.eye(12)[:2]
    labels = np.repeat([0, 1], 60)
    first = centres[labels[:60]] + 0.5 * rng.normal(size=(60, 12))
    second = centres[labels] + 0.5 * rng.normal(size=(120, 12)) + 3 * np.eye(12)[9]
    third = centres[labels[60:]] + 0.5 * rng.normal(size=(60, 12)) + 3 * np.eye(12)[10]
    z = MNN().fit_transform([first, second, third])
    before = np.linalg.norm(unit(third).mean(axis=0) - unit(second)[60:].mean(axis=0))
    assert np.linalg.norm(z[2].mean(axis=0) - z[1][60:].mean(axis=0)) < 0.4 * before
    assert np.linalg.norm(z[2].mean(axis=0) - z[0].mean(axis=0)) > 1


def test_mutual_pairs_are_the_definition():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=(25, 3))
    d = np.linalg.norm(x[:, None] - y, axis=2)
    rank_y, rank_x = d.argsort(axis=1).argsort(axis=1), d.argsort(axis=0).argsort(axis=0)
    expected = set(zip(*np.nonzero((rank_y < 4) & (rank_x < 4)), strict=True))
    assert set(map(tuple, mutual_pairs(x, y, 4))) == expected


def test_correction_is_the_kernel_average_of_pair_vectors():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    pairs, sigma = mutual_pairs(x, y, 5), 0.7
    w = np.exp(-(np.linalg.norm(y[:, None] - y[pairs[:, 1]], axis=2) ** 2) / (2 * sigma**2))
    expected = w @ (x[pairs[:, 0]] - y[pairs[:, 1]]) / w.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(smoothed_correction(x, y, pairs, sigma), expected)


def test_chunks_and_far_rows_change_nothing():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    y[0] = 1e3  # every kernel weight of this row underflows
    pairs = mutual_pairs(x, y, 3)
    whole = smoothed_correction(x, y, pairs, 0.1)
    np.testing.assert_allclose(smoothed_correction(x, y, pairs, 0.1, chunk_rows=7), whole)
    assert np.isfinite(whole).all()


def test_rows_of_zeros_are_named():
    with pytest.raises(ValueError, match=r"datasets\[1\]: 2 rows are all zero"):
        MNN().fit_transform([np.ones((5, 2)), np.array([[0.0, 0], [0, 0], [1, 2]])])


def test_reduced_first():
    x, y, labels_x, labels_y = shifted_clusters()
    z = MNN(n_components=4).fit_transform([x, y])
    assert z[0].shape[1] == 4
    assert transfer_accuracy(z, labels_x, labels_y) > 0.95
