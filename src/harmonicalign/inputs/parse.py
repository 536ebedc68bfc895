"""Every form in which users pass datasets, converted to a list of matrices and a list of signals."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Datasets, Labels, Matrix, MatrixLike
from harmonicalign.inputs.rows import AbsentRows
from harmonicalign.inputs.validate import check_data

__all__ = ["Inputs", "column_names", "parse", "position_of"]

logger = logging.getLogger("harmonicalign")


@dataclass(frozen=True)
class Inputs:
    """Datasets in the order of the fit, and how to return results in the form of the input.

    Attributes
    ----------
    form
        "list", "dict", "stacked" (one matrix and a label per row) or "single".
    keys
        Names of the datasets: positions, dictionary keys or batch labels.
    rows
        For "stacked": the row indices of every dataset in the input.
    datasets
        Representations, one matrix per dataset; columns need not correspond.
    signals
        Corresponding columns, one matrix per dataset.
    signal_names
        Names of the signals if known.
    containers
        The datasets as given, for row labels of the output.
    columns
        For every dataset the names of its columns, if it was given as a data frame.
    """

    form: str
    keys: list[Hashable]
    rows: list[Array]
    datasets: list[Matrix]
    signals: list[Matrix]
    signal_names: list[str] | None
    containers: list[Any]
    columns: list[list[str] | None] = field(default_factory=list)

    def without_containers(self) -> Inputs:
        """The same without the objects passed by the user, which need not be kept."""
        return replace(self, containers=[None] * len(self.datasets))

    def without_data(self) -> Inputs:
        """The same without the rows, of which only what `AbsentRows` keeps is left."""
        kept = {id(rows): AbsentRows.of(rows) for rows in (*self.datasets, *self.signals)}
        datasets, signals = ([kept[id(rows)] for rows in part] for part in (self.datasets, self.signals))
        return replace(self.without_containers(), datasets=datasets, signals=signals)

    def in_order(self, i: int, x: Matrix) -> Matrix:
        """More rows of dataset i, with the columns of a data frame in the order of the fit."""
        known, given = self.columns[i] if self.columns else None, column_names(x)
        if known is None or given is None or given == known:
            return x
        if lost := [name for name in known if name not in set(given)]:
            raise ValueError(
                f"X lacks the column(s) {', '.join(lost[:5])} that dataset {self.keys[i]!r} was fitted with"
            )
        return x if len(given) > len(known) else x.iloc[:, [given.index(name) for name in known]]

    def with_dataset(
        self, key: Hashable, dataset: Matrix, signals: Matrix, names: list[str] | None = None
    ) -> Inputs:
        """The same with one more dataset; a stacked matrix cannot grow, so results become a dict."""
        return replace(
            self,
            form={"list": "list"}.get(self.form, "dict"),
            keys=[*self.keys, key],
            rows=[],
            datasets=[*self.datasets, dataset],
            signals=[*self.signals, signals],
            containers=[*self.containers, None],
            columns=[*(self.columns or [None] * len(self.keys)), names],
        )

    def restore(self, results: list[Any]) -> Any:
        """Results of the datasets in the form of the input."""
        if self.form == "single":
            return results[0]
        if self.form == "list":
            return results
        if self.form == "dict":
            return dict(zip(self.keys, results, strict=True))
        if sp.issparse(results[0]):
            stacked = sp.vstack(results, format="csr")
            return stacked[np.argsort(np.concatenate(self.rows), kind="stable")]
        out = np.empty((sum(map(len, self.rows)), *results[0].shape[1:]), dtype=results[0].dtype)
        for rows, result in zip(self.rows, results, strict=True):
            out[rows] = result
        return out


def parse(
    x: Datasets, batch: Labels | None = None, signals: Datasets | None = None, *, corresponding: bool = True
) -> Inputs:
    """Convert any accepted input to a list of datasets.

    Parameters
    ----------
    x
        A list or dict of datasets, or one matrix.
    batch
        With one matrix: the dataset of every row.
    signals
        Corresponding signals in the same form as `x`; by default the datasets themselves.
    corresponding
        Whether column j must mean the same in all signals; False if links are given.
    """
    form, keys, rows, containers = _split("X", x, batch)
    datasets = [check_data(_label(form, key), c, min_rows=3) for key, c in zip(keys, containers, strict=True)]
    if signals is None:
        signal_containers = containers
        given = False
    else:
        signal_containers = _split_like(signals, form, keys, rows, [d.shape[0] for d in datasets])
        given = True
    name = "signals" if given else "X"
    signal_names = None
    if corresponding:
        signal_containers, signal_names = _by_name(signal_containers, keys, name)
    checked = (
        [check_data(f"signals of {key!r}", s) for key, s in zip(keys, signal_containers, strict=True)]
        if given or signal_names is not None
        else datasets
    )
    widths = [s.shape[1] for s in checked]
    if corresponding and len(set(widths)) > 1:
        raise ValueError(
            f"{name} has {', '.join(map(str, widths))} columns in its {len(widths)} datasets; signals must "
            "correspond column by column: pass signals=[…] with columns that mean the same in all datasets, "
            "or data frames whose column names say so"
        )
    columns = [column_names(c) for c in containers]
    return Inputs(form, keys, rows, datasets, checked, signal_names, containers, columns)


def column_names(x: object) -> list[str] | None:
    """Names of the columns of a data frame; None for anything else."""
    return [str(c) for c in x.columns] if hasattr(x, "iloc") and hasattr(x, "columns") else None


def position_of(dataset: object, keys: Sequence[Hashable], name: str = "dataset") -> int:
    """Number of a dataset given its key or its number; `name` is the argument that names it.

    Where keys are whole numbers themselves, a number is a key and nothing else: with the keys 1 and 2, 0
    names no dataset rather than the first.
    """
    if isinstance(dataset, Hashable) and dataset in keys:
        return keys.index(dataset)
    numbered = any(isinstance(key, int | np.integer) for key in keys)
    if not numbered and isinstance(dataset, int | np.integer) and 0 <= dataset < len(keys):
        return int(dataset)
    raise ValueError(f"{name} names {dataset!r}; the datasets are {list(keys)}")


def _label(form: str, key: Hashable) -> str:
    return "X" if form == "single" else f"X[{key!r}]"


def _is_dataset_list(x: object) -> TypeGuard[Sequence[MatrixLike]]:
    """Whether a list or tuple holds datasets rather than the rows of one."""
    return isinstance(x, list | tuple) and (
        len(x) == 0
        or any(sp.issparse(d) or (hasattr(d, "shape") and len(d.shape) >= 2) for d in x)
        or _nested(x[0])
    )


def _nested(x: object) -> bool:
    return isinstance(x, list | tuple) and len(x) > 0 and isinstance(x[0], list | tuple | np.ndarray)


def _split(
    name: str, x: Datasets, batch: Labels | None
) -> tuple[str, list[Hashable], list[Array], list[Matrix]]:
    # Older scipy's DOK matrices are dicts; each is one dataset.
    if not sp.issparse(x) and (isinstance(x, Mapping) or _is_dataset_list(x)):
        if batch is not None:
            raise ValueError(
                f"batch goes with one stacked matrix, but {name} is already several datasets; drop it"
            )
        if len(x) == 0:
            raise ValueError(f"{name} holds no dataset; give at least one")
        keys = list(x) if isinstance(x, Mapping) else list(range(len(x)))
        datasets = list(x.values()) if isinstance(x, Mapping) else list(x)
        return "dict" if isinstance(x, Mapping) else "list", keys, [], datasets
    if batch is None:
        return "single", [0], [], [x]
    labels = np.asarray(batch)
    n = _row_count(x)
    if labels.ndim != 1 or len(labels) != n:
        raise ValueError(f"batch has shape {labels.shape} but {name} has {n} rows; give one label per row")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("batch contains NaN; every row needs the label of its dataset")
    try:
        names, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            "batch mixes labels that cannot be sorted, such as text with numbers or None; make them all text"
        ) from error
    rows = [np.flatnonzero(codes == i) for i in range(len(names))]
    return "stacked", names.tolist(), rows, [_take(x, r) for r in rows]


def _row_count(x: Matrix) -> int:
    """Rows of a matrix, a data frame or nested lists."""
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def _take(x: Matrix, rows: Array) -> Matrix:
    if hasattr(x, "iloc"):
        return x.iloc[rows]
    return x.tocsr()[rows] if sp.issparse(x) else np.asarray(x)[rows]


def _split_like(
    signals: Datasets, form: str, keys: list[Hashable], rows: list[Array], lengths: list[int]
) -> list[Matrix]:
    """Signals in the form of the datasets, with the same number of rows each."""
    if form == "dict":
        if not isinstance(signals, Mapping) or set(signals) != set(keys):
            raise ValueError(f"signals must be a dict with the keys of X ({keys})")
        out = [signals[key] for key in keys]
    elif form == "list":
        if not isinstance(signals, Sequence) or len(signals) != len(keys):
            raise ValueError(f"signals must be a list of {len(keys)} matrices, one for each dataset of X")
        out = list(signals)
    elif form == "single":
        out = [signals]
    else:
        out = [_take(signals, r) for r in rows] if _row_count(signals) == sum(lengths) else [signals]
    for key, s, n in zip(keys, out, lengths, strict=False):
        found = _row_count(s)
        if len(out) != len(lengths) or found != n:
            raise ValueError(f"signals of {key!r} has {found} rows where X has {n}; rows must match")
    return out


def _by_name(
    containers: list[Matrix], keys: list[Hashable], name: str
) -> tuple[list[Matrix], list[str] | None]:
    """Match data frames by column name; log or warn if this changes columns."""
    if not all(hasattr(c, "iloc") and hasattr(c, "columns") for c in containers):
        return containers, None
    columns = [[str(c) for c in frame.columns] for frame in containers]
    for key, names in zip(keys, columns, strict=True):
        if len(set(names)) < len(names):
            repeated = next(c for i, c in enumerate(names) if c in names[:i])
            raise ValueError(
                f"{name} of {key!r} has the column name {repeated!r} more than once; make names unique"
            )
    if all(names == columns[0] for names in columns):
        return containers, columns[0]
    others = [set(names) for names in columns[1:]]
    shared = [c for c in columns[0] if all(c in names for names in others)]
    if not shared:
        raise ValueError(
            f"{name}: no column name is shared by all datasets (first names: "
            + "; ".join(f"{key!r}: {', '.join(names[:3])}" for key, names in zip(keys, columns, strict=True))
            + "); rename the columns that correspond, or pass arrays whose columns correspond by position"
        )
    if all(len(names) == len(shared) for names in columns):
        logger.info("%s: columns are in different order in the datasets; matched by name", name)
    else:
        warnings.warn(
            f"{name}: {len(shared)} column names are shared by all datasets of "
            f"{', '.join(str(len(names)) for names in columns)} columns; only those are used as signals",
            UserWarning,
            stacklevel=4,
        )
    positions = [{c: i for i, c in enumerate(names)} for names in columns]
    matched = [frame.iloc[:, [p[c] for c in shared]] for frame, p in zip(containers, positions, strict=True)]
    return matched, shared
