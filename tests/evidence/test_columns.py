"""Columns in another order, and columns of separate decompositions."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign.evidence.config import EVIDENCE
from harmonicalign.evidence.relations import other_order, relate, separate_decompositions


def spectra_of(rng, n, loadings):
    """Spectra: few factors with broad peaks."""
    return np.exp(0.7 * rng.randn(n, len(loadings))) @ loadings + 0.05 * rng.randn(n, loadings.shape[1])


@pytest.fixture
def peaks(rng):
    at = np.arange(60)[:, None]
    return rng.randn(6, 15) @ np.exp(-(((at - rng.uniform(0, 60, 15)) / 2) ** 2) / 2).T


@pytest.mark.parametrize("k", [1, 3, -5])
def test_shifted_columns_are_recognised(rng, peaks, k):
    x, y = spectra_of(rng, 200, peaks), spectra_of(rng, 220, peaks)
    assert other_order(relate(x, y)) is None
    found = other_order(relate(x, np.roll(y, k, axis=1)))
    assert (found.kind, found.by) == ("shifted", k)
    inside = (np.arange(60) + k >= 0) & (np.arange(60) + k < 60)
    assert np.array_equal(found.partners, np.where(inside, np.arange(60) + k, -1))
    assert found.agreement > max(0.95, found.as_given)
    assert f"shifted by {k:+d}" in str(found)
    j = int(np.flatnonzero(inside)[inside.sum() // 2])
    assert f"column {j} of the first looks like column {j + k} of the second" in str(found)


def test_reversed_columns_are_recognised(rng, peaks):
    x, y = spectra_of(rng, 200, peaks), spectra_of(rng, 220, peaks)
    found = other_order(relate(x, y[:, ::-1]))
    assert (found.kind, found.by) == ("reversed", 0)
    assert np.array_equal(found.partners, np.arange(60)[::-1])
    assert str(found).startswith("in reverse order: column ")
    also_shifted = other_order(relate(x, np.roll(y[:, ::-1], 2, axis=1)))
    assert (also_shifted.kind, also_shifted.by) == ("reversed", 2)


@pytest.mark.parametrize("kind", ["mirrored", "upside down"])
def test_pictures_are_recognised_in_a_mirror(rng, kind):
    rows, columns = np.mgrid[:6, :8]
    spots = [(rng.uniform(0, 6), rng.uniform(0, 8)) for _ in range(8)]
    loadings = np.stack([np.exp(-((rows - r) ** 2 + (columns - c) ** 2) / 3).ravel() for r, c in spots])
    x, y = spectra_of(rng, 300, loadings), spectra_of(rng, 300, loadings)
    assert other_order(relate(x, y)) is None
    pictures = y.reshape(-1, 6, 8)
    turned = pictures[:, :, ::-1] if kind == "mirrored" else pictures[:, ::-1]
    found = other_order(relate(x, turned.reshape(len(y), -1)))
    assert (found.kind, found.by) == (kind, 8)
    expected = np.arange(48).reshape(6, 8)
    expected = expected[:, ::-1] if kind == "mirrored" else expected[::-1]
    assert np.array_equal(found.partners, expected.ravel())
    assert "8 wide" in str(found)


def test_columns_without_an_order_have_no_other(rng):
    factors = rng.randn(5, 30)
    x, y = (np.exp(0.5 * rng.randn(n, 5)) @ factors + 0.3 * rng.randn(n, 30) for n in (200, 180))
    assert other_order(relate(x, y)) is None
    assert other_order(relate(x, rng.randn(150, 30))) is None
    assert other_order(relate(x, y[:, rng.permutation(30)])) is None
    assert other_order(relate(x, np.ones((50, 30)))) is None
    assert not any(other_order(relate(rng.randn(200, d), rng.randn(150, d))) for d in (5, 12, 20, 40, 80))


def test_the_order_goes_by_the_config(rng, peaks):
    x, y = spectra_of(rng, 200, peaks), spectra_of(rng, 220, peaks)
    related = relate(x, np.roll(y, 9, axis=1))
    assert other_order(related, replace(EVIDENCE, most_shift=2)) is None
    assert other_order(related, replace(EVIDENCE, order_agreement=1.1)) is None
    assert other_order(related, replace(EVIDENCE, order_left=0.0)) is None


def components(x, k=12):
    u, s, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    return u[:, :k] * s[:k]


@pytest.fixture
def cells(rng):
    factors = rng.randn(6, 40)
    return [np.exp(0.7 * rng.randn(n, 6)) @ factors + 0.3 * rng.randn(n, 40) for n in (300, 260)]


def test_separate_decompositions_are_recognised(rng, cells):
    x, y = map(components, cells)
    assert separate_decompositions(x, y)
    assert separate_decompositions(x, y, agreeing=1.0), (
        "one decomposition is never exactly uncorrelated twice"
    )
    assert separate_decompositions(sp.csr_matrix(x), sp.csr_matrix(y))
    some = x[rng.permutation(300)[:150]], y[rng.permutation(260)[:150]]
    assert separate_decompositions(*some)
    assert not separate_decompositions(*some, agreeing=0.6)


def test_other_columns_are_not_taken_for_separate_decompositions(rng, cells):
    x, y = cells
    assert not separate_decompositions(x, y)
    both = components(np.vstack([x, y]))
    assert not separate_decompositions(both[:300], both[300:], agreeing=1.0)
    assert not separate_decompositions(components(x), y[:, :12])
    order = rng.permutation(12)
    assert not separate_decompositions(components(x)[:, order], components(y)[:, order])
    assert not separate_decompositions(components(x, 4), components(y, 4)), "too few to say"
    assert not separate_decompositions(np.zeros((50, 8)), np.zeros((40, 8)))
