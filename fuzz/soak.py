"""Many alignments in one process: ``python fuzz/soak.py --fits 1000``; memory must not grow.

The resident size is compared between the first fits, after which caches and pools are full, and the last.
"""

from __future__ import annotations

import argparse
import gc
import sys
import warnings
from pathlib import Path

import numpy as np

import harmonicalign as ha

__all__ = ["resident", "soak"]


def resident() -> float:
    """Resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def one(seed: int) -> None:
    """Align, place new rows, transfer labels and correct."""
    rng = np.random.default_rng(seed)
    rows = np.tanh(rng.normal(size=(70, 3)) @ np.random.default_rng(0).normal(size=(3, 8)))
    model = ha.HarmonicAlignment(random_state=seed, method="paper" if seed % 4 == 3 else "refined")
    model.fit([rows[:30], rows[30:60]])
    model.transform(rows[60:], dataset=1)
    if seed % 4 != 3:
        model.transfer(rng.integers(0, 2, 30))
        model.correct()


def soak(fits: int, warm: int) -> tuple[float, float]:
    """Resident MiB after the first `warm` fits and after all."""
    before = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for i in range(fits):
            one(i)
            if i == warm - 1:
                gc.collect()
                before = resident()
    gc.collect()
    return before, resident()


def main() -> int:
    """Fit, and say how memory went."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--warm", type=int, default=50, help="fits before the first measurement")
    parser.add_argument("--allowed", type=float, default=10, help="MiB of growth that are allowed")
    args = parser.parse_args()
    before, after = soak(args.fits, args.warm)
    print(f"{args.fits} fits: {before:.1f} MiB after {args.warm}, {after:.1f} MiB at the end")
    return int(after - before > args.allowed)


if __name__ == "__main__":
    sys.exit(main())
