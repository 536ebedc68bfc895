"""The Open Problems components, run as the benchmark runs them, on small files of each task's schema."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign.metrics import foscttm

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")
yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
COMPONENTS = ROOT / "ecosystem" / "openproblems"
if not COMPONENTS.is_dir():
    pytest.skip("the components are in the repository only", allow_module_level=True)

TASKS = ["batch_integration", "cyto_batch_integration", "match_modalities", "label_projection"]
# What the tasks' interfaces require of an output: by structure, the names in it.
OUTPUTS = {
    "batch_integration": {
        "obsm": ["X_emb"],
        "layers": ["corrected_counts"],
        "uns": ["dataset_id", "normalization_id", "method_id"],
    },
    "cyto_batch_integration": {"layers": ["integrated"], "uns": ["dataset_id", "method_id"]},
    "match_modalities": {
        "obsm": ["integrated"],
        "layers": ["counts", "normalized"],
        "uns": ["dataset_id", "normalization_id", "method_id"],
    },
    "label_projection": {"obs": ["label_pred"], "uns": ["dataset_id", "normalization_id", "method_id"]},
}
KINDS = np.array(["alpha", "beta", "delta", "gamma"])
N_GENES = 150


@pytest.fixture(scope="module")
def programmes():
    return np.random.default_rng(0).gamma(0.5, 1.0, (len(KINDS), N_GENES))


def expression(programmes, kinds, shift, seed):
    """An AnnData of the common dataset's schema: counts and their logarithm after normalisation."""
    rng = np.random.default_rng(seed)
    rate = programmes[kinds] * np.exp(shift) * rng.gamma(4, 0.25, (len(kinds), N_GENES))
    counts = sp.csc_matrix(rng.poisson(2000 * rate / rate.sum(axis=1, keepdims=True)).astype(np.int64))
    depth = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1)
    data = anndata.AnnData(
        obs=pd.DataFrame(index=[f"cell{i}" for i in range(len(kinds))]),
        var=pd.DataFrame(index=[f"gene{j}" for j in range(N_GENES)]),
        layers={"counts": counts, "normalized": sp.csc_matrix((sp.diags(1e4 / depth) @ counts).log1p())},
    )
    data.var["feature_name"] = data.var_names
    data.var["hvg"] = np.arange(N_GENES) % 3 != 0
    data.uns |= {"dataset_id": "simulated", "normalization_id": "log_cp10k"}
    return data


def batches(programmes, sizes, seed=1):
    """Cells of several batches, each with its own factor for every gene."""
    rng = np.random.default_rng(seed)
    parts = []
    for i, (name, size) in enumerate(sizes.items()):
        kinds = rng.integers(len(KINDS), size=size)
        part = expression(programmes, kinds, 0.4 * rng.normal(size=N_GENES), seed + i)
        part.obs["batch"], part.obs["cell_type"] = name, KINDS[kinds]
        parts.append(part)
    joined = anndata.concat(parts, index_unique="-", merge="same")
    joined.obs["batch"] = joined.obs["batch"].astype("category")
    joined.uns |= parts[0].uns
    return joined


def run(task, folder, **par):
    """Run a component's script with these arguments in a process of its own.

    The environment variable names the Python of an environment that has what the component installs and
    no more (`benchmarks/installs.py --components` makes one); by default it is this one and the checkout.
    """
    script = (COMPONENTS / task / "script.py").read_text()
    given = {name: str(value) for name, value in par.items()}
    meta = {"name": "harmonicalign", "functionality_name": "harmonicalign"}
    meta["resources_dir"] = str(COMPONENTS / task)
    block = f"## VIASH START\npar = {given!r}\nmeta = {meta!r}\n## VIASH END"
    changed, n = re.subn(r"## VIASH START.*## VIASH END", lambda _: block, script, flags=re.DOTALL)
    assert n == 1
    file = folder / "viash_script.py"
    file.write_text(changed)
    clean = os.getenv("HARMONICALIGN_COMPONENT_PYTHON")
    paths = [] if clean else filter(None, [str(ROOT / "src"), os.getenv("PYTHONPATH")])
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    line = [clean or sys.executable, str(file)]
    return subprocess.run(line, capture_output=True, text=True, env=env, cwd=folder)


def output(task, path):
    """Read an output and check it as the benchmark's own test of components does."""
    data = anndata.read_h5ad(path)
    for structure, names in OUTPUTS[task].items():
        assert set(names) <= set(getattr(data, structure).keys()), structure
    assert data.uns["method_id"] == "harmonicalign"
    assert data.uns["dataset_id"] == "simulated"
    return data


def nearest_kinds(rows, kinds, new):
    squared = ((new[:, None] - rows[None]) ** 2).sum(axis=2)
    return np.asarray(kinds)[squared.argmin(axis=1)]


@pytest.mark.slow
def test_batch_integration(programmes, tmp_path):
    data = batches(programmes, {"a": 120, "b": 100, "tiny": 2})
    data.write_h5ad(tmp_path / "dataset.h5ad")
    done = run("batch_integration", tmp_path, input=tmp_path / "dataset.h5ad", output=tmp_path / "out.h5ad")
    assert done.returncode == 0, done.stderr
    found = output("batch_integration", tmp_path / "out.h5ad")
    assert found.shape == data.shape
    assert found.obs_names.equals(data.obs_names)
    a, b = (np.asarray(data.obs["batch"] == name) for name in "ab")
    kinds, place = np.asarray(data.obs["cell_type"]), np.asarray(found.obsm["X_emb"], dtype=float)
    assert np.mean(nearest_kinds(place[a], kinds[a], place[b]) == kinds[b]) > 0.95
    # Corrected genes: the same types lie nearer each other across batches, genes that are not hvg included.
    before, after = data.layers["normalized"].toarray(), found.layers["corrected_counts"].toarray()

    def apart(x, columns):
        of = [[x[rows & (kinds == k)][:, columns].mean(axis=0) for k in KINDS] for rows in (a, b)]
        return np.linalg.norm(np.subtract(*of))

    for columns in (np.asarray(data.var["hvg"]), ~np.asarray(data.var["hvg"])):
        assert apart(after, columns) < 0.8 * apart(before, columns)  # zeros of sparse data stay zero


def cytometry(seed=2):
    """Two batches of cells by markers, one with a shift and another proportion of populations."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0, 5, (len(KINDS), 8))
    kinds = np.concatenate([rng.choice(4, 500, p=p) for p in ([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4])])
    batch = np.repeat(["2", "1"], 500)
    values = centres[kinds] + 0.3 * rng.normal(size=(1000, 8))
    values[batch == "2"] += rng.normal(0, 0.5, 8)
    data = anndata.AnnData(
        obs=pd.DataFrame({"batch": batch, "sample": batch}, index=[f"c{i}" for i in range(1000)]),
        var=pd.DataFrame(index=[f"m{j}" for j in range(8)]),
        layers={"preprocessed": values},
    )
    data.obs["is_control"] = 0
    data.var["to_correct"] = np.arange(8) != 3
    data.uns["dataset_id"] = "simulated"
    return data, kinds


@pytest.mark.slow
def test_cyto_batch_integration(tmp_path):
    data, kinds = cytometry()
    data.write_h5ad(tmp_path / "censored.h5ad")
    done = run(
        "cyto_batch_integration", tmp_path, input=tmp_path / "censored.h5ad", output=tmp_path / "out.h5ad"
    )
    assert done.returncode == 0, done.stderr
    found = output("cyto_batch_integration", tmp_path / "out.h5ad")
    assert found.var_names.equals(data.var_names)
    assert found.obs_names.equals(data.obs_names)
    before, after = data.layers["preprocessed"], np.asarray(found.layers["integrated"])
    corrected = np.asarray(data.var["to_correct"])
    reference = np.asarray(data.obs["batch"] == "1")  # the first by name, wherever it is in the file
    np.testing.assert_array_equal(after[:, ~corrected], before[:, ~corrected])
    np.testing.assert_allclose(after[reference], before[reference], rtol=1e-6)

    def apart(x):
        means = [[x[rows & (kinds == k)].mean(axis=0) for k in range(4)] for rows in (reference, ~reference)]
        return np.abs(np.subtract(*means))[:, corrected].mean()

    assert apart(after) < 0.5 * apart(before)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["batches of their own", "one batch in both parts"])
def test_label_projection(programmes, tmp_path, shared):
    data = batches(programmes, {"a": 120, "b": 100})
    chosen = np.arange(len(data)) % 2 == 0 if shared else np.asarray(data.obs["batch"] == "a")
    train, test = data[chosen].copy(), data[~chosen].copy()
    train.obs["label"], truth = train.obs.pop("cell_type"), np.asarray(test.obs.pop("cell_type"))
    test.obs_names = train.obs_names[: len(test)] if len(test) <= len(train) else test.obs_names
    paths = {"input_train": tmp_path / "train.h5ad", "input_test": tmp_path / "test.h5ad"}
    train.write_h5ad(paths["input_train"])
    test.write_h5ad(paths["input_test"])
    done = run("label_projection", tmp_path, **paths, output=tmp_path / "out.h5ad")
    assert done.returncode == 0, done.stderr
    found = output("label_projection", tmp_path / "out.h5ad")
    assert found.obs_names.equals(test.obs_names)
    assert np.mean(np.asarray(found.obs["label_pred"]) == truth) > 0.95


def modalities(programmes, names, seed=3):
    """RNA and proteins of the same cells in two orders, and the order that pairs them."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(len(KINDS), size=200)
    state = np.exp(0.5 * rng.normal(size=(200, 1)))
    rna = expression(programmes, kinds, 0.0, seed)
    rna.var_names = [f"ENSG{j}" for j in range(N_GENES)]
    rna.var["feature_name"] = [f"GENE{j}" for j in range(N_GENES - len(names))] + list(names)
    coding = np.arange(N_GENES - len(names), N_GENES)
    counts = rng.poisson(20 * programmes[kinds][:, coding] * state**0.2 + 1)
    protein = anndata.AnnData(
        obs=pd.DataFrame(index=[f"p{i}" for i in range(200)]),
        layers={"counts": sp.csr_matrix(counts), "normalized": sp.csr_matrix(np.log1p(counts))},
    )
    protein.uns |= rna.uns
    order = rng.permutation(200)
    protein = protein[order].copy()
    for data in (rna, protein):
        left, size, _ = np.linalg.svd(data.layers["normalized"].toarray(), full_matrices=False)
        data.obsm["X_svd"] = (left * size)[:, :20]
    return rna, protein, order


def match(tmp_path, rna, protein, **par):
    rna.write_h5ad(tmp_path / "mod1.h5ad")
    protein.write_h5ad(tmp_path / "mod2.h5ad")
    outputs = {f"output_mod{i}": tmp_path / f"out{i}.h5ad" for i in (1, 2)}
    inputs = {f"input_mod{i}": tmp_path / f"mod{i}.h5ad" for i in (1, 2)}
    return run("match_modalities", tmp_path, **inputs, **outputs, **par)


def rank_of_match(tmp_path, order):
    places = [output("match_modalities", tmp_path / f"out{i}.h5ad").obsm["integrated"] for i in (1, 2)]
    return foscttm(places[0][order], places[1])


GENES = ["PTPRC", "CD3E", "CD4", "CD8A", "CD19", "MS4A1", "NCAM1", "FCGR3A", "CD14", "ITGAX", "IL7R", "SELL"]
PROTEINS = [
    "CD45",
    "anti-human_CD3",
    "CD4-1",
    "CD8a",
    "CD19_TotalSeqB",
    "CD20",
    "CD56 (NCAM)",
    "CD16",
    "CD14",
]
PROTEINS += ["CD11c", "CD127", "CD62L-prot"]


@pytest.mark.slow
def test_modalities_meet_through_the_genes_of_proteins(programmes, tmp_path):
    rna, protein, order = modalities(programmes, GENES)
    protein.var_names = PROTEINS
    done = match(tmp_path, rna, protein)
    assert done.returncode == 0, done.stderr
    assert "12 related features" in done.stdout
    assert rank_of_match(tmp_path, order) < 0.2


@pytest.mark.slow
def test_modalities_meet_through_a_table_of_links(programmes, tmp_path):
    rna, protein, order = modalities(programmes, GENES)
    protein.var_names = [f"feature{j}" for j in range(len(GENES))]
    table = tmp_path / "links.csv"
    table.write_text("".join(f"{gene},feature{j},1\n" for j, gene in enumerate(GENES)))
    done = match(tmp_path, rna, protein, links=table)
    assert done.returncode == 0, done.stderr
    assert rank_of_match(tmp_path, order) < 0.2


@pytest.mark.slow
def test_modalities_meet_through_the_genes_at_peaks(programmes, tmp_path):
    rna, protein, order = modalities(programmes, GENES)
    table = tmp_path / "genes.csv"
    # Far enough apart for promoters of 2,000 base pairs: every peak lies at its gene alone.
    protein.var_names = [f"chr1:{9000 * j + 1000}-{9000 * j + 1200}" for j in range(len(GENES))]
    rows = "".join(f"chr1,{9000 * j + 1000},{9000 * j + 1300},{gene}\n" for j, gene in enumerate(GENES))
    table.write_text("chrom,start,end,gene_name\n" + rows)
    done = match(tmp_path, rna, protein, genes=table)
    assert done.returncode == 0, done.stderr
    assert rank_of_match(tmp_path, order) < 0.25


@pytest.mark.slow
def test_two_independent_svds_are_refused(programmes, tmp_path):
    rna, protein, _ = modalities(programmes, GENES)
    protein.var_names = [f"chr1:{j}000-{j}200" for j in range(len(GENES))]
    done = match(tmp_path, rna, protein)
    assert done.returncode != 0
    assert "their columns do not correspond" in done.stderr
    assert "--links" in done.stderr
    assert not (tmp_path / "out1.h5ad").exists()


# --- the configurations -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_configuration(task):
    config = yaml.safe_load((COMPONENTS / task / "config.vsh.yaml").read_text())
    about = config.get("functionality", config)
    facts = about["info"] | about if task == "match_modalities" else about
    assert re.fullmatch(r"[a-z][a-z0-9_]*", about["name"])
    assert 0 < len(facts["summary"]) <= 400
    assert 0 < len(facts["description"]) <= 5000
    assert 0 < len(facts["label"]) <= 50
    if task != "match_modalities":  # the older form of the task cites by a key of its bibliography
        dois = np.atleast_1d(about["references"]["doi"])
        assert all(re.fullmatch(r"10\.\d{4,9}/[-._;()/:A-Za-z0-9]+", doi) for doi in dois)
        assert {"documentation", "repository"} <= set(about["links"])
    for resource in about["resources"]:
        assert (COMPONENTS / task / resource["path"]).is_file()
    runners = config.get("runners") or config["platforms"]
    labels = next(r for r in runners if r["type"] == "nextflow")["directives"]["label"]
    assert {re.sub("^(very)?(low|mid|high)", "", label) for label in labels} == {"time", "mem", "cpu"}
    docker = next(e for e in config.get("engines") or config["platforms"] if e["type"] == "docker")
    assert docker["setup"][0]["pypi"] == ["harmonicalign[scverse]>=0.2"]


def test_every_protein_has_one_gene():
    lines = (COMPONENTS / "match_modalities" / "protein_genes.csv").read_text().splitlines()[1:]
    proteins = [line.split(",")[0].casefold() for line in lines]
    assert len(proteins) == len(set(proteins))
    assert all(re.fullmatch(r"[^,]+,[A-Z0-9-]+", line) for line in lines)
