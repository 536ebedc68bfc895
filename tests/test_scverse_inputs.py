"""AnnData as people have them: what of it is used, what is refused, and in which words."""

import logging
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign import HarmonicAlignment, scverse
from harmonicalign.datasets import load_digits_pair

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")

NAMES = [f"pixel{i}" for i in range(64)]
FAST = {"method": "paper", "n_harmonics": 10}


@pytest.fixture(scope="module")
def digits():
    pair = load_digits_pair(preserved=0.8, n_x=70, n_y=60, random_state=0)
    return pair.x / 16, pair.y / 16, pair.labels_x, pair.labels_y


def made(matrix, labels=None, letter="r", names=NAMES):
    data = anndata.AnnData(matrix, var=pd.DataFrame(index=names))
    data.obs_names = [f"{letter}{i}" for i in range(data.n_obs)]
    if labels is not None:
        data.obs["digit"] = pd.Categorical(labels.astype(str))
    return data


@pytest.fixture
def pair(digits):
    return {"a": made(digits[0], digits[2], "a"), "b": made(digits[1], digits[3], "b")}


@pytest.fixture(scope="module")
def fitted(digits):
    data = {"a": made(digits[0], digits[2], "a"), "b": made(digits[1], digits[3], "b")}
    return data, scverse.align(data)


@pytest.fixture
def aligned(fitted):
    return {key: part.copy() for key, part in fitted[0].items()}, fitted[1]


# --- align ------------------------------------------------------------------------------------------------


def test_the_device_reaches_the_estimator(pair):
    pytest.importorskip("torch")
    model = scverse.align(pair, device="torch")
    assert model.device == "torch"
    with pytest.raises(ValueError, match="device is 'abacus'; expected"):
        scverse.align(pair, device="abacus")


def test_batches_named_by_numbers_and_words(digits):
    adata = made(np.vstack(digits[:2]))
    adata.obs["batch"] = pd.Series([1] * 70 + ["second"] * 60, index=adata.obs_names, dtype=object)
    model = scverse.align(adata, batch_key="batch", **FAST)
    assert model.keys_ == ["1", "second"]
    np.testing.assert_array_equal(adata.obsm["X_harmonic"][:70], model.embedding_[0])


def test_batches_that_fill_whole_blocks(digits, monkeypatch):
    """A block of rows may hold none of a batch."""
    adata = made(np.vstack(digits[:2]))
    adata.obs["batch"] = ["first"] * 70 + ["second"] * 60
    whole = scverse.align(adata.copy(), batch_key="batch", n_vars=40, **FAST)
    monkeypatch.setattr("harmonicalign.adapters.scverse._matrix._BLOCK_BYTES", 5000)
    blocks = scverse.align(adata, batch_key="batch", n_vars=40, **FAST)
    for one, two in zip(whole.embedding_, blocks.embedding_, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_switch_is_on_or_off(pair):
    with pytest.raises(
        ValueError, match=r"normalize is \{'a': 'yes'\}; expected True, False or names of data"
    ):
        scverse.align(pair, normalize={"a": "yes"})


def test_data_without_a_matrix(pair, digits):
    empty = {key: anndata.AnnData(obs=part.obs, var=part.var) for key, part in pair.items()}
    with pytest.raises(ValueError, match=r"X of dataset 'a' is empty \(None\); name a layer, or use_rep"):
        scverse.align(empty)
    for (key, part), values in zip(empty.items(), digits[:2], strict=True):
        part.layers["ink"] = values
        np.testing.assert_array_equal(pair[key].X, values)
    found, expected = scverse.align(empty, layer="ink", **FAST), scverse.align(pair, **FAST)
    np.testing.assert_array_equal(found.embedding_[1], expected.embedding_[1])


def test_names_that_stand_in_another_column(pair):
    pair["b"].var["kind"] = "pixel"
    pair["b"].var["symbol"] = NAMES
    pair["b"].var_names = [f"ENSG{i}" for i in range(64)]
    with pytest.raises(
        ValueError, match=r"64 names agree with var\['symbol'\] of dataset 'b': set its var_na"
    ):
        scverse.align(pair)


def test_signals_say_what_corresponds(pair, digits):
    for part, values in zip(pair.values(), digits[:2], strict=True):
        part.obsm["scores"] = values
    with pytest.raises(ValueError, match="signals names what corresponds; drop links, peaks and genes"):
        scverse.align(pair, signals="scores", links=np.eye(64))
    pair["b"].obsm["scores"] = digits[1][:, :9]
    with pytest.raises(ValueError, match=r"obsm\['scores'\] has 9 and 64 columns; signals must correspond"):
        scverse.align(pair, signals="scores")
    for letter, part in pair.items():
        part.obsm["scores"] = pd.DataFrame(part.obsm["scores"], index=part.obs_names).add_prefix(letter)
    with pytest.raises(ValueError, match=r"obsm\['scores'\]: no column name is shared by all datasets"):
        scverse.align(pair, signals="scores")


def test_reductions_that_are_dask_arrays(pair, digits):
    array = pytest.importorskip("dask.array")
    for part, values in zip(pair.values(), digits[:2], strict=True):
        part.obsm["rep"] = array.from_array(values[:, :30], chunks=(20, 30))
    model = scverse.align(pair, use_rep="rep", **FAST)
    plain = HarmonicAlignment(random_state=0, **FAST)
    plain.fit([d[:, :30] for d in digits[:2]], signals=list(digits[:2]))
    np.testing.assert_array_equal(model.embedding_[0], plain.embedding_[0])


def test_flags_of_no_use_are_ignored(pair):
    expected = scverse.align({key: part.copy() for key, part in pair.items()}, **FAST)
    for part in pair.values():
        part.var["highly_variable"] = np.arange(64) == 5
    found = scverse.align(pair, **FAST)
    np.testing.assert_array_equal(found.embedding_[0], expected.embedding_[0])


def test_rows_in_two_modalities_have_two_places(digits):
    mudata = pytest.importorskip("mudata")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = mudata.MuData({"x": made(digits[0][:60]), "y": made(digits[1])})
        model = scverse.align(both, **FAST)
    for number, key in enumerate(("x", "y")):
        np.testing.assert_array_equal(both[key].obsm["X_harmonic"], model.embedding_[number])
    assert "X_harmonic" not in both.obsm  # which of the two places would it be?
    assert list(both.uns["harmonic"]["datasets"]) == ["x", "y"]


# --- what an alignment is for -----------------------------------------------------------------------------


def test_data_of_which_datasets_are_missing(aligned):
    data, model = aligned
    with pytest.raises(
        ValueError, match=r"data holds 1 dataset\(s\) of the model; correct needs at least two"
    ):
        scverse.correct([data["a"]], model)
    with pytest.raises(ValueError, match="source names dataset 'b', of which data holds no rows; pass all"):
        scverse.transfer_labels([data["a"]], model, "digit", source="b")


def test_data_of_another_model(aligned):
    data, model = aligned
    data["a"].uns["harmonic"]["input"]["dataset"] = "c"
    with pytest.raises(ValueError, match="the model has no 'c'"):
        scverse.score(data, model)


def test_datasets_without_a_label_are_left_out_of_its_scores(digits):
    data = {
        "a": made(digits[0][:35], digits[2][:35], "a"),
        "b": made(digits[0][35:], digits[2][35:], "b"),
        "c": made(digits[1], letter="c"),
    }
    data["c"].obs["digit"] = pd.Categorical([None] * 60)
    model = scverse.align(data)
    found = scverse.score(data, model, "digit")
    assert {name for name in found if name.startswith("label_agreement ")} == {
        "label_agreement a",
        "label_agreement b",
    }


def test_correction_of_dense_data_keeps_other_variables(digits):
    own = np.arange(60.0)[:, None] + [[0, 100]]
    data = {"a": made(digits[0]), "b": made(np.hstack([digits[1], own]), names=[*NAMES, "own0", "own1"])}
    model = scverse.align(data)
    scverse.correct(data, model, reference="a")
    np.testing.assert_array_equal(data["b"][:, ["own0", "own1"]].layers["harmonic_corrected"], own)
    np.testing.assert_allclose(
        data["b"][:, NAMES].layers["harmonic_corrected"], model.correct("a").values["b"], atol=1e-12
    )


def test_denoising_does_not_depend_on_the_order_of_variables(aligned):
    data, model = aligned
    turned = {"a": data["a"].copy(), "b": data["b"][:, ::-1].copy()}
    t = scverse.denoise(data, model)["a"].t
    assert scverse.denoise(turned, model)["a"].t == t
    for key, part in data.items():
        np.testing.assert_allclose(
            turned[key][:, NAMES].layers["harmonic_denoised"], part.layers["harmonic_denoised"], atol=1e-6
        )


def test_denoising_variables_that_only_one_dataset_has(aligned, digits):
    data, model = aligned
    data["b"] = anndata.concat(
        [data["b"], made(digits[1][:, :2] + 3, letter="b", names=["own0", "own1"])], axis=1, merge="first",
        uns_merge="first",
    )  # fmt: skip
    data["b"].obsm["X_harmonic"] = model.embedding_[1]
    t = scverse.denoise(data, model, variables=["own1"])["a"].t
    assert t >= 1
    assert list(data["b"].obsm["harmonic_denoised"].columns) == ["own1"]
    smooth = data["b"].obsm["harmonic_denoised"]["own1"]
    assert smooth.std() < (digits[1][:, 1] + 3).std() or smooth.std() == 0
    assert "harmonic_denoised" not in data["a"].obsm  # nothing was asked of it


def test_of_many_variables_the_most_variable_are_predicted(digits, monkeypatch, caplog):
    monkeypatch.setattr("harmonicalign.adapters.scverse._features.N_VARS", 10)
    extra = np.random.RandomState(0).rand(70, 30) * np.r_[np.full(20, 0.01), np.full(10, 5.0)]
    names = [f"own{i}" for i in range(30)]
    data = {
        "a": made(sp.csr_matrix(np.hstack([digits[0], extra])), names=NAMES + names),
        "b": made(digits[1]),
    }
    model = scverse.align(data)
    with caplog.at_level(logging.INFO, "harmonicalign"):
        scverse.impute(data, model, source="a", target="b")
    assert "the 10 most variable of 30 variables are predicted" in caplog.text
    assert list(data["b"].obsm["harmonic_imputed"].columns) == names[20:]
