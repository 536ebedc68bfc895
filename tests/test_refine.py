"""Parts of the default method: anchors, correspondence, refinement, joint space, significance."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from harmonicalign import DisconnectedGraphWarning, calibrate, harmonics, kernel_graph
from harmonicalign.anchors import known_pairs, masses, mutual_neighbours
from harmonicalign.bands import bandlimiting_weights
from harmonicalign.confidence import row_confidence
from harmonicalign.correspondence import correspondence, learn_rotation, scores
from harmonicalign.datasets import clusters_pair, swiss_roll
from harmonicalign.links import link_signals
from harmonicalign.reduction import leading_axes, reduce_rows
from harmonicalign.refine import LinearMap, Side, component_maps, refine, unit_rows
from harmonicalign.significance import false_discovery, permutation_test
from harmonicalign.space import LocalShift, joint_space, spanning_tree


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


def test_rows_without_counterpart_stay_unpaired(rng):
    x = np.r_[rng.randn(40, 2), rng.randn(20, 2) + 50]
    pairing = mutual_neighbours(x, rng.randn(40, 2), k=5)
    assert pairing[40:].nnz == 0


def test_known_pairs_exclude_others(rng):
    x, y = rng.randn(30, 2), rng.randn(30, 2)
    known = known_pairs([[0, 29], [0, 29]], 30, 30)
    assert known.nnz == 1
    pairing = mutual_neighbours(x, y, known=known).toarray()
    assert pairing[0, 29] == pytest.approx(1)
    assert pairing[0].sum() == pytest.approx(1)
    assert pairing[:, 29].sum() == pytest.approx(1)
    for bad in ([[0, 30]], [[-1, 0]], [0, 1], [[0.5, 1]], [["a", "b"]]):
        with pytest.raises(ValueError, match="anchors"):
            known_pairs(bad, 30, 30)


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
    assert (nothing.weights == 1).all()
    alone = correspondence(np.eye(len(a)), hx.frequencies, a[:, 1:2], b[:, 1:2], np.random.RandomState(0))
    assert np.isfinite(alone.p_values).all()


def test_component_maps_recover_a_rotation(rng):
    x = rng.randn(200, 5) * [5, 4, 3, 2, 1]
    turn = np.linalg.qr(rng.randn(5, 5))[0]
    y = 0.5 * x @ turn + 7
    maps = component_maps((side(x), side(y)), sp.eye_array(200, format="csr"))
    assert maps[1].apply(y) == pytest.approx(maps[0].apply(x), abs=1e-9)


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


def test_refinement_is_the_same_from_the_other_side(sides):
    found = refine(*sides)
    back = found.reversed((sides[1], sides[0]))
    assert back.alignment.rotation == pytest.approx(found.alignment.rotation.T)
    assert (back.pairing != found.pairing.T).nnz == 0
    assert back.centres[0] == pytest.approx(found.centres[1])
    assert back.kinship == found.kinship


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
    found = refine(*noise, known=known)
    assert found.start == "anchors"
    pairs = found.pairing.tocoo()
    away = np.linalg.norm(manifold.latent_x[pairs.row] - manifold.latent_y[pairs.col], axis=1)
    chance = np.linalg.norm(manifold.latent_x[:280] - manifold.latent_y, axis=1)
    assert np.median(away) < 0.4 * np.median(chance)


def test_unknown_start(sides):
    with pytest.raises(ValueError, match="starts"):
        refine(*sides, starts=("middle",))


def test_spanning_tree_takes_the_best_pairs():
    scores_ = {(0, 1): 0.1, (0, 2): 0.9, (1, 2): 0.8}
    parents, order = spanning_tree(3, scores_, [10, 20, 5])
    assert parents == [2, 2, -1]
    assert order[0] == 2
    parents, order = spanning_tree(2, {(0, 1): 0.5}, [10, 20])
    assert parents == [1, -1]


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


def test_local_shift_moves_towards_its_displacement(rng):
    places = rng.randn(100, 3)
    shift = LocalShift(places, np.tile([1.0, 0, 0], (100, 1)))
    assert shift.apply(places) == pytest.approx(places + [1, 0, 0])


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


def test_false_discovery():
    p = np.r_[np.full(10, 1e-5), np.linspace(0.05, 1, 90)]
    assert false_discovery(p)[:10].all()
    assert not false_discovery(p)[10:].any()


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
    rows = np.r_[rng.randn(3, 2), np.zeros((1, 2))]
    assert np.linalg.norm(unit_rows(rows), axis=1) == pytest.approx([1, 1, 1, 0])
