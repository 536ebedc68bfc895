"""The choice among hypotheses: a simple one if nearly as good, otherwise the run with the highest score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from harmonicalign.engines.threads import in_threads
from harmonicalign.evidence.relations import column_variances
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.hypotheses import (
    AsIs,
    FromAnchors,
    FromHarmonics,
    FromRelations,
    Hypothesis,
    Offset,
)
from harmonicalign.method.maps import Side
from harmonicalign.method.modality import foretold, met_in_readings
from harmonicalign.method.problem import PairAlignment, PairProblem
from harmonicalign.method.turn import turned_if_better
from harmonicalign.method.units import rescaled_if_better

__all__ = ["align_pair", "choose", "solve"]


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
    turned if that improves it much.
    """
    if problem.known is not None:
        return _finished(problem, FromAnchors().run(problem))
    config = problem.config
    simple = [rescaled_if_better(problem, run) for run in run_all(problem, [Offset()])]
    learned: list[PairAlignment] = []
    if config.hypotheses or not any(run.support >= config.enough_support for run in simple):
        learned = run_all(problem, [FromHarmonics(), FromRelations(), *config.hypotheses])
    best = choose(problem, learned, simple)
    tried = [*learned, *simple, *([best] if best.start == "as is" else [])]
    best = replace(best, history=tuple(step for run in tried for step in run.history))
    return _finished(problem, best)


def _finished(problem: PairProblem, best: PairAlignment) -> PairAlignment:
    """The chosen run, turned if that is better, or with readings where signals are not the own columns."""
    return turned_if_better(problem, best) if problem.own_columns else met_in_readings(problem, best)


def choose(
    problem: PairProblem, learned: Sequence[PairAlignment], simple: Sequence[PairAlignment]
) -> PairAlignment:
    """The simplest hypothesis whose mean confidence is nearly as high as the best.

    Of the learned runs, the one with the highest score is the best. An offset is chosen instead if the mean
    confidence is nearly as high under it. If the permutation test is not significant, and either an offset is
    plausible or the columns have similar spreads in both datasets, the datasets are left as they are.

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
        return AsIs().run(problem)
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
