"""Joint axes of weighted signals are those of the weighted rows, whichever way they are computed."""

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign.method import axes
from harmonicalign.method.axes import Products, axes_of_products, axes_of_rows

K = 4


def problem(rng, n_rows, n_signals):
    """Signals of two datasets with some strong directions, centres, weights and units."""
    strong = rng.randn(K, n_signals) * (3.0 ** -np.arange(K))[:, None]
    signals = [20 * rng.randn(n, K) @ strong + 0.1 * rng.randn(n, n_signals) + 1 for n in n_rows]
    centres = [x.mean(axis=0) + 0.1 * rng.randn(n_signals) for x in signals]
    factors = [np.ones(n_signals), rng.uniform(0.5, 2, n_signals)]
    return signals, centres, rng.uniform(0.2, 1, n_signals), factors


def expected(signals, centres, scales):
    """The projection onto the leading right singular vectors of the weighted rows."""
    stacked = np.vstack([(x - c) * s for x, c, s in zip(signals, centres, scales, strict=True)])
    v = np.linalg.svd(stacked, full_matrices=False)[2][:K].T
    return v @ v.T


@pytest.mark.parametrize("n_signals", [30, 320])
@pytest.mark.parametrize("same_units", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_axes_follow_from_products(rng, n_signals, same_units, form):
    signals, centres, weights, factors = problem(rng, (350, 330), n_signals)
    scales = [weights, weights] if same_units else [weights * f for f in factors]
    parts = [Products.of(form(x)) for x in signals]
    found = axes_of_products(parts, centres, weights, None if same_units else factors, K, 0)
    assert found.T @ found == pytest.approx(np.eye(K), abs=1e-9)
    assert found @ found.T == pytest.approx(expected(signals, centres, scales), abs=1e-6)
    first = np.vstack([(x - c) * s for x, c, s in zip(signals, centres, scales, strict=True)]) @ found
    assert (np.diff((first**2).sum(axis=0)) < 0).all(), "the axes are not in order"


@pytest.mark.parametrize("n_rows", [(60, 50), (170, 160)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_axes_follow_from_rows_where_there_are_more_signals(rng, n_rows, form):
    signals, centres, weights, factors = problem(rng, n_rows, 400)
    scales = [weights * f for f in factors]
    found = axes_of_rows([form(x) for x in signals], centres, scales, K, 0)
    assert found @ found.T == pytest.approx(expected(signals, centres, scales), abs=1e-6)


@pytest.mark.parametrize(("n_rows", "n_signals"), [((350, 330), 320), ((170, 160), 400), ((60, 50), 400)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_signals_without_weight_have_no_part(rng, n_rows, n_signals, form):
    signals, centres, weights, _ = problem(rng, n_rows, n_signals)
    weights[::3] = 0
    used = np.flatnonzero(weights)

    def found_in(some):
        parts, at = [form(x[:, some]) for x in signals], [c[some] for c in centres]
        if n_signals < sum(n_rows):
            return axes_of_products([Products.of(x) for x in parts], at, weights[some], None, K, 0)
        return axes_of_rows(parts, at, [weights[some]] * 2, K, 0)

    found, alone = found_in(np.arange(n_signals)), found_in(used)
    assert not found[::3].any()
    assert found[used] @ found[used].T == pytest.approx(alone @ alone.T, abs=1e-6)
    nothing = axes_of_rows([form(x) for x in signals], centres, [np.zeros(n_signals)] * 2, K, 0)
    assert nothing.T @ nothing == pytest.approx(np.eye(K))


@pytest.mark.parametrize("n_rows", [(350, 330), (170, 160)])
def test_from_directions_near_the_axes_few_steps_are_enough(rng, monkeypatch, n_rows):
    """Directions of flat spectra are found slowly, unless the search begins near them."""
    n_signals = 320 if sum(n_rows) > 320 and n_rows[0] > 300 else 400
    signals = [rng.randn(n, n_signals) * np.linspace(1.5, 1, n_signals) for n in n_rows]
    centres, ones = [x.mean(axis=0) for x in signals], np.ones(n_signals)
    moved = [c + 0.01 * rng.randn(n_signals) for c in centres]
    true = np.linalg.svd(np.vstack([x - c for x, c in zip(signals, moved, strict=True)]))[2][:K].T

    def found(start):
        if n_signals < sum(n_rows):
            return axes_of_products([Products.of(x) for x in signals], moved, ones, None, K, start)
        return axes_of_rows(signals, moved, [ones] * 2, K, start)

    near = found(np.linalg.qr(true + 0.02 * rng.randn(*true.shape))[0])
    monkeypatch.setattr(axes, "_STEPS", axes._AGAIN)
    captured = [np.linalg.norm(true.T @ q) ** 2 / K for q in (near, found(0))]
    assert captured[0] > 0.99
    assert captured[0] > captured[1] + 0.1


def test_axes_of_rows_are_no_more_than_the_rows(rng):
    signals, centres, weights, _ = problem(rng, (2, 1), 400)
    assert axes_of_rows(signals, centres, [weights] * 2, K, 0).shape == (400, 3)
