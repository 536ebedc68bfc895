"""When the common space of a pair is turned."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from two_sides import side

from harmonicalign.evidence.significance import Significance
from harmonicalign.method import DEFAULT, PairProblem, joint_space, solve, turned_if_better
from harmonicalign.method.maps import turn


def kinds(seed, angle, only_y=0):
    """Rows of eight kinds in both datasets, the second turned in the space of its columns, and their kinds.

    Of the kinds that only the second dataset has, as many are missing in it that the first has.
    """
    rng = np.random.RandomState(seed)
    centres = 4 * rng.randn(8 + 2 * only_y, 12)
    of_x, of_y = rng.randint(8 + only_y, size=160), rng.randint(8 + only_y, size=150)
    of_y[of_y >= 8] += only_y
    axis = rng.randn(12, 12)
    axis = axis - axis.T
    rotation = scipy.linalg.expm(angle * axis / np.linalg.norm(axis, 2))
    x, y = (centres[of] + rng.randn(len(of), 12) for of in (of_x, of_y))
    return PairProblem(side(x), side(y @ rotation)), of_x, of_y


def placed(problem, found):
    space = joint_space(problem.sides, [-1, 0], [0, 1], {1: found})
    return [space.place(i, s.components, s.signals) for i, s in enumerate(problem.sides)]


def gap(rows, of_x, of_y):
    """How far the middles of a kind are apart in both datasets, beside how far different kinds are."""
    x, y = (
        np.stack([r[of == i].mean(axis=0) for i in range(8)])
        for r, of in zip(rows, (of_x, of_y), strict=True)
    )
    apart = np.linalg.norm(x[:, None] - x[None], axis=2)[~np.eye(8, dtype=bool)]
    return np.linalg.norm(x - y, axis=1).mean() / apart.mean()


@pytest.fixture(scope="module")
def turned():
    problem, of_x, of_y = kinds(0, 1.2)
    return problem, of_x, of_y, solve(problem)


def test_columns_that_are_turned_are_turned_back(turned):
    problem, of_x, of_y, found = turned
    assert found.turned
    last = found.history[-1]
    assert (last["start"], last["step"]) == (found.start, "turn")
    before, after = (gap(placed(problem, replace(found, turned=t)), of_x, of_y) for t in (False, True))
    assert after < 0.25, f"kinds are {after:.2f} of their distances apart after the turn, {before:.2f} before"
    assert after < 0.5 * before, f"kinds are {after:.2f} of their distances apart, {before:.2f} before"


def test_a_turn_is_judged_by_the_score_of_what_it_gives(turned):
    problem, _, _, found = turned
    x, y = placed(problem, replace(found, turned=False))
    close = replace(DEFAULT, confidence_neighbours=DEFAULT.turn_neighbours)
    objective = problem.worth_of((x, turn(x, y, DEFAULT).apply(y)), close)
    assert found.history[-1]["objective"] == pytest.approx(objective)
    needed = objective / problem.worth_of((x, y), close)
    assert needed > DEFAULT.turn_gain
    flat = replace(found, turned=False)
    for gain, accepted in ((0.999 * needed, True), (1.001 * needed, False)):
        problem_ = copy.copy(problem)
        problem_.config = replace(DEFAULT, turn_gain=gain)
        assert turned_if_better(problem_, flat).turned == accepted


def test_no_turn_is_tried_where_none_is_needed_or_nothing_corresponds(turned):
    problem, _, _, found = turned
    flat = replace(found, turned=False)
    supported = replace(flat, support=1.0)
    assert turned_if_better(problem, supported) is supported, "full confidence cannot be raised"
    by_chance = copy.copy(problem)
    by_chance.significance = Significance(z=0.0, p=1.0, observed=0.0, null=np.ones(3))
    assert turned_if_better(by_chance, flat) is flat, "a turn is tried although nothing corresponds"


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("only_y", [0, 2])
def test_datasets_that_differ_by_an_offset_are_not_turned(seed, only_y):
    """Nor where each has kinds that the other lacks, whose rows nothing can support."""
    problem, _, _ = kinds(seed, 0.0, only_y)
    assert not solve(problem).turned


def test_confidence_of_zero_is_no_error(turned):
    problem, _, _, found = turned
    assert isinstance(turned_if_better(problem, replace(found, support=0.0, turned=False)).turned, bool)
