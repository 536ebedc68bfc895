"""The permutation test over features, and false discoveries."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from two_sides import side, spectra

from harmonicalign.evidence import relations, significance
from harmonicalign.evidence.config import EVIDENCE
from harmonicalign.evidence.correspondence import scores
from harmonicalign.evidence.relations import Relations, relate
from harmonicalign.evidence.significance import (
    _reflected,
    _shuffled,
    _smoothness,
    false_discovery,
    permutation_test,
    tail_probability,
)
from harmonicalign.paper.bands import bandlimiting_weights


def test_permutation_test_is_calibrated_and_has_power(sides):
    hx, hy, a, b = spectra(sides)
    assert permutation_test(hx, hy, a, b).p < 0.01
    rng = np.random.RandomState(0)
    wrong = [permutation_test(hx, hy, a, b[:, np.roll(rng.permutation(40), 1)]).p for _ in range(40)]
    assert np.mean(np.array(wrong) < 0.05) <= 0.2


def test_permutation_test_is_what_it_says(sides):
    hx, hy, a, b = spectra(sides)
    found = permutation_test(hx, hy, a, b)
    bands = bandlimiting_weights(hx.frequencies, hy.frequencies, 8)

    def unit(h, s):
        return s / np.linalg.norm(h.frequencies[:, None] * s, axis=0)

    a_unit, b_unit = unit(hx, a), unit(hy, b)
    order = np.argsort(_smoothness(hx.frequencies, a_unit) + _smoothness(hy.frequencies, b_unit))
    rng = np.random.RandomState(0)

    def both(other):
        c = bands * (a_unit @ other.T)
        u, _, vt = np.linalg.svd(c)
        agree = np.maximum(scores(u @ vt, hx.frequencies, a_unit, other), 0)
        u, _, vt = np.linalg.svd(bands * ((a_unit * agree**2) @ other.T))
        again = np.maximum(scores(u @ vt, hx.frequencies, a_unit, other), 0)
        return np.linalg.norm(c, "nuc"), np.sum(again**4) ** 0.25

    n = EVIDENCE.permutations
    permuted = [both(b_unit[:, _shuffled(order, rng, EVIDENCE.block_features)]) for _ in range(n)]
    mean = b_unit.mean(axis=1, keepdims=True)
    shared = max(0, 1 - 1 / 40 / np.sum((hy.frequencies[:, None] * mean) ** 2))
    mirrored = unit(hy, 2 * shared * mean - b_unit)
    drawn = np.empty((n, 40), dtype=bool)
    drawn[:, order] = np.random.RandomState([0, 1]).randint(2, size=(n, 40))
    reflected = [both(np.where(some, mirrored, b_unit)) for some in drawn]
    tests = []
    for null in map(np.array, (permuted, reflected)):
        mean, spread = null.mean(axis=0), null.std(axis=0, ddof=1)
        observed = ((both(b_unit) - mean) / spread).max()
        null = ((null - mean) / spread).max(axis=1)
        tests.append((tail_probability(observed, null), observed, null))
    p, observed, null = max(tests, key=lambda t: t[0])
    assert found.p == pytest.approx(p)
    assert found.observed == pytest.approx(observed)
    assert found.null == pytest.approx(null)
    assert found.z == pytest.approx((observed - null.mean()) / null.std(ddof=1))
    assert str(found).startswith(f"z = {found.z:.1f}, p = ")
    # The scale of a signal does not count, and neither do signals that hardly vary in one dataset.
    scaled = permutation_test(hx, hy, 1e-9 * a * np.linspace(1, 9, 40), b)
    assert scaled.null == pytest.approx(found.null)
    swapped = permutation_test(hy, hx, b, a).observed
    for tiny, same in ((0, True), (1e-12, True), (1e-6, False)):
        more = np.c_[a, tiny * a[:, :1]], np.c_[b, b[:, 1:2]]
        assert (permutation_test(hx, hy, *more).observed == pytest.approx(observed)) == same
        assert (permutation_test(hy, hx, *more[::-1]).observed == pytest.approx(swapped)) == same


def p_of_the_nuclear_norm(hx, hy, a, b):
    """The test by its first statistic alone."""
    bands = bandlimiting_weights(hx.frequencies, hy.frequencies, 8)
    a, b = (s / np.linalg.norm(h.frequencies[:, None] * s, axis=0) for h, s in ((hx, a), (hy, b)))
    order = np.argsort(_smoothness(hx.frequencies, a) + _smoothness(hy.frequencies, b))
    rng, n = np.random.RandomState(0), EVIDENCE.permutations
    others = [b[:, _shuffled(order, rng, EVIDENCE.block_features)] for _ in range(n)]
    others += [b * rng.choice([-1, 1], b.shape[1]) for _ in range(n)]
    norms = np.array([np.linalg.norm(bands * (a @ other.T), "nuc") for other in others]).reshape(2, n)
    z = (np.linalg.norm(bands * (a @ b.T), "nuc") - norms.mean(axis=1)) / norms.std(axis=1, ddof=1)
    return stats.t.sf(z / np.sqrt(1 + 1 / n), n - 1).max()


def test_few_features_that_say_much_are_seen_as_well(manifold, sides):
    hx, hy, a, b = spectra(sides)
    found, by_norm = [], []
    for seed in range(10):
        rng = np.random.RandomState(seed)
        mixed = np.setdiff1d(
            np.arange(40), rng.choice(np.flatnonzero(manifold.corresponds), 12, replace=False)
        )
        few = b.copy()
        few[:, mixed] = b[:, mixed] @ np.linalg.qr(rng.standard_normal((len(mixed), len(mixed))))[0]
        found.append(permutation_test(hx, hy, a, few).p)
        by_norm.append(p_of_the_nuclear_norm(hx, hy, a, few))
    seen, seen_by_norm = (np.sum(np.array(p) < EVIDENCE.chance) for p in (found, by_norm))
    assert seen > seen_by_norm, "scores of the features find no more than the norm of all does"


def test_relations_are_a_third_statistic(sides):
    hx, hy, a, b = spectra(sides)
    related = relate(*(s.signals for s in sides))
    every = replace(EVIDENCE, clear_permutations=0)
    found = permutation_test(hx, hy, a, b, relations=related, config=every)
    without = permutation_test(hx, hy, a, b, config=every)
    smoothness = sum(_smoothness(h.frequencies, s) for h, s in ((hx, a), (hy, b)))
    order, rng = np.argsort(smoothness), np.random.RandomState(0)
    for _ in range(EVIDENCE.permutations):
        _shuffled(order, rng, EVIDENCE.block_features)  # those of the first two statistics

    def kin(partners=None):
        return np.sum(np.maximum(related.scores(partners), 0) ** 3)

    # Relations do not depend on scales, so features change places for them under both nulls.
    null = np.array(
        [kin(_shuffled(order, rng, EVIDENCE.block_features)) for _ in range(EVIDENCE.permutations)]
    )
    third, spread = kin() - null.mean(), null.std(ddof=1)
    assert found.observed > third / spread - 1e-6
    assert (found.null >= (null - null.mean()) / spread - 1e-9).all()
    assert found.p < without.p


@pytest.mark.parametrize("factor", [0, 1])
def test_scales_that_are_the_same_in_both_datasets_prove_nothing(factor):
    """The column of largest scale is smooth on both graphs, whatever it means, and so is a common factor."""
    found = []
    for seed in range(30):
        rng = np.random.RandomState(seed)
        scale = np.exp(rng.randn(20))
        x, y = (
            (factor * rng.randn(n, 1) * rng.uniform(0, 1, 20) + rng.randn(n, 20)) * scale for n in (120, 100)
        )
        found.append(permutation_test(*spectra((side(x), side(y))), relations=relate(x, y)).p)
    assert np.mean(np.array(found) < 0.05) <= 0.1


def test_reflections_keep_what_features_share(rng):
    frequencies, shared = np.ones(500), rng.standard_normal((500, 1)) / 500**0.5
    apart = rng.standard_normal((500, 30)) / 500**0.5

    def reflected(b):
        b = b / np.linalg.norm(b, axis=0)
        return b, _reflected(frequencies, b)

    b, other = reflected(apart)
    assert np.sum(b * other, axis=0) == pytest.approx(-1, abs=0.1)  # independent ones are negated
    b, other = reflected(apart + shared)
    assert shared.T @ other == pytest.approx(shared.T @ b, abs=0.15)
    rest, mirrored = (s - shared * (shared.T @ s) / (shared.T @ shared) for s in (b, other))
    assert (np.sum(rest * mirrored, axis=0) < 0).all()
    b, other = reflected(apart[:, :1] * [1, 1, 1, 1, 1])
    assert np.linalg.norm(b - other, axis=0).max() < 1e-6  # alike: nothing sets them apart
    b, other = reflected(apart[:, :1] * [1, -1])
    assert other == pytest.approx(-b)  # a mean of zero


@pytest.mark.parametrize("seed", [2, 8])
def test_draws_that_are_the_order_given_count_whatever_their_last_digits(seed):
    """Of five features, some draws reflect none or exchange none; rounding must not decide about these."""
    rng = np.random.RandomState(seed)
    z = rng.randn(40, 5)
    hx, hy, a, b = spectra((side(z), side(z + 0.8 * rng.randn(40, 5))))
    found = set()
    for _ in range(6):
        x, y = (s * (1 + 3e-15 * rng.randn(*s.shape)) for s in (a, b))
        found.add(round(permutation_test(hx, hy, x, y).p, 6))
    assert len(found) == 1


def test_more_is_drawn_while_it_is_not_clear(sides):
    """The null is drawn until p is two standard errors from the bound, or for as long as is allowed."""
    rng, drawn, unclear = np.random.RandomState(0), set(), 0
    for _ in range(30):
        x, y = rng.randn(60, 6), rng.randn(60, 6)
        found = permutation_test(*spectra((side(x), side(y))))
        n = len(found.null)
        near = abs(found.p - EVIDENCE.chance) <= 2 * np.sqrt(EVIDENCE.chance * (1 - EVIDENCE.chance) / n)
        assert not near or n == EVIDENCE.most_permutations
        drawn.add(n)
        unclear += n > EVIDENCE.permutations
    assert drawn <= {99, 199, 399, 799}
    assert 0 < unclear < 15
    hx, hy, a, b = spectra(sides)
    few = replace(EVIDENCE, permutations=30, most_permutations=30)
    assert len(permutation_test(hx, hy, a, b[:, ::-1], config=few).null) == 30


def test_relations_find_a_few_of_few_features():
    """Six of sixteen columns of cells of four kinds: a rotation that suits the others exists always."""
    with_relations, without = [], []
    for seed in range(8):
        r = np.random.RandomState(seed)
        factors = r.randn(4, 16) * (r.rand(4, 16) < 0.5)
        x, y = (np.exp(np.eye(4)[r.randint(4, size=n)] @ factors) + 0.2 * r.randn(n, 16) for n in (200, 180))
        y[:, 6:] = y[:, 6:] @ np.linalg.qr(r.randn(10, 10))[0]
        spectral = spectra((side(x), side(y)))
        with_relations.append(permutation_test(*spectral, relations=relate(x, y)).p)
        without.append(permutation_test(*spectral).p)
    assert np.sum(np.array(with_relations) < 0.05) >= 6
    assert np.sum(np.array(with_relations) < 0.05) > np.sum(np.array(without) < 0.05)


def test_features_that_go_opposite_ways(rng):
    factors = rng.randn(4, 20)
    x, y = (np.exp(0.7 * rng.randn(n, 4)) @ factors + 0.3 * rng.randn(n, 20) for n in (200, 180))

    def test(other):
        return permutation_test(*spectra((side(x), side(other))), relations=relate(x, other))

    assert not test(y).opposed
    found = test(-y)
    assert found.opposed
    assert found.summary() == {"z": found.z, "p": found.p, "tested": True, "opposed": True}
    assert "opposite ways" in str(found)
    # Columns that do not correspond are skewed alike or not by chance alone.
    assert not any(
        test(s * y[:, np.roll(rng.permutation(20), 1)]).opposed for s in (-1, 1) for _ in range(10)
    )


def test_opposite_signs_where_no_wrong_pair_agrees(sides):
    """The third statistic is then zero under every permutation, and nothing may overflow."""
    hx, hy, a, b = spectra(sides)
    off = 1 - np.eye(6)
    x, y = np.stack([0.1 * off, off, off]), np.stack([0.1 * off, -off, -off])
    found = permutation_test(hx, hy, a[:, :6], b[:, :6], relations=Relations(np.arange(6), 6, x, y, -1.0))
    assert found.opposed
    assert np.isfinite(found.null).all()


def test_features_that_say_nothing_do_not_disturb_relations(sides):
    hx, hy, a, b = spectra(sides)
    x, y = (np.c_[s.signals, np.full(len(s.signals), 2.0)] for s in sides)
    more = permutation_test(hx, hy, np.c_[a, 0 * a[:, :1]], np.c_[b, 0 * b[:, :1]], relations=relate(x, y))
    assert np.isfinite(more.null).all()
    assert more.p < 0.01


def test_options_of_the_permutation_test(sides):
    hx, hy, a, b = spectra(sides)
    found = permutation_test(hx, hy, a, b)
    assert np.array_equal(found.null, permutation_test(hx, hy, a, b, random_state=0).null)
    assert not np.allclose(found.null, permutation_test(hx, hy, a, b, random_state=1).null)
    more = permutation_test(hx, hy, a, b, config=replace(EVIDENCE, permutations=150))
    assert len(more.null) == 150
    assert permutation_test(hx, hy, a, b, n_bands=8).observed == pytest.approx(found.observed)
    assert permutation_test(hx, hy, a, b, n_bands=2).observed != pytest.approx(found.observed, rel=0.01)


def test_smoothness_is_the_mean_eigenvalue(sides):
    hx, _, a, _ = spectra(sides)
    expected = [np.average(hx.eigenvalues**hx.exponent, weights=a[:, s] ** 2) for s in range(a.shape[1])]
    assert _smoothness(hx.frequencies, a) == pytest.approx(expected)


def test_the_test_goes_by_its_config(sides):
    hx, hy, a, b = spectra(sides)
    related = relate(*(s.signals for s in sides))
    once = replace(EVIDENCE, most_permutations=0, clear_permutations=0)
    found = permutation_test(hx, hy, a, b, relations=related, config=once)
    strict = permutation_test(hx, hy, a, b, relations=related, config=replace(once, chance=found.p / 2))
    assert strict.by_chance, f"p = {found.p} is larger than the chance of {strict.chance} in the config"
    assert not permutation_test(hx, hy, a, b, config=replace(EVIDENCE, fewest_features=41)).tested
    plain, other = (
        permutation_test(hx, hy, a, b, relations=related, config=c)
        for c in (once, replace(once, block_features=20))
    )
    assert not np.allclose(plain.null, other.null), "blocks are as they were"
    # What has no spread is divided by the least that is allowed.
    coarse = permutation_test(hx, hy, a, b, config=replace(EVIDENCE, least_spread=100))
    assert coarse.z == pytest.approx((coarse.observed - coarse.null.mean()) / 100)


@pytest.mark.parametrize("d", [0, 2, 4])
def test_too_few_features_to_permute(sides, d):
    hx, hy, a, b = spectra(sides)
    found = permutation_test(hx, hy, a[:, :d], b[:, :d])
    assert (found.z, found.p, found.observed, found.null.size) == (0, 1, 0, 0)
    assert not found.tested
    assert not found.by_chance
    assert str(found) == "not tested: fewer than 5 features vary in both datasets"
    more = permutation_test(hx, hy, a[:, :5], b[:, :5])
    assert more.tested
    assert more.null.size == EVIDENCE.permutations


@pytest.mark.parametrize("d", [5, 8])
def test_few_features_keep_the_level(d):
    found = []
    for seed in range(60):
        rng = np.random.RandomState(seed)
        x, y = rng.randn(80, d), rng.randn(70, d)
        found.append(permutation_test(*spectra((side(x), side(y))), relations=relate(x, y)))
    p = np.array([t.p for t in found])
    assert np.mean(p < 0.05) <= 0.1
    assert np.mean(p < 0.5) == pytest.approx(0.5, abs=0.2), "p-values are not uniform"


def test_features_that_are_all_alike_prove_nothing(sides):
    hx, hy, a, b = spectra(sides)
    found = permutation_test(hx, hy, np.tile(a[:, :1], 5), np.tile(b[:, :1], 5))
    assert abs(found.z) < 0.1
    assert found.p > 0.05


@pytest.mark.parametrize(
    ("d", "blocks"),
    [(3, [3]), (6, [6]), (11, [11]), (12, [6, 6]), (43, [6] * 6 + [7]), (125, [6] * 19 + [11])],
)
def test_features_change_places_within_blocks_of_like_smoothness(d, blocks):
    order = np.random.RandomState(1).permutation(d)
    place = np.argsort(order)
    for seed in range(3):
        # The borders of the blocks are drawn first.
        shift = np.random.RandomState(seed).randint(min(d, max(6, d // 20)))
        rolled = np.roll(order, shift)
        borders = np.cumsum([0, *blocks])
        found = _shuffled(order, np.random.RandomState(seed), EVIDENCE.block_features)
        assert sorted(found) == list(range(d))
        for start, stop in pairwise(borders):
            block = rolled[start:stop]
            assert set(found[block]) == set(block)
            gaps = np.diff(np.sort(place[block]))
            assert np.sum(gaps > 1) <= 1, "a block is an interval of the order, closed to a circle"


def test_all_permutations_of_a_block_are_equally_likely():
    """Also the one that changes nothing: otherwise the rank among them is no exact p-value."""
    rng = np.random.RandomState(0)
    found = [tuple(_shuffled(np.arange(3), rng, 3)) for _ in range(3000)]
    counts = [found.count(p) for p in set(found)]
    assert len(counts) == 6
    assert min(counts) > 400


def test_the_tail_is_cautious_also_if_exponential():
    rng = np.random.RandomState(0)
    for draw, least in ((rng.standard_exponential, 0.05), (rng.standard_normal, 0.0)):
        p = np.array([tail_probability(draw(), draw(99)) for _ in range(20000)])
        for level in (0.05, 0.01, 0.001):
            share = np.mean(p <= level)
            assert share <= level * 1.1 + 2 * np.sqrt(level / len(p)), f"{share} below {level}"
            assert share >= least * level
    null = np.arange(99.0)
    assert tail_probability(-1, null) == 1
    assert tail_probability(78, null) == pytest.approx(22 / 100), "a tie counts against it"
    assert tail_probability(50.5, null) == pytest.approx(49 / 100)
    assert tail_probability(78 + 1e-9, null) == pytest.approx(21 / 100)
    assert tail_probability(98.5, null) == pytest.approx(21 / 100 * (1 + 20.5 / (8 * 10.5)) ** -8)
    assert tail_probability(1.0, np.zeros(99)) == pytest.approx(21 / 100 * (1 + 10 / 8) ** -8)
    exact = replace(EVIDENCE, tail_power=20.0)
    p = [
        tail_probability(rng.standard_exponential(), rng.standard_exponential(99), exact)
        for _ in range(20000)
    ]
    assert np.mean(np.array(p) < 0.01) == pytest.approx(0.01, abs=0.0025)


@pytest.mark.parametrize("kind", ["clusters", "heavy tails"])
def test_what_has_no_correspondence_is_not_significant(kind):
    found = []
    for seed in range(60):
        r = np.random.RandomState(seed)
        if kind == "clusters":
            x, y = (r.randn(5, 12)[r.randint(5, size=n)] + 0.3 * r.randn(n, 12) for n in (120, 100))
        else:
            x, y = r.standard_t(2, (120, 12)), r.standard_t(2, (100, 12))
        found.append(permutation_test(*spectra((side(x), side(y))), relations=relate(x, y)).p)
    assert np.mean(np.array(found) < 0.05) <= 0.1
    assert np.mean(np.array(found) < 0.005) <= 0.02


def test_false_discovery():
    p = np.r_[np.full(10, 1e-5), np.linspace(0.05, 1, 90)]
    assert false_discovery(p)[:10].all()
    assert not false_discovery(p)[10:].any()
    assert false_discovery([0.05]).tolist() == [True]
    assert false_discovery([0.0501]).tolist() == [False]
    assert false_discovery([0.0501], rate=0.1).tolist() == [True]


def test_a_clear_test_stops_early_and_others_go_on(sides):
    hx, hy, a, b = spectra(sides)
    many = replace(EVIDENCE, clear_permutations=30)
    related = relate(*(s.signals for s in sides))
    clear = permutation_test(hx, hy, a, b, relations=related, config=many)
    assert len(clear.null) == 30
    assert clear.p < EVIDENCE.clear_p
    # The first permutations are the same.
    few = replace(EVIDENCE, permutations=30, most_permutations=0, clear_permutations=0)
    expected = permutation_test(hx, hy, a, b, relations=related, config=few)
    assert np.array_equal(clear.null, expected.null)
    wrong = np.roll(np.arange(40), 1)
    unclear = permutation_test(hx, hy, a, b[:, wrong], config=many)
    assert unclear.p > EVIDENCE.clear_p
    assert len(unclear.null) == EVIDENCE.permutations
    every = replace(EVIDENCE, clear_permutations=0)
    assert len(permutation_test(hx, hy, a, b, relations=related, config=every).null) == EVIDENCE.permutations


@pytest.mark.parametrize(("errors", "clear"), [(0.5, True), (2, False)])
def test_a_test_goes_on_while_p_is_near_chance(errors, clear):
    config = replace(EVIDENCE, clear_errors=errors)
    # One standard error of a share of .05 in 99 draws is .022.
    assert significance._is_clear(0.07, 99, config) == clear
    assert significance._is_clear(0.03, 99, config) == clear


def test_permutations_are_compared_in_blocks_of_any_size(sides, monkeypatch):
    hx, hy, a, b = spectra(sides)
    related = relate(*(s.signals for s in sides))
    together = permutation_test(hx, hy, a, b, relations=related)
    monkeypatch.setattr(significance, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(relations, "_BLOCK_BYTES", 1)
    one_by_one = permutation_test(hx, hy, a, b, relations=related)
    np.testing.assert_allclose(one_by_one.null, together.null, rtol=1e-5, atol=1e-6)
    assert one_by_one.p == pytest.approx(together.p, rel=1e-4)
