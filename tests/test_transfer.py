"""Labels and values carried over: laws first, then what becomes of awkward input, then MNIST."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonicalign import HarmonicAlignment
from harmonicalign.datasets import corrupted_pair
from harmonicalign.metrics import expected_calibration_error
from harmonicalign.paper.graph import kernel_graph
from harmonicalign.uses import novelty
from harmonicalign.uses.calibration import calibrated, held_out, log_votes
from harmonicalign.uses.novelty import known_probability, probability_below
from harmonicalign.uses.transfer import UNASSIGNED, transfer_labels, transfer_values
from harmonicalign.uses.votes import diffusion, walk_over

METHODS = ["knn", "diffusion", "svm"]


def blobs(n, rng, n_classes=4, spread=1.3):
    """Rows around the corners of a simplex that overlap, and the corner of each."""
    codes = rng.randint(n_classes, size=n)
    return 3 * np.eye(6)[codes] + spread * rng.randn(n, 6), codes


@pytest.fixture
def pair(rng):
    return blobs(400, rng), blobs(700, rng)


# --- what must hold for labels ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_right_and_calibrated(pair, method):
    (x, lx), (y, ly) = pair
    found = transfer_labels(x, lx, y, method=method)
    right = found.labels == ly
    assert right.mean() > 0.8
    assert expected_calibration_error(found.confidence, right) <= 0.05
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(found.confidence, found.probabilities.max(axis=1))
    np.testing.assert_array_equal(found.classes[found.probabilities.argmax(axis=1)], found.labels)


@pytest.mark.parametrize("method", METHODS)
def test_wrong_labels_are_not_trusted(pair, method):
    """A source whose labels mean nothing earns no confidence, however clear its clusters."""
    (x, lx), (y, _) = pair
    shuffled = np.random.RandomState(1).permutation(lx)
    found = transfer_labels(x, shuffled, y, method=method)
    assert found.confidence.mean() < 0.45


@pytest.mark.parametrize("method", METHODS)
def test_order_of_rows_and_names_of_classes_do_not_matter(pair, method, rng):
    (x, lx), (y, _) = pair
    order = rng.permutation(len(x))
    plain = transfer_labels(x, lx, y, method=method)
    moved = transfer_labels(x[order], lx[order], y, method=method)
    names = np.array(["δ", "c", "bb", "a"])
    named = transfer_labels(x, names[lx], y, method=method)
    assert (plain.labels == moved.labels).mean() > 0.995
    np.testing.assert_array_equal(named.labels, names[plain.labels])
    # Folds follow the order of rows, so calibration may move a little.
    assert np.abs(plain.confidence - moved.confidence).max() < 0.1


@pytest.mark.parametrize("method", METHODS)
def test_scale_and_place_of_the_coordinates_do_not_matter(pair, method):
    (x, lx), (y, _) = pair
    plain, moved = (
        transfer_labels(f(x), lx, f(y), method=method) for f in (lambda a: a, lambda a: 1e-3 * a + 7)
    )
    assert (plain.labels == moved.labels).mean() > 0.99
    np.testing.assert_allclose(plain.confidence, moved.confidence, atol=0.02)


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_answer_and_inputs_untouched(pair, method):
    (x, lx), (y, _) = pair
    copies = x.copy(), lx.copy(), y.copy()
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    first, second = (transfer_labels(x, lx, y, method=method, random_state=5) for _ in range(2))
    np.testing.assert_array_equal(first.probabilities, second.probabilities)
    for now, then in zip((x, lx, y), copies, strict=True):
        np.testing.assert_array_equal(now, then)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize("method", METHODS)
def test_several_sources_are_one_source(pair, method):
    (x, lx), (y, _) = pair
    parts = transfer_labels([x[:150], x[150:]], [lx[:150], list(lx[150:])], y, method=method)
    np.testing.assert_array_equal(parts.probabilities, transfer_labels(x, lx, y, method=method).probabilities)


@pytest.mark.parametrize("method", ["knn", "svm"])
def test_rows_without_a_label_do_not_count(pair, method):
    (x, lx), (y, _) = pair
    labels = [str(label) if i % 3 else None for i, label in enumerate(lx)]
    kept = [i for i in range(len(x)) if i % 3]
    found = transfer_labels(x, labels, y, method=method)
    expected = transfer_labels(x[kept], lx[kept].astype(str), y, method=method)
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)


def test_unlabelled_rows_help_diffusion(rng):
    """Two half moons with one label each: only the rows between tell which is which."""
    angle = rng.uniform(0, np.pi, 300)
    upper = rng.rand(300) < 0.5
    moons = np.where(upper, [np.cos(angle), np.sin(angle)], [1 - np.cos(angle), 0.4 - np.sin(angle)]).T
    labels = np.full(300, "", dtype="U5")
    for side, name in ((True, "up"), (False, "down")):
        first = np.flatnonzero(upper == side)[np.argsort(angle[upper == side])[:3]]
        labels[first] = name
    target, truth = moons[250:], np.where(upper[250:], "up", "down")
    labels = labels[:250]
    accuracy = {
        m: (transfer_labels(moons[:250], labels, target, method=m, n_neighbors=6).labels == truth).mean()
        for m in ("knn", "diffusion")
    }
    assert accuracy["diffusion"] > 0.95
    assert accuracy["diffusion"] > accuracy["knn"] + 0.1


def test_knn_is_the_kernel_weighted_vote(pair):
    (x, lx), (y, _) = pair
    found = transfer_labels(x, lx, y, n_neighbors=7)
    distances = np.linalg.norm(y[:, None] - x[None], axis=2)
    for i in range(50):
        near = np.argsort(distances[i])[:7]
        weights = np.exp(-((distances[i][near] / distances[i][near[3]]) ** 2))
        votes = np.bincount(lx[near], weights=weights, minlength=4)
        assert found.labels[i] == votes.argmax()


def test_diffusion_is_the_absorbing_walk(rng):
    (x, lx), (y, _) = blobs(60, rng), blobs(40, rng)
    walk = kernel_graph(np.vstack([x, y]), n_neighbors=8).transitions
    dense = np.asarray(walk.todense() if sp.issparse(walk) else walk)
    expected = np.linalg.solve(np.eye(40) - dense[60:, 60:], dense[60:, :60] @ np.eye(4)[lx])
    found = transfer_labels(x, lx, y, method="diffusion", transitions=walk)
    clear = np.diff(np.sort(expected, axis=1)[:, -2:])[:, 0] > 1e-2
    np.testing.assert_array_equal(found.labels[clear], expected.argmax(axis=1)[clear])
    value = transfer_values(x, np.eye(4)[lx], y, method="diffusion", transitions=walk)
    np.testing.assert_allclose(value.values, expected, atol=2e-3)


def test_diffusion_through_other_rows(rng):
    """Rows that are neither source nor target, after both, carry labels between them."""
    line = np.arange(30.0)[:, None]
    source, target = [0, 29], [5, 24]
    others = [i for i in range(30) if i not in source + target]
    order = source + target + others
    walk = kernel_graph(line, n_neighbors=1).transitions[order][:, order]
    found = transfer_labels(
        line[source], ["left", "right"], line[target], method="diffusion", transitions=walk
    )
    assert list(found.labels) == ["left", "right"]


def test_rows_that_no_walk_reaches_have_no_confidence(rng):
    x, lx = blobs(60, rng)
    far = 1e4 + rng.randn(20, 6)
    target = np.vstack([x[:5] + 0.01, far])
    found = transfer_labels(x, lx, target, method="diffusion", threshold=0.05)
    assert (found.labels[5:] == UNASSIGNED).all()
    assert (found.confidence[5:] == 0).all()
    assert (found.confidence[:5] > 0.2).all()


# --- thresholds and support -------------------------------------------------------------------------------


def test_threshold(pair):
    (x, lx), (y, ly) = pair
    sure, all_ = transfer_labels(x, lx, y, threshold=0.8), transfer_labels(x, lx, y)
    unsure = sure.confidence < 0.8
    assert 0.05 < unsure.mean() < 0.95
    assert (sure.labels[unsure] == UNASSIGNED).all()
    assert sure.labels.dtype == object
    assert all_.labels.dtype == lx.dtype
    np.testing.assert_array_equal(sure.labels[~unsure].astype(int), all_.labels[~unsure])
    np.testing.assert_array_equal(sure.confidence, all_.confidence)
    assert (all_.labels == ly)[~unsure].mean() > (all_.labels == ly)[unsure].mean() + 0.1
    assert (transfer_labels(x, lx, y, threshold=0).labels != UNASSIGNED).all()
    words = transfer_labels(x, np.array(list("abcd"))[lx], y, threshold=1)
    assert words.labels.dtype.kind == "U"
    assert (words.labels == UNASSIGNED).all()


@pytest.mark.parametrize("method", METHODS)
def test_support_leaves_rows_of_a_new_kind_unassigned(pair, method, rng):
    (x, lx), (y, _) = pair
    new = rng.randn(100, 6) + 8 * np.eye(6)[5]
    support = np.r_[np.ones(len(y)), np.full(100, 0.6)]
    found = transfer_labels(x, lx, np.vstack([y, new]), method=method, support=support, threshold=0.3)
    assert (found.labels[-100:] == UNASSIGNED).mean() > 0.95
    assert (found.labels[:-100] == UNASSIGNED).mean() < 0.05
    assert (found.probabilities.sum(axis=1)[-100:] < 0.2).mean() > 0.95


def test_known_part_of_a_mixture(rng):
    """Half of the values are of the known kind; the densities are known, and so are the probabilities."""
    found = probability_below(rng.randn(2000), np.r_[rng.randn(2000), 4 + rng.randn(2000)])
    assert found[:2000].mean() == pytest.approx(0.97, abs=0.03)
    assert found[2000:].mean() < 0.05
    assert probability_below(rng.randn(2000), rng.randn(2000)).mean() > 0.95


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_confidence_means_what_it_says_if_classes_are_missing(lost, rng):
    """Shifted clusters; also if the target lacks a class of the source."""
    centres = 5 * rng.randn(6, 8)
    codes_x, codes_y = rng.randint(lost, 6, 1200), rng.randint(0, 5, 900)
    x, y = centres[codes_x] + rng.randn(1200, 8), centres[codes_y] + 0.2 + rng.randn(900, 8)
    found = transfer_labels(x, codes_x, y, support=np.full(900, 0.9))
    assert expected_calibration_error(found.confidence, found.labels == codes_y) < 0.06
    if lost:
        ignored = transfer_labels(x, codes_x, y)
        assert expected_calibration_error(ignored.confidence, ignored.labels == codes_y) > 0.1
    sure = transfer_labels(x, codes_x, y, support=np.ones(900))
    np.testing.assert_array_equal(sure.confidence, transfer_labels(x, codes_x, y).confidence)


def test_novelty_of_many_rows_and_of_rows_that_repeat(rng, monkeypatch):
    x, y = rng.randn(400, 3), np.r_[rng.randn(300, 3), 9 + rng.randn(200, 3)]
    whole = known_probability(x, y, 10)
    monkeypatch.setattr(novelty, "_MOST", 250)
    part = known_probability(x, y, 10)
    for found in (whole, part):
        assert found[:300].mean() > 0.9 > 0.1 > found[300:].mean()
    repeated = known_probability(np.repeat(x[:20], 20, axis=0), np.repeat(y[:20], 20, axis=0), 10)
    assert np.isfinite(repeated).all()


def test_support_does_not_touch_rows_amid_the_source(pair):
    """Low support from a mere difference in density is no sign of a new kind."""
    (x, lx), _ = pair
    centres = np.vstack([x[lx == c].mean(axis=0) for c in range(4)])
    plain = transfer_labels(x, lx, centres)
    doubted = transfer_labels(x, lx, centres, support=np.full(4, 0.5))
    np.testing.assert_array_equal(plain.confidence, doubted.confidence)


# --- awkward labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [(40, 1), (40, 2, 1), (1, 1, 1), (60, 3, 3)])
def test_unequal_classes_and_classes_of_one_row(method, sizes, rng):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    x = 20 * np.eye(4)[codes] + 0.5 * rng.randn(len(codes), 4)
    target = 20 * np.eye(4)[: len(sizes)] + 0.01
    found = transfer_labels(x, codes, target, method=method, n_neighbors=1 if min(sizes) < 3 else 5)
    np.testing.assert_array_equal(found.labels, np.arange(len(sizes)))
    assert ((found.confidence > 0) & (found.confidence <= 1)).all()


@pytest.mark.parametrize("method", METHODS)
def test_one_class_only(method, rng):
    found = transfer_labels(rng.randn(9, 2), ["only"] * 9, rng.randn(4, 2), method=method)
    assert list(found.labels) == ["only"] * 4
    assert (found.confidence == 1).all()


@pytest.mark.parametrize("method", METHODS)
def test_one_labelled_row(method, rng):
    found = transfer_labels(rng.randn(5, 2), [None, "a", "", np.nan, None], rng.randn(4, 2), method=method)
    assert list(found.labels) == ["a"] * 4


def test_one_labelled_row_and_its_support():
    """A single row has no distances of its own to compare with, so support alone decides."""
    found = transfer_labels([[0.0]], ["a"], [[0.1], [9.0]], support=[1.0, 0.2], threshold=0.5)
    assert list(found.labels) == ["a", UNASSIGNED]
    np.testing.assert_array_equal(found.confidence, [1, 0])


def test_a_small_calibration_sample_is_held_out_at_once(pair):
    """As many known rows are left as with folds, so the answer hardly changes and takes one walk."""
    (x, lx), (y, ly) = pair
    classes, codes = np.unique(lx, return_inverse=True)
    known, target = np.arange(len(x)), slice(len(x), len(x) + len(y))
    walk, onehot = walk_over(None, x, y, 10), np.eye(len(classes))[codes]
    held = held_out(codes, np.random.RandomState(0), most=80)
    sample = np.concatenate(held)
    assert len(sample) == 80
    votes, tested, of = diffusion(walk, known, onehot, target, held)
    np.testing.assert_array_equal(of, sample)
    rest = np.setdiff1d(known, sample)
    at_once = diffusion(walk, rest, onehot[rest], slice(0, len(x)), [np.arange(2)])[0]
    np.testing.assert_array_equal(tested, at_once[sample])
    usual = transfer_labels(x, lx, y, method="diffusion")
    np.testing.assert_array_equal(classes[votes.argmax(axis=1)], usual.labels)
    p = calibrated(log_votes(votes), log_votes(tested), codes[of])
    assert expected_calibration_error(p.max(axis=1), usual.labels == ly) <= 0.08


@pytest.mark.parametrize("method", METHODS)
def test_target_that_is_the_source(pair, method):
    (x, lx), _ = pair
    found = transfer_labels(x, lx, x, method=method)
    assert (found.labels == lx).mean() > 0.85


def test_equal_rows_that_disagree():
    x = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0)
    labels = ["a", "b"] * 10 + ["c"] * 20
    for method in METHODS:
        found = transfer_labels(x, labels, [[0.0, 0.0], [1.0, 1.0]], method=method, n_neighbors=30)
        assert found.labels[0] in ("a", "b")
        assert found.labels[1] == "c"
        assert found.confidence[0] < 0.7 < found.confidence[1]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([3, 1, 3, 1], [1, 3]),
        ([True, False, True, False], [False, True]),
        ([("a", 1), ("b", 2, 3), None, ("b", 2, 3)], [("a", 1), ("b", 2, 3)]),
        (["x", 1, "x", 1], [1, "x"]),
        ([1.5, float("nan"), 2, 2], [1.5, 2.0]),
        (np.array(["B", "", "T", UNASSIGNED], dtype=object), ["B", "T"]),
        (["B", "  ", "T", None], ["B", "T"]),
        ([frozenset("a"), frozenset("b"), None, None], [frozenset("a"), frozenset("b")]),
    ],
    ids=["int", "bool", "tuples", "mixed", "float", "objects", "text", "sets"],
)
def test_kinds_of_labels(labels, classes):
    x = np.array([[0.0], [1.0], [0.1], [1.1]])
    found = transfer_labels(x, labels, x, n_neighbors=1)
    assert sorted(found.classes.tolist(), key=str) == sorted(classes, key=str)
    assert set(found.labels.tolist()) <= set(classes)


def test_pandas_labels():
    pd = pytest.importorskip("pandas")
    x = np.array([[0.0], [1.0], [0.1], [1.1]])
    series = pd.Series(["a", "b", pd.NA, "b"], index=[5, 6, 7, 8])
    for labels in (series, series.astype("category"), series.astype("string")):
        assert list(transfer_labels(pd.DataFrame(x), labels, pd.DataFrame(x), n_neighbors=1).classes) == [
            "a",
            "b",
        ]
    assert list(transfer_labels(x, pd.array([1, 2, None, 2], dtype="Int64"), x).classes) == [1, 2]


# --- refusals ---------------------------------------------------------------------------------------------

X, L = np.arange(12.0).reshape(6, 2), list("aabbcc")


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((X, [None] * 6, X), {}, "all 6 source rows are unlabelled"),
        ((X, np.full(6, np.nan), X), {}, "all 6 source rows are unlabelled"),
        ((X, L[:5], X), {}, "labels has 5 rows but source has 6 rows"),
        ((X, "aabbcc", X), {}, "labels has one value"),
        ((X, np.zeros((6, 2)), X), {}, "labels has shape"),
        ((X, [[1]] * 6, X), {}, "hashable"),
        ((X, L, X[:, :1]), {}, "target has 1 columns but source has 2"),
        ((X, L, X[:0]), {}, "target has 0 row"),
        ((X, L, X[0]), {}, "target has 1 dimension"),
        ((X, L, X * np.nan), {}, "target contains 12 NaN"),
        ((sp.csr_matrix(X), L, X), {}, "source is sparse"),
        (([X, X[:, :1]], [L, L], X), {}, r"source\[1\] has 1 columns"),
        (([X, X], L, X), {}, "source is a list of 2 datasets; labels must be too"),
        (([X, X], [L, L[:2]], X), {}, r"labels\[1\] has 2 rows but source\[1\] has 6"),
        ((X, L, X), {"method": "magic"}, "method is 'magic'"),
        ((X, L, X), {"n_neighbors": 0}, "n_neighbors must be >= 1"),
        ((X, L, X), {"threshold": 1.5}, "threshold must be"),
        ((X, L, X), {"support": np.ones(5)}, "support has shape"),
        ((X, L, X), {"support": np.full(6, np.nan)}, "support must lie between"),
        ((X, L, X), {"method": "diffusion", "transitions": np.eye(6)}, "must not be the same rows"),
        ((X, L, X), {"method": "diffusion", "transitions": 2 * np.eye(12)}, "every row with sum 1"),
        ((X[:1], ["a"], X[:1]), {"method": "diffusion", "n_neighbors": 1}, None),
    ],
)
def test_refused_with_the_reason(arguments, options, words):
    if words is None:  # one class needs no graph
        assert list(transfer_labels(*arguments, **options).labels) == ["a"]
        return
    with pytest.raises(ValueError, match=words):
        transfer_labels(*arguments, **options)


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        (np.arange(5), {}, "values has 5 rows"),
        (np.full(6, np.nan), {}, "column 0 is missing in all rows"),
        (np.c_[np.arange(6.0), np.full(6, np.nan)], {}, "column 1 is missing"),
        (np.zeros((6, 0)), {}, "there is no column"),
        (np.full(6, np.inf), {}, "infinite"),
        (L, {}, "use transfer_labels"),
        (np.zeros((6, 1, 1)), {}, "shape"),
        (np.arange(6), {"method": "svm"}, "'svm' is for labels"),
    ],
)
def test_values_refused_with_the_reason(values, options, words):
    with pytest.raises(ValueError, match=words):
        transfer_values(X, values, X, **options)


def test_values_of_several_sources_have_the_same_columns():
    with pytest.raises(ValueError, match=r"values of the sources differ in columns: \[\(2,\), \(1,\)\]"):
        transfer_values([X, X], [np.ones((6, 2)), np.ones((6, 1))], X)


def test_two_rows_are_too_few_for_a_walk():
    with pytest.raises(ValueError, match="have 2 rows together; diffusion needs three or more"):
        transfer_values(X[:1], [1.0], X[:1], method="diffusion")


# --- values -----------------------------------------------------------------------------------------------


def noisy(n, rng):
    x = rng.uniform(-1, 1, (n, 2))
    truth = np.c_[np.sin(3 * x[:, 0]), x[:, 1] ** 2]
    return x, truth + np.c_[0.2 * rng.randn(n), 0.4 * (x[:, 0] > 0) * rng.randn(n)]


@pytest.mark.parametrize("method", ["knn", "diffusion"])
def test_values_and_their_spread(method, rng):
    (x, vx), (y, vy) = noisy(600, rng), noisy(500, rng)
    found = transfer_values(x, vx, y, method=method)
    error = found.values - vy
    assert np.corrcoef(found.values[:, 0], vy[:, 0])[0, 1] > 0.9
    np.testing.assert_allclose(np.mean((error / found.spread) ** 2, axis=0), 1, atol=0.3)
    # The second column is noisy on one side only, and the spread knows on which.
    noisy_side = y[:, 0] > 0
    assert found.spread[noisy_side, 1].mean() > 2 * found.spread[~noisy_side, 1].mean()


@pytest.mark.parametrize("method", ["knn", "diffusion"])
def test_constants_stay_and_values_stay_in_range(method, rng):
    x, y = rng.randn(80, 3), rng.randn(50, 3)
    found = transfer_values(x, np.c_[np.full(80, 7.0), x[:, 0]], y, method=method)
    np.testing.assert_allclose(found.values[:, 0], 7)
    np.testing.assert_allclose(found.spread[:, 0], 0, atol=1e-9)
    assert found.values[:, 1].min() >= x[:, 0].min() - 1e-9
    assert found.values[:, 1].max() <= x[:, 0].max() + 1e-9


@pytest.mark.parametrize("method", ["knn", "diffusion"])
@settings(max_examples=15, deadline=None)
@given(scale=st.floats(1e-3, 1e3), shift=st.floats(-1e3, 1e3))
def test_values_follow_their_units(method, scale, shift):
    rng = np.random.RandomState(0)
    x, y, v = rng.randn(40, 2), rng.randn(10, 2), rng.randn(40)
    plain, other = (transfer_values(x, values, y, method=method) for values in (v, scale * v + shift))
    np.testing.assert_allclose(other.values, scale * plain.values + shift, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(other.spread, scale * plain.spread, rtol=1e-4, atol=1e-6)
    assert other.values.shape == (10,)


@pytest.mark.parametrize("method", ["knn", "diffusion"])
def test_columns_with_gaps_are_carried_one_by_one(method, rng):
    (x, v), (y, _) = noisy(200, rng), noisy(30, rng)
    gaps = np.c_[v, v]
    gaps[:70, 2:] = np.nan
    found = transfer_values(x, gaps, y, method=method)
    whole = transfer_values(x, v, y, method=method)
    np.testing.assert_allclose(found.values[:, :2], whole.values, atol=1e-9)
    assert np.isfinite(found.values).all()
    if method == "knn":
        alone = transfer_values(x[70:], v[70:], y)
        np.testing.assert_allclose(found.values[:, 2:], alone.values, atol=1e-9)


def test_values_of_several_sources_sparse_and_single(rng):
    (x, v), (y, _) = noisy(90, rng), noisy(20, rng)
    one = transfer_values(x, v, y)
    many = transfer_values([x[:40], x[40:]], [v[:40], v[40:]], y)
    np.testing.assert_array_equal(one.values, many.values)
    sparse = transfer_values(x, sp.csr_matrix(v), y)
    np.testing.assert_array_equal(one.values, sparse.values)
    single = transfer_values(x[:1], v[:1], y)
    np.testing.assert_allclose(single.values, np.repeat(v[:1], 20, axis=0))
    assert np.isnan(single.spread).all()


# --- after an alignment -----------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.slow
def test_mnist(mnist):
    """More corrupted rows do no harm, the SVM is no worse, and confidence means what it says."""
    accuracy = {}
    for n in (1000, 2000):
        pair = corrupted_pair(*mnist, 1000, n, preserved=0.35, random_state=0)
        model = HarmonicAlignment(random_state=0).fit([pair.x, pair.y])
        for method in METHODS:
            found = transfer_labels(
                model.embedding_[0],
                pair.labels_x,
                model.embedding_[1],
                method=method,
                transitions=model.joint_.graph.transitions if method == "diffusion" else None,
                support=model.confidence_[1],
            )
            right = found.labels == pair.labels_y
            # The larger target holds the rows of the smaller one.
            accuracy[method, n] = right[:1000].mean()
            assert right.mean() > 0.85
            assert expected_calibration_error(found.confidence, right) <= 0.05
    assert accuracy["knn", 2000] >= accuracy["knn", 1000] - 0.01
    for n in (1000, 2000):
        assert accuracy["svm", n] >= accuracy["knn", n] - 0.01
