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
_MEMORY = "a bound on memory; it changes no result"


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
        (("harmonics",), ("relations",), ("harmonics", "relations"), ("offset",)),
    )
    hypotheses: tuple[Any, ...] = ()
    # Alternation: anchors, map, weights.
    n_rounds: int = constant(
        4, "rounds, each ending with an update of the feature weights", _ABLATION, (2, 6)
    )
    n_steps: int = constant(3, "updates of anchors and map per round", _ABLATION, (1, 6))
    n_anchors: int = constant(
        10, "neighbours in each direction in the search for mutual neighbours", _ABLATION, (5, 20)
    )
    anchor_weight: Callable[[Array], Array] | None = None
    most_signals: int = constant(
        4000, "maximum number of signals in joint coordinates, by weighted energy", _COST
    )
    most_gain: float = constant(
        4.0, "maximum factor by which the spread of a direction is matched", _ABLATION, (1.0, 2.0)
    )
    signal_ridge: float = constant(
        0.3, "ridge of the components predicted from the signals", _ABLATION, (0.1, 1.0)
    )
    signal_rounds: int = constant(
        2, "rounds after which significant signals count in the map of components", _ABLATION, (0, 4)
    )
    soft_length: float = constant(
        2.0,
        "rows longer than this, in typical lengths, keep only their direction, shorter ones their length",
        _ABLATION,
        (0.0, 1.0, 4.0),
    )
    # Choice among the hypotheses.
    enough_support: float = constant(
        0.9,
        "fraction of the best run's confidence that is sufficient to prefer an offset",
        _ABLATION,
        (0.8, 0.97, 2.0),
    )
    doubt_power: float = constant(
        3.0,
        "power of p in the share of a displacement that a test justifies",
        "cell lines in 20 components, p .17 to .26: scIB total .73 to .77; with p of .96 they stay apart",
        (1.0, 2.0),
    )
    units_gain: float = constant(
        1.1,
        "factor by which units of the columns must raise the score of an offset",
        "176 tasks: columns rescaled 1.1 to 3.5, or passed through a square root; cells .99 to 1.03",
        (1e9, 1.0, 1.3),
    )
    alike_spreads: float = constant(
        0.7,
        "rank correlation of spreads above which columns are taken to be comparable",
        "cell lines in 20 components: accuracy 1.00, without it .50 and .75",
        (2.0,),
    )
    worth_power: float = constant(
        4.0, "power of confidence in the score of a run", "36 cytometry and 16 cell draws", (1.0, 8.0)
    )
    turn_gain: float = constant(
        1.75,
        "factor by which a turn of the common space must raise the score",
        "171 tasks: without turns objects .94 to .88, digits .88 to .85; images 1.87 to 2.9, others to 1.82",
        (1e9, 1.0),
    )
    turn_support: float = constant(
        0.75,
        "a turn is tried only if the median confidence in both datasets is lower",
        "images .48 to .746, batch effects by kind, which must not be turned, .755 and more",
        (1.0,),
    )
    turn_neighbours: int = constant(
        5,
        "neighbours in the confidence and the score that decide on a turn",
        "300 images: .42 to .49 become .55 to .65, objects .83 to .86 become .94; with 10 they seem to meet",
        (10,),
    )
    turn_prior: float = constant(
        0.3, "weight of the dataset's own covariance beside the anchors of a turn", _ABLATION, (0.0, 1.0)
    )
    # Many datasets.
    n_parents: int = constant(
        3, "number of datasets tried as the parent of one whose features do not correspond", _COST, (1,)
    )
    numbers_at_once: int = constant(
        2**26, "few datasets are described one by one if one of them stores more numbers", _MEMORY
    )
    many_permutations: int = constant(
        24,
        "permutations after which the test of one of many datasets stops if its p is clear",
        "60 batches of 100 digits: accuracy .927, with all permutations .924",
    )
    pooled_rows: int = constant(
        200,
        "of more than three datasets, those with fewer rows are pooled if they do not differ",
        "60 batches of 20 blood cells: accuracy .84 to .92, 30 of 40 pancreas cells .96 to .99",
        (0, 500),
    )
    pooling_level: float = constant(
        0.01,
        "level of the test of whether they differ",
        "60 batches: .05 leaves more groups, accuracy .923 for .926",
        (0.001, 0.05),
    )
    small_share: float = constant(
        0.1, "datasets with fewer rows, as a share of the largest, do not decide the significance", _ABLATION
    )
    balance_power: float = constant(
        4.0, "power of the share of signals in the common space", _ABLATION, (2.0, 8.0)
    )
    bridge_ridge: float = constant(
        0.01, "ridge of the prediction of signals that an added dataset lacks", "not measured separately"
    )
    # Signals that are not the datasets' own columns; FOSCTTM of cells measured twice, and of digits.
    canonical_components: int = constant(
        20, "number of canonical components of the signals", "10, 20 and 40 differ by .01", (10, 40)
    )
    predicted_share: float = constant(
        0.5,
        "share of what the components predict in the reading of a row, beside its signals",
        "FOSCTTM of cortex .199 to .185, of proteins .124 to .117",
        (0.0,),
    )
    modality_balance: float = constant(
        0.5,
        "balance of readings and components in the common space",
        "FOSCTTM of proteins .093, cortex .190 without components, .085, .186 with half",
        (0.35, 0.7, 1.0),
    )
    modality_length: float = constant(
        0.0, "as `soft_length`, for readings", "FOSCTTM of cortex .173, with 2 .209", (1.0, 2.0)
    )
    linked_spread: float = constant(
        1.0,
        "signals joined by links are divided by their spread, or so many median spreads if that is more",
        "flatworms .763 to .79 (.3, 3 and 1: .79); other sets have equal spreads already",
        (1e9, 0.3, 3.0),
    )
    # Local shifts.
    shift_rounds: int = constant(
        2,
        "rounds of local shifts",
        "suite and simulations: more rounds mix better, but cost accuracy",
        (0, 1, 3),
    )
    shift_rows: int = constant(
        200, "maximum number of anchors over which a shift is averaged", _ABLATION, (50, 500)
    )
    shift_share: int = constant(
        5,
        "anchors over which a shift is averaged in small datasets: rows divided by this",
        "36 subsamples of 150–600 rows",
        (2,),
    )
    apart: float = constant(
        4.0,
        "rows move fully where the shares of neighbours fall short of 1 by one over this",
        "simulations, cytometry's EMD; 1, 2, 3, 4 tried",
        (1.0,),
    )
    shift_places: int = constant(
        5, "number of points from which the shift of a row is interpolated", _ABLATION, (1,)
    )
    reference_rows: int = constant(
        1000,
        "rows of all other datasets, or as many as it has itself, to which a dataset is shifted",
        _COST,
        (500,),
    )
    centring_rounds: int = constant(
        2,
        "rounds in which rows move by what their dataset differs from its surroundings",
        "scIB total of nine sets .753 to .761; more rounds: no gain, and a batch split at random changes",
        (0, 3, 6),
    )
    centring_neighbours: int = constant(
        18,
        "neighbours in which the datasets are compared",
        "50 tasks .926, with 36 .923; scIB and a batch split at random do not differ",
        (12, 36),
    )
    # Reliable directions and tangent planes.
    reliability_power: float = constant(
        0.25,
        "power of the reliability of a direction by which it is scaled",
        "130 tasks: .5 is the same in the mean, better on blood (.005), worse on MNIST (.006)",
        (0.0, 0.5, 1.0),
    )
    least_variance: float = constant(
        1e-4,
        "directions with less variance, relative to the largest, are left out of the common space",
        "digits added to a reference with a reduction: .56 with 1e-8; else no change",
        (1e-8, 1e-3),
    )
    tangent_rows: int = constant(100_000, "number of rows above which rows are not projected", _COST, (0,))
    tangent_neighbours: int = constant(
        36,
        "number of neighbours that span a tangent plane",
        _ABLATION,
        (15, 60),
    )
    # Embedding.
    smoothing: float = constant(
        0.5, "share of the way that rows move to the mean of their neighbours", _ABLATION, (0.0, 1.0)
    )
    known_rows: int = constant(
        100_000, "maximum number of rows among which neighbours are sought for it", _COST, (1000,)
    )
    smoothing_neighbours: int = constant(
        5,
        "number of nearest rows whose mean this is",
        "49 tasks .9122, with 10 .9117; objects split at random -.006, with 10 -.014",
        (3, 10),
    )
    joint_neighbours: int = constant(10, "neighbours of a row in the joint graph", _ABLATION, (5, 20))

    def __post_init__(self) -> None:
        for name in ("n_rounds", "n_steps", "n_anchors", "shift_places"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")

    def for_placing(self) -> MethodConfig:
        """The configuration without fields that only a fit uses and a model file cannot hold."""
        return replace(self, hypotheses=(), anchor_weight=None)


DEFAULT = MethodConfig()
"""The default configuration."""
