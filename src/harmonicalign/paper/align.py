r"""Spectral signals to an alignment: bandlimited correlation and rotation (Sec. 4, Alg. Align).

.. math::
    C_{ij} = w_{ij} ⟨\hat x_i, \hat y_j⟩, \qquad C = U Σ V^T, \qquad T = U V^T

where ``x̂_i`` holds harmonic i's Fourier coefficient of every signal. Several datasets are aligned
pair by pair (Alg. MultiAlignment); `harmonicalign.paper.joint` then maps them into one space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array
from harmonicalign.inputs.names import refuse_other_orders
from harmonicalign.inputs.validate import check_data, check_integer
from harmonicalign.paper.bands import bandlimiting_weights
from harmonicalign.paper.harmonics import Harmonics

__all__ = ["Alignment", "MultiAlignment", "align", "calibrate", "multi_align", "orthogonalize"]


@dataclass(frozen=True)
class Alignment:
    """Alignment of the harmonics of two datasets.

    Attributes
    ----------
    harmonics
        Harmonics of the two datasets.
    products
        Inner products ``⟨x̂_i, ŷ_j⟩`` of the spectral signals before bandlimiting, (k_x, k_y).
    band_weights
        The weights ``w_ij`` of Eqn. 2, (k_x, k_y).
    rotation
        T, (k_x, k_y): orthogonal, or a partial isometry if the sizes differ or the correlation
        determines fewer directions.
    singular_values
        Of the bandlimited correlation, largest first.
    rank
        Numerical rank of the correlation: the number of directions that it determines.
    """

    __repr__ = short_repr

    harmonics: tuple[Harmonics, Harmonics]
    products: Array
    band_weights: Array
    rotation: Array
    singular_values: Array
    rank: int

    @property
    def correlation(self) -> Array:
        """The bandlimited correlation C, (k_x, k_y)."""
        return np.asarray(self.band_weights * self.products)

    @property
    def transposed(self) -> Alignment:
        """The same alignment with the datasets in the other order."""
        return replace(
            self,
            harmonics=self.harmonics[::-1],
            products=self.products.T,
            band_weights=self.band_weights.T,
            rotation=self.rotation.T,
        )


@dataclass(frozen=True)
class MultiAlignment:
    """Pairwise alignments of n datasets (Alg. MultiAlignment).

    Attributes
    ----------
    harmonics
        Harmonics of every dataset.
    pairs
        ``pairs[i, j]`` with i < j aligns dataset i with dataset j.
    """

    __repr__ = short_repr

    harmonics: tuple[Harmonics, ...]
    pairs: Mapping[tuple[int, int], Alignment]

    def rotation(self, i: int, j: int) -> Array:
        """``T_{i→j}``; the identity for i = j, the transpose of ``T_{j→i}`` for i > j."""
        if i == j:
            return np.eye(self.harmonics[i].k)
        if (min(i, j), max(i, j)) not in self.pairs:
            raise ValueError(f"datasets {i} and {j} were not aligned with each other, only through others")
        return self.pairs[i, j].rotation if i < j else self.pairs[j, i].rotation.T


def calibrate(harmonics: Sequence[Harmonics]) -> tuple[Harmonics, ...]:
    """Calibrate the frequencies of several datasets, so that their eigenvalues are comparable.

    An eigenvalue is the factor by which a harmonic decays in one step, and with nearest-neighbour bandwidths
    a step is shorter the more rows there are. Raising each spectrum to the power that makes the mean
    logarithms equal lets all diffusions run for the same time, so that equal frequencies have equal
    eigenvalues. The common value is the geometric mean, so no dataset is preferred.
    """
    k = min(h.k for h in harmonics)
    # Eigenvalues of 1 (separate components) and non-positive ones determine no time scale.
    rates = []
    for h in harmonics:
        usable = h.eigenvalues[:k]
        usable = usable[(usable > 1e-6) & (usable < 1 - 1e-9)]
        rates.append(float(-np.log(usable).mean()) if usable.size else np.nan)
    known = np.array([rate for rate in rates if np.isfinite(rate)])
    if known.size == 0:
        return tuple(harmonics)
    common = float(np.exp(np.log(known).mean()))
    return tuple(
        replace(h, exponent=common / rate) if np.isfinite(rate) else h
        for h, rate in zip(harmonics, rates, strict=True)
    )


def align(
    hx: Harmonics,
    hy: Harmonics,
    x: Any,
    y: Any,
    *,
    n_bands: int = 8,
    first_band: int = 0,
    feature_weights: Array | None = None,
    complete: bool = True,
) -> Alignment:
    """Align two datasets through signals whose columns correspond (Alg. Align).

    Parameters
    ----------
    hx, hy
        Harmonics of the two datasets.
    x, y
        Signals, rows by the same number of columns; column s of both means the same thing.
        Dense or sparse.
    n_bands
        Number ℓ of frequency bands.
    first_band
        See `harmonicalign.bandlimiting_weights`.
    feature_weights
        A weight ≥ 0 per signal; equal by default, as in the paper.
    complete
        Treatment of directions that the correlation does not determine (fewer signals than harmonics): True
        completes the rotation, see `orthogonalize`; False omits them.

    Returns
    -------
    alignment
        The correlation and the rotation ``T`` that takes coordinates of x to those of y.
    """
    refuse_other_orders("x and y", [x, y])
    x, y = check_data("x", x), check_data("y", y)
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"x has {x.shape[1]} signals and y has {y.shape[1]}; signals must correspond column by column: "
            "select the shared ones, in the same order"
        )
    spectral_x, spectral_y = hx.gft(x), hy.gft(y)
    if feature_weights is not None:
        spectral_x = spectral_x * _checked_weights(feature_weights, x.shape[1])
    return align_spectra(
        hx, hy, spectral_x @ spectral_y.T, n_bands=n_bands, first_band=first_band, complete=complete
    )


def align_spectra(
    hx: Harmonics,
    hy: Harmonics,
    products: Array,
    *,
    n_bands: int = 8,
    first_band: int = 0,
    complete: bool = True,
) -> Alignment:
    """Alignment from given inner products ``⟨x̂_i, ŷ_j⟩`` of spectral signals."""
    weights = bandlimiting_weights(hx.frequencies, hy.frequencies, n_bands, first_band)
    rotation, singular_values, rank = orthogonalize(weights * products, complete=complete)
    return Alignment(
        harmonics=(hx, hy),
        products=products,
        band_weights=weights,
        rotation=rotation,
        singular_values=singular_values,
        rank=rank,
    )


def orthogonalize(c: Array, *, complete: bool = True) -> tuple[Array, Array, int]:
    """Nearest orthogonal matrix to C: ``T = U Vᵀ`` (Sec. 4.2).

    If C has a numerical rank r below its smaller side, the SVD leaves the rest of T undetermined. With
    `complete`, the rest pairs the undetermined directions of the two sides in the order of their frequency:
    among all completions, the one closest to the identity. Without it, T is the partial isometry
    ``U_r V_rᵀ`` that maps undetermined directions to zero.

    Returns
    -------
    rotation, singular_values, rank
    """
    rows, columns = c.shape
    size = min(rows, columns)
    u, s, vt = scipy.linalg.svd(c)
    rank = int(np.sum(s > max(c.shape) * np.finfo(np.float64).eps * s[0])) if size and s[0] > 0 else 0
    rotation = u[:, :rank] @ vt[:rank]
    if complete and rank < size:
        left, right = u[:, rank:], vt[rank:].T
        a, _, b = scipy.linalg.svd(left.T @ np.eye(rows, columns) @ right, full_matrices=False)
        rotation = rotation + left @ (a[:, : size - rank] @ b[: size - rank]) @ right.T
    return rotation, s, rank


def multi_align(
    harmonics: Sequence[Harmonics],
    signals: Sequence[Any],
    *,
    n_bands: int = 8,
    first_band: int = 0,
    feature_weights: Array | None = None,
    complete: bool = True,
) -> MultiAlignment:
    """Align every pair of n datasets (Alg. MultiAlignment); parameters as in `align`."""
    if len(harmonics) != len(signals):
        raise ValueError(f"{len(harmonics)} datasets have harmonics but {len(signals)} have signals")
    if not harmonics:
        raise ValueError("harmonics is empty; give at least one dataset")
    refuse_other_orders("signals", signals)
    checked = [check_data(f"signals[{i}]", s) for i, s in enumerate(signals)]
    widths = sorted({s.shape[1] for s in checked})
    if len(widths) > 1:
        raise ValueError(
            f"signals have different numbers of columns ({', '.join(map(str, widths))}); they must "
            "correspond column by column: select the shared ones, in the same order"
        )
    spectra = [h.gft(s) for h, s in zip(harmonics, checked, strict=True)]
    weights = 1.0 if feature_weights is None else _checked_weights(feature_weights, widths[0])
    pairs = {
        (i, j): align_spectra(
            harmonics[i],
            harmonics[j],
            (spectra[i] * weights) @ spectra[j].T,
            n_bands=n_bands,
            first_band=first_band,
            complete=complete,
        )
        for i in range(len(harmonics))
        for j in range(i + 1, len(harmonics))
    }
    return MultiAlignment(harmonics=tuple(harmonics), pairs=pairs)


def joint_signal_basis(signals: Sequence[Any], rank: int | None = None, random_state: Any = 0) -> Array:
    """A common orthonormal basis for the rows of all signals, (columns, rank).

    Projecting the signals of every dataset on one basis of the span of the rows preserves all inner products
    between them, so it changes no correlation if the rank is at least min(d, N) (Appendix A.3). Separate
    bases would destroy the correspondence of the columns.
    """
    from sklearn.utils.extmath import randomized_svd

    refuse_other_orders("signals", signals)
    checked = [check_data(f"signals[{i}]", s) for i, s in enumerate(signals)]
    d = checked[0].shape[1]
    most = min(d, sum(s.shape[0] for s in checked))
    rank = most if rank is None else min(most, check_integer("signal_pca", rank, minimum=1))
    stacked: Any = sp.vstack(checked) if any(map(sp.issparse, checked)) else np.vstack(checked)
    if rank > most // 3:
        dense = stacked.toarray() if sp.issparse(stacked) else stacked
        return np.asarray(scipy.linalg.svd(dense, full_matrices=False)[2][:rank].T)
    return np.asarray(randomized_svd(stacked, rank, random_state=random_state)[2].T)


def _checked_weights(feature_weights: Any, n: int) -> Array:
    try:
        weights = np.asarray(feature_weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("feature_weights must be numbers, one for each signal") from error
    if weights.shape != (n,):
        raise ValueError(f"feature_weights has shape {weights.shape}; expected one for each of {n} signals")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("feature_weights must be finite, not negative, and not all zero")
    return weights
