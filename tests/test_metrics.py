"""Every metric against an implementation that shares nothing with it."""

import doctest
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance
from sklearn.decomposition import TruncatedSVD
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from harmonicalign import metrics
from harmonicalign.metrics import (
    earth_movers_distance,
    expected_calibration_error,
    foscttm,
    foscttm_per_row,
    knn_auc,
    knn_label_agreement,
    latent_error,
    mixing_entropy,
    neighbourhood_overlap,
)
from harmonicalign.metrics.checks import blocks, neighbour_blocks


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_docstring_examples():
    modules = [import_module(f"{metrics.__name__}.{found.name}") for found in iter_modules(metrics.__path__)]
    results = [doctest.testmod(module, extraglobs={"np": np}) for module in modules]
    assert sum(result.attempted for result in results) >= 10
    assert sum(result.failed for result in results) == 0


# --- blocks ---


@pytest.mark.parametrize(
    ("n", "width", "entries"), [(10, 3, 9), (10, 20, 9), (7, 0, 3), (5, 1, 100), (0, 4, 8)]
)
def test_blocks_cover_all_rows_once_and_hold_no_more_than_allowed(n, width, entries):
    found = list(blocks(n, width, entries))
    assert [i for part in found for i in range(part.start, part.stop)] == list(range(n))
    assert all((part.stop - part.start) * width <= max(entries, width) for part in found)


@pytest.mark.parametrize("exclude_self", [False, True])
def test_neighbours_do_not_depend_on_the_blocks(rng, exclude_self):
    base = rng.normal(size=(60, 3))
    query = base if exclude_self else rng.normal(size=(50, 3))
    arguments = {"width": 7, "exclude_self": exclude_self}
    ((_, whole),) = neighbour_blocks(base, query, 5, **arguments)
    parts = list(neighbour_blocks(base, query, 5, **arguments, entries=100))
    assert len(parts) > 3
    np.testing.assert_array_equal(np.concatenate([found for _, found in parts]), whole)
    distances = cdist(query, base) + (np.diag(np.full(60, np.inf)) if exclude_self else 0)
    np.testing.assert_array_equal(whole, np.argsort(distances, axis=1)[:, :5])


def test_a_metric_outside_the_package_needs_only_the_checks(rng):
    """The example of the documentation."""
    page = Path(__file__).parents[1] / "docs" / "api" / "metrics.md"
    names = {}
    exec(re.search(r"```python\n(.+?)```", page.read_text(), flags=re.DOTALL)[1], names)
    x, y = rng.normal(size=(60, 3)), rng.normal(size=(40, 3))
    a, b = rng.integers(3, size=60), rng.integers(3, size=40)
    nearest = np.argsort(cdist(y, x), axis=1)[:, :10]
    assert names["purity"](x, a, y, b) == pytest.approx(np.mean(a[nearest] == b[:, None]))
    with pytest.raises(ValueError, match="k is 99 but x has only 60 rows"):
        names["purity"](x, a, y, b, k=99)


# --- knn_label_agreement ---


@pytest.mark.parametrize("k", [1, 4, 5])
@pytest.mark.parametrize("kind", ["int", "str", "object"])
def test_label_agreement_equals_scikit_learn(rng, k, kind):
    train, test = rng.normal(size=(120, 4)), rng.normal(size=(90, 4))
    labels = [np.digitize(z[:, 0] + rng.normal(scale=0.5, size=len(z)), [-0.5, 0.5]) for z in (train, test)]
    if kind != "int":
        labels = [np.array(["b", "c", "a"], dtype=object if kind == "object" else str)[c] for c in labels]
    expected = KNeighborsClassifier(k).fit(train, labels[0]).score(test, labels[1])
    assert knn_label_agreement(train, labels[0], test, labels[1], k=k) == pytest.approx(expected, abs=1e-12)


def test_label_agreement_in_blocks(rng):
    train, test = rng.normal(size=(250, 3)), rng.normal(size=(22_000, 3))
    a, b = train[:, 0] > 0, test[:, 0] > 0
    assert len(list(blocks(len(test), 201))) > 1
    expected = KNeighborsClassifier(201).fit(train, a).score(test, b)
    assert knn_label_agreement(train, a, test, b, k=201) == pytest.approx(expected, abs=1e-3)


def test_neighbours_survive_an_offset_and_any_scale(rng):
    train, test = rng.normal(size=(100, 3)), rng.normal(size=(80, 3))
    a, b = rng.integers(3, size=100), rng.integers(3, size=80)
    plain = knn_label_agreement(train, a, test, b)
    assert knn_label_agreement(1e-30 * train, a, 1e-30 * test, b) == plain
    assert knn_label_agreement(1e30 * train, a, 1e30 * test, b) == plain
    assert knn_label_agreement(train + 1e6, a, test + 1e6, b) == plain


def test_a_label_only_the_test_rows_have_is_never_agreed_on(rng):
    x = rng.normal(size=(20, 2))
    assert knn_label_agreement(x, ["a"] * 20, x, ["b"] * 20) == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be >= 1"),
        ({"k": 11}, "k is 11 but train has only 10 rows"),
        ({"train_labels": [0] * 9}, "train_labels has shape"),
        ({"test": np.zeros((5, 3))}, "train has 2 columns but test has 3"),
        ({"test": np.full((5, 2), np.nan)}, "test contains 10 NaN"),
        ({"test": sp.eye(5, 2).tocsr()}, "test is sparse"),
        ({"test_labels": list("aabbc")}, "no label can agree"),
        ({"test_labels": [0.0, 1.0, np.nan, 1.0, 1.0]}, "test_labels has 1 missing"),
        ({"test_labels": np.array(["a", None, "b", "b", "b"], dtype=object)}, "1 missing"),
        ({"test_labels": np.array(["a", 1, "b", "b", "b"], dtype=object)}, "mixes types"),
    ],
)
def test_label_agreement_refuses(arguments, message):
    valid = {
        "train": np.arange(20.0).reshape(10, 2),
        "train_labels": [0, 1] * 5,
        "test": np.ones((5, 2)),
        "test_labels": [0] * 5,
    }
    with pytest.raises(ValueError, match=message):
        knn_label_agreement(**(valid | arguments))


# --- neighbourhood_overlap and knn_auc ---


def brute_overlap(truth_distances, found_distances, k):
    total = 0.0
    for t, f in zip(truth_distances, found_distances, strict=True):
        total += len(set(np.argsort(t)[:k]) & set(np.argsort(f)[:k])) / k
    return total / len(truth_distances)


IN_BLOCKS = [(70, 1e-12), pytest.param(2100, 1e-4, id="several blocks")]
"""Rows, and by how much neighbours in single precision may change a mean over them."""


@pytest.mark.parametrize(("n", "tolerance"), IN_BLOCKS)
def test_overlap_across_equals_brute_force(rng, n, tolerance):
    x = rng.normal(size=(n, 5))
    y = x + 0.4 * rng.normal(size=x.shape)
    raw = x @ rng.normal(size=(5, 8)) + 0.1 * rng.normal(size=(n, 8))
    sizes = [1, 3, 20, 70]
    found = cdist(y, x)
    expected = [brute_overlap(cdist(x, x), found, k) for k in sizes]
    np.testing.assert_allclose(neighbourhood_overlap(x, y, sizes), expected, atol=tolerance)
    expected = [brute_overlap(cdist(raw, raw), found, k) for k in sizes]
    np.testing.assert_allclose(neighbourhood_overlap(x, y, sizes, reference=raw), expected, atol=tolerance)


@pytest.mark.parametrize(("n", "tolerance"), IN_BLOCKS)
def test_overlap_within_equals_brute_force(rng, n, tolerance):
    x = rng.normal(size=(n, 4))
    y = np.hstack([x, rng.normal(size=(n, 2))])
    dx, dy = cdist(x, x), cdist(y, y)
    np.fill_diagonal(dx, np.inf)
    np.fill_diagonal(dy, np.inf)
    sizes = [1, 5, 69]
    expected = [brute_overlap(dx, dy, k) for k in sizes]
    np.testing.assert_allclose(neighbourhood_overlap(x, y, sizes, mode="within"), expected, atol=tolerance)


def test_overlap_within_is_blind_to_rigid_motion_and_across_is_not(rng):
    x = rng.normal(size=(80, 3))
    moved = x @ np.linalg.qr(rng.normal(size=(3, 3)))[0] + 5.0
    assert neighbourhood_overlap(x, moved, 8, mode="within")[0] == 1.0
    assert neighbourhood_overlap(x, moved, 8)[0] < 0.3
    assert neighbourhood_overlap(x, x, 8)[0] == 1.0


def test_overlap_of_random_pairs_is_chance(rng):
    angle_x, angle_y = rng.uniform(0, 2 * np.pi, size=(2, 2000))
    x, y = np.stack([np.cos(angle_x), np.sin(angle_x)], 1), np.stack([np.cos(angle_y), np.sin(angle_y)], 1)
    np.testing.assert_allclose(neighbourhood_overlap(x, y, [100, 500]), [0.05, 0.25], atol=0.02)


def test_overlap_with_duplicated_rows_never_counts_the_row_itself():
    x = np.repeat(np.arange(5.0), 4)[:, None]
    overlap = neighbourhood_overlap(x, x, [3, 19], mode="within")
    assert (overlap <= 1).all()
    assert overlap[1] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "other"}, "mode is 'other'"),
        ({"sizes": []}, "sizes is"),
        ({"sizes": [2, 11]}, "sizes is 11 but x has only 10"),
        ({"sizes": 10, "mode": "within"}, "sizes is 10 but x has only 9"),
        ({"sizes": 1.5}, "whole number"),
        ({"y": np.ones((9, 2))}, "x has 10 rows but y has 9"),
        ({"y": np.ones((10, 3))}, "x has 2 columns but y has 3"),
        ({"reference": np.ones((9, 2))}, "reference has 9 rows"),
    ],
)
def test_overlap_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        neighbourhood_overlap(
            **({"x": np.arange(20.0).reshape(10, 2), "y": np.ones((10, 2)), "sizes": 3} | arguments)
        )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_components", [5, None])
def test_knn_auc_follows_the_definition(rng, sparse, n_components):
    raw = rng.poisson(1.0, size=(95, 12)).astype(float)
    x = raw[:, :6] + 0.1 * rng.normal(size=(95, 6))
    y = x + rng.normal(size=x.shape)
    truth = raw
    if n_components:
        truth = TruncatedSVD(n_components, algorithm="arpack", random_state=3).fit_transform(raw)
    else:
        raw = truth = raw + 1e-3 * rng.normal(size=raw.shape)  # no ties in the distances
    n_neighbours = 10  # the ceiling of 9.5
    true = NearestNeighbors(n_neighbors=n_neighbours).fit(truth).kneighbors(truth)[1]
    found = NearestNeighbors(n_neighbors=n_neighbours).fit(x).kneighbors(y)[1]
    curve = [
        np.mean([len(set(t[:k]) & set(f[:k])) / k for t, f in zip(true, found, strict=True)])
        for k in range(1, n_neighbours + 1)
    ]
    reference = sp.csr_matrix(raw) if sparse else raw
    assert knn_auc(x, y, reference, n_components=n_components) == pytest.approx(np.mean(curve), abs=1e-12)


def test_knn_auc_is_the_mean_of_the_overlap_curve_and_about_half_the_proportion_by_chance(rng):
    x, y = rng.normal(size=(300, 4)), rng.normal(size=(300, 4))
    area = knn_auc(x, y, x)
    assert area == pytest.approx(neighbourhood_overlap(x, y, range(1, 31)).mean())
    assert area == pytest.approx(0.05, abs=0.02)
    assert knn_auc(x, x, x, proportion=0.5) == 1.0


def test_knn_auc_refuses(rng):
    x = rng.normal(size=(10, 2))
    with pytest.raises(ValueError, match="proportion"):
        knn_auc(x, x, x, proportion=0)
    with pytest.raises(ValueError, match="reference has 9 rows"):
        knn_auc(x, x, x[:9])


# --- foscttm ---


@pytest.mark.parametrize("n", [65, pytest.param(2100, id="several blocks")])
def test_foscttm_equals_brute_force(rng, n):
    x = rng.normal(size=(n, 4)) + 100
    y = x + 0.7 * rng.normal(size=x.shape)
    distances = cdist(x, y)
    of_x = [np.mean(np.delete(distances[i], i) < distances[i, i]) for i in range(n)]
    of_y = [np.mean(np.delete(distances[:, i], i) < distances[i, i]) for i in range(n)]
    np.testing.assert_allclose(foscttm_per_row(x, y), (of_x, of_y), atol=1e-12)
    assert foscttm(x, y) == pytest.approx((np.mean(of_x) + np.mean(of_y)) / 2)


def test_foscttm_laws(rng):
    x, y = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    assert foscttm(x, x) == 0.0
    assert foscttm(x, y) == pytest.approx(foscttm(y, x))
    assert foscttm(x, y) == pytest.approx(0.5, abs=0.05)
    order = rng.permutation(200)
    assert foscttm(x[order], y[order]) == pytest.approx(foscttm(x, y))
    assert foscttm(np.ones((200, 3)), np.ones((200, 3))) == 0.5, "a collapsed alignment is no success"


def test_foscttm_refuses():
    with pytest.raises(ValueError, match="two or more"):
        foscttm([[1.0]], [[1.0]])
    with pytest.raises(ValueError, match="rows must be pairs"):
        foscttm(np.ones((3, 1)), np.ones((4, 1)))


# --- latent_error ---


def test_latent_error_equals_brute_force(rng):
    x, y = rng.normal(size=(50, 3)), rng.normal(size=(40, 3))
    u, v = rng.normal(size=(50, 2)), rng.normal(size=(40, 2))
    between, latent = cdist(x, y), cdist(u, v)
    forward = latent[np.arange(50), between.argmin(1)].mean() / latent.mean()
    backward = latent[between.argmin(0), np.arange(40)].mean() / latent.mean()
    assert latent_error(x, y, u, v) == pytest.approx((forward + backward) / 2)


def test_latent_error_is_one_by_chance_and_near_zero_when_aligned(rng):
    u, v = rng.uniform(size=(500, 2)), rng.uniform(size=(400, 2))
    assert latent_error(u, v, u, v) < 0.1
    assert latent_error(rng.normal(size=(500, 2)), rng.normal(size=(400, 2)), u, v) == pytest.approx(
        1, abs=0.05
    )


def test_latent_error_refuses():
    z = np.arange(6.0).reshape(3, 2)
    with pytest.raises(ValueError, match="latent_y has 2 rows but y has 3"):
        latent_error(z, z, z, z[:2])
    with pytest.raises(ValueError, match="no scale"):
        latent_error(z, z, np.ones((3, 1)), np.ones((3, 1)))


# --- mixing_entropy ---


def brute_mixing(datasets, k, rng, n_draws=3000):
    """The same score with neighbours by sorting and the expected entropy by drawing."""

    def entropy(members):
        p = [np.sum(members == d) / len(x) for d, x in enumerate(datasets)]
        return -sum(q / sum(p) * np.log(q / sum(p)) for q in p if q)

    z, source = np.concatenate(datasets), np.repeat(np.arange(len(datasets)), [len(x) for x in datasets])
    distances = cdist(z, z)
    np.fill_diagonal(distances, np.inf)
    local = np.array([entropy(source[np.argsort(row)[:k]]) for row in distances])
    scores = []
    for d in range(len(datasets)):
        rest = np.delete(source, np.flatnonzero(source == d)[0])
        expected = np.mean([entropy(rng.choice(rest, k, replace=False)) for _ in range(n_draws)])
        scores.append(local[source == d].mean() / expected)
    return np.mean(scores)


def test_mixing_equals_brute_force(rng):
    datasets = [rng.normal(size=(60, 2)), rng.normal(size=(25, 2)) + 0.8, rng.normal(size=(15, 2)) - 0.5]
    assert mixing_entropy(datasets, k=8) == pytest.approx(brute_mixing(datasets, 8, rng), abs=0.01)


def test_mixing_in_blocks_equals_brute_force(rng):
    datasets = [rng.normal(size=(1600, 2)), rng.normal(size=(650, 2)) + 1.5]
    assert len(list(blocks(2250, 1900))) > 1
    expected = brute_mixing(datasets, 1900, rng, n_draws=300)
    assert mixing_entropy(datasets, k=1900) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("sizes", [(500, 500), (1500, 60), (600, 200, 50)])
def test_random_mixing_scores_one_and_separation_zero_whatever_the_sizes(rng, sizes):
    mixed = [rng.normal(size=(n, 3)) for n in sizes]
    apart = [x + 100 * i for i, x in enumerate(mixed)]
    assert mixing_entropy(mixed, k=20) == pytest.approx(1.0, abs=0.1)
    assert mixing_entropy(apart, k=20) == pytest.approx(0.0, abs=1e-12)


def test_mixing_by_label_forgives_what_only_one_dataset_has(rng):
    shared = [rng.normal(size=(200, 2)), rng.normal(size=(50, 2))]
    more = [np.vstack([shared[0], rng.normal(size=(300, 2)) + 50]), shared[1]]
    labels = [["a"] * 200 + ["only here"] * 300, ["a"] * 50]
    assert mixing_entropy(more, k=15) < 0.9
    assert mixing_entropy(more, k=15, labels=labels) == pytest.approx(mixing_entropy(shared, k=15))


def test_mixing_by_label_forgives_unequal_proportions(rng):
    x = np.vstack([rng.normal(size=(300, 2)), rng.normal(size=(60, 2)) + 50])
    y = np.vstack([rng.normal(size=(60, 2)), rng.normal(size=(300, 2)) + 50])
    labels = [["a"] * 300 + ["b"] * 60, ["a"] * 60 + ["b"] * 300]
    assert mixing_entropy([x, y], k=20, labels=labels) == pytest.approx(1.0, abs=0.06)
    assert mixing_entropy([x, y], k=20) < 0.75


def test_mixing_of_tiny_datasets_is_finite(rng):
    assert 0 < mixing_entropy([rng.normal(size=(50, 2)), np.zeros((2, 2)) + 0.1], k=5) <= 1
    assert mixing_entropy([rng.normal(size=(50, 2)), np.full((1, 2), 100.0)], k=5) == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"datasets": [np.ones((5, 2))]}, "two or more"),
        ({"datasets": [np.ones((5, 2)), np.ones((5, 3))]}, r"datasets\[1\] has 3 columns"),
        ({"k": 1}, "k must be >= 2"),
        ({"k": 10}, "only 9 rows"),
        ({"labels": [["a"] * 5]}, "labels holds 1 arrays"),
        ({"labels": [["a"] * 5, ["b"] * 5]}, "no label occurs in two"),
        ({"labels": [["a"] * 5, ["b"] * 4]}, r"labels\[1\] has shape"),
    ],
)
def test_mixing_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        mixing_entropy(**({"datasets": [np.ones((5, 2)), np.ones((5, 2))], "k": 3} | arguments))


# --- earth_movers_distance ---


@pytest.mark.parametrize("repeats", [1, pytest.param(10_000, id="several blocks")])
@pytest.mark.parametrize("weighted", [False, True])
def test_earth_movers_distance_equals_scipy(rng, weighted, repeats):
    x, y = rng.normal(size=(30, 6)), 2 * rng.normal(size=(47, 6)) + 1
    wx, wy = (rng.uniform(size=30), rng.uniform(size=47)) if weighted else (None, None)
    expected = [wasserstein_distance(x[:, s], y[:, s], wx, wy) for s in range(6)]
    x, y = np.tile(x, repeats), np.tile(y, repeats)
    found = earth_movers_distance(x, y, x_weights=wx, y_weights=wy)
    np.testing.assert_allclose(found, np.tile(expected, repeats), rtol=1e-10)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix, sp.csc_matrix, sp.csr_array])
def test_earth_movers_distance_of_counts_dense_or_sparse(rng, convert):
    x, y = rng.poisson(0.7, size=(40, 5)), rng.poisson(1.5, size=(25, 5))
    expected = [wasserstein_distance(x[:, s], y[:, s]) for s in range(5)]
    np.testing.assert_allclose(earth_movers_distance(convert(x), convert(y)), expected, rtol=1e-10)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.floats(-50, 50), st.floats(0.1, 10))
def test_earth_movers_distance_laws(seed, shift, scale):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=(9, 2))
    np.testing.assert_allclose(earth_movers_distance(x, x + shift), abs(shift), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(earth_movers_distance(x, y), earth_movers_distance(y, x), rtol=1e-12)
    scaled = earth_movers_distance(scale * x, scale * y)
    np.testing.assert_allclose(scaled, scale * earth_movers_distance(x, y), rtol=1e-9)


def test_earth_movers_distance_of_one_column(rng):
    x, y = rng.normal(size=9), rng.normal(size=4)
    np.testing.assert_allclose(earth_movers_distance(x, y), [wasserstein_distance(x, y)])


def test_earth_movers_distance_refuses():
    with pytest.raises(ValueError, match="x has 2 columns but y has 3"):
        earth_movers_distance(np.ones((4, 2)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="x_weights has shape"):
        earth_movers_distance(np.ones((4, 2)), np.ones((4, 2)), x_weights=[1, 2])
    with pytest.raises(ValueError, match="y_weights must be finite"):
        earth_movers_distance(np.ones((2, 2)), np.ones((2, 2)), y_weights=[1, -1])


# --- expected_calibration_error ---


def test_calibration_error_equals_a_loop(rng):
    confidence = np.append(rng.uniform(size=300), [0.0, 1.0, 0.25, 0.5])
    correct = rng.uniform(size=304) < confidence**2
    for n_bins in (1, 4, 10):
        edges = np.linspace(0, 1, n_bins + 1)
        expected = 0.0
        for b in range(n_bins):
            inside = (confidence > edges[b]) & (confidence <= edges[b + 1])
            if b == 0:
                inside |= confidence == 0
            if inside.any():
                expected += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
        assert expected_calibration_error(confidence, correct, n_bins) == pytest.approx(expected)


def test_calibrated_confidence_has_a_small_error(rng):
    confidence = rng.uniform(size=20000)
    assert expected_calibration_error(confidence, rng.uniform(size=20000) < confidence) < 0.02


def test_calibration_error_refuses():
    with pytest.raises(ValueError, match="shapes"):
        expected_calibration_error([0.5], [True, False])
    with pytest.raises(ValueError, match="between 0 and 1"):
        expected_calibration_error([1.5], [True])
    with pytest.raises(ValueError, match="other than True and False"):
        expected_calibration_error([0.5], [2])
