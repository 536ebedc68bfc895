"""The refinement of one pair, from its starts to its maps."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score
from two_sides import plain_side, side, spectra

from harmonicalign.datasets import clusters_pair
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.correspondence import correspondence, learn_rotation
from harmonicalign.evidence.relations import relate
from harmonicalign.evidence.significance import Significance, permutation_test
from harmonicalign.inputs.links import link_signals
from harmonicalign.method import refine as refine_module
from harmonicalign.method.anchors import known_pairs, masses, mutual_neighbours
from harmonicalign.method.maps import Side, blend, component_maps, signal_maps, unit_rows
from harmonicalign.method.refine import _sharper, refine
from harmonicalign.method.space import (
    joint_space,
)
from harmonicalign.paper.bands import bandlimiting_weights
from harmonicalign.paper.reduction import leading_axes, reduce_rows


def test_refinement_lays_the_datasets_on_each_other(manifold, sides):
    found = refine(*sides)
    assert found.start in ("columns", "harmonics", "relations", "again")
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


def test_refinement_with_the_best_of_many_signals(manifold, sides, monkeypatch):
    monkeypatch.setattr("harmonicalign.method.maps.MOST_SIGNALS", 25)
    for start in ("harmonics", "columns"):
        found = refine(*sides, starts=(start,))
        assert {step["start"] for step in found.history} >= {start, "offset"}
        assert roc_auc_score(manifold.corresponds, found.correspondence.scores) > 0.9


def test_centred_spectrum(sides):
    one = sides[0]
    expected = one.harmonics.psi.T @ (one.signals - one.signals.mean(axis=0))
    assert one.spectral() == pytest.approx(expected, abs=1e-9)
    sparse = Side(one.components, sp.csr_matrix(one.signals), one.harmonics)
    assert sparse.spectral() == pytest.approx(expected, abs=1e-9)


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
    axes = signal_maps(sides, found.centres, found.correspondence, 0)
    signals = axes[1].apply(sides[1].signals), axes[0].apply(sides[0].signals)
    expected = component_maps((sides[1], sides[0]), found.pairing.T.tocsr(), signals)
    for one, other in zip(back.maps, expected, strict=True):
        assert one.matrix == pytest.approx(other.matrix)
        assert one.shift == pytest.approx(other.shift)


def test_defaults_of_a_refinement(sides, monkeypatch):
    found = refine(*sides)
    explicit = refine(
        *sides,
        n_bands=8,
        first_band=0,
        n_rounds=2,
        n_steps=3,
        n_anchors=10,
        starts=("harmonics", "columns"),
        last_start="relations",
        n_restarts=3,
        learn_weights=True,
        simple=True,
        random_state=0,
    )
    assert (found.pairing != explicit.pairing).nnz == 0
    assert found.history == explicit.history
    assert np.array_equal(found.significance.null, explicit.significance.null)
    assert np.array_equal(found.correspondence.p_values, explicit.correspondence.p_values)
    steps = [(step["start"], step["step"]) for step in found.history if step["step"] != "weights"]
    first = [
        *[("harmonics", "round")] * 2,
        ("harmonics", "anchors"),
        *[("columns", "round")] * 2,
        ("columns", "anchors"),
        ("offset", "anchors"),
    ]
    assert steps == first
    # Where they end apart, there is a third, and all start again from their weights, in four ways.
    monkeypatch.setattr(refine_module, "_SAME", 1)
    steps = [(s["start"], s["step"]) for s in refine(*sides).history if s["step"] != "weights"]
    assert steps[:7] == first
    assert steps[7:10] == [*[("relations", "round")] * 2, ("relations", "anchors")]
    assert len(steps[10:]) in (36, 36 + 12, 36 + 12 + 12)
    assert steps[10:] == [*[("again", "round")] * 2, ("again", "anchors")] * (len(steps[10:]) // 3)


def middle(sides):
    return (sides[0].signals.mean(axis=0) + sides[1].signals.mean(axis=0)) / 2


def first_anchors(sides, start, n_bands=8):
    """Joint coordinates that each start begins with; fewer signals than axes, so axes change no distance."""
    x, y = sides
    if start == "columns":
        return unit_rows(x.signals - middle(sides)), unit_rows(y.signals - middle(sides))
    if start == "relations":
        weights = relate(x.signals, y.signals).weights()
        return tuple(unit_rows((s.signals - s.signals.mean(axis=0)) * weights) for s in sides)
    hx, hy, a, b = spectra(sides)
    bands = bandlimiting_weights(hx.frequencies, hy.frequencies, n_bands)
    rotation, weights, _ = learn_rotation(bands, hx.frequencies, a, b)
    ex = unit_rows(hx.phi * hx.frequencies)
    ey = unit_rows(hy.phi @ rotation.T * hx.frequencies)
    signals = [unit_rows((s.signals - s.signals.mean(axis=0)) * weights) for s in sides]
    return np.c_[ex, signals[0]], np.c_[ey, signals[1]]


def only(start):
    """Options of a single run."""
    return {"starts": (start,), "last_start": None, "simple": False, "n_restarts": 0}


def significance_of(sides, **options):
    """The permutation test of two datasets."""
    return permutation_test(*spectra(sides), relations=relate(*(s.signals for s in sides)), **options)


def same_pairing(one, other):
    return abs(one - other).max() < 1e-6


@pytest.mark.parametrize("start", ["harmonics", "columns", "relations"])
@pytest.mark.parametrize(("n_anchors", "n_bands"), [(10, 8), (6, 3)])
def test_first_anchors_are_neighbours_in_the_space_of_the_start(sides, start, n_anchors, n_bands):
    options = {**only(start), "n_anchors": n_anchors, "n_bands": n_bands}
    found = refine(*sides, n_rounds=1, n_steps=1, **options)
    joint = first_anchors(sides, start, n_bands)
    assert same_pairing(found.pairing, mutual_neighbours(*joint, n_anchors))
    assert found.start == start


def test_more_steps_go_on_in_the_mapped_components(sides):
    options = {**only("harmonics"), "n_rounds": 1}
    one = refine(*sides, n_steps=1, **options)
    two = refine(*sides, n_steps=2, **options)
    # Before the first round is over nothing is known of the signals, and the map goes by anchors alone.
    maps = component_maps(sides, one.pairing)
    mapped = on_one_scale([m.apply(s.components) for m, s in zip(maps, sides, strict=True)])
    assert same_pairing(two.pairing, mutual_neighbours(*mapped, 10))
    # Columns that are taken to correspond say all that there is to say.
    options["starts"] = ("columns",)
    assert same_pairing(
        refine(*sides, n_steps=2, **options).pairing, refine(*sides, n_steps=1, **options).pairing
    )


def on_one_scale(parts):
    """Rows of few numbers keep their length, by a common scale."""
    return [x / np.median(np.linalg.norm(np.vstack(parts), axis=1)) for x in parts]


def space_of(found, sides):
    """Joint coordinates that follow from what a refinement reports."""
    axes = signal_maps(sides, found.centres, found.correspondence, 0)
    mapped = on_one_scale([m.apply(s.components) for m, s in zip(found.maps, sides, strict=True)])
    return [
        blend(q, unit_rows(a.apply(s.signals)), found.correspondence.share)
        for q, a, s in zip(mapped, axes, sides, strict=True)
    ]


@pytest.mark.parametrize("start", ["harmonics", "columns"])
def test_rounds_go_on_from_the_joint_space(sides, start):
    options = only(start)
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
    assert found.significance.null == pytest.approx(significance_of(sides).null)
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
    options = {**only("harmonics"), "n_rounds": 1, "n_steps": 1}
    found = refine(*sides, **options)
    hx, hy, a, b = spectra(sides)
    few = refine(*sides, n_bands=3, random_state=5, **options)
    test = significance_of(sides, n_bands=3, random_state=5)
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
    options = {**only("harmonics"), "n_rounds": 1, "n_steps": 1}
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
    found = refine(*pair, n_anchors=1, **only("columns"), n_rounds=1, n_steps=1)
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


def worth(step, n_features=40):
    return step["objective"] * step["support"] ** (4 + 100 / n_features)


def chosen_by_rule(found, alike):
    """Which start should have been kept, from the record of all that were tried."""

    def worth_here(step):
        return worth(step, len(found.correspondence.scores))

    ends = [step for step in found.history if step["step"] == "anchors"]
    best = max((step for step in ends if step["start"] in ("harmonics", "columns")), key=worth_here)
    offset = next(step for step in ends if step["start"] == "offset")
    plausible = offset["support"] >= 0.9 * best["support"]
    if found.significance.p > 0.05 and (plausible or alike):
        return "as is"
    if plausible:
        return "offset"
    for later in ("relations", "again"):
        tried = [step for step in ends if step["start"] == later]
        if tried and max(map(worth_here, tried)) > 1.02 * worth_here(best):
            best = max(tried, key=worth_here)
    return best["start"]


def test_runs_start_again_from_the_weights_that_were_learned(sides):
    options = {**only("harmonics"), "n_rounds": 1, "n_steps": 1}
    before = refine(*sides, **options)
    again = refine(*sides, **options | {"n_restarts": 1})
    candidates = []
    for weights in _sharper(before.correspondence.weights):
        joint = [unit_rows((s.signals - c) * weights) for s, c in zip(sides, before.centres, strict=True)]
        candidates.append(mutual_neighbours(*joint, 10))
    ends = [step for step in again.history if step["step"] == "anchors"]
    assert [step["start"] for step in ends] == ["harmonics", *["again"] * 4]
    best = max(range(1, 5), key=lambda i: worth(ends[i]))
    assert worth(ends[best]) > 1.02 * worth(ends[0])
    assert again.start == "again"
    assert again.worth == pytest.approx(worth(ends[best]))
    assert same_pairing(again.pairing, candidates[best - 1])
    # They go on as long as that is worth it; what gains too little is not kept.
    most = refine(*sides, **options | {"n_restarts": 9})
    ends = [worth(step) for step in most.history if step["step"] == "anchors"]
    kept = ends[0]
    for first in range(1, len(ends), 4):
        gained = max(ends[first : first + 4]) > 1.02 * kept
        assert gained == (first + 4 < len(ends))
        kept = max(ends[first : first + 4]) if gained else kept
    assert most.worth == pytest.approx(kept)


@pytest.mark.parametrize(
    ("weights", "half", "quarter"),
    [
        (np.r_[np.full(5, 0.8), np.full(40, 0.1)], [0, 1, 2, 3, 4], [0, 1, 2, 3]),
        (np.full(20, 0.3), [*range(10)], [*range(5)]),
        (np.r_[0, 0, 1.0, 0, 0.5, 0.01, 0.02], [2, 4, 5, 6], [2, 4, 5, 6]),  # four at least
        (np.ones(3), [0, 1, 2], [0, 1, 2]),
    ],
)
def test_weights_to_start_again_from(weights, half, quarter):
    as_they_are, eighth_power, *leading = _sharper(weights)
    assert np.array_equal(as_they_are, weights)
    assert eighth_power == pytest.approx(weights**8)
    for found, expected in zip(leading, (half, quarter), strict=True):
        assert np.flatnonzero(found).tolist() == expected
        assert set(found) <= {0, 1}


def test_a_last_start_from_relations(rng):
    """Few of few columns correspond: no rotation tells them, but how they relate does."""
    factors = rng.randn(4, 16) * (rng.rand(4, 16) < 0.5)
    kinds = [rng.randint(4, size=n) for n in (300, 280)]
    x, y = (np.exp(np.eye(4)[k] @ factors) + 0.2 * rng.randn(len(k), 16) for k in kinds)
    y[:, 6:] = y[:, 6:] @ np.linalg.qr(rng.randn(10, 10))[0]
    pair = side(x), side(y)
    options = {"simple": False, "n_restarts": 0}
    found = refine(*pair, **options)
    tried = {step["start"] for step in found.history}
    assert "relations" not in {step["start"] for step in refine(*pair, **options, last_start=None).history}
    assert tried == {"harmonics", "columns", "relations"}
    assert roc_auc_score(np.arange(16) < 6, found.correspondence.scores) > 0.9
    with pytest.raises(ValueError, match="'relations'"):
        refine(*pair, starts=("columns", "elsewhere"))


def test_support_counts_for_more_where_features_are_few(sides):
    found = replace(refine(*sides), support=0.8)
    for energy, power in ((np.ones(100), 5), (np.ones(25), 8), (np.r_[np.ones(25), np.zeros(75)], 8)):
        few = replace(found, correspondence=replace(found.correspondence, energy=energy, scores=energy))
        assert few.worth == pytest.approx(0.8**power)


def test_nothing_is_learned_again_where_runs_end_alike(sides, monkeypatch):
    ends = [refine(*sides, **only(start)).maps[1] for start in ("harmonics", "columns")]
    q = [unit_rows(m.apply(sides[1].components)) for m in ends]
    cosine = np.sum(q[0] * q[1], axis=1).mean()
    for same, again in ((cosine - 1e-9, False), (cosine + 1e-9, True)):
        monkeypatch.setattr(refine_module, "_SAME", same)
        found = refine(*sides, simple=False)
        assert ("again" in {step["start"] for step in found.history}) == again


def test_nothing_is_learned_again_where_nothing_is_learned_or_needed(sides, monkeypatch):
    monkeypatch.setattr(refine_module, "_SAME", 1)
    even = refine(*sides, learn_weights=False)
    monkeypatch.setattr(refine_module, "_ENOUGH_SUPPORT", 0)  # the offset always does
    for found in (even, refine(*sides)):
        assert "again" not in {step["start"] for step in found.history}


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
    assert refine(x, other).start in ("harmonics", "columns", "relations", "again")


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
    maps = component_maps(noise, known)
    mapped = on_one_scale([m.apply(s.components) for m, s in zip(maps, noise, strict=True)])
    assert same_pairing(once.pairing, mutual_neighbours(*mapped, 10, known=known))
    found = refine(*noise, known=known)
    assert found.start == "anchors"
    assert {step["start"] for step in found.history} == {"anchors"}
    pairs = found.pairing.tocoo()
    away = np.linalg.norm(manifold.latent_x[pairs.row] - manifold.latent_y[pairs.col], axis=1)
    chance = np.linalg.norm(manifold.latent_x[:280] - manifold.latent_y, axis=1)
    assert np.median(away) < 0.4 * np.median(chance)


def test_unknown_start(sides):
    with pytest.raises(
        ValueError, match=r"^starts holds 'middle'; expected 'harmonics', 'columns' or 'relations'$"
    ):
        refine(*sides, starts=("middle",))


def test_confidence_tells_rows_without_counterpart(rng):
    x = np.r_[rng.randn(150, 3), rng.randn(50, 3) + 8]
    y = rng.randn(120, 3)
    of_x, of_y = row_confidence([x, y])
    assert of_x[150:].max() < of_x[:150].mean() / 2
    assert of_y.mean() > 0.8
    assert row_confidence([x])[0].tolist() == [1.0] * 200


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


def test_signals_that_correspond_by_chance_do_not_testify(sides, monkeypatch):
    def with_p(p):
        test = Significance(z=1.0, p=p, observed=1.0, null=np.ones(3))
        monkeypatch.setattr(refine_module, "permutation_test", lambda *_, **__: test)
        return refine(*sides, **only("harmonics"))

    sure, doubtful = with_p(0.05), with_p(0.051)
    for found, expected in ((sure, False), (doubtful, True)):
        alone = component_maps(sides, found.pairing)[1].matrix
        assert np.allclose(found.maps[1].matrix, alone) == expected


def test_what_could_not_be_tested_is_not_held_against_an_alignment(sides, monkeypatch):
    def with_null(null):
        test = Significance(z=0.0, p=1.0, observed=0.0, null=null)
        monkeypatch.setattr(refine_module, "permutation_test", lambda *_, **__: test)
        return refine(*sides)

    monkeypatch.setattr(refine_module, "_ENOUGH_SUPPORT", 0)  # the offset always does
    # Too few features for a test, and a test that finds nothing but chance.
    untested, chance = with_null(np.zeros(0)), with_null(np.ones(3))
    assert untested.start == "offset"
    assert "as is" not in {step["start"] for step in untested.history}
    assert chance.start == "as is"
    assert chance.kinship < untested.kinship / 2
