import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonicalign import bandlimiting_weights, itersine_windows

eigenvalue = st.floats(0, 1)
bands = st.integers(1, 64)
unhurried = settings(deadline=None)  # a busy machine is no fault


@unhurried
@given(eigenvalue, bands)
def test_equal_eigenvalues_weigh_one(value, n_bands):
    assert bandlimiting_weights([value], [value], n_bands)[0, 0] == pytest.approx(1, abs=1e-12)


@unhurried
@given(eigenvalue, eigenvalue, bands)
def test_distant_eigenvalues_weigh_nothing(a, b, n_bands):
    if abs(a - b) >= 2 / n_bands:
        assert bandlimiting_weights([a], [b], n_bands)[0, 0] == 0


@unhurried
@given(eigenvalue, bands)
def test_window_squares_add_to_one(value, n_bands):
    assert (itersine_windows([value], n_bands) ** 2).sum() == pytest.approx(1, abs=1e-12)


@unhurried
@given(eigenvalue, bands)
def test_slope_of_a_window_is_bounded(value, n_bands):
    step = 1e-6 / n_bands
    low, high = max(0, value - step), min(1, value + step)
    change = np.abs(itersine_windows([high], n_bands) - itersine_windows([low], n_bands)) / (high - low)
    assert change.max() <= np.pi**2 * n_bands / 4 * (1 + 1e-6) + 1e-6


@pytest.mark.parametrize("n_bands", [2, 8, 64])
def test_windows_are_smooth_at_their_edges(n_bands):
    for edge in np.arange(1, n_bands) / n_bands:
        h = 1e-7 / n_bands
        around = itersine_windows([edge - h, edge, edge + h], n_bands)
        assert np.abs(np.diff(around, axis=1)).max() < 1e-5
        left, right = np.diff(around, axis=1).T / h
        assert np.abs(left - right).max() < 1e-2 * n_bands**2


def test_window_shape_at_known_points():
    windows = itersine_windows([0.25, 0.375, 0.5], 4)
    assert windows[1] == pytest.approx([1, np.sin(np.pi / 4), 0])
    assert windows[2] == pytest.approx([0, np.sin(np.pi / 4), 1])


def test_first_band_one_drops_the_highest_frequencies():
    assert bandlimiting_weights([0.0], [0.0], 4, first_band=1)[0, 0] == 0
    assert bandlimiting_weights([0.9], [0.9], 4, first_band=1)[0, 0] == pytest.approx(1)


def test_eigenvalues_outside_the_unit_interval_count_as_its_ends():
    assert bandlimiting_weights([-0.3, 1 + 1e-9], [0.0, 1.0], 8) == pytest.approx(np.eye(2))
    assert itersine_windows([-0.3, 1.2], 8) == pytest.approx(itersine_windows([0.0, 1.0], 8))


@pytest.mark.parametrize("n_bands", [1, 4, 10_000])
def test_there_is_one_window_more_than_bands(n_bands):
    assert itersine_windows([0, 1], n_bands).shape == (n_bands + 1, 2)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "8", True, 10_001])
def test_bad_band_count(bad):
    with pytest.raises(ValueError, match=r"^n_bands must be"):
        bandlimiting_weights([0.5], [0.5], bad)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (["low"], r"numbers, got \['low'\]"),
        ([[0.5]], r"in one row, got an array of shape \(1, 1\)"),
        ([0.5, np.nan], "finite"),
        ([np.inf], "finite"),
    ],
)
def test_bad_eigenvalues(bad, message):
    with pytest.raises(ValueError, match=f"^eigenvalues .*{message}"):
        itersine_windows(bad, 4)


def test_bad_first_band():
    with pytest.raises(ValueError, match="first_band"):
        bandlimiting_weights([0.5], [0.5], 4, first_band=2)
