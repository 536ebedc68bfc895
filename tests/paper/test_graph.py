import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from harmonicalign import kernel_graph
from harmonicalign.engines.distances import all_distances
from harmonicalign.engines.faiss_neighbours import FaissNeighbours, nearest_rows
from harmonicalign.paper import graph as graph_module


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


def test_constant_bandwidth_is_the_printed_kernel(curved):
    sigma = 3.0
    gauss = np.exp(-(cdist(curved, curved) ** 2) / sigma)
    expected = gauss / np.outer(gauss.sum(1), gauss.sum(1))
    graph = kernel_graph(curved, bandwidth=np.sqrt(sigma), thresh=0)
    assert dense(graph.kernel) == pytest.approx(expected, abs=1e-12)
    assert graph.degrees == pytest.approx(expected.sum(1))


@pytest.mark.parametrize("decay", [2, 5.5])
@pytest.mark.parametrize("anisotropy", [0, 0.5, 1])
def test_adaptive_kernel(curved, decay, anisotropy):
    distance = cdist(curved, curved)
    eps = np.sort(distance, axis=1)[:, 5]
    gauss = np.exp(-((distance / eps[:, None]) ** decay))
    gauss = (gauss + gauss.T) / 2
    gauss[gauss < 1e-4] = 0
    expected = gauss / np.outer(gauss.sum(1), gauss.sum(1)) ** anisotropy
    graph = kernel_graph(curved, n_neighbors=5, decay=decay, anisotropy=anisotropy)
    assert graph.bandwidth == pytest.approx(eps)
    assert dense(graph.kernel) == pytest.approx(expected, abs=1e-12)


def neighbour_kernel(rows, n_neighbors, n_near, decay, thresh, anisotropy):
    """Bandwidths, densities and kernel over pairs of which one is among the other's nearest, by loops."""
    n = len(rows)
    distance = cdist(rows, rows)
    nearest = [[j for j in np.argsort(d, kind="stable") if j != i] for i, d in enumerate(distance)]
    eps = np.array([distance[i, nearest[i][n_neighbors - 1]] for i in range(n)])
    gauss = np.eye(n)
    for i in range(n):
        for j in range(n):
            if i != j and (j in nearest[i][:n_near] or i in nearest[j][:n_near]):
                both = [np.exp(-((distance[i, j] / e) ** decay)) for e in (eps[i], eps[j])]
                gauss[i, j] = sum(both) / 2 if sum(both) / 2 >= thresh else 0
    density = gauss.sum(axis=1)
    return eps, density, gauss / np.outer(density, density) ** anisotropy


@pytest.mark.parametrize(("decay", "thresh", "anisotropy"), [(2.0, 0.0, 0.5), (3.0, 0.05, 1.0)])
def test_neighbour_limited_kernel(curved, decay, thresh, anisotropy):
    options = {"decay": decay, "thresh": thresh, "anisotropy": anisotropy}
    graph = kernel_graph(curved, n_neighbors=4, max_neighbors=9, **options)
    eps, density, expected = neighbour_kernel(curved, 4, 9, **options)
    assert graph.bandwidth == pytest.approx(eps)
    assert graph.density == pytest.approx(density)
    assert dense(graph.kernel) == pytest.approx(expected, abs=1e-12)
    assert graph.degrees == pytest.approx(expected.sum(axis=1))


def test_defaults(curved):
    graph = kernel_graph(curved)
    expected = neighbour_kernel(curved, 15, 59, 2, 1e-4, 1)
    assert graph.bandwidth == pytest.approx(expected[0])
    assert dense(graph.kernel) == pytest.approx(expected[2], abs=1e-12)
    assert (graph.n_neighbors, graph.max_neighbors) == (15, 59)
    assert (graph.decay, graph.thresh, graph.anisotropy, graph.recall) == (2, 1e-4, 1, 1)
    assert graph.rows is curved
    assert kernel_graph(sp.csr_matrix(curved)).rows == pytest.approx(curved)


def test_how_many_neighbours_are_looked_at(curved):
    def looked_at(**options):
        return kernel_graph(curved, **{"n_neighbors": 5, **options}).max_neighbors

    assert looked_at(n_neighbors=59) == 59
    assert looked_at(max_neighbors=100) == 59
    assert looked_at(max_neighbors=58) == 58
    assert looked_at(max_neighbors=2) == 5
    assert looked_at(max_neighbors=1, bandwidth=1.0) == 1
    assert looked_at() == 59
    assert graph_module.default_neighbours(10_000, 5) == 9999
    assert graph_module.default_neighbours(10_001, 5) == 25
    rows = np.random.RandomState(0).randn(10_001, 2)
    assert kernel_graph(rows, n_neighbors=2).max_neighbors == 10


@pytest.mark.parametrize(("n", "exact"), [(10_000, True), (10_001, False)])
def test_distances_are_in_double_precision_while_rows_are_few(n, exact):
    assert graph_module.own_search(n) == FaissNeighbours(exact=exact)


def test_all_pairs_or_all_neighbours_are_the_same(curved):
    whole = kernel_graph(curved, n_neighbors=5).kernel
    assert dense(kernel_graph(curved, n_neighbors=5, max_neighbors=59).kernel) == pytest.approx(dense(whole))
    almost = dense(kernel_graph(curved, n_neighbors=5, max_neighbors=58, anisotropy=0, thresh=0).kernel)
    exact = dense(kernel_graph(curved, n_neighbors=5, anisotropy=0, thresh=0).kernel)
    differs = np.abs(almost - exact) > 1e-12
    farthest = cdist(curved, curved) == cdist(curved, curved).max(axis=1, keepdims=True)
    assert not (differs & ~(farthest & farthest.T)).any()
    apart = np.unravel_index(cdist(curved, curved).argmax(), exact.shape)
    assert almost[apart] == 0 < exact[apart]


@pytest.mark.parametrize("n", [3, 4])
def test_smallest_graphs(n):
    rows = np.arange(n, dtype=float)[:, None]
    graph = kernel_graph(rows, n_neighbors=1, anisotropy=0, thresh=0.5)
    assert dense(graph.kernel) == pytest.approx(np.eye(n))
    assert graph.component_sizes.tolist() == [1] * n
    with pytest.raises(ValueError, match=r"^x has 2 row\(s\) .* minimum of 3"):
        kernel_graph(rows[:2], n_neighbors=1)


def test_a_weight_at_the_threshold_is_kept():
    rows = np.arange(5.0)[:, None]
    distance = cdist(rows, rows)
    all_ = {"bandwidth": 1.0, "anisotropy": 0}
    at = dense(kernel_graph(rows, thresh=0, **all_).kernel)[0, 1]
    expected = (distance <= 1) * np.exp(-(distance**2))
    for graph in (
        kernel_graph(rows, thresh=at, **all_),
        kernel_graph(rows, thresh=at, max_neighbors=3, **all_),
        kernel_graph(distance, thresh=at, metric="distance", **all_),
        kernel_graph(sp.csr_matrix(distance), thresh=at, metric="distance", **all_),
    ):
        assert dense(graph.kernel) == pytest.approx(expected, abs=1e-12)


def test_neighbour_limited_kernel_agrees_where_it_has_entries(curved):
    exact = dense(kernel_graph(curved, n_neighbors=5, anisotropy=0, thresh=0).kernel)
    limited = kernel_graph(curved, n_neighbors=5, anisotropy=0, thresh=0, max_neighbors=20).kernel
    assert sp.issparse(limited)
    stored = dense(limited) > 0
    assert dense(limited)[stored] == pytest.approx(exact[stored])
    assert (stored.sum(1) >= 21).all()
    assert (abs(limited - limited.T)).max() == 0


def test_operators(curved):
    graph = kernel_graph(curved)
    assert dense(graph.transitions).sum(1) == pytest.approx(np.ones(len(curved)))
    a = dense(graph.operator)
    assert a == pytest.approx(a.T)
    assert np.eye(len(curved)) - a == pytest.approx(dense(graph.laplacian))
    assert np.linalg.eigvalsh(a)[-1] == pytest.approx(1)


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.lil_matrix, sp.csr_array])
def test_sparse_input(curved, form):
    assert dense(kernel_graph(form(curved)).kernel) == pytest.approx(
        dense(kernel_graph(curved).kernel), abs=1e-12
    )


def test_kinds_of_numbers(curved):
    whole = np.round(10 * curved)
    expected = dense(kernel_graph(whole).kernel)
    for kind in (np.int8, np.int64, np.float32):
        assert dense(kernel_graph(whole.astype(kind)).kernel) == pytest.approx(expected, rel=1e-5)
    kernel_graph(whole > 0)


def test_bandwidth_by_row_and_by_function(curved):
    by_row = np.linspace(1, 2, len(curved))
    one = kernel_graph(curved, bandwidth=by_row)
    two = kernel_graph(curved, bandwidth=lambda rows: by_row)
    assert dense(one.kernel) == pytest.approx(dense(two.kernel))
    assert one.n_neighbors is None
    of_rows = kernel_graph(curved, bandwidth=lambda rows: 1 + np.abs(rows[:, 0]))
    assert of_rows.bandwidth == pytest.approx(1 + np.abs(curved[:, 0]))
    of_rows = kernel_graph(curved, bandwidth=lambda rows: 1 + np.abs(rows[:, 0]), max_neighbors=9)
    assert of_rows.bandwidth == pytest.approx(1 + np.abs(curved[:, 0]))
    assert one.bandwidth is not by_row
    assert one.bandwidth == pytest.approx(by_row)
    constant = kernel_graph(curved, bandwidth=np.full(len(curved), 1.5)).kernel
    assert dense(kernel_graph(curved, bandwidth=1.5).kernel) == pytest.approx(dense(constant))
    assert kernel_graph(curved, bandwidth=1.5).bandwidth == pytest.approx(np.full(len(curved), 1.5))
    limited = kernel_graph(curved, bandwidth=by_row, max_neighbors=9, anisotropy=0, thresh=0)
    exact = dense(kernel_graph(curved, bandwidth=by_row, anisotropy=0, thresh=0).kernel)
    stored = dense(limited.kernel) > 0
    assert 10 * len(curved) <= stored.sum() < len(curved) ** 2
    assert dense(limited.kernel)[stored] == pytest.approx(exact[stored])


def test_a_bandwidth_too_small_for_any_pair(curved):
    for options in ({}, {"max_neighbors": 9}):
        graph = kernel_graph(curved, bandwidth=1e-200, **options)
        assert dense(graph.kernel) == pytest.approx(np.eye(len(curved)))


def test_precomputed_distances_and_affinities(curved):
    graph = kernel_graph(curved, n_neighbors=5)
    distance = cdist(curved, curved)
    again = kernel_graph(distance, n_neighbors=5, metric="distance")
    assert dense(again.kernel) == pytest.approx(dense(graph.kernel), abs=1e-10)
    near = kernel_graph(sp.csr_matrix(distance), n_neighbors=5, metric="distance")
    assert dense(near.kernel) == pytest.approx(dense(graph.kernel), abs=1e-10)
    plain = dense(kernel_graph(curved, n_neighbors=5, anisotropy=0).kernel)
    assert dense(kernel_graph(plain, metric="affinity").kernel) == pytest.approx(
        dense(graph.kernel), abs=1e-10
    )


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_bandwidths_with_precomputed_distances(curved, form):
    distance = form(cdist(curved, curved))
    by_row = np.linspace(1, 2, len(curved))
    for bandwidth in (1.5, by_row):
        expected = kernel_graph(curved, bandwidth=bandwidth, decay=3)
        found = kernel_graph(distance, bandwidth=bandwidth, metric="distance", decay=3)
        assert dense(found.kernel) == pytest.approx(dense(expected.kernel), abs=1e-10)
        assert found.bandwidth == pytest.approx(expected.bandwidth)
        assert found.rows is None
    with pytest.raises(ValueError, match=r"^bandwidth as a function needs rows"):
        kernel_graph(distance, bandwidth=lambda rows: 1.0, metric="distance")
    with pytest.raises(ValueError, match=r"^bandwidth has shape \(3,\); .* each of 60 rows"):
        kernel_graph(distance, bandwidth=[1.0, 2.0, 3.0], metric="distance")


def test_sparse_distances_between_some_rows():
    # A path: its ends have one neighbour, which is then all that a bandwidth can come from.
    steps = np.array([1.0, 2.0, 4.0, 3.0])
    distance = sp.diags_array([steps, steps], offsets=[1, -1]).tocsr()
    graph = kernel_graph(distance, n_neighbors=2, metric="distance", anisotropy=0, thresh=0)
    eps = np.array([1.0, 2.0, 4.0, 4.0, 3.0])
    weights = [
        (np.exp(-((d / a) ** 2)) + np.exp(-((d / b) ** 2))) / 2
        for d, a, b in zip(steps, eps, eps[1:], strict=False)
    ]
    assert graph.bandwidth == pytest.approx(eps)
    assert dense(graph.kernel) == pytest.approx(np.eye(5) + np.diag(weights, 1) + np.diag(weights, -1))
    # Zeros that are stored on the diagonal are not neighbours.
    stored = (distance + sp.diags_array(np.ones(5))).tocsr()
    stored.setdiag(0)
    again = kernel_graph(stored, n_neighbors=2, metric="distance", anisotropy=0, thresh=0)
    assert dense(again.kernel) == pytest.approx(dense(graph.kernel))
    alone = sp.csr_matrix((distance.data, distance.indices, [*distance.indptr, distance.nnz]), shape=(6, 6))
    assert dense(kernel_graph(alone, bandwidth=2.0, metric="distance").kernel)[5] == pytest.approx(
        np.eye(6)[5]
    )
    with pytest.raises(ValueError, match=r"^x gives no neighbour for row 5; every row needs"):
        kernel_graph(alone, n_neighbors=2, metric="distance")


def test_affinities_are_taken_as_they_are():
    rng = np.random.RandomState(0)
    affinity = np.triu(rng.uniform(0, 0.05, (8, 8)) * (rng.uniform(size=(8, 8)) < 0.6))
    affinity += affinity.T + 0.01 * np.eye(8)
    assert (affinity == 0).any()
    for form in (np.asarray, sp.csr_matrix):
        graph = kernel_graph(form(affinity), metric="affinity", anisotropy=0)
        assert dense(graph.kernel) == pytest.approx(affinity)
        assert graph.density == pytest.approx(affinity.sum(axis=1))
        assert graph.bandwidth is None
    empty = affinity.copy()
    empty[3] = empty[:, 3] = 0
    with pytest.raises(ValueError, match=r"^x has 1 row\(s\) without any affinity \(first: 3\)"):
        kernel_graph(empty, metric="affinity")


@pytest.mark.parametrize("max_neighbors", [None, 12])
def test_duplicates_and_constant_rows(max_neighbors):
    rng = np.random.RandomState(0)
    rows = np.r_[np.repeat(rng.randn(3, 4), 10, axis=0), rng.randn(30, 4)]
    graph = kernel_graph(rows, n_neighbors=5, max_neighbors=max_neighbors)
    assert np.isfinite(dense(graph.kernel)).all()
    assert (graph.bandwidth > 0).all()
    # Copies get the least bandwidth that any other row has.
    assert graph.bandwidth[30:] == pytest.approx(np.sort(cdist(rows[30:], rows), axis=1)[:, 5], rel=1e-5)
    assert graph.bandwidth[:30] == pytest.approx(np.full(30, graph.bandwidth[30:].min()))
    graph = kernel_graph(np.zeros((10, 3)), n_neighbors=3, max_neighbors=max_neighbors and 5)
    assert np.isfinite(graph.degrees).all()
    assert (graph.degrees > 0).all()
    assert (graph.bandwidth == 1).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1e20, 1e150, 1e300])
def test_scale_does_not_matter(curved, scale):
    expected = dense(kernel_graph(curved, n_neighbors=5).kernel)
    assert dense(kernel_graph(curved * scale, n_neighbors=5).kernel) == pytest.approx(expected, rel=1e-6)
    limited = kernel_graph(curved, n_neighbors=5, max_neighbors=10).kernel
    scaled = kernel_graph(curved * scale, n_neighbors=5, max_neighbors=10).kernel
    assert dense(scaled) == pytest.approx(dense(limited), rel=1e-5)


def test_components_are_counted_heaviest_first():
    rng = np.random.RandomState(0)
    rows = np.r_[rng.randn(10, 2), 100 + rng.randn(25, 2), -100 + rng.randn(15, 2)]
    graph = kernel_graph(rows, n_neighbors=4, anisotropy=0)
    assert graph.component_sizes.tolist() == [25, 15, 10]
    assert (graph.components[10:35] == 0).all()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_components_of_paths(form):
    # Connected only through many steps, which a dense kernel is walked along.
    n = 150
    path = np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
    assert kernel_graph(form(path), metric="affinity").component_sizes.tolist() == [n]
    backwards = path.copy()
    backwards[100, 99] = backwards[99, 100] = 0
    graph = kernel_graph(form(backwards), metric="affinity", anisotropy=0)
    assert graph.components.tolist() == [0] * 100 + [1] * 50
    graph = kernel_graph(form(backwards[::-1, ::-1]), metric="affinity", anisotropy=0)
    assert graph.components.tolist() == [1] * 50 + [0] * 100


def test_a_walk_tells_whether_a_kernel_is_in_one_piece():
    path = 0.1 * (np.eye(150) + np.eye(150, k=1) + np.eye(150, k=-1))
    star = 0.1 * np.eye(150)
    star[75] = star[:, 75] = 0.1
    for kernel in (path, star, path[::-1, ::-1]):
        assert graph_module._one_piece(kernel)
    path[100, 99] = path[99, 100] = 0
    assert not graph_module._one_piece(path)


def test_kernels_of_few_entries_are_sparse(curved):
    assert isinstance(kernel_graph(curved).kernel, np.ndarray)
    assert sp.issparse(kernel_graph(curved, bandwidth=0.3).kernel)
    assert isinstance(kernel_graph(curved, bandwidth=0.01, thresh=0).kernel, np.ndarray)


def test_components_by_weight_not_by_number_of_rows():
    affinity = np.zeros((5, 5))
    affinity[:3, :3], affinity[3:, 3:] = 1, 10
    graph = kernel_graph(affinity, metric="affinity", anisotropy=0)
    assert graph.components.tolist() == [1, 1, 1, 0, 0]
    assert graph.component_sizes.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("bandwidth", "max_neighbors", "anisotropy"),
    [("knn", None, 0.5), ("knn", 12, 0.5), (1.5, 12, 1.0), (np.linspace(1, 2, 60), 12, 0.0)],
)
def test_extension_is_the_formula(curved, rng, bandwidth, max_neighbors, anisotropy):
    graph = kernel_graph(
        curved,
        n_neighbors=4,
        bandwidth=bandwidth,
        max_neighbors=max_neighbors,
        anisotropy=anisotropy,
        decay=3,
        thresh=0.01,
    )
    new = curved[:9] + 0.1 * rng.randn(9, curved.shape[1])
    expected = np.zeros((9, 60))
    for i, distance in enumerate(cdist(new, curved)):
        near = np.argsort(distance)[: (max_neighbors or 59) + 1]
        own = distance[near[3]] if isinstance(bandwidth, str) else np.median(graph.bandwidth)
        weights = np.exp(-((distance[near] / own) ** 3)) / 2
        weights += np.exp(-((distance[near] / graph.bandwidth[near]) ** 3)) / 2
        weights[weights < 0.01 * weights[0]] = 0
        weights /= graph.density[near] ** anisotropy
        expected[i, near] = weights / weights.sum()
    found = graph.extend(new)
    assert found.shape == (9, 60)
    assert found.toarray() == pytest.approx(expected, abs=1e-6)
    assert (found.data > 0).all()
    assert graph.extend(sp.csr_matrix(new)).toarray() == pytest.approx(expected, abs=1e-6)
    assert graph.extend(new[:1]).shape == (1, 60)
    squared = expected**2 / np.sum(expected**2, axis=1, keepdims=True)
    assert graph.extend(new, power=2).toarray() == pytest.approx(squared, abs=1e-6)
    with pytest.raises(ValueError, match=r"^x has 10 columns; the graph was built on 12"):
        graph.extend(new[:, 2:])
    new[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"^x contains 1 NaN"):
        graph.extend(new)


def test_extension_of_known_rows_follows_the_graph(curved):
    graph = kernel_graph(curved, bandwidth=1.5)
    transitions = graph.extend(curved[:7])
    assert dense(transitions) == pytest.approx(dense(graph.transitions)[:7], abs=2e-4)
    far = graph.extend(np.full((1, curved.shape[1]), 1e6))
    assert np.isfinite(far.toarray()).all()
    assert far.sum() == pytest.approx(1)


def test_nearest_agrees_with_all_distances(curved):
    everything = all_distances(curved)
    assert everything == pytest.approx(cdist(curved, curved), abs=1e-12)
    found = nearest_rows(curved, 6)
    assert found.distances == pytest.approx(np.sort(everything, axis=1)[:, 1:7])
    assert (found.indices != np.arange(len(curved))[:, None]).all()


def test_inverted_file_finds_nearly_all_neighbours():
    rng = np.random.RandomState(0)
    rows = np.r_[rng.randn(5600, 3), 50 + rng.randn(5, 3)] @ rng.randn(3, 20)
    expected, found = nearest_rows(rows, 15), FaissNeighbours(exact_pairs=0)(rows, 15)
    pairs = zip(found.indices, expected.indices, strict=True)
    assert np.mean([len(np.intersect1d(a, b)) / 15 for a, b in pairs]) > 0.97
    assert (found.indices >= 0).all()
    assert (np.diff(found.distances, axis=1) >= 0).all()


def test_equal_rows_are_at_distance_zero():
    rows = np.repeat(1e6 + np.random.RandomState(0).randn(5, 20), 2, axis=0)
    assert (np.diag(all_distances(rows), 1)[::2] == 0).all()


def test_inputs_are_never_written_to(curved):
    curved.flags.writeable = False
    before = curved.copy()
    kernel_graph(curved)
    kernel_graph(curved, max_neighbors=10)
    assert (curved == before).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bandwidth": 0}, "bandwidth must be positive and finite, its smallest is 0"),
        ({"bandwidth": -1.0}, "bandwidth must be positive and finite, its smallest is -1"),
        ({"bandwidth": np.inf}, "bandwidth must be positive and finite"),
        ({"bandwidth": "wide"}, "bandwidth is 'wide'; expected 'knn', a number, an array or a function"),
        ({"bandwidth": [1.0, 2.0]}, r"bandwidth has shape \(2,\); .* each of 60 rows"),
        ({"bandwidth": np.ones((60, 1))}, r"bandwidth has shape \(60, 1\)"),
        ({"bandwidth": lambda rows: "x"}, "bandwidth must hold numbers, got 'x'"),
        ({"decay": 0}, "decay must be > 0"),
        ({"thresh": -1}, "thresh must be >= 0 and <= 0.5"),
        ({"thresh": 0.51}, "thresh must be"),
        ({"anisotropy": 1.5}, "anisotropy must be >= 0 and <= 1"),
        ({"anisotropy": -0.1}, "anisotropy must be"),
        ({"n_neighbors": 0}, "n_neighbors must be >= 1"),
        ({"n_neighbors": 60}, "n_neighbors is 60 but each row has only 59 others; lower it"),
        ({"n_neighbors": 2.5}, "n_neighbors must be a whole number"),
        ({"max_neighbors": 0}, "max_neighbors must be >= 1"),
        ({"metric": "cosine"}, "metric is 'cosine'; expected 'euclidean', 'distance' or 'affinity'"),
    ],
)
def test_bad_options(curved, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        kernel_graph(curved, **options)


@pytest.mark.parametrize(("metric", "things"), [("distance", "distances"), ("affinity", "affinities")])
def test_bad_precomputed(metric, things):
    square = np.ones((5, 5)) - np.eye(5)
    for bad, message in [
        (np.triu(square), "x is not symmetric"),
        (np.ones((5, 4)), r"x has shape \(5, 4\)"),
        (-square, rf"x holds negative {things} \(down to -1\)"),
        (sp.csr_matrix(-square), rf"x holds negative {things} \(down to -1\)"),
        (sp.csr_matrix((5, 5)), "x (gives no neighbour for row 0|has 5 row)"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}"):
            kernel_graph(bad, metric=metric, n_neighbors=2)
    with pytest.raises(ValueError, match=r"^a graph of precomputed .* cannot take new rows"):
        kernel_graph(square + np.eye(5), metric="affinity").extend(square)
    with pytest.raises(ValueError, match=r"^x has non-zero distances on its diagonal"):
        kernel_graph(square + np.eye(5), metric="distance", n_neighbors=2)
