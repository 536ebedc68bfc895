"""Principal components of dense and sparse rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign.paper.reduction import leading_axes, reduce_rows


@pytest.mark.parametrize("shape", [(50, 20), (20, 50), (400, 350)])
def test_leading_axes(rng, shape):
    x = rng.randn(*shape) * np.exp(-np.arange(shape[1]) / 3)
    axes = leading_axes(x, 5)
    expected = np.linalg.svd(x, full_matrices=False)[2][:5].T
    np.testing.assert_allclose(axes @ axes.T, expected @ expected.T, atol=1e-6)


def test_reduction_of_sparse_rows(rng):
    x = sp.random(120, 40, density=0.2, format="csr", random_state=rng)
    _, dense_rows = reduce_rows(x.toarray(), 5)
    sparse_map, sparse_rows = reduce_rows(sp.csr_matrix(x), 5)
    np.testing.assert_allclose(np.abs(sparse_rows), np.abs(dense_rows), atol=1e-6)
    np.testing.assert_allclose(sparse_map.apply(sp.csr_matrix(x[:3])), sparse_rows[:3])
    np.testing.assert_allclose(reduce_rows(x.toarray(), None)[1], x.toarray())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rank", [None, 3])
def test_all_components_of_few_rows(rng, sparse, rank):
    """As many components as the rows have keep all distances, at the price of a matrix of rows by rows."""
    x = rng.randn(12, 400) if rank is None else rng.randn(12, rank) @ rng.randn(rank, 400)
    reduction, rows = reduce_rows(sp.csr_matrix(x) if sparse else x, 11)
    assert rows.shape == (12, 11)
    np.testing.assert_allclose(reduction.axes.T @ reduction.axes, np.eye(11), atol=1e-10)
    apart = np.linalg.norm(x[:, None] - x[None], axis=2)
    np.testing.assert_allclose(np.linalg.norm(rows[:, None] - rows[None], axis=2), apart, atol=1e-10)
    np.testing.assert_allclose(reduction.variances, rows.var(axis=0, ddof=1), atol=1e-10)
    np.testing.assert_array_equal(reduction.apply(x if not sparse else sp.csr_matrix(x)), rows)
    new = rng.randn(3, 400)
    np.testing.assert_allclose(reduction.apply(new), (new - x.mean(axis=0)) @ reduction.axes, atol=1e-10)


def test_all_components_where_nothing_varies():
    reduction, rows = reduce_rows(np.ones((5, 30)), 4)
    assert np.abs(rows).max() < 1e-12
    np.testing.assert_allclose(reduction.axes.T @ reduction.axes, np.eye(4), atol=1e-10)


def test_few_wide_rows_are_aligned_in_few_columns(rng):
    """The default works on all components of few rows, not on all their columns; the paper's is as it was."""
    from harmonicalign import HarmonicAlignment

    rows = np.tanh(rng.randn(60, 3) @ rng.randn(3, 300)) + 0.05 * rng.randn(60, 300)
    halves = [rows[:30], rows[30:]]
    model = HarmonicAlignment(random_state=0).fit(halves)
    assert model.n_pca_ == [29, 29]
    assert model.model_.reductions[0].axes.shape == (300, 29)
    assert HarmonicAlignment(method="paper", random_state=0).fit(halves).n_pca_ == [None, None]
    narrow = [half[:, :20] for half in halves]
    assert HarmonicAlignment(random_state=0).fit(narrow).n_pca_ == [None, None]
