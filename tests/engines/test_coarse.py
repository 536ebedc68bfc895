"""Operators on fewer rows, and eigenpairs that start from theirs."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from harmonicalign import kernel_graph
from harmonicalign.engines import block as cpu_block
from harmonicalign.engines.coarse import coarser
from harmonicalign.paper.harmonics import _component_vectors


def graph_of(rows):
    graph = kernel_graph(rows, n_neighbors=8, max_neighbors=16)
    operator = sp.csr_matrix(graph.operator, dtype=np.float32)
    return operator, sp.csr_matrix(_component_vectors(graph), dtype=np.float32)


@pytest.fixture
def clouds(rng):
    """Two clouds too far apart to be connected, (1500, 3)."""
    return np.vstack([rng.normal(size=(1000, 3)), rng.normal(size=(500, 3)) + 100])


def test_a_coarse_operator_is_the_compression_to_its_groups(clouds):
    operator, known = graph_of(clouds)
    small, carry = coarser(operator, known, 200)
    assert small.shape[0] <= 200
    np.testing.assert_allclose((carry.T @ carry).toarray(), np.eye(small.shape[0]), atol=1e-5)
    np.testing.assert_allclose(small.toarray(), (carry.T @ operator @ carry).toarray(), atol=1e-5)
    assert (np.diff(carry.indptr) == 1).all()  # every row is in one group
    for group in range(small.shape[0]):
        members = np.flatnonzero(carry.indices == group)
        assert np.ptp(clouds[members, 0]) < 50  # none holds rows of both clouds


def test_known_eigenvectors_stay_what_they_are(clouds):
    operator, known = graph_of(clouds)
    small, carry = coarser(operator, known, 200)
    coarse = carry.T @ known
    np.testing.assert_allclose((coarse.T @ coarse).toarray(), np.eye(2), atol=1e-5)
    np.testing.assert_allclose((small @ coarse).toarray(), coarse.toarray(), atol=1e-5)


def test_rows_without_neighbours_stay_alone():
    operator = sp.identity(30, dtype=np.float32, format="csr")
    small, carry = coarser(operator, operator, 5)
    assert small.shape == (30, 30)
    np.testing.assert_array_equal(carry.toarray(), np.eye(30))


def test_eigenpairs_from_a_coarse_start_are_the_same(rng):
    angle = rng.uniform(0, 2 * np.pi, 6000)
    rows = np.column_stack([np.cos(angle), 1.5 * np.sin(angle), 0.1 * rng.normal(size=6000)])
    operator, known = graph_of(rows)
    expected = spl.eigsh(operator.astype(np.float64), 21, which="LA")[0][::-1][1:]
    values, vectors = cpu_block.block_eigenpairs(
        operator, 20, deflate=known, seed=0, tol=1e-5, coarse_rows=5000, coarse_share=4
    )
    cold = cpu_block.block_eigenpairs(operator, 20, deflate=known, seed=0, tol=1e-5)
    assert not np.array_equal(vectors, cold.vectors)  # begun elsewhere, and ended at the same
    np.testing.assert_allclose(values, cold.values, atol=1e-6)
    block, below = cpu_block._coarse_start(operator, known, 20, 0, 4)
    assert block.shape == (6000, 32)
    assert below < expected[-1]
    np.testing.assert_allclose(values, expected, atol=1e-6)
    residual = operator @ vectors - vectors * values.astype(np.float32)
    assert np.linalg.norm(residual, axis=0).max() < 2e-5


def test_a_coarse_operator_with_too_few_rows_is_not_used(rng):
    operator, known = graph_of(rng.normal(size=(3200, 3)))
    assert cpu_block._coarse_start(operator, known, 20, 0) is None
