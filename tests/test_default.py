"""The default method end to end."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_circles, make_moons, make_swiss_roll
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from harmonicalign import AlignmentWarning, HarmonicAlignment
from harmonicalign.datasets import clusters_pair, corrupted_pair, load_digits_pair
from harmonicalign.method import DEFAULT
from harmonicalign.metrics import knn_label_agreement, mixing_entropy


def fit(*datasets, **options):
    fitting = {name: options.pop(name) for name in ("signals", "anchors", "links") if name in options}
    return HarmonicAlignment(random_state=0, **options).fit(list(datasets), **fitting)


def agreement(model, labels):
    return knn_label_agreement(model.embedding_[0], labels[0], model.embedding_[1], labels[1])


@pytest.fixture(scope="module")
def digits():
    return load_digits_pair(preserved=0.5, n_x=400, n_y=350, random_state=0)


@pytest.fixture(scope="module")
def digits_model(digits):
    return fit(digits.x, digits.y)


# well separated blobs; one dataset, and labels
@pytest.mark.filterwarnings("ignore::harmonicalign.AlignmentWarning")
@parametrize_with_checks([HarmonicAlignment()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_corrupted_digits_find_each_other(digits, digits_model):
    labels = digits.labels_x, digits.labels_y
    unaligned = knn_label_agreement(digits.x, labels[0], digits.y, labels[1])
    assert agreement(digits_model, labels) > max(0.85, unaligned + 0.2)
    assert agreement(digits_model, labels) > agreement(fit(digits.x, digits.y, method="paper"), labels) + 0.05
    assert mixing_entropy(digits_model.embedding_) > 0.8
    assert digits_model.significance_.p < 0.01
    varies = digits.x.std(axis=0) > 0
    assert roc_auc_score(digits.preserved[varies], digits_model.feature_scores_[varies]) > 0.9
    assert digits_model.feature_selected_[varies & digits.preserved].mean() > 0.5
    # Pixels that are blank in nearly all pictures are told too, by what they are on the other side.
    assert roc_auc_score(digits.preserved, digits_model.feature_weights_) > 0.9


def test_weights_tell_which_columns_were_swapped_though_an_offset_serves():
    """All columns count alike in the alignment then, and yet the weights say which ones should not."""
    pair = load_digits_pair(preserved=1.0, random_state=0)
    shuffled = pair.y.copy()
    varying = np.flatnonzero((pair.x.std(axis=0) > 1) & (pair.y.std(axis=0) > 1))
    wrong = varying[[3, 17, 30]]
    shuffled[:, wrong] = pair.y[:, np.roll(wrong, 1)]
    model = fit(pair.x, shuffled)
    assert [r.start for r in model.model_.pairs.values()] == ["offset"]
    assert model.feature_weights_[wrong].max() < np.quantile(np.delete(model.feature_weights_, wrong), 0.1)


def test_results_describe_themselves(digits_model):
    assert len(digits_model.feature_weights_) == 64
    assert 0 <= digits_model.share_ <= 1
    assert [len(c) for c in digits_model.confidence_] == [400, 350]
    assert digits_model.history_[0]["dataset"] == 1
    assert digits_model.joint_ is digits_model.joint_, "the joint map is built more than once"
    assert len(digits_model.joint_.harmonics.phi) == 750
    assert digits_model.alignment_.rotation(0, 1).shape == digits_model.alignment_.rotation(1, 0).T.shape
    paper = fit(np.random.RandomState(0).randn(40, 4), np.random.RandomState(1).randn(40, 4), method="paper")
    with pytest.raises(AttributeError, match="refined"):
        _ = paper.feature_weights_


def test_order_of_datasets_and_rows_hardly_matters(digits, digits_model):
    labels = digits.labels_x, digits.labels_y
    expected = agreement(digits_model, labels)
    swapped = fit(digits.y, digits.x)
    assert knn_label_agreement(
        swapped.embedding_[1], labels[0], swapped.embedding_[0], labels[1]
    ) == pytest.approx(expected, abs=0.03)
    order = np.random.RandomState(0).permutation(400)
    shuffled = fit(digits.x[order], digits.y)
    assert agreement(shuffled, (labels[0][order], labels[1])) == pytest.approx(expected, abs=0.03)


def test_fixed_seed_gives_equal_bits(digits, digits_model):
    again = fit(digits.x, digits.y)
    for a, b in zip(again.embedding_, digits_model.embedding_, strict=True):
        assert (a == b).all()


def test_known_rows_transform_to_their_embedding(digits, digits_model):
    assert (digits_model.transform(digits.y, dataset=1) == digits_model.embedding_[1]).all()


def test_new_rows_land_among_their_kind():
    pair = load_digits_pair(preserved=0.5, n_x=450, n_y=450, random_state=1)
    model = fit(pair.x, pair.y[:350])
    new = model.transform(pair.y[350:], dataset=1)
    known = knn_label_agreement(model.embedding_[0], pair.labels_x, model.embedding_[1], pair.labels_y[:350])
    assert knn_label_agreement(model.embedding_[0], pair.labels_x, new, pair.labels_y[350:]) > known - 0.08


def test_landmarks_stand_for_all_rows(digits, digits_model):
    model = fit(digits.x, digits.y, n_landmarks=200)
    assert [len(rows) for rows in model.model_.landmarks] == [200, 200]
    assert [len(z) for z in model.embedding_] == [400, 350]
    labels = digits.labels_x, digits.labels_y
    assert agreement(model, labels) > agreement(digits_model, labels) - 0.08


def test_classes_of_one_side_stay_apart():
    pair = clusters_pair(500, 500, n_clusters=10, only_x=2, only_y=2, random_state=0)
    model = fit(pair.x, pair.y)
    shared_x = np.isin(pair.labels_x, pair.shared)
    shared_y = np.isin(pair.labels_y, pair.shared)
    confidence = np.concatenate(model.confidence_)
    assert roc_auc_score(np.concatenate([shared_x, shared_y]), confidence) > 0.9
    both = agreement(fit(pair.x, pair.y), (pair.labels_x, pair.labels_y))
    assert both > 0.9 * shared_y.mean()


@pytest.mark.filterwarnings("ignore:whether the alignment is better")  # as few columns cannot be tested
@pytest.mark.parametrize("name", ["iris", "moons", "circles", "swiss roll"])
def test_few_columns(name):
    """Where directions alone say little: an offset is taken off, and lengths count."""
    if name == "iris":
        x, labels = load_iris(return_X_y=True)
        x = x / x.std(axis=0)
    elif name == "swiss roll":
        x, along = make_swiss_roll(800, random_state=0)
        labels = np.digitize(along, np.quantile(along, np.linspace(0, 1, 11)[1:-1]))
    elif name == "moons":
        x, labels = make_moons(400, noise=0.1, random_state=0)
    else:
        x, labels = make_circles(400, noise=0.05, factor=0.5, random_state=0)
    order = np.random.RandomState(0).permutation(len(x))
    one, other = order[::2], order[1::2]
    model = fit(x[one], x[other] + x.std(axis=0) * np.linspace(-1, 1, x.shape[1]))
    unmoved = knn_label_agreement(x[one], labels[one], x[other], labels[other])
    assert agreement(model, (labels[one], labels[other])) > unmoved - 0.05
    assert mixing_entropy(model.embedding_) > 0.97


def test_few_columns_are_not_tested():
    x, y = np.random.RandomState(0).standard_normal((2, 80, 4))
    with pytest.warns(AlignmentWarning, match="not tested: fewer than 5 features vary in both datasets"):
        model = fit(x, y)
    assert not model.significance_.tested


def test_many_datasets(digits):
    parts = [digits.x[:200], digits.x[200:], digits.y[:170], digits.y[170:]]
    labels = [digits.labels_x[:200], digits.labels_x[200:], digits.labels_y[:170], digits.labels_y[170:]]
    model = fit(*parts, config=replace(DEFAULT, pooled_rows=0))
    assert [model.model_.parent_of(i) for i in range(4)].count(None) == 1
    rest = np.vstack(model.embedding_[1:])
    assert knn_label_agreement(rest, np.concatenate(labels[1:]), model.embedding_[0], labels[0]) > 0.8
    missing = next((i, j) for i in range(4) for j in range(i) if (j, i) not in model.alignment_.pairs)
    with pytest.raises(ValueError, match="only through others"):
        model.alignment_.rotation(*missing)


def test_no_correspondence_warns():
    pair = load_digits_pair(preserved=0.0, n_x=300, n_y=300, random_state=0)
    with pytest.warns(AlignmentWarning, match="no better than chance"):
        fit(pair.x, pair.y)


def test_negated_columns_warn(digits, digits_model):
    # The rotation that makes negated columns agree is wrong, and the features alone do not tell.
    with pytest.warns(AlignmentWarning, match="dataset 0 and dataset 1 seem to go opposite ways"):
        model = fit(digits.x, -digits.y)
    assert agreement(model, (digits.labels_x, digits.labels_y)) < 0.5
    assert model.significance_.opposed
    assert not model.significance_.by_chance
    assert not digits_model.significance_.opposed
    with pytest.warns(AlignmentWarning, match="the new dataset seem to go opposite ways"):
        fit(digits.x, digits.y[:200]).add(-digits.y[200:])


def test_of_several_datasets_the_negated_one_is_named(digits):
    with pytest.warns(AlignmentWarning, match="go opposite ways") as caught:
        model = fit(digits.x, -digits.y[:175], digits.y[175:])
    [warning] = [str(w.message) for w in caught if "opposite" in str(w.message)]
    assert "dataset 1" in warning.split(" seem ")[0]
    assert model.significance_.opposed


def test_links_between_different_features(digits):
    permutation = np.eye(64)[:, np.random.RandomState(0).permutation(64)]
    shuffled = digits.y @ permutation
    links = sp.csr_matrix(permutation * digits.preserved[:, None])
    model = fit(digits.x, shuffled, links=links)
    assert len(model.feature_weights_) == digits.preserved.sum()
    assert agreement(model, (digits.labels_x, digits.labels_y)) > 0.8
    assert (model.transform(shuffled, dataset=1) == model.embedding_[1]).all()


def test_known_pairs_replace_features(digits):
    # Signals say nothing at all; a few dozen known pairs do.
    rng = np.random.RandomState(0)
    same = [(i, j) for i in range(400) for j in range(350) if digits.labels_x[i] == digits.labels_y[j]]
    pairs = np.array(same)[rng.permutation(len(same))[:150]]
    noise = [rng.randn(400, 10), rng.randn(350, 10)]
    with pytest.warns(AlignmentWarning):
        model = fit(digits.x, digits.y, signals=noise, anchors=pairs)
    assert agreement(model, (digits.labels_x, digits.labels_y)) > 0.6
    for bad in ([[0, 400]], {("a", "b"): [[0, 0]]}, "pairs"):
        with pytest.raises(ValueError, match="anchors"):
            fit(digits.x, digits.y, anchors=bad)
    with pytest.raises(ValueError, match="more than two datasets must be a dict"):
        fit(digits.x, digits.y, digits.x, anchors=[[0, 0]])


def test_datasets_with_known_pairs_are_compared_with_each_other(rng):
    """Each of many datasets is aligned with the largest, or with one that it has known pairs with."""
    centres = 4 * rng.randn(5, 8)
    datasets = [centres[rng.randint(5, size=n)] + rng.randn(n, 8) for n in (60, 59, 58, 50, 50)]
    datasets[4] = datasets[3] + 0.1 * rng.randn(50, 8)
    same = np.c_[np.arange(50), np.arange(50)]
    plain = fit(*datasets, config=replace(DEFAULT, pooled_rows=0))
    told = fit(*datasets, anchors={(4, 3): same})
    assert [plain.model_.parent_of(i) for i in (1, 2, 3, 4)] == [0, 0, 0, 0]
    assert [told.model_.parent_of(i) for i in (1, 2, 3, 4)] == [0, 0, 0, 3]
    assert told.model_.pair_of(4).start == "anchors"


def test_new_rows_are_matched_by_the_names_of_their_columns(digits):
    pd = pytest.importorskip("pandas")
    names = [f"pixel{i}" for i in range(64)]
    x, y = (pd.DataFrame(d, columns=names) for d in (digits.x, digits.y))
    model = HarmonicAlignment(random_state=0).fit({"a": x[:350], "b": y})
    new = model.transform(x[350:], dataset="a")
    turned = model.transform(x[350:], dataset="a", signals=x[350:][names[::-1]])
    np.testing.assert_array_equal(new, turned)
    with pytest.raises(ValueError, match=r"lacks the column\(s\) pixel0, pixel1 that dataset 'a'"):
        model.transform(x[350:], dataset="a", signals=x[350:][names[2:]])


@pytest.mark.parametrize("method", ["refined", "paper"])
def test_the_order_of_named_columns_does_not_matter(digits, tmp_path, method):
    pd = pytest.importorskip("pandas")
    names = [f"pixel{i}" for i in range(64)]
    x, y = (pd.DataFrame(d, columns=names) for d in (digits.x, digits.y))
    fitted = HarmonicAlignment(method=method, random_state=0).fit({"a": x[:200], "b": y[names[::-1]]})
    mixed = np.random.RandomState(0).permutation(names)
    for model in (fitted, HarmonicAlignment.load(fitted.save(tmp_path / "model.npz"))):
        expected = model.transform({"a": x[200:], "b": y[names[::-1]]})
        found = model.transform({"a": x[200:][mixed], "b": y[mixed]})
        for key in ("a", "b"):
            np.testing.assert_array_equal(found[key], expected[key])
        np.testing.assert_array_equal(model.transform(x[200:][mixed], dataset="a"), expected["a"])
        with pytest.raises(
            ValueError, match=r"X lacks the column\(s\) pixel0 that dataset 'a' was fitted with"
        ):
            model.transform(x[200:].rename(columns={"pixel0": "other"}), dataset="a")
        with pytest.raises(
            ValueError, match=r"X has the column\(s\) more that dataset 'a' was not fitted with"
        ):
            model.transform(x[200:].assign(more=1.0), dataset="a")


def test_an_added_data_frame_is_matched_by_name(digits):
    pd = pytest.importorskip("pandas")
    names = [f"pixel{i}" for i in range(64)]
    x, y = (pd.DataFrame(d, columns=names) for d in (digits.x, digits.y))
    model = HarmonicAlignment(random_state=0).fit([x[:200], y])
    model.add(x[200:][names[::-1]])
    np.testing.assert_array_equal(model.fitted_.inputs.signals[2], digits.x[200:])
    np.testing.assert_array_equal(model.transform(x[200:], dataset=2), model.embedding_[2])


def test_linked_datasets_of_different_widths_are_transformed_together(digits):
    x, y = digits.x, digits.y[:, :50]
    model = fit(x, y, links=np.eye(64, 50))
    for found, expected in zip(model.transform([x, y]), model.embedding_, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_signals_apart_from_the_representation(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(digits.x, digits.y, signals=[digits.x[:, :40], digits.y[:, :40]])
    with pytest.raises(ValueError, match="signals"):
        model.transform(digits.x, dataset=0)
    again = model.transform(digits.x, dataset=0, signals=digits.x[:, :40])
    assert (again == model.embedding_[0]).all()


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix])
def test_sparse_data(kind):
    pair = load_digits_pair(preserved=1.0, n_x=300, n_y=300, random_state=0)
    dense, sparse = fit(pair.x, pair.y), fit(kind(pair.x), kind(pair.y))
    labels = pair.labels_x, pair.labels_y
    assert agreement(sparse, labels) == pytest.approx(agreement(dense, labels), abs=0.02)


# With so few signals the method does not see which correspond: all are weighted, and half predicted badly.
@pytest.mark.filterwarnings("ignore:.* look like different things")
def test_many_signals_are_thinned(digits):
    model = fit(digits.x, digits.y, config=replace(DEFAULT, most_signals=30))
    assert (np.abs(model.model_.space.signal_maps[0].matrix).sum(axis=1) > 0).sum() <= 30
    assert agreement(model, (digits.labels_x, digits.labels_y)) > 0.7


@pytest.mark.parametrize("n", [12, 30])
def test_small_datasets(n, rng):
    x = rng.randn(n, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)
        model = fit(x, x + 0.1 * rng.randn(n, 6))
    assert all(np.isfinite(z).all() for z in model.embedding_)


def test_awkward_but_honest_data(rng):
    x, y = rng.randn(60, 8), rng.randn(70, 8)
    flat = np.c_[x, np.ones(60)]
    zeros = np.c_[y, np.ones(70)]
    zeros[:5] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)
        for datasets in (
            [flat, zeros],
            [np.repeat(x[:20], 3, axis=0), y],
            [x > 0, y > 0],
            [x[:4], y],
            [x.astype(np.float32), y],
            [np.zeros((20, 8)), y],
            [x[:, :1], y[:, :1]],
        ):
            assert all(np.isfinite(z).all() for z in fit(*datasets).embedding_)


@pytest.mark.data
@pytest.mark.slow
def test_corrupted_mnist(mnist):
    accuracy = {}
    for preserved in (0.1, 0.35, 1.0):
        pair = corrupted_pair(*mnist, 1000, 1000, preserved=preserved, random_state=0)
        model = fit(pair.x, pair.y)
        accuracy[preserved] = agreement(model, (pair.labels_x, pair.labels_y))
        if preserved < 1:
            assert roc_auc_score(pair.preserved, model.feature_weights_) > 0.96
    assert min(accuracy.values()) > 0.86


def test_parameters_in_force_are_attributes():
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(n, 80)) for n in (60, 90)]
    with pytest.warns(AlignmentWarning):
        model = HarmonicAlignment(n_bands=5, random_state=0).fit(sets)
    assert model.n_neighbors_ == model.settings_.n_neighbors == [5, 5]
    assert model.n_pca_ == [50, 50]
    assert model.n_harmonics_ == [15, 22]
    assert model.n_bands_ == 5
    assert model.t_ == 1.0
    with pytest.raises(NotFittedError):
        _ = HarmonicAlignment().n_neighbors_
