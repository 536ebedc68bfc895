"""Calibration: how far confidences are from the accuracy they promise."""

from __future__ import annotations

import numpy as np

from harmonicalign._typing import ArrayLike
from harmonicalign.inputs.validate import check_integer

__all__ = ["expected_calibration_error"]


def expected_calibration_error(confidence: ArrayLike, correct: ArrayLike, n_bins: int = 10) -> float:
    r"""How far confidences are from the accuracy they promise.

    .. math:: \sum_b \frac{n_b}{n} \left| \operatorname{mean}_{i ∈ b} \text{correct}_i
              − \operatorname{mean}_{i ∈ b} \text{confidence}_i \right|

    over ``n_bins`` bins of equal width, the b-th holding confidences in ((b − 1)/n_bins, b/n_bins] (and 0 in
    the first).

    Parameters
    ----------
    confidence
        (n,), between 0 and 1.
    correct
        (n,), whether each prediction was right (booleans, or 0 and 1).
    n_bins
        The number of bins.

    Returns
    -------
    error
        0 (as right as it claims to be) to 1.

    Examples
    --------
    >>> expected_calibration_error([0.5, 0.5, 1.0, 1.0], [True, False, True, True])
    0.0
    >>> expected_calibration_error([1.0, 1.0], [True, False])
    0.5
    """
    n_bins = check_integer("n_bins", n_bins, minimum=1)
    confidence, correct = np.asarray(confidence, dtype=np.float64), np.asarray(correct)
    if confidence.ndim != 1 or confidence.shape != correct.shape or confidence.size == 0:
        raise ValueError(
            f"confidence and correct have shapes {confidence.shape} and {correct.shape}; "
            "pass one value of each per prediction"
        )
    if not ((confidence >= 0) & (confidence <= 1)).all():
        raise ValueError(
            f"confidence runs from {confidence.min():g} to {confidence.max():g}; it must lie between 0 and 1"
        )
    if not np.isin(correct, (0, 1)).all():
        raise ValueError(
            "correct holds values other than True and False (or 1 and 0); pass predicted == true"
        )
    bins = np.clip(np.ceil(confidence * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    excess = np.bincount(bins, weights=correct.astype(np.float64) - confidence, minlength=n_bins)
    return float(np.abs(excess).sum() / len(confidence))
