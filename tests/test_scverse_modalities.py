"""Datasets of different modalities: proteins and their genes, links by name, cells measured in both."""

import logging
import os
from pathlib import Path

import anndata as ad
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from harmonicalign import scverse
from harmonicalign.adapters.scverse._links import link_matrix
from harmonicalign.adapters.scverse._proteins import GENES_OF_ANTIGEN, genes_of
from harmonicalign.metrics import foscttm

DATA = Path(os.environ.get("HARMONICALIGN_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.mark.parametrize(
    ("name", "genes"),
    [
        ("CD3", {"CD3E", "CD3D", "CD3G"}),
        ("CD8a", {"CD8A"}),
        ("anti-human CD8a", {"CD8A"}),
        ("ADT_CD19", {"CD19"}),
        ("CD45RA-TotalSeqB", {"PTPRC"}),
        ("CD56_TotalSeqC", {"NCAM1"}),
        ("CD279 (PD-1)", {"PDCD1"}),
        ("IL7Ralpha (CD127)", {"IL7R"}),
        ("HLA-DR", {"HLA-DRA", "HLA-DRB1"}),
        ("TCRα/β", {"TRAC"}),
        ("CD4-TCATGACTAGCCAT", {"CD4"}),
        ("IgG1", set()),
        ("CD77", set()),
    ],
)
def test_names_of_antibodies(name, genes):
    assert {gene for gene, _ in genes_of(name)} == genes


def test_the_table_is_well_formed():
    assert len(GENES_OF_ANTIGEN) > 200
    for antigen, genes in GENES_OF_ANTIGEN.items():
        assert antigen == antigen.upper()
        assert genes, antigen
        assert len({gene for gene, _ in genes}) == len(genes)


def test_links_are_in_the_names_of_the_data():
    rna = ad.AnnData(np.zeros((3, 5)), var={"symbol": ["Cd3e", "Cd3d", "Ptprc", "Cd19", "Actb"]})
    rna.var_names = [f"ENS{i}" for i in range(5)]
    adt = ad.AnnData(np.zeros((4, 4)))
    adt.var_names = ["CD3", "CD45RO", "CD19", "IgG2a"]
    links = scverse.protein_links(rna, adt, symbols="symbol")
    assert list(links.itertuples(index=False, name=None)) == [
        ("ENS0", "CD3", 1.0),
        ("ENS1", "CD3", 1.0),
        ("ENS2", "CD45RO", 0.5),
        ("ENS3", "CD19", 1.0),
    ]
    with pytest.raises(ValueError, match="no protein has a known gene"):
        scverse.protein_links(rna, adt)
    with pytest.raises(ValueError, match="symbols names a column"):
        scverse.protein_links(["CD19"], adt, symbols="symbol")
    with pytest.raises(scverse.UnknownNameError, match="did you mean 'symbol'"):
        scverse.protein_links(rna, adt, symbols="symbols")


@pytest.mark.data
def test_the_proteins_of_a_real_panel():
    file = DATA / "citeseq_citefuse" / "citeseq_citefuse.npz"
    if not file.is_file():
        pytest.skip(f"no data at {file}")
    from harmonicalign.experiments._data import read_npz

    stored = read_npz(file)
    proteins = [str(p) for p in stored["proteins"]]
    links = scverse.protein_links([str(g) for g in stored["genes"]], proteins)
    unlinked = set(proteins) - set(links["protein"])
    # Isotype controls, a glycolipid, and antigens whose genes this selection of genes lacks.
    assert {"IgG1", "IgG2a", "CD77"} <= unlinked
    assert len(unlinked) < 12
    seen = np.asarray((stored["rna"] > 0).mean(axis=0)).ravel()
    genes = {str(g): i for i, g in enumerate(stored["genes"])}
    log = np.log1p(stored["adt"].astype(float))
    log -= log.mean(axis=1, keepdims=True)
    rna = np.log1p(stored["rna"].toarray() / stored["rna"].sum(axis=1).A1[:, None] * 1e4)
    found = [
        np.corrcoef(rna[:, genes[gene]], log[:, proteins.index(protein)])[0, 1]
        for gene, protein in zip(links["gene"], links["protein"], strict=True)
        if seen[genes[gene]] > 0.1
    ]
    assert len(found) > 20
    assert np.median(found) > 0.15


def test_clr():
    counts = np.array([[0, 3, 7], [1, 1, 1]])
    expected = np.log1p(counts) - np.log1p(counts).mean(axis=1, keepdims=True)
    for matrix in (counts, sp.csr_matrix(counts)):
        adata = ad.AnnData(matrix.astype(np.float32))
        assert scverse.clr(adata, key_added="clr") is None
        np.testing.assert_allclose(adata.layers["clr"], expected, rtol=1e-6)
        changed = scverse.clr(adata, copy=True)
        np.testing.assert_allclose(changed.X, expected, rtol=1e-6)
        assert adata.X.sum() == 13
    with pytest.raises(ValueError, match="clr expects counts"):
        scverse.clr(changed)
    with pytest.raises(scverse.UnknownNameError, match="layers has no 'raw'"):
        scverse.clr(adata, layer="raw")


# --- links --------------------------------------------------------------------------------------------------

FIRST, SECOND = ["g0", "g1", "g2"], ["p0", "p1"]
MANY = [("g0", "p0", 1.0), ("g1", "p0", 0.5), ("g1", "p1", 2.0)]


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("separator", [",", "\t"])
def test_links_from_a_text_file(tmp_path, header, separator):
    file = tmp_path / "links.txt"
    table = pd.DataFrame(MANY, columns=["gene", "protein", "weight"])
    table.to_csv(file, sep=separator, header=header, index=False)
    for path in (file, str(file)):
        np.testing.assert_array_equal(link_matrix(path, FIRST, SECOND).toarray(), [[1, 0], [0.5, 2], [0, 0]])


def test_links_without_weights_from_a_text_file(tmp_path):
    file = tmp_path / "links.csv"
    file.write_text("gene,protein\ng2,p1\n")
    np.testing.assert_array_equal(link_matrix(file, FIRST, SECOND).toarray(), [[0, 0], [0, 0], [0, 1]])


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([*MANY, ("g0", "p0", 3.0)], "g0 – p0 is given more than once"),
        ([("g0", "p0", -1.0)], "g0 – p0 has the weight -1; .* not negative"),
        ([("g0", "p0", np.nan)], "has the weight nan"),
        ([("x", "p0")], "none of its 1 pairs names a variable of both"),
        ({"g0": ["p0", "p0"]}, "more than once"),
    ],
)
def test_links_that_are_refused(links, message):
    with pytest.raises(ValueError, match=message):
        link_matrix(links, FIRST, SECOND)


def test_files_that_hold_no_links(tmp_path):
    with pytest.raises(ValueError, match="cannot be read as a table"):
        link_matrix(tmp_path / "none.csv", FIRST, SECOND)
    (tmp_path / "wide.csv").write_text("a,b,c,d\n1,2,3,4\n")
    with pytest.raises(ValueError, match="has 4 columns; expected 2 or 3"):
        link_matrix(tmp_path / "wide.csv", FIRST, SECOND)


# --- cells measured in both ---------------------------------------------------------------------------------


def two_modalities(names):
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(80, 3))
    pair = []
    for i, width in enumerate((12, 9)):
        data = ad.AnnData(cells @ rng.normal(size=(3, width)) + 0.1 * rng.normal(size=(80, width)))
        data.var_names = [f"v{i}_{j}" for j in range(width)]
        data.obs_names = names
        pair.append(data[::-1].copy() if i else data)
    return pair


def test_cells_of_the_same_name_are_mentioned(caplog):
    links = [(f"v0_{j}", f"v1_{j}") for j in range(9)]
    with caplog.at_level(logging.WARNING, logger="harmonicalign"):
        scverse.align(two_modalities([f"cell{i}" for i in range(80)]), links=links, method="paper")
    assert "80 rows have the same names in 0 and 1" in caplog.text
    assert "anchors='obs_names'" in caplog.text
    assert "MOFA+" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="harmonicalign"):
        scverse.align(two_modalities([str(i) for i in range(80)]), links=links, method="paper")
    assert "same names" not in caplog.text


def test_known_pairs_serve_where_no_variable_is_shared():
    x, y = two_modalities([f"cell{i}" for i in range(80)])
    with pytest.raises(ValueError, match="no variable name is shared"):
        scverse.align([x, y])
    model = scverse.align([x, y], anchors="obs_names")
    order = [list(y.obs_names).index(name) for name in x.obs_names]
    assert foscttm(x.obsm["X_harmonic"], y.obsm["X_harmonic"][order]) < 0.1
    assert model.fitted_.learned is not None
    assert list(x.uns["harmonic"]["signals"]["name"][:2]) == ["learned0", "learned1"]
