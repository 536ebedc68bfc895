"""The paper's experiments: the runner, their data, every experiment in its quick form, and `compare`."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from harmonicalign import HarmonicAlignment
from harmonicalign._exceptions import AlignmentWarning
from harmonicalign.datasets import clusters_pair, load_digits_pair
from harmonicalign.experiments import NAMES, DataError, compare, describe, reproduce
from harmonicalign.experiments import _data as data
from harmonicalign.experiments import _paired as paired
from harmonicalign.experiments._runner import Experiment, Outcome, Plan, Summary, run
from harmonicalign.experiments._tables import summarise, to_csv, to_markdown
from harmonicalign.experiments.batch import EXPERIMENT as BATCH
from harmonicalign.experiments.chunks import align_in_chunks
from harmonicalign.experiments.compare import not_installed
from harmonicalign.experiments.corruption import EXPERIMENT as CORRUPTION
from harmonicalign.experiments.corruption import grid
from harmonicalign.experiments.fusion import EXPERIMENT as FUSION
from harmonicalign.experiments.manifolds import EXPERIMENT as MANIFOLDS
from harmonicalign.experiments.multi import EXPERIMENT as MULTI
from harmonicalign.experiments.reconstruction import rebuild
from harmonicalign.experiments.size import EXPERIMENT as SIZE
from harmonicalign.experiments.transfer import EXPERIMENT as TRANSFER
from harmonicalign.metrics import knn_label_agreement

pytest.importorskip("matplotlib", reason="experiments draw figures")

QUICK = Plan(quick=True)


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("HARMONICALIGN_DATA", raising=False)


def lines(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def cell_of(experiment, **wanted):
    """The one quick cell with these parameters."""
    found = [c for c in experiment.cells(QUICK) if all(c[k] == v for k, v in wanted.items())]
    assert len(found) == 1
    return found[0]


# --- the runner -------------------------------------------------------------------------------------------


class Counter:
    """An experiment that notes what it was asked for, and fails where told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def cells(self, plan):
        return [{"x": x, "seed": seed} for seed in plan.repeats(full=3, quick=2) for x in (1, 2, 3)]

    def measure(self, plan, cell):
        (self.folder / f"{cell['x']}-{cell['seed']}-{len(list(self.folder.iterdir()))}").touch()
        if (self.folder.parent / "broken").exists() and cell["x"] == 2:
            raise RuntimeError("power cut")
        return Outcome(
            [{**cell, "value": cell["x"] ** 2 + 0.5 * cell["seed"], "empty": np.nan}], {"x": cell["x"]}
        )

    def outputs(self, rows, extras):
        return {"extra.csv": [extra for _, extra in extras]}

    @property
    def experiment(self):
        summaries = (Summary(("x",), ("value",)),)
        return Experiment("counter", "counts", self.cells, self.measure, summaries, self.outputs)


@pytest.fixture
def counter(tmp_path):
    (tmp_path / "calls").mkdir()
    return Counter(tmp_path / "calls")


def start(counter, out, plan=QUICK, jobs=1):
    experiment = counter.experiment
    return run(experiment, plan, experiment.cells(plan), out, jobs=jobs, progress=False)


def test_a_killed_run_continues_where_it_was(counter, tmp_path):
    (tmp_path / "broken").touch()
    with pytest.raises(RuntimeError, match="power cut") as caught:
        start(counter, tmp_path / "out")
    assert "{'x': 2, 'seed': 0}" in caught.value.__notes__[0]
    assert not (tmp_path / "out" / "results.csv").exists()
    assert len(list((tmp_path / "out" / "cells").iterdir())) == 1
    (tmp_path / "broken").unlink()
    report = start(counter, tmp_path / "out")
    calls = [name.name.split("-")[:2] for name in counter.folder.iterdir()]
    assert calls.count(["1", "0"]) == 1  # the finished cell was not measured again
    assert len(calls) == 7
    assert [row["value"] for row in lines(report.folder / "results.csv")] == [
        "1",
        "4",
        "9",
        "1.5",
        "4.5",
        "9.5",
    ]
    assert json.loads((report.folder / "meta.json").read_text())["measured_now"] == 5


def test_a_second_run_measures_nothing_and_writes_the_same(counter, tmp_path):
    first = start(counter, tmp_path / "out")
    before = {file.name: file.read_bytes() for file in first.files if file.name != "meta.json"}
    start(counter, tmp_path / "out")
    assert len(list(counter.folder.iterdir())) == 6
    assert before == {file.name: file.read_bytes() for file in first.files if file.name != "meta.json"}


def test_damaged_cells_are_measured_again_and_others_are_none_of_its_business(counter, tmp_path):
    start(counter, tmp_path / "out")
    files = sorted((tmp_path / "out" / "cells").iterdir())
    files[0].write_text(files[0].read_text()[:20])
    start(counter, tmp_path / "out", Plan(quick=True, seeds=1))
    start(counter, tmp_path / "out")
    assert len(list(counter.folder.iterdir())) == 7
    assert len(lines(tmp_path / "out" / "results.csv")) == 6


def test_processes_give_what_one_gives(counter, tmp_path):
    one, two = start(counter, tmp_path / "one"), start(counter, tmp_path / "two", jobs=2)
    assert (one.folder / "results.csv").read_text() == (two.folder / "results.csv").read_text()


def test_summary_and_meta(counter, tmp_path):
    report = start(counter, tmp_path / "out")
    assert "| 2 | 4.250 ± 0.354 |" in report.summary
    assert (report.folder / "summary.md").read_text().strip() == report.summary.strip()
    line = lines(report.folder / "summary.csv")[1]
    assert (line["x"], line["value_mean"], line["value_n"]) == ("2", "4.25", "2")
    meta = json.loads((report.folder / "meta.json").read_text())
    assert meta["cells"] == 6
    assert meta["parameters"][0] == {"x": 1, "seed": 0}
    assert {"python", "numpy", "harmonicalign"} <= set(meta["versions"])
    assert meta["machine"]["cores"] >= 1
    assert len(meta["code"]) == 1


def test_progress_goes_to_standard_error(counter, tmp_path, capsys):
    experiment = counter.experiment
    run(experiment, QUICK, experiment.cells(QUICK), tmp_path / "out", jobs=1, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "counter: 6 of 6 cells" in shown.err


def test_tables():
    rows = [{"method": m, "k": k, "a": v} for m, k, v in (("p", 1, 1.0), ("p", 1, 3.0), ("q", 2, 5.0))]
    rows += [{"method": "q", "k": 1, "a": None}, {"method": "q", "b": 1.0}]
    table = summarise(rows, ("k", "method"), ("a",))
    assert [line.get("a_mean") for line in table] == [2.0, 5.0]
    text = to_markdown(table, ("k", "method"), ("a",), 1)
    assert text.split("\n")[2:] == [
        "| k | p | q |",
        "| --- | --- | --- |",
        "| 1 | 2.0 ± 1.4 |  |",
        "| 2 |  | 5.0 |",
    ]
    assert to_csv(rows).split("\n")[0] == "method,k,a,b"


# --- reproduce: names, data, errors -----------------------------------------------------------------------


def test_every_experiment_is_described():
    assert (*describe(), "all") == NAMES
    assert all(len(text) > 20 for text in describe().values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "corrupt"}, "name is 'corrupt'; the experiments are corruption, reconstruction"),
        ({"name": "size", "data": "no/such/mnist.npz"}, r"no/such/mnist.npz does not exist.*openml.*--quick"),
        ({"name": "batch"}, r"cytof_shaham.npz was not found.*BatchEffectRemoval.*--quick"),
        ({"name": "fusion"}, r"citeseq_citefuse.npz was not found.*GSE126310.*--quick"),
        ({"name": "batch", "data": ["a.fcs", "b.fcs"]}, r"a.fcs does not exist.*BatchEffectRemoval"),
        ({"name": "multi", "quick": True, "seeds": 0}, "seeds"),
        ({"name": "multi", "quick": True, "jobs": 0}, "jobs"),
        ({"name": "multi", "quick": True, "data": "x"}, "leave out data, or quick"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_written(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        reproduce(**arguments, out=tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()


def test_out_must_be_a_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="which is a file"):
        reproduce("chunks", quick=True, out=tmp_path / "file")


def test_mnist_is_checked(tmp_path):
    np.savez(tmp_path / "mnist.npz", X=np.zeros((5000, 10), np.uint8), y=np.zeros(5000))
    with pytest.raises(DataError, match=r"square images.*\(5000, 10\)"):
        reproduce("size", data=tmp_path / "mnist.npz", out=tmp_path / "out")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(DataError, match="MNIST cannot be read"):
        reproduce("size", data=tmp_path / "text.npz", out=tmp_path / "out")


def test_data_sets_are_found_by_folder_file_and_environment(tmp_path, monkeypatch):
    file = tmp_path / "mnist" / "mnist.npz"
    file.parent.mkdir()
    file.touch()
    for named in (tmp_path, file, file.parent):
        assert data.npz_file(Plan(data=(str(named),)), "mnist/mnist.npz", "") == file
    monkeypatch.setenv("HARMONICALIGN_DATA", str(tmp_path))
    assert data.npz_file(Plan(), "mnist/mnist.npz", "") == file


def test_pairs_are_disjoint_and_always_the_same():
    rows = [np.concatenate(data.sample_rows(QUICK, pair, (300, 250))) for pair in range(3)]
    assert len(np.unique(np.concatenate(rows))) == 3 * 550
    again = data.sample_rows(QUICK, 1, (300, 250))
    np.testing.assert_array_equal(np.concatenate(again), rows[1])
    beyond = np.concatenate(data.sample_rows(QUICK, 3, (300, 250)))  # no rows are left: drawn anew
    assert len(np.unique(beyond)) == 550
    assert not np.array_equal(beyond, rows[0])


def test_corrupted_digits_keep_the_named_share():
    pair = data.corrupted_digits(QUICK, 0, 20, 30, 0.25)
    assert pair.preserved.sum() == 16
    np.testing.assert_allclose(pair.y, pair.y_clean @ pair.matrix)
    np.testing.assert_allclose(pair.y[:, pair.preserved], pair.y_clean[:, pair.preserved])
    other = data.corrupted_digits(QUICK, 0, 20, 30, 0.25, matrix=1)
    np.testing.assert_array_equal(other.x, pair.x)
    assert not np.allclose(other.y, pair.y)


# --- the experiments --------------------------------------------------------------------------------------


def by_method(outcome, value="accuracy", **wanted):
    rows = [r for r in outcome.rows if value in r and all(r[k] == v for k, v in wanted.items())]
    return {row["method"]: row[value] for row in rows}


def test_corruption_measures_every_method_on_the_same_pair():
    cells = [c for c in CORRUPTION.cells(QUICK) if (c["percent"], c["pair"]) == (35, 0)]
    found = {}
    for cell in cells:
        found |= by_method(CORRUPTION.measure(QUICK, cell))
    assert set(found) == {"none", "mnn", "default", *(f"paper, ℓ = {n}" for n in (2, 4, 8, 64))}
    assert found["default"] > found["none"] + 0.3
    pair = data.corrupted_digits(QUICK, 0, cells[0]["size"], cells[0]["size"], 0.35, 0)
    x, y = HarmonicAlignment(method="paper", random_state=0).fit_transform([pair.x, pair.y])
    assert found["paper, ℓ = 8"] == knn_label_agreement(x, pair.labels_x, y, pair.labels_y)


def test_full_corruption_is_the_papers():
    cells = grid(Plan(), "mnist")
    assert len(cells) == 21 * 3 * 3 * 4
    assert {c["percent"] for c in cells} == set(range(0, 101, 5))
    assert {c["size"] for c in cells} == {1000}


def test_rebuild_averages_the_commonest_kind():
    clean = np.arange(12.0)[:, None]
    labels = np.array([0] * 7 + [1] * 5)
    images = np.column_stack([clean[:, 0], labels])
    rebuilt, kinds = rebuild(clean, np.array([[0.0], [11.0]]), images, labels)
    # of rows 0 … 9 seven are of kind 0; of rows 2 … 11 five of each, and the lower kind is taken
    np.testing.assert_array_equal(kinds, [0, 0])
    np.testing.assert_allclose(rebuilt, [[3.0, 0.0], [4.0, 0.0]])


def test_one_chunk_is_no_cutting_and_rows_keep_their_order():
    pair = load_digits_pair(0.5, n_x=150, n_y=150, random_state=0)
    whole = align_in_chunks([pair.x, pair.y], 150, 30, random_state=0)
    other = align_in_chunks([pair.x, pair.y], 999, 30, random_state=7)
    for a, b in zip(whole, other, strict=True):  # another order of the same rows: same distances
        np.testing.assert_allclose(
            np.linalg.norm(a - a[0], axis=1), np.linalg.norm(b - b[0], axis=1), atol=1e-6
        )
    model = HarmonicAlignment(method="paper", frame="common", n_harmonics=30, calibrate=True, random_state=0)
    z = model.fit_transform([pair.x, pair.y])
    np.testing.assert_allclose(
        np.linalg.norm(whole[1] - whole[1][0], axis=1), np.linalg.norm(z[1] - z[1][0], axis=1), atol=1e-6
    )


def test_chunks_align():
    pair = load_digits_pair(0.75, n_x=600, n_y=600, random_state=0)
    z = align_in_chunks([pair.x, pair.y], 200, 40)
    assert [len(rows) for rows in z] == [600, 600]
    assert z[0].shape[1] == z[1].shape[1] == 40
    assert knn_label_agreement(z[0], pair.labels_x, z[1], pair.labels_y) > 0.6
    assert knn_label_agreement(z[0][:300], pair.labels_x[:300], z[0][300:], pair.labels_x[300:]) > 0.8


def test_multi_blocks_widen_and_the_common_frame_does_not():
    def width(method, n):
        row = MULTI.measure(QUICK, cell_of(MULTI, method=method, datasets=n)).rows[0]
        assert 0 < row["from_clean"] <= 1
        return row["width"]

    assert width("paper, blocks", 4) == 2 * width("paper, blocks", 2)
    assert width("paper, common frame", 4) == width("paper, common frame", 2)


def test_manifolds_default_is_below_unaligned():
    # One draw of 200 points says little, hence three manifolds.
    names = ("Swiss roll", "tree", "sphere")
    outcomes = {
        method: [
            MANIFOLDS.measure(QUICK, cell_of(MANIFOLDS, manifold=m, density=1.0, noise=0.1, method=method))
            for m in names
        ]
        for method in ("none", "default", "procrustes")
    }
    mean = {
        method: np.mean([by_method(o, "error")[method] for o in each]) for method, each in outcomes.items()
    }
    assert mean["default"] < 0.7 * mean["none"]
    assert mean["procrustes"] < 0.15
    assert len(outcomes["default"][0].extra["after"][1]) == 200
    assert not outcomes["none"][0].extra


def test_size_and_transfer_keep_magans_training():
    pytest.importorskip("torch", reason="MAGAN is trained with torch")
    outcome = SIZE.measure(QUICK, cell_of(SIZE, method="magan", size=100))
    curves = outcome.extra["curves"]["reconstruction"]
    assert len(curves) == len(outcome.extra["iteration"]) == 100
    assert outcome.extra["iteration"][-1] == 250
    assert curves[-1] < 0.5 * curves[0]
    rows = TRANSFER.measure(QUICK, cell_of(TRANSFER, method="default", target=300, pair=0)).rows
    scores = {row["classifier"]: row["accuracy"] for row in rows if "classifier" in row}
    assert scores["knn"] > 0.5
    assert scores["svm"] > 0.5


def test_batch_distance_falls():
    outcome = BATCH.measure(QUICK, BATCH.cells(QUICK)[1])
    left = {row["compared"]: row["share_left"] for row in outcome.rows if "compared" in row}
    assert left["aligned (default), denoised, against each batch denoised alone"] < 0.2
    assert left["aligned (default), corrected, against raw"] < 0.5
    emd = [row["emd"] for row in outcome.rows if row.get("stage") == "raw"]
    assert len(emd) == 15
    assert len(outcome.extra["markers"]) == 2


def test_fusion_shared_signals_beat_separate_decompositions():
    rows = {}
    for form in ("independent", "shared", "noisy", "pairs 10", "pairs 50"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AlignmentWarning)
            outcome = FUSION.measure(QUICK, cell_of(FUSION, form=form, method="default"))
        rows[form] = next(row for row in outcome.rows if row.get("percent") == 5)
        score = outcome.rows[-1]
        assert 0 <= score["p"] <= 1
        rows[form]["foscttm"] = score["foscttm"]
    assert rows["shared"]["overlap"] > 3 * rows["shared"]["by_chance"]
    assert rows["shared"]["beyond_chance"] > 3 * rows["independent"]["beyond_chance"]
    assert rows["shared"]["by_chance"] == pytest.approx(0.05, abs=0.02)
    assert rows["shared"]["foscttm"] < 0.15 < rows["independent"]["foscttm"]
    assert rows["shared"]["foscttm"] < rows["noisy"]["foscttm"] < rows["independent"]["foscttm"]
    assert rows["pairs 50"]["foscttm"] < rows["pairs 10"]["foscttm"] < 0.2


def test_fusion_by_shape_needs_nothing_known():
    score = FUSION.measure(QUICK, cell_of(FUSION, form="independent", method="shape")).rows[-1]
    assert 0 <= score["foscttm"] <= 1
    assert "p" not in score


def test_a_quick_run_writes_tables_and_figures(tmp_path):
    reports = [
        reproduce(n, quick=True, seeds=1, out=tmp_path, progress=False)[0]
        for n in ("chunks", "reconstruction")
    ]
    for report, figure in zip(reports, ("chunks.png", "reconstruction.png"), strict=True):
        names = {file.name for file in report.files}
        assert names == {"results.csv", "summary.csv", "summary.md", "meta.json", figure}
        assert (report.folder / figure).read_bytes()[:4] == b"\x89PNG"
        assert not [file for file in report.folder.iterdir() if file.name.startswith(".")]
    errors = {row["space"]: float(row["rmse"]) for row in lines(reports[1].folder / "results.csv")}
    assert errors["uncorrupted"] < errors["default"] < errors["unaligned"]


@pytest.mark.slow
def test_all_quick(tmp_path):
    reports = reproduce("all", quick=True, out=tmp_path, progress=False)
    assert [report.name for report in reports] == list(NAMES[:-1])
    for report in reports:
        figures = [file for file in report.files if file.suffix == ".png"]
        assert figures
        assert all(file.stat().st_size > 10_000 for file in figures)
        assert len(lines(report.folder / "results.csv")) > 3


# --- files of the user ------------------------------------------------------------------------------------


@pytest.fixture
def batches(tmp_path):
    pytest.importorskip("anndata", reason="files are read into AnnData")
    from harmonicalign.experiments.batch import simulated

    x, y, markers = simulated(0, n=200, n_markers=8)
    paths = []
    for name, values, columns in (("a", x, markers), ("b", y[:, ::-1], markers[::-1])):
        path = tmp_path / f"{name}.csv"
        table = [[f"cell {i}", *row] for i, row in enumerate(values)]
        with path.open("w", newline="") as stream:
            csv.writer(stream).writerows([["cell", *columns], *table])
        paths.append(str(path))
    return paths


def test_batch_takes_files_and_matches_their_markers(batches, tmp_path):
    [report] = reproduce(
        "batch", data=batches, out=tmp_path / "out", progress=False, markers=("marker 2", "marker 5")
    )
    rows = [row for row in lines(report.folder / "results.csv") if row["stage"] == "raw"]
    assert [row["marker"] for row in rows] == [f"marker {j + 1}" for j in range(8)]
    assert rows[0]["pair"] == "a / b"
    [kept] = [json.loads(f.read_text()) for f in (report.folder / "cells").iterdir()]
    assert kept["extra"]["markers"] == ["marker 2", "marker 5"]


@pytest.mark.parametrize("what", ["one", "no shared", "unknown marker", "one marker", "no table", "absent"])
def test_batch_files_that_do_not_fit(what, batches, tmp_path):
    markers = ()
    if what == "one":
        batches, message = batches[:1], "data names one file"
    elif what == "no shared":
        text = Path(batches[1]).read_text()
        Path(batches[1]).write_text(text.replace("marker", "antibody", 8))
        message = r"a.csv and b.csv share 0 marker\(s\)"
    elif what == "unknown marker":
        markers, message = ("marker 1", "IFNg"), "two that all files share, found marker 1, IFNg"
    elif what == "one marker":
        markers, message = ("marker 1",), "two that all files share"
    elif what == "no table":
        Path(batches[1]).write_bytes(bytes(range(256)) * 20)
        message = "b.csv cannot be read"
    else:
        batches, message = [batches[0], str(tmp_path / "c.csv")], "c.csv does not exist"
    with pytest.raises(DataError, match=message):
        reproduce("batch", data=batches, markers=markers, out=tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()


def multiome(n=80):
    anndata = pytest.importorskip("anndata", reason="paired data are AnnData files")
    rng = np.random.default_rng(0)
    kinds = rng.integers(3, size=n)
    rates = rng.gamma(1.0, 4.0, size=(3, 12))
    rna = anndata.AnnData(rng.poisson(rates[kinds]).astype(np.float32))
    rna.var_names = [f"Gene{j}" for j in range(12)]
    peaks = rng.poisson(np.repeat(rates[kinds], 2, axis=1) / 2).astype(np.float32)
    atac = anndata.AnnData(peaks)
    atac.var_names = [f"chr1:{j}" for j in range(24)]
    atac.var["gene_name"] = np.repeat([f"GENE{j}" for j in range(12)], 2)
    for table in (rna, atac):
        table.obs_names = [f"cell {i}" for i in range(n)]
    return rna, atac


def test_paired_files_give_gene_activity_by_name(tmp_path):
    rna, atac = multiome()
    shuffled = atac[np.random.default_rng(1).permutation(80)].copy()
    rna.write_h5ad(tmp_path / "rna.h5ad")
    shuffled.write_h5ad(tmp_path / "atac.h5ad")
    pair = paired.from_files((str(tmp_path / "rna.h5ad"), str(tmp_path / "atac.h5ad")), 0)
    assert pair.n_links == 12
    assert pair.x.shape == (72, 11)  # nine tenths of the cells, one component less than genes
    agree = [np.corrcoef(a, b)[0, 1] for a, b in zip(*(s.T for s in pair.signals), strict=True)]
    assert np.mean(agree) > 0.25  # rows are matched by name whatever their order in the files


def test_paired_files_from_one_h5mu_and_without_shared_names(tmp_path):
    mudata = pytest.importorskip("mudata", reason="h5mu files are read by mudata")
    rna, atac = multiome()
    del atac.var["gene_name"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # mudata announces its next version
        mudata.MuData({"rna": rna, "atac": atac}).write_h5mu(tmp_path / "pair.h5mu")
        plan = Plan(data=(str(tmp_path / "pair.h5mu"),))
        assert paired.from_files(plan.data, 0).signals is None
        cells = FUSION.cells(plan)
        rows = FUSION.measure(plan, next(c for c in cells if c["method"] == "mnn")).rows
    assert {cell["form"] for cell in cells} == {"independent", "pairs 10", "pairs 50"}
    assert {cell["set"] for cell in cells} == {"pair.h5mu"}
    assert all(0 <= row["overlap"] <= 1 for row in rows if "overlap" in row)


def test_unpaired_files_are_refused(tmp_path):
    rna, atac = multiome()
    atac.obs_names = [f"other {i}" for i in range(80)]
    rna.write_h5ad(tmp_path / "rna.h5ad")
    atac.write_h5ad(tmp_path / "atac.h5ad")
    with pytest.raises(DataError, match="share 0 cells by name"):
        reproduce("fusion", data=[tmp_path / "rna.h5ad", tmp_path / "atac.h5ad"], out=tmp_path / "out")
    with pytest.raises(DataError, match="1 modalities were found"):
        reproduce("fusion", data=tmp_path / "rna.h5ad", out=tmp_path / "out")
    (tmp_path / "rna.h5ad").write_text("no file")
    with pytest.raises(DataError, match="cannot be read"):
        reproduce("fusion", data=[tmp_path / "rna.h5ad", tmp_path / "atac.h5ad"], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_paired_data_sets(data_dir):
    """The sets that are there: rows are the same cells, and linked columns do agree over the pairing."""
    plan = Plan(data=(str(data_dir),))
    try:
        names = paired.there(plan)
    except DataError as error:
        pytest.skip(str(error))
    for name in sorted({"CITE-seq", "scGEM"} & set(names)):
        pair = paired.load(plan, name, 0)
        assert len(pair.x) == len(pair.y)
        agree = [np.corrcoef(a, b)[0, 1] for a, b in zip(*(s.T for s in pair.signals), strict=True)]
        assert np.mean(agree) > 0.1, name


# --- compare ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shifted():
    return clusters_pair(120, 110, n_clusters=5, only_x=0, only_y=0, n_features=20, random_state=0)


def test_compare_ranks_methods():
    pair = load_digits_pair(0.35, n_x=200, n_y=200, random_state=0)
    table = compare([pair.x, pair.y], [pair.labels_x, pair.labels_y], ["none", "mnn", "default"])
    assert [line["method"] for line in table] == ["none", "mnn", "harmonicalign"]
    assert table[2]["label_agreement"] > table[0]["label_agreement"] + 0.2
    assert table[2]["mixing"] > table[0]["mixing"]
    assert all(line["seconds"] >= 0 and line["note"] == "" for line in table)
    assert 0 <= table[2]["p"] <= 1
    assert table[0]["p"] is None


def test_compare_takes_all_that_is_installed(shifted):
    table = compare([shifted.x, shifted.y])
    methods = {line["method"] for line in table if not line["note"]}
    assert {"none", "mnn", "paper", "harmonicalign"} <= methods
    lacking = {line["method"]: line["note"] for line in table if line["note"]}
    assert lacking == not_installed()
    assert all("pip install" in note for note in lacking.values())
    assert "magan" not in methods
    assert "cca" not in methods


def test_compare_scores_only_labels_that_can_be_known(shifted):
    labels = [shifted.labels_x.astype(str), shifted.labels_y.astype(str)]
    labels[1][shifted.labels_y == 0] = "new"
    table = compare({"a": shifted.x, "b": shifted.y}, {"a": labels[0], "b": labels[1]}, ["default"])
    assert table[0]["label_agreement"] > 0.8


def test_compare_sees_that_shifted_batches_do_not_mix(shifted):
    apart, mixed = compare([shifted.x, shifted.y], methods=["none", "default"])
    assert apart["mixing"] < 0.3 < 0.6 < mixed["mixing"]
    assert apart["label_agreement"] is None


def test_compare_matches_columns_by_name_and_reads_labels(shifted, tmp_path):
    anndata = pytest.importorskip("anndata", reason="AnnData in, and files")
    tables = []
    for values, labels, order in ((shifted.x, shifted.labels_x, 1), (shifted.y, shifted.labels_y, -1)):
        table = anndata.AnnData(values[:, ::order].astype(np.float64))
        table.var_names = [f"g{j}" for j in range(20)][::order]
        table.obs_names = [f"c{i}" for i in range(len(values))]
        table.obs["kind"] = [f"k{c}" for c in labels]
        tables.append(table)
    plain = compare([shifted.x, shifted.y], [shifted.labels_x, shifted.labels_y], ["mnn"])[0]
    named = compare(tables, "kind", ["mnn"])[0]
    assert named["label_agreement"] == plain["label_agreement"]
    assert named["columns"] == 20
    tables[0].write_h5ad(tmp_path / "a.h5ad")
    tables[1].write_h5ad(tmp_path / "b.h5ad")
    read = compare([tmp_path / "a.h5ad", tmp_path / "b.h5ad"], "kind", ["mnn"])[0]
    assert read["label_agreement"] == plain["label_agreement"]
    with pytest.raises(DataError, match=r"no column 'type' in its \.obs; it has kind"):
        compare(tables, "type", ["none"])
    tables[1].var_names = [f"h{j}" for j in range(20)]
    with pytest.raises(DataError, match=r"share 0 column\(s\).*g0.*h0"):
        compare(tables, "kind", ["none"])


def test_compare_goes_on_past_a_method_that_cannot(shifted):
    table = compare([shifted.x, shifted.y, shifted.x + 1], methods=["wang", "none"])
    assert "exactly 2" in table[0]["note"]
    assert table[0]["mixing"] is None
    assert table[1]["mixing"] is not None


def test_compare_refuses_what_cannot_be_scored(shifted):
    with pytest.raises(ValueError, match="methods has 'magic'; expected none, mnn"):
        compare([shifted.x, shifted.y], methods=["magic"])
    with pytest.raises(ValueError, match="pass two or more"):
        compare([shifted.x])
    with pytest.raises(ValueError, match="pass a list or dict"):
        compare(shifted.x)
    with pytest.raises(ValueError, match="labels of dataset 1 have shape"):
        compare([shifted.x, shifted.y], [shifted.labels_x, shifted.labels_x])
    with pytest.raises(DataError, match="no label occurs in two"):
        compare([shifted.x, shifted.y], [["a"] * 120, ["b"] * 110])
    with pytest.raises(DataError, match=r"has no .obs"):
        compare([shifted.x, shifted.y], "kind")
    with pytest.raises(ValueError, match="NaN"):
        compare([np.where(shifted.x > 1, np.nan, shifted.x), shifted.y], methods=["none"])
