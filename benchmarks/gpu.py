"""Time the torch engine end to end, stage by stage: ``python benchmarks/gpu.py --rows 1e5 1e6 1e7``.

Two datasets of half the rows each: neighbours, kernel and harmonics of both, their alignment, then the
joint map, its neighbours, kernel and harmonics, from host to host. Rows lie on a curved manifold of 10
dimensions in 50 columns (a Gaussian mixture pushed through a random one-layer network, with noise); in the
second dataset 30 % of the columns are mixed by a random rotation. Writes ``gpu.csv`` and, where matplotlib
is present, ``gpu.png``.
"""

from __future__ import annotations

import argparse
import csv
import logging
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from harmonicalign.backends import torch_backend as engine
from harmonicalign.backends.torch_neighbours import build_index, search


class Clock:
    """Seconds per stage; the device is waited for at both ends."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = defaultdict(float)

    def wait(self) -> float:
        """Now, once the device is idle."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Add the time of a block to a stage."""
        start = self.wait()
        yield
        self.seconds[stage] += self.wait() - start


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


def band_weights(x: Tensor, y: Tensor, n_bands: int = 8) -> Tensor:
    centres = torch.arange(n_bands + 1, device=x.device)

    def windows(values: Tensor) -> Tensor:
        gap = n_bands * values[:, None] - centres
        return torch.where(gap.abs() <= 1, torch.sin(torch.pi / 2 * torch.cos(torch.pi / 2 * gap) ** 2), 0.0)

    return windows(x) @ windows(y).T


def one_graph(x: Tensor, k: int, args: argparse.Namespace, clock: Clock) -> tuple[Tensor, Tensor, Tensor]:
    """`engine.harmonics` with a clock between its parts."""
    with clock("index"):
        index = build_index(x)
    with clock("search"):
        order, distances, found = search(index, args.neighbors)
        index = index._replace(rows=index.rows[:0])
    with clock("kernel"):
        graph, degrees = engine.kernel(distances, found, n_bandwidth=args.neighbors // 2)
        operator = engine.normalise(graph, degrees)
        del graph, distances, found
    with clock("eigenpairs"):
        values, vectors = engine.eigenpairs(operator, degrees, k)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
    return values, vectors[place], degrees[place]


def pipeline(sets: list[Tensor], args: argparse.Namespace, device: torch.device) -> dict[str, float]:
    clock = Clock(device)
    begin = clock.wait()
    with clock("to device"):
        rows = [x.to(device) for x in sets]
    spectra = [one_graph(x, args.harmonics, args, clock) for x in rows]
    with clock("align and map"):
        (lx, px, dx), (ly, py, dy) = spectra
        cx, cy = (engine.gram(p, x) for (_, p, _), x in zip(spectra, rows, strict=True))
        u, _, vt = torch.linalg.svd(band_weights(lx, ly).double() * (cx @ cy.T))
        turn = (u @ vt).float()
        fx = px * (dx / dx.sum()).rsqrt()[:, None]
        fy = py * (dy / dy.sum()).rsqrt()[:, None]
        n = len(fx)
        joint = torch.empty((n + len(fy), 2 * args.harmonics), device=device)
        joint[:n] = torch.cat([fx * lx, fx @ turn * ly], 1)
        joint[n:] = torch.cat([fy @ turn.T * lx, fy * ly], 1)
        joint /= joint.norm(dim=1, keepdim=True).clamp(min=1e-12)
        del fx, fy, px, py, spectra, rows
    values, vectors, degrees = one_graph(joint, args.harmonics, args, clock)
    with clock("to host"):
        vectors *= (degrees / degrees.sum()).rsqrt()[:, None] * values
        engine.to_host(vectors)
        engine.to_host(joint)
    clock.seconds["total"] = clock.wait() - begin
    return dict(clock.seconds)


def measure_recall(x: Tensor, device: torch.device) -> tuple[float, float]:
    rows = x.to(device)
    _, indices = engine.knn(rows, 30, exact=False)
    return engine.recall(rows, indices[:, :15]), engine.recall(rows, indices)


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
    parser.add_argument("--neighbors", type=int, default=30)
    parser.add_argument("--harmonics", type=int, default=50)
    parser.add_argument("--clusters", type=int, default=20, help="1: no clusters, the hardest case")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if args.verbose:
        logging.basicConfig(level=logging.DEBUG, format="%(message)s")
        logging.getLogger().setLevel(logging.WARNING)
        logging.getLogger("harmonicalign").setLevel(logging.DEBUG)
    device = engine.resolve_device(args.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(
        f"{name}, torch {torch.__version__}, {args.neighbors} neighbours, {args.harmonics} harmonics",
        flush=True,
    )
    table: list[dict[str, float]] = []
    stages: list[str] = []
    for n in map(int, args.rows):
        halves = (n // 2, n - n // 2)
        sets = [
            make_rows(size, i, device, mixed=bool(i), clusters=args.clusters) for i, size in enumerate(halves)
        ]
        pipeline(sets, args, device)  # warm-up: compiles kernels, fills allocators
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        runs = [pipeline(sets, args, device) for _ in range(args.repeats)]
        stages = list(runs[0])
        row = {"rows": float(n)} | {s: statistics.median(r[s] for r in runs) for s in stages}
        row["spread"] = max(r["total"] for r in runs) - min(r["total"] for r in runs)
        if device.type == "cuda":
            row["peak GiB"] = torch.cuda.max_memory_allocated(device) / 2**30
        row["recall@15"], row["recall@30"] = measure_recall(sets[0], device)
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
