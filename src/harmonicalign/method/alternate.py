"""The solver of a pair: anchors, map and weights improve each other for a few rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harmonicalign._typing import Pair
from harmonicalign.method.anchors import find_anchors
from harmonicalign.method.maps import component_maps, weighted_axes
from harmonicalign.method.problem import PairAlignment, PairProblem

__all__ = ["Start", "alternate"]


@dataclass(frozen=True)
class Start:
    """Where a run begins.

    Attributes
    ----------
    name
        The hypothesis.
    joint
        Joint coordinates of both datasets, in which the first anchors are found.
    signals
        Weighted signals of both datasets that the first round goes on with; None for none.
    history
        Records of what led here.
    """

    name: str
    joint: Pair
    signals: Pair | None = None
    history: tuple[dict[str, Any], ...] = ()


def alternate(problem: PairProblem, start: Start) -> PairAlignment:
    """Rounds from a start.

    In each round, mutual neighbours become anchors, anchors determine a map of the principal components, and
    the map gives new joint coordinates, a few times over. Then the rotation that follows from the anchors
    gives new weights of the features, a new share, and new weighted signals.

    Parameters
    ----------
    problem
        The two datasets.
    start
        Where to begin.
    """
    config, seed = problem.config, problem.random_state
    joint, signals, share = start.joint, start.signals, 1.0
    evidence: Pair | None = None
    history = list(start.history)
    for _ in range(config.n_rounds):
        for _ in range(config.n_steps):
            pairing = find_anchors(*joint, config, known=problem.known)
            maps = component_maps(problem.sides, pairing, evidence, config)
            joint = problem.joint(maps, signals, share)
        centres = problem.centres(pairing)
        found = problem.judge(problem.rotation_of(pairing)[1])
        share = found.share
        worth = found.weights * found.energy
        axes = weighted_axes(problem.sides, centres, found.weights, worth, seed, config)
        signals = problem.signals(axes)
        # Ignore the signals when the permutation test is not significant.
        significant = problem.significance.p <= problem.significance.chance
        evidence = signals if significant and config.signals_shape_map else None
        maps = component_maps(problem.sides, pairing, evidence, config)
        joint = problem.joint(maps, signals, share)
        history.append({"start": start.name, "step": "round", "objective": found.agreement})
    return problem.outcome(start.name, pairing, maps, joint, centres, history=history)
