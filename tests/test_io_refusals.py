"""Files that cannot be read or written for reasons of their own: what is said, and that nothing is left."""

import array
import gzip
import os
import re
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")
flowio = pytest.importorskip("flowio")
pytest.importorskip("pyarrow")
pytest.importorskip("zarr")
mudata = pytest.importorskip("mudata")

from harmonicalign import _hidden  # noqa: E402
from harmonicalign.adapters import io  # noqa: E402
from harmonicalign.adapters.io import DataFileError, _atomic, _limits, _scverse  # noqa: E402
from harmonicalign.adapters.io._errors import read_error  # noqa: E402


@pytest.fixture
def data():
    """Two genes of three cells."""
    return anndata.AnnData(
        X=np.arange(6.0).reshape(3, 2),
        obs=pd.DataFrame({"type": ["T", "B", "B"]}, index=["c1", "c2", "c3"]),
        var=pd.DataFrame(index=["CD3", "CD19"]),
    )


@pytest.mark.parametrize(
    ("name", "holder"),
    [
        ("d.npy", "a numpy file"),
        ("d.npz", "a numpy file"),
        ("d.fcs", "an FCS file"),
        ("d.csv", "a table"),
        ("d.parquet", "a table"),
        ("folder", "such a folder"),
    ],
)
def test_data_without_a_matrix_goes_where_it_can_be_held(tmp_path, data, name, holder):
    bare = anndata.AnnData(obs=data.obs, var=data.var)
    with pytest.raises(
        DataFileError, match=rf"no matrix X, which is what {holder} holds; write h5ad or zarr"
    ):
        io.write(bare, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    assert io.read(io.write(bare, tmp_path / "d.h5ad")).X is None


class TestArrays:
    def test_two_arrays_of_one_name(self, tmp_path, data):
        data.obs["X"] = [1.0, 2.0, 3.0]
        with pytest.raises(DataFileError, match=r"two arrays would be called 'X' in .*rename one"):
            io.write(data, tmp_path / "d.npz")
        assert list(tmp_path.iterdir()) == []

    def test_an_archive_of_other_things(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
            archive.writestr("letter.txt", "dear reader")
        with pytest.raises(DataFileError, match=r"holds 'letter\.txt', which is no array"):
            io.read(tmp_path / "d.npz")

    def test_a_sparse_matrix_of_another_kind(self, tmp_path):
        matrix = sp.csr_matrix(np.eye(3))
        np.savez(
            tmp_path / "d.npz",
            data=matrix.data,
            indices=matrix.indices,
            indptr=matrix.indptr,
            shape=matrix.shape,
            format=np.array(b"bsr"),
        )
        with pytest.raises(DataFileError, match=r"of the kind 'bsr'; save it as csr"):
            io.read(tmp_path / "d.npz")

    def test_which_array_is_the_matrix(self, tmp_path):
        np.savez(tmp_path / "one.npz", counts=np.eye(3), depth=np.arange(3.0))
        found = io.read(tmp_path / "one.npz")
        np.testing.assert_array_equal(found.X, np.eye(3))
        np.testing.assert_array_equal(found.obs["depth"], [0, 1, 2])
        np.savez(tmp_path / "none.npz", depth=np.arange(3.0))
        with pytest.raises(DataFileError, match=r"holds no matrix of rows and columns"):
            io.read(tmp_path / "none.npz")


class TestCytometry:
    def write(self, path, old=b"", new=b""):
        """An FCS file of twelve events, with an entry of its text replaced by one as long."""
        with path.open("wb") as file:
            flowio.create_fcs(file, array.array("f", np.arange(60.0)), list("abcde"))
        text = path.read_bytes()
        assert re.search(old, text)
        path.write_bytes(re.sub(old, new, text))

    def test_more_events_are_announced_than_there_are(self, tmp_path):
        self.write(tmp_path / "d.fcs", rb"\$TOT/12", b"$TOT/13")
        with pytest.raises(DataFileError, match=r"announces 13 events of 5 channels but holds 60 values"):
            io.read(tmp_path / "d.fcs")

    @pytest.mark.filterwarnings("ignore:Non-standard bit width")
    def test_odd_widths_of_numbers(self, tmp_path):
        self.write(tmp_path / "d.fcs", rb"B/32", b"B/24")
        path = tmp_path / "d.fcs"
        path.write_bytes(path.read_bytes().replace(b"$DATATYPE/F", b"$DATATYPE/I"))
        with pytest.raises(DataFileError, match=r"stores its events in a way that flowio does not read"):
            io.read(path)

    def test_no_events(self, tmp_path):
        with (tmp_path / "d.fcs").open("wb") as file:
            flowio.create_fcs(file, array.array("f"), ["a"])
        with pytest.raises(DataFileError, match=r"d\.fcs holds no events"):
            io.read(tmp_path / "d.fcs")


class TestFolders:
    def test_names_that_would_break_the_lines(self, tmp_path, data):
        data.var_names = ["CD3", "a\tb"]
        with pytest.raises(DataFileError, match=r"'a\\tb' holds a tab or a line break; rename it"):
            io.write(data, tmp_path / "folder")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("name", ["d.mtx", "d.mtx.gz"])
    def test_a_folder_is_not_named_as_its_file(self, tmp_path, data, name):
        with pytest.raises(DataFileError, match=r"names one file, and a folder of three is written; drop"):
            io.write(data, tmp_path / name)

    def test_identifiers_alone_are_names_enough(self, tmp_path, data):
        folder = io.write(data, tmp_path / "folder")
        (folder / "features.tsv.gz").write_bytes(gzip.compress(b"ENSG1\nENSG2\n"))
        found = io.read(folder)
        assert list(found.var_names) == list(found.var["gene_ids"]) == ["ENSG1", "ENSG2"]
        assert "feature_types" not in found.var

    def test_several_matrices_in_one_folder(self, tmp_path, data):
        folder = io.write(data, tmp_path / "folder")
        for file in list(folder.iterdir()):
            for prefix in ("s1_", "s2_"):
                (folder / f"{prefix}{file.name}").write_bytes(file.read_bytes())
            file.unlink()
        with pytest.raises(
            DataFileError, match=r"several matrices \(s1_matrix\.mtx\.gz, s2_.*by its own path"
        ):
            io.read(folder)
        np.testing.assert_array_equal(io.read(folder / "s2_matrix.mtx.gz").X.toarray(), data.X)


class TestContent:
    def test_a_folder_where_a_file_should_be(self, tmp_path):
        (tmp_path / "d.h5ad").mkdir()
        with pytest.raises(DataFileError, match=r"d\.h5ad is a folder, not an AnnData file"):
            io.read(tmp_path / "d.h5ad")

    def test_modalities_under_the_name_of_one_dataset(self, tmp_path):
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "d.h5ad", "w") as file:  # without the mark that mudata sets at the start
            file.create_group("mod/rna")
        with pytest.raises(DataFileError, match=r"holds MuData; rename it to \.h5mu"):
            io.read(tmp_path / "d.h5ad")

    def test_arcsinh_is_for_one_matrix_in_memory(self, tmp_path, data):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            io.write(mudata.MuData({"rna": data.copy()}), tmp_path / "d.h5mu")
        io.write(data, tmp_path / "d.h5ad")
        for options in ({"path": tmp_path / "d.h5mu"}, {"path": tmp_path / "d.h5ad", "backed": True}):
            with pytest.raises(ValueError, match=r"arcsinh needs one matrix in memory"):
                io.read(arcsinh=5, **options)
        np.testing.assert_allclose(
            io.read(tmp_path / "d.h5mu", key="rna", arcsinh=5).X, np.arcsinh(data.X / 5)
        )

    def test_a_parquet_table_of_others(self, tmp_path):
        frame = pd.DataFrame({"a": [1.0, 2.0], "kind": ["x", "y"]}, index=["r", "s"])
        frame.to_parquet(tmp_path / "d.parquet")
        found = io.read(tmp_path / "d.parquet")
        assert (list(found.obs_names), list(found.var_names), list(found.obs["kind"])) == (
            ["r", "s"],
            ["a"],
            ["x", "y"],
        )
        frame.iloc[:0].to_parquet(tmp_path / "e.parquet")
        with pytest.raises(DataFileError, match=r"e\.parquet has no rows"):
            io.read(tmp_path / "e.parquet")

    def test_a_single_column_holds_values_not_names(self, tmp_path):
        (tmp_path / "d.csv").write_text("depth\n1.5\n2.5\n")
        found = io.read(tmp_path / "d.csv")
        assert list(found.var_names) == ["depth"]
        np.testing.assert_array_equal(found.X.ravel(), [1.5, 2.5])

    @pytest.mark.skipif(sys.platform == "win32", reason="scripts with a first line are a matter of POSIX")
    def test_a_file_that_crashes_the_library_is_only_refused(self, tmp_path, data):
        """The process that opens a file first may die, never answer, or not even start."""
        path = io.write(data, tmp_path / "d.h5ad")
        script = tmp_path / "python"

        def pretend(line):
            script.write_text(f"#!/bin/sh\n{line}\n")
            script.chmod(0o755)

        pretend("kill -SEGV $$")
        with pytest.raises(DataFileError, match=r"damaged: the HDF5 library crashes on it \(signal 11\)"):
            _scverse._examine(path, str(script))
        pretend("exec sleep 60")
        with pytest.raises(DataFileError, match=r"damaged: the HDF5 library gets lost in it"):
            _scverse._examine(path, str(script), patience=0.1)
        script.unlink()
        for executable in (str(script), ""):  # where no process can be started, this one looks
            assert _scverse._examine(path, executable)["bytes"]["X"] > 0


class TestSystem:
    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (PermissionError(13, "Permission denied"), r"cannot be read: you lack the permission to open it"),
            (MemoryError(), r"does not fit into memory; read it backed or give a smaller file"),
        ],
    )
    def test_what_the_system_refuses_to_read(self, error, message):
        with pytest.raises(DataFileError, match=message):
            raise read_error(Path("d.npy"), "a numpy array", error)

    def test_a_folder_that_cannot_be_written_to(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_atomic.os, "access", lambda path, mode: False)
        with pytest.raises(DataFileError, match=r"cannot be written: the folder .* is read-only for you"):
            io.check_target(tmp_path / "new" / "d.npy")

    def test_a_full_disk_is_told_and_the_folders_of_others_stay(self, tmp_path):
        def write():
            with io.replacing(tmp_path / "new" / "inner" / "d.txt") as temporary:
                temporary.write_text("half of it")
                (tmp_path / "new" / "theirs.txt").write_text("of somebody else")
                raise OSError(28, "No space left on device")

        with pytest.raises(DataFileError, match=r"d\.txt was not written: no space is left on the device"):
            write()
        assert [p.name for p in (tmp_path / "new").iterdir()] == ["theirs.txt"]

    def test_an_old_folder_returns_if_the_new_one_cannot_take_its_place(self, tmp_path, monkeypatch, data):
        folder = io.write(data, tmp_path / "folder")
        before = {p.name: p.read_bytes() for p in folder.iterdir()}
        rename = os.replace
        monkeypatch.setattr(_hidden, "_exchange", lambda one, other: False)

        def fails_at_last(source, target):
            if Path(target) == folder and "aside" not in Path(source).name:
                raise OSError(28, "No space left on device")
            rename(source, target)

        monkeypatch.setattr(_hidden.os, "replace", fails_at_last)
        with pytest.raises(DataFileError, match=r"no space is left"):
            io.write(data[:2].copy(), folder, force=True)
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
        assert list(tmp_path.iterdir()) == [folder]

    @pytest.mark.parametrize(
        ("promised", "said"),
        [(1000, "1,000 B"), (2048, "2.0 KiB"), (5 * 2**30, "5.0 GiB"), (3 * 2**50, "3,072.0 TiB")],
    )
    def test_sizes_are_told_in_fitting_units(self, promised, said):
        with pytest.raises(DataFileError, match=f"d.npy says it holds {re.escape(said)}, and 10 B of memory"):
            _limits.check_fits(Path("d.npy"), promised, available=10)


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("d.npy", "anndata", "scverse"),
        ("d.parquet", "pyarrow", "cli"),
        ("d.fcs", "flowio", "cli"),
        ("d.zarr", "zarr", "cli"),
        ("d.h5mu", "mudata", "scverse"),
    ],
)
def test_formats_whose_package_is_missing(tmp_path, monkeypatch, data, name, package, extra):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = mudata.MuData({"rna": data}) if name.endswith("h5mu") else data
        io.write(whole, tmp_path / name)
    for module in (package, *[m for m in sys.modules if m.startswith(f"{package}.")]):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {package}: pip install 'harmonicalign\[{extra}\]'"):
        io.read(tmp_path / name)
    if package != "anndata":
        with pytest.raises(ImportError, match=rf"needs {package}: pip install 'harmonicalign\[{extra}\]'"):
            io.write(whole, tmp_path / f"new-{name}")
        assert not (tmp_path / f"new-{name}").exists()
