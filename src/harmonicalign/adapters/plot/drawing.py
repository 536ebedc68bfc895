"""What all plots share: colours, markers, axes, scatters, legends and projections to two columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from harmonicalign._typing import Array, Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COLOURS",
    "GREY",
    "LINES",
    "MARKERS",
    "first_colours",
    "grid_of_axes",
    "legend_beside",
    "one_axes",
    "project",
    "row_of_axes",
    "scatter",
    "short",
    "tidy",
    "unit_spread",
]


# Okabe and Ito (2008), without yellow, which is hard to see on white.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#4D4D4D")
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
GREY = "#7F7F7F"
_MAX_LEGEND = 30


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'drawing needs matplotlib: install it with pip install "harmonicalign[report]"'
        ) from error
    return plt


def one_axes(ax: Axes | None, size: tuple[float, float] = (6.0, 4.2)) -> Axes:
    """The Axes given, or that of a new figure."""
    if ax is not None:
        return ax
    new: Axes = _pyplot().subplots(figsize=size, layout="constrained")[1]
    return new


def row_of_axes(axes: Sequence[Axes] | None, n: int) -> list[Axes]:
    """The n Axes given, or those of a new figure, side by side."""
    if axes is None:
        new = _pyplot().subplots(1, n, figsize=(4.0 * n, 3.6), layout="constrained", squeeze=False)[1]
        return list(new.ravel())
    found: list[Axes] = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(found) != n:
        raise ValueError(f"axes has {len(found)} Axes but {n} are needed")
    return found


def grid_of_axes(axes: Sequence[Axes] | None, n_rows: int) -> list[Axes]:
    """The Axes given, or those of a new figure, two in a row."""
    if axes is None:
        size = (9.4, 4.0 * n_rows)
        new = _pyplot().subplots(n_rows, 2, figsize=size, layout="constrained", squeeze=False)[1]
        return list(new.ravel())
    return row_of_axes(axes, 2 * n_rows)


def tidy(ax: Axes, *, grid: bool = True) -> None:
    """Remove the frame on two sides, and draw a light grid behind the data."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if grid:
        ax.grid(color="#E5E5E5", linewidth=0.8)
        ax.set_axisbelow(True)


def first_colours(n: int) -> list[str]:
    """The first n colours: the palette, then lighter and darker shades of it."""
    from matplotlib.colors import to_hex, to_rgb

    def towards(colour: str, end: float, share: float) -> str:
        red, green, blue = ((1 - share) * c + share * end for c in to_rgb(colour))
        return to_hex((red, green, blue))

    colours = [to_hex(c) for c in COLOURS]
    colours += [towards(c, 1.0, 0.5) for c in COLOURS] + [towards(c, 0.0, 0.45) for c in COLOURS]
    return [colours[i % len(colours)] for i in range(n)]


def scatter(ax: Axes, points: list[Array], colours: list[Array], cmap: str | None = None) -> Any:
    """Scatter plot of all datasets, drawn in alternating slices, each dataset with its own marker."""
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
                    marker=MARKERS[i % len(MARKERS)],
                    alpha=0.75,
                    linewidths=0,
                    rasterized=n > 5000,
                    **limits,
                )
    return image


def legend_beside(
    ax: Axes,
    names: Sequence[str],
    colours: Sequence[str],
    markers: Sequence[str],
    title: str,
    datasets: Sequence[str] = (),
) -> None:
    """A legend beside the panel: the first entries if there are many, then the markers of the datasets."""
    from matplotlib.lines import Line2D

    def entry(label: str, marker: str = "", colour: str = GREY) -> Line2D:
        return Line2D([], [], linestyle="", marker=marker, color=colour, markersize=6, label=short(label))

    handles = [
        entry(name, markers[i % len(markers)], colour)
        for i, (name, colour) in enumerate(zip(names, colours, strict=True))
    ]
    if len(handles) > _MAX_LEGEND:
        handles[_MAX_LEGEND - 1 :] = [entry(f"and {len(handles) - _MAX_LEGEND + 1} more")]
    if len(datasets) > 1:
        handles += [entry(name, MARKERS[i % len(MARKERS)]) for i, name in enumerate(datasets)]
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


def project(coords: list[Matrix]) -> tuple[list[Array], str]:
    """Two columns: as they are, from one column and zeros, or the first principal components of all rows."""
    width = coords[0].shape[1]
    if width <= 2:
        dense = [np.asarray(c.toarray() if sp.issparse(c) else c) for c in coords]
        return [c if width == 2 else np.column_stack([c, np.zeros(len(c))]) for c in dense], "coordinate"
    sparse = any(map(sp.issparse, coords))
    stacked = sp.vstack(coords, format="csr") if sparse else np.concatenate(coords)
    stacked = stacked.astype(np.float64)
    mean = np.asarray(stacked.mean(axis=0)).ravel()
    square = stacked.T @ stacked
    square = (square.toarray() if sparse else square) - stacked.shape[0] * np.outer(mean, mean)
    axes = eigh(square, subset_by_index=[width - 2, width - 1])[1][:, ::-1]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    ends = np.cumsum([c.shape[0] for c in coords])[:-1]
    return np.split(np.asarray(stacked @ axes) - mean @ axes, ends), "principal component"


def unit_spread(points: Array) -> Array:
    """Points centred and scaled to mean square one."""
    points = points - points.mean(axis=0)
    return np.asarray(points / (np.sqrt((points**2).mean()) or 1.0))


def short(name: str, length: int = 28) -> str:
    """A name cut to a length that a legend can show."""
    return name if len(name) <= length else name[: length - 1] + "…"
