"""Stacked matrices in scikit-learn's own machinery: batches, routing of metadata, searches, containers."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harmonicalign import AlignmentWarning, HarmonicAlignment
from harmonicalign.datasets import load_digits_pair
from harmonicalign.metrics import alignment_scorer, knn_label_agreement, mixing_entropy

pd = pytest.importorskip("pandas")

N_X, N_Y = 130, 120


@pytest.fixture(scope="module")
def stacked():
    """Rows of two datasets in mixed order, their labels and their batches."""
    pair = load_digits_pair(preserved=0.7, n_x=N_X, n_y=N_Y, random_state=0)
    order = np.random.RandomState(0).permutation(N_X + N_Y)
    x = np.vstack([pair.x, pair.y])[order]
    labels = np.concatenate([pair.labels_x, pair.labels_y])[order]
    return x, labels, np.repeat(["clean", "scrambled"], [N_X, N_Y])[order]


@pytest.fixture(scope="module")
def model(stacked):
    x, _, batch = stacked
    return HarmonicAlignment(random_state=0).fit(x, batch=batch)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def asking(**parameters):
    model = HarmonicAlignment(random_state=0, **parameters)
    return model.set_fit_request(batch=True).set_transform_request(batch=True)


# --- batches of new rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, pd.DataFrame, np.ndarray.tolist])
def test_rows_of_all_batches_are_placed_at_once(stacked, model, form):
    x, _, batch = stacked
    some = np.random.RandomState(1).permutation(len(x))[:50]
    new = x[some] + 0.01
    found = model.transform(form(new), batch=batch[some])
    assert found.shape == (50, model.embedding_[0].shape[1])
    for key in ("clean", "scrambled"):
        own = batch[some] == key
        expected = model.transform(form(new[own]), dataset=key)
        np.testing.assert_allclose(found[own], expected, atol=1e-6)


def test_rows_of_the_fit_keep_their_coordinates(stacked, model):
    x, _, batch = stacked
    kept = model.transform(x, batch=batch)
    again = HarmonicAlignment(random_state=0).fit_transform(x, batch=batch)
    np.testing.assert_array_equal(kept, again)
    only = batch == "scrambled"
    np.testing.assert_array_equal(model.transform(x[only], batch=batch[only]), kept[only])


def test_batches_of_rows_with_signals_of_their_own(stacked):
    x, _, batch = stacked
    reduced = x[:, ::2]
    model = HarmonicAlignment(random_state=0).fit(reduced, batch=batch, signals=x)
    found = model.transform(reduced[:20] + 0.01, batch=batch[:20], signals=x[:20])
    own = batch[:20] == "clean"
    expected = model.transform(reduced[:20][own] + 0.01, dataset="clean", signals=x[:20][own])
    np.testing.assert_allclose(found[own], expected, atol=1e-6)
    with pytest.raises(ValueError, match="signals has 7 rows where X has 20"):
        model.transform(reduced[:20], batch=batch[:20], signals=x[:7])


def test_batches_that_cannot_be_placed(stacked, model):
    x, _, batch = stacked
    with pytest.raises(ValueError, match=r"batch holds 'other', but the datasets are .*add\(rows"):
        model.transform(x[:4], batch=["clean", "clean", "other", "clean"])
    with pytest.raises(ValueError, match=r"batch has shape \(3,\) but X has 4 rows"):
        model.transform(x[:4], batch=batch[:3])
    with pytest.raises(ValueError, match="dataset and batch both say"):
        model.transform(x[:4], batch=batch[:4], dataset="clean")


# --- routing ------------------------------------------------------------------------------------------------


def test_a_pipeline_passes_batches_on(stacked, routing):
    x, labels, batch = stacked
    train = np.arange(len(x)) % 4 > 0
    # Labels of the clean rows alone; those of the others are what is predicted.
    pipeline = make_pipeline(StandardScaler(), asking(), LogisticRegression(max_iter=2000))
    known = train & (batch == "clean")
    aligned = pipeline[:2].fit_transform(x[train], batch=batch[train])
    assert aligned.shape[0] == train.sum()
    pipeline.fit(x[train], labels[train], batch=batch[train])
    found = pipeline.predict(x[~train], batch=batch[~train])
    assert np.mean(found == labels[~train]) > 0.7
    assert known.sum() < train.sum()


def test_what_was_not_asked_for_is_refused_by_scikit_learn(stacked, routing):
    x, _, batch = stacked
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="batch"):
        make_pipeline(StandardScaler(), HarmonicAlignment()).fit(x, batch=batch)


def test_a_search_over_a_stacked_matrix_picks_what_scores_best(stacked, routing):
    x, labels, batch = stacked
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(x, batch))
    # In one harmonic almost nothing can be told of a digit, so the choice is clear.
    grid = {"n_harmonics": [1, 30]}
    search = GridSearchCV(asking(method="paper"), grid, scoring=alignment_scorer(), cv=folds)
    search.fit(x, labels, batch=batch)
    assert search.best_params_ == {"n_harmonics": 30}
    first, (train, test) = search.cv_results_["split0_test_score"], folds[0]
    apart = HarmonicAlignment(method="paper", random_state=0, n_harmonics=30).fit(
        x[train], batch=batch[train]
    )
    a, b = (test[batch[test] == key] for key in ("clean", "scrambled"))
    za, zb = apart.transform(x[a], dataset="clean"), apart.transform(x[b], dataset="scrambled")
    expected = []
    for (near, i), (far, j) in [((za, a), (zb, b)), ((zb, b), (za, a))]:
        known = np.isin(labels[j], labels[i])
        expected.append(knn_label_agreement(near, labels[i], far[known], labels[j][known]))
    assert first[1] == pytest.approx(np.mean(expected))
    assert search.best_estimator_.transform(x[:5], batch=batch[:5]).shape[0] == 5


def test_a_search_through_a_pipeline(stacked, routing):
    x, labels, batch = stacked
    pipeline = make_pipeline(StandardScaler(), asking())
    scores = cross_val_score(
        pipeline, x, labels, cv=2, scoring=alignment_scorer("mixing", k=20), params={"batch": batch}
    )
    assert (scores > 0.3).all()


def test_measures_of_the_scorer(stacked, model):
    x, labels, batch = stacked
    places = [model.transform(x[batch == key], dataset=key) for key in ("clean", "scrambled")]
    kinds = [labels[batch == key] for key in ("clean", "scrambled")]
    mixing = alignment_scorer("mixing", k=30)(model, x, batch=batch)
    assert mixing == pytest.approx(mixing_entropy(places, 30))
    within = alignment_scorer("mixing_within_labels", k=10)(model, x, labels, batch=batch)
    assert within == pytest.approx(mixing_entropy(places, 10, labels=kinds))
    given = alignment_scorer(lambda places, labels: len(places) + (labels is None))
    assert given(model, x, batch=batch) == 3
    assert repr(alignment_scorer("mixing")) == "alignment_scorer('mixing', k=5)"
    assert pickle.loads(pickle.dumps(alignment_scorer())).measure == "label_agreement"


def test_what_the_scorer_needs(stacked, model):
    x, labels, batch = stacked
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        alignment_scorer()(model, x, labels)
    with pytest.raises(ValueError, match="pass y"):
        alignment_scorer()(model, x, batch=batch)
    with pytest.raises(ValueError, match="StratifiedKFold"):
        alignment_scorer()(model, x[batch == "clean"], batch=batch[batch == "clean"])
    with pytest.raises(ValueError, match="label_agreement, mixing, mixing_within_labels"):
        alignment_scorer("accuracy")
    with pytest.raises(ValueError, match="no two datasets have a label in common"):
        alignment_scorer()(model, x, batch, batch=batch)


# --- containers ---------------------------------------------------------------------------------------------


def test_pandas_output_keeps_the_index_in_every_form(stacked):
    x, _, batch = stacked
    names = [f"cell{i}" for i in range(len(x))]
    frame = pd.DataFrame(x, index=names).add_prefix("pixel")
    a, b = frame[batch == "clean"], frame[batch == "scrambled"]
    model = HarmonicAlignment(random_state=0).set_output(transform="pandas")

    with pytest.warns(AlignmentWarning, match="there is one dataset"):
        alone = model.fit_transform(a)
    assert alone.index.tolist() == a.index.tolist()
    assert model.transform(a[3:9]).index.tolist() == names_of(a[3:9])
    for z, rows in zip(model.fit_transform([a, b]), (a, b), strict=True):
        assert z.index.tolist() == names_of(rows)
    for key, z in model.fit_transform({"a": a, "b": b}).items():
        assert z.index.tolist() == names_of({"a": a, "b": b}[key])
    for z, rows in zip(model.transform({"a": a[:5], "b": b[2:6]}).values(), (a[:5], b[2:6]), strict=True):
        assert z.index.tolist() == names_of(rows)
    assert model.transform(b[5:8], dataset="b").index.tolist() == names_of(b[5:8])
    assert model.add(a[:60] + 0.1, key="c").index.tolist() == names_of(a[:60])

    together = model.fit_transform(frame, batch=batch)
    assert together.index.tolist() == names
    apart = HarmonicAlignment(random_state=0).fit_transform(frame, batch=batch)
    np.testing.assert_array_equal(together.to_numpy(), apart)
    some = frame[10:30]
    assert model.transform(some, batch=batch[10:30]).index.tolist() == names_of(some)


def test_an_index_of_several_levels_is_kept(stacked):
    x, _, batch = stacked
    index = pd.MultiIndex.from_arrays([batch, np.arange(len(x))], names=["batch", "cell"])
    frame = pd.DataFrame(x, index=index).add_prefix("pixel")
    out = HarmonicAlignment(random_state=0).set_output(transform="pandas").fit_transform(frame, batch=batch)
    assert out.index.equals(index)


def names_of(frame):
    return frame.index.tolist()
