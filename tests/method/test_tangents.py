"""Rows projected onto the tangent planes of their neighbours."""

from dataclasses import replace

import numpy as np
import plain_stages
import pytest
from two_sides import surface

from harmonicalign.engines.rows import participation
from harmonicalign.method import DEFAULT
from harmonicalign.method.tangents import project


def plain(rows, places, config=DEFAULT, dimensions=None):
    """The transcription, row by row."""
    k = min(len(places), config.tangent_neighbours)
    return np.stack([plain_stages.project(row, places, k, dimensions) for row in rows])


def test_projection_is_what_it_says():
    rows = surface(120, 0.1)[1]
    new = surface(10, 0.3, seed=1)[1]
    for some in (rows, new):
        np.testing.assert_allclose(project(some, rows), plain(some, rows), atol=2e-6)
        for dimensions in (1.5, 20.0):
            np.testing.assert_allclose(
                project(some, rows, dimensions=dimensions),
                plain(some, rows, dimensions=dimensions),
                atol=5e-6,
            )
    few = replace(DEFAULT, tangent_neighbours=12)
    np.testing.assert_allclose(project(new, rows, few), plain(new, rows, few), atol=2e-6)
    assert not np.allclose(project(new, rows, few), project(new, rows), atol=1e-2)


def test_a_surface_is_projected_and_noise_around_points_is_not(rng):
    clean, noisy = surface(1000, 0.02)
    moved = np.linalg.norm(project(noisy, noisy) - noisy, axis=1).mean()
    found = project(noisy, noisy, dimensions=participation(np.cov(clean.T)))
    assert np.linalg.norm(found - noisy, axis=1).mean() > 0.7 * moved
    blobs = rng.randn(600, 20) + 20 * np.eye(20)[rng.randint(2, size=600)]
    moved = np.linalg.norm(project(blobs, blobs) - blobs, axis=1).mean()
    found = project(blobs, blobs, dimensions=participation(np.cov(blobs.T)))
    assert np.linalg.norm(found - blobs, axis=1).mean() < 0.2 * moved


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
    laid = torch_joint.on_planes(torch.from_numpy(rows), DEFAULT.tangent_neighbours, 3.0, 0).cpu().numpy()
    off = np.linalg.norm(laid - project(rows, rows, dimensions=3.0), axis=1)
    # An inverted file misses a neighbour here and there.
    assert np.median(off) < 1e-6
    assert off.mean() < (1e-6 if n == 300 else 5e-3)
