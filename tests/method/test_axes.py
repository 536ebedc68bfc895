"""Joint axes of weighted signals are those of the weighted rows, whichever way they are computed."""

import numpy as np
import pytest
import scipy.sparse as sp

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


def test_axes_of_rows_are_no_more_than_the_rows(rng):
    signals, centres, weights, _ = problem(rng, (2, 1), 400)
    assert axes_of_rows(signals, centres, [weights] * 2, K, 0).shape == (400, 3)
