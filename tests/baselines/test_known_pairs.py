"""CCA and Procrustes, which are told the pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ortho_group

from harmonicalign.experiments.baselines.cca import CCA
from harmonicalign.experiments.baselines.procrustes import Procrustes


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(80, 5)) @ np.diag([5.0, 3, 2, 1, 1])


@pytest.fixture
def shuffle():
    return np.random.default_rng(1).permutation(80)


def test_procrustes_undoes_rotation_scale_and_shift_from_a_few_pairs(x, shuffle):
    y = (3 * x @ ortho_group.rvs(5, random_state=0) + 7)[shuffle]
    pairs = np.column_stack([shuffle, np.arange(80)])[:10]
    zx, zy = Procrustes(pairs).fit_transform([x, y])
    np.testing.assert_allclose(zy, x[shuffle], atol=1e-9)
    np.testing.assert_array_equal(zx, x)


def test_procrustes_without_scale_keeps_lengths(x):
    _, zy = Procrustes(scale=False).fit_transform([x, 3 * x])
    np.testing.assert_allclose(zy, 3 * x + (x - 3 * x).mean(axis=0), atol=1e-9)


def test_procrustes_fills_up_the_narrower(x):
    flat = x.copy()
    flat[:, 3:] = 0
    y = flat[:, :3] @ ortho_group.rvs(3, random_state=0)
    np.testing.assert_allclose(Procrustes().fit_transform([flat, y])[1], flat, atol=1e-9)


def test_cca_finds_the_shared_directions_in_unlike_columns(x, shuffle):
    rng = np.random.default_rng(2)
    shared = rng.normal(size=(80, 2))
    left = np.hstack([shared, rng.normal(size=(80, 3))]) @ rng.normal(size=(5, 5))
    right = (np.hstack([shared, rng.normal(size=(80, 2))]) @ rng.normal(size=(4, 4)))[shuffle]
    pairs = np.column_stack([shuffle, np.arange(80)])
    zx, zy = CCA(pairs, n_components=2).fit_transform([left, right])
    np.testing.assert_allclose(zx[shuffle], zy, atol=1e-6)


def test_cca_variates_are_white_and_ordered(x):
    rng = np.random.default_rng(2)
    y = x @ rng.normal(size=(5, 5)) + rng.normal(size=(80, 5))
    zx, zy = CCA().fit_transform([x, y])
    np.testing.assert_allclose(zx.T @ zx / 80, np.eye(5), atol=1e-9)
    np.testing.assert_allclose(zy.T @ zy / 80, np.eye(5), atol=1e-9)
    correlations = np.diag(zx.T @ zy) / 80
    assert (np.diff(correlations) <= 1e-12).all()
    assert correlations[0] <= 1 + 1e-9


@pytest.mark.parametrize("method", [CCA, Procrustes])
@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (None, "pairs=None.*80 and 60"),
        ([0, 1], "shape"),
        ([[0.5, 1.0], [1.0, 2.0]], "integers"),
        ([[0, 0]], "at least two"),
        ([[0, 0], [1, 60]], r"\[1, 60\].*80 and 60 rows"),
        ([[0, 0], [-1, 5]], "number rows from 0"),
    ],
)
def test_bad_pairs_are_named(method, pairs, message, x):
    with pytest.raises(ValueError, match=message):
        method(pairs).fit_transform([x, x[:60]])


def test_cca_without_variation_says_so(x):
    with pytest.raises(ValueError, match=r"datasets\[1\]: all paired rows are equal"):
        CCA().fit_transform([x, np.ones((80, 2))])
