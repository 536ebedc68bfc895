"""Small datasets that are aligned as one."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats

import harmonicalign
from harmonicalign import HarmonicAlignment
from harmonicalign.method import DEFAULT
from harmonicalign.method.pooling import PooledModel, Pooling, pooled

CENTRES = 3 * np.random.RandomState(7).randn(4, 8)


def source(rng, n, offset=0.0):
    """Rows of four clusters, at an offset."""
    return CENTRES[rng.randint(4, size=n)] + rng.randn(n, 8) + offset


@pytest.fixture
def two_sources(rng):
    """Ten small datasets: six random parts of one source, and four of another."""
    one, other = source(rng, 360), source(rng, 240, offset=2.0)
    return [*np.split(one, 6), *np.split(other, 4)]


def test_parts_of_one_source_are_pooled_and_sources_are_not(two_sources):
    assert pooled(two_sources) == Pooling((0,) * 6 + (1,) * 4, (60,) * 10)
    mixed = [two_sources[i] for i in (6, 0, 7, 1, 2, 8, 3, 9, 4, 5)]
    assert pooled(mixed).groups == (0, 1, 0, 1, 1, 0, 1, 0, 1, 1)
    assert pooled([sp.csr_matrix(rows) for rows in two_sources]) == pooled(two_sources)


def test_only_small_datasets_of_many_are_pooled(two_sources, rng):
    assert pooled(two_sources[:3]) is None, "three datasets are few enough to be shown one by one"
    assert pooled(two_sources, config=replace(DEFAULT, pooled_rows=60)) is None
    large = [source(rng, 300) for _ in range(4)]
    assert pooled([*large, two_sources[0]]) is None, "large datasets are aligned each by itself"
    assert pooled([large[0], *two_sources, large[1]]).groups == (0, *[1] * 6, *[2] * 4, 3)


def test_two_groups_remain(rng):
    same = [source(rng, 50) for _ in range(8)]
    assert max(pooled(same).groups) == 1, "there is nothing to align one group with"
    assert max(pooled([*same, source(rng, 400)]).groups) == 1
    constant = [np.ones((20, 3))] * 6
    assert pooled(constant) is None


def test_the_test_is_hotellings(rng):
    """Two pairs of datasets far from each other: a pair is pooled as its p-value says."""
    for offset in (0.0, 0.25, 0.5, 0.75):
        a, b = rng.randn(80, 3), rng.randn(60, 3) + [offset, 0, 0]
        c, d = rng.randn(50, 3) + 50, rng.randn(50, 3) + [50, 50, -50]
        parts = [a, b, c, d]
        left = sum(map(len, parts)) - 4
        within = sum((len(x) - 1) * np.cov(x.T) for x in parts) / left
        apart = a.mean(axis=0) - b.mean(axis=0)
        t2 = 80 * 60 / 140 * apart @ np.linalg.solve(within, apart)
        p = scipy.stats.f.sf(t2 * (left - 2) / (3 * left), 3, left - 2)
        for level in (p * 0.9, min(p * 1.1, 0.999)):
            found = pooled(parts, config=replace(DEFAULT, pooling_level=level))
            assert (found is not None) == (level < p), f"p = {p:.3g} at level {level:.3g}"


def test_pooled_datasets_are_aligned_as_one(two_sources, caplog):
    caplog.set_level("INFO", "harmonicalign")
    model = HarmonicAlignment(random_state=0).fit(two_sources)
    assert "aligned as one: 2 groups" in caplog.text
    whole = HarmonicAlignment(random_state=0).fit([np.vstack(two_sources[:6]), np.vstack(two_sources[6:])])
    np.testing.assert_array_equal(np.vstack(model.embedding_), np.vstack(whole.embedding_))
    assert [len(z) for z in model.embedding_] == [60] * 10
    assert model.significance_.p == whole.significance_.p
    confidence = np.concatenate(model.fitted_.confidence)
    np.testing.assert_array_equal(confidence, np.concatenate(whole.fitted_.confidence))
    assert list(model.alignment_.pairs) == [(0, 6)]
    assert len(model.harmonics_) == 10
    assert {step["dataset"] for step in model.history_} == {6}
    assert [model.model_.parent_of(i) for i in (0, 3, 6, 9)] == [None, None, 0, 0]
    assert model.settings_.n_pca == [None] * 10
    np.testing.assert_allclose(
        model.transform(two_sources[7] + 1e-9, dataset=7), model.embedding_[7], atol=0.05
    )


def test_a_pooled_model_does_what_others_do(two_sources, rng, tmp_path):
    model = HarmonicAlignment(random_state=0).fit(two_sources)
    assert isinstance(model.model_, PooledModel)
    model.save(tmp_path / "model.npz")
    again = harmonicalign.load(tmp_path / "model.npz")
    for one, other in zip(model.embedding_, again.embedding_, strict=True):
        np.testing.assert_array_equal(one, other)
    more = source(rng, 30, offset=2.0)
    np.testing.assert_array_equal(model.transform(more, dataset=8), again.transform(more, dataset=8))
    model.save(tmp_path / "bare.npz", with_data=False)
    bare = harmonicalign.load(tmp_path / "bare.npz")
    np.testing.assert_allclose(bare.transform(more, dataset=8), model.transform(more, dataset=8), atol=1e-5)
    before = [z.copy() for z in model.embedding_]
    for n in (90, 40):
        model.add(source(rng, n, offset=-2.0))
    assert [len(z) for z in model.embedding_] == [60] * 10 + [90, 40]
    assert len(model.harmonics_) == len(model.model_.reductions) == 12
    assert [len(c) for c in model.fitted_.confidence] == [60] * 10 + [90, 40]
    for one, other in zip(before, model.embedding_, strict=False):
        np.testing.assert_array_equal(one, other)
    model.save(tmp_path / "grown.npz")
    grown = harmonicalign.load(tmp_path / "grown.npz")
    np.testing.assert_array_equal(grown.transform(more, dataset=10), model.transform(more, dataset=10))
    corrected = model.correct()
    assert [rows.shape for rows in corrected.values] == [(60, 8)] * 10 + [(90, 8), (40, 8)]
