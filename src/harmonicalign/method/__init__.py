"""The default method: problem, hypotheses, alternation, choice; then the common space of all datasets.

It uses the stages of `paper` and decides by `evidence`. All its constants are in
`harmonicalign.method.config`. The steps of a fit, in order:

>>> from harmonicalign.method import PairProblem, solve
>>> from harmonicalign.method import joint_space, locally_shifted, embed  # after the pairs
"""

from harmonicalign.method.anchors import mutual_neighbours
from harmonicalign.method.choose import align_pair, choose, solve, turned_if_better
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.embed import Embedding, embed
from harmonicalign.method.fit import add_dataset, fit_refined
from harmonicalign.method.hypotheses import (
    FromAnchors,
    FromHarmonics,
    FromRelations,
    Hypothesis,
    Offset,
    Start,
    alternate,
)
from harmonicalign.method.local import locally_shifted
from harmonicalign.method.maps import LinearMap, Side
from harmonicalign.method.model import RefinedModel
from harmonicalign.method.problem import PairAlignment, PairProblem
from harmonicalign.method.shifts import LocalShift, local_shifts
from harmonicalign.method.space import JointSpace, joint_space
from harmonicalign.method.tangents import project

__all__ = [
    "DEFAULT",
    "Embedding",
    "FromAnchors",
    "FromHarmonics",
    "FromRelations",
    "Hypothesis",
    "JointSpace",
    "LinearMap",
    "LocalShift",
    "MethodConfig",
    "Offset",
    "PairAlignment",
    "PairProblem",
    "RefinedModel",
    "Side",
    "Start",
    "add_dataset",
    "align_pair",
    "alternate",
    "choose",
    "embed",
    "fit_refined",
    "joint_space",
    "local_shifts",
    "locally_shifted",
    "mutual_neighbours",
    "project",
    "solve",
    "turned_if_better",
]
