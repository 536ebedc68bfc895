"""The balance between signals and components in the joint space."""

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign import HarmonicAlignment
from harmonicalign.space import _explained


def test_signals_that_know_little_of_the_rows_count_for_less(rng):
    rows = rng.standard_normal((300, 6)) @ np.diag([3.0, 2, 2, 1, 1, 1])
    assert _explained(rows, rows @ rng.standard_normal((6, 9))) == pytest.approx(1)
    assert _explained(rows, rows[:, :1]) == pytest.approx(9 / 20, abs=0.08)
    assert _explained(rows, rng.standard_normal((300, 50))) < 0.1
    assert _explained(rows[:20], rng.standard_normal((20, 30))) == 1  # too few rows to tell
    assert _explained(np.ones((20, 2)), rows[:20]) == 1


def test_balance_of_signals_given_apart(rng):
    rows = np.repeat(rng.standard_normal((8, 12)) * 4, 40, axis=0) + rng.standard_normal((320, 12))
    x, y = rows[::2], rows[1::2] + 0.1
    own = HarmonicAlignment(random_state=0).fit([x, y])
    some = HarmonicAlignment(random_state=0).fit([x, y], signals=[x[:, :4], y[:, :4]])
    everything = HarmonicAlignment(random_state=0).fit([x, y], signals=[sp.csr_matrix(x), y.copy()])
    assert own.model_.space.balance == own.share_**2
    assert everything.model_.space.balance == everything.share_**2
    assert some.model_.space.balance < 0.8 * some.share_**2
