"""Measures of an alignment, one idea per file: labels, pairs, mixing, distributions, calibration.

They know coordinates, labels and neighbours, and nothing of how an alignment was found. Rows are compared by
Euclidean distance. Neighbours are exact (faiss, float32, after centring), found block by block, so that no
n × n matrix is ever held. Where a function speaks of pairs, row ``i`` of the one dataset and row ``i`` of the
other are the same thing measured twice. `harmonicalign.metrics.checks` holds what a new metric needs.
"""

from harmonicalign.metrics.calibration import expected_calibration_error
from harmonicalign.metrics.distributions import earth_movers_distance
from harmonicalign.metrics.labels import knn_label_agreement
from harmonicalign.metrics.latent import latent_error
from harmonicalign.metrics.matches import foscttm, foscttm_per_row
from harmonicalign.metrics.mixing import mixing_entropy
from harmonicalign.metrics.overlap import knn_auc, neighbourhood_overlap
from harmonicalign.metrics.scorer import AlignmentScorer, alignment_scorer

__all__ = [
    "AlignmentScorer",
    "alignment_scorer",
    "earth_movers_distance",
    "expected_calibration_error",
    "foscttm",
    "foscttm_per_row",
    "knn_auc",
    "knn_label_agreement",
    "latent_error",
    "mixing_entropy",
    "neighbourhood_overlap",
]
