r"""Past the paper: learned correspondence, anchors, and a map between the datasets' own coordinates.

The harmonics and the features find a first rotation (`harmonicalign.evidence.correspondence`). Rows that are
mutual neighbours under it become anchors Π. Anchors, and signals found to correspond, determine an
orthogonal map between the principal components of the two datasets (`harmonicalign.method.maps`), much as
T is that between their harmonics,

.. math:: C = U Σ V^T, \qquad Q_X = P_X U, \quad Q_Y = P_Y V,

in which now all features take part, whether they correspond or not. Anchors, map, rotation and
weights improve each other for a few rounds. The share φ of the signals' energy that corresponds
balances mapped coordinates Q against the weighted signals S, which are compared column by column:
``J = [(1 − φ) Q, φ S]``, the rows of both at unit length, or nearly where they are of few numbers
(`harmonicalign.method.maps.length_kept`). `harmonicalign.method.space`, which places all rows in the end,
has another balance there.

Several explanations of the two datasets are tried, from the simplest: nothing needs to be done; the
columns correspond up to an offset; only some do, found from the columns or from the harmonics. A
simpler one is kept if, under it, the datasets support each other nearly as well. Where none is and the
two runs ended apart, a third starts from how the features relate to each other
(`harmonicalign.evidence.relations`), and all start again from the weights that were learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from harmonicalign._typing import Array, Pair
from harmonicalign.engines import cpu
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.correspondence import Correspondence, correspondence, learn_rotation
from harmonicalign.evidence.relations import column_variances, relate
from harmonicalign.evidence.significance import CHANCE, Significance, permutation_test
from harmonicalign.method.anchors import masses, mutual_neighbours
from harmonicalign.method.maps import (
    LinearMap,
    Side,
    blend,
    component_maps,
    directions,
    reversed_maps,
    signal_maps,
    typical_length,
    unit_rows,
    weighted_axes,
)
from harmonicalign.paper.align import Alignment, calibrate, orthogonalize
from harmonicalign.paper.bands import bandlimiting_weights

__all__ = ["Refinement", "refine"]


_ENOUGH_SUPPORT = 0.9
"""A simpler explanation is kept if it gives at least this part of the best one's support."""

_SHARPENED = (1, 8)
"""Powers of learned weights that runs start again from: as they are, and with less of doubtful features."""

_LEADING = (0.5, 0.25)
"""Runs start again, too, from the features that hold these shares of the learned weights, and no others."""

_FEWEST_LEADING = 4
"""So many features lead at least; fewer say too little of where a row belongs."""

_FEW_FEATURES = 25
"""With so many features the power of support in a run's worth is doubled; see `Refinement.worth`."""

_WORTH_MORE = 1.02
"""A restart is kept, and followed by another, only if it gained this factor: less may be chance."""

_SAME = 0.9
"""Runs from different starts that map rows with at least this cosine have found the same."""

_ALIKE = 0.7
"""Rank correlation of the columns' spreads above which columns look as if they corresponded."""


@dataclass(frozen=True)
class Refinement:
    """A refined alignment of two datasets.

    Attributes
    ----------
    alignment
        The rotation T between the harmonics, and the correlation it came from.
    correspondence
        Scores and weights of the features, and the share that corresponds.
    pairing
        Anchors Π between the rows that took part, (n_x, n_y).
    maps
        Maps of the two datasets' principal components into the first one's.
    centres
        Means of the two datasets' signals over their anchors: what corresponds is centred alike.
    significance
        Permutation test of the correspondence of the features.
    support
        Mean confidence of the rows of the better supported side, in [0, 1].
    start
        Which explanation was kept: "as is", "offset", "columns", "harmonics", "relations", "again" or
        "anchors".
    history
        One record per step: the start, what was done, and the objective after it.
    """

    alignment: Alignment
    correspondence: Correspondence
    pairing: Any
    maps: tuple[LinearMap, LinearMap]
    centres: tuple[Array, Array]
    significance: Significance
    support: float
    start: str
    history: tuple[dict[str, Any], ...]

    @property
    def kinship(self) -> float:
        """How well the two datasets belong together, in [0, 1].

        They do if they support each other, and their features agree, not by chance and not oppositely.
        """
        chance = 0.25 if self.significance.by_chance or self.significance.opposed else 1.0
        return chance * self.support * (1 + self.correspondence.agreement) / 2

    @property
    def worth(self) -> float:
        """What tells the better of two runs: features agree, and rows of the two datasets meet.

        A wrong rotation can make a few features agree; then rows do not meet everywhere. The fewer features
        there are, the better it can, and the more support counts.
        """
        n_features = max(1, int(np.count_nonzero(self.correspondence.energy)))
        return float(self.correspondence.agreement * self.support ** (4 + 4 * _FEW_FEATURES / n_features))

    def reversed(self, sides: tuple[Side, Side]) -> Refinement:
        """The same refinement seen from the other side; `sides` are in the new order."""
        return replace(
            self,
            alignment=self.alignment.transposed,
            pairing=self.pairing.T.tocsr(),
            maps=reversed_maps(self.maps, masses(self.pairing)[1] @ sides[0].components),
            centres=self.centres[::-1],
        )


def refine(
    x: Side,
    y: Side,
    *,
    n_bands: int = 8,
    first_band: int = 0,
    n_rounds: int = 2,
    n_steps: int = 3,
    n_anchors: int = 10,
    known: Any = None,
    starts: Sequence[str] = ("harmonics", "columns"),
    last_start: str | None = "relations",
    n_restarts: int = 3,
    learn_weights: bool = True,
    simple: bool = True,
    random_state: int = 0,
) -> Refinement:
    """Align two datasets, learning which features correspond.

    Parameters
    ----------
    x, y
        The two datasets.
    n_bands, first_band
        See `harmonicalign.paper.align`.
    n_rounds, n_steps
        Rounds, each of so many exchanges between anchors and map followed by one update of
        rotation, weights and balance.
    n_anchors
        Neighbours in each direction for anchors.
    known
        Pairs of rows known to match, a sparse (n_x, n_y) matrix; they are then the start as well.
    starts
        Starts to try; the run that is worth most is kept.
    last_start
        One more, tried unless those led to the same map or something simple explains the data.
    n_restarts
        How often, at most, runs then start again from weights that were learned, while that is worth it.
    learn_weights
        False counts all features alike, for comparison.
    simple
        False does not try the simpler explanations, for comparison.
    random_state
        Seed of the null distribution of scores.
    """
    k = min(x.harmonics.k, y.harmonics.k)
    hx, hy = calibrate([x.harmonics.truncate(k), y.harmonics.truncate(k)])
    sides = replace(x, harmonics=hx), replace(y, harmonics=hy)
    spectral = sides[0].spectral(), sides[1].spectral()
    bands = bandlimiting_weights(hx.frequencies, hy.frequencies, n_bands, first_band)
    rotation, weights, objective = learn_rotation(
        bands, hx.frequencies, *spectral, n_iterations=10 if learn_weights else 1
    )
    if not learn_weights:
        weights = np.ones_like(weights)

    def judge(turn: Array) -> Correspondence:
        """What the features say of a rotation, against the same wrong partners every time."""
        found = correspondence(turn, hx.frequencies, *spectral, np.random.RandomState(random_state))
        return found if learn_weights else replace(found, weights=np.ones_like(found.weights))

    related = relate(x.signals, y.signals)
    significance = permutation_test(
        hx, hy, *spectral, relations=related, n_bands=n_bands, random_state=random_state
    )

    def outcome(
        start: str,
        pairing: Any,
        maps: tuple[LinearMap, LinearMap],
        joint: Pair,
        centres: Pair,
        share: float | None,
        steps: list[Any],
    ) -> Refinement:
        """Everything that follows from anchors; a share of 1 trusts all columns alike."""
        products = hx.psi.T @ (pairing @ hy.psi)
        turn, singular_values, rank = orthogonalize(products, complete=False)
        found = judge(turn)
        if share is not None:
            found = replace(found, share=share, weights=np.ones_like(found.weights))
        support = max(float(c.mean()) for c in row_confidence(joint, random_state=random_state))
        steps.append({"start": start, "step": "anchors", "objective": found.agreement, "support": support})
        return Refinement(
            alignment=Alignment((hx, hy), products, np.ones_like(bands), turn, singular_values, rank),
            correspondence=found,
            pairing=pairing,
            maps=maps,
            centres=centres,
            significance=significance,
            support=support,
            start=start,
            history=tuple(steps),
        )

    def run(start: str, again: tuple[Refinement, Array] | None = None) -> Refinement:
        """Rounds from a start, or again from where another run ended and weights that it learned."""
        steps: list[dict[str, Any]] = []
        joint: Pair
        signals: Pair | None
        if again is not None:
            before, sharp = again
            worth = sharp * before.correspondence.energy
            axes = weighted_axes(sides, before.centres, sharp, worth, random_state)
            joint, signals = _by_signals(sides, axes)
        elif start == "relations":
            joint, signals = _start(start, sides, rotation, related.weights(), known)
        else:
            steps += [{"start": start, "step": "weights", "objective": value} for value in objective]
            joint, signals = _start(start, sides, rotation, weights, known)
        share, learned = 1.0, None
        for _ in range(n_rounds):
            for _ in range(n_steps):
                pairing = mutual_neighbours(*joint, n_anchors, known=known)
                maps = component_maps(sides, pairing, learned)
                joint = _joint(_mapped(sides, maps), signals, share)
            centres = _centres(sides, pairing)
            # Anchors are a second estimate of the correlation between harmonics.
            found = judge(orthogonalize(hx.psi.T @ (pairing @ hy.psi), complete=False)[0])
            share = found.share
            axes = signal_maps(sides, centres, found, random_state)
            signals = _signals(sides, axes)
            # Signals that correspond by chance testify to nothing.
            learned = signals if significance.p <= CHANCE else None
            maps = component_maps(sides, pairing, learned)
            joint = _joint(_mapped(sides, maps), signals, share)
            steps.append({"start": start, "step": "round", "objective": found.agreement})
        return outcome(start, pairing, maps, joint, centres, None, steps)

    def run_offset(offset: bool) -> Refinement:
        """All columns correspond: as they are, or up to one offset per column."""
        means = [np.asarray(side.signals.mean(axis=0)).ravel() for side in sides]
        middle = (means[0] + means[1]) / 2
        centres: Pair = (middle, middle)
        everything = np.ones(len(middle))
        for _ in range(n_steps + 1 if offset else 1):
            axes = weighted_axes(sides, centres, everything, weights, random_state)
            joint = _directions(_signals(sides, axes))
            pairing = mutual_neighbours(*joint, n_anchors)
            if offset:
                centres = _centres(sides, pairing)
        maps = component_maps(sides, pairing)
        return outcome("offset" if offset else "as is", pairing, maps, joint, centres, 1.0, [])

    if known is not None:
        return run("anchors")
    # Runs know nothing of each other and are worked out side by side.
    explain = [partial(run, name) for name in starts]
    if simple:
        explain.append(partial(run_offset, True))
    tried = cpu.in_threads(lambda work: work(), explain)
    bases = tried[: len(starts)]
    best = max(bases, key=lambda r: r.worth)
    plausible = simple and tried[-1].support >= _ENOUGH_SUPPORT * best.support
    if simple and significance.by_chance and (plausible or _columns_look_alike(sides)):
        # The datasets can be laid on each other, but no feature says that they should be.
        tried.append(run_offset(False))
        best = tried[-1]
    elif plausible:
        best = tried[-1]
    elif learn_weights and not _end_alike(bases, sides[1]):
        if last_start is not None:
            bases = [*bases, run(last_start)]
            tried.append(bases[-1])
            if bases[-1].worth > _WORTH_MORE * best.worth:
                best = bases[-1]
        for _ in range(n_restarts):
            restarts = [
                partial(run, "again", (base, sharp))
                for base in bases
                for sharp in _sharper(base.correspondence.weights)
            ]
            more = cpu.in_threads(lambda work: work(), restarts)
            tried += more
            best_again = max(more, key=lambda r: r.worth)
            if best_again.worth <= _WORTH_MORE * best.worth:
                break
            best, bases = best_again, [best_again]
    return replace(best, history=tuple(step for r in tried for step in r.history))


def _sharper(weights: Array) -> list[Array]:
    """Learned weights to start again from: to some powers, and 1 for the leading features and else 0."""
    order = np.argsort(-weights, kind="stable")
    held = np.cumsum(weights[order])
    out = [weights**power for power in _SHARPENED]
    for share in _LEADING:
        n_leading = max(_FEWEST_LEADING, 1 + int(np.searchsorted(held, share * held[-1])))
        leading = np.zeros_like(weights)
        leading[order[:n_leading]] = 1
        out.append(leading)
    return out


def _end_alike(runs: Sequence[Refinement], side: Side) -> bool:
    """Whether runs from different starts lay the second dataset's rows in the same directions."""
    first, *others = (unit_rows(r.maps[1].apply(side.components)) for r in runs)
    return bool(others) and all(np.sum(first * q, axis=1).mean() >= _SAME for q in others)


def _directions(rows: Pair) -> Pair:
    """Rows of both sides in joint coordinates, on one scale."""
    scale = typical_length(rows)
    return directions(rows[0] / scale), directions(rows[1] / scale)


def _joint(mapped: Pair, signals: Pair | None, share: float) -> Pair:
    """Joint coordinates of both sides; without signals yet, the mapped components alone."""
    q = _directions(mapped)
    if signals is None:
        return q
    s = _directions(signals)
    return blend(q[0], s[0], share), blend(q[1], s[1], share)


def _start(
    name: str, sides: tuple[Side, Side], rotation: Array, weights: Array, known: Any
) -> tuple[Pair, Pair | None]:
    """Joint coordinates to begin with, and the signals that the first round goes on with."""
    x, y = sides
    if name == "anchors":
        return _joint(_mapped(sides, component_maps(sides, known)), None, 1.0), None
    mean_x, mean_y = (np.asarray(side.signals.mean(axis=0)).ravel() for side in sides)
    if name == "columns":
        # The hypothesis that all columns correspond as they are: only the common mean is taken off.
        middle = (mean_x + mean_y) / 2
        return _by_signals(sides, weighted_axes(sides, (middle, middle), np.ones_like(weights), weights))
    axes = weighted_axes(sides, (mean_x, mean_y), weights, weights)
    if name == "relations":
        return _by_signals(sides, axes)
    if name != "harmonics":
        raise ValueError(f"starts holds {name!r}; expected 'harmonics', 'columns' or 'relations'")
    frequencies = x.harmonics.frequencies
    ex = unit_rows(x.harmonics.phi * frequencies)
    ey = unit_rows((y.harmonics.phi @ rotation.T) * frequencies)
    sx, sy = _signals(sides, axes)
    return (np.hstack([ex, unit_rows(sx)]), np.hstack([ey, unit_rows(sy)])), None


def _by_signals(sides: tuple[Side, Side], axes: Sequence[LinearMap]) -> tuple[Pair, Pair]:
    """Joint coordinates by the signals alone, and the signals."""
    signals = _signals(sides, axes)
    return _directions(signals), signals


def _mapped(sides: tuple[Side, Side], maps: tuple[LinearMap, LinearMap]) -> Pair:
    """Principal components of both sides in the first one's coordinates."""
    return maps[0].apply(sides[0].components), maps[1].apply(sides[1].components)


def _signals(sides: tuple[Side, Side], axes: Sequence[LinearMap]) -> Pair:
    """Signals of both sides, mapped."""
    return axes[0].apply(sides[0].signals), axes[1].apply(sides[1].signals)


def _columns_look_alike(sides: tuple[Side, Side]) -> bool:
    """Whether columns vary much in one dataset where they vary much in the other."""
    spread = [np.sqrt(column_variances(side.signals)) for side in sides]
    if any(np.ptp(s) == 0 for s in spread):
        return False
    return float(stats.spearmanr(*spread).statistic) > _ALIKE


def _centres(sides: tuple[Side, Side], pairing: Any) -> tuple[Array, Array]:
    """Mean of each dataset's signals over its anchors."""
    mass_x, mass_y = masses(pairing)
    return np.asarray(mass_x @ sides[0].signals).ravel(), np.asarray(mass_y @ sides[1].signals).ravel()
