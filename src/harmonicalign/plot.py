"""Pictures of an alignment: spectra, correlations, embeddings, weights, confidence, errors.

Every function takes plain arrays, draws into the Axes it is given (or a figure of its own) and returns the
Axes. matplotlib is imported when something is drawn. Colours are those of Okabe and Ito, which colour-blind
readers can tell apart; datasets also differ by marker or line style.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harmonicalign._validation import check_integer, check_rows
from harmonicalign.bands import itersine_windows

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

Array = np.ndarray[Any, Any]

# Okabe and Ito (2008), the yellow left out: it vanishes on white.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#4D4D4D")
_MARKERS = ("o", "^", "s", "D", "v", "P", "X")
_LINES = ("-", "--", "-.", ":")
_GREY = "#7F7F7F"
_MAX_LEGEND = 30


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
    ax = _axes(ax)

    grid = np.linspace(0, 1, 801)
    right = ax.twinx()
    right.set_zorder(ax.get_zorder() - 1)
    ax.patch.set_visible(False)
    right.patch.set_visible(True)
    for band, window in enumerate(itersine_windows(grid, n_bands)):
        shade = "#DCE6F2" if band % 2 else "#E8E8E8"
        right.fill_between(grid, window, color=shade, alpha=0.55, linewidth=0)
        right.plot(grid, window, color=_GREY, linewidth=0.7)
    right.set_ylim(0, 1.08)
    right.set_ylabel(f"window weight (ℓ = {n_bands} bands)", color=_GREY)
    right.tick_params(axis="y", colors=_GREY)
    for side in ("top", "left"):
        right.spines[side].set_visible(False)

    for i, (values, name) in enumerate(zip(spectra, names, strict=True)):
        ax.plot(
            values,
            np.arange(1, len(values) + 1),
            color=_COLOURS[i % len(_COLOURS)],
            linestyle=_LINES[i % len(_LINES)],
            marker=_MARKERS[i % len(_MARKERS)],
            markersize=3.5,
            linewidth=1.4,
            label=f"{name} ({len(values)})",
        )
    lowest = min(0.0, *(float(values[-1]) for values in spectra))
    ax.set_xlim(lowest - 0.01, 1.01)
    ax.set_ylim(0, 1.08 * max(len(values) for values in spectra))
    ax.set_xlabel("eigenvalue λ (low frequency on the right)")
    ax.set_ylabel("harmonic (rank)")
    _tidy(ax, grid=False)
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
    drawn = _row_of_axes(axes, len(panels))
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
    points, what = _project(coords)
    ax = _axes(ax)
    if values is not None:
        colours = [_vector(f"values[{i}]", v) for i, v in _per_dataset("values", values, coords)]
        image = _scatter(ax, points, colours, cmap="viridis")
        bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
        bar.outline.set_visible(False)
        _legend(ax, names, [_GREY] * len(names), _MARKERS, "dataset")
    elif labels is not None:
        given = [np.asarray(c) for _, c in _per_dataset("labels", labels, coords)]
        # Numbers sort as numbers, anything else as text.
        if any(c.dtype.kind not in "iu" for c in given):
            given = [c.astype(str) for c in given]
        kinds, counts = np.unique(np.concatenate(given), return_counts=True)
        shown = kinds if len(kinds) <= 10 else kinds[np.argsort(-counts, kind="stable")]
        palette = dict(zip(shown.tolist(), _palette(len(shown)), strict=True))
        colours = [np.array([palette[label] for label in c.tolist()]) for c in given]
        _scatter(ax, points, colours)
        _legend(ax, [str(label) for label in shown], list(palette.values()), ("o",), "label", names)
    else:
        palette_list = _palette(len(coords))
        colours = [np.full(len(p), palette_list[i]) for i, p in enumerate(points)]
        _scatter(ax, points, colours)
        _legend(ax, names, palette_list, _MARKERS, "dataset")
    ax.set_xlabel(f"{what} 1")
    ax.set_ylabel(f"{what} 2")
    ax.set_xticks([])
    ax.set_yticks([])
    _tidy(ax, grid=False)
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
        coords = [_unit_spread(_project([c])[0][0]) for c in coords]
    title = "before (each projected by itself)" if apart else "before"
    coloured = labels is not None or values is not None
    panels = _grid_of_axes(axes, 2 if coloured else 1)
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
    ax = _axes(ax, (6.0, 1.1 + 0.2 * top))
    rows = np.arange(top)
    ax.hlines(rows, min(0.0, float(values[order].min())), values[order], color="#B3CDE3", linewidth=2.2)
    ax.plot(values[order], rows, "o", color=_COLOURS[0], markersize=5)
    ax.axvline(float(np.median(values)), color=_GREY, linewidth=1, linestyle="--")
    ax.annotate(
        "median of all",
        (float(np.median(values)), 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(3, 3),
        textcoords="offset points",
        color=_GREY,
        fontsize="small",
    )
    ax.set_yticks(rows, [_short(str(names[i])) for i in order])
    ax.set_ylim(top - 0.4, -0.6)
    ax.set_xlim(min(0.0, 1.05 * float(values.min())), None)
    ax.set_xlabel("weight")
    shown = "all" if top == len(values) else f"the first {top} of"
    ax.set_title(f"{shown} {len(values)} features", pad=16, fontsize="medium")
    _tidy(ax)
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
    ax = _axes(ax)
    edges = np.linspace(0, 1, 26)
    for i, (v, name) in enumerate(zip(values, names, strict=True)):
        colour = _COLOURS[i % len(_COLOURS)]
        share = 100 * np.histogram(v, edges)[0] / len(v)
        ax.stairs(share, edges, fill=True, color=colour, alpha=0.15)
        ax.stairs(
            share,
            edges,
            color=colour,
            linewidth=1.6,
            linestyle=_LINES[i % len(_LINES)],
            label=f"{name}: median {np.median(v):.2f}",
        )
        ax.plot(
            [np.median(v)],
            [0],
            marker=_MARKERS[i % len(_MARKERS)],
            color=colour,
            markersize=7,
            clip_on=False,
            zorder=5,
        )
    ax.set_xlim(0, 1)
    ax.set_ylim(0, None)
    ax.set_xlabel("confidence (markers: medians)")
    ax.set_ylabel("rows (%)")
    _tidy(ax)
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
    ax = _axes(ax)
    for i, (name, raw) in enumerate(errors.items()):
        values = np.asarray(raw, dtype=np.float64)
        if values.ndim not in (1, 2) or len(values) != len(settings):
            raise ValueError(
                f"errors[{name!r}] has shape {values.shape} for {len(settings)} settings; "
                "pass (settings,) or (settings, repeats)"
            )
        values = values.reshape(len(settings), -1)
        mean, spread = values.mean(axis=1), values.std(axis=1)
        colour = _COLOURS[i % len(_COLOURS)]
        ax.plot(
            places,
            mean,
            color=colour,
            marker=_MARKERS[i % len(_MARKERS)],
            linestyle=_LINES[i // len(_COLOURS) % len(_LINES)],
            markersize=5,
            linewidth=1.6,
            label=name,
        )
        if values.shape[1] > 1:
            ax.fill_between(places, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    if chance is not None:
        ax.axhline(chance, color=_GREY, linestyle=":", linewidth=1.2, label="chance")
    if settings.dtype.kind not in "fiu":
        ax.set_xticks(places, settings.astype(str).tolist())
    ax.set_ylim(min(0.0, ax.get_ylim()[0]), None)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    _tidy(ax)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return ax


# --- machinery ----------------------------------------------------------------------------------------------


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'drawing needs matplotlib: install it with pip install "harmonicalign[report]"'
        ) from error
    return plt


def _axes(ax: Axes | None, size: tuple[float, float] = (6.0, 4.2)) -> Axes:
    if ax is not None:
        return ax
    new: Axes = _pyplot().subplots(figsize=size, layout="constrained")[1]
    return new


def _row_of_axes(axes: Sequence[Axes] | None, n: int) -> list[Axes]:
    if axes is None:
        new = _pyplot().subplots(1, n, figsize=(4.0 * n, 3.6), layout="constrained", squeeze=False)[1]
        return list(new.ravel())
    found: list[Axes] = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(found) != n:
        raise ValueError(f"axes has {len(found)} Axes but {n} are needed")
    return found


def _grid_of_axes(axes: Sequence[Axes] | None, n_rows: int) -> list[Axes]:
    if axes is None:
        size = (9.4, 4.0 * n_rows)
        new = _pyplot().subplots(n_rows, 2, figsize=size, layout="constrained", squeeze=False)[1]
        return list(new.ravel())
    return _row_of_axes(axes, 2 * n_rows)


def _tidy(ax: Axes, *, grid: bool = True) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if grid:
        ax.grid(color="#E5E5E5", linewidth=0.8)
        ax.set_axisbelow(True)


def _palette(n: int) -> list[str]:
    """The n first colours: the palette, then lighter and darker forms of it."""
    from matplotlib.colors import to_hex, to_rgb

    def towards(colour: str, end: float, share: float) -> str:
        red, green, blue = ((1 - share) * c + share * end for c in to_rgb(colour))
        return to_hex((red, green, blue))

    colours = [to_hex(c) for c in _COLOURS]
    colours += [towards(c, 1.0, 0.5) for c in _COLOURS] + [towards(c, 0.0, 0.45) for c in _COLOURS]
    return [colours[i % len(colours)] for i in range(n)]


def _scatter(ax: Axes, points: list[Array], colours: list[Array], cmap: str | None = None) -> Any:
    """Datasets in slices, in turn, each with its marker."""
    n = sum(len(p) for p in points)
    size = float(np.clip(9000 / n, 2.0, 28.0))
    limits: dict[str, Any] = {}
    if cmap is not None:
        pooled = np.concatenate(colours)
        limits = {"cmap": cmap, "vmin": float(pooled.min()), "vmax": float(pooled.max())}
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(p)) for p in points]
    slices, image = 8, None
    for part in range(slices):
        for i, (p, c, order) in enumerate(zip(points, colours, orders, strict=True)):
            rows = order[part::slices]
            if len(rows):
                image = ax.scatter(
                    p[rows, 0],
                    p[rows, 1],
                    c=c[rows],
                    s=size,
                    marker=_MARKERS[i % len(_MARKERS)],
                    alpha=0.75,
                    linewidths=0,
                    rasterized=n > 5000,
                    **limits,
                )
    return image


def _legend(
    ax: Axes,
    names: Sequence[str],
    colours: Sequence[str],
    markers: Sequence[str],
    title: str,
    datasets: Sequence[str] = (),
) -> None:
    """A legend beside the panel; of very many entries the first, then the markers of the datasets."""
    from matplotlib.lines import Line2D

    def entry(label: str, marker: str = "", colour: str = _GREY) -> Line2D:
        return Line2D([], [], linestyle="", marker=marker, color=colour, markersize=6, label=_short(label))

    handles = [
        entry(name, markers[i % len(markers)], colour)
        for i, (name, colour) in enumerate(zip(names, colours, strict=True))
    ]
    if len(handles) > _MAX_LEGEND:
        handles[_MAX_LEGEND - 1 :] = [entry(f"and {len(handles) - _MAX_LEGEND + 1} more")]
    if len(datasets) > 1:
        handles += [entry(name, _MARKERS[i % len(_MARKERS)]) for i, name in enumerate(datasets)]
    ax.legend(
        handles=handles,
        title=title,
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        ncols=1 if len(handles) <= 15 else 2,
        frameon=False,
        fontsize="small",
        handletextpad=0.3,
        columnspacing=0.8,
    )


def _project(coords: list[Array]) -> tuple[list[Array], str]:
    """Two columns as they are; more by principal components of all rows; one beside zeros."""
    width = coords[0].shape[1]
    if width == 2:
        return coords, "coordinate"
    if width == 1:
        return [np.column_stack([c, np.zeros(len(c))]) for c in coords], "coordinate"
    stacked = np.concatenate(coords).astype(np.float64)
    stacked -= stacked.mean(axis=0)
    axes = np.linalg.svd(stacked.T @ stacked)[0][:, :2]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    ends = np.cumsum([len(c) for c in coords])[:-1]
    return np.split(stacked @ axes, ends), "principal component"


def _unit_spread(points: Array) -> Array:
    points = points - points.mean(axis=0)
    return np.asarray(points / (np.sqrt((points**2).mean()) or 1.0))


def _short(name: str, length: int = 28) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


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
