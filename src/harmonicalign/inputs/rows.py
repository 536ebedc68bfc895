"""Exact search for known rows by hashing, without comparing all pairs."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Matrix
from harmonicalign.engines.threads import in_threads

__all__ = ["dense_columns", "find_rows", "same_matrix"]


_BLOCK = 1 << 16
"""Number of entries hashed at once: few enough to stay in the cache."""


def find_rows(known: Matrix, rows: Matrix, *more: tuple[Matrix, Matrix]) -> Array:
    """For every row its index among the `known` rows, or −1; equality is exact, entry by entry.

    Rows are matched by a 64-bit hash and then compared. The hash is a sum over the entries to which zeros do
    not contribute, so sparse and dense rows have the same hash. Of rows that are known several times, the one
    at the same place is taken, if there is one, and otherwise the first.

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
    random = np.random.RandomState(0)
    hashes, wanted = np.zeros(known.shape[0], dtype=np.uint64), np.zeros(rows.shape[0], dtype=np.uint64)
    for a, b in pairs:
        multipliers = random.randint(1, 2**63, a.shape[1], dtype=np.uint64) | np.uint64(1)
        hashes, wanted = hashes + _hashes(a, multipliers), wanted + _hashes(b, multipliers)
    order = np.argsort(hashes, kind="stable")
    position = np.searchsorted(hashes[order], wanted)
    candidate = order[np.minimum(position, len(order) - 1)]
    own = np.arange(min(len(hashes), len(wanted)))
    own = own[hashes[own] == wanted[own]]
    candidate[own] = own
    found = np.flatnonzero(hashes[candidate] == wanted)
    equal = np.ones(len(found), dtype=bool)
    for a, b in pairs:
        equal &= _equal_rows(a[candidate[found]], b[found])
    out[found[equal]] = candidate[found[equal]]
    return out


def same_matrix(a: Matrix, b: Matrix) -> bool:
    """Whether two matrices, dense or sparse, are equal in every entry."""
    return a is b or (a.shape == b.shape and bool(_equal_rows(a, b).all()))


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
