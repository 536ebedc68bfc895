"""The choice among hypotheses: a simple one if nearly as good, otherwise the run with the highest score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from harmonicalign.engines.threads import in_threads
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.relations import column_variances
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.hypotheses import (
    FromAnchors,
    FromHarmonics,
    FromRelations,
    Hypothesis,
    Offset,
)
from harmonicalign.method.maps import Side, turn
from harmonicalign.method.modality import foretold, met_in_readings
from harmonicalign.method.problem import PairAlignment, PairProblem, justified
from harmonicalign.method.space import joint_space
from harmonicalign.method.units import rescaled_if_better

__all__ = ["align_pair", "choose", "solve", "turned_if_better"]


def align_pair(
    x: Side,
    y: Side,
    config: MethodConfig = DEFAULT,
    *,
    known: Any = None,
    own_columns: bool = True,
    n_bands: int = 8,
    first_band: int = 0,
    random_state: int = 0,
) -> PairAlignment:
    """Align two datasets, learning which features correspond; parameters as in `PairProblem`."""
    bands: dict[str, int] = {"n_bands": n_bands, "first_band": first_band}
    problem = PairProblem(
        x, y, config, known=known, own_columns=own_columns, random_state=random_state, **bands
    )
    return solve(problem)


def solve(problem: PairProblem) -> PairAlignment:
    """Run the hypotheses and choose among their runs.

    An offset is tried first, by itself and with a unit of every column. If its confidence is so high that no
    other run could be preferred, it is the only one, unless the configuration has further hypotheses.
    Otherwise runs start from the harmonics and from the relations between features. The chosen alignment is
    turned if that improves it much; where the signals are not the own columns, its anchors are found anew in
    readings.
    """
    config = problem.config
    if problem.known is not None:
        best = FromAnchors().run(problem)
    else:
        simple = [rescaled_if_better(problem, run) for run in run_all(problem, [Offset()])]
        learned: list[PairAlignment] = []
        supported = max([run.support for run in simple], default=-np.inf)
        if config.hypotheses or supported < config.enough_support:
            learned = run_all(problem, [FromHarmonics(), FromRelations(), *config.hypotheses])
        best = choose(problem, learned, simple)
        tried = [*learned, *simple, *([best] if best.start == "doubtful offset" else [])]
        best = replace(best, history=tuple(step for run in tried for step in run.history))
    return turned_if_better(problem, best) if problem.own_columns else met_in_readings(problem, best)


def choose(
    problem: PairProblem, learned: Sequence[PairAlignment], simple: Sequence[PairAlignment]
) -> PairAlignment:
    """The simplest hypothesis whose mean confidence is nearly as high as the best.

    Of the learned runs, the one with the highest score is the best. An offset is chosen instead if the mean
    confidence is nearly as high under it. If the permutation test is not significant, and either an offset is
    plausible or the columns have similar spreads in both datasets, a share of 1 − p³ is taken off the offset:
    what is chance stays as it is, and nothing changes at once where p passes the level of the test.

    Signals that are not the own columns matter by their weights (`harmonicalign.method.modality`). Of learned
    ones those are used that best foretell signals that are held out, unless equal ones are clearly better.
    """
    config = problem.config
    if not (learned or simple):
        raise ValueError(f"left_out is {config.left_out}; leave at least one hypothesis to try")
    best = max(learned or simple, key=lambda run: run.worth)
    if not problem.own_columns and learned and simple:
        told = [foretold(problem.sides, run.correspondence.weights, config) for run in (*learned, simple[0])]
        enough = max(told[:-1]) >= config.enough_support * told[-1]
        return learned[int(np.argmax(told[:-1]))] if enough else simple[0]
    plausible = [run for run in simple if run.support >= config.enough_support * best.support]
    if not simple:
        return best
    if problem.significance.by_chance and (plausible or _columns_look_alike(problem)):
        return Offset("doubtful offset", justified(problem.significance, config)).run(problem)
    return plausible[0] if plausible else best


def run_all(problem: PairProblem, hypotheses: Sequence[Hypothesis]) -> list[PairAlignment]:
    """Runs of all hypotheses that are not left out, in parallel."""
    wanted = [h for h in hypotheses if h.name not in problem.config.left_out]
    return in_threads(lambda hypothesis: hypothesis.run(problem), wanted) if wanted else []


def _columns_look_alike(problem: PairProblem) -> bool:
    """Whether the standard deviations of the columns have similar ranks in both datasets."""
    spread = [np.sqrt(column_variances(side.signals)) for side in problem.sides]
    if any(np.ptp(s) == 0 for s in spread):
        return False
    return float(stats.spearmanr(*spread).statistic) > problem.config.alike_spreads


def turned_if_better(problem: PairProblem, found: PairAlignment) -> PairAlignment:
    r"""The alignment, marked as turned if a turn of its common space raises the score enough.

    Images of two cameras, or two ranges of views of the same objects, share all pixels, and yet no offset
    brings them together. A rotation of the coordinates can. It follows from anchors Π like the maps of
    components, but there is reason to believe that none is needed, so the covariance of the dataset itself
    counts beside the anchors,

    .. math:: X^T Π Y + τ \, Y^T Y,

    and the polar factor stays near the identity unless the anchors say otherwise. Free rotations can also
    bring together what differs, such as classes that only one dataset has. So a turn is tried only if most
    rows of both datasets miss the other one, and accepted only if it raises the score of the pair by a large
    factor. Both are measured over few neighbours: more of them span several classes in a small dataset, and
    classes that lie side by side then seem to meet. Where the signals are not the columns of the datasets
    themselves, components differ anyway, and no turn is tried.
    """
    config = problem.config
    met = found.support >= config.enough_support
    if met or problem.significance.by_chance or not problem.own_columns:
        return found
    space = joint_space(problem.sides, [-1, 0], [0, 1], {1: found}, problem.random_state, config=config)
    x, y = (space.place_rigidly(i, s.components, s.signals) for i, s in enumerate(problem.sides))
    close = replace(config, confidence_neighbours=config.turn_neighbours)
    confidence = row_confidence((x, y), random_state=problem.random_state, config=close)
    if max(float(np.median(c)) for c in confidence) >= config.turn_support:
        return found
    score = problem.worth_of((x, turn(x, y, config).apply(y)), close)
    step = {"start": found.start, "step": "turn", "objective": score}
    accepted = score > config.turn_gain * problem.worth_of((x, y), close)
    return replace(found, turned=accepted, history=(*found.history, step))
