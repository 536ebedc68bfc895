"""The commands around `align`: check before, map, denoise and impute after; and what inputs are taken as."""

import json
import os

import numpy as np
import pytest

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")
pytest.importorskip("typer")

from simulated_cells import N_GENES, counts, logged  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

import harmonicalign  # noqa: E402
from harmonicalign import scverse  # noqa: E402
from harmonicalign.adapters import io  # noqa: E402
from harmonicalign.adapters.cli._app import app  # noqa: E402


class Result:
    def __init__(self, done):
        self.code, self.out, self.err = done.exit_code, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == code, done.stderr or done.exception
    return Result(done)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Files of single cells, which no test may change."""
    folder = tmp_path_factory.mktemp("cells")
    a, b = counts(90, 1), counts(80, 2)
    io.write(a.copy(), folder / "a.h5ad")
    io.write(b.copy(), folder / "b.h5ad")
    io.write(logged(b), folder / "b_log.h5ad")
    ensembl = logged(b)
    ensembl.var_names = list(ensembl.var["gene_ids"])
    io.write(ensembl, folder / "ensembl.h5ad")
    io.write(counts(40, 3, seed=7), folder / "new.h5ad")
    return folder


@pytest.fixture(scope="module")
def reference(home, tmp_path_factory):
    """An aligned reference: its data and its model."""
    folder = tmp_path_factory.mktemp("reference")
    run("align", home / "a.h5ad", home / "b.h5ad", "-o", folder / "ref.h5ad", "-m", folder / "ref.npz",
        "--no-report", "-q")  # fmt: skip
    return folder


# --- check ------------------------------------------------------------------------------------------------


def test_check_says_what_the_files_hold(home):
    found = run("check", home / "a.h5ad", home / "b_log.h5ad", "--json").json
    a, b = found["datasets"]["a"], found["datasets"]["b_log"]
    assert (a["values"], b["values"]) == ("counts", "log")
    assert (a["rows"], a["features"], a["names"]) == (90, N_GENES, "symbols")
    assert 0 < a["zeros"] < 1
    assert found["shared_features"] == N_GENES
    assert found["normalize"] == ["a"]
    assert found["problems"] == []
    shown = run("check", home / "a.h5ad", home / "b_log.h5ad")
    assert "a: counts are scaled to equal totals, then log(1 + x); b_log: left as it is" in shown.out
    assert "align would take these inputs" in shown.out


def test_check_refuses_what_align_would_refuse(home, tmp_path):
    result = run("check", home / "a.h5ad", home / "ensembl.h5ad", code=2)
    assert "no feature name is shared" in result.err
    assert "--var-key gene_ids" in result.err
    run("align", home / "a.h5ad", home / "ensembl.h5ad", "-o", tmp_path / "o.h5ad", code=2)
    fine = run("check", home / "a.h5ad", home / "ensembl.h5ad", "--var-key", "gene_ids", "--json").json
    assert fine["shared_features"] == N_GENES
    assert fine["datasets"]["a"]["names"] == "Ensembl"
    assert (
        "--var-key: var has no 'gene_id'; did you mean 'gene_ids'"
        in run("check", home / "a.h5ad", home / "b.h5ad", "--var-key", "gene_id", code=2).err
    )


def test_check_sees_cells_of_the_same_name_and_small_batches(home, tmp_path):
    data = io.read(home / "a.h5ad")
    io.write(data[:, ::-1].copy(), tmp_path / "twin.h5ad")
    said = " ".join(run("check", home / "a.h5ad", tmp_path / "twin.h5ad", "--json").json["plan"])
    assert "90 cells have the same name in a and twin" in said
    assert "--anchors obs_names" in said
    data.obs["donor"] = ["x"] * 85 + ["y"] * 5
    io.write(data, tmp_path / "donors.h5ad")
    found = run("check", tmp_path / "donors.h5ad", "-b", "donor", "--json").json
    assert {name: about["rows"] for name, about in found["datasets"].items()} == {"x": 85, "y": 5}
    assert any("y (5)" in text for text in found["warnings"])


def test_check_sees_scaled_values_repeated_names_and_gaps(home, tmp_path):
    data = logged(io.read(home / "a.h5ad"))
    dense = data.X.toarray()
    spread = np.where(dense.std(axis=0) > 0, dense.std(axis=0), 1)
    scaled = anndata.AnnData((dense - dense.mean(axis=0)) / spread, obs=data.obs, var=data.var)
    io.write(scaled, tmp_path / "scaled.h5ad")
    found = run("check", tmp_path / "scaled.h5ad", home / "b_log.h5ad", "--json").json
    assert found["datasets"]["scaled"]["values"] == "scaled"
    assert any("different units" in text for text in found["warnings"])
    gaps = scaled.copy()
    gaps.X[0, 3] = np.nan
    io.write(gaps, tmp_path / "gaps.h5ad")
    assert "gaps contains NaN" in run("check", tmp_path / "gaps.h5ad", home / "b_log.h5ad", code=2).err
    repeated = pd.DataFrame(np.ones((5, 3)), columns=["x", "x", "z"])
    twice = anndata.AnnData(repeated.to_numpy())
    twice.var_names = list(repeated.columns)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twice.write_h5ad(tmp_path / "twice.h5ad")
    assert (
        "feature names of twice are not unique: 1 occur more than once"
        in run("check", tmp_path / "twice.h5ad", home / "b.h5ad", code=2).err
    )


def test_ten_batches_take_few_lines(tmp_path):
    parts = [counts(12, i) for i in range(30)]
    whole = anndata.concat(parts, label="donor", keys=[f"d{i}" for i in range(30)])
    whole.obs_names_make_unique()
    io.write(whole, tmp_path / "many.h5ad")
    assert len(run("check", tmp_path / "many.h5ad", "-b", "donor").out.splitlines()) < 30


# --- normalisation ----------------------------------------------------------------------------------------


def test_only_counts_are_normalised_and_never_twice(home, tmp_path):
    result = run("align", home / "a.h5ad", home / "b_log.h5ad", "-o", tmp_path / "o.npy", "--no-report")
    assert "a: counts are scaled" in result.err
    model = scverse.align(
        {"a": io.read(home / "a.h5ad"), "b_log": io.read(home / "b_log.h5ad")}, normalize=["a"]
    )
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), np.concatenate(model.embedding_))
    both = scverse.align({"a": io.read(home / "a.h5ad"), "b": io.read(home / "b.h5ad")}, normalize=True)
    for way in (["--normalize", "all"], ["--normalize", "a", "--normalize", "b"], []):
        run("align", home / "a.h5ad", home / "b.h5ad", "-o", tmp_path / "p.npy", "--no-report", "-qf", *way)
        np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), np.concatenate(both.embedding_))


def test_normalisation_is_left_out_where_that_is_said(home, tmp_path):
    result = run("align", home / "a.h5ad", home / "b.h5ad", "--normalize", "none", "-o", tmp_path / "o.npy",
                 "--no-report", "--json")  # fmt: skip
    assert any("--normalize none leaves as they are" in text for text in result.json["warnings"])
    plain = scverse.align({"a": io.read(home / "a.h5ad"), "b": io.read(home / "b.h5ad")})
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), np.concatenate(plain.embedding_))
    arguments = ["align", home / "a.h5ad", home / "b.h5ad", "-o", tmp_path / "p.npy", "--no-report"]
    assert "has no 'c'" in run(*arguments, "--normalize", "c", code=2).err
    assert "says it for all datasets" in run(*arguments, "--normalize", "all", "--normalize", "a", code=2).err


def test_whole_numbers_without_names_stay_as_they_are(tmp_path, rng):
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", rng.integers(0, 17, (40, 12)) if hasattr(rng, "integers")
                else rng.randint(0, 17, (40, 12)))  # fmt: skip
    assert run("check", tmp_path / "a.npy", tmp_path / "b.npy", "--json").json["normalize"] == []


def test_logarithms_and_counts_in_one_file(home, tmp_path):
    mixed = anndata.concat([counts(60, 1), logged(counts(60, 2))], label="donor", keys=["c", "l"])
    mixed.obs_names_make_unique()
    io.write(mixed, tmp_path / "mixed.h5ad")
    run("align", tmp_path / "mixed.h5ad", "-b", "donor", "-o", tmp_path / "o.h5ad", "--no-report", "-q")
    written = io.read(tmp_path / "o.h5ad")
    layer = written.layers["log_normalized"].toarray()
    np.testing.assert_allclose(layer[60:], mixed.X[60:].toarray())
    dense = mixed.X[:60].toarray()
    np.testing.assert_allclose(
        layer[:60], np.log1p(1e4 * dense / dense.sum(axis=1, keepdims=True)), rtol=1e-5
    )
    np.testing.assert_array_equal(written.X.toarray(), mixed.X.toarray())
    assert "drop --backed" in run("align", tmp_path / "mixed.h5ad", "-b", "donor", "--backed", "--no-report",
                                  "-o", tmp_path / "p.h5ad", code=2).err  # fmt: skip


# --- inputs and targets -----------------------------------------------------------------------------------


def test_an_input_is_not_replaced_by_force_alone(home, tmp_path):
    original = (home / "a.h5ad").read_bytes()
    (tmp_path / "a.h5ad").write_bytes(original)
    (tmp_path / "link.h5ad").symlink_to(tmp_path / "a.h5ad")
    os.link(tmp_path / "a.h5ad", tmp_path / "hard.h5ad")
    for name in ("a", "link", "hard"):
        result = run("align", tmp_path / "a.h5ad", home / "b.h5ad", "-o", tmp_path / f"{name}.h5ad", "-f",
                     "--no-report", code=2)  # fmt: skip
        assert "--overwrite-input" in result.err
    result = run("denoise", tmp_path / "link.h5ad", home / "b.h5ad", "-o", tmp_path / "a.h5ad", "-f", code=2)
    assert "--overwrite-input" in result.err
    assert (tmp_path / "a.h5ad").read_bytes() == original


def test_names_of_files_are_kept_as_they_are(home, tmp_path):
    data = io.read(home / "a.h5ad")
    io.write(data.copy(), tmp_path / "run 1.v2.h5ad")
    io.write(data.copy(), tmp_path / "deep" / "matrix")
    (tmp_path / "Sample_3").symlink_to(tmp_path / "deep" / "matrix")
    found = run("check", tmp_path / "run 1.v2.h5ad", tmp_path / "Sample_3", "--json").json
    assert list(found["datasets"]) == ["run 1.v2", "Sample_3"]


# --- map, denoise, impute ---------------------------------------------------------------------------------


def test_map_equals_the_python_call(home, reference, tmp_path):
    out = tmp_path / "new.h5ad"
    result = run("map", reference / "ref.npz", home / "new.h5ad", "-r", reference / "ref.h5ad", "-l", "kind",
                 "-o", out, "--model-out", tmp_path / "grown.npz", "--json").json  # fmt: skip
    query, model = io.read(home / "new.h5ad"), harmonicalign.load(reference / "ref.npz")
    grown = scverse.map_query(query, model, reference=io.read(reference / "ref.h5ad"), key="new", obs="kind")
    written = io.read(out)
    np.testing.assert_array_equal(written.obsm["X_harmonic"], query.obsm["X_harmonic"])
    np.testing.assert_array_equal(written.obs["harmonic_confidence"], query.obs["harmonic_confidence"])
    assert list(written.obs["kind_pred"]) == list(query.obs["kind_pred"])
    right = written.obs["kind_pred"].astype(str) == written.obs["kind"].astype(str)
    assert right.mean() > 0.8
    assert result["rows"] == 40
    assert result["labels"]["kind"]["confidence"] == pytest.approx(query.obs["kind_conf"].mean())
    assert result["scores"]["p"] == query.uns["harmonic"]["significance"]["p"]
    saved = harmonicalign.load(tmp_path / "grown.npz")
    assert saved.keys_ == ["a", "b", "new"]
    np.testing.assert_array_equal(saved.embedding_[2], grown.embedding_[2])


def test_map_brings_the_query_to_the_units_of_the_model(home, reference, tmp_path):
    """The model holds logarithms: counts are normalised, logarithms are not; without the reference, too."""
    new = io.read(home / "new.h5ad")
    io.write(logged(new), tmp_path / "log.h5ad")
    placed = {}
    for name, file in (("counts", home / "new.h5ad"), ("log", tmp_path / "log.h5ad")):
        run("map", reference / "ref.npz", file, "-o", tmp_path / f"{name}.out.h5ad", "-q")
        placed[name] = io.read(tmp_path / f"{name}.out.h5ad").obsm["X_harmonic"]
    np.testing.assert_allclose(placed["counts"], placed["log"], atol=1e-4)


def test_map_writes_a_table_and_takes_more_rows_of_a_known_dataset(home, reference, tmp_path):
    more = counts(30, 1, seed=99)
    io.write(more, tmp_path / "more.h5ad")
    out = tmp_path / "more.csv"
    run("map", reference / "ref.npz", tmp_path / "more.h5ad", "-r", reference / "ref.h5ad", "-l", "kind",
        "--dataset", "a", "-o", out, "-q")  # fmt: skip
    table = pd.read_csv(out, index_col="name")
    assert list(table.columns) == ["kind_pred", "kind_conf", "harmonic_confidence"]
    assert list(table.index) == list(more.obs_names)
    assert (table["kind_pred"].to_numpy() == more.obs["kind"].astype(str).to_numpy()).mean() > 0.8


def test_map_refuses_what_it_cannot_do(home, reference, tmp_path):
    model = reference / "ref.npz"
    assert "give it as --reference" in run("map", model, home / "new.h5ad", "-l", "kind", code=2).err
    assert (
        "mapped cells go into" in run("map", model, home / "new.h5ad", "-o", tmp_path / "o.npy", code=2).err
    )
    assert (
        "has none of the" in run("map", model, home / "ensembl.h5ad", "-o", tmp_path / "o.h5ad", code=2).err
    )
    result = run("map", model, home / "ensembl.h5ad", "-o", tmp_path / "o.h5ad", "-r",
                 reference / "ref.h5ad", "-l", "kid", code=2)  # fmt: skip
    assert "did you mean 'kind'" in result.err
    assert not list(tmp_path.iterdir())


def test_denoise_equals_the_python_call(reference, tmp_path):
    data, model = io.read(reference / "ref.h5ad"), harmonicalign.load(reference / "ref.npz")
    (t,) = {found.t for found in scverse.denoise(data, model).values()}
    arguments = ["denoise", reference / "ref.h5ad", "-b", "dataset", "-m", reference / "ref.npz"]
    result = run(*arguments, "-o", tmp_path / "d.h5ad", "--json").json
    assert result["steps"] == t
    written = io.read(tmp_path / "d.h5ad")
    np.testing.assert_allclose(written.layers["harmonic_denoised"], data.layers["harmonic_denoised"])
    scverse.denoise(data, model, ["GEN3", "GEN7"], t=2)
    run(*arguments, "--var", "GEN3", "--var", "GEN7", "--steps", 2, "-o", tmp_path / "d.csv", "-q")
    table = pd.read_csv(tmp_path / "d.csv", index_col=0)
    expected = data.obsm["harmonic_denoised"]
    np.testing.assert_allclose(table[["GEN3", "GEN7"]], expected, rtol=1e-5)
    assert list(table.index) == list(data.obs_names)
    assert "GENX" in run(*arguments, "--var", "GENX", "-o", tmp_path / "e.csv", code=2).err


def test_impute_equals_the_python_call(home, tmp_path):
    full, part = io.read(home / "a.h5ad"), io.read(home / "b.h5ad")
    lacking = [f"GEN{i}" for i in range(8)]
    io.write(part[:, [n for n in part.var_names if n not in lacking]].copy(), tmp_path / "part.h5ad")
    result = run("impute", home / "a.h5ad", tmp_path / "part.h5ad", "-s", "a", "-o", tmp_path / "i.h5ad",
                 "--json").json  # fmt: skip
    data = {"a": full, "part": io.read(tmp_path / "part.h5ad")}
    model = scverse.align(data, normalize=True)
    found = scverse.impute(data, model, source="a")["part"]
    written = io.read(tmp_path / "i.h5ad")
    assert list(written.var_names) == lacking
    np.testing.assert_allclose(written.X, found.values, rtol=1e-5)
    np.testing.assert_allclose(written.var["correlation"], found.correlation)
    assert list(written.obs_names) == list(part.obs_names)
    assert result["correlation"]["part"] == pytest.approx(np.mean(found.correlation))
    truth = logged(part)[:, lacking].X.toarray()
    mean = np.mean([np.corrcoef(truth[:, j], written.X[:, j])[0, 1] for j in range(8)])
    assert mean > 0.3
    assert (
        "--source: the data has no 'c'"
        in run(
            "impute", home / "a.h5ad", tmp_path / "part.h5ad", "-s", "c", "-o", tmp_path / "j.h5ad", code=2
        ).err
    )


def test_info_says_what_a_model_is_good_for(reference):
    about = run("info", reference / "ref.npz", "--json").json["files"][0]
    assert about["takes_new_cells"] is True
    assert about["values"] == "log"
    assert about["feature_names"][:2] == ["GEN0", "GEN1"]
    assert about["verdict"] == "Aligned"
    shown = run("info", reference / "ref.npz").out
    assert "share the file as you would share the data" in shown
    assert "opposed" not in shown


# --- compare ----------------------------------------------------------------------------------------------


def test_compare_draws_a_picture_and_names_what_is_missing(home, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    chosen = ["-l", "kind", "--method", "none", "--method", "mnn"]
    targets = ["--picture", tmp_path / "methods.png", "-o", tmp_path / "t.csv"]
    result = run("compare", home / "a.h5ad", home / "b_log.h5ad", *chosen, *targets)
    image = plt.imread(tmp_path / "methods.png")
    assert image.shape[1] > image.shape[0]  # side by side
    assert image[..., :3].std() > 0.05
    assert "wrote" in result.out
    assert list(pd.read_csv(tmp_path / "t.csv")["method"]) == ["none", "mnn"]
    result = run("compare", home / "a.h5ad", home / "b.h5ad", "--picture", tmp_path / "x.csv", code=2)
    assert "must end in .png or .pdf or .svg" in result.err


def test_help_is_plain(home):
    for command in ("align", "check", "map", "compare", "denoise", "impute"):
        text = run(command, "--help").out
        assert "<bool>" not in text
        assert "Examples" in text
