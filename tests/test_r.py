"""R objects through h5ad and back: the script of the page on R, run by R where there is one."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign import io, scverse
from harmonicalign.datasets import load_digits_pair

anndata = pytest.importorskip("anndata")

SCRIPT = Path(__file__).parents[1] / "examples" / "r" / "h5ad.R"
N_CELLS, N_GENES = 120, 40


def run_r(code, *packages):
    """Run R code after the script; skip, saying why, where R or a package is missing."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("Rscript is not installed; the layout of the files is tested without it")
    for package in ("hdf5r", *packages):
        there = subprocess.run(
            [rscript, "-e", f'quit(status = !requireNamespace("{package}"))'], capture_output=True
        )
        if there.returncode:
            pytest.skip(f"the R package {package} is not installed")
    done = subprocess.run(
        [rscript, "-e", f"suppressPackageStartupMessages({{source('{SCRIPT}')}}); {code}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    """Counts of cells by genes in which two donors differ, in a file that R can read without packages."""
    pair = load_digits_pair(preserved=0.8, n_x=N_CELLS // 2, n_y=N_CELLS // 2, random_state=0)
    values = np.vstack([pair.x, pair.y])[:, 10 : 10 + N_GENES].clip(0).round().astype(int)
    path = tmp_path_factory.mktemp("r") / "counts.csv"
    np.savetxt(path, values, fmt="%d", delimiter=",")
    return path, values


MAKE = """
library(Matrix)
values <- t(as.matrix(read.csv('{path}', header = FALSE)))
dimnames(values) <- list(paste0('gene', 1:{genes} - 1), paste0('cell', 1:{cells} - 1))
values <- as(values, 'CsparseMatrix')
scaled <- as(log1p(values), 'CsparseMatrix')
cells <- data.frame(donor = rep(c('d1', 'd2'), each = {cells} / 2), row.names = colnames(values))
cells$kind <- factor(rep(c('B', 'T', NA), length.out = {cells}))
cells$score <- seq_len({cells}) / 2
cells$kept <- rep(c(TRUE, FALSE), length.out = {cells})
cells$plate <- rep(1:3, length.out = {cells})
set.seed(1)
pca <- matrix(rnorm({cells} * 5), ncol = 5, dimnames = list(colnames(values), paste0('PC_', 1:5)))
"""
SEURAT = """
library(SeuratObject)
object <- CreateSeuratObject(values, meta.data = cells)
object <- SetAssayData(object, slot = 'data', new.data = scaled)
VariableFeatures(object) <- rownames(values)[1:30]
object[['pca']] <- CreateDimReducObject(pca, key = 'PC_', assay = 'RNA')
"""
SCE = """
library(SingleCellExperiment)
object <- SingleCellExperiment(list(counts = values, logcounts = scaled), colData = cells,
                               reducedDims = list(PCA = pca))
"""
KINDS = {"seurat": (SEURAT, ["SeuratObject"]), "sce": (SCE, ["SingleCellExperiment"])}


def made(kind, path):
    code, packages = KINDS[kind]
    return MAKE.format(path=path, cells=N_CELLS, genes=N_GENES) + code, packages


@pytest.mark.slow
# Genes of one kind of cell are alike, and so fit in another order, too.
@pytest.mark.filterwarnings("ignore:the columns of .* fit better in reverse order")
@pytest.mark.parametrize("kind", list(KINDS))
def test_objects_go_to_h5ad_and_come_back_aligned(kind, counts, tmp_path):
    path, values = counts
    code, packages = made(kind, path)
    run_r(
        f"{code}\nwrite_h5ad(object, '{tmp_path}/cells.h5ad'); saveRDS(object, '{tmp_path}/o.rds')", *packages
    )

    adata = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert adata.shape == (N_CELLS, N_GENES)
    np.testing.assert_array_equal(adata.layers["counts"].toarray(), values)
    np.testing.assert_allclose(adata.X.toarray(), np.log1p(values))
    assert adata.obs_names[3] == "cell3"
    assert adata.var_names[7] == "gene7"
    assert adata.obs["donor"].tolist() == ["d1"] * 60 + ["d2"] * 60
    assert adata.obs["kind"].astype(object).isna().sum() == N_CELLS // 3
    assert adata.obs["kind"].cat.categories.tolist() == ["B", "T"]
    np.testing.assert_array_equal(adata.obs["score"], np.arange(1, N_CELLS + 1) / 2)
    assert adata.obs["kept"].dtype == bool
    assert adata.obs["plate"].tolist()[:4] == [1, 2, 3, 1]
    assert adata.obsm["X_pca"].shape == (N_CELLS, 5)
    if kind == "seurat":
        assert adata.var["highly_variable"].sum() == 30
    assert io.read(tmp_path / "cells.h5ad").shape == adata.shape

    scverse.harmonic_integrate(adata, "donor", basis="X_pca")
    adata.obs["note"] = np.where(np.arange(N_CELLS) % 2, "odd", "even")
    turned = adata[np.random.RandomState(0).permutation(N_CELLS)].copy()
    turned.write_h5ad(tmp_path / "aligned.h5ad")
    load = "; ".join(f"library({package})" for package in packages)
    back = f"{load}; object <- read_alignment(readRDS('{tmp_path}/o.rds'), '{tmp_path}/aligned.h5ad')"
    got = {
        "seurat": "z <- Embeddings(object[['harmonic']]); m <- object[[]]; "
        f"Matrix::writeMM(as(object[['harmonic_connectivities']], 'CsparseMatrix'), '{tmp_path}/graph.mtx')",
        "sce": "z <- reducedDim(object, 'harmonic'); m <- as.data.frame(colData(object))",
    }[kind]
    table = f"write.csv(cbind(z, m[, c('harmonic_confidence', 'note')]), '{tmp_path}/back.csv')"
    run_r(f"{back}\n{got}\n{table}", *packages)

    pd = pytest.importorskip("pandas")
    found = pd.read_csv(tmp_path / "back.csv", index_col=0)
    assert found.index.tolist() == adata.obs_names.tolist()
    width = adata.obsm["X_harmonic"].shape[1]
    np.testing.assert_allclose(found.iloc[:, :width], adata.obsm["X_harmonic"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["harmonic_confidence"], adata.obs["harmonic_confidence"], rtol=1e-5)
    assert found["note"].tolist() == adata.obs["note"].tolist()
    if kind == "seurat":
        from scipy.io import mmread

        graph = sp.csr_matrix(mmread(tmp_path / "graph.mtx"))
        np.testing.assert_allclose(
            graph.toarray(), adata.obsp["harmonic_connectivities"].toarray(), rtol=1e-5, atol=1e-7
        )


@pytest.mark.slow
def test_cells_that_the_file_lacks_are_named(counts, tmp_path):
    code, packages = made("sce", counts[0])
    few = anndata.AnnData(np.zeros((2, 2)))
    few.obs_names = ["cell0", "other"]
    few.write_h5ad(tmp_path / "few.h5ad")
    asked = f"said <- try(read_alignment(object, '{tmp_path}/few.h5ad'), silent = TRUE); cat(said)"
    assert "119 of 120 cells are not in" in run_r(f"{code}\n{asked}", *packages)


def test_the_files_that_the_script_reads_have_the_layout_it_expects(tmp_path):
    """What `read_alignment` looks up, in a file that was written here; this needs no R."""
    h5py = pytest.importorskip("h5py")
    pair = load_digits_pair(preserved=0.8, n_x=60, n_y=60, random_state=0)
    adata = anndata.AnnData(np.vstack([pair.x, pair.y]) / 16)
    adata.obs["donor"] = np.repeat(["d1", "d2"], 60)
    scverse.harmonic_integrate(adata, "donor", basis=None)
    adata.write_h5ad(tmp_path / "aligned.h5ad")
    with h5py.File(tmp_path / "aligned.h5ad") as file:
        obs = file["obs"]
        assert obs.attrs["_index"] in obs
        assert "harmonic_confidence" in obs.attrs["column-order"]
        assert set(obs["donor"]) == {"categories", "codes"}
        assert file["obsm"]["X_harmonic"].shape[0] == 120
        graph = file["obsp"]["harmonic_connectivities"]
        assert graph.attrs["encoding-type"] == "csr_matrix"
        assert {"data", "indices", "indptr"} <= set(graph)
        assert len(graph["indptr"]) == 121
