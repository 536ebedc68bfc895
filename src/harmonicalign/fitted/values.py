"""Values over the rows of all datasets, in any form in which users hold them, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Datasets, Matrix
from harmonicalign.inputs.frames import Layout, layout_of
from harmonicalign.inputs.parse import Inputs
from harmonicalign.inputs.validate import check_data
from harmonicalign.uses.smooth import Denoised

__all__ = ["OverAllRows", "over_all_rows", "over_rows_of"]


@dataclass(frozen=True)
class OverAllRows:
    """Columns over the rows of all datasets, one dataset after another.

    Attributes
    ----------
    matrix
        The columns.
    restore
        Brings rows in that order into the form that was given.
    """

    matrix: Matrix
    restore: Callable[[Array], Any]

    def restored(self, found: Denoised) -> Denoised:
        """Smoothed values in the form that was given."""
        return replace(found, values=self.restore(found.values))


def over_all_rows(values: Datasets | None, inputs: Inputs, sizes: Sequence[int]) -> OverAllRows:
    """Values of every dataset as one matrix.

    Parameters
    ----------
    values
        A list or dict with a matrix for each dataset; one matrix over the rows of all; None for the signals
        of the fit.
    inputs
        What was fitted.
    sizes
        Rows of every dataset.
    """
    ends = np.cumsum(sizes)[:-1]
    if values is None:
        if len({s.shape[1] for s in inputs.signals}) > 1:
            raise ValueError("the datasets have different signals; pass values, or the dataset to smooth")
        return OverAllRows(
            _stack(inputs.signals), lambda found: inputs.restore_signals(np.split(found, ends))
        )
    if isinstance(values, Mapping) and not sp.issparse(values):  # scipy's matrices of keys are mappings
        if set(values) != set(inputs.keys):
            raise ValueError(f"values has the datasets {list(values)}; the model has {inputs.keys}")
        parts = _checked([values[key] for key in inputs.keys], inputs, sizes)
        laid = [layout_of(values[key]) for key in inputs.keys]
        return OverAllRows(
            _stack(parts),
            lambda found: dict(zip(inputs.keys, _tables(laid, np.split(found, ends)), strict=True)),
        )
    if isinstance(values, list | tuple) and all(getattr(v, "ndim", 1) == 2 for v in values):
        if len(values) != len(sizes):
            raise ValueError(f"values has {len(values)} matrices but the model {len(sizes)} datasets")
        laid = list(map(layout_of, values))
        return OverAllRows(
            _stack(_checked(values, inputs, sizes)), lambda found: _tables(laid, np.split(found, ends))
        )
    matrix = check_data("values", values)
    if matrix.shape[0] != sum(sizes):
        order = "the rows of the fit" if inputs.form == "stacked" else "all datasets, in the order of keys_"
        raise ValueError(f"values has {matrix.shape[0]} rows; expected the {sum(sizes)} rows of {order}")
    layout = layout_of(values)
    if inputs.form == "stacked":
        parts = [matrix[rows] for rows in inputs.rows]
        return OverAllRows(
            _stack(parts),
            lambda found: layout.table(inputs.restore(np.split(found, ends)), index=layout.index),
        )
    return OverAllRows(matrix, lambda found: layout.table(found, index=layout.index))


def over_rows_of(i: int, values: Datasets | None, inputs: Inputs) -> Matrix:
    """Columns over the rows of dataset i, by default its signals."""
    matrix = check_data("values", inputs.signals[i] if values is None else values)
    if values is not None:
        inputs.check_order(i, "values", values)
    n = inputs.datasets[i].shape[0]
    if matrix.shape[0] != n:
        raise ValueError(
            f"values has {matrix.shape[0]} rows; expected the {n} rows of dataset {inputs.keys[i]!r}"
        )
    return matrix


def _tables(layouts: Sequence[Layout], results: Sequence[Array]) -> list[Any]:
    """Results as the tables that were given, with their row labels."""
    return [layout.table(z, index=layout.index) for layout, z in zip(layouts, results, strict=True)]


def _checked(parts: Sequence[Any], inputs: Inputs, sizes: Sequence[int]) -> list[Matrix]:
    """Matrices with the rows of the datasets and one width."""
    checked = [check_data(f"values of {key!r}", v) for key, v in zip(inputs.keys, parts, strict=True)]
    for key, matrix, n in zip(inputs.keys, checked, sizes, strict=True):
        if (found := matrix.shape[0]) != n:
            raise ValueError(f"values of {key!r} has {found} rows; expected the {n} of that dataset")
    if len({matrix.shape[1] for matrix in checked}) > 1:
        widths = [matrix.shape[1] for matrix in checked]
        raise ValueError(f"values have {widths} columns; pass the same columns for every dataset")
    return checked


def _stack(parts: Sequence[Matrix]) -> Matrix:
    return sp.vstack(parts, format="csr") if any(map(sp.issparse, parts)) else np.vstack(list(parts))
