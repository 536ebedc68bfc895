"""Maps of rows into joint coordinates, of components and of signals."""

from dataclasses import replace

import numpy as np
import plain_stages
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge
from two_sides import plain_side, side

from harmonicalign.engines.rows import blend, unit_rows
from harmonicalign.method import DEFAULT
from harmonicalign.method.anchors import masses, mutual_neighbours
from harmonicalign.method.maps import (
    LinearMap,
    Side,
    component_maps,
    reversed_maps,
    ridge_regression,
    turn,
    typical_length,
    weighted_axes,
)


def test_component_maps_recover_a_rotation(rng):
    x = rng.randn(200, 5) * [5, 4, 3, 2, 1]
    turn = np.linalg.qr(rng.randn(5, 5))[0]
    y = 0.5 * x @ turn + 7
    maps = component_maps((side(x), side(y)), sp.eye_array(200, format="csr"))
    assert maps[1].apply(y) == pytest.approx(maps[0].apply(x), abs=1e-9)
    assert np.average(maps[0].apply(x), axis=0) == pytest.approx(np.zeros(5), abs=1e-9)


@pytest.mark.parametrize(
    ("factor", "gain"),
    [
        (0.5, 2),
        (1 / DEFAULT.most_gain, DEFAULT.most_gain),
        (0.1, DEFAULT.most_gain),
        (2, 0.5),
        (10, 1 / DEFAULT.most_gain),
    ],
)
def test_spread_is_matched_up_to_a_factor(rng, factor, gain):
    x = rng.randn(200, 3) * [3, 2, 1]
    maps = component_maps((plain_side(x), plain_side(factor * x + 7)), sp.eye_array(200, format="csr"))
    assert maps[0].matrix == pytest.approx(np.eye(3))
    assert maps[1].matrix == pytest.approx(gain * np.eye(3), abs=1e-9)
    assert maps[1].apply(factor * x + 7) == pytest.approx(gain * factor * (x - x.mean(axis=0)), abs=1e-9)


def test_component_maps_see_only_the_anchors(rng):
    x, y = rng.randn(60, 4), rng.randn(50, 3)
    turn = np.linalg.qr(rng.randn(4, 3))[0]
    y[:40] = x[:40] @ turn
    pairing = sp.csr_matrix((np.linspace(1, 3, 40), (np.arange(40), np.arange(40))), shape=(60, 50))
    first, second = component_maps((plain_side(x), plain_side(y)), pairing)
    mass = np.linspace(1, 3, 40) / np.linspace(1, 3, 40).sum()
    assert first.shift == pytest.approx(-mass @ x[:40])
    assert mass @ second.apply(y[:40]) == pytest.approx(np.zeros(4), abs=1e-9)
    assert second.matrix.shape == (3, 4)
    # A direction without spread among the anchors keeps its length.
    flat = np.c_[y, np.zeros(50)]
    second = component_maps((plain_side(x), plain_side(flat)), pairing)[1]
    assert np.isfinite(second.matrix).all()
    assert np.linalg.norm(second.matrix[3]) == pytest.approx(1)


def test_signals_testify_where_anchors_are_doubtful(rng):
    latent = rng.randn(400, 3) * [3, 2, 1.5]
    x, y = latent[:200], latent[200:]
    turn = np.linalg.qr(rng.randn(3, 3))[0]
    signals = x[:, :2], y[:, :2]
    # Anchors hold for the first direction, and confuse the others.
    pairing = mutual_neighbours(x[:, :1], y[:, :1], 10)

    def error(*extra):
        maps = component_maps((plain_side(x), plain_side(y @ turn)), pairing, *extra)
        return np.linalg.norm(maps[1].apply(y @ turn) - maps[0].apply(y), axis=0)

    alone, told = error(), error(signals)
    assert told[1] < 0.2 * alone[1]


@pytest.mark.parametrize("changes", [{}, {"signal_ridge": 0.05}, {"most_gain": 1.1}])
@pytest.mark.parametrize("with_signals", [False, True])
def test_maps_are_what_they_say(rng, with_signals, changes):
    config = replace(DEFAULT, **changes)
    x, y, s, t = rng.randn(30, 3), 2 * rng.randn(25, 3), rng.randn(30, 4), rng.randn(25, 4)
    pairing, signals = mutual_neighbours(s, t, 5), (s, t) if with_signals else None
    first, second = component_maps((plain_side(x), plain_side(y)), pairing, signals, config)
    matrix, mean_x, mean_y = plain_stages.component_maps(x, y, pairing.toarray(), signals, config)
    np.testing.assert_allclose(second.matrix, matrix, atol=1e-9)
    np.testing.assert_allclose(second.apply(y), (y - mean_y) @ matrix, atol=1e-9)
    np.testing.assert_allclose(first.apply(x), x - mean_x, atol=1e-9)


def test_reversed_maps_lead_back(rng):
    x, y = rng.randn(30, 3), rng.randn(25, 3)
    pairing = mutual_neighbours(x, y, 5)
    maps = component_maps((plain_side(x), plain_side(y)), pairing)
    back = reversed_maps(maps, masses(pairing)[1] @ y)
    # Rows of y, mapped and moved to x's own coordinates, come back to where they are.
    there = maps[1].apply(y) - maps[0].shift
    np.testing.assert_allclose(back[1].apply(there) - back[0].shift, y, atol=1e-9)


def test_signals_that_do_not_vary_say_nothing(rng):
    x, y = rng.randn(30, 3), rng.randn(25, 3)
    pairing = mutual_neighbours(x, y, 5)
    both = plain_side(x), plain_side(y)
    constant = np.zeros((30, 4)), np.zeros((25, 4))
    for one, other in zip(
        component_maps(both, pairing), component_maps(both, pairing, constant), strict=True
    ):
        assert one.matrix == pytest.approx(other.matrix)
        assert one.shift == pytest.approx(other.shift)


def test_ridge_regression_agrees_with_scikit_learn(rng):
    x, y, weights = rng.randn(40, 3) + 5, rng.randn(40, 2), rng.uniform(0.1, 1, 40)
    variance = np.average((x - np.average(x, axis=0, weights=weights)) ** 2, axis=0, weights=weights).mean()
    expected = Ridge(alpha=0.2 * variance * weights.sum()).fit(x, y, weights)
    assert ridge_regression(x, y, 0.2, weights) == pytest.approx(expected.coef_.T)
    plain = Ridge(alpha=0.2 * x.var(axis=0).mean() * 40).fit(x, y)
    assert ridge_regression(x, y, 0.2) == pytest.approx(plain.coef_.T)


def test_weighted_axes_are_joint_principal_components(rng):
    x, y = rng.randn(50, 6), rng.randn(40, 6) + 2
    centres, weights = (x.mean(axis=0), y.mean(axis=0)), rng.uniform(0.2, 1, 6)
    for n_axes in (DEFAULT.n_components, 3):
        config = replace(DEFAULT, n_components=n_axes)
        maps = weighted_axes([plain_side(x), plain_side(y)], centres, weights, weights, config=config)
        scaled = np.r_[x - centres[0], y - centres[1]] * weights
        axes = np.linalg.svd(scaled, full_matrices=False)[2].T[:, :n_axes]
        for rows, centre, m in zip((x, y), centres, maps, strict=True):
            expected = (rows - centre) * weights @ axes
            assert np.abs(m.apply(rows)) == pytest.approx(np.abs(expected))
            assert m.apply(rows) @ m.apply(rows).T == pytest.approx(expected @ expected.T)
            assert m.apply(sp.csr_matrix(rows)) == pytest.approx(m.apply(rows))


def test_only_signals_of_worth_enter_where_there_are_many(rng):
    x, y = rng.randn(50, 6), rng.randn(40, 6)
    weights, worth = np.linspace(1, 0.5, 6), np.array([0.01, 0.9, 0.8, 0.1, 0.7, 0.6])
    for most, entered in ((4, [1, 2, 4, 5]), (5, [1, 2, 3, 4, 5]), (6, [*range(6)])):
        config = replace(DEFAULT, most_signals=most)
        for form in (np.asarray, sp.csr_matrix):
            sides_ = [plain_side(x, form(x)), plain_side(y, form(y))]
            for m in weighted_axes(sides_, [np.zeros(6)] * 2, weights, worth, config=config):
                assert np.flatnonzero(m.matrix.any(axis=1)).tolist() == entered
                assert m.matrix.shape == (6, len(entered))


def test_axes_of_many_signals_are_drawn_by_the_seed(rng):
    pair = [plain_side(rng.randn(160, 310)), plain_side(rng.randn(150, 310))]
    centres, ones = [np.zeros(310)] * 2, np.ones(310)
    one, two, other = (weighted_axes(pair, centres, ones, ones, seed)[0].matrix for seed in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other), "the axes do not depend on the seed"


def test_blend_balances_components_and_signals():
    q, s = np.array([[0.6, 0.8]]), np.ones((1, 1))
    assert blend(q, s, 0.3) == pytest.approx(np.array([[0.42, 0.56, 0.3]]) / np.sqrt(0.58))
    assert blend(q, s, 0).tolist() == [[0.6, 0.8, 0]]
    assert blend(q, s, 1).tolist() == [[0, 0, 1]]


def test_unit_rows_leave_zeros(rng):
    rows = np.r_[rng.randn(3, 2), 1e-3 * rng.randn(1, 2), np.zeros((1, 2))]
    assert np.linalg.norm(unit_rows(rows), axis=1) == pytest.approx([1, 1, 1, 1, 0])


def test_the_typical_length_is_the_median_over_all_datasets(rng):
    parts = [rng.standard_normal((30, 3)), 3 * rng.standard_normal((21, 3))]
    assert typical_length(parts) == pytest.approx(np.median(np.linalg.norm(np.vstack(parts), axis=1)))
    assert typical_length([np.zeros((5, 2))] * 2) == 0


@pytest.mark.parametrize("changes", [{}, {"turn_prior": 0.0}, {"turn_prior": 2.0, "n_anchors": 3}])
def test_a_turn_is_what_it_says(rng, changes):
    config = replace(DEFAULT, n_rounds=2, n_steps=2, **changes)
    x, y = rng.randn(30, 3) * [3, 2, 1], rng.randn(25, 3) @ np.diag([3, 1, 2]) + 0.5
    np.testing.assert_allclose(turn(x, y, config).apply(y), plain_stages.turn(x, y, config), atol=1e-5)


def test_a_turn_is_rigid_and_brings_turned_rows_back(rng):
    kinds = 5 * rng.randn(6, 3)
    rows = np.repeat(kinds, 40, axis=0) + 0.5 * rng.randn(240, 3)
    angle = 0.5
    turned = rows @ np.array(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    )
    found = turn(rows[::2], turned[1::2], replace(DEFAULT, turn_prior=0.1))
    np.testing.assert_allclose(found.matrix @ found.matrix.T, np.eye(3), atol=1e-9, err_msg="no rotation")
    off = np.linalg.norm(found.apply(turned[1::2]) - rows[1::2], axis=1).mean()
    before = np.linalg.norm(turned[1::2] - rows[1::2], axis=1).mean()
    assert off < 0.15 * before, f"rows are {off:.2f} away from where they were, {before:.2f} without the turn"


def test_a_turn_of_rows_that_meet_leaves_them(rng):
    rows = rng.randn(300, 4) * [4, 3, 2, 1]
    found = turn(rows[:150], rows[150:], DEFAULT)
    moved = np.linalg.norm(found.apply(rows) - rows, axis=1).mean() / np.linalg.norm(rows, axis=1).mean()
    assert moved < 0.3, f"two samples of the same rows are moved by {moved:.2f} of their length"


def test_linear_map_takes_sparse_rows(rng):
    m = LinearMap(rng.randn(4, 2), rng.randn(2))
    rows = rng.randn(5, 4)
    assert m.apply(rows) == pytest.approx(rows @ m.matrix + m.shift)
    assert m.apply(sp.csr_matrix(rows)) == pytest.approx(m.apply(rows))


def test_linear_map_by_torch(rng):
    torch = pytest.importorskip("torch")
    m = LinearMap(rng.randn(4, 2), rng.randn(2))
    rows = rng.randn(5, 4)
    for form in (np.asarray, sp.csr_matrix):
        assert m.apply(form(rows), torch.device("cpu")).numpy() == pytest.approx(m.apply(rows), abs=1e-5)
        assert m.apply(form(rows), torch.device("meta")).device.type == "meta"


def test_spectrum_of_centred_signals(sides):
    one = sides[0]
    expected = one.harmonics.psi.T @ (one.signals - one.signals.mean(axis=0))
    assert one.spectral() == pytest.approx(expected, abs=1e-9)
    sparse = Side(one.components, sp.csr_matrix(one.signals), one.harmonics)
    assert sparse.spectral() == pytest.approx(expected, abs=1e-9)
