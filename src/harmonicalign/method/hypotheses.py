"""Hypotheses about a pair of datasets: each is a small object that starts a run.

Simplest first: no alignment is needed; the columns correspond up to an offset; some columns correspond, and
which ones is learned from a start by the harmonics or by the relations between features. A new hypothesis is
an object with a `name` and a method `run(problem)`; most only define a start for `alternate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from harmonicalign._typing import Array, Pair
from harmonicalign.engines.rows import unit_rows
from harmonicalign.method.alternate import Start, alternate
from harmonicalign.method.anchors import find_anchors
from harmonicalign.method.maps import component_maps
from harmonicalign.method.problem import PairAlignment, PairProblem

__all__ = [
    "AsIs",
    "FromAnchors",
    "FromHarmonics",
    "FromRelations",
    "Hypothesis",
    "Offset",
    "by_signals",
]


class Hypothesis(Protocol):
    """Interface of a hypothesis."""

    @property
    def name(self) -> str:
        """Name of the hypothesis in results and in the configuration."""

    def run(self, problem: PairProblem) -> PairAlignment:
        """The alignment of the pair under this hypothesis."""


def by_signals(
    problem: PairProblem, centres: Pair, weights: Array, worth: Array, random_state: int = 0
) -> tuple[Pair, Pair]:
    """Joint coordinates from the weighted signals alone, and these signals."""
    axes = problem.axes(centres, weights, worth, random_state)
    signals = problem.signals(axes)
    return problem.directions(signals), signals


def _middle(problem: PairProblem) -> Pair:
    """The mean of both datasets' means, for both datasets: only the common mean is subtracted."""
    mean_x, mean_y = problem.means()
    middle = (mean_x + mean_y) / 2
    return middle, middle


def _first_steps(problem: PairProblem, name: str) -> tuple[dict[str, object], ...]:
    """Records of the steps in which the first weights were learned."""
    return tuple({"start": name, "step": "weights", "objective": value} for value in problem.objective)


@dataclass(frozen=True)
class FromHarmonics:
    """Some columns correspond, found by the first rotation of the harmonics."""

    name: str = "harmonics"

    def run(self, problem: PairProblem) -> PairAlignment:
        """Start from rotated diffusion maps beside the weighted signals."""
        x, y = problem.sides
        frequencies = x.harmonics.frequencies
        ex = unit_rows(x.harmonics.phi * frequencies)
        ey = unit_rows((y.harmonics.phi @ problem.rotation.T) * frequencies)
        weights = problem.weights
        axes = problem.axes(problem.means(), weights, weights)
        sx, sy = problem.signals(axes)
        joint = np.hstack([ex, unit_rows(sx)]), np.hstack([ey, unit_rows(sy)])
        return alternate(problem, Start(self.name, joint, None, _first_steps(problem, self.name)))


@dataclass(frozen=True)
class FromRelations:
    """Columns correspond if they have the same relations to each other in both datasets."""

    name: str = "relations"

    def run(self, problem: PairProblem) -> PairAlignment:
        """Start from signals weighted by the agreement of their relations."""
        weights = problem.relations.weights()
        joint, signals = by_signals(problem, problem.means(), weights, weights)
        return alternate(problem, Start(self.name, joint, signals))


@dataclass(frozen=True)
class FromAnchors:
    """Rows known to match determine the first map."""

    name: str = "anchors"

    def run(self, problem: PairProblem) -> PairAlignment:
        """Start from the map of the known pairs."""
        maps = component_maps(problem.sides, problem.known, config=problem.config)
        steps = _first_steps(problem, self.name)
        return alternate(problem, Start(self.name, problem.joint(maps, None, 1.0), None, steps))


@dataclass(frozen=True)
class Offset:
    """All columns correspond, up to one offset per column."""

    name: str = "offset"
    moves: bool = True

    def run(self, problem: PairProblem) -> PairAlignment:
        """Alternate between anchors on the signals and centres over the anchors."""
        config, weights = problem.config, problem.weights
        centres, everything = _middle(problem), np.ones(len(weights))
        for _ in range(config.n_steps + 1 if self.moves else 1):
            joint, _ = by_signals(problem, centres, everything, weights, problem.random_state)
            pairing = find_anchors(*joint, config)
            if self.moves:
                centres = problem.centres(pairing)
        maps = component_maps(problem.sides, pairing, config=config)
        return problem.outcome(self.name, pairing, maps, joint, centres, trust_columns=True)


@dataclass(frozen=True)
class AsIs(Offset):
    """All columns correspond as they are: no alignment is needed."""

    name: str = "as is"
    moves: bool = False
