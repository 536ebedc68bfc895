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
from harmonicalign.engines import devices, torch_joint  # noqa: E402
from harmonicalign.engines import torch_spectral as spectral  # noqa: E402
from harmonicalign.engines.chebyshev import NotConvergedError  # noqa: E402
from harmonicalign.engines.protocols import Neighbours  # noqa: E402
from harmonicalign.engines.torch_cuda import scan_fused  # noqa: E402
from harmonicalign.engines.torch_device import resolve_device, to_host  # noqa: E402
from harmonicalign.engines.torch_joint import JointGraph  # noqa: E402
from harmonicalign.engines.torch_lists import build_index, plan_lists  # noqa: E402
from harmonicalign.engines.torch_neighbours import _scan_plain, knn, search  # noqa: E402
from harmonicalign.engines.torch_tiles import exact_search, kernels_for  # noqa: E402
from harmonicalign.method import DEFAULT  # noqa: E402
from harmonicalign.method.embed import smoothed  # noqa: E402
from harmonicalign.method.tangents import project  # noqa: E402
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
    """Operator of a graph and its trivial eigenvector, on a device."""
    kernel, degrees, *_ = spectral.kernel(knn(torch.from_numpy(x).to(device), k), n_bandwidth=k // 2)
    trivial = degrees.sqrt()
    return spectral.normalise(kernel, degrees), (trivial / trivial.norm())[:, None]


def as_scipy(csr):
    crow, col, val = (part.cpu().numpy() for part in csr)
    return sp.csr_array((val.astype(float), col, crow), shape=(csr.n, csr.n))


# devices


def test_an_absent_gpu_raises(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="no CUDA device"):
        resolve_device("cuda")


def test_auto_falls_back_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with caplog.at_level(logging.INFO, logger="harmonicalign"):
        assert resolve_device("auto") == torch.device("cpu")
    assert "no CUDA device" in caplog.text


@pytest.mark.parametrize("name", ["meta", "gpu"])
def test_an_unknown_device_is_named(name):
    with pytest.raises(ValueError, match=name):
        resolve_device(name)


def test_gpus_are_counted(monkeypatch):
    """As on a machine with two of them, the second in use."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert resolve_device("auto") == torch.device("cuda", 1)
    assert resolve_device("cuda") == torch.device("cuda", 1)
    assert resolve_device("cuda:0") == torch.device("cuda", 0)
    with pytest.raises(RuntimeError, match="'cuda:2' was asked for, but there are only 2 CUDA devices"):
        resolve_device("cuda:2")
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


@pytest.mark.parametrize("rows", [1, 500, 3001])
def test_moments_and_axes_are_those_of_numpy(device, rows, monkeypatch):
    monkeypatch.setattr(torch_joint, "workspace", lambda _: 4 * 12 * 700)  # several pieces, the last short
    x = manifold(rows).astype(np.float32) + 1000
    mean, sums = torch_joint.moments(torch.from_numpy(x).to(device))
    exact = x.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(
        sums, (exact - mean).T @ (exact - mean), atol=1e-6 * max(1, np.abs(sums).max())
    )
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 4)))[0]
    small = x - np.float32(1000)
    found, signs = torch_joint.along_axes(torch.from_numpy(small).to(device), axes, mean - 1000)
    expected = (exact - mean) @ axes
    far = expected[np.abs(expected).argmax(axis=0), np.arange(4)]
    if rows > 1:
        assert np.array_equal(signs, np.where(far < 0, -1.0, 1.0))
    np.testing.assert_allclose(to_host(found), expected * signs, atol=2e-4)


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


@pytest.mark.parametrize("together", [False, True])
def test_new_rows_are_projected_and_smoothed_as_without_torch(device, together):
    rows = manifold(900)
    known, new = rows[:700], rows[700:]
    own, dimensions = None, None
    if together:
        known = rows
        own, dimensions = np.arange(700, 900), 2.0
    there = [torch.from_numpy(part).to(device) for part in (new, known)]
    k = DEFAULT.tangent_neighbours
    expected = project(new, known, dimensions=dimensions)
    found = to_host(torch_joint.onto_planes(*there, k, dimensions))
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert np.abs(expected - new).max() > 0.01
    expected = smoothed(new, known, own, DEFAULT)
    found = to_host(torch_joint.smoothed_among(*there, own, DEFAULT.smoothing_neighbours, DEFAULT.smoothing))
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_new_rows_are_smoothed_among_many_by_lists(device, monkeypatch):
    rows = torch.from_numpy(manifold(3000)).to(device)
    exact = torch_joint.smoothed_among(rows[:500], rows, None, 10, 0.5)
    monkeypatch.setattr(torch_joint, "_COMPARED", 1)
    monkeypatch.setattr(torch_joint, "EXACT_BELOW", 0)
    found = torch_joint.smoothed_among(rows[:500], rows, None, 10, 0.5)
    apart = torch.linalg.norm(found - exact, dim=1)
    assert (apart < 1e-4).double().mean() > 0.7  # lists lose some neighbours
    assert apart.mean() < 0.05 * torch.linalg.norm(exact - rows[:500], dim=1).mean() + 0.05


# neighbours


def test_exact_neighbours_do_not_depend_on_tiles():
    x = torch.from_numpy(manifold(300))
    own = torch.arange(300)
    whole = exact_search(x, x, 7, own)
    tiled = exact_search(x, x, 7, own, budget=300 * 37)
    torch.testing.assert_close(whole.distances, tiled.distances)
    assert torch.equal(whole.indices, tiled.indices)


@pytest.mark.parametrize("columns", [3, 50, 70])
def test_inverted_file_recall(device, columns):
    x = torch.from_numpy(manifold(6000, columns)).to(device)
    found = knn(x, 15, exact_below=0)
    assert found.recall > 0.97
    assert not (found.indices == torch.arange(len(x), device=device)[:, None]).any()
    assert (found.distances.diff(dim=1) >= 0).all()
    true = (x[found.indices] - x[:, None]).norm(dim=2)
    torch.testing.assert_close(found.distances, true, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", [0, 1])  # held-out rows of the same manifold, and rows of another
def test_inverted_file_answers_queries(device, seed):
    x, q = manifold(6000)[300:], manifold(6000, seed=seed)[:300]
    true, _ = brute(x, 10, q)
    rows, queries = (torch.from_numpy(part).to(device) for part in (x, q))
    found = knn(rows, 10, queries, exact_below=0)
    reached = (found.distances.cpu().numpy() <= true[:, -1:] * (1 + 1e-5)).mean()
    assert reached > 0.95
    assert found.recall == pytest.approx(reached, abs=0.01)


def test_inverted_file_of_far_away_and_repeated_rows(device):
    x = manifold(3000)
    x[:1500] *= 1e-2
    x[:1500] += 500
    x[-400:] = x[-1]
    found = knn(torch.from_numpy(x).to(device), 12, exact_below=0)
    assert found.recall > 0.95
    assert (found.distances[-400:] == 0).float().mean() > 0.99


def test_rows_without_structure_are_reported(caplog):
    x = torch.randn(3000, 40, generator=torch.Generator().manual_seed(0))
    with caplog.at_level(logging.WARNING, logger="harmonicalign"):
        _, found = search(build_index(x), 10, max_quota=1000)
    assert "too many dimensions" in caplog.text
    assert found.recall < 0.9


# kernel


@pytest.mark.parametrize(("decay", "anisotropy"), [(2.0, 0.0), (10.0, 1.0), (2.0, 0.5)])
def test_kernel_is_the_formula(device, decay, anisotropy):
    x = manifold(200)
    # the CPU's kernel, which has tests of its own
    graph = kernel_graph(x, n_neighbors=5, max_neighbors=12, decay=decay, anisotropy=anisotropy)
    expected = graph.kernel.toarray()
    near = knn(torch.from_numpy(x).to(device), 12)
    kernel, degrees, *_ = spectral.kernel(near, n_bandwidth=5, decay=decay, anisotropy=anisotropy)
    found = as_scipy(kernel)
    assert found.has_sorted_indices
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(degrees.cpu(), expected.sum(1), rtol=1e-4)
    scale = expected.sum(1) ** -0.5
    operator = as_scipy(spectral.normalise(kernel, degrees)).toarray()
    np.testing.assert_allclose(operator, expected * np.outer(scale, scale), rtol=1e-4, atol=1e-7)


def test_kernel_of_repeated_rows_is_finite():
    x = torch.from_numpy(np.repeat(manifold(20), 10, axis=0))
    kernel, degrees, *_ = spectral.kernel(knn(x, 12), n_bandwidth=5)
    assert torch.isfinite(kernel.val).all()
    assert (degrees >= 10 - 1e-3).all()


def test_bandwidth_must_be_among_the_neighbours():
    near = Neighbours(torch.zeros(4, 3, dtype=torch.int64), torch.ones(4, 3))
    with pytest.raises(ValueError, match="between 1 and the 3"):
        spectral.kernel(near, n_bandwidth=4)


# eigenpairs


@pytest.mark.parametrize("n", [900, 4000])  # dense, and filtered
def test_eigenpairs_agree_with_arpack(device, n):
    operator, trivial = graph_of(manifold(n), device)
    values, vectors = spectral.eigenpairs(operator, 20, deflate=trivial)
    expected, basis = spl.eigsh(as_scipy(operator), k=21, which="LA", v0=np.ones(n))
    np.testing.assert_allclose(values.cpu(), expected[::-1][1:], atol=2e-6)
    v = vectors.cpu().double().numpy()
    # the spaces agree up to the last pair, which may share its eigenvalue with the next
    cosines = np.linalg.svd(basis[:, ::-1].T @ v[:, :19], compute_uv=False)
    assert cosines.min() > 1 - 1e-4


def test_other_components_are_kept():
    x = np.concatenate([manifold(1000, seed=s) + 100 * s for s in range(3)])
    operator, trivial = graph_of(x, torch.device("cpu"))
    values, vectors = spectral.eigenpairs(operator, 5, deflate=trivial)
    np.testing.assert_allclose(values[:2], 1, atol=1e-5)
    assert values[2] < 1 - 1e-4
    # within a component, an indicator is a multiple of the trivial vector
    ratio = (vectors[:, :2] / trivial).view(3, 1000, 2)
    assert ratio.std(1).max() < 1e-4 * ratio.abs().max()


def test_unfinished_eigenpairs_are_reported(caplog):
    operator, trivial = graph_of(manifold(2000), torch.device("cpu"))
    with caplog.at_level(logging.WARNING, logger="harmonicalign"):
        spectral.eigenpairs(operator, 4, deflate=trivial, tol=1e-3, max_iter=1)
    assert "after 1 rounds" in caplog.text
    with pytest.raises(NotConvergedError, match="after 1 rounds"):
        spectral.eigenpairs(operator, 4, deflate=trivial, max_iter=1)


def test_gram_is_the_product():
    a, b = torch.randn(1000, 3), torch.randn(1000, 4)
    torch.testing.assert_close(spectral.gram(a, b, rows=300), a.double().T @ b.double())


# the whole


@pytest.mark.parametrize("n", [800, 5000])  # all pairs, and an inverted file
def test_a_joint_graph_is_its_stages_in_a_row(device, n):
    x = torch.from_numpy(manifold(n)).to(device)
    options = {"n_neighbors": 6, "max_neighbors": 12, "decay": 2.0, "thresh": 1e-4, "anisotropy": 0.0}
    whole = JointGraph(x, seed=0, exact_below=2000, **options)
    near = knn(x, 12, exact_below=2000)
    assert whole.recall == near.recall
    kernel, degrees, *_ = spectral.kernel(near, n_bandwidth=6)
    np.testing.assert_allclose(whole.to_host()["degrees"], degrees.cpu(), rtol=1e-5)
    assert abs(whole.to_host()["kernel"] - as_scipy(kernel)).max() < 1e-6
    trivial = degrees.sqrt()[:, None] / degrees.sqrt().norm()
    expected, basis = spectral.eigenpairs(spectral.normalise(kernel, degrees), 6, deflate=trivial)
    values, psi = whole.harmonics(6, 1e-5)
    np.testing.assert_allclose(values, expected.cpu(), atol=1e-5)
    assert np.linalg.svd(psi[:, :5].T @ basis.cpu().numpy(), compute_uv=False).min() > 1 - 1e-3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize(("k", "columns"), [(15, 40), (100, 40), (30, 100), (30, 200), (30, 500)])
def test_fused_search_finds_what_the_plain_one_finds(k, columns):
    index = build_index(torch.from_numpy(manifold(30_000, columns)).cuda())
    plan = plan_lists(index, 4000)
    fused = scan_fused(kernels_for(index.rows), index, index.rows, index.bounds, plan, k, True)
    plain = _scan_plain(index, index.rows, index.bounds, plan, k, True)
    assert (fused.distances <= plain.distances[:, -1:] * (1 + 1e-5)).float().mean() > 0.98


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
def test_to_host_copies_everything():
    x = torch.randn(777, 13, device="cuda")
    np.testing.assert_array_equal(to_host(x, staging=1000), x.cpu().numpy())


def test_a_matrix_on_a_device_leaves_that_on_the_host_as_it_is():
    """Its arrays may be another matrix's too."""
    values, columns, ends = np.arange(1.0, 5), np.array([1, 0, 1, 0]), np.array([0, 2, 4])
    matrix = sp.csr_matrix((values, columns, ends), shape=(2, 2))
    found = spectral.Csr.from_host(matrix, torch.device("cpu"))
    assert found.col.tolist() == [0, 1, 0, 1]
    assert found.val.tolist() == [2, 1, 4, 3]
    assert columns.tolist() == [1, 0, 1, 0]
    assert values.tolist() == [1, 2, 3, 4]
