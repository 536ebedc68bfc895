"""Harmonic Alignment: one geometry for datasets that share no points."""

from harmonicalign._exceptions import AlignmentWarning, DisconnectedGraphWarning, ModelFileError
from harmonicalign._version import __version__
from harmonicalign.estimator import HarmonicAlignment
from harmonicalign.paper.align import Alignment, MultiAlignment, align, calibrate, multi_align
from harmonicalign.paper.bands import bandlimiting_weights, itersine_windows
from harmonicalign.paper.graph import Graph, kernel_graph
from harmonicalign.paper.harmonics import Harmonics, harmonics
from harmonicalign.paper.joint import Joint, common_frame, joint_geometry, synchronize, unified_map
from harmonicalign.shape.alignment import ShapeAlignment

load = HarmonicAlignment.load

__all__ = [
    "Alignment",
    "AlignmentWarning",
    "DisconnectedGraphWarning",
    "Graph",
    "HarmonicAlignment",
    "Harmonics",
    "Joint",
    "ModelFileError",
    "MultiAlignment",
    "ShapeAlignment",
    "__version__",
    "align",
    "bandlimiting_weights",
    "calibrate",
    "common_frame",
    "harmonics",
    "itersine_windows",
    "joint_geometry",
    "kernel_graph",
    "load",
    "multi_align",
    "synchronize",
    "unified_map",
]
