"""The default method: problem, hypotheses, alternation, choice; then one space for all datasets.

It knows `paper`, whose stages it starts from, and `evidence`, by which it decides. Every number that decides
its behaviour is in `harmonicalign.method.config`. One call passes through it in this order:

>>> from harmonicalign.method import PairProblem, solve
>>> from harmonicalign.method import joint_space, joint_map  # after the pairs: one space, one graph
"""

from harmonicalign.method.alternate import Start, alternate
from harmonicalign.method.anchors import mutual_neighbours
from harmonicalign.method.choose import align_pair, choose, solve
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.embed import JointMap, joint_map
from harmonicalign.method.fit import add_dataset, fit_refined
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
from harmonicalign.method.maps import LinearMap, Side
from harmonicalign.method.model import RefinedModel
from harmonicalign.method.problem import PairAlignment, PairProblem
from harmonicalign.method.shifts import LocalShift, local_shifts
from harmonicalign.method.space import JointSpace, joint_space
from harmonicalign.method.tangents import project

__all__ = [
    "DEFAULT",
    "Again",
    "AsIs",
    "FromAnchors",
    "FromColumns",
    "FromHarmonics",
    "FromRelations",
    "Hypothesis",
    "JointMap",
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
    "fit_refined",
    "joint_map",
    "joint_space",
    "local_shifts",
    "mutual_neighbours",
    "project",
    "solve",
]
