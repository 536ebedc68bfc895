"""Samples of manifolds whose correspondence is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array, RandomState
from harmonicalign.datasets._draws import random_orthogonal, share_of
from harmonicalign.inputs.validate import check_integer, check_number, random_state_from

__all__ = ["ManifoldPair", "sphere", "swiss_roll", "torus_knot", "tree"]


@dataclass(frozen=True, eq=False)
class ManifoldPair:
    """Two samples of one manifold, the second rotated, with their true correspondence.

    Attributes
    ----------
    x, y
        (n_x, d) and (n_y, d), points in space; no column of ``y`` corresponds to one of ``x`` unless
        ``rotation`` is the identity.
    latent_x, latent_y
        True coordinates on the manifold, the same in both, in which straight-line distance is meaningful: arc
        length and height of the Swiss roll, path length along each edge of the tree, unit vectors of the
        sphere, (cos θ, sin θ) along the knot.
    labels_x, labels_y
        Region of the manifold, an integer: segment of the roll or knot, edge of the tree, octant of the
        sphere.
    pairs
        (m, 2), matching rows of ``x`` and of ``y``: the same point if sampled with ``paired=True``, otherwise
        mutual nearest neighbours in the latent coordinates.
    signals_x, signals_y
        (n_x, s) and (n_y, s), smooth functions of the latent coordinates, with noise.
    corresponds
        (s,) booleans: the signals that are the same function in both; the others are unrelated functions.
    rotation
        (d, d), the rotation of the second sample.
    """

    __repr__ = short_repr

    x: Array
    y: Array
    latent_x: Array
    latent_y: Array
    labels_x: Array
    labels_y: Array
    pairs: Array
    signals_x: Array
    signals_y: Array
    corresponds: Array
    rotation: Array


def swiss_roll(
    n_x: int = 1000,
    n_y: int = 1000,
    *,
    noise: float = 0.0,
    density: float = 0.0,
    rotate: bool = True,
    paired: bool = False,
    n_signals: int = 20,
    corrupted: float = 0.3,
    signal_noise: float = 0.1,
    random_state: RandomState = None,
) -> ManifoldPair:
    """A rolled-up rectangle in three dimensions; its latent coordinates unroll it without stretching.

    Parameters
    ----------
    n_x, n_y
        Rows of the two samples.
    noise
        Standard deviation of the noise on every coordinate, in units of the manifold's spread (the root mean
        variance of its coordinates).
    density
        Unevenness of the density of the second sample, 0 (uniform, as the first) or more: at 1 its density
        decreases as 1/√u along the manifold.
    rotate
        Whether a random rotation is applied to the second sample.
    paired
        Whether both samples are of the same points (the second in another order) rather than of different
        points; the noise is independent in both cases.
    n_signals
        Number of signals.
    corrupted
        Share of the signals that are unrelated functions in the second sample.
    signal_noise
        Standard deviation of the noise on the signals, which have standard deviation one.
    random_state
        Seed of all random draws.

    Examples
    --------
    >>> pair = swiss_roll(200, 300, noise=0.01, random_state=0)
    >>> pair.x.shape, pair.latent_y.shape, pair.signals_x.shape, int(pair.corresponds.sum())
    ((200, 3), (300, 2), (200, 20), 14)
    """

    def surface(u: Array) -> tuple[Array, Array, Array]:
        # Arc length of the spiral r = t is ½ (t √(1 + t²) + asinh t); invert it on a fine grid.
        t = np.linspace(1.5 * np.pi, 4.5 * np.pi, 2001)
        length = 0.5 * (t * np.sqrt(1 + t**2) + np.arcsinh(t))
        length -= length[0]
        along, height = length[-1] * u[:, 0], 21.0 * u[:, 1]
        t = np.interp(along, length, t)
        points = np.column_stack([t * np.cos(t), height, t * np.sin(t)])
        return points, np.column_stack([along, height]), _stretch(u[:, 0], 6)

    sampling = _Sampling(n_x, n_y, noise, density, rotate, paired, n_signals, corrupted, signal_noise)
    return _manifold_pair(surface, 2, sampling, random_state)


def sphere(
    n_x: int = 1000,
    n_y: int = 1000,
    *,
    noise: float = 0.0,
    density: float = 0.0,
    rotate: bool = True,
    paired: bool = False,
    n_signals: int = 20,
    corrupted: float = 0.3,
    signal_noise: float = 0.1,
    random_state: RandomState = None,
) -> ManifoldPair:
    """The unit sphere, whose symmetry can be broken only by the signals.

    The parameters are those of :func:`swiss_roll`; the density decreases from the south pole to the north.

    Examples
    --------
    >>> pair = sphere(100, 100, random_state=0)
    >>> bool(np.allclose(np.linalg.norm(pair.y, axis=1), 1))
    True
    """

    def surface(u: Array) -> tuple[Array, Array, Array]:
        z, angle = 2 * u[:, 0] - 1, 2 * np.pi * u[:, 1]
        radius = np.sqrt(1 - z**2)
        points = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), z])
        return points, points, (points > 0) @ np.array([1, 2, 4])

    sampling = _Sampling(n_x, n_y, noise, density, rotate, paired, n_signals, corrupted, signal_noise)
    return _manifold_pair(surface, 2, sampling, random_state)


def torus_knot(
    n_x: int = 1000,
    n_y: int = 1000,
    *,
    turns: tuple[int, int] = (2, 3),
    noise: float = 0.0,
    density: float = 0.0,
    rotate: bool = True,
    paired: bool = False,
    n_signals: int = 20,
    corrupted: float = 0.3,
    signal_noise: float = 0.1,
    random_state: RandomState = None,
) -> ManifoldPair:
    """A closed curve wound around a torus: (2, 3) is the trefoil.

    Parameters
    ----------
    n_x, n_y, noise, density, rotate, paired, n_signals, corrupted, signal_noise, random_state
        As in :func:`swiss_roll`.
    turns
        Number of turns around the axis and around the tube of the torus, coprime.

    Examples
    --------
    >>> torus_knot(100, 50, turns=(3, 5), random_state=0).y.shape
    (50, 3)
    """
    if len(turns) != 2:
        raise ValueError(f"turns is {turns!r}; pass two coprime whole numbers, for example (2, 3)")
    p, q = (check_integer("turns", count, minimum=1) for count in turns)
    if np.gcd(p, q) != 1:
        raise ValueError(
            f"turns is {turns!r}, which is not coprime: the curve would cover itself; try (2, 3)"
        )

    def curve(u: Array) -> tuple[Array, Array, Array]:
        angle = 2 * np.pi * u[:, 0]
        radius = 1 + 0.4 * np.cos(q * angle)
        points = np.column_stack(
            [radius * np.cos(p * angle), radius * np.sin(p * angle), 0.4 * np.sin(q * angle)]
        )
        return points, np.column_stack([np.cos(angle), np.sin(angle)]), _stretch(u[:, 0], 8)

    sampling = _Sampling(n_x, n_y, noise, density, rotate, paired, n_signals, corrupted, signal_noise)
    return _manifold_pair(curve, 1, sampling, random_state)


def tree(
    n_x: int = 1000,
    n_y: int = 1000,
    *,
    depth: int = 3,
    n_features: int = 10,
    noise: float = 0.0,
    density: float = 0.0,
    rotate: bool = True,
    paired: bool = False,
    n_signals: int = 20,
    corrupted: float = 0.3,
    signal_noise: float = 0.1,
    random_state: RandomState = None,
) -> ManifoldPair:
    """A binary tree with edges of unequal lengths in random directions.

    The latent coordinates are the path lengths along each edge from the root: the distance between two points
    along the tree is the sum of the absolute differences of their coordinates.

    Parameters
    ----------
    n_x, n_y, noise, density, rotate, paired, n_signals, corrupted, signal_noise, random_state
        As in :func:`swiss_roll`; the density decreases from the root to the tips.
    depth
        Number of levels; there are ``2**depth - 1`` edges.
    n_features
        Number of dimensions of the space.

    Examples
    --------
    >>> pair = tree(300, 300, depth=3, random_state=0)
    >>> pair.x.shape, pair.latent_x.shape, len(np.unique(pair.labels_x))
    ((300, 10), (300, 7), 7)
    """
    depth = check_integer("depth", depth, minimum=1, maximum=10)
    n_features = check_integer("n_features", n_features, minimum=2)
    rng = random_state_from(random_state)
    n_edges = 2**depth - 1
    lengths = rng.uniform(0.7, 1.3, size=n_edges)
    directions = rng.normal(size=(n_edges, n_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    # walked[e]: coordinates at the start of edge e, whose parent is (e - 1) // 2.
    walked = np.zeros((n_edges, n_edges))
    for edge in range(1, n_edges):
        parent = (edge - 1) // 2
        walked[edge] = walked[parent]
        walked[edge, parent] = lengths[parent]
    ends = np.cumsum(lengths)

    def branches(u: Array) -> tuple[Array, Array, Array]:
        position = ends[-1] * u[:, 0]
        edge = np.minimum(np.searchsorted(ends, position, side="right"), n_edges - 1)
        latent = walked[edge]
        latent[np.arange(len(u)), edge] = position - (ends - lengths)[edge]
        return latent @ directions, latent, edge

    sampling = _Sampling(n_x, n_y, noise, density, rotate, paired, n_signals, corrupted, signal_noise)
    return _manifold_pair(branches, 1, sampling, rng)


@dataclass(frozen=True)
class _Sampling:
    """How two samples of a manifold are drawn; the fields are the parameters of :func:`swiss_roll`."""

    n_x: int
    n_y: int
    noise: float
    density: float
    rotate: bool
    paired: bool
    n_signals: int
    corrupted: float
    signal_noise: float

    def checked(self) -> _Sampling:
        """The same with every field validated."""
        n_x, n_y = check_integer("n_x", self.n_x, minimum=2), check_integer("n_y", self.n_y, minimum=2)
        noise = check_number("noise", self.noise, minimum=0.0)
        density = check_number("density", self.density, minimum=0.0)
        n_signals = check_integer("n_signals", self.n_signals, minimum=1)
        corrupted = share_of("corrupted", self.corrupted)
        signal_noise = check_number("signal_noise", self.signal_noise, minimum=0.0)
        if self.paired and n_x != n_y:
            raise ValueError(
                f"paired=True takes the same points twice, but n_x is {n_x} and n_y {n_y}; make them equal"
            )
        if self.paired and density:
            raise ValueError(
                "paired=True takes the same points twice, so density must be 0; drop one of the two"
            )
        return _Sampling(
            n_x, n_y, noise, density, self.rotate, self.paired, n_signals, corrupted, signal_noise
        )


def _manifold_pair(
    manifold: Callable[[Array], tuple[Array, Array, Array]],
    dimension: int,
    sampling: _Sampling,
    random_state: RandomState,
) -> ManifoldPair:
    """Sample `manifold`, a map from the unit cube to points, latent coordinates and labels."""
    plan = sampling.checked()
    rng = random_state_from(random_state)
    cube_x = rng.uniform(size=(plan.n_x, dimension))
    if plan.paired:
        order = rng.permutation(plan.n_y)
        cube_y = cube_x[order]
    else:
        cube_y = rng.uniform(size=(plan.n_y, dimension))
        cube_y[:, 0] **= 1 + plan.density
    x, latent_x, labels_x = manifold(cube_x)
    y, latent_y, labels_y = manifold(cube_y)
    pairs = (
        np.column_stack([order, np.arange(plan.n_y)]) if plan.paired else _mutual_nearest(latent_x, latent_y)
    )

    spread = np.sqrt(x.var(axis=0).mean())
    rotation = random_orthogonal(x.shape[1], rng, proper=True) if plan.rotate else np.eye(x.shape[1])
    x = x + plan.noise * spread * rng.normal(size=x.shape)
    y = (y + plan.noise * spread * rng.normal(size=y.shape)) @ rotation
    signals_x, signals_y, corresponds = _signals(latent_x, latent_y, plan, rng)
    return ManifoldPair(
        x=x,
        y=y,
        latent_x=latent_x,
        latent_y=latent_y,
        labels_x=labels_x,
        labels_y=labels_y,
        pairs=pairs[np.argsort(pairs[:, 0])],
        signals_x=signals_x,
        signals_y=signals_y,
        corresponds=corresponds,
        rotation=rotation,
    )


def _signals(
    latent_x: Array, latent_y: Array, plan: _Sampling, rng: np.random.RandomState
) -> tuple[Array, Array, Array]:
    """Noisy smooth functions on both samples, and which of them are the same function in both."""
    n_x, n_signals = len(latent_x), plan.n_signals
    corresponds = np.ones(n_signals, dtype=bool)
    corresponds[rng.permutation(n_signals)[: round(plan.corrupted * n_signals)]] = False
    latent = np.concatenate([latent_x, latent_y])
    signals = _smooth_functions(latent, n_signals, rng)
    signals[n_x:] = np.where(corresponds, signals[n_x:], _smooth_functions(latent, n_signals, rng)[n_x:])
    signals += plan.signal_noise * rng.normal(size=signals.shape)
    return signals[:n_x], signals[n_x:], corresponds


def _smooth_functions(latent: Array, n_functions: int, rng: np.random.RandomState) -> Array:
    """Random plane waves, a few periods across the manifold, of mean 0 and variance 1."""
    dimension = latent.shape[1]
    frequency = rng.normal(size=(dimension, n_functions)) * rng.uniform(0.5, 2.0, size=n_functions)
    phase = rng.uniform(0, 2 * np.pi, size=n_functions)
    waves = np.cos((latent - latent.mean(axis=0)) / latent.std(axis=0).max() @ frequency + phase)
    return np.asarray((waves - waves.mean(axis=0)) / waves.std(axis=0))


def _mutual_nearest(x: Array, y: Array) -> Array:
    from scipy.spatial import cKDTree

    of_x = np.asarray(cKDTree(y).query(x)[1])
    of_y = np.asarray(cKDTree(x).query(y)[1])
    mutual = np.flatnonzero(of_y[of_x] == np.arange(len(x)))
    return np.column_stack([mutual, of_x[mutual]])


def _stretch(u: Array, n: int) -> Array:
    return np.minimum((n * u).astype(np.int64), n - 1)
