"""The torch engine on torch's CPU device, against scipy, and on CUDA where there is one."""

import logging
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl

torch = pytest.importorskip("torch")

from harmonicalign import HarmonicAlignment  # noqa: E402
from harmonicalign.datasets import load_digits_pair  # noqa: E402
from harmonicalign.engines import devices  # noqa: E402
from harmonicalign.engines import torch_device as engine  # noqa: E402
from harmonicalign.engines import torch_neighbours as neighbours  # noqa: E402
from harmonicalign.engines import torch_spectral as spectral  # noqa: E402
from harmonicalign.engines.chebyshev import NotConvergedError  # noqa: E402
from harmonicalign.paper.graph import kernel_graph  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device(request.param)


def manifold(n, columns=12, seed=0, clusters=5):
    """Rows on a curved four-dimensional manifold, in clusters that touch."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(clusters, 4))[rng.integers(clusters, size=n)] + 0.7 * rng.normal(size=(n, 4))
    x = np.tanh(z @ rng.normal(size=(4, 32))) @ rng.normal(size=(32, columns))
    return (x + 0.01 * rng.normal(size=(n, columns))).astype(np.float32)


def brute(x, k, queries=None):
    q = x if queries is None else queries
    d = np.sqrt(((q[:, None].astype(float) - x[None]) ** 2).sum(2))
    if queries is None:
        np.fill_diagonal(d, np.inf)
    indices = np.argsort(d, axis=1)[:, :k]
    return np.take_along_axis(d, indices, 1), indices


def graph_of(x, device, k=15):
    distances, indices = engine.knn(torch.from_numpy(x).to(device), k)
    kernel, degrees, *_ = engine.kernel(distances, indices, n_bandwidth=k // 2)
    return engine.normalise(kernel, degrees), degrees


def as_scipy(csr):
    crow, col, val = (part.cpu().numpy() for part in csr)
    return sp.csr_array((val.astype(float), col, crow), shape=(csr.n, csr.n))


# devices


def test_an_absent_gpu_raises(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="no CUDA device"):
        engine.resolve_device("cuda")


def test_auto_falls_back_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with caplog.at_level(logging.INFO, logger="harmonicalign"):
        assert engine.resolve_device("auto") == torch.device("cpu")
    assert "no CUDA device" in caplog.text


@pytest.mark.parametrize("name", ["meta", "gpu"])
def test_an_unknown_device_is_named(name):
    with pytest.raises(ValueError, match=name):
        engine.resolve_device(name)


def test_gpus_are_counted(monkeypatch):
    """As on a machine with two of them, the second in use."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert engine.resolve_device("auto") == torch.device("cuda", 1)
    assert engine.resolve_device("cuda") == torch.device("cuda", 1)
    assert engine.resolve_device("cuda:0") == torch.device("cuda", 0)
    with pytest.raises(RuntimeError, match="'cuda:2' was asked for, but there are only 2 CUDA devices"):
        engine.resolve_device("cuda:2")
    assert devices.resolve("auto") == torch.device("cuda", 1)
    assert devices.resolve("torch") == torch.device("cpu")


def test_torch_is_asked_for_where_it_is_missing(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "harmonicalign.engines.torch_device", None)
    assert devices.resolve("auto") == "cpu"
    assert "torch is not installed, so the CPU is used" in caplog.text
    assert devices.resolve("cpu") == "cpu"
    with pytest.raises(
        ImportError, match=r"device='cuda' needs torch: .* pip install 'harmonicalign\[gpu\]'"
    ):
        devices.resolve("cuda")


# rows in the joint space


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_rows_are_placed_as_without_torch(form):
    """Also rows of a dataset that joined later, some of whose signals are predicted from its components."""
    pair = load_digits_pair(preserved=0.5, n_x=400, n_y=200, random_state=0)
    model = HarmonicAlignment(random_state=0).fit([pair.x[:200], pair.x[200:]])
    model.add(pair.y)
    space = model.model_.space
    assert space.bridges[2] is not None
    for i, rows in enumerate(model.fitted_.inputs.datasets):
        components = model.model_.reductions[i].apply(rows)
        expected = space.place(i, components, form(rows))
        found = space.place_on(torch.device("cpu"), i, components, form(rows))
        np.testing.assert_allclose(found.numpy(), expected, atol=2e-5)


@pytest.mark.parametrize("width", [5, 8])
def test_rows_of_few_numbers_are_placed_as_without_torch(width):
    x = manifold(300)[:, :width].astype(float)
    model = HarmonicAlignment(random_state=0).fit([x[::2], x[1::2] + 0.3])
    space = model.model_.space
    expected = space.place(1, x, x)
    np.testing.assert_allclose(space.place_on(torch.device("cpu"), 1, x, x).numpy(), expected, atol=2e-5)
    assert np.ptp(np.linalg.norm(expected, axis=1)) > 0.1


# neighbours


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_exact_neighbours_are_those_of_brute_force(device, offset):
    x = manifold(400) + np.float32(offset)
    d, indices = brute(x, 10)
    found, where = engine.knn(torch.from_numpy(x).to(device), 10)
    np.testing.assert_allclose(found.cpu(), d, rtol=1e-5)
    assert (where.cpu().numpy() == indices).mean() > 0.999


def test_exact_neighbours_do_not_depend_on_tiles():
    x = torch.from_numpy(manifold(300))
    own = torch.arange(300)
    whole = neighbours.exact_search(x, x, 7, own)
    tiled = neighbours.exact_search(x, x, 7, own, budget=300 * 37)
    torch.testing.assert_close(whole[0], tiled[0])
    assert torch.equal(whole[1], tiled[1])


@pytest.mark.parametrize("columns", [3, 50, 70])
def test_inverted_file_recall(device, columns):
    x = torch.from_numpy(manifold(6000, columns)).to(device)
    distances, indices = engine.knn(x, 15, exact=False)
    assert engine.recall(x, indices, 500) > 0.97
    assert not (indices == torch.arange(len(x), device=device)[:, None]).any()
    assert (distances.diff(dim=1) >= 0).all()
    torch.testing.assert_close(distances, (x[indices] - x[:, None]).norm(dim=2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", [0, 1])  # held-out rows of the same manifold, and rows of another
def test_inverted_file_answers_queries(device, seed):
    x, q = manifold(6000)[300:], manifold(6000, seed=seed)[:300]
    true, _ = brute(x, 10, q)
    found, _ = engine.knn(
        torch.from_numpy(x).to(device), 10, queries=torch.from_numpy(q).to(device), exact=False
    )
    assert (found.cpu().numpy() <= true[:, -1:] * (1 + 1e-5)).mean() > 0.95


def test_inverted_file_of_far_away_and_repeated_rows(device):
    x = manifold(3000)
    x[:1500] *= 1e-2
    x[:1500] += 500
    x[-400:] = x[-1]
    rows = torch.from_numpy(x).to(device)
    distances, indices = engine.knn(rows, 12, exact=False)
    assert engine.recall(rows, indices) > 0.95
    assert (distances[-400:] == 0).float().mean() > 0.99


def test_rows_without_structure_are_reported(monkeypatch, caplog):
    monkeypatch.setattr(neighbours, "MAX_QUOTA", 1000)
    x = torch.randn(3000, 40, generator=torch.Generator().manual_seed(0))
    with caplog.at_level(logging.WARNING, logger="harmonicalign"):
        engine.knn(x, 10, exact=False)
    assert "too many dimensions" in caplog.text


def test_neighbours_repeat_and_depend_on_the_seed_alone(device):
    x = torch.from_numpy(manifold(5000)).to(device)
    first, again = (engine.knn(x, 10, exact=False, random_state=3) for _ in range(2))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])


def test_recall_of_wrong_neighbours_is_low():
    x = torch.from_numpy(manifold(500))
    assert engine.recall(x, torch.randint(500, (500, 10), generator=torch.Generator().manual_seed(0))) < 0.2


def test_too_many_neighbours_are_refused():
    with pytest.raises(ValueError, match="between 1 and 4"):
        engine.knn(torch.zeros(5, 2), 5)


# kernel


@pytest.mark.parametrize(("decay", "anisotropy"), [(2.0, 0.0), (10.0, 1.0), (2.0, 0.5)])
def test_kernel_is_the_formula(device, decay, anisotropy):
    x = manifold(200)
    # the CPU's kernel, which has tests of its own
    graph = kernel_graph(x, n_neighbors=5, max_neighbors=12, decay=decay, anisotropy=anisotropy)
    expected = graph.kernel.toarray()
    distances, indices = engine.knn(torch.from_numpy(x).to(device), 12)
    kernel, degrees, *_ = engine.kernel(distances, indices, n_bandwidth=5, decay=decay, anisotropy=anisotropy)
    found = as_scipy(kernel)
    assert found.has_sorted_indices
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(degrees.cpu(), expected.sum(1), rtol=1e-4)
    scale = expected.sum(1) ** -0.5
    operator = as_scipy(engine.normalise(kernel, degrees)).toarray()
    np.testing.assert_allclose(operator, expected * np.outer(scale, scale), rtol=1e-4, atol=1e-7)


def test_kernel_of_repeated_rows_is_finite():
    x = torch.from_numpy(np.repeat(manifold(20), 10, axis=0))
    kernel, degrees, *_ = engine.kernel(*engine.knn(x, 12), n_bandwidth=5)
    assert torch.isfinite(kernel.val).all()
    assert (degrees >= 10 - 1e-3).all()


def test_bandwidth_must_be_among_the_neighbours():
    with pytest.raises(ValueError, match="between 1 and the 3"):
        engine.kernel(torch.ones(4, 3), torch.zeros(4, 3, dtype=torch.int64), n_bandwidth=4)


# eigenpairs


@pytest.mark.parametrize("n", [900, 4000])  # dense, and filtered
def test_eigenpairs_agree_with_arpack(device, n):
    operator, degrees = graph_of(manifold(n), device)
    values, vectors = engine.eigenpairs(operator, degrees, 20)
    expected, basis = spl.eigsh(as_scipy(operator), k=21, which="LA", v0=np.ones(n))
    np.testing.assert_allclose(values.cpu(), expected[::-1][1:], atol=2e-6)
    v = vectors.cpu().double().numpy()
    np.testing.assert_allclose(v.T @ v, np.eye(20), atol=1e-5)
    trivial = degrees.cpu().double().sqrt().numpy()
    assert np.abs(v.T @ trivial).max() / np.linalg.norm(trivial) < 1e-5
    residual = as_scipy(operator) @ v - v * values.cpu().numpy()
    assert np.linalg.norm(residual, axis=0).max() < 2e-5
    # the spaces agree up to the last pair, which may share its eigenvalue with the next
    cosines = np.linalg.svd(basis[:, ::-1].T @ v[:, :19], compute_uv=False)
    assert cosines.min() > 1 - 1e-4


def test_other_components_are_kept():
    x = np.concatenate([manifold(1000, seed=s) + 100 * s for s in range(3)])
    operator, degrees = graph_of(x, torch.device("cpu"))
    values, vectors = engine.eigenpairs(operator, degrees, 5)
    np.testing.assert_allclose(values[:2], 1, atol=1e-5)
    assert values[2] < 1 - 1e-4
    # within a component, an indicator is a multiple of the trivial vector
    ratio = (vectors[:, :2] / degrees.sqrt()[:, None]).view(3, 1000, 2)
    assert ratio.std(1).max() < 1e-4 * ratio.abs().max()


def test_eigenpairs_repeat(device):
    operator, degrees = graph_of(manifold(3000), device)
    first, again = (engine.eigenpairs(operator, degrees, 8, random_state=1) for _ in range(2))
    assert torch.equal(first[1], again[1])


def test_unfinished_eigenpairs_are_reported(caplog):
    operator, degrees = graph_of(manifold(2000), torch.device("cpu"))
    with caplog.at_level(logging.WARNING, logger="harmonicalign"):
        engine.eigenpairs(operator, degrees, 4, tol=1e-3, max_iter=1)
    assert "after 1 rounds" in caplog.text
    with pytest.raises(NotConvergedError, match="after 1 rounds"):
        engine.eigenpairs(operator, degrees, 4, max_iter=1)


@pytest.mark.parametrize("k", [0, 50])
def test_number_of_eigenpairs_is_checked(k):
    operator, degrees = graph_of(manifold(50), torch.device("cpu"), k=5)
    with pytest.raises(ValueError, match="between 1 and n - 1 = 49"):
        engine.eigenpairs(operator, degrees, k)


def test_gram_is_the_product(monkeypatch):
    monkeypatch.setattr(spectral, "GRAM_ROWS", 300)
    a, b = torch.randn(1000, 3), torch.randn(1000, 4)
    torch.testing.assert_close(engine.gram(a, b), a.double().T @ b.double())


# the whole


def test_harmonics_are_the_stages_in_a_row(device):
    x = torch.from_numpy(manifold(5000)).to(device)
    whole = engine.harmonics(x, 6, n_neighbors=12, n_bandwidth=6, exact=False)
    distances, indices = engine.knn(x, 12, exact=False)
    torch.testing.assert_close(whole.distances, distances)
    assert torch.equal(whole.indices, indices)
    kernel, degrees, *_ = engine.kernel(distances, indices, n_bandwidth=6)
    torch.testing.assert_close(whole.degrees, degrees)
    values, vectors = engine.eigenpairs(engine.normalise(kernel, degrees), degrees, 6)
    torch.testing.assert_close(whole.values, values, rtol=0, atol=1e-5)
    assert torch.linalg.svdvals(whole.vectors[:, :5].T @ vectors).min() > 1 - 1e-3


def test_arrays_in_arrays_out():
    x = manifold(600)
    distances, indices = engine.knn_numpy(x, 10, device="cpu")
    kernel, degrees = engine.kernel_numpy(distances, indices, n_bandwidth=5, device="cpu")
    assert sp.issparse(kernel)
    np.testing.assert_allclose(kernel.sum(1), degrees, rtol=1e-5)
    scale = sp.diags_array(degrees**-0.5)
    values, vectors = engine.eigenpairs_numpy((scale @ kernel @ scale).tocsr(), degrees, 5, device="cpu")
    whole, _, _ = engine.harmonics_numpy(x, 5, device="cpu", n_neighbors=10, n_bandwidth=5)
    np.testing.assert_allclose(values, whole, atol=1e-5)
    assert vectors.shape == (600, 5)
    found, _ = engine.knn_numpy(x, 3, queries=x[:4] + 1, device="cpu")
    assert found.shape == (4, 3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize(("k", "columns"), [(15, 40), (100, 40), (30, 100), (30, 200), (30, 500)])
def test_fused_search_finds_what_the_plain_one_finds(k, columns, monkeypatch):
    x = torch.from_numpy(manifold(30_000, columns)).cuda()
    fused = engine.knn(x, k, exact=False)[1]
    monkeypatch.setattr(neighbours, "accelerated", lambda device: None)
    plain = engine.knn(x, k, exact=False)[1]
    assert engine.recall(x, fused) > engine.recall(x, plain) - 0.01


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("width", [1, 40, 64, 96, 128])
def test_fused_product_is_the_product(width):
    operator, _ = graph_of(manifold(3000), torch.device("cuda"))
    x = torch.randn(3000, width, device="cuda")
    z = torch.randn(3000, width, device="cuda")
    expected = 0.5 * (operator.sparse().to_dense() @ x) - 0.3 * x + 0.7 * z
    found = spectral._Space(operator, x[:, :1], 0).apply(x, z, alpha=0.5, beta=-0.3, gamma=0.7)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_to_host_copies_everything(monkeypatch):
    monkeypatch.setattr(engine, "STAGING", 1000)
    x = torch.randn(777, 13, device="cuda")
    np.testing.assert_array_equal(engine.to_host(x), x.cpu().numpy())
