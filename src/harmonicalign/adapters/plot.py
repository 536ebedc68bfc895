"""Pictures of an alignment: spectra, correlations, embeddings, weights, confidence, errors.

Every function takes plain arrays, draws into the Axes it is given (or a figure of its own) and returns the
Axes. matplotlib is imported when something is drawn. Colours are those of Okabe and Ito, which colour-blind
readers can tell apart; datasets also differ by marker or line style.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.adapters.drawing import (
    COLOURS,
    GREY,
    LINES,
    MARKERS,
    first_colours,
    grid_of_axes,
    legend_beside,
    one_axes,
    project,
    row_of_axes,
    scatter,
    short,
    tidy,
    unit_spread,
)
from harmonicalign.inputs.validate import check_integer, check_rows
from harmonicalign.paper.bands import itersine_windows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "alignment_error",
    "before_after",
    "confidence",
    "correlation",
    "embedding",
    "feature_weights",
    "spectrum",
]


def spectrum(
    eigenvalues_list: Sequence[Any],
    n_bands: int = 8,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
) -> Axes:
    r"""Eigenvalues of every dataset, over the windows that decide which of them are compared.

    Each dataset is a curve of rank against eigenvalue λ. Behind them stand the itersine windows
    :math:`w_ξ(λ) = \sin(\frac π2 \cos^2(\frac π2 (ℓλ − ξ)))`, scale on the right. Where the curves lie far
    apart at one rank, the datasets run at different speeds and bands compare unlike harmonics.

    Parameters
    ----------
    eigenvalues_list
        Eigenvalues of each dataset, in any order.
    n_bands
        The number ℓ of bands.
    ax
        Where to draw; by default a new figure.
    names
        Names of the datasets.
    """
    n_bands = check_integer("n_bands", n_bands, minimum=1)
    spectra = [np.sort(_vector(f"eigenvalues_list[{i}]", v))[::-1] for i, v in _enumerate(eigenvalues_list)]
    names = _names(names, len(spectra))
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
    # Where the spectrum reaches decides which corner is free.
    reach = max(float(values[0]) for values in spectra)
    ax.legend(title="dataset (harmonics)", loc="upper right" if reach < 0.6 else "lower left", framealpha=0.9)
    return ax


def correlation(
    matrices: Sequence[Any], titles: Sequence[str] | None = None, axes: Sequence[Axes] | None = None
) -> list[Axes]:
    """Matrices of harmonics against harmonics, with zero white: correlation, band-limited, rotation.

    Parameters
    ----------
    matrices
        Matrices (k_x, k_y), such as the correlation before and after band-limiting and the rotation T.
    titles
        Their titles.
    axes
        One Axes for each; by default a new figure with one row of panels.

    Returns
    -------
    axes
        One for each matrix.
    """
    panels = [np.asarray(check_rows(f"matrices[{i}]", m)) for i, m in _enumerate(matrices)]
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


def embedding(
    coords_list: Sequence[Any],
    labels: Sequence[Any] | None = None,
    values: Sequence[Any] | None = None,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Axes:
    """All datasets in one scatter plot, coloured by dataset, label or value.

    More than two columns are projected to the first two principal components of all rows together. Rows are
    drawn interleaved, so that no dataset covers another.

    Parameters
    ----------
    coords_list
        Coordinates of each dataset, of one width.
    labels
        A label per row of each dataset, for colours; commonest first in the legend.
    values
        A number per row of each dataset, for a continuous scale. Give ``labels`` or ``values`` or neither.
    ax
        Where to draw; by default a new figure.
    names
        Names of the datasets.
    title
        Title of the panel.
    """
    if labels is not None and values is not None:
        raise ValueError("labels and values are both given; colour by one of them")
    coords = [np.asarray(check_rows(f"coords_list[{i}]", c)) for i, c in _enumerate(coords_list)]
    widths = sorted({c.shape[1] for c in coords})
    if len(widths) > 1:
        raise ValueError(f"coords_list has datasets of {widths} columns; one panel needs one space")
    names = _names(names, len(coords))
    points, what = project(coords)
    ax = one_axes(ax)
    if values is not None:
        colours = [_vector(f"values[{i}]", v) for i, v in _per_dataset("values", values, coords)]
        image = scatter(ax, points, colours, cmap="viridis")
        bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
        bar.outline.set_visible(False)
        legend_beside(ax, names, [GREY] * len(names), MARKERS, "dataset")
    elif labels is not None:
        given = [np.asarray(c) for _, c in _per_dataset("labels", labels, coords)]
        # Numbers sort as numbers, anything else as text.
        if any(c.dtype.kind not in "iu" for c in given):
            given = [c.astype(str) for c in given]
        kinds, counts = np.unique(np.concatenate(given), return_counts=True)
        shown = kinds if len(kinds) <= 10 else kinds[np.argsort(-counts, kind="stable")]
        palette = dict(zip(shown.tolist(), first_colours(len(shown)), strict=True))
        colours = [np.array([palette[label] for label in c.tolist()]) for c in given]
        scatter(ax, points, colours)
        legend_beside(ax, [str(label) for label in shown], list(palette.values()), ("o",), "label", names)
    else:
        palette_list = first_colours(len(coords))
        colours = [np.full(len(p), palette_list[i]) for i, p in enumerate(points)]
        scatter(ax, points, colours)
        legend_beside(ax, names, palette_list, MARKERS, "dataset")
    ax.set_xlabel(f"{what} 1")
    ax.set_ylabel(f"{what} 2")
    ax.set_xticks([])
    ax.set_yticks([])
    tidy(ax, grid=False)
    if title is not None:
        ax.set_title(title)
    return ax


def before_after(
    before: Sequence[Any],
    after: Sequence[Any],
    labels: Sequence[Any] | None = None,
    values: Sequence[Any] | None = None,
    axes: Sequence[Axes] | None = None,
    names: Sequence[str] | None = None,
) -> list[Axes]:
    """The datasets before and after alignment: by dataset, and with labels or values by these as well.

    Parameters
    ----------
    before, after
        Coordinates of each dataset. Datasets that have different columns before alignment share no space:
        each is then projected by itself, and the title says so.
    labels, values
        As in :func:`embedding`; they add a second row of panels.
    axes
        Two Axes, or four with labels or values; by default a new figure.
    names
        Names of the datasets.

    Returns
    -------
    axes
        Before and after by dataset, then before and after by label or value.
    """
    coords = [np.asarray(check_rows(f"before[{i}]", c)) for i, c in _enumerate(before)]
    if len(after) != len(coords):
        raise ValueError(f"before has {len(coords)} datasets but after has {len(after)}; pass the same ones")
    apart = len({c.shape[1] for c in coords}) > 1
    if apart:
        coords = [unit_spread(project([c])[0][0]) for c in coords]
    title = "before (each projected by itself)" if apart else "before"
    coloured = labels is not None or values is not None
    panels = grid_of_axes(axes, 2 if coloured else 1)
    embedding(coords, ax=panels[0], names=names, title=title)
    embedding(after, ax=panels[1], names=names, title="after")
    if coloured:
        embedding(coords, labels, values, ax=panels[2], names=names)
        embedding(after, labels, values, ax=panels[3], names=names)
    if apart:
        for ax in panels[::2]:
            ax.set_xlabel("component 1")
            ax.set_ylabel("component 2")
    # One legend at the end of a row serves both panels of it.
    for ax in panels[::2]:
        legend = ax.get_legend()
        if legend is not None:
            legend.remove()
    return panels


def feature_weights(
    weights: Any, names: Sequence[str] | None = None, top: int = 30, ax: Axes | None = None
) -> Axes:
    """The features that correspond most, by learned weight.

    Parameters
    ----------
    weights
        (s,), a weight per feature.
    names
        Names of the features.
    top
        How many to show.
    ax
        Where to draw; by default a new figure, tall enough.
    """
    values = _vector("weights", weights)
    top = min(check_integer("top", top, minimum=1), len(values))
    names = _names(names, len(values), "feature", "weights")
    order = np.argsort(-values, kind="stable")[:top]
    ax = one_axes(ax, (6.0, 1.1 + 0.2 * top))
    rows = np.arange(top)
    ax.hlines(rows, min(0.0, float(values[order].min())), values[order], color="#B3CDE3", linewidth=2.2)
    ax.plot(values[order], rows, "o", color=COLOURS[0], markersize=5)
    ax.axvline(float(np.median(values)), color=GREY, linewidth=1, linestyle="--")
    ax.annotate(
        "median of all",
        (float(np.median(values)), 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(3, 3),
        textcoords="offset points",
        color=GREY,
        fontsize="small",
    )
    ax.set_yticks(rows, [short(str(names[i])) for i in order])
    ax.set_ylim(top - 0.4, -0.6)
    ax.set_xlim(min(0.0, 1.05 * float(values.min())), None)
    ax.set_xlabel("weight")
    shown = "all" if top == len(values) else f"the first {top} of"
    ax.set_title(f"{shown} {len(values)} features", pad=16, fontsize="medium")
    tidy(ax)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    return ax


def confidence(
    values_list: Sequence[Any], names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """How well the rows of each dataset are supported by the others: share of rows against confidence.

    Parameters
    ----------
    values_list
        Confidence of the rows of each dataset, between 0 and 1.
    names
        Names of the datasets.
    ax
        Where to draw; by default a new figure.
    """
    values = [_vector(f"values_list[{i}]", v) for i, v in _enumerate(values_list)]
    for i, v in enumerate(values):
        if v.min() < 0 or v.max() > 1:
            raise ValueError(
                f"values_list[{i}] runs from {v.min():g} to {v.max():g}; confidence lies in [0, 1]"
            )
    names = _names(names, len(values))
    ax = one_axes(ax)
    edges = np.linspace(0, 1, 26)
    for i, (v, name) in enumerate(zip(values, names, strict=True)):
        colour = COLOURS[i % len(COLOURS)]
        share = 100 * np.histogram(v, edges)[0] / len(v)
        ax.stairs(share, edges, fill=True, color=colour, alpha=0.15)
        ax.stairs(
            share,
            edges,
            color=colour,
            linewidth=1.6,
            linestyle=LINES[i % len(LINES)],
            label=f"{name}: median {np.median(v):.2f}",
        )
        ax.plot(
            [np.median(v)],
            [0],
            marker=MARKERS[i % len(MARKERS)],
            color=colour,
            markersize=7,
            clip_on=False,
            zorder=5,
        )
    ax.set_xlim(0, 1)
    ax.set_ylim(0, None)
    ax.set_xlabel("confidence (markers: medians)")
    ax.set_ylabel("rows (%)")
    tidy(ax)
    ax.legend(loc="upper left", frameon=False)
    return ax


def alignment_error(
    x: Any,
    errors: Mapping[str, Any],
    ax: Axes | None = None,
    *,
    chance: float | None = None,
    xlabel: str = "",
    ylabel: str = "alignment error",
) -> Axes:
    """Error of several methods against a setting, with the spread over repeats.

    Parameters
    ----------
    x
        (n,), values of the setting (noise, rows, share of features); or names for it.
    errors
        For each method (n,) errors or (n, repeats): the line is the mean, the band one standard deviation.
    ax
        Where to draw; by default a new figure.
    chance
        Error of a random alignment, drawn as a dotted line.
    xlabel, ylabel
        Names of the axes.
    """
    settings = np.asarray(x)
    if settings.ndim != 1 or settings.size == 0:
        raise ValueError(f"x has shape {settings.shape}; pass one value per setting")
    if not errors:
        raise ValueError("errors is empty; pass a mapping of method to errors")
    places = settings if settings.dtype.kind in "fiu" else np.arange(len(settings))
    ax = one_axes(ax)
    for i, (name, raw) in enumerate(errors.items()):
        values = np.asarray(raw, dtype=np.float64)
        if values.ndim not in (1, 2) or len(values) != len(settings):
            raise ValueError(
                f"errors[{name!r}] has shape {values.shape} for {len(settings)} settings; "
                "pass (settings,) or (settings, repeats)"
            )
        values = values.reshape(len(settings), -1)
        mean, spread = values.mean(axis=1), values.std(axis=1)
        colour = COLOURS[i % len(COLOURS)]
        ax.plot(
            places,
            mean,
            color=colour,
            marker=MARKERS[i % len(MARKERS)],
            linestyle=LINES[i // len(COLOURS) % len(LINES)],
            markersize=5,
            linewidth=1.6,
            label=name,
        )
        if values.shape[1] > 1:
            ax.fill_between(places, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    if chance is not None:
        ax.axhline(chance, color=GREY, linestyle=":", linewidth=1.2, label="chance")
    if settings.dtype.kind not in "fiu":
        ax.set_xticks(places, settings.astype(str).tolist())
    ax.set_ylim(min(0.0, ax.get_ylim()[0]), None)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    tidy(ax)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return ax


# --- checks -------------------------------------------------------------------------------------------------


def _enumerate(items: Any) -> list[tuple[int, Any]]:
    listed = list(items)
    if not listed:
        raise ValueError("there is nothing to draw: the list of arrays is empty")
    return list(enumerate(listed))


def _vector(name: str, values: Any) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"{name} has shape {array.shape}; it must be a list of one or more finite numbers")
    return array


def _names(names: Sequence[str] | None, n: int, kind: str = "dataset", of: str = "the datasets") -> list[str]:
    if names is None:
        return [f"{kind} {i}" for i in range(n)]
    if len(names) != n:
        raise ValueError(f"names has {len(names)} entries but {of} are {n}; pass one for each")
    return [str(name) for name in names]


def _per_dataset(name: str, values: Sequence[Any], coords: list[Array]) -> list[tuple[int, Any]]:
    if len(values) != len(coords):
        raise ValueError(f"{name} has {len(values)} arrays for {len(coords)} datasets; pass one for each")
    for i, (v, c) in enumerate(zip(values, coords, strict=True)):
        if np.shape(v) != (len(c),):
            raise ValueError(f"{name}[{i}] has shape {np.shape(v)} but dataset {i} has {len(c)} rows")
    return list(enumerate(values))
