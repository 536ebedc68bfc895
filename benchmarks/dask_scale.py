"""What distributing costs and saves: ``python benchmarks/dask_scale.py``, then ``--rows 1000000``.

Without ``--rows``: MNIST with 35 % of the pixels preserved, aligned in memory, by landmarks (so many of each
dataset) and by chunks (of N_c rows), on two worker processes of one thread each. With ``--rows``: so many
rows of 50 columns in all, from file to file; they are MNIST's principal components repeated with noise, and
half of the columns of the second dataset are mixed by a random rotation.

Accuracy is that of five nearest neighbours from the first dataset to the second; memory is the peak of the
larger worker. Appends to ``dask_scale.csv``.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

sys.path.insert(0, str(Path(__file__).resolve().parent))

import tasks

from harmonicalign import HarmonicAlignment
from harmonicalign.adapters.distributed import (
    Description,
    DistributedResult,
    fit_chunks,
    fit_landmarks,
    open_lazy,
    write_embedding,
)
from harmonicalign.inputs.settings import resolve

FIELDS = [
    "strategy",
    "rows",
    "columns",
    "parameter",
    "seconds_fit",
    "seconds_all",
    "worker_cpu_seconds",
    "worker_mib",
    "accuracy",
    "in_memory",
]


def fit_refined(datasets: list[Any], signals: list[Any], n_landmarks: int = 2000) -> Any:
    model = HarmonicAlignment(n_landmarks=n_landmarks, random_state=0)
    return model.fit(datasets, signals=signals).model_


def by_landmarks(datasets: list[Any], n_landmarks: int, client: Client) -> DistributedResult:
    return fit_landmarks(datasets, fit_local=fit_refined, landmarks=n_landmarks, client=client)


def by_chunks(datasets: list[Any], chunk_rows: int, client: Client) -> DistributedResult:
    settings = resolve(
        [(min(chunk_rows, d.shape[0]), d.shape[1]) for d in datasets],
        rules=None,
        n_neighbors="auto",
        n_pca="auto",
        n_harmonics="auto",
        n_bands="auto",
        t="auto",
        calibrate=True,
    )
    how = Description(settings, {"anisotropy": 1.0})
    return fit_chunks(datasets, how=how, chunk_rows=chunk_rows, client=client)


def in_memory(datasets: list[Any], method: str) -> tuple[list[Any], float]:
    start = time.perf_counter()
    options = {"frame": "common", "calibrate": True} if method == "paper" else {}
    model = HarmonicAlignment(method=method, random_state=0, **options).fit(datasets)
    return model.embedding_, time.perf_counter() - start


def accuracy(z: list[Any], labels: list[Any], n_queries: int = 5000) -> float:
    import faiss

    index = faiss.IndexFlatL2(z[0].shape[1])
    index.add(np.ascontiguousarray(z[0], dtype=np.float32))
    some = np.random.RandomState(0).permutation(len(z[1]))[:n_queries]
    found = index.search(np.ascontiguousarray(z[1][some], dtype=np.float32), 5)[1]
    votes = np.apply_along_axis(np.bincount, 1, labels[0][found].astype(int), minlength=10).argmax(1)
    return float(np.mean(votes == labels[1][some].astype(int)))


def peak_mib() -> float:
    # Not getrusage: a process starts with the peak of the one that started it.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def stored(matrices: list[Any], folder: Path, block: int) -> list[Path]:
    paths = [folder / f"{i}.zarr" for i in range(len(matrices))]
    for matrix, path in zip(matrices, paths, strict=True):
        array = matrix if isinstance(matrix, da.Array) else da.from_array(matrix, chunks=(block, -1))
        write_embedding(array, path, "X")
    return paths


def measure(strategy: Any, paths: list[Path], parameter: int) -> tuple[float, float, float, float]:
    """Seconds until the model is there and until all is written, seconds of work, peak memory of a worker."""
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "2GiB", "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        # Workers load the packages before the clock starts.
        client.run(__import__, "harmonicalign.estimator")
        before = sum(client.run(time.process_time).values())
        start = time.perf_counter()
        result = strategy([open_lazy(path, "X") for path in paths], parameter, client)
        fitted = time.perf_counter() - start
        write_embedding(result, paths)
        total = time.perf_counter() - start
        work = sum(client.run(time.process_time).values()) - before
        return fitted, total, work, max(client.run(peak_mib).values())


def compare(n: int, report: Any) -> None:
    """Landmarks and chunks of growing size against the fit in memory, on 2 × n images."""
    task = tasks.mnist(35, 0, n_x=n, n_y=n)
    references = {}
    for method in ("refined", "paper"):
        z, seconds = in_memory(task.datasets, method)
        references[method] = accuracy(z, task.labels)
        report(f"in memory, {method}", 2 * n, 784, n, seconds, seconds, "", "", references[method], "")
    with tempfile.TemporaryDirectory() as folder:
        paths = stored(task.datasets, Path(folder), 1000)
        for name, strategy, sizes, reference in (
            ("chunks", by_chunks, (250, 500, 1000, 2000, 4000), references["paper"]),
            ("landmarks", by_landmarks, (500, 1000, 2000, 4000, 8000), references["refined"]),
        ):
            for size in sizes:
                if size > n:
                    continue
                cost = measure(strategy, paths, size)
                z = [open_lazy(path, "obsm/X_harmonic").compute() for path in paths]
                report(name, 2 * n, 784, size, *cost, accuracy(z, task.labels), reference)


def many_rows(n: int, strategies: list[str], report: Any) -> None:
    """From file to file with n rows of 50 columns."""
    rng = np.random.default_rng(0)
    stored_digits = tasks.read(tasks.data_dir() / "mnist" / "mnist.npz")
    pixels, labels = stored_digits["X"].astype(np.float32) / 255, stored_digits["y"].astype(int)
    pixels -= pixels.mean(axis=0)
    components = pixels @ np.linalg.eigh(pixels.T @ pixels)[1][:, ::-1][:, :50]
    order = rng.permutation(len(labels))
    halves = np.array_split(order, 2)
    mixed = rng.permutation(50)[:25]
    turn = tasks.random_orthogonal(25, rng).astype(np.float32)

    def rows(dataset: int, start: int, stop: int) -> np.ndarray:
        which = halves[dataset][np.arange(start, stop) % len(halves[dataset])]
        noise = np.random.default_rng((dataset, start)).standard_normal((stop - start, 50), np.float32)
        x = components[which] + 0.1 * components.std(axis=0) * noise
        if dataset == 1:
            x[:, mixed] = x[:, mixed] @ turn
        return x.astype(np.float32)

    size, block = n // 2, 20_000
    own = [labels[half][np.arange(size) % len(half)] for half in halves]
    references = {}
    # The paper's kernel looks at all pairs of rows, so it gets fewer of them.
    for name, method, most in (("landmarks", "refined", 35_000), ("chunks", "paper", 4000)):
        if name not in strategies:
            continue
        small = [rows(i, 0, min(size, most)) for i in range(2)]
        z, seconds = in_memory(small, method)
        references[name] = accuracy(z, [y[: len(s)] for y, s in zip(own, small, strict=True)])
        n_small = len(small[0])
        report(
            f"in memory, {method}", 2 * n_small, 50, n_small, seconds, seconds, "", "", references[name], ""
        )
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{i}.zarr" for i in range(2)]
        for i, path in enumerate(paths):
            parts = [
                da.from_array(rows(i, start, min(start + block, size)), chunks=-1)
                for start in range(0, size, block)
            ]
            write_embedding(da.concatenate(parts).compute_chunk_sizes(), path, "X", client=None)
        for name in strategies:
            strategy, parameter = {"landmarks": (by_landmarks, 20_000), "chunks": (by_chunks, 1000)}[name]
            cost = measure(strategy, paths, parameter)
            # Images of the second dataset are new; of the first, each is looked up among 100,000 rows.
            kept = np.arange(min(size, 100_000))
            z = [open_lazy(path, "obsm/X_harmonic")[: len(kept)].compute() for path in paths]
            score = accuracy(z, [y[kept] for y in own])
            report(name, n, 50, parameter, *cost, score, references[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, nargs="*", default=[4000, 8000], help="rows of each MNIST half")
    parser.add_argument("--rows", type=float, default=0, help="rows of the run from file to file instead")
    parser.add_argument("--strategies", nargs="*", default=["landmarks", "chunks"])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    file = args.out / "dask_scale.csv"

    def report(*values: Any) -> None:
        record = [round(v, 4) if isinstance(v, float) else v for v in values]
        print(", ".join(f"{k} {v}" for k, v in zip(FIELDS, record, strict=True) if v != ""), flush=True)
        new = not file.exists()
        with file.open("a", newline="") as handle:
            writer = csv.writer(handle)
            if new:
                writer.writerow(FIELDS)
            writer.writerow(record)

    warnings.simplefilter("ignore")
    if args.rows:
        many_rows(int(args.rows), args.strategies, report)
    for n in [] if args.rows else args.images:
        compare(n, report)


if __name__ == "__main__":
    main()
