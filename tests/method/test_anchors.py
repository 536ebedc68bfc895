"""Anchors: mutual neighbours, balanced, and known pairs."""

import numpy as np
import plain_stages
import pytest
import scipy.sparse as sp

from harmonicalign.method import DEFAULT
from harmonicalign.method.anchors import known_pairs, masses, mutual_neighbours


def test_mutual_neighbours_pair_equal_rows(rng):
    x = rng.randn(50, 3)
    order = rng.permutation(50)
    pairing = mutual_neighbours(x, x[order], k=1).toarray()
    assert pairing == pytest.approx(np.eye(50)[:, order])


def test_pairing_is_balanced(rng):
    pairing = mutual_neighbours(rng.randn(80, 2), rng.randn(60, 2), k=10)
    columns = np.asarray(pairing.sum(axis=0)).ravel()
    assert columns[columns > 0] == pytest.approx(np.ones((columns > 0).sum()))
    of_x, of_y = masses(pairing)
    assert of_x.sum() == pytest.approx(1)
    assert of_y.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("n_x", "n_y", "k", "n_balance"),
    [
        (40, 30, DEFAULT.n_anchors, DEFAULT.n_balance),
        (40, 30, 4, 0),
        (40, 30, 3, 2),
        (40, 4, 10, 10),
        (3, 30, 10, 10),
    ],
)
def test_pairing_is_what_it_says(rng, n_x, n_y, k, n_balance):
    x, y = rng.randn(n_x, 3), rng.randn(n_y, 3) + 0.3
    found = mutual_neighbours(x, y, k, n_balance=n_balance)
    expected = plain_stages.mutual_neighbours(x, y, k, n_balance)
    assert found.shape == (n_x, n_y)
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-6)
    if (k, n_balance) == (DEFAULT.n_anchors, DEFAULT.n_balance):
        assert (found != mutual_neighbours(x, y)).nnz == 0, "the defaults are not those of the config"


def test_pairing_with_known_pairs_is_what_it_says(rng):
    x, y = rng.randn(20, 2), rng.randn(15, 2)
    pairs = [(3, 7), (11, 9)]
    found = mutual_neighbours(x, y, 4, known=known_pairs(pairs, 20, 15), n_balance=3)
    np.testing.assert_allclose(found.toarray(), plain_stages.mutual_neighbours(x, y, 4, 3, pairs), atol=1e-6)


def test_the_order_and_the_sides_of_rows_do_not_matter(rng):
    x, y = rng.randn(40, 3), rng.randn(30, 3)
    found = mutual_neighbours(x, y, 6).toarray()
    rows, columns = rng.permutation(40), rng.permutation(30)
    np.testing.assert_allclose(
        mutual_neighbours(x[rows], y[columns], 6).toarray(), found[rows][:, columns], atol=1e-6
    )
    # Columns are balanced last, so the sides are alike in what is paired, and before in how much.
    one, other = (mutual_neighbours(*pair, 6, n_balance=0).toarray() for pair in ((x, y), (y, x)))
    np.testing.assert_allclose(one, other.T, atol=1e-6)


def test_known_pairs_take_their_rows_out_of_the_pairing(rng):
    x, y = rng.randn(40, 3), rng.randn(30, 3) + 0.3
    free = mutual_neighbours(x, y, 5, n_balance=0).toarray()
    known = known_pairs([[3, 7], [3, 8], [11, 9]], 40, 30)
    pairing = mutual_neighbours(x, y, 5, known=known, n_balance=0).toarray()
    free[[3, 11]] = 0
    free[:, [7, 8, 9]] = 0
    assert pairing == pytest.approx(free + known.toarray())


def test_coinciding_rows_weigh_alike():
    x = np.repeat([[0.0], [5.0]], 3, axis=0)
    pairing = mutual_neighbours(x, x, 3, n_balance=1).toarray()
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
