"""Rounds of anchors, map and weights, against their transcription."""

from dataclasses import replace

import numpy as np
import plain_stages
import pytest
from two_sides import side

from harmonicalign.method import DEFAULT, FromRelations, PairProblem, Start, alternate
from harmonicalign.method.anchors import known_pairs
from harmonicalign.method.hypotheses import by_signals


def start_of(problem, signals=True):
    """All columns alike, with or without signals to go on with."""
    ones = np.ones_like(problem.weights)
    joint, weighted = by_signals(problem, problem.means(), ones, ones)
    return Start("here", joint, weighted if signals else None)


@pytest.mark.parametrize(
    ("changes", "signals", "known"),
    [
        ({"n_rounds": 1, "n_steps": 1}, True, ()),
        ({"n_rounds": 1, "n_steps": 3}, False, ()),
        ({"n_rounds": 2, "n_steps": 2}, True, ()),
        ({"n_rounds": 2, "n_steps": 1, "n_anchors": 4}, False, ()),
        ({"n_rounds": 2, "n_steps": 1, "chance": 0.0}, True, ()),
        ({"n_rounds": 2, "n_steps": 1, "chance": 1.0}, False, ()),
        ({"n_rounds": 1, "n_steps": 1, "chance": 1.0, "signal_rounds": 0}, False, ()),
        ({"n_rounds": 3, "n_steps": 1, "chance": 1.0, "signal_rounds": 1}, True, ()),
        ({"n_rounds": 1, "n_steps": 2, "most_gain": 1.0, "full_share": 0.2}, True, ()),
        ({"n_rounds": 1, "n_steps": 1, "worth_power": 1.0}, True, ()),
        ({"n_rounds": 2, "n_steps": 2, "chance": 1.0, "signal_ridge": 5.0, "most_gain": 1.01}, False, ()),
        ({"n_rounds": 2, "n_steps": 1, "most_signals": 3}, False, ()),
        ({"n_rounds": 1, "n_steps": 2}, True, ((0, 3), (7, 9), (12, 1))),
    ],
)
def test_rounds_are_what_they_say(tiny, changes, signals, known):
    pairs = known_pairs(known, 25, 25) if known else None
    problem = PairProblem(*tiny, replace(DEFAULT, **changes), known=pairs)
    start = start_of(problem, signals)
    found = alternate(problem, start)
    expected = plain_stages.alternate(problem, start.joint, start.signals)
    np.testing.assert_allclose(found.pairing.toarray(), expected["pairing"], atol=1e-5, err_msg="anchors")
    np.testing.assert_allclose(found.maps[1].matrix, expected["matrix"], atol=1e-5, err_msg="map")
    np.testing.assert_allclose(found.centres, expected["centres"], atol=1e-5, err_msg="centres")
    np.testing.assert_allclose(
        found.correspondence.weights, expected["weights"], atol=1e-5, err_msg="weights"
    )
    assert found.correspondence.share == pytest.approx(expected["share"], abs=1e-5), "share"
    assert found.support == pytest.approx(expected["support"], abs=1e-4), "support"
    assert found.worth == pytest.approx(expected["worth"], abs=1e-4), "worth"
    rounds = [step["objective"] for step in found.history if step["step"] == "round"]
    assert rounds == pytest.approx(expected["agreements"], abs=1e-5), "agreement after each round"


def test_signals_testify_unless_they_correspond_by_chance(tiny):
    def matrix(chance, **changes):
        problem = PairProblem(*tiny, replace(DEFAULT, chance=chance, n_rounds=1, **changes))
        return FromRelations().run(problem).maps[1].matrix, problem.significance.p <= chance

    (without, never), (heard, always) = matrix(0.0), matrix(1.0)
    assert always
    assert not never
    assert not np.allclose(without, heard), "signals make no difference"
    for chance in (0.01, 0.2, 0.6):  # how many permutations are drawn depends on it, so p does a little
        found, significant = matrix(chance)
        assert np.array_equal(found, heard if significant else without), f"p is judged wrongly at {chance}"
    assert np.array_equal(matrix(1.0, signal_rounds=0)[0], without)


def test_the_record_begins_with_that_of_the_start(problem):
    before = ({"start": "here", "step": "weights", "objective": 0.5},)
    found = alternate(problem, replace(start_of(problem), history=before))
    assert found.start == "here"
    assert found.history[:1] == before
    rounds = [("here", "round")] * problem.config.n_rounds
    assert [(s["start"], s["step"]) for s in found.history[1:]] == [*rounds, ("here", "anchors")]


def test_few_anchors_determine_few_directions(rng):
    pair = side(rng.randn(40, 3), k=35), side(rng.randn(38, 3) + 1, k=35)
    config = replace(DEFAULT, n_anchors=1, n_rounds=1, n_steps=1)
    found = FromRelations().run(PairProblem(*pair, config))
    assert found.alignment.rank == found.pairing.nnz < 35, "more directions than anchors"
    values = np.linalg.svd(found.alignment.rotation, compute_uv=False)
    np.testing.assert_allclose(values, np.arange(35) < found.alignment.rank, atol=1e-9)
    steps = {step["step"]: step["objective"] for step in found.history}
    assert steps["round"] == steps["anchors"], "the same anchors are judged differently"
