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
    # Permutation test.
    chance: float = constant(0.05, "an alignment with a larger p is not significant", "convention", (1.0,))
    fewest_features: int = constant(
        5, "minimum number of informative features for a test", "fewer allow no p below .05"
    )
    permutations: int = constant(
        30,
        "permutations of the test; smaller p follow from a t distribution",
        "level of the test",
        (10,),
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
        4.0, "standard deviations by which negated features must agree beyond chance", "up to three by chance"
    )
    # Confidence of rows.
    confidence_neighbours: int = constant(10, "neighbours in the confidence of a row", _ABLATION, (5, 20))
    confidence_sample: int = constant(
        3000, "maximum number of sampled rows per dataset for distances", "a bound on cost, not tuned", (500,)
    )
    confidence_smoothing: int = constant(
        2, "number of times that confidence is averaged over neighbours inside the method", _ABLATION, (0, 4)
    )
    reported_smoothing: int = constant(
        4, "the same for the confidence that is reported", "AUC of removed classes: cortex .919, PBMC .988"
    )


EVIDENCE = EvidenceConfig()
"""The default configuration of the evidence."""
