"""Rows of all datasets in two dimensions: one panel, or before and after alignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, ArrayLike, Labels, Matrix, MatrixLike
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
from harmonicalign.adapters.plot.subjects import (
    Drawable,
    PerRow,
    coordinates_of,
    is_annotated,
    per_row,
    starting_point,
)
from harmonicalign.estimator import HarmonicAlignment
from harmonicalign.inputs.validate import check_data, check_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


__all__ = ["before_after", "embedding"]


def embedding(
    coords_list: Drawable,
    labels: PerRow[Labels] = None,
    values: PerRow[ArrayLike] = None,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    *,
    basis: str | None = None,
    alignment: str = "harmonic",
) -> Axes:
    """All datasets in one scatter plot, coloured by dataset, label or value.

    More than two columns are projected to the first two principal components of all rows together. Rows are
    drawn interleaved, so that no dataset covers another.

    Parameters
    ----------
    coords_list
        A fitted model; AnnData (one, several, or a MuData) that `harmonicalign.scverse.align` annotated; or
        coordinates of each dataset, of one width, in a list or a dict.
    labels
        A label per row of each dataset, for colours; commonest first in the legend. With AnnData the name
        of a column of obs.
    values
        A number per row of each dataset, for a continuous scale; or the name of a column of obs. Give
        ``labels`` or ``values`` or neither.
    ax
        Where to draw; by default a new figure.
    names
        Names of the datasets, by default those that a model or AnnData knows.
    title
        Title of the panel.
    basis
        With AnnData: another entry of obsm to draw, such as "X_umap".
    alignment
        With AnnData: the `key_added` of `align`.
    """
    if labels is not None and values is not None:
        raise ValueError("labels and values are both given; colour by one of them")
    classes, numbers = (per_row(coords_list, given, alignment) for given in (labels, values))
    coords_list, names = coordinates_of(coords_list, names, alignment, basis)
    coords = [_rows(f"coords_list[{i}]", c) for i, c in numbered(coords_list)]
    widths = sorted({c.shape[1] for c in coords})
    if len(widths) > 1:
        raise ValueError(f"coords_list has datasets of {widths} columns; one panel needs one space")
    names = names_of(names, len(coords))
    points, what = project(coords)
    ax = one_axes(ax)
    if numbers is not None:
        _by_value(
            ax, points, [vector(f"values[{i}]", v) for i, v in per_dataset("values", numbers, coords)], names
        )
    elif classes is not None:
        _by_label(ax, points, [np.asarray(c) for _, c in per_dataset("labels", classes, coords)], names)
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


def _rows(name: str, x: MatrixLike) -> Matrix:
    """Rows of finite numbers, dense or sparse."""
    return check_data(name, x) if sp.issparse(x) else np.asarray(check_rows(name, x))


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
    before: Drawable,
    after: Drawable | None = None,
    labels: PerRow[Labels] = None,
    values: PerRow[ArrayLike] = None,
    axes: Sequence[Axes] | None = None,
    names: Sequence[str] | None = None,
    *,
    alignment: str = "harmonic",
) -> list[Axes]:
    """The datasets before and after alignment: by dataset, and with labels or values by these as well.

    Parameters
    ----------
    before, after
        A fitted model or annotated AnnData alone; or two of what :func:`embedding` takes. Datasets that have
        different columns before alignment share no space: each is then projected by itself, and the title
        says so. Before alignment a model is drawn by its signals, AnnData by ``obsm["X_pca"]`` or else the
        variables that were compared.
    labels, values
        As in :func:`embedding`; they add a second row of panels.
    axes
        Two Axes, or four with labels or values; by default a new figure.
    names
        Names of the datasets, by default those that a model or AnnData knows.
    alignment
        With AnnData: the `key_added` of `align`.

    Returns
    -------
    axes
        Before and after by dataset, then before and after by label or value.
    """
    if after is None:
        if not (isinstance(before, HarmonicAlignment) or is_annotated(before)):
            raise ValueError("after is missing; only a fitted model or annotated AnnData can be drawn alone")
        before, after = starting_point(before, alignment), before
    classes, numbers = (per_row(after, given, alignment) for given in (labels, values))
    after, names = coordinates_of(after, names, alignment)
    before, _ = coordinates_of(before, names, alignment)
    coords = [_rows(f"before[{i}]", c) for i, c in numbered(before)]
    if len(after) != len(coords):
        raise ValueError(f"before has {len(coords)} datasets but after has {len(after)}; pass the same ones")
    apart = len({c.shape[1] for c in coords}) > 1
    if apart:
        coords = [unit_spread(project([c])[0][0]) for c in coords]
    title = "before (each projected by itself)" if apart else "before"
    coloured = classes is not None or numbers is not None
    panels = grid_of_axes(axes, 2 if coloured else 1)
    embedding(coords, ax=panels[0], names=names, title=title)
    embedding(after, ax=panels[1], names=names, title="after")
    if coloured:
        embedding(coords, classes, numbers, ax=panels[2], names=names)
        embedding(after, classes, numbers, ax=panels[3], names=names)
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
