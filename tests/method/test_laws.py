"""Laws of a whole fit of the default, whatever its stages do."""

import numpy as np
import pytest

from harmonicalign import HarmonicAlignment
from harmonicalign.datasets import clusters_pair, load_digits_pair


def fit(*datasets, **options):
    return HarmonicAlignment(random_state=0, **options).fit(list(datasets))


@pytest.fixture(scope="module")
def digits():
    return load_digits_pair(preserved=0.7, n_x=320, n_y=300, random_state=0)


@pytest.fixture(scope="module")
def model(digits):
    return fit(digits.x, digits.y)


def neighbours(parts, k=10):
    """Numbers of the nearest rows of every row, over all datasets."""
    rows = np.vstack(parts).astype(float)
    away = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(away, np.inf)
    return np.argsort(away, axis=1)[:, :k]


def shared(one, other):
    return np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(one, other, strict=True)])


def test_the_embedding_is_one_compact_space(model):
    rows = np.vstack(model.embedding_)
    assert all(part.dtype == np.float32 for part in model.embedding_)
    assert rows.shape[1] <= 50
    variances = rows.astype(float).var(axis=0)
    assert (variances > 1e-10 * variances[0]).all(), "a column is constant"
    assert (np.diff(variances) <= 1e-6 * variances[0]).all(), "columns are not in order of their variance"


@pytest.mark.parametrize("n_components", [2, 7])
def test_fewer_columns_are_the_first_ones(digits, model, n_components):
    few = fit(digits.x, digits.y, n_components=n_components)
    for part, whole in zip(few.embedding_, model.embedding_, strict=True):
        np.testing.assert_allclose(part, whole[:, :n_components], atol=1e-5)


def test_fitted_rows_come_back_nearly_to_their_place(digits, model):
    for name, rows, there in zip((0, 1), (digits.x, digits.y), model.embedding_, strict=True):
        moved = rows + 1e-9  # rows that are new to the model
        off = np.linalg.norm(model.transform(moved, dataset=name) - there, axis=1).mean()
        size = np.linalg.norm(there, axis=1).mean()
        assert off < 0.2 * size, f"rows of dataset {name} come {off / size:.2f} of their length away"


def test_the_joint_graph_joins_neighbours_in_the_embedding(model):
    edges = model.joint_.graph.kernel.toarray() > 0
    joined = np.take_along_axis(edges, neighbours(model.embedding_), axis=1).mean()
    assert joined > 0.8, f"only {joined:.2f} of the nearest rows are joined in the graph"


def test_a_batch_of_five_rows_decides_nothing(digits, model):
    batch = fit(digits.x, digits.y[:-5], digits.y[-5:])
    one, other = model.significance_.z, batch.significance_.z
    # Where a test is clear z comes from few draws, and is known to a fifth.
    assert other == pytest.approx(one, rel=0.5), f"z is {one:.1f} without and {other:.1f} with the batch"
    widths = [m.embedding_[0].shape[1] for m in (model, batch)]
    assert widths[0] == widths[1], f"the embedding has {widths[1]} columns instead of {widths[0]}"
    same = shared(neighbours(model.embedding_), neighbours(batch.embedding_))
    assert same > 0.6, f"rows keep only {same:.2f} of their neighbours"


def test_the_order_of_rows_hardly_matters(digits, model):
    rng = np.random.RandomState(0)
    orders = rng.permutation(len(digits.x)), rng.permutation(len(digits.y))
    found = fit(digits.x[orders[0]], digits.y[orders[1]])
    back = [part[np.argsort(order)] for part, order in zip(found.embedding_, orders, strict=True)]
    same = shared(neighbours(model.embedding_), neighbours(back))
    assert same > 0.9, f"rows keep only {same:.2f} of their neighbours"


def test_the_signs_of_columns_do_not_matter(digits, model):
    signs = np.where(np.random.RandomState(0).rand(digits.x.shape[1]) < 0.5, -1, 1)
    found = fit(digits.x * signs, digits.y * signs)
    same = shared(neighbours(model.embedding_), neighbours(found.embedding_))
    assert same > 0.95, f"rows keep only {same:.2f} of their neighbours"


def test_the_order_of_datasets_does_not_matter(digits, model):
    found = fit(digits.y, digits.x)
    same = shared(neighbours(model.embedding_), neighbours(found.embedding_[::-1]))
    assert same > 0.9, f"rows keep only {same:.2f} of their neighbours"


def test_the_scale_of_all_columns_does_not_matter(digits, model):
    found = fit(1000 * digits.x, 1000 * digits.y)
    same = shared(neighbours(model.embedding_), neighbours(found.embedding_))
    assert same > 0.95, f"rows keep only {same:.2f} of their neighbours"


@pytest.mark.parametrize("seed", [0, 1])
def test_clusters_with_classes_of_one_side_only_are_not_turned(seed):
    pair = clusters_pair(400, 400, n_clusters=10, only_x=2, only_y=2, random_state=seed)
    model = fit(pair.x, pair.y)
    assert not any(found.turned for found in model.model_.pairs.values())
    of_x, of_y = (np.isin(labels, pair.shared) for labels in (pair.labels_x, pair.labels_y))
    away = np.linalg.norm(model.embedding_[1][:, None] - model.embedding_[0][None], axis=2)
    right = pair.labels_x[away.argmin(axis=1)] == pair.labels_y
    assert right[of_y].mean() > 0.95
    assert of_x.any()


def test_a_refined_fit_has_no_time_of_diffusion_to_choose(digits):
    with pytest.raises(ValueError, match="t"):
        fit(digits.x, digits.y, t=2)
