"""Accuracy with many datasets, beside Harmony's: ``python benchmarks/batches.py [--batches 60]``.

Datasets of real tasks are split at random into so many batches in all, in proportion to their rows, and
aligned as if each batch were a dataset of its own. Then the embeddings of what was one dataset are put
together again and scored as the task is, so that only differences that are real count. Rows of MNIST, which
have none, get an offset per batch, half as long as they vary. Appends to ``batches.csv``.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import scale
import tasks

from harmonicalign import HarmonicAlignment
from harmonicalign.experiments import baselines


def digits(n_batches: int) -> tuple[tasks.Task, list[list[Any]]]:
    """200 digits in 50 components for each batch."""
    n = 200 * n_batches
    sets, labels = scale.make("mnist", n, n_batches)
    half = n_batches // 2
    halves = [sets[:half], sets[half:]]
    known = [np.concatenate(part) for part in (labels[:half], labels[half:])]
    return tasks.Task("digits", [np.concatenate(part) for part in halves], known), halves


def split(name: str, n_batches: int) -> tuple[tasks.Task, list[list[Any]]]:
    """A task, and the batches that each of its datasets is split into, in whose order its rows are."""
    task, rng = tasks.make(name), np.random.default_rng(0)
    total = sum(d.shape[0] for d in task.datasets)
    parts = []
    for i, data in enumerate(task.datasets):
        order = rng.permutation(data.shape[0])
        own = max(1, round(n_batches * data.shape[0] / total))
        parts.append([data[np.sort(rows)] for rows in np.array_split(order, own)])
        rows = np.concatenate([np.sort(rows) for rows in np.array_split(order, own)])
        task.datasets[i], task.labels[i] = data[rows], task.labels[i][rows]
    return task, parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--tasks", nargs="*", default=["digits", "cortex", "pbmc_all"])
    parser.add_argument("--methods", nargs="*", default=["none", "harmony", "default"])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "batches.csv")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.tasks:
        task, parts = digits(args.batches) if name == "digits" else split(name, args.batches)
        batches = [batch for part in parts for batch in part]
        for method in args.methods:
            start, processor = time.perf_counter(), time.process_time()
            if method == "default":
                found = list(HarmonicAlignment(random_state=0).fit(batches).embedding_)
            else:
                found = baselines.get(method).fit_transform(batches)
            row: dict[str, Any] = {
                "task": name,
                "batches": len(batches),
                "rows": sum(b.shape[0] for b in batches),
                "method": method,
                "seconds": round(time.perf_counter() - start, 2),
                "processor_seconds": round(time.process_time() - processor, 2),
            }
            ends = np.cumsum([len(part) for part in parts])[:-1]
            whole = [np.vstack(some) for some in _grouped(found, ends)]
            row |= {key: round(value, 4) for key, value in tasks.score(task, whole).items()}
            print(", ".join(f"{k} {v}" for k, v in row.items()), flush=True)
            new = not args.out.exists()
            with args.out.open("a", newline="") as file:
                writer = csv.DictWriter(file, row)
                if new:
                    writer.writeheader()
                writer.writerow(row)


def _grouped(found: list[np.ndarray], ends: np.ndarray) -> list[list[np.ndarray]]:
    edges = [0, *ends.tolist(), len(found)]
    return [found[a:b] for a, b in pairwise(edges)]


if __name__ == "__main__":
    main()
