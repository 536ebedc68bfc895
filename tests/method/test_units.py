"""Units of the columns: found from anchors, accepted only where they help."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from two_sides import side

from harmonicalign import AlignmentWarning, HarmonicAlignment
from harmonicalign.datasets import load_digits_pair
from harmonicalign.method import DEFAULT, align_pair, units
from harmonicalign.method.units import by_spread, spread_factors, unit_factors


@pytest.fixture(scope="module")
def instruments():
    """Rows around six centres, measured by two instruments: other rows, gains and offsets; labels; gains."""
    rng = np.random.RandomState(0)
    labels = rng.randint(6, size=420)
    rows = 3 * rng.randn(6, 20)[labels] + rng.randn(420, 20)
    gains = np.exp(0.6 * rng.randn(20))
    return rows[:200], rows[200:] * gains + rng.randn(20), labels[:200], labels[200:], gains


def nearest_labels(model, labels_x, labels_y):
    x, y = model.embedding_[:2]
    return np.mean(labels_x[np.argmin(((y[:, None] - x) ** 2).sum(axis=2), axis=1)] == labels_y)


def test_factors_are_found_through_noise(rng):
    truth = rng.randn(300, 4)
    x = truth + 0.5 * rng.randn(300, 4)
    y = (truth + 0.5 * rng.randn(300, 4)) * [2, 0.5, 1, 3]
    y[:, 3] = rng.randn(300)  # partners do not agree on this one
    found = unit_factors((side(x), side(y)), sp.identity(300, format="csr") / 300, DEFAULT)
    # Of noisy pairs r² is well below 1, so that the factors are drawn to 1, but never past it.
    assert 0.5 < found[0] < 0.8
    assert 1.25 < found[1] < 2
    np.testing.assert_allclose(found[2:], 1, atol=0.1)


def test_factors_are_exact_without_noise_and_bounded(rng):
    x = rng.randn(100, 3)
    y = x / [2, 0.5, 100]
    found = unit_factors((side(x), side(y)), sp.identity(100, format="csr") / 100, DEFAULT)
    np.testing.assert_allclose(found, [2, 0.5, DEFAULT.most_gain])


def test_units_are_chosen_where_instruments_differ(instruments):
    x, y, labels_x, labels_y, gains = instruments
    model = HarmonicAlignment(random_state=0).fit([x, y])
    (pair,) = model.model_.pairs.values()
    assert pair.start == "units"
    # The larger dataset is the first of the pair, so its units are kept.
    assert np.corrcoef(np.log(pair.factors), np.log(gains))[0, 1] > 0.9
    without = HarmonicAlignment(random_state=0, config=replace(DEFAULT, left_out=("units",))).fit([x, y])
    assert next(iter(without.model_.pairs.values())).factors is None
    better, worse = (nearest_labels(m, labels_x, labels_y) for m in (model, without))
    assert better >= max(worse, 0.99)


def test_an_offset_is_enough_where_units_are_the_same(instruments):
    x, y, *_, gains = instruments
    found = align_pair(side(x), side(y / gains))
    assert found.start == "offset"
    assert found.factors is None


@pytest.mark.parametrize(("same", "steps"), [(True, 1), (False, DEFAULT.n_steps)])
def test_units_that_do_not_help_at_once_are_given_up(instruments, monkeypatch, same, steps):
    x, y, *_, gains = instruments
    seen = []

    def counted(*arguments):
        seen.append(arguments)
        return unit_factors(*arguments)

    monkeypatch.setattr(units, "unit_factors", counted)
    found = align_pair(side(x), side(y / gains if same else y))
    assert len(seen) == steps
    assert [step["start"] for step in found.history].count("units") == 1


def test_of_few_columns_units_are_not_sought(instruments):
    x, y, *_ = instruments
    found = align_pair(side(x[:, :4]), side(y[:, :4]))
    assert found.factors is None


def test_units_hold_along_the_tree_and_for_rows_and_datasets_added(instruments):
    x, y, labels_x, labels_y, _ = instruments
    half = len(y) // 2
    model = HarmonicAlignment(random_state=0).fit([x, y[:half], y[half:] * 2])
    assert nearest_labels(model, labels_x, labels_y[:half]) > 0.98
    same = model.transform(y[:half], dataset=1)
    np.testing.assert_allclose(same, model.embedding_[1], atol=1e-4)
    again = HarmonicAlignment(random_state=0).fit([x, y[:half]])
    added = again.add(y[half:])
    assert again.model_.pairs[2].factors is not None
    found = labels_x[np.argmin(((added[:, None] - again.embedding_[0]) ** 2).sum(axis=2), axis=1)]
    assert np.mean(found == labels_y[half:]) > 0.95


def test_from_the_other_side_the_factors_are_inverse(instruments):
    x, y, *_ = instruments
    sides = side(x), side(y)
    found = align_pair(*sides)
    np.testing.assert_allclose(found.reversed(sides[::-1]).factors * found.factors, 1)


@pytest.mark.parametrize("of", [np.asarray, sp.csr_matrix])
def test_linked_signals_count_by_their_agreement_and_not_by_their_size(rng, of):
    x = rng.randn(200, 5) * [100, 1, 1, 1e-3, 0] + 3
    factors = spread_factors(of(x), DEFAULT)
    made = by_spread(side(of(x)), factors).signals
    spread = np.std(made.toarray() if sp.issparse(made) else made, axis=0)
    np.testing.assert_allclose(spread[0], 1)
    assert 0.9 < spread[1:3].mean() <= 1, "about the median"
    assert 0 < spread[3] < 0.01, "what hardly varies is not blown up to the size of what does"
    assert spread[4] < 1e-12
    np.testing.assert_array_equal(spread_factors(of(np.ones((4, 2))), DEFAULT), 1)


@pytest.fixture(scope="module")
def linked():
    """Digits of which half of the pixels are linked, and those of the second in units of their own."""
    pair = load_digits_pair(preserved=0.5, n_x=200, n_y=200, random_state=0)
    units = np.exp(3 * np.random.RandomState(0).randn(pair.y.shape[1]))
    return pair, pair.y * units, np.diag(pair.preserved.astype(float))


def test_links_find_partners_whatever_the_units(linked):
    pair, other_units, links = linked

    def accuracy(y, **changes):
        model = HarmonicAlignment(random_state=0, config=replace(DEFAULT, **changes))
        model.fit([pair.x, pair.y], signals=[pair.x, y], links=links)
        return nearest_labels(model, pair.labels_x, pair.labels_y)

    found = accuracy(other_units)
    assert found > accuracy(pair.y) - 0.1
    with pytest.warns(AlignmentWarning, match="look like different things"):
        assert found > accuracy(other_units, linked_spread=1e9) + 0.03


def test_rows_are_placed_in_the_units_of_the_user(linked):
    pair, y, links = linked
    model = HarmonicAlignment(random_state=0).fit([pair.x, y], links=links)
    np.testing.assert_array_equal(model.transform(y, dataset=1), model.embedding_[1])
