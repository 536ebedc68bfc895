"""The joint space of several datasets: its maps and axes, what is moved locally, and who joins."""

from dataclasses import replace

import numpy as np
import plain_stages
import pytest
import scipy.sparse as sp
from two_sides import side

from harmonicalign import HarmonicAlignment
from harmonicalign.engines.rows import blend, softened
from harmonicalign.method import DEFAULT, align_pair, joint_space, local_shifts, locally_shifted
from harmonicalign.method.local import Compared, _centred_by_level
from harmonicalign.method.maps import turn, typical_length
from harmonicalign.method.shifts import common_offset, local_centring
from harmonicalign.method.space import (
    _bridge,
    pooled_correspondence,
    reliable_axes,
)

learned = replace(DEFAULT, left_out=("offset",))


@pytest.fixture(scope="module")
def chain():
    """Three datasets in a row, each turned, moved and noisy in its own way, and their alignments."""
    rng = np.random.RandomState(0)
    base = rng.randn(120, 4) * [4, 3, 2, 1]
    found = []
    for i, n in enumerate((120, 110, 100)):
        turn = np.linalg.qr(rng.randn(4, 4))[0]
        # The last three signals are smooth but mean something else in each dataset.
        signals = np.c_[base, np.sin(base[:, :3]), 3 * np.sin(base @ rng.randn(4, 3) / 3)][:n]
        signals += 0.2 * rng.randn(n, 10) + i
        found.append(side(base[:n] @ turn + i, signals=signals, k=15))
    pairs = {i: align_pair(found[i - 1], found[i], learned) for i in (1, 2)}
    assert all(0 < r.correspondence.share < 1 for r in pairs.values())
    return found, pairs


def test_joint_space_composes_along_a_chain(rng):
    base = rng.randn(150, 4) * [4, 3, 2, 1]
    turns = [np.linalg.qr(rng.randn(4, 4))[0] for _ in range(3)]
    sides_ = [side(base @ turn + i, signals=base, k=15) for i, turn in enumerate(turns)]
    first, second = align_pair(sides_[0], sides_[1], learned), align_pair(sides_[1], sides_[2], learned)
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
    assert space.component_maps[0].matrix == pytest.approx(np.eye(4)), "lengths change on the way"
    mapped = [space.component_maps[i].apply(s.components) for i, s in enumerate(sides_)]
    signals = [space.signal_maps[i].apply(s.signals) for i, s in enumerate(sides_)]
    assert space.lengths == pytest.approx((typical_length(mapped), typical_length(signals)))
    # The origin is in the middle of the anchors; a dataset counts by its rows.
    rows = [110, 100]
    middles = [space.component_maps[i - 1].apply(-r.maps[0].shift[None]) for i, r in pairs.items()]
    assert np.average(middles, axis=0, weights=rows) == pytest.approx(np.zeros((1, 4)), abs=1e-9)
    middles = [space.signal_maps[i - 1].apply(r.centres[0][None]) for i, r in pairs.items()]
    assert np.average(middles, axis=0, weights=rows) == pytest.approx(np.zeros((1, 10)), abs=1e-9)
    weights = np.average([r.correspondence.weights for r in pairs.values()], axis=0, weights=rows)
    assert np.linalg.norm(space.signal_maps[0].matrix, axis=1) == pytest.approx(weights)
    share = np.average([r.correspondence.share for r in pairs.values()], weights=rows)
    power = DEFAULT.balance_power
    assert space.balance == pytest.approx(share**power)
    assert space.bridges == (None, None, None)


def test_joint_space_of_a_star_whatever_the_order(chain):
    sides_, pairs = chain
    back = pairs[1].reversed((sides_[1], sides_[0]))
    found = {0: back, 2: pairs[2]}
    star = locally_shifted(joint_space(sides_, [1, -1, 1], [1, 2, 0], found), sides_, found)
    for i, r in ((0, back), (2, pairs[2])):
        rows = sides_[i].components
        within = r.maps[1].apply(rows) - r.maps[0].shift
        assert star.component_maps[i].apply(rows) == pytest.approx(star.component_maps[1].apply(within))
        assert star.signal_maps[i].apply(r.centres[1][None]) == pytest.approx(
            star.signal_maps[1].apply(r.centres[0][None]), abs=1e-9
        )
    z = [star.place_rigidly(i, s.components, s.signals) for i, s in enumerate(sides_)]
    # They meet in the middle of all rows: a dataset goes as much of the way as rows are others'.
    total, meant = sum(map(len, z)), {0: 1 - back.significance.p**3, 2: 1 - pairs[2].significance.p ** 3}
    meant[1] = max(meant.values())
    moves = local_shifts(z, [meant[i] * (total - len(rows)) / total for i, rows in enumerate(z)], 0)
    shifted = [rows + move for rows, move in zip(z, moves, strict=True)]
    centred = local_centring(shifted, [meant[0], meant[1], meant[2]])
    moves = [move + more for move, more in zip(moves, centred, strict=True)]
    for shift, rows, move in zip(star.shifts, z, moves, strict=True):
        assert shift.displacement == pytest.approx(move, abs=1e-9)
        assert shift.places == pytest.approx(rows)


def beside(space, i, s, more=0):
    """Components and signals of one dataset side by side, from their maps."""
    q = softened(space.component_maps[i].apply(s.components), space.lengths[0], DEFAULT.soft_length)
    signals = space.signal_maps[i].apply(s.signals) + more
    return blend(q, softened(signals, space.lengths[1], DEFAULT.soft_length), space.balance)


def test_place_is_rigid_and_then_local(chain):
    sides_, pairs = chain
    rigid = joint_space(sides_, [-1, 0, 1], [0, 1, 2], pairs)
    assert rigid.shifts == ()
    space = locally_shifted(rigid, sides_, pairs)
    one, other = (locally_shifted(rigid, sides_, pairs, seed).shifts[1] for seed in (0, 3))
    assert np.array_equal(one.displacement, space.shifts[1].displacement)
    assert not np.array_equal(other.displacement, one.displacement)  # samples of rows differ
    for i, s in enumerate(sides_):
        rigid = space.place_rigidly(i, s.components, s.signals)
        assert rigid == pytest.approx(space.axes.apply(beside(space, i, s)))
        placed = space.place(i, s.components, s.signals)
        assert placed == pytest.approx(space.shifts[i].apply(rigid))
        assert not np.allclose(placed, rigid)
        assert np.array_equal(replace(space, shifts=()).place(i, s.components, s.signals), rigid)


def test_rows_move_less_the_more_an_alignment_may_be_chance(rng):
    # What differs between the datasets changes along the first direction, so that no linear map removes it.
    base, again = (rng.randn(200, 4) * [6, 2, 2, 1] for _ in range(2))
    bent = again + [0, 4, 0, 0] * np.abs(again[:, :1]) / 6
    sides_ = [side(rows, signals=rows, k=15) for rows in (base, bent)]
    pair = align_pair(*sides_)

    # Of several rounds each starts where the last one ended, so that moves are not in proportion.
    config = replace(DEFAULT, shift_rounds=1, centring_rounds=0)

    def moves(p, tested=True):
        null = np.arange(5.0 if tested else 0.0)
        found = replace(pair, significance=replace(pair.significance, p=p, null=null))
        space = joint_space(sides_, [-1, 0], [0, 1], {1: found}, config=config)
        space = locally_shifted(space, sides_, {1: found}, config=config)
        return [shift.displacement for shift in space.shifts]

    sure, doubtful, untested = moves(0.0), moves(0.75), moves(1.0, tested=False)
    share = 1 - 0.75**3
    assert min(np.abs(move).max() for move in sure) > 1e-3
    for one, other, third in zip(sure, doubtful, untested, strict=True):
        np.testing.assert_allclose(other, share * one, atol=1e-12)
        np.testing.assert_allclose(third, one, atol=1e-12)
    assert not any(move.any() for move in moves(1.0))


def test_what_signals_lack_is_predicted_from_components(rng):
    n_x, n_y = 80, 60
    components = rng.randn(n_y, 3) * [3, 2, 1] + 5
    truth, wanted = rng.randn(3, 2), rng.randn(n_x, 2)
    rows = rng.permutation(n_x)[:50]
    pairing = sp.csr_matrix((rng.uniform(0.5, 1, 50), (rows, np.arange(50))), shape=(n_x, n_y))
    mapped = rng.randn(n_y, 2)
    wanted[rows] = mapped[:50] + components[:50] @ truth + 7
    found = _bridge(components, mapped, wanted, pairing, DEFAULT)
    # Ridge regression with weights, from its normal equations with an intercept that is not shrunk.
    weight = np.asarray(pairing.sum(axis=0)).ravel()[:50]
    weight /= weight.sum()
    x, y = components[:50], wanted[rows] - mapped[:50]
    mean = weight @ x
    penalty = DEFAULT.bridge_ridge * weight @ ((x - mean) ** 2).sum(axis=1) / 3
    design = np.c_[np.sqrt(weight)[:, None] * np.c_[x - mean, np.ones(50)]]
    design = np.r_[design, np.sqrt(penalty) * np.eye(3, 4)]
    target = np.r_[np.sqrt(weight)[:, None] * y, np.zeros((3, 2))]
    solution = np.linalg.lstsq(design, target, rcond=None)[0]
    assert found.apply(components) == pytest.approx(np.c_[components - mean, np.ones(n_y)] @ solution)
    assert found.apply(components) == pytest.approx(components @ truth + 7, abs=0.5)


def test_a_dataset_joins_a_space(chain):
    sides_, pairs = chain
    before = locally_shifted(
        joint_space(sides_[:2], [-1, 0], [0, 1], {1: pairs[1]}), sides_[:2], {1: pairs[1]}
    )
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
    bridge = _bridge(rows, own, wanted, r.pairing, DEFAULT)
    assert after.bridges[:2] == (None, None)
    assert after.bridges[2].apply(rows) == pytest.approx(bridge.apply(rows))
    z = after.place_rigidly(2, rows, sides_[2].signals)
    assert z == pytest.approx(before.axes.apply(beside(after, 2, sides_[2], bridge.apply(rows))))
    assert after.shifts[2].places == pytest.approx(z)
    # First all rows by the same, so that the anchors' middles coincide, and then each by its own.
    move = common_offset(placed, z, 3)
    move = move + local_shifts([placed, z + move], [0, 1], 3)[1]
    move = move + local_centring([placed, z + move], [0, 1])[1]
    assert after.shifts[2].displacement == pytest.approx(move, abs=1e-9)
    # Signals that are trusted wholly leave nothing to predict.
    full = replace(r, correspondence=replace(r.correspondence, weights=np.ones(10)))
    whole = before.joined_by(sides_[2], 1, sides_[1], full, placed, 0)
    assert whole.bridges == (None, None, None)
    assert whole.signal_maps[2].matrix == pytest.approx(before.signal_maps[1].matrix)


def test_a_dataset_is_turned_towards_its_parent(chain):
    sides_, pairs = chain
    turned = {1: replace(pairs[1], turned=True), 2: replace(pairs[2], turned=True)}
    space = joint_space(sides_, [-1, 0, 1], [0, 1, 2], turned)
    assert space.shifts == ()
    u = [beside(space, i, s) for i, s in enumerate(sides_)]
    for i in (1, 2):
        expected = turn(u[i - 1], u[i], DEFAULT)
        np.testing.assert_allclose(space.turns[i].matrix, expected.matrix, atol=1e-9)
        u[i] = expected.apply(u[i])  # a child is turned towards its parent as that was turned
        found = space.place(i, sides_[i].components, sides_[i].signals)
        np.testing.assert_allclose(found, space.axes.apply(u[i]), atol=1e-9)
    np.testing.assert_allclose(space.axes.matrix, reliable_axes(u, DEFAULT).matrix, atol=1e-9)
    assert joint_space(sides_, [-1, 0, 1], [0, 1, 2], pairs).turns == (None,) * 3


def test_a_dataset_that_joins_is_turned_as_well(chain):
    sides_, pairs = chain
    turned = {1: replace(pairs[1], turned=True)}
    before = locally_shifted(joint_space(sides_[:2], [-1, 0], [0, 1], turned), sides_[:2], turned)
    placed = np.vstack([before.place(i, s.components, s.signals) for i, s in enumerate(sides_[:2])])
    after = before.joined_by(sides_[2], 1, sides_[1], replace(pairs[2], turned=True), placed, 0)
    more = after.bridges[2].apply(sides_[2].components)
    parent = before.turns[1].apply(beside(before, 1, sides_[1]))
    expected = turn(parent, beside(after, 2, sides_[2], more), DEFAULT)
    np.testing.assert_allclose(after.turns[2].matrix, expected.matrix, atol=1e-9)
    assert after.turns[:2] == before.turns


@pytest.mark.parametrize(
    "changes", [{}, {"reliability_power": 1.0}, {"reliability_power": 0.0}, {"confidence_neighbours": 3}]
)
def test_axes_are_as_reliable_as_it_says(rng, changes):
    config = replace(DEFAULT, **changes)
    parts = [rng.randn(40, 4) * [4, 3, 2, 1], rng.randn(30, 4) * [4, 3, 1, 1] + 5]
    parts = [np.c_[rows, np.sin(rows[:, :1])] for rows in parts]
    axes = reliable_axes(parts, config)
    found = np.vstack([axes.apply(rows) for rows in parts])
    expected = np.vstack(plain_stages.reliable(parts, config))
    # Axes turn the rows, which changes no product.
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-8)
    variances = found.var(axis=0)
    assert (np.diff(variances) <= 0).all(), "the axes are not in order"
    np.testing.assert_allclose(found.T @ found, np.diag(variances) * 70, atol=1e-8)
    few = reliable_axes(parts, replace(config, n_components=2))
    np.testing.assert_allclose(few.matrix, axes.matrix[:, :2])


def test_directions_of_noise_shrink_beside_those_of_the_manifold(rng):
    angle = rng.uniform(0, 6, 500)
    rows = np.c_[np.cos(angle), np.sin(angle), 0.3 * rng.randn(500, 6)]
    axes = reliable_axes([rows[:250], rows[250:]], replace(DEFAULT, reliability_power=1.0))
    kept = np.linalg.norm(axes.matrix, axis=1)
    assert kept[:2].min() > 0.9, f"directions of the circle are scaled by {kept[:2]}"
    assert kept[2:].max() < 0.75, f"directions of noise are scaled by {kept[2:]}"


def test_a_difference_between_datasets_makes_no_direction_reliable(rng):
    rows = rng.randn(200, 3)
    moved = [rows[:100], rows[100:] + [0, 0, 9]]
    as_is, apart = (
        np.linalg.norm(reliable_axes(p, DEFAULT).matrix, axis=1) for p in (np.split(rows, 2), moved)
    )
    np.testing.assert_allclose(as_is, apart, atol=0.02)


def test_axes_where_little_or_nothing_varies(rng):
    same = [np.ones((20, 3)), np.ones((15, 3))]
    assert reliable_axes(same, DEFAULT).apply(same[0]) == pytest.approx(np.zeros((20, 3)))
    constant = [np.c_[rng.randn(30, 2), np.ones(30)] for _ in range(2)]
    found = reliable_axes(constant, DEFAULT)
    assert found.matrix.shape == (3, 2), "a direction without any variance has an axis"
    assert np.isfinite(found.matrix).all()


def test_new_rows_between_the_directions_of_the_others_do_not_move_far(rng):
    rows = rng.randn(400, 4)
    parts = [np.c_[rows, rows + 1e-3 * rng.randn(400, 4)][half] for half in (slice(200), slice(200, 400))]
    axes = reliable_axes(parts, DEFAULT)
    new = np.c_[rows, rows + 0.2 * rng.randn(400, 4)]
    assert np.linalg.norm(axes.matrix, ord=2) < 2
    apart = np.linalg.norm(axes.apply(new) - axes.apply(np.vstack(parts)), axis=1)
    assert np.median(apart) < 0.5, "rows that nearly keep to the directions are placed far from their like"


def test_placing_by_torch(chain):
    torch = pytest.importorskip("torch")
    cpu_device = torch.device("cpu")
    sides_, pairs = chain
    before = locally_shifted(
        joint_space(sides_[:2], [-1, 0], [0, 1], {1: pairs[1]}), sides_[:2], {1: pairs[1]}
    )
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


def test_pooled_correspondence_of_several_pairs(chain):
    first, second = chain[1].values()
    pooled = pooled_correspondence([first, second], [300, 100])
    one, two = first.correspondence, second.correspondence
    for name in ("scores", "weights", "energy", "presence", "share"):
        assert getattr(pooled, name) == pytest.approx(0.75 * getattr(one, name) + 0.25 * getattr(two, name))
    expected = [min(1, 2 * min(p, q)) for p, q in zip(one.p_values, two.p_values, strict=True)]
    assert pooled.p_values == pytest.approx(expected)
    assert pooled_correspondence([first], [7]).p_values == pytest.approx(one.p_values)
    doubtful = replace(first, correspondence=replace(one, p_values=np.full(10, 0.7)))
    assert (pooled_correspondence([doubtful, doubtful], [1, 1]).p_values == 1).all()


def test_balance_of_signals_given_apart(rng):
    rows = np.repeat(rng.standard_normal((8, 12)) * 4, 40, axis=0) + rng.standard_normal((320, 12))
    x, y = rows[::2], rows[1::2] + 0.1
    own = HarmonicAlignment(random_state=0).fit([x, y])
    some = HarmonicAlignment(random_state=0).fit([x, y], signals=[x[:, :5], y[:, :5]])
    everything = HarmonicAlignment(random_state=0).fit([x, y], signals=[sp.csr_matrix(x), y.copy()])
    power = DEFAULT.balance_power
    assert own.model_.space.balance == own.share_**power
    assert everything.model_.space.balance == everything.share_**power
    assert some.model_.space.balance == DEFAULT.modality_balance
    assert own.model_.space.bridges == (None, None) != some.model_.space.bridges


def test_differences_are_sought_among_more_rows_than_the_alignment_used(chain):
    sides_, pairs = chain
    rigid = joint_space(sides_, [-1, 0, 1], [0, 1, 2], pairs)
    plain = locally_shifted(rigid, sides_, pairs)
    whole = [Compared(s.components, s.signals, np.zeros(len(s.components))) for s in sides_]
    same = locally_shifted(rigid, sides_, pairs, compared=whole)
    for one, other in zip(plain.shifts, same.shifts, strict=True):
        np.testing.assert_allclose(one.displacement, other.displacement, atol=1e-6)
    few = [replace(s, components=s.components[:40], signals=s.signals[:40]) for s in sides_]
    found = locally_shifted(rigid, few, pairs, compared=whole)
    for i, (shift, s) in enumerate(zip(found.shifts, sides_, strict=True)):
        np.testing.assert_array_equal(shift.places, rigid.place_rigidly(i, s.components, s.signals))


def test_datasets_are_compared_among_rows_of_one_level(rng):
    """Of a level that only one dataset has, nothing is taken off; nor where a row has none."""
    x, y = rng.randn(300, 4), rng.randn(300, 4) + [0.5, 0, 0, 0]
    of_x, of_y = np.repeat([0, 1, -1], [100, 100, 100]), np.repeat([0, 2, -1], [100, 100, 100])
    a, b = _centred_by_level([x, y], [of_x, of_y], [1, 1], DEFAULT)
    alone = local_centring([x[:100], y[:100]], [1, 1])
    np.testing.assert_array_equal(a[:100], alone[0])
    np.testing.assert_array_equal(b[:100], alone[1])
    assert alone[0].any()
    assert not a[100:].any()
    assert not b[100:].any()
