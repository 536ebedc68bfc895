import copy
import dataclasses
import inspect
import io
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from samples import sample
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from transcription import multi_alignment

from harmonicalign import AlignmentWarning, HarmonicAlignment
from harmonicalign.fitted.alignment import FittedAlignment
from harmonicalign.method import DEFAULT, memory

ONE = pytest.mark.filterwarnings("ignore:there is one dataset:harmonicalign.AlignmentWarning")


def paper(**options):
    return HarmonicAlignment(**{"method": "paper", "random_state": 0, **options})


@pytest.fixture
def pair():
    return sample(60, 0), sample(70, 1)


# well separated blobs; one dataset, and labels
@pytest.mark.filterwarnings("ignore::harmonicalign.AlignmentWarning")
@parametrize_with_checks([HarmonicAlignment(method="paper")])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("options", [{}, {"decay": 4.0, "anisotropy": 0.5, "t": 2.5, "n_bands": 3}])
@pytest.mark.parametrize("n", [2, 3])
def test_paper_method_is_the_transcription(options, n):
    # Each dataset has more signals than harmonics, so nothing is left to the completion of T.
    rows = [sample(size, size, 30) for size in (40, 32, 36)][:n]
    model = paper(n_neighbors=6, n_harmonics=None, n_pca=None, **options).fit(rows)
    expected = multi_alignment(
        rows,
        rows,
        [h.graph.bandwidth for h in model.harmonics_],
        options.get("t", 1),
        options.get("n_bands", 8),
        options.get("decay", 2),
        options.get("anisotropy", 1),
    )
    assert all(pair.rank == min(pair.rotation.shape) for pair in model.alignment_.pairs.values())
    ours, theirs = np.vstack(model.embedding_), np.vstack(expected)
    # Signs of eigenvectors are a convention: each column may be flipped as a whole.
    signs = np.sign((ours * theirs).sum(axis=0))
    assert ours == pytest.approx(theirs * signs, abs=1e-8)


def test_forms_of_input_and_output(pair):
    x, y = pair
    zx, zy = paper().fit_transform([x, y])
    by_key = paper().fit_transform({"a": x, "b": y})
    assert list(by_key) == ["a", "b"]
    assert (by_key["a"] == zx).all()
    order = np.random.RandomState(0).permutation(130)
    batch = np.array(["a"] * 60 + ["b"] * 70)[order]
    stacked = paper().fit_transform(np.r_[x, y][order], batch=batch)
    back = np.argsort(order)
    assert stacked[back][:60] == pytest.approx(zx, abs=1e-6)
    assert stacked[back][60:] == pytest.approx(zy, abs=1e-6)
    sparse = paper().fit_transform([sp.csr_matrix(x), sp.coo_matrix(y)])
    assert sparse[0] == pytest.approx(zx, abs=1e-8)
    nested = paper().fit_transform([x.tolist(), y.tolist()])
    assert nested[1] == pytest.approx(zy)
    with pytest.warns(AlignmentWarning, match="there is one dataset"):
        single = paper().fit_transform(x)
    assert single.shape == (60, 59)


def test_signals_are_what_is_compared(pair):
    x, y = pair
    turn = np.linalg.qr(np.random.RandomState(0).randn(26, 26))[0]
    plain = paper().fit([x, y])
    turned = paper().fit([x @ turn, np.c_[y, y]], signals=[x, y])
    assert turned.alignment_.rotation(0, 1)[:4, :4] == pytest.approx(
        plain.alignment_.rotation(0, 1)[:4, :4], abs=1e-5
    )
    stacked = paper().fit_transform(np.r_[x, y], batch=[0] * 60 + [1] * 70, signals=np.r_[x, y][:, :20])
    listed = paper().fit_transform([x, y], signals=[x[:, :20], y[:, :20]])
    assert stacked[:60] == pytest.approx(listed[0])


def test_data_frames_are_matched_by_name(pair):
    x, y = pair
    names = [f"gene{i}" for i in range(26)]
    fx, fy = pd.DataFrame(x, columns=names), pd.DataFrame(y, columns=names)
    expected = paper().fit_transform([x, y])
    same = paper().fit_transform([fx, fy[names[::-1]]])
    assert same[1] == pytest.approx(expected[1], abs=1e-6)
    with pytest.warns(UserWarning, match=r"20 column names are shared by all datasets of 26, 20 columns"):
        model = paper().fit([fx, fy[names[:20]]])
    assert model.signal_names_ == names[:20]
    with pytest.raises(ValueError, match="no column name is shared"):
        paper().fit([fx, fy.add_prefix("other")])
    with pytest.raises(ValueError, match="more than once"):
        paper().fit([fx, fy.rename(columns={"gene1": "gene2"})])


def test_pandas_output(pair):
    x, y = pair
    frame = pd.DataFrame(x, index=[f"cell{i}" for i in range(60)])
    out = paper(n_harmonics=5).set_output(transform="pandas").fit_transform([frame, y])
    assert out[0].index.tolist() == frame.index.tolist()
    assert out[1].columns[0] == "harmonic0"
    with config_context(transform_output="pandas"):
        assert isinstance(paper().fit_transform([x, y])[0], pd.DataFrame)
    with pytest.raises(ValueError, match="transform"):
        paper().set_output(transform="excel")


def test_asking_for_no_container_in_particular_changes_nothing(pair):
    model = paper(n_harmonics=5).set_output(transform="pandas").set_output()
    assert isinstance(model.fit_transform(list(pair))[0], pd.DataFrame)


def test_polars_output(pair):
    pl = pytest.importorskip("polars")
    out = paper(n_harmonics=5).set_output(transform="polars").fit_transform(list(pair))
    assert isinstance(out[1], pl.DataFrame)
    assert out[1].columns == [f"harmonic{i}" for i in range(10)]
    assert (out[0].to_numpy() == paper(n_harmonics=5).fit_transform(list(pair))[0]).all()


@ONE
def test_signals_of_a_single_dataset(pair):
    """One dataset is compared with none, so its signals have no say; their rows are checked all the same."""
    x, _ = pair
    assert (paper().fit_transform(x, signals=x[:, :3]) == paper().fit_transform(x)).all()
    with pytest.raises(ValueError, match="signals of 0 has 59 rows where X has 60"):
        paper().fit(x, signals=x[1:])


def test_fitted_names(pair):
    x, _ = pair
    frame = pd.DataFrame(x).add_prefix("f")
    model = paper().fit(frame, batch=[0] * 30 + [1] * 30)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert model.n_features_in_ == 26


def test_transform_returns_the_embedding_of_known_rows(pair):
    x, y = pair
    for options in ({}, {"frame": "common"}, {"n_pca": 5}, {"t": 0.5}):
        model = paper(**options).fit([x, y])
        assert (model.transform(y, dataset=1) == model.embedding_[1]).all()
        assert (model.transform(x[5:9], dataset=0) == model.embedding_[0][5:9]).all()
        both = model.transform([x, y])
        assert (both[0] == model.embedding_[0]).all()


def test_transform_places_new_rows_near_their_kin():
    rows = sample(400, 0)
    model = paper(n_harmonics=20).fit([rows[:200], rows[200:380]])
    new = model.transform(rows[380:], dataset=1)
    near = np.linalg.norm(rows[380:, None] - rows[None, 200:380], axis=2).argmin(axis=1)
    moved = np.linalg.norm(new - model.embedding_[1][near], axis=1)
    spread = np.linalg.norm(new - model.embedding_[1].mean(axis=0), axis=1)
    assert np.median(moved / spread) < 0.4


def test_transform_by_key_and_bad_keys(pair):
    x, y = pair
    model = paper().fit({"rna": x, "atac": y})
    assert (model.transform(y, dataset="atac") == model.embedding_[1]).all()
    assert (model.transform(y, dataset=np.int64(1)) == model.embedding_[1]).all()
    with pytest.raises(ValueError, match="names 2; the datasets are"):
        model.transform(y, dataset=2)
    with pytest.raises(ValueError, match="rna"):
        model.transform(y, dataset="protein")
    with pytest.raises(ValueError, match="dataset="):
        model.transform([x])
    with pytest.raises(ValueError, match="25 features"):
        model.transform(y[:, 1:], dataset="atac")


def test_common_frame(pair):
    model = paper(frame="common", n_harmonics=10).fit([*pair, sample(50, 2)])
    assert [z.shape for z in model.embedding_] == [(60, 10), (70, 10), (50, 10)]


def test_joint_geometry_is_there_when_asked_for(pair):
    model = paper().fit(list(pair))
    assert model.joint_.harmonics.n_rows == 130
    first = model.joint_
    assert model.joint_ is first
    model.fit(list(pair)[::-1])
    assert model.joint_ is not first


def test_refit_equals_fresh_fit(pair):
    x, y = pair
    model = paper(n_neighbors="auto").fit([x, y])
    again = model.fit([y[:50], x[:40]])
    fresh = paper().fit([y[:50], x[:40]])
    for a, b in zip(again.embedding_, fresh.embedding_, strict=True):
        assert (a == b).all()
    assert model.get_params() == paper().get_params()


def test_refit_by_the_other_method_equals_a_fresh_fit(pair):
    """Nothing of a fit outlives the next one, whatever was asked of it."""
    x, y = pair
    model = HarmonicAlignment(random_state=0).fit([x, y, x[::-1]])
    assert model.joint_.batch.max() == 2
    assert len(model.confidence_) == 3
    model.set_params(method="paper").fit(pd.DataFrame(x).add_prefix("f"), batch=[0] * 30 + [1] * 30)
    model.fit([y, x[:, :26]])
    fresh = paper().fit([y, x])
    for name in ("embedding_", "confidence_"):
        for a, b in zip(getattr(model, name), getattr(fresh, name), strict=True):
            np.testing.assert_array_equal(a, b)
    assert model.joint_.batch.max() == 1
    assert not hasattr(model, "significance_")
    assert not hasattr(model, "feature_names_in_")


def test_a_fit_that_is_refused_leaves_the_earlier_one(pair):
    model = paper().fit(list(pair))
    before = model.fitted_
    with pytest.raises(ValueError, match="method"):
        model.set_params(method="magic").fit(list(pair))
    assert model.fitted_ is before


@pytest.mark.parametrize("method", ["refined", "paper"])
def test_a_fitted_alignment_is_immutable_and_says_all(pair, method):
    x, y = pair
    model = HarmonicAlignment(method=method, random_state=0).fit({"a": x, "b": y})
    fitted = model.fitted_
    assert isinstance(fitted, FittedAlignment)
    for name in ("model", "embedding", "settings", "keys"):
        with pytest.raises(AttributeError):
            setattr(fitted, name, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        fitted.model.t = 5
    with pytest.raises(AttributeError):
        model.embedding_ = []
    model.embedding_.clear()
    model.keys_.clear()
    assert fitted.keys == model.keys_ == ["a", "b"]
    assert fitted.sizes == [60, 70]
    assert fitted.model.method == method
    assert fitted.position("b") == fitted.position(1) == 1
    assert [z.shape[1] for z in fitted.embedding] == [fitted.width] * 2
    assert model.joint_ is model.joint_ is fitted.joint
    np.testing.assert_array_equal(fitted.place(1, y[3:9]), fitted.embedding[1][3:9])
    assert [len(s) for s in fitted.support()] == [60, 70]
    assert inspect.signature(model.transfer).parameters.keys() >= {"labels", "source", "target", "method"}
    assert "Parameters" in model.transfer.__doc__


def test_joint_coordinates_are_the_last_of_the_embedding(pair):
    """Of the default; the published map is in one space as it is."""
    fitted = HarmonicAlignment(random_state=0).fit(list(pair)).fitted_
    for z, joint in zip(fitted.embedding, fitted.joint_coordinates(), strict=True):
        np.testing.assert_array_equal(z[:, -joint.shape[1] :], joint)
    published = paper().fit(list(pair)).fitted_
    for z, joint in zip(published.embedding, published.joint_coordinates(), strict=True):
        np.testing.assert_array_equal(z, joint)


def test_settings_have_aliases(pair):
    model = paper(n_harmonics=7, n_pca=5).fit(list(pair))
    for name in ("n_neighbors", "n_pca", "n_harmonics", "n_bands", "t"):
        assert getattr(model, f"{name}_") is getattr(model.settings_, name)


def test_feature_weights_are_the_squares_of_scores_where_signals_vary(pair):
    x, y = pair
    model = HarmonicAlignment(random_state=0).fit([x, y])
    squares = np.maximum(model.feature_scores_, 0) ** 2
    assert np.corrcoef(model.feature_weights_, squares)[0, 1] > 0.99
    np.testing.assert_array_equal(model.feature_weights_, model.model_.correspondence.belief)
    flat = [np.c_[d, np.zeros(len(d))] for d in (x, y)]
    weights = HarmonicAlignment(random_state=0).fit(flat).feature_weights_
    assert weights[:-1].min() < weights[-1] < weights[:-1].max()


# --- parameters that are not used ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "options", "other"),
    [
        ("refined", {"calibrate": False}, "paper"),
        ("refined", {"frame": "common"}, "paper"),
        ("refined", {"signal_pca": 3}, "paper"),
        ("paper", {"n_landmarks": 50}, "refined"),
        ("paper", {"config": DEFAULT}, "refined"),
    ],
)
def test_parameters_that_a_method_does_not_use_are_refused(pair, method, options, other):
    (name,) = options
    model = HarmonicAlignment(method=method, **options)
    assert repr(clone(model).get_params()[name]) == repr(options[name])
    message = f"{name}=.* serves method='{other}' and is not used by method='{method}'; drop {name}, or"
    with pytest.raises(ValueError, match=message):
        model.fit(list(pair))


def test_parameters_that_say_what_the_method_does_anyway_are_taken(pair):
    expected = HarmonicAlignment(random_state=0).fit_transform(list(pair))
    options = {"calibrate": True, "frame": "blocks", "signal_pca": None}
    found = HarmonicAlignment(random_state=0, **options).fit_transform(list(pair))
    np.testing.assert_array_equal(found[1], expected[1])
    expected = paper().fit_transform(list(pair))
    found = paper(calibrate=False, n_landmarks=2000, device="cpu").fit_transform(list(pair))
    np.testing.assert_array_equal(found[1], expected[1])


@ONE
@pytest.mark.parametrize("anchors", [[[0, 0]], "garbage", {}])
def test_anchors_that_are_not_used_are_refused(pair, anchors):
    with pytest.raises(ValueError, match="drop anchors, or use method='refined'"):
        paper().fit(list(pair), anchors=anchors)
    with pytest.raises(ValueError, match="anchors join rows of two datasets, but there is one"):
        HarmonicAlignment().fit(pair[0], anchors=anchors)


@ONE
def test_links_of_one_dataset_are_refused(pair):
    for model in (paper(), HarmonicAlignment()):
        with pytest.raises(ValueError, match="links joins the features of two datasets, but there is one"):
            model.fit(pair[0], links=np.eye(26))
        with pytest.raises(ValueError, match="links joins the features of two datasets, but there are 3"):
            model.fit([*pair, pair[0]], links=np.eye(26))


@ONE
def test_one_dataset_is_fitted_by_the_published_method_whatever_the_default_was_told(pair):
    """That the default does not serve one dataset is nothing that a user could know."""
    x, _ = pair
    found = HarmonicAlignment(n_landmarks=20, random_state=0).fit(x)
    assert found.model_.method == "paper"
    np.testing.assert_array_equal(found.embedding_[0], paper().fit_transform(x))


def test_a_copy_that_grows_leaves_the_original(pair):
    x, y = pair
    model = HarmonicAlignment(random_state=0).fit([x, y])
    joint, embedding = model.joint_, model.embedding_
    grown = copy.copy(model)
    grown.add(x[::-1] + 0.01)
    assert (len(model.keys_), len(grown.keys_)) == (2, 3)
    assert (len(model.settings_.n_pca), len(grown.settings_.n_pca)) == (2, 3)
    assert model.joint_ is joint
    assert grown.joint_.batch.max() == 2
    assert all(a is b for a, b in zip(embedding, model.embedding_, strict=True))


@ONE
def test_clone_pickle_and_pipeline(pair):
    x, y = pair
    model = paper(t=2).fit([x, y])
    assert clone(model).t == 2
    back = pickle.load(io.BytesIO(pickle.dumps(model)))
    assert (back.transform(x, dataset=0) == model.transform(x, dataset=0)).all()
    pipeline = make_pipeline(StandardScaler(), paper())
    out = pipeline.fit_transform(np.r_[x, y], harmonicalignment__batch=[0] * 60 + [1] * 70)
    assert out.shape[0] == 130
    assert make_pipeline(StandardScaler(), paper()).fit(x).transform(x).shape == (60, 59)


def test_fixed_seed_gives_equal_bits(pair):
    one, two = (paper(random_state=3).fit_transform(list(pair)) for _ in range(2))
    assert (one[0] == two[0]).all()
    state = np.random.get_state()[1].copy()
    paper(random_state=np.random.default_rng(0)).fit(list(pair))
    assert (np.random.get_state()[1] == state).all()


def test_settings_say_why(pair, caplog, capfd):
    caplog.set_level("INFO", logger="harmonicalign")
    model = paper(verbose=True, n_bands=4).fit(list(pair))
    assert model.settings_.n_neighbors == [5, 5]
    assert model.settings_.n_bands == 4
    assert "n_neighbors = [5, 5]" in caplog.text
    assert "alignment" in capfd.readouterr().err
    assert set(model.timings_) >= {"alignment", "graph of dataset 0"}


def test_signal_projection_of_full_rank_changes_nothing(pair):
    expected = paper(n_harmonics=8).fit_transform(list(pair))
    projected = paper(n_harmonics=8, signal_pca=26).fit_transform(list(pair))
    assert projected[0] == pytest.approx(expected[0], abs=1e-6)
    paper(signal_pca=3).fit([sp.csr_matrix(d) for d in pair])


def test_calibration_can_be_asked_for():
    x, y = sample(60, 0), sample(400, 1)
    assert all(h.exponent == 1 for h in paper().fit([x, y]).harmonics_)
    assert all(h.exponent != 1 for h in paper(calibrate=True).fit([x, y]).harmonics_)


def test_precomputed_input(pair):
    x, y = pair
    distances = [np.linalg.norm(d[:, None] - d[None], axis=2) for d in pair]
    expected = paper(n_harmonics=8).fit([x, y])
    model = paper(n_harmonics=8, metric="distance").fit(distances, signals=[x, y])
    assert model.embedding_[0] == pytest.approx(expected.embedding_[0], abs=1e-6)
    with pytest.raises(ValueError, match="metric='distance'"):
        model.transform(distances[0], dataset=0)


def nan_at(rows):
    bad = rows.copy()
    bad[3, 2] = np.nan
    return bad


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: [nan_at(x), y], r"X\[0\] contains 1 NaN"),
        (lambda x, y: [x, np.where(y > 1, np.inf, y)], "infinity"),
        (lambda x, y: [], "no dataset"),
        (lambda x, y: [x, y[:0]], r"X\[1\] has 0 row"),
        (lambda x, y: [x[:1], y], "1 row"),
        (lambda x, y: [x[:2], y], "minimum of 3"),
        (lambda x, y: [x, y[:, :5]], "26, 5 columns"),
        (lambda x, y: [x, y.astype(str)[:, :2]], "text.* not numbers"),
        (lambda x, y: [x, np.full(y.shape, "text")], "not numbers"),
        (lambda x, y: [x, y.ravel()], "dimension"),
        (lambda x, y: [x, y + 1j], "Complex"),
        (lambda x, y: [x, sp.csr_matrix(y + 1j)], r"X\[1\] has entries of type complex128; .* real numbers"),
        (lambda x, y: [x, y[:, :0]], "0 feature"),
    ],
)
def test_bad_datasets(pair, change, message):
    with pytest.raises(ValueError, match=message):
        paper().fit(change(*pair))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "method"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"n_neighbors": "few"}, "n_neighbors"),
        ({"n_pca": "some"}, "n_pca"),
        ({"n_pca": 0}, "n_pca"),
        ({"n_harmonics": 60}, "dataset 0 has 60 rows"),
        ({"n_harmonics": "all"}, "n_harmonics"),
        ({"n_bands": 0}, "n_bands"),
        ({"t": -1}, "t must be"),
        ({"t": np.nan}, "t must be"),
        ({"calibrate": "yes"}, "calibrate"),
        ({"frame": "wide"}, "frame"),
        ({"bandwidth": -1}, "bandwidth"),
        ({"anisotropy": 2}, "anisotropy"),
        ({"metric": "cosine"}, "metric"),
        ({"config": {"n_hubs": 2}}, "config is .* expected a harmonicalign.method.MethodConfig"),
        ({"random_state": "seed"}, "seed"),
    ],
)
def test_bad_parameters(pair, options, message):
    with pytest.raises(ValueError, match=message):
        paper(**options).fit(list(pair))


def test_bad_batch_and_signals(pair):
    x, y = pair
    both = np.r_[x, y]
    with pytest.raises(ValueError, match=r"batch has shape \(3,\) but X has 130 rows"):
        paper().fit(both, batch=[0, 1, 2])
    with pytest.raises(ValueError, match="batch is the text 'dataset'; pass the labels themselves"):
        paper().fit(both, batch="dataset")
    with pytest.raises(ValueError, match=r"a generator is neither a matrix nor a list; pass list\(…\)"):
        paper().fit(part for part in (x, y))
    with pytest.raises(ValueError, match=r"different lengths; .* datasets of one column, reshape each"):
        paper().fit([x[:, 0], y[:, 0]])
    with pytest.raises(ValueError, match="batch contains NaN"):
        paper().fit(both, batch=[np.nan] * 130)
    with pytest.raises(ValueError, match="already several datasets"):
        paper().fit([x, y], batch=[0] * 130)
    with pytest.raises(ValueError, match="list of 2"):
        paper().fit([x, y], signals=[x])
    with pytest.raises(ValueError, match="keys of X"):
        paper().fit({"a": x, "b": y}, signals={"a": x})
    with pytest.raises(ValueError, match="rows must match"):
        paper().fit([x, y], signals=[x, y[1:]])
    with pytest.raises(ValueError, match="rows must match"):
        paper().fit(both, batch=[0] * 60 + [1] * 70, signals=both[1:])


def test_too_few_rows_for_the_neighbours_are_met_with_a_warning(pair):
    x, y = pair
    with pytest.warns(UserWarning, match="dataset 0 has only 9 rows beside each row"):
        model = paper(n_neighbors=15).fit([x[:10], y])
    assert model.settings_.n_neighbors == [9, 15]


def test_awkward_but_honest_data(pair):
    x, y = pair
    flat = np.c_[x, np.ones(60), np.zeros(60)]
    zero_rows = np.c_[y, np.ones(70), np.zeros(70)]
    zero_rows[:5] = 0
    for datasets in (
        [flat, zero_rows],
        [np.repeat(x[:20], 3, axis=0), y],
        [(10 * x).astype(int), (10 * y).astype(int)],
        [x > 0, y > 0],
        [x[:4], y],
        [x.astype(np.float32), y],
    ):
        for z in paper().fit_transform(datasets):
            assert np.isfinite(z).all()
    x.flags.writeable = y.flags.writeable = False
    paper().fit([x, y])


def test_a_fit_that_cannot_fit_into_memory_is_refused_before_it_begins(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10 * 2**20)
    rng = np.random.default_rng(0)
    model = HarmonicAlignment(random_state=0)
    with pytest.raises(memory.NotEnoughMemoryError, match="MiB"):
        model.fit([rng.normal(size=(500, 20)), rng.normal(size=(500, 20))])
    assert not hasattr(model, "embedding_")


def test_whole_numbers_as_keys_are_keys_and_not_positions(rng):
    rows = {1: rng.randn(40, 6), 2: rng.randn(40, 6) + 0.1}
    model = HarmonicAlignment(method="paper", random_state=0).fit(rows)
    np.testing.assert_array_equal(model.transform(rows[1], dataset=1), model.embedding_[0])
    np.testing.assert_array_equal(model.transform(rows[2], dataset=2), model.embedding_[1])
    with pytest.raises(ValueError, match=r"dataset names 0; the datasets are \[1, 2\]"):
        model.transform(rows[1], dataset=0)
    np.testing.assert_array_equal(
        model.correct().values[1], rows[1], err_msg="by default the first is the reference"
    )
    assert len(model.transfer(np.repeat(["a", "b"], 20)).labels) == 40


def test_keys_and_positions_are_told_apart(pair):
    x, y = pair
    model = HarmonicAlignment(random_state=0).fit({"a": x, "b": y})
    model.add(x + 0.01)
    assert model.keys_ == ["a", "b", 2]
    assert [model.fitted_.position(name) for name in ("a", 0, 1, 2, np.int64(2))] == [0, 0, 1, 2, 2]
    numbered = HarmonicAlignment(random_state=0).fit({1: x, 2: y})
    numbered.add(x + 0.01)
    numbered.add(x + 0.02)
    assert numbered.keys_ == [1, 2, 3, 4]
    assert [numbered.fitted_.position(key) for key in (1, 2, 3, 4)] == [0, 1, 2, 3]
    for wrong in (True, -1, 0.5, None, [1]):
        with pytest.raises(ValueError, match="dataset names"):
            numbered.fitted_.position(wrong)
    for key, message in [
        ([1], "name the dataset by text"),
        (np.nan, "name the dataset"),
        (2, "key 2 is taken"),
    ]:
        with pytest.raises(ValueError, match=message):
            numbered.add(x, key=key)


# --- copies of rows, anchors, signals that are not used -----------------------------------------------------


def test_copies_of_a_row_with_signals_of_their_own_keep_their_coordinates(rng):
    x, y = np.repeat(sample(30, 0), 3, axis=0), sample(70, 1)
    signals = [sample(90, 2), sample(70, 3)]
    model = HarmonicAlignment(random_state=0).fit([x, y], signals=signals)
    np.testing.assert_array_equal(model.transform(x, dataset=0, signals=signals[0]), model.embedding_[0])
    some = rng.permutation(90)[:40]
    np.testing.assert_array_equal(
        model.transform(x[some], dataset=0, signals=sp.csr_matrix(signals[0][some])),
        model.embedding_[0][some],
    )
    # The same rows with other signals are not rows of the fit.
    moved = model.transform(x, dataset=0, signals=signals[0] + 0.5)
    assert (np.abs(moved - model.embedding_[0]).max(axis=1) > 0).all()


def test_anchors_that_contradict_each_other_are_mentioned(pair):
    x, y = pair
    model = HarmonicAlignment(random_state=0)
    with pytest.warns(
        AlignmentWarning, match="anchors contradict each other: they join rows 2, 7 of dataset 1"
    ):
        model.fit([x, y], anchors=[[0, 2], [0, 7], [5, 9]])
    around = {(0, 1): [[1, 1], [3, 3]], (1, 2): [[1, 1], [3, 3]], (0, 2): [[1, 1], [3, 4]]}
    with pytest.warns(AlignmentWarning, match="rows 3, 4 of dataset 2 through .* for 1 group"):
        model.fit([x, y, x[::-1]], anchors=around)
    around[0, 2] = [[1, 1], [3, 3], [3, 3]]
    model.fit([x, y, x[::-1]], anchors=around)


def test_anchors_of_one_pair_under_several_names_are_put_together(pair):
    x, y = pair
    pairs = [[i, 2 * i] for i in range(8)]
    model = HarmonicAlignment(random_state=0)
    expected = model.fit({"a": x, "b": y}, anchors={("a", "b"): pairs}).embedding_
    turned = [pair[::-1] for pair in pairs[5:]]
    several = {("a", "b"): pairs[:3], (0, 1): pairs[3:5], ("b", "a"): turned}
    for found, before in zip(model.fit({"a": x, "b": y}, anchors=several).embedding_, expected, strict=True):
        np.testing.assert_array_equal(found, before)
    for key in (("a", 0), ("a", "a"), (1, "b")):
        with pytest.raises(ValueError, match="expected two datasets"):
            model.fit({"a": x, "b": y}, anchors={key: [[1, 2]]})


def test_signals_of_new_rows_are_refused_where_they_are_not_used(pair):
    x, y = pair
    model = paper().fit([x, y], signals=[x[:, :9], y[:, :9]])
    np.testing.assert_array_equal(model.transform(y, dataset=1), model.embedding_[1])
    for call in (
        lambda: model.transform(y, dataset=1, signals=y[:, :9]),
        lambda: model.transform([x, y], signals=[x[:, :9], y[:, :9]]),
    ):
        with pytest.raises(ValueError, match="signals are not used where method='paper' places rows"):
            call()


# --- what is not aligned ------------------------------------------------------------------------------------


def test_labels_and_single_datasets_are_mentioned(pair):
    x, y = pair
    labels = np.arange(60) % 3
    both, batch = np.r_[x, y], [0] * 60 + [1] * 70
    for call in (lambda: paper().fit(x, labels), lambda: paper().fit_transform(x, labels)):
        with pytest.warns(AlignmentWarning, match=r"y is not used.*; there is one dataset.*fit\(\[x, y\]\)"):
            call()
    with pytest.warns(AlignmentWarning, match=r"^y is not used"):
        paper().fit([x, y], labels)
    for data, more in (([x], {}), ({"a": x}, {}), (both, {"batch": ["a"] * 130}), (x, {})):
        with pytest.warns(AlignmentWarning, match=r"^there is one dataset, so nothing is aligned"):
            paper().fit(data, **more)
    paper().fit(both, np.r_[labels, labels, labels[:10]], batch=batch)  # as a pipeline with a classifier does


# --- add: all or nothing, one at a time ---------------------------------------------------------------------


def interrupted(call, at):
    """Raise `KeyboardInterrupt` at the given entry of a function of the package; how many there were."""
    entered = 0

    def watch(frame, event, arg):
        nonlocal entered
        if event == "call" and f"{os.sep}harmonicalign{os.sep}" in frame.f_code.co_filename:
            entered += 1
            if entered == at:
                raise KeyboardInterrupt

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


def test_an_interrupted_add_leaves_the_model_as_it_was(pair):
    x, y = pair
    model = HarmonicAlignment(random_state=0).fit([x, y])
    third, fourth = x[::-1] + 0.01, y[::-1] + 0.02
    whole = copy.copy(model)
    n = interrupted(lambda: whole.add(third), 0)
    assert n > 20
    before, keys = model.fitted_, model.keys_
    for at in np.linspace(1, 0.9 * n, 8).astype(int):
        with pytest.raises(KeyboardInterrupt):
            interrupted(lambda: model.add(fourth, key="lost"), int(at))
        assert model.fitted_ is before
        assert model.keys_ == keys
    np.testing.assert_array_equal(model.add(third), whole.embedding_[2])
    assert model.keys_ == [0, 1, 2]
    np.testing.assert_array_equal(model.transform(third, dataset=2), model.embedding_[2])


def test_datasets_that_are_added_at_once_are_added_one_by_one(pair):
    x, y = pair
    model = HarmonicAlignment(random_state=0).fit([x, y])
    new = [x[::-1] + 0.01 * i for i in range(1, 4)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(model.add, new))
    fitted = model.fitted_
    assert model.keys_ == [0, 1, 2, 3, 4]
    parts = (fitted.embedding, fitted.inputs.datasets, fitted.settings.n_pca, fitted.joint_coordinates())
    assert [len(part) for part in parts] == [5] * 4
    for rows, z in zip(new, found, strict=True):
        (i,) = (i for i, data in enumerate(fitted.inputs.datasets) if np.array_equal(data, rows))
        np.testing.assert_array_equal(fitted.embedding[i], z)
        np.testing.assert_array_equal(model.transform(rows, dataset=i), z)
    assert pickle.loads(pickle.dumps(model)).keys_ == clone(model).fit([x, y, *new]).keys_
