"""Local shifts: what is left between datasets after their maps, taken up place by place."""

from dataclasses import replace

import numpy as np
import plain_stages
import pytest

from harmonicalign.engines.rows import gaussian_weights
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.method import DEFAULT, LocalShift, local_shifts, project
from harmonicalign.method.shifts import (
    Cloud,
    _sides,
    common_offset,
    facing,
    local_centring,
    shift_towards,
)


def clouds(rng, n_x, n_y):
    """Rows, support and shares met of the others and of the dataset that moves."""
    x, y = rng.randn(n_x, 3), rng.randn(n_y, 3) + [0.5, 0, 0]
    return [(c, rng.uniform(0.2, 1, len(c)), rng.uniform(0.2, 0.7, len(c))) for c in (x, y)]


@pytest.mark.parametrize(
    ("n_x", "n_y", "changes"),
    [
        (60, 50, {}),
        (20, 130, {}),
        (50, 12, {}),
        (60, 50, {"shift_share": 2, "shift_rows": 20}),
        (60, 50, {"n_anchors": 3}),
        (60, 50, {"apart": 1.5}),
    ],
)
def test_rows_move_towards_their_anchors_as_it_says(rng, n_x, n_y, changes):
    config = replace(DEFAULT, **changes)
    others, own = clouds(rng, n_x, n_y)
    found = shift_towards(Cloud(*others), Cloud(*own), config)
    np.testing.assert_allclose(found, plain_stages.shift_towards(*others, *own, config), atol=1e-5)


def test_rows_that_nothing_supports_stay(rng):
    (x, support_x, met_x), own = clouds(rng, 60, 50)
    found = shift_towards(Cloud(x, np.zeros(60), met_x), Cloud(*own))
    assert found.shape == (50, 3)
    assert not found.any(), "anchors of no confidence move rows"
    y, _, met_y = own
    assert not shift_towards(Cloud(x, support_x, met_x), Cloud(y, np.zeros(50), met_y)).any()


def test_rows_stay_where_datasets_meet(rng):
    (x, support_x, _), (y, support_y, _) = clouds(rng, 60, 50)
    # However dense either is: the shares add up to one.
    found = shift_towards(Cloud(x, support_x, np.full(60, 0.4)), Cloud(y, support_y, np.full(50, 0.6)))
    np.testing.assert_allclose(found, 0, atol=1e-12)


def test_rows_that_coincide_with_their_anchors_stay(rng):
    y, apart = rng.randn(50, 3), np.zeros(50)
    one = replace(DEFAULT, n_anchors=1)
    same = Cloud(y, np.ones(50), apart)
    np.testing.assert_allclose(shift_towards(same, same, one), 0, atol=1e-6)


def test_what_chance_explains_does_not_move_rows(rng):
    y, apart = rng.randn(400, 3), np.zeros(400)
    full = 400 // DEFAULT.shift_share / DEFAULT.shift_rows  # how much of the way so many rows go
    still, moved = (
        shift_towards(Cloud(rng.randn(400, 3) + offset, np.ones(400), apart), Cloud(y, np.ones(400), apart))
        / full
        for offset in (0, [1.5, 0, 0])
    )
    assert (still == 0).any()
    assert np.linalg.norm(still, axis=1).mean() < 0.1, "rows move although only chance differs"
    assert not (moved == 0).any()
    # Mutual neighbours lie where the clouds face each other, so that one round falls far short.
    assert moved[:, 0].mean() > 3 * np.abs(still[:, 0]).mean(), (
        "rows do not move although the datasets differ"
    )


def test_a_single_anchor_moves_all_rows(rng):
    y, support = rng.randn(6, 3), rng.uniform(0.2, 1, 6)
    target = y[2:3] + [1, 2, 3]
    found = shift_towards(Cloud(target, np.ones(1), np.zeros(1)), Cloud(y, support, np.zeros(6)))
    # The nearest row is the anchor; every row follows it as far as it is supported, and as so few can tell.
    nearest = np.linalg.norm(y - target, axis=1).argmin()
    share = 1 / DEFAULT.shift_rows
    np.testing.assert_allclose(found, share * np.outer(support, target - y[nearest]))


def by_loops(z, steps, seed, config):
    """Rounds of the transcription, on projected rows, with confidence and shares of where all rows are."""
    flat, moves = [project(rows, rows, config=config) for rows in z], [np.zeros_like(rows) for rows in z]
    for _ in range(config.shift_rounds):
        placed = [a + b for a, b in zip(z, moves, strict=True)]
        now = [a + b for a, b in zip(flat, moves, strict=True)]
        for i, step in enumerate(steps):
            if step:
                rest = [j for j in range(len(z)) if j != i]
                x, there = (np.concatenate([part[j] for j in rest]) for part in (now, placed))
                support = row_confidence([there, placed[i]], random_state=seed, config=config)
                met_x, met_y = plain_stages.shares_met(placed, i, config)
                towards = plain_stages.shift_towards(x, support[0], met_x, now[i], support[1], met_y, config)
                moves[i] = moves[i] + step * towards
    return moves


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shift_rounds": 1, "confidence_neighbours": 5},
        {"tangent_neighbours": 8},
        {"shift_rounds": 1, "confidence_neighbours": 4, "apart": 1.5},
    ],
)
def test_rounds_of_shifts_are_what_they_say(rng, changes):
    config = replace(DEFAULT, **{"shift_rounds": 2, **changes})
    z = [rng.randn(40, 2), rng.randn(35, 2) + [2, 0], rng.randn(30, 2) + [0, 2]]
    steps = [0, 1, 0.5]
    found, expected = local_shifts(z, steps, 3, config), by_loops(z, steps, 3, config)
    assert not found[0].any(), "a dataset that goes no part of the way moves"
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert not np.array_equal(found[1], local_shifts(z, steps, 4, config)[1]), "the seed is not passed on"


def test_clouds_hold_projected_rows_and_what_placed_ones_say(rng):
    placed, flat = rng.randn(90, 3), rng.randn(90, 3)
    others, mine = np.arange(0, 90, 2), np.arange(1, 90, 2)
    x, y = facing(placed, flat, others, mine, 0, DEFAULT)
    support = row_confidence([placed[others], placed[mine]])
    met = plain_stages.shares_met([placed[others], placed[mine]], 1, DEFAULT)
    for cloud, rows, c, m in zip((x, y), (others, mine), support, met, strict=True):
        assert np.array_equal(cloud.rows, flat[rows])
        np.testing.assert_allclose(cloud.support, c)
        np.testing.assert_allclose(cloud.met, m)


@pytest.mark.parametrize(("least", "n_others"), [(10, 30), (40, 40), (500, 120)])
def test_many_others_are_a_sample_no_smaller_than_the_dataset(least, n_others):
    batch, config = np.repeat([0, 1, 2], [70, 30, 50]), replace(DEFAULT, reference_rows=least)
    others, mine = _sides(batch, 1, np.random.RandomState(0), config)
    assert np.array_equal(mine, np.arange(70, 100))
    assert len(set(others)) == len(others) == n_others
    assert not np.isin(others, mine).any()
    assert (np.diff(others) > 0).all()
    again = _sides(batch, 1, np.random.RandomState(1), config)[0]
    assert np.array_equal(others, again) == (n_others == 120), "the sample does not depend on the seed"


def test_other_shares_of_the_same_kinds_are_no_batch_effect(rng):
    """Two kinds that touch, one rare in one dataset and common in the other; then one dataset moves."""

    def dataset(n_first, n_second):
        return np.vstack([rng.randn(n_first, 3), rng.randn(n_second, 3) + [3, 0, 0]])

    x, y = dataset(800, 200), dataset(200, 800)
    still, moved = (
        np.linalg.norm(local_shifts([x, y + offset], [0, 1], 0)[1], axis=1).mean()
        for offset in (np.zeros(3), np.array([0, 3.0, 0]))
    )
    assert still < 0.05
    assert moved > 10 * still


def test_a_common_offset_is_taken_off(rng):
    kinds = 6 * rng.randn(5, 3)
    x, y = (kinds[rng.randint(5, size=n)] + rng.randn(n, 3) for n in (150, 120))
    offset = np.array([1.0, -0.5, 0.3])
    found = common_offset(x, y + offset, 0)
    # Mutual neighbours lie where the clouds face each other, so it falls short.
    assert np.linalg.norm(found + offset) < 0.6 * np.linalg.norm(offset), "not the offset that was put in"
    assert not common_offset(x, y, 0, replace(DEFAULT, shift_rounds=0)).any()


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_common_offset_lays_the_anchors_on_each_other(rng, rounds):
    config = replace(
        DEFAULT,
        shift_rounds=rounds,
        tangent_neighbours=9,
        confidence_neighbours=4,
        n_anchors=5,
    )
    x, y = rng.randn(40, 2), rng.randn(30, 2) + 1
    there, flat, expected = project(x, x, config=config), project(y, y, config=config), np.zeros(2)
    for _ in range(rounds):
        support = row_confidence([x, y + expected], random_state=5, config=config)
        pairing = plain_stages.mutual_neighbours(there, flat + expected, config.n_anchors)
        pairing *= support[0][:, None] * support[1]
        mass_x, mass_y = plain_stages.shares(pairing)
        expected = mass_x @ there - mass_y @ flat
    np.testing.assert_allclose(common_offset(x, y, 5, config), expected, atol=1e-5)


def test_a_common_offset_of_rows_that_hardly_support_each_other(rng):
    x = 0.05 * rng.randn(20, 2)
    found = common_offset(x, x + [1, 0], 0)
    assert np.linalg.norm(found + [1, 0]) < 0.1, "little support is support nevertheless"
    points = common_offset(np.zeros((20, 2)), np.ones((20, 2)), 0)
    assert points.tolist() == [0, 0], "nothing supports anything here"


def test_a_local_shift_moves_towards_its_displacement(rng):
    places = rng.randn(100, 3)
    shift = LocalShift(places, np.tile([1.0, 0, 0], (100, 1)))
    np.testing.assert_allclose(shift.apply(places), places + [1, 0, 0])
    own = LocalShift(places, places[::-1])
    np.testing.assert_allclose(own.apply(places), places + places[::-1], atol=1e-3)
    moves, rows = rng.randn(100, 3), rng.randn(20, 3)
    before = rows.copy()
    for n, k in ((100, DEFAULT.shift_places), (3, DEFAULT.shift_places), (100, 2)):
        found = LocalShift(places[:n], moves[:n]).apply(rows, replace(DEFAULT, shift_places=k))
        for row, moved in zip(rows, found, strict=True):
            near = plain_stages.nearest(places[:n], row, k)
            away = np.array([plain_stages.distance(places[j], row) for j in near])
            weights = 1 / away**2
            np.testing.assert_allclose(moved, row + weights @ moves[near] / weights.sum(), atol=1e-5)
    assert np.array_equal(rows, before), "the rows that were handed over are changed"


def test_weights_where_the_scale_is_zero():
    weights = gaussian_weights(np.array([[0.0, 0.5, 2.0], [0.0, 0.5, 1e200]]), np.array([[0.0], [0.5]]))
    np.testing.assert_allclose(weights, [[1, 0, 0], [1, np.exp(-1), 0]])


def test_a_local_shift_where_places_coincide():
    shift = LocalShift(np.zeros((5, 2)), np.arange(10.0).reshape(5, 2))
    np.testing.assert_allclose(shift.apply(np.zeros((1, 2))), [[4.0, 5.0]])
    # Places at distance 0 take all where the farthest considered is there as well.
    shift = LocalShift(
        np.r_[np.zeros((5, 2)), np.ones((1, 2))], np.r_[np.ones((5, 2)), np.full((1, 2), 99.0)]
    )
    np.testing.assert_allclose(shift.apply(np.zeros((1, 2))), np.ones((1, 2)))


def test_local_centring_is_what_it_says(rng):
    z = [rng.randn(60, 4), rng.randn(50, 4) + [1, 0, 0, 0], rng.randn(30, 4)]
    rows, batch = np.vstack(z), np.repeat([0, 1, 2], [60, 50, 30])
    config = replace(DEFAULT, centring_neighbours=40)
    for rounds in (0, 1, 2):
        found = local_centring(z, [1, 1, 1], replace(config, centring_rounds=rounds))
        np.testing.assert_allclose(np.vstack([*z]) + np.vstack(found), rows, atol=1e-5)
        rows = plain_stages.centre_locally(rows, batch, 40)
    still = local_centring(z, [0, 1, 0.5], config)
    assert not still[0].any()
    assert still[1].any()
    assert still[2].any()


def test_what_a_dataset_differs_in_near_by_is_taken_off_and_chance_is_not(rng):
    x, y = rng.randn(400, 5), rng.randn(400, 5)
    moved = np.linalg.norm(np.vstack(local_centring([x, y], [1, 1])), axis=1)
    assert moved.mean() < 0.02 * np.linalg.norm(x, axis=1).mean(), "two samples of the same do not differ"
    # Where datasets differ clearly beyond chance, in another way at either end of the first direction.
    of_x, of_y = (np.outer(np.sign(rows[:, 0]), [0, 1, 1, 1, 1]) for rows in (x, y))
    a, b = local_centring([x, y + of_y], [1, 1])
    taken_off = np.mean(a * of_x) - np.mean(b * of_y)
    assert taken_off > 0.03, f"of a difference of 1 local means take {taken_off:.2f} off"
    far = np.vstack(local_centring([x, y + 100], [1, 1]))
    assert not np.any(far), "rows of one dataset alone have nothing to differ from"
