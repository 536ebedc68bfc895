"""Time a fit on a GPU, from host to host, stage by stage: ``python benchmarks/gpu.py --rows 1e5 1e6 1e7``.

Two datasets of half the rows each, default settings. Rows lie on a curved manifold of 10 dimensions in 50
columns (a Gaussian mixture pushed through a random one-layer network, with noise); in the second dataset
30 % of the columns are mixed by a random rotation. Writes ``gpu.csv`` and, where matplotlib is present,
``gpu.png``.
"""

from __future__ import annotations

import argparse
import csv
import logging
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from harmonicalign import HarmonicAlignment
from harmonicalign.engines.devices import resolve


def make_rows(
    n: int, seed: int, device: torch.device, *, mixed: bool, clusters: int, columns: int = 50
) -> Tensor:
    world = torch.Generator(device=device).manual_seed(0)
    draw = torch.Generator(device=device).manual_seed(seed + 1)

    def normal(*shape: int, by: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=by, device=device)

    centres = 1.5 * normal(clusters, 10, by=world)
    inner, outer = normal(10, 128, by=world) * 0.47, normal(128, columns, by=world) * 0.09
    turn = torch.linalg.qr(normal(15, 15, by=world)).Q
    parts = []
    for start in range(0, n, 1 << 20):
        size = min(1 << 20, n - start)
        z = centres[torch.randint(clusters, (size,), generator=draw, device=device)] + 0.7 * normal(
            size, 10, by=draw
        )
        x = torch.tanh(z @ inner) @ outer + 0.02 * normal(size, columns, by=draw)
        if mixed:
            x[:, :15] = x[:, :15] @ turn
        parts.append(x.cpu())
    return torch.cat(parts)


def one_fit(sets: list[np.ndarray], device: str) -> tuple[dict[str, float], HarmonicAlignment]:
    """Host to host: the rows of both datasets in, their embedding out."""
    start = time.perf_counter()
    model = HarmonicAlignment(device=device, random_state=0).fit(sets)
    seconds: dict[str, float] = defaultdict(float)
    seconds["total"] = time.perf_counter() - start
    for stage, spent in model.timings_.items():
        seconds[stage.split(" of ")[0]] += spent
    seconds["rest"] = seconds["total"] - sum(model.timings_.values())
    return dict(seconds), model


def plot(table: list[dict[str, float]], stages: list[str], path: Path) -> None:
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return
    figure, axes = plt.subplots(figsize=(6, 4.5), layout="constrained")
    for stage in stages:
        axes.loglog([r["rows"] for r in table], [r[stage] for r in table], "o-", label=stage)
    axes.set(xlabel="rows", ylabel="seconds (median)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, nargs="+", default=[1e5, 1e6, 1e7])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clusters", type=int, default=20, help="1: no clusters, the hardest case")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if args.verbose:
        logging.basicConfig(level=logging.DEBUG, format="%(message)s")
        logging.getLogger().setLevel(logging.WARNING)
        logging.getLogger("harmonicalign").setLevel(logging.DEBUG)
    engine = resolve(args.device)
    device = torch.device("cpu") if engine == "cpu" else engine
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}", flush=True)
    table: list[dict[str, float]] = []
    stages: list[str] = []
    for n in map(int, args.rows):
        halves = (n // 2, n - n // 2)
        sets = [
            make_rows(size, i, device, mixed=bool(i), clusters=args.clusters).numpy()
            for i, size in enumerate(halves)
        ]
        one_fit(sets, args.device)  # warm-up: compiles kernels, fills allocators
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        runs = []
        for _ in range(args.repeats):
            run, model = one_fit(sets, args.device)
            runs.append(run)
        stages = list(runs[0])
        row = {"rows": float(n)} | {s: statistics.median(r[s] for r in runs) for s in stages}
        row["spread"] = max(r["total"] for r in runs) - min(r["total"] for r in runs)
        if device.type == "cuda":
            row["peak GiB"] = torch.cuda.max_memory_allocated(device) / 2**30
        row["recall"] = model.joint_.graph.recall
        row["z"] = model.significance_.z
        table.append(row)
        print(" ".join(f"{key}={value:.4g}" for key, value in row.items()), flush=True)
        args.out.mkdir(parents=True, exist_ok=True)
        with (args.out / "gpu.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    plot(table, stages, args.out / "gpu.png")


if __name__ == "__main__":
    main()
