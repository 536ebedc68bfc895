"""Links between variables of two datasets, given by name or as a matrix, brought to one sparse matrix."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign.adapters.scverse._data import examples

__all__ = ["link_matrix"]

logger = logging.getLogger("harmonicalign")

Pairs = list[tuple[str, str, float]]


def link_matrix(links: Any, first: Sequence[str], second: Sequence[str]) -> sp.csr_matrix:
    """Weights between the variables of two datasets, (d_first, d_second).

    Parameters
    ----------
    links
        A matrix (dense or sparse) over all variables of the two; a data frame with names of the first
        as its index and names of the second as its columns; a table of two columns of names and,
        optionally, one of weights (a data frame or a list of tuples); or a dict from a name of the
        first to one or several names of the second; or the path of a table as a text file. Names may be
        given the other way round, and a name may have several partners: families of orthologues, or a
        protein of several genes.
    first, second
        Names of the variables.
    """
    expected = (len(first), len(second))
    if sp.issparse(links) or (isinstance(links, np.ndarray) and links.dtype.kind in "fiub"):
        if links.shape != expected:
            raise ValueError(
                f"links has shape {links.shape}; the variables of the two datasets make it {expected}: "
                "pass a table of names if it covers only some"
            )
        return sp.csr_matrix(links)
    pairs = _pairs(_read(links) if isinstance(links, str | os.PathLike) else links)
    if not pairs:
        raise ValueError("links holds no pair of names; give (name, name, weight) for variables that match")
    _check(pairs)
    forward, backward = (_matched(pairs, a, b) for a, b in ((first, second), (second, first)))
    rows, columns, weights = forward if len(forward[0]) >= len(backward[0]) else backward
    if len(backward[0]) > len(forward[0]):
        rows, columns = columns, rows
    if not len(rows):
        raise ValueError(
            f"links: none of its {len(pairs)} pairs names a variable of both datasets (links: "
            f"{examples(f'{a} – {b}' for a, b, _ in pairs)}; first dataset: {examples(first)}; "
            f"second: {examples(second)})"
        )
    if len(rows) < len(pairs):
        known = set(first) | set(second)
        lost = sorted({name for a, b, _ in pairs for name in (a, b) if name not in known})
        logger.warning(
            "links: %d of %d pairs name variables of both datasets; unknown names (%d): %s",
            len(rows),
            len(pairs),
            len(lost),
            examples(lost, 5),
        )
    matrix = sp.coo_matrix((weights, (rows, columns)), shape=expected)
    return sp.csr_matrix(matrix)


def _read(path: str | os.PathLike[str]) -> Any:
    """A table of two or three columns from a text file; the first line may name the columns."""
    import pandas as pd

    try:
        table = pd.read_csv(path, sep=None, engine="python", header=None, dtype=str, comment="#")
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise ValueError(
            f"links: {os.fspath(path)} cannot be read as a table ({error}); give a text file with two "
            "columns of names and, optionally, one of weights"
        ) from error
    if table.shape[1] not in (2, 3):
        raise ValueError(f"links: {os.fspath(path)} has {table.shape[1]} columns; expected 2 or 3")
    if table.shape[1] == 3:
        weights = pd.to_numeric(table[2], errors="coerce")
        named = bool(np.isnan(weights.iloc[0]))
        table = table.assign(**{"2": weights})[[0, 1, "2"]].iloc[int(named) :]
    return list(table.itertuples(index=False, name=None))


def _check(pairs: Pairs) -> None:
    """Refuse weights that are no weights, and pairs that are given twice."""
    for a, b, weight in pairs:
        if not (np.isfinite(weight) and weight >= 0):
            raise ValueError(
                f"links: {a} – {b} has the weight {weight:g}; weights must be finite and not negative (0 is "
                "no link). If large values of one mean small values of the other, negate that column instead"
            )
    known: set[tuple[str, str]] = set()
    for a, b, _ in pairs:
        if (a, b) in known:
            raise ValueError(f"links: {a} – {b} is given more than once; keep one line of each pair")
        known.add((a, b))


def _pairs(links: Any) -> Pairs:
    """Every form by name as (name, name, weight)."""
    if isinstance(links, Mapping):
        return [
            (str(a), str(b), 1.0)
            for a, found in links.items()
            for b in ([found] if isinstance(found, str) else found)
        ]
    if hasattr(links, "iloc"):
        text = [not _numeric(dtype) for dtype in links.dtypes]
        if len(text) in (2, 3) and text[0] and text[1]:
            return _rows(links.itertuples(index=False, name=None))
        if any(text):
            raise ValueError(
                f"links has the columns {examples(links.columns, 5)}; expected two columns of names and "
                "one of weights, or weights with names of the two datasets as its index and columns"
            )
        table = sp.coo_matrix(links.to_numpy(dtype=np.float64))
        return [
            (str(links.index[i]), str(links.columns[j]), float(w))
            for i, j, w in zip(table.row, table.col, table.data, strict=True)
        ]
    return _rows(links)


def _numeric(dtype: Any) -> bool:
    return getattr(dtype, "kind", "O") in "fiub"


def _rows(table: Any) -> Pairs:
    out = []
    for row in table:
        entry = tuple(row) if not isinstance(row, str) else (row,)
        if len(entry) not in (2, 3):
            raise ValueError(f"links holds {entry!r}; expected (name, name) or (name, name, weight)")
        out.append((str(entry[0]), str(entry[1]), float(entry[2]) if len(entry) == 3 else 1.0))
    return out


def _matched(pairs: Pairs, first: Sequence[str], second: Sequence[str]) -> tuple[list[int], ...]:
    """Numbers of the variables and weights of the pairs that both datasets know."""
    number = [{name: i for i, name in enumerate(names)} for names in (first, second)]
    found = [(number[0][a], number[1][b], w) for a, b, w in pairs if a in number[0] and b in number[1]]
    return tuple(list(column) for column in zip(*found, strict=True)) if found else ([], [], [])
