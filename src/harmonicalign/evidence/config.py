"""All constants of the evidence; `harmonicalign.method.config` adds those of the method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

__all__ = ["EVIDENCE", "Constant", "EvidenceConfig", "constant", "constants"]


@dataclass(frozen=True)
class Constant:
    """One constant of a configuration and its justification.

    Attributes
    ----------
    name
        The field of the configuration.
    value
        Its value.
    does
        What it does, in one line.
    measured
        Where the value was measured, in one line.
    tried
        Other values, whose effect `benchmarks/ablation.py` measures. The first switches the rule off, if such
        a value exists.
    """

    name: str
    value: Any
    does: str
    measured: str
    tried: tuple[Any, ...]


def constant(value: Any, does: str, measured: str, tried: Sequence[Any] = ()) -> Any:
    """A field of a configuration with its documentation."""
    return field(default=value, metadata={"does": does, "measured": measured, "tried": tuple(tried)})


def constants(config: Any) -> list[Constant]:
    """All constants of a configuration, in the order of the code."""
    return [
        Constant(
            f.name, getattr(config, f.name), f.metadata["does"], f.metadata["measured"], f.metadata["tried"]
        )
        for f in fields(config)
        if "does" in f.metadata
    ]


_ABLATION = "benchmarks/ablation.py"


@dataclass(frozen=True)
class EvidenceConfig:
    """Constants of the correspondence of features, their relations, the permutation test and confidence."""

    # Which features correspond.
    learning_steps: int = constant(
        10, "updates of the first rotation and of the feature weights", _ABLATION, (1, 3)
    )
    learning_tolerance: float = constant(
        1e-3, "the updates stop when no weight changes by more", "a stopping rule, not tuned"
    )
    wrong_partners: int = constant(
        500, "number of features used as wrong partners", "a bound on cost, not tuned", (100,)
    )
    full_share: float = constant(
        0.75,
        "share of corresponding features above which weights are raised towards 1",
        _ABLATION,
        (1.0, 0.5),
    )
    enough_presence: float = constant(
        0.01,
        "presence at which the weight of a feature is half its own, half the mean weight",
        "MNIST pairs 10–16 and swapped columns; .001 to .1 differ little",
    )
    # Features that are judged by an alignment found without them.
    feature_folds: int = constant(
        5, "folds in which features are held out", "a bound on cost, not tuned", (2,)
    )
    few_to_hold_out: int = constant(
        30,
        "with at most so many features, each is a fold",
        "rotated cytometry; benchmarks/calibration.py",
        (0,),
    )
    examined_rows: int = constant(
        1000,
        "rows of each dataset on which features are judged, and rows as a whole",
        "a bound on cost; with 600, a fourth fewer features found in rotated cytometry",
    )
    examined_features: int = constant(
        500, "features in which these rows are compared, or which are predicted", "a bound on cost"
    )
    steps_held_out: int = constant(
        3, "updates of anchors, rotation and weights per fold", "PBMC: 6 add nothing"
    )
    # Relations between features.
    related_features: int = constant(
        500,
        "number of features whose relations are compared: those that vary most",
        "rotated cells: AUC .86–.89, with all features .69–.73",
        (100,),
    )
    clipped_deviations: float = constant(
        3.0, "standard deviations to which values are clipped before they are squared", _ABLATION, (10.0,)
    )
    relation_steps: int = constant(
        10, "updates of the scores and weights of relations", "up to 30: no change", (1,)
    )
    opposed_skew: float = constant(
        0.1,
        "disagreement of squares above which columns are taken to have opposite signs",
        "576 pairs of nine datasets: at most .04; 46 negated ones: at least .3",
    )
    # What the columns look like.
    ordered_features: int = constant(
        250, "number of columns whose order is examined", "shifted and mirrored digits, cytometry and spectra"
    )
    most_shift: int = constant(
        100, "maximum number of columns by which they may be shifted", "a bound on cost"
    )
    least_overlap: float = constant(
        0.5, "minimum share of columns that have a partner in another order", "not tuned"
    )
    order_agreement: float = constant(
        0.85, "minimum agreement of the correlations in another order", "shifted columns: .90 to 1"
    )
    order_left: float = constant(
        0.25,
        "disagreement left, relative to the order given, at which another order is clearly better",
        "shifted or mirrored columns: 0 to .19; unrelated smooth spectra: .26 to .53",
    )
    order_near_all: float = constant(
        0.95, "agreement from which half of the disagreement may be left", "pictures shifted by a pixel"
    )
    exactly_uncorrelated: float = constant(
        0.05,
        "mean correlation of columns of one decomposition, over that of independent columns",
        "separate SVDs: 0; of all rows together: .8 to 5",
    )
    nearly_uncorrelated: float = constant(
        1.3, "the same for some of the rows of a decomposition", "half of the rows: .7 to .9"
    )
    one_decomposition: float = constant(
        0.5,
        "share of corresponding columns after one decomposition of all rows",
        "digits: all; separate: none",
    )
    geometric: float = constant(
        0.85,
        "share of the signals that the geometry predicts, above which they are not tested",
        "nine families of data: .1 to .6, pictures of objects .8; heat kernel signatures .87 to .99",
    )
    # Whether the rows are of one kind.
    overlap_features: int = constant(300, "features that are predicted", "a bound on cost")
    overlap_neighbours: int = constant(5, "neighbours that predict a row", "not tuned")
    least_predicted: float = constant(
        0.3, "correlation with the prediction in its own dataset from which a feature counts", "not tuned"
    )
    compared_rows: float = constant(
        0.75,
        "share of rows that are compared, those that both datasets predict most alike",
        "benchmarks/calibration.py overlap: with all, clusters that one dataset lacks raise false alarms",
        (1.0,),
    )
    different_things: float = constant(
        0.85,
        "prediction by the other dataset, relative to the own, below which rows seem different",
        "digits: .66 to .87 without a common class, .92 to 1 with; benchmarks/calibration.py overlap",
    )
    different_readings: float = constant(
        0.8,
        "the same where the signals are not the own columns, as between modalities",
        "RNA and proteins of the same cells (CITE-seq): .82 to .85",
    )
    not_agreeing: float = constant(
        0.25,
        "weight below which a column does not agree under the alignment",
        "not tuned: an agreement of half",
    )
    alike_though_apart: float = constant(
        0.2,
        "rank correlation of the skewness of such columns from which they are taken to be the same ones",
        "mixed columns: up to .04; other kinds brought together: .23 and more; benchmarks/calibration.py",
        (1.0,),
    )
    # Permutation test.
    chance: float = constant(0.05, "an alignment with a larger p is not significant", "convention", (1.0,))
    fewest_features: int = constant(
        5, "minimum number of informative features for a test", "fewer allow no p below .05"
    )
    permutations: int = constant(
        99,
        "permutations of the test; p below a fifth follow from the tail",
        "benchmarks/calibration.py",
        (30,),
    )
    most_permutations: int = constant(
        799,
        "permutations at which the test stops, however near p is to `chance`",
        "a bound on cost: p near .05 is then known to .015",
        (0,),
    )
    clear_permutations: int = constant(
        0, "permutations after which the test stops if p is below `clear_p`; 0 never", "see many_permutations"
    )
    clear_p: float = constant(0.005, "p below which a test needs no more permutations", "a tenth of `chance`")
    clear_errors: float = constant(
        2.0,
        "standard errors within which a share of draws, or a correlation, may be chance",
        "convention: 95 % of samples are within",
    )
    tail_power: float = constant(
        8.0,
        "power with which p falls beyond these draws",
        "benchmarks/calibration.py: with 20, .5 % below .001",
    )
    tail_draws: int = constant(
        20, "number of largest draws that make the tail of the test", "benchmarks/calibration.py"
    )
    block_features: int = constant(
        6,
        "minimum size of blocks of similar smoothness, within which features are permuted",
        "level of the test on noise",
    )
    least_spread: float = constant(
        0.1, "lower bound on the spread of the null; it is .7 to 1 if anything varies", "guards rounding"
    )
    clearly: float = constant(
        6.0,
        "standard deviations by which negated features must agree beyond chance",
        "120 designs: up to 4.4 by chance, 13 to 22 where negated",
    )
    # Confidence of rows.
    confidence_neighbours: int = constant(10, "neighbours in the confidence of a row", _ABLATION, (5, 20))
    confidence_sample: int = constant(
        3000, "maximum number of sampled rows per dataset for distances", "a bound on cost, not tuned", (500,)
    )
    confidence_smoothing: int = constant(
        2, "number of times that confidence is averaged over neighbours inside the method", _ABLATION, (0, 4)
    )
    chance_confidence: float = constant(
        0.25,
        "factor on the confidence of rows where no alignment is significant",
        "not measured separately",
        (1.0,),
    )
    reported_smoothing: int = constant(
        4, "the same for the confidence that is reported", "AUC of removed classes: cortex .919, PBMC .988"
    )


EVIDENCE = EvidenceConfig()
"""The default configuration of the evidence."""
