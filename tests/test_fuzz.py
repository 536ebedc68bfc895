"""Hostile arrays and parameters: a valid finite result or a refusal in our words; what fuzzing found."""

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import harmonicalign as ha
from harmonicalign.engines import eigen
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.inputs.rows import find_rows
from harmonicalign.inputs.validate import check_data
from harmonicalign.paper.reduction import reduce_rows
from harmonicalign.uses.transfer import transfer_values

FUZZ = Path(__file__).parents[1] / "fuzz"

few = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
pytestmark = [
    # Hostile data align no better than chance, and fall into pieces.
    pytest.mark.filterwarnings("ignore::harmonicalign.AlignmentWarning"),
    pytest.mark.filterwarnings("ignore:.*only .* rows beside each row"),
]


@pytest.fixture(scope="module", autouse=True)
def _paths():
    sys.path.insert(0, str(FUZZ))
    yield
    sys.path.remove(str(FUZZ))


@few
@given(st.integers(0, 2**31))
@example(376).via("rows of whole numbers were not recognised")
def test_fits_end_well(number):
    import arrays
    from verdict import judge

    outcome, detail = judge(lambda: arrays.fit_case(np.random.default_rng([0, number])))
    assert outcome != "violation", detail


@settings(few, max_examples=60)
@given(st.integers(0, 2**31))
def test_stages_end_well(number):
    import arrays
    from verdict import judge

    outcome, detail = judge(lambda: arrays.stage_case(np.random.default_rng([1, number])))
    assert outcome != "violation", detail


def test_the_judge_knows_violations():
    from verdict import Violation, check_finite, judge

    def divides():
        return np.linalg.inv(np.zeros((2, 2)))

    def own_line():
        ha.bandlimiting_weights(None, None, 8)

    def warns():
        return str(np.float64(1e308) * 10)

    assert judge(lambda: "fine") == ("ok", "fine")
    assert judge(divides)[0] == "violation"
    assert judge(warns)[0] == "violation"
    assert judge(own_line)[0] == "refused"
    assert judge(lambda: check_finite("x", [np.array([np.nan])]))[0] == "violation"
    with pytest.raises(Violation, match="not finite"):
        check_finite("x", {"a": sp.csr_matrix([[np.inf]])})


# ---------------------------------------------------------------------------------------------------------
# what fuzzing found


@pytest.fixture
def halves(rng):
    rows = np.tanh(rng.randn(60, 3) @ rng.randn(3, 8))
    return [rows[:30], rows[30:]]


@pytest.mark.parametrize("scale", [1e-300, 1e-60, 1e60, 1e300])
@pytest.mark.parametrize("method", ["refined", "paper"])
def test_numbers_that_cannot_be_squared_are_refused(halves, scale, method):
    with pytest.raises(
        ValueError, match=r"X\[0\] has its largest value at .*multiply the data by a constant"
    ):
        ha.HarmonicAlignment(method=method).fit([halves[0] * scale, halves[1]])


@pytest.mark.parametrize("scale", [1e-45, 1e-12, 1e12, 1e45])
def test_units_do_not_matter_within_reason(halves, scale):
    plain = ha.HarmonicAlignment(random_state=0).fit(halves)
    scaled = ha.HarmonicAlignment(random_state=0).fit([scale * h for h in halves])
    assert scaled.significance_.z == pytest.approx(plain.significance_.z, rel=1e-6)
    np.testing.assert_allclose(scaled.feature_weights_, plain.feature_weights_, atol=1e-6)


def test_single_precision_gets_room_where_it_needs_it():
    assert check_data("x", np.full((3, 2), 1e12, np.float32)).dtype == np.float64
    assert check_data("x", np.full((3, 2), 1e-12, np.float32)).dtype == np.float64
    assert check_data("x", np.ones((3, 2), np.float32)).dtype == np.float32
    assert check_data("x", np.zeros((3, 2), np.float32)).dtype == np.float32
    assert check_data("x", sp.csr_matrix(np.full((3, 2), -1e30, np.float32))).dtype == np.float64


def test_rows_of_whole_numbers_are_recognised(rng):
    rows = rng.poisson(1.0, (3000, 12))
    rows = np.unique(rows, axis=0)
    np.testing.assert_array_equal(find_rows(rows, rows), np.arange(len(rows)))
    np.testing.assert_array_equal(find_rows(sp.csr_matrix(rows), rows), np.arange(len(rows)))
    np.testing.assert_array_equal(find_rows(rows, rows + 1000), np.full(len(rows), -1))


def test_clusters_of_equal_eigenvalues_are_decomposed(monkeypatch, rng):
    import scipy.linalg

    whole = scipy.linalg.eigh

    def gives_up(a, driver=None, **options):
        if driver == "evr":
            raise np.linalg.LinAlgError("Internal Error.")
        return whole(a, driver=driver, **options)

    graph = ha.kernel_graph(rng.randn(40, 3), n_neighbors=5)
    expected = ha.harmonics(graph, 10)
    monkeypatch.setattr(eigen.scipy.linalg, "eigh", gives_up)
    found = ha.harmonics(graph, 10)
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, atol=1e-10)

    def too_few(a, driver=None, **options):
        values, vectors = whole(a, driver=driver, **options)
        return (values[1:], vectors[:, 1:]) if driver == "evr" else (values, vectors)

    monkeypatch.setattr(eigen.scipy.linalg, "eigh", too_few)
    assert ha.harmonics(graph, 10).k == 10

    def never(*_, **__):
        raise np.linalg.LinAlgError("no")

    monkeypatch.setattr(eigen.scipy.linalg, "eigh", never)
    with pytest.raises(RuntimeError, match="LAPACK could not decompose the graph of 40 rows"):
        ha.harmonics(graph, 10)


def test_equal_eigenvalues_have_orthogonal_vectors():
    # LAPACK's quick driver returns vectors that lean towards each other by 4e-5 here.
    rows = np.zeros((15, 2))
    rows[:5, 0], rows[5:11, 0] = 10, 20
    rows[11:, 1] = [30, 40, 50, 60]
    graph = ha.kernel_graph(rows, bandwidth=1.0)
    with pytest.warns(ha.DisconnectedGraphWarning):
        found = ha.harmonics(graph)
    np.testing.assert_allclose(found.psi.T @ found.psi, np.eye(14), atol=1e-9)


@pytest.mark.parametrize("seed", [10**30, -1, "x", 1.5])
def test_seeds_that_are_none(halves, seed):
    with pytest.raises(ValueError, match=r"random_state is .*; expected None, a seed from 0"):
        ha.HarmonicAlignment(random_state=seed).fit(halves)


def test_sparse_rows_without_any_variance(rng):
    constant = sp.csr_matrix(np.tile([1.0, 0, 2, 0, 0], (4, 400)))
    reduction, rows = reduce_rows(constant, 2)
    assert np.isfinite(rows).all()
    assert np.ptp(rows, axis=0) == pytest.approx(0, abs=1e-12)
    assert reduction.axes.shape == (2000, 2)


def test_queries_beyond_single_precision(rng):
    rows = rng.rand(20, 2).astype(np.float32)
    found = nearest_rows(rows, 3, np.full((2, 2), 1e200))
    distances, indices = found.distances, found.indices
    assert np.isfinite(distances).all()
    assert indices.min() >= 0


@pytest.mark.parametrize("name", ["method", "frame", "metric"])
@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), None, "x", ["paper"]])
def test_choices_that_are_none(halves, name, value):
    with pytest.raises(ValueError, match=f"^{name} is .*; expected '"):
        ha.HarmonicAlignment(**{name: value}).fit(halves)


@pytest.mark.parametrize("name", ["anisotropy", "max_neighbors", "calibrate", "n_bands", "t", "first_band"])
def test_arrays_for_numbers(halves, name):
    with pytest.raises(ValueError, match=name):
        ha.HarmonicAlignment(**{name: np.array([1.0, 2.0])}).fit(halves)


@pytest.mark.parametrize("key", [0, "ab", (0,), (0, 0), (0, 1, 2)])
def test_anchors_by_something_else_than_pairs(halves, key):
    with pytest.raises(ValueError, match="anchors has the key"):
        ha.HarmonicAlignment().fit(halves, anchors={key: [[0, 0]]})


def test_batch_labels_that_cannot_be_sorted(halves):
    labels = np.array(["one"] * 30 + [1] * 30, dtype=object)
    with pytest.raises(ValueError, match="batch mixes labels that cannot be sorted"):
        ha.HarmonicAlignment().fit(np.vstack(halves), batch=labels)


def test_rows_of_different_lengths():
    with pytest.raises(ValueError, match="x has rows of different lengths"):
        ha.kernel_graph([[1, 2], [3], [4, 5]])


@pytest.mark.parametrize("links", [[["a", "b"]], "x", object()])
def test_links_that_are_no_matrix(halves, links):
    with pytest.raises(ValueError, match="links must be a matrix of numbers"):
        ha.HarmonicAlignment().fit(halves, links=links)


def test_frames_with_repeated_names(halves):
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="column name more than once"):
        ha.HarmonicAlignment().fit(pd.DataFrame(halves[0][:, :2], columns=["a", "a"]))


@pytest.mark.parametrize(
    ("values", "message"), [("x", "must be numbers"), ([[0.1]], "one row"), ([np.nan], "finite")]
)
def test_eigenvalues_that_are_none(values, message):
    with pytest.raises(ValueError, match=message):
        ha.bandlimiting_weights(values, [0.5], 8)


def test_more_bands_than_make_sense():
    with pytest.raises(ValueError, match="n_bands must be between 1 and 10000"):
        ha.bandlimiting_weights([0.5], [0.5], 10**9)


def test_uses_with_unfit_numbers(halves):
    model = ha.HarmonicAlignment(random_state=0).fit(halves)
    with pytest.raises(ValueError, match="t must be between 0 and 10000"):
        model.denoise(np.vstack(halves), t=10**9)
    with pytest.raises(ValueError, match=r"signals has shape \(2, 8\); expected \(3, 8\)"):
        model.transform(halves[0][:3], dataset=0, signals=halves[0][:2])
    with pytest.raises(ValueError, match="dataset names"):
        model.transform(halves[0], dataset=[1])
    with pytest.raises(ValueError, match="values reach beyond"):
        transfer_values(halves[0], np.full(30, 1e200), halves[1])


def test_corrected_values_have_room(rng):
    z = rng.randn(60, 3)
    single, double = rng.rand(60, 1).astype(np.float32), 1e45 * rng.rand(60, 1)
    from harmonicalign.uses.correct import correct

    fixed, corrected = correct([double, single], [z, z]).values
    np.testing.assert_array_equal(fixed, double)
    assert np.isfinite(corrected).all()
