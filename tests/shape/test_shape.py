"""Alignment by shape alone."""

import itertools
import re

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

from harmonicalign import AlignmentWarning, ShapeAlignment
from harmonicalign.metrics import foscttm
from harmonicalign.shape.config import ShapeConfig
from harmonicalign.shape.geometry import _hops, describe, rank_distances
from harmonicalign.shape.search import difference
from harmonicalign.shape.starts import starting_plans
from harmonicalign.shape.transport import balanced, flat_plan, improve, relative_loss

QUICK = ShapeConfig(n_coarse=60, n_draws=1, rounds=25)


def lopsided(n=120, seed=0):
    """Three clusters of different sizes and widths at different distances: no symmetry."""
    rng = np.random.default_rng(seed)
    kind = rng.permutation(np.repeat([0, 1, 2], [n // 2, n // 3, n - n // 2 - n // 3]))
    centre = np.array([[0, 0, 0], [5, 0, 0], [5, 12, 0]])[kind]
    width = np.array([[2.0, 0.5, 0.2], [0.6, 1.5, 0.3], [1.0, 1.0, 3.0]])[kind]
    return centre + width * rng.normal(size=(n, 3)), kind


def turned(x, seed=1):
    """The same shape in other columns."""
    rng = np.random.default_rng(seed)
    return x @ np.linalg.qr(rng.normal(size=(x.shape[1] + 2, x.shape[1])))[0].T * 7 + 3


def ring(n, seed, turn=0.0):
    """A circle, which fits onto itself in every rotation."""
    angle = np.random.default_rng(seed).permutation(np.linspace(0, 2 * np.pi, n, endpoint=False)) + turn
    return np.column_stack([np.cos(angle), np.sin(angle)])


@pytest.fixture(scope="module")
def fitted():
    x, _ = lopsided()
    order = np.random.default_rng(5).permutation(len(x))
    return x, order, ShapeAlignment(random_state=0, config=QUICK).fit([x, turned(x)[order]])


def test_a_dataset_finds_itself_in_other_columns(fitted):
    _, order, model = fitted
    zx, zy = model.embedding_
    assert model.aligned_
    assert "aligned by shape" in str(model.verdict_)
    assert foscttm(zx[order], zy) < 0.03
    assert model.verdict_.loss < 0.02
    assert model.verdict_.ratio > 1.5
    pairs = model.pairs_
    assert len(pairs) > 60
    assert np.mean(pairs[:, 0] == order[pairs[:, 1]]) > 0.5


def test_alternatives_are_sorted_and_differ_from_each_other(fitted):
    _, _, model = fitted
    losses = [s.loss for s in model.alternatives_]
    assert losses == sorted(losses)
    assert model.alternatives_[0].differs == 0
    x, y = (side.geometry for side in model._sides)
    for one, other in itertools.combinations(model.alternatives_, 2):
        np.testing.assert_allclose(one.plan.sum(axis=0), 1 / one.plan.shape[1], rtol=1e-3)
        np.testing.assert_allclose(one.plan.sum(axis=1), 1 / one.plan.shape[0], rtol=0.02)
        assert difference(x, y, one.plan, other.plan) >= QUICK.same
    last = len(losses) - 1
    assert last > 0
    assert not np.allclose(model.embedding_of(last)[0], model.embedding_[0])


def test_a_symmetric_shape_is_refused():
    with pytest.warns(AlignmentWarning, match="shape cannot tell which of several solutions is right"):
        model = ShapeAlignment(random_state=0, config=QUICK).fit([ring(90, 0), ring(90, 1, 0.5)])
    assert not model.aligned_
    assert model.verdict_.ratio < 1.5
    assert model.verdict_.differs > 0.25
    assert [z.shape[0] for z in model.embedding_] == [90, 90]


def test_noise_is_refused():
    x, _ = lopsided()
    noise = np.random.default_rng(3).normal(size=(100, 8))
    with pytest.warns(AlignmentWarning, match=r"the alignment is refused: .* HarmonicAlignment"):
        model = ShapeAlignment(random_state=0, config=QUICK).fit([x, noise])
    assert not model.aligned_


def test_rows_beyond_the_landmarks_are_placed_near_their_neighbours():
    x, kind = lopsided(160)
    order = np.random.default_rng(5).permutation(len(x))
    y = turned(x)[order]
    model = ShapeAlignment(random_state=0, config=QUICK, n_landmarks=100).fit({"a": x, "b": y})
    assert [len(rows) for rows in model.landmarks_] == [100, 100]
    zx, zy = model.embedding_
    assert zx.shape[0] == zy.shape[0] == 160
    nearest = ((zx[:, None] - zy[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert np.mean(kind == kind[order][nearest]) > 0.9
    np.testing.assert_allclose(model.transform(x[:30], dataset="a"), zx[:30], atol=1e-5)
    moved = model.transform(y[:30] + 1e-4, dataset="b")
    assert np.linalg.norm(moved - zy[:30]) < 0.3 * np.linalg.norm(zy[:30])


def test_forms_of_input():
    x, _ = lopsided(60)
    y = turned(x)[:, :3]
    batch = np.tile(["a", "b"], 60)
    stacked = np.empty((120, 3))
    stacked[::2], stacked[1::2] = x, y
    model = ShapeAlignment(random_state=0, config=QUICK)
    whole = model.fit_transform(stacked, batch=batch)
    apart = model.fit_transform({"a": x, "b": y})
    assert model.keys_ == ["a", "b"]
    np.testing.assert_allclose(whole[::2], apart["a"])
    np.testing.assert_allclose(whole[1::2], apart["b"])


def test_one_seed_gives_one_result_and_progress_tells_of_the_stages(capsys):
    x, _ = lopsided(80)
    y = turned(x)[::-1]
    config = ShapeConfig(n_coarse=60, n_draws=2, rounds=10)
    one, other = (ShapeAlignment(random_state=4, config=config, verbose=True).fit([x, y]) for _ in range(2))
    np.testing.assert_array_equal(one.embedding_[0], other.embedding_[0])
    told = capsys.readouterr().err
    assert "starts on 60 rows, draw 2" in told
    assert re.search(r"about \d+ s left", told)
    assert set(one.timings_) >= {
        "shape of dataset 0",
        "shape of dataset 1",
        "solution 1 of " + str(len(one.alternatives_)),
    }


@pytest.mark.parametrize(
    ("datasets", "options", "message"),
    [
        ([np.ones((60, 2))], {}, "there is one; give two"),
        ([np.ones((60, 2))] * 3, {}, "there are 3; align each"),
        ([np.eye(60), np.eye(49)], {}, "dataset 1 has 49 rows; fewer than 50"),
        ([np.eye(60), np.ones((60, 2))], {}, "all rows of dataset 1 are equal"),
        (
            [np.eye(60), np.eye(60)],
            {"signals": [np.eye(60)] * 2},
            r"would not use signals, .* HarmonicAlignment",
        ),
        ([np.eye(60), np.eye(60)], {"anchors": [[0, 0]]}, "would not use anchors"),
    ],
)
def test_what_is_refused(datasets, options, message):
    with pytest.raises(ValueError, match=message):
        ShapeAlignment(config=QUICK).fit(datasets, **options)


def test_parameters_that_are_refused(fitted):
    x, _ = lopsided(60)
    for parameters, message in [
        ({"n_landmarks": 20}, "n_landmarks must be between 50 and 5000"),
        ({"n_pca": 0}, "n_pca must be >= 1"),
        ({"config": "fast"}, "config is 'fast'; expected a ShapeConfig"),
    ]:
        with pytest.raises(ValueError, match=message):
            ShapeAlignment(**parameters).fit([x, x])
    _, _, model = fitted
    with pytest.raises(ValueError, match="alternative must be between 0 and"):
        model.embedding_of(99)
    with pytest.raises(ValueError, match="X has 2 columns; dataset 0 has 3"):
        model.transform(np.ones((4, 2)), dataset=0)
    with pytest.raises(ValueError, match="dataset names 'c'"):
        model.transform(x, dataset="c")


# --- stages -------------------------------------------------------------------------------------------------


def test_ranks_of_distances():
    distances = np.array([[0, 3, 1], [3, 0, 2], [1, 2, 0.0]])
    np.testing.assert_allclose(
        rank_distances(distances), np.array([[0, 3, 1], [3, 0, 2], [1, 2, 0]]) / 3, rtol=1e-6
    )


def test_hops_are_shortest_paths_on_a_graph_in_one_piece():
    x = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0, 0], [30, 0]], 30, axis=0)
    distances = np.linalg.norm(x[:, None] - x, axis=2)
    hops = _hops(distances, 3)
    assert np.isfinite(hops).all()
    # One edge is one hop, and a row's nearest row is a neighbour.
    np.testing.assert_array_equal(hops, shortest_path(hops == 1, unweighted=True, directed=False))
    nearest = (distances + 99 * np.eye(60)).argmin(axis=1)
    assert (hops[np.arange(60), nearest] == 1).all()
    assert hops.max() > 1


def plain_loss(x, y, plan):
    """Sum over all quadruples, from matrices rebuilt from their factors."""
    total = 0.0
    for k in range(len(x.kinds)):
        cx, cy = (
            (g.vectors[:, g.kinds[k]] * g.values[g.kinds[k]]) @ g.vectors[:, g.kinds[k]].T for g in (x, y)
        )
        for i, j in itertools.product(range(len(cx)), range(len(cy))):
            total += plan[i, j] * np.sum((cx[i][:, None] - cy[j][None]) ** 2 * plan)
    return total / len(x.kinds)


def test_the_loss_is_that_of_gromov_and_wasserstein():
    x, _ = lopsided(24)
    y = np.random.default_rng(2).normal(size=(20, 4))
    config = ShapeConfig(n_neighbors=(4,), n_harmonics=6)
    gx, gy = (describe(rows, config, "it", 0)[0].rows(np.arange(len(rows))) for rows in (x, y))
    plan = improve(gx, gy, flat_plan(gx, gy), rate=0.02, rounds=5, n_balance=20)
    expected = plain_loss(gx, gy, plan) / plain_loss(gx, gy, flat_plan(gx, gy))
    assert relative_loss(gx, gy, plan) == pytest.approx(expected, rel=1e-3)
    ot = pytest.importorskip("ot", reason="an independent computation needs POT")
    own = gx.alone(0), gy.alone(0)
    cx, cy = ((g.vectors * g.values) @ g.vectors.T for g in own)
    constant, hx, hy = ot.gromov.init_matrix(cx, cy, plan.sum(axis=1), plan.sum(axis=0), "square_loss")
    theirs = ot.gromov.gwloss(constant, hx, hy, plan)
    flat = ot.gromov.gwloss(constant, hx, hy, flat_plan(*own))
    assert relative_loss(*own, plan) == pytest.approx(theirs / flat, rel=1e-2)


def test_each_step_keeps_the_mass_and_lowers_the_loss():
    x, _ = lopsided(60)
    config = ShapeConfig()
    gx, gy = describe(x, config, "x", 0)[0], describe(turned(x), config, "y", 0)[0]
    plan, losses = flat_plan(gx, gy), []
    for _ in range(6):
        plan = improve(gx, gy, plan, rate=0.01, rounds=2, n_balance=20)
        losses.append(relative_loss(gx, gy, plan))
        np.testing.assert_allclose(plan.sum(axis=0), 1 / 60, rtol=1e-4)
    assert np.all(np.diff(losses) < 1e-4)
    assert losses[-1] < 0.1


def test_balanced_plans_have_uniform_sides():
    weights = np.random.default_rng(0).uniform(size=(7, 5))
    plan = balanced(weights, 200)
    np.testing.assert_allclose(plan.sum(axis=1), 1 / 7)
    np.testing.assert_allclose(plan.sum(axis=0), 1 / 5)


def test_starts_hold_every_order_and_sign_of_the_harmonics():
    x, _ = lopsided(50)
    gx = describe(x, ShapeConfig(start_rounds=1), "x", 0)[0]
    names = [name for name, _ in starting_plans(gx, gx, ShapeConfig(start_rounds=1))]
    assert len(names) == len(set(names)) == 1 + 5 + 48
    assert "harmonics +0 +1 +2" in names
