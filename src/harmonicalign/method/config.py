"""All constants and rules of the default method.

Each has a description and the measurement behind it. To try another value, replace it in the configuration:

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
    """Constants and rules of the default method; those of the evidence are inherited.

    Two fields extend the method rather than tune it: `hypotheses` holds further hypotheses
    (`harmonicalign.method.Hypothesis`), and `anchor_weight` is a function from squared distances of anchors
    to their weights, by default `harmonicalign.method.anchors.gaussian_weights`.
    """

    # One dataset: principal components, graph, harmonics.
    n_components: int = constant(
        50, "maximum number of principal components of a dataset", _ABLATION, (30, 100)
    )
    neighbour_root: float = constant(
        3.0,
        "kernel neighbours per row: square root of the number of rows, divided by this",
        _ABLATION,
        (2.0, 5.0),
    )
    neighbour_bounds: tuple[int, int] = constant(
        (5, 15), "minimum and maximum number of kernel neighbours per row", _ABLATION, ((10, 30),)
    )
    n_harmonics: int = constant(50, "maximum number of harmonics of a dataset", _ABLATION, (25, 100))
    rows_per_harmonic: int = constant(4, "minimum number of rows per harmonic", _ABLATION, (10,))
    anisotropy: float = constant(0.5, "density correction q of the kernels", _ABLATION, (0.0, 1.0))
    kernel_neighbours: int = constant(
        45, "maximum number of neighbours in the kernel of a row", _COST, (100,)
    )
    # Starts of the alternation.
    left_out: tuple[str, ...] = constant(
        (),
        "names of hypotheses that are not tried",
        _ABLATION,
        (("harmonics",), ("columns",), ("offset", "as is"), ("relations",), ("again",)),
    )
    hypotheses: tuple[Any, ...] = ()
    learn_weights: bool = constant(
        True, "learn which features correspond; otherwise all have weight 1", _ABLATION, (False,)
    )
    # Alternation: anchors, map, weights.
    n_rounds: int = constant(
        2, "rounds, each ending with an update of the feature weights", _ABLATION, (1, 4)
    )
    n_steps: int = constant(3, "updates of anchors and map per round", _ABLATION, (1, 6))
    n_anchors: int = constant(
        10, "neighbours in each direction in the search for mutual neighbours", _ABLATION, (5, 20)
    )
    anchor_weight: Callable[[Array], Array] | None = None
    n_balance: int = constant(10, "Sinkhorn iterations that balance anchors", _ABLATION, (0,))
    signal_axes: int = constant(
        50, "number of principal components of the weighted signals", _ABLATION, (25, 100)
    )
    most_signals: int = constant(
        4000, "maximum number of signals in joint coordinates, by weighted energy", _COST
    )
    most_gain: float = constant(
        4.0, "maximum factor by which the spread of a direction is matched", _ABLATION, (1.0, 2.0)
    )
    signal_ridge: float = constant(
        0.3, "ridge of the components predicted from the signals", _ABLATION, (0.1, 1.0)
    )
    signals_shape_map: bool = constant(
        True, "use significant signals in the map of components", _ABLATION, (False,)
    )
    full_length_width: int = constant(
        4,
        "maximum number of columns with which rows keep their full length",
        "manifolds of known truth",
        (0,),
    )
    no_length_width: int = constant(
        10, "number of columns from which rows keep only their direction", "manifolds of known truth"
    )
    longest: float = constant(1e3, "bound on kept lengths, in typical lengths", "guards new rows; not tuned")
    # Choice among the hypotheses.
    enough_support: float = constant(
        0.9,
        "fraction of the best run's confidence that is sufficient to prefer an offset",
        _ABLATION,
        (0.8, 0.97, 2.0),
    )
    alike_spreads: float = constant(
        0.7, "rank correlation of spreads above which columns are taken to be comparable", _ABLATION, (2.0,)
    )
    same_cosine: float = constant(
        0.9, "mean cosine from which the maps of two runs count as the same", _ABLATION, (0.8, 0.97)
    )
    worth_power: float = constant(
        4.0, "power of confidence in the score of a run", "36 cytometry and 16 cell draws", (1.0, 8.0)
    )
    few_features: float = constant(
        25.0,
        "number of features at which the power of confidence is doubled",
        "36 cytometry draws: .927 to .950, with relations and restarts",
        (0.0,),
    )
    worth_more: float = constant(
        1.02, "factor by which a further run must improve the score to be kept", _ABLATION, (1.0, 1.1)
    )
    n_restarts: int = constant(
        3,
        "maximum number of successive restarts from learned weights",
        "ten rotated tasks: .943, without .938",
        (0, 1),
    )
    sharpened: tuple[int, ...] = constant(
        (1, 8), "powers of the learned weights used by restarts", _ABLATION, ((1,),)
    )
    leading: tuple[float, ...] = constant(
        (0.5, 0.25),
        "shares of the total weight held by the leading features in further restarts",
        _ABLATION,
        ((),),
    )
    fewest_leading: int = constant(4, "minimum number of leading features", _ABLATION, (1, 10))
    # Many datasets.
    n_hubs: int = constant(3, "number of datasets with which every other one is aligned", _ABLATION, (1,))
    chance_kinship: float = constant(
        0.25,
        "factor on the kinship of a pair that is not significant or has opposite signs",
        _ABLATION,
        (1.0,),
    )
    balance_power: float = constant(
        2.0, "power of the share of signals in the common space", _ABLATION, (1.0, 4.0)
    )
    balance_more: float = constant(
        2.0, "additional power if the components explain the signals", _ABLATION, (0.0,)
    )
    balance_known: float = constant(
        4.0, "power of the share of the signals that the components explain", _ABLATION, (1.0,)
    )
    bridge_ridge: float = constant(
        0.01, "ridge of the prediction of signals that an added dataset lacks", "not measured separately"
    )
    # Local shifts.
    shift_rounds: int = constant(
        3,
        "rounds of local shifts",
        "suite and simulations: more rounds mix better, but cost accuracy",
        (0, 1, 6),
    )
    shift_rows: int = constant(
        200, "maximum number of anchors over which a shift is averaged", _ABLATION, (50, 500)
    )
    shift_least_rows: int = constant(
        15, "minimum number of anchors over which a shift is averaged", _ABLATION
    )
    shift_share: int = constant(
        5,
        "anchors over which a shift is averaged in small datasets: rows divided by this",
        "36 subsamples of 150–600 rows",
        (2,),
    )
    shift_anchor_power: float = constant(
        4.0, "power of confidence in the weights of anchors for shifts", _ABLATION, (0.0, 1.0)
    )
    meeting_rows: int = constant(30, "nearest rows used to judge whether datasets meet", _ABLATION, (10, 100))
    apart: float = constant(
        4.0,
        "rows move fully where the shares of neighbours fall short of 1 by one over this",
        "simulations, cytometry's EMD; 1, 2, 3, 4 tried",
        (1.0,),
    )
    shift_noise: float = constant(
        2.0, "multiple of the sampling variance subtracted from the squared shift", _ABLATION, (0.0, 4.0)
    )
    shift_places: int = constant(
        5, "number of points from which the shift of a row is interpolated", _ABLATION, (1,)
    )
    # Tangent planes.
    tangent_rows: int = constant(100_000, "number of rows above which rows are not projected", _COST, (0,))
    tangent_bounds: tuple[int, int] = constant(
        (31, 36), "minimum and maximum number of neighbours that span a tangent plane", _ABLATION, ((15, 15),)
    )
    # Joint map and embedding.
    joint_decay: float = constant(4.0, "decay of the joint kernel", _ABLATION, (2.0,))
    joint_neighbour_root: float = constant(
        4.0,
        "neighbours in the joint kernel: square root of the number of rows, divided by this",
        _ABLATION,
        (2.0,),
    )
    joint_neighbour_bounds: tuple[int, int] = constant(
        (5, 10), "minimum and maximum number of neighbours in the joint kernel", _ABLATION, ((15, 15),)
    )
    joint_harmonics_bounds: tuple[int, int] = constant(
        (10, 100), "minimum and maximum number of harmonics of the joint map", _ABLATION, ((10, 50),)
    )
    rows_per_joint_harmonic: int = constant(
        20, "minimum number of rows per harmonic of the joint map", _ABLATION
    )
    many_rows: int = constant(
        20_000, "number of rows above which the joint map has at most `many_harmonics`", _COST
    )
    many_harmonics: int = constant(
        50, "maximum number of harmonics for many rows", "more do not help for many rows"
    )
    coordinates_length: float = constant(
        2**0.5,
        "length of joint coordinates beside rows of the diffusion map at length 1",
        "suite: larger finds more partners, smaller mixes better",
        (0.0, 1.0, 3.0),
    )
    projected_share: float = constant(
        0.5,
        "fraction of the way to the tangent planes in the embedding",
        _ABLATION,
        (0.0, 1.0),
    )
    joining_power: int = constant(
        2, "power of transition probabilities of new rows", "out of sample, 20 draws", (1,)
    )
    joining_steps: int = constant(
        2, "steps of averaging over the rows of an added dataset", "more do not help", (0,)
    )

    def __post_init__(self) -> None:
        for name in ("n_rounds", "n_steps", "n_anchors", "shift_places"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")

    def for_placing(self) -> MethodConfig:
        """The configuration without fields that only a fit uses and a model file cannot hold."""
        return replace(self, hypotheses=(), anchor_weight=None)


DEFAULT = MethodConfig()
"""The default configuration."""
