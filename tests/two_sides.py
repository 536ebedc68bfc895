"""Datasets as the refinement sees them, for tests of its parts."""

import warnings

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
