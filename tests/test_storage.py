"""Model files: what goes in comes out, and nothing else gets in."""

import copy
import io
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign import HarmonicAlignment, load
from harmonicalign._exceptions import ModelFileError
from harmonicalign.adapters import storage
from harmonicalign.adapters.storage import read_tree, write_tree


@dataclass(frozen=True)
class Leaf:
    numbers: Any
    name: str = ""


@dataclass(frozen=True)
class Branch:
    leaves: Any
    matrix: Any


TYPES = {"Leaf": Leaf, "Branch": Branch}


def assert_same(a, b):
    """Equal in kind, type, shape and every bit."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if a.dtype == object:
            for x, y in zip(a.ravel(), b.ravel(), strict=True):
                assert_same(x, y)
        else:
            assert a.flags.f_contiguous == b.flags.f_contiguous
            assert a.tobytes() == b.tobytes()
    elif sp.issparse(a):
        assert a.shape == b.shape
        for part in ("data", "indices", "indptr"):
            assert_same(getattr(a, part), getattr(b, part))
    elif isinstance(a, Leaf | Branch):
        for f in fields(a):
            assert_same(getattr(a, f.name), getattr(b, f.name))
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, dict):
        assert list(map(repr, a)) == list(map(repr, b))
        for x, y in zip(a.values(), b.values(), strict=True):
            assert_same(x, y)
    else:
        assert repr(a) == repr(b)  # tells -0.0 from 0.0, and NaN is NaN


def example(seed=0):
    rng = np.random.RandomState(seed)
    return {
        "branch": Branch(
            [Leaf(rng.randn(30, 4), "α"), Leaf(None)], sp.random(20, 9, 0.2, "csr", random_state=1)
        ),
        ("a", 1): (rng.randint(0, 9, 50), [np.inf, 0.1]),
        "text": np.array(["x", "yy"]),
        "seed": seed,
    }


@pytest.fixture
def saved(tmp_path):
    return write_tree(tmp_path / "model.npz", example(), TYPES)


def complaint(path):
    """What reading says against the file, or None."""
    try:
        read_tree(path, TYPES)
    except ModelFileError as error:
        return str(error)
    return None


def refused(path, *words):
    """Reading raises the one error, which names the file."""
    message = complaint(path)
    assert message is not None, "the file was read"
    for word in (str(path), *words):
        assert word in message


def rewrite(path, change_header=None, **replaced):
    """The same file with another header or other entries."""
    with np.load(path) as stored:
        entries = {name: stored[name] for name in stored}
    if change_header is not None:
        header = json.loads(bytes(entries["header"]).decode())
        change_header(header)
        entries["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **{**entries, **replaced})


# --- round trips ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**70),
        0.1,
        -0.0,
        float("inf"),
        float("-inf"),
        float("nan"),
        5e-324,
        "",
        "naïve λ \U0001f40d \x00 \ud800",
        [],
        (),
        {},
        [1, (2.5, "x", [None])],
        {"a": 1, 2: "b", ("i", "j"): [3], None: False, 1.5: ()},
        Leaf(np.arange(3)),
        Branch((Leaf(1.5, "x"), Leaf([Leaf(None)])), {"deep": Leaf(np.eye(2))}),
        {"array": "model", "type": "Leaf", "csr": 3},  # keys that the format itself uses
    ],
    ids=lambda v: repr(v)[:30],
)
def test_round_trip(tmp_path, value):
    assert_same(read_tree(write_tree(tmp_path / "m.npz", value, TYPES), TYPES), value)


@pytest.mark.parametrize(
    "dtype", ["f4", "f8", ">f8", "f2", "i1", "i8", "u2", "?", "c16", "U7", "S3", "M8[s]"]
)
def test_arrays_come_back_to_the_bit(tmp_path, dtype):
    base = np.arange(24).astype(dtype)
    shapes = [
        base,
        base.reshape(4, 6),
        np.asfortranarray(base.reshape(4, 6)),
        base[::3],
        base[:0],
        np.array(base[5]),
    ]
    found = read_tree(write_tree(tmp_path / "m.npz", shapes, TYPES), TYPES)
    for a, b in zip(found, shapes, strict=True):
        assert_same(a, b if b.flags.forc else b.copy())


def test_not_a_number_and_signed_zero_keep_their_bits(tmp_path):
    bits = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0x8000000000000000, 1], dtype=np.uint64)
    assert_same(
        read_tree(write_tree(tmp_path / "m.npz", bits.view(float), TYPES), TYPES).view(np.uint64), bits
    )


@pytest.mark.parametrize("shape", [(5, 7), (0, 3), (3, 0), (1, 1)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, bool])
def test_sparse_matrices(tmp_path, shape, dtype):
    matrix = sp.csr_matrix((np.random.RandomState(0).rand(*shape) > 0.5).astype(dtype))
    assert_same(read_tree(write_tree(tmp_path / "m.npz", matrix, TYPES), TYPES), matrix)


def test_other_sparse_formats_become_csr(tmp_path):
    matrix = sp.random(6, 4, 0.5, "csc", random_state=0)
    assert_same(read_tree(write_tree(tmp_path / "m.npz", matrix, TYPES), TYPES), matrix.tocsr())


def test_arrays_of_objects(tmp_path):
    ragged = np.empty(3, dtype=object)
    ragged[:] = [np.arange(2), np.eye(2), None]
    lists = np.empty(2, dtype=object)
    lists[:] = [[1, 2], [3, 4]]
    table = np.array([["a", 1], [None, 2.5]], dtype=object)
    tree = [ragged, lists, table, table[:0]]
    assert_same(read_tree(write_tree(tmp_path / "m.npz", tree, TYPES), TYPES), tree)


def test_numpy_numbers_become_plain_ones(tmp_path):
    given = [np.float64(0.1), np.int32(3), np.bool_(True), np.float32(np.inf), np.str_("x")]
    found = read_tree(write_tree(tmp_path / "m.npz", given, TYPES), TYPES)
    assert_same(found, [0.1, 3, True, np.inf, "x"])


def test_no_entry_is_pickled(saved):
    with zipfile.ZipFile(saved) as archive:
        assert all(b"'|O'" not in archive.read(name) for name in archive.namelist())


# --- writing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Leaf(len), "model.numbers is a builtin_function_or_method.*give numbers instead of a function"),
        ([lambda: 0], "model.0 is a function"),
        ({"a": {1, 2}}, "is a set"),
        (b"bytes", "is a bytes"),
        (object(), "is a object"),
        (1j, "is a complex"),
        (np.zeros(2, dtype=[("a", object)]), "structured array"),
    ],
    ids=["builtin", "lambda", "set", "bytes", "object", "complex", "structured"],
)
def test_what_cannot_be_held_is_refused_and_nothing_is_written(tmp_path, value, words):
    path = write_tree(tmp_path / "m.npz", 1, TYPES)
    with pytest.raises(ValueError, match=words):
        write_tree(path, value, TYPES)
    assert read_tree(path, TYPES) == 1
    assert os.listdir(tmp_path) == ["m.npz"]


def test_unregistered_types_are_refused(tmp_path):
    with pytest.raises(ValueError, match="model is a Leaf"):
        write_tree(tmp_path / "m.npz", Leaf(1), {})


@pytest.mark.parametrize("name", ["model", "model.npy", "model.pkl", "model.npz.gz"])
def test_wrong_suffix(tmp_path, name):
    with pytest.raises(ValueError, match=r"a model file ends in \.npz"):
        write_tree(tmp_path / name, 1, TYPES)
    assert os.listdir(tmp_path) == []


def test_folders_are_made_and_permissions_are_the_usual_ones(tmp_path):
    path = write_tree(tmp_path / "new" / "folder" / "m.npz", 1, TYPES)
    plain = path.with_name("plain")
    plain.write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write into read-only folders"
)
def test_read_only_folder(saved):
    before = saved.read_bytes()
    saved.parent.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            write_tree(saved, 1, TYPES)
    finally:
        saved.parent.chmod(0o700)
    assert saved.read_bytes() == before


@pytest.mark.parametrize("step", ["write_array", "fsync", "replace"])
def test_a_failing_disk_leaves_the_earlier_file_and_no_litter(saved, monkeypatch, step):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format if step == "write_array" else os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_tree(saved, 1, TYPES)
    monkeypatch.undo()
    assert_same(read_tree(saved, TYPES), example())
    assert os.listdir(saved.parent) == [saved.name]


SAVER = """
import os, sys
import numpy as np
from harmonicalign.adapters.storage import write_tree
for line in sys.stdin:  # a fork for each kill, which spares it the imports
    child = os.fork()
    if child == 0:
        number = 0
        while True:
            number += 1
            write_tree(sys.argv[1], {"number": number, "array": np.full(200_000, number)}, {})
            print(number, flush=True)
    print("pid", child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill -9")
def test_killed_while_saving(tmp_path):
    """A real kill -9 at any moment: the last file that was finished, or the next one, is there and whole."""
    path = tmp_path / "model.npz"
    rng = np.random.RandomState(0)
    interrupted = 0
    with subprocess.Popen(
        [sys.executable, "-c", SAVER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as parent:
        for _ in range(24):
            parent.stdin.write("go\n")
            parent.stdin.flush()
            finished, pid = 0, None
            while pid is None or not finished:  # the two processes print in any order
                words = parent.stdout.readline().split()
                pid, finished = (int(words[1]), finished) if words[0] == "pid" else (pid, int(words[0]))
            time.sleep(rng.uniform(0, 0.03))
            os.kill(pid, signal.SIGKILL)
            while (line := parent.stdout.readline().strip()) != "gone":
                finished = int(line)
            found = read_tree(path, {})
            # The file after the last that was told of may have been renamed before that was printed.
            assert found["number"] in (finished, finished + 1)
            assert (found["array"] == found["number"]).all()
            left = set(tmp_path.iterdir()) - {path}
            interrupted += len(left)
            assert len(left) <= 1, "the next run did not remove what a killed one left"
            assert all(f"-{pid}-" in litter.name for litter in left)
        parent.stdin.close()
        assert parent.wait() == 0
    assert interrupted >= 5, "the kills did not hit a save; the test shows nothing"


# --- damage -----------------------------------------------------------------------------------------------


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        read_tree(tmp_path / "none.npz", TYPES)


def test_truncated_at_many_lengths(saved):
    whole = saved.read_bytes()
    lengths = {0, 1, 3, 4, 21, 22, len(whole) - 1, len(whole) - 22, *range(0, len(whole), 97)}
    for length in sorted(lengths):
        saved.write_bytes(whole[:length])
        refused(saved)


def test_a_hole_in_the_middle(saved):
    whole = saved.read_bytes()
    saved.write_bytes(whole[:1000] + whole[1100:])
    refused(saved)
    saved.write_bytes(whole[:1000] + bytes(500) + whole[1500:])
    refused(saved)


def test_any_flipped_bit_is_noticed_or_changes_nothing(saved):
    """Checksums cover the data; what they leave open, such as dates in the archive, does not matter."""
    whole = saved.read_bytes()
    rng = np.random.RandomState(0)
    noticed = 0
    for place in rng.choice(len(whole), 400, replace=False):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randint(8)
        saved.write_bytes(damaged)
        message = complaint(saved)
        if message is None:
            assert_same(read_tree(saved, TYPES), example())
        else:
            assert str(saved) in message
            noticed += 1
    assert noticed > 300


def test_every_data_byte_is_covered_by_a_checksum(saved):
    whole = saved.read_bytes()
    data = np.ascontiguousarray(example()["branch"].leaves[0].numbers).tobytes()
    start = whole.index(data)
    for offset in range(0, len(data), 61):
        damaged = bytearray(whole)
        damaged[start + offset] ^= 16
        saved.write_bytes(damaged)
        refused(saved, "CRC")


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"not a model at all" * 50, pickle.dumps({"a": 1}), bytes(5000), b"\x93NUMPY\x01\x00"],
)
def test_foreign_bytes(tmp_path, content):
    path = tmp_path / "m.npz"
    path.write_bytes(content)
    refused(path)


def test_a_folder_is_no_model(tmp_path):
    (tmp_path / "m.npz").mkdir()
    refused(tmp_path / "m.npz")


def test_foreign_archives(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, a=np.arange(3))
    refused(path)
    np.savez(path, header=np.arange(3))
    refused(path)
    np.savez(path, header=np.frombuffer(b'{"magic": "another program"}', dtype=np.uint8))
    refused(path, "is not a harmonicalign model")
    np.savez(path, header=np.frombuffer(b"[1, 2]", dtype=np.uint8))
    refused(path, "is not a harmonicalign model")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    refused(path)
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    refused(path)


@pytest.mark.parametrize("version", [storage.FORMAT + 1, 999, None, "1", 0, -1, [1]])
def test_another_format(saved, version):
    rewrite(saved, lambda header: header.update(format=version))
    refused(saved, f"model format {version}")


def test_a_newer_format_names_the_remedy(saved):
    rewrite(saved, lambda header: header.update(format=storage.FORMAT + 1))
    refused(saved, "Upgrade harmonicalign")


@pytest.mark.parametrize(
    "tree",
    [
        {"type": "os.system", "fields": {"command": "false"}},
        {"type": "Leaf", "fields": {"numbers": 1, "surplus": 2}},
        {"type": "Leaf", "fields": {}},
        {"type": "Leaf"},
        {"type": ["Leaf"], "fields": {}},
        {"type": "Leaf", "fields": [1]},
        {"array": "model.not.there", "shape": [1]},
        {"array": 7, "shape": [1]},
        {"array": "header"},
        {"csr": "header", "shape": [1, 1]},
        {"dict": [[{"list": []}, 1]]},
        {"dict": 5},
        {"list": 5},
        {"float": "twelve"},
        {"objects": [1, 2], "shape": [3]},
        {"objects": [1, 2], "shape": [10**15]},
        {"something": "else"},
        {},
    ],
    ids=lambda tree: json.dumps(tree)[:40],
)
def test_headers_that_make_no_sense(saved, tree):
    rewrite(saved, lambda header: header.update(tree=tree))
    refused(saved)


def test_an_unknown_type_is_named(saved):
    rewrite(saved, lambda header: header.update(tree={"type": "Twig", "fields": {}}))
    refused(saved, "Twig")


def test_endless_nesting(saved):
    text = b'{"magic": "harmonicalign model", "format": 1, "tree": ' + b'{"list": [' * 50_000
    np.savez(saved, header=np.frombuffer(text, dtype=np.uint8))
    refused(saved)
    text += b"]}" * 50_000 + b"}"
    np.savez(saved, header=np.frombuffer(text, dtype=np.uint8))
    refused(saved)


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_sparse_parts_that_do_not_fit(tmp_path, part):
    path = write_tree(tmp_path / "m.npz", sp.random(20, 9, 0.3, "csr", random_state=0), TYPES)
    with np.load(path) as stored:
        good = stored[f"model.{part}"]
    bad = good[:-3] if part == "data" else good + 10**6
    rewrite(path, **{f"model.{part}": bad})
    refused(path)


@pytest.mark.parametrize(("part", "kind"), [("data", "U5"), ("data", complex), ("indices", float)])
def test_sparse_parts_of_another_type(tmp_path, part, kind):
    path = write_tree(tmp_path / "m.npz", sp.random(20, 9, 0.3, "csr", random_state=0), TYPES)
    with np.load(path) as stored:
        good = stored[f"model.{part}"]
    rewrite(path, **{f"model.{part}": good.astype(kind)})
    with pytest.raises(ModelFileError, match=r"'model\.data' has parts of the wrong type"):
        read_tree(path, TYPES)


class Bomb:
    """Leaves a trace if it is ever unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("entry", ["header", "model.0"])
def test_pickles_are_not_opened(tmp_path, entry):
    path, trace = write_tree(tmp_path / "m.npz", [np.arange(3)], TYPES), tmp_path / "executed"
    hostile = np.empty(1, dtype=object)
    hostile[0] = Bomb(trace)
    rewrite(path, **{entry: hostile})
    refused(path, "allow_pickle=False")
    path.write_bytes(pickle.dumps(Bomb(trace)))
    refused(path)
    # A pickle with an archive after it: a zip reader sees the archive, numpy the pickle.
    whole = write_tree(tmp_path / "other.npz", 1, TYPES).read_bytes()
    path.write_bytes(pickle.dumps(Bomb(trace)) + whole)
    refused(path)
    assert not trace.exists()


@pytest.mark.parametrize("other", [np.zeros((0, 3)), np.zeros(6), np.zeros((3, 2)), np.zeros(())])
def test_an_array_has_the_shape_it_was_saved_with(tmp_path, other):
    path = write_tree(tmp_path / "m.npz", [np.zeros((2, 3))], TYPES)
    with np.load(path) as stored:
        parts = {name: stored[name] for name in stored}
    np.savez(path, **parts | {"model.0": other})
    refused(path, "has shape")


def test_entries_that_expand_are_not_unpacked(tmp_path, monkeypatch):
    path = write_tree(tmp_path / "m.npz", [np.zeros(3_000_000)], TYPES)
    assert path.stat().st_size < 200_000
    assert_same(read_tree(path, TYPES), [np.zeros(3_000_000)])
    monkeypatch.setattr(storage.trees, "_HARMLESS", 2**20)
    refused(path, "claims to hold 24", "no model does")
    monkeypatch.undo()
    monkeypatch.setattr(storage.trees, "available_bytes", lambda: 10 * 2**20)
    refused(path, "holds 23 MiB, and 10 MiB of memory are free")


def test_equal_arrays_are_stored_once(tmp_path):
    rows = np.random.RandomState(0).randn(5000, 4)
    one = write_tree(tmp_path / "one.npz", [rows], TYPES)
    tree = [rows, rows.copy(), {"again": rows}, sp.csr_matrix(rows), sp.csr_matrix(rows)]
    several = write_tree(tmp_path / "several.npz", tree, TYPES)
    # The sparse matrix has the same numbers, but as one long array.
    assert several.stat().st_size < 2.5 * one.stat().st_size
    found = read_tree(several, TYPES)
    assert_same(found, tree)
    assert found[0] is found[1] is found[2]["again"]


def test_arrays_that_differ_in_kind_alone_stay_apart(tmp_path):
    tree = [np.zeros(4), np.zeros((2, 2)), np.asfortranarray(np.zeros((2, 2))), np.zeros(4, np.int64)]
    tree += [-np.zeros(4), np.zeros((0, 3)), np.zeros((3, 0)), np.array(0.0), np.array("", dtype="U0")]
    assert_same(read_tree(write_tree(tmp_path / "m.npz", tree, TYPES), TYPES), tree)


def test_what_repeats_is_packed_and_noise_is_not(tmp_path):
    counts, noise = np.random.RandomState(0).poisson(0.1, (500, 200)), np.random.RandomState(0).rand(10**5)
    with zipfile.ZipFile(write_tree(tmp_path / "m.npz", [counts, noise], TYPES)) as archive:
        packed, plain = (archive.getinfo(f"model.{i}.npy") for i in (0, 1))
    assert packed.compress_size < packed.file_size / 8
    assert plain.compress_type == zipfile.ZIP_STORED


def test_equal_models_are_equal_files(tmp_path):
    files = [write_tree(tmp_path / name, example(), TYPES).read_bytes() for name in ("a.npz", "b.npz")]
    assert files[0] == files[1]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices are a matter of POSIX")
def test_pipes_and_devices_are_no_models(tmp_path):
    os.mkfifo(tmp_path / "m.npz")
    refused(tmp_path / "m.npz", "a pipe or a device")
    (tmp_path / "z.npz").symlink_to("/dev/zero")
    refused(tmp_path / "z.npz", "a pipe or a device")


@pytest.mark.parametrize("count", [10**16, 30_000])
def test_arrays_larger_than_their_entry(saved, count):
    """An array's own header may promise anything; it has to be there."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (count,)})
    rewrite(saved, lambda header: header.update(tree={"array": "huge", "shape": [count]}))
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("huge.npy", file.getvalue() + bytes(80))
    refused(saved)


# --- models of alignments -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def halves():
    rng = np.random.RandomState(0)
    rows = np.tanh(rng.randn(90, 3) @ rng.randn(3, 8))
    return rows[:40], rows[40:80], rows[80:]


@pytest.fixture(scope="module", params=["refined", "paper"])
def model(request, halves):
    return HarmonicAlignment(method=request.param, random_state=0).fit(halves[:2])


def test_what_a_model_without_its_data_can_do(tmp_path, model, halves):
    x, y, new = halves
    bare = load(model.save(tmp_path / "m.npz", with_data=False))
    for rows, dataset in ((x, 0), (y[::-1], 1), (new, 0), (new, 1), (np.vstack([new, y[:3]]), 1)):
        np.testing.assert_array_equal(
            bare.transform(rows, dataset=dataset), model.transform(rows, dataset=dataset)
        )
    for a, b in zip(bare.embedding_ + bare.confidence_, model.embedding_ + model.confidence_, strict=True):
        np.testing.assert_array_equal(a, b)
    labels = np.repeat(["a", "b"], 20)
    for method in ("knn", "diffusion", "svm"):
        found, expected = (m.transfer(labels, method=method) for m in (bare, model))
        np.testing.assert_array_equal(found.probabilities, expected.probabilities)
    np.testing.assert_array_equal(
        bare.denoise(np.vstack([x, y])).values, model.denoise(np.vstack([x, y])).values
    )
    np.testing.assert_array_equal(
        bare.impute(x, source=0, target=1).values, model.impute(x, source=0, target=1).values
    )
    assert bare.joint_.graph.n_rows == 80
    assert load(bare.save(tmp_path / "again.npz")).transform(new, dataset=0).shape[0] == 10


def test_what_a_model_without_its_data_cannot_do(tmp_path, model, halves):
    bare = load(model.save(tmp_path / "m.npz", with_data=False))
    message = (
        "needs the data that the model was fitted on, and the model was saved without them; save it with"
    )
    with pytest.raises(ValueError, match=message):
        bare.correct()
    if model.method == "refined":
        with pytest.raises(ValueError, match=message):
            bare.add(halves[2])
    assert bare.fitted_.inputs.datasets[0].shape == (40, 8)
    with pytest.raises(ValueError, match=message):
        np.asarray(bare.fitted_.inputs.datasets[0])
    with pytest.raises(ValueError, match=message):
        len(bare.fitted_.inputs.signals[1])
    again = pickle.loads(pickle.dumps(bare))
    np.testing.assert_array_equal(again.transform(halves[2], dataset=0), bare.transform(halves[2], dataset=0))


def test_a_file_without_the_data_does_not_hold_them(tmp_path, halves):
    x, y, _ = halves
    model = HarmonicAlignment(random_state=0).fit([x, y], signals=[x[:, ::-1] * 2, y[:, ::-1] * 2])
    whole, bare = (
        model.save(tmp_path / f"{with_data}.npz", with_data=with_data) for with_data in (True, False)
    )
    assert bare.stat().st_size < whole.stat().st_size

    def holds(path, rows):
        with np.load(path) as stored:
            arrays = [stored[name] for name in stored]
        return any(a.dtype.kind == "f" and np.isin(rows[:, 0], a).all() for a in arrays)

    assert holds(whole, x)
    assert holds(whole, y[:, ::-1] * 2)
    assert not holds(bare, x)
    assert not holds(bare, (y * 2)[:, ::-1])
    with pytest.raises(ValueError, match="signals"):
        load(bare).transform(x, dataset=0)
    found = load(bare).transform(x, dataset=0, signals=x[:, ::-1] * 2)
    np.testing.assert_array_equal(found, model.embedding_[0])


def test_a_report_of_a_model_without_its_data(tmp_path, model):
    bare = load(model.save(tmp_path / "m.npz", with_data=False))
    assert bare.report(tmp_path / "r.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_no_array_of_a_model_is_stored_twice(tmp_path, model):
    with zipfile.ZipFile(model.save(tmp_path / "m.npz")) as archive:
        contents = [archive.read(name) for name in archive.namelist()]
    large = [content for content in contents if len(content) > 500]
    assert len(large) > 5
    assert len(set(large)) == len(large)


@pytest.mark.parametrize("container", ["pandas", "polars", "default", None])
def test_the_container_of_results_survives(tmp_path, model, halves, container):
    if container in ("pandas", "polars"):
        pytest.importorskip(container)
    chosen = copy.deepcopy(model).set_output(transform=container)
    again = load(chosen.save(tmp_path / "m.npz"))
    assert type(again.transform(halves[2], dataset=0)) is type(chosen.transform(halves[2], dataset=0))


@pytest.mark.parametrize("container", ["arrow", 5, ["pandas"]])
def test_containers_that_do_not_exist(tmp_path, model, container):
    path = model.save(tmp_path / "m.npz")

    def change(header):
        next(pair for pair in header["tree"]["dict"] if pair[0] == "container")[1] = container

    rewrite(path, change)
    with pytest.raises(ModelFileError, match="does not hold a whole model"):
        load(path)
