"""The solver of a pair: anchors, map and weights are updated in turn for a fixed number of rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harmonicalign._typing import Pair
from harmonicalign.method.anchors import find_anchors
from harmonicalign.method.maps import component_maps
from harmonicalign.method.problem import PairAlignment, PairProblem

__all__ = ["Start", "alternate"]


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
