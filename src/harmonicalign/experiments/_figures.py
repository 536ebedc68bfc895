"""Shared by the figures of the experiments: colour and marker of every method, curves with bands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harmonicalign.experiments._tables import Row, summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["LABELS", "curve", "figure", "finish", "label", "methods_in", "shade", "style"]

LABELS = {
    "default": "harmonicalign, default",
    "paper": "paper",
    "mnn": "MNN",
    "magan": "MAGAN",
    "wang": "Wang & Mahadevan",
    "harmony": "Harmony",
    "scanorama": "Scanorama",
    "none": "unaligned",
    "shape": "harmonicalign, by shape",
    "chance": "chance",
    "procrustes": "known pairs (Procrustes)",
}
_COLOURS = {
    "default": "#D55E00",
    "paper": "#0072B2",
    "mnn": "#009E73",
    "magan": "#CC79A7",
    "wang": "#7A5195",
    "harmony": "#E69F00",
    "scanorama": "#56B4E9",
    "none": "#666666",
    "shape": "#F0A07A",
    "chance": "#A0A0A0",
    "procrustes": "#000000",
}
_MARKERS = {
    "default": "o",
    "paper": "s",
    "mnn": "^",
    "magan": "D",
    "wang": "v",
    "none": "x",
    "shape": "p",
    "procrustes": "+",
}
# One method with several settings: shades of blue, with different markers and dashes.
_SHADES = ("#9ECAE1", "#56B4E9", "#0072B2", "#003B5C", "#7A5195")
_SHADE_MARKERS = ("P", "^", "s", "X", "h")


def figure(n_rows: int = 1, n_columns: int = 1, size: tuple[float, float] = (7.2, 4.6)) -> tuple[Figure, Any]:
    """A figure without a window, and an array of its axes."""
    try:
        from matplotlib.figure import Figure as New
    except ImportError as error:
        raise ImportError(
            'the figures need matplotlib: install it with pip install "harmonicalign[report]"'
        ) from error
    fig = New(figsize=size, layout="constrained")
    return fig, fig.subplots(n_rows, n_columns, squeeze=False)


def style(method: str) -> dict[str, Any]:
    """Colour, marker and dashes of a method."""
    line = ":" if method == "chance" else "--" if method in ("none", "procrustes") else "-"
    return {
        "color": _COLOURS.get(method, "#8C564B"),
        "marker": _MARKERS.get(method, "" if method == "chance" else "."),
        "linestyle": line,
    }


def shade(number: int) -> dict[str, Any]:
    """Colour, marker and dashes of one of several settings of a method."""
    i = number % len(_SHADES)
    return {
        "color": _SHADES[i],
        "marker": _SHADE_MARKERS[i],
        "linestyle": "-" if i == 2 else (0, (5, 1 + i)),
    }


def label(method: str) -> str:
    """Name of a method in a legend."""
    return LABELS.get(method, method)


def curve(
    ax: Axes,
    rows: Sequence[Row],
    x: str,
    y: str,
    *,
    name: str = "",
    look: dict[str, Any] | None = None,
    scale: float = 1.0,
) -> None:
    """Mean of `y` over the lines with equal `x`, with a band of one standard deviation on each side."""
    table = sorted(summarise(rows, (x,), (y,)), key=lambda line: line[x])
    if not table:
        return
    at = np.array([line[x] for line in table], dtype=float)
    mean = scale * np.array([line[f"{y}_mean"] for line in table])
    spread = scale * np.array([line[f"{y}_sd"] or 0.0 for line in table])
    look = {"linewidth": 1.8, "markersize": 5, **(look or {})}
    ax.plot(at, mean, label=name or None, **look)
    ax.fill_between(at, mean - spread, mean + spread, color=look.get("color"), alpha=0.16, linewidth=0)


def methods_in(rows: Iterable[Row]) -> list[str]:
    """Methods that occur, in the order of the legend."""
    present = list(dict.fromkeys(row["method"] for row in rows))
    order = list(LABELS)
    return sorted(present, key=lambda m: order.index(m) if m in order else 1.5)


def finish(
    ax: Axes,
    xlabel: str,
    ylabel: str,
    *,
    title: str = "",
    legend: bool | str = True,
    **limits: object,
) -> None:
    """Labels, a light grid, and a legend, beside the curves if it would cover them."""
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title, **limits)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(color="#E5E5E5", linewidth=0.8)
    ax.set_axisbelow(True)
    if legend == "beside":
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    elif legend:
        ax.legend(frameon=False, fontsize=9)
