"""How well other datasets support a row."""

from dataclasses import replace

import numpy as np
import plain_stages
import pytest

from harmonicalign.evidence.confidence import doubted, row_confidence
from harmonicalign.evidence.config import EVIDENCE
from harmonicalign.evidence.significance import Significance


def test_confidence_tells_rows_without_counterpart(rng):
    x = np.r_[rng.randn(150, 3), rng.randn(50, 3) + 8]
    y = rng.randn(120, 3)
    of_x, of_y = row_confidence([x, y])
    assert of_x[150:].max() < of_x[:150].mean() / 2, "rows that nothing is near to are trusted"
    assert of_y.mean() > 0.8
    assert row_confidence([x])[0].tolist() == [1.0] * 200, "a dataset alone has nothing to be compared with"


@pytest.mark.parametrize("changes", [{}, {"confidence_neighbours": 3}, {"confidence_smoothing": 0}])
def test_confidence_is_what_it_says(rng, changes):
    config = replace(EVIDENCE, **changes)
    # As many rows as the others have together, so that none is left out of the samples.
    parts = [rng.randn(25, 2), rng.randn(25, 2) + 0.5]
    for found, expected in zip(
        row_confidence(parts, config=config), plain_stages.confidence(parts, config), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    split = [parts[0], parts[1][:10], parts[1][10:]]
    found, expected = row_confidence(split, config=config)[0], plain_stages.confidence(split, config)[0]
    np.testing.assert_allclose(found, expected, atol=1e-5, err_msg="the others do not count as one")


def test_confidence_is_measured_against_samples_of_one_size(rng):
    x, y = rng.randn(400, 3), rng.randn(40, 3)
    of_x, of_y = (np.mean(c) for c in row_confidence([x, y]))
    assert abs(of_x - of_y) < 0.1, "a dense dataset looks nearer to a sparse one than that to it"
    one, two, other = (row_confidence([x, y], random_state=seed)[0] for seed in (0, 0, 1))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other), "the sample does not depend on the seed"
    few = row_confidence([x, y], config=replace(EVIDENCE, confidence_sample=15))[0]
    assert not np.array_equal(one, few), "the size of the sample is not the config's"
    assert np.array_equal(
        row_confidence([x, y], n_smooth=4)[0],
        row_confidence([x, y], config=replace(EVIDENCE, confidence_smoothing=4))[0],
    )


def test_a_small_dataset_decides_nothing(rng):
    """Five rows relabelled as a dataset of their own change the confidence of no other row by much."""
    x, y = rng.randn(300, 3), rng.randn(200, 3) + 0.5
    before = row_confidence([x, y])
    after = row_confidence([x, y[:-5], y[-5:]])
    for one, other in zip(before, (after[0], np.concatenate(after[1:])), strict=True):
        off = np.abs(one - other)[: -5 if len(one) == 200 else None].mean()
        assert off < 0.05, f"confidence changes by {off:.3f} on average"


def test_rows_that_coincide_are_supported():
    same = np.zeros((20, 2))
    for found in row_confidence([same, same]):
        assert found.tolist() == [1.0] * 20


def test_confidence_is_low_where_no_alignment_is_significant():
    null, sure = np.arange(99.0), np.array([1.0, 0.5])
    good, bad = (Significance(z=0.0, p=p, observed=0.0, null=null) for p in (1e-3, 0.5))
    opposed = replace(good, opposed=True)
    untested = Significance(z=0.0, p=1.0, observed=0.0, null=np.zeros(0))
    for tests in ([], [good], [bad, good], [untested]):
        assert np.array_equal(doubted(sure, tests), sure)
    for tests in ([bad], [bad, bad], [opposed]):
        assert doubted(sure, tests) == pytest.approx(EVIDENCE.chance_confidence * sure)
    assert np.array_equal(doubted(sure, [bad], replace(EVIDENCE, chance_confidence=1.0)), sure)
