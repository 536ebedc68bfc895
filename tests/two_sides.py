"""Datasets as the method sees them, for tests of its parts."""

import warnings

import numpy as np

from harmonicalign import DisconnectedGraphWarning, calibrate, harmonics, kernel_graph
from harmonicalign.method.maps import Side


def side(rows, signals=None, k=20):
    graph = kernel_graph(rows, n_neighbors=8, anisotropy=0.5, max_neighbors=24)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedGraphWarning)  # clusters fall apart, as they may
        return Side(rows, rows if signals is None else signals, harmonics(graph, k))


def spectra(sides):
    hx, hy = calibrate([s.harmonics for s in sides])
    return hx, hy, sides[0].spectral(), sides[1].spectral()


def plain_side(components, signals=None):
    """A side without harmonics, for what does not look at them."""
    return Side(components, components if signals is None else signals, None)


def surface(n, noise, seed=0, width=20):
    """A rolled surface in `width` dimensions, as it is and with noise."""
    rng = np.random.RandomState(seed)
    angle, height = rng.uniform(0, 3, n), rng.uniform(0, 2, n)
    clean = np.zeros((n, width))
    clean[:, :3] = np.stack([2 * np.cos(angle), 2 * np.sin(angle), height], axis=1)
    return clean, clean + noise * rng.standard_normal(clean.shape)
