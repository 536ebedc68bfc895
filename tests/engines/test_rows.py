"""Formulas over rows: by loops, and the same for numpy's arrays and torch's tensors."""

import math

import numpy as np
import plain_stages
import pytest

from harmonicalign.engines import Neighbours, rows

torch = pytest.importorskip("torch", reason="torch is not installed")


def on_torch(value):
    """The same as tensors."""
    if isinstance(value, Neighbours):
        return Neighbours(on_torch(value.indices), on_torch(value.distances), value.recall)
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def both(function, *arguments, atol=1e-12):
    """What a function gives for arrays, after checking that it is the same for tensors."""
    arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    theirs = function(*(on_torch(a.copy() if isinstance(a, np.ndarray) else a) for a in arguments))
    ours = function(*arguments)
    assert isinstance(theirs, torch.Tensor)
    assert theirs.numpy().dtype == ours.dtype
    np.testing.assert_allclose(theirs.numpy(), ours, rtol=1e-9, atol=atol)
    return ours


@pytest.fixture
def x(rng):
    x = rng.randn(40, 5)
    x[3] = 0
    x[4] *= 1e6
    return x


def test_the_namespace_is_that_of_the_array(x):
    assert rows.namespace(x) is np
    assert rows.namespace(torch.from_numpy(x)) is torch


def test_unit_rows(x):
    found = both(rows.unit_rows, x)
    np.testing.assert_array_equal(found[3], 0)
    np.testing.assert_allclose(np.linalg.norm(np.delete(found, 3, axis=0), axis=1), 1)
    assert rows.unit_rows(x.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("relative", [0.0, 0.3, 2.0])
def test_long_rows_keep_their_direction_and_short_ones_their_length(x, relative):
    found = both(rows.softened, x, 2.0, relative)
    for row, before in zip(found, x, strict=True):
        expected = plain_stages.softened(before, 2.0, relative)
        np.testing.assert_allclose(row, expected, rtol=1e-12)
    typical = np.array([[2.0, 0.0], [0.0, 1e6], [1e-6, 0.0], [0.0, 0.0]])
    lengths = np.linalg.norm(both(rows.softened, typical, 2.0, relative), axis=1)
    assert lengths[0] == pytest.approx(1), "a row of typical length gets length 1"
    assert lengths[1] == pytest.approx(math.sqrt(1 + relative**2)), "the length of long rows is bounded"
    assert lengths[2] == pytest.approx(
        1 if relative == 0 else 1e-6 / 2 * math.sqrt(1 + 1 / relative**2), rel=1e-6
    )
    assert lengths[3] == 0
    np.testing.assert_allclose(
        rows.softened(10 * x, 20.0, relative), found, rtol=1e-12, err_msg="scale matters"
    )


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_rows_move_to_the_mean_of_themselves_and_their_neighbours(rng, share):
    known = rng.randn(30, 3)
    distances = np.linalg.norm(known[:8, None] - known[None], axis=2)
    indices = np.argsort(distances, axis=1)[:, 1:6]  # the first is the row itself
    distances = np.take_along_axis(distances, indices, axis=1)
    distances[7] = 0  # all neighbours coincide with the row

    found = both(rows.smooth, known[:8], known, Neighbours(indices, distances), share)
    for i in range(8):
        width = distances[i].max()
        weights = np.exp(-((distances[i] / width) ** 2)) if width else np.ones(5)
        mean = (known[i] + weights @ known[indices[i]]) / (1 + weights.sum())
        np.testing.assert_allclose(found[i], (1 - share) * known[i] + share * mean, atol=1e-12)
    single = rows.smooth(known[:8].astype(np.float32), known, Neighbours(indices, distances), share)
    assert single.dtype == np.float32


@pytest.mark.parametrize("balance", [0.0, 0.3, 1.0])
def test_a_blend_of_unit_rows_has_unit_rows(rng, balance):
    q, s = rows.unit_rows(rng.randn(9, 4)), rows.unit_rows(rng.randn(9, 3))
    found = both(rows.blend, q, s, balance)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    np.testing.assert_allclose(
        np.linalg.norm(found[:, :4], axis=1) * balance, (1 - balance) * np.linalg.norm(found[:, 4:], axis=1)
    )


def test_rows_are_displaced_by_the_places_around_them(rng):
    z, displacement = rng.randn(20, 3), rng.randn(8, 3)
    distances = np.sort(rng.uniform(0, 1, (20, 4)), axis=1)
    distances[0] = 0  # on all of the places
    distances[1] = [0, 0, 0, 1e-300]
    indices = rng.randint(8, size=(20, 4))

    def moved(z, displacement):
        near = Neighbours(indices, distances)
        rows.displace(z, displacement, near if isinstance(z, np.ndarray) else on_torch(near))
        return z

    found = both(moved, z, displacement)
    for i in range(20):
        farthest = distances[i, -1]
        weights = [1 / max(d / farthest, 1e-3) ** 2 if farthest > 1e-12 else 1.0 for d in distances[i]]
        move = sum(w * displacement[j] for w, j in zip(weights, indices[i], strict=True)) / sum(weights)
        np.testing.assert_allclose(found[i], z[i] + move)


def test_weights_where_the_scale_is_nothing_or_tiny():
    distances = np.array([[0.0, 0.5, 2.0], [0.0, 0.5, 1e200]])
    found = both(rows.gaussian_weights, distances, np.array([[0.0], [0.5]]))
    np.testing.assert_allclose(found, [[1, 0, 0], [1, math.exp(-1), 0]])


@pytest.mark.parametrize("dimensions", [None, 1.2])
def test_a_projection_keeps_wide_directions_and_drops_narrow_ones(rng, dimensions):
    """By the eigenvectors of each neighbourhood, which the solver never sees."""
    near = rng.randn(6, 12, 5) * [3, 2, 0.1, 0.05, 0.01] + rng.randn(6, 1, 5)
    near[4] = rng.randn(12, 5)  # noise in all directions
    places = near[:, 0] + 0.1 * rng.randn(6, 5)
    near[5] = 1  # all neighbours coincide
    found = both(rows.tangent_projection, near, places, dimensions, atol=1e-7)
    shares = []
    for i in range(6):
        mean = near[i].mean(axis=0)
        spread, axes = np.linalg.eigh((near[i] - mean).T @ (near[i] - mean))
        average = spread.sum() / 12 or 1.0
        kept = (spread / average) ** 4 / ((spread / average) ** 4 + 1)
        expected = mean + axes @ (kept * (axes.T @ (places[i] - mean)))
        inverse = max((spread**2).sum() / (12 * average) ** 2 - 1 / 12, 0)
        shares.append(1.0 if dimensions is None else min(1, dimensions * inverse))
        np.testing.assert_allclose(found[i], places[i] + shares[-1] * (expected - places[i]), atol=1e-7)
    assert dimensions is None or shares[4] < min(shares[:4])


def test_dimensions_in_which_rows_extend(rng):
    assert rows.participation(np.diag([1.0, 1, 1, 0])) == pytest.approx(3)
    assert rows.participation(np.diag([5.0, 0, 0])) == pytest.approx(1)
    assert rows.participation(np.zeros((2, 2))) == 0


@pytest.mark.parametrize("decay", [0.5, 2, 7.5])
def test_kernel_weights_are_the_mean_of_two_decays(rng, decay):
    distances, own, theirs = rng.uniform(0, 3, (9, 4)), rng.uniform(1, 2, (9, 1)), rng.uniform(1, 2, (9, 4))
    before = distances.copy()
    found = both(rows.kernel_weights, distances, own, theirs, decay)
    expected = (np.exp(-((distances / own) ** decay)) + np.exp(-((distances / theirs) ** decay))) / 2
    np.testing.assert_allclose(found, expected)
    np.testing.assert_array_equal(distances, before)
    assert rows.decayed(np.array([1e300]), np.array([1e-300]), decay) == 0


def test_bandwidths_are_never_nothing():
    near = np.array([[0.0, 0.0], [0.0, 3.0], [1.0, 2.0]])
    np.testing.assert_array_equal(both(rows.positive_bandwidths, near), [2, 3, 2])
    np.testing.assert_array_equal(both(rows.positive_bandwidths, near[:1]), [1])


def test_signs_are_settled(rng):
    psi = rng.randn(30, 4)
    found = both(rows.canonical_signs, psi)
    np.testing.assert_array_equal(np.abs(found), np.abs(psi))
    assert (found.max(axis=0) == np.abs(psi).max(axis=0)).all()
    assert rows.canonical_signs(psi[:, :0]).shape == (30, 0)


def test_groups_are_numbered_by_their_mass():
    labels, mass = np.array([0, 0, 1, 2, 2, 2]), np.array([1.0, 1.0, 9.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(rows.heaviest_first(labels, mass), [2, 2, 0, 1, 1, 1])
