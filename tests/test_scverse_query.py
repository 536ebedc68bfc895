"""New data in an alignment that stays as it is: every way in which rows and signals may be stored."""

import logging

import numpy as np
import pytest

from harmonicalign import HarmonicAlignment
from harmonicalign.adapters import scverse
from harmonicalign.datasets import load_digits_pair

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")

NAMES = [f"pixel{i}" for i in range(64)]
EXTRA = [f"own{i}" for i in range(80)]


@pytest.fixture(scope="module")
def digits():
    """Two datasets, and rows of the first that were not in it."""
    pair = load_digits_pair(preserved=0.8, n_x=150, n_y=110, random_state=0)
    return pair.x[:110] / 16, pair.y / 16, pair.x[110:] / 16


def made(matrix, names=NAMES, **obsm):
    data = anndata.AnnData(np.array(matrix), var=pd.DataFrame(index=names))
    data.obs_names = [f"r{i}" for i in range(len(matrix))]
    for key, values in obsm.items():
        data.obsm[key] = values
    return data


def framed(matrix, names=NAMES):
    return pd.DataFrame(matrix, columns=names, index=[f"r{i}" for i in range(len(matrix))])


@pytest.fixture(scope="module")
def plain(digits):
    data = {"a": made(digits[0]), "b": made(digits[1])}
    return data, scverse.align(data)


@pytest.fixture(scope="module")
def with_own(digits):
    """The first dataset has more variables of its own than shared ones, and is represented by all."""
    own = np.random.RandomState(0).rand(64, len(EXTRA)) / 8
    data = {"a": made(np.hstack([digits[0], digits[0] @ own]), NAMES + EXTRA), "b": made(digits[1])}
    new = made(np.hstack([digits[2], digits[2] @ own]), NAMES + EXTRA)
    return data, new, scverse.align(data)


@pytest.fixture(scope="module")
def named(digits):
    """Signals are a data frame in obsm; the second dataset has it in another order and one column less."""
    data = {
        "a": made(digits[0], scores=framed(digits[0])),
        "b": made(digits[1], scores=framed(digits[1])[NAMES[:0:-1]]),
    }
    return data, scverse.align(data, signals="scores", use_rep="scores")


def test_a_known_dataset_with_variables_missing(plain, digits):
    """They count as the dataset's mean, which is nearer to the truth than nothing."""
    data, model = plain
    whole, part = made(digits[2]), made(digits[2])[:, 4:].copy()
    scverse.map_query(whole, model, reference=data, dataset="a")
    scverse.map_query(part, model, reference=data, dataset="a")
    filled = digits[2].copy()
    filled[:, :4] = digits[0][:, :4].mean(axis=0)
    expected = model.transform(filled, dataset="a")
    np.testing.assert_allclose(part.obsm["X_harmonic"], expected, atol=1e-12)
    assert part.uns["harmonic"]["input"]["dataset"] == "a (new rows)"


def test_a_dense_query_that_lacks_variables(plain, digits, caplog):
    _, model = plain
    part = made(digits[2])[:, :60].copy()
    with caplog.at_level(logging.INFO, "harmonicalign"):
        grown = scverse.map_query(part, model)
    assert (
        "lacks 4 of 64 variables that the model compares: pixel60, pixel61, pixel62, pixel63" in caplog.text
    )
    zeros = np.hstack([digits[2][:, :60], np.zeros((40, 4))])
    np.testing.assert_array_equal(grown.fitted_.inputs.signals[2], zeros)


def test_two_rows_have_no_graph_of_their_own(plain, digits):
    data, model = plain
    rows = made(digits[2][:2])
    scverse.map_query(rows, model, reference=data, dataset="a")
    assert rows.obsp["harmonic_distances"].shape == (2, 2)
    assert rows.obsp["harmonic_distances"].nnz == 0
    assert np.isfinite(rows.obsm["X_harmonic"]).all()


def test_no_rows_at_all(plain, digits):
    _, model = plain
    with pytest.raises(ValueError, match="0 row"):
        scverse.map_query(made(digits[2])[:0, ::-1].copy(), model)


def test_the_published_method_cannot_take_a_query(digits):
    model = scverse.align([made(digits[0]), made(digits[1])], method="paper")
    with pytest.raises(ValueError, match='map_query needs a model of method="refined"'):
        scverse.map_query(made(digits[2]), model)


def test_variables_that_only_one_dataset_has(with_own, digits):
    data, new, model = with_own
    assert model.fitted_.inputs.datasets[0].shape[1] == 144
    known = data["a"][:5].copy()
    for key in ("obsm", "obsp", "uns"):
        getattr(known, key).clear()
    scverse.map_query(known, model, reference=data, dataset="a")
    np.testing.assert_array_equal(known.obsm["X_harmonic"], model.embedding_[0][:5])
    mapped, grown = scverse.map_query(new, model, reference=data, copy=True)  # as a dataset of its own
    assert grown.fitted_.inputs.datasets[2].shape == (40, 144)
    np.testing.assert_array_equal(mapped.obsm["X_harmonic"], grown.embedding_[2])
    with pytest.raises(
        ValueError, match=r"lacks 80 of 144 variables that dataset 'a' is represented by \(own0"
    ):
        scverse.map_query(made(digits[2]), model, reference=data, dataset="a")


def test_a_query_with_a_reduction_of_its_own(digits):
    data = {"a": made(digits[0], rep=digits[0][:, 8:56]), "b": made(digits[1], rep=digits[1][:, 8:56])}
    model = scverse.align(data, use_rep="rep")
    query = made(digits[2], rep=digits[2][:, 8:56])
    grown = scverse.map_query(query, model, reference=data)
    np.testing.assert_array_equal(grown.fitted_.inputs.datasets[2], digits[2][:, 8:56])
    np.testing.assert_array_equal(grown.fitted_.inputs.signals[2], digits[2])


def test_signals_in_obsm_are_matched_by_name(named, digits):
    data, model = named
    assert model.signal_names_ == NAMES[1:]
    straight = made(digits[2], scores=framed(digits[2]))
    turned = made(digits[2], scores=framed(digits[2])[NAMES[::-1]])
    turned.obsm["rep"] = digits[2]
    straight.obsm["rep"] = digits[2]
    for query in (straight, turned):
        scverse.map_query(query, model, reference=data, use_rep="rep")
    np.testing.assert_array_equal(straight.obsm["X_harmonic"], turned.obsm["X_harmonic"])
    lacking = made(digits[2], scores=framed(digits[2])[NAMES[10:]])
    with pytest.raises(ValueError, match=r"lacks 9 of the 63 columns that the model compares \(pixel1, "):
        scverse.map_query(lacking, model, reference=data)


def test_signals_in_obsm_without_names_are_matched_by_position(digits):
    data = {"a": made(digits[0], scores=digits[0]), "b": made(digits[1], scores=digits[1])}
    model = scverse.align(data, signals="scores")
    as_array, as_frame = made(digits[2], scores=digits[2]), made(digits[2], scores=framed(digits[2]))
    for query in (as_array, as_frame):
        scverse.map_query(query, model, reference=data)
    np.testing.assert_array_equal(as_array.obsm["X_harmonic"], as_frame.obsm["X_harmonic"])


def test_a_model_that_was_fitted_on_data_frames(digits):
    """A query has names too, so the order in which a dataset had its columns plays no part."""
    turned = NAMES[::-1]
    frames = {"a": framed(digits[0]), "b": framed(digits[1])[turned]}
    model = HarmonicAlignment(random_state=0).fit(frames)
    query = made(digits[2])
    grown = scverse.map_query(query, model)
    np.testing.assert_array_equal(grown.fitted_.inputs.signals[2], digits[2])
    expected = grown.embedding_[2]
    np.testing.assert_allclose(
        grown.transform(framed(digits[2])[turned], dataset="query"), expected, atol=1e-8
    )
    more = made(digits[1][:20] + 0.01)
    scverse.map_query(more, model, dataset="b")
    expected = model.transform(framed(digits[1][:20] + 0.01), dataset="b")
    np.testing.assert_allclose(more.obsm["X_harmonic"], expected, atol=1e-8)
