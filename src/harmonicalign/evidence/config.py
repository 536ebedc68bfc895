"""Every number that decides what the evidence says; `harmonicalign.method.config` adds the method's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

__all__ = ["EVIDENCE", "Constant", "EvidenceConfig", "constant", "constants"]


@dataclass(frozen=True)
class Constant:
    """One number or rule of a configuration, and why it is what it is.

    Attributes
    ----------
    name
        The field of the configuration.
    value
        What is in force.
    does
        What it does, in one line.
    measured
        Where its value was measured, in one line.
    tried
        Other values, whose effect `benchmarks/ablation.py` measures; the first of them switches the rule
        off where there is such a value.
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
    """Numbers of the correspondence of features, of their relations, of the test and of confidence."""

    # Which features correspond.
    learning_steps: int = constant(
        10, "alternations between the first rotation and the weights of features", _ABLATION, (1, 3)
    )
    learning_tolerance: float = constant(
        1e-3, "alternation stops when no weight changes by more", "a stopping rule, not tuned"
    )
    wrong_partners: int = constant(
        500, "features that serve as wrong partners of all others", "a bound on cost, not tuned", (100,)
    )
    full_share: float = constant(
        0.75,
        "share of corresponding features above which weights are raised towards 1",
        _ABLATION,
        (1.0, 0.5),
    )
    enough_presence: float = constant(
        0.01,
        "a feature of this presence is judged half by its own score, half by the mean",
        "MNIST pairs 10–16 and swapped columns; .001 to .1 differ little",
    )
    # How features relate to each other.
    related_features: int = constant(
        500,
        "features compared by their relations: those that vary most",
        "rotated cells: AUC .86–.89, with all features .69–.73",
        (100,),
    )
    clipped_deviations: float = constant(
        3.0, "squares are of values clipped to this many standard deviations", _ABLATION, (10.0,)
    )
    relation_steps: int = constant(
        10, "alternations between scores and weights of relations", "up to 30: no change", (1,)
    )
    opposed_skew: float = constant(
        0.1,
        "disagreement of squares from which columns are taken to go opposite ways",
        "576 pairs of nine datasets at most .04; 46 negated ones at least .3",
    )
    # Whether an alignment is more than chance.
    chance: float = constant(
        0.05, "an alignment with a larger p is no better than chance", "convention", (1.0,)
    )
    fewest_features: int = constant(
        5, "fewer informative features are not tested", "fewer allow no p below .05"
    )
    permutations: int = constant(
        30,
        "permutations of the test; the tail beyond is that of a t distribution",
        "level of the test",
        (10,),
    )
    block_features: int = constant(
        6, "smallest block of equally smooth features that are permuted", "level of the test on noise"
    )
    least_spread: float = constant(
        0.1, "lower bound on the spread of the null; it is .7 to 1 where anything varies", "guards rounding"
    )
    clearly: float = constant(
        4.0, "standard deviations by which negated features must agree", "up to three by chance"
    )
    # How well other datasets support a row.
    confidence_neighbours: int = constant(10, "neighbours in the confidence of a row", _ABLATION, (5, 20))
    confidence_sample: int = constant(
        3000, "rows of each dataset that distances are compared over", "a bound on cost, not tuned", (500,)
    )
    confidence_smoothing: int = constant(
        2, "times that confidence is averaged over a row's neighbours inside the method", _ABLATION, (0, 4)
    )
    reported_smoothing: int = constant(
        4, "the same for the confidence that is reported", "AUC of removed classes: cortex .919, PBMC .988"
    )


EVIDENCE = EvidenceConfig()
"""The numbers in force by default."""
