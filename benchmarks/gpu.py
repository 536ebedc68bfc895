"""Everything on a GPU that has a figure, in one run of some 100 seconds: ``python benchmarks/gpu.py``.

Fits of two datasets of half the rows each, from host to host and stage by stage, `transform` and `add` on
the device, ``method="paper"`` there, the agreement with the CPU, and the tests that need a CUDA device. Rows
lie on a curved manifold of 10 dimensions in 50 columns (a Gaussian mixture pushed through a random one-layer
network, with noise); in the second dataset 30 % of the columns are mixed by a random rotation. What does not
fit into ``--seconds`` is left out, and said; a part that fails does not stop the others. Writes ``gpu.csv``
after every part.
"""

from __future__ import annotations

import argparse
import csv
import gc
import os
import statistics
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from harmonicalign import HarmonicAlignment
from harmonicalign.engines import faiss_neighbours
from harmonicalign.engines.devices import resolve

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 50


def make_rows(n: int, seed: int, device: torch.device, *, mixed: bool, clusters: int = 20) -> np.ndarray:
    """Rows of one dataset, made on the device, on the host."""
    world = torch.Generator(device=device).manual_seed(0)
    draw = torch.Generator(device=device).manual_seed(seed + 1)

    def normal(*shape: int, by: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=by, device=device)

    centres = 1.5 * normal(clusters, 10, by=world)
    inner, outer = normal(10, 128, by=world) * 0.47, normal(128, COLUMNS, by=world) * 0.09
    turn = torch.linalg.qr(normal(15, 15, by=world)).Q
    out = np.empty((n, COLUMNS), dtype=np.float32)
    for start in range(0, n, 1 << 20):
        size = min(1 << 20, n - start)
        z = centres[torch.randint(clusters, (size,), generator=draw, device=device)]
        z = z + 0.7 * normal(size, 10, by=draw)
        x = torch.tanh(z @ inner) @ outer + 0.02 * normal(size, COLUMNS, by=draw)
        if mixed:
            x[:, :15] = x[:, :15] @ turn
        out[start : start + size] = x.cpu().numpy()
    return out


class Run:
    """The parts of the run, their figures, and the time that is left."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.start, self.args, self.table = time.perf_counter(), args, list[dict[str, Any]]()
        engine = resolve(args.device)
        self.device = torch.device("cpu") if engine == "cpu" else engine
        self.name = torch.cuda.get_device_name(self.device) if self.on_cuda else "CPU"
        self.made: dict[int, list[np.ndarray]] = {}

    @property
    def on_cuda(self) -> bool:
        """Whether there is a GPU; without one the run is a trial of this script."""
        return self.device.type == "cuda"

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return float(self.args.seconds - (time.perf_counter() - self.start))

    def part(self, name: str, work: Callable[[], None], needs: float) -> None:
        """One part, if it may end in time."""
        if self.left < needs:
            print(f"left out for want of time: {name} ({self.left:.0f} s are left)", flush=True)
            return
        begun = time.perf_counter()
        try:
            work()
        except Exception:  # the other parts are worth having
            print(f"FAILED: {name}", flush=True)
            traceback.print_exc()
        print(f"  ({name}: {time.perf_counter() - begun:.1f} s; {self.left:.0f} s are left)", flush=True)
        gc.collect()

    def told(self, **row: Any) -> None:
        """Print a row of figures and write all so far."""
        if self.on_cuda:
            row["GPU GiB"] = torch.cuda.max_memory_allocated(self.device) / 2**30
            torch.cuda.reset_peak_memory_stats(self.device)
        row = {key: float(f"{v:.4g}") if isinstance(v, float) else v for key, v in row.items()}
        print(" ".join(f"{key}={value}" for key, value in row.items()), flush=True)
        self.table.append({"machine": self.name, **row})
        self.args.out.mkdir(parents=True, exist_ok=True)
        with (self.args.out / "gpu.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for r in self.table for key in r)))
            writer.writeheader()
            writer.writerows(self.table)

    def sets(self, n: int) -> list[np.ndarray]:
        """Two datasets of n rows in all."""
        if n not in self.made:
            halves = (n // 2, n - n // 2)
            self.made[n] = [make_rows(m, i, self.device, mixed=bool(i)) for i, m in enumerate(halves)]
        return self.made[n]

    def model(self, **options: Any) -> HarmonicAlignment:
        """An estimator on the device."""
        return HarmonicAlignment(device=self.args.device, random_state=0, **options)

    def timed(self, work: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds of something that ends on the host."""
        begun = time.perf_counter()
        found = work()
        if self.on_cuda:
            torch.cuda.synchronize(self.device)
        return time.perf_counter() - begun, found


def stages(model: HarmonicAlignment, seconds: float) -> dict[str, float]:
    """Seconds by stage, and what lies between the stages."""
    out = {"seconds": seconds}
    for stage, spent in model.timings_.items():
        name = stage.split(" of ")[0]
        out[name] = out.get(name, 0.0) + spent
    return out | {"rest": seconds - sum(model.timings_.values())}


@contextmanager
def searches(where: str) -> Iterator[None]:
    """Searches among landmarks on the device or on the host."""
    before = faiss_neighbours.DEVICE_PAIRS
    faiss_neighbours.DEVICE_PAIRS = before if where == "device" else float("inf")
    try:
        yield
    finally:
        faiss_neighbours.DEVICE_PAIRS = before


def fits(run: Run, n: int, repeats: int, where: str) -> HarmonicAlignment:
    """Median of some fits of n rows; before them one that loads and compiles."""
    sets = run.sets(n)
    with searches(where):
        first, model = run.timed(lambda: run.model().fit(sets))
        found = []
        for _ in range(repeats):
            seconds, model = run.timed(lambda: run.model().fit(sets))
            found.append(stages(model, seconds))
    median = {key: statistics.median(f[key] for f in found) for key in found[0]} if found else {}
    row = median or stages(model, first)
    run.told(part="fit", rows=n, repeats=repeats, landmarks=where, first=first, **row)
    return model


def placing(run: Run, n: int) -> None:
    """`transform` of new rows and `add` of a dataset, on the device, after a fit of n rows."""
    model = run.model().fit(run.sets(n))
    inner = model.fitted_.model
    for m in (n // 10, n):
        new = make_rows(m, 7, run.device, mixed=True)
        seconds, _ = run.timed(partial(inner.place, 1, new, new, run.device))
        run.told(part="place", rows=m, seconds=seconds)
    new = make_rows(n // 10, 8, run.device, mixed=True)
    seconds, _ = run.timed(lambda: model.transform(new, dataset=1))
    run.told(part="transform", rows=len(new), seconds=seconds)
    seconds, _ = run.timed(lambda: model.add(new))
    run.told(part="add", rows=len(new), seconds=seconds)


def paper(run: Run, n: int) -> None:
    """A fit of the published method, with its nearest rows and harmonics found on the device."""
    sets = run.sets(n)
    seconds, model = run.timed(lambda: run.model(method="paper").fit(sets))
    run.told(part="paper", rows=n, **stages(model, seconds))
    seconds, _ = run.timed(lambda: model.transform(sets[0][:1000] + 0.001, dataset=0))
    run.told(part="paper, transform", rows=1000, seconds=seconds)


def agreement(run: Run, n: int) -> None:
    """Largest difference from the CPU in an embedding, relative to its largest entry, and of most rows."""
    sets = run.sets(n)
    for method, options in (("refined", {}), ("paper", {"n_harmonics": 20})):
        host = HarmonicAlignment(method=method, random_state=0, **options).fit(sets)
        there = run.model(method=method, **options).fit(sets)
        a, b = (np.vstack(m.embedding_) for m in (host, there))
        apart = np.abs(a - b).max(axis=1) / np.abs(a).max()
        shown = {"largest": float(apart.max()), "99 % of rows": float(np.quantile(apart, 0.99))}
        run.told(part=f"agreement with the CPU, {method}", rows=n, **shown)


def tests(run: Run) -> None:
    """The tests marked gpu, as long as time is left."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider", "tests/engines"]
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": max(5, run.left)}
    try:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(command, cwd=ROOT, env=environment, **options)
        print(done.stdout[-2500:], done.stderr[-500:], flush=True)
    except subprocess.TimeoutExpired as error:
        print("the tests did not end in time:", str(error.stdout)[-1500:], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, default=1e6, help="rows of the fit that is repeated")
    parser.add_argument("--most-rows", type=float, default=1e7, help="rows of the fit that is made once")
    parser.add_argument("--paper-rows", type=float, default=4e4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=100, help="time for all parts")
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    run, n = Run(args), int(args.rows)
    print(f"{run.name}, torch {torch.__version__}, numpy {np.__version__}", flush=True)
    for where in ("device", "host"):
        run.part(
            f"fit, landmarks on the {where}", lambda w=where: void(fits(run, n, args.repeats, w)), needs=10
        )
    run.part("transform and add", lambda: placing(run, n), needs=8)
    run.part("paper", lambda: paper(run, int(args.paper_rows)), needs=15)
    run.part("agreement", lambda: agreement(run, min(n, 6000)), needs=15)
    run.made.clear()
    run.part("large fit", lambda: void(fits(run, int(args.most_rows), 0, "device")), needs=25)
    if run.on_cuda and not args.no_tests:
        run.made.clear()
        run.part("tests", lambda: tests(run), needs=5)


def void(_: Any) -> None:
    """Drop a model, whose arrays are large."""


if __name__ == "__main__":
    main()
