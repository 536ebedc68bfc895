"""Readings of two modalities: what both say about where a row lies."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from two_sides import plain_side, side

from harmonicalign import AlignmentWarning, HarmonicAlignment
from harmonicalign.method import DEFAULT, FromRelations, Offset, PairProblem, choose, solve
from harmonicalign.method.choose import run_all
from harmonicalign.method.modality import _canonical_axes, _prediction, foretold, reading_maps
from harmonicalign.metrics import foscttm


def two_readings(rng, n=300, width=3, noise=(0.3, 1.0), shared=40, own=(30, 30)):
    """Signals of shared positions, and columns of each modality that tell of them and of more."""
    z = rng.standard_normal((n, width)) * [3, 2, 1][:width]
    loadings = rng.standard_normal((width, shared))
    signals = [z @ loadings + 3 * e * rng.standard_normal((n, shared)) for e in noise]
    data = [np.hstack([z @ rng.standard_normal((width, k)), 2 * rng.standard_normal((n, 10))]) for k in own]
    return data, signals


def test_canonical_components_are_those_of_the_product(rng):
    x, y = rng.standard_normal((50, 8)), rng.standard_normal((40, 8)) @ np.diag(np.arange(1, 9))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    a, b = _canonical_axes([x, y], 5)
    u, d, vt = np.linalg.svd(x @ y.T)
    size = np.sqrt(d[:5] / d[0])
    for rows, axes, vectors in ((x, a, u), (y, b, vt.T)):
        found = rows @ axes / np.sqrt(len(rows))
        assert np.abs(np.sum(found * vectors[:, :5], axis=0)) == pytest.approx(size / np.sqrt(2))
        assert np.linalg.norm(found, axis=0) == pytest.approx(size / np.sqrt(2))
    signs = np.sum((x @ a) * u[:, :5], axis=0) * np.sum((y @ b) * vt.T[:, :5], axis=0)
    assert (signs > 0).all(), "the same direction in both"


def test_canonical_components_of_three_and_of_nothing(rng):
    z = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 9))
    parts = [z[i::3] + 0.01 * rng.standard_normal((20, 9)) for i in range(3)]
    parts = [p - p.mean(axis=0) for p in parts]
    axes = _canonical_axes(parts, 2)
    assert [a.shape for a in axes] == [(9, 2)] * 3
    for p, a in zip(parts, axes, strict=True):
        # All datasets lie in one plane, and the axes of each span it.
        left = p - (p @ a) @ np.linalg.lstsq(p @ a, p, rcond=None)[0]
        assert np.linalg.norm(left) < 0.05 * np.linalg.norm(p)
    apart = np.zeros((30, 4)), np.zeros((30, 4))
    assert all(np.isfinite(a).all() for a in _canonical_axes(apart, 3))


def test_prediction_is_a_ridge_chosen_by_leaving_one_out(rng):
    from sklearn.linear_model import RidgeCV

    x = rng.standard_normal((80, 6)) @ np.diag([5, 3, 2, 1, 1, 0.1]) + 2
    y = np.c_[x @ rng.standard_normal((6, 2)), rng.standard_normal((80, 2))] + rng.standard_normal((80, 4))
    found = _prediction(x, y)
    penalties = np.logspace(-4, 3, 15) * np.mean(np.linalg.svd(x - x.mean(axis=0))[1] ** 2)
    expected = RidgeCV(penalties, alpha_per_target=True).fit(x, y).predict(x)
    assert found.apply(x) == pytest.approx(expected, abs=1e-6)
    assert found.apply(x)[:, 3].std() < 0.5 * found.apply(x)[:, 0].std(), "noise is not predicted"


def test_components_that_do_not_vary_predict_the_mean(rng):
    y = rng.standard_normal((10, 3))
    found = _prediction(np.zeros((10, 4)), y)
    assert found.apply(np.zeros((10, 4))) == pytest.approx(np.tile(y.mean(axis=0), (10, 1)))
    # Rows of one kind in a dataset whose signals are not its columns.
    data = [rng.standard_normal((20, 4)), np.ones((6, 2))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HarmonicAlignment(random_state=0).fit(
            data, signals=[rng.standard_normal((20, 3)), rng.random((6, 3))]
        )
    assert all(np.isfinite(z).all() for z in model.embedding_)


def test_a_reading_is_the_mean_of_signals_and_prediction(rng):
    data, signals = two_readings(rng)
    sides = [plain_side(d, s + 5) for d, s in zip(data, signals, strict=True)]
    weights, centres = np.ones(40), [np.full(40, 5.0), np.full(40, 4.0)]
    only = reading_maps(sides, centres, weights, weights, replace(DEFAULT, predicted_share=0.0))
    both = reading_maps(sides, centres, weights, weights)
    for one, two, s, centre in zip(only, both, sides, centres, strict=True):
        assert one[0].apply(centre[None]) == pytest.approx(0, abs=1e-9)
        assert not one[1].matrix.any()
        plain, full = (r[0].apply(s.signals) + r[1].apply(s.components) for r in (one, two))
        assert full.mean(axis=0) == pytest.approx(plain.mean(axis=0)), "both readings have the same mean"
        predicted = _prediction(s.components, plain).apply(s.components)
        assert 2 * full - plain == pytest.approx(predicted, abs=1e-8)


def test_components_help_where_the_signals_are_noisy(rng):
    data, signals = two_readings(rng, noise=(1.0, 2.0))
    errors = []
    for share in (0.0, 0.5):
        config = replace(DEFAULT, predicted_share=share)
        model = HarmonicAlignment(config=config, random_state=0).fit(data, signals=signals)
        errors.append(foscttm(*model.embedding_))
    assert errors[1] < errors[0] < 0.3


def test_anchors_are_found_anew_in_the_readings(rng):
    data, signals = two_readings(rng, n=120)
    problem = PairProblem(
        *(side(d, s) for d, s in zip(data, signals, strict=True)), own_columns=False, random_state=0
    )
    found = solve(problem)
    own = PairProblem(
        *(side(d, s) for d, s in zip(data, signals, strict=True)), own_columns=True, random_state=0
    )
    before = solve(own)
    assert found.start == before.start
    assert (found.pairing != before.pairing).nnz, "anchors are those of the readings"
    assert np.array_equal(found.correspondence.weights, before.correspondence.weights)


def test_weights_are_worth_what_they_foretell_of_other_signals(rng):
    _, signals = two_readings(rng, noise=(0.3, 0.3))
    equal, wrong = np.ones(40), np.arange(40)
    wrong[:30] = np.roll(wrong[:30], 1)
    mixed = signals[1][:, wrong]
    right = (np.arange(40) >= 30).astype(float)

    def of(second, weights):
        return foretold(tuple(side(s, s) for s in (signals[0], second)), weights)

    assert of(signals[1], equal) > 0.5
    assert of(mixed, right) > 1.1 * of(mixed, equal), "most of the links are wrong, and the weights know it"
    few = (np.arange(40) < 4).astype(float)
    _, noisy = two_readings(rng, noise=(3.0, 3.0))
    sides = tuple(side(s, s) for s in noisy)
    assert foretold(sides, equal) > 1.5 * foretold(sides, few), "all are right, and each tells little"
    nothing = tuple(side(s, s) for s in rng.standard_normal((2, 200, 30)))
    assert abs(foretold(nothing, np.ones(30))) < 0.05
    assert foretold(sides, equal) == foretold(sides, equal)


def test_equal_weights_are_chosen_where_learned_ones_foretell_less(rng):
    data, signals = two_readings(rng, n=200, noise=(1.0, 1.0))
    problem = PairProblem(
        *(side(d, s) for d, s in zip(data, signals, strict=True)), own_columns=False, random_state=0
    )
    runs = run_all(problem, [Offset(), FromRelations()])
    known = runs[1].correspondence
    few = replace(runs[1], correspondence=replace(known, weights=np.eye(len(known.weights))[0]), worth=9.0)
    assert choose(problem, [few], runs[:1]) is runs[0]
    alike = replace(few, correspondence=runs[0].correspondence)
    assert choose(problem, [alike], runs[:1]) is alike, "weights that are as good are learned ones"
    assert choose(problem, [few], []) is few, "there is no other"


def test_new_rows_and_a_new_dataset_are_read_as_the_others(rng):
    data, signals = two_readings(rng, n=260, noise=(0.3, 0.3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)
        model = HarmonicAlignment(random_state=0).fit(
            [data[0], data[1][:200]], signals=[signals[0], signals[1][:200]]
        )
    again = model.transform(data[1][:200], dataset=1, signals=signals[1][:200])
    assert (
        np.median(np.linalg.norm(again - model.embedding_[1], axis=1))
        < 0.05 * np.linalg.norm(again, axis=1).mean()
    )
    new = model.transform(data[1][200:], dataset=1, signals=signals[1][200:])
    assert foscttm(model.embedding_[0][200:], new) < 0.1
