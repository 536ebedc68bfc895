"""The choice among hypotheses: a simple one if nearly as good, otherwise the run with the highest score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from harmonicalign._typing import Array
from harmonicalign.engines.rows import unit_rows
from harmonicalign.engines.threads import in_threads
from harmonicalign.evidence.relations import column_variances
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.hypotheses import (
    Again,
    AsIs,
    FromAnchors,
    FromColumns,
    FromHarmonics,
    FromRelations,
    Hypothesis,
    Offset,
)
from harmonicalign.method.maps import Side
from harmonicalign.method.problem import PairAlignment, PairProblem

__all__ = ["align_pair", "choose", "restart_weights", "solve"]


def align_pair(
    x: Side,
    y: Side,
    config: MethodConfig = DEFAULT,
    *,
    known: Any = None,
    n_bands: int = 8,
    first_band: int = 0,
    random_state: int = 0,
) -> PairAlignment:
    """Align two datasets, learning which features correspond; parameters as in `PairProblem`."""
    return solve(
        PairProblem(
            x, y, config, known=known, n_bands=n_bands, first_band=first_band, random_state=random_state
        )
    )


def solve(problem: PairProblem) -> PairAlignment:
    """Run simple and learned hypotheses, and choose among their runs.

    Runs start from the harmonics, from the columns and from an offset. If no simple hypothesis is chosen and
    the learned runs found different maps, one more starts from the relations between features, and all runs
    are restarted from the learned weights while this improves the score.
    """
    if problem.known is not None:
        return FromAnchors().run(problem)
    config = problem.config
    tried = run_all(problem, [FromHarmonics(), FromColumns(), *config.hypotheses, Offset()])
    learned = [run for run in tried if run.start != "offset"]
    best = choose(problem, learned, [run for run in tried if run.start == "offset"])
    if best.start == "as is":
        tried.append(best)
    elif best.start != "offset" and config.learn_weights and not found_the_same(learned, problem):
        best, more = search_further(problem, learned, best)
        tried += more
    return replace(best, history=tuple(step for run in tried for step in run.history))


def choose(
    problem: PairProblem, learned: Sequence[PairAlignment], simple: Sequence[PairAlignment]
) -> PairAlignment:
    """The simplest hypothesis whose mean confidence is nearly as high as the best.

    Of the learned runs, the one with the highest score is the best. An offset is chosen instead if the mean
    confidence is nearly as high under it. If the permutation test is not significant, and either an offset is
    plausible or the columns have similar spreads in both datasets, the datasets are left as they are.
    """
    config = problem.config
    if not (learned or simple):
        raise ValueError(f"left_out is {config.left_out}; leave at least one hypothesis to try")
    best = max(learned or simple, key=lambda run: run.worth)
    plausible = [run for run in simple if run.support >= config.enough_support * best.support]
    if not simple:
        return best
    if problem.significance.by_chance and (plausible or _columns_look_alike(problem)):
        return AsIs().run(problem)
    return plausible[0] if plausible else best


def search_further(
    problem: PairProblem, learned: Sequence[PairAlignment], best: PairAlignment
) -> tuple[PairAlignment, list[PairAlignment]]:
    """Further runs, while they improve the score: from relations between features, then from learned weights.

    Returns
    -------
    best, tried
        The best run of all, and the further ones.
    """
    gain = problem.config.worth_more
    tried = run_all(problem, [FromRelations()])
    bases = [*learned, *tried]
    best = max([best, *(run for run in tried if run.worth > gain * best.worth)], key=lambda run: run.worth)
    for _ in range(problem.config.n_restarts):
        again = [Again(base, w) for base in bases for w in restart_weights(base, problem.config)]
        more = run_all(problem, again)
        tried += more
        candidate = max(more, key=lambda run: run.worth, default=best)
        if candidate.worth <= gain * best.worth:
            break
        best, bases = candidate, [candidate]
    return best, tried


def run_all(problem: PairProblem, hypotheses: Sequence[Hypothesis]) -> list[PairAlignment]:
    """Runs of all hypotheses that are not left out, in parallel."""
    wanted = [h for h in hypotheses if h.name not in problem.config.left_out]
    return in_threads(lambda hypothesis: hypothesis.run(problem), wanted) if wanted else []


def restart_weights(run: PairAlignment, config: MethodConfig) -> list[Array]:
    """Weights for restarts: powers of the learned weights, and 1 for the leading features only."""
    weights = run.correspondence.weights
    order = np.argsort(-weights, kind="stable")
    held = np.cumsum(weights[order])
    out = [weights**power for power in config.sharpened]
    for share in config.leading:
        n_leading = max(config.fewest_leading, 1 + int(np.searchsorted(held, share * held[-1])))
        leading = np.zeros_like(weights)
        leading[order[:n_leading]] = 1
        out.append(leading)
    return out


def found_the_same(runs: Sequence[PairAlignment], problem: PairProblem) -> bool:
    """Whether runs from different starts map the second dataset's rows in the same directions."""
    components = problem.sides[1].components
    first, *others = (unit_rows(run.maps[1].apply(components)) for run in runs)
    least = problem.config.same_cosine
    return bool(others) and all(np.sum(first * q, axis=1).mean() >= least for q in others)


def _columns_look_alike(problem: PairProblem) -> bool:
    """Whether the standard deviations of the columns have similar ranks in both datasets."""
    spread = [np.sqrt(column_variances(side.signals)) for side in problem.sides]
    if any(np.ptp(s) == 0 for s in spread):
        return False
    return float(stats.spearmanr(*spread).statistic) > problem.config.alike_spreads
