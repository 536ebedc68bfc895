"""Exact search for known rows by hashing, without comparing all pairs; and rows that are not at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Matrix
from harmonicalign.engines.threads import in_threads

__all__ = ["AbsentRows", "at_hand", "dense_columns", "find_rows", "same_columns", "same_matrix"]


_BLOCK = 1 << 16
"""Number of entries hashed at once: few enough to stay in the cache."""


@dataclass(frozen=True, eq=False)
class AbsentRows:
    """Rows that a model was fitted on and does not hold any more; whatever needs them raises an error.

    Attributes
    ----------
    shape
        Their number, and that of the columns.
    means
        Means of the columns.
    hashes
        A hash of every row, by which it is recognised.
    """

    shape: tuple[int, int]
    means: Array
    hashes: Array

    @classmethod
    def of(cls, rows: Matrix) -> Self:
        """What is to be kept of rows."""
        means = np.asarray(rows.mean(axis=0)).ravel()
        return cls(
            (int(rows.shape[0]), int(rows.shape[1])), means, _hashes(rows, _multipliers(rows.shape[1]))
        )

    def mean(self, axis: int) -> Array:
        """Means of the columns (axis 0)."""
        return self.means if axis == 0 else self._refuse()

    def __getitem__(self, rows: object) -> NoReturn:
        self._refuse()

    def __len__(self) -> NoReturn:
        self._refuse()

    def __array__(self, *_: object, **__: object) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(
            "this needs the data that the model was fitted on, and the model was saved without them; "
            "save it with_data=True, or fit again"
        )


def at_hand(rows: Matrix | AbsentRows) -> Matrix:
    """The rows themselves; an error that says the fix if they are not kept."""
    return rows[:] if isinstance(rows, AbsentRows) else rows


def find_rows(known: Matrix | AbsentRows, rows: Matrix, *more: tuple[Matrix | AbsentRows, Matrix]) -> Array:
    """For every row its index among the `known` rows, or −1; equality is exact, entry by entry.

    Rows are matched by a 64-bit hash and then compared, unless they are not at hand. The hash is a sum over
    the entries to which zeros do not contribute, so sparse and dense rows have the same hash. Of rows known
    several times, the one at the same place is taken, if there is one, and otherwise the first.

    Parameters
    ----------
    known, rows
        Known rows; rows to find.
    *more
        Further columns of both, which must be equal too.
    """
    pairs = [(known, rows), *more]
    out = np.full(rows.shape[0], -1)
    if any(a.shape[1] != b.shape[1] for a, b in pairs):
        return out
    hashes, wanted = np.zeros(known.shape[0], dtype=np.uint64), np.zeros(rows.shape[0], dtype=np.uint64)
    for a, b in pairs:
        multipliers = _multipliers(a.shape[1])
        known_hashes = a.hashes if isinstance(a, AbsentRows) else _hashes(a, multipliers)
        hashes = hashes * np.uint64(31) + known_hashes
        wanted = wanted * np.uint64(31) + _hashes(b, multipliers)
    order = np.argsort(hashes, kind="stable")
    position = np.searchsorted(hashes[order], wanted)
    candidate = order[np.minimum(position, len(order) - 1)]
    own = np.arange(min(len(hashes), len(wanted)))
    own = own[hashes[own] == wanted[own]]
    candidate[own] = own
    found = np.flatnonzero(hashes[candidate] == wanted)
    equal = np.ones(len(found), dtype=bool)
    for a, b in pairs:
        if not isinstance(a, AbsentRows):
            equal &= _equal_rows(a[candidate[found]], b[found])
    out[found[equal]] = candidate[found[equal]]
    return out


def same_matrix(a: Matrix, b: Matrix) -> bool:
    """Whether two matrices, dense or sparse, are equal in every entry."""
    return a is b or (a.shape == b.shape and bool(_equal_rows(a, b).all()))


def same_columns(a: Matrix, b: Matrix) -> bool:
    """Whether two matrices have the same columns, in any order; other orders are compared by hash."""
    if a.shape != b.shape:
        return False
    return same_matrix(a, b) or bool((_column_hashes(a) == _column_hashes(b)).all())


def _column_hashes(x: Matrix) -> Array:
    """Hashes of the columns, sorted."""
    if sp.issparse(x):
        return np.sort(_hashes(x.T, _multipliers(x.shape[0])))
    multipliers, out = _multipliers(x.shape[0])[:, None], np.zeros(x.shape[1], dtype=np.uint64)
    step = max(1, _BLOCK // x.shape[1])
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        out += (_bits(x[rows]) * multipliers[rows]).sum(axis=0, dtype=np.uint64)
    return np.sort(out)


def _multipliers(columns: int) -> Array:
    """Odd random numbers, one for each column."""
    return np.random.RandomState(0).randint(1, 2**63, columns, dtype=np.uint64) | np.uint64(1)


def _hashes(x: Matrix, multipliers: Array) -> Array:
    if sp.issparse(x):
        csr = x.tocsr()
        terms = _bits(csr.data) * multipliers[csr.indices]
        sums = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
        return np.asarray(sums[csr.indptr[1:]] - sums[csr.indptr[:-1]])
    out = np.empty(len(x), dtype=np.uint64)

    def add_up(rows: slice) -> None:
        out[rows] = (_bits(x[rows]) * multipliers).sum(axis=1, dtype=np.uint64)

    step = max(1, _BLOCK // x.shape[1])
    in_threads(add_up, [slice(start, start + step) for start in range(0, len(x), step)])
    return out


def _bits(values: Array) -> Array:
    # Adding 0.0 turns −0 into 0, so that equal numbers have equal bits.
    bits = np.ascontiguousarray(values.astype(np.float64) + 0.0).view(np.uint64)
    # Integers differ only in their highest bits, which the product would lose: mix the bits. 0 stays 0.
    bits ^= bits >> np.uint64(32)
    bits *= np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(29)
    return bits


def _equal_rows(a: Matrix, b: Matrix) -> Array:
    """Which rows of two matrices of the same shape are equal in every entry."""
    if sp.issparse(a) or sp.issparse(b):
        return np.asarray(np.asarray((sp.csr_matrix(a) != sp.csr_matrix(b)).sum(axis=1)).ravel() == 0)
    return np.asarray((a == b).all(axis=1))


def dense_columns(signals: Matrix, chosen: Array) -> Array:
    """Some columns of the signals as a dense array."""
    part = signals if len(chosen) == signals.shape[1] else signals[:, chosen]
    return np.asarray(part.toarray() if sp.issparse(part) else part, dtype=np.float64)
