"""MAGAN's training curves: kept with a cell, drawn and tabulated at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from harmonicalign.experiments._figures import figure, finish
from harmonicalign.experiments._methods import Embedded
from harmonicalign.experiments._runner import Cell

__all__ = ["keep_curves", "training_outputs"]

_POINTS = 100  # points per curve, each the mean over a part of the training


def keep_curves(found: Embedded) -> dict[str, Any]:
    """The curves of one training, thinned; nothing for other methods."""
    if found.curves is None:
        return {}
    length = len(next(iter(found.curves.values())))
    ends = np.unique(np.linspace(0, length, min(_POINTS, length) + 1).astype(int))
    means = {
        loss: [round(float(part.mean()), 5) for part in np.split(values, ends[1:-1])]
        for loss, values in found.curves.items()
    }
    return {"iteration": ends[1:].tolist(), "curves": means}


def training_outputs(extras: list[tuple[Cell, dict[str, Any]]], by: str) -> dict[str, Any]:
    """Figure and table of all trainings, coloured by the cell's `by`."""
    trainings = [(cell, extra) for cell, extra in extras if "curves" in extra]
    if not trainings:
        return {}
    losses = list(trainings[0][1]["curves"])
    fig, axes = figure(1, len(losses), size=(13, 3.6))
    shown = list(dict.fromkeys(cell[by] for cell, _ in trainings))
    colours = [f"C{i}" for i in range(10)]
    for ax, loss in zip(axes[0], losses, strict=True):
        seen: set[Any] = set()
        for cell, extra in trainings:
            name = None if cell[by] in seen else f"{by} {cell[by]}"
            seen.add(cell[by])
            colour = colours[shown.index(cell[by]) % 10]
            ax.plot(extra["iteration"], extra["curves"][loss], color=colour, linewidth=1.1, label=name)
        finish(ax, "iteration", "loss", title=loss, legend=loss == losses[0])
    fig.suptitle("MAGAN: training curves")
    table = [
        {
            **{key: value for key, value in cell.items() if key != "settings"},
            "iteration": step,
            **{loss: extra["curves"][loss][i] for loss in losses},
        }
        for cell, extra in trainings
        for i, step in enumerate(extra["iteration"])
    ]
    return {"magan_training.png": fig, "magan_training.csv": table}
