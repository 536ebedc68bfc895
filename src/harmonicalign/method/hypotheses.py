"""Hypotheses about a pair of datasets, each a small object that starts a run; and the solver that runs.

Simplest first: the columns correspond up to an offset; some columns correspond, and which ones is learned
from a start by the harmonics or by the relations between features. A new hypothesis is an object with a
`name` and a method `run(problem)`; most only define a start for the solver, `alternate`, which updates
anchors, map and weights in turn for a fixed number of rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from harmonicalign._typing import Array, Pair
from harmonicalign.engines.rows import unit_rows
from harmonicalign.method.anchors import find_anchors
from harmonicalign.method.maps import component_maps
from harmonicalign.method.problem import PairAlignment, PairProblem

__all__ = [
    "FromAnchors",
    "FromHarmonics",
    "FromRelations",
    "Hypothesis",
    "Offset",
    "Start",
    "alternate",
    "by_signals",
]


@dataclass(frozen=True)
class Start:
    """The start of a run.

    Attributes
    ----------
    name
        The hypothesis.
    joint
        Joint coordinates of both datasets, in which the first anchors are found.
    signals
        Weighted signals of both datasets for the first round, or None.
    history
        Records of earlier steps.
    """

    name: str
    joint: Pair
    signals: Pair | None = None
    history: tuple[dict[str, Any], ...] = ()


def alternate(problem: PairProblem, start: Start) -> PairAlignment:
    """Alternate from a start.

    In each round, mutual neighbours become anchors, anchors determine a map of the principal components, and
    the map gives new joint coordinates, repeatedly. Then the rotation that follows from the anchors gives new
    feature weights, a new share, and new weighted signals.

    Parameters
    ----------
    problem
        The two datasets.
    start
        The start of the run.
    """
    config, seed = problem.config, problem.random_state
    joint, signals, share = start.joint, start.signals, 1.0
    evidence: Pair | None = None
    history = list(start.history)
    for number in range(config.n_rounds):
        for _ in range(config.n_steps):
            pairing = find_anchors(*joint, config, known=problem.known)
            maps = component_maps(problem.sides, pairing, evidence, config)
            joint = problem.joint(maps, signals, share)
        centres = problem.centres(pairing)
        found = problem.judge(problem.rotation_of(pairing)[1])
        share = found.share
        worth = found.weights * found.energy
        axes = problem.axes(centres, found.weights, worth, seed)
        signals = problem.signals(axes)
        # Ignore the signals when the permutation test is not significant.
        significant = problem.significance.p <= problem.significance.chance
        evidence = signals if significant and number < config.signal_rounds else None
        maps = component_maps(problem.sides, pairing, evidence, config)
        joint = problem.joint(maps, signals, share)
        history.append({"start": start.name, "step": "round", "objective": found.agreement})
    return problem.outcome(start.name, pairing, maps, joint, centres, history=history)


class Hypothesis(Protocol):
    """Interface of a hypothesis."""

    @property
    def name(self) -> str:
        """Name of the hypothesis in results and in the configuration."""

    def run(self, problem: PairProblem) -> PairAlignment:
        """The alignment of the pair under this hypothesis."""


def by_signals(problem: PairProblem, centres: Pair, weights: Array, worth: Array) -> tuple[Pair, Pair]:
    """Joint coordinates from the weighted signals alone, and these signals."""
    axes = problem.axes(centres, weights, worth)
    signals = problem.signals(axes)
    return problem.directions(signals), signals


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
    """All columns correspond, up to one offset per column, of which a share is taken off."""

    name: str = "offset"
    share: float = 1.0

    def run(self, problem: PairProblem) -> PairAlignment:
        """Alternate between anchors on the signals and centres over the anchors."""
        config, weights = problem.config, problem.weights
        mean_x, mean_y = problem.means()
        # Both datasets are centred on one point, so that an offset stays until anchors say otherwise.
        middle = (mean_x + mean_y) / 2
        x, y, everything = middle, middle, np.ones(len(weights))
        start: int | Array = problem.random_state
        for _ in range(config.n_steps + 1):
            axes = problem.axes((x, y), everything, weights, start)
            start = axes[0].matrix  # of equal weights the axes themselves; only centres change
            joint = problem.directions(problem.signals(axes))
            pairing = find_anchors(*joint, config)
            x, y = (middle + self.share * (centre - middle) for centre in problem.centres(pairing))
        maps = component_maps(problem.sides, pairing, config=config)
        return problem.outcome(self.name, pairing, maps, joint, (x, y), trust_columns=True)
