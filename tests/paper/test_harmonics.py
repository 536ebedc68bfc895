import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence

from harmonicalign import DisconnectedGraphWarning, harmonics, kernel_graph
from harmonicalign.engines import eigen
from harmonicalign.engines.eigen import HostSolver


def projector(vectors):
    return vectors @ vectors.T


def test_harmonics_solve_the_eigenproblem(curved):
    graph = kernel_graph(curved)
    h = harmonics(graph)
    a = graph.operator.toarray() if sp.issparse(graph.operator) else graph.operator
    assert a @ h.psi == pytest.approx(h.psi * h.eigenvalues, abs=1e-10)
    assert h.psi.T @ h.psi == pytest.approx(np.eye(h.k), abs=1e-10)
    assert np.sqrt(graph.degrees) @ h.psi == pytest.approx(0, abs=1e-10)
    assert (np.diff(h.eigenvalues) <= 1e-12).all()
    assert h.k == len(curved) - 1


def test_sparse_solver_agrees_with_dense():
    rng = np.random.RandomState(1)
    rows = rng.uniform(0, 1, (1000, 3)) * [3, 2, 1]
    graph = kernel_graph(rows, n_neighbors=10, max_neighbors=30)
    assert sp.issparse(graph.kernel)
    assert graph.n_rows > HostSolver().dense_rows
    values, vectors = np.linalg.eigh(graph.operator.toarray())
    h = harmonics(graph, 20)
    assert h.eigenvalues == pytest.approx(values[::-1][1:21], abs=1e-8)
    gap = np.flatnonzero(-np.diff(values[::-1][1:22]) > 1e-3)[-1] + 1
    expected = projector(vectors[:, ::-1][:, 1 : gap + 1])
    assert np.abs(projector(h.psi[:, :gap]) - expected).max() < 1e-6


def test_single_precision_iteration_is_polished():
    rng = np.random.RandomState(1)
    graph = kernel_graph(rng.uniform(0, 1, (1000, 3)) * [3, 2, 1], n_neighbors=100, thresh=0)
    assert not sp.issparse(graph.kernel)
    expected = harmonics(graph, 20)
    found = harmonics(graph, 20, solver=HostSolver(single_rows=900))
    assert found.eigenvalues == pytest.approx(expected.eigenvalues, abs=1e-9)
    assert found.psi[:, :5] == pytest.approx(expected.psi[:, :5], abs=1e-6)
    assert found.psi.T @ found.psi == pytest.approx(np.eye(20), abs=1e-10)


def test_scale_does_not_depend_on_the_number_of_rows():
    rng = np.random.RandomState(0)
    for n in (100, 400):
        h = harmonics(kernel_graph(rng.randn(n, 3)), 10)
        stationary = h.degrees / h.degrees.sum()
        assert stationary @ h.phi**2 == pytest.approx(np.ones(10))
        assert stationary @ h.phi == pytest.approx(np.zeros(10), abs=1e-9)


def test_signs_are_canonical(curved):
    h = harmonics(kernel_graph(curved))
    largest = np.argmax(np.abs(h.psi), axis=0)
    assert (h.psi[largest, np.arange(h.k)] > 0).all()


@pytest.mark.parametrize("k", [1, 2, 10, None])
def test_disconnected_graph(k):
    rng = np.random.RandomState(0)
    rows = np.r_[rng.randn(30, 2), 100 + rng.randn(20, 2), -100 + rng.randn(10, 2)]
    graph = kernel_graph(rows, n_neighbors=4)
    with pytest.warns(DisconnectedGraphWarning, match=r"dataset 7 has 3 components \(sizes 30, 20, 10\)"):
        h = harmonics(graph, k, name="dataset 7")
    assert h.eigenvalues[:2] == pytest.approx(np.ones(min(h.k, 2)))
    assert h.psi.T @ h.psi == pytest.approx(np.eye(h.k), abs=1e-10)
    assert np.sqrt(graph.degrees) @ h.psi == pytest.approx(0, abs=1e-10)
    for component in range(3):  # eigenvalue 1: constant on every component
        phi = h.phi[graph.components == component, :2]
        assert phi == pytest.approx(np.broadcast_to(phi[0], phi.shape), abs=1e-9)
    if h.k > 2:
        assert h.eigenvalues[2] < 1 - 1e-6


def test_heavy_components_come_first(rng):
    # The first harmonics are zero on what they do not separate: lighter pieces are told apart later.
    sizes = (25, 20, 15, 10)
    rows = np.vstack([rng.randn(n, 2) + [200 * i, 0] for i, n in enumerate(sizes)])
    graph = kernel_graph(rows, n_neighbors=4, anisotropy=0)
    piece = np.repeat(np.arange(4), sizes)
    mass = np.bincount(piece, weights=graph.degrees)
    with pytest.warns(DisconnectedGraphWarning):
        phi = harmonics(graph, 3).phi
    order = np.argsort(-mass)
    for j in range(3):
        values = np.array([phi[piece == p, j].mean() for p in order])
        assert values[:j] == pytest.approx(np.zeros(j), abs=1e-9)
        assert values[j + 1 :] == pytest.approx(np.full(3 - j, values[-1]))
        assert values[j] * values[-1] < 0
        assert mass[order] @ values == pytest.approx(0, abs=1e-9 * mass.sum())
        assert mass[order] @ values**2 == pytest.approx(mass.sum())


@pytest.mark.parametrize(
    ("pieces", "sizes"), [(2, "3, 3"), (8, "3, 3, 3, 3, 3, 3, 3, 3"), (9, "4, 3, 3, 3, 3, 3, 3, 3, …")]
)
def test_warning_of_many_components(rng, pieces, sizes):
    rows = np.vstack([rng.randn(3, 2) + [1e4 * i, 0] for i in range(pieces)])
    if pieces == 9:
        rows = np.r_[rows, rows[-1:] + 0.1]
    message = (
        rf"^the graph of the data has {pieces} components \(sizes {sizes}\); raise n_neighbors, or align"
    )
    with pytest.warns(DisconnectedGraphWarning, match=message):
        harmonics(kernel_graph(rows, n_neighbors=2), 2)


def test_seed_of_the_solver():
    rng = np.random.RandomState(1)
    graph = kernel_graph(rng.uniform(0, 1, (900, 2)), n_neighbors=10, max_neighbors=30)
    one = harmonics(graph, 4).psi
    assert np.array_equal(one, harmonics(graph, 4, random_state=0).psi)
    assert not np.array_equal(one, harmonics(graph, 4, random_state=1).psi)


def test_permuting_rows_permutes_harmonics(curved, rng):
    order = rng.permutation(len(curved))
    one, two = harmonics(kernel_graph(curved)), harmonics(kernel_graph(curved[order]))
    assert two.eigenvalues == pytest.approx(one.eigenvalues, abs=1e-10)
    assert two.psi[:, :10] == pytest.approx(one.psi[order][:, :10], abs=1e-7)


def test_fourier_transform_and_back(curved):
    graph = kernel_graph(curved)
    h = harmonics(graph)
    trivial = np.sqrt(graph.degrees / graph.degrees.sum())
    signal = curved - np.outer(trivial, trivial @ curved)
    assert h.inverse_gft(h.gft(signal)) == pytest.approx(signal, abs=1e-10)
    assert h.gft(sp.csr_matrix(curved)) == pytest.approx(h.gft(curved))
    with pytest.raises(ValueError, match=r"^signals has 59 rows; the dataset has 60"):
        h.gft(curved[1:])


def test_diffusion_map(curved):
    h = harmonics(kernel_graph(curved), 10)
    assert h.diffusion_map(0) == pytest.approx(h.phi)
    assert h.diffusion_map() == pytest.approx(h.phi * h.eigenvalues)
    assert h.truncate(4).k == len(h.truncate(4).eigenvalues) == 4
    assert h.diffusion_map(2.5) == pytest.approx(h.phi * np.clip(h.eigenvalues, 0, 1) ** 2.5)
    assert h.truncate(4).diffusion_map(1) == pytest.approx(h.diffusion_map(1)[:, :4])
    with pytest.raises(ValueError, match="t must be"):
        h.diffusion_map(-1)


def test_extension_reproduces_known_rows(curved):
    graph = kernel_graph(curved, bandwidth=1.5, thresh=0)
    h = harmonics(graph, 5)
    assert h.extend(graph.extend(curved)) == pytest.approx(h.phi, abs=1e-6)


def test_extension_shrinks_high_frequencies(curved):
    graph = kernel_graph(curved, bandwidth=3.0, thresh=0)
    h = harmonics(graph)
    values = h.eigenvalues
    assert values[0] > 0.02 > values[-1]
    expected = h.phi * np.where(values < 0.02, values / 0.02, 1)
    assert np.abs(h.extend(graph.transitions) - expected).max() < 1e-8


@pytest.mark.parametrize("bad", [0, 60, 2.0])
def test_bad_k(curved, bad):
    with pytest.raises(ValueError, match=r"^k must be"):
        harmonics(kernel_graph(curved), bad)


def test_solver_falls_back_when_arpack_does_not_converge():
    rng = np.random.RandomState(1)
    graph = kernel_graph(rng.uniform(0, 1, (900, 2)), n_neighbors=10, max_neighbors=30)
    expected = harmonics(graph, 6)
    # One iteration is too few for ARPACK: LAPACK takes over, or LOBPCG where rows are many.
    found = harmonics(graph, 6, solver=HostSolver(max_iter=1))
    assert found.eigenvalues == pytest.approx(expected.eigenvalues, abs=1e-9)
    assert not np.array_equal(found.psi, expected.psi)
    with (
        pytest.warns(UserWarning, match="not reaching the requested tolerance"),
        pytest.raises(RuntimeError, match="n_harmonics"),
    ):
        harmonics(graph, 6, solver=HostSolver(max_iter=1, rescue_rows=0))


def test_lobpcg_takes_over_where_arpack_fails_on_many_rows(monkeypatch):
    rng = np.random.RandomState(1)
    graph = kernel_graph(rng.uniform(0, 1, (900, 2)), n_neighbors=10, max_neighbors=30)
    expected = harmonics(graph, 6)

    def fail(*args, **kwargs):
        raise ArpackNoConvergence("no", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr(eigen, "eigsh", fail)
    found = harmonics(graph, 6, solver=HostSolver(rescue_rows=0))
    assert found.eigenvalues == pytest.approx(expected.eigenvalues, abs=1e-6)


def test_a_graph_in_thousands_of_pieces_needs_memory_for_the_wanted_harmonics_only(rng):
    import tracemalloc

    rows = np.repeat(10.0 * np.arange(3000), 4)[:, None] + rng.uniform(size=(12_000, 1))
    graph = kernel_graph(rows, n_neighbors=2, max_neighbors=3)
    assert len(graph.component_sizes) == 3000
    tracemalloc.start()
    with pytest.warns(DisconnectedGraphWarning, match="3000 components"):
        found = harmonics(graph, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6, f"{peak / 1e6:.0f} MB for five harmonics of 12,000 rows"
    np.testing.assert_allclose(found.eigenvalues, 1)
    np.testing.assert_allclose(found.psi.T @ found.psi, np.eye(5), atol=1e-9)
