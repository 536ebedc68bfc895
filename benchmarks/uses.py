"""Out-of-sample rows, added datasets and the significance test, on real data.

    python benchmarks/uses.py oos add significance time

- oos: corrupted MNIST (p = 35 %), fit on 80 % of the rows and transform the rest, against fitting on all.
- add: one dataset added to a fitted model, against fitting all together.
- significance: how often an alignment is called significant at p = 0 (should be at most 5 %) and
  at p = 15 % (should be at least 95 %), and what the test costs.
- time: 100,000 new rows after a fit on 10,000.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import tasks

from harmonicalign import HarmonicAlignment
from harmonicalign.metrics import knn_label_agreement


def fit(datasets: list[Any], seed: int = 0) -> HarmonicAlignment:
    return HarmonicAlignment(random_state=seed).fit(datasets)


def oos(seeds: int) -> None:
    print("out of sample: 5-NN accuracy of the held-out fifth of the second dataset")
    found = []
    for seed in range(seeds):
        task = tasks.mnist(35, seed)
        (x, y), (lx, ly) = task.datasets, task.labels
        everything = fit([x, y])
        whole = knn_label_agreement(everything.embedding_[0], lx, everything.embedding_[1][800:], ly[800:])
        model = fit([x[:800], y[:800]])
        zx = np.vstack([model.embedding_[0], model.transform(x[800:], dataset=0)])
        part = knn_label_agreement(zx, lx, model.transform(y[800:], dataset=1), ly[800:])
        print(f"  seed {seed}: fitted on all {whole:.3f}, transformed {part:.3f}", flush=True)
        found.append((whole, part))
    whole, part = np.mean(found, axis=0)
    print(f"  mean: fitted on all {whole:.4f}, transformed {part:.4f} ({part - whole:+.4f})")


def add(seeds: int) -> None:
    print(f"added dataset: 5-NN accuracy of its rows from all the others (PBMC: mean of {2 * seeds} seeds)")
    task = tasks.make("pbmc_all")
    for last in range(3):
        order = [i for i in range(3) if i != last] + [last]
        sets, labels = ([part[i] for i in order] for part in (task.datasets, task.labels))
        report(f"pbmc, adding {last}", sets, labels, 2 * seeds)
    for seed in range(seeds):
        clean = tasks.mnist(35, seed)
        sets, labels = [clean.datasets[0]], [clean.labels[0]]
        for k in range(5):
            other = tasks.mnist(35, 3 + 5 * seed + k)
            sets.append(other.datasets[1])
            labels.append(other.labels[1])
        report(f"5 corrupted MNIST sets, draw {seed}", sets, labels, 1)


def report(name: str, sets: list[Any], labels: list[Any], seeds: int) -> None:
    known, found = np.concatenate(labels[:-1]), []
    for seed in range(seeds):
        together = fit(sets, seed).embedding_
        model = fit(sets[:-1], seed)
        rows = np.vstack(model.embedding_)
        new = model.add(sets[-1])
        whole = knn_label_agreement(np.vstack(together[:-1]), known, together[-1], labels[-1])
        found.append((whole, knn_label_agreement(rows, known, new, labels[-1])))
    whole, added = np.mean(found, axis=0)
    least = np.min(np.diff(found, axis=1))
    print(
        f"  {name}: fitted together {whole:.3f}, added {added:.3f} (least difference {least:+.3f})",
        flush=True,
    )


def significance(seeds: int) -> None:
    from harmonicalign import calibrate, harmonics, kernel_graph
    from harmonicalign.evidence.relations import relate
    from harmonicalign.evidence.significance import permutation_test
    from harmonicalign.method.maps import Side
    from harmonicalign.paper.reduction import reduce_rows

    def side(data: np.ndarray) -> Side:
        rows = reduce_rows(data, 50)[1]
        graph = kernel_graph(rows, n_neighbors=11, anisotropy=0.5, max_neighbors=45)
        return Side(rows, data, harmonics(graph, 50))

    for p, runs in ((0, 40 * seeds), (15, 10 * seeds)):
        called, spent = [], []
        for run in range(runs):
            task = tasks.mnist(p, run % 35, matrix_seed=run)
            x, y = (side(data) for data in task.datasets)
            start = time.perf_counter()
            hx, hy = calibrate([x.harmonics, y.harmonics])
            related = relate(x.signals, y.signals)
            test = permutation_test(hx, hy, x.spectral(), y.spectral(), relations=related, random_state=run)
            called.append(test.p < 0.05)
            spent.append(time.perf_counter() - start)
        print(
            f"significance: p = {p} %, called significant in {sum(called)} of {runs} "
            f"({np.mean(called):.3f}), {np.median(spent):.2f} s each",
            flush=True,
        )


def timing() -> None:
    x, y = tasks.mnist(35, 0, n_x=5000, n_y=5000).datasets
    model = fit([x, y])
    rng = np.random.default_rng(0)
    new = y[rng.integers(0, len(y), 100_000)] + 0.01 * rng.standard_normal((100_000, y.shape[1]))
    start = time.perf_counter()
    model.transform(new, dataset=1)
    seconds = time.perf_counter() - start
    print(f"time: fit on 10,000 rows {sum(model.timings_.values()):.1f} s, 100,000 new rows {seconds:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["oos", "add", "significance", "time"])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in options.parts:
        if part == "time":
            timing()
        else:
            {"oos": oos, "add": add, "significance": significance}[part](options.seeds)


if __name__ == "__main__":
    main()
