"""What a busy machine costs: ``python benchmarks/busy.py``.

Times a fit, `transform` and `add` of small datasets alone, and again beside other processes that keep every
core busy with products of matrices, round by round so that nothing else can change in between. Two processes
on one core halve the speed of each, so a ratio of two is fair and more is threads that wait for each other.
The processor seconds say the same more precisely: they should not grow at all. ``--threads 1 2`` adds a row
for each number of threads. Writes ``busy.csv``.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BUSY = """
import os
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
import numpy as np
a = np.random.default_rng(0).standard_normal((700, 700))
while os.getppid() == {parent}:
    b = a @ a
"""


def data(n: int, columns: int) -> list[np.ndarray]:
    """Three datasets of clusters in `columns` columns, with an offset each."""
    rng = np.random.default_rng(0)
    centres, inner = 2 * rng.standard_normal((8, 20)), rng.standard_normal((20, columns))
    sets = []
    for _ in range(3):
        rows = centres[rng.integers(8, size=n)] + rng.standard_normal((n, 20))
        noise = rng.standard_normal((n, columns))
        sets.append(rows @ inner + rng.standard_normal(columns) + noise)
    return sets


def works(n: int, columns: int) -> dict[str, Callable[[], Any]]:
    from harmonicalign import HarmonicAlignment

    first, second, third = data(n, columns)
    model = HarmonicAlignment(random_state=0).fit([first, second])
    fitted = model.fitted_

    def add() -> None:
        model.fitted_ = fitted  # as it was before
        model.add(third)

    return {
        "fit": lambda: HarmonicAlignment(random_state=0).fit([first, second]),
        "transform": lambda: fitted.place(1, second + 0.01),
        "add": add,
    }


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def beside(n_busy: int, work: Callable[[], Any]) -> tuple[float, float]:
    """The same with so many busy processes."""
    code = BUSY.format(parent=os.getpid())
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(n_busy)]
    try:
        time.sleep(1.5)  # until they have imported numpy
        return timed(work)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measure(args: argparse.Namespace, threads: int | None) -> list[dict[str, Any]]:
    from harmonicalign.engines.threads import owned

    n_busy = args.busy or len(os.sched_getaffinity(0))
    table = []
    with owned(threads):
        for name, work in works(args.rows, args.columns).items():
            work()  # loads what is loaded at first use
            rounds = [(timed(work), beside(n_busy, work)) for _ in range(args.repeats)]
            quiet, busy = (np.median([r[i] for r in rounds], axis=0) for i in (0, 1))
            table.append(
                {
                    "work": name,
                    "rows": args.rows,
                    "columns": args.columns,
                    "threads": threads or "default",
                    "busy processes": n_busy,
                    "quiet seconds": round(float(quiet[0]), 3),
                    "busy seconds": round(float(busy[0]), 3),
                    "ratio": round(statistics.median(b[0] / q[0] for q, b in rounds), 2),
                    "processor ratio": round(statistics.median(b[1] / q[1] for q, b in rounds), 2),
                }
            )
            print(" ".join(f"{key}={value}" for key, value in table[-1].items()), flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=400, help="rows of each dataset")
    parser.add_argument("--columns", type=int, default=1767)
    parser.add_argument("--busy", type=int, help="busy processes; by default one for each core")
    parser.add_argument("--threads", type=int, nargs="+", help="numbers of threads; by default ours")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    table = [row for n in args.threads or [None] for row in measure(args, n)]
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "busy.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main()
