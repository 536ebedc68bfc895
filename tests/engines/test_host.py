"""The engine of numpy, scipy and faiss: blocks and shortcuts against the plain computation."""

import numpy as np
import pytest

from harmonicalign.engines import chebyshev, faiss_neighbours, products
from harmonicalign.engines.distances import all_distances
from harmonicalign.engines.faiss_neighbours import FaissNeighbours, nearest_both, nearest_rows
from harmonicalign.engines.pairs import mutual_pairs, normalised


def brute(x, queries, k):
    distances = np.linalg.norm(queries[:, None].astype(float) - x[None], axis=2)
    indices = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, indices, 1), indices


def test_distances_between_two_sets_of_rows(rng):
    x, y = 1e6 + rng.randn(40, 5), 1e6 + rng.randn(30, 5)
    y[7] = x[3]
    expected = np.linalg.norm(x[:, None] - y[None], axis=2)
    for size in (2**27, 2000):  # in one block and in many
        found = all_distances(x, y, block_bytes=size)
        np.testing.assert_allclose(found, expected, atol=1e-8)
        assert found[3, 7] == 0


def test_lists_are_searched_until_neighbours_are_found(rng):
    """Rows without structure are spread over many lists, far more than are searched at first."""
    engine = FaissNeighbours(exact=False, exact_pairs=0)
    x = rng.randn(5000, 25).astype(np.float32)
    found = engine(x, 10, x[:300])
    _, expected = brute(x, x[:300], 10)
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.indices, expected, strict=True)])
    assert shared >= engine.recall - 0.02
    assert found.recall >= engine.recall


def test_queries_whose_lists_hold_too_few_rows_are_compared_with_all(rng):
    shallow = FaissNeighbours(exact=False, exact_pairs=0, recall=0)
    x = rng.randn(5000, 3).astype(np.float32)
    queries = rng.randn(50, 3).astype(np.float32)
    k = 400  # more than the eight lists hold that are searched at first
    found = shallow(x, k, queries)
    distances, _ = brute(x, queries, k)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-4, atol=1e-4)
    assert (found.indices >= 0).all()


def test_few_rows_are_all_compared_however_many_pairs_they_make(rng):
    x = rng.randn(900, 3)
    assert FaissNeighbours(exact_pairs=0)(x, 5).recall == 1


@pytest.mark.parametrize(("n", "m", "k"), [(203, 170, 4), (50, 41, 20), (9, 5, 5), (30, 1, 1)])
@pytest.mark.parametrize("bounds", [{}, {"BLOCK_BYTES": 1000}, {"TABLE_PAIRS": 0}])
def test_searches_in_both_directions_are_two_searches(rng, monkeypatch, n, m, k, bounds):
    for name, value in bounds.items():
        monkeypatch.setattr(faiss_neighbours if name == "TABLE_PAIRS" else products, name, value)
    x, y = 100 + rng.randn(n, 6), 100 + rng.randn(m, 6)
    y[: m // 3] = y[0]  # equally far; found in the order of the rows
    forward, backward = nearest_both(x, y, k)
    assert np.array_equal(forward, nearest_rows(y, k, x, exact=False).indices)
    _, expected = brute(x, y, k)
    assert np.array_equal(backward, expected)
    with pytest.raises(ValueError, match=f"between 1 and {min(n, m)}"):
        nearest_both(x, y, min(n, m) + 1)


class Diagonal:
    """A diagonal operator on numpy's arrays, as the Chebyshev filter takes it."""

    known_value = 0.0

    def __init__(self, values):
        self.values, self.rng = np.asarray(values, dtype=float)[:, None], np.random.RandomState(0)

    def apply(self, x, z=None, *, alpha=1.0, beta=0.0, gamma=0.0, out=None):
        return alpha * self.values * x + beta * x + (0 if z is None else gamma * z)

    def random(self, width):
        return self.rng.randn(len(self.values), width)

    def gram(self, x, y):
        return x.T @ y

    def norms(self, x):
        return np.linalg.norm(x, axis=0)


@pytest.mark.parametrize("values", [[0.5] * 30, [0.9, -0.4, 0.1] * 10, [1.0, -1.0] * 15])
def test_the_least_eigenvalue_is_found_where_few_steps_exhaust_the_operator(values):
    """With three different eigenvalues, nothing is left after three steps."""
    assert chebyshev._lower_bound(Diagonal(values)) == pytest.approx(min(values), abs=1e-4)


def test_the_bound_lies_below_or_close_to_all_eigenvalues():
    values = np.linspace(-0.8, 1, 300)
    found = chebyshev._lower_bound(Diagonal(values))
    assert -1 <= found <= -0.7


def test_mutual_pairs_are_those_of_matrices():
    rng = np.random.default_rng(0)
    forward = np.array([rng.permutation(40)[:6] for _ in range(50)])
    backward = np.array([rng.permutation(50)[:6] for _ in range(40)])
    i, j = mutual_pairs(forward, backward)
    expected = [(a, b) for a in range(50) for b in range(40) if b in forward[a] and a in backward[b]]
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == expected
    weights = rng.uniform(0.1, 1, len(i))
    dense = np.zeros((50, 40))
    dense[i, j] = weights
    of_rows, of_columns = dense.sum(axis=1), dense.sum(axis=0)
    true = weights / np.sqrt(of_rows[i] * of_columns[j])
    np.testing.assert_allclose(normalised(i, j, weights, (50, 40)), true, rtol=1e-10)
    none = normalised(i[:0], j[:0], weights[:0], (50, 40))
    assert none.shape == (0,)
