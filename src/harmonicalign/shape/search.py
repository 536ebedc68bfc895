"""From two geometries to solutions that differ from each other, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from harmonicalign._progress import Progress
from harmonicalign._typing import Array
from harmonicalign.engines.distances import all_distances
from harmonicalign.shape.config import ShapeConfig
from harmonicalign.shape.geometry import Geometry
from harmonicalign.shape.starts import starting_plans
from harmonicalign.shape.transport import balanced, improve, relative_loss

__all__ = ["Solution", "difference", "search", "search_plan"]


@dataclass(frozen=True)
class Solution:
    """One way to lay a dataset onto another.

    Attributes
    ----------
    plan
        How much of each landmark of the first lies on each of the second, (n_x, n_y); all mass is 1.
    loss
        Relative loss: 0 is the same shape, 1 is nothing in common.
    start
        What the search started from.
    differs
        How far it is from the best solution: mean distance between the two images of a row, as a share of
        rows that are nearer; 0 is the same solution, 0.5 an independent one.
    """

    plan: Array
    loss: float
    start: str
    differs: float = 0.0


def search(
    x: Geometry, y: Geometry, config: ShapeConfig, rng: np.random.Generator, progress: Progress
) -> list[Solution]:
    """Solutions no two of which are the same, best first.

    All starts are tried on few rows; the best solutions that differ are then improved on all landmarks.

    Parameters
    ----------
    x, y
        The two datasets.
    config
        Numbers of the method.
    rng
        Draws the few rows.
    progress
        Told of each stage.
    """
    sizes = x.n_rows, y.n_rows
    found: list[Solution] = []
    for draw in range(_draws(sizes, config)):
        with progress.stage(f"starts on {config.n_coarse} rows, draw {draw + 1}"):
            rows = [_some(g.n_rows, config.n_coarse, rng) for g in (x, y)]
            found += _coarse(x, y, rows, config)
    finalists = _apart(x, y, sorted(found, key=lambda s: s.loss), config.same, config.n_kept)
    progress.expect(search_plan(sizes, config, len(finalists)))
    done = []
    for i, one in enumerate(finalists):
        with progress.stage(f"solution {i + 1} of {len(finalists)}"):
            plan = improve(
                x, y, _softened(one.plan), rate=config.rate, rounds=config.rounds, n_balance=config.n_balance
            )
            done.append(Solution(plan, relative_loss(x, y, plan), one.start))
    # Solutions that differed on few rows may have become one.
    done = _apart(x, y, sorted(done, key=lambda s: s.loss), config.same, config.n_kept)
    best = done[0].plan
    return [replace(s, differs=difference(x, y, s.plan, best)) for s in done]


def search_plan(
    sizes: tuple[int, int], config: ShapeConfig, n_solutions: int | None = None
) -> list[tuple[str, float]]:
    """Stages of a fit in their order, each with about the seconds that it takes on a quiet machine.

    Parameters
    ----------
    sizes
        Landmarks of both datasets.
    config
        Numbers of the method.
    n_solutions
        Solutions that are carried on, if known.
    """
    coarse = min(1.0, sizes[0] * sizes[1] / config.n_coarse**2)
    n_solutions = config.n_kept if n_solutions is None else n_solutions
    return [
        *[(f"shape of dataset {i}", 0.1 + 4.5 * (n / 2000) ** 2) for i, n in enumerate(sizes)],
        *[("starts", 5 * coarse)] * _draws(sizes, config),
        *[("solution", 0.1 + 9 * sizes[0] * sizes[1] / 2000**2)] * n_solutions,
    ]


def _draws(sizes: tuple[int, int], config: ShapeConfig) -> int:
    """Random choices of few rows; one where all are few."""
    return 1 if max(sizes) <= config.n_coarse else config.n_draws


def difference(x: Geometry, y: Geometry, one: Array, other: Array) -> float:
    """Mean distance between the images of a row under two plans, as a share of pairs of rows; both ways."""
    of_x = y.closeness[one.argmax(axis=1), other.argmax(axis=1)].mean()
    of_y = x.closeness[one.argmax(axis=0), other.argmax(axis=0)].mean()
    return float(of_x + of_y) / 2


def _coarse(x: Geometry, y: Geometry, rows: Sequence[Array], config: ShapeConfig) -> list[Solution]:
    """Different solutions on some rows, carried over to all landmarks."""
    few = x.rows(rows[0]), y.rows(rows[1])
    tried = [Solution(plan, relative_loss(*few, plan), name) for name, plan in starting_plans(*few, config)]
    tried.sort(key=lambda s: s.loss)
    out = []
    for one in _apart(*few, tried, config.same, 2 * config.n_kept):
        plan = improve(
            *few, _softened(one.plan), rate=config.rate, rounds=config.rounds, n_balance=config.n_balance
        )
        loss = relative_loss(*few, plan)
        out.append(Solution(_carried(plan, x, y, rows), loss, one.start))
    return out


def _apart(
    x: Geometry, y: Geometry, solutions: Sequence[Solution], least: float, most: int
) -> list[Solution]:
    """The first of every group of solutions that are nearly the same, at most so many."""
    out: list[Solution] = []
    for one in solutions:
        if len(out) < most and all(difference(x, y, one.plan, kept.plan) >= least for kept in out):
            out.append(one)
    return out


def _carried(plan: Array, x: Geometry, y: Geometry, rows: Sequence[Array]) -> Array:
    """A plan between some rows as one between all landmarks, each of which follows the nearest of them."""
    if plan.shape == (x.n_rows, y.n_rows):
        back = [np.argsort(r) for r in rows]
        return plan[np.ix_(*back)]
    nearest = [
        all_distances(g.coordinates, g.coordinates[r]).argmin(axis=1)
        for g, r in zip((x, y), rows, strict=True)
    ]
    return balanced(plan[np.ix_(*nearest)] * plan.size, 30)


def _softened(plan: Array) -> Array:
    """A tenth of a plan spread evenly, so that rows can still move."""
    return 0.9 * plan + np.float32(0.1 / plan.size)


def _some(n: int, most: int, rng: np.random.Generator) -> Array:
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
