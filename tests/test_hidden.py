"""What is being written has a hidden name; what killed runs left goes with the next run."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from harmonicalign import _hidden
from harmonicalign.adapters.storage import read_tree, write_tree

fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed")


def left_by(target, process, place=None):
    """A hidden file as a process leaves it."""
    name = f".harmonicalign-{place or _hidden._place()}-{process}-{'0' * 12}{target.suffix}"
    target.with_name(name).write_text("half of it")
    return target.with_name(name)


@pytest.fixture
def gone():
    """Number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_what_a_process_left_goes_and_what_others_write_stays(tmp_path, gone):
    target = tmp_path / "d.npz"
    dead, alive = left_by(target, gone), left_by(target, os.getpid())
    others = [tmp_path / name for name in (".harmonicalign-notes", ".harmonicalign-1-2-3.npz", ".d.npz.tmp")]
    for path in others:
        path.write_text("of somebody else")
    write_tree(target, 1, {})
    assert not dead.exists()
    assert alive.exists()
    assert all(path.exists() for path in others)


def test_folders_are_left_and_removed_too(tmp_path, gone):
    half = tmp_path / f".harmonicalign-{_hidden._place()}-{gone}-{'a' * 12}.zarr"
    (half / "X").mkdir(parents=True)
    (half / "X" / "0.0").write_text("")
    assert _hidden.sweep(tmp_path) == [half]
    assert list(tmp_path.iterdir()) == []
    assert _hidden.sweep(tmp_path / "no such folder") == []


def test_processes_elsewhere_get_a_day(tmp_path):
    path = left_by(tmp_path / "d.csv.gz", 1, place="0123abcd")
    assert _hidden.sweep(tmp_path) == []
    old = time.time() - 25 * 3600
    os.utime(path, (old, old))
    assert _hidden.sweep(tmp_path) == [path]


@pytest.mark.parametrize("name", ["d.csv.gz", "d.h5ad", "folder", "d." + "x" * 40, "n" * 255])
def test_names(tmp_path, name):
    hidden = _hidden.hidden_name(tmp_path / name)
    assert hidden.parent == tmp_path
    assert len(hidden.name) < 100
    assert hidden.name.endswith(_hidden.ending(tmp_path / name))
    assert _hidden._NAME.fullmatch(hidden.name)
    assert hidden != _hidden.hidden_name(tmp_path / name)


def folder(path, text):
    path.mkdir()
    (path / "file").write_text(text)
    return path


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_takes_the_place_of_another(tmp_path, monkeypatch, can_exchange):
    if not can_exchange:
        monkeypatch.setattr(_hidden, "_exchange", lambda one, other: False)
    target = folder(tmp_path / "d.zarr", "old")
    _hidden.rename(folder(_hidden.hidden_name(target), "new"), target)
    assert (target / "file").read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(sys.platform != "linux", reason="an exchange of names is a matter of Linux")
def test_linux_exchanges_names_in_one_step(tmp_path):
    one, other = folder(tmp_path / "one", "1"), folder(tmp_path / "other", "2")
    if not _hidden._exchange(one, other):
        pytest.skip("this disk cannot exchange names")
    assert ((one / "file").read_text(), (other / "file").read_text()) == ("2", "1")
    assert not _hidden._exchange(one, tmp_path / "nothing")


KILLED = """
import os, signal, sys
from pathlib import Path
from harmonicalign import _hidden
rename, renamed = os.replace, []
def replace(source, target):
    if len(renamed) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    renamed.append(source)
    rename(source, target)
os.replace = replace
_hidden._exchange = lambda one, other: False
target = Path(sys.argv[1])
new = _hidden.hidden_name(target)
new.mkdir()
(new / "file").write_text("new")
_hidden.rename(new, target)
"""


@fork
@pytest.mark.parametrize("renamed", [0, 1])
def test_a_kill_between_the_renames_of_a_folder(tmp_path, renamed):
    target = folder(tmp_path / "d.zarr", "old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(target), str(renamed)])
    assert done.returncode == -signal.SIGKILL
    assert target.exists() == (renamed == 0)
    assert len(list(tmp_path.iterdir())) == 2  # the new one under a hidden name, and the old one
    _hidden.hidden_name(target)  # as any later run
    assert list(tmp_path.iterdir()) == [target]
    assert (target / "file").read_text() == "old"


@fork
def test_a_folder_that_was_set_aside_is_found_by_its_reader(tmp_path):
    anndata = pytest.importorskip("anndata")
    pytest.importorskip("zarr")
    from harmonicalign.adapters import io

    target = io.write(anndata.AnnData(np.eye(3)), tmp_path / "d.zarr")
    os.replace(target, _hidden._aside(target))
    np.testing.assert_array_equal(io.read(target).X, np.eye(3))
    folder(_hidden._aside(target), "what a run did not come to remove")
    io.write(anndata.AnnData(np.ones((2, 2))), target, force=True)
    assert list(tmp_path.iterdir()) == [target]
    assert io.read(target).n_obs == 2
    os.replace(target, _hidden._aside(target))
    with pytest.raises(FileExistsError):  # it is back, and not to be replaced
        io.check_target(target, folder=True)


def test_models_are_written_under_such_names(tmp_path, monkeypatch):
    seen = []
    sync = os.fsync

    def look(handle):
        seen.extend(path.name for path in tmp_path.iterdir())
        sync(handle)

    monkeypatch.setattr(os, "fsync", look)
    assert read_tree(write_tree(tmp_path / "m.npz", [1], {}), {}) == [1]
    assert len(seen) == 1
    assert _hidden._NAME.fullmatch(seen[0])


# --- targets that are inputs --------------------------------------------------------------------------------


@pytest.fixture
def inputs(tmp_path):
    pytest.importorskip("anndata")
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    folder(tmp_path / "in.zarr", "{}")
    (tmp_path / "in.zarr" / ".zgroup").write_text("{}")
    (tmp_path / "link.csv").symlink_to("in.csv")
    os.link(tmp_path / "in.csv", tmp_path / "hard.csv")
    (tmp_path / "way").symlink_to(".")
    return tmp_path


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("in.csv", "is one of the inputs, which is not replaced"),
        ("link.csv", "is one of the inputs, .*in.csv, which"),
        ("hard.csv", "is one of the inputs"),
        ("way/in.csv", "is one of the inputs"),
        ("in.zarr/d.csv", "is a part of the input"),
    ],
)
def test_inputs_are_not_replaced_though_forced(inputs, target, said):
    from harmonicalign.adapters import io

    sources = [inputs / "in.csv", inputs / "in.zarr"]
    with pytest.raises(io.DataFileError, match=said + r".*allow overwriting inputs"):
        io.check_target(inputs / target, force=True, sources=sources)
    with (
        pytest.raises(io.DataFileError, match=said),
        io.replacing(inputs / target, force=True, sources=sources),
    ):
        pass
    io.check_target(inputs / target, force=True, sources=sources, over_sources=True)
    assert io.check_target(inputs / "new.csv", sources=sources) == inputs / "new.csv"


def test_a_folder_that_holds_an_input_is_not_replaced(inputs):
    from harmonicalign.adapters import io

    with pytest.raises(io.DataFileError, match=r"is a folder that holds the input .*file, which is not"):
        io.check_target(inputs / "in.zarr", force=True, folder=True, sources=[inputs / "in.zarr" / "file"])


def test_data_are_not_written_over_what_they_come_from(inputs):
    from harmonicalign.adapters import io

    data = io.read(inputs / "in.csv")
    options = {"force": True, "sources": [inputs / "in.csv"]}
    with pytest.raises(io.DataFileError, match=r"link\.csv is one of the inputs"):
        io.write(data, inputs / "link.csv", **options)
    io.write(data, inputs / "link.csv", over_sources=True, **options)
    assert (inputs / "link.csv").is_symlink()
    assert (inputs / "in.csv").read_text() != "a,b\n1,2\n"
