"""Two modalities with links: error against hidden pairs, of ours, of its parts, and of canonical components.

    python benchmarks/modalities.py [--sets cite cortex ...] [--data FOLDER]

FOSCTTM on three random parts of each set, mean ± sd: ours; ours without what the components predict, and
without the components themselves; canonical components of the signals alone (ten, and twenty in proportion
to the roots of their values, at unit length); and ours with half of the links wrong. Overlap is that of the
nearest 5 % of rows in the space of either modality with those in the other after alignment. In the cortex,
sequencing depth is regressed out of everything, so that it cannot be what aligns; its gene activity is used
as it is, and smoothed over its own graph.
"""

from __future__ import annotations

import argparse
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD

from harmonicalign import HarmonicAlignment
from harmonicalign.experiments import _paired
from harmonicalign.experiments._data import read_npz
from harmonicalign.method import DEFAULT
from harmonicalign.metrics import foscttm, neighbourhood_overlap
from harmonicalign.uses.smooth import balanced_transitions, denoise

DATA = Path(os.environ.get("HARMONICALIGN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
Rows = np.ndarray
Part = tuple[Rows, Rows, Rows, Rows]

VARIANTS = {
    "ours": {},
    "no prediction": {"predicted_share": 0.0},
    "no components": {"modality_balance": 1.0},
}


def without_depth(values: Rows, depth: Rows) -> Rows:
    """Residuals of a regression on log depth and its square."""
    logs = np.log(depth + 1)
    given = np.column_stack([np.ones(len(logs)), logs, logs**2])
    return values - given @ np.linalg.lstsq(given, values, rcond=None)[0]


def cortex(stored: dict, rng: np.random.RandomState, smooth: bool) -> Part:
    """RNA and chromatin of 1,500 cells, without what depth explains."""
    rows = rng.permutation(stored["rna"].shape[0])[:1500]
    rna, atac = stored["rna"][rows], stored["atac"][rows].astype(float)
    depths = [np.asarray(m.sum(axis=1)).ravel() for m in (rna, atac)]
    wanted = [_paired.per_total(rna).sqrt(), _paired.per_total(atac).log1p()]
    places = [
        without_depth(TruncatedSVD(50, algorithm="arpack", random_state=0).fit_transform(m), d)
        for m, d in zip(wanted, depths, strict=True)
    ]
    genes = _paired.per_total(rna).log1p()
    activity = _paired.per_total(atac @ stored["gene_by_region"].T.astype(float)).log1p()
    seen = [np.asarray((m > 0).mean(axis=0)).ravel() > 0.02 for m in (genes, activity)]
    kept = np.flatnonzero(seen[0] & seen[1])
    signals = [m[:, kept].toarray() for m in (genes, activity)]
    if smooth:
        signals = [denoise(s, balanced_transitions([p])).values for s, p in zip(signals, places, strict=True)]
    signals = [
        _paired.z_score(without_depth(_paired.z_score(s), d)) for s, d in zip(signals, depths, strict=True)
    ]
    return places[0], places[1], signals[0], signals[1]


def _linked(stored: dict, rng: np.random.RandomState, make: object) -> Part:
    pair = make(stored, rng)  # type: ignore[operator]
    return pair.x, pair.y, *pair.signals


SETS = {
    "cite": ("citeseq_citefuse/citeseq_citefuse.npz", lambda s, r: _linked(s, r, _paired._cite_seq)),
    "cortex": ("snare_mouse_cortex/snare_mouse_cortex.npz", lambda s, r: cortex(s, r, False)),
    "cortex smooth": ("snare_mouse_cortex/snare_mouse_cortex.npz", lambda s, r: cortex(s, r, True)),
    "digits": (None, lambda s, r: _linked({}, r, lambda _, q: _paired.interleaved_digits(q.randint(99)))),
}


def canonical(part: Part, k: int, weighted: bool) -> tuple[Rows, Rows]:
    """Canonical components of the signals alone: singular vectors of their products."""
    s, t = (v - v.mean(axis=0) for v in part[2:])
    u, d, vt = np.linalg.svd(s @ t.T, full_matrices=False)
    size = np.sqrt(d[:k]) if weighted else np.ones(k)
    a, b = u[:, :k] * size[: u.shape[1]], vt[:k].T * size
    if weighted:
        a, b = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (a, b))
    return a, b


def ours(part: Part, order: Rows, columns: Rows | None = None, **changes: float) -> list[Rows]:
    """Embedding with the rows of the second modality shuffled, in the order of the first."""
    x, y, s, t = part
    t = t if columns is None else t[:, columns]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HarmonicAlignment(random_state=0, config=replace(DEFAULT, **changes)).fit(
            [x, y[order]], signals=[s, t[order]]
        )
    return [model.embedding_[0], model.embedding_[1][np.argsort(order)]]


def row(part: Part, rng: np.random.RandomState) -> dict[str, float]:
    """All figures of one random part."""
    order = rng.permutation(len(part[0]))
    out: dict[str, float] = {}
    for name, changes in VARIANTS.items():
        z = ours(part, order, **changes)
        out[name] = foscttm(*z)
        if name == "ours":
            k = len(order) // 20
            here = neighbourhood_overlap(z[0], z[1], [k], reference=part[0])[0]
            there = neighbourhood_overlap(z[1], z[0], [k], reference=part[1])[0]
            out["overlap 5 %"] = float(here + there) / 2
    width = part[2].shape[1]
    out["CCA 10"] = foscttm(*canonical(part, min(10, width), False))
    out["CCA weighted"] = foscttm(*canonical(part, min(20, width), True))
    columns = np.arange(width)
    wrong = rng.permutation(columns)[: width // 2]
    columns[wrong] = np.roll(wrong, 1)
    out["half wrong"] = foscttm(*ours(part, order, columns))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    for name in options.sets:
        file, make = SETS[name]
        stored = {} if file is None else read_npz(options.data / file)
        rows = []
        for seed in range(options.repeats):
            rng = np.random.RandomState(seed)
            rows.append(row(make(stored, rng), rng))
        told = {key: [r[key] for r in rows] for key in rows[0]}
        print(
            f"{name:14} | " + " | ".join(f"{k} {np.mean(v):.3f} ± {np.std(v):.3f}" for k, v in told.items()),
            flush=True,
        )


if __name__ == "__main__":
    main()
