"""What an alignment in AnnData is for: labels, corrected and predicted variables, scores, new data."""

import logging
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import harmonicalign
from harmonicalign.adapters import scverse
from harmonicalign.datasets import load_digits_pair
from harmonicalign.metrics import knn_label_agreement
from harmonicalign.uses.correct import correct as correct_signals

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")

N_X, N_Y = 130, 110
NAMES = [f"pixel{i}" for i in range(64)]


@pytest.fixture(scope="module")
def digits():
    pair = load_digits_pair(preserved=0.8, n_x=N_X, n_y=N_Y, random_state=0)
    return pair.x / 16, pair.y / 16, pair.labels_x, pair.labels_y


def made(matrix, labels, prefix, names=NAMES):
    obs = pd.DataFrame(
        {"digit": pd.Categorical(labels.astype(str)), "number": labels.astype(float)},
        index=[f"{prefix}{i}" for i in range(len(labels))],
    )
    return anndata.AnnData(matrix, obs=obs, var=pd.DataFrame(index=names))


@pytest.fixture(scope="module")
def fitted_batches(digits):
    """One AnnData of two batches, rows mixed, and its model."""
    x, y, lx, ly = digits
    mask = np.random.RandomState(0).permutation(N_X + N_Y) < N_X
    values, labels = np.empty((N_X + N_Y, 64)), np.empty(N_X + N_Y, dtype=int)
    values[mask], values[~mask], labels[mask], labels[~mask] = x, y, lx, ly
    adata = made(values, labels, "c")
    adata.obs["batch"] = np.where(mask, "first", "second")
    return adata, scverse.align(adata, batch_key="batch")


@pytest.fixture(scope="module")
def fitted_list(digits):
    """Two AnnData, the second with three variables of its own, and their model."""
    x, y, lx, ly = digits
    own = np.column_stack([ly, np.sin(ly), np.ones(N_Y)])
    a, b = made(x, lx, "a"), made(np.hstack([y, own]), ly, "b", [*NAMES, "own0", "own1", "own2"])
    return a, b, scverse.align([a, b])


@pytest.fixture
def batches(fitted_batches):
    return fitted_batches[0].copy(), fitted_batches[1]


@pytest.fixture
def pair(fitted_list):
    a, b, model = fitted_list
    return [a.copy(), b.copy()], model


# --- labels -------------------------------------------------------------------------------------------------


def test_labels_are_carried_over(batches, digits):
    adata, model = batches
    found = scverse.transfer_labels(adata, model, "digit", source="first")
    second = (adata.obs["batch"] == "second").to_numpy()
    assert adata.obs["digit_pred"][~second].isna().all()
    assert adata.obs["digit_conf"][~second].isna().all()
    right = adata.obs["digit_pred"].astype(str)[second] == adata.obs["digit"].astype(str)[second]
    assert right.mean() > 0.7
    assert adata.obs["digit_conf"][second][right].mean() > adata.obs["digit_conf"][second][~right].mean()
    wanted = model.transfer(
        np.asarray(adata.obs["digit"][~second]).astype(object), source="first", target="second"
    )
    np.testing.assert_array_equal(adata.obs["digit_pred"][second].astype(str), wanted.labels)
    np.testing.assert_array_equal(found["second"].probabilities, wanted.probabilities)


def test_values_missing_labels_and_thresholds(pair):
    (a, b), model = pair
    scverse.transfer_labels([a, b], model, "number", source=0, key_added="n")
    assert np.corrcoef(b.obs["n_pred"], b.obs["number"])[0, 1] > 0.7
    assert (b.obs["n_spread"] >= 0).all()
    assert "n_pred" not in a.obs
    a.obs["some"] = a.obs["digit"].where(np.arange(N_X) % 3 > 0)
    scverse.transfer_labels([a, b], model, "some", source=0, target=1, threshold=0.6)
    kept = b.obs["some_pred"] != "unassigned"
    assert 0.3 < kept.mean() < 1
    right = b.obs["some_pred"].astype(str) == b.obs["digit"].astype(str)
    assert right[kept].mean() > 0.7


def test_rows_may_be_dropped_and_reordered(batches):
    adata, model = batches
    scverse.transfer_labels(adata, model, "digit", source="first")
    order = np.random.RandomState(1).permutation(adata.n_obs)
    mixed = adata[order].copy()
    scverse.transfer_labels(mixed, model, "digit", source="first", key_added="again")
    for name in ("pred", "conf"):
        pd.testing.assert_series_equal(
            mixed.obs[f"again_{name}"], mixed.obs[f"digit_{name}"], check_names=False, check_exact=True
        )
    part = mixed[mixed.obs["digit"] != "3"].copy()
    scverse.transfer_labels(part, model, "digit", source="first", key_added="part")
    assert "3" not in set(part.obs["part_pred"].dropna())
    part.obsm["X_harmonic"] = part.obsm["X_harmonic"] + 1
    with pytest.raises(ValueError, match="rows of dataset 'first' are not in the model"):
        scverse.score(part, model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"key": "digits", "source": "first"},
            "obs of dataset 'first' has no 'digits'; did you mean 'digit'",
        ),
        (
            {"key": "digit", "source": "frist"},
            r"the model \(named in source\) has no 'frist'; did you mean 'first'",
        ),
        ({"key": "digit", "source": "first", "alignment": "harmonc"}, "did you mean 'harmonic'"),
        ({"key": "digit", "source": ["first", "second"]}, "no dataset but the source"),
        ({"key": "empty", "source": "first"}, r"obs\['empty'\] has no value in 'first'"),
    ],
)
def test_labels_that_cannot_be_carried(batches, options, message):
    adata, model = batches
    adata.obs["empty"] = pd.Categorical([None] * adata.n_obs)
    with pytest.raises(ValueError, match=message):
        scverse.transfer_labels(adata, model, **options)


# --- all datasets in one ------------------------------------------------------------------------------------


def test_joined_data(pair):
    data, model = pair
    joined = scverse.concat(data, model, label="origin")
    assert list(joined.var_names) == NAMES
    assert joined.obs["origin"].value_counts().to_dict() == {"0": N_X, "1": N_Y}
    np.testing.assert_array_equal(joined.obsm["X_harmonic"], np.vstack(model.embedding_))
    near = joined.obsp["harmonic_connectivities"]
    assert near[:N_X, N_X:].nnz > 0  # edges between the datasets, which neither has by itself
    assert (near[:N_X, :N_X] != data[0].obsp["harmonic_connectivities"]).nnz == 0
    np.testing.assert_array_equal(joined.var["harmonic_weight"], model.feature_weights_)
    assert scverse.score(joined, model, "digit") == scverse.score(data, model, "digit")
    scverse.transfer_labels(joined, model, "digit", source="0")
    scverse.transfer_labels(data, model, "digit", source=0)
    np.testing.assert_array_equal(
        joined.obs["digit_pred"][N_X:].astype(str), data[1].obs["digit_pred"].astype(str)
    )
    with pytest.raises(ValueError, match="one AnnData already"):
        scverse.concat(joined, model)


def test_rows_of_the_same_name_stay_apart(pair):
    (a, b), model = pair
    b.obs_names = [*a.obs_names[:N_Y]]
    joined = scverse.concat([a, b], model, join="outer", neighbors_key="neighbors")
    assert joined.obs_names.is_unique
    assert joined.n_vars == 67
    assert {"connectivities", "distances"} <= set(joined.obsp)


def test_joined_data_keep_what_only_some_datasets_describe(pair, tmp_path):
    (a, b), model = pair
    a.obs["type"] = pd.Categorical(["T"] * 20 + ["B"] * (N_X - 20))
    a.obs["note"], a.obs["size"], a.obs["good"] = "seen", np.arange(N_X), True
    b.obs["quality"] = 0.5
    for data in (a, b):
        data.layers["twice"] = 2 * data.X
        data.layers["sparse"] = sp.csr_matrix(3 * data.X)
    a.layers["own"] = a.X
    before = [list(data.obs.columns) for data in (a, b)]
    joined = scverse.concat([a, b], model)
    assert [list(data.obs.columns) for data in (a, b)] == before
    joined.write_h5ad(tmp_path / "joined.h5ad")
    for whole in (joined, anndata.read_h5ad(tmp_path / "joined.h5ad")):
        assert whole.obs.index.equals(joined.obs_names)
        for column in ("type", "note", "size", "good"):
            assert list(whole.obs[column][:N_X]) == list(a.obs[column])
            assert whole.obs[column][N_X:].isna().all()
        assert whole.obs["type"].dtype == "category"
        assert whole.obs["quality"][:N_X].isna().all()
        assert (whole.obs["quality"][N_X:] == 0.5).all()
        assert set(whole.layers) - {None} == {"twice", "sparse"}  # None is X, from anndata 0.13 on
        np.testing.assert_array_equal(whole.layers["twice"], 2 * whole.X)
        np.testing.assert_array_equal(whole.layers["sparse"].toarray(), 3 * whole.X)
    outer = scverse.concat([a, b], model, join="outer")
    assert set(outer.obs.columns) == set(joined.obs.columns)
    np.testing.assert_array_equal(outer.layers["twice"], 2 * outer.X)  # missing in the same places


def test_scores(batches):
    adata, model = batches
    found = scverse.score(adata, model, "digit")
    assert found["label_agreement"] > 0.8
    assert found["label_agreement"] == pytest.approx(
        np.mean([found["label_agreement first"], found["label_agreement second"]])
    )
    assert 0 < found["mixing"] <= 1
    assert found["z"] == model.significance_.z
    rng = np.random.RandomState(0)
    adata.obs["noise"] = rng.permutation(adata.obs["digit"].astype(str))
    assert scverse.score(adata, model, "noise")["label_agreement"] < 0.3
    adata.obs["noise"] = np.where(adata.obs["batch"] == "first", "u", "v")
    with pytest.raises(ValueError, match="no two datasets have a label in common"):
        scverse.score(adata, model, "noise")
    small = scverse.score(adata, model, "digit", max_rows=50)
    assert small["label_agreement"] != found["label_agreement"]
    with pytest.raises(ValueError, match=r"holds 1 dataset\(s\) of the model"):
        scverse.score(adata[adata.obs["batch"] == "first"].copy(), model)


# --- variables ----------------------------------------------------------------------------------------------


def test_corrected_layer(batches):
    adata, model = batches
    found = scverse.correct(adata, model, reference="first")
    first = (adata.obs["batch"] == "first").to_numpy()
    layer = adata.layers["harmonic_corrected"]
    np.testing.assert_array_equal(layer[first], adata.X[first])
    wanted = model.correct(reference="first").values
    np.testing.assert_allclose(layer[~first], wanted["second"])
    assert list(found) == ["first", "second"]
    assert found["second"].reference == "first"
    np.testing.assert_array_equal(found["second"].values, layer[~first])
    assert not np.allclose(layer[~first], adata.X[~first])


def test_corrected_layer_of_sparse_data_with_other_variables(pair):
    (a, b), model = pair
    a.X, b.X = sp.csr_matrix(a.X), sp.csr_matrix(b.X)
    before = b.X.copy()
    scverse.correct([a, b], model)  # the largest is the reference
    assert (a.layers["harmonic_corrected"] != a.X).nnz == 0
    layer = b.layers["harmonic_corrected"]
    assert sp.issparse(layer)
    assert layer.shape == b.shape
    np.testing.assert_array_equal(layer[:, 64:].toarray(), before[:, 64:].toarray())
    wanted = correct_signals(
        [a.X, sp.csr_matrix(before[:, :64])],
        model.fitted_.joint_coordinates(),
        0,
        confidence=model.fitted_.support(),
        random_state=model.fitted_.seed,
    ).values
    np.testing.assert_allclose(layer[:, :64].toarray(), wanted[1].toarray())
    assert (before != b.X).nnz == 0


def test_all_variables_are_corrected_not_only_signals(digits):
    x, y, lx, ly = digits
    a, b = made(x, lx, "a"), made(y + 0.5, ly, "b")
    model = scverse.align([a, b], n_vars=30)
    scverse.correct([a, b], model, reference=0)
    gap = [np.abs(m.mean(axis=0) - x.mean(axis=0)) for m in (b.X, b.layers["harmonic_corrected"])]
    unused = b.var["harmonic_weight"].isna().to_numpy()
    assert unused.sum() == 34
    assert gap[1][unused].mean() < 0.4 * gap[0][unused].mean()


def test_denoised_variables(pair):
    data, model = pair
    b = data[1]
    found = scverse.denoise(data, model, ["own0", "pixel20"], t=2)
    assert {key: smooth.t for key, smooth in found.items()} == {0: 2, 1: 2}
    np.testing.assert_array_equal(found[1].values, b.obsm["harmonic_denoised"])
    assert list(data[0].obsm["harmonic_denoised"]) == ["pixel20"]
    assert list(b.obsm["harmonic_denoised"]) == ["own0", "pixel20"]
    stacked = np.concatenate([d[:, "pixel20"].X for d in data])
    wanted = model.denoise(stacked, t=2).values[N_X:, 0]
    np.testing.assert_allclose(b.obsm["harmonic_denoised"]["pixel20"], wanted, rtol=1e-5, atol=1e-6)
    own = model.denoise(np.asarray(b[:, "own0"].X), dataset=1, t=2).values[:, 0]
    np.testing.assert_allclose(b.obsm["harmonic_denoised"]["own0"], own, rtol=1e-5, atol=1e-6)
    scverse.denoise(data, model, key_added="smooth")
    assert b.layers["smooth"].shape == b.shape
    spread = [m[:, 20:40].std(axis=0).mean() for m in (b.X, b.layers["smooth"])]
    assert spread[1] < spread[0]
    with pytest.raises(KeyError, match="did you mean 'pixel2'"):
        scverse.denoise(data, model, ["pixl2"])


def test_imputed_variables(pair):
    (a, b), model = pair
    found = scverse.impute([a, b], model, source=1)
    frame = a.obsm["harmonic_imputed"]
    assert list(frame) == ["own0", "own1", "own2"]
    assert np.corrcoef(frame["own0"], a.obs["number"])[0, 1] > 0.7
    np.testing.assert_allclose(frame["own2"], 1, rtol=1e-5)
    quality = a.uns["harmonic_imputed"]["quality"]
    np.testing.assert_array_equal(quality["correlation"], found[0].correlation)
    with pytest.raises(ValueError, match="has all variables of '0'; name those to predict"):
        scverse.impute([a, b], model, source=0)
    with pytest.raises(ValueError, match="other than the source"):
        scverse.impute([a, b], model, source=0, target=0)
    with pytest.raises(ValueError, match="var_names of dataset '1' has no 'own9'"):
        scverse.impute([a, b], model, source=1, variables=["own9"])


def test_imputed_variables_of_batches(batches):
    adata, model = batches
    scverse.impute(adata, model, source="first", variables=["pixel20", "pixel21"])
    second = (adata.obs["batch"] == "second").to_numpy()
    frame = adata.obsm["harmonic_imputed"]
    assert frame[~second].isna().all(axis=None)
    assert frame[second].notna().all(axis=None)


# --- new data -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def query(digits):
    """More digits, measured a little differently, without labels that anybody uses."""
    other = load_digits_pair(preserved=0.8, n_x=N_X, n_y=N_Y, random_state=7)
    taken = {tuple(row) for row in digits[0]}
    new = np.array([tuple(row / 16) not in taken for row in other.x])
    return made((other.x / 16 * 1.2 + 0.1)[new], other.labels_x[new], "q")


def test_query_is_mapped_as_a_dataset_of_its_own(batches, query):
    adata, model = batches
    adata.obsm["X_umap"] = adata.obsm["X_harmonic"][:, :2] * 3
    mapped, grown = scverse.map_query(
        query, model, reference=adata, obs=["digit", "number"], obsm="X_umap", copy=True
    )
    assert not query.obsm
    assert model.keys_ == ["first", "second"]
    assert grown.keys_ == ["first", "second", "query"]
    np.testing.assert_array_equal(grown.embedding_[0], model.embedding_[0])
    np.testing.assert_array_equal(mapped.obsm["X_harmonic"], grown.embedding_[2])
    assert (mapped.obs["digit_pred"].astype(str) == mapped.obs["digit"].astype(str)).mean() > 0.8
    assert mapped.obs["digit_conf"].between(0, 1).all()
    assert np.corrcoef(mapped.obs["number_pred"], mapped.obs["number"])[0, 1] > 0.6
    assert mapped.obsm["X_umap"].shape == (query.n_obs, 2)
    assert mapped.uns["harmonic"]["significance"]["p"] < 0.01
    assert mapped.obsp["harmonic_connectivities"].shape == (query.n_obs, query.n_obs)
    # Reference and query together, in one call and in one AnnData.
    assert scverse.score([adata, mapped], grown, "digit")["label_agreement query"] > 0.8
    joined = scverse.concat([adata, mapped], grown)
    assert joined.obs["dataset"].nunique() == 3
    assert joined.n_obs == adata.n_obs + query.n_obs


def test_a_saved_model_maps_queries_that_lack_variables(batches, query, tmp_path, caplog):
    _, model = batches
    loaded = harmonicalign.load(model.save(tmp_path / "model.npz"))
    part = query[:, np.arange(64) % 8 != 3][:, ::-1].copy()
    part.X = sp.csr_matrix(part.X)
    with caplog.at_level(logging.INFO, "harmonicalign"):
        grown = scverse.map_query(part, loaded, key="new")
    assert "lacks 8 of 64 variables that the model compares: pixel3, pixel11" in caplog.text
    known = batches[0].obs["batch"] == "first"
    agreement = knn_label_agreement(
        grown.embedding_[0],
        np.asarray(batches[0].obs["digit"][known].astype(str)),
        part.obsm["X_harmonic"],
        np.asarray(part.obs["digit"].astype(str)),
    )
    assert agreement > 0.75


def test_more_rows_of_a_known_dataset(batches, digits):
    adata, model = batches
    first = adata[adata.obs["batch"] == "first"].copy()
    rows = made(
        np.vstack([first.X[:5], first.X[5:10] + 0.01]), first.obs["number"].to_numpy()[:10].astype(int), "r"
    )
    same = scverse.map_query(rows, model, reference=adata, dataset="first", obs="digit")
    assert same is model
    np.testing.assert_array_equal(rows.obsm["X_harmonic"][:5], model.embedding_[0][:5])
    np.testing.assert_allclose(rows.obsm["X_harmonic"], model.transform(rows.X, dataset="first"))
    assert (
        rows.obs["digit_pred"].astype(str) == first.obs["digit"].astype(str)[:10].to_numpy()
    ).mean() >= 0.9


def test_query_of_a_reference_with_a_reduction(digits, query):
    x, y, lx, ly = digits
    a, b = made(x, lx, "a"), made(y, ly, "b")
    for adata in (a, b):
        adata.obsm["rep"] = adata.X[:, 10:50]
    model = scverse.align([a, b], use_rep="rep")
    mapped, grown = scverse.map_query(query, model, reference=[a, b], copy=True)  # has no rep of its own
    assert scverse.score([a, b, mapped], grown, "digit")["label_agreement query"] > 0.8
    with pytest.raises(ValueError, match="obsm of dataset 0 has no 'rep'"):
        scverse.map_query(query.copy(), model, reference=[a, b], dataset=0)


def test_queries_that_cannot_be_mapped(batches, query):
    adata, model = batches
    other = query.copy()
    other.var_names = [f"z{i}" for i in range(64)]
    with pytest.raises(ValueError, match="the query has none of the 64 variables"):
        scverse.map_query(other, model)
    assert not other.obsm
    with pytest.raises(ValueError, match=r"pass reference=…"):
        scverse.map_query(query, model, obs="digit")
    with pytest.raises(ValueError, match="expected an AnnData"):
        scverse.map_query([query], model)
    plain = harmonicalign.HarmonicAlignment(random_state=0).fit([adata.X[:50], adata.X[50:]])
    with pytest.raises(ValueError, match="has no names"):
        scverse.map_query(query, plain)


# --- real data ----------------------------------------------------------------------------------------------


def stored(path):
    """Arrays and CSR matrices of an npz file."""
    if not path.is_file():
        pytest.skip(f"no {path}")
    with np.load(path, allow_pickle=False) as z:
        out = {name: z[name] for name in z.files}
    for name in [n.removesuffix("_indptr") for n in out if n.endswith("_indptr")]:
        data, indices, indptr, shape = (
            out.pop(f"{name}_{p}") for p in ("data", "indices", "indptr", "shape")
        )
        out[name] = sp.csr_matrix((data, indices, indptr), shape=tuple(shape))
    return out


@pytest.mark.data
def test_blood_by_two_chemistries(data_dir):
    z = stored(data_dir / "pbmc_symphony_3tech" / "pbmc_symphony.npz")
    obs = pd.DataFrame({"donor": z["donor"], "type": z["cell_type"]}, index=z["cells"].astype(str))
    adata = anndata.AnnData(z["X"], obs=obs, var=pd.DataFrame(index=z["genes"].astype(str)))
    adata = adata[adata.obs["donor"].isin(["3pv1", "5p"])].copy()
    model = scverse.align(adata, batch_key="donor")
    found = scverse.score(adata, model, "type")
    assert found["label_agreement"] > 0.9
    assert found["mixing_within_labels"] > 0.75
    scverse.transfer_labels(adata, model, "type", source="5p")
    named = adata.obs["donor"] == "3pv1"
    right = (adata.obs["type_pred"].astype(str) == adata.obs["type"])[named]
    assert right.mean() > 0.88
    sure = adata.obs["type_conf"][named] > 0.9
    assert right[sure].mean() > 0.9


@pytest.mark.data
def test_rna_and_protein_of_the_same_cells(data_dir, caplog):
    z = stored(data_dir / "citeseq_citefuse" / "citeseq_citefuse.npz")
    obs = pd.DataFrame(index=z["cells"].astype(str))
    rna = anndata.AnnData(z["rna"], obs=obs, var=pd.DataFrame(index=z["genes"].astype(str)))
    rna.var_names = rna.var_names.str.removeprefix("hg19_")
    rna.var_names_make_unique()
    protein = anndata.AnnData(z["adt"], obs=obs.copy(), var=pd.DataFrame(index=z["proteins"].astype(str)))
    links = {
        "CD8": ["CD8A", "CD8B"],
        "CD3": ["CD3E", "CD3D"],
        "CD16": "FCGR3A",
        "CD11c": "ITGAX",
        "CD62L": "SELL",
    }
    links |= {
        "CD11b": "ITGAM",
        "CD56": "NCAM1",
        "CD45": "PTPRC",
        "IL7Ralpha (CD127)": "IL7R",
        "TCRg": "TRGC1",
    }
    links |= {"MHCII (HLA-DR)": "HLA-DRA", "HLA-A,B,C": ["HLA-A", "HLA-B"], "CD26 (Adenosine)": "DPP4"}
    links |= {
        name: name for name in ("CD4", "CD19", "CD14", "CD2", "CD5", "CD7", "CD27", "CD28", "CD44", "CD69")
    }
    data = {"rna": rna, "protein": protein}
    with warnings.catch_warnings():  # few genes say less about proteins than other proteins do: no doubt yet
        warnings.simplefilter("error", harmonicalign.AlignmentWarning)
        model = scverse.align(data, links=links, normalize=True)
    assert [record.args[0] for record in caplog.records] == [500]  # row names in common, which are mentioned
    assert model.significance_.p < 0.01
    found = scverse.score(data, model)
    assert found["foscttm"] < 0.2
    scverse.impute(data, model, source="protein", target="rna", variables=["CD8", "CD4"])
    truth = np.log1p(z["adt"] / z["adt"].sum(axis=1, keepdims=True) * 1e4)
    for name in ("CD8", "CD4"):
        measured = truth[:, list(protein.var_names).index(name)]
        assert np.corrcoef(rna.obsm["harmonic_imputed"][name], measured)[0, 1] > 0.6
