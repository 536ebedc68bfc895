"""``align --engine dask``: the same as in memory, from files to a file, block by block."""

import json

import numpy as np
import pytest

pytest.importorskip("dask.array", reason="needs harmonicalign[dask]")
zarr = pytest.importorskip("zarr", reason="needs harmonicalign[dask]")
pytest.importorskip("typer", reason="needs harmonicalign[cli]")

from typer.testing import CliRunner  # noqa: E402

from harmonicalign import HarmonicAlignment  # noqa: E402
from harmonicalign.adapters.cli import application  # noqa: E402
from harmonicalign.adapters.distributed import open_lazy  # noqa: E402
from harmonicalign.datasets import load_digits_pair  # noqa: E402

pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def pair():
    return load_digits_pair(preserved=0.5, n_x=200, n_y=180, random_state=0)


@pytest.fixture
def stores(pair, tmp_path):
    paths = []
    for name, rows in (("one", pair.x), ("two", pair.y)):
        group = zarr.create_group(str(tmp_path / f"{name}.zarr"))
        for key, values in (("X", rows), ("obsm/X_half", rows[:, ::2])):
            parent, _, last = key.rpartition("/")
            into = group.require_group(parent) if parent else group
            into.create_array(last, shape=values.shape, chunks=(50, values.shape[1]), dtype=values.dtype)[
                :
            ] = values
        paths.append(tmp_path / f"{name}.zarr")
    return paths


def align(*arguments):
    return CliRunner().invoke(application(), ["align", *map(str, arguments)])


def test_files_are_aligned_block_by_block_as_in_memory(pair, stores, tmp_path):
    done = align(*stores, "--engine", "dask", "--model", tmp_path / "m.npz", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["datasets"] == {"one": 200, "two": 180}
    out = tmp_path / "one.aligned.zarr"
    found = {name: open_lazy(out, name).compute() for name in ("one", "two")}
    expected = HarmonicAlignment(random_state=0).fit({"one": pair.x, "two": pair.y})
    assert told["coordinates"] == expected.embedding_[0].shape[1]
    for name, z in zip(expected.keys_, expected.embedding_, strict=True):
        np.testing.assert_allclose(found[name], z, atol=1e-4 * np.abs(z).max())
    model = HarmonicAlignment.load(tmp_path / "m.npz")
    np.testing.assert_allclose(model.embedding_[1], expected.embedding_[1], atol=1e-8)


def test_a_representation_is_read_instead(pair, stores, tmp_path):
    out = tmp_path / "half.zarr"
    done = align(*stores, "--engine", "dask", "--use-rep", "X_half", "--out", out)
    assert done.exit_code == 0, done.output
    halves = {"one": open_lazy(stores[0], "obsm/X_half"), "two": open_lazy(stores[1], "obsm/X_half")}
    assert halves["one"].shape == (200, 32)
    expected = HarmonicAlignment(random_state=0).fit(halves).embedding_[0].compute()
    np.testing.assert_allclose(open_lazy(out, "one").compute(), expected, atol=1e-4 * np.abs(expected).max())
    again = align(*stores, "--engine", "dask", "--use-rep", "X_half", "--out", out)
    assert again.exit_code == 2
    assert "--force" in again.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "spark"], "expected 'memory' or 'dask'"),
        (["--scheduler", "tcp://localhost:1"], "--scheduler needs --engine dask"),
        (
            ["--engine", "dask", "--labels", "digit", "--normalize", "all"],
            "does not use --labels, --normalize",
        ),
        (["--engine", "dask", "--use-rep", "X_half", "--layer", "raw"], "give one of them"),
        (["--engine", "dask", "--out", "z.h5ad"], "must end in .zarr"),
        (["--engine", "dask", "--use-rep", "X_none"], "has no 'obsm/X_none'"),
    ],
)
def test_what_does_not_fit_is_said(stores, options, message):
    done = align(*stores, *options)
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.output.split())


def test_tables_are_not_read_in_blocks(stores, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    done = align(stores[0], tmp_path / "t.csv", "--engine", "dask")
    assert done.exit_code == 2
    assert "cannot be read block by block" in " ".join(done.output.split())
    assert "two or more" in " ".join(align(stores[0], "--engine", "dask").output.split())
