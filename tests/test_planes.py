"""Rows laid onto the planes of their neighbours."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import harmonicalign as ha
from harmonicalign.datasets import corrupted_pair
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.method import model as models
from harmonicalign.method.model import placed_confidence
from harmonicalign.method.planes import neighbourhood, on_planes


def surface(n, noise, seed=0, width=20):
    """A rolled surface in `width` dimensions, as it is and with noise."""
    rng = np.random.RandomState(seed)
    angle, height = rng.uniform(0, 3, n), rng.uniform(0, 2, n)
    clean = np.zeros((n, width))
    clean[:, :3] = np.stack([2 * np.cos(angle), 2 * np.sin(angle), height], axis=1)
    return clean, clean + noise * rng.standard_normal(clean.shape)


def by_eigenvectors(row, places, batch=None):
    """The same for one row, from the eigenvectors of the covariance of its neighbours."""
    nearest = np.argsort(np.linalg.norm(places - row, axis=1), kind="stable")[: neighbourhood(len(places))]
    near = places[nearest]
    mean = near.mean(axis=0)
    spread = near - mean
    if batch is not None:
        present = np.unique(batch[nearest])
        for dataset in present:
            members = batch[nearest] == dataset
            part = (len(near) - len(present)) / (len(near) - 1)
            spread[members] -= part * spread[members].mean(axis=0)
    variances, axes = np.linalg.eigh(spread.T @ spread)
    ratio = variances * len(near) / variances.sum()
    return mean + axes @ (ratio**4 / (ratio**4 + 1) * (axes.T @ (row - mean)))


def test_against_the_eigenvectors():
    rows = surface(200, 0.1)[1]
    new = surface(10, 0.3, seed=1)[1]
    for some in (rows, new):
        expected = np.stack([by_eigenvectors(row, rows) for row in some])
        assert on_planes(some, rows) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("n_sets", [1, 2, 9, 200])
def test_within_datasets_against_the_eigenvectors(n_sets):
    rows = surface(200, 0.1)[1]
    batch = np.random.RandomState(0).permutation(np.arange(200) % n_sets)
    expected = np.stack([by_eigenvectors(row, rows, batch) for row in rows])
    assert on_planes(rows, rows, batch) == pytest.approx(expected, abs=2e-6)
    if n_sets in (1, 200):
        # One dataset differs from none, and rows that are each alone tell of no difference.
        assert expected == pytest.approx(on_planes(rows, rows), abs=2e-6)


def test_a_difference_between_datasets_is_none_of_the_manifold():
    clean, noisy = surface(1000, 0.02)
    batch = np.random.RandomState(1).randint(0, 2, 1000)
    noisy[batch == 1, 10] += 0.3

    def difference(laid):
        return np.linalg.norm(laid[batch == 1].mean(axis=0)[5:] - laid[batch == 0].mean(axis=0)[5:])

    plain, within = on_planes(noisy, noisy), on_planes(noisy, noisy, batch)
    assert difference(plain) > 0.25
    assert difference(within) < 0.15  # what is left is that neighbours are rather of a row's own dataset
    off = np.linalg.norm((within - clean)[:, :5], axis=1)
    assert off.mean() < 1.1 * np.linalg.norm((plain - clean)[:, :5], axis=1).mean()


def test_noise_goes_and_the_surface_stays():
    clean, noisy = surface(1000, 0.05)
    before, after = (np.linalg.norm(z - clean, axis=1).mean() for z in (noisy, on_planes(noisy, noisy)))
    assert after < 0.75 * before
    assert np.abs(on_planes(clean, clean) - clean).max() < 0.05


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scale_and_place_do_not_matter(dtype):
    rows = surface(300, 0.1)[1].astype(dtype)
    laid = on_planes(rows, rows)
    assert laid.dtype == dtype
    scaled = on_planes(rows * dtype(1e4), rows * dtype(1e4)) / 1e4
    moved = on_planes(rows + dtype(3), rows + dtype(3)) - 3
    # Rounding may give a row another last neighbour.
    assert np.isclose(scaled, laid, rtol=0, atol=1e-4).all(axis=1).mean() > 0.98
    assert np.isclose(moved, laid, rtol=0, atol=1e-3).all(axis=1).mean() > 0.98


def test_rows_laid_one_by_one_or_all_at_once():
    rows = surface(300, 0.1)[1]
    assert on_planes(rows[7:8], rows) == pytest.approx(on_planes(rows, rows)[7:8], abs=2e-6)


def test_more_rows_span_a_plane_where_there_are_more():
    assert [neighbourhood(n) for n in (1, 30, 100, 1000)] == [1, 30, 31, 31]
    assert 31 < neighbourhood(1200) < neighbourhood(1400) < neighbourhood(2000) == neighbourhood(10**6)


def test_few_and_equal_rows():
    few = surface(5, 0.1)[1]
    assert on_planes(few, few).shape == few.shape
    same = np.ones((50, 4))
    assert on_planes(same, same) == pytest.approx(same)
    assert np.isfinite(on_planes(same + 1, same)).all()


def test_a_fit_with_more_rows_than_the_limit_leaves_them_where_they_are(monkeypatch):
    digits = load_digits(return_X_y=True)
    data = corrupted_pair(*digits, 120, 120, 0.6, random_state=0)
    laid = ha.HarmonicAlignment(random_state=0).fit([data.x, data.y])
    joint = laid.joint_
    laid_rows = on_planes(joint.coordinates, joint.coordinates, joint.batch)
    assert joint.rows == pytest.approx(laid_rows)
    # Rows go half of the way, and count for twice as much as the map: squares of distances add up.
    half = (joint.rows + joint.coordinates) / 2**0.5
    assert np.vstack(laid.embedding_)[:, -half.shape[1] :] == pytest.approx(half)
    assert laid.transform(data.x, dataset=0) == pytest.approx(laid.embedding_[0], abs=1e-6)
    monkeypatch.setattr(models, "PLANE_ROWS", 239)
    plain = ha.HarmonicAlignment(random_state=0).fit([data.x, data.y])
    assert plain.joint_.places is None
    assert plain.joint_.coordinates is plain.joint_.rows
    assert plain.joint_.coordinates == pytest.approx(joint.coordinates)
    assert plain.transform(data.x, dataset=0) == pytest.approx(plain.embedding_[0], abs=1e-6)


def test_rows_of_an_added_dataset_span_planes_too():
    digits = load_digits(return_X_y=True)
    data = corrupted_pair(*digits, 120, 120, 0.6, random_state=0)
    model = ha.HarmonicAlignment(random_state=0).fit([data.x[:60], data.y])
    joint = model.joint_
    added = model.add(data.x[60:])
    fitted = model.model_
    z = fitted.space.place(2, fitted.reductions[2].apply(data.x[60:]), data.x[60:])
    batch = np.concatenate([joint.batch, np.full(60, 2)])
    laid = on_planes(z, np.vstack([joint.coordinates, z]), batch)
    # They are neighbours of each other on the map as well, which the fitted rows stay on as they are.
    phi = joint.harmonics.extend(joint.graph.extend(laid))
    own = joint.graph
    grown = ha.kernel_graph(
        np.vstack([own.rows, laid]),
        n_neighbors=own.n_neighbors,
        max_neighbors=own.max_neighbors,
        decay=own.decay,
        thresh=own.thresh,
        anisotropy=own.anisotropy,
    )
    walk = grown.transitions.toarray()
    for _ in range(2):
        phi = (walk[180:, :180] @ joint.harmonics.phi + walk[180:, 180:] @ phi) / joint.harmonics.eigenvalues
    expected = phi * joint.harmonics.frequencies
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert added == pytest.approx(np.hstack([expected, (z + laid) / 2**0.5]), abs=2e-6)
    # A single new row of it stands for itself: on the planes of the fitted rows alone, with squared
    # probabilities.
    apart = model.transform(data.x[60:] + 1e-9, dataset=2)
    assert np.abs(apart[:, : expected.shape[1]] - expected).max() > 1e-3
    alone = on_planes(z, joint.coordinates, joint.batch)
    assert apart[:, expected.shape[1] :] == pytest.approx((z + alone) / 2**0.5, abs=1e-5)
    squared = joint.graph.extend(alone).toarray() ** 2
    squared /= squared.sum(axis=1, keepdims=True)
    expected = joint.harmonics.extend(squared) * joint.harmonics.frequencies
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert apart[:, : expected.shape[1]] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("n", [300, 9000])
def test_by_torch(n, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from harmonicalign.engines import torch_joint

    monkeypatch.setattr(torch_joint, "EXACT_BELOW", 1000)
    rows = surface(n, 0.05)[1]
    parts = [torch.from_numpy(rows[:100]), torch.from_numpy(rows[100:])]
    laid, places = torch_joint.on_planes(parts, neighbourhood(n), 0)
    assert [len(part) for part in laid] == [100, n - 100]
    assert places == pytest.approx(rows)
    batch = np.repeat([0, 1], [100, n - 100])
    off = np.linalg.norm(torch.cat(laid).numpy() - on_planes(rows, rows, batch), axis=1)
    # An inverted file misses a neighbour here and there.
    assert np.median(off) < 1e-6
    assert off.mean() < (1e-6 if n == 300 else 5e-3)


def test_confidence_between_laid_rows_tells_more(monkeypatch):
    # Two noisy samples of one surface; the second lacks a corner of it.
    x = surface(600, 0.2)[1]
    y = surface(600, 0.2, seed=1)[1]
    y = y[surface(600, 0.2, seed=1)[0][:, 0] > -1]
    alone = surface(600, 0.2)[0][:, 0] < -1.2
    laid, plain = placed_confidence([x, y])[0], row_confidence([x, y], n_smooth=4)[0]
    assert laid[alone].mean() < plain[alone].mean() - 0.05
    assert laid[~alone].mean() > plain[~alone].mean() - 0.01
    monkeypatch.setattr(models, "PLANE_ROWS", len(x) + len(y) - 1)
    np.testing.assert_array_equal(placed_confidence([x, y])[0], row_confidence([x, y], n_smooth=4)[0])
