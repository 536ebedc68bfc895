"""Every command line that the documentation, the README and the help show, run as it stands there."""

import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pytest

anndata = pytest.importorskip("anndata")
mudata = pytest.importorskip("mudata")
pd = pytest.importorskip("pandas")
pytest.importorskip("typer")
flowio = pytest.importorskip("flowio")

from simulated_cells import counts, logged  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from harmonicalign.adapters import io  # noqa: E402
from harmonicalign.adapters.cli._app import _EXAMPLES, app  # noqa: E402
from harmonicalign.datasets import load_digits_pair  # noqa: E402

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

# Run elsewhere (the demonstration, the paper's experiments), or nothing to run.
ELSEWHERE = ("demo", "reproduce", "--install-completion", "COMMAND")


def shown():
    """Lines of shell blocks and of the help, without comments, with the page they stand on."""
    found = {}
    for page in PAGES:
        for block in re.findall(r"```(?:sh|bash|console)\n(.*?)```", page.read_text(), re.S):
            for line in block.replace("\\\n", " ").splitlines():
                found.setdefault(line.split(" #")[0].strip().removeprefix("$ "), page.name)
    for command, lines in _EXAMPLES.items():
        for line in lines:
            found.setdefault(line, f"{command} --help")
    return {
        line: page
        for line, page in found.items()
        if line.startswith("harmonicalign ") and "…" not in line and line.split()[1] not in ELSEWHERE
    }


LINES = shown()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Small files of every name that occurs in an example."""
    folder = tmp_path_factory.mktemp("examples")
    a, b = counts(60, 1), counts(55, 2)
    for data in (a, b):
        data.obs["cell_type"] = data.obs["digit"] = data.obs["kind"]
    for name, data in (("a", a), ("ref", a), ("counts", a)):
        io.write(data.copy(), folder / f"{name}.h5ad")
    for name, data in (("b", b), ("query", b), ("new", b), ("more", b)):
        io.write(data.copy(), folder / f"{name}.h5ad")
    io.write(logged(b), folder / "log.h5ad")
    io.write(b[:, :50].copy(), folder / "spatial.h5ad")
    rna = a.copy()
    rna.var_names = ["CD3E", "CD19", "GAD1", "SST", *rna.var_names[4:]]
    io.write(rna, folder / "rna.h5ad")
    whole = anndata.concat([a, b, counts(50, 3)], label="donor", keys=["donor1", "donor2", "donor3"])
    whole.obs["cell_type"] = whole.obs["kind"]
    whole.obs["run"] = whole.obs["plate"] = whole.obs["donor"]
    whole.obs["treatment"] = np.where(np.arange(whole.n_obs) % 3 == 0, "drug", "none")
    whole.var_names = ["CD3E", "CD19", *whole.var_names[2:]]
    whole.obs_names_make_unique()
    io.write(whole, folder / "cells.h5ad")
    io.write(
        anndata.concat([a, b], label="dataset", keys=["a", "b"], index_unique="-"), folder / "joined.h5ad"
    )
    whole.obsm["X_pca"] = np.asarray(whole.X[:, :20].toarray())
    io.write(whole, folder / "big.h5ad")
    protein = pd.DataFrame(b.X.toarray(), index=b.obs_names, columns=[f"P{i}" for i in range(b.n_vars)])
    protein.to_csv(folder / "adt.csv.gz")
    links = pd.DataFrame({"gene": rna.var_names[4:], "protein": protein.columns[4:]})
    links.to_csv(folder / "genes_to_proteins.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        io.write(mudata.MuData({"x": logged(a), "y": logged(b)}), folder / "multi.h5mu")
    np.savez(folder / "data.npz", first=a.X.toarray(), second=b.X.toarray())
    for day, data in ((1, a), (2, b)):
        with open(folder / f"day{day}.fcs", "wb") as out:
            values = data.X.toarray()[:, :12]
            flowio.create_fcs(out, values.ravel().tolist(), [f"marker{i}" for i in range(12)])
    pair = load_digits_pair(preserved=0.5, n_x=60, n_y=60, random_state=0)
    for name, rows in (("clean", pair.x), ("scrambled", pair.y)):
        names = [f"pixel{i}" for i in range(64)]
        pd.DataFrame(rows, columns=names, index=[f"{name}{i}" for i in range(60)]).to_csv(
            folder / f"{name}.csv"
        )
    aligned = [
        "align",
        "ref.h5ad",
        "query.h5ad",
        "--out",
        "aligned.h5ad",
        "--model",
        "model.npz",
        "--no-report",
    ]
    more = ["align", "cells.h5ad", "-b", "donor", "--out", "cells.aligned.h5ad", "--no-report"]
    return folder, [aligned, more]


@pytest.fixture
def here(files, tmp_path, monkeypatch):
    """A folder of its own with the files, so that no example finds what another wrote."""
    folder, _ = files
    for file in folder.iterdir():
        if file.is_file():
            (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    done = CliRunner().invoke(app, [*arguments])
    assert done.exit_code == 0, f"{shlex.join(arguments)}\n{done.stderr}{done.exception or ''}"
    return done


def without(words, option):
    """The words without an option and its value."""
    place = words.index(option)
    return [*words[:place], *words[place + 2 :]]


def test_there_are_examples_of_every_command():
    commands = {line.split()[1] for line in LINES}
    assert {
        "check",
        "align",
        "transfer",
        "map",
        "correct",
        "denoise",
        "impute",
        "report",
        "compare",
    } <= commands
    assert len(LINES) > 25


@pytest.mark.parametrize("line", LINES)
def test_an_example_runs(here, files, line):
    words = shlex.split(line)[1:]
    needs = [word for word in words if word in ("model.npz", "aligned.h5ad", "cells.aligned.h5ad")]
    if needs and words[0] != "align":
        first, batches = files[1]
        steps = [first] if "cells.aligned.h5ad" not in needs else [[*batches, "--model", "model.npz"]]
        for step in steps:
            run(*step, "-q")
    if words[:2] == ["map", "model.npz"] and "--dataset" in words:
        run(
            "align", "cells.h5ad", "-b", "donor", "-o", "ignored.h5ad", "-m", "known.npz", "--no-report", "-q"
        )
        cells = io.read("cells.h5ad")
        io.write(cells[:20].copy(), "more_cells.h5ad")
        words = ["map", "known.npz", "more_cells.h5ad", *words[3:]]
    if "--strict" in words or words[0] == "compare":
        words = [w for w in words if w != "--strict"]  # which is a matter of the data
    if "scanorama" in line or "scvi" in line:
        pytest.skip("the packages of other methods need not be installed")
    if "dask" in words:
        pytest.importorskip("dask.distributed", reason="needs harmonicalign[dask]")
        for name in "ab":
            io.write(logged(io.read(f"{name}.h5ad")), f"{name}.zarr")
    if "--scheduler" in words:
        words = without(words, "--scheduler")  # the address of a cluster that is not there
    run(*words)


def test_the_tutorial_of_the_command_line_runs(monkeypatch):
    """Its hidden code makes the files; `shell` fails where a command does."""
    pytest.importorskip("matplotlib")
    text = (ROOT / "docs" / "tutorials" / "command_line.md").read_text()
    cells = re.findall(r"```\{code-cell\}\n(.*?)```", text, re.S)
    names = {}
    for cell in cells:
        exec(compile(re.sub(r"^:.*\n", "", cell, flags=re.M), "command_line.md", "exec"), names)
    assert (names["folder"] / "later.labels.csv").is_file()
