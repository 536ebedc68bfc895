"""Quality of an alignment: weights of features, confidence of rows, errors of methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harmonicalign._typing import ArrayLike
from harmonicalign.adapters.plot.checks import names_of, numbered, vector
from harmonicalign.adapters.plot.drawing import COLOURS, GREY, LINES, MARKERS, one_axes, short, tidy
from harmonicalign.adapters.plot.subjects import Drawable, confidence_of, weights_of
from harmonicalign.estimator import HarmonicAlignment
from harmonicalign.inputs.validate import check_integer

if TYPE_CHECKING:
    from anndata import AnnData
    from matplotlib.axes import Axes


__all__ = ["alignment_error", "confidence", "feature_weights"]


def feature_weights(
    weights: ArrayLike | HarmonicAlignment | AnnData,
    names: Sequence[str] | None = None,
    top: int = 30,
    ax: Axes | None = None,
    *,
    alignment: str = "harmonic",
) -> Axes:
    """The features that correspond most, by learned weight.

    Parameters
    ----------
    weights
        (s,), a weight per feature; or a fitted model, or an AnnData that `harmonicalign.scverse.align`
        annotated.
    names
        Names of the features, by default those that a model or AnnData knows.
    top
        How many to show.
    ax
        Where to draw; by default a new figure, tall enough.
    alignment
        With AnnData: the `key_added` of `align`.
    """
    weights, known = weights_of(weights, alignment)
    names = known if names is None else names
    values = vector("weights", weights)
    top = min(check_integer("top", top, minimum=1), len(values))
    names = names_of(names, len(values), "feature", "weights")
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
    values_list: Drawable,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
    *,
    alignment: str = "harmonic",
) -> Axes:
    """Confidence of the rows of each dataset: share of rows against confidence.

    Parameters
    ----------
    values_list
        A fitted model; AnnData that `harmonicalign.scverse.align` annotated; or the confidence of the rows of
        each dataset, between 0 and 1.
    names
        Names of the datasets, by default those that a model or AnnData knows.
    ax
        Where to draw; by default a new figure.
    alignment
        With AnnData: the `key_added` of `align`.
    """
    given, names = confidence_of(values_list, names, alignment)
    values = [vector(f"values_list[{i}]", v) for i, v in numbered(given)]
    for i, v in enumerate(values):
        if v.min() < 0 or v.max() > 1:
            raise ValueError(
                f"values_list[{i}] runs from {v.min():g} to {v.max():g}; confidence lies in [0, 1]"
            )
    names = names_of(names, len(values))
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
    x: ArrayLike,
    errors: Mapping[str, ArrayLike],
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
