"""Time, memory and accuracy against the number of rows, beside the usual route to the same output.

    python benchmarks/scale.py [--rows 1e3 1e4 7e4 1e5 1e6] [--data mnist] [--peer] [--paper] [--device cpu]

Two datasets of half the rows each, 50 principal components given. Real rows (MNIST or covtype) are repeated
with noise where they end. Ours makes embedding, joint graph and joint map; the usual route (``--peer``) is
harmonypy, then scanpy's neighbours (30) and diffusion map (50). ``--paper`` sets the published method, dense
and untruncated, beside the default at 2 × 4000 rows. Every measurement runs in a process of its own. Writes
``scale.csv`` and a log-log plot.
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


def make(name: str, n: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Two halves of n rows; rows beyond the real ones are real ones with noise."""
    x, y = real_rows(name)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(x))
    chosen = np.concatenate([order] * (n // len(x) + 1))[:n]
    rows = x[chosen]
    if n > len(x):
        again = slice(len(x), None)
        noise = rng.standard_normal(rows[again].shape, dtype=np.float32)
        rows[again] += 0.3 * x.std(0) * noise
    half = n // 2
    return [rows[:half], rows[half:]], [y[chosen[:half]], y[chosen[half:]]]


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def accuracy(embedding: list[np.ndarray], labels: list[np.ndarray]) -> float:
    from harmonicalign.metrics import knn_label_agreement

    some = np.random.default_rng(0).permutation(len(embedding[1]))[:5000]
    known = np.random.default_rng(1).permutation(len(embedding[0]))[:100_000]
    return knn_label_agreement(embedding[0][known], labels[0][known], embedding[1][some], labels[1][some])


def ours(sets: list[np.ndarray], device: str, **options: Any) -> tuple[list[np.ndarray], dict[str, Any]]:
    from harmonicalign import HarmonicAlignment

    model = HarmonicAlignment(random_state=0, device=device, **options).fit(sets)
    stages: dict[str, float] = {}
    for stage, seconds in model.timings_.items():
        name = stage.split(" of ")[0]
        stages[name] = stages.get(name, 0.0) + seconds
    joint = model.joint_
    return model.embedding_, stages | {"recall": joint.graph.recall}


def peer(sets: list[np.ndarray]) -> tuple[list[np.ndarray], dict[str, Any]]:
    import anndata
    import harmonypy
    import pandas as pd
    import scanpy as sc

    def graph(rows: np.ndarray, k: int) -> Any:
        data = anndata.AnnData(np.zeros((len(rows), 1), dtype=np.float32), obsm={"X_pca": rows})
        sc.pp.neighbors(data, n_neighbors=30, use_rep="X_pca")
        after = time.perf_counter()
        sc.tl.diffmap(data, k)
        return data, after

    graph(sets[0][:6000], 20)  # compiles what is compiled at first use; small data take another way
    start = time.perf_counter()
    rows = np.vstack(sets)
    batch = pd.DataFrame({"batch": np.repeat(["a", "b"], [len(s) for s in sets])})
    corrected = np.asarray(
        harmonypy.run_harmony(rows.astype(np.float64), batch, "batch", verbose=False).Z_corr
    )
    corrected = corrected if len(corrected) == len(rows) else corrected.T
    middle = time.perf_counter()
    data, after = graph(corrected, 50)
    end = time.perf_counter()
    out = np.split(data.obsm["X_diffmap"], [len(sets[0])])
    return out, {"harmonypy": middle - start, "neighbours": after - middle, "diffmap": end - after}


def measure(kind: str, data: str, n: int, device: str) -> dict[str, Any]:
    """One row of the table; the rows are read from a file, so that making them does not count."""
    with np.load(data) as archive:
        sets, labels = [archive["x"], archive["y"]], [archive["labels_x"], archive["labels_y"]]
    warnings.simplefilter("ignore")
    if kind == "peer":
        embedding, extra = peer(sets)
        seconds = sum(extra.values())
    else:
        if kind == "default":
            ours([s[:300] for s in sets], device)  # loads what is loaded at first use
        options = {"method": "paper", "n_harmonics": None, "thresh": 0.0} if kind == "paper" else {}
        start = time.perf_counter()
        embedding, extra = ours(sets, device, **options)
        seconds = time.perf_counter() - start
    peak = peak_gib()
    return {
        "kind": kind,
        "rows": n,
        "seconds": seconds,
        "peak GiB": peak,
        "accuracy": accuracy(embedding, labels),
        **extra,
    }


def in_own_process(kind: str, data: str, n: int, device: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        (x, y), (labels_x, labels_y) = make(data, n)
        np.savez(path, x=x, y=y, labels_x=labels_x, labels_y=labels_y)
        del x, y
        command = [sys.executable, __file__, "--one", kind, "--rows", str(n), "--device", device]
        done = subprocess.run([*command, "--file", str(path)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{kind} at {n} rows failed:\n{done.stderr[-3000:]}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(
        " ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()), flush=True
    )
    return row


def exponent(table: list[dict[str, Any]], least: float = 1e5) -> float | None:
    """Slope of log time over log rows, from `least` rows on."""
    large = [r for r in table if r["kind"] == "default" and r["rows"] >= least]
    if len(large) < 2:
        return None
    return float(np.polyfit(np.log([r["rows"] for r in large]), np.log([r["seconds"] for r in large]), 1)[0])


def plot(table: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    names = {"default": "harmonicalign", "peer": "harmonypy + neighbours + diffmap", "paper": "paper, dense"}
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
    parser.add_argument("--rows", type=float, nargs="+", default=[1e3, 1e4, 7e4, 1e5, 1e6])
    parser.add_argument("--data", default="mnist", choices=["mnist", "covtype"])
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--one", choices=["default", "peer", "paper"], help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.file, int(args.rows[0]), args.device)))
        return
    if not (DATA / args.data).is_dir():
        raise SystemExit(f"no data at {DATA / args.data}: set HARMONICALIGN_DATA to the folder that holds it")
    table = []
    for n in map(int, args.rows):
        table.append(in_own_process("default", args.data, n, args.device))
        if args.peer and n <= 2e5:
            table.append(in_own_process("peer", args.data, n, args.device))
            print(f"  ratio of times {table[-2]['seconds'] / table[-1]['seconds']:.2f}", flush=True)
    if args.paper:
        table += [in_own_process(kind, args.data, 8000, args.device) for kind in ("default", "paper")]
        print(f"  paper over default {table[-1]['seconds'] / table[-2]['seconds']:.0f}", flush=True)
    found = exponent(table)
    if found is not None:
        print(f"exponent from 1e5 rows: {found:.2f}")
    args.out.mkdir(parents=True, exist_ok=True)
    fields = list(dict.fromkeys(name for row in table for name in row))
    with (args.out / "scale.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(table)
    plot(table, args.out / "scale.png")


if __name__ == "__main__":
    main()
