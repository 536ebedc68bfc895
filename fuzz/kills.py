"""Kill -9 at random moments: ``python fuzz/kills.py --kills 200 --seed 0``.

The work runs in forks of this process, so that a kill costs no imports. Half of the kills come at a time
drawn from the whole run; the others a moment after a file of the run appears, when files can be damaged.
After each, every earlier file must be as it was or be replaced by a whole new one, and resumable work must
resume and end with the numbers of a run that was never killed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import harmonicalign as ha
from harmonicalign import _hidden as hidden
from harmonicalign.adapters import io

__all__ = ["KINDS", "campaign"]


def _forked(work: Callable[[], Any]) -> int:
    """Process that does the work, quietly."""
    number = os.fork()
    if number:
        return number
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        work()
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        os._exit(70)
    os._exit(0)


def _finished(work: Callable[[], Any]) -> float:
    """Do the work in a fork without killing it; return the seconds it took."""
    start = time.monotonic()
    status = os.waitpid(_forked(work), 0)[1]
    if status:
        raise RuntimeError(f"the work itself failed with the status {status}")
    return time.monotonic() - start


def _killed(work: Callable[[], Any], folder: Path, seconds: float, rng: np.random.Generator) -> bool:
    """Do the work in a fork and kill it; whether the kill came before the end."""
    before = _names(folder)
    process = _forked(work)
    start = time.monotonic()
    if rng.random() < 0.5:
        time.sleep(rng.uniform(0, 1.05 * seconds))
    else:
        while _names(folder) == before and time.monotonic() - start < 2 * seconds + 5:
            if os.waitpid(process, os.WNOHANG)[0]:
                return False
            time.sleep(0.0005)
        time.sleep(rng.choice([0, rng.uniform(0, 0.02), rng.uniform(0, 0.3)]))
    os.kill(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    return os.WIFSIGNALED(status)


def _names(folder: Path) -> set[str]:
    return {str(p) for p in folder.rglob("*")} if folder.exists() else set()


def _digest(path: Path) -> str:
    """Content of a file, or of all files of a folder."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(file.relative_to(path.parent).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


def _rows(seed: int, n: int = 80) -> Any:
    rng = np.random.RandomState(seed)
    return np.tanh(rng.randn(n, 3) @ np.random.RandomState(0).randn(3, 10))


def _sweep(folder: Path) -> int:
    """Remove what a killed process left under hidden names, as the next run does; return how many."""
    left = [*folder.glob(".*"), *folder.glob("manifolds/**/.*")]
    hidden.sweep(folder)
    for path in left:
        if path.name.startswith(".harmonicalign-"):
            assert not path.exists(), f"{path} stays for ever"
        elif path.exists():  # of results of studies and reports, which go under other names
            path.unlink()
    return len(left)


class Align:
    """``harmonicalign align --force`` over the results of an earlier run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "out"
        self.folder.mkdir()
        self.inputs = [str(folder / "a.npy"), str(folder / "b.npy")]
        for i, path in enumerate(self.inputs):
            np.save(path, _rows(i))
        self.originals = {path: _digest(Path(path)) for path in self.inputs}
        self.turn = 0

    def work(self) -> None:
        """Align once, with another seed every time."""
        from harmonicalign.adapters.cli import main

        out = self.folder
        sys.argv = ["harmonicalign", "align", *self.inputs, "--force", "--quiet", "--seed", str(self.turn)]
        sys.argv += ["-o", str(out / "o.h5ad"), "-m", str(out / "m.npz"), "--report", str(out / "r.html")]
        main()

    def check(self) -> None:
        """Whatever has a name is whole, and the inputs are what they were."""
        self.turn += 1
        for path, digest in self.originals.items():
            assert _digest(Path(path)) == digest, f"{path} changed"
        assert {p.name for p in self.folder.glob("[!.]*")} == {"o.h5ad", "m.npz", "r.html"}, (
            "a result is gone"
        )
        assert io.read(self.folder / "o.h5ad").obsm["X_harmonic"].shape[0] == 160
        assert len(ha.load(self.folder / "m.npz").embedding_) == 2
        assert (self.folder / "r.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


class Save:
    """`save` over an earlier model, again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "out"
        self.folder.mkdir()
        self.models = []
        for seed in range(2):
            model = ha.HarmonicAlignment(random_state=seed, n_landmarks=20)
            self.models.append(model.fit([_rows(0, 400), _rows(1, 400)]))

    def work(self) -> None:
        """Save both models in turn."""
        for i in range(20):
            self.models[i % 2].save(self.folder / "m.npz")

    def check(self) -> None:
        """The file is one of the two models."""
        found = ha.load(self.folder / "m.npz").embedding_[0]
        assert any(np.array_equal(found, model.embedding_[0]) for model in self.models), "a mixture of models"


class Write:
    """`io.write` of a folder (zarr) and a table over earlier ones."""

    def __init__(self, folder: Path) -> None:
        import anndata

        self.folder = folder / "out"
        self.folder.mkdir()
        self.data = [anndata.AnnData(_rows(seed, 200)) for seed in range(2)]

    def work(self) -> None:
        """Write both in turn."""
        for i in range(6):
            io.write(self.data[i % 2], self.folder / "d.zarr", force=True)
            io.write(self.data[i % 2], self.folder / "d.csv.gz", force=True)

    def check(self) -> None:
        """Each is one of the two."""
        for name in ("d.zarr", "d.csv.gz"):
            found = np.asarray(io.read(self.folder / name).X)
            assert any(np.array_equal(found, data.X) for data in self.data), f"{name} is a mixture"


class Reproduce:
    """``reproduce --quick``, which resumes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "out"
        self.reference = folder / "reference"
        _finished(lambda: self._run(self.reference))
        self.expected = self._numbers(self.reference)
        self.resumed = 0

    @staticmethod
    def _run(out: Path) -> None:
        from harmonicalign.experiments import reproduce

        reproduce("manifolds", quick=True, seeds=1, out=out, progress=False)

    @staticmethod
    def _numbers(out: Path) -> list[str]:
        """Results without the times."""
        lines = [line.split(",") for line in (out / "manifolds" / "results.csv").read_text().splitlines()]
        kept = [i for i, name in enumerate(lines[0]) if "second" not in name]
        return [",".join(line[i] for i in kept) for line in lines]

    def work(self) -> None:
        """Go on."""
        self._run(self.folder)

    def check(self) -> None:
        """Cells that have a name are whole; once all are there, finish, compare and start afresh."""
        cells = list((self.folder / "manifolds" / "cells").glob("[!.]*.json"))
        for cell in cells:
            assert json.loads(cell.read_text())["rows"], f"{cell} is damaged"
        if cells:
            stamps = {cell: cell.stat().st_mtime_ns for cell in cells}
            _finished(self.work)
            assert all(cell.stat().st_mtime_ns == stamp for cell, stamp in stamps.items()), "measured again"
            assert self._numbers(self.folder) == self.expected, "resumed work gave other numbers"
            self.resumed += 1
            shutil.rmtree(self.folder)


KINDS: dict[str, type[Any]] = {"align": Align, "save": Save, "write": Write, "reproduce": Reproduce}


def campaign(kind: str, kills: int, seed: int) -> Counter[str]:
    """Kill one kind of work so many times; an AssertionError says what was damaged."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        subject = KINDS[kind](Path(scratch))
        if kind != "reproduce":
            _finished(subject.work)
            seconds = _finished(subject.work)
        else:
            seconds = _finished(lambda: subject._run(Path(scratch) / "timed"))
        while counts["kills"] < kills:
            hit = _killed(subject.work, subject.folder, seconds, rng)
            counts["kills" if hit else "too late"] += 1
            try:
                subject.check()
            except AssertionError:
                raise
            except Exception as error:
                raise AssertionError(
                    f"after kill {counts['kills']}: {type(error).__name__}: {error}"
                ) from error
            counts["left under hidden names"] += _sweep(subject.folder)
        if kind == "reproduce":
            counts["resumed"] = subject.resumed
    return counts


def main() -> int:
    """Kill, check, count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="in all; shared out between the kinds of work")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append", help="work to kill; by default all kinds")
    args = parser.parse_args()
    import harmonicalign.adapters.cli._app
    import harmonicalign.adapters.report  # noqa: F401

    kinds = args.kind or list(KINDS)
    for i, kind in enumerate(kinds):
        share = args.kills // len(kinds) + (i < args.kills % len(kinds))
        start = time.monotonic()
        counts = campaign(kind, share, args.seed)
        told = ", ".join(f"{value} {name}" for name, value in counts.items())
        print(f"{kind}: {told}; nothing lost, nothing damaged ({time.monotonic() - start:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
