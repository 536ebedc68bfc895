"""Which signals correspond: scores, weights, and what chance gives."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from two_sides import spectra

from harmonicalign.evidence.config import EVIDENCE
from harmonicalign.evidence.correspondence import correspondence, learn_rotation, scores
from harmonicalign.paper.bands import bandlimiting_weights


def test_learned_weights_find_what_corresponds(manifold, sides):
    hx, hy, a, b = spectra(sides)
    bands = bandlimiting_weights(hx.frequencies, hy.frequencies, 8)
    rotation, weights, history = learn_rotation(bands, hx.frequencies, a, b)
    assert roc_auc_score(manifold.corresponds, weights) > 0.9
    assert history[-1] >= history[0]
    found = correspondence(rotation, hx.frequencies, a, b, np.random.RandomState(0))
    assert found.scores == pytest.approx(scores(rotation, hx.frequencies, a, b))
    assert found.share == pytest.approx(manifold.corresponds.mean(), abs=0.25)
    assert (found.p_values > 0).all()
    assert (found.p_values <= 1).all()


def test_scores_of_one_dataset_with_itself_are_one(sides):
    hx, _, a, _ = spectra(sides)
    found = correspondence(np.eye(len(a)), hx.frequencies, a, a, np.random.RandomState(0))
    assert found.scores == pytest.approx(np.ones(a.shape[1]))
    assert found.share == 1
    assert found.weights == pytest.approx(np.ones(a.shape[1]))
    assert found.agreement == pytest.approx(1)


def test_signals_that_do_not_vary_say_nothing(sides):
    hx, _, a, b = spectra(sides)
    a, b = a.copy(), b.copy()
    a[:, 0] = b[:, 0] = 0
    found = correspondence(np.eye(len(a)), hx.frequencies, a, b, np.random.RandomState(0))
    assert found.scores[0] == 0
    assert found.energy[0] == 0
    nothing = correspondence(np.eye(len(a)), hx.frequencies, 0 * a, 0 * b, np.random.RandomState(0))
    assert nothing.share == 0
    assert nothing.weights.tolist() == [1] * a.shape[1]
    alone = correspondence(np.eye(len(a)), hx.frequencies, a[:, 1:2], b[:, 1:2], np.random.RandomState(0))
    assert np.isfinite(alone.p_values).all()


def test_belief_is_the_score_where_a_signal_varies_and_that_of_all_where_it_does_not(rng):
    """Blank on both sides: nothing is known. Blank on one side: it does not correspond."""
    frequencies = np.linspace(1, 0.5, 20)
    a = rng.randn(20, 60)
    b = np.where(np.arange(60) < 30, a + 0.1 * rng.randn(20, 60), rng.randn(20, 60))
    a[:, 0] = b[:, 0] = 0  # blank in both
    a[:, 1] *= 1e-6  # hardly there in both
    b[:, 1] *= 1e-6
    a[:, 59] = 0  # blank in one
    found = correspondence(np.eye(20), frequencies, a, b, np.random.RandomState(0))
    belief = found.belief
    varies = np.arange(60) > 1
    own = np.maximum(found.scores, 0) ** 2
    np.testing.assert_allclose(belief[varies], own[varies], atol=0.02)
    common = found.presence @ own / found.presence.sum()
    assert belief[:2] == pytest.approx(np.full(2, common))
    assert belief[59] < 0.02
    assert 0.3 < common < 0.7  # half of the signals correspond
    assert found.presence[0] == 0
    assert found.presence.mean() == pytest.approx(1)
    # In whatever units the datasets are.
    scaled = correspondence(np.eye(20), frequencies, 1e-100 * a, 1e100 * b, np.random.RandomState(0))
    np.testing.assert_allclose(scaled.belief, belief, atol=1e-9)


def test_presence_is_the_mean_of_relative_squares(rng):
    frequencies, a, b = np.linspace(1, 0.5, 6), rng.randn(6, 9), 100 * rng.randn(6, 9)
    found = correspondence(np.eye(6), frequencies, a, b, np.random.RandomState(0))
    squares = [np.sum((frequencies[:, None] * s) ** 2, axis=0) for s in (a, b)]
    np.testing.assert_allclose(found.presence, np.mean([s / s.mean() for s in squares], axis=0))


def test_belief_of_nothing_is_nothing():
    nothing = correspondence(
        np.eye(4), np.ones(4), np.zeros((4, 3)), np.zeros((4, 3)), np.random.RandomState(0)
    )
    assert nothing.belief.tolist() == [0, 0, 0]


def test_scores_are_correlations_of_smooth_coefficients(rng):
    frequencies = np.linspace(1, 0.2, 6)
    a, b = rng.randn(6, 9), rng.randn(6, 9)
    a[:, 4] = 0
    turn = np.linalg.qr(rng.randn(6, 6))[0]
    found = correspondence(turn, frequencies, a, b, np.random.RandomState(0))
    for s in range(9):
        one, other = frequencies * a[:, s], frequencies * (turn @ b[:, s])
        lengths = np.linalg.norm(one) * np.linalg.norm(other)
        assert found.energy[s] == pytest.approx(lengths)
        assert found.scores[s] == pytest.approx(one @ other / lengths if s != 4 else 0)
    assert scores(turn, frequencies, a, b) == pytest.approx(found.scores)
    agreement = np.sum(found.energy * np.maximum(found.scores, 0) ** 4) / found.energy.sum()
    assert found.agreement == pytest.approx(agreement)


@pytest.mark.parametrize(("noise", "d"), [(0.2, 40), (3.0, 41), (30.0, 12)])
def test_chance_is_what_wrong_partners_give(rng, noise, d):
    # Few enough signals that all serve as wrong partners; counted here pair by pair.
    a = rng.randn(8, d)
    b = a + noise * rng.randn(8, d)
    frequencies = np.linspace(1, 0.3, 8)
    found = correspondence(np.eye(8), frequencies, a, b, np.random.RandomState(0))

    def score(i, j):
        one, other = frequencies * a[:, i], frequencies * b[:, j]
        return one @ other / np.linalg.norm(one) / np.linalg.norm(other)

    table = np.array([[score(i, j) for j in range(d)] for i in range(d)])
    wrong = [np.r_[np.delete(table[s], s), np.delete(table[:, s], s)] for s in range(d)]
    pooled = np.concatenate(wrong)
    expected = [(np.sum(pooled >= table[s, s]) + 1) / (len(pooled) + 1) for s in range(d)]
    assert found.p_values == pytest.approx(expected)
    worse = np.array([np.mean(wrong[s] >= table[s, s]) > 0.5 for s in range(d)])
    share = 1 - 2 * found.energy[worse].sum() / found.energy.sum()
    assert found.share == pytest.approx(np.clip(share, 0, 1))
    weights = np.maximum(np.diag(table), 0) ** 2
    full = EVIDENCE.full_share
    weights += (1 - weights) * max(0, (found.share - full) / (1 - full))
    assert found.weights == pytest.approx(weights)
    small = correspondence(np.eye(8), frequencies, 1e-3 * a, 1e-3 * b, np.random.RandomState(0))
    assert small.share == pytest.approx(found.share)
    assert small.p_values == pytest.approx(found.p_values)


def test_signals_that_are_all_alike_do_not_correspond():
    alike = np.zeros((3, 5))
    alike[0] = 1
    found = correspondence(np.eye(3), np.ones(3), alike, alike, np.random.RandomState(0))
    assert found.scores.tolist() == [1] * 5
    assert found.p_values.tolist() == [1] * 5
    assert found.share == 0


def test_chance_with_more_signals_than_partners(rng):
    a = rng.randn(8, 700)
    b = a + rng.randn(8, 700)
    found = correspondence(np.eye(8), np.ones(8), a, b, np.random.RandomState(0))
    assert np.median(found.p_values) < 0.05
    assert found.share > 0.9
    wrong = correspondence(np.eye(8), np.ones(8), a, np.roll(b, 1, axis=1), np.random.RandomState(0))
    assert np.mean(wrong.p_values < 0.1) == pytest.approx(0.1, abs=0.04)
    assert wrong.share < 0.2


def test_correspondence_goes_by_its_config(rng):
    a = rng.randn(8, 60)
    b = a + 0.1 * rng.randn(8, 60)

    def judged(**changes):
        config = replace(EVIDENCE, **changes)
        return correspondence(np.eye(8), np.ones(8), a, b, np.random.RandomState(0), config)

    own = np.maximum(judged().scores, 0) ** 2
    assert judged().weights == pytest.approx(np.ones(60)), "all features correspond, so all count fully"
    assert judged(full_share=1.0).weights == pytest.approx(own), "weights are raised though nothing may be"
    # With few wrong partners, a p-value cannot be as small.
    assert judged(wrong_partners=5).p_values.min() == pytest.approx(1 / (2 * 5 * 59 + 1))
    assert judged().p_values.min() == pytest.approx(1 / (2 * 60 * 59 + 1))
    # A feature counts for its own score as much as it is present; with no such bound, not at all.
    assert judged(enough_presence=0.0).belief == pytest.approx(own)
    assert np.ptp(judged(enough_presence=1e9).belief) < 1e-6, (
        "nothing is present enough to differ from the mean"
    )


def test_learning_stops_where_it_is_told_to(rng):
    a, b = rng.randn(5, 30), rng.randn(5, 30)

    def steps(**options):
        return len(learn_rotation(np.ones((5, 5)), np.linspace(1, 0.3, 5), a, b, **options)[2])

    rotation, weights, history = learn_rotation(np.ones((4, 5)), np.ones(4), a[:4], b, n_iterations=0)
    assert np.array_equal(rotation, np.eye(4, 5)), "without a step nothing is turned"
    assert weights.tolist() == [1.0] * 30
    assert history == []
    assert steps(tolerance=2.0) == 1, "no weight can change by more than 1"
    assert steps(tolerance=0.0, n_iterations=7) == 7, "the bound on the steps is not honoured"


def test_a_single_signal_is_left_undecided(rng):
    alone = correspondence(np.eye(4), np.ones(4), *rng.randn(2, 4, 1), np.random.RandomState(0))
    assert alone.p_values.tolist() == [0.5]
    assert alone.share == 1


def test_learning_alternates_between_rotation_and_weights(rng):
    k, d = 5, 30
    frequencies = np.linspace(1, 0.3, k)
    turn = np.linalg.qr(rng.randn(k, k))[0]
    b = rng.randn(k, d)
    a = turn @ b
    a[:, 20:] = rng.randn(k, 10)
    bands = np.ones((k, k))
    rotation, weights, history = learn_rotation(bands, frequencies, a, b)
    assert rotation == pytest.approx(turn, abs=0.1)
    assert weights[:20].min() > 0.95 > 0.5 > weights[20:].mean()
    assert len(history) < 10  # it stops when nothing changes any more
    once, first, value = learn_rotation(bands, frequencies, a, b, n_iterations=1)
    u, _, vt = np.linalg.svd(a @ b.T)
    assert once == pytest.approx(u @ vt)
    found = scores(once, frequencies, a, b)
    assert first == pytest.approx(np.maximum(found, 0) ** 2)
    assert value == pytest.approx([first @ found / first.sum()])
    twice = learn_rotation(bands, frequencies, a, b, n_iterations=2)[0]
    u, _, vt = np.linalg.svd((a * first) @ b.T)
    assert twice == pytest.approx(u @ vt)
    assert history[:1] == pytest.approx(value)
    assert learn_rotation(bands, frequencies, a[:, :1], b[:, :1])[2][0] == pytest.approx(1)
    limited = np.eye(k)
    assert np.abs(learn_rotation(limited, frequencies, a, b)[0]) == pytest.approx(np.eye(k))


def test_nothing_to_learn_from(rng):
    rotation, weights, history = learn_rotation(
        np.ones((4, 4)), np.ones(4), np.zeros((4, 6)), rng.randn(4, 6)
    )
    assert not rotation.any()
    assert weights.tolist() == [1] * 6
    assert history == [0]
