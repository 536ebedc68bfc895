"""What correction, denoising and imputation achieve, and what they cost.

    python benchmarks/correction.py [cytometry] [removed] [proteins] [cost]

cytometry
    CyTOF of the same blood on two days (cytof_shaham), each person and time. Values are log(1 + x),
    then z-scored with the mean and deviation of both days pooled, so that the days' difference stays
    in the data. Day 1 is the reference.
removed
    The same with one population taken out of one day: cells of label 1 (CD8 T cells), or the largest
    of four k-means clusters (of the days z-scored apart). All figures are for the cells of the *other*
    populations, whose counterparts in the reference are known: the distance left between the two, for
    local correction and for matching each marker's quantiles as a whole.
proteins
    CITE-seq (citeseq_citefuse): proteins predicted for cells of which only RNA is shown. Genes are linked
    to proteins by name. 250 cells have their RNA shown and 250 others their proteins ("halves"), or all
    500 have both with the pairing hidden.
cost
    Seconds and peak memory, each in a process of its own.

Data are read from ``shared/data`` beside the repository or from the folder ``HARMONICALIGN_DATA``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign import HarmonicAlignment
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.metrics import earth_movers_distance
from harmonicalign.uses.correct import correct
from harmonicalign.uses.smooth import balanced_transitions, denoise, impute

DATA = Path(os.environ.get("HARMONICALIGN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))

GENE_OF_PROTEIN = {
    "B220 (CD45R)": "PTPRC", "CCR7": "CCR7", "CD11b": "ITGAM", "CD11c": "ITGAX", "CD14": "CD14",
    "CD16": "FCGR3A", "CD19": "CD19", "CD2": "CD2", "CD223 (lag3)": "LAG3", "CD26 (Adenosine)": "DPP4",
    "CD27": "CD27", "CD28": "CD28", "CD3": "CD3E", "CD366 (tim3)": "HAVCR2", "CD4": "CD4", "CD44": "CD44",
    "CD45": "PTPRC", "CD5": "CD5", "CD56": "NCAM1", "CD62L": "SELL", "CD69": "CD69", "CD7": "CD7",
    "CD8": "CD8A", "CTLA4": "CTLA4", "HLA-A,B,C": "HLA-A", "IL7Ralpha (CD127)": "IL7R", "LAMP1": "LAMP1",
    "MHCII (HLA-DR)": "HLA-DRA", "PECAM (CD31)": "PECAM1", "TCRb": "TRBC1", "TCRg": "TRGC1",
}  # fmt: skip


def days(person: int, month: str) -> tuple[list[Any], list[Any]]:
    """Both days of a person and time, z-scored together, and their labels."""
    with np.load(DATA / "cytof_shaham" / "cytof_shaham.npz") as stored:
        raw = [np.log1p(stored[f"X_p{person}d{day}_{month}"]) for day in (1, 2)]
        labels = [stored[f"y_p{person}d{day}_{month}"].astype(int) for day in (1, 2)]
    pooled = np.vstack(raw)
    return [(x - pooled.mean(axis=0)) / pooled.std(axis=0) for x in raw], labels


def emd(x: Any, y: Any) -> float:
    return float(earth_movers_distance(x, y).mean())


def agreement(rows: Any, labels: Any) -> float:
    """Share of rows whose label is that of most of their 5 nearest other rows."""
    return float(np.mean((labels[nearest_rows(rows, 5).indices].mean(axis=1) > 0.5) == (labels == 1)))


def correlation_of_correlations(x: Any, y: Any) -> float:
    above = np.triu_indices(x.shape[1], 1)
    return float(np.corrcoef(np.corrcoef(x.T)[above], np.corrcoef(y.T)[above])[0, 1])


def align(datasets: list[Any], **options: Any) -> HarmonicAlignment:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return HarmonicAlignment(random_state=0).fit(datasets, **options)


def corrected(x: Any, y: Any) -> Any:
    return align([x, y]).correct(reference=0).values[1]


def quantile_matched(x: Any, y: Any) -> Any:
    """Each column of y with the quantiles of x as a whole."""
    out = np.empty_like(y)
    for j in range(y.shape[1]):
        ranks = np.empty(len(y))
        ranks[np.argsort(y[:, j], kind="stable")] = (np.arange(len(y)) + 0.5) / len(y)
        out[:, j] = np.interp(ranks, (np.arange(len(x)) + 0.5) / len(x), np.sort(x[:, j]))
    return out


PAIRS = [(person, month) for person in (1, 2) for month in ("baseline", "3month")]


def cytometry() -> None:
    print("EMD between the days, mean of 25 markers, as a share of the uncorrected; 5-NN within a day")
    print(
        f"{'pair':>12} {'EMD':>6} {'halves':>7} | {'correct':>7} {'corr of corr':>12} "
        f"{'5-NN day 1':>10} {'day 2':>5} {'2 onto 1':>8} {'1 onto 2':>8} | "
        f"{'EMD denoised':>12} {'t':>3} {'aligned':>8} {'+ correct':>9} {'5-NN':>13} | {'onto itself':>11}"
    )
    for person, month in PAIRS:
        (x, y), labels = days(person, month)
        model = align([x, y])
        fixed, back = model.correct(reference=0).values[1], model.correct(reference=1).values[0]
        halves = np.random.RandomState(0).permutation(len(x))
        apart = [denoise(v, balanced_transitions([v])).values for v in (x, y)]
        joint, joint_fixed = (model.denoise(np.vstack([x, v])) for v in (y, fixed))
        shares = [emd(d.values[: len(x)], d.values[len(x) :]) / emd(*apart) for d in (joint, joint_fixed)]
        change = np.abs(align([x, x]).correct(reference=0).values[1] - x).max()
        print(
            f"{f'{person} {month}':>12} {emd(x, y):6.3f} "
            f"{emd(x[halves[::2]], x[halves[1::2]]) / emd(x, y):7.3f} | "
            f"{emd(x, fixed) / emd(x, y):7.3f} {correlation_of_correlations(y, fixed):12.3f} "
            f"{agreement(x, labels[0]):10.3f} {agreement(y, labels[1]):5.3f} "
            f"{agreement(fixed, labels[1]):8.3f} {agreement(back, labels[0]):8.3f} | "
            f"{emd(*apart):12.3f} {joint.t:3d} {shares[0]:8.3f} {shares[1]:9.3f} "
            f"{agreement(apart[1], labels[1]):.3f} > {agreement(joint.values[len(x) :], labels[1]):.3f} | "
            f"{change:11.1e}"
        )


def removed() -> None:
    from sklearn.cluster import KMeans

    print("EMD left in the populations that both days have, as a share of the uncorrected: local / quantiles")
    print(
        f"{'pair':>12} {'removed':>8} {'share':>6} {'nothing':>15} {'from reference':>15} {'from day 2':>15}"
    )
    for person, month in PAIRS:
        (x, y), labels = days(person, month)
        apart = np.vstack([(v - v.mean(axis=0)) / v.std(axis=0) for v in (x, y)])
        cluster = KMeans(4, n_init=3, random_state=0).fit_predict(apart)
        whole = [way(x, y) for way in (corrected, quantile_matched)]
        largest = np.split(cluster == np.bincount(cluster).argmax(), [len(x)])
        for name, (gone_x, gone_y) in (("label 1", [v == 1 for v in labels]), ("cluster", largest)):
            keep_x, keep_y = ~gone_x, ~gone_y
            before = emd(x[keep_x], y[keep_y])
            found = [[v[keep_y] for v in whole]]
            for a, b, shown in ((x[keep_x], y, keep_y), (x, y[keep_y], slice(None))):
                found.append([way(a, b)[shown] for way in (corrected, quantile_matched)])
            cells = [" / ".join(f"{emd(x[keep_x], v) / before:.3f}" for v in ways) for ways in found]
            print(
                f"{f'{person} {month}':>12} {name:>8} {gone_y.mean():6.2f} "
                + " ".join(f"{c:>15}" for c in cells)
            )


def cite_seq() -> tuple[Any, Any, Any, Any]:
    """log-normalised RNA (variable genes), proteins, and the columns of linked genes and proteins."""
    with np.load(DATA / "citeseq_citefuse" / "citeseq_citefuse.npz") as stored:
        counts = sp.csr_matrix(
            (stored["rna_data"], stored["rna_indices"], stored["rna_indptr"]), shape=stored["rna_shape"]
        ).astype(np.float64)
        adt = np.log1p(stored["adt"].astype(np.float64))
        genes = {str(g).split("_")[-1]: i for i, g in enumerate(stored["genes"])}
        proteins = {str(p): i for i, p in enumerate(stored["proteins"])}
    rna = counts.multiply(1e4 / counts.sum(axis=1)).tocsr()
    rna = np.log1p(rna.toarray())
    seen = (rna > 0).mean(axis=0)
    links = [(genes[g], proteins[p]) for p, g in GENE_OF_PROTEIN.items() if g in genes and p in proteins]
    linked = np.asarray([(g, p) for g, p in links if seen[g] >= 0.05])
    variable = np.argsort(-rna.var(axis=0))[:2000]
    return rna[:, variable], adt - adt.mean(axis=1, keepdims=True), rna[:, linked[:, 0]], linked[:, 1]


def column_correlations(x: Any, y: Any) -> Any:
    return np.mean(z_score(x) * z_score(y), axis=0)


def z_score(x: Any) -> Any:
    return (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)


def proteins() -> None:
    rna, adt, genes, linked = cite_seq()
    print(
        f"{adt.shape[1]} proteins predicted for RNA cells, mean correlation with the measured; "
        f"{len(linked)} links"
    )
    print(
        f"{'cells':>10} {'aligned':>8} {'unaligned':>10} {'permuted':>9} {'better':>7} {'own estimate':>13}"
    )
    for name, seed in [*((f"halves {s}", s) for s in range(5)), ("hidden", 5)]:
        rng = np.random.RandomState(seed)
        order = rng.permutation(len(adt))
        a, b = (np.arange(len(adt)), order) if name == "hidden" else (order[:250], order[250:])
        signals = [z_score(genes[a]), z_score(adt[b][:, linked])]
        model = align([rna[a], adt[b]], signals=signals)
        found, plain = model.impute(adt[b], source=1, target=0), impute(adt[b], signals[1], signals[0])
        ours, theirs = (column_correlations(v.values, adt[a]) for v in (found, plain))
        chance = column_correlations(found.values[rng.permutation(len(a))], adt[a])
        print(
            f"{name:>10} {ours.mean():8.3f} {theirs.mean():10.3f} {chance.mean():9.3f} "
            f"{np.mean(ours > theirs):7.2f} {np.nanmean(found.correlation):13.3f}"
        )


def sparse_values(n: int, d: int, rng: np.random.RandomState) -> sp.csr_matrix:
    """One entry in every 20 columns of every row, made without large temporaries."""
    per_row = d // 20
    values = rng.randint(0, 20, (n, per_row), dtype=np.int32)
    values += 20 * np.arange(per_row, dtype=np.int32)
    data = np.empty(values.size, dtype=np.float32)
    for start in range(0, data.size, 10**6):
        data[start : start + 10**6] = rng.exponential(size=len(data[start : start + 10**6]))
    indptr = np.arange(0, values.size + 1, per_row, dtype=np.int32)
    return sp.csr_matrix((data, values.ravel(), indptr), shape=(n, d))


def measure(what: str, n: int, d: int) -> dict[str, float]:
    rng = np.random.RandomState(0)
    z = rng.standard_normal((n, 50)) * np.linspace(1, 0.1, 50)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    halves = [z[: n // 2], z[n // 2 :]]
    sure = [np.ones(len(v)) for v in halves]
    if what == "correct sparse":
        values: Any = sparse_values(n, d, rng)
    else:
        values = rng.standard_normal((n, d))
    parts = [values[: n // 2], values[n // 2 :]]
    if what == "denoise":
        start = time.perf_counter()
        denoise(values, balanced_transitions(halves, confidence=sure))
    elif what == "impute":
        start = time.perf_counter()
        impute(parts[0], *halves)
    else:
        del values
        start = time.perf_counter()
        correct(parts, halves, 0, confidence=sure)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


COSTS = [
    *((what, n, 50) for n in (10_000, 100_000) for what in ("correct", "denoise", "impute")),
    ("correct sparse", 10_000, 20_000),
    ("correct sparse", 50_000, 20_000),
]


def cost() -> None:
    print(f"{'operation':>15} {'rows in all':>11} {'columns':>8} {'seconds':>8} {'peak GiB in all':>15}")
    for what, n, d in COSTS:
        command = [sys.executable, __file__, "--one", json.dumps([what, n, d])]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(f"{what:>15} {n:11,} {d:8,} {found['seconds']:8.1f} {found['gib']:15.2f}", flush=True)


PARTS = {"cytometry": cytometry, "removed": removed, "proteins": proteins, "cost": cost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; by default all")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*json.loads(options.one))))
        return
    unknown = sorted(set(options.parts) - set(PARTS))
    if unknown:
        parser.error(f"no part called {', '.join(unknown)}; choose from {', '.join(PARTS)}")
    for part in options.parts or PARTS:
        print(f"\n{part}")
        PARTS[part]()


if __name__ == "__main__":
    main()
