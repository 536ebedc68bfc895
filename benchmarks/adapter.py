"""Time and memory that `scverse.align` adds to the same work on arrays.

    python benchmarks/adapter.py [--rows 4000] [--genes 2000 20000] [--repeats 5]

Two datasets of random sparse counts with shared programmes, log-normalised. "arrays" fits the arrays that
`align` would pass on and makes what it writes: embedding, joint graph and joint map, confidence. Runs
alternate; the ratio of medians and the growth of memory over the input's size are printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import anndata
import numpy as np
import scipy.sparse as sp

from harmonicalign import HarmonicAlignment, scverse


def objects(rows: int, genes: int) -> list[anndata.AnnData]:
    rng = np.random.default_rng(0)
    programmes = rng.gamma(0.3, 1.0, (12, genes))
    out = []
    for i in range(2):
        mixture = rng.dirichlet(np.full(12, 0.2), rows)
        shift = np.exp(0.3 * rng.normal(size=genes))
        counts = rng.poisson(0.5 * mixture @ programmes * shift).astype(np.float32)
        total = np.maximum(counts.sum(1, keepdims=True), 1)
        values = sp.csr_matrix(np.log1p(1e4 * counts / total))
        names = [f"gene{j}" for j in range(genes)]
        cells = [f"cell{i}_{j}" for j in range(rows)]
        out.append(anndata.AnnData(values, obs={"cell": cells}, var={"gene": names}))
        out[-1].obs_names, out[-1].var_names = cells, names
    return out


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--genes", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for genes in options.genes:
        data = objects(options.rows, genes)

        def arrays(data: list[anndata.AnnData] = data) -> None:
            model = HarmonicAlignment(random_state=0).fit([a.X for a in data])
            _ = model.embedding_, model.joint_, model.confidence_

        def adapter(data: list[anndata.AnnData] = data) -> None:
            scverse.align([a.copy() for a in data], random_state=0)

        arrays(), adapter()
        pairs = [(timed(arrays), timed(adapter)) for _ in range(options.repeats)]
        ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        size = sum(a.X.data.nbytes + a.X.indices.nbytes + a.X.indptr.nbytes for a in data)
        peaks = []
        for work in (arrays, adapter):
            tracemalloc.start()
            work()
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        print(
            f"2 x {options.rows} x {genes}: arrays {ours:.2f} s, align {theirs:.2f} s "
            f"({theirs / ours - 1:+.0%}); memory beyond the arrays' {(peaks[1] - peaks[0]) / size:+.2f} x "
            f"the input ({size / 2**20:.0f} MiB)",
            flush=True,
        )


if __name__ == "__main__":
    main()
