"""Runs an experiment: its cells in parallel, each kept on disk, so that a killed run continues.

An experiment is a list of cells (small dictionaries of parameters) and a function that measures one of them.
The result of a cell is written atomically as one JSON file, under a name derived from all that determines
it. Running again measures only what is not there yet.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import harmonicalign
from harmonicalign.experiments._tables import Row, summarise, to_csv, to_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Cell", "Experiment", "Outcome", "Plan", "Report", "Summary", "run"]

Cell = dict[str, Any]

_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "faiss-cpu",
    "matplotlib",
    "torch",
    "harmonypy",
    "scanorama",
    "anndata",
)


@dataclass(frozen=True)
class Plan:
    """The options of a run.

    Parameters
    ----------
    quick
        Small data that need no download, for a look and for tests.
    seeds
        Repeats; None for the experiment's own number.
    data
        Files or folders that the user named.
    markers
        The two markers that `batch` draws.
    """

    quick: bool = False
    seeds: int | None = None
    data: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()

    def repeats(self, full: int, quick: int) -> range:
        """Numbers of the repeats: as asked for, or the given defaults."""
        return range(self.seeds if self.seeds is not None else quick if self.quick else full)


@dataclass(frozen=True)
class Outcome:
    """The result of one cell: rows of the results table, and extra data for figures (JSON)."""

    rows: list[Row]
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """One table of means: `values` over all lines that share `by`; `digits` after the point."""

    by: tuple[str, ...]
    values: tuple[str, ...]
    digits: int = 3


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    Parameters
    ----------
    name, title
        What it is called, and what it shows in one line.
    cells
        Checks the data and lists the cells of a plan. Errors in the input are raised here, before
        anything is written.
    measure
        One cell's outcome.
    summaries
        Tables of means over repeats.
    outputs
        Figures (``.png``) and further tables (``.csv``) by file name, from all lines and extras.
    """

    name: str
    title: str
    cells: Callable[[Plan], list[Cell]]
    measure: Callable[[Plan, Cell], Outcome]
    summaries: tuple[Summary, ...]
    outputs: Callable[[list[Row], list[tuple[Cell, dict[str, Any]]]], dict[str, Any]]


@dataclass(frozen=True)
class Report:
    """Where an experiment's results are.

    Attributes
    ----------
    name
        The experiment.
    folder
        Holds ``results.csv``, ``summary.csv``, ``summary.md``, ``meta.json`` and the figures.
    files
        All of these.
    summary
        The tables of ``summary.md``.
    """

    name: str
    folder: Path
    files: tuple[Path, ...]
    summary: str

    def __str__(self) -> str:
        return f"{self.summary}\nwritten to {self.folder}"


def run(
    experiment: Experiment, plan: Plan, cells: Sequence[Cell], out: Path, *, jobs: int, progress: bool
) -> Report:
    """Measure what is missing, and write tables and figures.

    Parameters
    ----------
    experiment
        What to run.
    plan
        What was asked for.
    cells
        The plan's cells, from ``experiment.cells``.
    out
        Folder of the experiment.
    jobs
        Processes at a time.
    progress
        Show progress.
    """
    kept = out / "cells"
    kept.mkdir(parents=True, exist_ok=True)
    files = [kept / f"{_key(experiment.name, plan.quick, cell)}.json" for cell in cells]
    found = [_read(file) for file in files]
    missing = [i for i, outcome in enumerate(found) if outcome is None]
    started = time.perf_counter()
    code = code_digest()
    with _progress(experiment.name, len(cells), len(cells) - len(missing), progress) as tick:
        for i, outcome in _measure_all(experiment, plan, cells, missing, jobs):
            found[i] = outcome | {"cell": cells[i], "code": code}
            _write(files[i], json.dumps(found[i]))
            tick()
    outcomes = [outcome for outcome in found if outcome is not None]
    rows = [row for outcome in outcomes for row in outcome["rows"]]
    extras = [(outcome["cell"], outcome["extra"]) for outcome in outcomes if outcome["extra"]]
    tables = [(s, summarise(rows, s.by, s.values)) for s in experiment.summaries]
    text = f"# {experiment.name}\n\n{experiment.title}\n\n" + "\n\n".join(
        to_markdown(table, s.by, s.values, s.digits) for s, table in tables
    )
    written = [
        _write(out / "results.csv", to_csv(rows)),
        _write(out / "summary.csv", to_csv([line for _, table in tables for line in table])),
        _write(out / "summary.md", text + "\n"),
    ]
    for name, thing in experiment.outputs(rows, extras).items():
        written.append(
            _write(out / name, to_csv(thing)) if name.endswith(".csv") else _save(out / name, thing)
        )
    meta = {
        "experiment": experiment.name,
        "title": experiment.title,
        "quick": plan.quick,
        "seeds": plan.seeds,
        "data": [Path(path).name for path in plan.data],
        "cells": len(cells),
        "measured_now": len(missing),
        "seconds_of_this_run": round(time.perf_counter() - started, 1),
        "seconds_of_all_cells": round(sum(outcome["seconds"] for outcome in outcomes), 1),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "code": sorted({outcome["code"] for outcome in outcomes}),
        "machine": machine(),
        "parameters": list(cells),
    }
    written.append(_write(out / "meta.json", json.dumps(meta, indent=1)))
    return Report(experiment.name, out, tuple(written), text)


def _measure_all(
    experiment: Experiment, plan: Plan, cells: Sequence[Cell], missing: Sequence[int], jobs: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    if jobs == 1 or len(missing) < 2:
        for i in missing:
            yield _measure_one(experiment.measure, plan, cells[i], i)
        return
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    yield from parallel(delayed(_measure_one)(experiment.measure, plan, cells[i], i) for i in missing)


def _measure_one(
    measure: Callable[[Plan, Cell], Outcome], plan: Plan, cell: Cell, i: int
) -> tuple[int, dict[str, Any]]:
    start = time.perf_counter()
    with warnings.catch_warnings():
        # An alignment that is no better than chance is a finding here, and so is a classifier that is slow.
        warnings.simplefilter("ignore", UserWarning)
        try:
            outcome = measure(plan, cell)
        except Exception as error:
            error.add_note(f"in the cell {cell}")
            raise
    rows = [{key: _plain(value) for key, value in row.items()} for row in outcome.rows]
    return i, {"rows": rows, "extra": outcome.extra, "seconds": time.perf_counter() - start}


def _plain(value: object) -> object:
    """A number or string that JSON can hold; not-a-number is left empty."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- files --------------------------------------------------------------------------------------------------


def _key(name: str, quick: bool, cell: Cell) -> str:
    """Name of a cell's file: a hash of all that determines its outcome, except unreleased code."""
    text = json.dumps([name, harmonicalign.__version__, quick, cell], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _read(file: Path) -> dict[str, Any] | None:
    try:
        outcome: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):  # not measured yet, or damaged on disk: measure it
        return None
    return outcome


def _write(file: Path, text: str) -> Path:
    """Write a file atomically."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    os.replace(part, file)
    return file


def _save(file: Path, figure: Figure) -> Path:
    part = file.with_name(f".{os.getpid()}.{file.name}")
    figure.savefig(part, dpi=110)
    os.replace(part, file)
    return file


# --- what was run, where -----------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Short hash of the package's source, which identifies the state of the code."""
    folder = Path(harmonicalign.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return f"{harmonicalign.__version__}+{digest.hexdigest()[:12]}"


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter, where installed."""
    found = {"python": platform.python_version(), "harmonicalign": harmonicalign.__version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """A general description of the machine."""
    words: dict[str, Any] = {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
    }
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        words["memory_gib"] = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        if name in os.environ:
            words[name.lower()] = os.environ[name]
    return words


# --- progress -----------------------------------------------------------------------------------------------


@contextmanager
def _progress(name: str, total: int, done: int, wanted: bool) -> Iterator[Callable[[], None]]:
    """Show progress: a bar if rich is installed and output is a terminal, else some lines."""
    if not wanted:
        yield lambda: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        screen = None
    else:
        screen = Console(stderr=True)
    if screen is None or not screen.is_terminal:
        yield _Lines(name, total, done).tick
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda: bar.advance(task)


class _Lines:
    """Progress in plain lines, at most one every ten seconds."""

    def __init__(self, name: str, total: int, done: int) -> None:
        self.name, self.total, self.done, self.first = name, total, done, done
        self.start = self.last = time.monotonic()
        if done:
            self._say(f"{done} of {total} cells were there already")

    def tick(self) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self.last >= 10 or self.done == self.total:
            self.last = now
            left = (now - self.start) / (self.done - self.first) * (self.total - self.done)
            self._say(f"{self.done} of {self.total} cells, about {left / 60:.0f} min left")

    def _say(self, text: str) -> None:
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)
