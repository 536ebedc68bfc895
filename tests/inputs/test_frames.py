"""Names travel with data: whatever a table is of, and in whatever order its columns come."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from samples import sample

from harmonicalign import HarmonicAlignment, ModelFileError, align, harmonics, kernel_graph, multi_align
from harmonicalign.adapters import storage
from harmonicalign.inputs.frames import Named, layout_of, names_of, numbers_of, part_of
from harmonicalign.inputs.rows import same_columns
from harmonicalign.inputs.validate import check_rows
from harmonicalign.metrics import knn_label_agreement
from harmonicalign.uses.correct import correct

NAMES = [f"gene{i}" for i in range(26)]
TURNED = [NAMES[i] for i in np.random.RandomState(1).permutation(26)]
METHODS = pytest.mark.parametrize("method", ["paper", "refined"])


def to_pandas(frame):
    return frame


def to_polars(frame):
    return pytest.importorskip("polars").from_pandas(frame)


def to_pyarrow(frame):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame, preserve_index=False)


def to_record_batch(frame):
    return pytest.importorskip("pyarrow").RecordBatch.from_pandas(frame, preserve_index=False)


def to_narwhals(frame):
    return pytest.importorskip("narwhals").from_native(to_polars(frame))


class Foreign:
    """A table that speaks the interchange protocol and nothing else."""

    def __init__(self, frame):
        self.table = to_pyarrow(frame)
        self.shape = frame.shape

    def __dataframe__(self, **options):
        return self.table.__dataframe__(**options)


LIBRARIES = [to_pandas, to_polars, to_pyarrow, to_record_batch, to_narwhals, Foreign]


def fit(method, *args, **kwargs):
    return HarmonicAlignment(method=method, random_state=0).fit(*args, **kwargs)


def same(found, expected):
    """Equal up to rounding, which depends on how a matrix lies in memory."""
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def frames():
    x = pd.DataFrame(sample(60, 0), columns=NAMES, index=[f"a{i}" for i in range(60)])
    y = pd.DataFrame(sample(70, 1), columns=NAMES, index=[f"b{i}" for i in range(70)])
    return x, y[TURNED]


@pytest.fixture(scope="module", params=["paper", "refined"])
def model(request, frames):
    return fit(request.param, list(frames))


# --- one rule: by name, and an array in the order of the dataset that it stands for -------------------------


def test_an_array_has_the_order_of_its_own_dataset(model, frames):
    for i, frame in enumerate(frames):
        new = frame + 0.01
        by_name = model.transform(new, dataset=i)
        mixed = new[np.random.RandomState(2).permutation(NAMES)]
        values = new.to_numpy()
        for form in (values, values.tolist(), sp.csr_matrix(values), mixed):
            same(model.transform(form, dataset=i), by_name)
        np.testing.assert_array_equal(model.transform(frame.to_numpy(), dataset=i), model.embedding_[i])
    all_at_once = model.transform([frames[0][TURNED], frames[1].to_numpy()])
    for found, expected in zip(all_at_once, model.embedding_, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_saved_model_has_the_same_rule(model, frames, tmp_path):
    again = HarmonicAlignment.load(model.save(tmp_path / "model.npz"))
    new = frames[1] + 0.01
    expected = model.transform(new, dataset=1)
    same(again.transform(new.to_numpy(), dataset=1), expected)
    same(again.transform(new[NAMES], dataset=1), expected)
    for found, before in zip(again.correct().values, model.correct().values, strict=True):
        pd.testing.assert_frame_equal(found, before)


def test_signals_have_the_order_of_their_own_dataset(frames):
    x, y = (frame.to_numpy() @ np.random.RandomState(3).randn(26, 5) for frame in frames)
    signals = [frames[0][NAMES[:20]], frames[1]]
    with pytest.warns(UserWarning, match="20 column names are shared"):
        model = fit("refined", [x, y], signals=signals)
    for i, rows in enumerate((x, y)):
        new, shown = rows + 0.01, signals[i] + 0.01
        by_name = model.transform(new, dataset=i, signals=shown)
        own = model.transform(new, dataset=i, signals=shown.to_numpy())
        same(own, by_name)
        found = model.transform(rows, dataset=i, signals=signals[i].to_numpy())
        np.testing.assert_array_equal(found, model.embedding_[i])
    with pytest.raises(ValueError, match="20 columns without names, but dataset 1 was fitted with 26"):
        model.transform(y, dataset=1, signals=frames[1][NAMES[:20]].to_numpy())


def test_columns_that_are_missing_or_twice_or_too_many_are_refused(model, frames):
    x = frames[0]
    with pytest.raises(ValueError, match=r"X lacks the column\(s\) gene3 that dataset 0"):
        model.transform(x.drop(columns="gene3"), dataset=0)
    with pytest.raises(ValueError, match="X has the column name 'gene3' more than once"):
        model.transform(x.rename(columns={"gene4": "gene3"}), dataset=0)
    with pytest.raises(ValueError, match=r"X has the column\(s\) other that dataset 0"):
        model.transform(x.assign(other=1.0), dataset=0)
    with pytest.raises(ValueError, match="X has 25 features; dataset 1 was fitted with 26"):
        model.transform(frames[1].to_numpy()[:, 1:], dataset=1)
    with pytest.raises(ValueError, match=r"1 dimension"):
        model.transform(frames[1].to_numpy()[0], dataset=1)


# --- every library ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_of_every_library_are_matched_by_name(frames, library):
    x, y = frames
    expected = fit("paper", [x, y])
    model = fit("paper", [library(x), library(y)])
    assert model.signal_names_ == NAMES
    for found, before in zip(model.embedding_, expected.embedding_, strict=True):
        same(found, before)
    np.testing.assert_array_equal(model.transform(library(y[NAMES]), dataset=1), model.embedding_[1])
    batch = ["a"] * 60 + ["b"] * 70
    stacked = fit("paper", library(pd.concat([x, y])), batch=batch)
    assert stacked.keys_ == ["a", "b"]
    same(stacked.embedding_[1], before)


def test_libraries_may_differ(frames):
    x, y = frames
    model = fit("paper", {"a": to_polars(x), "b": to_pyarrow(y)})
    same(model.embedding_[1], fit("paper", [x, y]).embedding_[1])
    model = fit("refined", [x, y])
    z = model.add(to_polars(y + 0.05))
    np.testing.assert_array_equal(model.transform(y + 0.05, dataset=2), z)
    np.testing.assert_array_equal(model.fitted_.inputs.signals[2], (y + 0.05)[NAMES])


@pytest.mark.parametrize("library", [to_polars, to_pyarrow])
def test_missing_text_and_dates_in_tables_are_refused(frames, library):
    x = frames[0].reset_index(drop=True)
    for column, message in [
        (pd.Series([None, 1.0] * 30), "30 NaN"),
        (pd.Series([None, 1] * 30, dtype="Int64"), "30 NaN"),
        (pd.Series(pd.date_range("2020-01-01", periods=60)), "'gene5' holds dates or times"),
        (pd.Series(["1.5"] * 60), "'gene5' holds .*not numbers"),
        (pd.Series([True, False] * 30), None),
        (pd.Series(range(60)), None),
    ]:
        frame = library(x.assign(gene5=column.to_numpy() if column.dtype.kind == "M" else column))
        if message is None:
            assert check_rows("X", frame)[1, 5] == float(column[1])
        else:
            with pytest.raises(ValueError, match=message):
                check_rows("X", frame)


def test_tables_that_are_not_in_memory_are_refused(frames):
    lazy = to_polars(frames[0]).lazy()
    with pytest.raises(ValueError, match=r"LazyFrame is not in memory; pass what its .collect\(\)"):
        fit("paper", {"a": lazy, "b": lazy})


def test_parts_of_tables(frames):
    x = frames[0]
    matrix = x.to_numpy()
    for table in (*(library(x) for library in LIBRARIES), Named(sp.csr_matrix(matrix), NAMES)):
        part = part_of(table, rows=np.array([4, 2]), columns=[3, 0])
        assert names_of(part) == ["gene3", "gene0"]
        found = numbers_of("X", part)
        np.testing.assert_array_equal(
            found.toarray() if sp.issparse(found) else found, matrix[[4, 2]][:, [3, 0]]
        )
    assert names_of(matrix) is None
    assert names_of(sp.csr_matrix(matrix)) is None
    assert names_of(matrix.tolist()) is None


# --- a mixture ----------------------------------------------------------------------------------------------


@METHODS
def test_data_frames_mixed_with_arrays_are_refused(frames, method):
    x, y = frames
    message = r"X mixes data frames \(0\) with arrays \(1\).*pass arrays for all, for example frame.to_numpy"
    for table in (x, to_polars(x), to_pyarrow(x)):
        with pytest.raises(ValueError, match=message):
            fit(method, [table, y.to_numpy()])
    with pytest.raises(ValueError, match=r"signals mixes data frames \('b'\) with arrays \('a'\)"):
        fit(method, {"a": x, "b": y}, signals={"a": x.to_numpy(), "b": y})
    with pytest.raises(ValueError, match="X has no column names, but this model matched columns by name"):
        fit("refined", [x, y]).add(y.to_numpy())


def test_a_mixture_is_no_matter_where_columns_need_not_correspond(frames):
    x, y = frames
    signals = [x.to_numpy(), y[NAMES].to_numpy()]
    model = fit("paper", [x, y.to_numpy()], signals=signals)
    np.testing.assert_array_equal(model.transform(x[TURNED], dataset=0), model.embedding_[0])
    fit("paper", [x, y.to_numpy()], links=np.eye(26))


def test_names_that_are_only_numbers_of_columns_are_no_names(frames):
    x, y = (frame[NAMES].to_numpy() for frame in frames)
    expected = fit("paper", [x, y]).embedding_
    for mixed in (
        [pd.DataFrame(x), y],
        [x, to_polars(pd.DataFrame(y, columns=[f"column_{i}" for i in range(26)]))],
    ):
        for found, before in zip(fit("paper", mixed).embedding_, expected, strict=True):
            same(found, before)


# --- tables in, tables out ----------------------------------------------------------------------------------


def test_corrected_tables_keep_names_and_row_labels(model, frames):
    plain = fit(model.method, [frame[NAMES].to_numpy() for frame in frames]).correct().values
    for found, frame, values in zip(model.correct().values, frames, plain, strict=True):
        assert found.columns.tolist() == NAMES
        assert found.index.tolist() == frame.index.tolist()
        same(found, values)
    pd.testing.assert_frame_equal(model.correct().values[0], frames[0], check_exact=True)


def test_corrected_stacks_keep_names_and_row_labels(frames):
    x, y = frames
    order = np.random.RandomState(0).permutation(130)
    stack, batch = pd.concat([x, y[NAMES]]).iloc[order], np.repeat(["a", "b"], [60, 70])[order]
    model = fit("paper", stack, batch=batch)
    found = model.correct("a").values
    assert found.index.equals(stack.index)
    pd.testing.assert_frame_equal(found[batch == "a"], stack[batch == "a"])
    out = HarmonicAlignment(method="paper").set_output(transform="pandas").fit_transform(stack, batch=batch)
    assert out.index.equals(stack.index)


def test_labels_of_columns_keep_their_type():
    columns = pd.MultiIndex.from_product([["rna", "protein"], range(13)])
    x, y = pd.DataFrame(sample(60, 0), columns=columns), pd.DataFrame(sample(70, 1), columns=columns)
    found = fit("paper", [x, y[columns[::-1]]]).correct().values
    assert found[1].columns.equals(columns)


@pytest.mark.parametrize("library", [to_polars, to_pyarrow])
def test_tables_come_back_as_tables_of_their_library(frames, library):
    x, y = map(library, frames)
    model = fit("paper", [x, y])
    corrected, smooth = model.correct().values[1], model.denoise(y, dataset=1, t=1).values
    guess = model.impute(x, source=0, target=1).values
    assert type(corrected) is type(smooth) is type(guess) is type(y)
    assert names_of(corrected) == names_of(guess) == NAMES
    assert names_of(smooth) == TURNED
    assert [t.shape for t in (corrected, smooth, guess)] == [(70, 26)] * 3
    plain = fit("paper", list(frames))
    same(numbers_of("", guess), plain.impute(frames[0], source=0, target=1).values)


def test_denoised_and_imputed_tables_keep_names_and_row_labels(model, frames):
    x, y = frames
    smooth = model.denoise(y[NAMES[:3]], dataset=1, t=2).values
    assert smooth.index.equals(y.index)
    assert smooth.columns.tolist() == NAMES[:3]
    np.testing.assert_array_equal(smooth, model.denoise(y[NAMES[:3]].to_numpy(), dataset=1, t=2).values)
    guess = model.impute(x[["gene7"]], source=0, target=1).values
    assert guess.index.equals(y.index)
    assert guess.columns.tolist() == ["gene7"]
    assert isinstance(model.impute(x[["gene7"]].to_numpy(), source=0, target=1).values, np.ndarray)


def test_linked_signals_are_found_by_name(frames):
    rows = [frame.to_numpy() @ np.random.RandomState(3).randn(26, 5) for frame in frames]
    signals = [frames[0], frames[1].add_prefix("protein_")]
    model = fit(
        "refined", rows, signals=signals, links=np.array([[a == b for b in TURNED] for a in NAMES], float)
    )
    new, shown = rows[1] + 0.01, signals[1] + 0.01
    expected = model.transform(new, dataset=1, signals=shown.to_numpy())
    turned = shown[shown.columns[::-1]]
    same(model.transform(new, dataset=1, signals=turned), expected)


def test_functions_that_match_by_position_refuse_other_orders(frames):
    x, y = frames
    message = "the same columns in different orders, and are matched by position"
    bases = [harmonics(kernel_graph(frame.to_numpy())) for frame in frames]
    for call in (
        lambda: align(*bases, x, y),
        lambda: multi_align(bases, [x, y]),
        lambda: correct([x, y], [h.phi[:, :5] for h in bases]),
        lambda: knn_label_agreement(x, [0, 1] * 30, y, [0, 1] * 35),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    same(align(*bases, x, y[NAMES]).rotation, align(*bases, x.to_numpy(), y[NAMES].to_numpy()).rotation)


# --- names of rows ------------------------------------------------------------------------------------------


def test_rows_in_another_order_are_refused(model, frames):
    x, y = frames
    message = "{} has the row labels of {} in another order"
    turned = x.iloc[::-1]
    labels = pd.Series(["one", "two"] * 30, index=x.index)
    with pytest.raises(ValueError, match=message.format("labels", "dataset 0")):
        model.transfer(labels.iloc[::-1])
    with pytest.raises(ValueError, match=message.format("values", "dataset 0")):
        model.denoise(turned, dataset=0)
    with pytest.raises(ValueError, match=message.format("values", "dataset 0")):
        model.impute(turned, source=0, target=1)
    with pytest.raises(ValueError, match=message.format("signals", r"X\[0\]")):
        fit("paper", [x, y], signals=[turned, y])
    stack = pd.concat([x, y[NAMES]])
    batch = pd.Series(["a"] * 60 + ["b"] * 70, index=stack.index)
    with pytest.raises(ValueError, match=message.format("batch", "X")):
        fit("paper", stack, batch=batch.sample(frac=1, random_state=0))
    with pytest.raises(ValueError, match=message.format("signals", "X")):
        fit("paper", stack, batch=batch.to_numpy(), signals=stack.iloc[::-1])
    fit("paper", stack, batch=batch.reset_index(drop=True))  # other labels say nothing
    assert len(model.transfer(labels).labels) == 70
    assert len(model.transfer(labels.to_numpy()[::-1]).labels) == 70


def test_layouts_that_are_stored_hold_text_and_numbers(frames):
    stored = layout_of(frames[0]).storable()
    assert stored.labels is None
    assert stored.index.tolist() == frames[0].index.tolist()
    dates = frames[0].set_index(pd.date_range("2020-01-01", periods=60))
    assert layout_of(dates).storable().index is None


def test_a_model_file_whose_names_do_not_fit_is_refused(model, tmp_path):
    path = model.save(tmp_path / "model.npz")
    stored = storage.read_alignment(path)
    inputs = stored.fitted.inputs
    own = inputs.layouts
    for change in (
        {"layouts": own[:1]},
        {"layouts": [own[0], replace(own[1], names=own[1].names[1:])]},
        {"layouts": [own[0], 5]},
        {"signal_layouts": [own[0], replace(own[1], names=["other", *own[1].names[1:]])]},
        {"signal_layouts": [own[0], replace(own[1], names="gene1")]},
    ):
        fitted = replace(stored.fitted, inputs=replace(inputs, **change))
        tree = {"params": stored.params, "features": stored.features, "fitted": fitted}
        storage.write_tree(path, tree, storage.TYPES)
        with pytest.raises(ModelFileError, match="does not hold a whole model"):
            HarmonicAlignment.load(path)


def test_own_columns_are_known_in_any_order(rng):
    rows = rng.randn(500, 7) * (rng.rand(500, 7) < 0.5)
    other = rows[:, rng.permutation(7)]
    for form in (np.asarray, sp.csr_matrix, sp.csc_matrix):
        assert same_columns(rows, form(other))
        assert not same_columns(rows, form(np.c_[other[:, :6], other[:, 0]]))
        assert not same_columns(rows, form(other[::-1]))
        assert not same_columns(rows, form(other[:, :6]))
