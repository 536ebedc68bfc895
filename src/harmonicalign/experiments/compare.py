"""Every method on datasets of your own."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from harmonicalign._typing import Array, Labels, Matrix, MatrixLike, PathLike
from harmonicalign.experiments._data import DataError
from harmonicalign.experiments._methods import OURS, embed, names
from harmonicalign.experiments._tables import Row
from harmonicalign.metrics import knn_label_agreement, mixing_entropy

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["compare"]

Table: TypeAlias = "MatrixLike | AnnData | PathLike"
"""One dataset: a matrix, a data frame, AnnData, or the path of a file that holds one of these."""


def compare(
    datasets: Sequence[Table] | Mapping[str, Table],
    labels: str | Sequence[Labels] | Mapping[str, Labels] | None = None,
    methods: Sequence[str] | None = None,
    *,
    n_neighbors: int = 5,
    random_state: int = 0,
) -> list[Row]:
    """Align datasets by several methods and say how well each did.

    All methods run at their defaults on the columns that the datasets share. Give counts of single cells
    normalised and logarithmised: none of the methods does so itself.

    Parameters
    ----------
    datasets
        Two or more: matrices (dense or sparse) with the same columns, or data frames, AnnData or paths of
        files that `harmonicalign.io.read` understands, whose columns are matched by name. A dict names them.
    labels
        A label per row for every dataset, in the form of `datasets`; or the name of a column of ``.obs`` that
        all have. None scores mixing only.
    methods
        Names: "none", "mnn", "magan", "wang", "harmony", "scanorama", "paper", "default". By default all
        whose packages are installed, but for MAGAN, which trains for minutes, and Wang & Mahadevan.
    n_neighbors
        Neighbours that vote on a label.
    random_state
        Seed.

    Returns
    -------
    table
        One dict per method: ``method``; ``accuracy``, the share of rows that have the label of the nearest
        rows of another dataset, of those whose label the other dataset has, averaged over all ordered pairs
        of datasets (None without labels); ``mixing``, from 0 (separate) to 1 (as well mixed as by chance),
        within labels where these are given; ``seconds``; ``p``, the significance of our default's alignment;
        ``columns``, how many are shared; and ``note``, why a method gave no result.

    Examples
    --------
    >>> from harmonicalign.datasets import load_digits_pair
    >>> from harmonicalign.experiments import compare
    >>> pair = load_digits_pair(0.5, n_x=200, n_y=200, random_state=0)
    >>> table = compare([pair.x, pair.y], [pair.labels_x, pair.labels_y], ["none", "default"])
    >>> table[1]["accuracy"] > table[0]["accuracy"]
    True
    """
    keys, tables = _tables(datasets)
    matrices, shared = _matched(keys, tables)
    known = _labels(labels, keys, tables, matrices)
    lacks = names()
    chosen = [m for m, lack in lacks.items() if not lack and m not in ("magan", "wang")]
    if methods is not None:
        unknown = [m for m in methods if m not in lacks]
        if unknown:
            raise ValueError(f"methods names {', '.join(unknown)}; there are {', '.join(lacks)}")
        chosen = list(methods)
    if known is not None:
        _check_labels(keys, known)
    k = min(n_neighbors, *(m.shape[0] for m in matrices))
    return [_line(method, lacks[method], matrices, known, k, random_state, shared) for method in chosen]


def _line(
    method: str,
    lack: str,
    matrices: list[Matrix],
    known: list[Array] | None,
    k: int,
    seed: int,
    shared: int,
) -> Row:
    line: Row = {
        "method": method,
        "accuracy": None,
        "mixing": None,
        "seconds": None,
        "p": None,
        "columns": shared,
        "note": "",
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # p says what the warning would
            found = embed(method, matrices, seed=seed)
    except (ValueError, ImportError) as error:
        # A method that cannot take these data must not hide the results of others; invalid data fail in ours.
        if method in OURS or method == "none":
            raise
        return line | {"note": lack or str(error)}
    z = found.coordinates
    line["seconds"] = found.seconds
    neighbours = min(30, sum(len(rows) for rows in z) - 1)
    line["mixing"] = mixing_entropy(z, neighbours, labels=known)
    if known is not None:
        scores = []
        for a, b in permutations(range(len(z)), 2):
            possible = np.isin(known[b], np.unique(known[a]))
            if possible.any():
                scores.append(knn_label_agreement(z[a], known[a], z[b][possible], known[b][possible], k))
        line["accuracy"] = float(np.mean(scores))
    if method == "default" and found.model is not None:
        line["p"] = float(found.model.significance_.p)
    return line


def _tables(datasets: Sequence[Table] | Mapping[str, Table]) -> tuple[list[str], list[Any]]:
    """Names and tables; paths are read."""
    if isinstance(datasets, Mapping):
        keys, tables = [str(key) for key in datasets], list(datasets.values())
    elif isinstance(datasets, Sequence) and not isinstance(datasets, str):
        tables = list(datasets)
        keys = [
            Path(t).name if isinstance(t, str | os.PathLike) else f"dataset {i}" for i, t in enumerate(tables)
        ]
    else:
        raise ValueError(f"datasets is a {type(datasets).__name__}; pass a list or dict of two or more")
    if len(tables) < 2:
        raise ValueError(f"datasets holds {len(tables)}; pass two or more")
    for i, table in enumerate(tables):
        if isinstance(table, str | os.PathLike):
            from harmonicalign.adapters import io

            tables[i] = io.read(table)
    return keys, tables


def _matched(keys: list[str], tables: list[Any]) -> tuple[list[Matrix], int]:
    """Matrices of the columns that all tables share, by name where they have names."""
    columns = [getattr(t, "var_names", getattr(t, "columns", None)) for t in tables]
    if any(c is None for c in columns):
        matrices = [getattr(t, "X", t) for t in tables]
        return matrices, int(np.shape(matrices[0])[1])
    orders = [[str(name) for name in c] for c in columns if c is not None]
    for key, order in zip(keys, orders, strict=True):
        if len(set(order)) < len(order):
            raise DataError(f"{key} has columns of the same name; make them unique")
    common = set(orders[0]).intersection(*map(set, orders[1:]))
    shared = [name for name in orders[0] if name in common]
    if len(shared) < 2:
        raise DataError(
            f"{', '.join(keys)} share {len(shared)} column(s); two are needed to compare: "
            f"the first has {', '.join(orders[0][:4])} …, the last {', '.join(orders[-1][:4])} …"
        )
    matrices = []
    for table, order in zip(tables, orders, strict=True):
        place = {name: j for j, name in enumerate(order)}
        chosen = [place[name] for name in shared]
        matrix = table.X if hasattr(table, "var_names") else table.to_numpy()
        matrices.append(matrix[:, chosen])
    return matrices, len(shared)


def _labels(
    labels: str | Sequence[Labels] | Mapping[str, Labels] | None,
    keys: list[str],
    tables: list[Any],
    matrices: list[Matrix],
) -> list[Array] | None:
    if labels is None:
        return None
    if isinstance(labels, str):
        found = []
        for key, table in zip(keys, tables, strict=True):
            obs = getattr(table, "obs", None)
            if obs is None:
                raise DataError(
                    f"{key} has no .obs to find the labels {labels!r} in; pass an array per dataset"
                )
            if labels not in obs:
                there = ", ".join(map(str, obs.columns)) or "nothing"
                raise DataError(f"{key} has no column {labels!r} in its .obs; it has {there}")
            found.append(obs[labels].to_numpy())
    else:
        found = list(labels.values()) if isinstance(labels, Mapping) else list(labels)
    if len(found) != len(keys):
        raise ValueError(f"labels holds {len(found)} arrays for {len(keys)} datasets; pass one for each")
    arrays = [np.asarray(values).astype(str) for values in found]
    for key, array, matrix in zip(keys, arrays, matrices, strict=True):
        if array.shape != (matrix.shape[0],):
            raise ValueError(f"labels of {key} have shape {array.shape}; it has {matrix.shape[0]} rows")
    return arrays


def _check_labels(keys: list[str], known: list[Array]) -> None:
    seen: dict[str, int] = {}
    for values in known:
        for label in np.unique(values):
            seen[label] = seen.get(label, 0) + 1
    if max(seen.values()) < 2:
        raise DataError(
            f"no label occurs in two of {', '.join(keys)}, so nothing can be scored; "
            "check that they are spelt alike"
        )
