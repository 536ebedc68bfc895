"""Features that relate to each other alike in two datasets."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from harmonicalign.evidence.config import EVIDENCE
from harmonicalign.evidence.relations import column_variances, relate


@pytest.fixture
def data(rng):
    """Twelve skewed columns with factors in common; half of the second dataset's are mixed."""
    factors = rng.randn(3, 12)
    x, y = (np.exp(0.5 * rng.randn(n, 3)) @ factors + 0.3 * rng.randn(n, 12) for n in (400, 300))
    y[:, 6:] = y[:, 6:] @ np.linalg.qr(rng.randn(6, 6))[0]
    return x, y, np.arange(12) < 6


def profiles(x, config):
    """Correlations of features with features, squares with features, and features with squares."""
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    d = x.shape[1]
    most = config.clipped_deviations
    squares = np.clip(z, -most, most) ** 2
    c = np.corrcoef(np.c_[z, squares], rowvar=False)
    out = np.stack([c[:d, :d], c[d:, :d], c[:d, d:]], axis=-1)
    out[np.arange(d), np.arange(d)] = 0
    return out


def by_the_book(x, y, config=EVIDENCE):
    a, b = profiles(x, config), profiles(y, config)
    d = len(a)
    weights, scores = np.ones(d), np.zeros(d)
    for _ in range(config.relation_steps):
        for s in range(d):
            dot = sum(weights[t] * a[s, t] @ b[s, t] for t in range(d))
            norms = [sum(weights[t] * r[s, t] @ r[s, t] for t in range(d)) for r in (a, b)]
            scores[s] = dot / np.sqrt(norms[0] * norms[1])
        weights = np.maximum(scores, 0) ** 2
    return scores


def test_scores_are_what_they_say(data, rng):
    x, y, true = data
    found = relate(x, y)
    assert found.scores() == pytest.approx(by_the_book(x, y), abs=1e-4)
    assert found.weights() == pytest.approx(np.maximum(found.scores(), 0) ** 2)
    assert roc_auc_score(true, found.scores()) == 1
    partners = rng.permutation(12)
    assert found.scores(partners) == pytest.approx(by_the_book(x, y[:, partners]), abs=1e-4)
    other = replace(EVIDENCE, relation_steps=2, clipped_deviations=1.5)
    assert relate(x, y, other).scores() == pytest.approx(by_the_book(x, y, other), abs=1e-4)
    assert not np.allclose(by_the_book(x, y, other), found.scores(), atol=0.01)


def test_units_offsets_and_sparse_matrices_change_nothing(data, rng):
    x, y, _ = data
    expected = relate(x, y).scores()
    units = 10.0 ** rng.uniform(-20, 20, 12)
    assert relate(x * units, 3 * y - 7).scores() == pytest.approx(expected, abs=1e-4)
    assert relate(sp.csr_matrix(x), sp.csr_matrix(y)).scores() == pytest.approx(expected, abs=1e-4)


def test_squares_tell_what_correlations_do_not(rng):
    """Six columns and their squares are not correlated; in the second dataset half of them are mixed."""
    x, y = (np.c_[f, f**2 + 0.2 * rng.randn(*f.shape)] for f in (rng.randn(n, 6) for n in (3000, 2500)))
    mixed = [3, 4, 5, 9, 10, 11]
    y[:, mixed] = y[:, mixed] @ np.linalg.qr(rng.randn(6, 6))[0]
    true = ~np.isin(np.arange(12), mixed)
    assert roc_auc_score(true, relate(x, y).scores()) > 0.9
    alike = replace(EVIDENCE, clipped_deviations=0)  # squares are all alike, and say nothing
    assert roc_auc_score(true, relate(x, y, alike).scores()) < 0.8


def test_negated_features_are_told_by_their_squares(data):
    x, y, true = data
    as_is, negated = relate(x, y), relate(x, -y)
    # Correlations stay, so the profiles agree on these alone; what squares say turns round.
    assert negated.skew == pytest.approx(-as_is.skew)
    assert as_is.skew > 0.3
    assert negated.opposed
    assert not as_is.opposed
    assert negated.negated().scores() == pytest.approx(as_is.scores(), abs=1e-5)
    assert negated.negated().skew == pytest.approx(as_is.skew)
    assert roc_auc_score(true, negated.scores()) < 1
    # One dataset negated twice, or both, is as it was.
    assert relate(-x, -y).skew == pytest.approx(as_is.skew)


def test_features_without_skew_do_not_tell(rng):
    # Columns of ±1, each value about as often: squares hardly vary, and what is left of them is chance.
    factors = rng.randn(3, 12)
    x, y = (np.where(rng.randn(n, 3) @ factors + 0.3 * rng.randn(n, 12) > 0, 1.0, -1.0) for n in (400, 300))
    for one, other in ((x, y), (x, -y)):
        found = relate(one, other)
        assert abs(found.skew) < 0.05
        assert not found.opposed


def test_the_features_that_vary_most_take_part(data):
    x, y, _ = data
    x = x * np.r_[np.full(4, 9.0), np.ones(8)]
    x[:, 3] = 5  # does not vary
    found = relate(x, y, replace(EVIDENCE, related_features=5))
    spread = x.var(axis=0) * y.var(axis=0)
    assert found.features.tolist() == sorted(np.argsort(-spread)[:5])
    assert 3 not in found.features
    part = relate(x[:, found.features], y[:, found.features])
    assert found.scores() == pytest.approx(part.scores())
    weights = found.weights()
    assert len(weights) == 12
    assert np.count_nonzero(weights) <= 5
    assert weights[found.features] == pytest.approx(np.maximum(found.scores(), 0) ** 2)


def test_features_without_relations(rng):
    constant = np.c_[rng.randn(50), np.full(50, 3.0), rng.randn(50)]
    assert relate(constant, constant).scores()[1] == 0
    alone = relate(rng.randn(50, 1), rng.randn(40, 1))
    assert alone.scores().tolist() == [0]
    assert alone.weights().tolist() == [1]
    nothing = relate(np.zeros((5, 3)), np.zeros((4, 3)))
    assert nothing.weights().tolist() == [1, 1, 1]


def test_column_variances(rng):
    x = rng.randn(30, 4) * [1, 2, 0, 5] + 9
    assert column_variances(x) == pytest.approx(x.var(axis=0), abs=1e-9)
    assert column_variances(sp.csr_matrix(x)) == pytest.approx(x.var(axis=0), abs=1e-9)
    assert (column_variances(sp.csr_matrix(x)) >= 0).all()


def test_profiles_agree_as_the_scores_of_known_features(rng):
    """Products of profiles are scores with weights from known features; the others have no part in it."""
    factors = rng.randn(2, 300, 3)
    loadings = rng.randn(3, 9)
    x, y = (f @ loadings + 0.3 * rng.randn(300, 9) for f in factors)
    relations, known = relate(x, y), np.arange(9) != 4
    a, b = relations.profiles(known)
    np.testing.assert_allclose(np.linalg.norm(a, axis=0), 1)
    assert a[:, 4] @ b[:, 4] > 0.9
    assert a[:, 4] @ b[:, 4] > (a[:, 4] @ np.delete(b, 4, axis=1)).max()
    y[:, 4] = rng.randn(300)
    assert abs(np.subtract(*(r.profiles(known)[0][:, :4] for r in (relations, relate(x, y)))).max()) < 1e-6
