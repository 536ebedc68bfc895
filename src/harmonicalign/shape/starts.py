"""Where the search for a plan starts: flat, from one kind of distances, and from matched harmonics.

The loss has many local minima, above all for datasets that are nearly symmetric. Two datasets of one shape
have the same leading harmonics up to their order and signs, so trying all orders and signs of the first few
reaches the ways in which the shapes can be laid onto each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import numpy as np
from scipy.stats import rankdata

from harmonicalign._typing import Array
from harmonicalign.engines.distances import all_distances
from harmonicalign.shape.config import ShapeConfig
from harmonicalign.shape.geometry import Geometry
from harmonicalign.shape.transport import balanced, flat_plan, improve

__all__ = ["starting_plans"]

_WIDTH = 0.05
"""Squared distance between matched harmonics, as ranks in (0, 1], over which a weight falls by e."""


def starting_plans(x: Geometry, y: Geometry, config: ShapeConfig) -> Iterator[tuple[str, Array]]:
    """Name and plan of every start, each improved for a few rounds.

    Parameters
    ----------
    x, y
        The two datasets, on few rows.
    config
        Numbers of the method.
    """
    options = {"rate": config.start_rate, "n_balance": config.n_balance}
    flat = flat_plan(x, y)
    yield "flat", improve(x, y, flat, rounds=3 * config.start_rounds, **options)  # type: ignore[arg-type]
    for kind in range(len(x.kinds)):
        found = improve(x.alone(kind), y.alone(kind), flat, rounds=3 * config.start_rounds, **options)  # type: ignore[arg-type]
        yield f"distances {kind}", found
    for order, signs in _turns(min(x.psi.shape[1], y.psi.shape[1])):
        plan = _matched(x.psi, y.psi[:, order] * np.array(signs))
        name = "harmonics " + " ".join(
            f"{'+' if s > 0 else '-'}{k}" for k, s in zip(order, signs, strict=True)
        )
        yield name, improve(x, y, plan, rounds=config.start_rounds, **options)  # type: ignore[arg-type]


def _turns(k: int) -> Iterator[tuple[list[int], tuple[int, ...]]]:
    """Every order and every choice of signs of k harmonics."""
    for order in permutations(range(k)):
        for signs in product((1, -1), repeat=k):
            yield list(order), signs


def _matched(x: Array, y: Array) -> Array:
    """A soft plan between rows with similar harmonics; ranks, since scales differ."""
    k = min(x.shape[1], y.shape[1])
    a, b = (np.apply_along_axis(rankdata, 0, psi[:, :k]) / len(psi) for psi in (x, y))
    return balanced(np.exp(-(all_distances(a, b) ** 2) / _WIDTH).astype(np.float32), 30)
