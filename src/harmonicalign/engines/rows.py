"""Formulas over rows, written once for numpy's arrays and torch's tensors.

Everything here is a pure function of arrays of one kind, on one device: where it works in pieces, threads or
lists of neighbours, that is up to its callers. Names that numpy and torch share are taken from the namespace
of the arrays themselves (`namespace`).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.engines.protocols import Neighbours

__all__ = [
    "blend",
    "canonical_signs",
    "decayed",
    "displace",
    "gaussian_weights",
    "heaviest_first",
    "kernel_weights",
    "namespace",
    "participation",
    "positive_bandwidths",
    "smooth",
    "softened",
    "tangent_projection",
    "unit_rows",
]

Rows = Any  # an array of numpy or a tensor of torch


def namespace(x: Rows) -> Any:
    """The module whose functions take arrays of this kind: numpy or torch."""
    return np if isinstance(x, np.ndarray) else sys.modules[type(x).__module__.partition(".")[0]]


# directions


def unit_rows(x: Rows) -> Rows:
    """Rows scaled to unit length; a row of zeros stays zero."""
    xp = namespace(x)
    length = xp.linalg.norm(x, axis=1, keepdims=True)
    return x / xp.where(length > 0, length, 1.0)


def softened(x: Rows, typical: float, relative: float) -> Rows:
    r"""Rows whose length is between their direction and themselves: ``x √(1 + c²) / √(|x|² + c² L²)``.

    A row of typical length L gets length 1. Much longer rows keep only their direction and have length
    ``√(1 + c²)``; much shorter ones, of which noise is a large part, stay short.

    Parameters
    ----------
    x
        Rows.
    typical
        The typical length L.
    relative
        c; with 0 all rows get unit length.
    """
    xp = namespace(x)
    length = xp.linalg.norm(x, axis=1, keepdims=True)
    whole = xp.sqrt(length * length + (relative * typical) ** 2)
    return x * ((1 + relative**2) ** 0.5 / xp.where(whole > 0, whole, 1.0))


def blend(q: Rows, s: Rows, balance: float) -> Rows:
    """Joint coordinates ``[(1 − b) Q, b S]`` with balance b, for rows of unit length, with unit length."""
    length = np.hypot(1 - balance, balance)
    return namespace(q).concat([q * ((1 - balance) / length), s * (balance / length)], axis=1)


# neighbours


def gaussian_weights(distances: Rows, scale: Rows) -> Rows:
    """``exp(-(d/scale)²)``; where the scale is 0, rows that coincide count and others do not."""
    xp = namespace(distances)
    apart = xp.where(distances > 0, xp.inf, 0.0)
    with np.errstate(over="ignore"):
        ratio = xp.where(scale > 0, distances / xp.where(scale > 0, scale, 1.0), apart)
        return xp.exp(-(ratio**2))


def displace(z: Rows, displacement: Rows, neighbours: Neighbours) -> None:
    """Move each row, in place, by the displacement of the places nearest to it; a place itself by its own.

    Parameters
    ----------
    z
        Rows to move, (n, d); some thousands at a time stay in the cache. They are written over.
    displacement
        The displacement at each place, (m, d).
    neighbours
        The places nearest to every row; they count by the inverse of their squared distances.
    """
    xp = namespace(neighbours.distances)
    # Coordinates have some six digits; rows that are nearer to a place than that are the place.
    least = 1e-6 * neighbours.distances[:, -1:] ** 2 + 1e-30
    weights = 1 / xp.maximum(neighbours.distances**2, least)
    weights /= weights.sum(axis=1, keepdims=True)
    # One neighbour at a time: a sum over all at once would hold k times the rows.
    for j in range(neighbours.k):
        z += weights[:, j, None] * displacement[neighbours.indices[:, j]]


# planes


def tangent_projection(near: Rows, rows: Rows, dimensions: float | None = None) -> Rows:
    r"""Rows projected onto the planes that their neighbours span.

    With C a neighbourhood less its mean and μ the mean of the eigenvalues of ``G = C Cᵀ``, directions in
    which it extends by more than the average are kept and others are left out, by the smooth filter
    ``f(G) = G⁴ (G⁴ + μ⁴ I)⁻¹``.

    Parameters
    ----------
    near
        Neighbourhoods, (m, k, d). They are written over.
    rows
        The rows to project, (m, d).
    dimensions
        Number of dimensions of all rows together (`participation`). A neighbourhood that extends in n more
        of them is rather noise than a piece of a manifold: its row moves only ``dimensions / n`` of the way.
        None to move every row all the way.
    """
    xp, k = namespace(near), near.shape[1]
    mean = near.mean(axis=1, keepdims=True)
    near -= mean
    # Fourth powers need double precision.
    gram = xp.asarray(near @ near.mT, dtype=xp.float64)
    seen = xp.asarray(near @ (rows[:, None] - mean).mT, dtype=xp.float64)
    average = xp.linalg.diagonal(gram).sum(axis=1)[:, None, None] / k
    average[average == 0] = 1  # all neighbours coincide; the projection is their mean
    gram /= average
    square = gram @ gram
    identity = xp.asarray(np.eye(k), device=near.device)
    weights = xp.linalg.solve(square @ square + identity, square @ (gram @ (seen / average)))
    flat = (mean + xp.asarray(weights.mT, dtype=near.dtype) @ near)[:, 0]
    if dimensions is None:
        return flat
    # 1/n of the k rows; 1/k of it they would have in any number of dimensions.
    inverse = xp.linalg.diagonal(square).sum(axis=1) / k**2 - 1 / k
    share = xp.asarray(xp.clip(dimensions * inverse, 0, 1), dtype=near.dtype)[:, None]
    return rows + share * (flat - rows)


def participation(covariance: Array) -> float:
    """Number of dimensions in which rows extend: ``(tr C)² / tr C²``, from 1 to that of their columns."""
    return float(np.trace(covariance) ** 2 / max(np.sum(covariance**2), np.finfo(float).tiny))


# smoothing


def smooth(rows: Rows, known: Rows, neighbours: Neighbours, share: float) -> Rows:
    """Rows moved by a share of the way to the weighted mean of themselves and of their neighbours.

    Parameters
    ----------
    rows
        Rows, (m, d).
    known
        Rows in which neighbours are numbered, (n, d).
    neighbours
        Nearest known rows of every row, without the row itself; they count by a Gaussian as wide as the
        farthest is away.
    share
        How far rows move, from 0 (not at all) to 1.
    """
    weights = gaussian_weights(neighbours.distances, neighbours.distances[:, -1:])
    weights = namespace(rows).asarray(
        weights * (share / (1 + weights.sum(axis=1)))[:, None], dtype=rows.dtype
    )
    out = rows * (1 - weights.sum(axis=1))[:, None]
    # One neighbour at a time: a sum over all at once would hold k times the rows.
    for j in range(neighbours.k):
        out += weights[:, j, None] * known[neighbours.indices[:, j]]
    return out


# kernels


def decayed(distances: Rows, bandwidth: Rows, decay: float) -> Rows:
    """``exp(-(d/ε)^a)``; a ratio too large for floating point is a weight of 0, as it should be."""
    xp = namespace(distances)
    with np.errstate(over="ignore", under="ignore"):
        ratio = distances / bandwidth
        # Squaring is several times faster than the general power.
        xp.multiply(ratio, ratio, out=ratio) if decay == 2 else xp.pow(ratio, decay, out=ratio)
        xp.negative(ratio, out=ratio)
        return xp.exp(ratio, out=ratio)


def kernel_weights(distances: Rows, own: Rows, theirs: Rows, decay: float) -> Rows:
    """``½ (exp(-(d/ε_i)^a) + exp(-(d/ε_j)^a))`` for pairs of rows with bandwidths ε_i and ε_j."""
    weights = decayed(distances, own, decay)
    weights += decayed(distances, theirs, decay)
    weights *= 0.5
    return weights


def positive_bandwidths(near: Rows) -> Rows:
    """Largest distance in each row of `near`; for a row of only zeros, a typical small distance.

    A row with k exact copies has its k-th neighbour at distance 0. It needs some bandwidth, and
    the smallest that any other row has connects it to its copies only.
    """
    xp = namespace(near)
    eps = xp.amax(near, axis=1)
    positive = eps > 0
    if not positive.all():
        eps = xp.where(positive, eps, eps[positive].min() if positive.any() else 1.0)
    return eps


# what is settled once


def canonical_signs(psi: Rows) -> Rows:
    """Flip each column so that its entry of largest magnitude is positive."""
    if 0 in psi.shape:
        return psi
    xp = namespace(psi)
    largest = psi[xp.argmax(xp.abs(psi), axis=0), xp.arange(psi.shape[1])]
    return psi * xp.where(largest < 0, -1.0, 1.0)


def heaviest_first(labels: Array, mass: Array) -> Array:
    """Numbers of groups of rows, on the host, so that the rows of group 0 have the most mass together."""
    order = np.argsort(-np.bincount(labels, weights=mass), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return np.asarray(rank[labels])
