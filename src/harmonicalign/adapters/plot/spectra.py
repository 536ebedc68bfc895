"""Harmonics: eigenvalues over the bands, and matrices of harmonics against harmonics."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harmonicalign._typing import ArrayLike, MatrixLike
from harmonicalign.adapters.plot.checks import names_of, numbered, vector
from harmonicalign.adapters.plot.drawing import COLOURS, GREY, LINES, MARKERS, one_axes, row_of_axes, tidy
from harmonicalign.adapters.plot.subjects import names_in
from harmonicalign.estimator import HarmonicAlignment
from harmonicalign.inputs.validate import check_integer, check_rows
from harmonicalign.paper.bands import itersine_windows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


__all__ = ["correlation", "spectrum"]


def spectrum(
    eigenvalues_list: Sequence[ArrayLike] | HarmonicAlignment,
    n_bands: int | None = None,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
) -> Axes:
    r"""Eigenvalues of every dataset, over the windows that decide which of them are compared.

    Each dataset is a curve of rank against eigenvalue λ. Behind them are the itersine windows
    :math:`w_ξ(λ) = \sin(\frac π2 \cos^2(\frac π2 (ℓλ − ξ)))`, scale on the right. Where the curves are far
    apart at one rank, a band compares harmonics of different rank.

    Parameters
    ----------
    eigenvalues_list
        A fitted model, or the eigenvalues of each dataset, in any order.
    n_bands
        The number ℓ of bands; by default that of the model, or 8.
    ax
        Where to draw; by default a new figure.
    names
        Names of the datasets.
    """
    if isinstance(eigenvalues_list, HarmonicAlignment):
        model, names = eigenvalues_list, names or names_in(eigenvalues_list)
        eigenvalues_list = [h.frequencies for h in model.harmonics_]
        n_bands = model.n_bands_ if n_bands is None else n_bands
    n_bands = check_integer("n_bands", 8 if n_bands is None else n_bands, minimum=1)
    spectra = [np.sort(vector(f"eigenvalues_list[{i}]", v))[::-1] for i, v in numbered(eigenvalues_list)]
    names = names_of(names, len(spectra))
    ax = one_axes(ax)

    grid = np.linspace(0, 1, 801)
    right = ax.twinx()
    right.set_zorder(ax.get_zorder() - 1)
    ax.patch.set_visible(False)
    right.patch.set_visible(True)
    for band, window in enumerate(itersine_windows(grid, n_bands)):
        shade = "#DCE6F2" if band % 2 else "#E8E8E8"
        right.fill_between(grid, window, color=shade, alpha=0.55, linewidth=0)
        right.plot(grid, window, color=GREY, linewidth=0.7)
    right.set_ylim(0, 1.08)
    right.set_ylabel(f"window weight (ℓ = {n_bands} bands)", color=GREY)
    right.tick_params(axis="y", colors=GREY)
    for side in ("top", "left"):
        right.spines[side].set_visible(False)

    for i, (values, name) in enumerate(zip(spectra, names, strict=True)):
        ax.plot(
            values,
            np.arange(1, len(values) + 1),
            color=COLOURS[i % len(COLOURS)],
            linestyle=LINES[i % len(LINES)],
            marker=MARKERS[i % len(MARKERS)],
            markersize=3.5,
            linewidth=1.4,
            label=f"{name} ({len(values)})",
        )
    lowest = min(0.0, *(float(values[-1]) for values in spectra))
    ax.set_xlim(lowest - 0.01, 1.01)
    ax.set_ylim(0, 1.08 * max(len(values) for values in spectra))
    ax.set_xlabel("eigenvalue λ (low frequency on the right)")
    ax.set_ylabel("harmonic (rank)")
    tidy(ax, grid=False)
    # The largest eigenvalue decides which corner is free.
    reach = max(float(values[0]) for values in spectra)
    ax.legend(title="dataset (harmonics)", loc="upper right" if reach < 0.6 else "lower left", framealpha=0.9)
    return ax


def correlation(
    matrices: Sequence[MatrixLike] | HarmonicAlignment,
    titles: Sequence[str] | None = None,
    axes: Sequence[Axes] | None = None,
    pair: tuple[Hashable, Hashable] | None = None,
) -> list[Axes]:
    """Matrices of harmonics against harmonics, with zero white: correlation, band-limited, rotation.

    Parameters
    ----------
    matrices
        Matrices (k_x, k_y), such as the correlation before and after band-limiting and the rotation T; or a
        fitted model, whose band-limited correlation and rotation are drawn.
    titles
        Their titles.
    axes
        One Axes for each; by default a new figure with one row of panels.
    pair
        With a model: the two datasets, by default the first pair that was aligned.

    Returns
    -------
    axes
        One for each matrix.
    """
    if isinstance(matrices, HarmonicAlignment):
        matrices, known = _matrices_of(matrices, pair)
        titles = known if titles is None else titles
    elif pair is not None:
        raise ValueError("pair chooses among the pairs of a model; drop it, or pass the model")
    panels = [np.asarray(check_rows(f"matrices[{i}]", m)) for i, m in numbered(matrices)]
    if titles is not None and len(titles) != len(panels):
        raise ValueError(f"titles has {len(titles)} entries for {len(panels)} matrices; pass one for each")
    drawn = row_of_axes(axes, len(panels))
    for i, (ax, matrix) in enumerate(zip(drawn, panels, strict=True)):
        # A few large entries would leave the rest white: clip the top half percent, and say so on the bar.
        size = np.abs(matrix)
        limit = float(np.quantile(size[size > 0], 0.995)) if size.any() else 1.0
        clipped = bool(size.max() > 1.01 * limit)
        image = ax.imshow(
            matrix, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest", aspect="equal"
        )
        bar = ax.figure.colorbar(image, ax=ax, shrink=0.75, extend="both" if clipped else "neither")
        bar.outline.set_visible(False)
        ax.set_xlabel("harmonic of Y (j)")
        ax.set_ylabel("harmonic of X (i)")
        if titles is not None:
            ax.set_title(titles[i])
    return drawn


def _matrices_of(
    model: HarmonicAlignment, pair: tuple[Hashable, Hashable] | None
) -> tuple[list[MatrixLike], list[str]]:
    """Correlation and rotation between two datasets of a model, and titles."""
    known = sorted(model.alignment_.pairs)
    if not known:
        raise ValueError("the model holds one dataset, so nothing is correlated; fit two or more")
    if pair is None:
        chosen = known[0]
    else:
        i, j = sorted(model.fitted_.position(key) for key in pair)
        chosen = i, j
    if chosen not in known:
        names = ", ".join(f"({model.keys_[i]!r}, {model.keys_[j]!r})" for i, j in known)
        raise ValueError(f"pair {pair!r} was not aligned directly; the pairs are {names}")
    found = model.alignment_.pairs[chosen]
    x, y = (str(model.keys_[k]) for k in chosen)
    return [found.correlation, found.rotation], [f"correlation of {x} and {y}", "rotation"]
