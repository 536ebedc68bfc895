r"""A turn of the common space: where columns correspond, but datasets do not meet under them.

Images of two cameras, or two ranges of views of the same objects, share all pixels, and yet no offset brings
them together. A rotation of the coordinates can. It follows from anchors Π like the maps of components, but
there is reason to believe that none is needed, so the covariance of the dataset itself counts beside the
anchors,

.. math:: X^T Π Y + τ \, Y^T Y,

and the polar factor stays near the identity unless the anchors say otherwise. Free rotations can also bring
together what differs, such as classes that only one dataset has. So a turn is tried only if most rows of both
datasets miss the other one, and accepted only if it raises the score of the pair by a large factor. Where the
signals are not the columns of the datasets themselves, components differ anyway, and no turn is tried.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.method.maps import turn
from harmonicalign.method.problem import PairAlignment, PairProblem
from harmonicalign.method.space import joint_space

__all__ = ["turned_if_better"]


def turned_if_better(problem: PairProblem, found: PairAlignment) -> PairAlignment:
    """The alignment, marked as turned if a turn of its common space raises the score enough."""
    config = problem.config
    met = found.support >= config.enough_support
    if met or problem.significance.by_chance or not problem.own_columns:
        return found
    space = joint_space(
        problem.sides, [-1, 0], [0, 1], {1: found}, problem.random_state, config=config, shifted=False
    )
    x, y = (space.place_rigidly(i, s.components, s.signals) for i, s in enumerate(problem.sides))
    confidence = row_confidence((x, y), random_state=problem.random_state, config=config)
    if max(float(np.median(c)) for c in confidence) >= config.turn_support:
        return found
    score = problem.worth_of((x, turn(x, y, config).apply(y)))
    step = {"start": found.start, "step": "turn", "objective": score}
    accepted = score > config.turn_gain * problem.worth_of((x, y))
    return replace(found, turned=accepted, history=(*found.history, step))
