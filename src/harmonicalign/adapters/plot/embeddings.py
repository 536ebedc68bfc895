"""Rows of all datasets in two dimensions: one panel, or before and after alignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from harmonicalign._typing import Array, ArrayLike, Labels, MatrixLike
from harmonicalign.adapters.plot.checks import names_of, numbered, per_dataset, vector
from harmonicalign.adapters.plot.drawing import (
    GREY,
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
from harmonicalign.inputs.validate import check_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


__all__ = ["before_after", "embedding"]


def embedding(
    coords_list: Sequence[MatrixLike],
    labels: Sequence[Labels] | None = None,
    values: Sequence[ArrayLike] | None = None,
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
    coords = [np.asarray(check_rows(f"coords_list[{i}]", c)) for i, c in numbered(coords_list)]
    widths = sorted({c.shape[1] for c in coords})
    if len(widths) > 1:
        raise ValueError(f"coords_list has datasets of {widths} columns; one panel needs one space")
    names = names_of(names, len(coords))
    points, what = project(coords)
    ax = one_axes(ax)
    if values is not None:
        _by_value(
            ax, points, [vector(f"values[{i}]", v) for i, v in per_dataset("values", values, coords)], names
        )
    elif labels is not None:
        _by_label(ax, points, [np.asarray(c) for _, c in per_dataset("labels", labels, coords)], names)
    else:
        _by_dataset(ax, points, names)
    ax.set_xlabel(f"{what} 1")
    ax.set_ylabel(f"{what} 2")
    ax.set_xticks([])
    ax.set_yticks([])
    tidy(ax, grid=False)
    if title is not None:
        ax.set_title(title)
    return ax


def _by_value(ax: Axes, points: list[Array], values: list[Array], names: list[str]) -> None:
    """Colours on a continuous scale."""
    image = scatter(ax, points, values, cmap="viridis")
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.outline.set_visible(False)
    legend_beside(ax, names, [GREY] * len(names), MARKERS, "dataset")


def _by_label(ax: Axes, points: list[Array], labels: list[Array], names: list[str]) -> None:
    """One colour for every label, the commonest first where there are many."""
    # Numbers sort as numbers, anything else as text.
    if any(c.dtype.kind not in "iu" for c in labels):
        labels = [c.astype(str) for c in labels]
    found, counts = np.unique(np.concatenate(labels), return_counts=True)
    shown = found if len(found) <= 10 else found[np.argsort(-counts, kind="stable")]
    palette = dict(zip(shown.tolist(), first_colours(len(shown)), strict=True))
    scatter(ax, points, [np.array([palette[label] for label in c.tolist()]) for c in labels])
    legend_beside(ax, [str(label) for label in shown], list(palette.values()), ("o",), "label", names)


def _by_dataset(ax: Axes, points: list[Array], names: list[str]) -> None:
    """One colour for every dataset."""
    palette = first_colours(len(points))
    scatter(ax, points, [np.full(len(p), palette[i]) for i, p in enumerate(points)])
    legend_beside(ax, names, palette, MARKERS, "dataset")


def before_after(
    before: Sequence[MatrixLike],
    after: Sequence[MatrixLike],
    labels: Sequence[Labels] | None = None,
    values: Sequence[ArrayLike] | None = None,
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
    coords = [np.asarray(check_rows(f"before[{i}]", c)) for i, c in numbered(before)]
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
