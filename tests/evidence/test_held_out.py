"""Features judged by alignments that were found without them."""

from dataclasses import replace

import numpy as np
import pytest
from two_sides import side, spectra

from harmonicalign.evidence.config import EVIDENCE
from harmonicalign.evidence.correspondence import (
    _rank_among,
    _ranks,
    correspondence,
    held_out,
    learn_rotation,
)
from harmonicalign.evidence.significance import false_discovery
from harmonicalign.paper.bands import bandlimiting_weights


def both(x, y, **options):
    """Correspondence under a rotation learned from all features, and with features held out."""
    hx, hy, a, b = spectra((side(x), side(y)))
    bands = bandlimiting_weights(hx.frequencies, hy.frequencies, 8)
    rotation = learn_rotation(bands, hx.frequencies, a, b)[0]
    found = correspondence(rotation, hx.frequencies, a, b, np.random.RandomState(0))
    return found, held_out((hx, hy), (a, b), (x, y), found, **options)


def half_exchanged(seed, d=30):
    """Skewed factors; half of the columns have changed places in the second dataset."""
    r = np.random.RandomState(seed)
    loadings = r.randn(4, d)
    x, y = (np.exp(0.7 * r.randn(n, 4)) @ loadings + 0.3 * r.randn(n, d) for n in (200, 180))
    y[:, d // 2 :] = np.roll(y[:, d // 2 :], 1, axis=1)
    return x, y, np.arange(d) < d // 2


def test_features_that_correspond_are_found_without_their_own_help():
    kept, false = [], []
    for seed in range(8):
        x, y, truth = half_exchanged(seed)
        selected = false_discovery(both(x, y)[1].p_values)
        kept.append((selected & truth).sum() / truth.sum())
        false.append((selected & ~truth).sum() / max(1, selected.sum()))
    assert np.mean(kept) > 0.5
    assert np.mean(false) <= 0.08


def test_noise_agrees_only_with_its_own_help(rng):
    own, held = zip(*(both(rng.randn(120, 12), rng.randn(100, 12)) for _ in range(6)), strict=True)
    assert np.mean([f.scores for f in own]) > 0.4, "a rotation should suit so few features of noise"
    assert abs(np.mean([f.scores for f in held])) < 0.15
    assert np.mean([f.belief.mean() for f in held]) < 0.2 < np.mean([f.belief.mean() for f in own])
    p = np.concatenate([f.p_values for f in held])
    assert np.mean(p < 0.5) == pytest.approx(0.5, abs=0.2)


def test_an_alignment_by_chance_claims_no_feature():
    x, y, _ = half_exchanged(0)
    found = both(x, y, by_chance=True)[1]
    assert not false_discovery(found.p_values).any()
    few = both(x[:, :4], y[:, :4], by_chance=True)[1]
    assert (few.p_values == 1).all()


def test_what_the_fit_used_stays_as_it_was():
    x, y, _ = half_exchanged(1)
    before, after = both(x, y)
    for name in ("weights", "energy", "presence", "share"):
        assert np.array_equal(getattr(before, name), getattr(after, name))
    again = both(x, y)[1]
    assert np.array_equal(after.p_values, again.p_values)


def test_folds_go_by_the_config():
    x, y, _ = half_exchanged(2, d=40)
    found = both(x, y, config=replace(EVIDENCE, few_to_hold_out=0))[1]
    each = both(x, y, config=replace(EVIDENCE, few_to_hold_out=40))[1]
    assert not np.array_equal(found.scores, each.scores)
    assert np.corrcoef(found.scores, each.scores)[0, 1] > 0.5
    unchanged, same = both(x[:, :4], y[:, :4])
    assert np.array_equal(unchanged.p_values, same.p_values), "too few features to hold any out"


def test_ranks_among_features_that_do_not_correspond(rng):
    """Partners of corresponding features agree as well as these are correlated; that hides weaker ones."""
    null = 0.1 * rng.randn(40, 2, 39)
    null[:10] = 0.5 + 0.1 * rng.randn(10, 2, 39)
    agreement = np.r_[np.full(10, 0.95), np.full(5, 0.45), 0.1 * rng.randn(25)]
    selected = false_discovery(_ranks(agreement, null))
    assert not false_discovery(_rank_among(null, agreement))[10:].any()
    assert selected[:15].all()
    assert not selected[15:].any()
