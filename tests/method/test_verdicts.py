"""What is claimed of an aligned pair, and what is doubted."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from harmonicalign import AlignmentWarning, HarmonicAlignment


def cells(rng, n, centres):
    return centres[rng.randint(len(centres), size=n)] + rng.randn(n, centres.shape[1])


def heard(parts, **options):
    """A fit and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = HarmonicAlignment(random_state=0).fit(parts, **options)
    return model, [str(w.message) for w in caught if issubclass(w.category, AlignmentWarning)]


@pytest.fixture
def centres(rng):
    return 2 * rng.randn(6, 24)


def test_a_good_alignment_raises_no_doubt(rng, centres):
    model, said = heard([cells(rng, 160, centres), cells(rng, 140, centres)])
    assert said == []
    assert model.feature_selected_.mean() > 0.5
    assert model.feature_weights_.mean() > 0.5


def test_noise_claims_nothing(rng):
    model, said = heard([rng.randn(120, 15), rng.randn(110, 15)])
    assert len(said) == 1
    assert "no better than chance" in said[0]
    assert not model.feature_selected_.any()
    assert model.feature_weights_.mean() < 0.2
    assert max(c.max() for c in model.confidence_) <= 0.25


def test_columns_in_another_order_are_said(rng):
    at = np.arange(40)[:, None]
    peaks = rng.randn(6, 10) @ np.exp(-(((at - rng.uniform(0, 40, 10)) / 2) ** 2) / 2).T
    x, y = (np.exp(0.7 * rng.randn(n, 6)) @ peaks + 0.05 * rng.randn(n, 40) for n in (200, 150))
    said = heard([x, np.roll(y, 2, axis=1)])[1]
    assert any("the columns of dataset 0 and dataset 1 fit better shifted by +2" in text for text in said)
    assert not any("fit better" in text for text in heard([x, y])[1])


def test_separate_decompositions_are_said_also_of_a_dataset_added_later(rng, centres):
    x, y = (cells(rng, n, centres) for n in (160, 140))
    scores = []
    for rows in (x, y):
        u, s, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        scores.append(u[:, :10] * s[:10])
    assert any("look like separate PCAs or SVDs" in text for text in heard(scores)[1])
    model = heard([x[:, :10], y[:, :10]])[0]
    with pytest.warns(AlignmentWarning) as caught:
        model.add(scores[1])
    assert not any("look like separate" in str(w.message) for w in caught), (
        "only one of them is a decomposition"
    )


def test_signals_that_are_functions_of_the_geometry_are_not_tested(rng):
    factors = rng.randn(6, 20)
    parts = [np.exp(0.7 * rng.randn(n, 6)) @ factors + 0.3 * rng.randn(n, 20) for n in (220, 200)]
    signals = []
    for rows in parts:
        far = np.sort(np.linalg.norm(rows[:, None] - rows[None], axis=2), axis=1)
        signals.append(np.c_[far[:, [3, 10, 30, 100]], far.mean(axis=1), (far**2).mean(axis=1)])
    model, said = heard(parts, signals=signals)
    assert not model.significance_.tested
    assert any("functions of the geometry" in text for text in said)
    assert not model.feature_selected_.any()
    changed = replace(model.significance_, untested="")
    assert "functions" not in str(changed)
