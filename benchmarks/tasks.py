"""The accuracy tasks: pairs and groups of labelled datasets on which alignment methods are compared.

A task is made by name, when it is asked for: ``make("pancreas")``; ``names()`` lists those whose files are
there. Column ``j`` of every dataset of a task means the same, at least by name; in the ``rotated`` and
``mnist`` tasks only a part of the columns truly corresponds, and which part is known (``Task.truth``).
Labels are for scoring alone. ``score(task, embedding)`` is the one measure used for every method.

Data are read from ``data_dir``: by default the folder ``shared/data`` beside the repository, or the folder
that the environment variable ``HARMONICALIGN_DATA`` names.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors

from harmonicalign.metrics import mixing_entropy

Matrix = Any  # np.ndarray or CSR

MNIST_PERCENTAGES = (5, 10, 15, 20, 35, 50, 70, 90, 100)


@dataclass(frozen=True)
class Task:
    """Datasets to align, and the labels that tell how well it went.

    Parameters
    ----------
    name
        The name that :func:`make` knows it by.
    datasets
        Matrices, rows are points. Column ``j`` means the same in all, unless ``links`` is given.
    labels
        One array of labels per dataset.
    links
        Weights between the columns of the first dataset and those of the second, where their columns are
        different things (orthologues by sequence similarity).
    common
        Where ``links`` is given: the datasets in one space of columns, for methods that need one.
    directions
        Pairs ``(a, b)``: train on dataset ``a``, predict ``b``. Empty: score on all rows together, each
        predicted from all others (the task whose datasets share no class).
    removed
        Per dataset, the labels that were taken out of it on purpose.
    truth
        Which columns correspond, where that is known (boolean, one per column).
    notes
        What the task is about.
    """

    name: str
    datasets: list[Matrix]
    labels: list[np.ndarray]
    links: sp.csr_matrix | None = None
    common: list[Matrix] | None = None
    directions: tuple[tuple[int, int], ...] = ((0, 1), (1, 0))
    removed: list[tuple[str, ...]] = field(default_factory=list)
    truth: np.ndarray | None = None
    notes: str = ""

    @property
    def one_sided(self) -> list[np.ndarray]:
        """Per dataset, which rows have a label that no other dataset has."""
        sets = [set(np.unique(y).tolist()) for y in self.labels]
        out = []
        for i, y in enumerate(self.labels):
            others = set().union(*(s for j, s in enumerate(sets) if j != i))
            out.append(~np.isin(y, sorted(others)))
        return out


# --------------------------------------------------------------------------------------------------------
# reading


def data_dir() -> Path:
    """Return the folder of the data files."""
    return Path(os.environ.get("HARMONICALIGN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@lru_cache(maxsize=3)
def read(path: Path) -> dict[str, Any]:
    """Read an npz file; CSR matrices are stored as ``<name>_data``, ``_indices``, ``_indptr``, ``_shape``."""
    with np.load(path, allow_pickle=False) as z:
        files = set(z.files)
        sparse = {k.removesuffix("_indptr") for k in files if k.endswith("_indptr")}
        parts = {f"{n}_{p}" for n in sparse for p in ("data", "indices", "indptr", "shape")}
        out: dict[str, Any] = {k: z[k] for k in files - parts}
        for n in sparse:
            shape = tuple(int(s) for s in z[n + "_shape"])
            out[n] = sp.csr_matrix((z[n + "_data"], z[n + "_indices"], z[n + "_indptr"]), shape=shape)
    return out


def _rng(*key: object) -> np.random.Generator:
    """Return a generator that depends on the key alone, not on the order in which tasks are made."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def log_normalise(counts: sp.csr_matrix, total: float = 1e4) -> sp.csr_matrix:
    """Scale every row of counts to the same total and take ``log(1 + x)``."""
    x = sp.csr_matrix(counts, dtype=np.float64)
    depth = np.asarray(x.sum(1)).ravel()
    x = sp.diags(total / np.maximum(depth, 1)) @ x
    return sp.csr_matrix(x.log1p())


def column_variance(x: Matrix) -> np.ndarray:
    """Return the variance of every column of a dense or sparse matrix."""
    if sp.issparse(x):
        mean = np.asarray(x.mean(0)).ravel()
        return np.maximum(np.asarray(x.multiply(x).mean(0)).ravel() - mean**2, 0)
    return np.asarray(x).var(0)


def variable_columns(datasets: Sequence[Matrix], n: int = 2000) -> np.ndarray:
    """Return the ``n`` columns of best mean rank by variance of the log-normalised values, in order."""
    ranks = sum(np.argsort(np.argsort(-column_variance(x), kind="stable"), kind="stable") for x in datasets)
    return np.sort(np.argsort(ranks, kind="stable")[:n])


# --------------------------------------------------------------------------------------------------------
# changes made to a task


def rotated(task: Task, fraction: float = 0.65) -> Task:
    """Mix a random ``fraction`` of the second dataset's columns by a random orthogonal matrix."""
    rng = _rng("rotated", task.name, fraction)
    y = task.datasets[1]
    y = y.toarray() if sp.issparse(y) else np.array(y)
    d = y.shape[1]
    columns = np.sort(rng.choice(d, round(fraction * d), replace=False))
    y[:, columns] = y[:, columns] @ random_orthogonal(len(columns), rng)
    truth = np.ones(d, dtype=bool)
    truth[columns] = False
    datasets = [task.datasets[0], y, *task.datasets[2:]]
    notes = f"{task.notes}; {fraction:.0%} of the second dataset's columns mixed at random"
    return replace(task, name=task.name + "_rotated", datasets=datasets, truth=truth, notes=notes)


def subsampled(task: Task, n: int, seed: int = 0) -> Task:
    """Keep ``n`` random rows of every dataset."""
    rng = _rng("subsampled", task.name, n, seed)
    keep = [np.sort(rng.choice(x.shape[0], min(n, x.shape[0]), replace=False)) for x in task.datasets]
    return replace(
        task,
        name=f"{task.name}_{n}",
        datasets=[x[k] for x, k in zip(task.datasets, keep, strict=True)],
        labels=[y[k] for y, k in zip(task.labels, keep, strict=True)],
        notes=f"{task.notes}; {n} random rows of each",
    )


def without(task: Task, name: str, removed: Sequence[Sequence[str]]) -> Task:
    """Take the rows of some labels out of each dataset."""
    keep = [~np.isin(y, list(r)) for y, r in zip(task.labels, removed, strict=True)]
    return replace(
        task,
        name=name,
        datasets=[x[k] for x, k in zip(task.datasets, keep, strict=True)],
        labels=[y[k] for y, k in zip(task.labels, keep, strict=True)],
        removed=[tuple(r) for r in removed],
        notes=f"{task.notes}; without {[list(r) for r in removed]}",
    )


# --------------------------------------------------------------------------------------------------------
# the tasks


def random_orthogonal(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return an orthogonal matrix, uniform (Haar)."""
    q, r = np.linalg.qr(rng.standard_normal((n, n)))
    return q * np.sign(np.diag(r))


def mnist(
    p: float,
    seed: int = 0,
    *,
    n_x: int = 1000,
    n_y: int = 1000,
    matrix_seed: int | None = None,
) -> Task:
    """Return the paper's experiment: digits against other digits times ``O_p``.

    ``O_p`` is a random orthogonal 784 × 784 matrix of which ``p`` % of the columns, chosen at random, are
    replaced by the identity's columns of the same index. ``seed`` chooses the images (seeds below
    ``70000 // (n_x + n_y)`` give disjoint pairs) and, unless ``matrix_seed`` is given, the matrix.
    """
    z = read(data_dir() / "mnist" / "mnist.npz")
    order = _rng("mnist rows").permutation(len(z["y"]))
    size = n_x + n_y
    if (seed + 1) * size > len(order):
        raise ValueError(f"seed = {seed} asks for rows past the end: {len(order)} rows, {size} per seed")
    rows = order[seed * size : (seed + 1) * size]
    rx, ry = rows[:n_x], rows[n_x:]
    rng = _rng("mnist matrix", seed if matrix_seed is None else matrix_seed, p)
    o = random_orthogonal(784, rng)
    kept = rng.choice(784, round(p / 100 * 784), replace=False)
    o[:, kept] = np.eye(784)[:, kept]
    truth = np.zeros(784, dtype=bool)
    truth[kept] = True
    x, y = z["X"][rx] / 255.0, (z["X"][ry] / 255.0) @ o
    name = f"mnist_p{p:g}" + ("" if n_x == n_y == 1000 else f"_{n_x}x{n_y}")
    return Task(
        name,
        [x, y],
        [z["y"][rx], z["y"][ry]],
        directions=((0, 1),),
        truth=truth,
        notes=f"MNIST, {p:g} % of the pixels uncorrupted",
    )


def _pancreas() -> Task:
    z = read(data_dir() / "pancreas" / "pancreas_wang_xin.npz")
    shared, iw, ix = np.intersect1d(z["genes_wang"], z["genes_xin"], return_indices=True)
    return Task(
        "pancreas",
        [z["wang"][:, iw], z["xin"][:, ix]],
        [z["y_wang"], z["y_xin"]],
        notes=f"human islets, Wang and Xin, {len(shared)} shared genes; 3 types only in Wang",
    )


def _pancreas_human_mouse() -> Task:
    z = read(data_dir() / "pancreas" / "pancreas_human_mouse.npz")
    x = log_normalise(z["X"])
    parts = [np.flatnonzero(z["species"] == s) for s in ("human", "mouse")]
    columns = variable_columns([x[r] for r in parts])
    return Task(
        "pancreas_human_mouse",
        [x[r][:, columns] for r in parts],
        [z["y"][r] for r in parts],
        notes="islets of two species, orthologues, 2000 variable ones",
    )


def _pbmc(name: str, donors: Sequence[str]) -> Task:
    z = read(data_dir() / "pbmc_symphony_3tech" / "pbmc_symphony.npz")
    parts = [np.flatnonzero(z["donor"] == d) for d in donors]
    directions = tuple((a, b) for a in range(len(parts)) for b in range(len(parts)) if a != b)
    return Task(
        name,
        [z["X"][r] for r in parts],
        [z["cell_type"][r] for r in parts],
        directions=directions,
        notes=f"PBMC by 10x chemistries {', '.join(donors)}; 9 types",
    )


def _cell_lines() -> Task:
    z = read(data_dir() / "sc_mixology" / "sc_3cl.npz")
    _, ic, idrop = np.intersect1d(z["genes_celseq2"], z["genes_dropseq"], return_indices=True)
    datasets, labels = [], []
    for key, genes in (("celseq2", ic), ("dropseq", idrop)):
        single = z[f"dbl_{key}"] == "SNG"
        datasets.append(log_normalise(z[key][single][:, genes]))
        labels.append(z[f"y_{key}"][single])
    columns = variable_columns(datasets)
    return Task(
        "cell_lines",
        [x[:, columns] for x in datasets],
        labels,
        notes="three lung cancer lines by CEL-seq2 and Drop-seq, 2000 variable shared genes",
    )


def _cortex() -> Task:
    z = read(data_dir() / "snare_mouse_cortex" / "snare_mouse_cortex.npz")
    named = z["cell_type"] != "Mis"
    libraries = np.unique(z["batch"])
    first = np.isin(z["batch"], libraries[: len(libraries) // 2])
    parts = [np.flatnonzero(named & first), np.flatnonzero(named & ~first)]
    x = log_normalise(z["rna"])
    return Task(
        "cortex",
        [x[r] for r in parts],
        [z["cell_type"][r] for r in parts],
        notes="mouse cortex nuclei, RNA, six libraries against six; 14 unequal types",
    )


def _cortex_removed() -> Task:
    """Take every third type by size out of the second half, and the types after them out of the first."""
    task = _cortex()
    types, counts = np.unique(np.concatenate(task.labels), return_counts=True)
    by_size = types[np.argsort(-counts, kind="stable")].tolist()
    return without(task, "cortex_removed", [by_size[2::6], by_size[1::4]])


def _cytometry(person: int, time: str) -> Task:
    z = read(data_dir() / "cytof_shaham" / "cytof_shaham.npz")
    datasets, labels = [], []
    for day in (1, 2):
        x = np.log1p(z[f"X_p{person}d{day}_{time}"])
        datasets.append((x - x.mean(0)) / x.std(0))
        labels.append(z[f"y_p{person}d{day}_{time}"].astype(int))
    return Task(
        f"cytometry_p{person}_{time}",
        datasets,
        labels,
        notes="CyTOF of blood, two instrument days; CD8 T cells against the rest; log1p, z-score by day",
    )


def _jurkat(name: str, runs: Sequence[str]) -> Task:
    z = read(data_dir() / "jurkat_293t" / "jurkat_293t.npz")
    parts = [np.flatnonzero(z["dataset"] == r) for r in runs]
    # Only a run with both classes can predict another; the reverse would be right by necessity.
    directions = tuple((0, b) for b in range(1, len(runs)) if runs[0] == "half")
    return Task(
        name,
        [z["X_pcs"][r] for r in parts],
        [z["cell_type"][r] for r in parts],
        directions=directions,
        notes=f"10x runs {', '.join(runs)}; 20 PCs; the pure runs share no class and must stay apart",
    )


_WORM_TISSUES = {
    "Muscle": "Muscle",
    "Neural": "Neural",
    "Neural_KK7": "Neural",
    "Neoblast": "Neoblast",
    "Cathepsin+ cells": "Cathepsin",
    "Cathepsin": "Cathepsin",
    "Intestine": "Intestine",
    "Protonephridia": "Protonephridia",
    "Flame cells": "Protonephridia",
}


def _worms() -> Task:
    z = read(data_dir() / "planarian_schistosome" / "planarian_schistosome.npz")
    pl, sc, blast = z["X_pl"].astype(np.float64), z["X_sc"].astype(np.float64), z["blast_reciprocal"]
    labels = [
        np.array([_WORM_TISSUES.get(str(t), f"{t} ({s})") for t in z[f"tissue_{s}"]]) for s in ("pl", "sc")
    ]
    # Common space: a schistosome gene's value in the planarian is the link-weighted mean of its relatives.
    weight = np.asarray(blast.sum(0)).ravel()
    projected = sp.csr_matrix(pl @ blast @ sp.diags(1 / np.maximum(weight, 1e-12)))
    linked = np.flatnonzero(weight > 0)
    columns = linked[variable_columns([projected[:, linked], sc[:, linked]])]
    return Task(
        "worms",
        [pl, sc],
        labels,
        links=sp.csr_matrix(blast, dtype=np.float64),
        common=[projected[:, columns], sc[:, columns]],
        notes="planarian against schistosome, genes linked many to many by BLAST; 6 tissues shared",
    )


def _worms_projected() -> Task:
    """Without the links, which other methods cannot use: all see the same common space."""
    task = _worms()
    return replace(task, datasets=task.common, common=None, links=None)


def _mnist_usps(source: str, target: str) -> Task:
    z = read(data_dir() / "mnist_vs_usps" / "mnist_vs_usps.npz")
    return Task(
        f"{source}_{target}",
        [z[f"X_{source}"], z[f"X_{target}"]],
        [z[f"y_{source}"], z[f"y_{target}"]],
        directions=((0, 1),),
        notes=f"digits of 16 x 16 pixels, {source.upper()} against {target.upper()}; all pixels correspond",
    )


def _coil() -> Task:
    z = read(data_dir() / "coil20" / "coil20.npz")
    first = np.isin(z["view"], [*range(18), *range(36, 54)])
    return Task(
        "coil",
        [z["X"][first], z["X"][~first]],
        [z["y"][first], z["y"][~first]],
        notes="20 objects, two ranges of views of 36 each; all pixels correspond",
    )


def _mixtures() -> Task:
    z = read(data_dir() / "sc_mixology" / "rnamix.npz")
    _, ic, isort = np.intersect1d(z["genes_celseq2"], z["genes_sortseq"], return_indices=True)
    datasets = [log_normalise(z[key][:, genes]) for key, genes in (("celseq2", ic), ("sortseq", isort))]
    columns = variable_columns(datasets)
    return Task(
        "mixtures",
        [x[:, columns] for x in datasets],
        [z["mix_celseq2"], z["mix_sortseq"]],
        directions=((0, 1),),
        notes="RNA of three cell lines mixed in seven known proportions, two protocols; points of a triangle",
    )


def _pbmc_removed() -> Task:
    return without(_pbmc("pbmc", ["3pv2", "5p"]), "pbmc_removed", [["NK"], ["B"]])


_TASKS: dict[str, tuple[str, Callable[[], Task]]] = {
    **{f"mnist_p{p}": ("mnist/mnist.npz", lambda p=p: mnist(p)) for p in MNIST_PERCENTAGES},
    "mnist_p35_200x200": ("mnist/mnist.npz", lambda: mnist(35, n_x=200, n_y=200)),
    "mnist_p35_1000x4000": ("mnist/mnist.npz", lambda: mnist(35, n_x=1000, n_y=4000)),
    "mnist_p35_4000x1000": ("mnist/mnist.npz", lambda: mnist(35, n_x=4000, n_y=1000)),
    "pancreas": ("pancreas/pancreas_wang_xin.npz", _pancreas),
    "pancreas_200": ("pancreas/pancreas_wang_xin.npz", lambda: subsampled(_pancreas(), 200)),
    "pancreas_human_mouse": ("pancreas/pancreas_human_mouse.npz", _pancreas_human_mouse),
    **{
        f"pbmc_{a}_{b}": (
            "pbmc_symphony_3tech/pbmc_symphony.npz",
            lambda a=a, b=b: _pbmc(f"pbmc_{a}_{b}", [a, b]),
        )
        for a, b in (("3pv1", "3pv2"), ("3pv1", "5p"), ("3pv2", "5p"))
    },
    "pbmc_all": ("pbmc_symphony_3tech/pbmc_symphony.npz", lambda: _pbmc("pbmc_all", ["3pv1", "3pv2", "5p"])),
    "pbmc_removed": ("pbmc_symphony_3tech/pbmc_symphony.npz", _pbmc_removed),
    "pbmc_3pv2_5p_150": (
        "pbmc_symphony_3tech/pbmc_symphony.npz",
        lambda: subsampled(_pbmc("pbmc_3pv2_5p", ["3pv2", "5p"]), 150),
    ),
    "cell_lines": ("sc_mixology/sc_3cl.npz", _cell_lines),
    "cell_lines_150": ("sc_mixology/sc_3cl.npz", lambda: subsampled(_cell_lines(), 150)),
    "cortex": ("snare_mouse_cortex/snare_mouse_cortex.npz", _cortex),
    "cortex_removed": ("snare_mouse_cortex/snare_mouse_cortex.npz", _cortex_removed),
    "cortex_300": ("snare_mouse_cortex/snare_mouse_cortex.npz", lambda: subsampled(_cortex(), 300)),
    **{
        f"cytometry_p{person}_{time}": (
            "cytof_shaham/cytof_shaham.npz",
            lambda person=person, time=time: _cytometry(person, time),
        )
        for person in (1, 2)
        for time in ("baseline", "3month")
    },
    "cytometry_p1_baseline_300": (
        "cytof_shaham/cytof_shaham.npz",
        lambda: subsampled(_cytometry(1, "baseline"), 300),
    ),
    "jurkat_half_pure": (
        "jurkat_293t/jurkat_293t.npz",
        lambda: _jurkat("jurkat_half_pure", ["half", "jurkat"]),
    ),
    "jurkat_three": (
        "jurkat_293t/jurkat_293t.npz",
        lambda: _jurkat("jurkat_three", ["half", "jurkat", "t293"]),
    ),
    "jurkat_pure_pair": (
        "jurkat_293t/jurkat_293t.npz",
        lambda: _jurkat("jurkat_pure_pair", ["jurkat", "t293"]),
    ),
    "worms": ("planarian_schistosome/planarian_schistosome.npz", _worms),
    "worms_projected": ("planarian_schistosome/planarian_schistosome.npz", _worms_projected),
    "mnist_usps": ("mnist_vs_usps/mnist_vs_usps.npz", lambda: _mnist_usps("mnist", "usps")),
    "usps_mnist": ("mnist_vs_usps/mnist_vs_usps.npz", lambda: _mnist_usps("usps", "mnist")),
    "coil": ("coil20/coil20.npz", _coil),
    "mixtures": ("sc_mixology/rnamix.npz", _mixtures),
}

# Every pair and group of real datasets that measure the same features.
for _name in (
    "pancreas",
    *(f"pbmc_{group}" for group in ("3pv1_3pv2", "3pv1_5p", "3pv2_5p", "all")),
    "cell_lines",
    "cortex",
    *(f"cytometry_p{person}_{time}" for person in (1, 2) for time in ("baseline", "3month")),
):
    _TASKS[f"{_name}_rotated"] = (_TASKS[_name][0], lambda name=_name: rotated(_TASKS[name][1]()))
_TASKS["usps_mnist_rotated"] = (_TASKS["usps_mnist"][0], lambda: rotated(_mnist_usps("usps", "mnist")))
_TASKS["coil_rotated"] = (_TASKS["coil"][0], lambda: rotated(_coil(), 0.75))

FAMILIES: dict[str, tuple[str, ...]] = {
    "digits": ("mnist_p", "mnist_usps", "usps_mnist"),
    "objects": ("coil",),
    "pancreas": ("pancreas",),
    "pbmc": ("pbmc",),
    "cell lines": ("cell_lines", "jurkat"),
    "mixtures": ("mixtures",),
    "cortex": ("cortex",),
    "cytometry": ("cytometry",),
    "flatworms": ("worms",),
}
"""Families of data, by how names of tasks begin: what is chosen on some is reported on the others."""


def family(name: str) -> str:
    """The family of the task of this name."""
    return next(f for f, starts in FAMILIES.items() if name.startswith(starts))


def names() -> list[str]:
    """Return the names of the tasks whose data files are present."""
    return [name for name, (file, _) in _TASKS.items() if (data_dir() / file).exists()]


def make(name: str) -> Task:
    """Make the task of this name."""
    if name not in _TASKS:
        raise ValueError(f"no task is named {name!r}; names() lists them")
    return replace(_TASKS[name][1](), name=name)


# --------------------------------------------------------------------------------------------------------
# the score


def transfer_accuracy(
    train: np.ndarray, y_train: np.ndarray, test: np.ndarray, y_test: np.ndarray, k: int = 5
) -> float:
    """Return the share of test rows whose label a k-NN vote gets right, of those whose label can be known."""
    possible = np.isin(y_test, np.unique(y_train))
    if not possible.any():
        return float("nan")
    k = min(k, len(train))
    classes, code = np.unique(y_train, return_inverse=True)
    index = NearestNeighbors(n_neighbors=k).fit(train).kneighbors(test[possible], return_distance=False)
    return float(np.mean(classes[_vote(code[index], len(classes))] == y_test[possible]))


def joint_accuracy(embedding: Sequence[np.ndarray], labels: Sequence[np.ndarray], k: int = 5) -> float:
    """Return the k-NN accuracy over all rows together, every row predicted from all others."""
    y = np.concatenate(labels)
    return float(np.mean(nearest_labels(np.vstack(embedding), y, k) == y))


def nearest_labels(z: np.ndarray, y: np.ndarray, k: int = 5) -> np.ndarray:
    """Return the label that the k nearest other rows vote for, for every row."""
    classes, code = np.unique(y, return_inverse=True)
    index = NearestNeighbors(n_neighbors=k).fit(z).kneighbors(return_distance=False)
    return classes[_vote(code[index], len(classes))]


def score(task: Task, embedding: Sequence[np.ndarray], k: int = 5) -> dict[str, float]:
    """Return ``accuracy`` (mean over the directions), ``joint`` accuracy over all rows, and ``mixing``.

    Mixing is `harmonicalign.metrics.mixing_entropy` within the classes that datasets share: 1 is as mixed as
    rows drawn at random, NaN where no class is shared.
    """
    joint = joint_accuracy(embedding, task.labels, k)
    each = [
        transfer_accuracy(embedding[a], task.labels[a], embedding[b], task.labels[b], k)
        for a, b in task.directions
    ]
    accuracy = float(np.nanmean(each)) if each else joint
    shared = any(len(set(a) & set(b)) for a, b in combinations(task.labels, 2))
    mixing = mixing_entropy(embedding, labels=task.labels) if shared else float("nan")
    return {"accuracy": accuracy, "joint": joint, "mixing": mixing}


def _vote(neighbours: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the commonest label of every row of neighbour labels, nearest first on ties."""
    n, k = neighbours.shape
    counts = np.zeros((n, n_classes))
    weight = 1 + np.linspace(1e-3, 0, k)  # a tie goes to the nearer neighbours
    np.add.at(counts, (np.arange(n)[:, None], neighbours), weight)
    return counts.argmax(1)
