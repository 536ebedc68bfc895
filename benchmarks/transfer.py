"""Labels carried from 1,000 images to 1,000 … 8,000 corrupted ones: accuracy and calibration.

    python benchmarks/transfer.py [--seeds 0 1 2] [--sizes 1000 2000 4000 8000] [--preserved 0.35]
    python benchmarks/transfer.py --missing      # classes that the source lacks: results/missing.csv

The targets of one seed are nested, so "first" scores the same rows (those of the smallest target) at every
size: it tells what a larger target does, where the scores of whole targets also change with their rows.
The rows below each table take digits out of the source, to see whether rows of these are left unassigned.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tasks

from harmonicalign import HarmonicAlignment
from harmonicalign.datasets import corrupted_pair, load_mnist
from harmonicalign.metrics import expected_calibration_error
from harmonicalign.uses.transfer import UNASSIGNED, transfer_labels

METHODS = ("knn", "svm", "diffusion")
DEFAULT = Path(__file__).parents[2] / "shared" / "data"


def transfer(model: HarmonicAlignment, labels: np.ndarray, method: str, **options: Any) -> Any:
    x, y = model.embedding_
    # The joint graph's rows are those of the source, then those of the target.
    walk = model.joint_.graph.transitions if method == "diffusion" else None
    return transfer_labels(
        x, labels, y, method=method, transitions=walk, support=model.confidence_[1], **options
    )


def closed(images: np.ndarray, digits: np.ndarray, args: argparse.Namespace) -> None:
    print("target  seed |" + "".join(f" {m:>9}: accuracy first   ECE   time |" for m in METHODS))
    scores: dict[int, list[list[float]]] = {}
    for n in args.sizes:
        for seed in args.seeds:
            pair = corrupted_pair(images, digits, args.source, n, args.preserved, random_state=seed)
            model = HarmonicAlignment(random_state=0).fit([pair.x, pair.y])
            line, row = f"{n:6d} {seed:5d} |", []
            for method in METHODS:
                start = time.perf_counter()
                found = transfer(model, pair.labels_x, method)
                seconds = time.perf_counter() - start
                right = found.labels == pair.labels_y
                first = right[: min(args.sizes)].mean()
                error = expected_calibration_error(found.confidence, right)
                row += [right.mean(), first, error]
                line += f" {'':9}  {right.mean():8.3f} {first:5.3f} {error:5.3f} {seconds:5.1f}s |"
            print(line, flush=True)
            scores.setdefault(n, []).append(row)
    for n, rows in scores.items():
        mean = np.mean(rows, axis=0).reshape(-1, 3)
        cells = "".join(f" {'':9}  {a:8.3f} {f:5.3f} {e:5.3f} {'':6} |" for a, f, e in mean)
        print(f"{n:6d}  mean |{cells}")
    mean = {n: np.mean(rows, axis=0).reshape(-1, 3) for n, rows in scores.items()}
    sizes = sorted(mean)
    for column, name in ((0, "whole target"), (1, "same rows")):
        steps = [mean[b][0, column] - mean[a][0, column] for a, b in pairwise(sizes)]
        print(f"k-NN from one size to the next, {name}:", " ".join(f"{s:+.3f}" for s in steps))
    print("SVM less k-NN:", " ".join(f"{mean[n][1, 0] - mean[n][0, 0]:+.3f}" for n in sizes))
    print(f"largest ECE: {max(row[i] for rows in scores.values() for row in rows for i in (2, 5, 8)):.3f}")


def opened(images: np.ndarray, digits: np.ndarray, args: argparse.Namespace) -> None:
    print(
        f"\ndigits missing in the source, target of 2,000, threshold {args.threshold}:"
        " share unassigned of rows new / known, accuracy of the assigned, ECE"
    )
    for seed, gone in enumerate(((0,), (4, 7), (6,), (1, 3, 8))):
        pair = corrupted_pair(images, digits, 1250, 2000, args.preserved, random_state=seed)
        kept = ~np.isin(pair.labels_x, gone)
        model = HarmonicAlignment(random_state=0).fit([pair.x[kept], pair.y])
        new = np.isin(pair.labels_y, gone)
        for method in METHODS:
            found = transfer(model, pair.labels_x[kept], method, threshold=args.threshold)
            unsure = found.labels == UNASSIGNED
            best = found.classes[found.probabilities.argmax(axis=1)] == pair.labels_y
            print(
                f"{gone!s:>10} {method:>9}: {unsure[new].mean():.2f} / {unsure[~new].mean():.2f}  "
                f"{best[~unsure].mean():.3f} (all: {best.mean():.3f})  "
                f"{expected_calibration_error(found.confidence, best):.3f}",
                flush=True,
            )


def missing(images: np.ndarray, digits: np.ndarray, args: argparse.Namespace) -> None:
    """Expected calibration error of k-NN labels where the source lacks classes, drawn at random."""
    blood = tasks.make("pbmc_3pv2_5p")
    path = Path(__file__).parent / "results" / "missing.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["data", "missing", "seed", "error", "error_known", "confidence_new"])
        for data, count, seed in [
            *((data, n, s) for data in ("digits", "blood") for n in (0, 1, 3, 5) for s in args.seeds)
        ]:
            if data == "digits":
                pair = corrupted_pair(images, digits, 1000, 1000, args.preserved, random_state=seed)
                x, y, known, truth = pair.x, pair.y, pair.labels_x, pair.labels_y
            else:
                (x, y), (known, truth) = blood.datasets, blood.labels
            shared = np.intersect1d(known, truth)
            gone = np.random.RandomState(seed).permutation(shared)[:count]
            kept = np.flatnonzero(~np.isin(known, gone))
            model = HarmonicAlignment(random_state=0).fit([x[kept], y])
            found = transfer(model, known[kept], "knn")
            right = found.classes[found.probabilities.argmax(axis=1)] == truth
            new = ~np.isin(truth, known[kept])
            row = [
                expected_calibration_error(found.confidence, right),
                expected_calibration_error(found.confidence[~new], right[~new]),
                found.confidence[new].mean() if new.any() else "",
            ]
            writer.writerow([data, count, seed, *(v if v == "" else f"{v:.4f}" for v in row)])
            print(data, count, seed, *row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 4000, 8000])
    parser.add_argument("--source", type=int, default=1000)
    parser.add_argument("--preserved", type=float, default=0.35)
    parser.add_argument("--missing", action="store_true", help="classes that the source lacks")
    parser.add_argument("--threshold", type=float, default=0.5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = Path(os.environ.get("HARMONICALIGN_DATA", DEFAULT))
    images, digits = load_mnist(folder / "mnist" / "mnist.npz")
    images = images.astype(np.float32) / 255
    if args.missing:
        missing(images, digits, args)
    else:
        closed(images, digits, args)
        opened(images, digits, args)


if __name__ == "__main__":
    main()
