"""One verdict on an alignment, and one set of figures, for everything that states them.

The report, the commands, `scverse.score` and `experiments.compare` all read them here: `subject` brings
a model and its labels to one form, `pairs` and `measures` collect the evidence, `judge` words the verdict.
"""

from harmonicalign.adapters.verdict.assess import Assessment, assess, assess_added, assess_subject
from harmonicalign.adapters.verdict.judge import LOW_CONFIDENCE, Evidence, Finding, Verdict, judge
from harmonicalign.adapters.verdict.measures import MOST_ROWS, VOTERS, Measure, measure, summarised
from harmonicalign.adapters.verdict.pairs import Features, Pair, aligned_pairs, score_features, weakest
from harmonicalign.adapters.verdict.subject import Subject, gather, sample, subject_of
from harmonicalign.adapters.verdict.words import percent, readable_p, tight

__all__ = [
    "LOW_CONFIDENCE",
    "MOST_ROWS",
    "VOTERS",
    "Assessment",
    "Evidence",
    "Features",
    "Finding",
    "Measure",
    "Pair",
    "Subject",
    "Verdict",
    "aligned_pairs",
    "assess",
    "assess_added",
    "assess_subject",
    "gather",
    "judge",
    "measure",
    "percent",
    "readable_p",
    "sample",
    "score_features",
    "subject_of",
    "summarised",
    "tight",
    "weakest",
]
