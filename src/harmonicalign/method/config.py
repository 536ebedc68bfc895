"""Every number and rule that decides what the default method does, in one place.

Each has one line of what it does and one of where it was measured. To see what one of them is worth, or to
try another value, replace it: nothing in the method has to be patched.

>>> from dataclasses import replace
>>> from harmonicalign.method import DEFAULT
>>> replace(DEFAULT, n_anchors=20).n_anchors
20
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from harmonicalign._typing import Array
from harmonicalign.evidence.config import EvidenceConfig, constant

__all__ = ["DEFAULT", "MethodConfig"]

_ABLATION = "benchmarks/ablation.py"
_COST = "a bound on cost, not tuned"


@dataclass(frozen=True)
class MethodConfig(EvidenceConfig):
    """Numbers and rules of the default method; those of the evidence it goes by are inherited.

    Two fields extend the method rather than tune it: `hypotheses` holds further hypotheses
    (`harmonicalign.method.Hypothesis`), and `anchor_weight` is a function from squared distances of anchors
    to their weights, by default `harmonicalign.method.anchors.gaussian_weights`.
    """

    # One dataset: principal components, graph, harmonics.
    n_components: int = constant(
        50, "principal components of a dataset where it has more columns", _ABLATION, (30, 100)
    )
    neighbour_root: float = constant(
        3.0, "neighbours of a row's kernel: root of the rows over this", _ABLATION, (2.0, 5.0)
    )
    neighbour_bounds: tuple[int, int] = constant(
        (5, 15), "bounds on those neighbours", _ABLATION, ((10, 30),)
    )
    n_harmonics: int = constant(50, "harmonics of a dataset", _ABLATION, (25, 100))
    rows_per_harmonic: int = constant(
        4, "rows that a dataset has for each harmonic at least", _ABLATION, (10,)
    )
    anisotropy: float = constant(0.5, "density correction q of the kernels", _ABLATION, (0.0, 1.0))
    kernel_neighbours: int = constant(45, "neighbours of a row that enter its kernel at most", _COST, (100,))
    # Starts of the alternation.
    left_out: tuple[str, ...] = constant(
        (),
        "hypotheses that are not tried, by name",
        _ABLATION,
        (("harmonics",), ("columns",), ("offset", "as is"), ("relations",), ("again",)),
    )
    hypotheses: tuple[Any, ...] = ()
    learn_weights: bool = constant(
        True, "learn which features correspond; else all count alike", _ABLATION, (False,)
    )
    # Alternation: anchors, map, weights.
    n_rounds: int = constant(2, "rounds, each ended by new weights of the features", _ABLATION, (1, 4))
    n_steps: int = constant(3, "exchanges between anchors and map in a round", _ABLATION, (1, 6))
    n_anchors: int = constant(
        10, "neighbours in each direction among which anchors are mutual", _ABLATION, (5, 20)
    )
    anchor_weight: Callable[[Array], Array] | None = None
    n_balance: int = constant(10, "Sinkhorn iterations that balance anchors", _ABLATION, (0,))
    signal_axes: int = constant(50, "principal components of the weighted signals", _ABLATION, (25, 100))
    most_signals: int = constant(
        4000, "signals that enter the joint space at most, by weighted energy", _COST
    )
    most_gain: float = constant(
        4.0, "factor up to which the spread of a direction is matched", _ABLATION, (1.0, 2.0)
    )
    signal_ridge: float = constant(
        0.3, "ridge of the components predicted from the signals", _ABLATION, (0.1, 1.0)
    )
    signals_shape_map: bool = constant(
        True, "significant signals help to determine the map of components", _ABLATION, (False,)
    )
    full_length_width: int = constant(
        4, "rows of at most so many columns keep their length", "manifolds of known truth", (0,)
    )
    no_length_width: int = constant(
        10, "rows of at least so many columns keep only their direction", "manifolds of known truth"
    )
    longest: float = constant(1e3, "bound on kept lengths, in typical lengths", "guards new rows; not tuned")
    # Choice among the hypotheses.
    enough_support: float = constant(
        0.9,
        "share of the best run's confidence with which an offset explains the data",
        _ABLATION,
        (0.8, 0.97, 2.0),
    )
    alike_spreads: float = constant(
        0.7, "rank correlation of spreads from which columns look as if they corresponded", _ABLATION, (2.0,)
    )
    same_cosine: float = constant(
        0.9, "mean cosine from which runs have found the same map", _ABLATION, (0.8, 0.97)
    )
    worth_power: float = constant(
        4.0, "power of confidence in the score of a run", "36 cytometry and 16 cell draws", (1.0, 8.0)
    )
    few_features: float = constant(
        25.0,
        "with so many features that power is doubled",
        "36 cytometry draws: .927 to .950, with relations and restarts",
        (0.0,),
    )
    worth_more: float = constant(
        1.02, "factor that a further run must gain to be kept", _ABLATION, (1.0, 1.1)
    )
    n_restarts: int = constant(
        3, "further rounds of runs from learned weights", "ten rotated tasks: .943, without .938", (0, 1)
    )
    sharpened: tuple[int, ...] = constant(
        (1, 8), "powers of learned weights that restarts begin from", _ABLATION, ((1,),)
    )
    leading: tuple[float, ...] = constant(
        (0.5, 0.25), "shares of the weight that leading features hold in further restarts", _ABLATION, ((),)
    )
    fewest_leading: int = constant(4, "least number of leading features", _ABLATION, (1, 10))
    # Many datasets.
    n_hubs: int = constant(3, "datasets with which every other one is aligned", _ABLATION, (1,))
    chance_kinship: float = constant(
        0.25, "factor on the kinship of a pair aligned by chance or oppositely", _ABLATION, (1.0,)
    )
    balance_power: float = constant(
        2.0, "power of the share of signals in the joint space", _ABLATION, (1.0, 4.0)
    )
    balance_more: float = constant(
        2.0, "further power where the components know the signals", _ABLATION, (0.0,)
    )
    balance_known: float = constant(
        4.0, "power of what the components know of the signals", _ABLATION, (1.0,)
    )
    bridge_ridge: float = constant(
        0.01, "ridge of signals that an added dataset lacks", "not measured on its own"
    )
    # Local shifts.
    shift_rounds: int = constant(
        3, "rounds of local shifts", "suite and simulations: more mix further, cost accuracy", (0, 1, 6)
    )
    shift_rows: int = constant(200, "rows that a shift is averaged over", _ABLATION, (50, 500))
    shift_least_rows: int = constant(15, "the same at least", _ABLATION)
    shift_share: int = constant(
        5, "the same at most: one of so many rows of the dataset", "36 subsamples of 150–600 rows", (2,)
    )
    shift_anchor_power: float = constant(
        4.0, "power of confidence by which anchors of shifts count", _ABLATION, (0.0, 1.0)
    )
    meeting_rows: int = constant(30, "nearest rows that tell whether datasets meet", _ABLATION, (10, 100))
    apart: float = constant(
        4.0,
        "rows move fully where datasets miss each other by one over this",
        "simulations, cytometry's EMD; 1, 2, 3, 4 tried",
        (1.0,),
    )
    shift_noise: float = constant(
        2.0, "multiple of the shift's sampling variance that is taken off", _ABLATION, (0.0, 4.0)
    )
    shift_places: int = constant(
        5, "known places that the shift of a row is interpolated from", _ABLATION, (1,)
    )
    # Tangent planes.
    tangent_rows: int = constant(100_000, "with more rows than this, rows are not projected", _COST, (0,))
    tangent_bounds: tuple[int, int] = constant(
        (31, 36), "neighbours that span a tangent plane, least and most", _ABLATION, ((15, 15),)
    )
    # Joint map and embedding.
    joint_decay: float = constant(4.0, "decay of the joint kernel", _ABLATION, (2.0,))
    joint_neighbour_root: float = constant(
        4.0, "neighbours of the joint kernel: root of the rows over this", _ABLATION, (2.0,)
    )
    joint_neighbour_bounds: tuple[int, int] = constant(
        (5, 10), "bounds on those neighbours", _ABLATION, ((15, 15),)
    )
    joint_harmonics_bounds: tuple[int, int] = constant(
        (10, 100), "harmonics of the joint map, least and most", _ABLATION, ((10, 50),)
    )
    rows_per_joint_harmonic: int = constant(20, "rows for each of them at least", _ABLATION)
    many_rows: int = constant(20_000, "with more rows the joint map has at most `many_harmonics`", _COST)
    many_harmonics: int = constant(
        50, "harmonics of the joint map of many rows", "more bring nothing where rows are many"
    )
    coordinates_length: float = constant(
        2**0.5,
        "length of joint coordinates beside the diffusion map's rows of length 1",
        "suite: more finds partners, less mixes",
        (0.0, 1.0, 3.0),
    )
    projected_share: float = constant(
        0.5,
        "how far coordinates in the embedding go to their tangent planes",
        _ABLATION,
        (0.0, 1.0),
    )
    joining_power: int = constant(
        2, "power of transition probabilities of new rows", "out of sample, 20 draws", (1,)
    )
    joining_steps: int = constant(
        2, "steps by which rows of an added dataset average over each other", "more bring nothing", (0,)
    )

    def for_placing(self) -> MethodConfig:
        """The same without what only a fit uses and a model file cannot hold."""
        return replace(self, hypotheses=(), anchor_weight=None)


DEFAULT = MethodConfig()
"""The configuration in force by default."""
