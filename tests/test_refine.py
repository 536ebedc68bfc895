"""Parts of the default method: anchors, correspondence, refinement, joint space, significance."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.spatial.distance import cdist
from sklearn.metrics import roc_auc_score

from harmonicalign import DisconnectedGraphWarning, calibrate, harmonics, kernel_graph
from harmonicalign import refine as refine_module
from harmonicalign import significance as significance_module
from harmonicalign.anchors import known_pairs, masses, mutual_neighbours
from harmonicalign.bands import bandlimiting_weights
from harmonicalign.confidence import row_confidence
from harmonicalign.correspondence import Correspondence, correspondence, learn_rotation, scores
from harmonicalign.datasets import clusters_pair, swiss_roll
from harmonicalign.links import link_signals
from harmonicalign.planes import on_planes
from harmonicalign.reduction import leading_axes, reduce_rows
from harmonicalign.refine import LinearMap, Side, blend, component_maps, refine, signal_maps, unit_rows
from harmonicalign.significance import _shuffled, false_discovery, permutation_test
from harmonicalign.space import (
    LocalShift,
    _bridge,
    _gaussian,
    _towards_anchors,
    joint_space,
    pooled_correspondence,
    spanning_tree,
)


def side(rows, signals=None, k=20):
    graph = kernel_graph(rows, n_neighbors=8, anisotropy=0.5, max_neighbors=24)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedGraphWarning)  # clusters fall apart, as they may
        return Side(rows, rows if signals is None else signals, harmonics(graph, k))


@pytest.fixture(scope="module")
def manifold():
    """Two samples of one manifold in rotated coordinates, with signals of which 30 % are corrupted."""
    return swiss_roll(300, 280, n_signals=40, corrupted=0.3, random_state=0)


@pytest.fixture(scope="module")
def sides(manifold):
    return side(manifold.x, manifold.signals_x), side(manifold.y, manifold.signals_y)


def spectra(sides):
    hx, hy = calibrate([s.harmonics for s in sides])
    return hx, hy, sides[0].spectral(), sides[1].spectral()


def test_mutual_neighbours_pair_equal_rows(rng):
    x = rng.randn(50, 3)
    order = rng.permutation(50)
    pairing = mutual_neighbours(x, x[order], k=1).toarray()
    assert pairing == pytest.approx(np.eye(50)[:, order])


def test_pairing_is_balanced(rng):
    pairing = mutual_neighbours(rng.randn(80, 2), rng.randn(60, 2), k=10)
    columns = np.asarray(pairing.sum(axis=0)).ravel()
    assert columns[columns > 0] == pytest.approx(np.ones((columns > 0).sum()))
    of_x, of_y = masses(pairing)
    assert of_x.sum() == pytest.approx(1)
    assert of_y.sum() == pytest.approx(1)


def pairing_by_loops(x, y, k, n_balance):
    distance = cdist(x, y)
    near_x = np.argsort(distance, axis=1)[:, :k]
    near_y = np.argsort(distance, axis=0)[:k].T
    mutual = [(i, j) for i in range(len(x)) for j in near_x[i] if i in near_y[j]]
    middle = np.median([distance[p] ** 2 for p in mutual])
    pairing = np.zeros(distance.shape)
    for p in mutual:
        pairing[p] = np.exp(-(distance[p] ** 2) / middle)
    for _ in range(n_balance):
        for axis in (1, 0):
            sums = pairing.sum(axis=axis, keepdims=True)
            pairing = pairing / np.where(sums > 0, sums, 1)
    return pairing


def test_pairing_is_what_it_says(rng):
    x, y = rng.randn(40, 3), rng.randn(30, 3) + 0.3
    assert mutual_neighbours(x, y).toarray() == pytest.approx(pairing_by_loops(x, y, 10, 10), abs=1e-6)
    for k, n_balance in ((4, 0), (3, 2)):
        found = mutual_neighbours(x, y, k, n_balance=n_balance)
        assert found.toarray() == pytest.approx(pairing_by_loops(x, y, k, n_balance), abs=1e-6)
        assert found.shape == (40, 30)
    # No more neighbours than there are rows: then all rows are everybody's neighbours.
    assert mutual_neighbours(x, y[:4]).toarray() == pytest.approx(pairing_by_loops(x, y[:4], 4, 10), abs=1e-6)
    assert mutual_neighbours(x[:3], y).toarray() == pytest.approx(pairing_by_loops(x[:3], y, 3, 10), abs=1e-6)


def test_known_pairs_take_their_rows_out_of_the_pairing(rng):
    x, y = rng.randn(40, 3), rng.randn(30, 3) + 0.3
    free = mutual_neighbours(x, y, 5, n_balance=0).toarray()
    known = known_pairs([[3, 7], [3, 8], [11, 9]], 40, 30)
    pairing = mutual_neighbours(x, y, 5, known=known, n_balance=0).toarray()
    free[[3, 11]] = 0
    free[:, [7, 8, 9]] = 0
    assert pairing == pytest.approx(free + known.toarray())


def test_coinciding_rows_weigh_alike():
    x = np.repeat([[0.0], [5.0]], 3, axis=0)
    pairing = mutual_neighbours(x, x, 3, n_balance=1).toarray()
    assert pairing == pytest.approx(np.kron(np.eye(2), np.full((3, 3), 1 / 3)))


def test_masses_are_shares():
    of_x, of_y = masses(sp.csr_matrix([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0]]))
    assert of_x == pytest.approx([0.75, 0.25])
    assert of_y == pytest.approx([0.25, 0.75, 0])


def test_rows_without_counterpart_stay_unpaired(rng):
    x = np.r_[rng.randn(40, 2), rng.randn(20, 2) + 50]
    pairing = mutual_neighbours(x, rng.randn(40, 2), k=5)
    assert pairing[40:].nnz == 0


def test_known_pairs_exclude_others(rng):
    x, y = rng.randn(30, 2), rng.randn(30, 2)
    known = known_pairs([[0, 29], [0, 29]], 30, 30)
    assert known.nnz == 1
    assert known[0, 29] == 1
    assert known_pairs(np.array([[29, 19]], dtype=np.uint8), 30, 20).shape == (30, 20)
    assert known_pairs(np.empty((0, 2), dtype=int), 30, 20).nnz == 0
    pairing = mutual_neighbours(x, y, known=known).toarray()
    assert pairing[0, 29] == pytest.approx(1)
    assert pairing[0].sum() == pytest.approx(1)
    assert pairing[:, 29].sum() == pytest.approx(1)
    for bad in ([[0, 20]], [[30, 0]], [[-1, 0]], [[0, -1]]):
        with pytest.raises(ValueError, match=r"^anchors names rows outside .* have 30 and 20 rows"):
            known_pairs(bad, 30, 20)
    for bad in ([0, 1], [[0, 1, 2]], [[0.5, 1]], [["a", "b"]]):
        with pytest.raises(ValueError, match=r"^anchors has shape .*, row of the second\) per line$"):
            known_pairs(bad, 30, 20)


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
    weights += (1 - weights) * max(0, 4 * found.share - 3)
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


def test_component_maps_recover_a_rotation(rng):
    x = rng.randn(200, 5) * [5, 4, 3, 2, 1]
    turn = np.linalg.qr(rng.randn(5, 5))[0]
    y = 0.5 * x @ turn + 7
    maps = component_maps((side(x), side(y)), sp.eye_array(200, format="csr"))
    assert maps[1].apply(y) == pytest.approx(maps[0].apply(x), abs=1e-9)
    assert np.average(maps[0].apply(x), axis=0) == pytest.approx(np.zeros(5), abs=1e-9)


def plain_side(components, signals=None):
    """A side without harmonics, for what does not look at them."""
    return Side(components, components if signals is None else signals, None)


@pytest.mark.parametrize(("factor", "gain"), [(0.5, 2), (1 / 4, 4), (0.1, 4), (2, 0.5), (10, 0.25)])
def test_spread_is_matched_up_to_a_factor(rng, factor, gain):
    x = rng.randn(200, 3) * [3, 2, 1]
    maps = component_maps((plain_side(x), plain_side(factor * x + 7)), sp.eye_array(200, format="csr"))
    assert maps[0].matrix == pytest.approx(np.eye(3))
    assert maps[1].matrix == pytest.approx(gain * np.eye(3), abs=1e-9)
    assert maps[1].apply(factor * x + 7) == pytest.approx(gain * factor * (x - x.mean(axis=0)), abs=1e-9)


def test_component_maps_see_only_the_anchors(rng):
    x, y = rng.randn(60, 4), rng.randn(50, 3)
    turn = np.linalg.qr(rng.randn(4, 3))[0]
    y[:40] = x[:40] @ turn
    pairing = sp.csr_matrix((np.linspace(1, 3, 40), (np.arange(40), np.arange(40))), shape=(60, 50))
    first, second = component_maps((plain_side(x), plain_side(y)), pairing)
    mass = np.linspace(1, 3, 40) / np.linspace(1, 3, 40).sum()
    assert first.shift == pytest.approx(-mass @ x[:40])
    assert mass @ second.apply(y[:40]) == pytest.approx(np.zeros(4), abs=1e-9)
    assert second.matrix.shape == (3, 4)
    # A direction without spread among the anchors keeps its length.
    flat = np.c_[y, np.zeros(50)]
    second = component_maps((plain_side(x), plain_side(flat)), pairing)[1]
    assert np.isfinite(second.matrix).all()
    assert np.linalg.norm(second.matrix[3]) == pytest.approx(1)


def test_refinement_lays_the_datasets_on_each_other(manifold, sides):
    found = refine(*sides)
    assert found.start in ("columns", "harmonics")
    assert found.significance.p < 0.01
    assert roc_auc_score(manifold.corresponds, found.correspondence.scores) > 0.95
    pairs = found.pairing.tocoo()
    away = np.linalg.norm(manifold.latent_x[pairs.row] - manifold.latent_y[pairs.col], axis=1)
    chance = np.linalg.norm(
        manifold.latent_x[pairs.row] - manifold.latent_y[np.random.RandomState(0).permutation(pairs.col)],
        axis=1,
    )
    assert np.median(away) < 0.25 * np.median(chance)
    assert {"start", "step", "objective"} <= set(found.history[0])


def test_weighted_axes_are_joint_principal_components(rng):
    x, y = rng.randn(50, 6), rng.randn(40, 6) + 2
    centres = x.mean(axis=0), y.mean(axis=0)
    found = Correspondence(np.zeros(6), rng.uniform(0.2, 1, 6), rng.uniform(1, 2, 6), np.ones(6), 0.5)
    maps = signal_maps([plain_side(x), plain_side(y)], centres, found, 0)
    scaled = np.r_[x - centres[0], y - centres[1]] * found.weights
    axes = np.linalg.svd(scaled, full_matrices=False)[2].T
    for rows, centre, m in zip((x, y), centres, maps, strict=True):
        expected = (rows - centre) * found.weights @ axes
        assert m.apply(rows) @ m.apply(rows).T == pytest.approx(expected @ expected.T)
        assert np.abs(m.apply(rows)) == pytest.approx(np.abs(expected))
        assert m.apply(sp.csr_matrix(rows)) == pytest.approx(m.apply(rows))


def test_only_signals_of_worth_enter_where_there_are_many(rng, monkeypatch):
    monkeypatch.setattr(refine_module, "MOST_SIGNALS", 4)
    x, y = rng.randn(50, 6), rng.randn(40, 6)
    # Signal 0 has little energy and signal 3 little weight; 5 has more of both than 3.
    weights, energy = np.array([1, 0.9, 0.8, 0.1, 0.7, 0.6]), np.array([0.01, 1, 1, 1, 1, 1])
    found = Correspondence(np.zeros(6), weights, energy, np.ones(6), 0.5)
    for form in (np.asarray, sp.csr_matrix):
        sides_ = [plain_side(x, form(x)), plain_side(y, form(y))]
        for m in signal_maps(sides_, [np.zeros(6)] * 2, found, 0):
            assert np.flatnonzero(m.matrix.any(axis=1)).tolist() == [1, 2, 4, 5]
            assert m.matrix.shape == (6, 4)


def test_axes_of_many_signals_are_drawn_by_the_seed(rng):
    rows = [rng.randn(160, 310), rng.randn(150, 310)]
    found = Correspondence(np.zeros(310), np.ones(310), np.ones(310), np.ones(310), 0.5)
    pair, centres = [plain_side(r) for r in rows], [np.zeros(310)] * 2
    one, two, other = (signal_maps(pair, centres, found, seed)[0].matrix for seed in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_refinement_with_the_best_of_many_signals(manifold, sides, monkeypatch):
    monkeypatch.setattr(refine_module, "MOST_SIGNALS", 25)
    for start in ("harmonics", "columns"):
        found = refine(*sides, starts=(start,))
        assert {step["start"] for step in found.history} == {start, "offset"}
        assert roc_auc_score(manifold.corresponds, found.correspondence.scores) > 0.9


def test_centred_spectrum(sides):
    one = sides[0]
    expected = one.harmonics.psi.T @ (one.signals - one.signals.mean(axis=0))
    assert one.spectral() == pytest.approx(expected, abs=1e-9)
    sparse = Side(one.components, sp.csr_matrix(one.signals), one.harmonics)
    assert sparse.spectral() == pytest.approx(expected, abs=1e-9)


def test_blend_balances_components_and_signals():
    assert blend(np.ones((1, 2)), np.ones((1, 1)), 0.3).tolist() == [[0.7, 0.7, 0.3]]


@pytest.mark.parametrize(("p", "chance"), [(0.05, 1), (0.051, 0.25)])
def test_kinship(sides, p, chance):
    found = refine(*sides)
    found = replace(found, significance=replace(found.significance, p=p), support=0.8)
    agreement = found.correspondence.agreement
    assert found.kinship == pytest.approx(chance * 0.8 * (1 + agreement) / 2)


def test_refinement_is_the_same_from_the_other_side(sides):
    found = refine(*sides)
    back = found.reversed((sides[1], sides[0]))
    assert back.alignment.rotation == pytest.approx(found.alignment.rotation.T)
    assert (back.pairing != found.pairing.T).nnz == 0
    assert back.centres[0] == pytest.approx(found.centres[1])
    assert back.centres[1] == pytest.approx(found.centres[0])
    assert back.kinship == found.kinship
    expected = component_maps((sides[1], sides[0]), found.pairing.T.tocsr())
    for one, other in zip(back.maps, expected, strict=True):
        assert one.matrix == pytest.approx(other.matrix)
        assert one.shift == pytest.approx(other.shift)


def test_defaults_of_a_refinement(sides):
    found = refine(*sides)
    explicit = refine(
        *sides,
        n_bands=8,
        first_band=0,
        n_rounds=2,
        n_steps=3,
        n_anchors=10,
        starts=("harmonics", "columns"),
        learn_weights=True,
        simple=True,
        random_state=0,
    )
    assert (found.pairing != explicit.pairing).nnz == 0
    assert found.history == explicit.history
    assert np.array_equal(found.significance.null, explicit.significance.null)
    assert np.array_equal(found.correspondence.p_values, explicit.correspondence.p_values)
    steps = [(step["start"], step["step"]) for step in found.history if step["step"] != "weights"]
    assert steps == [
        *[("harmonics", "round")] * 2,
        ("harmonics", "anchors"),
        *[("columns", "round")] * 2,
        ("columns", "anchors"),
        ("offset", "anchors"),
    ]


def middle(sides):
    return (sides[0].signals.mean(axis=0) + sides[1].signals.mean(axis=0)) / 2


def first_anchors(sides, start, n_bands=8):
    """Joint coordinates that each start begins with; fewer signals than axes, so axes change no distance."""
    x, y = sides
    if start == "columns":
        return unit_rows(x.signals - middle(sides)), unit_rows(y.signals - middle(sides))
    hx, hy, a, b = spectra(sides)
    bands = bandlimiting_weights(hx.frequencies, hy.frequencies, n_bands)
    rotation, weights, _ = learn_rotation(bands, hx.frequencies, a, b)
    ex = unit_rows(hx.phi * hx.frequencies)
    ey = unit_rows(hy.phi @ rotation.T * hx.frequencies)
    signals = [unit_rows((s.signals - s.signals.mean(axis=0)) * weights) for s in sides]
    return np.c_[ex, signals[0]], np.c_[ey, signals[1]]


def same_pairing(one, other):
    return abs(one - other).max() < 1e-6


@pytest.mark.parametrize("start", ["harmonics", "columns"])
@pytest.mark.parametrize(("n_anchors", "n_bands"), [(10, 8), (6, 3)])
def test_first_anchors_are_neighbours_in_the_space_of_the_start(sides, start, n_anchors, n_bands):
    options = {"starts": (start,), "simple": False, "n_anchors": n_anchors, "n_bands": n_bands}
    found = refine(*sides, n_rounds=1, n_steps=1, **options)
    joint = first_anchors(sides, start, n_bands)
    assert same_pairing(found.pairing, mutual_neighbours(*joint, n_anchors))
    assert found.start == start


def test_more_steps_go_on_in_the_mapped_components(sides):
    options = {"starts": ("harmonics",), "simple": False, "n_rounds": 1}
    one = refine(*sides, n_steps=1, **options)
    two = refine(*sides, n_steps=2, **options)
    mapped = [unit_rows(m.apply(s.components)) for m, s in zip(one.maps, sides, strict=True)]
    assert same_pairing(two.pairing, mutual_neighbours(*mapped, 10))
    # Columns that are taken to correspond say all that there is to say.
    options["starts"] = ("columns",)
    assert same_pairing(
        refine(*sides, n_steps=2, **options).pairing, refine(*sides, n_steps=1, **options).pairing
    )


def space_of(found, sides):
    """Joint coordinates that follow from what a refinement reports."""
    axes = signal_maps(sides, found.centres, found.correspondence, 0)
    return [
        blend(unit_rows(m.apply(s.components)), unit_rows(a.apply(s.signals)), found.correspondence.share)
        for m, a, s in zip(found.maps, axes, sides, strict=True)
    ]


@pytest.mark.parametrize("start", ["harmonics", "columns"])
def test_rounds_go_on_from_the_joint_space(sides, start):
    options = {"starts": (start,), "simple": False}
    one = refine(*sides, n_rounds=1, n_steps=2, **options)
    joint = space_of(one, sides)
    assert 0 < one.correspondence.share < 1
    assert one.support == pytest.approx(max(c.mean() for c in row_confidence(joint)))
    two = refine(*sides, n_rounds=2, n_steps=1, **options)
    before = refine(*sides, n_rounds=1, n_steps=1, **options)
    assert same_pairing(two.pairing, mutual_neighbours(*space_of(before, sides), 10))


@pytest.mark.parametrize("simple", [True, False])
def test_a_refinement_follows_from_its_anchors(sides, simple):
    found = refine(*sides, simple=simple)
    hx, hy, a, b = spectra(sides)
    products = hx.psi.T @ (found.pairing @ hy.psi)
    u, values, vt = np.linalg.svd(products)
    assert found.alignment.products == pytest.approx(products)
    assert found.alignment.singular_values == pytest.approx(values)
    assert found.alignment.rotation == pytest.approx(u @ vt)
    assert found.alignment.rank == len(values)
    assert np.array_equal(found.alignment.band_weights, np.ones_like(products))
    assert found.alignment.harmonics[0].exponent == hx.exponent
    assert found.alignment.harmonics[1].exponent == hy.exponent
    judged = correspondence(u @ vt, hx.frequencies, a, b, np.random.RandomState(0))
    assert found.correspondence.scores == pytest.approx(judged.scores)
    assert found.correspondence.p_values == pytest.approx(judged.p_values)
    assert found.correspondence.share == pytest.approx(judged.share)
    assert found.correspondence.weights == pytest.approx(judged.weights)
    for mass, s, centre in zip(masses(found.pairing), sides, found.centres, strict=True):
        assert centre == pytest.approx(mass @ s.signals)
    assert found.significance.null == pytest.approx(permutation_test(hx, hy, a, b).null)
    last = [step for step in found.history if (step["start"], step["step"]) == (found.start, "anchors")]
    assert last == [
        {
            "start": found.start,
            "step": "anchors",
            "objective": pytest.approx(judged.agreement),
            "support": found.support,
        }
    ]


def test_options_of_a_refinement(sides):
    options = {"starts": ("harmonics",), "simple": False, "n_rounds": 1, "n_steps": 1}
    found = refine(*sides, **options)
    hx, hy, a, b = spectra(sides)
    few = refine(*sides, n_bands=3, random_state=5, **options)
    test = permutation_test(hx, hy, a, b, n_bands=3, random_state=5)
    assert few.significance.null == pytest.approx(test.null)
    confidence = row_confidence(space_of(few, sides), random_state=5)
    assert few.support == pytest.approx(max(c.mean() for c in confidence), rel=1e-9)
    wide = refine(*sides, first_band=1, **options)
    assert wide.significance.null == pytest.approx(found.significance.null)
    even = refine(*sides, learn_weights=False, **options)
    assert (even.correspondence.weights == 1).all()
    assert even.correspondence.share == pytest.approx(
        correspondence(even.alignment.rotation, hx.frequencies, a, b, np.random.RandomState(0)).share
    )
    assert [s["step"] for s in even.history] == ["weights", "round", "anchors"]
    bands = bandlimiting_weights(hx.frequencies, hy.frequencies, 8)
    rotation, _, value = learn_rotation(bands, hx.frequencies, a, b, n_iterations=1)
    assert even.history[0]["objective"] == pytest.approx(value[0])
    ey = unit_rows(hy.phi @ rotation.T * hx.frequencies)
    joint = [
        np.c_[
            unit_rows(hx.phi * hx.frequencies), unit_rows(sides[0].signals - sides[0].signals.mean(axis=0))
        ],
        np.c_[ey, unit_rows(sides[1].signals - sides[1].signals.mean(axis=0))],
    ]
    assert same_pairing(even.pairing, mutual_neighbours(*joint, 10))
    # The longer of two bases is cut.
    short = [replace(s, harmonics=s.harmonics.truncate(12)) for s in sides]
    expected = refine(*short, **options).pairing
    assert same_pairing(refine(sides[0], short[1], **options).pairing, expected)
    assert same_pairing(refine(short[0], sides[1], **options).pairing, expected)


def test_first_band_of_a_refinement(rng):
    # All harmonics, so that some are of the highest frequencies, which the first band holds.
    pair = side(rng.randn(50, 2), k=49), side(rng.randn(45, 2), k=44)
    hx, hy, a, b = spectra([replace(s, harmonics=s.harmonics.truncate(44)) for s in pair])
    options = {"starts": ("harmonics",), "simple": False, "n_rounds": 1, "n_steps": 1}
    values = []
    for chosen in ({"first_band": 0}, {"first_band": 1}, {}):
        bands = bandlimiting_weights(hx.frequencies, hy.frequencies, 8, **chosen)
        expected = learn_rotation(bands, hx.frequencies, a, b)[2]
        found = refine(*pair, **chosen, **options).history
        assert [s["objective"] for s in found if s["step"] == "weights"] == pytest.approx(expected, rel=1e-7)
        values.append(expected[0])
    assert abs(values[0] - values[1]) > 1e-5 > 1e-9 > abs(values[0] - values[2])


def test_few_anchors_determine_few_directions(rng):
    pair = side(rng.randn(40, 3), k=35), side(rng.randn(38, 3) + 1, k=35)
    found = refine(*pair, n_anchors=1, starts=("columns",), simple=False, n_rounds=1, n_steps=1)
    assert found.alignment.rank == found.pairing.nnz < 35
    values = np.linalg.svd(found.alignment.rotation, compute_uv=False)
    assert values == pytest.approx((np.arange(35) < found.alignment.rank).astype(float), abs=1e-9)
    steps = {step["step"]: step["objective"] for step in found.history}
    assert steps["round"] == steps["anchors"]  # the same anchors, judged alike


def test_all_chance_is_in_the_seed(rng):
    # Enough rows and signals that wrong partners, samples of rows and axes are all drawn.
    latent = rng.randn(330, 3)
    signals = latent @ rng.randn(3, 600) + 0.5 * rng.randn(330, 600)
    pair = side(latent[:170], signals[:170]), side(latent[170:], signals[170:])
    options = {"starts": ("columns",), "n_rounds": 1, "n_steps": 1}
    one, two, other = (refine(*pair, random_state=seed, **options) for seed in (0, 0, 1))
    assert one.history == two.history
    assert np.array_equal(one.correspondence.p_values, two.correspondence.p_values)
    assert not np.array_equal(one.correspondence.p_values, other.correspondence.p_values)
    maps = [joint_space(pair, [-1, 0], [0, 1], {1: one}, seed).signal_maps[0].matrix for seed in (0, 0, 1)]
    assert np.array_equal(maps[0], maps[1])
    assert not np.array_equal(maps[0], maps[2])


def test_sparse_signals_are_refined_alike(sides):
    sparse = [Side(s.components, sp.csr_matrix(s.signals), s.harmonics) for s in sides]
    dense, found = refine(*sides, n_rounds=1), refine(*sparse, n_rounds=1)
    assert found.start == dense.start
    assert same_pairing(found.pairing, dense.pairing)
    assert found.support == pytest.approx(dense.support, abs=1e-6)


def chosen_by_rule(found, alike):
    """Which start should have been kept, from the record of all that were tried."""
    ends = {step["start"]: step for step in found.history if step["step"] == "anchors"}
    names = [name for name in ends if name in ("harmonics", "columns")]
    best = max(names, key=lambda name: ends[name]["objective"])
    plausible = ends["offset"]["support"] >= 0.9 * ends[best]["support"]
    if found.significance.p > 0.05 and (plausible or alike):
        return "as is"
    return "offset" if plausible else best


def test_the_simplest_explanation_that_does_is_kept(sides, rng):
    cloud = rng.randn(150, 12)
    clusters = clusters_pair(200, 200, n_clusters=5, only_x=0, only_y=0, random_state=0)
    spread = np.linspace(0.1, 3, 12)
    cases = [
        (sides, False),
        ((side(clusters.x), side(clusters.y)), False),
        ((side(cloud), side(rng.randn(150, 12) + 4)), False),
        ((side(cloud * spread), side(rng.randn(120, 12) * spread)), True),
        ((side(cloud * spread), side(rng.randn(120, 12) * spread[::-1])), False),
    ]
    kept = set()
    for pair, alike in cases:
        found = refine(*pair)
        assert found.start == chosen_by_rule(found, alike)
        kept.add(found.start)
    assert {"offset", "as is"} < kept


def test_signals_of_chance_are_compared_by_their_spread(rng, monkeypatch):
    monkeypatch.setattr(refine_module, "_ENOUGH_SUPPORT", 2)  # nothing simple does
    spread = np.linspace(0.1, 3, 12)
    x, y = (side(rng.randn(n, 4), rng.randn(n, 12) * spread) for n in (150, 120))
    assert refine(x, y).significance.p > 0.05
    assert refine(x, y).start == "as is"
    other = Side(y.components, y.signals[:, ::-1], y.harmonics)
    assert refine(x, other).significance.p > 0.05
    assert refine(x, other).start in ("harmonics", "columns")


def test_all_columns_trusted_up_to_an_offset(rng):
    clusters = clusters_pair(200, 180, n_clusters=5, only_x=0, only_y=0, random_state=0)
    pair = side(clusters.x), side(clusters.y + 1)
    found = refine(*pair, n_steps=2)
    assert found.start == "offset"
    assert (found.correspondence.weights == 1).all()
    centres = middle(pair), middle(pair)
    for _ in range(3):
        joint = [unit_rows(s.signals - c) for s, c in zip(pair, centres, strict=True)]
        pairing = mutual_neighbours(*joint, 10)
        centres = [mass @ s.signals for mass, s in zip(masses(pairing), pair, strict=True)]
    assert same_pairing(found.pairing, pairing)
    for one, other in zip(found.centres, centres, strict=True):
        assert one == pytest.approx(other)
    assert found.support == pytest.approx(max(c.mean() for c in row_confidence(joint)))
    few = refine(*pair, n_steps=2, n_anchors=4)
    assert few.start == "offset"
    assert few.pairing.nnz < found.pairing.nnz


def test_a_simple_explanation_trusts_all_columns(sides, monkeypatch):
    monkeypatch.setattr(refine_module, "_ENOUGH_SUPPORT", 0)  # the offset always does
    found = refine(*sides)
    assert found.start == "offset"
    assert found.correspondence.share == 1
    assert found.correspondence.weights.tolist() == [1] * 40


def test_data_left_as_they_are(rng):
    pair = side(rng.randn(150, 12)), side(rng.randn(120, 12) + 0.5)
    found = refine(*pair)
    assert found.start == "as is"
    assert found.correspondence.share == 1
    assert (found.correspondence.weights == 1).all()
    joint = [unit_rows(s.signals - middle(pair)) for s in pair]
    assert same_pairing(found.pairing, mutual_neighbours(*joint, 10))
    for centre in found.centres:
        assert centre == pytest.approx(middle(pair))
    assert found.support == pytest.approx(max(c.mean() for c in row_confidence(joint)))
    assert found.history[-1]["start"] == "as is"


def test_columns_that_look_alike(rng):
    spread = np.array([1.0, 2, 3, 4, 5])
    x = rng.randn(300, 5) * spread
    for factors, alike in (
        (spread, True),
        (10 * spread, True),
        (0.01 * spread, True),
        ([1, 2, 3, 5, 4], True),  # a rank correlation of 0.9
        ([2, 1, 3, 5, 4], True),  # 0.8
        ([1, 4, 3, 2, 5], False),  # 0.6
        (spread[::-1], False),
    ):
        y = (x / spread)[::-1] * np.array(factors) + 9
        for form in (np.asarray, sp.csr_matrix):
            pair = plain_side(x, form(x)), plain_side(y, form(y))
            assert refine_module._columns_look_alike(pair) == alike
            assert refine_module._column_variances(form(y)) == pytest.approx(y.var(axis=0), rel=1e-4)
    same = np.tile([[1.0], [-1.0]], (4, 3))
    assert not refine_module._columns_look_alike((plain_side(same), plain_side(same)))


def test_trusted_columns_need_no_rotation():
    pair = clusters_pair(300, 300, n_clusters=5, only_x=0, only_y=0, random_state=0)
    found = refine(side(pair.x), side(pair.y))
    assert found.start == "offset"
    assert found.correspondence.share == 1
    assert refine(side(pair.x), side(pair.y), simple=False).start != "offset"


def test_uninformative_features_leave_the_data_alone(rng):
    # Two clouds of pure noise at some distance: nothing says that they should be laid on each other.
    x, y = rng.randn(150, 12), rng.randn(150, 12) + 4
    found = refine(side(x), side(y))
    assert found.significance.p > 0.05
    assert found.start in ("as is", "columns", "harmonics")
    if found.start == "as is":
        assert found.centres[0] == pytest.approx(found.centres[1])


def test_known_pairs_are_a_start(manifold, sides):
    rng = np.random.RandomState(0)
    near = np.linalg.norm(manifold.latent_x[:, None] - manifold.latent_y[None], axis=2).argmin(axis=1)
    rows = rng.permutation(300)[:40]
    noise = tuple(Side(s.components, rng.randn(len(s.components), 10), s.harmonics) for s in sides)
    known = known_pairs(np.c_[rows, near[rows]], 300, 280)
    once = refine(*noise, known=known, n_rounds=1, n_steps=1)
    mapped = [
        unit_rows(m.apply(s.components)) for m, s in zip(component_maps(noise, known), noise, strict=True)
    ]
    assert same_pairing(once.pairing, mutual_neighbours(*mapped, 10, known=known))
    found = refine(*noise, known=known)
    assert found.start == "anchors"
    assert {step["start"] for step in found.history} == {"anchors"}
    pairs = found.pairing.tocoo()
    away = np.linalg.norm(manifold.latent_x[pairs.row] - manifold.latent_y[pairs.col], axis=1)
    chance = np.linalg.norm(manifold.latent_x[:280] - manifold.latent_y, axis=1)
    assert np.median(away) < 0.4 * np.median(chance)


def test_unknown_start(sides):
    with pytest.raises(ValueError, match=r"^starts holds 'middle'; expected 'harmonics' or 'columns'"):
        refine(*sides, starts=("middle",))


def test_spanning_tree_takes_the_best_pairs():
    scores_ = {(0, 1): 0.1, (0, 2): 0.9, (1, 2): 0.8}
    parents, order = spanning_tree(3, scores_, [10, 20, 5])
    assert parents == [2, 2, -1]
    assert order[0] == 2
    parents, order = spanning_tree(2, {(0, 1): 0.5}, [10, 20])
    assert parents == [1, -1]
    assert order == [1, 0]
    assert spanning_tree(2, {(0, 1): 0.0}, [20, 10]) == ([-1, 0], [0, 1])
    assert spanning_tree(3, {(0, 1): 0.2, (1, 2): 0.9}, [5, 1, 9])[0] == [1, -1, 1]
    # Pairs that agree perfectly, or not at all, are pairs nevertheless.
    chain = {(0, 1): 1.0, (1, 2): 0.0, (2, 3): 1.0, (0, 3): 0.5}
    parents, order = spanning_tree(4, chain, [1, 1, 1, 2])
    assert parents == [3, 0, 3, -1]
    assert order[0] == 3
    assert sorted(order) == [0, 1, 2, 3]
    assert order.index(1) > order.index(0)


@pytest.fixture(scope="module")
def chain():
    """Three datasets in a row, each turned, moved and noisy in its own way, and their refinements."""
    rng = np.random.RandomState(0)
    base = rng.randn(120, 4) * [4, 3, 2, 1]
    found = []
    for i, n in enumerate((120, 110, 100)):
        turn = np.linalg.qr(rng.randn(4, 4))[0]
        # The last three signals are smooth but mean something else in each dataset.
        signals = np.c_[base, np.sin(base[:, :3]), 3 * np.sin(base @ rng.randn(4, 3) / 3)][:n]
        signals += 0.2 * rng.randn(n, 10) + i
        found.append(side(base[:n] @ turn + i, signals=signals, k=15))
    pairs = {i: refine(found[i - 1], found[i], simple=False) for i in (1, 2)}
    assert all(0 < r.correspondence.share < 1 for r in pairs.values())
    return found, pairs


def test_joint_space_composes_along_a_chain(rng):
    base = rng.randn(150, 4) * [4, 3, 2, 1]
    turns = [np.linalg.qr(rng.randn(4, 4))[0] for _ in range(3)]
    sides_ = [side(base @ turn + i, signals=base, k=15) for i, turn in enumerate(turns)]
    first, second = refine(sides_[0], sides_[1], simple=False), refine(sides_[1], sides_[2], simple=False)
    space = joint_space(sides_, [-1, 0, 1], [0, 1, 2], {1: first, 2: second})
    z = [space.place_rigidly(i, s.components, s.signals) for i, s in enumerate(sides_)]
    for other in z[1:]:
        same = np.linalg.norm(z[0] - other, axis=1)
        assert np.median(same) < 0.2 * np.median(np.linalg.norm(z[0] - other[::-1], axis=1))


def test_rows_enter_the_joint_space_through_their_parents(chain):
    sides_, pairs = chain
    space = joint_space(sides_, [-1, 0, 1], [0, 1, 2], pairs)
    assert space.parents == (-1, 0, 1)
    # Rows enter their parent's coordinates, and go on from there as the parent's own rows do.
    for i, r in pairs.items():
        rows = sides_[i].components
        within = r.maps[1].apply(rows) - r.maps[0].shift
        assert space.component_maps[i].apply(rows) == pytest.approx(space.component_maps[i - 1].apply(within))
        centres = [space.signal_maps[i - 1 + j].apply(r.centres[j][None]) for j in (0, 1)]
        assert centres[0] == pytest.approx(centres[1], abs=1e-9)
        assert space.signal_maps[i].matrix == pytest.approx(space.signal_maps[0].matrix)
    assert space.component_maps[0].matrix == pytest.approx(np.eye(4))
    # The origin is in the middle of the anchors.
    middles = [space.component_maps[i - 1].apply(-r.maps[0].shift[None]) for i, r in pairs.items()]
    assert np.mean(middles, axis=0) == pytest.approx(np.zeros((1, 4)), abs=1e-9)
    middles = [space.signal_maps[i - 1].apply(r.centres[0][None]) for i, r in pairs.items()]
    assert np.mean(middles, axis=0) == pytest.approx(np.zeros((1, 10)), abs=1e-9)
    weights = np.mean([r.correspondence.weights for r in pairs.values()], axis=0)
    assert np.linalg.norm(space.signal_maps[0].matrix, axis=1) == pytest.approx(weights)
    assert space.balance == pytest.approx(np.mean([r.correspondence.share for r in pairs.values()]) ** 2)
    assert space.bridges == (None, None, None)


def test_joint_space_of_a_star_whatever_the_order(chain):
    sides_, pairs = chain
    back = pairs[1].reversed((sides_[1], sides_[0]))
    star = joint_space(sides_, [1, -1, 1], [1, 2, 0], {0: back, 2: pairs[2]})
    assert star.shifts[1] is None
    for i, r in ((0, back), (2, pairs[2])):
        rows = sides_[i].components
        within = r.maps[1].apply(rows) - r.maps[0].shift
        assert star.component_maps[i].apply(rows) == pytest.approx(star.component_maps[1].apply(within))
        assert star.signal_maps[i].apply(r.centres[1][None]) == pytest.approx(
            star.signal_maps[1].apply(r.centres[0][None]), abs=1e-9
        )
    z = [star.place_rigidly(i, s.components, s.signals) for i, s in enumerate(sides_)]
    flat = [on_planes(rows, rows) for rows in z]
    second, last = np.zeros_like(z[2]), np.zeros_like(z[0])
    for _ in range(2):
        confidence = row_confidence([z[0] + last, z[1], z[2] + second])
        second = second + towards_by_loops(flat[1], confidence[1], flat[2] + second, confidence[2])
        placed, support = np.r_[flat[1], flat[2] + second], np.r_[confidence[1], confidence[2]]
        last = last + towards_by_loops(placed, support, flat[0] + last, confidence[0])
    assert star.shifts[2].displacement == pytest.approx(second, abs=1e-5)
    assert star.shifts[0].displacement == pytest.approx(last, abs=1e-5)
    assert star.shifts[0].places == pytest.approx(z[0])


def test_place_is_rigid_and_then_local(chain):
    sides_, pairs = chain
    space = joint_space(sides_, [-1, 0, 1], [0, 1, 2], pairs)
    one, other = (joint_space(sides_, [-1, 0, 1], [0, 1, 2], pairs, seed).shifts[1] for seed in (0, 3))
    assert np.array_equal(one.displacement, space.shifts[1].displacement)
    assert not np.array_equal(other.displacement, one.displacement)  # samples of rows differ
    for i, s in enumerate(sides_):
        rigid = space.place_rigidly(i, s.components, s.signals)
        q = unit_rows(space.component_maps[i].apply(s.components))
        signals = unit_rows(space.signal_maps[i].apply(s.signals))
        assert rigid == pytest.approx(blend(q, signals, space.balance))
        placed = space.place(i, s.components, s.signals)
        assert placed == pytest.approx(rigid if i == 0 else space.shifts[i].apply(rigid))
        assert np.array_equal(replace(space, shifts=()).place(i, s.components, s.signals), rigid)
    assert space.shifts[0] is None


def towards_by_loops(x, support_x, y, support_y):
    """Displacement of every row of y: its anchors' mean displacement, smoothed over near anchors."""
    pairing = mutual_neighbours(x, y).toarray() * support_x[:, None] ** 4 * support_y**4
    mass = pairing.sum(axis=0)
    anchored = np.flatnonzero(mass)
    moves = np.array([pairing[:, j] @ x / mass[j] - y[j] for j in anchored])
    k = min(len(anchored), min(max(len(y) // 5, 15), 200))
    out = np.zeros_like(y)
    for i, distance in enumerate(cdist(y, y[anchored])):
        near = np.argsort(distance)[:k]
        weights = mass[anchored[near]] * np.exp(-((distance[near] / np.median(distance[near])) ** 2))
        weights /= weights.sum()
        mean = weights @ moves[near]
        spread = weights @ np.sum((moves[near] - mean) ** 2, axis=1) * np.sum(weights**2)
        out[i] = support_y[i] * max(0, 1 - spread / (mean @ mean)) * mean
    return out


@pytest.mark.parametrize(("n_x", "n_y"), [(60, 50), (40, 130), (50, 12), (900, 1100)])
def test_rows_move_towards_their_anchors(rng, n_x, n_y):
    x, y = rng.randn(n_x, 3), rng.randn(n_y, 3) + [0.5, 0, 0]
    support_x, support_y = rng.uniform(0.2, 1, n_x), rng.uniform(0.2, 1, n_y)
    found = _towards_anchors(x, support_x, y, support_y)
    assert found == pytest.approx(towards_by_loops(x, support_x, y, support_y), abs=1e-5)
    assert np.array_equal(_towards_anchors(x, np.zeros(n_x), y, support_y), np.zeros_like(y))


def test_what_chance_explains_does_not_move_rows(rng):
    y = rng.randn(400, 3)
    still, moved = (
        _towards_anchors(rng.randn(400, 3) + offset, np.ones(400), y, np.ones(400))
        for offset in (0, [1.5, 0, 0])
    )
    assert (still == 0).any()
    assert np.linalg.norm(still, axis=1).mean() < 0.1
    assert not (moved == 0).any()
    assert moved[:, 0].mean() > 0.2


def test_a_single_anchor_moves_all_rows(rng):
    y, support = rng.randn(6, 3), rng.uniform(0.2, 1, 6)
    found = _towards_anchors(y[2:3] + [1, 2, 3], np.ones(1), y, support)
    # The nearest row of y is the anchor, and every row follows it as far as it is supported.
    nearest = np.linalg.norm(y - y[2] - [1, 2, 3], axis=1).argmin()
    assert found == pytest.approx(np.outer(support, y[2] + [1, 2, 3] - y[nearest]))


def test_what_signals_lack_is_predicted_from_components(rng):
    n_x, n_y = 80, 60
    components = rng.randn(n_y, 3) * [3, 2, 1] + 5
    truth, wanted = rng.randn(3, 2), rng.randn(n_x, 2)
    rows = rng.permutation(n_x)[:50]
    pairing = sp.csr_matrix((rng.uniform(0.5, 1, 50), (rows, np.arange(50))), shape=(n_x, n_y))
    mapped = rng.randn(n_y, 2)
    wanted[rows] = mapped[:50] + components[:50] @ truth + 7
    found = _bridge(components, mapped, wanted, pairing)
    # Ridge regression with weights, from its normal equations with an intercept that is not shrunk.
    weight = np.asarray(pairing.sum(axis=0)).ravel()[:50]
    weight /= weight.sum()
    x, y = components[:50], wanted[rows] - mapped[:50]
    mean = weight @ x
    penalty = 0.01 * weight @ ((x - mean) ** 2).sum(axis=1) / 3
    design = np.c_[np.sqrt(weight)[:, None] * np.c_[x - mean, np.ones(50)]]
    design = np.r_[design, np.sqrt(penalty) * np.eye(3, 4)]
    target = np.r_[np.sqrt(weight)[:, None] * y, np.zeros((3, 2))]
    solution = np.linalg.lstsq(design, target, rcond=None)[0]
    assert found.apply(components) == pytest.approx(np.c_[components - mean, np.ones(n_y)] @ solution)
    assert found.apply(components) == pytest.approx(components @ truth + 7, abs=0.5)


def test_a_dataset_joins_a_space(chain):
    sides_, pairs = chain
    before = joint_space(sides_[:2], [-1, 0], [0, 1], {1: pairs[1]})
    placed = np.vstack([before.place(i, s.components, s.signals) for i, s in enumerate(sides_[:2])])
    r = pairs[2]
    assert r.correspondence.weights.min() < 1
    after = before.joined_by(sides_[2], 1, sides_[1], r, placed, 3)
    assert after.parents == (-1, 0, 1)
    assert after.component_maps[:2] == before.component_maps
    assert after.shifts[:2] == before.shifts
    rows = sides_[2].components
    within = r.maps[1].apply(rows) - r.maps[0].shift
    assert after.component_maps[2].apply(rows) == pytest.approx(before.component_maps[1].apply(within))
    assert after.signal_maps[2].apply(r.centres[1][None]) == pytest.approx(
        before.signal_maps[1].apply(r.centres[0][None]), abs=1e-9
    )
    trusted = r.correspondence.weights[:, None] * before.signal_maps[1].matrix
    assert after.signal_maps[2].matrix == pytest.approx(trusted)
    own, wanted = (
        after.signal_maps[2].apply(sides_[2].signals),
        before.signal_maps[1].apply(sides_[1].signals),
    )
    bridge = _bridge(rows, own, wanted, r.pairing)
    assert after.bridges[:2] == (None, None)
    assert after.bridges[2].apply(rows) == pytest.approx(bridge.apply(rows))
    z = after.place_rigidly(2, rows, sides_[2].signals)
    signals = unit_rows(own + bridge.apply(rows))
    expected = blend(unit_rows(after.component_maps[2].apply(rows)), signals, before.balance)
    assert z == pytest.approx(expected)
    assert after.shifts[2].places == pytest.approx(z)
    flat, there, move = on_planes(z, z), on_planes(placed, placed), np.zeros_like(z)
    for _ in range(2):
        support = row_confidence([placed, z + move], random_state=3)
        move = move + towards_by_loops(there, support[0], flat + move, support[1])
    assert after.shifts[2].displacement == pytest.approx(move, abs=1e-5)
    # Signals that are trusted wholly leave nothing to predict.
    full = replace(r, correspondence=replace(r.correspondence, weights=np.ones(10)))
    whole = before.joined_by(sides_[2], 1, sides_[1], full, placed, 0)
    assert whole.bridges == (None, None, None)
    assert whole.signal_maps[2].matrix == pytest.approx(before.signal_maps[1].matrix)


def test_placing_by_torch(chain):
    torch = pytest.importorskip("torch")
    cpu_device = torch.device("cpu")
    sides_, pairs = chain
    before = joint_space(sides_[:2], [-1, 0], [0, 1], {1: pairs[1]})
    placed = np.vstack([before.place(i, s.components, s.signals) for i, s in enumerate(sides_[:2])])
    space = before.joined_by(sides_[2], 1, sides_[1], pairs[2], placed, 0)
    for form in (np.asarray, sp.csr_matrix):
        for i, s in enumerate(sides_):
            expected = space.place(i, s.components, s.signals)
            found = space.place_on(cpu_device, i, s.components, form(s.signals)).numpy()
            # Single precision may prefer another of two equally near places.
            assert np.median(np.abs(found - expected)) < 1e-5
            assert np.mean(np.abs(found - expected).max(axis=1) > 1e-3) < 0.05
    rigid = replace(space, shifts=()).place_on(cpu_device, 1, sides_[1].components, sides_[1].signals)
    expected = space.place_rigidly(1, sides_[1].components, sides_[1].signals)
    assert rigid.numpy() == pytest.approx(expected, abs=1e-5)
    rigid = replace(space, shifts=())
    for i in (0, 2):
        on = rigid.place_on(torch.device("meta"), i, sides_[i].components, sides_[i].signals)
        assert on.device.type == "meta"


def test_linear_map_by_torch(rng):
    torch = pytest.importorskip("torch")
    m = LinearMap(rng.randn(4, 2), rng.randn(2))
    rows = rng.randn(5, 4)
    for form in (np.asarray, sp.csr_matrix):
        assert m.apply_on(torch.device("cpu"), form(rows)).numpy() == pytest.approx(m.apply(rows), abs=1e-5)
        assert m.apply_on(torch.device("meta"), form(rows)).device.type == "meta"


def test_pooled_correspondence_of_several_pairs(chain):
    first, second = chain[1].values()
    pooled = pooled_correspondence([first, second])
    one, two = first.correspondence, second.correspondence
    for name in ("scores", "weights", "energy", "share"):
        assert getattr(pooled, name) == pytest.approx((getattr(one, name) + getattr(two, name)) / 2)
    expected = [min(1, 2 * min(p, q)) for p, q in zip(one.p_values, two.p_values, strict=True)]
    assert pooled.p_values == pytest.approx(expected)
    assert pooled_correspondence([first]).p_values == pytest.approx(one.p_values)
    doubtful = replace(first, correspondence=replace(one, p_values=np.full(10, 0.7)))
    assert (pooled_correspondence([doubtful, doubtful]).p_values == 1).all()


def test_local_shift_moves_towards_its_displacement(rng):
    places = rng.randn(100, 3)
    shift = LocalShift(places, np.tile([1.0, 0, 0], (100, 1)))
    assert shift.apply(places) == pytest.approx(places + [1, 0, 0])
    moves, rows = rng.randn(100, 3), rng.randn(20, 3)
    for n in (100, 3):
        found = LocalShift(places[:n], moves[:n]).apply(rows)
        for row, moved in zip(rows, found, strict=True):
            distance = np.linalg.norm(places[:n] - row, axis=1)
            near = np.argsort(distance)[:5]
            weights = np.exp(-((distance[near] / distance[near].max()) ** 2))
            assert moved == pytest.approx(row + weights @ moves[near] / weights.sum(), abs=1e-5)


def test_weights_where_the_scale_is_zero():
    weights = _gaussian(np.array([[0.0, 0.5, 2.0], [0.0, 0.5, 1e200]]), np.array([[0.0], [0.5]]))
    assert weights == pytest.approx(np.array([[1, 0, 0], [1, np.exp(-1), 0]]))


def test_local_shift_where_places_coincide():
    shift = LocalShift(np.zeros((5, 2)), np.arange(10.0).reshape(5, 2))
    assert shift.apply(np.zeros((1, 2))) == pytest.approx(np.array([[4.0, 5.0]]))
    # Places at distance 0 take all where the farthest considered is there as well.
    shift = LocalShift(
        np.r_[np.zeros((5, 2)), np.ones((1, 2))], np.r_[np.ones((5, 2)), np.full((1, 2), 99.0)]
    )
    assert shift.apply(np.zeros((1, 2))) == pytest.approx(np.ones((1, 2)))


def test_linear_map_takes_sparse_rows(rng):
    m = LinearMap(rng.randn(4, 2), rng.randn(2))
    rows = rng.randn(5, 4)
    assert m.apply(sp.csr_matrix(rows)) == pytest.approx(m.apply(rows))


def test_confidence_tells_rows_without_counterpart(rng):
    x = np.r_[rng.randn(150, 3), rng.randn(50, 3) + 8]
    y = rng.randn(120, 3)
    of_x, of_y = row_confidence([x, y])
    assert of_x[150:].max() < of_x[:150].mean() / 2
    assert of_y.mean() > 0.8
    assert row_confidence([x])[0].tolist() == [1.0] * 200


def test_permutation_test_is_calibrated_and_has_power(sides):
    hx, hy, a, b = spectra(sides)
    assert permutation_test(hx, hy, a, b).p < 0.01
    rng = np.random.RandomState(0)
    wrong = [permutation_test(hx, hy, a, b[:, np.roll(rng.permutation(40), 1)]).p for _ in range(40)]
    assert np.mean(np.array(wrong) < 0.05) <= 0.2
    few = permutation_test(hx, hy, a[:, :2], b[:, :2])
    assert few.p == 1
    assert "p = 1" in str(few)


def test_permutation_test_is_what_it_says(sides):
    hx, hy, a, b = spectra(sides)
    found = permutation_test(hx, hy, a, b)
    bands = bandlimiting_weights(hx.frequencies, hy.frequencies, 8)

    def unit(h, s):
        return s / np.linalg.norm(h.frequencies[:, None] * s, axis=0)

    observed = np.linalg.norm(bands * (unit(hx, a) @ unit(hy, b).T), "nuc")
    assert found.observed == pytest.approx(observed)
    assert len(found.null) == 30
    assert found.z == pytest.approx((observed - found.null.mean()) / found.null.std(ddof=1))
    assert found.p == pytest.approx(stats.t.sf(found.z / np.sqrt(31 / 30), 29))
    assert str(found).startswith(f"z = {found.z:.1f}, p = ")
    # The scale of a signal does not count, and neither do signals that hardly vary in one dataset.
    scaled = permutation_test(hx, hy, 1e-9 * a * np.linspace(1, 9, 40), b)
    assert scaled.null == pytest.approx(found.null)
    for tiny, same in ((0, True), (1e-12, True), (1e-6, False)):
        more = np.c_[a, tiny * a[:, :1]], np.c_[b, b[:, 1:2]]
        assert (permutation_test(hx, hy, *more).observed == pytest.approx(observed)) == same
        assert (permutation_test(hy, hx, *more[::-1]).observed == pytest.approx(observed)) == same


def test_options_of_the_permutation_test(sides):
    hx, hy, a, b = spectra(sides)
    found = permutation_test(hx, hy, a, b)
    assert np.array_equal(found.null, permutation_test(hx, hy, a, b, random_state=0).null)
    assert not np.allclose(found.null, permutation_test(hx, hy, a, b, random_state=1).null)
    more = permutation_test(hx, hy, a, b, n_permutations=50)
    assert more.null[:30] == pytest.approx(found.null)
    assert len(more.null) == 50
    assert permutation_test(hx, hy, a, b, n_bands=8).observed == pytest.approx(found.observed)
    assert permutation_test(hx, hy, a, b, n_bands=2).observed > 1.02 * found.observed


def test_features_are_ordered_by_their_smoothness_in_both_datasets(sides, monkeypatch):
    hx, hy, a, b = spectra(sides)
    orders = []

    def record(order, rng):
        orders.append(order)
        return rng.permutation(order)

    monkeypatch.setattr(significance_module, "_shuffled", record)
    permutation_test(hx, hy, a, b, n_permutations=3)
    mean = sum(h.eigenvalues**h.exponent @ (s**2 / (s**2).sum(axis=0)) for h, s in ((hx, a), (hy, b)))
    assert [order.tolist() for order in orders] == [np.argsort(mean).tolist()] * 3


@pytest.mark.parametrize("d", [0, 2])
def test_too_few_features_to_permute(sides, d):
    hx, hy, a, b = spectra(sides)
    found = permutation_test(hx, hy, a[:, :d], b[:, :d])
    assert (found.z, found.p, found.observed, found.null.size) == (0, 1, 0, 0)
    assert permutation_test(hx, hy, a[:, :3], b[:, :3]).null.size == 30


def test_features_that_are_all_alike_prove_nothing(sides):
    hx, hy, a, b = spectra(sides)
    found = permutation_test(hx, hy, np.tile(a[:, :1], 5), np.tile(b[:, :1], 5))
    assert abs(found.z) < 0.1
    assert found.p == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("d", "blocks"),
    [
        (3, [3]),
        (6, [6]),
        (11, [11]),
        (12, [6, 6]),
        (43, [6] * 6 + [7]),
        (125, [6] * 19 + [11]),
        (200, [10] * 20),
    ],
)
def test_features_change_places_with_features_of_like_smoothness(d, blocks):
    order = np.random.RandomState(1).permutation(d)
    place = np.argsort(order)
    shifts = set()
    for seed in range(12):
        found = _shuffled(order, np.random.RandomState(seed))
        assert sorted(found) == list(range(d))
        left, cycles = set(range(d)), []
        while left:
            cycle = [left.pop()]
            while found[cycle[-1]] != cycle[0]:
                cycle.append(int(found[cycle[-1]]))
            left -= set(cycle)
            cycles.append(cycle)
        assert sorted(map(len, cycles)) == sorted(blocks)
        for cycle in cycles:  # neighbours in the order of smoothness, which is closed to a circle
            places = np.sort(place[cycle])
            gaps = np.diff(np.r_[places, places[0] + d])
            assert np.sum(gaps > 1) <= 1
        shifts.add(tuple(sorted(map(min, cycles))))
    assert len(shifts) > 1 or len(blocks) == 1


def test_false_discovery():
    p = np.r_[np.full(10, 1e-5), np.linspace(0.05, 1, 90)]
    assert false_discovery(p)[:10].all()
    assert not false_discovery(p)[10:].any()
    assert false_discovery([0.05]).tolist() == [True]
    assert false_discovery([0.0501]).tolist() == [False]
    assert false_discovery([0.0501], rate=0.1).tolist() == [True]


def test_links_keep_the_best_of_each_signal():
    links = sp.csr_matrix([[5, 1, 0], [0, 2, 0], [4, 0, 0]])
    x, y = link_signals(links, np.zeros((4, 3)), np.zeros((5, 3)))
    assert list(zip(x.tolist(), y.tolist(), strict=True)) == [(0, 0), (1, 1), (2, 0)]
    for bad, message in [
        (np.ones((2, 3)), "shape"),
        (-np.ones((3, 3)), "not negative"),
        (np.zeros((3, 3)), "no link"),
        (np.full((3, 3), np.nan), "finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            link_signals(bad, np.zeros((4, 3)), np.zeros((5, 3)))
    with pytest.raises(ValueError, match="two datasets"):
        link_signals(links, *[np.zeros((4, 3))] * 3)


@pytest.mark.parametrize("shape", [(50, 20), (20, 50), (400, 350)])
def test_leading_axes(rng, shape):
    x = rng.randn(*shape) * np.exp(-np.arange(shape[1]) / 3)
    axes = leading_axes(x, 5)
    expected = np.linalg.svd(x, full_matrices=False)[2][:5].T
    assert axes @ axes.T == pytest.approx(expected @ expected.T, abs=1e-6)


def test_reduction_of_sparse_rows(rng):
    x = sp.random(120, 40, density=0.2, format="csr", random_state=rng)
    _, dense_rows = reduce_rows(x.toarray(), 5)
    sparse_map, sparse_rows = reduce_rows(sp.csr_matrix(x), 5)
    assert np.abs(sparse_rows) == pytest.approx(np.abs(dense_rows), abs=1e-6)
    assert sparse_map.apply(sp.csr_matrix(x[:3])) == pytest.approx(sparse_rows[:3])
    assert reduce_rows(x.toarray(), None)[1] == pytest.approx(x.toarray())


def test_unit_rows_leave_zeros(rng):
    rows = np.r_[rng.randn(3, 2), 1e-3 * rng.randn(1, 2), np.zeros((1, 2))]
    assert np.linalg.norm(unit_rows(rows), axis=1) == pytest.approx([1, 1, 1, 1, 0])
