"""AnnData and MuData in and out: the same results from every form, written where scanpy looks for them."""

import contextlib
import logging
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist, squareform

from harmonicalign import HarmonicAlignment, scverse
from harmonicalign.adapters.scverse._data import split
from harmonicalign.adapters.scverse._graph import _memberships
from harmonicalign.adapters.scverse._links import link_matrix
from harmonicalign.adapters.scverse._prepare import Options, prepare
from harmonicalign.datasets import load_digits_pair
from harmonicalign.metrics import knn_label_agreement

anndata = pytest.importorskip("anndata")
mudata = pytest.importorskip("mudata")
pd = pytest.importorskip("pandas")

N_X, N_Y = 100, 90
NAMES = [f"pixel{i}" for i in range(64)]


@pytest.fixture(autouse=True)
def _mudata_as_of_its_version_0_4():
    # Earlier ones copy columns of the modalities unless told not to, and warn that they will not any more.
    told = hasattr(mudata, "set_options")
    with mudata.set_options(pull_on_update=False) if told else contextlib.nullcontext():
        yield


@pytest.fixture(scope="module")
def digits():
    # Small floating-point values, so that they do not look like counts.
    pair = load_digits_pair(preserved=0.7, n_x=N_X, n_y=N_Y, random_state=0)
    return pair.x / 16, pair.y / 16, pair.labels_x, pair.labels_y


@pytest.fixture(scope="module")
def expected(digits):
    """What the estimator gives for the arrays themselves."""
    return HarmonicAlignment(random_state=0).fit(list(digits[:2]))


def annotated(matrix, labels, prefix):
    obs = pd.DataFrame(
        {"digit": pd.Categorical(labels.astype(str))}, index=[f"{prefix}{i}" for i in range(len(labels))]
    )
    return anndata.AnnData(matrix, obs=obs, var=pd.DataFrame(index=NAMES))


def pair_of(digits, form=np.asarray):
    x, y, lx, ly = digits
    return annotated(form(x), lx, "a"), annotated(form(y), ly, "b")


def stacked_of(digits, form=np.asarray, seed=0):
    """One AnnData with the rows of both mixed, each dataset's in their order; and where rows come from."""
    x, y, lx, ly = digits
    mask = np.random.RandomState(seed).permutation(len(x) + len(y)) < len(x)
    order = np.where(mask, np.cumsum(mask) - 1, len(x) + np.cumsum(~mask) - 1)
    adata = annotated(form(np.vstack([x, y])[order]), np.concatenate([lx, ly])[order], "c")
    adata.obs["batch"] = pd.Categorical(np.repeat(["first", "second"], [len(x), len(y)])[order])
    return adata, order


def modalities(digits):
    """A MuData, whose shared names have the modality put before them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(names are not unique|names will be prepended)")
        mdata = mudata.MuData(dict(zip(("one", "two"), pair_of(digits), strict=True)))
        mdata.var_names_make_unique()
    return mdata


def assert_same_geometry(a, b):
    """Rows are as far apart in both; signs of coordinates and rounding do not matter."""
    np.testing.assert_allclose(pdist(a), pdist(b), atol=1e-6)


def assert_same(a, b):
    """Two entries of an AnnData are equal in type and every value."""
    if isinstance(a, dict):
        assert set(a) == set(b)
        for key in a:
            assert_same(a[key], b[key])
    elif sp.issparse(a):
        assert a.dtype == b.dtype
        assert (a != b).nnz == 0
    elif isinstance(a, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b)
    else:
        np.testing.assert_array_equal(a, b)


# --- the same from every form -------------------------------------------------------------------------------


def test_list_equals_arrays(digits, expected):
    a, b = pair_of(digits)
    model = scverse.align([a, b])
    np.testing.assert_array_equal(a.obsm["X_harmonic"], expected.embedding_[0])
    np.testing.assert_array_equal(b.obsm["X_harmonic"], expected.embedding_[1])
    np.testing.assert_array_equal(a.var["harmonic_weight"], expected.feature_weights_)
    np.testing.assert_array_equal(b.var["harmonic_score"], expected.feature_scores_)
    np.testing.assert_array_equal(b.var["harmonic_selected"], expected.feature_selected_)
    np.testing.assert_array_equal(a.obs["harmonic_confidence"], expected.confidence_[0])
    assert a.uns["harmonic"]["significance"]["z"] == expected.significance_.z
    assert a.uns["harmonic"]["significance"]["tested"] is True
    assert model.signal_names_ == NAMES


def test_dict_and_modalities_equal_arrays(digits, expected):
    a, b = pair_of(digits)
    scverse.align({"one": a, "two": b})
    np.testing.assert_array_equal(b.obsm["X_harmonic"], expected.embedding_[1])
    mdata = modalities(digits)
    assert mdata.mod["one"].var_names[0] == "one:pixel0"
    model = scverse.align(mdata)
    assert model.keys_ == ["one", "two"]
    assert model.signal_names_ == NAMES
    np.testing.assert_array_equal(mdata.mod["two"].obsm["X_harmonic"], expected.embedding_[1])
    # No row is in two modalities, so the whole has results too.
    np.testing.assert_array_equal(
        mdata.obsm["X_harmonic"][mdata.obs_names == "b3"][0], expected.embedding_[1][3]
    )
    assert mdata.obsp["harmonic_connectivities"].shape == (N_X + N_Y, N_X + N_Y)


def test_batches_equal_arrays_whatever_the_order(digits, expected):
    adata, order = stacked_of(digits)
    scverse.align(adata, batch_key="batch")
    whole = np.concatenate(expected.embedding_)
    np.testing.assert_array_equal(adata.obsm["X_harmonic"], whole[order])
    np.testing.assert_array_equal(
        adata.obs["harmonic_confidence"], np.concatenate(expected.confidence_)[order]
    )
    stacked = HarmonicAlignment(random_state=0).fit_transform(adata.X, batch=np.asarray(adata.obs["batch"]))
    np.testing.assert_array_equal(adata.obsm["X_harmonic"], stacked)


@pytest.mark.parametrize("form", ["csr", "csc", "dask", "dask of csr", "backed", "backed csr", "backed csc"])
def test_every_storage_is_read_the_same(digits, form, tmp_path, monkeypatch):
    # Small blocks, so that many of them are read.
    monkeypatch.setattr("harmonicalign.adapters.scverse._matrix._BLOCK_BYTES", 10_000)
    sparse = "cs" in form
    digits = (np.abs(digits[0]), np.abs(digits[1]), *digits[2:])
    plain, _ = stacked_of(digits)
    adata, _ = stacked_of(digits, getattr(sp, f"{form[-3:]}_matrix") if sparse else np.asarray)
    if "dask" in form:
        array = pytest.importorskip("dask.array")
        chunks = array.from_array(plain.X, chunks=(37, 20))
        adata.X = chunks.map_blocks(sp.csr_matrix, dtype=chunks.dtype) if sparse else chunks
    if "backed" in form:
        adata.write_h5ad(tmp_path / "data.h5ad")
        adata = anndata.read_h5ad(tmp_path / "data.h5ad", backed="r")
    for n_vars, normalize in ((None, False), (40, False), (40, True)):
        found = []
        for data in (plain, adata):
            parts = split(data, "batch")
            found.append(prepare(parts, Options.of(parts, None, None, normalize, n_vars, None)))
        assert found[0].names == found[1].names
        for one, other in zip(found[0].datasets, found[1].datasets, strict=True):
            assert sp.issparse(other) == sparse
            np.testing.assert_allclose(other.toarray() if sparse else other, one, rtol=1e-6)


def test_of_a_file_only_what_is_used_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr("harmonicalign.adapters.scverse._matrix._BLOCK_BYTES", 2**20)
    rng = np.random.default_rng(0)
    adata = anndata.AnnData(rng.random((3000, 2000), dtype=np.float32))  # 24 MB
    adata.obs["batch"] = rng.integers(2, size=3000).astype(str)
    adata.write_h5ad(tmp_path / "data.h5ad")
    backed = anndata.read_h5ad(tmp_path / "data.h5ad", backed="r")
    parts = split(backed, "batch")
    tracemalloc.start()
    found = prepare(parts, Options.of(parts, None, None, False, 50, None))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(d.shape[0] for d in found.datasets) == 3000
    assert peak < 8e6


def test_a_backed_file_is_aligned(digits, tmp_path):
    adata, _ = stacked_of(digits, sp.csr_matrix)
    adata.write_h5ad(tmp_path / "data.h5ad")
    backed = anndata.read_h5ad(tmp_path / "data.h5ad", backed="r")
    model = scverse.align(backed, batch_key="batch")
    scverse.align(adata, batch_key="batch")
    assert_same(backed.obsm["X_harmonic"], adata.obsm["X_harmonic"])
    scverse.correct(backed, model)
    scverse.correct(adata, model)
    assert_same(backed.layers["harmonic_corrected"], adata.layers["harmonic_corrected"])
    assert "X_harmonic" not in anndata.read_h5ad(tmp_path / "data.h5ad").obsm


def test_views_are_aligned_and_become_their_own(digits, expected, tmp_path):
    adata, _ = stacked_of(digits)
    views = [adata[adata.obs["batch"] == name] for name in ("first", "second")]
    scverse.align(views)
    np.testing.assert_array_equal(views[1].obsm["X_harmonic"], expected.embedding_[1])
    assert "X_harmonic" not in adata.obsm
    adata.write_h5ad(tmp_path / "data.h5ad")
    backed = anndata.read_h5ad(tmp_path / "data.h5ad", backed="r")
    with pytest.raises(ValueError, match="view of a backed file and cannot hold results"):
        scverse.align([backed[:50], backed[50:]])


# --- what is written ----------------------------------------------------------------------------------------


def test_graph_is_what_scanpy_reads(digits):
    sc = pytest.importorskip("scanpy")
    adata, _ = stacked_of(digits)
    model = scverse.align(adata, batch_key="batch")
    near, far = adata.obsp["harmonic_connectivities"], adata.obsp["harmonic_distances"]
    assert near.diagonal().sum() == 0
    assert abs(near - near.T).max() < 1e-6
    assert near.data.min() > 0
    assert near.data.max() <= 1
    graph = model.joint_.graph
    distances = squareform(pdist(graph.rows))
    # A row whose weight is next to nothing is no neighbour, even if it is among the nearest.
    distances[(graph.kernel.toarray() if sp.issparse(graph.kernel) else graph.kernel) == 0] = np.inf
    np.fill_diagonal(distances, np.inf)
    assert (np.diff(far.indptr) <= 15).all()
    places = np.argsort(adata.obs["batch"].cat.codes.to_numpy(), kind="stable")
    for i in range(0, len(places), 20):
        found = far[places[i]].data
        np.testing.assert_allclose(np.sort(found), np.sort(distances[i])[: len(found)], rtol=1e-4)
    sc.tl.leiden(adata, neighbors_key="harmonic", flavor="igraph", n_iterations=2, resolution=3)
    sc.tl.diffmap(adata, neighbors_key="harmonic")
    assert 3 <= adata.obs["leiden"].nunique() <= 30
    table = pd.crosstab(adata.obs["leiden"], adata.obs["digit"])
    assert table.max(axis=1).sum() / adata.n_obs > 0.7
    assert pd.crosstab(adata.obs["leiden"], adata.obs["batch"]).min(axis=1).gt(0).mean() > 0.7


def test_weights_of_neighbours_are_those_of_umap():
    rng = np.random.RandomState(0)
    distances = np.sort(rng.gamma(3.0, size=(50, 15)), axis=1)
    distances[1, 10:] = np.inf  # fewer neighbours
    distances[2] = 0  # copies
    distances[3, 2:] = 7
    weights = _memberships(distances)
    np.testing.assert_allclose(weights[:, 0], 1)
    assert (np.diff(weights, axis=1) <= 0).all()
    np.testing.assert_allclose(weights[4:].sum(axis=1), np.log2(15), rtol=1e-3)
    assert weights[1].sum() == pytest.approx(np.log2(10), rel=1e-3)
    assert (weights[1, 10:] == 0).all()
    assert np.isfinite(weights).all()


@pytest.mark.slow
def test_umap_of_all_datasets(digits):
    sc = pytest.importorskip("scanpy")
    a, b = pair_of(digits)
    joined = scverse.concat([a, b], scverse.align([a, b]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # umap and numba have deprecations of their own
        sc.tl.umap(joined, neighbors_key="harmonic")
    z, known = joined.obsm["X_umap"], joined.obs["dataset"] == "0"
    labels = np.asarray(joined.obs["digit"].astype(str))
    assert knn_label_agreement(z[known], labels[known], z[~known], labels[~known]) > 0.65


def test_neighbors_key_and_key_added(digits):
    sc = pytest.importorskip("scanpy")
    adata, _ = stacked_of(digits)
    scverse.align(adata, batch_key="batch", key_added="mine", neighbors_key="neighbors")
    assert {"connectivities", "distances"} <= set(adata.obsp)
    assert {"X_mine"} <= set(adata.obsm)
    assert {"mine_weight", "mine_score", "mine_selected"} <= set(adata.var)
    assert "significance" in adata.uns["mine"]
    sc.tl.leiden(adata, flavor="igraph", n_iterations=2)  # scanpy's default graph


def test_round_trips_keep_everything(digits, tmp_path):
    adata, _ = stacked_of(digits)
    model = scverse.align(adata, batch_key="batch", n_harmonics=20)
    scverse.transfer_labels(adata, model, "digit", source="first", threshold=0.5)
    scverse.correct(adata, model, reference="first")
    scverse.denoise(adata, model, NAMES[:3])
    scverse.impute(adata, model, source="first", target="second", variables=NAMES[:2])
    adata.write_h5ad(tmp_path / "data.h5ad")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Writing zarr v2")
        adata.write_zarr(tmp_path / "data.zarr")
    for again in (anndata.read_h5ad(tmp_path / "data.h5ad"), anndata.read_zarr(tmp_path / "data.zarr")):
        for slot in ("obsm", "obsp", "layers", "uns"):
            assert_same(dict(getattr(adata, slot)), dict(getattr(again, slot)))
        pd.testing.assert_frame_equal(again.obs, adata.obs)
        pd.testing.assert_frame_equal(again.var, adata.var)
        assert scverse.score(again, model, "digit") == scverse.score(adata, model, "digit")


def test_multimodal_round_trip(digits, tmp_path):
    mdata = modalities(digits)
    model = scverse.align(mdata)
    mdata.write(tmp_path / "data.h5mu")
    again = mudata.read(tmp_path / "data.h5mu")
    assert_same(dict(mdata.mod["two"].obsp), dict(again.mod["two"].obsp))
    assert_same(dict(mdata.mod["two"].uns), dict(again.mod["two"].uns))
    assert_same(mdata.obsm["X_harmonic"], again.obsm["X_harmonic"])
    assert scverse.score(again, model) == scverse.score(mdata, model)


def test_copy_leaves_the_input_alone(digits):
    adata, _ = stacked_of(digits)
    copied, model = scverse.align(adata, batch_key="batch", copy=True)
    assert not adata.obsm
    assert not adata.uns
    assert list(adata.obs) == ["digit", "batch"]
    np.testing.assert_array_equal(
        copied[copied.obs["batch"] == "first"].obsm["X_harmonic"], model.embedding_[0]
    )
    a, b = pair_of(digits)
    (c, _), _ = scverse.align([a, b], copy=True)
    assert "X_harmonic" in c.obsm
    assert not a.obsm


def test_published_method_has_no_feature_weights(digits):
    adata, _ = stacked_of(digits)
    scverse.align(adata, batch_key="batch", method="paper", n_harmonics=20)
    assert "harmonic_weight" not in adata.var
    assert "significance" not in adata.uns["harmonic"]
    assert adata.obsp["harmonic_connectivities"].nnz


def test_seed_and_generator(digits):
    results = []
    for options in (
        {"random_state": 5},
        {"rng": np.random.default_rng(3)},
        {"rng": np.random.default_rng(3)},
    ):
        a, b = pair_of(digits)
        scverse.align([a, b], n_landmarks=60, **options)
        results.append(a.obsm["X_harmonic"])
    np.testing.assert_array_equal(results[1], results[2])
    assert not np.array_equal(results[0], results[1])


# --- which columns ------------------------------------------------------------------------------------------


def cells(n, seed, n_genes=300, shift=0.0):
    """Counts of eight kinds of cell; the first 100 genes differ between kinds, the others do not."""
    rng = np.random.RandomState(seed)
    kind = rng.randint(8, size=n)
    rate = np.full((8, n_genes), 0.5)
    rate[:, :100] *= np.exp(np.random.RandomState(99).normal(0, 1.5, (8, 100)))
    effect = np.exp(shift * rng.standard_normal(n_genes))
    counts = rng.poisson(rate[kind] * effect * rng.uniform(0.5, 2, (n, 1)))
    obs = pd.DataFrame({"kind": kind.astype(str)}, index=[f"cell{seed}_{i}" for i in range(n)])
    var = pd.DataFrame(index=[f"gene{i}" for i in range(n_genes)])
    return anndata.AnnData(sp.csr_matrix(counts.astype(np.float32)), obs=obs, var=var)


def test_counts_are_normalised_only_when_asked(caplog):
    a, b = cells(80, 0), cells(90, 1, shift=0.3)
    before = a.X.copy()
    with caplog.at_level(logging.WARNING, "harmonicalign"):
        scverse.align([a, b])
    assert "looks like counts" in caplog.text
    raw = a.obsm["X_harmonic"]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "harmonicalign"):
        scverse.align([a, b], normalize=True)
    assert not caplog.records
    assert (before != a.X).nnz == 0
    assert not np.allclose(pdist(a.obsm["X_harmonic"]), pdist(raw))
    logged = [cells(80, 0), cells(90, 1, shift=0.3)]
    for adata in logged:
        depth = np.asarray(adata.X.sum(axis=1))
        adata.layers["log"] = sp.csr_matrix(adata.X.multiply(1e4 / depth)).log1p().astype(np.float32)
    scverse.align(logged, layer="log")
    np.testing.assert_allclose(pdist(logged[0].obsm["X_harmonic"]), pdist(a.obsm["X_harmonic"]), atol=1e-3)
    a.X.data[0] = -1
    with pytest.raises(ValueError, match=r"normalize expects counts, but X of dataset 0 holds negative"):
        scverse.align([a, b], normalize=True)


def chosen(data, batch_key=None, n_vars=None):
    """Names of the variables that are compared."""
    parts = split(data, batch_key)
    return prepare(parts, Options.of(parts, None, None, True, n_vars, None)).names[0]


def test_most_variable_and_flagged_variables():
    adata = anndata.concat([cells(80, 0), cells(90, 1)], label="batch", keys=["a", "b"])
    scverse.align(adata, batch_key="batch", n_vars=60, normalize=True)
    used = np.flatnonzero(adata.var["harmonic_weight"].notna())
    assert len(used) == 60
    assert np.mean(used < 100) > 0.9  # the genes that vary
    adata.var["highly_variable"] = np.arange(300) % 4 == 0
    assert chosen(adata, "batch") == list(adata.var_names[::4])
    assert chosen(adata, "batch", "all") == list(adata.var_names)


def test_many_variables_are_reduced_to_the_most_variable(monkeypatch, caplog):
    monkeypatch.setattr("harmonicalign.adapters.scverse._prepare._MANY", 200)
    monkeypatch.setattr("harmonicalign.adapters.scverse._prepare.N_VARS", 100)
    a, b = cells(80, 0), cells(90, 1)
    with caplog.at_level(logging.INFO, "harmonicalign"):
        assert len(chosen([a, b])) == 100
    assert "100 most variable of 300" in caplog.text


def test_flags_of_several_datasets(monkeypatch):
    a, b = cells(80, 0), cells(90, 1)
    a.var["highly_variable"] = np.arange(300) < 70
    b.var["highly_variable"] = (np.arange(300) >= 20) & (np.arange(300) < 90)
    assert len(chosen([a, b])) == 90  # flagged in any, as few are in both
    monkeypatch.setattr("harmonicalign.adapters.scverse._prepare._FEWEST_FLAGGED", 10)
    assert len(chosen([a, b])) == 50


def test_names_are_matched_and_the_others_reported(digits, expected, caplog):
    a, b = pair_of(digits)
    # The same variables in another order, and some that only one dataset has.
    order = np.random.RandomState(0).permutation(64)
    extra = anndata.AnnData(np.random.RandomState(1).rand(N_Y, 5), obs=b.obs)
    extra.var_names = [f"other{i}" for i in range(5)]
    b = anndata.concat([b[:, order], extra], axis="var", merge="same")
    with caplog.at_level(logging.INFO, "harmonicalign"):
        model = scverse.align([a, b])
    assert "64 variable names are shared" in caplog.text
    assert "5 of dataset 1 are not: other0, other1, other2" in caplog.text
    assert_same_geometry(
        np.vstack([a.obsm["X_harmonic"], b.obsm["X_harmonic"]]), np.vstack(expected.embedding_)
    )
    assert model.signal_names_ == NAMES
    assert b.var.loc["other0", "harmonic_selected"] == np.False_
    assert np.isnan(b.var.loc["other0", "harmonic_weight"])


def test_a_dataset_with_mostly_its_own_variables_is_represented_by_them(digits):
    x, y, *_ = digits
    shown = np.random.RandomState(0).permutation(64)[:25]
    a, b = pair_of(digits)
    a = a[:, np.sort(shown)].copy()
    scverse.align([a, b])
    model = HarmonicAlignment(random_state=0).fit(
        [x[:, np.sort(shown)], y], signals=[z[:, np.sort(shown)] for z in (x, y)]
    )
    assert_same_geometry(b.obsm["X_harmonic"], model.embedding_[1])
    assert list(b.uns["harmonic"]["input"]["represented"]) == NAMES


def test_use_rep_is_the_graph_and_variables_are_the_signals(digits):
    x, y, *_ = digits
    a, b = pair_of(digits)
    a.obsm["rep"], b.obsm["rep"] = x[:, ::2] ** 2, y[:, ::2] ** 2
    scverse.align([a, b], use_rep="rep")
    wanted = HarmonicAlignment(random_state=0).fit([a.obsm["rep"], b.obsm["rep"]], signals=[x, y])
    np.testing.assert_array_equal(a.obsm["X_harmonic"], wanted.embedding_[0])
    parts = split([a, b])
    mixed = prepare(parts, Options.of(parts, {1: "rep"}, None, False, None, None))
    np.testing.assert_array_equal(mixed.datasets[0], x)
    np.testing.assert_array_equal(mixed.datasets[1], b.obsm["rep"])
    np.testing.assert_array_equal(mixed.signals[1], y)


def test_signals_in_obsm(digits, expected):
    adata, order = stacked_of(digits)
    frame = pd.DataFrame(adata.X, index=adata.obs_names, columns=NAMES)
    plain = anndata.AnnData(obs=adata.obs[["batch"]], obsm={"rep": adata.X, "frame": frame})
    model = scverse.align(plain, batch_key="batch", use_rep="rep")  # no X: the columns of rep correspond
    np.testing.assert_array_equal(plain.obsm["X_harmonic"], np.concatenate(expected.embedding_)[order])
    np.testing.assert_array_equal(plain.uns["harmonic"]["signals"]["weight"], model.feature_weights_)
    adata.obsm["frame"], adata.obsm["rep"] = frame, adata.X
    scverse.align(adata, batch_key="batch", use_rep="frame", signals="frame")
    np.testing.assert_allclose(adata.obsm["X_harmonic"], plain.obsm["X_harmonic"], atol=1e-9)
    a, b = (adata[adata.obs["batch"] == name].copy() for name in ("first", "second"))
    b.obsm["frame"] = b.obsm["frame"].iloc[:, ::-1]  # matched by name
    parts = split([a, b])
    found = prepare(parts, Options.of(parts, "rep", None, False, None, "frame"))
    np.testing.assert_array_equal(found.signals[1], b.X)


def test_a_backed_file_is_not_read_where_obsm_serves(digits, tmp_path, monkeypatch):
    adata, _ = stacked_of(digits)
    adata.obsm["rep"] = adata.X.copy()
    adata.write_h5ad(tmp_path / "data.h5ad")
    backed = anndata.read_h5ad(tmp_path / "data.h5ad", backed="r")
    monkeypatch.setattr("harmonicalign.adapters.scverse._matrix.Store.raw", None)
    scverse.align(backed, batch_key="batch", use_rep="rep", signals="rep")
    assert "X_harmonic" in backed.obsm


# --- links and anchors --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def linked(digits):
    """Two datasets whose variables have different names, and the right pairs."""
    x, y, *_ = digits
    order = np.random.RandomState(0).permutation(64)
    links = [(NAMES[i], f"protein{j}", 1.0) for j, i in enumerate(order)]
    return x, y[:, order], order, links


def datasets_of(linked):
    a, b = anndata.AnnData(linked[0]), anndata.AnnData(linked[1])
    a.var_names, b.var_names = NAMES, [f"protein{j}" for j in range(64)]
    return {"rna": a, "protein": b}


def test_links_in_every_form(linked):
    x, y, order, links = linked
    matrix = sp.csr_matrix((np.ones(64), (order, np.arange(64))), shape=(64, 64))
    wanted = HarmonicAlignment(random_state=0).fit({"rna": x, "protein": y}, links=matrix)
    table = pd.DataFrame(links, columns=["gene", "protein", "weight"])
    wide = pd.DataFrame(matrix.toarray(), index=NAMES, columns=[f"protein{j}" for j in range(64)])
    swapped = [(b, a) for a, b, _ in links]
    forms = [matrix, matrix.toarray(), links, swapped, table, table[["gene", "protein"]], wide]
    forms.append({a: b for a, b, _ in links})
    for form in forms:
        assert (link_matrix(form, NAMES, [f"protein{j}" for j in range(64)]) != matrix).nnz == 0
    data = datasets_of(linked)
    scverse.align(data, links=table)
    assert_same_geometry(data["protein"].obsm["X_harmonic"], wanted.embedding_[1])
    found = data["rna"].uns["harmonic"]["links"]
    pairs = {(a, b) for a, b in zip(found["first"], found["second"], strict=True)}
    assert pairs == {(a, b) for a, b, _ in links}
    np.testing.assert_array_equal(data["rna"].var["harmonic_weight"], wanted.feature_weights_)
    np.testing.assert_array_equal(data["protein"].var["harmonic_selected"], wanted.feature_selected_[order])


def test_links_that_do_not_match_are_reported(linked, caplog):
    *_, links = linked
    data = datasets_of(linked)
    with caplog.at_level(logging.WARNING, "harmonicalign"):
        scverse.align(data, links=[*links, ("pixel0", "nothing", 1.0)])
    assert "64 of 65 pairs" in caplog.text
    assert "nothing" in caplog.text
    for links, message in [
        ([("u", "v")], "none of its 1 pairs names a variable of both"),
        ([], "holds no pair of names"),
        ([("pixel0",)], "expected"),
        (np.eye(3), r"shape \(3, 3\); the variables of the two datasets make it \(64, 64\)"),
        (pd.DataFrame({"a": ["x"], "b": [1.0], "c": ["y"]}), "expected two columns of names"),
    ]:
        with pytest.raises(ValueError, match=message):
            scverse.align(data, links=links)
    with pytest.raises(ValueError, match="two datasets, but data holds 3"):
        scverse.align([data["rna"], data["protein"], data["rna"].copy()], links=links)


def test_row_names_as_anchors(digits):
    x, *_ = digits
    # The same rows twice, with no column that says so.
    a = anndata.AnnData(x, obs=pd.DataFrame(index=[f"r{i}" for i in range(N_X)]))
    b = anndata.AnnData(x[::-1, ::-1].copy(), obs=pd.DataFrame(index=a.obs_names[::-1]))
    model = scverse.align([a, b], anchors="obs_names")
    assert scverse.score([a, b], model)["foscttm"] < 0.1
    b.obs_names = [f"s{i}" for i in range(N_X)]
    with pytest.raises(ValueError, match="no row name occurs in two"):
        scverse.align([a, b], anchors="obs_names")
    with pytest.raises(ValueError, match="expected 'obs_names'"):
        scverse.align([a, b], anchors="names")


# --- bad input ----------------------------------------------------------------------------------------------


def broken(digits, what):
    adata, _ = stacked_of(digits)
    a, b = pair_of(digits)
    if what == "one batch":
        adata.obs["batch"] = "only"
    if what == "missing batch":
        adata.obs["batch"] = adata.obs["batch"].where(np.arange(N_X + N_Y) > 1)
    if what == "small batch":
        adata.obs["batch"] = np.where(np.arange(N_X + N_Y) < 2, "tiny", "rest")
    if what == "nan":
        adata.X[3, 4] = np.nan
        b.X[3, 4] = np.nan
    if what == "no shared names":
        b.var_names = [f"z{i}" for i in range(64)]
    if what == "case":
        b.var_names = [name.upper() for name in NAMES]
    if what == "symbols":
        b.var["symbol"] = NAMES
        b.var_names = [f"ENS{i}" for i in range(64)]
    if what == "duplicated":
        b.var_names = ["pixel0", *NAMES[:-1]]
    return adata, a, b


@pytest.mark.parametrize(
    ("what", "form", "options", "message"),
    [
        ("", "one", {}, "batch_key is missing.*digit, batch"),
        ("", "one", {"batch_key": "bach"}, "obs has no 'bach'; did you mean 'batch'"),
        ("", "one", {"batch_key": "Batch"}, "did you mean 'batch'"),
        ("", "one", {"batch_key": "batch", "use_rep": "X_pca"}, "obsm of dataset 'first' has no 'X_pca'"),
        ("", "one", {"batch_key": "batch", "layer": "counts"}, "layers has no 'counts'"),
        ("", "one", {"batch_key": "batch", "n_neighbours": 5}, "did you mean 'n_neighbors'"),
        ("", "one", {"batch_key": "batch", "normalise": True}, "did you mean 'normalize'"),
        ("", "one", {"batch_key": "batch", "n_vars": 0}, "n_vars must be >= 2"),
        (
            "",
            "one",
            {"batch_key": "batch", "normalize": "third"},
            r"data \(named in normalize\) has no 'third'",
        ),
        ("", "one", {"batch_key": "batch", "links": {"a": "b"}}, "batches have the same ones"),
        ("one batch", "one", {"batch_key": "batch"}, "holds one value only .'only'."),
        ("missing batch", "one", {"batch_key": "batch"}, "no value for 2 of 190 rows"),
        ("small batch", "one", {"batch_key": "batch"}, "at least 3 rows, but 1 have fewer .'tiny': 2"),
        ("nan", "one", {"batch_key": "batch"}, "contains 1 NaN"),
        ("nan", "one", {"batch_key": "batch", "n_vars": 30}, "NaN or infinity in 1 variable.*'pixel4'"),
        ("nan", "two", {}, "contains 1 NaN"),
        ("", "two", {"batch_key": "batch"}, "goes with one AnnData, but data is a list"),
        ("", "two", {"use_rep": {5: "X_pca"}}, r"data \(named in use_rep\) has no '5'"),
        ("", "two", {"peaks": 1}, "peaks needs genes"),
        ("", "two", {"genes": "genes.gtf", "peaks": 7}, r"data \(named in peaks\) has no '7'"),
        ("no shared names", "two", {}, "no variable name is shared by all datasets .0: pixel0, pixel1"),
        ("case", "two", {}, "64 names differ in case only"),
        ("symbols", "two", {}, r"64 names agree with var\['symbol'\] of dataset 1"),
        ("duplicated", "two", {}, "var_names of dataset 1 are not unique .'pixel0' occurs 2 times"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_and_left_alone(digits, what, form, options, message):
    adata, a, b = broken(digits, what)
    data = adata if form == "one" else [a, b]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Variable names are not unique")
        before = [d.copy() for d in (adata, a, b)]
    with pytest.raises(ValueError, match=message) as caught:
        scverse.align(data, **options)
    assert "\n" not in str(caught.value)
    for now, then in zip((adata, a, b), before, strict=True):
        for slot in ("obsm", "obsp", "layers", "uns"):
            assert_same(dict(getattr(now, slot)), dict(getattr(then, slot)))
        pd.testing.assert_frame_equal(now.obs, then.obs)
        pd.testing.assert_frame_equal(now.var, then.var)
        np.testing.assert_array_equal(now.X, then.X)


def test_wrong_types_are_refused(digits):
    a, b = pair_of(digits)
    with pytest.raises(ValueError, match="data is of type ndarray"):
        scverse.align(a.X)
    with pytest.raises(ValueError, match=r"data\[1\] is of type ndarray"):
        scverse.align([a, b.X])
    with pytest.raises(ValueError, match="holds 1 dataset"):
        scverse.align([a])
    with pytest.raises(ValueError, match="one AnnData object twice"):
        scverse.align([a, a])
    with pytest.raises(KeyError, match="did you mean"):
        scverse.align([a, b], n_pcas=5)


def test_copy_of_a_backed_file_is_refused(digits, tmp_path):
    adata, _ = stacked_of(digits)
    adata.write_h5ad(tmp_path / "data.h5ad")
    backed = anndata.read_h5ad(tmp_path / "data.h5ad", backed="r")
    with pytest.raises(ValueError, match="would read a backed file"):
        scverse.align(backed, batch_key="batch", copy=True)
