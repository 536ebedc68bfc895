"""Whether two states of the code give the same results: after a change that should change nothing.

    python benchmarks/equality.py --against HEAD~1             # this checkout against an earlier commit
    python benchmarks/equality.py --against v1.0 --tasks 0     # without the data sets that need files
    python benchmarks/equality.py --against HEAD --src OTHER/src

Both states fit the same datasets, each in a process of its own with one thread for linear algebra: digits
that need no files, and `TASKS` of the suite of `tasks`, by both methods; then what a model is used for:
placing new rows, letting a dataset join, carrying labels and values over, correcting, denoising and imputing.
Only public names are used, so that each state can be laid out as it likes. ``method="paper"`` has to give the
same bits; of the default the largest difference in an array, by the largest magnitude in it, has to stay
below ``--rtol``, and labels and whole numbers have to be the same. One row is printed for each case, and the
exit status is 1 if any differs. Tasks whose files are absent are skipped; see `tasks` for where files are.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[1]

DIGITS = (0.1, 0.35, 0.7, 1.0)
"""Shares of the digits' features that are preserved."""

TASKS = (
    "pbmc_all",
    "cell_lines",
    "mnist_p35",
    "pancreas",
    "pancreas_rotated",
    "pbmc_3pv1_5p",
    "cytometry_p1_baseline",
    "jurkat_three",
    "cortex",
    "worms",
)
"""One or two of each family: dense and sparse, pairs and groups; with landmarks, links, rotated columns."""

USED = ("pbmc_all", "cell_lines")
"""Tasks on which the uses of a model are tried too."""

MOST_ROWS = {"refined": 5000, "paper": 1500}
"""Rows of each dataset of a task, by method."""

N_NEW = 60
"""Rows of each dataset that are kept from the fit, and placed afterwards."""

N_COLUMNS = 20
"""Columns that are denoised and imputed."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Results = dict[str, Any]


# --------------------------------------------------------------------------------------------------------
# the child: one state of the code, all cases


def fitted(datasets: Sequence[Any], method: str, **options: Any) -> Any:
    from harmonicalign import HarmonicAlignment

    return HarmonicAlignment(method=method, random_state=0).fit(list(datasets), **options)


def of_model(model: Any) -> Results:
    """What a fitted model says, by name."""
    out: Results = {"n_bands": model.n_bands_, "t": model.t_}
    out |= {f"embedding {i}": z for i, z in enumerate(model.embedding_)}
    out |= {f"confidence {i}": c for i, c in enumerate(model.confidence_)}
    out |= {f"eigenvalues {i}": h.eigenvalues for i, h in enumerate(model.harmonics_)}
    for name in ("n_neighbors", "n_pca", "n_harmonics"):
        out[name] = np.array([-1 if n is None else n for n in getattr(model, name + "_")])
    if model.method == "refined":
        out |= {name: getattr(model, name + "_") for name in ("feature_weights", "feature_scores", "share")}
        out["feature_selected"] = model.feature_selected_
        found = model.significance_
        out |= {"z": found.z, "p": found.p, "observed": found.observed, "null": found.null}
    return out


def fit_case(datasets: Sequence[Any], method: str, **options: Any) -> Results:
    return of_model(fitted(datasets, method, **options))


@dataclass(frozen=True)
class Kept:
    """Datasets to fit, rows of each that are kept from it, labels of the fitted, and one more dataset."""

    datasets: list[Any]
    new: list[Any]
    labels: list[np.ndarray]
    third: Any

    @classmethod
    def of(cls, datasets: Sequence[Any], labels: Sequence[np.ndarray]) -> Kept:
        """The first two datasets; the third, or rows that are kept from the fit, joins them."""
        third = datasets[2] if len(datasets) > 2 else datasets[0][-3 * N_NEW :]
        n = [x.shape[0] - (N_NEW if len(datasets) > 2 else 3 * N_NEW) for x in datasets[:2]]
        parts = list(zip(datasets, labels, n, strict=False))
        return cls(
            [x[:m] for x, _, m in parts],
            [x[m : m + N_NEW] for x, _, m in parts],
            [np.asarray(y)[:m] for _, y, m in parts],
            third,
        )


def placed(model: Any, kept: Kept) -> Results:
    """New rows, and rows of the fit."""
    out = {f"new rows {i}": model.transform(rows, dataset=i) for i, rows in enumerate(kept.new)}
    both = model.transform(kept.new)
    out |= {f"new rows of all {i}": z for i, z in enumerate(both)}
    return out | {"old rows": model.transform(kept.datasets[0][:N_NEW], dataset=0)}


def carried(model: Any, kept: Kept) -> Results:
    """Labels and values, by neighbours and by diffusion."""
    out = labelled(model, kept, "knn") | labelled(model, kept, "diffusion")
    values = model.transfer(columns(kept.datasets[1]), source=1, target=0)
    return out | {"values": values.values, "spread": values.spread}


def separated(model: Any, kept: Kept) -> Results:
    """Labels by support vectors; apart, as their search stops early and makes much of rounding."""
    return labelled(model, kept, "svm")


def labelled(model: Any, kept: Kept, method: str) -> Results:
    found = model.transfer(kept.labels[0], method=method)
    names = ("labels", "confidence", "probabilities")
    return {f"{method} {name}": getattr(found, name) for name in names}


def corrected(model: Any, kept: Kept) -> Results:
    return {f"corrected {i}": x for i, x in enumerate(model.correct(reference=0).values)}


def denoised(model: Any, kept: Kept) -> Results:
    """Columns of one dataset, and of all."""
    one = model.denoise(columns(kept.datasets[0]), dataset=0)
    both = model.denoise(np.vstack([columns(x) for x in kept.datasets]))
    return {"one": one.values, "one t": one.t, "all": both.values, "all t": both.t}


def imputed(model: Any, kept: Kept) -> Results:
    found = model.impute(columns(kept.datasets[0]), source=0, target=1)
    return {"values": found.values, "correlation": found.correlation, "rmse": found.rmse}


def joined(model: Any, kept: Kept) -> Results:
    """A third dataset that joins, and what can then be done with it. Changes the model: comes last.

    Labels by diffusion are left out: the joint graph after `add` has been built anew since 0.2.0 as the fit
    builds it, and settings have an entry for the new dataset.
    """
    before = of_model(model)
    out: Results = {"added": model.add(kept.third)}
    out["new rows"] = model.transform(kept.third[:N_NEW] * 1.01, dataset=2)
    out["labels"] = model.transfer(kept.labels[0], target=2).labels
    settled = {name: before[name] for name in ("n_neighbors", "n_pca", "n_harmonics")}
    return out | of_model(model) | settled


def columns(matrix: Any) -> np.ndarray:
    """The columns of a matrix that vary most, dense."""
    dense = matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
    dense = dense.astype(np.float64)
    return dense[:, np.sort(np.argsort(-dense.var(0), kind="stable")[:N_COLUMNS])]


USES: dict[str, Callable[[Any, Kept], Results]] = {
    "transform": placed,
    "transfer": carried,
    "transfer by svm": separated,
    "correct": corrected,
    "denoise": denoised,
    "impute": imputed,
    "add": joined,
}


class Cases:
    """Runs cases and remembers what they gave, as arrays by case and name."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def run(self, case: str, function: Callable[[], Results]) -> None:
        """What a case gives, which warnings and how long it took; or how it failed."""
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = function()
            except Exception as error:  # told in the table
                found = {"failure": f"{type(error).__name__}: {error}"}
        found["warnings"] = ", ".join(sorted(w.category.__name__ for w in caught))
        for name, value in found.items():
            for part, array in _plain(value):
                self.arrays[f"{case}|{name}{part}"] = array
        self.arrays[f"{case}|seconds"] = np.array(time.perf_counter() - start)

    def skip(self, case: str, why: str) -> None:
        """Remember why a case was not run."""
        self.arrays[f"{case}|skipped"] = np.array(why)

    def uses(self, name: str, method: str, kept: Kept) -> None:
        """Fit, then one case for each use; they share the model."""
        models: list[Any] = []

        def use_model(function: Callable[[Any, Kept], Results]) -> Results:
            if not models:
                models.append(fitted(kept.datasets, method))
            return function(models[0], kept)

        for use, function in USES.items():
            if use != "add" or method == "refined":
                self.run(f"{name}, {use}, {method}", partial(use_model, function))


def _plain(value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays that a file can hold: numbers and text, of sparse matrices their parts."""
    if sp.issparse(value):
        csr = sp.csr_matrix(value)
        for part in ("data", "indices", "indptr"):
            yield f" ({part})", getattr(csr, part)
        return
    array = np.asarray(value)
    yield "", array.astype(str) if array.dtype == object else array


def run_state(out: Path, src: Path, n_tasks: int) -> None:
    """Run all cases with the code in `src` and write what they give."""
    import harmonicalign
    from harmonicalign.datasets import load_digits_pair

    home = Path(harmonicalign.__file__).resolve()
    if not home.is_relative_to(src.resolve()):
        raise SystemExit(f"harmonicalign was imported from {home.parent}, not from {src}")
    import tasks

    cases = Cases()
    for preserved in DIGITS:
        pair = load_digits_pair(preserved=preserved, n_x=400, n_y=350, random_state=0)
        for method in MOST_ROWS:
            name = f"digits {preserved:.0%}, fit, {method}"
            cases.run(name, partial(fit_case, [pair.x, pair.y], method))
    pair = load_digits_pair(preserved=0.7, n_x=600, n_y=550, random_state=1)
    for method in MOST_ROWS:
        cases.uses("digits", method, Kept.of([pair.x, pair.y], [pair.labels_x, pair.labels_y]))
    for name in TASKS[:n_tasks]:
        if name not in tasks.names():
            cases.skip(name, f"its file is not in {tasks.data_dir()}")
            continue
        run_task(cases, tasks.make(name), tasks.subsampled)
    np.savez(out, **cases.arrays)  # type: ignore[arg-type]


def run_task(cases: Cases, task: Any, subsampled: Callable[[Any, int], Any]) -> None:
    """Fit a task by both methods and, if it is one of these, try the uses of the model."""
    for method, most in MOST_ROWS.items():
        # Links between different columns are for the default alone.
        linked = task.links is not None and method == "refined"
        datasets = task.datasets if linked or task.common is None else task.common
        small = replace(task, datasets=datasets)
        if max(x.shape[0] for x in datasets) > most:
            small = subsampled(small, most)
        options = {"links": task.links} if linked else {}
        cases.run(
            f"{task.name}, fit, {method}",
            partial(fit_case, small.datasets, method, **options),
        )
        if task.name in USED:
            cases.uses(task.name, method, Kept.of(task.datasets, task.labels))


# --------------------------------------------------------------------------------------------------------
# the parent: both states, compared


@dataclass(frozen=True)
class Verdict:
    """One row of the table."""

    case: str
    largest: float
    where: str
    says: str

    @property
    def differs(self) -> bool:
        """Whether the two states are not the same here."""
        return not self.says.startswith(("ok", "skipped"))


@contextmanager
def worktree(revision: str) -> Iterator[Path]:
    """A temporary checkout of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "worktree"
        git = ["git", "-C", str(ROOT), "worktree"]
        added = subprocess.run(
            [*git, "add", "--quiet", "--detach", str(place), revision], capture_output=True, text=True
        )
        if added.returncode:
            raise SystemExit(added.stderr.strip())
        try:
            yield place
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True)


def start(src: Path, out: Path, n_tasks: int) -> subprocess.Popen[bytes]:
    """Run this script with the code in `src`."""
    environment = {**os.environ, "PYTHONPATH": str(src), "PYTHONHASHSEED": "0", **dict.fromkeys(THREADS, "1")}
    command = [sys.executable, __file__, "--state", str(out), "--src", str(src), "--tasks", str(n_tasks)]
    return subprocess.Popen(command, env=environment)


def run_both(sources: Sequence[Path], n_tasks: int) -> list[dict[str, np.ndarray]]:
    """What all cases give in both states, which run side by side."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{i}.npz" for i in range(len(sources))]
        running = [start(src, file, n_tasks) for src, file in zip(sources, files, strict=True)]
        for src, process in zip(sources, running, strict=True):
            if process.wait():
                for other in running:
                    other.kill()
                raise SystemExit(f"the cases did not run with {src}")
        out = []
        for file in files:
            with np.load(file, allow_pickle=False) as stored:
                out.append(dict(stored))
        return out


def compare(case: str, before: Results, after: Results, rtol: float) -> Verdict:
    """Compare what one case gave in the two states."""
    for which, found in (("before", before), ("now", after)):
        if "skipped" in found:
            return Verdict(case, 0.0, "", f"skipped: {found['skipped']}")
        if "failure" in found:
            both = "failure" in before and "failure" in after
            return Verdict(case, np.inf, "", f"fails {'in both' if both else which}: {found['failure']}")
    if set(before) != set(after):
        lone = sorted(set(before) ^ set(after))
        return Verdict(case, np.inf, ", ".join(lone[:3]), "differs: in one state only")
    exactly = case.endswith("paper")
    largest, where, bits = 0.0, "", True
    for name in before:
        a, b = before[name], after[name]
        if a.shape != b.shape:
            return Verdict(case, np.inf, name, f"differs: shapes {a.shape} and {b.shape}")
        bits = bits and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        apart = difference(a, b)
        if apart > largest:
            largest, where = apart, name
    if bits:
        return Verdict(case, 0.0, "", "ok, same bits")
    if exactly:
        return Verdict(case, largest, where, "differs: not the same bits")
    return Verdict(case, largest, where, "ok" if largest <= rtol else "differs")


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference between two arrays, by their largest magnitude; infinite between other kinds."""
    if a.dtype.kind != "f" or b.dtype.kind != "f":
        return 0.0 if np.array_equal(a, b) else np.inf
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    gap = float(np.abs(a[finite] - b[finite]).max(initial=0))
    scale = float(max(np.abs(x[finite]).max(initial=0) for x in (a, b)))
    return gap / scale if gap else 0.0


def by_case(arrays: dict[str, np.ndarray]) -> tuple[dict[str, Results], float]:
    """Results by case, and the seconds that all took."""
    out: dict[str, Results] = {}
    seconds = 0.0
    for key, array in arrays.items():
        case, name = key.split("|", 1)
        if name == "seconds":
            seconds += float(array)
        else:
            out.setdefault(case, {})[name] = array
    return out, seconds


def tell(rows: Sequence[Verdict]) -> None:
    """Print the table."""
    wide = max(len(row.case) for row in rows)
    print(f"{'case':{wide}}  {'difference':>10}  {'largest in':22}  ")
    for row in rows:
        print(f"{row.case:{wide}}  {row.largest:10.1e}  {row.where:22}  {row.says}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", metavar="REV", help="the commit to compare with")
    parser.add_argument(
        "--src", type=Path, default=ROOT / "src", help="the code to compare, of this checkout"
    )
    parser.add_argument("--tasks", type=int, default=len(TASKS), metavar="N", help="how many of the tasks")
    parser.add_argument("--rtol", type=float, default=1e-8, help="largest difference of the default method")
    parser.add_argument("--state", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.state is not None:
        run_state(options.state, options.src, options.tasks)
        return
    if options.against is None:
        parser.error("say what to compare with: --against REV")
    with worktree(options.against) as place:
        both = run_both([place / "src", options.src.resolve()], options.tasks)
    (before, seconds_before), (after, seconds_after) = map(by_case, both)
    cases = list(dict.fromkeys([*before, *after]))
    rows = [compare(case, before.get(case, {}), after.get(case, {}), options.rtol) for case in cases]
    tell(rows)
    n = sum(row.differs for row in rows)
    print(f"\n{n} of {len(rows)} cases differ; {seconds_before:.0f} seconds before, {seconds_after:.0f} now")
    if n:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
