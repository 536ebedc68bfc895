"""Every form in which users pass datasets, converted to a list of matrices and a list of signals."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array, Datasets, Labels, Matrix, MatrixLike
from harmonicalign.inputs.frames import Layout, check_row_labels, is_dask, layout_of, opened, part_of
from harmonicalign.inputs.labels import batch_codes, is_missing
from harmonicalign.inputs.names import columns_like, match_by_name, refuse_unnamed
from harmonicalign.inputs.rows import AbsentRows
from harmonicalign.inputs.validate import check_data

__all__ = ["Inputs", "holds_dask", "new_key", "parse", "position_of"]


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
    layouts, signal_layouts
        How every dataset and its signals were given: names of columns in their own order, row labels.
    unshared
        No column is known to correspond: `signals` are the datasets, until known pairs make others.
    """

    __repr__ = short_repr

    form: str
    keys: list[Hashable]
    rows: list[Array]
    datasets: list[Matrix]
    signals: list[Matrix]
    signal_names: list[str] | None
    containers: list[Any]
    layouts: list[Layout] = field(default_factory=list)
    signal_layouts: list[Layout] = field(default_factory=list)
    unshared: bool = False

    def without_containers(self) -> Inputs:
        """The same without the objects passed by the user, which need not be kept."""
        return replace(
            self,
            containers=[None] * len(self.datasets),
            layouts=[layout.storable() for layout in self.layouts],
            signal_layouts=[layout.storable() for layout in self.signal_layouts],
        )

    def without_data(self) -> Inputs:
        """The same without the rows, of which only what `AbsentRows` keeps is left."""
        kept = {id(rows): AbsentRows.of(rows) for rows in (*self.datasets, *self.signals)}
        datasets, signals = ([kept[id(rows)] for rows in part] for part in (self.datasets, self.signals))
        return replace(self.without_containers(), datasets=datasets, signals=signals)

    def layout(self, i: int) -> Layout:
        """How dataset i was given."""
        return self.layouts[i] if self.layouts else Layout()

    def signal_layout(self, i: int) -> Layout:
        """How the signals of dataset i were given."""
        return self.signal_layouts[i] if self.signal_layouts else Layout()

    def more_rows(self, i: int, x: Matrix) -> Matrix:
        """More rows of dataset i as a matrix with the columns of the fit in their order."""
        names = self.layout(i).names
        return check_data("X", columns_like("X", x, names, names, f"dataset {self.keys[i]!r}", exact=True))

    def more_signals(self, i: int, x: Matrix) -> Matrix:
        """Signals of more rows of dataset i, by the same rule: by name, or in that dataset's own order."""
        whose, own = f"dataset {self.keys[i]!r}", self.signal_layout(i).names
        wanted = own if self.signal_names is None else self.signal_names
        return check_data("signals", columns_like("signals", x, own, wanted, whose))

    def new_signals(self, name: str, x: Matrix) -> Matrix:
        """Signals of a new dataset, which has no order of its own that an array could follow."""
        if any(layout.names is not None and not layout.is_numbered for layout in self.signal_layouts):
            refuse_unnamed(name, x, self.signal_names or [])
        return check_data(name, columns_like(name, x, None, self.signal_names, "the model"))

    def with_dataset(
        self, key: Hashable, dataset: Matrix, signals: Matrix, layouts: tuple[Layout, Layout]
    ) -> Inputs:
        """The same with one more dataset; a stacked matrix cannot grow, so results become a dict."""
        n = len(self.keys)
        return replace(
            self,
            form={"list": "list"}.get(self.form, "dict"),
            keys=[*self.keys, key],
            rows=[],
            datasets=[*self.datasets, dataset],
            signals=[*self.signals, signals],
            containers=[*self.containers, None],
            layouts=[*(self.layout(i) for i in range(n)), layouts[0]],
            signal_layouts=[*(self.signal_layout(i) for i in range(n)), layouts[1]],
        )

    def row_labels(self, i: int) -> Any:
        """Labels of the rows of dataset i, from its own table or from that of its signals."""
        index = self.layout(i).index
        return self.signal_layout(i).index if index is None else index

    def check_order(self, i: int, name: str, values: Any) -> None:
        """Refuse values whose row labels are those of dataset i in another order."""
        check_row_labels(name, values, self.row_labels(i), f"dataset {self.keys[i]!r}")

    def all_row_labels(self) -> Any:
        """For "stacked": labels of all rows in the order of the input; None where there are none."""
        labels = [self.row_labels(i) for i in range(len(self.keys))]
        if self.form != "stacked" or any(index is None for index in labels):
            return None
        order = np.argsort(np.concatenate(self.rows), kind="stable")
        whole = labels[0].append(labels[1:]) if hasattr(labels[0], "append") else np.concatenate(labels)
        return whole[order]

    def restore_signals(self, results: list[Matrix]) -> Any:
        """Matrices of signals in the form of the input, as tables where the signals were tables."""
        if self.form == "stacked":
            whole = self.restore(results)
            return self.signal_layout(0).table(whole, self.signal_names, self.all_row_labels())
        return self.restore(
            [
                self.signal_layout(i).table(values, self.signal_names, self.row_labels(i))
                for i, values in enumerate(results)
            ]
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
    x: Datasets,
    batch: Labels | None = None,
    signals: Datasets | str | None = None,
    *,
    corresponding: bool = True,
    paired: bool = False,
) -> Inputs:
    """Convert any accepted input to a list of datasets.

    Parameters
    ----------
    x
        A list or dict of datasets, or one matrix.
    batch
        With one matrix: the dataset of every row.
    signals
        Corresponding signals in the same form as `x`; by default the datasets themselves. "anchors": none
        are known, and they are to be learned from known pairs.
    corresponding
        Whether column j must mean the same in all signals; False if links are given.
    paired
        Whether some rows are known to match, so that datasets without a common column can be told apart from
        a mistake.
    """
    learned = isinstance(signals, str)
    if isinstance(signals, str):
        if signals != "anchors" or not paired or not corresponding:
            raise ValueError(
                f"signals is {signals!r}; expected columns that correspond, or 'anchors' with anchors=… and "
                "without links, to learn such columns from known pairs"
            )
        signals = None
    form, keys, rows, containers = _split("X", x, batch)
    layouts = [layout_of(c) for c in containers]
    datasets = [check_data(_label(form, key), c, min_rows=3) for key, c in zip(keys, containers, strict=True)]
    given = signals is not None
    shared = containers
    if signals is not None:
        shared = _split_like(signals, form, keys, rows, [d.shape[0] for d in datasets])
        if form == "stacked":
            check_row_labels("signals", signals, layout_of(x).index, "X")
        for key, s, layout in zip(keys, shared, layouts, strict=True):
            check_row_labels("signals", s, layout.index, _label(form, key))
    signal_layouts = [layout_of(s) for s in shared] if given else layouts
    name = "signals" if given else "X"
    unshared = learned or (paired and corresponding and not given and _share_no_column(layouts, datasets))
    corresponding = corresponding and not unshared
    signal_names = None
    if corresponding and any(layout.names is not None for layout in signal_layouts):
        shared, signal_names = match_by_name(shared, signal_layouts, keys, name)
    checked = (
        [check_data(f"signals of {key!r}", s) for key, s in zip(keys, shared, strict=True)]
        if given or signal_names is not None
        else datasets
    )
    widths = [s.shape[1] for s in checked]
    if corresponding and len(set(widths)) > 1:
        raise ValueError(
            f"{name} has {', '.join(map(str, widths))} columns in its {len(widths)} datasets; signals must "
            "correspond column by column: pass signals=[…] with columns that mean the same in all datasets, "
            "data frames whose column names say so, or anchors=… if some rows are known to match"
        )
    return Inputs(
        form, keys, rows, datasets, checked, signal_names, containers, layouts, signal_layouts, unshared
    )


def holds_dask(x: Any) -> bool:
    """Whether `x` is a dask array, or a list or dict with one; does not import dask."""
    members = x.values() if isinstance(x, Mapping) else x if isinstance(x, list | tuple) else [x]
    return any(map(is_dask, members))


def position_of(dataset: object, keys: Sequence[Hashable], name: str = "dataset") -> int:
    """Number of a dataset given its key or its number; `name` is the argument that names it.

    Where keys are whole numbers other than the positions, a number is a key and nothing else: with the keys 1
    and 2, 0 names no dataset rather than the first.
    """
    truth = isinstance(dataset, bool | np.bool_)
    if isinstance(dataset, Hashable):
        for i, key in enumerate(keys):
            if key == dataset and isinstance(key, bool | np.bool_) == truth:
                return i
    numbered = any(isinstance(key, int | np.integer) and key != i for i, key in enumerate(keys))
    if isinstance(dataset, int | np.integer) and not (truth or numbered) and 0 <= dataset < len(keys):
        return int(dataset)
    raise ValueError(f"{name} names {dataset!r}; the datasets are {list(keys)}")


def new_key(key: Any, keys: Sequence[Hashable]) -> Hashable:
    """Key of a new dataset, checked; by default the next number that is free."""
    if key is None:
        return next(i for i in range(len(keys), 2 * len(keys) + 1) if i not in keys)
    if not isinstance(key, Hashable) or is_missing(key):
        raise ValueError(f"key is {key!r}; name the dataset by text or a whole number")
    if key in keys:
        raise ValueError(f"key {key!r} is taken; the datasets are {list(keys)}")
    return key


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
        if not isinstance(x, Mapping):
            return "list", list(range(len(x))), [], [opened(d) for d in x]
        if any(is_missing(key) for key in x):
            raise ValueError(f"{name} has a dataset whose key is None or NaN; give every one a name")
        return "dict", list(x), [], [opened(d) for d in x.values()]
    if batch is None:
        return "single", [0], [], [opened(x)]
    x = opened(x)
    names, codes = batch_codes("batch", batch, _row_count(x), name)
    check_row_labels("batch", batch, layout_of(x).index, name)
    rows = [np.flatnonzero(codes == i) for i in range(len(names))]
    return "stacked", names, rows, [part_of(x, rows=r) for r in rows]


def _row_count(x: Matrix) -> int:
    """Rows of a matrix, a data frame or nested lists."""
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def _split_like(
    signals: Datasets, form: str, keys: list[Hashable], rows: list[Array], lengths: list[int]
) -> list[Matrix]:
    """Signals in the form of the datasets, with the same number of rows each."""
    if form == "dict":
        if not isinstance(signals, Mapping) or set(signals) != set(keys):
            raise ValueError(f"signals must be a dict with the keys of X ({keys})")
        out = [opened(signals[key]) for key in keys]
    elif form == "list":
        if not isinstance(signals, Sequence) or len(signals) != len(keys):
            raise ValueError(f"signals must be a list of {len(keys)} matrices, one for each dataset of X")
        out = [opened(s) for s in signals]
    elif form == "single":
        out = [opened(signals)]
    else:
        signals = opened(signals)
        out = [part_of(signals, rows=r) for r in rows] if _row_count(signals) == sum(lengths) else [signals]
    for key, s, n in zip(keys, out, lengths, strict=False):
        found = _row_count(s)
        if len(out) != len(lengths) or found != n:
            raise ValueError(f"signals of {key!r} has {found} rows where X has {n}; rows must match")
    return out


def _share_no_column(layouts: Sequence[Layout], datasets: Sequence[Matrix]) -> bool:
    """Whether columns cannot correspond: tables without a common name, or matrices of different widths."""
    known = [set(layout.names) for layout in layouts if layout.names is not None]
    if len(known) == len(layouts):
        return not set.intersection(*known)
    return len({d.shape[1] for d in datasets}) > 1
