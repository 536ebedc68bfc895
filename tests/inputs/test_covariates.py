"""Covariates: rows that hold their levels in equal shares, and alignments that keep their differences."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

from harmonicalign import AlignmentWarning, HarmonicAlignment
from harmonicalign.inputs.covariates import FEWEST_ROWS, balanced_rows, levels_of
from harmonicalign.inputs.parse import parse
from harmonicalign.metrics import mixing_entropy


def treated(seed, shares=(0.9, 0.1), n=400, n_genes=200):
    """Datasets of five classes, each shifted, whose treated rows differ; what each row is."""
    rng = np.random.default_rng(seed)
    classes = 1.5 * rng.normal(size=(5, n_genes)) * (rng.random((5, n_genes)) < 0.3)
    treatment = 1.5 * rng.normal(size=n_genes) * (rng.random(n_genes) < 0.2)
    x, kinds, levels = [], [], []
    for share in shares:
        kind, on = rng.choice(5, n), rng.random(n) < share
        x.append(classes[kind] + on[:, None] * treatment + rng.normal(0, 0.7, n_genes))
        x[-1] += rng.normal(size=(n, n_genes))
        kinds.append(kind)
        levels.append(np.where(on, "yes", "no"))
    return x, kinds, levels


def agreement(embedding, labels):
    """Share of rows whose five nearest rows of the other dataset have their label."""
    found = [
        KNeighborsClassifier(5).fit(embedding[i], labels[i]).predict(embedding[1 - i]) == labels[1 - i]
        for i in (0, 1)
    ]
    return float(np.mean(np.concatenate(found)))


def labelled(kinds, levels):
    return [np.char.add(k.astype(str), level) for k, level in zip(kinds, levels, strict=True)]


@pytest.mark.parametrize("seed", range(3))
def test_a_treatment_is_kept_where_datasets_hold_different_shares_of_it(seed):
    x, kinds, levels = treated(seed)
    labels = labelled(kinds, levels)
    plain = HarmonicAlignment(random_state=0).fit(x)
    kept = HarmonicAlignment(random_state=0).fit(x, covariates=levels)
    # Without the covariate the treated rows of one dataset lie on the controls of the other.
    assert agreement(plain.embedding_, labels) < 0.3
    assert agreement(kept.embedding_, labels) > 0.95
    assert mixing_entropy(kept.embedding_, 30, labels=labels) > 0.8
    assert [len(z) for z in kept.embedding_] == [400, 400]


def test_a_treatment_of_one_dataset_alone_stays_apart():
    x, _, levels = treated(0, shares=(0.0, 0.9))
    controls = [np.flatnonzero(level == "no") for level in levels]
    plain = HarmonicAlignment(random_state=0).fit(x).embedding_
    kept = HarmonicAlignment(random_state=0).fit(x, covariates=levels).embedding_
    mixing = [
        mixing_entropy([z[rows] for z, rows in zip(found, controls, strict=True)], 10)
        for found in (plain, kept)
    ]
    assert mixing[1] > mixing[0] + 0.3


def test_nothing_is_lost_where_shares_are_equal():
    x, kinds, levels = treated(0, shares=(0.5, 0.5))
    labels = labelled(kinds, levels)
    assert agreement(HarmonicAlignment(random_state=0).fit(x, covariates=levels).embedding_, labels) > 0.98


def test_every_form_of_datasets_takes_them():
    x, _, levels = treated(1, n=150)
    expected = HarmonicAlignment(random_state=0).fit(x, covariates=levels).embedding_
    named = HarmonicAlignment(random_state=0).fit(
        dict(zip("ab", x, strict=True)), covariates=dict(zip("ab", levels, strict=True))
    )
    stacked = HarmonicAlignment(random_state=0)
    stacked.fit(np.vstack(x), batch=np.repeat(["a", "b"], 150), covariates=np.concatenate(levels))
    for model in (named, stacked):
        for ours, theirs in zip(model.embedding_, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_rows_without_a_level_only_follow():
    x, _, levels = treated(2, n=150)
    missing = [level.astype(object) for level in levels]
    missing[0][:5], missing[1][-1] = None, np.nan
    inputs = parse(x)
    numbers = levels_of(missing, inputs)
    assert [np.flatnonzero(own < 0).tolist() for own in numbers] == [[0, 1, 2, 3, 4], [149]]
    rows = balanced_rows(numbers, 2000, 0, inputs.keys)
    assert not set(rows[0]) & set(range(5))
    model = HarmonicAlignment(random_state=0).fit(x, covariates=missing)
    assert np.isfinite(model.embedding_[0]).all()


@given(
    shares=st.lists(st.lists(st.integers(0, 200), min_size=3, max_size=3), min_size=2, max_size=4),
    most=st.integers(100, 400),
)
def test_levels_are_held_in_equal_shares(shares, most):
    levels = [np.repeat(np.arange(3), counts) for counts in shares]
    least = np.min(shares, axis=0)
    if least.sum() < FEWEST_ROWS + 3:  # rounding may cost a row of every level
        return
    rows = balanced_rows(levels, most, 0, list(range(len(levels))))
    held = np.array([np.bincount(own[r], minlength=3) for own, r in zip(levels, rows, strict=True)])
    sizes = held.sum(axis=1)
    assert (sizes <= most + 3).all()
    # A dataset that could hold more rows does, in the same shares up to rounding.
    np.testing.assert_allclose(held, sizes[:, None] * (least / least.sum()), atol=1.5)
    assert (sizes >= min(most, least.sum()) - 3).all()
    for own, r in zip(levels, rows, strict=True):
        assert len(set(r.tolist())) == len(r)
        assert (np.diff(r) > 0).all()
        assert (r < len(own)).all()


def test_what_cannot_work_is_refused():
    x, _, levels = treated(0, n=60)
    model = HarmonicAlignment(random_state=0)
    with pytest.raises(ValueError, match="no level occurs in all datasets"):
        model.fit(x, covariates=[["yes"] * 60, ["no"] * 60])
    with pytest.raises(ValueError, match=r"no level occurs in all datasets"):
        model.fit(x, covariates=[[None] * 60, levels[1]])
    with pytest.raises(ValueError, match=r"only \d+ rows of dataset 0 are left .* and 20 are needed"):
        model.fit(x, covariates=levels)
    with pytest.raises(ValueError, match="covariates of 1 has 59 labels where X has 60 rows"):
        model.fit(x, covariates=[levels[0], levels[1][1:]])
    with pytest.raises(ValueError, match="covariates must be a list of 2"):
        model.fit(x, covariates=levels[0])
    with pytest.raises(ValueError, match="covariates must be a dict with the keys"):
        model.fit({"a": x[0], "b": x[1]}, covariates={"a": levels[0]})
    with pytest.raises(ValueError, match="one label for each of the 120 rows"):
        model.fit(np.vstack(x), batch=np.repeat([0, 1], 60), covariates=levels[0])
    with pytest.raises(ValueError, match="and so do anchors; drop one"):
        model.fit(x, covariates=levels, anchors=np.array([[0, 0]]))
    with pytest.raises(ValueError, match="not used by method='paper'"):
        HarmonicAlignment(method="paper").fit(x, covariates=levels)
    alone = pytest.raises(ValueError, match="but there is one; drop them")
    with alone, pytest.warns(AlignmentWarning, match="there is one dataset"):
        model.fit(x[0], covariates=[levels[0]])
    frames = [pd.DataFrame(part, index=[f"r{i}" for i in range(60)]) for part in x]
    with pytest.raises(ValueError, match="another order"):
        model.fit(frames, covariates=[pd.Series(v, frames[0].index[::-1]) for v in levels])
