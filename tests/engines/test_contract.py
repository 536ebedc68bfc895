"""What every engine promises, by one body of tests on all that are there, against plain numpy."""

import numpy as np
import pytest
import scipy.sparse as sp

import harmonicalign as ha
from harmonicalign.engines import Eigenpairs, Neighbours
from harmonicalign.engines.eigen import HostSolver
from harmonicalign.engines.faiss_neighbours import FaissNeighbours
from harmonicalign.engines.protocols import checked_neighbours
from harmonicalign.paper.harmonics import _component_vectors


def torch_part(module, name, device):
    """What torch computes with on a device, or a skip that says what is missing."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    package = __import__(f"harmonicalign.engines.{module}", fromlist=[name])
    return getattr(package, name)


def torch_neighbours(device, **options):
    return torch_part("torch_neighbours", "TorchNeighbours", device)(device=device, **options)


def torch_solver(device, dense_below=1500):
    """What the joint map on a device computes its eigenpairs with, in the form of the contract."""
    eigenpairs = torch_part("torch_spectral", "eigenpairs", device)
    from harmonicalign.engines.torch_device import resolve_device, to_device
    from harmonicalign.engines.torch_spectral import Csr

    where = resolve_device(device)

    def solver(operator, k, *, deflate, random_state):
        if k == 0:
            return Eigenpairs(np.empty(0), np.empty((operator.shape[0], 0)))
        found = eigenpairs(
            Csr.from_host(operator, where),
            k,
            deflate=to_device(deflate.toarray(), where),
            random_state=int(random_state.randint(2**31)),
            dense_below=dense_below,
        )
        return Eigenpairs(*(part.cpu().numpy().astype(np.float64) for part in found))

    return solver


def brute_force(x, k, queries=None):
    """The oracle, and an engine as a user would write it."""
    if not 1 <= k <= len(x) - (queries is None):
        raise ValueError(f"k must be between 1 and {len(x) - (queries is None)}, not {k}")
    sought = x if queries is None else queries
    distances = np.linalg.norm(sought[:, None].astype(np.float64) - x[None], axis=2)
    if queries is None:
        np.fill_diagonal(distances, np.inf)
    indices = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return Neighbours(indices, np.take_along_axis(distances, indices, axis=1))


EXACT = {
    "brute force": lambda **o: brute_force,
    "faiss": lambda **o: FaissNeighbours(**o),
    "torch-cpu": lambda **o: torch_neighbours("cpu", **o),
    "torch-cuda": lambda **o: torch_neighbours("cuda", **o),
}
LISTS = {
    "faiss, lists": lambda **o: FaissNeighbours(exact_pairs=0, few_rows=0, **o),
    "torch-cpu, lists": lambda **o: torch_neighbours("cpu", exact_below=0, **o),
    "torch-cuda, lists": lambda **o: torch_neighbours("cuda", exact_below=0, **o),
}
SOLVERS = {
    "dense": lambda: HostSolver(),
    "blocks": lambda: HostSolver(dense_rows=0, block_rows=0),
    "arpack": lambda: HostSolver(dense_rows=0),
    "torch-cpu, dense": lambda: torch_solver("cpu"),
    "torch-cpu, filtered": lambda: torch_solver("cpu", dense_below=0),
    "torch-cuda, dense": lambda: torch_solver("cuda"),
    "torch-cuda, filtered": lambda: torch_solver("cuda", dense_below=0),
}


def on_engines(table, argument="make"):
    """Every engine of a table, those of CUDA marked as such."""
    marks = [pytest.mark.gpu if "cuda" in name else () for name in table]
    values = [pytest.param(table[name], id=name, marks=mark) for name, mark in zip(table, marks, strict=True)]
    return pytest.mark.parametrize(argument, values)


def surface(n, columns=6, seed=0):
    rng = np.random.default_rng(seed)
    return np.tanh(rng.normal(size=(n, 3)) @ np.random.default_rng(9).normal(size=(3, columns)))


# neighbours


@on_engines(EXACT)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("others", [False, True])
def test_neighbours_are_those_of_all_pairs(make, kind, offset, others):
    x = (surface(300) + offset).astype(kind)
    queries = (surface(40, seed=1) + offset).astype(kind) if others else None
    found, true = make()(x, 9, queries), brute_force(x, 9, queries)
    np.testing.assert_allclose(found.distances, true.distances, rtol=1e-6, atol=1e-7)
    assert (found.indices == true.indices).mean() > 0.995
    assert found.recall == 1
    assert found.distances.dtype == np.float64


@on_engines(EXACT | LISTS)
@pytest.mark.parametrize("others", [False, True])
def test_any_answer_passes_the_checks_and_repeats(make, others):
    x = surface(1500)
    queries = surface(60, seed=1) if others else None
    x.flags.writeable = False
    one, two = (checked_neighbours(make(), x, 7, queries) for _ in range(2))
    assert one.indices.shape == ((60 if others else 1500), 7)
    np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_array_equal(one.distances, two.distances)
    true = np.linalg.norm((x if queries is None else queries)[:, None] - x[one.indices], axis=2)
    np.testing.assert_allclose(one.distances, true, atol=1e-12)


@on_engines(LISTS)
@pytest.mark.parametrize("others", [False, True])
def test_the_recall_is_as_promised(make, others):
    x = surface(6000)
    queries = surface(500, seed=1) if others else None
    found, true = make(exact=False)(x, 10, queries), brute_force_in_parts(x, 10, queries)
    reached = np.mean(found.distances <= true.distances[:, -1:] * (1 + 1e-5))
    assert found.recall >= 0.95
    assert abs(reached - found.recall) < 0.03
    assert (np.diff(found.distances, axis=1) >= 0).all()


def brute_force_in_parts(x, k, queries):
    sought = x if queries is None else queries
    parts = [brute_force(x, k + 1, sought[i : i + 500]) for i in range(0, len(sought), 500)]
    distances = np.vstack([part.distances for part in parts])
    distances = distances[:, :k] if queries is not None else distances[:, 1:]
    return Neighbours(np.zeros(distances.shape, dtype=int), distances)


@on_engines(EXACT)
def test_more_copies_than_neighbours(make):
    """A row is never its own neighbour, even where its copies hide it; copies are at distance 0."""
    x = np.repeat(surface(6) + 50, 40, axis=0)
    found = checked_neighbours(make(), x, 12)
    assert (found.distances == 0).all()
    assert (x[found.indices] == x[:, None]).all()
    found = checked_neighbours(make(), x, 3, x[::40])
    assert (found.distances == 0).all()


@on_engines(EXACT)
def test_equally_near_rows_are_found_in_any_order(make):
    grid = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), axis=-1).reshape(-1, 2)
    found = checked_neighbours(make(), grid, 8)
    np.testing.assert_allclose(found.distances, brute_force(grid, 8).distances, atol=1e-12)


@on_engines(EXACT)
def test_all_rows_and_no_more(make):
    x = surface(20)
    engine = make()
    assert (np.sort(engine(x, 20, x[:3]).indices, axis=1) == np.arange(20)).all()
    assert engine(x, 19).indices.shape == (20, 19)
    for k, queries in ((20, None), (21, x[:3]), (0, None), (-1, x[:3])):
        with pytest.raises(ValueError, match="k must be between 1 and"):
            engine(x, k, queries)


@on_engines(EXACT)
@pytest.mark.parametrize("scale", [1e-100, 1e-30, 1e30])
def test_units_do_not_matter(make, scale):
    x = surface(100)
    found = make()(x * scale, 5)
    expected = make()(x, 5)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.distances / scale, expected.distances, rtol=1e-6)


@pytest.mark.parametrize(
    ("indices", "distances", "recall", "message"),
    [
        ([[1, 2]], [[1.0]], 1.0, r"indices of shape \(1, 2\) and distances of shape \(1, 1\)"),
        ([1, 2], [1.0, 2.0], 1.0, r"indices of shape \(2,\)"),
        ([[1]], [[1.0]], 1.5, "a recall of 1.5"),
        ([[1]], [[1.0]], np.nan, "a recall of nan"),
    ],
)
def test_neighbours_have_one_shape(indices, distances, recall, message):
    with pytest.raises(ValueError, match=message):
        Neighbours(np.array(indices), np.array(distances), recall)


def test_some_of_the_neighbours():
    whole = brute_force(surface(30), 4)
    some = whole[5:9]
    assert len(some) == 4
    assert some.k == whole.k == 4
    np.testing.assert_array_equal(some.indices, whole.indices[5:9])


# an engine from outside


def test_a_graph_takes_an_engine_from_outside(rng):
    x = rng.randn(80, 4)
    graph = ha.kernel_graph(x, n_neighbors=5, max_neighbors=12, neighbours=brute_force)
    expected = ha.kernel_graph(x, n_neighbors=5, max_neighbors=12)
    assert abs(graph.kernel - expected.kernel).max() < 1e-12
    new = rng.randn(7, 4)
    assert abs(graph.extend(new, neighbours=brute_force) - expected.extend(new)).max() < 1e-12


def test_an_engine_from_outside_is_asked_whatever_the_number_of_rows(rng):
    asked = []

    class Poor:
        def __call__(self, x, k, queries=None):
            asked.append((len(x), k, queries))
            found = brute_force(x, k, queries)
            return Neighbours(found.indices.astype(np.int32), found.distances.astype(np.float32), 0.9)

    graph = ha.kernel_graph(rng.randn(80, 4), n_neighbors=5, neighbours=Poor())
    assert asked == [(80, 25, None)]
    assert graph.recall == 0.9
    assert graph.max_neighbors == 25
    assert ha.kernel_graph(rng.randn(12, 4), n_neighbors=5, neighbours=Poor()).max_neighbors == 11
    assert asked[1:] == [(12, 11, None)]
    with pytest.raises(ValueError, match="with metric='distance' there are none"):
        ha.kernel_graph(np.ones((5, 5)) - np.eye(5), n_neighbors=2, metric="distance", neighbours=Poor())


def spoiled(change):
    """An engine whose answer was changed."""

    def engine(x, k, queries=None):
        found = brute_force(x, k, queries)
        return change(found.indices, found.distances)

    return engine


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda i, d: (d, i), TypeError, "neighbour engine engine returned tuple; expected harmonicalign"),
        (lambda i, d: Neighbours(i[:, 1:], d[:, 1:]), ValueError, r"of shape \(30, 5\); expected \(30, 6\)"),
        (lambda i, d: Neighbours(d, d), ValueError, "indices of type float64"),
        (lambda i, d: Neighbours(i + 1, d), ValueError, "indices from 1 to 30 of 30 rows"),
        (lambda i, d: Neighbours(i - 1, d), ValueError, "indices from -1 to 28"),
        (lambda i, d: Neighbours(i, d - 100), ValueError, "negative or not finite"),
        (lambda i, d: Neighbours(i, d * np.nan), ValueError, "negative or not finite"),
        (lambda i, d: Neighbours(i[:, ::-1], d[:, ::-1]), ValueError, "do not ascend"),
        (lambda i, d: Neighbours(i[:, [0, 0, 1, 2, 3, 4]], d), ValueError, "the same row twice"),
        (lambda i, d: Neighbours((np.arange(30)[:, None] + range(6)) % 30, d), ValueError, "of themselves"),
    ],
)
def test_what_an_engine_from_outside_returns_is_checked(change, error, message):
    with pytest.raises(error, match=message):
        ha.kernel_graph(surface(30), n_neighbors=3, max_neighbors=6, neighbours=spoiled(change))


# eigenpairs


@pytest.fixture(scope="module", params=["one piece", "two pieces"])
def problem(request):
    """A sparse operator over 700 rows, the eigenvectors of its components, and what is beside them."""
    x = surface(700, 3)
    if request.param == "two pieces":
        x[:200] += 100
    graph = ha.kernel_graph(x, n_neighbors=8, max_neighbors=24)
    known = _component_vectors(graph)
    assert known.shape[1] == (1 if request.param == "one piece" else 2)
    operator = sp.csr_matrix(graph.operator)
    moved = operator.toarray() - 2 * (known @ known.T).toarray()
    values, vectors = np.linalg.eigh(moved)
    return operator, known, values[::-1], vectors[:, ::-1]


@on_engines(SOLVERS)
@pytest.mark.parametrize("form", ["sparse", "plain"])
def test_eigenpairs_are_the_leading_ones(make, problem, form):
    operator, known, true, basis = problem
    given = operator if form == "sparse" else operator.toarray()
    values, vectors = make()(given, 8, deflate=known, random_state=np.random.RandomState(0))
    assert values.shape == (8,)
    assert vectors.shape == (700, 8)
    np.testing.assert_allclose(values, true[:8], atol=5e-6)
    assert (np.diff(values) <= 1e-6).all()
    assert np.linalg.norm(operator @ vectors - vectors * values, axis=0).max() < 2e-5
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-4)
    assert np.abs(known.T @ vectors).max() < 1e-4
    # the spaces agree up to where the eigenvalues leave the widest gap
    gap = int(np.argmax(-np.diff(true[:8]))) + 1
    assert np.linalg.svd(basis[:, :gap].T @ vectors[:, :gap], compute_uv=False).min() > 1 - 1e-4


@on_engines(SOLVERS)
def test_eigenpairs_repeat_by_their_seed(make, problem):
    operator, known, _, _ = problem
    one, two = (make()(operator, 5, deflate=known, random_state=np.random.RandomState(3)) for _ in range(2))
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.vectors, two.vectors)


@on_engines(SOLVERS)
def test_no_eigenpairs_and_too_many(make, problem):
    operator, known, _, _ = problem
    none = make()(operator, 0, deflate=known, random_state=np.random.RandomState(0))
    assert none.vectors.shape == (700, 0)
    most = 700 - known.shape[1]
    with pytest.raises(ValueError, match=f"k must be between . and {most} for 700 rows, not {most + 1}"):
        make()(operator, most + 1, deflate=known, random_state=np.random.RandomState(0))


@on_engines(SOLVERS)
def test_harmonics_by_any_solver(make):
    graph = ha.kernel_graph(surface(700, 3), n_neighbors=8, max_neighbors=24)
    expected, found = ha.harmonics(graph, 5), ha.harmonics(graph, 5, solver=make())
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, atol=5e-6)
    assert (found.psi[np.abs(found.psi).argmax(axis=0), np.arange(5)] > 0).all()
