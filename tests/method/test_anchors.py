"""Anchors: mutual neighbours, normalised, and known pairs."""

import numpy as np
import plain_stages
import pytest
import scipy.sparse as sp

from harmonicalign.engines.pairs import normalised
from harmonicalign.method import DEFAULT
from harmonicalign.method.anchors import known_pairs, masses, mutual_neighbours


def test_mutual_neighbours_pair_equal_rows(rng):
    x = rng.randn(50, 3)
    order = rng.permutation(50)
    pairing = mutual_neighbours(x, x[order], k=1).toarray()
    assert pairing == pytest.approx(np.eye(50)[:, order])


def test_rows_with_many_partners_do_not_dominate(rng):
    x, y = (
        np.r_[0.05 * rng.randn(40, 2), rng.randn(40, 2) + 3],
        np.r_[0.05 * rng.randn(4, 2), rng.randn(40, 2) + 3],
    )
    pairing = mutual_neighbours(x, y, k=10)
    of_x, of_y = masses(pairing)
    assert of_x.sum() == pytest.approx(1)
    assert of_y.sum() == pytest.approx(1)
    # Ten rows for each of four: they count for more than the others, and for less than ten times as much.
    crowded, other = of_y[:4].mean(), of_y[4:][of_y[4:] > 0].mean()
    assert 1.2 < crowded / other < 4


def test_largest_singular_value_is_one(rng):
    pairing = mutual_neighbours(rng.randn(60, 2), rng.randn(50, 2), 8)
    assert np.linalg.svd(pairing.toarray(), compute_uv=False)[0] == pytest.approx(1)


@pytest.mark.parametrize(
    ("n_x", "n_y", "k"), [(40, 30, DEFAULT.n_anchors), (40, 30, 3), (40, 4, 10), (3, 30, 10)]
)
def test_pairing_is_what_it_says(rng, n_x, n_y, k):
    x, y = rng.randn(n_x, 3), rng.randn(n_y, 3) + 0.3
    found = mutual_neighbours(x, y, k)
    assert found.shape == (n_x, n_y)
    np.testing.assert_allclose(found.toarray(), plain_stages.mutual_neighbours(x, y, k), atol=1e-6)
    if k == DEFAULT.n_anchors and n_x > k < n_y:
        assert (found != mutual_neighbours(x, y)).nnz == 0, "the default is not that of the config"


def test_pairing_with_known_pairs_is_what_it_says(rng):
    x, y = rng.randn(20, 2), rng.randn(15, 2)
    pairs = [(3, 7), (11, 9)]
    found = mutual_neighbours(x, y, 4, known=known_pairs(pairs, 20, 15))
    np.testing.assert_allclose(found.toarray(), plain_stages.mutual_neighbours(x, y, 4, pairs), atol=1e-6)


def test_the_order_and_the_sides_of_rows_do_not_matter(rng):
    x, y = rng.randn(40, 3), rng.randn(30, 3)
    found = mutual_neighbours(x, y, 6).toarray()
    rows, columns = rng.permutation(40), rng.permutation(30)
    np.testing.assert_allclose(
        mutual_neighbours(x[rows], y[columns], 6).toarray(), found[rows][:, columns], atol=1e-6
    )
    one, other = (mutual_neighbours(*pair, 6).toarray() for pair in ((x, y), (y, x)))
    np.testing.assert_allclose(one, other.T, atol=1e-6)


def test_known_pairs_take_their_rows_out_of_the_pairing(rng):
    x, y = rng.randn(40, 3), rng.randn(30, 3) + 0.3
    known = known_pairs([[3, 7], [3, 8], [11, 9]], 40, 30)
    pairing = mutual_neighbours(x, y, 5, known=known).toarray()
    of_known = pairing[[3, 11]]
    assert (of_known > 0).sum() == 3
    assert of_known[0, [7, 8]] == pytest.approx(np.sqrt([0.5, 0.5]))
    assert of_known[1, 9] == pytest.approx(1)
    assert (pairing[:, [7, 8, 9]] > 0).sum() == 3


def test_coinciding_rows_weigh_alike():
    x = np.repeat([[0.0], [5.0]], 3, axis=0)
    pairing = mutual_neighbours(x, x, 3).toarray()
    assert pairing == pytest.approx(np.kron(np.eye(2), np.full((3, 3), 1 / 3)))


def test_masses_are_shares():
    of_x, of_y = masses(sp.csr_matrix([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0]]))
    assert of_x == pytest.approx([0.75, 0.25])
    assert of_y == pytest.approx([0.25, 0.75, 0])


def test_rows_without_counterpart_stay_unpaired(rng):
    x = np.r_[rng.randn(40, 2), rng.randn(20, 2) + 50]
    pairing = mutual_neighbours(x, rng.randn(40, 2), k=5)
    assert pairing[40:].nnz == 0


def test_known_pairs_exclude_others(rng):
    x, y = rng.randn(30, 2), rng.randn(30, 2)
    known = known_pairs([[0, 29], [0, 29]], 30, 30)
    assert known.nnz == 1
    assert known[0, 29] == 1
    assert known_pairs(np.array([[29, 19]], dtype=np.uint8), 30, 20).shape == (30, 20)
    assert known_pairs(np.empty((0, 2), dtype=int), 30, 20).nnz == 0
    pairing = mutual_neighbours(x, y, known=known).toarray()
    assert pairing[0, 29] == pytest.approx(1)
    assert pairing[0].sum() == pytest.approx(1)
    assert pairing[:, 29].sum() == pytest.approx(1)
    for bad in ([[0, 20]], [[30, 0]], [[-1, 0]], [[0, -1]]):
        with pytest.raises(ValueError, match=r"^anchors names rows outside .* have 30 and 20 rows"):
            known_pairs(bad, 30, 20)
    for bad in ([0, 1], [[0, 1, 2]], [[0.5, 1]], [["a", "b"]]):
        with pytest.raises(ValueError, match=r"^anchors has shape .*, row of the second\) per line$"):
            known_pairs(bad, 30, 20)


def test_pairs_of_tiny_weights_count_like_others():
    weights = np.array([1e-250, 1e-250, 1e-290, 1.0])
    found = normalised(np.array([0, 0, 1, 2]), np.array([0, 1, 2, 3]), weights, (3, 4))
    np.testing.assert_allclose(found, [0.5**0.5, 0.5**0.5, 1, 1])
