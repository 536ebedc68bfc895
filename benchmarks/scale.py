"""Time, memory and accuracy against the number of rows and of datasets, beside Harmony and the usual route.

    python benchmarks/scale.py [--rows 1e3 1e4 7e4 1e5 1e6] [--data mnist] [--harmony] [--peer] [--paper]
    python benchmarks/scale.py --rows --datasets 10 30 60 120 [--dataset-rows 1000] --harmony

Along ``--rows``: two datasets of half the rows each, 50 principal components given. Real rows (MNIST or
covtype) are repeated with noise where they end. Along ``--datasets``: so many datasets of ``--dataset-rows``
rows, each with an offset. Ours makes the embedding, as Harmony does (``--harmony``, in the same run); the
usual route (``--peer``) is harmonypy, then scanpy's neighbours (30) and diffusion map (50). ``--paper`` sets
the published method, dense and untruncated, beside the default at 2 × 4000 rows. Every measurement runs in a
process of its own. Writes ``scale.csv`` and a log-log plot; prints the exponents of the time.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(os.environ.get("HARMONICALIGN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
COLUMNS = 50


def real_rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows in 50 principal components, and labels."""
    from sklearn.decomposition import PCA

    archive = np.load(DATA / name / f"{name}.npz", allow_pickle=False)
    x, y = archive["X"].astype(np.float32), archive["y"]
    if name == "covtype":
        kinds = [
            np.eye(int(archive[c].max()) + 1, dtype=np.float32)[archive[c]] for c in ("wilderness", "soil")
        ]
        x = np.hstack([x, *kinds])
        x = x[:, x.std(0) > 0]
        x = (x - x.mean(0)) / x.std(0)
    else:
        x = x / 255
    width = min(COLUMNS, x.shape[1])
    return PCA(width, svd_solver="covariance_eigh").fit_transform(x).astype(np.float32), y


def make(name: str, n: int, n_sets: int = 2) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Datasets of n rows in all; rows beyond the real ones are real ones with noise.

    Two are halves of one population. Where there are more, each has an offset of its own, half as long as the
    rows vary: batches to be corrected.
    """
    x, y = real_rows(name)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(x))
    chosen = np.concatenate([order] * (n // len(x) + 1))[:n]
    rows = x[chosen]
    if n > len(x):
        again = slice(len(x), None)
        noise = rng.standard_normal(rows[again].shape, dtype=np.float32)
        rows[again] += 0.3 * x.std(0) * noise
    sets = np.array_split(rows, n_sets)
    if n_sets > 2:
        sets = [part + 0.5 * x.std(0) * rng.standard_normal(rows.shape[1], dtype=np.float32) for part in sets]
    return sets, np.array_split(y[chosen], n_sets)


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def accuracy(embedding: list[np.ndarray], labels: list[np.ndarray]) -> float:
    """5-NN accuracy of some rows of the second half of the datasets from those of the first."""
    from harmonicalign.metrics import knn_label_agreement

    half = len(embedding) // 2
    (x, y), (labels_x, labels_y) = (
        (np.concatenate(parts[:half]), np.concatenate(parts[half:])) for parts in (embedding, labels)
    )
    some = np.random.default_rng(0).permutation(len(y))[:5000]
    known = np.random.default_rng(1).permutation(len(x))[:100_000]
    return knn_label_agreement(x[known], labels_x[known], y[some], labels_y[some])


def ours(sets: list[np.ndarray], device: str, **options: Any) -> tuple[list[np.ndarray], dict[str, Any]]:
    from harmonicalign import HarmonicAlignment

    model = HarmonicAlignment(random_state=0, device=device, **options).fit(sets)
    stages: dict[str, float] = {}
    for stage, seconds in model.timings_.items():
        name = stage.split(" of ")[0]
        stages[name] = stages.get(name, 0.0) + seconds
    return model.embedding_, stages


def harmony(sets: list[np.ndarray]) -> tuple[list[np.ndarray], dict[str, Any]]:
    import harmonypy
    import pandas as pd

    batch = pd.DataFrame({"batch": np.repeat([str(i) for i in range(len(sets))], [len(s) for s in sets])})
    start = time.perf_counter()
    rows = np.vstack(sets).astype(np.float64)
    corrected = np.asarray(harmonypy.run_harmony(rows, batch, "batch", verbose=False).Z_corr)
    corrected = corrected if len(corrected) == len(rows) else corrected.T
    spent = time.perf_counter() - start
    return np.split(corrected, np.cumsum([len(s) for s in sets])[:-1]), {"harmonypy": spent}


def peer(sets: list[np.ndarray]) -> tuple[list[np.ndarray], dict[str, Any]]:
    import anndata
    import scanpy as sc

    def graph(rows: np.ndarray, k: int) -> Any:
        data = anndata.AnnData(np.zeros((len(rows), 1), dtype=np.float32), obsm={"X_pca": rows})
        sc.pp.neighbors(data, n_neighbors=30, use_rep="X_pca")
        after = time.perf_counter()
        sc.tl.diffmap(data, k)
        return data, after

    graph(sets[0][:6000], 20)  # compiles what is compiled at first use; small data take another way
    corrected, spent = harmony(sets)
    middle = time.perf_counter()
    data, after = graph(np.vstack(corrected), 50)
    end = time.perf_counter()
    out = np.split(data.obsm["X_diffmap"], np.cumsum([len(s) for s in sets])[:-1])
    return out, spent | {"neighbours": after - middle, "diffmap": end - after}


PEERS = {"harmony": harmony, "peer": peer}


def measure(kind: str, data: str, n: int, device: str) -> dict[str, Any]:
    """One row of the table; the rows are read from a file, so that making them does not count."""
    with np.load(data) as archive:
        sets, labels = (np.split(archive[name], archive["ends"]) for name in ("rows", "labels"))
    warnings.simplefilter("ignore")
    if kind in PEERS:
        processor = time.process_time()
        embedding, extra = PEERS[kind](sets)
        seconds = sum(extra.values())
    else:
        if kind == "default":
            ours([s[:300] for s in sets[:2]], device)  # loads what is loaded at first use
        options = {"method": "paper", "n_harmonics": None, "thresh": 0.0} if kind == "paper" else {}
        start, processor = time.perf_counter(), time.process_time()
        embedding, extra = ours(sets, device, **options)
        seconds = time.perf_counter() - start
    processor = time.process_time() - processor
    peak = peak_gib()
    return {
        "kind": kind,
        "rows": n,
        "datasets": len(sets),
        "seconds": seconds,
        "processor seconds": processor,
        "peak GiB": peak,
        "accuracy": accuracy(embedding, labels),
        **extra,
    }


def in_own_process(kind: str, data: str, n: int, device: str, n_sets: int = 2) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        sets, labels = make(data, n, n_sets)
        ends = np.cumsum([len(part) for part in sets])[:-1]
        np.savez(path, rows=np.concatenate(sets), labels=np.concatenate(labels), ends=ends)
        del sets, labels
        command = [sys.executable, __file__, "--one", kind, "--rows", str(n), "--device", device]
        done = subprocess.run([*command, "--file", str(path)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{kind} of {n_sets} datasets, {n} rows in all, failed:\n{done.stderr[-3000:]}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(
        " ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()), flush=True
    )
    return row


def exponent(table: list[dict[str, Any]], by: str, kind: str = "default", least: float = 0) -> float | None:
    """Slope of log processor time, which other processes disturb less, over the log of rows or datasets."""
    chosen = [r for r in table if r["kind"] == kind and r[by] >= least]
    if len({r[by] for r in chosen}) < 2:
        return None
    size, spent = ([r[key] for r in chosen] for key in (by, "processor seconds"))
    return float(np.polyfit(np.log(size), np.log(spent), 1)[0])


def by_rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Two datasets of more and more rows, with Harmony, and the whole usual route, beside ours."""
    table = []
    for n in map(int, args.rows):
        table.append(in_own_process("default", args.data, n, args.device))
        for kind, asked, most in (("harmony", args.harmony, 1e7), ("peer", args.peer, 2e5)):
            if asked and n <= most:
                table.append(in_own_process(kind, args.data, n, args.device))
                ours = next(r for r in reversed(table) if r["kind"] == "default")
                print(f"  ours over {kind} {ours['seconds'] / table[-1]['seconds']:.2f}", flush=True)
    return table


def by_datasets(args: argparse.Namespace) -> list[dict[str, Any]]:
    """More and more datasets of equally many rows, with Harmony beside ours."""
    table = []
    for n_sets in args.datasets:
        n = n_sets * args.dataset_rows
        for kind in ("default", "harmony") if args.harmony else ("default",):
            table.append(in_own_process(kind, args.data, n, args.device, n_sets))
        if args.harmony:
            ours, other = (row["processor seconds"] for row in table[-2:])
            print(f"  ours over harmony, processor seconds {ours / other:.1f}", flush=True)
    return table


def plot(table: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    names = {
        "default": "harmonicalign",
        "harmony": "harmonypy",
        "peer": "harmonypy + neighbours + diffmap",
        "paper": "paper, dense",
    }
    for kind, name in names.items():
        rows = sorted((r for r in table if r["kind"] == kind), key=lambda r: r["rows"])
        if rows:
            n = [r["rows"] for r in rows]
            left.loglog(n, [r["seconds"] for r in rows], "o-", label=name)
            right.loglog(n, [r["peak GiB"] for r in rows], "o-", label=name)
    for axes, label in ((left, "seconds"), (right, "peak memory, GiB")):
        axes.set(xlabel="rows", ylabel=label)
        axes.grid(alpha=0.3)
    left.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, nargs="*", default=[1e3, 1e4, 7e4, 1e5, 1e6])
    parser.add_argument("--datasets", type=int, nargs="*", default=[], help="numbers of datasets")
    parser.add_argument("--dataset-rows", type=int, default=1000, help="rows of each of them")
    parser.add_argument("--data", default="mnist", choices=["mnist", "covtype"])
    parser.add_argument("--harmony", action="store_true")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--one", choices=["default", "paper", *PEERS], help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.file, int(args.rows[0]), args.device)))
        return
    if not (DATA / args.data).is_dir():
        raise SystemExit(f"no data at {DATA / args.data}: set HARMONICALIGN_DATA to the folder that holds it")
    rows, datasets = by_rows(args), by_datasets(args)
    for kind in ("default", "harmony"):
        for table, by, least in ((rows, "rows", 1e5), (datasets, "datasets", 0)):
            found = exponent(table, by, kind, least)
            if found is not None:
                print(f"{kind}: exponent for {by} {found:.2f}")
    if args.paper:
        rows += [in_own_process(kind, args.data, 8000, args.device) for kind in ("default", "paper")]
        print(f"  paper over default {rows[-1]['seconds'] / rows[-2]['seconds']:.0f}", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    table = rows + datasets
    fields = list(dict.fromkeys(name for row in table for name in row))
    with (args.out / "scale.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(table)
    plot(rows, args.out / "scale.png")


if __name__ == "__main__":
    main()
