"""The choice among hypotheses, and the laws that the alignment of a pair obeys."""

import copy
from dataclasses import replace
from itertools import product

import numpy as np
import plain_stages
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.metrics import roc_auc_score
from two_sides import plain_side, side

from harmonicalign.datasets import swiss_roll
from harmonicalign.engines.rows import unit_rows
from harmonicalign.evidence.significance import Significance
from harmonicalign.method import DEFAULT, FromRelations, Offset, PairProblem, Side, align_pair, choose, solve
from harmonicalign.method.choose import _columns_look_alike, run_all


def starts(found):
    return {step["start"] for step in found.history}


def changed(problem, significance=None, **changes):
    """The same problem with other numbers, and as if the test had ended otherwise."""
    out = copy.copy(problem)
    out.config = replace(problem.config, **changes)
    out.significance = significance or problem.significance
    return out


# Laws.


@pytest.fixture(scope="module")
def equal():
    """Two datasets of equally many rows, so that no row is left out of any sample."""
    data = swiss_roll(200, 200, n_signals=30, corrupted=0.3, random_state=0)
    pair = side(data.x, data.signals_x), side(data.y, data.signals_y)
    return pair, align_pair(*pair)


@pytest.mark.parametrize("left_out", [(), ("offset",)])
def test_a_dataset_is_mapped_onto_itself(sides, left_out):
    found = align_pair(sides[0], sides[0], replace(DEFAULT, left_out=left_out))
    here, there = (m.apply(sides[0].components) for m in found.maps)
    off = np.linalg.norm(here - there, axis=1).max()
    assert off < 0.01 * np.linalg.norm(here, axis=1).mean(), "rows are moved away from themselves"
    assert found.correspondence.agreement == pytest.approx(1, abs=1e-3)
    assert found.support == pytest.approx(1, abs=1e-6)


def test_the_order_of_rows_does_not_matter(equal, rng):
    pair, expected = equal
    a, b = rng.permutation(200), rng.permutation(200)
    found = align_pair(
        *(side(s.components[order], s.signals[order]) for s, order in zip(pair, (a, b), strict=True))
    )
    assert found.start == expected.start
    assert found.worth == pytest.approx(expected.worth)
    np.testing.assert_allclose(found.maps[1].matrix, expected.maps[1].matrix, atol=1e-6)
    np.testing.assert_allclose(found.pairing.toarray(), expected.pairing.toarray()[a][:, b], atol=1e-5)


def test_the_order_and_the_sign_of_columns_do_not_matter(equal, rng):
    pair, expected = equal
    columns = rng.permutation(30)
    for again in (
        [Side(s.components, s.signals[:, columns], s.harmonics) for s in pair],
        [side(-s.components[:, ::-1], -s.signals) for s in pair],
    ):
        found = align_pair(*again)
        assert found.start == expected.start
        assert found.significance.p == pytest.approx(expected.significance.p)
        assert found.worth == pytest.approx(expected.worth)
        np.testing.assert_allclose(found.pairing.toarray(), expected.pairing.toarray(), atol=1e-5)


def test_swapping_the_datasets_reverses_the_alignment(sides, solved):
    swapped = align_pair(sides[1], sides[0])
    back = solved.reversed((sides[1], sides[0]))
    one, other = (r.pairing.toarray() > 0 for r in (swapped, back))
    assert (one & other).sum() > 0.9 * (one | other).sum(), "other anchors from the other side"
    q = [unit_rows(r.maps[1].apply(sides[0].components)) for r in (swapped, back)]
    assert np.sum(q[0] * q[1], axis=1).mean() > 0.99, "another map from the other side"
    assert swapped.support == pytest.approx(solved.support, abs=0.02)


def test_the_datasets_are_laid_on_each_other(manifold, solved):
    assert solved.start in ("harmonics", "relations"), "a rotation is no offset"
    assert solved.significance.p < 0.01
    assert roc_auc_score(manifold.corresponds, solved.correspondence.scores) > 0.95
    pairs = solved.pairing.tocoo()
    away = np.linalg.norm(manifold.latent_x[pairs.row] - manifold.latent_y[pairs.col], axis=1)
    wrong = np.random.RandomState(0).permutation(pairs.col)
    chance = np.linalg.norm(manifold.latent_x[pairs.row] - manifold.latent_y[wrong], axis=1)
    assert np.median(away) < 0.25 * np.median(chance), "anchors are not near each other on the manifold"


def test_a_rotation_is_found(rng):
    rows = rng.randn(240, 3) * [4, 2, 1] + np.repeat(4 * rng.randn(4, 3), 60, axis=0)
    turn = np.linalg.qr(rng.randn(3, 3))[0]
    mix = np.tanh(rows @ rng.randn(3, 12) / 4)
    x, y = rows[::2], rows[1::2]
    found = align_pair(side(x, mix[::2]), side(y @ turn, mix[1::2]))
    placed = found.maps[1].apply(y @ turn) - found.maps[0].shift
    assert np.linalg.norm(placed - y) < 0.1 * np.linalg.norm(y - y.mean(axis=0)), "rows are not turned back"


def test_an_offset_is_found(rng):
    rows = 4 * rng.randn(6, 12)[rng.randint(6, size=300)] + rng.randn(300, 12)
    offset = rng.randn(12)
    pair = side(rows[:160]), side(rows[160:] + offset)
    found = align_pair(*pair)
    assert found.start == "offset"
    off = found.centres[1] - found.centres[0] - offset
    assert np.linalg.norm(off) < 0.2 * np.linalg.norm(offset), "the offset is not what was put in"
    assert align_pair(*pair, replace(DEFAULT, left_out=("offset",))).start != "offset"


def test_features_that_look_alike_by_chance_leave_the_data_nearly_as_they_are(rng):
    spread = np.linspace(0.1, 3, 12)
    x, y = (side(rng.randn(n, 4), rng.randn(n, 12) * spread) for n in (150, 120))
    config = replace(DEFAULT, enough_support=2.0)  # no offset explains anything
    found = align_pair(x, y, config)
    assert found.significance.by_chance
    assert found.start == "doubtful offset"
    whole = Offset().run(PairProblem(x, y, config)).centres
    moved, far = (np.linalg.norm(a - b) for a, b in (found.centres, whole))
    assert moved < (1.3 - found.significance.p**3) * far, "datasets are moved although nothing says so"
    assert found.history[-1]["start"] == "doubtful offset", "the record leaves out what was chosen"
    other = Side(y.components, y.signals[:, ::-1], y.harmonics)
    found = align_pair(x, other, config)
    assert found.significance.by_chance
    assert found.start != "doubtful offset", "columns whose spreads differ do not look alike"


def test_relations_find_few_of_few_columns():
    """Few of few columns correspond: no rotation tells them, but how they relate does, in most draws."""
    found = []
    for seed in range(5):
        rng = np.random.RandomState(seed)
        factors = rng.randn(4, 16) * (rng.rand(4, 16) < 0.5)
        groups = [rng.randint(4, size=n) for n in (300, 280)]
        x, y = (np.exp(np.eye(4)[k] @ factors) + 0.2 * rng.randn(len(k), 16) for k in groups)
        y[:, 6:] = y[:, 6:] @ np.linalg.qr(rng.randn(10, 10))[0]
        run = align_pair(side(x), side(y), replace(DEFAULT, left_out=("offset",)))
        assert starts(run) == {"harmonics", "relations"}
        found.append(roc_auc_score(np.arange(16) < 6, run.correspondence.scores))
    assert np.median(found) > 0.85, f"areas under the curve are {np.round(found, 2)}"


# What is run.


@pytest.mark.parametrize("options", [{}, {"n_bands": 3}, {"first_band": 1}, {"random_state": 4}])
def test_options_of_an_alignment_are_those_of_its_problem(tiny, options):
    config = replace(DEFAULT, left_out=("offset", "relations"), n_rounds=1)
    found, expected = align_pair(*tiny, config, **options), solve(PairProblem(*tiny, config, **options))
    assert found.history == expected.history
    assert np.array_equal(found.significance.null, expected.significance.null)
    plain = align_pair(*tiny, config, n_bands=8, first_band=0, random_state=0)
    same = found.history == plain.history and np.array_equal(found.significance.null, plain.significance.null)
    assert same == (not options), f"{options} change nothing, or the defaults are others"


def test_the_record_tells_all_that_was_run(problem, solved):
    steps = [(s["start"], s["step"]) for s in solved.history if s["step"] != "weights"]
    rounds = problem.config.n_rounds
    expected = [
        *[("harmonics", "round")] * rounds,
        ("harmonics", "anchors"),
        *[("relations", "round")] * rounds,
        ("relations", "anchors"),
        ("offset", "anchors"),
        ("units", "anchors"),
    ]
    assert steps[: len(expected)] == expected
    assert steps[len(expected) :] in ([], [(solved.start, "turn")]), "only a turn follows the choice"


@pytest.mark.parametrize(
    ("left_out", "tried"),
    [
        ((), {"harmonics", "relations", "offset", "units"}),
        (("units",), {"harmonics", "relations", "offset"}),
        (("harmonics",), {"relations", "offset", "units"}),
        (("relations",), {"harmonics", "offset", "units"}),
        (("offset",), {"harmonics", "relations"}),
        (("offset", "relations"), {"harmonics"}),
    ],
)
def test_what_is_left_out_is_not_run(tiny, left_out, tried):
    config = replace(DEFAULT, left_out=left_out, n_rounds=1, chance=1.0, enough_support=2.0)
    assert starts(align_pair(*tiny, config)) == tried


def test_an_offset_that_cannot_be_beaten_is_the_only_run(tiny):
    good = replace(DEFAULT, n_rounds=1, chance=1.0, enough_support=0.0)
    assert starts(align_pair(*tiny, good)) == {"offset", "units"}
    # Hypotheses of a user's own are tried nevertheless.
    mine = replace(good, hypotheses=(FromRelations("mine"),))
    assert starts(align_pair(*tiny, mine)) == {"harmonics", "relations", "mine", "offset", "units"}


def test_something_must_be_tried(tiny):
    nothing = replace(DEFAULT, left_out=("harmonics", "relations", "offset"))
    with pytest.raises(ValueError, match=r"^left_out is .*'offset'\); leave at least one hypothesis to try$"):
        align_pair(*tiny, nothing)


def test_runs_are_those_that_are_wanted(problem):
    short = changed(problem, n_rounds=1, n_steps=1, left_out=("relations",))
    assert run_all(short, [FromRelations()]) == []
    two = run_all(short, [FromRelations(), FromRelations("mine")])
    assert [run.start for run in two] == ["mine"]


# What is chosen.


@pytest.mark.parametrize(
    "changes", [{}, {"enough_support": 0.5}, {"enough_support": 2.0}, {"alike_spreads": -2.0}]
)
def test_the_choice_is_what_it_says(problem, solved, changes):
    cases = product([(0.5, 0.4), (0.4, 0.5)], [(0.8, 0.3)], [None, 0.71, 0.73, 0.2], [0.0, 1.0])
    for worths, supports, offset, p in cases:
        test = Significance(z=0.0, p=p, observed=0.0, null=np.ones(3))
        here = changed(problem, test, **changes)
        learned = [replace(solved, worth=w, support=s) for w, s in zip(worths, supports, strict=True)]
        simple = [] if offset is None else [replace(solved, start="offset", support=offset)]
        found = choose(here, learned, simple)
        expected = plain_stages.choose(
            worths, supports, offset, p > 0.5, "alike_spreads" in changes, here.config
        )
        if isinstance(expected, str):
            assert found.start == expected, (worths, offset, p)
        else:
            assert found is learned[expected], (worths, offset, p)


def test_an_offset_that_is_just_good_enough_is_chosen(problem, solved):
    best = replace(solved, support=0.8)
    for support, chosen in ((0.4, True), (np.nextafter(0.4, 0), False)):
        offset = replace(solved, start="offset", support=support)
        found = choose(changed(problem, enough_support=0.5), [best], [offset])
        assert (found is offset) == chosen, support


def test_what_could_not_be_tested_is_not_held_against_an_alignment(problem, solved):
    untested = Significance(z=0.0, p=1.0, observed=0.0, null=np.zeros(0))
    offset = replace(solved, start="offset", support=1.0)
    assert choose(changed(problem, untested), [solved], [offset]) is offset


def test_columns_that_look_alike(rng):
    spread = np.array([1.0, 2, 3, 4, 5])
    x = rng.randn(300, 5) * spread

    def alike(one, other, **changes):
        problem = PairProblem.__new__(PairProblem)
        problem.config, problem.sides = replace(DEFAULT, **changes), (plain_side(one), plain_side(other))
        return _columns_look_alike(problem)

    for factors, correlation in (
        (spread, 1.0),
        (10 * spread, 1.0),
        (0.01 * spread, 1.0),
        ([1, 2, 3, 5, 4], 0.9),
        ([2, 1, 3, 5, 4], 0.8),
        ([1, 4, 3, 2, 5], 0.6),
        (spread[::-1], -1.0),
    ):
        y = (x / spread)[::-1] * np.array(factors) + 9
        for form in (np.asarray, sp.csr_matrix):
            assert alike(form(x), form(y)) == (correlation > DEFAULT.alike_spreads), factors
            assert alike(form(x), form(y), alike_spreads=correlation - 0.01), factors
            assert not alike(form(x), form(y), alike_spreads=correlation + 0.01), factors
            exactly = float(stats.spearmanr(spread, factors).statistic)
            assert not alike(form(x), form(y), alike_spreads=exactly), factors
    same = np.tile([[1.0], [-1.0]], (4, 3))
    assert not alike(same, same), "columns that all vary alike tell nothing"
