"""`harmonic_integrate`: the call that users of scanpy know; several batch keys; covariates to keep."""

import numpy as np
import pytest

from harmonicalign import scverse
from harmonicalign.adapters.scverse._data import levels_by_dataset, split
from harmonicalign.datasets import load_digits_pair
from harmonicalign.metrics import mixing_entropy

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")


@pytest.fixture
def cells():
    """Two halves of the digits as two days; a reduction; a column that halves each day."""
    pair = load_digits_pair(preserved=0.7, n_x=120, n_y=110, random_state=0)
    x = np.vstack([pair.x, pair.y]) / 16
    rng = np.random.default_rng(0)
    obs = pd.DataFrame(
        {
            "digit": np.concatenate([pair.labels_x, pair.labels_y]).astype(str),
            "day": np.repeat(["first", "second"], [120, 110]),
            "plate": rng.choice([1, 2], 230),
        },
        index=[f"cell{i}" for i in range(230)],
    )
    adata = anndata.AnnData(x, obs=obs.sample(frac=1, random_state=0))
    adata.var_names = [f"pixel{i}" for i in range(64)]
    adata.obsm["X_pca"] = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[0][:, :20]
    return adata


def test_it_is_align_by_another_name(cells):
    plain = cells.copy()
    assert scverse.harmonic_integrate(cells, "day") is None
    model = scverse.align(plain, batch_key="day", use_rep="X_pca")
    np.testing.assert_array_equal(cells.obsm["X_harmonic"], plain.obsm["X_harmonic"])
    np.testing.assert_array_equal(cells.var["harmonic_weight"], model.feature_weights_)
    assert cells.uns["harmonic"]["connectivities_key"] == "harmonic_connectivities"


def test_conventions_of_names_and_copies(cells):
    done = scverse.harmonic_integrate(cells, "day", adjusted_basis="X_days", basis=None, copy=True)
    assert "X_days" in done.obsm
    assert "days_connectivities" in done.obsp
    assert "X_days" not in cells.obsm
    with pytest.raises(ValueError, match=r"obsm has no 'X_umap' \(it has X_pca\); run scanpy.pp.pca"):
        scverse.harmonic_integrate(cells, "day", basis="X_umap")
    with pytest.raises(ValueError, match="must begin with 'X_'"):
        scverse.harmonic_integrate(cells, "day", adjusted_basis="harmonic")
    with pytest.raises(ValueError, match="expected one AnnData"):
        scverse.harmonic_integrate([cells], "day")


def test_several_batch_keys(cells):
    scverse.harmonic_integrate(cells, ["day", "plate"])
    expected = cells.obs["day"] + " | " + cells.obs["plate"].astype(str)
    assert (cells.obs["harmonic_batch"].astype(str) == expected).all()
    one = cells.copy()
    one.obs["both"] = expected
    model = scverse.align(one, batch_key="both", use_rep="X_pca")
    np.testing.assert_array_equal(cells.obsm["X_harmonic"], one.obsm["X_harmonic"])
    # What is built on the annotation finds the batches again.
    assert scverse.score(cells, model, "digit") == scverse.score(one, model, "digit")
    again = scverse.align(cells, batch_key=["day"], use_rep="X_pca")
    assert again.keys_ == ["first", "second"]
    assert "harmonic_batch" not in cells.obs  # what an earlier call by several keys wrote is gone


def test_combinations_with_too_few_rows_are_named(cells):
    cells.obs["plate"] = np.where(np.arange(230) == 0, "odd", "usual")
    with pytest.raises(ValueError, match=r"obs\['day'\] and obs\['plate'\] needs at least 3 rows"):
        scverse.align(cells, batch_key=["day", "plate"])
    with pytest.raises(ValueError, match="batch_key is missing"):
        scverse.align(cells, batch_key=[])


# --- covariates ---------------------------------------------------------------------------------------------


def treated(n=400, n_genes=200):
    """Two batches of five cell types; 90 % of the one are treated and 10 % of the other."""
    rng = np.random.default_rng(0)
    types = 1.5 * rng.normal(size=(5, n_genes)) * (rng.random((5, n_genes)) < 0.3)
    treatment = 1.5 * rng.normal(size=n_genes) * (rng.random(n_genes) < 0.2)
    shift = rng.normal(0, 0.7, n_genes)
    kind, on = rng.choice(5, 2 * n), rng.random(2 * n) < np.repeat([0.9, 0.1], n)
    batch = np.repeat(["a", "b"], n)
    x = types[kind] + on[:, None] * treatment + (batch == "b")[:, None] * shift
    obs = pd.DataFrame(
        {"batch": batch, "type": kind, "treated": pd.Categorical(np.where(on, "yes", "no"))},
        index=[f"c{i}" for i in range(2 * n)],
    )
    return anndata.AnnData((x + rng.normal(size=x.shape)).astype(np.float32), obs=obs)


def mixed_within(adata):
    """How well the batches mix among cells of one type and one treatment."""
    label = np.asarray(adata.obs["type"].astype(str) + adata.obs["treated"].astype(str))
    of = [np.asarray(adata.obs["batch"] == key) for key in ("a", "b")]
    return mixing_entropy(
        [adata.obsm["X_harmonic"][rows] for rows in of], 30, labels=[label[rows] for rows in of]
    )


def test_a_treatment_is_kept_where_batches_hold_different_shares_of_it():
    adata = treated()
    scverse.harmonic_integrate(adata, "batch", basis=None)
    without = mixed_within(adata)
    assert "covariates" not in adata.uns["harmonic"]["input"]
    scverse.harmonic_integrate(adata, "batch", basis=None, covariates="treated")
    assert mixed_within(adata) > without + 0.3
    assert adata.uns["harmonic"]["input"]["covariates"].tolist() == ["treated"]


def test_levels_are_combinations_and_rows_without_a_value_have_none(cells):
    cells.obs["dose"] = pd.Categorical.from_codes(np.arange(230) % 3 - 1, ["low", "high"])
    parts = split(cells, "day")
    found = levels_by_dataset(parts, ["plate", "dose"])
    for part, levels in zip(parts.parts, found, strict=True):
        obs = part.take(cells.obs)
        expected = [
            None if dose != dose else f"{plate} | {dose}"
            for plate, dose in zip(obs["plate"], obs["dose"], strict=True)
        ]
        assert levels == expected
    model = scverse.align(cells, batch_key="day", covariates=["plate", "dose"])
    assert len(model.model_.landmarks[0]) < len(model.embedding_[0])


def test_datasets_of_their_own_take_covariates_too(cells):
    days = {day: cells[cells.obs["day"] == day].copy() for day in ("first", "second")}
    one = scverse.align(days, covariates="plate")
    other = scverse.align(cells, batch_key="day", covariates="plate")
    np.testing.assert_array_equal(one.model_.landmarks[0], other.model_.landmarks[0])


def test_covariates_that_cannot_be_told_from_batches_are_refused(cells):
    with pytest.raises(ValueError, match="no level occurs in all datasets"):
        scverse.harmonic_integrate(cells, "day", covariates="day")
    with pytest.raises(ValueError, match="drop one of them"):
        scverse.align(cells, batch_key="day", covariates="plate", anchors=np.zeros((1, 2), dtype=int))
    with pytest.raises(ValueError, match="has no 'plat'; did you mean 'plate'"):
        scverse.align(cells, batch_key="day", covariates="plat")
    assert "X_harmonic" not in cells.obsm
