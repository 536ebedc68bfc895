"""One pair of datasets: what all runs share, and what follows from where a run ended."""

from dataclasses import replace

import numpy as np
import plain_stages
import pytest
import scipy.sparse as sp
from two_sides import side, spectra

from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.correspondence import learn_rotation
from harmonicalign.evidence.relations import relate
from harmonicalign.evidence.significance import permutation_test
from harmonicalign.method import DEFAULT, FromHarmonics, FromRelations, PairProblem, Side, align_pair
from harmonicalign.method.anchors import masses, mutual_neighbours
from harmonicalign.method.maps import LinearMap, component_maps, weighted_axes
from harmonicalign.paper.bands import bandlimiting_weights

once = replace(DEFAULT, n_rounds=1, n_steps=1)


def test_what_all_runs_share(sides, problem):
    hx, hy, a, b = spectra(sides)
    assert [h.exponent for h in problem.harmonics] == [hx.exponent, hy.exponent], "not calibrated"
    np.testing.assert_allclose(problem.spectral[0], a)
    np.testing.assert_allclose(problem.spectral[1], b)
    bands = bandlimiting_weights(hx.frequencies, hy.frequencies, 8)
    rotation, weights, objective = learn_rotation(bands, hx.frequencies, a, b)
    np.testing.assert_allclose(problem.rotation, rotation)
    np.testing.assert_allclose(problem.weights, weights)
    assert problem.objective == objective
    related = relate(*(s.signals for s in sides))
    assert np.array_equal(problem.relations.x, related.x)
    assert np.array_equal(problem.significance.null, permutation_test(hx, hy, a, b, relations=related).null)


def test_options_of_a_problem(sides, problem):
    hx, hy, a, b = spectra(sides)
    related = relate(*(s.signals for s in sides))
    few = PairProblem(*sides, n_bands=3, random_state=5)
    expected = permutation_test(hx, hy, a, b, relations=related, n_bands=3, random_state=5)
    assert few.significance.null == pytest.approx(expected.null)
    assert not np.allclose(few.rotation, problem.rotation), "the number of bands changes nothing"
    wide = PairProblem(*sides, first_band=1)
    assert wide.significance.null == pytest.approx(problem.significance.null)
    rounds = replace(DEFAULT, learning_steps=2, learning_tolerance=0.0)
    assert len(PairProblem(*sides, rounds).objective) == 2
    assert len(PairProblem(*sides, replace(DEFAULT, learning_tolerance=2.0)).objective) == 1


def test_first_band_of_a_problem(rng):
    # All harmonics, so that some are of the highest frequencies, which the first band holds.
    pair = side(rng.randn(50, 2), k=49), side(rng.randn(45, 2), k=44)
    first, second, default = (
        PairProblem(*pair, **o).objective for o in ({"first_band": 0}, {"first_band": 1}, {})
    )
    assert first == default
    assert abs(first[0] - second[0]) > 1e-5, "the first band makes no difference"


def test_the_longer_of_two_bases_is_cut(sides):
    short = [replace(s, harmonics=s.harmonics.truncate(12)) for s in sides]
    expected = FromHarmonics().run(PairProblem(*short, once)).pairing
    for pair in ((sides[0], short[1]), (short[0], sides[1])):
        found = FromHarmonics().run(PairProblem(*pair, once))
        assert abs(found.pairing - expected).max() < 1e-6
        assert found.alignment.rotation.shape == (12, 12)


def test_features_are_judged_as_it_says(tiny):
    problem = PairProblem(*tiny)
    turn = np.linalg.qr(np.random.RandomState(0).randn(8, 8))[0]
    found = problem.judge(turn)
    scores, energy, weights, share = plain_stages.judge(
        turn, problem.harmonics[0].frequencies, *problem.spectral, problem.config
    )
    np.testing.assert_allclose(found.scores, scores)
    np.testing.assert_allclose(found.energy, energy)
    np.testing.assert_allclose(found.weights, weights)
    assert found.share == pytest.approx(share)
    assert np.array_equal(problem.judge(turn).p_values, found.p_values), "chance differs from call to call"


def test_means_and_centres(sides, problem, solved):
    for mean, s in zip(problem.means(), sides, strict=True):
        np.testing.assert_allclose(mean, s.signals.mean(axis=0))
    for mass, s, centre in zip(masses(solved.pairing), sides, problem.centres(solved.pairing), strict=True):
        np.testing.assert_allclose(centre, mass @ s.signals)


def test_joint_coordinates(sides, problem, solved):
    rows = [m.apply(s.components) for m, s in zip(solved.maps, sides, strict=True)]
    alone = problem.joint(solved.maps, None, 0.3)
    for found, expected in zip(alone, plain_stages.directions(rows, DEFAULT), strict=True):
        np.testing.assert_allclose(found, expected)
    signals = tuple(s.signals for s in sides)
    scaled = plain_stages.directions(signals, DEFAULT)
    for share in (0.0, 0.3, 1.0):
        both = problem.joint(solved.maps, signals, share)
        length = np.hypot(1 - share, share)
        for found, q, s in zip(both, alone, scaled, strict=True):
            np.testing.assert_allclose(found, np.c_[(1 - share) * q, share * s] / length)


def test_a_run_follows_from_its_anchors(sides, problem, solved):
    hx, hy, _, _ = spectra(sides)
    products = hx.psi.T @ (solved.pairing @ hy.psi)
    u, values, vt = np.linalg.svd(products)
    np.testing.assert_allclose(solved.alignment.products, products, atol=1e-12)
    np.testing.assert_allclose(solved.alignment.singular_values, values)
    np.testing.assert_allclose(solved.alignment.rotation, u @ vt, atol=1e-9)
    assert solved.alignment.rank == len(values)
    assert np.array_equal(solved.alignment.band_weights, np.ones_like(products))
    assert [h.exponent for h in solved.alignment.harmonics] == [hx.exponent, hy.exponent]
    judged = problem.judge(u @ vt)
    np.testing.assert_allclose(solved.correspondence.scores, judged.scores)
    np.testing.assert_allclose(solved.correspondence.p_values, judged.p_values)
    last = [s for s in solved.history if (s["start"], s["step"]) == (solved.start, "anchors")]
    assert [s["objective"] for s in last] == pytest.approx([judged.agreement])
    assert [s["support"] for s in last] == [solved.support]
    axes = weighted_axes(
        sides, solved.centres, judged.weights, judged.weights * judged.energy, config=problem.config
    )
    joint = problem.joint(solved.maps, problem.signals(axes), judged.share)
    assert solved.support == pytest.approx(max(c.mean() for c in row_confidence(joint)))


def outcome(problem, solved, **options):
    """What follows from the anchors of a run."""
    joint = problem.joint(solved.maps, None, 1.0)
    return problem.outcome("here", solved.pairing, solved.maps, joint, solved.centres, **options)


def test_columns_that_are_trusted_all_count_fully(problem, solved):
    judged, trusted = outcome(problem, solved), outcome(problem, solved, trust_columns=True)
    assert trusted.correspondence.share == 1
    assert trusted.correspondence.weights.tolist() == [1.0] * 40
    assert np.array_equal(judged.correspondence.scores, trusted.correspondence.scores)
    assert judged.correspondence.share < 1
    agreement = judged.correspondence.agreement
    step = {"start": "here", "step": "anchors", "objective": agreement, "support": judged.support}
    assert judged.history == (step,)


def test_the_score_of_joint_coordinates_is_that_of_their_anchors(problem, solved):
    joint = problem.joint(solved.maps, None, 1.0)
    pairing = mutual_neighbours(*joint, problem.config.n_anchors)
    expected = problem.outcome("here", pairing, solved.maps, joint, problem.centres(pairing)).worth
    assert problem.worth_of(joint) == pytest.approx(expected)
    away = joint[0], joint[1] + 100
    assert problem.worth_of(away) < 0.5 * expected, "datasets that do not meet score as high"


@pytest.mark.parametrize("power", [1.0, DEFAULT.worth_power])
def test_the_score_is_agreement_and_support(sides, solved, power):
    found = outcome(PairProblem(*sides, replace(DEFAULT, worth_power=power)), solved)
    assert found.worth == pytest.approx(found.correspondence.agreement * found.support**power)


def test_a_run_seen_from_the_other_side(sides, solved):
    back = solved.reversed((sides[1], sides[0]))
    np.testing.assert_allclose(back.alignment.rotation, solved.alignment.rotation.T)
    assert (back.pairing != solved.pairing.T).nnz == 0
    assert np.array_equal(back.centres, solved.centres[::-1])
    assert (back.support, back.worth, back.turned) == (solved.support, solved.worth, solved.turned)
    # The map into the second dataset's components is what its anchors and signals would have said.
    there = solved.maps[1].apply(sides[1].components) - solved.maps[0].shift
    np.testing.assert_allclose(back.maps[1].apply(there) - back.maps[0].shift, sides[1].components, atol=1e-9)
    expected = component_maps(
        (sides[1], sides[0]), solved.pairing.T.tocsr()
    )  # the last rounds use no signals
    for one, other in zip(back.maps, expected, strict=True):
        np.testing.assert_allclose(one.matrix, other.matrix, atol=1e-9)
        np.testing.assert_allclose(one.shift, other.shift, atol=1e-9)
    again = back.reversed(sides)
    for one, other in zip(again.maps, solved.maps, strict=True):
        np.testing.assert_allclose(one.apply(np.eye(3)), other.apply(np.eye(3)), atol=1e-9)


def test_sparse_signals_are_aligned_alike(sides):
    sparse = [Side(s.components, sp.csr_matrix(s.signals), s.harmonics) for s in sides]
    config = replace(DEFAULT, n_rounds=1)
    dense, found = align_pair(*sides, config), align_pair(*sparse, config)
    assert found.start == dense.start
    assert abs(found.pairing - dense.pairing).max() < 1e-6
    assert found.support == pytest.approx(dense.support, abs=1e-6)


def test_all_chance_is_in_the_seed(rng):
    # Enough signals that wrong partners and axes are drawn.
    latent = rng.randn(330, 3)
    signals = latent @ rng.randn(3, 600) + 0.5 * rng.randn(330, 600)
    pair = side(latent[:170], signals[:170]), side(latent[170:], signals[170:])
    one, two, other = (FromRelations().run(PairProblem(*pair, once, random_state=s)) for s in (0, 0, 1))
    assert one.history == two.history
    assert np.array_equal(one.correspondence.p_values, two.correspondence.p_values)
    assert not np.array_equal(one.correspondence.p_values, other.correspondence.p_values)
    assert one.support != other.support, "rows that confidence is measured against do not depend on the seed"


def test_signals_are_mapped_each_by_its_own_axes(sides, problem):
    axes = [LinearMap(np.full((40, 2), c), np.array([c, 0.0])) for c in (1.0, 2.0)]
    for found, s, m in zip(problem.signals(axes), sides, axes, strict=True):
        np.testing.assert_allclose(found, m.apply(s.signals))


def test_anchors_of_identical_rows_give_the_identity(sides):
    problem = PairProblem(sides[0], sides[0])
    pairing = mutual_neighbours(sides[0].components, sides[0].components, 1)
    turn = problem.rotation_of(pairing)[1]
    np.testing.assert_allclose(turn, np.eye(len(turn)), atol=1e-9)
