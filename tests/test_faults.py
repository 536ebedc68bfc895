"""Work that is killed, disks that fill up and folders that cannot be written: nothing is lost or damaged."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import harmonicalign as ha
from harmonicalign.method import memory

pytest.importorskip("anndata")
pytest.importorskip("typer")
resource = pytest.importorskip("resource", reason="limits and signals are a matter of POSIX")

KILLS = Path(__file__).parents[1] / "fuzz" / "kills.py"


@pytest.fixture(scope="module")
def model():
    rng = np.random.RandomState(0)
    rows = np.tanh(rng.randn(60, 3) @ rng.randn(3, 8))
    return ha.HarmonicAlignment(random_state=0).fit([rows[:30], rows[30:]])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are killed")
@pytest.mark.parametrize(("kind", "kills"), [("save", 3), ("align", 2)])
def test_killed_at_random_moments(kind, kills):
    done = subprocess.run(
        [sys.executable, str(KILLS), "--kills", str(kills), "--kind", kind], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{kills} kills" in done.stdout
    assert "nothing lost, nothing damaged" in done.stdout


def test_a_full_disk_leaves_the_earlier_model(tmp_path, model, unmeasured):
    path = model.save(tmp_path / "m.npz")
    earlier = path.read_bytes()
    code = (
        "import resource, sys, harmonicalign;"
        "model = harmonicalign.load(sys.argv[1]);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "model.save(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=unmeasured
    )
    assert done.returncode == 1
    assert "OSError" in done.stderr
    assert path.read_bytes() == earlier
    assert [p.name for p in tmp_path.iterdir()] == ["m.npz"]


def test_no_space_is_told_and_nothing_is_left(tmp_path, model, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = model.save(tmp_path / "m.npz")
    earlier = path.read_bytes()
    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space left"):
        model.save(path)
    assert path.read_bytes() == earlier
    assert [p.name for p in tmp_path.iterdir()] == ["m.npz"]


def test_interrupted_saving_leaves_nothing(tmp_path, model, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(np.lib.format, "write_array", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.save(tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------------------------------
# the plan of memory


def plan(n, method="refined", width=50, k=50, **options):
    return memory.planned_bytes([n, n], [width] * 2, [k] * 2, [15] * 2, method=method, **options)


@pytest.mark.parametrize(
    ("method", "rows", "k", "measured"),
    [
        ("paper", 3000, 100, 292),
        ("paper", 5000, 100, 799),
        ("refined", 2000, 50, 89),
        ("refined", 10_000, 50, 157),
        ("refined", 40_000, 50, 207),
        ("refined", 150_000, 50, 619),
    ],
)
def test_plans_are_near_what_was_measured(method, rows, k, measured):
    planned = plan(rows, method, k=k) / 2**20
    assert measured / 1.5 < planned < 1.5 * measured


@pytest.mark.parametrize(
    ("method", "rows", "width", "signals", "measured"),
    [
        ("refined", 3000, 50, 3000, 371),
        ("refined", 2000, 50, 1000, 97),
        ("refined", 12_000, 50, 50, 87),
        ("paper", 3000, 50, 50, 291),
    ],
)
def test_plans_of_wide_data_are_near_what_was_measured(method, rows, width, signals, measured):
    """Memory in MiB of fits of data with many columns, and of data of which each row comes thirty times."""
    k = 100 if method == "paper" else 50
    neighbours = [rows // 25] * 2 if method == "paper" else [15] * 2
    planned = memory.planned_bytes(
        [rows] * 2, [width] * 2, [k] * 2, neighbours, method=method, n_signals=signals
    )
    assert measured / 1.5 < planned / 2**20 < 1.5 * measured


def test_plans_grow_with_what_they_are_of():
    assert plan(200_000) > plan(100_000)
    assert plan(9000, "paper") > 3 * plan(4500, "paper")
    assert plan(9000, "paper", k=8999) > plan(9000, "paper")
    assert plan(100_000, width=2000) > plan(100_000, width=2000, itemsize=4) > plan(100_000)
    assert plan(100_000, n_signals=10**5) > plan(100_000, n_signals=10**5, n_landmarks=100)


@pytest.mark.parametrize(
    ("sizes", "options", "hint"),
    [
        ([9000, 9000], {"method": "paper"}, "method='refined' needs about"),
        ([10**6, 10**6], {"widths": [1000, 1000], "available": 12 * 2**30}, "as float32 it needs about"),
        ([10**7, 10**7], {}, "Dask arrays .* of the 20,000,000 rows would fit"),
        ([10**7, 10**7], {"available": 1000}, "Dask arrays need no more than a few of their blocks"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(sizes, options, hint):
    options = {"available": 2**30, **options}
    widths = options.pop("widths", [50, 50])
    with pytest.raises(memory.NotEnoughMemoryError, match=hint) as refusal:
        memory.check(sizes, widths, [50, 50], [15, 15], **options)
    assert "of memory and" in str(refusal.value)
    assert isinstance(refusal.value, MemoryError)


def test_what_fits_is_planned():
    assert memory.check([100, 100], [5, 5], [20, 20], [5, 5]) == memory.planned_bytes(
        [100, 100], [5, 5], [20, 20], [5, 5]
    )


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Control groups of both versions in a folder of their own, and this process in one of each."""
    roots = tmp_path / "two", tmp_path / "one"
    known = [(root, *rest) for root, (_, *rest) in zip(roots, memory._CGROUPS, strict=True)]
    monkeypatch.setattr(memory, "_CGROUPS", known)
    membership = tmp_path / "membership"
    membership.write_text("4:cpu,memory:/jobs/mine\n1:cpu:/\n0::/slice/mine.scope\n")
    monkeypatch.setattr(memory, "_MEMBERSHIP", membership)

    def group(version, path, limit, used, reclaimable=None):
        folder = roots[2 - version] / path
        folder.mkdir(parents=True, exist_ok=True)
        (_, _, limit_file, used_file, name) = known[2 - version]
        (folder / limit_file).write_text(f"{limit}\n")
        (folder / used_file).write_text(f"{used}\n")
        if reclaimable is not None:
            (folder / "memory.stat").write_text(f"anon 5\n{name} {reclaimable}\n")

    return group


@pytest.mark.parametrize(("version", "own"), [(2, "slice/mine.scope"), (1, "jobs/mine")])
def test_limits_of_containers_count(groups, version, own):
    free = memory.available_bytes()
    assert free > 2**20
    groups(version, "", 3000, 1000)  # what a container sees of its own group
    assert memory.available_bytes() == 2000
    groups(version, own, 2500, 1000)
    assert memory.available_bytes() == 1500
    groups(version, own, 2500, 1000, reclaimable=400)
    assert memory.available_bytes() == 1900
    groups(version, own.split("/")[0], 900, 100)
    assert memory.available_bytes() == 800
    for path in ("", own, own.split("/")[0]):
        groups(version, path, "max" if version == 2 else 2**63 - 4096, 1000)
    assert memory.available_bytes() > 2**20


def test_readers_of_files_keep_to_the_limits_of_containers(groups, tmp_path):
    from harmonicalign.adapters import io

    np.save(tmp_path / "d.npy", np.zeros((100, 100)))
    groups(2, "", 50_000, 0)
    with pytest.raises(io.DataFileError, match=r"holds 78\.\d KiB, and 48\.8 KiB of memory are free"):
        io.read(tmp_path / "d.npy")


def test_limits_of_the_process_count():
    code = (
        "import resource, harmonicalign.method.memory as m;"
        "resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33)); print(m.available_bytes())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < 2**33


def test_nothing_is_refused_where_nobody_knows(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    assert memory.check([10**9], [50], [50], [15]) > 2**40


def test_sizes_are_told_for_people():
    assert memory.told(3 * 2**30) == "3.0 GiB"
    assert memory.told(5 * 2**20) == "5 MiB"
