from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import ortho_group

from harmonicalign.experiments.baselines.wang import (
    WangMahadevan,
    local_geometry,
    local_geometry_distances,
)


def rotated_curves(seed):
    t = np.sort(np.random.default_rng(seed).uniform(0.3, 3, size=150))
    x = np.column_stack([t * np.cos(3 * t), t * np.sin(3 * t), 0.5 * t**2])
    return x, x @ ortho_group.rvs(3, random_state=seed)


def closer_than_match(zx, zy):
    """FOSCTTM: the share of rows that lie closer than a row's true partner (chance: one half)."""
    d = np.linalg.norm(zx[:, None] - zy, axis=2)
    match = np.diag(d)
    return float(((d < match[:, None]).mean() + (d < match).mean()) / 2)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_rotated_curves_meet(seed, n_components):
    x, y = rotated_curves(seed)
    shuffle = np.random.default_rng(9).permutation(len(y))
    zx, zy = WangMahadevan(n_components=n_components).fit_transform([x, y[shuffle]])
    assert closer_than_match(x, y) > 0.1
    assert closer_than_match(zx, zy[np.argsort(shuffle)]) < 0.01


def test_scaled_and_shifted_curves_meet():
    x, y = rotated_curves(0)
    assert closer_than_match(*WangMahadevan(n_components=2).fit_transform([x, 2 * y + 5])) < 0.05


def test_distance_is_the_papers_minimum_over_orders_and_scales():
    rng = np.random.default_rng(0)
    rx, ry = local_geometry(rng.normal(size=(12, 3)), 3), local_geometry(2 * rng.normal(size=(9, 2)), 3)

    def plain(a, b):
        found = []
        for order in permutations(range(1, 4)):
            h = np.array([0, *order])
            bh = b[np.ix_(h, h)]
            k1, k2 = np.sum(a * bh) / np.sum(a * a), np.sum(a * bh) / np.sum(bh * bh)
            found += [np.linalg.norm(bh - k1 * a), np.linalg.norm(a - k2 * bh)]
        return min(found)

    np.testing.assert_allclose(
        local_geometry_distances(rx, ry), [[plain(a, b) for b in ry] for a in rx], atol=1e-7
    )


def test_local_geometry_lists_the_row_then_its_nearest():
    r = local_geometry(np.array([[0.0], [1.0], [3.0], [7.0]]), 2)
    np.testing.assert_allclose(r[0], [[0, 1, 3], [1, 0, 2], [3, 2, 0]])


def test_projections_solve_the_eigenproblem_and_are_linear():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 4)), rng.normal(size=(30, 3))
    zx, zy = WangMahadevan(n_components=3).fit_transform([x, y])
    for rows, z in ((x, zx), (y, zy)):
        centred = rows - rows.mean(axis=0)
        coefficients, *_ = np.linalg.lstsq(centred, z)
        np.testing.assert_allclose(centred @ coefficients, z, atol=1e-9)


def test_coinciding_rows_are_no_trouble():
    x = np.repeat(np.random.default_rng(0).normal(size=(6, 3)), 6, axis=0)
    assert all(np.isfinite(z).all() for z in WangMahadevan().fit_transform([x, x + 1]))


def test_bad_input_is_named():
    x = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(ValueError, match=r"datasets\[1\]: 4 rows have no 4 neighbours; lower k"):
        WangMahadevan().fit_transform([x, x[:4]])
    with pytest.raises(ValueError, match=r"datasets\[0\]: all rows are equal"):
        WangMahadevan().fit_transform([np.ones((9, 2)), x])
    with pytest.raises(ValueError, match="k=9: k! orders"):
        WangMahadevan(k=9)
