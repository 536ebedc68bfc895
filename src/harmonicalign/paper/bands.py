r"""Frequency bands: itersine windows over eigenvalues, and the weights they give pairs of harmonics.

The windows (Sec. 4.1, Alg. BandlimitingWeights) are

.. math:: w_ξ(λ) = \sin\left(\frac π2 \cos^2\left(\frac π2 (ℓλ − ξ)\right)\right), \quad |ℓλ − ξ| ≤ 1,

for ξ = 0 … ℓ and zero elsewhere. Each is supported on an interval of length 2/ℓ around ξ/ℓ, and
their squares add up to one on [0, 1].
"""

from __future__ import annotations

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.inputs.validate import check_integer

__all__ = ["bandlimiting_weights", "itersine_windows"]


_MOST_BANDS = 10_000
"""Maximum number of bands; with more, hardly any two eigenvalues share a band."""


def itersine_windows(eigenvalues: Array, n_bands: int) -> Array:
    """Value of every window at every eigenvalue.

    Parameters
    ----------
    eigenvalues
        Eigenvalues λ of the diffusion operator, (k,). Adaptive bandwidths and dropped weights can make the
        smallest negative, and rounding the largest greater than 1; they are clipped to 0 and 1.
    n_bands
        The number ℓ ≥ 1 of bands.

    Returns
    -------
    windows
        (ℓ + 1, k), row ξ is the window ``w_ξ``.

    Examples
    --------
    >>> itersine_windows(np.array([0.0, 0.5, 1.0]), 2)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    n_bands = check_integer("n_bands", n_bands, minimum=1, maximum=_MOST_BANDS)
    try:
        values = np.asarray(eigenvalues, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"eigenvalues must be numbers, got {eigenvalues!r}") from error
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(f"eigenvalues must be finite and in one row, got an array of shape {values.shape}")
    position = n_bands * np.clip(values, 0.0, 1.0)
    offset = position[None, :] - np.arange(n_bands + 1)[:, None]
    inside = np.abs(offset) < 1
    return np.where(inside, np.sin(np.pi / 2 * np.cos(np.pi / 2 * offset) ** 2), 0.0)


def bandlimiting_weights(lx: Array, ly: Array, n_bands: int, first_band: int = 0) -> Array:
    r"""Weights ``w_ij`` that let only harmonics of similar frequency correlate (Eqn. 2).

    .. math:: w_{ij} = \sum_{ξ} w_ξ(λ^X_i)\, w_ξ(λ^Y_j)

    The weight is 1 if the two eigenvalues are equal and 0 if they differ by 2/ℓ or more.

    Parameters
    ----------
    lx, ly
        Eigenvalues of the two datasets, (k_x,) and (k_y,).
    n_bands
        The number ℓ of bands.
    first_band
        Where the sum over ξ starts. The paper prints 1, but its lemma (weight 1 for equal
        eigenvalues) needs the window ξ = 0 for eigenvalues under 1/ℓ, so 0 is the default.

    Returns
    -------
    weights
        (k_x, k_y).
    """
    if not isinstance(first_band, int | np.integer) or first_band not in (0, 1):
        raise ValueError(f"first_band is {first_band!r}; it must be 0 (the lemma) or 1 (the printed sum)")
    wx = itersine_windows(lx, n_bands)[first_band:]
    wy = itersine_windows(ly, n_bands)[first_band:]
    return np.asarray(wx.T @ wy)
