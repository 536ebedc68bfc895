"""Whether rows that were brought together predict each other's signals."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign.evidence.confidence import alike_though_apart, predicted_share
from harmonicalign.evidence.config import EVIDENCE
from harmonicalign.evidence.relations import relate
from harmonicalign.method.verdicts import doubts_about_columns, doubts_about_rows


@pytest.fixture
def kinds(rng):
    """Rows of kinds 0 to 9 and their signals."""
    centres = 2 * rng.randn(10, 30)
    return lambda wanted, n: (lambda kind: (kind, centres[kind] + rng.randn(n, 30)))(rng.choice(wanted, n))


def placed(kind, rng):
    """Coordinates in which kinds 0 and 5, 1 and 6 and so on lie together."""
    return 3 * np.eye(5)[kind % 5] + 0.3 * rng.randn(len(kind), 5)


def test_rows_of_one_kind_predict_each_other(kinds, rng):
    (kx, x), (ky, y) = kinds([0, 1, 2, 3, 4], 300), kinds([0, 1, 2, 3, 4], 250)
    assert predicted_share([placed(kx, rng), placed(ky, rng)], [x, y]) > 0.95
    sparse = [sp.csr_matrix(x), sp.csr_matrix(y)]
    assert predicted_share([placed(kx, rng), placed(ky, rng)], sparse) > 0.95


def test_rows_of_other_kinds_do_not(kinds, rng):
    (kx, x), (ky, y) = kinds([0, 1, 2, 3, 4], 300), kinds([5, 6, 7, 8, 9], 250)
    places = [placed(kx, rng), placed(ky, rng)]
    assert predicted_share(places, [x, y]) < 0.6
    said = doubts_about_rows(("one", "other"), places, [x, y], np.ones(x.shape[1]))
    assert len(said) == 1
    assert said[0].startswith("one and other look like different things")
    config = replace(EVIDENCE, different_things=-1.0)
    assert doubts_about_rows(("one", "other"), places, [x, y], np.ones(30), config) == []


def test_some_of_the_kinds_in_common_are_enough(kinds, rng):
    """Rows of kinds that the other dataset lacks lie apart, and do not count against the others."""
    (kx, x), (ky, y) = kinds([0, 1, 2, 3, 5], 300), kinds([0, 1, 2, 3, 4], 250)
    apart = [placed(kx, rng), placed(ky, rng)]
    apart[0][kx == 5, 0] += 20
    assert predicted_share(apart, [x, y]) > EVIDENCE.different_things
    more = kinds([0, 1, 2, 3, 4, 5, 6], 300)
    places = [placed(more[0], rng), placed(ky, rng)]
    places[0][more[0] > 4, 0] += 20
    assert predicted_share(places, [more[1], y]) > 0.95, "one of the datasets has all its kinds in the other"


def test_a_feature_that_varies_in_one_dataset_only_counts_against_it(kinds, rng):
    (kx, x), (ky, y) = kinds([0, 1, 2, 3, 4], 300), kinds([0, 1, 2, 3, 4], 250)
    places = [placed(kx, rng), placed(ky, rng)]
    x[:, :20], y[:, 10:] = rng.randn(300, 20), rng.randn(250, 20)
    assert predicted_share(places, [x, y]) < 0.3


def test_features_that_do_not_correspond_do_not_count(kinds, rng):
    (kx, x), (ky, y) = kinds([0, 1, 2, 3, 4], 300), kinds([0, 1, 2, 3, 4], 250)
    y[:, :18] = y[:, rng.permutation(18)] * rng.choice([-1, 1], 18)
    places, weights = [placed(kx, rng), placed(ky, rng)], np.repeat([0.05, 1.0], [18, 12])
    assert predicted_share(places, [x, y], weights) > 0.9
    assert predicted_share(places, [x, y]) < predicted_share(places, [x, y], weights)


def test_columns_alike_that_do_not_agree_point_at_the_rows(rng):
    """Where columns do not agree, their skewness tells whether the columns are others, or the rows."""
    kinds = rng.choice(3, 400, p=[0.6, 0.3, 0.1])
    shape = rng.gamma(0.5, size=30)  # of the values of a column, in all kinds
    x, y = (rng.gamma(shape, size=(n, 30)) for n in (400, 300))
    weights = np.repeat([1.0, 0.1], [10, 20])
    assert alike_though_apart([x, y], weights) > 0.3
    assert alike_though_apart([x, 5 - 3 * y], weights) < -0.5, "opposite skewness"
    assert alike_though_apart([x, 5 + 3 * y], weights) == pytest.approx(alike_though_apart([x, y], weights))
    assert alike_though_apart([sp.csr_matrix(x), y], weights) == pytest.approx(
        alike_though_apart([x, y], weights)
    )
    mixed = y.copy()
    mixed[:, 10:] = mixed[:, 10:] @ np.linalg.qr(rng.randn(20, 20))[0]
    assert alike_though_apart([x, mixed], weights) < EVIDENCE.alike_though_apart
    assert alike_though_apart([x, y], np.ones(30)) == -1, "all agree"
    assert alike_though_apart([x, y], np.repeat([1.0, 0.1], [26, 4])) == -1, "too few do not"
    # What is said of it: rows of the same place are of one kind in the first ten columns only.
    for s, kind in ((x, kinds), (y, kinds[:300])):
        s[:, :10] += 30 * (kind[:, None] == np.arange(10) % 3)
    mixed[:, :10] = y[:, :10]
    places = [placed(kinds, rng), placed(kinds[:300], rng)]
    (said,) = doubts_about_rows(("one", "other"), places, [x, y], weights)
    assert said.startswith("only a part of one and other seems to correspond")
    assert doubts_about_rows(("one", "other"), places, [x, mixed], weights) == []
    config = replace(EVIDENCE, alike_though_apart=1.0)
    assert doubts_about_rows(("one", "other"), places, [x, y], weights, config) == []


def test_nothing_is_said_where_nothing_can_be_predicted(rng):
    x, y = rng.randn(200, 20), rng.randn(200, 20)
    places = [rng.randn(200, 2), rng.randn(200, 2)]
    assert np.isnan(predicted_share(places, [x, y]))
    assert doubts_about_rows(("one", "other"), places, [x, y], np.ones(x.shape[1])) == []
    few = [p[:8] for p in places]
    assert np.isnan(predicted_share(few, [x[:8], y[:8]])), "too few rows"
    same = [np.zeros((50, 2)), np.zeros((50, 2))]
    assert not predicted_share(same, [x[:50], y[:50]]) > 0.9, "rows in one place"


def test_doubts_about_columns(rng):
    at = np.arange(40)[:, None]
    peaks = rng.rand(6, 10) @ np.exp(-(((at - rng.uniform(0, 40, 10)) / 2) ** 2) / 2).T
    x, y = (np.exp(0.7 * rng.randn(n, 6)) @ peaks + 0.05 * rng.randn(n, 40) for n in (200, 220))
    sure, unsure = np.full(40, 1e-4), np.ones(40)
    assert doubts_about_columns(("a", "b"), (x, y), relate(x, y), sure) == []
    shifted = np.roll(y, 2, axis=1)
    (said,) = doubts_about_columns(("a", "b"), (x, shifted), relate(x, shifted), sure)
    assert said.startswith("the columns of a and b fit better shifted by +2: column ")
    scores = [np.linalg.svd(s - s.mean(axis=0), full_matrices=False) for s in (x, y)]
    scores = [u[:, :10] * s[:10] for u, s, _ in scores]
    (said,) = doubts_about_columns(("a", "b"), scores, relate(*scores), unsure[:10])
    assert said.startswith("the signals of a and b look like separate PCAs or SVDs")
