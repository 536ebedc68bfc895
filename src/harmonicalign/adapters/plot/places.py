"""Rows in aligned coordinates: where they are, and how far from their counterparts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
    scatter,
    tidy,
    unit_spread,
)
from harmonicalign.adapters.plot.checks import enumerated, names_of, per_dataset, vector
from harmonicalign.inputs.validate import check_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["alignment_error", "before_after", "embedding"]


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
    coords = [np.asarray(check_rows(f"coords_list[{i}]", c)) for i, c in enumerated(coords_list)]
    widths = sorted({c.shape[1] for c in coords})
    if len(widths) > 1:
        raise ValueError(f"coords_list has datasets of {widths} columns; one panel needs one space")
    names = names_of(names, len(coords))
    points, what = project(coords)
    ax = one_axes(ax)
    if values is not None:
        colours = [vector(f"values[{i}]", v) for i, v in per_dataset("values", values, coords)]
        image = scatter(ax, points, colours, cmap="viridis")
        bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
        bar.outline.set_visible(False)
        legend_beside(ax, names, [GREY] * len(names), MARKERS, "dataset")
    elif labels is not None:
        given = [np.asarray(c) for _, c in per_dataset("labels", labels, coords)]
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
    coords = [np.asarray(check_rows(f"before[{i}]", c)) for i, c in enumerated(before)]
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
