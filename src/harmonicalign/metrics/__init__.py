"""Measures of an alignment, one idea per file.

They know coordinates, labels and neighbours, and nothing of how an alignment was found.
"""

from harmonicalign.metrics.metrics import (
    earth_movers_distance,
    expected_calibration_error,
    foscttm,
    foscttm_per_row,
    knn_auc,
    knn_label_agreement,
    latent_error,
    mixing_entropy,
    neighbourhood_overlap,
)

__all__ = [
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
