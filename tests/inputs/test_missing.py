"""What is missing, or is no number, is refused or counts as unlabelled; never silently something else."""

import datetime
import logging

import numpy as np
import pandas as pd
import pytest
from samples import sample

from harmonicalign import HarmonicAlignment
from harmonicalign.inputs.labels import batch_codes, label_objects
from harmonicalign.inputs.validate import check_rows
from harmonicalign.uses.transfer import transfer_labels, transfer_values

X, Y = sample(60, 0), sample(70, 1)
BOTH = np.r_[X, Y]


def fit(*args, **kwargs):
    return HarmonicAlignment(method="paper", random_state=0).fit(*args, **kwargs)


@pytest.fixture(scope="module")
def model():
    return fit([X, Y])


# --- data ---------------------------------------------------------------------------------------------------


def test_masked_values_are_missing(model):
    mask = np.zeros(X.shape, dtype=bool)
    masked = np.ma.masked_array(X, mask)
    np.testing.assert_array_equal(check_rows("X", masked), X)
    mask[3, 2] = mask[5, 5] = True
    masked = np.ma.masked_array(X, mask)
    for call in (
        lambda: fit([masked, Y]),
        lambda: fit(np.ma.vstack([masked, Y]), batch=[0] * 60 + [1] * 70),
        lambda: fit([X, Y], signals=[masked, Y]),
        lambda: model.transform(masked, dataset=0),
        lambda: model.denoise(masked, dataset=0),
        lambda: model.impute(masked, source=0, target=1),
    ):
        with pytest.raises(ValueError, match="2 masked value"):
            call()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.Series([1, None, 3] * 20, dtype="Int64"), r"X\[0\] contains 20 NaN"),
        (pd.Series([1.5, None, 3] * 20, dtype="Float64"), r"X\[0\] contains 20 NaN"),
        (pd.Series([1, None, 3] * 20, dtype=object), r"X\[0\] contains 20 NaN"),
        (pd.Series([1, pd.NA, 3] * 20, dtype=object), r"X\[0\] contains 20 NaN"),
        (pd.Series([True, None, False] * 20, dtype="boolean"), r"X\[0\] contains 20 NaN"),
        (pd.Series(pd.date_range("2020-01-01", periods=60)), "column 'new' holds dates or times"),
        (pd.Series(pd.date_range("2020-01-01", periods=60, tz="UTC")), "column 'new' holds dates or times"),
        (pd.Series(pd.to_timedelta(range(60), unit="s")), "column 'new' holds dates or times"),
        (pd.Series(pd.period_range("2020-01", periods=60, freq="M")), "column 'new' holds dates or times"),
        (pd.Series(["0", "1", "2"] * 20, dtype="category"), "column 'new' holds categories"),
        (pd.Series(["0", "1", "2"] * 20, dtype="string"), "column 'new' holds text"),
        (pd.Series(["0", "1", "2"] * 20, dtype=object), "entries of type str that are not numbers"),
        (pd.Series([datetime.date(2020, 1, 1)] * 60, dtype=object), "entries of type date that are not"),
        (pd.Series([{"a": 1}] * 60, dtype=object), "not numbers"),
    ],
)
def test_columns_without_numbers_are_refused(column, message):
    frame = pd.DataFrame(X).assign(new=column)
    with pytest.raises(ValueError, match=message):
        fit([frame, pd.DataFrame(Y).assign(new=0.0)])


def test_columns_of_every_number_are_taken():
    frame = pd.DataFrame(
        {
            "Int64": pd.Series([1, 2, 3], dtype="Int64"),
            "boolean": pd.Series([True, False, True], dtype="boolean"),
            "float32": np.array([1, 2, 3], dtype=np.float32),
            "object": pd.Series([1, 2.5, True], dtype=object),
            "sparse": pd.arrays.SparseArray([0.0, 0.0, 1.0]),
        }
    )
    expected = [[1, 1, 1, 1, 0], [2, 0, 2, 2.5, 0], [3, 1, 3, 1, 1]]
    np.testing.assert_array_equal(check_rows("X", frame), expected)
    np.testing.assert_array_equal(check_rows("X", frame[["Int64", "boolean"]]), np.array(expected)[:, :2])


@pytest.mark.parametrize("kind", ["M8[ns]", "M8[D]", "m8[s]"])
def test_dates_are_no_numbers(kind, model):
    dates = (np.arange(300).reshape(60, 5)).astype(kind)
    with pytest.raises(ValueError, match=r"X\[0\] has entries of type .* \(dates or times\)"):
        fit([dates, Y[:, :5]])
    if kind != "M8[ns]":  # these become plain integers
        with pytest.raises(ValueError, match=r"X\[0\] has entries of type .* that are not numbers"):
            fit([dates.astype(object), Y[:, :5]])
    with pytest.raises(ValueError, match=r"dates or times"):
        model.transfer(dates[:, 0])
    with pytest.raises(ValueError, match="values are dates or times"):
        transfer_values(X, dates[:, 0], Y)


def test_what_is_no_number_is_an_error_of_both_kinds():
    """Everything here is a `ValueError`; scikit-learn asks for a `TypeError`."""
    for kind in (ValueError, TypeError):
        with pytest.raises(kind, match="not numbers"):
            check_rows("X", [[1.0, {"a": 1}]])


# --- batch --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (np.nan, "batch contains NaN: 1 of 130 rows have no label"),
        (None, "batch contains NaN: 1 of 130 rows have no label"),
        (pd.NA, "batch contains NaN: 1 of 130 rows have no label"),
        (pd.NaT, "batch contains NaN: 1 of 130 rows have no label"),
        (np.datetime64("NaT"), "batch contains NaN: 1 of 130 rows have no label"),
        (7, "mixes labels that cannot be sorted or told apart"),
    ],
)
def test_batch_with_a_row_without_label_is_refused(missing, message):
    labels = ["a"] * 60 + ["b"] * 69 + [missing]
    forms = [labels, tuple(labels), pd.Series(labels, dtype=object), np.array(labels, dtype=object)]
    for form in forms:
        with pytest.raises(ValueError, match=message):
            fit(BOTH, batch=form)


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series([0] * 60 + [1] * 69 + [None], dtype="Int64"),
        pd.Series([0] * 60 + [1] * 69 + [None]),
        pd.Categorical(["a"] * 60 + ["b"] * 69 + [None]),
        np.ma.masked_array(np.repeat(["a", "b"], [60, 70]), np.arange(130) == 129),
    ],
)
def test_batch_of_every_type_with_a_gap_is_refused(labels):
    with pytest.raises(ValueError, match="batch contains NaN: 1 of 130"):
        fit(BOTH, batch=labels)


def test_batch_of_dates_or_other_objects_is_refused():
    days = np.array(["2020-01-01"] * 60 + ["2020-01-02"] * 70, dtype="M8[ns]")
    for batch in (days, pd.Series(days)):
        with pytest.raises(ValueError, match=r"batch holds dates or times; make them text"):
            fit(BOTH, batch=batch)
    with pytest.raises(ValueError, match="batch has labels of type date; make them all text"):
        fit(BOTH, batch=[datetime.date(2020, 1, 1)] * 130)
    assert fit(BOTH, batch=days.astype("M8[D]").astype(str)).keys_ == ["2020-01-01", "2020-01-02"]


@pytest.mark.parametrize("labels", [[1] * 60 + ["1"] * 70, [True] * 60 + [1] * 70, ["a"] * 60 + [b"a"] * 70])
def test_batch_of_labels_that_could_be_one_is_refused(labels):
    with pytest.raises(ValueError, match="batch mixes labels"):
        fit(BOTH, batch=labels)


def test_batch_of_one_type_is_taken():
    for low, high in (("a", "b"), (1, 2), (1.5, 2), (False, True)):
        labels = [low] * 2 + [high] * 3
        for form in (labels, np.array(labels), pd.Series(labels), pd.Series(labels).astype("category")):
            names, codes = batch_codes("batch", form, 5, "X")
            assert names == [low, high]
            assert codes.tolist() == [0, 0, 1, 1, 1]
    polars = pytest.importorskip("polars")
    names, codes = batch_codes("batch", polars.Series(["b", "a"]), 2, "X")
    assert (names, codes.tolist()) == (["a", "b"], [1, 0])


def test_keys_that_are_missing_are_refused():
    for key in (None, np.nan):
        with pytest.raises(ValueError, match="X has a dataset whose key is None or NaN"):
            fit({"a": X, key: Y})


# --- labels and values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [np.nan, None, pd.NA, pd.NaT])
def test_rows_with_gaps_among_labels_are_unlabelled(model, gap, caplog):
    labels = ["one", "two"] * 30
    labels[5] = gap
    expected = transfer_labels(
        np.delete(model.embedding_[0], 5, 0), np.delete(labels, 5), model.embedding_[1]
    )
    caplog.clear()
    for form in (labels, np.array(labels, dtype=object), pd.Series(labels, dtype=object)):
        found = transfer_labels(model.embedding_[0], form, model.embedding_[1])
        assert found.classes.tolist() == ["one", "two"]
        np.testing.assert_array_equal(found.labels, expected.labels)
        assert model.transfer(form).classes.tolist() == ["one", "two"]
    said = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == (0 if gap is None else 6)
    assert all("1 of 60 rows hold NaN, NA or NaT and count as unlabelled" in r.message for r in said)


def test_whole_numbers_with_gaps_are_labels(model):
    numbers = [1, 2] * 29 + [1, None]
    arrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    for form in (
        pd.Series(numbers, dtype="Int64"),
        [1, 2] * 29 + [1, np.nan],
        np.ma.masked_array([1, 2] * 30, np.arange(60) == 59),
        polars.Series(numbers),
        arrow.array(numbers),
        arrow.chunked_array([numbers]),
    ):
        assert model.transfer(form).classes.tolist() == [1, 2]


def test_floating_point_numbers_with_gaps_are_values(model):
    numbers = [1.5, 2.0] * 29 + [1.0, None]
    arrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    expected = model.transfer(np.array(numbers, dtype=float)).values
    for form in (
        pd.Series(numbers, dtype="Float64"),
        numbers,
        np.ma.masked_array([1.5, 2.0] * 29 + [1.0, 9.0], np.arange(60) == 59),
        polars.Series(numbers),
        arrow.array(numbers),
    ):
        np.testing.assert_allclose(model.transfer(form).values, expected)


def test_whole_floating_point_numbers_with_gaps_are_mentioned(model, caplog):
    model.transfer(np.array([1.0, 2.0] * 29 + [1.0, np.nan]))
    assert "transferred as values, although all are whole" in caplog.text
    caplog.clear()
    model.transfer(np.array([1.0, 2.0] * 29 + [1.0, 2.5]))
    model.transfer(np.random.RandomState(0).rand(60))
    assert not caplog.text


def test_labels_beside_values_are_refused(model):
    three = fit([X, Y, X[::-1]])
    with pytest.raises(ValueError, match=r"labels of 0 are values .* but those of 1 are labels"):
        three.transfer({0: np.ones(60) * 0.5, 1: ["a", "b"] * 35}, target=2)
    with pytest.raises(ValueError, match=r"labels names a dataset twice: \['a', 0\]"):
        fit({"a": X, "b": Y}).transfer({"a": ["c"] * 60, 0: ["d"] * 60}, target="b")
    with pytest.raises(ValueError, match="labels is empty"):
        model.transfer({})


def test_a_threshold_beside_values_is_refused(model):
    with pytest.raises(ValueError, match="threshold serves labels, but these are values"):
        model.transfer(X[:, 0], threshold=0.5)


def test_values_of_several_sources_are_matched_by_name():
    three = fit([X, Y, X[::-1] + 0.01])
    first = pd.DataFrame(X[:, :2], columns=["a", "b"])
    second = pd.DataFrame(Y[:, :2], columns=["a", "b"])
    expected = three.transfer({0: first, 1: second}, target=2).values
    found = three.transfer({0: first, 1: second[["b", "a"]]}, target=2).values
    np.testing.assert_array_equal(found, expected)
    for other in (second.rename(columns={"b": "c"}), second.to_numpy()):
        with pytest.raises(ValueError, match="values of the sources have different columns"):
            three.transfer({0: first, 1: other}, target=2)


def test_label_objects_are_plain():
    assert label_objects("labels", np.array([1, 2])) == [1, 2]
    assert label_objects("labels", [np.int64(1), np.str_("a"), None]) == [1, "a", None]
    assert label_objects("labels", np.ma.masked_array([1, 2], [True, False])) == [None, 2]
    for table in (np.ones((2, 2)), np.ma.masked_array(np.ones((2, 2)))):
        with pytest.raises(ValueError, match=r"labels has shape \(2, 2\); pass one label per row"):
            label_objects("labels", table)
