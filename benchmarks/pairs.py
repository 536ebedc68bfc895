"""Time and peak memory of aligning two samples of MNIST, each size in a process of its own.

    python benchmarks/pairs.py [--sizes 500 1000 2000 4000] [--method paper]

Reads ``mnist.npz`` (arrays X, y) from the data folder; see --data.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "mnist" / "mnist.npz"


def measure(path: Path, n: int, method: str) -> dict[str, float]:
    from harmonicalign import HarmonicAlignment
    from harmonicalign.datasets import corrupted_pair, load_mnist
    from harmonicalign.metrics import knn_label_agreement

    images, labels = load_mnist(path)
    some = np.random.default_rng(0).permutation(len(images))[: 2 * n]
    pair = corrupted_pair(images[some] / 255.0, labels[some], n, n, preserved=0.35, random_state=0)
    del images
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    x, y = HarmonicAlignment(method=method, random_state=0).fit_transform([pair.x, pair.y])
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    accuracy = knn_label_agreement(x, pair.labels_x, y, pair.labels_y)
    return {
        "rows": n,
        "seconds": seconds,
        "peak_mib": after / 1024,
        "added_mib": (after - before) / 1024,
        "accuracy": accuracy,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000, 4000])
    parser.add_argument("--method", default="paper")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.data.is_file():
        raise SystemExit(f"no MNIST at {options.data}: give --data a file with arrays X and y")
    if options.one:
        print(json.dumps(measure(options.data, options.one, options.method)))
        return
    print(f"{'rows':>12} {'seconds':>8} {'peak MiB':>9} {'added MiB':>10} {'5-NN accuracy':>14}")
    for n in options.sizes:
        command = [
            sys.executable,
            __file__,
            "--one",
            str(n),
            "--method",
            options.method,
            "--data",
            options.data,
        ]
        result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(
            f"{f'2 x {n}':>12} {result['seconds']:8.2f} {result['peak_mib']:9.0f} "
            f"{result['added_mib']:10.0f} {result['accuracy']:14.3f}"
        )


if __name__ == "__main__":
    main()
