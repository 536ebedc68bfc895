"""The embedding: one compact space of all rows, its axes, and the place of new rows in it."""

from dataclasses import replace

import numpy as np
import plain_stages
import pytest
from two_sides import surface

from harmonicalign.engines.rows import participation
from harmonicalign.method import DEFAULT, embed, project
from harmonicalign.method.embed import principal_axes, smoothed


@pytest.fixture(scope="module")
def z():
    rng = np.random.RandomState(0)
    return [rng.randn(70, 3) * [3, 2, 1], rng.randn(60, 3) + 0.3]


@pytest.fixture(scope="module")
def embedding(z):
    return embed(z, 50)


def on_axes(rows, n_components):
    """Centred rows on their principal axes, from a singular value decomposition."""
    u, s, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    return (u * s)[:, :n_components]


def same_but_for_signs(found, expected, atol):
    for j, (one, other) in enumerate(zip(found.T, expected.T, strict=True)):
        sign = np.sign(one @ other)
        np.testing.assert_allclose(one, sign * other, atol=atol, err_msg=f"column {j}")


@pytest.mark.parametrize("changes", [{}, {"smoothing": 0.0}, {"smoothing": 1.0}, {"smoothing_neighbours": 4}])
@pytest.mark.parametrize("n_components", [3, 2])
def test_the_embedding_is_what_it_says(z, changes, n_components):
    config = replace(DEFAULT, **changes)
    places = np.vstack(z)
    extent = participation(np.cov(places.T))
    rows = np.array([plain_stages.project(row, places, config.tangent_neighbours, extent) for row in places])
    expected = on_axes(plain_stages.smoothed(rows, rows, config, np.arange(130)), n_components)
    found = embed(z, n_components, config=config)
    same_but_for_signs(found.coordinates, expected, atol=1e-4)
    assert found.coordinates.dtype == np.float32
    assert found.sizes == (70, 60)
    assert found.dimensions == pytest.approx(extent, rel=1e-5)
    assert [len(part) for part in found.split()] == [70, 60]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_rows_move_to_their_neighbours_as_it_says(rng, share):
    config = replace(DEFAULT, smoothing=share, smoothing_neighbours=4)
    known, new = rng.randn(40, 3), rng.randn(7, 3)
    own = np.arange(40)
    for rows, numbers in ((known, own), (new, None), (known[30:], own[30:])):
        found = smoothed(rows, known, numbers, config)
        np.testing.assert_allclose(found, plain_stages.smoothed(rows, known, config, numbers), atol=1e-5)


def test_few_and_equal_rows_move_nowhere(rng):
    one = rng.randn(1, 3)
    assert np.array_equal(smoothed(one, one, np.arange(1), DEFAULT), one), "a single row has no neighbour"
    same = np.ones((30, 3))
    np.testing.assert_allclose(smoothed(same, same, np.arange(30), DEFAULT), same)
    np.testing.assert_allclose(smoothed(same[25:], same, np.arange(25, 30), DEFAULT), same[25:])
    assert np.isfinite(embed([same, same[:5]], 3).coordinates).all()
    assert embed([same, same[:5]], 3).coordinates.shape == (35, 1), "at least one column is kept"


def test_columns_vary_and_are_in_order(embedding):
    variances = embedding.coordinates.var(axis=0)
    assert (variances > 0).all(), "a column is constant"
    assert (np.diff(variances) <= 0).all(), f"variances {variances} are not in order"
    np.testing.assert_allclose(embedding.coordinates.mean(axis=0), 0, atol=1e-5)


@pytest.mark.parametrize("n_components", [1, 2, 4, 9])
def test_there_are_as_many_columns_as_vary_and_are_asked_for(rng, n_components):
    flat = rng.randn(80, 4) @ rng.randn(4, 9)  # four directions in nine columns
    found = embed([flat[:50], flat[50:]], n_components)
    assert found.coordinates.shape == (80, min(n_components, 4))


def test_axes_are_principal_whatever_the_offset_and_the_scale(rng):
    rows = rng.randn(100, 5) * [5, 4, 3, 2, 1]
    for scale in (1e-6, 1.0, 1e6):
        moved = scale * (rows + 20)
        axes = principal_axes(moved, 3)
        same_but_for_signs(axes.apply(moved) / scale, on_axes(rows, 3), atol=1e-7)
    single = principal_axes((rows + 20).astype(np.float32), 3)
    same_but_for_signs(single.apply(rows + 20), on_axes(rows, 3), atol=1e-3)


@pytest.mark.parametrize(("limit", "projected"), [(129, False), (130, True)])
def test_more_rows_than_the_limit_are_not_projected(z, limit, projected):
    found = embed(z, 3, config=replace(DEFAULT, tangent_rows=limit))
    assert (found.places is not None) == projected
    places = np.vstack(z)
    assert (found.dimensions is not None) == projected
    expected = project(places, places, dimensions=found.dimensions) if projected else places
    np.testing.assert_allclose(found.rows, expected, atol=1e-4)


@pytest.mark.parametrize("limit", [DEFAULT.tangent_rows, 0])
def test_new_rows_are_placed_by_the_same_formula(z, limit):
    config = replace(DEFAULT, tangent_rows=limit)
    embedding = embed(z, 3, config=config)
    new = np.random.RandomState(1).randn(8, 3)
    rows = project(new, np.vstack(z), config, embedding.dimensions) if limit else new
    expected = embedding.axes.apply(plain_stages.smoothed(rows, embedding.rows, config))
    found = embedding.place(new)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-4)
    one_by_one = np.vstack([embedding.place(new[i : i + 1]) for i in range(8)])
    np.testing.assert_allclose(one_by_one, found, atol=1e-4, err_msg="rows affect each other")


@pytest.mark.parametrize("limit", [DEFAULT.tangent_rows, 0])
def test_rows_of_a_dataset_are_neighbours_of_each_other(z, limit):
    config = replace(DEFAULT, tangent_rows=limit)
    embedding = embed(z, 3, config=config)
    new = np.random.RandomState(1).randn(30, 3) + 2
    rows = project(new, np.vstack([*z, new]), config, embedding.dimensions) if limit else new
    known = np.vstack([embedding.rows, rows])
    expected = embedding.axes.apply(plain_stages.smoothed(rows, known, config, 130 + np.arange(30)))
    np.testing.assert_allclose(embedding.place(new, together=True), expected, atol=1e-4)


def test_fitted_rows_are_placed_nearly_where_they_are():
    rows = surface(600, 0.05)[0]
    parts = [rows[:300], rows[300:]]
    embedding = embed(parts, 10)
    off = np.linalg.norm(embedding.place(parts[0]) - embedding.split()[0], axis=1)
    size = np.linalg.norm(embedding.coordinates, axis=1).mean()
    assert off.mean() < 0.05 * size, f"fitted rows come {off.mean() / size:.3f} of their length away"


def test_the_joint_graph_joins_rows_that_are_near_in_the_embedding(embedding):
    joint = embedding.joint_geometry(embedding.split(), 0)
    edges = joint.graph.kernel.toarray() > 0
    rows = embedding.coordinates
    met = [
        edges[i, plain_stages.nearest(rows, row, DEFAULT.joint_neighbours + 1)[1:]].mean()
        for i, row in enumerate(rows)
    ]
    assert np.mean(met) > 0.8, f"only {np.mean(met):.2f} of the nearest rows are joined"
    assert joint.harmonics.k == DEFAULT.n_harmonics
    few = embed([rows[:4], rows[4:7]], 2)
    assert few.joint_geometry(few.split(), 0).harmonics.k == 6


def test_the_order_of_rows_and_datasets_does_not_matter(z, embedding):
    rng = np.random.RandomState(5)
    orders = [rng.permutation(70), rng.permutation(60)]
    found = embed([z[1][orders[1]], z[0][orders[0]]], 50).split()[::-1]
    for one, other, order in zip(found, embedding.split(), orders, strict=True):
        same_but_for_signs(one, other[order], atol=1e-3)


def test_by_torch(z, embedding):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    device = torch.device("cpu")
    for changes in ({}, {"tangent_rows": 0}, {"known_rows": 60}):
        config = replace(DEFAULT, **changes)
        expected = embed(z, 3, config=config)
        found = embed([torch.from_numpy(part) for part in z], 3, 0, device, config)
        same_but_for_signs(found.coordinates, expected.coordinates, atol=1e-3)
        assert (found.places is None) == (expected.places is None)
        far = found.coordinates[np.abs(found.coordinates).argmax(axis=0), np.arange(3)]
        assert (far > 0).all(), "axes do not point to the farthest row"
        new = z[0][:5] + 0.1
        same_but_for_signs(found.place(new), expected.place(new), atol=1e-3)
        for together in (False, True):
            there = expected.place(torch.from_numpy(new.astype(np.float32)), together=together)
            np.testing.assert_allclose(there, expected.place(new, together=together), atol=1e-3)


def test_neighbours_of_many_rows_are_sought_in_a_sample(z):
    some = embed(z, 3, 4, config=replace(DEFAULT, known_rows=90))
    assert some.rows.shape == (90, 3), "more rows are kept than neighbours are sought in"
    assert len(some.coordinates) == len(np.vstack(z)), "rows outside the sample are not embedded"
    places = np.vstack(z)
    rows = project(places, places, dimensions=some.dimensions)
    sample = np.sort(np.random.RandomState(4).permutation(len(rows))[:90])
    np.testing.assert_allclose(some.rows, rows[sample], atol=1e-5)
    number = {row: i for i, row in enumerate(sample.tolist())}
    own = [number.get(row, -1) for row in range(len(rows))]
    moved = plain_stages.smoothed(rows, rows[sample], DEFAULT, own)
    np.testing.assert_allclose(some.coordinates, some.axes.apply(moved), atol=1e-4)
