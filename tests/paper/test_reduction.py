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
