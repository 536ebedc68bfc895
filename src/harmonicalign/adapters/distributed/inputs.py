"""The forms in which users hand over dask arrays, brought to one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.adapters.distributed.blocks import as_blocks, matching
from harmonicalign.inputs.frames import names_of
from harmonicalign.inputs.labels import batch_codes

__all__ = ["LazyInputs", "parse_lazy"]


@dataclass(frozen=True)
class LazyInputs:
    """Datasets as dask arrays, and how to hand results back in the shape they came in.

    Attributes
    ----------
    form
        "list", "dict", "stacked" (one matrix and a label per row) or "single".
    keys
        Names of the datasets: positions, dictionary keys or batch labels.
    matrices
        One dask array per dataset; for "stacked" a single one with the rows of all.
    signals
        Corresponding columns in the same form.
    batch
        For "stacked": the number of every row's dataset.
    names
        Names of the signals, where they were data frames.
    """

    form: str
    keys: list[Any]
    matrices: list[Any]
    signals: list[Any]
    batch: Array | None
    names: list[str] | None = None

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Rows and columns of every dataset."""
        if self.batch is None:
            return [m.shape for m in self.matrices]
        return [(int(n), self.matrices[0].shape[1]) for n in np.bincount(self.batch)]

    def split(self, results: list[Any]) -> list[Any]:
        """Results by matrix as one per dataset."""
        if self.batch is None:
            return results
        return [results[0][np.flatnonzero(self.batch == i)] for i in range(len(self.keys))]

    def restore(self, results: list[Any]) -> Any:
        """Results by matrix in the form of the input."""
        if self.form == "dict":
            return dict(zip(self.keys, results, strict=True))
        return results if self.form == "list" else results[0]


def parse_lazy(x: Any, batch: Any = None, signals: Any = None, *, corresponding: bool = True) -> LazyInputs:
    """Bring lists, dicts, or one matrix with a label per row to dask arrays.

    Parameters
    ----------
    x
        A list or dict of matrices, or one; dask arrays, or what they can be made of.
    batch
        With one matrix: the dataset of every row.
    signals
        Corresponding signals in the same form; by default the datasets themselves.
    corresponding
        Whether column j must mean the same in all signals; False where links say what corresponds.
    """
    several = isinstance(x, Mapping | list | tuple)
    if several and batch is not None:
        raise ValueError("batch goes with one stacked matrix, but X is already several datasets; drop it")
    if several and not len(x):
        raise ValueError("X holds no dataset; give at least one")
    keys: list[Any] = [0]
    form, codes = "single", None
    matrices = [x]
    if isinstance(x, Mapping):
        form, keys, matrices = "dict", list(x), list(x.values())
    elif several:
        form, keys, matrices = "list", list(range(len(x))), list(x)
    elif batch is not None:
        keys, codes = batch_codes("batch", batch, int(x.shape[0]), "X")
        form = "stacked"
    blocks = [as_blocks(f"X[{i}]" if several else "X", m) for i, m in enumerate(matrices)]
    given: list[Any] = [None] * len(blocks)
    if signals is not None:
        if isinstance(signals, Mapping) != (form == "dict") or (form == "dict" and set(signals) != set(keys)):
            raise ValueError(f"signals must be in the form of X: {form}, with the datasets {keys}")
        given = [signals[key] for key in keys] if form == "dict" else list(signals) if several else [signals]
        if len(given) != len(blocks):
            raise ValueError(
                f"signals has {len(given)} matrices for {len(blocks)} datasets; give one for each"
            )
    compared = matrices if signals is None else given
    names = _one_order([names_of(m) for m in compared]) if corresponding else None
    shared = [matching(f"signals[{i}]", g, b) for i, (g, b) in enumerate(zip(given, blocks, strict=True))]
    widths = [s.shape[1] for s in shared]
    if corresponding and len(set(widths)) > 1:
        raise ValueError(
            f"signals have {', '.join(map(str, widths))} columns; they must correspond column by column: "
            "pass signals=[…] with columns that mean the same in all datasets"
        )
    return LazyInputs(form, keys, blocks, shared, codes, names)


def _one_order(columns: list[list[str] | None]) -> list[str] | None:
    """Names of the columns, which must be the same in all datasets: blocks are matched by position."""
    if any(names != columns[0] for names in columns):
        raise ValueError(
            "with Dask, columns are matched by position, but those of the datasets have different names or "
            "another order; select the same columns of each, for example y[x.columns]"
        )
    return columns[0]
