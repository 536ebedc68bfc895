"""`harmonic_integrate`: the call that users of scanpy know; several batch keys."""

import numpy as np
import pytest

from harmonicalign import scverse
from harmonicalign.datasets import load_digits_pair

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


def test_combinations_with_too_few_rows_are_named(cells):
    cells.obs["plate"] = np.where(np.arange(230) == 0, "odd", "usual")
    with pytest.raises(ValueError, match=r"obs\['day'\] and obs\['plate'\] needs at least 3 rows"):
        scverse.align(cells, batch_key=["day", "plate"])
    with pytest.raises(ValueError, match="batch_key is missing"):
        scverse.align(cells, batch_key=[])
