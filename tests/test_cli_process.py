"""The command line as a process of its own: signals, full disks, read-only folders, missing packages."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("anndata")
pytest.importorskip("typer")

resource = pytest.importorskip("resource", reason="limits and signals are a matter of POSIX")

COMMAND = [sys.executable, "-m", "harmonicalign.adapters.cli"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Two datasets, large enough that aligning them takes a while."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.RandomState(0)
    mixing = rng.randn(5, 60)
    for name in ("a", "b"):
        np.save(folder / f"{name}.npy", np.tanh(rng.randn(3000, 5) @ mixing) + 0.1 * rng.randn(3000, 60))
    return [str(folder / "a.npy"), str(folder / "b.npy")]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_runs_leave_nothing(tmp_path, inputs, number, code):
    # Shells start background jobs with Ctrl-C ignored, which children inherit.
    process = subprocess.Popen(
        [*COMMAND, "align", *inputs, "-o", str(tmp_path / "o.h5ad"), "-m", str(tmp_path / "m.npz")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        for line in process.stderr:
            if line.startswith("harmonics of"):  # in the midst of the fit
                break
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code
    assert list(tmp_path.iterdir()) == []
    assert out == ""
    assert "Traceback" not in err
    if number == signal.SIGINT:
        assert err.splitlines()[-1] == "error: interrupted; nothing is left half-written"


def test_a_disk_that_fills_up(tmp_path, tmp_path_factory, unmeasured):
    small = tmp_path_factory.mktemp("small")
    files = [str(small / "a.npy"), str(small / "b.npy")]
    for file in files:
        np.save(file, np.random.RandomState(0).rand(200, 30))
    done = subprocess.run(
        [*COMMAND, "align", *files, "-o", str(tmp_path / "new" / "o.h5ad"), "-q", "--no-report"],
        capture_output=True,
        text=True,
        env=unmeasured,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {tmp_path}/new/o.h5ad was not written: it would grow beyond")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_read_only(tmp_path, inputs, unmeasured):
    folder = tmp_path / "fixed"
    folder.mkdir()
    folder.chmod(0o555)
    # For root no folder is read-only, so become nobody once everything is loaded.
    become = "import os; os.geteuid() == 0 and os.setuid(65534)"
    if os.geteuid() == 0:
        for above in (tmp_path, *tmp_path.parents[:3], *(os.path.dirname(i) for i in inputs)):
            os.chmod(above, os.stat(above).st_mode | 0o055)
    loaded = "import harmonicalign.cli, harmonicalign.adapters.cli._app, harmonicalign.estimator"
    code = f"{loaded}; {become}; harmonicalign.cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "align", *inputs, "-o", str(folder / "o.npy"), "--no-report"],
        capture_output=True,
        text=True,
        env=unmeasured,
    )
    assert (
        done.stderr == f"error: {folder}/o.npy cannot be written: the folder {folder} is read-only for you\n"
    )
    assert done.returncode == 2
    assert list(folder.iterdir()) == []


def test_without_the_extra(tmp_path):
    code = "import sys; sys.modules['typer'] = None; from harmonicalign.adapters.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("pip install 'harmonicalign[cli]'")
    assert len(done.stderr.splitlines()) == 1


def test_a_broken_installation_is_not_called_a_missing_extra():
    broken = "sys.modules['harmonicalign.adapters.cli._app'] = None"
    code = f"import sys; {broken}; import harmonicalign.cli as c; c.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError: ")
    assert "harmonicalign[cli]" not in done.stderr


def test_the_demonstration_is_a_module_of_its_own():
    command = [sys.executable, "-m", "harmonicalign.demo", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: harmonicalign.demo")
    assert "folder for the pictures" in done.stdout


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("reproduce co", "corruption"),
        ("compare --method sca", "scanorama"),
        ("check --normalize au", "auto"),
        ("den", "denoise"),
        ("align --method pa", "paper"),
        ("align --device cu", "cuda"),
    ],
)
def test_completion_in_a_shell(line, found):
    words = {"COMP_WORDS": f"harmonicalign {line}", "COMP_CWORD": str(len(line.split()))}
    done = subprocess.run(
        COMMAND,
        capture_output=True,
        text=True,
        env={**os.environ, "_HARMONICALIGN_COMPLETE": "complete_bash", **words},
    )
    assert done.stdout.split() == [found]
