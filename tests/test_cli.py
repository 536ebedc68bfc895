"""The command line: the same results as from Python, files whole or untouched, errors in one sentence."""

import hashlib
import json
import logging
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

anndata = pytest.importorskip("anndata")
mudata = pytest.importorskip("mudata")
pd = pytest.importorskip("pandas")
pytest.importorskip("typer")
pytest.importorskip("zarr")

from typer.testing import CliRunner  # noqa: E402

import harmonicalign  # noqa: E402
from harmonicalign.adapters import io, scverse  # noqa: E402
from harmonicalign.adapters.cli import _session  # noqa: E402
from harmonicalign.adapters.cli._app import app  # noqa: E402
from harmonicalign.datasets import load_digits_pair  # noqa: E402

COMMANDS = [
    "check", "align", "transfer", "map", "correct", "denoise", "impute", "report", "compare", "info", "demo",
    "reproduce",
]  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    """Two small datasets; the first has labels, the second the truth under another name."""
    pair = load_digits_pair(preserved=0.7, n_x=90, n_y=80, random_state=0)
    pixels = [f"p{i}" for i in range(64)]

    def data(x, labels, column, letter):
        rows = [f"{letter}{i}" for i in range(len(x))]
        described = pd.DataFrame({column: pd.Categorical([f"d{v}" for v in labels])}, index=rows)
        return anndata.AnnData(x / 16, obs=described, var=pd.DataFrame(index=pixels))

    return data(pair.x, pair.labels_x, "digit", "a"), data(pair.y, pair.labels_y, "truth", "b")


@pytest.fixture(scope="module")
def home(tmp_path_factory, digits):
    """A folder with the two datasets as h5ad files, which no test may change."""
    folder = tmp_path_factory.mktemp("inputs")
    for name, data in zip(("a", "b"), digits, strict=True):
        data.copy().write_h5ad(folder / f"{name}.h5ad")
    return folder


@pytest.fixture(scope="module")
def aligned(home, tmp_path_factory):
    """What align wrote: data, model and report."""
    folder = tmp_path_factory.mktemp("aligned")
    result = run(
        "align", home / "a.h5ad", home / "b.h5ad", "-o", folder / "ab.h5ad", "-m", folder / "ab.npz",
        "-l", "digit", "--json",
    )  # fmt: skip
    return folder, result.json


@pytest.fixture(scope="module")
def expected(digits):
    """The same from Python."""
    data = dict(zip(("a", "b"), [d.copy() for d in digits], strict=True))
    return data, scverse.align(data)


@pytest.fixture(scope="module")
def quickly(digits):
    """The same by the published method, which takes less time."""
    return scverse.align([d.copy() for d in digits], method="paper")


PAPER = ["--method", "paper"]
QUICK = [*PAPER, "--no-report", "-q"]


class Result:
    def __init__(self, result):
        self.code, self.out, self.err, self.exception = (
            result.exit_code,
            result.stdout,
            result.stderr,
            result.exception,
        )

    @property
    def json(self):
        return json.loads(self.out)


def run(*arguments, code=0):
    result = Result(CliRunner().invoke(app, [str(a) for a in arguments]))
    assert result.code == code, result.err or result.exception
    return result


def facts_of(page):
    """What a report holds."""
    return json.loads(re.search(r'id="facts">(.*?)</script>', page.read_text(), re.S)[1])


def content(folder):
    return {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}


# ---------------------------------------------------------------------------------------------------------
# the same as from Python


def test_align_equals_the_python_call(aligned, expected):
    folder, result = aligned
    data, model = expected
    written = anndata.read_h5ad(folder / "ab.h5ad")
    np.testing.assert_array_equal(written.obsm["X_harmonic"], np.concatenate(model.embedding_))
    joined = scverse.concat(data, model)
    for key in ("harmonic_connectivities", "harmonic_distances"):
        np.testing.assert_array_equal(written.obsp[key].toarray(), joined.obsp[key].toarray())
    np.testing.assert_array_equal(written.var["harmonic_weight"], joined.var["harmonic_weight"])
    assert list(written.obs["dataset"]) == ["a"] * 90 + ["b"] * 80
    assert result["significance"]["p"] == model.significance_.p
    assert result["datasets"] == {"a": 90, "b": 80}
    assert result["features_selected"] == model.feature_selected_.sum()
    saved = harmonicalign.load(folder / "ab.npz")
    np.testing.assert_array_equal(saved.embedding_[1], model.embedding_[1])


def test_align_writes_a_report_with_the_labels(aligned):
    folder, result = aligned
    page = (folder / "ab.html").read_text()
    assert result["files"]["report"] == str(folder / "ab.html")
    assert "digit" in page
    assert "<html" in page


def test_columns_of_one_input_only_are_kept(aligned):
    obs = anndata.read_h5ad(aligned[0] / "ab.h5ad").obs
    assert obs["digit"].notna().sum() == 90
    assert obs["truth"].notna().sum() == 80


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet", ".npz", ".zarr"])
def test_every_format_gives_the_same(tmp_path, digits, quickly, suffix):
    for name, data in zip(("a", "b"), digits, strict=True):
        io.write(data.copy(), tmp_path / f"{name}{suffix}")
    inputs = [tmp_path / f"{name}{suffix}" for name in ("a", "b")]
    run("align", *inputs, "-o", tmp_path / f"out{suffix}", *QUICK)
    back = io.read(tmp_path / f"out{suffix}", **({"obs": ["confidence"]} if "csv" in suffix else {}))
    found = back.obsm["X_harmonic"] if suffix == ".zarr" else back.X
    np.testing.assert_array_equal(found, np.concatenate(quickly.embedding_))
    assert list(back.obs["dataset"]) == ["a"] * 90 + ["b"] * 80


def test_one_input_with_batches_in_any_order(tmp_path, digits, expected):
    whole = anndata.concat([d.copy() for d in digits], label="batch", keys=["a", "b"])
    order = np.random.RandomState(1).permutation(whole.n_obs)
    shuffled = whole[order].copy()
    io.write(shuffled, tmp_path / "all.h5ad")
    run("align", tmp_path / "all.h5ad", "-b", "batch", "--no-report", "-q")
    written = anndata.read_h5ad(tmp_path / "all.aligned.h5ad")
    assert list(written.obs_names) == list(shuffled.obs_names)
    same = scverse.align(shuffled, batch_key="batch")
    for key, rows in (("a", shuffled.obs["batch"] == "a"), ("b", shuffled.obs["batch"] == "b")):
        np.testing.assert_array_equal(
            written.obsm["X_harmonic"][rows.to_numpy()], same.embedding_[same.keys_.index(key)]
        )
    run("align", tmp_path / "all.h5ad", "-b", "batch", "--no-report", "-q", "-o", tmp_path / "all.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "all.npy"), written.obsm["X_harmonic"])


def test_modalities(tmp_path, digits, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = mudata.MuData({"first": digits[0].copy(), "second": digits[1].copy()})
        io.write(both, tmp_path / "m.h5mu")
    run("align", tmp_path / "m.h5mu", "--no-report", "-q")
    written = io.read(tmp_path / "m.aligned.h5mu")
    for part, coordinates in zip(("first", "second"), expected[1].embedding_, strict=True):
        np.testing.assert_array_equal(written[part].obsm["X_harmonic"], coordinates)
    run("align", f"{tmp_path}/m.h5mu::second", f"{tmp_path}/m.h5mu::first", "-o", tmp_path / "o.npz",
        "--no-report", "-q")  # fmt: skip
    assert list(pd.unique(io.read(tmp_path / "o.npz").obs["dataset"])) == ["second", "first"]
    assert run("info", tmp_path / "m.h5mu", "--json").json["files"][0]["modalities"]["first"] == [90, 64]
    truth = io.read(tmp_path / "m.h5mu", key="second").obs["truth"].astype(str)
    result = run("transfer", tmp_path / "m.h5mu", "-l", "digit", "-s", "first", "--json", *PAPER).json
    assert (result["source"], result["rows"]) == (["first"], 80)
    assert np.mean(pd.read_csv(tmp_path / "m.labels.csv")["digit_pred"].to_numpy() == truth) > 0.5
    for arguments, message in [
        (["-o", tmp_path / "m.h5ad"], "modalities of one .h5mu go into an .h5mu"),
        ([tmp_path / "o.npz"], "name one, as m.h5mu::first or m.h5mu::second"),
        (["-b", "x"], "--batch-key goes with one AnnData"),
    ]:
        assert message in run("align", tmp_path / "m.h5mu", *arguments, "--no-report", "-f", code=2).err


def test_backed_inputs_give_the_same(tmp_path, home, quickly):
    run("align", home / "a.h5ad", home / "b.h5ad", "--backed", "-o", tmp_path / "o.h5ad", *QUICK)
    np.testing.assert_array_equal(
        io.read(tmp_path / "o.h5ad").obsm["X_harmonic"], np.concatenate(quickly.embedding_)
    )


def test_options_reach_the_estimator(tmp_path, home):
    out = tmp_path / "o.h5ad"
    run(
        "align", home / "a.h5ad", home / "b.h5ad", "-o", out, "-m", tmp_path / "m.npz", "--no-report", "-q",
        "--seed", 7, "--n-vars", 40, "-p", "n_pca=None", "--param", "n-harmonics=20", "-p", "bandwidth=knn",
        "--key-added", "mine",
    )  # fmt: skip
    model = harmonicalign.load(tmp_path / "m.npz")
    assert (model.random_state, model.n_pca, model.n_harmonics, model.bandwidth) == (7, None, 20, "knn")
    assert model.fitted_.inputs.signals[0].shape[1] == 40
    assert "X_mine" in anndata.read_h5ad(out).obsm


def test_linked_features(tmp_path, digits):
    first, second = (d.copy() for d in digits)
    second.var_names = [f"q{i}" for i in range(64)]
    io.write(first, tmp_path / "rna.h5ad")
    io.write(second, tmp_path / "adt.h5ad")
    links = pd.DataFrame({"rna": first.var_names, "protein": second.var_names})
    links.to_csv(tmp_path / "links.csv", index=False)
    run("align", f"x={tmp_path}/rna.h5ad", f"y={tmp_path}/adt.h5ad", "--links", tmp_path / "links.csv", "-q",
        "-o", tmp_path / "o.npy", "-m", tmp_path / "m.npz", "--report", tmp_path / "r.html")  # fmt: skip
    model = scverse.align({"x": first, "y": second}, links=links)
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), np.concatenate(model.embedding_))
    assert harmonicalign.load(tmp_path / "m.npz").keys_ == ["x", "y"]
    matrix = pd.DataFrame(np.eye(64, dtype=int), index=first.var_names, columns=second.var_names)
    matrix.to_csv(tmp_path / "matrix.csv")
    run("align", f"x={tmp_path}/rna.h5ad", f"y={tmp_path}/adt.h5ad", "--links", tmp_path / "matrix.csv",
        "-o", tmp_path / "p.npy", *QUICK)  # fmt: skip
    links.to_parquet(tmp_path / "links.parquet")
    run("align", f"x={tmp_path}/rna.h5ad", f"y={tmp_path}/adt.h5ad", "--links", tmp_path / "links.parquet",
        *QUICK)  # fmt: skip
    whole = anndata.read_h5ad(tmp_path / "rna.aligned.h5ad")
    assert whole.shape == (170, 128)  # no feature is shared, so all are kept
    np.testing.assert_array_equal(whole[:90, first.var_names].X, first.X)
    model = scverse.align({"x": first, "y": second}, links=links, method="paper")
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), np.concatenate(model.embedding_))
    assert re.search(r"\bp5 (–|\\u2013) q5\b", (tmp_path / "r.html").read_text())


def test_names_of_inputs(tmp_path, digits):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        io.write(digits[0].copy(), tmp_path / folder / "x.npz")
    run("align", tmp_path / "one" / "x.npz", tmp_path / "two" / "x.npz", "-o", tmp_path / "o.npz",
        *QUICK)  # fmt: skip
    assert sorted(set(io.read(tmp_path / "o.npz").obs["dataset"])) == ["one/x", "two/x"]
    run("align", tmp_path / "one" / "x.npz", tmp_path / "one" / "x.npz", "-o", tmp_path / "p.npz",
        *QUICK)  # fmt: skip
    assert sorted(set(io.read(tmp_path / "p.npz").obs["dataset"])) == ["one/x-1", "one/x-2"]
    for name in ("rna", "atac"):  # folders of Matrix Market files have no ending
        io.write(digits[0].copy(), tmp_path / name)
    run("align", tmp_path / "rna", tmp_path / "atac", "-o", tmp_path / "q.npz", *QUICK)
    assert list(pd.unique(io.read(tmp_path / "q.npz").obs["dataset"])) == ["rna", "atac"]


# ---------------------------------------------------------------------------------------------------------
# transfer, correct, compare, report


@pytest.fixture(scope="module")
def transferred(expected):
    data, model = expected
    labels = data["a"].obs["digit"].to_numpy()
    return model.transfer(labels, source="a", target="b")


def test_transfer_equals_the_python_call(tmp_path, home, aligned, transferred):
    fresh, later = tmp_path / "fresh.csv", tmp_path / "later.csv"
    run("transfer", home / "a.h5ad", home / "b.h5ad", "-l", "digit", "-o", fresh, "-q")
    result = run(
        "transfer", aligned[0] / "ab.h5ad", "-m", aligned[0] / "ab.npz", "-l", "digit", "-o", later, "--json"
    ).json
    assert fresh.read_bytes() == later.read_bytes()
    # Numbers as text first: not every version of pandas reads them to the last digit.
    table = pd.read_csv(later, index_col="name", dtype={"digit_conf": str})
    assert list(table.index) == [f"b{i}" for i in range(80)]
    assert list(table["digit_pred"]) == list(transferred.labels)
    np.testing.assert_array_equal([float(text) for text in table["digit_conf"]], transferred.confidence)
    assert result["source"] == ["a"]
    assert sum(result["labels"].values()) == result["rows"] == 80


def test_labels_into_the_data(tmp_path, aligned, transferred):
    out = tmp_path / "o.h5ad"
    run("transfer", aligned[0] / "ab.h5ad", "-m", aligned[0] / "ab.npz", "-l", "digit", "-o", out, "-q",
        "--threshold", 0.99)  # fmt: skip
    obs = anndata.read_h5ad(out).obs
    unsure = transferred.confidence < 0.99
    assert (obs["digit_pred"][90:].to_numpy()[unsure] == "unassigned").all()
    assert obs["digit_pred"][:90].isna().all()
    assert unsure.any()


def test_who_gives_labels_and_who_gets_them(tmp_path, digits, home):
    both = [d.copy() for d in digits]
    both[1].obs = both[1].obs.rename(columns={"truth": "digit"})
    for name, data in zip("ab", both, strict=True):
        io.write(data, tmp_path / f"{name}.h5ad")
    files = [tmp_path / "a.h5ad", tmp_path / "b.h5ad"]
    result = run("transfer", *files, "-l", "digit", "--json", *PAPER).json
    assert result["source"] == ["a"]  # both have labels: the first gives
    table = pd.read_csv(tmp_path / "a.labels.csv")
    assert set(table["dataset"]) == {"b"}
    result = run("transfer", *files, "-l", "digit", "--target", "a", "--json", "-f", *PAPER).json
    assert (result["source"], result["rows"]) == (["b"], 90)
    result = run("transfer", *files, "-l", "digit", "-s", "c", "-f", code=2)
    assert "has no 'c'" in result.err
    result = run("transfer", *files, "-l", "digit", "-t", "a", "-t", "b", "-f", code=2)
    assert "keep one as the source of labels" in result.err
    result = run("transfer", *files, "-l", "digit", "-m", tmp_path / "no.npz", "-f", code=2)
    assert "--model: " in result.err
    # Only the first has the column; it cannot be the one that gets it.
    only = [home / "a.h5ad", home / "b.h5ad", "-l", "digit", "-o", tmp_path / "o.csv"]
    result = run("transfer", *only, "-t", "a", *PAPER, code=2)
    assert "--target names every dataset that has labels" in result.err
    for name, data in zip("cd", both, strict=True):
        data.obs["digit"] = pd.Categorical([None] * data.n_obs, categories=["d1"])
        io.write(data, tmp_path / f"{name}.h5ad")
    result = run("transfer", tmp_path / "c.h5ad", tmp_path / "d.h5ad", "-l", "digit", *PAPER, code=2)
    assert "--labels: obs['digit'] has no value in any row" in result.err


def test_labels_that_datasets_share_are_scored(tmp_path, digits):
    both = [d.copy() for d in digits]
    both[1].obs = both[1].obs.rename(columns={"truth": "digit"})
    for name, data in zip("ab", both, strict=True):
        io.write(data, tmp_path / f"{name}.h5ad")
    arguments = ["align", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "--no-report", "--json", "-f", *PAPER]
    found = run(*arguments, "-o", tmp_path / "o.npy", "-l", "digit").json["scores"]
    assert found["label_agreement"] > 0.5
    both[1].obs["digit"] = pd.Categorical([f"other {v}" for v in both[1].obs["digit"]])
    io.write(both[1], tmp_path / "b.h5ad", force=True)
    found = run(*arguments, "-o", tmp_path / "o.npy", "-l", "digit").json["scores"]
    assert "label_agreement" not in found  # no label is in both
    assert "mixing" in found


def test_values_are_carried_over_too(tmp_path, digits):
    whole = anndata.concat([d.copy() for d in digits], label="batch", keys=["a", "b"])
    whole.obs["ink"] = np.where(whole.obs["batch"] == "a", whole.X.sum(axis=1), np.nan)
    io.write(whole, tmp_path / "all.h5ad")
    run(
        "transfer",
        tmp_path / "all.h5ad",
        "-b",
        "batch",
        "-l",
        "ink",
        "-o",
        tmp_path / "o.parquet",
        "-q",
        *PAPER,
    )
    table = pd.read_parquet(tmp_path / "o.parquet")
    assert list(table.columns) == ["dataset", "ink_pred", "ink_spread"]
    model = scverse.align(whole, batch_key="batch", method="paper")
    found = model.transfer(whole.obs["ink"].to_numpy()[:90], source="a", target="b")
    np.testing.assert_array_equal(table["ink_pred"].astype(float), found.values)
    shown = run(
        "transfer", tmp_path / "all.h5ad", "-b", "batch", "-l", "ink", "-o", tmp_path / "o.tsv.gz", *PAPER
    )
    assert "80 rows given values" in shown.out
    np.testing.assert_allclose(pd.read_csv(tmp_path / "o.tsv.gz", sep="\t")["ink_pred"], found.values)


def test_a_model_goes_with_its_data(tmp_path, home, aligned):
    result = run("transfer", home / "a.h5ad", home / "b.h5ad", "-l", "digit", "-m", aligned[0] / "ab.npz",
                 "-o", tmp_path / "o.csv", code=2)  # fmt: skip
    assert "--model goes with data that align wrote" in result.err
    assert not list(tmp_path.iterdir())


def test_correct_equals_the_python_call(tmp_path, aligned, digits):
    data = dict(zip(("a", "b"), [d.copy() for d in digits], strict=True))
    model = scverse.align(data)
    scverse.correct(data, model, reference="b")
    corrected = np.concatenate([data[k].layers["harmonic_corrected"] for k in ("a", "b")])
    source = [aligned[0] / "ab.h5ad", "-m", aligned[0] / "ab.npz", "-r", "b", "-q"]
    run("correct", *source, "-o", tmp_path / "o.h5ad")
    written = anndata.read_h5ad(tmp_path / "o.h5ad")
    np.testing.assert_allclose(written.layers["harmonic_corrected"], corrected, atol=1e-12)
    run("correct", *source, "-o", tmp_path / "o.npz")
    np.testing.assert_array_equal(io.read(tmp_path / "o.npz").X, written.layers["harmonic_corrected"])


def test_correct_several_sparse_files(tmp_path, digits):
    for name, data in zip("ab", digits, strict=True):
        copy = data[:, :40].copy() if name == "b" else data.copy()
        copy.X = sp.csr_matrix(copy.X)
        io.write(copy, tmp_path / f"{name}.h5ad")
    run("correct", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-q")
    written = anndata.read_h5ad(tmp_path / "a.corrected.h5ad")
    assert written.shape == (170, 40)
    assert sp.issparse(written.layers["harmonic_corrected"])
    # The reference, by default the largest, stays as it is.
    np.testing.assert_allclose(
        written.layers["harmonic_corrected"][:90].toarray(), digits[0].X[:, :40], atol=1e-12
    )


def test_compare(tmp_path, aligned, digits):
    both = [d.copy() for d in digits]
    both[1].obs = both[1].obs.rename(columns={"truth": "digit"})
    whole = anndata.concat(both, label="batch", keys=["a", "b"])
    io.write(whole, tmp_path / "all.h5ad")
    arguments = ["compare", tmp_path / "all.h5ad", "-b", "batch", "-l", "digit", "--method", "none"]
    table = run(*arguments, "--method", "default", "-o", tmp_path / "t.csv", "--json").json["table"]
    from harmonicalign.experiments import compare

    again = compare({"a": both[0], "b": both[1]}, "digit", ["none", "default"], n_neighbors=5, random_state=0)
    assert [line["label_agreement"] for line in table] == [line["label_agreement"] for line in again]
    assert table[1]["label_agreement"] > table[0]["label_agreement"]
    assert list(pd.read_csv(tmp_path / "t.csv")["method"]) == ["none", "harmonicalign"]
    shown = run(*arguments).out
    assert "label_agreement" in shown
    assert "none" in shown
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        io.write(mudata.MuData({"a": both[0], "b": both[1]}), tmp_path / "m.h5mu")
    modalities = run("compare", tmp_path / "m.h5mu", "-l", "digit", "--method", "none", "--json").json[
        "table"
    ]
    assert modalities[0]["label_agreement"] == table[0]["label_agreement"]


def test_report_on_a_saved_model(tmp_path, aligned):
    files = [aligned[0] / "ab.npz", aligned[0] / "ab.h5ad", "-o", tmp_path / "r.html"]
    run("report", *files, "-l", "digit", "--title", "Digits & more", "-q")
    page = (tmp_path / "r.html").read_text()
    assert "<title>Digits &amp; more" in page
    assert "digit" in page
    result = run("report", aligned[0] / "ab.npz", "-l", "digit", "-o", tmp_path / "s.html", code=2)
    assert "--labels needs the aligned data" in result.err
    assert "exists" in run("report", aligned[0] / "ab.npz", "-o", tmp_path / "r.html", code=2).err
    shown = run("report", aligned[0] / "ab.npz", "-o", tmp_path / "s.html")  # without the data
    assert f"wrote {tmp_path}/s.html" in shown.out
    assert "Alignment of a and b" in (tmp_path / "s.html").read_text()


def test_reproduce_hands_its_options_on(tmp_path, monkeypatch):
    from harmonicalign import experiments

    seen = {}

    def reproduce(name, **options):
        seen.update(options, name=name)
        return [experiments.Report(name, tmp_path, (tmp_path / "results.csv",), "all is well")]

    monkeypatch.setattr(experiments, "reproduce", reproduce)
    result = run("reproduce", "size", "--quick", "--seeds", 2, "-j", 3, "-o", tmp_path, "--quiet", "--json")
    assert seen["name"] == "size"
    assert (seen["quick"], seen["seeds"], seen["jobs"], seen["progress"]) == (True, 2, 3, False)
    assert result.json["experiments"][0]["folder"] == str(tmp_path)


@pytest.mark.parametrize("debug", [False, True])
def test_what_libraries_deprecate_is_not_shown_to_their_users(debug):
    class Old(UserWarning, DeprecationWarning):
        """As pyparsing's is."""

    session = _session.Session("align", quiet=True, as_json=False, debug=debug)
    with _session._listening(session):
        warnings.warn("old ways", Old, stacklevel=1)
        warnings.warn("look here", UserWarning, stacklevel=1)
    assert session.warned == (["old ways", "look here"] if debug else ["look here"])


def test_reproduce_lists_and_refuses():
    assert "corruption" in run("reproduce").out
    assert "the experiments are corruption" in run("reproduce", "corrupt", code=2).err
    result = run("reproduce", "batch", "--data", "nowhere.fcs", code=2)
    assert result.err.startswith("error: ")


def test_the_demonstration_tells_what_it_wrote(tmp_path, monkeypatch, capsys):
    from harmonicalign import demo

    def smaller(**options):
        return load_digits_pair(**options, n_x=150, n_y=140)

    monkeypatch.setattr(demo, "load_digits_pair", smaller)
    demo.main(["--out", str(tmp_path), "--seed", "3"])
    told = capsys.readouterr().out
    assert told.startswith("Two halves of the digits, 150 and 140 images of 64 pixels;")
    assert "5-nearest-neighbour accuracy" in told
    written = [line.strip() for line in told.splitlines() if line.strip().startswith(str(tmp_path))]
    assert sorted(written) == sorted(str(p) for p in tmp_path.iterdir())
    assert written[-1].endswith("report.html")


@pytest.mark.slow
def test_demo(tmp_path):
    result = run("demo", "-o", tmp_path / "d", "--json").json
    assert result["accuracy"]["aligned"] > 0.9 > result["accuracy"]["unaligned"]
    assert all((tmp_path / "d" / name).is_file() for name in ("before_after.png", "report.html"))
    assert "is not empty" in run("demo", "-o", tmp_path / "d", code=2).err


# ---------------------------------------------------------------------------------------------------------
# info


def test_info_on_files_and_models(home, aligned):
    result = run("info", home / "a.h5ad", aligned[0] / "ab.h5ad", aligned[0] / "ab.npz", "--json").json
    plain, with_results, model = result["files"]
    assert (plain["rows"], plain["columns"], plain["aligned"]) == (90, 64, None)
    assert with_results["aligned"]["datasets"] == ["a", "b"]
    assert with_results["aligned"]["significance"]["tested"] is True
    assert (model["kind"], model["datasets"]) == ("model", {"a": 90, "b": 80})
    assert model["significance"] == aligned[1]["significance"]
    shown = run("info", aligned[0] / "ab.h5ad").out
    assert "obsm: X_harmonic" in shown


def test_info_on_the_published_method_and_on_other_uns(tmp_path, digits):
    first, second = (d.copy() for d in digits)
    first.uns["pca"] = {"variance": np.ones(3)}
    files = [io.write(first, tmp_path / "a.h5ad"), io.write(second, tmp_path / "b.h5ad")]
    run("align", *files, "-o", tmp_path / "o.h5ad", "-m", tmp_path / "m.npz", *QUICK)
    data, model = run("info", files[0], tmp_path / "m.npz", "--json").json["files"]
    assert data["aligned"] is None
    assert "significance" not in model  # which is a matter of the default method
    assert (model["method"], model["datasets"]) == ("paper", {"a": 90, "b": 80})


def test_info_on_broken_files(tmp_path, aligned):
    broken = tmp_path / "m.npz"
    broken.write_bytes((aligned[0] / "ab.npz").read_bytes()[:5000])
    assert "m.npz" in run("info", broken, code=2).err
    np.savez(tmp_path / "d.npz", X=np.ones((3, 2)))
    assert run("info", tmp_path / "d.npz", "--json").json["files"][0]["rows"] == 3


def test_info_on_the_installation():
    result = run("info", "--json").json
    assert result["packages"]["numpy"] == np.__version__
    assert "cpu" in result["devices"]
    assert "fcs" in result["formats"]
    assert "numpy" in run("info").out


def test_info_on_an_installation_without_extras(monkeypatch):
    from harmonicalign.adapters.cli import info

    def version(name):
        if name in ("torch", "dask"):
            raise info.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(info, "version", version)
    monkeypatch.setattr(info, "find_spec", lambda name: None)
    shown = run("info").out
    assert "devices: cpu\n" in shown
    assert re.search(r"not installed: .*dask", shown)
    assert run("info", "--json").json["packages"]["torch"] is None


# ---------------------------------------------------------------------------------------------------------
# bad input: one sentence, exit code 2, nothing written, inputs untouched


@pytest.fixture(scope="module")
def bad(tmp_path_factory, digits):
    """Inputs that are wrong in one way each."""
    folder = tmp_path_factory.mktemp("bad")
    a = digits[0].copy()
    with_nan = a.copy()
    with_nan.X[3, 5] = np.nan
    io.write(with_nan, folder / "nan.h5ad")
    other = a.copy()
    other.var_names = [f"q{i}" for i in range(64)]
    io.write(other, folder / "other.h5ad")
    twice = a.copy()
    twice.var_names = ["p0", "p0", *a.var_names[2:]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twice.write_h5ad(folder / "twice.h5ad")
    one = a.copy()
    one.obs["batch"] = "only"
    io.write(one, folder / "one.h5ad")
    io.write(a[:2].copy(), folder / "few.h5ad")
    halves = a.copy()
    halves.obs["half"] = np.where(np.arange(a.n_obs) % 2, "odd", "even")
    io.write(halves, folder / "halves.h5ad")
    (folder / "cut.h5ad").write_bytes((folder / "one.h5ad").read_bytes()[:20_000])
    (folder / "wrong.h5ad").write_text("a,b\n1,2\n")
    (folder / "links.csv").write_text("x,y\np0,zz\n")
    return folder


BAD = {
    "no such file": (["align", "{a}", "{home}/c.h5ad"], "does not exist; did you mean"),
    "cut short": (
        ["align", "{a}", "{bad}/cut.h5ad"],
        "cut.h5ad cannot be read as HDF5: it is damaged, cut short",
    ),
    "wrong ending": (["align", "{a}", "{bad}/wrong.h5ad"], "wrong.h5ad is not an AnnData file"),
    "nan": (["align", "{a}", "{bad}/nan.h5ad"], "NaN"),
    "no shared names": (["align", "{a}", "{bad}/other.h5ad"], "other"),
    "duplicated names": (["align", "{a}", "{bad}/twice.h5ad"], "not unique"),
    "no shared names, named": (["align", "{a}", "{bad}/other.h5ad"], "other: q0, q1, q2, …"),
    "unknown covariate": (
        ["align", "{a}", "{b}", "--covariate", "digits"],
        "--covariate: obs of a has no 'digits'; did you mean 'digit'?",
    ),
    "covariate of one side": (["align", "{a}", "{b}", "--covariate", "digit"], "obs of b has no 'digit'"),
    "covariate that is the batch": (
        ["align", "{bad}/halves.h5ad", "-b", "half", "--covariate", "half"],
        "--covariate: no level occurs in all datasets",
    ),
    "unknown feature": (["denoise", "{a}", "{b}", "--var", "pp"], "--var: the data has no 'pp'"),
    "parameter of the other method": (
        ["align", "{a}", "{b}", "--method", "paper", "-p", "n_landmarks=100"],
        "--param n_landmarks=100 is for --method refined",
    ),
    "comparison that is none": (
        ["report", "{home}/m.npz", "--comparison", "{bad}/links.csv"],
        "--comparison must be the table",
    ),
    "two rows": (["align", "{a}", "{bad}/few.h5ad"], "at least 3 rows"),
    "one batch": (["align", "{bad}/one.h5ad", "-b", "batch"], "one value only ('only')"),
    "no batch key": (["align", "{bad}/one.h5ad"], "one input needs --batch-key"),
    "unknown batch key": (["align", "{bad}/one.h5ad", "-b", "bach"], "did you mean 'batch'?"),
    "batch key and two": (["align", "{a}", "{b}", "-b", "x"], "--batch-key needs exactly one input"),
    "unknown labels": (["align", "{a}", "{b}", "-l", "digits"], "did you mean 'digit'?"),
    "unknown rep": (["align", "{a}", "{b}", "--use-rep", "X_pca"], "--use-rep: obsm of a has no 'X_pca'"),
    "unknown layer": (["align", "{a}", "{b}", "--layer", "counts"], "--layer: layers of a has no 'counts'"),
    "unknown parameter": (["align", "{a}", "{b}", "-p", "n_bnds=3"], "expected NAME=VALUE"),
    "bad parameter": (["align", "{a}", "{b}", "-p", "n_bands=many"], "--param n_bands must be"),
    "bad method": (
        ["align", "{a}", "{b}", "--method", "best"],
        "--method is 'best'; expected 'refined' or 'paper'",
    ),
    "bad device": (["align", "{a}", "{b}", "--device", "abacus"], "--device is 'abacus'"),
    "bad n_vars": (["align", "{a}", "{b}", "--n-vars", "most"], "--n-vars is 'most'"),
    "no links": (["align", "{a}", "{b}", "--links", "{bad}/none.csv"], "--links: "),
    "no genes": (["align", "{a}", "{b}", "--peaks", "a", "--genes", "{bad}/none.gtf"], "--genes: "),
    "equals sign in a path": (["align", "{a}", "{home}/x=y.h5ad"], "x=y.h5ad does not exist"),
    "links that are no table": (["align", "{a}", "{b}", "--links", "{a}"], "cannot be read as a table"),
    "links to nothing": (["align", "{a}", "{b}", "--links", "{bad}/links.csv"], "none of its 1 pairs"),
    "links of three": (["align", "{a}", "{b}", "{a}", "--links", "{bad}/links.csv"], "there are 3|holds 3"),
    "genes without peaks": (["align", "{a}", "{b}", "--genes", "{bad}/links.csv"], "--genes needs"),
    "unknown ending": (["align", "{a}", "{b}", "-o", "{out}/x.loom"], "says nothing known"),
    "model ending": (["align", "{a}", "{b}", "-m", "{out}/x.pkl"], "--model is"),
    "report ending": (["align", "{a}", "{b}", "--report", "{out}/x.pdf"], "--report is"),
    "one target twice": (["align", "{a}", "{b}", "-o", "{out}/x.npz", "-m", "{out}/x.npz"], "something else"),
    "transfer unknown": (["transfer", "{a}", "{b}", "-l", "digi"], "did you mean 'digit'?"),
    "transfer ending": (["transfer", "{a}", "{b}", "-l", "digit", "-o", "{out}/x.npy"], "labels go into"),
    "correct reference": (["correct", "{a}", "{b}", "-r", "c"], "'c'"),
    "compare labels": (["compare", "{a}", "{b}", "-l", "digit"], "has no column 'digit'"),
    "compare method": (
        ["compare", "{a}", "{b}", "--method", "magic"],
        "--method is 'magic'; expected none",
    ),
    "report on data": (["report", "{a}"], "a.h5ad"),
    "no model": (["report", "{home}/m.npz"], "does not exist"),
    "no label in common": (["compare", "{a}", "{b}", "-l", "x"], "x"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(tmp_path, home, bad, case):
    arguments, message = BAD[case]
    places = {"a": home / "a.h5ad", "b": home / "b.h5ad", "home": home, "bad": bad, "out": tmp_path}
    before = content(home) | content(bad)
    if arguments[0] == "align" and "--report" not in arguments:
        arguments = [*arguments, "--no-report"]
    result = run(*(text.format(**places) for text in arguments), code=2)
    assert content(home) | content(bad) == before
    assert not list(tmp_path.iterdir())
    assert any(part in result.err for part in message.split("|")), result.err
    errors = [line for line in result.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert result.err.strip().splitlines()[-1] == errors[0]  # one line, the last
    assert "Traceback" not in result.err
    assert result.out == ""


def test_targets_are_not_replaced_unasked(tmp_path, home):
    for name in ("o.h5ad", "o.html", "m.npz"):
        (tmp_path / name).write_text("precious")
    arguments = ["align", home / "a.h5ad", home / "b.h5ad", "-q", "-o", tmp_path / "o.h5ad", *PAPER]
    result = run(*arguments, "--no-report", code=2)
    assert (
        result.err.strip()
        == f"error: {tmp_path}/o.h5ad exists; choose another name, or replace it with --force"
    )
    (tmp_path / "o.h5ad").unlink()
    assert "o.html exists" in run(*arguments, code=2).err
    assert "m.npz exists" in run(*arguments, "--no-report", "-m", tmp_path / "m.npz", code=2).err
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"o.html": "precious", "m.npz": "precious"}
    run(*arguments, "-m", tmp_path / "m.npz", "--force")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.npz", "o.h5ad", "o.html"]
    assert (tmp_path / "o.html").read_text() != "precious"


def test_one_failed_result_leaves_none(tmp_path, home, monkeypatch):
    """Data, model and report appear together or not at all."""
    from harmonicalign.adapters.cli import align

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr(align, "write_assessment", full)
    (tmp_path / "m.npz").write_text("precious")
    targets = ["-o", tmp_path / "o.h5ad", "-m", tmp_path / "m.npz"]
    result = run("align", home / "a.h5ad", home / "b.h5ad", *targets, "-f", "-q", *PAPER, code=2)
    assert "o.html was not written: no space is left" in result.err
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"m.npz": "precious"}
    monkeypatch.setattr(harmonicalign.HarmonicAlignment, "save", full)
    result = run("align", home / "a.h5ad", home / "b.h5ad", *targets, "-f", "-q", *PAPER, code=2)
    assert "m.npz was not written: no space is left" in result.err
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"m.npz": "precious"}


def test_a_mistake_of_ours_is_not_put_down_to_the_disk(tmp_path, home, monkeypatch):
    def fail(*args, **kwargs):
        return 1 / 0

    monkeypatch.setattr(harmonicalign.HarmonicAlignment, "save", fail)
    targets = ["-o", tmp_path / "o.h5ad", "-m", tmp_path / "m.npz"]
    result = run("align", home / "a.h5ad", home / "b.h5ad", *targets, *QUICK, code=1)
    assert "unexpected ZeroDivisionError" in result.err
    assert list(tmp_path.iterdir()) == []


def test_an_output_may_replace_its_input(tmp_path, home):
    (tmp_path / "a.h5ad").write_bytes((home / "a.h5ad").read_bytes())
    arguments = ["align", tmp_path / "a.h5ad", home / "b.h5ad", "-o", tmp_path / "a.h5ad", "-f", *QUICK]
    run(*arguments, "--overwrite-input")
    assert anndata.read_h5ad(tmp_path / "a.h5ad").n_obs == 170


# ---------------------------------------------------------------------------------------------------------
# exit codes, output, progress


@pytest.fixture(scope="module")
def unrelated(tmp_path_factory):
    """Two datasets whose columns do not correspond."""
    folder = tmp_path_factory.mktemp("unrelated")
    pair = load_digits_pair(preserved=1.0, n_x=90, n_y=90, random_state=0)
    np.save(folder / "a.npy", pair.x)
    np.save(folder / "b.npy", pair.y[:, np.random.RandomState(0).permutation(64)])
    return folder


def test_chance_is_told_and_strict_leaves_with_3(tmp_path, unrelated):
    arguments = ["align", unrelated / "a.npy", unrelated / "b.npy", "--no-report"]
    result = run(*arguments, "-o", tmp_path / "o.npy", "--json", "--strict", code=3)
    assert result.json["aligned"] is False
    assert result.json["exit_code"] == 3
    assert any("no better than chance" in text for text in result.json["warnings"])
    assert re.search("warning: the alignment is no better than chance", result.err)
    assert (tmp_path / "o.npy").is_file()
    shown = run(*arguments, "-o", tmp_path / "p.npz").out
    assert list(io.read(tmp_path / "p.npz").obs_names[[0, 90]]) == ["0-a", "0-b"]
    assert shown.startswith("Not aligned: no better than chance.")


def test_negated_columns_are_told_and_strict_leaves_with_3(tmp_path):
    pair = load_digits_pair(preserved=1.0, n_x=150, n_y=150, random_state=0)
    np.save(tmp_path / "a.npy", pair.x)
    np.save(tmp_path / "b.npy", -pair.y)
    arguments = ["align", tmp_path / "a.npy", tmp_path / "b.npy", "--no-report"]
    result = run(*arguments, "-o", tmp_path / "o.npy", "--json", "--strict", code=3)
    assert result.json["aligned"] is False
    assert result.json["significance"]["opposed"] is True
    shown = run(*arguments, "-o", tmp_path / "p.npy").out
    assert shown.startswith("Probably not aligned: columns run opposite ways.")
    assert "Negate the columns of one dataset" in shown


def test_doubts_that_the_verdict_does_not_know_are_repeated_with_it(tmp_path):
    pair = load_digits_pair(preserved=1.0, n_x=150, n_y=150, random_state=0)
    np.save(tmp_path / "a.npy", pair.x)
    np.save(tmp_path / "b.npy", pair.y[:, ::-1])
    result = run("align", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "o.npy")
    (doubt,) = re.findall(r"warning: (the columns of .* fit better in reverse order.*)", result.err)
    assert doubt in result.out
    assert any(doubt in text for text in facts_of(tmp_path / "o.html")["verdict"]["checks"])
    assert "no better than chance" not in " ".join(facts_of(tmp_path / "o.html")["verdict"]["checks"])


def test_too_few_columns_are_told_and_strict_leaves_with_3(tmp_path):
    x = np.random.RandomState(0).standard_normal((120, 3))
    for name, rows in (("a", x[::2]), ("b", x[1::2])):
        np.save(tmp_path / f"{name}.npy", rows)
    arguments = ["align", tmp_path / "a.npy", tmp_path / "b.npy", "--no-report"]
    result = run(*arguments, "-o", tmp_path / "o.npy", "--json", "--strict", code=3)
    assert result.json["aligned"] is None
    assert result.json["significance"] == {"z": 0, "p": 1, "tested": False, "opposed": False}
    shown = run(*arguments, "-o", tmp_path / "p.npy").out
    assert shown.startswith("Not tested: whether they are aligned is open.")
    assert "at least five columns" in shown


def test_the_published_method_has_the_same_verdict_as_its_report(tmp_path, home):
    arguments = ["align", home / "a.h5ad", home / "b.h5ad", "--method", "paper", "-o", tmp_path / "o.npz"]
    result = run(*arguments, "--json", "-l", "digit").json
    assert result["verdict"] == facts_of(tmp_path / "o.html")["verdict"]
    assert result["scores"]["p"] < 0.05
    assert "significance" not in result  # which the published method itself does not have


def test_quiet_says_nothing(tmp_path, home):
    result = run("align", home / "a.h5ad", home / "b.h5ad", "-o", tmp_path / "o.npy", *QUICK)
    assert (result.out, result.err) == ("", "")


def test_stages_are_told_where_there_is_no_terminal(tmp_path, home):
    result = run("align", home / "a.h5ad", home / "b.h5ad", "-o", tmp_path / "o.npy", "--no-report")
    stages = [line.split(" (")[0] for line in result.err.splitlines()]
    stages[3:5] = sorted(stages[3:5])  # which run side by side
    assert stages == [
        "reading a.h5ad",
        "reading b.h5ad",
        "64 of 64 shared features are compared",
        "harmonics of dataset 'a'",
        "harmonics of dataset 'b'",
        "alignment of dataset 'b'",
        "joint space",
        "embedding",
        "verdict",
        "writing o.npy",
    ]
    assert result.out.startswith("Aligned.\n  The features agree far better")


def test_errors_for_machines(tmp_path):
    result = run("align", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "--json", code=2)
    assert result.json["status"] == "error"
    assert result.json["exit_code"] == 2
    assert "does not exist" in result.json["error"]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ZeroDivisionError("by zero"), 1, "unexpected ZeroDivisionError: by zero; run again with --debug"),
        (KeyboardInterrupt(), 130, "interrupted; nothing is left half-written"),
        (MemoryError(), 2, "out of memory"),
        (ImportError("this needs x: pip install x"), 2, "this needs x: pip install x"),
        (ImportError("cannot import name"), 1, "unexpected ImportError"),
        (PermissionError(13, "Permission denied", "f.csv"), 2, "f.csv was not written: you may not write"),
        (FileNotFoundError(2, "No such file or directory", "inside"), 1, "unexpected FileNotFoundError"),
        (np.linalg.LinAlgError("SVD did not converge"), 1, "unexpected LinAlgError"),
    ],
)
def test_what_was_not_foreseen(monkeypatch, home, error, code, message):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(io, "read", fail)
    result = run("info", home / "a.h5ad", code=code)
    assert result.err.startswith(f"error: {message}")
    assert len(result.err.splitlines()) == 1


def test_debug_shows_where(monkeypatch, home):
    def fail(*args, **kwargs):
        return 1 / 0

    monkeypatch.setattr(io, "read", fail)
    result = run("info", home / "a.h5ad", "--debug", code=1)
    assert "Traceback" in result.err
    assert "in fail" in result.err


def test_values_from_deep_inside_are_not_called_bad_input(monkeypatch, home):
    monkeypatch.setattr(io, "read", lambda *a, **k: np.ones(3).reshape(2, 2))
    assert "unexpected ValueError" in run("info", home / "a.h5ad", code=1).err


def test_the_log_is_left_as_it_was(home):
    logger = logging.getLogger("harmonicalign")
    before = logger.level, list(logger.handlers)
    run("info", home / "a.h5ad")
    assert (logger.level, list(logger.handlers)) == before


def test_remarks_are_shown_and_warnings_once(tmp_path, home, monkeypatch):
    (tmp_path / "t.csv").write_text("cell,CD3,CD19,type\nc1,1,2,T\nc2,3,4,B\n")
    assert "'type' holds text; such columns describe the rows" in run("info", tmp_path / "t.csv").err
    read = io.read

    def warns(*args, **kwargs):
        logging.getLogger("harmonicalign").warning("beware")
        return read(*args, **kwargs)

    monkeypatch.setattr(io, "read", warns)
    assert run("info", home / "a.h5ad", home / "b.h5ad").err.splitlines() == ["warning: beware"]


def test_markup_in_names_is_shown_not_obeyed(tmp_path):
    result = run("info", tmp_path / "[red]x.h5ad", code=2)
    assert "[red]x.h5ad does not exist" in result.err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_exit_codes(command):
    text = run(command, "--help").out
    assert f"harmonicalign {command}" in text
    assert "Examples" in text
    for code in _session.EXIT_CODES:
        assert f"{code}  " in text


def test_help_version_and_completion():
    text = run("--help").out
    assert all(command in text for command in COMMANDS)
    assert run("--version").out.strip() == f"harmonicalign {harmonicalign.__version__}"
    assert "--show-completion" in text


def test_usage_errors_leave_with_2():
    run("align", code=2)
    run("align", "a", "--no-such-option", code=2)
    run("nothing", code=2)


def test_json_holds_no_nan():
    assert _session.plain({"a": np.float32("nan"), "b": [np.int64(3), (1.5,)], "c": {1: None}}) == {
        "a": None,
        "b": [3, [1.5]],
        "c": {"1": None},
    }
    assert _session.plain({"a": np.array([[1.0, np.inf], [2, 3]])}) == {"a": [[1.0, None], [2.0, 3.0]]}


class TestStages:
    @pytest.mark.parametrize(("n", "method"), [(1, "refined"), (3, "refined"), (5, "refined"), (3, "paper")])
    def test_the_plan_names_what_a_fit_does(self, caplog, rng, n, method):
        from harmonicalign import HarmonicAlignment
        from harmonicalign.adapters.cli._stages import fit_plan

        # Many small datasets would be pooled, and how many groups there are is not known before the fit.
        data = [rng.rand(20 if n <= 3 else 200, 6) for _ in range(n)]
        caplog.set_level(logging.DEBUG, "harmonicalign")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            HarmonicAlignment(method=method, random_state=0).fit(data)
        done = [r.args[0] for r in caplog.records if r.msg == "%s took %.2f s"]
        planned = [name for name, _ in fit_plan(n, method)]
        assert len(done) == len(planned)
        assert all(a.startswith(b) for a, b in zip(done, planned, strict=True))

    def test_time_left_follows_from_the_pace(self):
        from rich.console import Console

        from harmonicalign.adapters.cli._stages import Stages

        stages = Stages(Console(quiet=True), quiet=True)
        stages.expect([("reading", 1.0), ("harmonics", 2.0), ("writing", 1.0)])
        assert stages.left() is None
        stages.ended("reading a", 10.0)
        assert stages.left() == pytest.approx(30.0)
        stages.ended("harmonics of a", 5.0)
        assert stages.left() == pytest.approx(5.0)
        stages.ended("something else", 1.0)
        stages.ended("writing", 1.0)
        assert stages.left() == 0

    def test_a_terminal_gets_a_bar(self):
        from io import StringIO

        from rich.console import Console

        from harmonicalign.adapters.cli._stages import Stages

        screen = StringIO()
        with Stages(Console(file=screen, force_terminal=True, width=100)) as stages:
            stages.expect([("reading", 1.0), ("joint map", 1.0)])
            with stages.stage("reading [x]"):
                pass
            stages.ended("other", 2.0)
            stages.bar.refresh()
            stages.stop()
            stages.stop()
            stages.ended("later", 1.0)
        shown = screen.getvalue()
        assert "joint map" in shown
        assert "50 %" in shown
        assert "left" in shown
