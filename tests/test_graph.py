import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from harmonicalign import kernel_graph
from harmonicalign.backends import cpu


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


@pytest.mark.parametrize("max_neighbors", [None, 12])
def test_duplicates_and_constant_rows(max_neighbors):
    rng = np.random.RandomState(0)
    rows = np.r_[np.repeat(rng.randn(3, 4), 10, axis=0), rng.randn(30, 4)]
    graph = kernel_graph(rows, n_neighbors=5, max_neighbors=max_neighbors)
    assert np.isfinite(dense(graph.kernel)).all()
    assert (graph.bandwidth > 0).all()
    graph = kernel_graph(np.zeros((10, 3)), n_neighbors=3, max_neighbors=max_neighbors and 5)
    assert np.isfinite(graph.degrees).all()
    assert (graph.degrees > 0).all()


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


def test_extension_of_known_rows_follows_the_graph(curved):
    graph = kernel_graph(curved, bandwidth=1.5)
    transitions = graph.extend(curved[:7])
    assert dense(transitions) == pytest.approx(dense(graph.transitions)[:7], abs=2e-4)
    far = graph.extend(np.full((1, curved.shape[1]), 1e6))
    assert np.isfinite(far.toarray()).all()
    assert far.sum() == pytest.approx(1)


def test_nearest_agrees_with_all_distances(curved):
    everything = cpu.all_distances(curved)
    assert everything == pytest.approx(cdist(curved, curved), abs=1e-12)
    distances, indices = cpu.nearest(curved, 6)
    assert distances == pytest.approx(np.sort(everything, axis=1)[:, 1:7])
    assert (indices != np.arange(len(curved))[:, None]).all()


def test_inverted_file_finds_nearly_all_neighbours(monkeypatch):
    rng = np.random.RandomState(0)
    rows = np.r_[rng.randn(5600, 3), 50 + rng.randn(5, 3)] @ rng.randn(3, 20)
    expected = cpu.nearest(rows, 15)[1]
    monkeypatch.setattr(cpu, "EXACT_PAIRS", 0)
    distances, found = cpu.nearest(rows, 15)
    recall = np.mean([len(np.intersect1d(a, b)) / 15 for a, b in zip(found, expected, strict=True)])
    assert recall > 0.97
    assert (found >= 0).all()
    assert (np.diff(distances, axis=1) >= 0).all()


def test_equal_rows_are_at_distance_zero():
    rows = np.repeat(1e6 + np.random.RandomState(0).randn(5, 20), 2, axis=0)
    assert (np.diag(cpu.all_distances(rows), 1)[::2] == 0).all()


def test_inputs_are_never_written_to(curved):
    curved.flags.writeable = False
    before = curved.copy()
    kernel_graph(curved)
    kernel_graph(curved, max_neighbors=10)
    assert (curved == before).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bandwidth": 0}, "bandwidth"),
        ({"bandwidth": -1.0}, "bandwidth"),
        ({"bandwidth": "wide"}, "bandwidth"),
        ({"bandwidth": [1.0, 2.0]}, "bandwidth"),
        ({"bandwidth": lambda rows: "x"}, "bandwidth"),
        ({"decay": 0}, "decay"),
        ({"thresh": -1}, "thresh"),
        ({"anisotropy": 1.5}, "anisotropy"),
        ({"anisotropy": -0.1}, "anisotropy"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"n_neighbors": 60}, "n_neighbors"),
        ({"n_neighbors": 2.5}, "n_neighbors"),
        ({"max_neighbors": 0}, "max_neighbors"),
        ({"metric": "cosine"}, "metric"),
    ],
)
def test_bad_options(curved, options, message):
    with pytest.raises(ValueError, match=message):
        kernel_graph(curved, **options)


@pytest.mark.parametrize("metric", ["distance", "affinity"])
def test_bad_precomputed(metric):
    square = np.ones((5, 5)) - np.eye(5)
    for bad, message in [
        (np.triu(square), "not symmetric"),
        (np.ones((5, 4)), "square"),
        (-square, "negative"),
        (sp.csr_matrix((5, 5)), "row"),
    ]:
        with pytest.raises(ValueError, match=message):
            kernel_graph(bad, metric=metric, n_neighbors=2)
    with pytest.raises(ValueError, match="new rows"):
        kernel_graph(square + np.eye(5), metric="affinity").extend(square)
    with pytest.raises(ValueError, match="diagonal"):
        kernel_graph(square + np.eye(5), metric="distance", n_neighbors=2)
