"""Data with known truth: the paper's corrupted digits, sampled manifolds, clusters; and MNIST from files.

Every generator takes a ``random_state`` (None, a seed, a ``RandomState`` or a ``Generator``) and leaves the
global one alone.
"""

from __future__ import annotations

import gzip
import importlib.util
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harmonicalign._validation import check_integer, check_number, check_rows, random_state_from

__all__ = [
    "ClustersPair",
    "CorruptedPair",
    "ManifoldPair",
    "clusters_pair",
    "corrupted_pair",
    "corruption_matrix",
    "load_digits_pair",
    "load_mnist",
    "sphere",
    "swiss_roll",
    "torus_knot",
    "tree",
]

Array = np.ndarray[Any, Any]


# --- the paper's experiment: features corrupted by a partly orthogonal matrix -------------------------------


@dataclass(frozen=True, eq=False)
class CorruptedPair:
    """Two disjoint samples of one dataset, the second with most of its features rotated away.

    Attributes
    ----------
    x
        (n_x, d), the uncorrupted sample.
    y
        (n_y, d), ``y_clean @ matrix``.
    labels_x, labels_y
        Labels of the rows.
    y_clean
        (n_y, d), the second sample before corruption.
    matrix
        (d, d), the paper's ``O_p``.
    preserved
        (d,) booleans: the columns of ``y`` that are features of ``x``.
    rows_x, rows_y
        Where the rows came from.
    """

    x: Array
    y: Array
    labels_x: Array
    labels_y: Array
    y_clean: Array
    matrix: Array
    preserved: Array
    rows_x: Array
    rows_y: Array


def corruption_matrix(n_features: int, preserved: float, random_state: Any = None) -> tuple[Array, Array]:
    """The paper's ``O_p``: a random orthogonal matrix with a share of its columns those of the identity.

    Parameters
    ----------
    n_features
        The number d of features.
    preserved
        The share p of columns replaced, from 0 (all corrupted) to 1 (the identity); their number is rounded.
    random_state
        Seed of the matrix and of the choice of columns.

    Returns
    -------
    matrix
        (d, d); ``y @ matrix`` corrupts ``y``. Orthogonal for p = 0 and p = 1 only, as in the paper.
    mask
        (d,) booleans, True for the columns kept.

    Examples
    --------
    >>> matrix, mask = corruption_matrix(4, 0.5, random_state=0)
    >>> int(mask.sum()), bool((matrix[:, mask] == np.eye(4)[:, mask]).all())
    (2, True)
    """
    d = check_integer("n_features", n_features, minimum=1)
    share = _share("preserved", preserved)
    rng = random_state_from(random_state)
    matrix = _random_orthogonal(d, rng)
    mask = np.zeros(d, dtype=bool)
    mask[rng.permutation(d)[: round(share * d)]] = True
    matrix[:, mask] = np.eye(d)[:, mask]
    return matrix, mask


def corrupted_pair(
    X: Any, y: Any, n_x: int, n_y: int, preserved: float, random_state: Any = None
) -> CorruptedPair:
    """Two disjoint random samples of the rows of ``X``, the second corrupted (Fig. 2).

    Parameters
    ----------
    X
        (n, d), the data.
    y
        (n,), labels of its rows.
    n_x, n_y
        Sizes of the two samples, together at most n.
    preserved
        Share of the features that the corruption leaves alone, from 0 to 1.
    random_state
        Seed of the samples and of the corruption.

    Examples
    --------
    >>> pair = corrupted_pair(np.arange(40.0).reshape(10, 4), np.arange(10), 5, 5, 0.5, random_state=0)
    >>> pair.y.shape, int(pair.preserved.sum())
    ((5, 4), 2)
    """
    rows = np.asarray(X)
    labels = np.asarray(y)
    if rows.ndim != 2:
        raise ValueError(f"X has shape {rows.shape}; pass a matrix of rows by features")
    if labels.shape != (len(rows),):
        raise ValueError(f"y has shape {labels.shape} but X has {len(rows)} rows; pass one label per row")
    n_x = check_integer("n_x", n_x, minimum=1)
    n_y = check_integer("n_y", n_y, minimum=1)
    if n_x + n_y > len(rows):
        raise ValueError(
            f"n_x + n_y is {n_x + n_y} but X has {len(rows)} rows, and the samples are disjoint; "
            "lower n_x or n_y"
        )
    rng = random_state_from(random_state)
    order = rng.permutation(len(rows))
    rows_x, rows_y = order[:n_x], order[n_x : n_x + n_y]
    matrix, mask = corruption_matrix(rows.shape[1], preserved, rng)
    x = np.asarray(check_rows("X", rows[rows_x]), dtype=np.float64)
    y_clean = np.asarray(check_rows("X", rows[rows_y]), dtype=np.float64)
    return CorruptedPair(
        x=x,
        y=y_clean @ matrix,
        labels_x=labels[rows_x],
        labels_y=labels[rows_y],
        y_clean=y_clean,
        matrix=matrix,
        preserved=mask,
        rows_x=rows_x,
        rows_y=rows_y,
    )


def load_digits_pair(
    preserved: float = 0.35, n_x: int | None = None, n_y: int | None = None, random_state: Any = None
) -> CorruptedPair:
    """Corrupted pair of scikit-learn's 1,797 digits of 8 × 8 pixels, which need no download.

    Parameters
    ----------
    preserved
        Share of the pixels that the corruption leaves alone.
    n_x, n_y
        Sizes of the samples; by default half of the images each, or all that the other one leaves.
    random_state
        Seed of the samples and of the corruption.

    Examples
    --------
    >>> load_digits_pair(0.5, n_x=100, n_y=200, random_state=0).y.shape
    (200, 64)
    """
    from sklearn.datasets import load_digits

    data, target = load_digits(return_X_y=True)
    if n_x is None:
        n_x = len(data) // 2 if n_y is None else len(data) - n_y
    if n_y is None:
        n_y = len(data) - n_x
    return corrupted_pair(data, target, n_x, n_y, preserved, random_state)


def load_mnist(path: str | Path | None = None) -> tuple[Array, Array]:
    """The 70,000 handwritten digits of MNIST, or those of any file of the same make.

    Parameters
    ----------
    path
        An ``.npz`` file with arrays ``X`` and ``y``; or a folder with the original idx files (``train-images-
        idx3-ubyte``, ``t10k-labels-idx1-ubyte`` and so on, gzipped or not; one of the two sets is enough).
        None fetches them from OpenML through scikit-learn, which keeps a copy in its data folder.

    Returns
    -------
    X
        (n, 784), unsigned bytes, training images first.
    y
        (n,), the digits.
    """
    if path is None:
        return _fetch_mnist()
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"path {str(path)!r} does not exist; pass an .npz file with X and y, a folder with idx files, "
            "or None to download MNIST from OpenML"
        )
    data, target = _read_idx_folder(path) if path.is_dir() else _read_npz(path)
    if len(data) != len(target):
        raise ValueError(f"path {str(path)!r} holds {len(data)} images but {len(target)} labels")
    return np.ascontiguousarray(data.reshape(len(data), -1)), target.astype(np.int64)


def _fetch_mnist() -> tuple[Array, Array]:
    from sklearn.datasets import fetch_openml

    # pandas reads the file in seconds, scikit-learn's own parser in a minute; pandas is optional.
    parser = "pandas" if importlib.util.find_spec("pandas") else "liac-arff"
    try:
        bunch = fetch_openml("mnist_784", version=1, as_frame=False, parser=parser)
    except OSError as error:  # URLError among them
        raise OSError(
            f"MNIST could not be fetched from OpenML ({error}); download it elsewhere and pass path="
        ) from error
    return np.asarray(bunch.data).astype(np.uint8), np.asarray(bunch.target).astype(np.int64)


def _read_npz(path: Path) -> tuple[Array, Array]:
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"path {str(path)!r} is not a readable .npz file; is it complete, and the right one?"
        )
    with np.load(path, allow_pickle=False) as file:
        if not {"X", "y"} <= set(file.files):
            found = ", ".join(file.files) or "nothing"
            raise ValueError(f"path {str(path)!r} holds {found}; it must hold the arrays X and y")
        return file["X"], file["y"]


def _read_idx_folder(folder: Path) -> tuple[Array, Array]:
    images, labels = [], []
    for part in ("train", "t10k"):
        found = [_find_idx(folder, f"{part}-{kind}") for kind in ("images-idx3", "labels-idx1")]
        if all(found):
            images.append(_read_idx(found[0]))
            labels.append(_read_idx(found[1]))
    if not images:
        raise FileNotFoundError(
            f"path {str(folder)!r} has neither train-images-idx3-ubyte and train-labels-idx1-ubyte nor the "
            "t10k files (with or without .gz)"
        )
    return np.concatenate(images), np.concatenate(labels)


def _find_idx(folder: Path, stem: str) -> Path | None:
    names = [f"{stem}-ubyte", f"{stem}-ubyte.gz", f"{stem.replace('-idx', '.idx')}-ubyte"]
    return next((folder / name for name in names if (folder / name).exists()), None)


def _read_idx(path: Path | None) -> Array:
    """One idx file: two zero bytes, type (8: unsigned bytes), number of axes, their lengths, the values."""
    assert path is not None
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08":
        raise ValueError(f"{str(path)!r} does not start as an idx file of bytes does; is it the right file?")
    n_axes = raw[3]
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", n_axes, offset=4))
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * n_axes)
    if values.size != int(np.prod(shape)):
        raise ValueError(
            f"{str(path)!r} announces {int(np.prod(shape))} bytes and holds {values.size}; download it again"
        )
    return np.asarray(values.reshape(shape))


# --- manifolds with known correspondence --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ManifoldPair:
    """Two samples of one manifold, the second rotated, with the truth about both.

    Attributes
    ----------
    x, y
        (n_x, d) and (n_y, d), points in space; no column of ``y`` corresponds to one of ``x`` unless
        ``rotation`` is the identity.
    latent_x, latent_y
        True coordinates on the manifold, the same in both, in which straight distance is meaningful: arc
        length and height of the Swiss roll, length walked along each edge of the tree, unit vectors of the
        sphere, (cos θ, sin θ) along the knot.
    labels_x, labels_y
        Region of the manifold, an integer: stretch of the roll or knot, edge of the tree, octant of the
        sphere.
    pairs
        (m, 2), rows of ``x`` and of ``y`` that belong together: the same point when sampled together,
        otherwise the rows that are each other's nearest in the latent coordinates.
    signals_x, signals_y
        (n_x, s) and (n_y, s), smooth functions of the latent coordinates, with noise.
    corresponds
        (s,) booleans: the signals that are the same function in both; the others are unrelated ones.
    rotation
        (d, d), what turned the second sample.
    """

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
    random_state: Any = None,
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
        How unequally the second sample is spread, 0 (evenly, as the first) or more: at 1 its density falls
        as 1/√u along the manifold.
    rotate
        Whether the second sample is turned by a random rotation.
    paired
        Whether both samples are of the same points (the second in another order) rather than of points of
        their own; noise is their own in either case.
    n_signals
        The number of shared signals.
    corrupted
        Share of the signals that are unrelated functions in the second sample.
    signal_noise
        Standard deviation of the noise on the signals, whose own is one.
    random_state
        Seed of all of it.

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

    return _manifold_pair(
        surface, 2, n_x, n_y, noise, density, rotate, paired, n_signals, corrupted, signal_noise, random_state
    )


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
    random_state: Any = None,
) -> ManifoldPair:
    """The unit sphere, whose symmetry only the signals can break.

    The parameters are those of :func:`swiss_roll`; the density falls from the south pole to the north.

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

    return _manifold_pair(
        surface, 2, n_x, n_y, noise, density, rotate, paired, n_signals, corrupted, signal_noise, random_state
    )


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
    random_state: Any = None,
) -> ManifoldPair:
    """A closed curve wound around a torus: (2, 3) is the trefoil.

    Parameters
    ----------
    n_x, n_y, noise, density, rotate, paired, n_signals, corrupted, signal_noise, random_state
        As in :func:`swiss_roll`.
    turns
        Times around the axis and around the tube of the torus, coprime.

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

    return _manifold_pair(
        curve, 1, n_x, n_y, noise, density, rotate, paired, n_signals, corrupted, signal_noise, random_state
    )


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
    random_state: Any = None,
) -> ManifoldPair:
    """A trunk that forks again and again, its edges of unequal lengths in random directions.

    The latent coordinates are the lengths walked along each edge on the way from the root: the distance
    between two points along the tree is the sum of their absolute differences.

    Parameters
    ----------
    n_x, n_y, noise, density, rotate, paired, n_signals, corrupted, signal_noise, random_state
        As in :func:`swiss_roll`; the density falls from the root to the tips.
    depth
        Levels of edges; there are ``2**depth - 1`` edges.
    n_features
        Dimensions of the space.

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

    return _manifold_pair(
        branches, 1, n_x, n_y, noise, density, rotate, paired, n_signals, corrupted, signal_noise, rng
    )


def _manifold_pair(
    manifold: Callable[[Array], tuple[Array, Array, Array]],
    dimension: int,
    n_x: int,
    n_y: int,
    noise: float,
    density: float,
    rotate: bool,
    paired: bool,
    n_signals: int,
    corrupted: float,
    signal_noise: float,
    random_state: Any,
) -> ManifoldPair:
    """Sample `manifold`, a map from the unit cube to points, latent coordinates and labels."""
    n_x, n_y = check_integer("n_x", n_x, minimum=2), check_integer("n_y", n_y, minimum=2)
    noise = check_number("noise", noise, minimum=0.0)
    density = check_number("density", density, minimum=0.0)
    n_signals = check_integer("n_signals", n_signals, minimum=1)
    share = _share("corrupted", corrupted)
    signal_noise = check_number("signal_noise", signal_noise, minimum=0.0)
    if paired and n_x != n_y:
        raise ValueError(
            f"paired=True takes the same points twice, but n_x is {n_x} and n_y {n_y}; make them equal"
        )
    if paired and density:
        raise ValueError("paired=True takes the same points twice, so density must be 0; drop one of the two")
    rng = random_state_from(random_state)

    cube_x = rng.uniform(size=(n_x, dimension))
    if paired:
        order = rng.permutation(n_y)
        cube_y = cube_x[order]
    else:
        cube_y = rng.uniform(size=(n_y, dimension))
        cube_y[:, 0] **= 1 + density
    x, latent_x, labels_x = manifold(cube_x)
    y, latent_y, labels_y = manifold(cube_y)
    pairs = np.column_stack([order, np.arange(n_y)]) if paired else _mutual_nearest(latent_x, latent_y)

    spread = np.sqrt(x.var(axis=0).mean())
    rotation = _random_orthogonal(x.shape[1], rng, proper=True) if rotate else np.eye(x.shape[1])
    x = x + noise * spread * rng.normal(size=x.shape)
    y = (y + noise * spread * rng.normal(size=y.shape)) @ rotation

    corresponds = np.ones(n_signals, dtype=bool)
    corresponds[rng.permutation(n_signals)[: round(share * n_signals)]] = False
    latent = np.concatenate([latent_x, latent_y])
    signals = _smooth_functions(latent, n_signals, rng)
    signals[n_x:] = np.where(corresponds, signals[n_x:], _smooth_functions(latent, n_signals, rng)[n_x:])
    signals += signal_noise * rng.normal(size=signals.shape)
    return ManifoldPair(
        x=x,
        y=y,
        latent_x=latent_x,
        latent_y=latent_y,
        labels_x=labels_x,
        labels_y=labels_y,
        pairs=pairs[np.argsort(pairs[:, 0])],
        signals_x=signals[:n_x],
        signals_y=signals[n_x:],
        corresponds=corresponds,
        rotation=rotation,
    )


def _smooth_functions(latent: Array, n_functions: int, rng: np.random.RandomState) -> Array:
    """Random plane waves, a few to the manifold, of mean 0 and variance 1."""
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


# --- clusters ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClustersPair:
    """Two samples of many unequal clusters, not all in both, with a batch effect on the second.

    Attributes
    ----------
    x, y
        (n_x, d) and (n_y, d).
    labels_x, labels_y
        Cluster of every row.
    shared
        The clusters that both have.
    shift
        (d,), what the batch effect adds on average.
    corresponds
        (d,) booleans: the columns that mean the same in both.
    """

    x: Array
    y: Array
    labels_x: Array
    labels_y: Array
    shared: Array
    shift: Array
    corresponds: Array


def clusters_pair(
    n_x: int = 1000,
    n_y: int = 1000,
    *,
    n_clusters: int = 20,
    only_x: int = 2,
    only_y: int = 2,
    n_features: int = 50,
    separation: float = 2.0,
    imbalance: float = 1.0,
    shift: float = 1.0,
    corrupted: float = 0.0,
    random_state: Any = None,
) -> ClustersPair:
    """Many clusters of very unequal sizes, some in one dataset only, and a batch effect between the two.

    Parameters
    ----------
    n_x, n_y
        Rows of the two datasets, at least two for each of their clusters.
    n_clusters
        Clusters in all, those of one dataset only included.
    only_x, only_y
        Clusters that only the first, only the second dataset has.
    n_features
        The number d of columns.
    separation
        Distance between the centres of two clusters over that between two rows of one, on average.
    imbalance
        The r-th largest cluster of a dataset has a share of its rows in proportion to ``r**-imbalance``; the
        order is each dataset's own. 0 makes them equal.
    shift
        Length of the batch effect, over the distance between the centres of two clusters. A quarter of it
        differs from cluster to cluster.
    corrupted
        Share of the columns of ``y`` that are rotated among themselves, and so correspond to nothing.
    random_state
        Seed of all of it.

    Examples
    --------
    >>> pair = clusters_pair(300, 200, n_clusters=10, only_x=1, only_y=2, random_state=0)
    >>> len(pair.shared), len(np.unique(pair.labels_x)), len(np.unique(pair.labels_y))
    (7, 8, 9)
    """
    n_clusters = check_integer("n_clusters", n_clusters, minimum=1)
    only_x, only_y = check_integer("only_x", only_x), check_integer("only_y", only_y)
    d = check_integer("n_features", n_features, minimum=1)
    separation = check_number("separation", separation, minimum=0.0)
    imbalance = check_number("imbalance", imbalance, minimum=0.0)
    shift = check_number("shift", shift, minimum=0.0)
    share = _share("corrupted", corrupted)
    if only_x + only_y >= n_clusters:
        raise ValueError(
            f"only_x + only_y is {only_x + only_y} of {n_clusters} clusters: none is left to share; "
            "raise n_clusters"
        )
    rng = random_state_from(random_state)
    order = rng.permutation(n_clusters)
    shared = order[only_x + only_y :]
    clusters = (
        np.concatenate([order[:only_x], shared]),
        np.concatenate([order[only_x : only_x + only_y], shared]),
    )
    # Two rows of unit noise lie √2 apart per column, and so do two centres of unit spread.
    centres = separation * rng.normal(size=(n_clusters, d))
    length = shift * separation * np.sqrt(2 * d)
    effect = length * _unit(rng.normal(size=d))
    of_cluster = effect + 0.25 * length * _unit(rng.normal(size=(n_clusters, d)))

    labels = [
        _unequal_labels(name, n, present, imbalance, rng)
        for name, n, present in (("n_x", n_x, clusters[0]), ("n_y", n_y, clusters[1]))
    ]
    x, y = (centres[c] + rng.normal(size=(len(c), d)) for c in labels)
    y = y + of_cluster[labels[1]]
    corresponds = np.ones(d, dtype=bool)
    corresponds[rng.permutation(d)[: round(share * d)]] = False
    lost = np.flatnonzero(~corresponds)
    y[:, lost] = y[:, lost] @ _random_orthogonal(len(lost), rng)
    return ClustersPair(
        x=x,
        y=y,
        labels_x=labels[0],
        labels_y=labels[1],
        shared=np.sort(shared),
        shift=effect,
        corresponds=corresponds,
    )


def _unequal_labels(
    name: str, n: Any, clusters: Array, imbalance: float, rng: np.random.RandomState
) -> Array:
    n = check_integer(name, n, minimum=1)
    if n < 2 * len(clusters):
        raise ValueError(f"{name} is {n} for {len(clusters)} clusters; pass at least {2 * len(clusters)}")
    shares = np.arange(1, len(clusters) + 1) ** -imbalance
    sizes = 2 + rng.multinomial(n - 2 * len(clusters), shares / shares.sum())
    return np.asarray(rng.permutation(np.repeat(rng.permutation(clusters), sizes)))


# --- small things -----------------------------------------------------------------------------------------


def _random_orthogonal(d: int, rng: np.random.RandomState, *, proper: bool = False) -> Array:
    """Uniformly distributed (Haar) orthogonal matrix; `proper` ones keep orientation."""
    q, r = np.linalg.qr(rng.normal(size=(d, d)))
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    if proper and np.linalg.det(q) < 0:
        q[:, 0] *= -1
    return np.asarray(q)


def _unit(v: Array) -> Array:
    return np.asarray(v / np.linalg.norm(v, axis=-1, keepdims=True))


def _share(name: str, value: Any) -> float:
    try:
        return float(check_number(name, value, minimum=0.0, maximum=1.0))
    except ValueError as error:
        raise ValueError(f"{error}; it is a share, so for 35 % pass 0.35") from None
