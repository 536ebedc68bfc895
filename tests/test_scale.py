"""Engines for many rows give what the exact ones give: neighbours, eigenpairs, devices; and progress."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign import HarmonicAlignment, harmonics, kernel_graph
from harmonicalign._progress import Progress, fit_plan, listening
from harmonicalign.datasets import load_digits_pair
from harmonicalign.engines import devices
from harmonicalign.engines.block import _Space, block_eigenpairs
from harmonicalign.engines.chebyshev import NotConvergedError, filtered_subspace
from harmonicalign.engines.eigen import HostSolver
from harmonicalign.engines.faiss_neighbours import FaissNeighbours, _without_empty_directions, nearest_rows


def cloud(n, columns=8, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    return np.tanh(z @ rng.normal(size=(3, 20))) @ rng.normal(size=(20, columns))


# neighbours


def test_inverted_file_drops_directions_that_hold_nothing():
    x = np.hstack([cloud(6000, 6), np.zeros((6000, 2))])
    turned = x @ np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]
    rng = np.random.RandomState(0)
    base = turned.astype(np.float32)
    narrow, same = _without_empty_directions(base, base, rng)
    assert narrow.shape[1] == 6
    assert same is narrow
    i, j = rng.randint(6000, size=(2, 100))
    np.testing.assert_allclose(
        np.linalg.norm(narrow[i] - narrow[j], axis=1), np.linalg.norm(x[i] - x[j], axis=1), rtol=1e-4
    )
    full = cloud(6000, 3).astype(np.float32)
    assert _without_empty_directions(full, full, rng)[0] is full


def test_a_graph_says_with_what_recall_it_was_built():
    assert kernel_graph(cloud(300), n_neighbors=5, max_neighbors=20).recall == 1
    lists = FaissNeighbours(exact_pairs=0)
    graph = kernel_graph(cloud(6000), n_neighbors=5, max_neighbors=20, neighbours=lists)
    assert lists.recall <= graph.recall <= 1


# eigenpairs


def test_block_eigenpairs_are_eigenpairs():
    graph = kernel_graph(cloud(4000), n_neighbors=8, max_neighbors=24)
    operator = sp.csr_matrix(graph.operator)
    root = np.sqrt(graph.degrees / graph.degrees.sum())
    values, vectors = block_eigenpairs(operator, 20, deflate=sp.csr_matrix(root[:, None]), seed=0, tol=1e-5)
    exact = np.linalg.eigvalsh(operator.toarray())[::-1][1:21]
    np.testing.assert_allclose(values, exact, atol=1e-6)
    residual = np.linalg.norm(operator @ vectors - vectors * values, axis=0)
    assert residual.max() < 2e-5
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(20), atol=1e-4)
    assert np.abs(root @ vectors).max() < 1e-4


def test_large_graphs_are_solved_by_blocks_and_small_ones_are_not():
    """Blocks return vectors in single precision, and what depends on it tells which way was taken."""
    never = HostSolver(block_rows=10**9)
    small = kernel_graph(cloud(1000), n_neighbors=8, max_neighbors=24)
    large = kernel_graph(cloud(3500), n_neighbors=8, max_neighbors=24)
    np.testing.assert_array_equal(harmonics(small, 10).psi, harmonics(small, 10, solver=never).psi)
    found, exact = harmonics(large, 10), harmonics(large, 10, solver=never)
    np.testing.assert_array_equal(found.psi, found.psi.astype(np.float32))
    assert not np.array_equal(exact.psi, exact.psi.astype(np.float32))
    np.testing.assert_allclose(found.eigenvalues, exact.eigenvalues, atol=1e-6)
    np.testing.assert_allclose(found.psi @ (found.psi.T @ exact.psi), exact.psi, atol=1e-3)


def test_block_eigenpairs_keep_the_components_of_a_graph_apart():
    rows = np.vstack([cloud(2000), cloud(2000, seed=1) + 100])
    graph = kernel_graph(rows, n_neighbors=8, max_neighbors=24)
    with pytest.warns(UserWarning, match="2 components"):
        found = harmonics(graph, 5)
    assert found.eigenvalues[0] == pytest.approx(1)
    assert found.eigenvalues[1] < 1 - 1e-4
    sides = found.phi[:, 0].reshape(2, 2000)
    assert np.ptp(sides, axis=1).max() < 1e-6


def test_block_eigenpairs_of_well_separated_clusters(caplog):
    rng = np.random.default_rng(0)
    rows = 3 * rng.normal(size=(15, 50))[rng.integers(15, size=4000)] + rng.normal(size=(4000, 50))
    graph = kernel_graph(rows, n_neighbors=8, max_neighbors=24)
    with pytest.warns(UserWarning, match="components"), caplog.at_level(logging.WARNING):
        found = harmonics(graph, 30)
    assert not caplog.records
    residual = np.linalg.norm(graph.operator @ found.psi - found.psi * found.eigenvalues, axis=0)
    assert residual.max() < 1e-4
    assert found.eigenvalues[20] < 0.9


def test_arpack_goes_on_where_blocks_do_not_converge(caplog):
    graph = kernel_graph(cloud(3500), n_neighbors=8, max_neighbors=24)
    expected = harmonics(graph, 10)
    beyond = HostSolver(block_tol=1e-12)  # single precision never gets there
    with caplog.at_level(logging.WARNING, "harmonicalign"):
        found = harmonics(graph, 10, solver=beyond)
    assert "ARPACK goes on" in caplog.text
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, atol=1e-6)


def test_too_few_rounds_are_an_error_or_a_warning(caplog):
    graph = kernel_graph(cloud(3500), n_neighbors=8, max_neighbors=24)
    root = sp.csr_matrix(np.sqrt(graph.degrees / graph.degrees.sum())[:, None]).astype(np.float32)
    operator = sp.csr_matrix(graph.operator, dtype=np.float32)
    space = _Space(operator, root, 0)
    with pytest.raises(NotConvergedError, match="did not converge"):
        filtered_subspace(space, 10, tol=1e-9, max_iter=1)
    with caplog.at_level(logging.WARNING, "harmonicalign"):
        filtered_subspace(space, 10, tol=1e-3, max_iter=1)
    assert "after 1 rounds" in caplog.text


# devices


@pytest.fixture(scope="module")
def pair():
    return load_digits_pair(preserved=0.5, n_x=250, n_y=250, random_state=0)


def test_torch_gives_what_numpy_gives(pair):
    pytest.importorskip("torch")
    ours = HarmonicAlignment(random_state=0).fit([pair.x, pair.y])
    theirs = HarmonicAlignment(random_state=0, device="torch").fit([pair.x, pair.y])
    assert theirs.embedding_[0].dtype == np.float32
    a, b = ours.joint_, theirs.joint_
    np.testing.assert_allclose(b.graph.rows, a.graph.rows, atol=1e-5)
    assert abs(a.graph.kernel - b.graph.kernel).max() < 1e-5
    np.testing.assert_allclose(b.graph.bandwidth, a.graph.bandwidth, rtol=1e-4)
    np.testing.assert_array_equal(b.graph.components, a.graph.components)
    np.testing.assert_allclose(b.harmonics.eigenvalues, a.harmonics.eigenvalues, atol=1e-4)
    np.testing.assert_allclose(
        theirs.transform(pair.x[:5] + 0.01, dataset=0)[:, -10:],
        ours.transform(pair.x[:5] + 0.01, dataset=0)[:, -10:],
        atol=1e-4,
    )


def test_torch_repeats_bit_for_bit(pair):
    pytest.importorskip("torch")
    first, second = (
        HarmonicAlignment(random_state=0, device="torch").fit([pair.x, pair.y]).embedding_[1]
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def test_a_device_that_is_absent_raises_and_auto_falls_back(pair, caplog):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(RuntimeError, match="no CUDA device"):
        HarmonicAlignment(device="cuda").fit([pair.x, pair.y])
    with caplog.at_level(logging.WARNING, "harmonicalign"):
        assert devices.resolve("auto") == "cpu"
    assert "CPU is used" in caplog.text


@pytest.mark.parametrize("device", ["gpu", "cudax", 1, None, ""])
def test_unknown_devices_are_named(device, pair):
    with pytest.raises(ValueError, match="device is"):
        HarmonicAlignment(device=device).fit([pair.x, pair.y])


@pytest.mark.parametrize("exact_rows", [10_000, 100])
def test_torch_runs_the_paper(pair, monkeypatch, exact_rows):
    """With the kernel of all pairs, and with that of nearest rows, which are many rows' own."""
    pytest.importorskip("torch")
    for module in ("model", "graph"):
        monkeypatch.setattr(f"harmonicalign.paper.{module}.EXACT_ROWS", exact_rows)
    options = {"method": "paper", "n_harmonics": 12, "random_state": 0}
    rng = np.random.default_rng(0)
    # Without noise whole numbers are equally far from each other, and any of them is the last neighbour.
    rows = [x + 0.1 * rng.normal(size=x.shape) for x in (pair.x, pair.y)]
    ours = HarmonicAlignment(**options).fit(rows)
    theirs = HarmonicAlignment(**options, device="torch").fit(rows)
    for a, b in zip(ours.harmonics_, theirs.harmonics_, strict=True):
        assert abs(a.graph.kernel - b.graph.kernel).max() < 1e-5
        np.testing.assert_allclose(b.eigenvalues, a.eigenvalues, atol=1e-4)
    scale = np.abs(ours.embedding_[0]).max()
    for a, b in zip(ours.embedding_, theirs.embedding_, strict=True):
        np.testing.assert_allclose(b, a, atol=2e-2 * scale)
    new = rows[0][:20] + 0.01
    a, b = (model.transform(new, dataset=0) for model in (ours, theirs))
    np.testing.assert_allclose(b, a, atol=2e-2 * scale)


def test_torch_places_rows_as_numpy_does(pair):
    """New rows one by one, and a dataset that joins, whose rows are neighbours of each other."""
    pytest.importorskip("torch")
    ours = HarmonicAlignment(random_state=0).fit([pair.x, pair.y])
    theirs = HarmonicAlignment(random_state=0, device="torch").fit([pair.x, pair.y])
    for i, rows in enumerate((pair.x, pair.y)):
        a, b = (model.transform(rows + 0.01, dataset=i) for model in (ours, theirs))
        np.testing.assert_allclose(b, a, atol=1e-3)
    joining = pair.x[::2] + 0.02 * np.random.default_rng(0).normal(size=pair.x[::2].shape)
    for model in (ours, theirs):
        model.add(joining)
    np.testing.assert_allclose(theirs.embedding_[2], ours.embedding_[2], atol=1e-3)


def test_a_model_of_an_absent_device_places_rows_on_the_cpu(pair, caplog):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    fitted = HarmonicAlignment(random_state=0).fit([pair.x, pair.y]).fitted_
    elsewhere = replace(fitted, parameters=replace(fitted.parameters, device="cuda"))
    with caplog.at_level(logging.WARNING, "harmonicalign"):
        found = elsewhere.place(1, pair.y[:5] + 0.01)
    assert "the CPU is used" in caplog.text
    np.testing.assert_array_equal(found, fitted.place(1, pair.y[:5] + 0.01))


def test_large_searches_run_on_the_device(monkeypatch):
    pytest.importorskip("torch")
    from harmonicalign.engines.torch_neighbours import TorchNeighbours

    rows = cloud(1100)
    expected = nearest_rows(rows, 5, exact=False)
    searched = []
    search = TorchNeighbours.__call__

    def spied(engine, x, k, queries=None):
        searched.append(len(x))
        return search(engine, x, k, queries)

    monkeypatch.setattr(TorchNeighbours, "__call__", spied)
    with devices.searching_on(devices.resolve("torch")):
        found, few = nearest_rows(rows, 5, exact=False), nearest_rows(rows[:300], 5, exact=False)
        nearest_rows(rows, 5)  # in double precision, here
    nearest_rows(rows, 5, exact=False)
    assert searched == [1100]
    assert (found.indices == expected.indices).mean() > 0.999
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-3, atol=1e-3)
    assert few.recall == 1


def test_torch_components_are_scipys(pair):
    torch = pytest.importorskip("torch")
    from harmonicalign.engines.torch_joint import JointGraph

    rows = np.vstack([cloud(300), cloud(200, seed=1) + 50, cloud(100, seed=2) - 50])
    options = {"n_neighbors": 6, "max_neighbors": 15, "decay": 2.0, "thresh": 1e-4, "anisotropy": 0.5}
    graph = JointGraph(torch.from_numpy(rows.astype(np.float32)), seed=0, **options)
    expected = kernel_graph(rows, **options)
    np.testing.assert_array_equal(graph.components(), expected.components)


def test_torch_inverted_file_hands_back_rows_in_their_order():
    torch = pytest.importorskip("torch")
    from harmonicalign.engines.torch_joint import JointGraph

    rows = cloud(3000).astype(np.float32)
    options = {"n_neighbors": 6, "max_neighbors": 15, "decay": 2.0, "thresh": 1e-4, "anisotropy": 0.5}
    graph = JointGraph(torch.from_numpy(rows), seed=0, exact_below=100, **options)
    assert 0.9 < graph.recall <= 1
    found, expected = graph.to_host(), kernel_graph(rows, **options)
    shared = found["kernel"].multiply(expected.kernel > 0).nnz / expected.kernel.nnz
    assert shared > 0.9
    values, psi = graph.harmonics(5, 1e-5)
    np.testing.assert_allclose(values, harmonics(expected, 5).eigenvalues, atol=0.01)
    operator = found["kernel"].multiply(1 / np.sqrt(np.outer(found["degrees"], found["degrees"])))
    assert np.linalg.norm(operator @ psi - psi * values, axis=0).max() < 1e-3


# progress


def test_progress_tells_what_is_left(capsys):
    progress = Progress(verbose=True)
    progress.expect([("first", 1.0), ("second", 3.0)])
    assert progress.seconds_left is None
    with progress.stage("first"):
        pass
    assert progress.seconds_left == pytest.approx(3 * progress.timings["first"])
    with progress.stage("second"):
        pass
    assert progress.seconds_left == 0
    said = capsys.readouterr().err
    assert "[1/2] first" in said
    assert "s left" in said


def test_listeners_hear_the_planned_stages_begin_and_end(pair):
    heard = []
    with listening(lambda name, seconds: heard.append((name, seconds))):
        HarmonicAlignment(random_state=0).fit([pair.x, pair.y, pair.x[:100]])
    names = [name for name, seconds in heard if seconds is None]
    assert names == [name for name, seconds in heard if seconds is not None]
    plan = fit_plan([250, 250, 100], 2, 2000)
    assert len(plan) == len(names)
    assert all(name.startswith(planned) for name, (planned, _) in zip(names, plan, strict=True))
    assert all(cost > 0 for _, cost in plan)
