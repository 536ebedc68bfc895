"""Axes in, Axes out: what is drawn is what was passed, and nothing is imported before it is needed."""

import subprocess
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.axes import Axes

from harmonicalign import AlignmentWarning, HarmonicAlignment, scverse
from harmonicalign.adapters import plot
from harmonicalign.datasets import load_digits_pair
from harmonicalign.paper.bands import itersine_windows

plt.switch_backend("Agg")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def ax():
    return plt.subplots()[1]


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def offsets(ax):
    return np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])


def save(ax, tmp_path):
    """Drawing for real finds what creating artists does not (warnings are errors)."""
    path = tmp_path / "figure.png"
    ax.figure.savefig(path)
    assert path.stat().st_size > 2000


def test_matplotlib_is_not_imported_with_the_module():
    code = "import sys, harmonicalign.adapters.plot; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "harmonicalign\[report\]"'):
        plot.confidence([[0.5]])


def test_nothing_global_is_changed(rng):
    before = dict(matplotlib.rcParams)
    plot.spectrum([rng.uniform(size=5)])
    plot.embedding([rng.normal(size=(10, 3))])
    assert dict(matplotlib.rcParams) == before


def test_spectrum_draws_eigenvalues_over_the_windows(ax, tmp_path):
    spectra = [np.array([0.2, 0.9, 0.5]), np.array([0.8, 0.7])]
    assert plot.spectrum(spectra, 4, ax=ax, names=["a", "b"]) is ax
    for line, values in zip(ax.lines, spectra, strict=True):
        np.testing.assert_allclose(line.get_xdata(), np.sort(values)[::-1])
        np.testing.assert_array_equal(line.get_ydata(), np.arange(1, len(values) + 1))
    assert legend_texts(ax) == ["a (3)", "b (2)"]
    (right,) = (other for other in ax.figure.axes if other is not ax)
    assert len(right.lines) == 5
    grid = right.lines[0].get_xdata()
    np.testing.assert_allclose([line.get_ydata() for line in right.lines], itersine_windows(grid, 4))
    np.testing.assert_allclose(sum(line.get_ydata() ** 2 for line in right.lines), 1.0)
    save(ax, tmp_path)


def test_spectrum_shows_negative_eigenvalues(ax):
    plot.spectrum([np.array([0.9, -0.2])], ax=ax)
    assert ax.get_xlim()[0] < -0.2


def test_correlation_is_symmetric_about_white(rng, tmp_path):
    matrices = [rng.normal(size=(6, 8)), np.zeros((3, 3)), np.eye(5)]
    axes = plot.correlation(matrices, ["before", "after", "rotation"])
    assert len(axes) == 3
    for ax, matrix in zip(axes, matrices, strict=True):
        (image,) = ax.images
        np.testing.assert_array_equal(image.get_array(), matrix)
        low, high = image.get_clim()
        assert low == -high < 0
        assert ax.get_xlabel()
        assert ax.get_ylabel()
    assert [ax.get_title() for ax in axes] == ["before", "after", "rotation"]
    save(axes[0], tmp_path)


def test_correlation_draws_into_given_axes():
    given = plt.subplots(1, 2)[1]
    assert plot.correlation([np.eye(3), np.eye(2)], axes=given) == list(given)
    with pytest.raises(ValueError, match="axes has 2 Axes but 1 are needed"):
        plot.correlation([np.eye(3)], axes=given)


def test_embedding_draws_every_row_once(rng, ax, tmp_path):
    coords = [rng.normal(size=(40, 2)), rng.normal(size=(3, 2))]
    assert plot.embedding(coords, ax=ax, names=["ref", "query"], title="aligned") is ax
    drawn = offsets(ax)
    assert sorted(map(tuple, drawn)) == sorted(map(tuple, np.concatenate(coords)))
    assert legend_texts(ax) == ["ref", "query"]
    assert ax.get_title() == "aligned"
    save(ax, tmp_path)


def test_embedding_projects_to_principal_components(rng, ax):
    coords = [rng.normal(size=(30, 5)) * [5, 1, 3, 1, 1], rng.normal(size=(20, 5)) * [5, 1, 3, 1, 1]]
    plot.embedding(coords, ax=ax)
    stacked = np.concatenate(coords)
    _, s, _ = np.linalg.svd(stacked - stacked.mean(axis=0))
    drawn = offsets(ax)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=0), s[:2])
    assert "principal component" in ax.get_xlabel()


@pytest.mark.parametrize("width", [1, 4])
def test_embedding_of_few_rows_or_columns(rng, ax, width, tmp_path):
    plot.embedding([rng.normal(size=(1, width)), rng.normal(size=(1, width))], ax=ax)
    save(ax, tmp_path)


def test_embedding_by_label_gives_each_label_one_colour(rng, ax, tmp_path):
    coords = [rng.normal(size=(30, 2)), rng.normal(size=(20, 2))]
    labels = [rng.integers(0, 12, size=30), rng.integers(0, 12, size=20)]
    plot.embedding(coords, labels=labels, ax=ax, names=["ref", "query"])
    colour = {}
    lookup = {tuple(p): int(c) for p, c in zip(np.concatenate(coords), np.concatenate(labels), strict=True)}
    for collection in ax.collections:
        for point, face in zip(collection.get_offsets(), collection.get_facecolors(), strict=True):
            colour.setdefault(lookup[tuple(np.asarray(point))], set()).add(tuple(face))
    assert all(len(faces) == 1 for faces in colour.values())
    assert len(set.union(*colour.values())) == len(colour)
    texts = legend_texts(ax)
    assert set(texts[:-2]) == {str(label) for label in np.unique(np.concatenate(labels))}
    assert texts[-2:] == ["ref", "query"]
    save(ax, tmp_path)


def test_labels_that_are_numbers_sort_as_numbers(rng, ax):
    plot.embedding([rng.normal(size=(3, 2))], labels=[[10, 2, 1]], ax=ax)
    assert legend_texts(ax) == ["1", "2", "10"]


def test_embedding_with_very_many_labels_has_a_legend_that_ends(rng, ax, tmp_path):
    labels = np.arange(100).astype(str)
    plot.embedding([rng.normal(size=(100, 2))], labels=[labels], ax=ax)
    assert len(legend_texts(ax)) == 30
    assert legend_texts(ax)[-1] == "and 71 more"
    save(ax, tmp_path)


def test_embedding_by_value_has_one_scale_for_all_datasets(rng, ax, tmp_path):
    coords = [rng.normal(size=(30, 2)), rng.normal(size=(20, 2))]
    plot.embedding(coords, values=[np.linspace(0, 1, 30), np.linspace(2, 5, 20)], ax=ax)
    assert {collection.get_clim() for collection in ax.collections} == {(0.0, 5.0)}
    assert len(ax.figure.axes) == 2
    save(ax, tmp_path)


def test_before_after_has_two_panels_or_four(rng, tmp_path):
    before = [rng.normal(size=(30, 6)), rng.normal(size=(20, 6)) + 5]
    after = [rng.normal(size=(30, 3)), rng.normal(size=(20, 3))]
    two = plot.before_after(before, after, names=["a", "b"])
    assert [ax.get_title() for ax in two] == ["before", "after"]
    assert legend_texts(two[1]) == ["a", "b"]
    four = plot.before_after(before, after, labels=[["p"] * 30, ["q"] * 20], names=["a", "b"])
    assert len(four) == 4
    assert legend_texts(four[3]) == ["p", "q", "a", "b"]
    save(four[0], tmp_path)
    given = plt.subplots(2, 2)[1]
    assert plot.before_after(before, after, values=[np.arange(30), np.arange(20)], axes=given) == list(
        given.flat
    )
    save(given[0, 0], tmp_path)


def test_before_after_of_datasets_with_different_columns_says_so(rng):
    before = [rng.normal(size=(30, 6)), rng.normal(size=(20, 9))]
    after = [rng.normal(size=(30, 3)), rng.normal(size=(20, 3))]
    panels = plot.before_after(before, after)
    assert "by itself" in panels[0].get_title()


def test_feature_weights_shows_the_largest_first(rng, ax, tmp_path):
    weights = rng.uniform(size=50)
    names = [f"g{i}" for i in range(50)]
    assert plot.feature_weights(weights, names, top=10, ax=ax) is ax
    ticks = [text.get_text() for text in ax.get_yticklabels()]
    assert ticks == [f"g{i}" for i in np.argsort(-weights)[:10]]
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the largest is at the top"
    save(ax, tmp_path)
    few = plot.feature_weights([0.1, 0.3])
    assert [text.get_text() for text in few.get_yticklabels()] == ["feature 1", "feature 0"]


def test_confidence_counts_every_row(rng, ax, tmp_path):
    values = [rng.uniform(size=70), np.array([0.0, 1.0])]
    assert plot.confidence(values, ["a", "b"], ax=ax) is ax
    assert [text.split(":")[0] for text in legend_texts(ax)] == ["a", "b"]
    for patch in ax.patches:
        assert patch.get_data().values.sum() == pytest.approx(100)
    save(ax, tmp_path)


def test_alignment_error_draws_mean_and_spread(rng, ax, tmp_path):
    errors = {"ours": rng.uniform(size=(4, 3)), "none": np.ones(4)}
    x = [0.0, 0.1, 0.2, 0.4]
    assert plot.alignment_error(x, errors, ax=ax, chance=1.0, xlabel="noise") is ax
    np.testing.assert_allclose(ax.lines[0].get_ydata(), errors["ours"].mean(axis=1))
    assert len(ax.collections) == 1, "one band: a single run has no spread"
    assert legend_texts(ax) == ["ours", "none", "chance"]
    save(ax, tmp_path)


def test_alignment_error_against_names(ax, tmp_path):
    plot.alignment_error(["tree", "sphere"], {"ours": [0.1, 0.2]}, ax=ax)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["tree", "sphere"]
    save(ax, tmp_path)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot.spectrum([]), "nothing to draw"),
        (lambda: plot.spectrum([[0.5, np.nan]]), r"eigenvalues_list\[0\]"),
        (lambda: plot.spectrum([[0.5]], 0), "n_bands must be >= 1"),
        (lambda: plot.spectrum([[0.5]], names=["a", "b"]), "names has 2 entries"),
        (lambda: plot.correlation([np.eye(2)], ["a", "b"]), "titles has 2 entries for 1 matrices"),
        (lambda: plot.correlation([np.ones(3)]), r"matrices\[0\]"),
        (lambda: plot.embedding([np.eye(2), np.eye(3)]), r"\[2, 3\] columns"),
        (lambda: plot.embedding([np.eye(2)], labels=[[1, 2]], values=[[1, 2]]), "both given"),
        (lambda: plot.embedding([np.eye(2)], labels=[[1, 2, 3]]), r"labels\[0\] has shape"),
        (lambda: plot.embedding([np.eye(2)], values=[]), "values has 0 arrays"),
        (lambda: plot.before_after([np.eye(2)], []), "after has 0"),
        (lambda: plot.before_after([np.eye(2)]), "after is missing"),
        (lambda: plot.embedding([np.eye(2)], labels="type"), "names a column of obs"),
        (lambda: plot.embedding([np.eye(2)], basis="X_umap"), "goes with AnnData only"),
        (lambda: plot.correlation([np.eye(2)], pair=(0, 1)), "pair chooses among the pairs of a model"),
        (lambda: plot.feature_weights([]), "weights has shape"),
        (lambda: plot.feature_weights([1.0], ["a", "b"]), "names has 2 entries"),
        (lambda: plot.confidence([[1.5]]), "confidence lies in"),
        (lambda: plot.alignment_error([1], {}), "errors is empty"),
        (lambda: plot.alignment_error([1], {"a": [1, 2]}), r"errors\['a'\] has shape"),
        (lambda: plot.alignment_error([], {"a": []}), "x has shape"),
    ],
)
def test_bad_input_is_refused_with_a_reason(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_a_new_figure_is_made_when_no_axes_are_given(rng):
    assert isinstance(plot.spectrum([rng.uniform(size=4)]), Axes)
    assert isinstance(plot.confidence([rng.uniform(size=4)]), Axes)
    assert isinstance(plot.embedding([rng.normal(size=(4, 3))]), Axes)


# --- models and annotated data ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    return load_digits_pair(preserved=0.7, n_x=90, n_y=80, random_state=0)


@pytest.fixture(scope="module")
def model(digits):
    return HarmonicAlignment(random_state=0).fit({"clean": digits.x, "scrambled": digits.y})


@pytest.fixture(scope="module")
def cells(digits):
    """One AnnData with both halves in mixed order, annotated by `align`, and the model."""
    anndata = pytest.importorskip("anndata")
    pd = pytest.importorskip("pandas")
    order = np.random.RandomState(0).permutation(170)
    obs = pd.DataFrame(
        {
            "day": np.repeat(["first", "second"], [90, 80])[order],
            "digit": pd.Categorical(np.concatenate([digits.labels_x, digits.labels_y])[order].astype(str)),
        },
        index=[f"cell{i}" for i in range(170)],
    )
    adata = anndata.AnnData(np.vstack([digits.x, digits.y])[order] / 16, obs=obs)
    adata.var_names = [f"pixel{i}" for i in range(64)]
    return adata, scverse.align(adata, batch_key="day")


def test_a_model_is_drawn_as_its_arrays_are(digits, model, tmp_path):
    drawn = plot.embedding(model, labels={"clean": digits.labels_x, "scrambled": digits.labels_y})
    by_hand = plot.embedding(model.embedding_, labels=[digits.labels_x, digits.labels_y])
    np.testing.assert_array_equal(offsets(drawn), offsets(by_hand))
    assert legend_texts(drawn)[-2:] == ["clean", "scrambled"]
    save(drawn, tmp_path)
    dicts = plot.embedding(dict(zip(model.keys_, model.embedding_, strict=True)))
    assert legend_texts(dicts) == ["clean", "scrambled"]

    before, after = plot.before_after(model)
    np.testing.assert_array_equal(offsets(after), offsets(by_hand))
    np.testing.assert_allclose(offsets(before), offsets(plot.embedding([digits.x, digits.y])))
    assert legend_texts(plot.confidence(model))[0].startswith("clean: median ")
    assert legend_texts(plot.spectrum(model))[1].startswith("scrambled (")
    panels = plot.correlation(model)
    assert panels[0].get_title() == "correlation of clean and scrambled"
    np.testing.assert_array_equal(panels[1].images[0].get_array(), model.alignment_.pairs[0, 1].rotation)
    assert len(plot.correlation(model, pair=("scrambled", "clean"))) == 2
    weights = plot.feature_weights(model, top=5)
    np.testing.assert_array_equal(weights.lines[0].get_xdata(), np.sort(model.feature_weights_)[:-6:-1])


def test_pairs_that_a_model_did_not_align(model):
    with pytest.warns(AlignmentWarning, match="one dataset"):
        alone = HarmonicAlignment(random_state=0).fit([model.embedding_[0]])
    with pytest.raises(ValueError, match="holds one dataset"):
        plot.correlation(alone)
    with pytest.raises(ValueError, match="names 'other'"):
        plot.correlation(model, pair=("clean", "other"))
    with pytest.raises(ValueError, match=r"was not aligned directly; the pairs are \('clean', 'scrambled'\)"):
        plot.correlation(model, pair=("clean", "clean"))


def test_annotated_data_are_drawn_as_the_model_is(cells, tmp_path):
    adata, model = cells
    ax = plot.embedding(adata, labels="digit")
    np.testing.assert_allclose(offsets(ax), offsets(plot.embedding(model)), atol=1e-10)
    assert legend_texts(ax)[-2:] == ["first", "second"]
    save(ax, tmp_path)
    image = plot.embedding(adata, values="harmonic_confidence")
    assert image.figure.axes[1].get_ylim()[1] <= 1
    np.testing.assert_allclose(
        offsets(plot.before_after(adata, labels="digit")[0]), offsets(plot.before_after(model)[0]), atol=1e-10
    )
    assert legend_texts(plot.confidence(adata)) == legend_texts(plot.confidence(model))
    names = [text.get_text() for text in plot.feature_weights(adata, top=4).get_yticklabels()]
    best = adata.var["harmonic_weight"].sort_values(ascending=False, kind="stable").index[:4]
    assert names == list(best)
    assert scverse.plot.embedding is plot.embedding


def test_several_annotated_objects_and_other_entries(cells):
    adata, _ = cells
    parts = {day: adata[adata.obs["day"] == day].copy() for day in ("first", "second")}
    model = scverse.align(parts)
    np.testing.assert_allclose(offsets(plot.embedding(parts)), offsets(plot.embedding(model)))
    assert legend_texts(plot.embedding(list(parts.values()))) == ["first", "second"]
    for part in parts.values():
        part.obsm["X_pca"] = np.asarray(part.X[:, 20:22])
    flat = plot.embedding(parts, basis="X_pca")
    assert set(map(tuple, offsets(flat))) == set(
        map(tuple, np.vstack([p.X[:, 20:22] for p in parts.values()]))
    )
    np.testing.assert_array_equal(offsets(plot.before_after(parts)[0]), offsets(flat))


def test_sparse_rows_are_projected_as_dense_ones(rng):
    rows = [rng.poisson(1.0, (30, 8)).astype(float), rng.poisson(1.0, (20, 8)).astype(float)]
    dense = plot.embedding(rows)
    sparse = plot.embedding([sp.csr_matrix(r) for r in rows])
    np.testing.assert_allclose(offsets(sparse), offsets(dense), atol=1e-10)


def test_data_that_were_not_aligned_say_what_to_do(cells):
    adata, _ = cells
    plain = adata.copy()
    del plain.uns["harmonic"]
    with pytest.raises(ValueError, match=r"run harmonicalign\.scverse\.align first"):
        plot.embedding(plain)
    with pytest.raises(ValueError, match="obs of dataset 'first' has no 'kind'"):
        plot.embedding(adata, labels="kind")
    with pytest.raises(ValueError, match="obsm of dataset 'first' has no 'X_umap'"):
        plot.embedding(adata, basis="X_umap")
    plain.var = plain.var[[]]
    with pytest.raises(ValueError, match="only the default method"):
        plot.feature_weights(plain)
