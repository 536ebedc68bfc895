"""Files by somebody who means harm: refused before they read other files, hang or take the memory."""

import gzip
import os
import shutil
import sys
import tracemalloc

import numpy as np
import pytest

anndata = pytest.importorskip("anndata")
h5py = pytest.importorskip("h5py")
pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
zarr = pytest.importorskip("zarr")

from harmonicalign.adapters import io  # noqa: E402
from harmonicalign.adapters.io import DataFileError, _limits, _scverse, _survey  # noqa: E402

posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices are a matter of POSIX")


@pytest.fixture
def here(monkeypatch):
    """Files are looked through in this process, which is quicker, and where coverage sees it."""
    monkeypatch.setattr(sys, "executable", "")


@pytest.fixture
def victim(tmp_path, here):
    """An h5ad file of six rows to tamper with, and the attributes of its matrix."""
    path = io.write(anndata.AnnData(np.eye(6)), tmp_path / "d.h5ad")
    with h5py.File(path) as file:
        return path, dict(file["X"].attrs)


def replaced(victim, make):
    """The file with another matrix."""
    path, attributes = victim
    with h5py.File(path, "a") as file:
        del file["X"]
        make(file)
        if isinstance(file.get("X", getlink=True), h5py.HardLink):
            file["X"].attrs.update(attributes)
    return path


# --- other files of the machine -----------------------------------------------------------------------------


def test_numbers_stored_in_another_file(tmp_path, victim):
    secret = tmp_path / "secret"
    secret.write_bytes(np.arange(36.0).tobytes())
    path = replaced(victim, lambda f: f.create_dataset("X", (6, 6), "f8", external=[(str(secret), 0, 288)]))
    with pytest.raises(
        DataFileError, match=r"would read other files of this machine: /X is stored in .*secr"
    ):
        io.read(path)
    np.testing.assert_array_equal(io.read(path, trusted=True).X.ravel(), np.arange(36))


def test_a_link_to_another_file(tmp_path, victim):
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other.create_dataset("s", data=np.full((6, 6), 42.0)).attrs.update(victim[1])
    path = replaced(victim, lambda f: f.__setitem__("X", h5py.ExternalLink("other.h5", "s")))
    with pytest.raises(DataFileError, match=r"/X is a link to s in the file other\.h5; .*trusted=True"):
        io.read(path)
    assert io.read(path, trusted=True).X[0, 0] == 42


def virtual(name, source="s"):
    def make(file):
        layout = h5py.VirtualLayout((6, 6), "f8")
        layout[:] = h5py.VirtualSource(name, source, (6, 6))
        file.create_virtual_dataset("X", layout, fillvalue=7)

    return make


def test_a_virtual_array_of_another_file(tmp_path, victim):
    path = replaced(victim, virtual(str(tmp_path / "other.h5")))
    with pytest.raises(DataFileError, match=r"/X is made of s in the file .*other\.h5"):
        io.read(path)
    # HDF5 reads what is missing as the fill value, without a word.
    with pytest.raises(DataFileError, match=r"/X is made of the file .*other\.h5, which is missing"):
        io.read(path, trusted=True)
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["t"] = np.ones((6, 6))
    with pytest.raises(DataFileError, match=r"made of s in .*other\.h5, which is missing"):
        io.read(path, trusted=True)
    with h5py.File(tmp_path / "other.h5", "a") as other:
        other["s"] = np.full((6, 6), 3.0)
    assert io.read(path, trusted=True).X[0, 0] == 3


def test_a_virtual_array_of_its_own_file(victim):
    path = replaced(victim, virtual(".", "gone"))
    with pytest.raises(DataFileError, match=r"/X is made of gone, which is missing"):
        io.read(path)
    with h5py.File(path, "a") as file:
        file["gone"] = np.full((6, 6), 5.0)
    with h5py.File(path) as file:  # anndata does not know the array, but X is whole now
        assert _survey.survey(str(path))["broken"] == []


@pytest.mark.parametrize("what", ["chunk", "folder"])
def test_links_in_a_zarr_store(tmp_path, what):
    store = io.write(anndata.AnnData(np.eye(6)), tmp_path / "d.zarr")
    chunk = next(p for p in (store / "X").rglob("*") if p.is_file() and not p.name.startswith((".", "zarr")))
    moved = chunk if what == "chunk" else store / "X"
    shutil.move(moved, tmp_path / "elsewhere")
    moved.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(
        DataFileError, match=r"read other files of this machine: X.* is a link to .*elsewhere"
    ):
        io.read(store)
    np.testing.assert_array_equal(io.read(store, trusted=True).X, np.eye(6))
    # The store itself may be reached through a link.
    moved.unlink()
    shutil.move(tmp_path / "elsewhere", moved)
    (tmp_path / "link.zarr").symlink_to(store)
    assert io.read(tmp_path / "link.zarr").n_obs == 6


@posix
def test_a_pipe_in_a_zarr_store(tmp_path):
    store = io.write(anndata.AnnData(np.eye(6)), tmp_path / "d.zarr")
    os.mkfifo(store / "X" / "0.9")
    with pytest.raises(DataFileError, match=r"X/0\.9 is a pipe, a device or a link to nothing"):
        io.read(store)


@posix
@pytest.mark.parametrize("ending", [".csv", ".h5ad", ".npz", ".npy", ".parquet", ".fcs", ".mtx.gz"])
def test_pipes_and_devices(tmp_path, ending):
    os.mkfifo(tmp_path / f"pipe{ending}")
    (tmp_path / f"zero{ending}").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(DataFileError, match=r"is a pipe or a device, not a file; write what it gives"):
            io.read(tmp_path / f"{name}{ending}")


# --- content out of proportion ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_one_array_under_many_names(victim, kind):
    path, attributes = victim
    with h5py.File(path, "a") as file:
        group = file["obsm"]
        array = group.create_dataset("a", (6, 10**6), "f8", chunks=(6, 10**4), compression="gzip")
        array.attrs.update(attributes)
        for i in range(15):
            group[f"b{i}"] = array if kind == "hard" else h5py.SoftLink("/obsm/a")
    assert path.stat().st_size < 50_000
    with pytest.raises(DataFileError, match=r"says it holds 732\.\d MiB in .* KiB on the disk, as real data"):
        io.read(path)


def test_names_that_multiply(victim):
    """Thirty groups, each with two names for the next, hold a thousand million arrays."""
    path, _ = victim
    with h5py.File(path, "a") as file:
        group = file["uns"]
        for _ in range(30):
            inner = group.create_group("a")
            group["b"] = inner
            group = inner
        group["x"] = 1.0
    with pytest.raises(DataFileError, match=r"says it holds [\d,.]+ [GT]iB"):
        io.read(path)


def test_groups_that_hold_themselves(victim):
    path, _ = victim
    with h5py.File(path, "a") as file:
        file["uns/a"] = file["uns"]
    with pytest.raises(DataFileError, match=r"/uns/a is a link to a group that it is in"):
        io.read(path)
    with h5py.File(path, "a") as file:
        del file["uns/a"]
        file["uns/b"] = h5py.SoftLink("/nowhere")
    with pytest.raises(DataFileError, match=r"/uns/b is a link that leads nowhere"):
        io.read(path)
    with h5py.File(path, "a") as file:
        del file["uns/b"]
        file["uns"].create_group("/".join(["a"] * 150))
    with pytest.raises(DataFileError, match=r"more than 100 groups deep"):
        io.read(path)


def test_one_text_in_millions_of_entries(victim, monkeypatch):
    path, _ = victim
    with h5py.File(path, "a") as file:
        texts = file["uns"].create_dataset("t", (3000,), h5py.string_dtype(), chunks=(3000,), fillvalue="")
        texts[:] = "x" * 10**5
    # Written one by one they take as much on the disk; what counts is the size in memory.
    found = _survey.survey(str(path))["bytes"]["uns"]
    assert 3e8 < found < 3.01e8
    monkeypatch.setattr(_limits, "available_bytes", lambda: 2 * 10**8)
    with pytest.raises(DataFileError, match=r"says it holds 28\d\.\d MiB, and 190\.7 MiB of memory are free"):
        io.read(path)


def test_a_chunk_larger_than_its_array(victim):
    def make(file):
        file.create_dataset("X", (6, 6), "f8", chunks=(10**4, 10**4), maxshape=(None, None), compression=1)

    with pytest.raises(DataFileError, match=r"says it holds 763\.0 MiB in"):
        io.read(replaced(victim, make))


def test_a_zarr_store_of_nothing(tmp_path):
    store = io.write(anndata.AnnData(np.eye(6)), tmp_path / "d.zarr")
    group = zarr.open_group(store, mode="a", use_consolidated=False)["obsm"]
    group.create_array("a", shape=(6, 10**8), chunks=(6, 10**6), dtype="f8")
    zarr.consolidate_metadata(store)
    with pytest.raises(DataFileError, match=r"says it holds 4\.5 GiB (in|, and|and)"):
        io.read(store)


def test_tables_that_repeat_one_number(tmp_path):
    import pyarrow.parquet as pq

    column = pa.array(np.zeros(10**6))
    pq.write_table(pa.table({f"c{i}": column for i in range(20)}), tmp_path / "d.parquet", compression="zstd")
    assert (tmp_path / "d.parquet").stat().st_size < 150_000
    with pytest.raises(DataFileError, match=r"says it holds 305\.2 MiB in .*trusted=True"):
        io.read(tmp_path / "d.parquet")


def test_a_text_that_is_stored_once_takes_its_place_once(tmp_path):
    import pyarrow.parquet as pq

    text = "x" * 20_000
    texts = pa.array([text, None]).take(pa.array(np.arange(10_000) % 2))
    pq.write_table(pa.table({"t": texts, "v": np.arange(10_000.0)}), tmp_path / "d.parquet")
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    back = io.read(tmp_path / "d.parquet")
    peak = tracemalloc.get_traced_memory()[1] + pa.default_memory_pool().max_memory() - before
    tracemalloc.stop()
    assert peak < 30e6  # as texts of their own they take 100 MB, and twice that with arrow's
    assert list(back.obs["t"][:3]) == [text, None, text]
    assert list(back.var_names) == ["v"]


def test_tables_of_lists(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [[1.0], [2.0]], "v": [1.0, 2.0]}), tmp_path / "d.parquet")
    with pytest.raises(DataFileError, match=r"'a' holds lists or structures, not numbers or text; drop such"):
        io.read(tmp_path / "d.parquet")


# --- text without an end ------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    return io.write(anndata.AnnData(np.eye(6)), tmp_path / "folder")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"%" + b"x" * 3 * 2**20, "its comments do not end"),
        (b"%x\n" * 2**20, "its comments do not end"),
        (b"6 6 2\n1 1 1\n2 2 " + b"1" * 3 * 2**20, "unpacks to more than the"),
    ],
)
def test_matrices_whose_lines_do_not_end(folder, text, said):
    head = b"%%MatrixMarket matrix coordinate real general\n"
    (folder / "matrix.mtx.gz").write_bytes(gzip.compress(head + text))
    with pytest.raises(DataFileError, match=said):
        io.read(folder)


def test_comments_of_a_usual_length_are_read(folder):
    text = gzip.decompress((folder / "matrix.mtx.gz").read_bytes())
    head, _, rest = text.partition(b"\n")
    (folder / "matrix.mtx.gz").write_bytes(gzip.compress(head + b"\n%" + b"x" * 10_000 + b"\n\n" + rest))
    np.testing.assert_array_equal(io.read(folder).X.toarray(), np.eye(6))


@pytest.mark.parametrize("name", ["d.csv.gz", "d.csv"])
def test_text_is_measured_before_it_is_parsed(tmp_path, monkeypatch, name):
    text = b"a,b\n" + b"1,2\n" * 500_000
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    monkeypatch.setattr(_limits, "available_bytes", lambda: 20 * 2**20)
    tracemalloc.start()
    with pytest.raises(DataFileError, match=r"more than the 20\.0 MiB of free memory"):
        io.read(tmp_path / name)
    assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    tracemalloc.stop()
    monkeypatch.setattr(_limits, "available_bytes", lambda: 100 * 2**20)
    assert io.read(tmp_path / name).n_obs == 500_000


def test_names_of_rows_are_measured_too(folder, monkeypatch):
    (folder / "barcodes.tsv.gz").write_bytes(gzip.compress(b"a\n" * 500_000))
    monkeypatch.setattr(_limits, "available_bytes", lambda: 20 * 2**20)
    with pytest.raises(DataFileError, match=r"barcodes\.tsv\.gz unpacks to more than the 20\.0 MiB of free"):
        io.read(folder)


# --- formulas -----------------------------------------------------------------------------------------------

FORMULAS = [
    "=cmd|' /C calc'!A0",
    "@SUM(A1)",
    "+1+1",
    "-2+3",
    "-x",
    "\t=1",
    "'=1",
    "''+x",
    "=",
    "-",
    "+",
    "5'-x",
]


def test_texts_that_a_spreadsheet_would_run(tmp_path):
    data = anndata.AnnData(
        np.arange(24.0).reshape(12, 2) - 1.5,
        obs=pd.DataFrame({"note": FORMULAS, "kind": pd.Categorical(FORMULAS)}, index=FORMULAS),
        var=pd.DataFrame(index=["=g", "plain"]),
    )
    io.write(data, tmp_path / "d.csv")
    text = (tmp_path / "d.csv").read_text()
    cells = pd.read_csv(tmp_path / "d.csv", header=None, dtype=str)
    assert cells.shape == (13, 5)
    for cell in cells.to_numpy().ravel():
        assert not str(cell).startswith(("=", "+", "-", "@", "\t")) or len(cell) == 1 or float(cell) < 0
    assert "'=cmd" in text
    assert "-1.5" in text
    assert "'-1.5" not in text
    back = io.read(tmp_path / "d.csv")
    assert list(back.obs_names) == list(back.obs["note"]) == list(back.obs["kind"]) == FORMULAS
    assert list(back.var_names) == ["=g", "plain"]
    np.testing.assert_array_equal(back.X, data.X)


@pytest.mark.parametrize("number", ["-1.5", "+2", "-1e-5", "-.5", "-inf", "+3.E2"])
def test_numbers_stay_numbers_though_they_are_texts(tmp_path, number):
    data = anndata.AnnData(np.eye(2), obs=pd.DataFrame({"dose": [number, "none"]}, index=["a", "b"]))
    text = io.write(data, tmp_path / "d.csv").read_text()
    assert number in text
    assert "'" not in text


def test_the_survey_runs_in_a_process_of_its_own(tmp_path):
    path = io.write(anndata.AnnData(np.eye(6)), tmp_path / "d.h5ad")
    assert _scverse._examine(path) == _survey.survey(str(path))
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(500))
    with pytest.raises(DataFileError, match=r"d\.h5ad cannot be read as HDF5: it is damaged, cut short"):
        _scverse._examine(path)
