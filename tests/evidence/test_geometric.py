"""Signals that are functions of the geometry alone are not tested."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from two_sides import side

from harmonicalign.evidence.geometric import geometric_share, untested_if_geometric
from harmonicalign.evidence.significance import Significance

TEST = Significance(z=9.0, p=1e-8, observed=9.0, null=np.arange(99.0))


def heat(found, times):
    frequencies = np.clip(found.harmonics.eigenvalues, 1e-6, 1)
    return np.stack([found.harmonics.psi**2 @ frequencies**t for t in times], axis=1)


@pytest.fixture
def cells(rng):
    factors = rng.randn(6, 20)
    return [np.exp(0.7 * rng.randn(n, 6)) @ factors + 0.3 * rng.randn(n, 20) for n in (350, 300)]


def described(rows, signals):
    found = side(rows)
    return found.components, found.harmonics, signals


def test_functions_of_the_geometry_are_recognised(cells):
    parts = []
    for rows in cells:
        far = cdist(rows, rows)
        signals = np.c_[heat(side(rows, k=40), (1.5, 3, 6, 12, 24)), far.mean(axis=1), far.max(axis=1)]
        parts.append(described(rows, signals))
    assert all(geometric_share(*part) > 0.85 for part in parts)
    found = untested_if_geometric(TEST, parts)
    assert not found.tested
    assert not found.by_chance
    assert found.p == 1
    assert "functions of the geometry" in str(found)


def test_measured_signals_are_tested(cells, rng):
    measured = [described(rows, rows) for rows in cells]
    assert all(geometric_share(*part) < 0.8 for part in measured)
    assert untested_if_geometric(TEST, measured) is TEST
    only_one = [described(cells[0], heat(side(cells[0]), range(1, 6))), measured[1]]
    assert untested_if_geometric(TEST, only_one) is TEST
    assert geometric_share(*described(cells[0], rng.randn(350, 5))) < 0.2
    assert geometric_share(*described(cells[0], np.ones((350, 5)))) == 0
    few = cells[0][:90]
    assert geometric_share(*described(few, heat(side(few), range(1, 6)))) == 0, "too few rows to say"
