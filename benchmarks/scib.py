"""The scIB metrics over the suite, by scib-metrics' own Benchmarker, with the table and the figure of it.

    pip install -e '.[scib]'                   # scib-metrics (with JAX), harmonypy and Scanorama
    python benchmarks/scib.py                  # ours anew, the others from results/scib_peers.csv
    python benchmarks/scib.py --again harmony scvi --tasks pancreas pbmc_all
    python benchmarks/publish.py               # the page of documentation

Every metric that the Benchmarker has, for every method and task, with five seeds of the method and of the
clustering (one for methods without chance). Total is its .6 bio conservation + .4 batch correction. The
other methods are given 50 components; scVI runs where it is installed and the task's values are normalised
counts. Runs in a CSV are not repeated unless asked for (``--again``); ours has a file of its own and is
repeated always, because its code is what changes. Data are read as `tasks` says.
"""

from __future__ import annotations

import argparse
import csv
import gc
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import tasks

from harmonicalign import HarmonicAlignment, __version__
from harmonicalign.experiments import baselines

RESULTS = Path(__file__).parent / "results"
FIGURE = Path(__file__).parents[1] / "docs" / "_static" / "results" / "scib.png"
OURS = "harmonicalign"
SCORES = ("Bio conservation", "Batch correction", "Total")
N_COMPONENTS = 50

Rows = list[np.ndarray]


def suite() -> list[str]:
    """The whole tasks, as they were measured: neither sampled nor with columns mixed."""
    whole = [
        name
        for name in tasks.names()
        if not name.endswith(("_rotated", "_removed", "_projected", "_150", "_200", "_300"))
        # Of the same pixels in two orders one is enough; MNIST's columns are mixed on purpose.
        and not name.startswith("mnist_p")
        and name != "usps_mnist"
    ]
    return [name for name in whole if name != "jurkat_pure_pair"]  # no class is shared: nothing to mix


# --------------------------------------------------------------------------------------------------------
# methods


def _ours(task: tasks.Task, seed: int) -> Rows:
    datasets = (task.common or task.datasets) if task.links is None else task.datasets
    return list(HarmonicAlignment(random_state=seed).fit(datasets, links=task.links).embedding_)


def _baseline(name: str) -> Callable[[tasks.Task, int], Rows]:
    def run(task: tasks.Task, seed: int) -> Rows:
        method = baselines.get(name, n_components=N_COMPONENTS, random_state=seed)
        return method.fit_transform(task.common or task.datasets)

    return run


def _scvi(task: tasks.Task, seed: int) -> Rows:
    try:
        import scvi
    except ImportError as error:
        raise ImportError("scVI needs its package: pip install scvi-tools") from error
    import anndata

    counts = [counts_of(x) for x in task.common or task.datasets]
    adata = anndata.AnnData(sp.csr_matrix(sp.vstack(counts)))
    adata.obs["batch"] = np.repeat(
        [f"dataset {i}" for i in range(len(counts))], [len(y) for y in task.labels]
    )
    scvi.settings.seed = seed
    scvi.model.SCVI.setup_anndata(adata, batch_key="batch")
    model = scvi.model.SCVI(adata)
    model.train(accelerator="auto", enable_progress_bar=False, logger=None)
    return np.split(model.get_latent_representation(), np.cumsum([x.shape[0] for x in counts])[:-1])


METHODS: dict[str, Callable[[tasks.Task, int], Rows]] = {
    "pca": _baseline("none"),
    "harmony": _baseline("harmony"),
    "scanorama": _baseline("scanorama"),
    "mnn": _baseline("mnn"),
    "scvi": _scvi,
    OURS: _ours,
}
WITHOUT_CHANCE = ("pca", "mnn")
LABELS = {
    "pca": "PCA",
    "harmony": "Harmony",
    "scanorama": "Scanorama",
    "mnn": "MNN",
    "scvi": "scVI",
    OURS: OURS,
}


def counts_of(x: Any) -> sp.csr_matrix:
    """Counts from ``log(1 + c · s)``, where ``s`` is a row's own factor and its smallest count is 1.

    Raises a ValueError where most rows are no multiples of whole numbers.
    """
    values = sp.csr_matrix(x, dtype=np.float64)
    values.eliminate_zeros()
    if values.nnz == 0 or values.data.min() < 0:
        raise ValueError("the values are no normalised counts; scVI models counts")
    values.data = np.expm1(values.data)
    rows = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
    smallest = np.full(values.shape[0], np.inf)
    np.minimum.at(smallest, rows, values.data)
    values.data /= smallest[rows]
    off = np.abs(values.data - np.round(values.data)) > 0.02 * values.data
    if np.mean(off) > 0.05:
        raise ValueError(f"{np.mean(off):.0%} of the values are no normalised counts; scVI models counts")
    values.data = np.round(values.data)
    return values


# --------------------------------------------------------------------------------------------------------
# metrics


def quieten() -> None:
    """Load scib-metrics once, without a line for every class of one batch."""
    try:
        import scib_metrics
        from scib_metrics.benchmark import Benchmarker  # noqa: F401 loads JAX
    except ImportError as error:
        raise SystemExit("scib-metrics is missing; pip install 'harmonicalign[scib]'") from error
    scib_metrics.settings.verbosity = logging.ERROR
    # It collects garbage before every metric; without what is imported that takes no second each time.
    gc.freeze()


def exact_neighbours(rows: np.ndarray, k: int) -> Any:
    """Neighbours for the Benchmarker, each row its own first; exact, so that they add no chance."""
    from scib_metrics.nearest_neighbors import NeighborsResults
    from sklearn.neighbors import NearestNeighbors

    distances, indices = NearestNeighbors(n_neighbors=min(k, len(rows))).fit(rows).kneighbors(rows)
    return NeighborsResults(indices=indices, distances=distances)


def metrics(task: tasks.Task, embedding: Rows, plain: Rows, seed: int) -> dict[str, float]:
    """Every metric of the Benchmarker and its three aggregates."""
    import anndata
    from scib_metrics.benchmark import Benchmarker, BioConservation

    labels = np.concatenate(task.labels).astype(str)
    batch = np.repeat([f"dataset {i}" for i in range(len(task.labels))], [len(y) for y in task.labels])
    before = np.vstack(plain).astype(np.float32)
    adata = anndata.AnnData(before, obs={"label": labels, "batch": batch})
    adata.obs = adata.obs.astype("category")
    adata.obsm["plain"], adata.obsm["z"] = before, np.vstack(embedding).astype(np.float32)
    benchmark = Benchmarker(
        adata,
        batch_key="batch",
        label_key="label",
        embedding_obsm_keys=["z"],
        bio_conservation_metrics=BioConservation(nmi_ari_cluster_labels_leiden={"seed": seed}),
        pre_integrated_embedding_obsm_key="plain",
        progress_bar=False,
    )
    benchmark.prepare(neighbor_computer=exact_neighbours)
    benchmark.benchmark()
    found = benchmark.get_results(min_max_scale=False).loc["z"]
    return {str(name): float(value) for name, value in found.items()}


def measure(task: tasks.Task, method: str, seed: int, plain: Rows) -> dict[str, Any]:
    """One row of the CSV."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        embedding = METHODS[method](task, seed)
        seconds = time.perf_counter() - start
        scores = metrics(task, embedding, plain, seed)
    own = {"version": __version__} if method == OURS else {"version": ""}
    return {"task": task.name, "method": method, "seed": seed, "seconds": seconds, **own, **scores}


# --------------------------------------------------------------------------------------------------------
# files, table and figure


def read(*paths: Path) -> list[dict[str, Any]]:
    """Rows of the CSVs that are there, numbers as numbers; of several runs of one seed the last."""
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for path in paths:
        if not path.exists():
            continue
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                text = {k: row[k] for k in ("task", "method", "version")}
                numbers = {k: float(v) if v else np.nan for k, v in row.items() if k not in text}
                found[row["task"], row["method"], int(row["seed"])] = text | numbers
    return list(found.values())


def record(path: Path, row: dict[str, Any]) -> None:
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(row)
        writer.writerow([f"{v:.5g}" if isinstance(v, float) else v for v in row.values()])


def means(rows: Iterable[dict[str, Any]], score: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Mean and standard deviation over the seeds, by task and method."""
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        values.setdefault((row["task"], row["method"]), []).append(row[score])
    return {key: (float(np.mean(v)), float(np.std(v))) for key, v in values.items()}


def print_table(rows: list[dict[str, Any]]) -> None:
    methods = [m for m in METHODS if any(row["method"] == m for row in rows)]
    print(f"{'task':<24}" + "".join(f"{LABELS[m]:>23}" for m in methods) + "   (total ± spread, bio/batch)")
    bio, batch, total = (means(rows, score) for score in SCORES)
    for name in dict.fromkeys(row["task"] for row in rows):
        line = f"{name:<24}"
        for method in methods:
            if (key := (name, method)) not in total:
                line += f"{'-':>23}"
                continue
            mean, spread = total[key]
            line += f"{f'{mean:.3f}±{spread:.3f} {bio[key][0]:.2f}/{batch[key][0]:.2f}':>23}"
        print(line)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """The field's figure: a circle per metric and method, bars for the aggregates, means over tasks."""
    import matplotlib.pyplot as plt

    names = [k for k in rows[0] if k not in ("task", "method", "seed", "seconds", "version")]
    methods = [m for m in METHODS if any(row["method"] == m for row in rows)]
    complete = {row["task"] for row in rows}
    for method in methods:
        if method != "scvi":  # it runs on counts only, so it is left out of the figure rather than tasks
            complete &= {row["task"] for row in rows if row["method"] == method}
    methods = [m for m in methods if complete <= {row["task"] for row in rows if row["method"] == m}]
    chosen = [row for row in rows if row["task"] in complete]
    value = {
        (m, n): float(np.nanmean([row[n] for row in chosen if row["method"] == m]))
        for m in methods
        for n in names
    }
    methods.sort(key=lambda m: value[m, "Total"])
    figure, axes = plt.subplots(figsize=(1.5 + 0.95 * len(names), 1.6 + 0.5 * len(methods)))
    colours = plt.get_cmap("PRGn")
    for x, name in enumerate(names):
        column = np.array([value[m, name] for m in methods])
        span = max(float(np.ptp(column)), 1e-9)
        for y, method in enumerate(methods):
            share = (value[method, name] - column.min()) / span
            if name in SCORES:
                axes.barh(
                    y, 0.85 * value[method, name], left=x - 0.4, height=0.7, color="tab:blue", alpha=0.6
                )
            else:
                axes.scatter(x, y, s=520, color=colours(0.15 + 0.7 * share), edgecolor="none")
            axes.text(x, y, f"{value[method, name]:.2f}", ha="center", va="center", fontsize=8)
    axes.set_yticks(range(len(methods)), [LABELS[m] for m in methods])
    axes.set_xticks(range(len(names)), [n.replace(" ", "\n", 1) for n in names], fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylim(-0.6, len(methods) - 0.4)
    axes.set_frame_on(False)
    axes.set_xlabel(f"mean over {len(complete)} tasks")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=suite())
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--again", nargs="+", choices=METHODS, default=[OURS], help="whose runs to repeat")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the CSVs")
    parser.add_argument("--figure", type=Path, default=FIGURE)
    options = parser.parse_args()
    peers, ours = options.results / "scib_peers.csv", options.results / "scib.csv"
    options.results.mkdir(parents=True, exist_ok=True)
    quieten()
    known = {(row["task"], row["method"], int(row["seed"])) for row in read(peers, ours)}
    for name in options.tasks:
        wanted = [
            (method, seed)
            for method in options.methods
            for seed in range(1 if method in WITHOUT_CHANCE else options.seeds)
            if method in options.again or (name, method, seed) not in known
        ]
        if not wanted:
            continue
        task = tasks.make(name)
        plain = METHODS["pca"](task, 0)
        failed = set()
        for method, seed in wanted:
            if method in failed:
                continue
            try:
                row = measure(task, method, seed, plain)
            except (ImportError, ValueError) as error:
                failed.add(method)
                print(f"{method} on {name}: {error}", file=sys.stderr)
                continue
            record(ours if method == OURS else peers, row)
            print(f"{name} {method} {seed}: {row['Total']:.3f} ({row['seconds']:.1f} s)", flush=True)
    rows = [row for row in read(peers, ours) if row["method"] in options.methods]
    print_table([row for row in rows if row["task"] in options.tasks])
    if rows:
        draw(rows, options.figure)


if __name__ == "__main__":
    main()
