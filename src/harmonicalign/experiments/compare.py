"""Comparison of methods on datasets of the user."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from harmonicalign._typing import Array, Labels, Matrix, MatrixLike, PathLike
from harmonicalign.adapters.verdict import MOST_ROWS, assess, gather, measure, sample, summarised
from harmonicalign.adapters.verdict.subject import joint_components
from harmonicalign.experiments._data import DataError
from harmonicalign.experiments._methods import OURS, Embedded, embed, names
from harmonicalign.experiments._scib import SCIB, scib_scores
from harmonicalign.experiments._tables import Row

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["METHODS", "compare", "not_installed"]

Table: TypeAlias = "MatrixLike | AnnData | PathLike"
"""One dataset: a matrix, a data frame, AnnData, or the path of a file with one of these."""

METHODS = {
    "none": "none",
    "mnn": "mnn",
    "harmony": "harmony",
    "scanorama": "scanorama",
    "scvi": "scvi",
    "magan": "magan",
    "wang": "wang",
    "paper": "paper",
    "harmonicalign": "default",
}
"""Methods by the names that users give, and what they are called among the experiments."""

_SLOW = ("magan", "wang", "scvi")
"""These run for minutes and are run where they are named."""

_SHOWN_ROWS = 3000


@dataclass(frozen=True)
class _Task:
    """What every method is given, and what the results are measured by."""

    keys: list[str]
    datasets: list[Matrix]
    signals: list[Matrix] | None
    counts: list[Matrix] | None
    labels: list[Array] | None
    n_voters: int
    seed: int

    @property
    def shown(self) -> list[Matrix]:
        """Columns that correspond."""
        return self.datasets if self.signals is None else self.signals

    @property
    def columns(self) -> int:
        return int(self.shown[0].shape[1])

    def sampled_labels(self) -> list[Array] | None:
        """Labels of the rows that are measured."""
        chosen = sample([m.shape[0] for m in self.shown], MOST_ROWS)
        return None if self.labels is None else gather(self.labels, chosen)

    @property
    def named_labels(self) -> dict[str, list[Array]]:
        return {} if self.labels is None else {"label": self.labels}


def compare(
    datasets: Sequence[Table] | Mapping[str, Table],
    labels: str | Sequence[Labels] | Mapping[str, Labels] | None = None,
    methods: Sequence[str] | None = None,
    *,
    normalize: bool | Sequence[str] = False,
    n_vars: int | str | None = None,
    n_neighbors: int = 5,
    random_state: int = 0,
    picture: PathLike | None = None,
    scib: bool = False,
) -> list[Row]:
    """Align datasets with several methods and score each.

    All methods run with their defaults on the same columns: those that the datasets share, chosen and
    normalised as `harmonicalign.scverse.align` does.

    Parameters
    ----------
    datasets
        Two or more: matrices (dense or sparse) with the same columns, or data frames, AnnData or paths of
        files that `harmonicalign.io.read` supports, whose columns are matched by name. The keys of a dict are
        the names of the datasets.
    labels
        A label per row for every dataset, in the form of `datasets`; or the name of a column of ``.obs`` that
        all have. None scores mixing only.
    methods
        Names: "none", "mnn", "harmony", "scanorama", "scvi", "magan", "wang", "paper" (the published method)
        and "harmonicalign". By default all whose packages are installed but for scVI, MAGAN and Wang &
        Mahadevan, which take minutes.
    normalize
        For datasets with names of columns: scale counts to equal totals and take ``log(1 + x)``, in all or in
        the named datasets.
    n_vars
        How many of the shared columns to use, as in `harmonicalign.scverse.align`.
    n_neighbors
        Number of neighbours that vote on a label.
    random_state
        Random seed.
    picture
        File for a picture of all embeddings side by side. Needs matplotlib.
    scib
        Add metrics of scIB, in columns that begin with ``scib_``. Needs scib-metrics.

    Returns
    -------
    table
        One dict per method: ``method``; ``label_agreement``, ``mixing`` and ``mixing_within_labels``, as
        `harmonicalign.scverse.score` and the report state them (None without labels); ``seconds``; ``p`` and
        ``verdict`` for our methods; ``columns``, the number of shared columns; and ``note``, why a
        method gave no result. Methods that are not installed stand at the end, unless `methods` is given.

    Examples
    --------
    >>> from harmonicalign.datasets import load_digits_pair
    >>> from harmonicalign.experiments import compare
    >>> pair = load_digits_pair(0.5, n_x=200, n_y=200, random_state=0)
    >>> table = compare([pair.x, pair.y], [pair.labels_x, pair.labels_y], ["none", "harmonicalign"])
    >>> table[1]["label_agreement"] > table[0]["label_agreement"]
    True
    """
    keys, tables = _tables(datasets)
    prepared = _prepared(keys, tables, normalize, n_vars)
    known = _labels(labels, keys, tables, [m.shape[0] for m in prepared[0]])
    if known is not None:
        _check_labels(keys, known)
    chosen = _chosen(methods)
    task = _Task(keys, *prepared, known, n_neighbors, random_state)
    lines, pictures = [], {}
    for method in chosen:
        line, places = _line(method, task)
        if scib:
            line |= dict.fromkeys(SCIB)
        if scib and places is not None:
            line |= scib_scores(places, task.sampled_labels())
        lines.append(line)
        if places is not None:
            pictures[method] = places
    if picture is not None:
        _draw(pictures, task, Path(picture))
    if methods is None:
        rest = [_empty(name, task, lack) for name, lack in not_installed().items()]
        lines += [line | (dict.fromkeys(SCIB) if scib else {}) for line in rest]
    return lines


def not_installed() -> dict[str, str]:
    """Methods that cannot be run here, and the command that installs each."""
    lacks = names()
    return {name: lacks[own] for name, own in METHODS.items() if lacks[own]}


def _chosen(methods: Sequence[str] | None) -> list[str]:
    if methods is None:
        return [name for name in METHODS if name not in not_installed() and name not in _SLOW]
    given = ["harmonicalign" if name == "default" else name for name in methods]
    unknown = [name for name in given if name not in METHODS]
    if unknown:
        raise ValueError(f"methods has {', '.join(map(repr, unknown))}; expected {', '.join(METHODS)}")
    return given


def _empty(method: str, task: _Task, note: str = "") -> Row:
    scores = dict.fromkeys(("label_agreement", "mixing", "mixing_within_labels", "seconds", "p", "verdict"))
    return {"method": method, **scores, "columns": task.columns, "note": note}


def _line(method: str, task: _Task) -> tuple[Row, list[Array] | None]:
    """Scores of a method, and where it puts the sampled rows."""
    line = _empty(method, task)
    chosen = sample([m.shape[0] for m in task.shown], MOST_ROWS)
    if method == "none":
        # The view before alignment that the report shows, too.
        places = [joint_components(task.shown).apply(rows) for rows in gather(task.shown, chosen)]
        return line | {"seconds": 0.0} | _scores(places, task, chosen), places
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the verdict contains what the warning would say
            found = _embedded(method, task)
    except (ValueError, ImportError) as error:
        # An error of one method must not hide the results of others; invalid data raise errors in ours.
        if METHODS[method] in OURS:
            raise
        return line | {"note": not_installed().get(method) or str(error)}, None
    places = gather(found.coordinates, chosen)
    line |= {"seconds": found.seconds} | _scores(places, task, chosen)
    if found.model is not None:
        assessment = assess(found.model, labels=task.named_labels or None, names=task.keys)
        line |= {"p": assessment.scores().get("p"), "verdict": assessment.verdict.headline}
    return line, places


def _embedded(method: str, task: _Task) -> Embedded:
    if method == "scvi":
        if task.counts is None:
            raise ValueError("scVI needs counts, which not all datasets hold")
        return embed("scvi", task.counts, seed=task.seed)
    return embed(METHODS[method], task.datasets, signals=task.signals, seed=task.seed, keys=task.keys)


def _scores(places: Sequence[Array], task: _Task, chosen: Sequence[Array]) -> Row:
    labels = {name: gather(values, chosen) for name, values in task.named_labels.items()}
    found = summarised(measure(places, labels, task.keys, n_voters=task.n_voters))
    return {name: found.get(name) for name in ("label_agreement", "mixing", "mixing_within_labels")}


def _draw(pictures: Mapping[str, list[Array]], task: _Task, path: Path) -> None:
    """All embeddings side by side: the datasets above, the labels below."""
    from harmonicalign.adapters import plot
    from harmonicalign.adapters.report.layout import neighbour_layout

    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("a picture needs matplotlib: pip install 'harmonicalign[report]'") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n_rows = 1 if task.labels is None else 2
    figure, axes = plt.subplots(
        n_rows,
        len(pictures),
        figsize=(3.6 * len(pictures) + 1.6, 3.4 * n_rows),
        squeeze=False,
        layout="constrained",
    )
    for column, (method, places) in enumerate(pictures.items()):
        fewer = sample([len(p) for p in places], _SHOWN_ROWS)
        shown = gather(places, fewer)
        sizes = [len(rows) for rows in shown]
        flat = neighbour_layout(np.vstack(shown), sizes)
        parts = np.split(flat, np.cumsum(sizes)[:-1])
        last = column == len(pictures) - 1
        plot.embedding(parts, names=task.keys, ax=axes[0, column], title=method)
        if task.labels is not None:
            labels = gather(task.sampled_labels() or [], fewer)
            plot.embedding(parts, labels=labels, names=task.keys, ax=axes[1, column])
        for ax in axes[:, column]:
            legend = ax.get_legend()
            if legend is not None and not last:
                legend.remove()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


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


def _prepared(
    keys: list[str], tables: list[Any], normalize: bool | Sequence[str], n_vars: int | str | None
) -> tuple[list[Matrix], list[Matrix] | None, list[Matrix] | None]:
    """What graphs are built on, what corresponds (None where it is the same), and the same as counts."""
    columns = [getattr(t, "var_names", getattr(t, "columns", None)) for t in tables]
    if any(c is None for c in columns):
        if normalize is not False:
            raise ValueError("normalize needs datasets with names of their columns; pass AnnData")
        return [getattr(t, "X", t) for t in tables], None, None
    _check_columns(keys, [[str(name) for name in c] for c in columns if c is not None])
    from harmonicalign.adapters.scverse._data import split
    from harmonicalign.adapters.scverse._prepare import Options, prepare

    # Copies without their data, because one AnnData may stand for two datasets.
    parts = split({key: _as_anndata(table) for key, table in zip(keys, tables, strict=True)})
    found = prepare(parts, Options.of(parts, None, None, normalize, n_vars, None))
    wanted = found.names[0]
    counts = None
    if normalize is True or (normalize is not False and set(normalize) >= set(keys)):
        counts = [part.adata[:, wanted].X for part in parts.parts]
    return list(found.datasets), found.signals, counts


def _as_anndata(table: Any) -> Any:
    import anndata
    import pandas as pd

    if hasattr(table, "var_names"):
        return table.copy() if not table.isbacked else table
    return anndata.AnnData(
        table.to_numpy(), obs=pd.DataFrame(index=table.index.astype(str)),
        var=pd.DataFrame(index=[str(c) for c in table.columns]),
    )  # fmt: skip


def _check_columns(keys: list[str], orders: list[list[str]]) -> None:
    for key, order in zip(keys, orders, strict=True):
        if len(set(order)) < len(order):
            raise DataError(f"{key} has columns of the same name; make them unique")
    shared = set(orders[0]).intersection(*orders[1:])
    if len(shared) < 2:
        raise DataError(
            f"{', '.join(keys)} share {len(shared)} column(s); two are needed to compare: "
            f"the first has {', '.join(orders[0][:4])} …, the last {', '.join(orders[-1][:4])} …"
        )


def _labels(
    labels: str | Sequence[Labels] | Mapping[str, Labels] | None,
    keys: list[str],
    tables: list[Any],
    sizes: list[int],
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
            column = obs[labels]
            found.append(np.where(column.isna(), "", column.astype(str)))
    else:
        found = [np.asarray(v) for v in (labels.values() if isinstance(labels, Mapping) else labels)]
    if len(found) != len(keys):
        raise ValueError(f"labels holds {len(found)} arrays for {len(keys)} datasets; pass one for each")
    arrays = [np.asarray(values).astype(str) for values in found]
    for key, array, size in zip(keys, arrays, sizes, strict=True):
        if array.shape != (size,):
            raise ValueError(f"labels of {key} have shape {array.shape}; it has {size} rows")
    return arrays


def _check_labels(keys: list[str], known: list[Array]) -> None:
    seen: dict[str, int] = {}
    for values in known:
        for label in np.unique(values[values != ""]):
            seen[label] = seen.get(label, 0) + 1
    if max(seen.values(), default=0) < 2:
        raise DataError(
            f"no label occurs in two of {', '.join(keys)}, so nothing can be scored; "
            "check that they are spelt alike"
        )
