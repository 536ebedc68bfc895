"""Rows projected onto the tangent planes of their neighbours."""

from dataclasses import replace

import numpy as np
import plain_stages
import pytest
from two_sides import surface

from harmonicalign.method import DEFAULT
from harmonicalign.method.tangents import project, project_together


def plain(rows, places, batch=None, config=DEFAULT):
    """The transcription, row by row."""
    k = min(len(places), config.tangent_neighbours)
    return np.stack([plain_stages.project(row, places, k, batch) for row in rows])


def test_projection_is_what_it_says():
    rows = surface(120, 0.1)[1]
    new = surface(10, 0.3, seed=1)[1]
    for some in (rows, new):
        np.testing.assert_allclose(project(some, rows), plain(some, rows), atol=2e-6)
    few = replace(DEFAULT, tangent_neighbours=12)
    np.testing.assert_allclose(project(new, rows, config=few), plain(new, rows, config=few), atol=2e-6)
    assert not np.allclose(project(new, rows, config=few), project(new, rows), atol=1e-2)


@pytest.mark.parametrize("n_sets", [1, 2, 9, 120])
def test_projection_within_datasets_is_what_it_says(n_sets):
    rows = surface(120, 0.1)[1]
    batch = np.random.RandomState(0).permutation(np.arange(120) % n_sets)
    np.testing.assert_allclose(project(rows, rows, batch), plain(rows, rows, batch), atol=2e-6)
    if n_sets in (1, 120):
        # One dataset differs from none, and rows that are each alone tell of no difference.
        np.testing.assert_allclose(project(rows, rows, batch), project(rows, rows), atol=2e-6)


def test_datasets_are_projected_together():
    rows = surface(200, 0.1)[1]
    parts, batch = [rows[:80], rows[80:]], np.repeat([0, 1], [80, 120])
    for within, expected in ((True, project(rows, rows, batch)), (False, project(rows, rows))):
        projected, places = project_together(parts, within=within)
        assert [len(part) for part in projected] == [80, 120]
        assert np.array_equal(np.vstack(projected), expected)
        assert np.array_equal(places, rows)


def test_a_difference_between_datasets_is_none_of_the_manifold():
    clean, noisy = surface(1000, 0.02)
    batch = np.random.RandomState(1).randint(0, 2, 1000)
    noisy[batch == 1, 10] += 0.3

    def difference(laid):
        return np.linalg.norm(laid[batch == 1].mean(axis=0)[5:] - laid[batch == 0].mean(axis=0)[5:])

    as_is, within = project(noisy, noisy), project(noisy, noisy, batch)
    assert difference(as_is) > 0.25
    assert difference(within) < 0.15  # what is left is that neighbours are rather of a row's own dataset
    off = np.linalg.norm((within - clean)[:, :5], axis=1)
    assert off.mean() < 1.1 * np.linalg.norm((as_is - clean)[:, :5], axis=1).mean()


def test_noise_goes_and_the_surface_stays():
    clean, noisy = surface(1000, 0.05)
    before, after = (np.linalg.norm(z - clean, axis=1).mean() for z in (noisy, project(noisy, noisy)))
    assert after < 0.75 * before
    assert np.abs(project(clean, clean) - clean).max() < 0.05


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scale_and_place_do_not_matter(dtype):
    rows = surface(300, 0.1)[1].astype(dtype)
    laid = project(rows, rows)
    assert laid.dtype == dtype
    scaled = project(rows * dtype(1e4), rows * dtype(1e4)) / 1e4
    moved = project(rows + dtype(3), rows + dtype(3)) - 3
    # Rounding may give a row another last neighbour.
    assert np.isclose(scaled, laid, rtol=0, atol=1e-4).all(axis=1).mean() > 0.98
    assert np.isclose(moved, laid, rtol=0, atol=1e-3).all(axis=1).mean() > 0.98


def test_rows_laid_one_by_one_or_all_at_once():
    rows = surface(300, 0.1)[1]
    assert project(rows[7:8], rows) == pytest.approx(project(rows, rows)[7:8], abs=2e-6)


def test_few_and_equal_rows():
    few = surface(5, 0.1)[1]
    assert project(few, few).shape == few.shape
    same = np.ones((50, 4))
    assert project(same, same) == pytest.approx(same)
    assert np.isfinite(project(same + 1, same)).all()


@pytest.mark.parametrize("n", [300, 9000])
def test_by_torch(n, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from harmonicalign.engines import torch_joint

    monkeypatch.setattr(torch_joint, "EXACT_BELOW", 1000)
    rows = surface(n, 0.05)[1]
    parts = [torch.from_numpy(rows[:100]), torch.from_numpy(rows[100:])]
    laid = torch_joint.on_planes(parts, DEFAULT.tangent_neighbours, 0).cpu().numpy()
    batch = np.repeat([0, 1], [100, n - 100])
    off = np.linalg.norm(laid - project(rows, rows, batch), axis=1)
    # An inverted file misses a neighbour here and there.
    assert np.median(off) < 1e-6
    assert off.mean() < (1e-6 if n == 300 else 5e-3)
