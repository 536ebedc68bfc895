"""Generators keep what they promise about the truth; loaders read what is there and say what is not."""

import doctest
import gzip
import struct
import sys

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import kstest, wasserstein_distance
from sklearn.utils import Bunch

from harmonicalign.datasets import (
    clusters,
    clusters_pair,
    corrupted,
    corrupted_pair,
    corruption_matrix,
    load_digits_pair,
    load_mnist,
    manifolds,
    mnist,
    sphere,
    swiss_roll,
    torus_knot,
    tree,
)
from harmonicalign.datasets._draws import random_orthogonal

MANIFOLDS = [swiss_roll, sphere, torus_knot, tree]


def fields(pair):
    return {name: getattr(pair, name) for name in pair.__dataclass_fields__}


def test_docstring_examples():
    results = [
        doctest.testmod(module, extraglobs={"np": np}) for module in (clusters, corrupted, manifolds, mnist)
    ]
    assert sum(result.attempted for result in results) >= 8
    assert not any(result.failed for result in results)


# --- corruption ---


def test_total_corruption_is_orthogonal_and_none_is_the_identity():
    matrix, mask = corruption_matrix(30, 0.0, random_state=1)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(30), atol=1e-12)
    assert not mask.any()
    matrix, mask = corruption_matrix(30, 1.0, random_state=1)
    np.testing.assert_array_equal(matrix, np.eye(30))
    assert mask.all()


@pytest.mark.parametrize("preserved", [0.05, 0.35, 0.5, 0.9])
def test_partial_corruption_substitutes_columns(preserved):
    matrix, mask = corruption_matrix(40, preserved, random_state=2)
    assert mask.sum() == round(preserved * 40)
    np.testing.assert_array_equal(matrix[:, mask], np.eye(40)[:, mask])
    rest = matrix[:, ~mask]
    np.testing.assert_allclose(rest.T @ rest, np.eye(rest.shape[1]), atol=1e-12)


def test_random_orthogonal_matrices_are_uniformly_distributed():
    """One entry of a Haar matrix in 3 dimensions is uniform on [-1, 1] (Archimedes)."""
    rng = np.random.RandomState(0)
    entries = [random_orthogonal(3, rng)[0, 0] for _ in range(2000)]
    assert kstest(entries, "uniform", args=(-1, 2)).pvalue > 0.01


def test_corrupted_pair_is_disjoint_and_keeps_the_columns_it_says():
    data = np.random.RandomState(0).poisson(3, size=(50, 12))
    target = np.arange(50)
    pair = corrupted_pair(data, target, 20, 25, 0.5, random_state=3)
    assert not set(pair.rows_x) & set(pair.rows_y)
    np.testing.assert_array_equal(pair.x, data[pair.rows_x])
    np.testing.assert_array_equal(pair.labels_y, target[pair.rows_y])
    np.testing.assert_array_equal(pair.y_clean, data[pair.rows_y])
    np.testing.assert_allclose(pair.y, pair.y_clean @ pair.matrix)
    np.testing.assert_allclose(pair.y[:, pair.preserved], pair.y_clean[:, pair.preserved], atol=1e-12)
    assert np.abs(pair.y - pair.y_clean)[:, ~pair.preserved].min(axis=0).mean() > 1e-3
    with pytest.raises(AttributeError):
        pair.x = None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preserved": 35}, "for 35 % pass 0.35"),
        ({"preserved": -0.1}, "preserved must be"),
        ({"n_x": 45}, "n_x \\+ n_y is 50 but X has 40 rows"),
        ({"n_y": 0}, "n_y must be >= 1"),
        ({"y": np.zeros(3)}, "y has shape"),
        ({"X": np.zeros(40)}, "X has shape"),
        ({"X": np.full((40, 2), np.nan)}, "NaN"),
    ],
)
def test_corrupted_pair_refuses(arguments, message):
    valid = {"X": np.ones((40, 3)), "y": np.zeros(40), "n_x": 5, "n_y": 5, "preserved": 0.5}
    with pytest.raises(ValueError, match=message):
        corrupted_pair(**(valid | arguments))


def test_digits_pair_uses_all_images_by_default():
    pair = load_digits_pair(random_state=0)
    assert (len(pair.x), len(pair.y)) == (898, 899)
    assert pair.preserved.sum() == round(0.35 * 64)
    assert set(pair.labels_x) == set(range(10))
    assert len(load_digits_pair(n_x=300, random_state=0).y) == 1497
    assert len(load_digits_pair(n_y=300, random_state=0).x) == 1497


# --- MNIST ---


@pytest.fixture
def digits():
    rng = np.random.RandomState(0)
    return rng.randint(0, 256, size=(30, 784)).astype(np.uint8), rng.randint(0, 10, size=30)


def write_idx(path, values, *, zipped=False):
    raw = b"\x00\x00\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    raw += values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(raw) if zipped else raw)


def test_mnist_from_npz(tmp_path, digits):
    np.savez(tmp_path / "mnist.npz", X=digits[0], y=digits[1].astype(np.uint8))
    data, target = load_mnist(tmp_path / "mnist.npz")
    np.testing.assert_array_equal(data, digits[0])
    np.testing.assert_array_equal(target, digits[1])
    assert data.dtype == np.uint8
    assert target.dtype == np.int64


@pytest.mark.parametrize("zipped", [False, True])
def test_mnist_from_idx_files(tmp_path, digits, zipped):
    end = ".gz" if zipped else ""
    for part, rows in (("train", slice(0, 20)), ("t10k", slice(20, 30))):
        write_idx(
            tmp_path / f"{part}-images-idx3-ubyte{end}", digits[0][rows].reshape(-1, 28, 28), zipped=zipped
        )
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte{end}", digits[1][rows], zipped=zipped)
    data, target = load_mnist(str(tmp_path))
    np.testing.assert_array_equal(data, digits[0])
    np.testing.assert_array_equal(target, digits[1])


def test_mnist_from_one_set_of_idx_files(tmp_path, digits):
    write_idx(tmp_path / "t10k-images-idx3-ubyte", digits[0].reshape(-1, 28, 28))
    write_idx(tmp_path / "t10k-labels.idx1-ubyte", digits[1])
    np.testing.assert_array_equal(load_mnist(tmp_path)[0], digits[0])


@pytest.mark.parametrize(("pandas", "parser"), [(True, "pandas"), (False, "liac-arff")])
def test_mnist_from_openml(monkeypatch, digits, pandas, parser):
    def fetch(name, *, version, as_frame, parser):
        asked.append((name, version, as_frame, parser))
        return Bunch(data=digits[0].astype(np.int64), target=digits[1].astype(str).astype(object))

    asked = []
    if not pandas:
        monkeypatch.setitem(sys.modules, "pandas", None)
    data, target = mnist._fetch_mnist(fetch)
    assert asked == [("mnist_784", 1, False, parser)]
    np.testing.assert_array_equal(data, digits[0])
    np.testing.assert_array_equal(target, digits[1])
    assert data.dtype == np.uint8


def test_mnist_without_a_network_says_what_else_to_do():
    def fetch(*args, **kwargs):
        raise OSError("no route to host")

    with pytest.raises(OSError, match=r"no route to host.*pass path="):
        mnist._fetch_mnist(fetch)


def test_mnist_refuses_what_it_cannot_read(tmp_path, digits):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_mnist(tmp_path / "nothing.npz")
    with pytest.raises(FileNotFoundError, match="neither train-images"):
        load_mnist(tmp_path)
    np.savez(tmp_path / "other.npz", images=digits[0])
    with pytest.raises(ValueError, match="holds images; it must hold the arrays X and y"):
        load_mnist(tmp_path / "other.npz")
    np.savez(tmp_path / "short.npz", X=digits[0], y=digits[1][:-1])
    with pytest.raises(ValueError, match="30 images but 29 labels"):
        load_mnist(tmp_path / "short.npz")
    (tmp_path / "broken.npz").write_bytes((tmp_path / "short.npz").read_bytes()[:200])
    with pytest.raises(ValueError, match="not a readable"):
        load_mnist(tmp_path / "broken.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ValueError, match="not a readable"):
        load_mnist(tmp_path / "text.npz")
    np.save(tmp_path / "array.npy", digits[0])
    with pytest.raises(ValueError, match="not a readable"):
        load_mnist(tmp_path / "array.npy")
    write_idx(tmp_path / "train-labels-idx1-ubyte", digits[1])
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"not idx")
    with pytest.raises(ValueError, match="does not start as an idx"):
        load_mnist(tmp_path)
    write_idx(tmp_path / "train-images-idx3-ubyte", digits[0].reshape(-1, 28, 28))
    whole = (tmp_path / "train-images-idx3-ubyte").read_bytes()
    (tmp_path / "train-images-idx3-ubyte").write_bytes(whole[:-5])
    with pytest.raises(ValueError, match="announces 23520 bytes and holds 23515"):
        load_mnist(tmp_path)


# --- manifolds ---


@pytest.mark.parametrize("make", MANIFOLDS)
def test_same_seed_same_pair_and_the_global_seed_is_left_alone(make):
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    first, second = make(60, 70, noise=0.1, random_state=4), make(60, 70, noise=0.1, random_state=4)
    for name, value in fields(first).items():
        np.testing.assert_array_equal(value, getattr(second, name), err_msg=name)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    assert not np.array_equal(make(60, 70, random_state=5).x, make(60, 70, random_state=4).x)
    generator = make(60, 70, random_state=np.random.default_rng(1))
    assert generator.y.shape[0] == 70


@pytest.mark.parametrize("make", MANIFOLDS)
def test_shapes_and_labels(make):
    pair = make(300, 200, n_signals=10, corrupted=0.4, random_state=0)
    assert len(pair.x) == len(pair.latent_x) == len(pair.labels_x) == len(pair.signals_x) == 300
    assert len(pair.y) == len(pair.latent_y) == len(pair.labels_y) == len(pair.signals_y) == 200
    assert pair.x.shape[1] == pair.y.shape[1]
    assert pair.signals_x.shape[1] == pair.signals_y.shape[1] == 10
    assert (~pair.corresponds).sum() == 4
    assert set(pair.labels_x) == set(pair.labels_y) == set(range(len(set(pair.labels_x))))
    assert len(set(pair.labels_x)) >= 6


@pytest.mark.parametrize("make", MANIFOLDS)
def test_paired_points_are_the_same_up_to_rotation(make):
    pair = make(150, 150, paired=True, random_state=1)
    i, j = pair.pairs.T
    assert len(i) == 150
    np.testing.assert_array_equal(pair.latent_x[i], pair.latent_y[j])
    np.testing.assert_allclose(pair.x[i] @ pair.rotation, pair.y[j], atol=1e-9)
    assert (i != j).any(), "the order must not give the pairing away"
    np.testing.assert_allclose(np.linalg.det(pair.rotation), 1.0)
    assert np.abs(pair.x[i] - pair.y[j]).max() > 0.1


@pytest.mark.parametrize("make", MANIFOLDS)
def test_separate_points_are_paired_by_latent_distance(make):
    pair = make(120, 90, random_state=2)
    distances = cdist(pair.latent_x, pair.latent_y)
    mutual = {(i, j) for i, j in enumerate(distances.argmin(axis=1)) if distances[:, j].argmin() == i}
    assert {tuple(p) for p in pair.pairs} == mutual
    assert 20 < len(mutual) < 90


@pytest.mark.parametrize("make", MANIFOLDS)
def test_latent_coordinates_tell_distance_on_the_manifold(make):
    """Points near in space along the manifold are near in the latent coordinates, and the reverse."""
    pair = make(800, 2, rotate=False, random_state=3)
    latent, space = cdist(pair.latent_x, pair.latent_x), cdist(pair.x, pair.x)
    scale = np.median(space) / np.median(latent)
    np.fill_diagonal(latent, np.inf)
    nearest = latent.argmin(axis=1)
    rows = np.arange(800)
    assert np.median(space[rows, nearest]) < 0.15 * np.median(space)
    assert (space[rows, nearest] < 12 * scale * latent[rows, nearest] + 1e-9).all()


def test_swiss_roll_unrolls_without_stretching():
    pair = swiss_roll(1500, 2, random_state=0)
    latent, space = cdist(pair.latent_x, pair.latent_x), cdist(pair.x, pair.x)
    near = (latent < 1.0) & (latent > 0)
    np.testing.assert_allclose(space[near], latent[near], rtol=0.02)
    assert (space <= latent + 1e-4).all()


def test_tree_latent_is_walking_distance():
    pair = tree(400, 2, depth=3, random_state=1)
    walk = cdist(pair.latent_x, pair.latent_x, "cityblock")
    space = cdist(pair.x, pair.x)
    assert (space <= walk + 1e-9).all(), "the way along the tree is never shorter than the straight one"
    same = pair.labels_x[:, None] == pair.labels_x[None, :]
    np.testing.assert_allclose(space[same], walk[same], atol=1e-6)
    assert tree(100, 100, depth=4, n_features=3, random_state=0).latent_x.shape[1] == 15


@pytest.mark.parametrize("make", MANIFOLDS)
def test_density_concentrates_the_second_sample_only(make):
    even, uneven = make(1500, 1500, random_state=5), make(1500, 1500, density=1.5, random_state=5)
    np.testing.assert_array_equal(even.latent_x, uneven.latent_x)
    shares = [np.bincount(p.labels_y, minlength=20) / 1500 for p in (even, uneven)]
    entropy = [-np.sum(s[s > 0] * np.log(s[s > 0])) for s in shares]
    assert entropy[1] < entropy[0] - 0.1


@pytest.mark.parametrize("make", MANIFOLDS)
def test_noise_has_the_size_asked_for(make):
    clean, noisy = (make(500, 500, noise=s, rotate=False, random_state=6) for s in (0.0, 0.1))
    spread = np.sqrt(clean.x.var(axis=0).mean())
    assert np.std(noisy.x - clean.x) == pytest.approx(0.1 * spread, rel=0.05)
    assert np.std(noisy.y - clean.y) == pytest.approx(0.1 * spread, rel=0.05)
    np.testing.assert_array_equal(noisy.latent_y, clean.latent_y)


@pytest.mark.parametrize("make", MANIFOLDS)
def test_signals_correspond_where_they_say_and_are_smooth(make):
    pair = make(400, 400, paired=True, n_signals=40, corrupted=0.5, signal_noise=0.05, random_state=7)
    i, j = pair.pairs.T
    correlation = np.array([np.corrcoef(pair.signals_x[i, s], pair.signals_y[j, s])[0, 1] for s in range(40)])
    assert correlation[pair.corresponds].min() > 0.95
    assert np.median(np.abs(correlation[~pair.corresponds])) < 0.6
    distances = cdist(pair.latent_x, pair.latent_x)
    np.fill_diagonal(distances, np.inf)
    jump = pair.signals_x - pair.signals_x[distances.argmin(axis=1)]
    assert jump.std() < 0.4 * pair.signals_x.std()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_x": 1}, "n_x must be >= 2"),
        ({"noise": -1}, "noise must be >= 0"),
        ({"density": -1}, "density must be >= 0"),
        ({"corrupted": 30}, "pass 0.35"),
        ({"n_signals": 0}, "n_signals must be >= 1"),
        ({"paired": True, "n_y": 50}, "make them equal"),
        ({"paired": True, "density": 1.0}, "density must be 0"),
    ],
)
def test_manifolds_refuse(arguments, message):
    with pytest.raises(ValueError, match=message):
        swiss_roll(**({"n_x": 100, "n_y": 100} | arguments))


def test_knots_and_trees_refuse():
    with pytest.raises(ValueError, match="coprime"):
        torus_knot(turns=(2, 4))
    with pytest.raises(ValueError, match="two coprime"):
        torus_knot(turns=(2, 3, 5))
    with pytest.raises(ValueError, match="depth must be between 1 and 10"):
        tree(depth=0)


# --- clusters ---


def test_clusters_are_unequal_and_some_are_on_one_side_only():
    pair = clusters_pair(2000, 1500, n_clusters=30, only_x=3, only_y=4, random_state=0)
    in_x, in_y = set(pair.labels_x), set(pair.labels_y)
    assert (len(pair.x), len(pair.y)) == (2000, 1500)
    assert (len(in_x), len(in_y)) == (26, 27)
    assert in_x & in_y == set(pair.shared)
    assert len(pair.shared) == 23
    sizes = np.sort(np.bincount(pair.labels_x)[list(in_x)])
    assert sizes[0] >= 2
    assert sizes[-1] > 10 * sizes[0]
    equal = clusters_pair(2000, 1500, n_clusters=10, imbalance=0, random_state=0)
    assert np.ptp(np.bincount(equal.labels_x)[np.unique(equal.labels_x)]) < 150


def test_separation_and_shift_have_the_sizes_they_say():
    options = {"n_clusters": 10, "imbalance": 0.0, "n_features": 60, "separation": 3.0, "random_state": 1}
    pair = clusters_pair(3000, 3000, shift=0.5, **options)
    means_x = np.stack([pair.x[pair.labels_x == c].mean(axis=0) for c in pair.shared])
    means_y = np.stack([pair.y[pair.labels_y == c].mean(axis=0) for c in pair.shared])
    between = cdist(means_x, means_x)[np.triu_indices(len(means_x), 1)].mean()
    one = pair.x[pair.labels_x == pair.shared[0]][:100]
    within = cdist(one, one)[np.triu_indices(100, 1)].mean()
    assert between / within == pytest.approx(3.0, rel=0.1)
    moved = means_y - means_x
    assert np.linalg.norm(pair.shift) == pytest.approx(0.5 * between, rel=0.1)
    assert np.linalg.norm(moved.mean(axis=0) - pair.shift) < 0.2 * np.linalg.norm(pair.shift)
    own = np.linalg.norm(moved - moved.mean(axis=0), axis=1).mean()
    assert own == pytest.approx(0.25 * np.linalg.norm(pair.shift), rel=0.2)
    still = clusters_pair(3000, 3000, shift=0.0, **options)
    assert wasserstein_distance(still.x.mean(axis=1), pair.x.mean(axis=1)) == 0


def test_corrupted_columns_of_clusters_correspond_to_nothing():
    options = {"n_clusters": 8, "only_x": 0, "only_y": 0, "n_features": 40, "random_state": 2}
    plain, mixed = clusters_pair(500, 500, **options), clusters_pair(500, 500, corrupted=0.5, **options)
    np.testing.assert_array_equal(plain.x, mixed.x)
    np.testing.assert_array_equal(plain.y[:, mixed.corresponds], mixed.y[:, mixed.corresponds])
    assert mixed.corresponds.sum() == 20
    assert not np.isclose(plain.y[:, ~mixed.corresponds], mixed.y[:, ~mixed.corresponds]).any(axis=0).all()
    np.testing.assert_allclose(cdist(mixed.y, mixed.y), cdist(plain.y, plain.y), atol=1e-8)


def test_clusters_refuse():
    with pytest.raises(ValueError, match="none is left to share"):
        clusters_pair(n_clusters=4)
    with pytest.raises(ValueError, match="n_y is 10 for 18 clusters; pass at least 36"):
        clusters_pair(100, 10)
