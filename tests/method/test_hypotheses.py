"""Where the runs of a pair begin: the first anchors tell."""

from dataclasses import dataclass, replace

import numpy as np
import plain_stages
import pytest
from two_sides import side

from harmonicalign.engines.rows import unit_rows
from harmonicalign.method import (
    DEFAULT,
    FromAnchors,
    FromHarmonics,
    FromRelations,
    LinearMap,
    Offset,
    PairProblem,
    Side,
    align_pair,
    mutual_neighbours,
)
from harmonicalign.method.anchors import known_pairs
from harmonicalign.method.hypotheses import by_signals
from harmonicalign.method.maps import component_maps

# One round of one step: the anchors of the run are those of the start.
once = replace(DEFAULT, n_rounds=1, n_steps=1)


def middle(sides):
    return (sides[0].signals.mean(axis=0) + sides[1].signals.mean(axis=0)) / 2


def check_anchors(run, joint, config=once, **options):
    expected = mutual_neighbours(*joint, config.n_anchors, **options)
    assert abs(run.pairing - expected).max() < 1e-6, f"{run.start} does not begin where it should"


@pytest.fixture(scope="module")
def short(sides):
    return PairProblem(*sides, once)


def weighted(sides, centres, weights):
    """Rows of weighted signals with softened lengths, by which anchors are found."""
    parts = [(s.signals - c) * weights for s, c in zip(sides, centres, strict=True)]
    return plain_stages.directions(parts, once)


def test_from_relations(sides, short):
    weights = short.relations.weights()
    found = FromRelations().run(short)
    assert found.start == "relations"
    check_anchors(found, weighted(sides, short.means(), weights))
    few = replace(once, n_anchors=4)
    check_anchors(FromRelations().run(PairProblem(*sides, few)), weighted(sides, short.means(), weights), few)


def test_from_harmonics(sides, short):
    (hx, hy), found = short.harmonics, FromHarmonics().run(short)
    assert found.start == "harmonics"
    ex, ey = unit_rows(hx.phi * hx.frequencies), unit_rows(hy.phi @ short.rotation.T * hx.frequencies)
    signals = [unit_rows((s.signals - s.signals.mean(axis=0)) * short.weights) for s in sides]
    check_anchors(found, [np.c_[ex, signals[0]], np.c_[ey, signals[1]]])
    learned = [s["objective"] for s in found.history if s["step"] == "weights"]
    assert learned == short.objective


def test_from_anchors(manifold, sides):
    rng = np.random.RandomState(1)
    near = np.linalg.norm(manifold.latent_x[:, None] - manifold.latent_y[None], axis=2).argmin(axis=1)
    rows = rng.permutation(300)[:40]
    # Signals that say nothing: only the known pairs tell how the datasets lie.
    noise = tuple(Side(s.components, rng.randn(len(s.components), 10), s.harmonics) for s in sides)
    known = known_pairs(np.c_[rows, near[rows]], 300, 280)
    problem = PairProblem(*noise, once, known=known)
    check_anchors(
        FromAnchors().run(problem), problem.joint(component_maps(noise, known), None, 1.0), known=known
    )
    found = align_pair(*noise, known=known)
    assert found.start == "anchors"
    assert {step["start"] for step in found.history} == {"anchors"}, "known pairs leave no choice of starts"
    for i, j in zip(rows, near[rows], strict=True):
        assert found.pairing[i].nonzero()[1].tolist() == [j], f"row {i} is known to match {j} alone"
    pairs = found.pairing.tocoo()
    away = np.linalg.norm(manifold.latent_x[pairs.row] - manifold.latent_y[pairs.col], axis=1)
    chance = np.linalg.norm(manifold.latent_x[:280] - manifold.latent_y, axis=1)
    assert np.median(away) < 0.4 * np.median(chance), "known pairs do not lead to others"


@pytest.fixture(scope="module")
def moved():
    """Samples of the same clusters, the second moved by a known offset."""
    rng = np.random.RandomState(0)
    centres, offset = 4 * rng.randn(6, 12), rng.randn(12)
    rows = centres[rng.randint(6, size=300)] + rng.randn(300, 12)
    return PairProblem(side(rows[:160]), side(rows[160:] + offset)), offset


def test_an_offset_is_found(moved):
    problem, offset = moved
    found = Offset().run(problem)
    assert found.start == "offset"
    off = found.centres[1] - found.centres[0] - offset
    assert np.linalg.norm(off) < 0.15 * np.linalg.norm(offset), "the offset is not what was put in"
    assert found.correspondence.share == 1
    assert (found.correspondence.weights == 1).all()
    assert [step["step"] for step in found.history] == ["anchors"]


def test_an_offset_is_where_the_anchors_lie_on_each_other(moved):
    problem, _ = moved
    few = PairProblem(*problem.sides, replace(DEFAULT, n_steps=2, n_anchors=4))
    centres = few.means()
    centres = [(centres[0] + centres[1]) / 2] * 2
    for _ in range(3):
        joint = weighted(few.sides, centres, 1)
        pairing = mutual_neighbours(*joint, 4)
        centres = few.centres(pairing)
    found = Offset().run(few)
    assert abs(found.pairing - pairing).max() < 1e-6
    np.testing.assert_allclose(found.centres, centres, atol=1e-6)
    np.testing.assert_allclose(found.maps[1].matrix, component_maps(few.sides, pairing)[1].matrix, atol=1e-6)


def test_a_share_of_an_offset_is_taken_off(moved):
    problem, _ = moved
    nothing, whole = Offset("none", 0.0).run(problem), Offset().run(problem)
    assert nothing.start == "none"
    for centre in nothing.centres:
        np.testing.assert_allclose(centre, middle(problem.sides), err_msg="one dataset is moved")
    assert (nothing.correspondence.weights == 1).all()
    check_anchors(nothing, weighted(problem.sides, [middle(problem.sides)] * 2, 1))
    assert nothing.support < whole.support, "as good as with the offset that was put in"
    half = Offset("half", 0.5).run(problem)
    apart = [np.linalg.norm(run.centres[0] - run.centres[1]) for run in (nothing, half, whole)]
    assert 0.2 * apart[2] < apart[1] < 0.8 * apart[2]
    assert apart[0] == 0


def test_signals_alone(sides, short):
    centres, weights = short.means(), np.linspace(0, 1, 40)
    joint, signals = by_signals(short, centres, weights, weights)
    for s, one, c in zip(signals, sides, centres, strict=True):
        expected = (one.signals - c) * weights
        # Axes turn the signals, which changes no product of rows.
        np.testing.assert_allclose(s @ s.T, expected @ expected.T, atol=1e-8)
    for j, s in zip(joint, plain_stages.directions(signals, once), strict=True):
        np.testing.assert_allclose(j, s, atol=1e-12)


@dataclass(frozen=True)
class Turned:
    """A hypothesis of a user's own: the map is known."""

    matrix: np.ndarray
    name: str = "turned"

    def run(self, problem):
        maps = LinearMap(np.eye(3), np.zeros(3)), LinearMap(self.matrix, np.zeros(3))
        joint = problem.joint(maps, None, 1.0)
        pairing = mutual_neighbours(*joint, problem.config.n_anchors)
        return problem.outcome(self.name, pairing, maps, joint, problem.centres(pairing), trust_columns=True)


def test_a_hypothesis_of_ones_own(rng):
    turn = np.linalg.qr(rng.randn(3, 3))[0]
    rows = rng.randn(160, 3) * [4, 2, 1]
    pair = side(rows[:80]), side(rows[80:] @ turn)
    others = ("harmonics", "offset", "relations")
    found = align_pair(*pair, replace(DEFAULT, hypotheses=(Turned(turn.T),), left_out=others))
    assert found.start == "turned"
    assert {step["start"] for step in found.history} == {"turned"}
    np.testing.assert_allclose(found.maps[1].apply(rows[80:] @ turn), rows[80:], atol=1e-9)
