r"""Units of the columns: where columns correspond, but each is measured on a scale of its own.

Two instruments can differ in the gain of every channel, and values that pass a concave function, or lose some
of their entries, shrink by different factors. An offset does not account for that. With :math:`\bar y` the
mean of the partners of a row among the anchors, and :math:`\bar x` likewise, the factor of a column follows
from the slopes of both regressions,

.. math:: g = \left( \frac{b_{x|\bar y}}{b_{y|\bar x}} \right)^{r^2 / 2},
          \qquad r^2 = \mathrm{cor}(x, \bar y) \, \mathrm{cor}(y, \bar x),

so that noise, which lowers both slopes, cancels, and a column on which partners do not agree keeps its unit.
The simpler hypothesis of an offset stays unless these factors raise the score of the pair.

Signals that links join are different things, such as genes of two species, and have no unit in common that
could be found: each is divided by its own spread instead, so that none counts for more because it is large.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.evidence.relations import column_variances
from harmonicalign.inputs.rows import dense_columns
from harmonicalign.method.anchors import find_anchors, masses
from harmonicalign.method.config import MethodConfig
from harmonicalign.method.maps import Side, component_maps
from harmonicalign.method.problem import PairAlignment, PairProblem

__all__ = ["by_spread", "multiplied", "rescaled_if_better", "spread_factors", "unit_factors"]

_COLUMNS = 1000
"""Signals that are compared at once; it bounds memory where there are many."""


def spread_factors(signals: Any, config: MethodConfig) -> Array:
    """Factors that bring every signal to a spread of 1, or less where it hardly varies.

    Parameters
    ----------
    signals
        Signals of one dataset.
    config
        The least spread by which a signal is divided, in medians of those that vary at all.
    """
    spread = np.sqrt(column_variances(signals))
    varies = spread > 0
    if not varies.any():
        return np.ones(len(spread))
    return np.asarray(1 / np.maximum(spread, config.linked_spread * float(np.median(spread[varies]))))


def by_spread(side: Side, factors: Array) -> Side:
    """The dataset with its signals multiplied by factors."""
    return replace(side, signals=multiplied(side.signals, factors))


def multiplied(signals: Any, factors: Array) -> Any:
    """Columns multiplied by factors."""
    return signals.multiply(factors).tocsr() if sp.issparse(signals) else signals * factors


def rescaled_if_better(problem: PairProblem, found: PairAlignment) -> PairAlignment:
    """The alignment by an offset, or one by an offset and a unit of every column if its score is higher.

    Parameters
    ----------
    problem
        The two datasets.
    found
        Their alignment by an offset.
    """
    config = problem.config
    # With few columns there is no test by which other units could be recognised.
    if not (problem.own_columns and problem.significance.tested) or "units" in config.left_out:
        return found
    pairing, same = found.pairing, np.ones(len(problem.weights))
    for step in range(config.n_steps):
        centres, factors = problem.centres(pairing), unit_factors(problem.sides, pairing, config)
        axes = problem.axes(centres, same, problem.weights, problem.random_state, (same, factors))
        joint = problem.directions(problem.signals(axes))
        pairing = find_anchors(*joint, config)
        # Of 44 pairs none whose score was not raised enough by the first step was raised enough by the last.
        if step in (0, config.n_steps - 1):
            maps = component_maps(problem.sides, pairing, config=config)
            new = problem.outcome(
                "units", pairing, maps, joint, centres, trust_columns=True, history=found.history
            )
            if new.worth <= config.units_gain * found.worth:
                return replace(found, history=new.history)
    return replace(new, factors=factors)


def unit_factors(sides: tuple[Side, Side], pairing: sp.csr_matrix, config: MethodConfig) -> Array:
    """Factor of every signal of the second dataset that brings it to the unit of the first.

    Parameters
    ----------
    sides
        The two datasets.
    pairing
        Anchors Π between their rows.
    config
        The maximum factor.
    """
    x, y = (side.signals for side in sides)
    columns = np.arange(x.shape[1])
    blocks = np.split(columns, range(_COLUMNS, len(columns), _COLUMNS))
    logarithms = [_log_factors(dense_columns(x, c), dense_columns(y, c), pairing) for c in blocks]
    most = np.log(config.most_gain)
    return np.asarray(np.exp(np.clip(np.concatenate(logarithms), -most, most)))


def _log_factors(x: Array, y: Array, pairing: sp.csr_matrix) -> Array:
    """Logarithms of the factors of some columns, not yet bounded."""
    mass_x, mass_y = masses(pairing)
    x, y = x - mass_x @ x, y - mass_y @ y
    tiny = np.finfo(float).tiny
    partners_of_x = (pairing @ y) / np.maximum(pairing.sum(axis=1).A1, tiny)[:, None]
    partners_of_y = (pairing.T @ x) / np.maximum(pairing.sum(axis=0).A1, tiny)[:, None]
    slope_x, correlation_x = _regression(x, partners_of_x, mass_x)
    slope_y, correlation_y = _regression(y, partners_of_y, mass_y)
    agree = (slope_x > 0) & (slope_y > 0)
    ratio = np.divide(slope_x, slope_y, out=np.ones_like(slope_x), where=agree)
    return np.log(ratio) / 2 * np.where(agree, correlation_x * correlation_y, 0)


def _regression(rows: Array, on: Array, mass: Array) -> tuple[Array, Array]:
    """Slope of every column of centred rows on another, and their correlation."""
    on = on - mass @ on
    shared, own, other = mass @ (rows * on), mass @ rows**2, mass @ on**2
    varies = (own > 0) & (other > 0)
    slope = np.divide(shared, other, out=np.zeros_like(shared), where=varies)
    correlation = np.divide(shared, np.sqrt(own * other), out=np.zeros_like(shared), where=varies)
    return slope, np.clip(correlation, -1, 1)
