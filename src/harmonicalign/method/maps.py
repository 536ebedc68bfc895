r"""Maps of the rows of datasets to joint coordinates: of principal components, and of weighted signals.

Principal components of one dataset are mapped into those of another by an orthogonal map, the polar factor of
their cross-covariance C, which combines two sources of evidence, anchors Π and signals,

.. math::
    C = P_X^T\, Π\, P_Y + \tfrac12 \left( P_X^T\, \hat P_Y + \hat P_X^T\, P_Y \right),
    \qquad \hat P_Y = S_X (S_Y^T S_Y + r I)^{-1} S_Y^T P_Y,

where the hats are components predicted from the weighted signals S of a row by a regression in the other
dataset. Anchors inform all directions, but pair rows that are only similar. Signals need no pairing, but
inform only the directions that depend on them. Each contributes little where it is uninformative. (Π has
total mass one here, and the rows in both sums are weighted by their mass in it.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from harmonicalign._typing import Array, Pair
from harmonicalign.method.anchors import find_anchors, masses
from harmonicalign.method.axes import Products, axes_of_products, axes_of_rows
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.paper.harmonics import Harmonics

__all__ = [
    "LinearMap",
    "Side",
    "by_products",
    "component_maps",
    "leading_signals",
    "reversed_maps",
    "ridge_regression",
    "turn",
    "typical_length",
    "weighted_axes",
]


@dataclass(frozen=True)
class Side:
    """One dataset in a pair problem: its landmarks in three descriptions.

    Attributes
    ----------
    components
        Principal components P of the representation, (n, p).
    signals
        Signals, (n, d), dense or CSR.
    harmonics
        Harmonics of the graph of the same rows.
    """

    components: Array
    signals: Any
    harmonics: Harmonics

    def spectral(self) -> Array:
        """Fourier coefficients of the centred signals, (k, d)."""
        mean = np.asarray(self.signals.mean(axis=0)).ravel()
        return self.harmonics.gft(self.signals) - np.outer(self.harmonics.psi.sum(axis=0), mean)


@dataclass(frozen=True)
class LinearMap:
    """``rows ↦ rows · matrix + shift``, for dense and sparse rows."""

    matrix: Array
    shift: Array

    def then(self, other: LinearMap) -> LinearMap:
        """Composition: the map followed by another one."""
        return LinearMap(self.matrix @ other.matrix, self.shift @ other.matrix + other.shift)

    def apply(self, rows: Any, device: Any = None) -> Any:
        """Image of the rows; a tensor there if a torch device is given, to which sparse rows go as images."""
        if device is None:
            return np.asarray(rows @ self.matrix) + self.shift
        from harmonicalign.engines.torch_joint import to_device

        if sp.issparse(rows):
            return to_device(self.apply(rows), device)
        rows = to_device(rows, device) if isinstance(rows, np.ndarray) else rows
        return rows @ to_device(self.matrix, device) + to_device(self.shift, device)


def typical_length(parts: Sequence[Array]) -> float:
    """Median length of the rows of several datasets."""
    return float(np.median(np.concatenate([np.linalg.norm(x, axis=1) for x in parts])))


def component_maps(
    sides: tuple[Side, Side], pairing: Any, signals: Pair | None = None, config: MethodConfig = DEFAULT
) -> tuple[LinearMap, LinearMap]:
    """Maps of the principal components of both datasets into those of the first.

    The orthogonal factor is the polar factor of their cross-covariance, both centred on their anchors. The
    spread of every direction over the anchors is matched as well, within bounds.

    Parameters
    ----------
    sides
        The two datasets.
    pairing
        Anchors Π between their rows.
    signals
        Signals of both datasets in one space, mapped by `weighted_axes`, if they are known to correspond;
        None to use the anchors alone.
    config
        Ridge of the regression, and maximum gain.
    """
    mass_x, mass_y = masses(pairing)
    mean_x, mean_y = mass_x @ sides[0].components, mass_y @ sides[1].components
    px, py = sides[0].components - mean_x, sides[1].components - mean_y
    cross = px.T @ (pairing @ py) / pairing.sum()
    if signals is not None:
        py_of_x = signals[0] @ ridge_regression(signals[1], py, config.signal_ridge)
        px_of_y = signals[1] @ ridge_regression(signals[0], px, config.signal_ridge)
        cross += ((px * mass_x[:, None]).T @ py_of_x + px_of_y.T @ (py * mass_y[:, None])) / 2
    u, _, vt = scipy.linalg.svd(cross, full_matrices=False)
    spread_x, spread_y = np.sqrt(mass_x @ (px @ u) ** 2), np.sqrt(mass_y @ (py @ vt.T) ** 2)
    ratio = np.divide(spread_x, spread_y, out=np.ones_like(spread_x), where=spread_y > 0)
    gain = np.clip(ratio, 1 / config.most_gain, config.most_gain)
    matrix = (vt.T * gain) @ u.T
    return LinearMap(np.eye(len(mean_x)), -mean_x), LinearMap(matrix, -mean_y @ matrix)


def turn(x: Array, y: Array, config: MethodConfig) -> LinearMap:
    """Rotation and shift of the rows of y towards x, in a space in which they are comparable.

    See `harmonicalign.method.choose`. Anchors and rotation improve each other for as many steps as the
    alternation has.
    """
    total = LinearMap(np.eye(y.shape[1]), np.zeros(y.shape[1]))
    for _ in range(config.n_rounds * config.n_steps):
        now = total.apply(y)
        pairing = find_anchors(x, now, config)
        mass_x, mass_y = masses(pairing)
        mean_x, mean_y = mass_x @ x, mass_y @ now
        centred = now - mean_y
        cross = (x - mean_x).T @ (pairing @ centred) / pairing.sum()
        cross += config.turn_prior * (centred * mass_y[:, None]).T @ centred
        u, _, vt = scipy.linalg.svd(cross)
        rotation = vt.T @ u.T
        total = total.then(LinearMap(rotation, mean_x - mean_y @ rotation))
    return total


def reversed_maps(maps: tuple[LinearMap, LinearMap], mean_y: Array) -> tuple[LinearMap, LinearMap]:
    """Maps into the components of the second dataset instead; `mean_y` is their mean over the anchors."""
    mean_x, back = -maps[0].shift, np.linalg.pinv(maps[1].matrix)
    return LinearMap(np.eye(len(mean_y)), -mean_y), LinearMap(back, -mean_x @ back)


def ridge_regression(x: Array, y: Array, ridge: float, weights: Array | None = None) -> Array:
    """Coefficients B of ``y ≈ x B + constant``.

    Parameters
    ----------
    x, y
        Predictors and targets, (n, p) and (n, q).
    ridge
        Penalty on large coefficients, relative to the mean variance of the columns of x.
    weights
        Weight of every row; None for equal weights.
    """
    weights = np.full(len(x), 1 / len(x)) if weights is None else weights / weights.sum()
    x, y = x - weights @ x, y - weights @ y
    weighted = (x * weights[:, None]).T
    covariance = weighted @ x
    covariance += ridge * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    # Least squares, because the covariance is singular if columns are constant.
    return np.asarray(np.linalg.lstsq(covariance, weighted @ y, rcond=None)[0])


def leading_signals(worth: Array, most: int) -> Array:
    """Numbers of the signals of largest worth, at most so many, in order."""
    return np.sort(np.argsort(-worth, kind="stable")[:most])


def by_products(sides: Sequence[Side], config: MethodConfig) -> bool:
    """Whether the products of the signals are smaller than the signals, and all signals are used."""
    n_signals = sides[0].signals.shape[1]
    return bool(n_signals <= min(config.most_signals, sum(side.signals.shape[0] for side in sides)))


def weighted_axes(
    sides: Sequence[Side],
    centres: Sequence[Array],
    weights: Array,
    worth: Array,
    start: int | Array = 0,
    config: MethodConfig = DEFAULT,
    factors: Sequence[Array] | None = None,
    products: Sequence[Products] | None = None,
) -> tuple[LinearMap, ...]:
    """Maps of the signals of every dataset to the joint principal components of the weighted signals.

    Parameters
    ----------
    sides
        The datasets.
    centres
        For every dataset, the centre that is subtracted from its signals.
    weights
        Weight of every signal.
    worth
        Priority of every signal: if there are too many signals, those with the largest values are used.
    start
        Where the search for the axes begins; see `harmonicalign.method.axes`.
    config
        Number of components, and maximum number of signals.
    factors
        For every dataset, the factors that bring its signals to common units; None if they have them.
    products
        For every dataset, the products of its signals, if the caller has them.
    """
    scales = [weights] * len(sides) if factors is None else [weights * f for f in factors]
    chosen, k = leading_signals(worth, config.most_signals), config.n_components
    if by_products(sides, config):
        known = products or (Products.of(side.signals) for side in sides)
        leading = axes_of_products(known, centres, weights, factors, k, start)
    else:
        every = len(chosen) == len(weights)
        some = [side.signals if every else side.signals[:, chosen] for side in sides]
        begin = start[chosen] if isinstance(start, np.ndarray) else start
        leading = axes_of_rows(
            some, [c[chosen] for c in centres], [scale[chosen] for scale in scales], k, begin
        )
    axes = np.zeros((len(weights), leading.shape[1]))
    axes[chosen] = leading
    matrices = [scale[:, None] * axes for scale in scales]
    return tuple(LinearMap(m, -c @ m) for m, c in zip(matrices, centres, strict=True))
