"""Files: every format there and back, and every way in which a file can be wrong."""

import errno
import gzip
import os
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")
pytest.importorskip("flowio")
pytest.importorskip("pyarrow")
pytest.importorskip("zarr")
mudata = pytest.importorskip("mudata")

from harmonicalign.adapters import io  # noqa: E402
from harmonicalign.adapters.io import DataFileError, _limits, _scverse, _write  # noqa: E402

NAMES = [
    "d.h5ad",
    "d.zarr",
    "d.csv",
    "d.csv.gz",
    "d.tsv",
    "d.txt.gz",
    "d.parquet",
    "d.npy",
    "d.npz",
    "d.fcs",
    "folder",
]
FILES = [name for name in NAMES if name not in ("d.zarr", "folder")]
SUFFIXES = sorted({suffix for f in io.FORMATS.values() for suffix in f.suffixes if suffix})


@pytest.fixture
def data(rng):
    """Five genes of twelve cells, with a label and a number for each."""
    x = rng.poisson(2, (12, 5)).astype(np.float64) / 4
    return anndata.AnnData(
        X=x,
        obs=pd.DataFrame(
            {"type": pd.Categorical(["T", "B", "NK"] * 4), "depth": rng.rand(12)},
            index=[f"cell{i}" for i in range(12)],
        ),
        var=pd.DataFrame(index=["CD3", "CD19", "CD56", "HLA-DR", "β2M"]),
        obsm={"X_pca": rng.rand(12, 2)},
    )


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def leftovers(folder):
    return [p for p in Path(folder).rglob("*") if p.name.startswith(".harmonicalign")]


# ---------------------------------------------------------------------------------------------------------
# there and back


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_matrix_and_names_survive(tmp_path, data, name, sparse):
    if sparse:
        data.X = sp.csr_matrix(data.X)
    if name.startswith(("d.csv", "d.tsv", "d.txt")):
        del data.obs["depth"]  # text cannot say that these numbers describe rows; see the next test
    assert io.write(data, tmp_path / name) == tmp_path / name
    back = io.read(tmp_path / name)
    np.testing.assert_array_equal(dense(back.X), dense(data.X))
    if name != "d.npy":
        assert list(back.var_names) == list(data.var_names)
    if name not in ("d.npy", "d.fcs"):
        assert list(back.obs_names) == list(data.obs_names)
    assert not leftovers(tmp_path)


@pytest.mark.parametrize("name", ["d.h5ad", "d.zarr", "d.parquet", "d.npz", "d.csv.gz"])
def test_description_of_rows_survives(tmp_path, data, name):
    io.write(data, tmp_path / name)
    # A text table cannot say which of its columns of numbers describe rows; the reader has to.
    back = io.read(tmp_path / name, **({"obs": ["depth"]} if "csv" in name else {}))
    assert list(back.obs["type"].astype(str)) == list(data.obs["type"].astype(str))
    np.testing.assert_array_equal(back.obs["depth"], data.obs["depth"])
    assert list(back.var_names) == list(data.var_names)


@pytest.mark.parametrize("name", ["d.h5ad", "d.zarr", "d.npz"])
def test_coordinates_survive(tmp_path, data, name):
    io.write(data, tmp_path / name)
    np.testing.assert_array_equal(io.read(tmp_path / name).obsm["X_pca"], data.obsm["X_pca"])


def test_text_keeps_every_digit(tmp_path, rng):
    x = np.exp(rng.randn(40, 7) * 20)
    io.write(anndata.AnnData(x), tmp_path / "d.csv")
    np.testing.assert_array_equal(io.read(tmp_path / "d.csv").X, x)


def test_large_tables_are_written_in_parts(tmp_path, data):
    from harmonicalign.adapters.io._tables import write_text

    io.write(data, tmp_path / "whole.csv")
    write_text(data, tmp_path / "parts.csv", separator=",", packed=False, chunk=12)
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_equal_data_makes_equal_packed_files(tmp_path, data):
    for name in ("a.csv.gz", "b.csv.gz"):
        io.write(data, tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def multimodal(parts):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # before 0.4 mudata announces its next version
        return mudata.MuData(parts)


def test_mudata(tmp_path, data):
    both = multimodal({"rna": data[:, :3].copy(), "adt": data[:, 3:].copy()})
    io.write(both, tmp_path / "d.h5mu")
    back = io.read(tmp_path / "d.h5mu")
    assert sorted(back.mod) == ["adt", "rna"]
    np.testing.assert_array_equal(io.read(tmp_path / "d.h5mu", key="rna").X, data.X[:, :3])
    with pytest.raises(DataFileError, match=r"no modality 'atac'; it has adt, rna"):
        io.read(tmp_path / "d.h5mu", key="atac")
    with pytest.raises(DataFileError, match=r"cannot hold MuData"):
        io.write(both, tmp_path / "d.h5ad")
    with pytest.raises(DataFileError, match=r"write h5ad instead"):
        io.write(data, tmp_path / "e.h5mu")
    os.rename(tmp_path / "d.h5mu", tmp_path / "named.h5ad")
    with pytest.raises(DataFileError, match=r"h5mu"):
        io.read(tmp_path / "named.h5ad")


def test_backed_matrix_stays_on_disk(tmp_path, data):
    io.write(data, tmp_path / "d.h5ad")
    back = io.read(tmp_path / "d.h5ad", backed=True)
    assert back.isbacked
    back.obsm["X_new"] = np.zeros((12, 3))
    io.write(back, tmp_path / "e.h5ad")
    back.file.close()
    copy = io.read(tmp_path / "e.h5ad")
    np.testing.assert_array_equal(copy.X, data.X)
    assert copy.obsm["X_new"].shape == (12, 3)
    assert "X_new" not in io.read(tmp_path / "d.h5ad").obsm
    with pytest.raises(ValueError, match=r"backed is for h5ad files"):
        io.read(
            tmp_path / "d.npz" if (tmp_path / "d.npz").exists() else io.write(data, tmp_path / "d.npz"),
            backed=True,
        )


# ---------------------------------------------------------------------------------------------------------
# tables as people write them


def table(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "rows", "columns"),
    [
        ("a,b\n1,2\n3,4\n", ["0", "1"], ["a", "b"]),
        ("name,a,b\nr1,1,2\nr2,3,4\n", ["r1", "r2"], ["a", "b"]),
        (",a,b\n7,1,2\n9,3,4\n", ["7", "9"], ["a", "b"]),
        ("a,b\nr1,1,2\nr2,3,4\n", ["r1", "r2"], ["a", "b"]),  # R leaves the corner out
        ("1.5,2\n3,4\n", ["0", "1"], ["0", "1"]),
        ("0,1\n1.5,2\n3,4\n", ["0", "1"], ["0", "1"]),
        ("a;b\n1;2\n3;4\n", ["0", "1"], ["a", "b"]),
        ("a\tb\n1\t2\n3\t4\n", ["0", "1"], ["a", "b"]),
        ("\ufeffa,b\n1,2\n3,4\n", ["0", "1"], ["a", "b"]),  # Excel's mark of the byte order
        ('"a","b"\n1,2\n3,4\n', ["0", "1"], ["a", "b"]),
    ],
)
def test_forms_of_text_tables(tmp_path, text, rows, columns):
    file = tmp_path / "d.csv"
    file.write_text(text, encoding="utf-8")
    back = io.read(file)
    assert (list(back.obs_names), list(back.var_names)) == (rows, columns)
    assert back.shape == (2, 2)
    assert back.X[1, 1] == 4


def test_columns_of_text_describe_rows(tmp_path):
    file = table(tmp_path / "d.csv", "id,a,kind,b,good\nx,1,T,2,True\ny,3,T,4,False\n")
    back = io.read(file)
    assert list(back.var_names) == ["a", "b"]
    assert list(back.obs.columns) == ["kind", "good"]
    assert list(io.read(file, obs=["b"]).obs.columns) == ["kind", "b", "good"]
    with pytest.raises(DataFileError, match=r"has no column 'c'; it has 'a', 'kind'"):
        io.read(file, obs=["c"])


def test_features_by_cells(tmp_path):
    file = table(tmp_path / "d.tsv", "gene\tc1\tc2\tc3\ng1\t1\t2\t3\ng2\t4\t5\t6\n")
    back = io.read(file, transpose=True)
    assert (list(back.obs_names), list(back.var_names)) == (["c1", "c2", "c3"], ["g1", "g2"])
    np.testing.assert_array_equal(back.X, [[1, 4], [2, 5], [3, 6]])
    with pytest.raises(DataFileError, match=r"turned round: 'kind' holds text; drop such columns first"):
        io.read(table(tmp_path / "e.csv", "id,kind,a\nx,T,1\ny,B,2\n"), transpose=True)
    with pytest.raises(DataFileError, match=r"'kind', 'site' hold text"):
        io.read(table(tmp_path / "f.csv", "id,kind,site,a\nx,T,u,1\ny,B,v,2\n"), transpose=True)


def test_packed_text_is_told_by_content(tmp_path):
    (tmp_path / "d.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    (tmp_path / "e.csv.gz").write_bytes(b"a,b\n1,2\n")
    for name in ("d.csv", "e.csv.gz"):
        np.testing.assert_array_equal(io.read(tmp_path / name).X, [[1, 2]])


def test_text_that_unpacks_beyond_memory(tmp_path, monkeypatch):
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 300_000))
    monkeypatch.setattr(_limits, "available_bytes", lambda: 100_000)
    with pytest.raises(
        DataFileError, match=r"unpacks to more than the 97\.7 KiB of free memory can hold as a table"
    ):
        io.read(tmp_path / "d.csv.gz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b\n", "has no rows"),
        ("\n1,2\n", "empty first line"),
        ("id,k\nx,T\ny,B\n", r"no column of numbers \('k' holds text\)"),
        ("a;b\n1,5;2,5\n", "check its separator and decimal point"),
        ("a,b\n1,2\n3,4,5\n", "cannot be read as a table of comma-separated values"),
        ('a,b\n"1,2\n3,4\n', "cannot be read as a table"),
    ],
)
def test_bad_tables(tmp_path, text, message):
    with pytest.raises(DataFileError, match=message):
        io.read(table(tmp_path / "d.csv", text))


def test_a_table_cannot_name_two_columns_alike(tmp_path, data):
    data.obs["CD3"] = 1.0
    for name in ("d.csv", "d.parquet"):
        with pytest.raises(DataFileError, match=r"'CD3' would come twice"):
            io.write(data, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------------------------------
# numpy


def test_archive_of_several_matrices(tmp_path, rng):
    a, b = rng.rand(6, 3), sp.random(8, 4, 0.5, format="csr", random_state=0)
    np.savez(
        tmp_path / "d.npz",
        first=a,
        y=np.arange(6),
        b_data=b.data,
        b_indices=b.indices,
        b_indptr=b.indptr,
        b_shape=np.asarray(b.shape),
    )
    with pytest.raises(DataFileError, match=r"several matrices \('b', 'first'\); name one, as in d\.npz::b"):
        io.read(tmp_path / "d.npz")
    with pytest.raises(DataFileError, match=r"no matrix 'c'; it has 'b', 'first'"):
        io.read(tmp_path / "d.npz", key="c")
    first = io.read(tmp_path / "d.npz", key="first")
    np.testing.assert_array_equal(first.X, a)
    assert list(first.obs["y"]) == list(range(6))
    np.testing.assert_array_equal(io.read(tmp_path / "d.npz", key="b").X.toarray(), b.toarray())


def test_archive_with_other_words_for_names(tmp_path):
    parts = {"X": np.ones((3, 2)), "genes": np.array(["g", "h"]), "cells": np.array(["a", "b", "c"])}
    np.savez(tmp_path / "d.npz", **parts, barcode=np.array(["x", "x", "y"]))
    back = io.read(tmp_path / "d.npz")
    assert (list(back.obs_names), list(back.var_names)) == (["a", "b", "c"], ["g", "h"])
    assert list(back.obs["barcode"]) == ["x", "x", "y"]
    np.savez(tmp_path / "e.npz", X=np.ones((3, 2)), genes=np.array(["g", "g"]), var_names=np.array(["g"]))
    with pytest.raises(DataFileError, match=r"var_names has the shape \(1,\); expected 2 names"):
        io.read(tmp_path / "e.npz")


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_archive_of_scipy(tmp_path, kind):
    matrix = sp.random(8, 4, 0.5, format=kind, random_state=0)
    sp.save_npz(tmp_path / "d.npz", matrix)
    np.testing.assert_array_equal(io.read(tmp_path / "d.npz").X.toarray(), matrix.toarray())


def test_a_hostile_sparse_matrix(tmp_path):
    parts = {"X_data": np.ones(2), "X_indices": np.array([0, 99]), "X_indptr": np.array([0, 1, 2])}
    np.savez(tmp_path / "d.npz", **parts, X_shape=np.array([2, 3]))
    with pytest.raises(DataFileError, match=r"damaged"):
        io.read(tmp_path / "d.npz")


def test_pickles_are_never_read(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    objects = np.empty(2, dtype=object)
    objects[:] = [Trap(), 1]
    np.save(tmp_path / "d.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "d.npz", X=np.ones((2, 2)), note=objects)
    for name in ("d.npy", "d.npz"):
        with pytest.raises(DataFileError, match=r"pickled Python objects, which are never read"):
            io.read(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def npy_header(shape):
    from io import BytesIO

    out = BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return out.getvalue()


@pytest.mark.parametrize("shape", [(10**9, 10**9), (2**62, 2**62), (5, 5)])
def test_headers_that_promise_more_than_there_is(tmp_path, shape):
    (tmp_path / "d.npy").write_bytes(npy_header(shape) + bytes(8))
    with pytest.raises(DataFileError, match=r"cut short or damaged"):
        io.read(tmp_path / "d.npy")
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("X.npy", npy_header(shape) + bytes(8))
    with pytest.raises(DataFileError, match=r"damaged: 'X\.npy' has"):
        io.read(tmp_path / "d.npz")


def test_archives_that_unpack_beyond_memory(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "d.npz", X=np.zeros((1000, 1000)))
    assert io.read(tmp_path / "d.npz").shape == (1000, 1000)
    monkeypatch.setattr(_limits, "available_bytes", lambda: 10**6)
    with pytest.raises(DataFileError, match=r"says it holds 7\.\d MiB, and 976\.6 KiB of memory are free"):
        io.read(tmp_path / "d.npz")


def test_an_archive_that_lies_about_its_sizes(tmp_path):
    np.savez_compressed(tmp_path / "d.npz", X=np.zeros((100, 100)))
    content = bytearray((tmp_path / "d.npz").read_bytes())
    at = content.rindex(b"PK\x01\x02") + 24  # the uncompressed size in the central directory
    content[at : at + 4] = (2**31 - 1).to_bytes(4, "little")
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(DataFileError, match=r"claims an impossible size"):
        io.read(tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), r"1 dimension\(s\)"),
        (np.ones((2, 2, 2)), r"3 dimension\(s\)"),
        (np.ones((2, 2), dtype=complex), "complex128, not real numbers"),
        (np.array([["a", "b"]]), "not real numbers"),
        (np.ones((0, 3)), "without rows or columns"),
    ],
)
def test_arrays_that_are_no_dataset(tmp_path, array, message):
    np.save(tmp_path / "d.npy", array)
    with pytest.raises(DataFileError, match=message):
        io.read(tmp_path / "d.npy")


def test_a_model_is_not_data(tmp_path, rng):
    from harmonicalign import HarmonicAlignment

    model = HarmonicAlignment(method="paper", random_state=0).fit([rng.rand(20, 4), rng.rand(20, 4)])
    with pytest.raises(DataFileError, match=r"is a model that harmonicalign saved, not data"):
        io.read(model.save(tmp_path / "model.npz"))


# ---------------------------------------------------------------------------------------------------------
# folders and cytometry


def test_folders_of_older_cell_rangers_and_archives(tmp_path, data):
    import scipy.io

    folder = tmp_path / "raw"
    folder.mkdir()
    with (folder / "GSM1_matrix.mtx").open("wb") as file:
        scipy.io.mmwrite(file, sp.coo_matrix(data.X.T))
    (folder / "GSM1_barcodes.tsv").write_text("".join(f"{n}\n" for n in data.obs_names))
    (folder / "GSM1_genes.tsv").write_text("E1\tNA\nE2\tnull\nE3\tA\nE4\tA\nE5\tβ\n")
    for path in (folder, folder / "GSM1_matrix.mtx"):
        back = io.read(path)
        assert list(back.var_names) == ["NA", "null", "A", "A-1", "β"]
        assert list(back.var["gene_ids"]) == ["E1", "E2", "E3", "E4", "E5"]
        np.testing.assert_array_equal(back.X.toarray(), data.X)
    (folder / "GSM2_matrix.mtx").write_bytes(b"x")
    with pytest.raises(DataFileError, match=r"several matrices \(GSM1_matrix\.mtx, GSM2_matrix\.mtx\)"):
        io.read(folder)


def test_broken_folders(tmp_path, data):
    folder = io.write(data, tmp_path / "folder")
    names = (folder / "barcodes.tsv.gz").read_bytes()
    (folder / "barcodes.tsv.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    with pytest.raises(DataFileError, match=r"names 5 features and 2 cells"):
        io.read(folder)
    (folder / "barcodes.tsv.gz").unlink()
    with pytest.raises(DataFileError, match=r"holds no barcodes\.tsv"):
        io.read(folder)
    (folder / "barcodes.tsv.gz").write_bytes(names)
    matrix = gzip.decompress((folder / "matrix.mtx.gz").read_bytes())
    for broken in (
        matrix[: len(matrix) // 2],
        b"%%MatrixMarket matrix coordinate real general\n",
        b"hello\n",
    ):
        (folder / "matrix.mtx.gz").write_bytes(gzip.compress(broken))
        with pytest.raises(DataFileError):
            io.read(folder)
    (folder / "matrix.mtx.gz").write_bytes(
        gzip.compress(b"%%MatrixMarket matrix coordinate real general\n5 12 99999999999\n1 1 1\n")
    )
    with pytest.raises(DataFileError, match=r"announces 99999999999 entries"):
        io.read(folder)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataFileError, match=r"holds no matrix\.mtx .* it holds nothing"):
        io.read(empty)


def fcs(path, values, channels, markers):
    import flowio

    with path.open("wb") as file:
        flowio.create_fcs(file, values.ravel().tolist(), channels, opt_channel_names=markers)
    return path


def test_channels_are_named_by_their_markers(tmp_path, rng):
    values = rng.rand(7, 5)
    channels = ["Time", "Nd142Di", "Nd143Di", "Nd144Di", "Nd145Di"]
    file = fcs(tmp_path / "d.fcs", values, channels, ["", "CD3", "CD19", "empty", "empty"])
    back = io.read(file)
    assert list(back.var_names) == ["Time", "CD3", "CD19", "Nd144Di", "Nd145Di"]
    assert list(back.var["channel"]) == channels
    np.testing.assert_array_equal(back.X, values.astype(np.float32))
    np.testing.assert_allclose(io.read(file, arcsinh=5).X, np.arcsinh(back.X / 5), rtol=1e-15)
    with pytest.raises(ValueError, match=r"arcsinh must be > 0, got 0"):
        io.read(file, arcsinh=0)


def test_what_an_fcs_file_cannot_hold(tmp_path, data):
    data.X[0, 0] = 1e39
    with pytest.raises(DataFileError, match=r"values reach 1e\+39"):
        io.write(data, tmp_path / "d.fcs")
    data.X[0, 0] = 1
    data.var_names = ["a,b", *data.var_names[1:]]
    with pytest.raises(DataFileError, match=r"with commas"):
        io.write(data, tmp_path / "d.fcs")
    assert list(tmp_path.iterdir()) == []


def test_arcsinh_of_sparse_stays_sparse(tmp_path, data):
    x = data.X.copy()
    data.X = sp.csr_matrix(x)
    back = io.read(io.write(data, tmp_path / "d.h5ad"), arcsinh=2.0)
    assert sp.issparse(back.X)
    np.testing.assert_allclose(back.X.toarray(), np.arcsinh(x / 2))


# ---------------------------------------------------------------------------------------------------------
# files that are not what they should be


def test_missing_files_name_the_nearest(tmp_path, data):
    io.write(data, tmp_path / "cells.h5ad")
    with pytest.raises(FileNotFoundError, match=r"cell\.h5ad does not exist; did you mean .*cells\.h5ad\?"):
        io.read(tmp_path / "cell.h5ad")
    with pytest.raises(FileNotFoundError, match=r"there is no folder"):
        io.read(tmp_path / "nowhere" / "cell.h5ad")


@pytest.mark.parametrize("name", ["d.loom", "d.xlsx", "d.h5", "data.v2"])
def test_unknown_endings(tmp_path, name):
    (tmp_path / name).write_bytes(b"something")
    with pytest.raises(
        DataFileError, match=r"which says nothing known about its content; expected one of \.h5ad"
    ):
        io.read(tmp_path / name)
    with pytest.raises(DataFileError, match=r"says nothing known"):
        io.write(anndata.AnnData(np.ones((2, 2))), tmp_path / f"new{name}")


def test_format_can_be_named(tmp_path, data):
    io.write(data, tmp_path / "d.data", format="csv")
    assert io.read(tmp_path / "d.data", format="csv").n_obs == 12
    with pytest.raises(ValueError, match=r"format is 'excel'; expected one of h5ad"):
        io.read(tmp_path / "d.data", format="excel")


@pytest.mark.parametrize("share", [0.3, 0.7, 0.98])
@pytest.mark.parametrize("name", ["d.h5ad", "d.h5mu", "d.csv.gz", "d.parquet", "d.npy", "d.npz", "d.fcs"])
def test_files_cut_short(tmp_path, data, name, share):
    content = data
    if name.endswith("h5mu"):
        content = multimodal({"rna": data})
    file = io.write(content, tmp_path / name)
    size = file.stat().st_size
    os.truncate(file, int(size * share))
    with pytest.raises(DataFileError, match=name.replace(".", r"\.")) as raised:
        io.read(file)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


WRONG = [
    (name, wrong)
    for name in FILES
    for wrong in SUFFIXES
    if not name.endswith(wrong) and (name, wrong) != ("d.parquet", ".pq")
]


@pytest.mark.parametrize(("name", "wrong"), WRONG)
def test_wrong_endings(tmp_path, data, name, wrong):
    """Every kind of file under every other name: a clear complaint, or (between texts) the data."""
    texts = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".tab", ".txt", ".txt.gz")
    file = io.write(data, tmp_path / name)
    renamed = tmp_path / f"renamed{wrong}"
    os.rename(file, renamed)
    if name.endswith(texts) and wrong in texts:
        assert io.read(renamed).n_obs == 12
        return
    with pytest.raises(DataFileError, match=r"renamed\."):
        io.read(renamed)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_noise(tmp_path, rng, suffix):
    file = tmp_path / f"d{suffix}"
    file.write_bytes(rng.bytes(3000))
    with pytest.raises(DataFileError):
        io.read(file)


def test_a_zarr_store_that_is_damaged_or_foreign(tmp_path, data):
    import zarr

    store = io.write(data, tmp_path / "d.zarr")
    chunk = next(p for p in (store / "X").rglob("*") if p.is_file() and not p.name.startswith((".", "zarr")))
    chunk.write_bytes(chunk.read_bytes()[:10])
    with pytest.raises(DataFileError, match=r"cannot be read as a zarr store"):
        io.read(store)
    zarr.create_group(tmp_path / "e.zarr").create_array("image", shape=(3,), dtype="f8")
    with pytest.raises(DataFileError, match=r"not AnnData: it holds image"):
        io.read(tmp_path / "e.zarr")


def test_foreign_and_boastful_hdf5(tmp_path):
    import h5py

    with h5py.File(tmp_path / "d.h5ad", "w") as file:
        file["counts"] = np.ones(3)
    with pytest.raises(DataFileError, match=r"an HDF5 file but not AnnData: it holds counts"):
        io.read(tmp_path / "d.h5ad")
    with h5py.File(tmp_path / "e.h5ad", "w") as file:
        file.create_group("obs")
        file.create_group("var")
        file.create_dataset("X", shape=(2**40, 2**20), dtype="f8", chunks=(1024, 1024))
    with pytest.raises(DataFileError, match=r"TiB, and .* free; .* read it backed"):
        io.read(tmp_path / "e.h5ad")


def test_odd_names_are_only_names(tmp_path, data):
    for name in ("-rf.csv", "[bold]x[bold].csv", "a b\nc.csv", "..h5ad.npz", "ünï→.h5ad", "%s{0}.parquet"):
        file = io.write(data, tmp_path / name)
        assert file.parent == tmp_path
        assert io.read(file).n_obs == 12
    longest = "x" * (255 - len(".csv")) + ".csv"
    assert io.read(io.write(data, tmp_path / longest)).n_obs == 12
    with pytest.raises(DataFileError, match=r"name is too long"):
        io.write(data, tmp_path / ("x" + longest))
    with pytest.raises(DataFileError, match=r"is no path of a file"):
        io.read(tmp_path / ("x" + longest))


# ---------------------------------------------------------------------------------------------------------
# writing all or nothing


@pytest.mark.parametrize("name", NAMES)
def test_existing_targets_are_kept(tmp_path, data, name):
    file = io.write(data, tmp_path / name)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    other = data[:3].copy()
    with pytest.raises(FileExistsError, match=r"exists; choose another name"):
        io.write(other, file)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    io.write(other, file, force=True)
    assert io.read(file).n_obs == 3
    assert not leftovers(tmp_path)


FAILURES = {
    "no space": (OSError(errno.ENOSPC, "No space left on device"), DataFileError, "no space is left"),
    "read-only": (OSError(errno.EROFS, "Read-only file system"), DataFileError, "read-only file system"),
    "hdf5": (
        RuntimeError("Can't close (errno = 28, error message = 'x')"),
        DataFileError,
        "no space is left",
    ),
    "other": (TypeError("cannot store this"), DataFileError, "was not written: cannot store this"),
    "interrupted": (KeyboardInterrupt(), KeyboardInterrupt, None),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("name", ["d.h5ad", "d.zarr", "new/deep/d.h5ad"])
def test_nothing_is_left_half_written(tmp_path, monkeypatch, data, name, failure):
    error, expected, message = FAILURES[failure]
    kind = name.rpartition(".")[2]
    real = getattr(_scverse, f"write_{kind}")

    def interrupted(data, path):
        real(data, path)
        raise error

    file = tmp_path / name
    if "deep" not in name:
        io.write(data, file)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    monkeypatch.setitem(_write._WRITERS, kind, interrupted)
    with pytest.raises(expected, match=message):
        io.write(data[:3].copy(), file, force=True)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    assert not leftovers(tmp_path)
    assert not (tmp_path / "new").exists()


def test_folders_of_other_things_are_never_replaced(tmp_path, data):
    (tmp_path / "folder").mkdir()
    io.write(data, tmp_path / "folder", force=True)  # an empty folder is nobody's
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("long work")
    for name in ("thesis", "thesis.zarr"):
        if name == "thesis.zarr":
            os.rename(tmp_path / "thesis", tmp_path / name)
        with pytest.raises(DataFileError, match=r"other things in it"):
            io.write(data, tmp_path / name, force=True)
        assert (tmp_path / name / "chapter.tex").read_text() == "long work"
    (tmp_path / "e.csv").mkdir()
    with pytest.raises(DataFileError, match=r"is a folder, and a file would be written"):
        io.write(data, tmp_path / "e.csv", force=True)
    (tmp_path / "plain").write_text("x")
    with pytest.raises(DataFileError, match=r"is a file, not a folder"):
        io.write(data, tmp_path / "plain" / "d.csv")


def test_links_stay_links(tmp_path, data):
    io.write(data, tmp_path / "real.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    io.write(data[:4].copy(), tmp_path / "link.csv", force=True)
    assert (tmp_path / "link.csv").is_symlink()
    assert io.read(tmp_path / "real.csv").n_obs == 4


def test_a_file_that_appears_meanwhile_is_left_alone(tmp_path):
    def write():
        with io.replacing(tmp_path / "d.txt") as temporary:
            temporary.write_text("ours")
            (tmp_path / "d.txt").write_text("theirs")

    with pytest.raises(FileExistsError, match=r"somebody else"):
        write()
    assert (tmp_path / "d.txt").read_text() == "theirs"
    assert not leftovers(tmp_path)


SCRIPT = """
import os, sys, resource, numpy, anndata
from harmonicalign.adapters import io
how, *targets = sys.argv[1:]
if how == "nobody":
    os.setuid(65534)
elif how == "limited":
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for target in targets:
    try:
        io.write(anndata.AnnData(numpy.random.rand(500, 200)), target, force=True)
    except io.DataFileError as error:
        print(error)
"""


def write_elsewhere(env, how, *targets):
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, how, *map(str, targets)]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are a matter of POSIX")
def test_a_disk_that_fills_up_for_real(tmp_path, data, unmeasured):
    targets = [tmp_path / name for name in ("d.h5ad", "d.npy", "d.npz", "d.csv")]
    before = {io.write(data, target): target.read_bytes() for target in targets}
    said = write_elsewhere(unmeasured, "limited", *targets).splitlines()
    assert all("largest size allowed" in line for line in said)
    assert len(said) == len(targets)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of folders are a matter of POSIX")
def test_a_folder_that_is_read_only_for_real(tmp_path, unmeasured):
    folder = tmp_path / "fixed"
    folder.mkdir()
    folder.chmod(0o555)
    if os.geteuid() == 0:  # for root no folder is read-only, so become nobody
        for above in (tmp_path, *tmp_path.parents[:3]):
            above.chmod(above.stat().st_mode | 0o055)
    said = write_elsewhere(unmeasured, "nobody" if os.geteuid() == 0 else "as I am", folder / "d.h5ad")
    assert "read-only for you" in said
    assert list(folder.iterdir()) == []


# ---------------------------------------------------------------------------------------------------------
# what a table is taken for is said


def read_lines(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return io.read(path)


@pytest.mark.parametrize("odd", ["<0.1", ">500", '"1,500"', "n/d*", "12%"])
def test_a_column_that_is_almost_numbers_is_mentioned(tmp_path, caplog, odd):
    rows = [f"c{i},{i * 0.37 % 1:.2f},{odd if i % 5 == 0 else i / 4},{'TB'[i % 2]}" for i in range(20)]
    found = read_lines(tmp_path / "d.csv", "cell,CD3,CD4,type", *rows)
    assert list(found.obs.columns) == ["CD4", "type"]
    assert "column 'CD4' has numbers, but 4 of 20 cells are not plain ones" in caplog.text
    assert odd.strip('"') in caplog.text
    assert "column 'type' has numbers" not in caplog.text


def test_a_column_of_numbers_with_commas_is_mentioned(tmp_path, caplog):
    read_lines(tmp_path / "d.csv", "cell,CD3,CD4", *(f'c{i},{i},"{i + 1},5{i:02}"' for i in range(20)))
    assert "20 of 20 cells are not plain ones ('1,500', '2,501', '3,502'" in caplog.text


def test_a_table_without_names_of_columns_is_mentioned(tmp_path, caplog):
    rows = [f"c{i},{(i + 3) * 0.37 % 1:.2f},{(i + 2) * 0.7 % 1:.2f},{i * 0.31 % 1:.3f}" for i in range(20)]
    assert read_lines(tmp_path / "d.csv", *rows).shape == (19, 3)
    assert (
        "the first line is taken as names of columns, although some are numbers ('0.11', '0.4'" in caplog.text
    )
    caplog.clear()
    assert read_lines(tmp_path / "e.csv", *(row + f",{'TB'[len(row) % 2]}" for row in rows)).n_obs == 19
    assert "the first line is taken as names of columns" in caplog.text


def test_numbers_in_order_are_names_of_columns_unless_all_of_a_line_is_numbers(tmp_path, caplog):
    rows = [f"{i * 0.37 % 1:.2f},{i * 0.2 % 1:.2f},{i * 0.31 % 1:.3f}" for i in range(20)]
    named = [f"c{i},{row}" for i, row in enumerate(rows)]
    assert read_lines(tmp_path / "d.csv", "cell,400.1,400.2,400.3", *named).shape == (20, 3)
    assert read_lines(tmp_path / "d.csv", "cell,1,2,3", *named).shape == (20, 3)
    assert read_lines(tmp_path / "d.csv", "cell,CD3,CD4,7", *named).shape == (20, 3)
    assert not caplog.text
    assert read_lines(tmp_path / "d.csv", "400.1,400.2,400.3", *rows).shape == (21, 3)
    assert "the first line is numbers in order and is taken as a row of data" in caplog.text


def test_names_of_columns_that_come_twice_are_said(tmp_path, caplog):
    rows = ["a,1,2,3", "b,4,5,6", "c,7,8,10"]
    read_lines(tmp_path / "once.csv", "id,g0,g2,g1", *rows)
    assert not caplog.records
    assert read_lines(tmp_path / "twice.csv", "id,g0,g0,g1", *rows).shape == (3, 3)
    assert "'g0' comes several times among the names of columns" in caplog.text
