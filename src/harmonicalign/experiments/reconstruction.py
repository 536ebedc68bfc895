"""Fig. 2b: corrupted digits rebuilt from their neighbours among the uncorrupted ones."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.experiments._data import corrupted_digits, digits_name, image_shape
from harmonicalign.experiments._figures import figure
from harmonicalign.experiments._methods import embed_digits
from harmonicalign.experiments._runner import Cell, Experiment, Outcome, Plan, Summary
from harmonicalign.experiments._tables import Row

PRESERVED = 0.25
NEIGHBOURS = 10
SPACES = {
    "unaligned": "unaligned",
    "paper": "aligned (paper)",
    "default": "aligned (default)",
    "uncorrupted": "had nothing\nbeen corrupted",
}


def rebuild(clean: Array, corrupted: Array, images: Array, labels: Array) -> tuple[Array, Array]:
    """Average, over the nearest clean images, of those of the commonest digit; and that digit."""
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(clean).kneighbors(corrupted)[1]
    classes = np.unique(labels)
    counts = (labels[nearest][:, :, None] == classes).sum(axis=1)
    dominant = classes[counts.argmax(axis=1)]
    chosen = labels[nearest] == dominant[:, None]
    rebuilt = np.einsum("nk,nkd->nd", chosen / chosen.sum(axis=1, keepdims=True), images[nearest])
    return rebuilt, dominant


def cells(plan: Plan) -> list[Cell]:
    """One cell for every pair of samples."""
    data = digits_name(plan)
    size = 400 if plan.quick else 1000
    return [{"data": data, "pair": pair, "size": size} for pair in plan.repeats(full=3, quick=2)]


def measure(plan: Plan, cell: Cell) -> Outcome:
    """Error of the pixels, and whether the digit is right, in every space; pictures of the first pair."""
    n = cell["size"]
    pair = corrupted_digits(plan, cell["pair"], n, n, PRESERVED)
    data = [pair.x, pair.y]
    spaces = {
        "unaligned": data,
        "paper": embed_digits("paper", data).coordinates,
        "default": embed_digits("default", data).coordinates,
        "uncorrupted": [pair.x, pair.y_clean],
    }
    examples = [int(np.flatnonzero(pair.labels_y == digit)[0]) for digit in np.unique(pair.labels_y)]
    rows: list[Row] = []
    pictures = {"input": pair.y_clean[examples], "corrupted": pair.y[examples]}
    wrong = {}
    for name, (zx, zy) in spaces.items():
        rebuilt, digit = rebuild(zx, zy, pair.x, pair.labels_x)
        rows.append(
            {
                "pair": cell["pair"],
                "space": name,
                "rmse": np.sqrt(np.mean((rebuilt - pair.y_clean) ** 2)),
                "right_digit": np.mean(digit == pair.labels_y),
            }
        )
        pictures[name] = rebuilt[examples]
        wrong[name] = [bool(digit[i] != pair.labels_y[i]) for i in examples]
    if cell["pair"]:
        return Outcome(rows)
    packed = {name: _pack(images) for name, images in pictures.items()}
    return Outcome(rows, {"pictures": packed, "wrong": wrong, "shape": image_shape(plan)})


def _pack(images: Array) -> str:
    """Pictures as text, one byte per pixel."""
    return base64.b64encode((255 * np.clip(images, 0, 1)).round().astype(np.uint8).tobytes()).decode()


def outputs(rows: list[Row], extras: list[tuple[Cell, dict[str, Any]]]) -> dict[str, Any]:
    """The grid of pictures: one column for each digit, with its first image."""
    kept = extras[0][1]
    height, width = kept["shape"]
    names = {"input": "input", "corrupted": "corrupted"} | SPACES
    images = {
        name: np.frombuffer(base64.b64decode(kept["pictures"][name]), np.uint8).reshape(-1, height, width)
        for name in names
    }
    n_digits = len(images["input"])
    fig, axes = figure(len(names), n_digits, size=(9.6, 6.2))
    for line, (name, text) in zip(axes, names.items(), strict=True):
        for i, ax in enumerate(line):
            ax.imshow(images[name][i], cmap="gray_r", vmin=0, vmax=255)
            ax.set(xticks=[], yticks=[])
            if name in kept["wrong"] and kept["wrong"][name][i]:
                ax.plot(0.1, 0.9, "o", color="#D55E00", markersize=7, transform=ax.transAxes)
        line[0].set_ylabel(text, rotation=0, ha="right", va="center", labelpad=8)
    fig.suptitle(f"digits with {PRESERVED:.0%} of the pixels preserved (dot: wrong digit)")
    return {"reconstruction.png": fig}


EXPERIMENT = Experiment(
    name="reconstruction",
    title=f"Digits with {PRESERVED:.0%} of the pixels preserved, rebuilt from {NEIGHBOURS} nearest clean "
    "images: root mean square error of the pixels (which run from 0 to 1), and share with the right digit.",
    cells=cells,
    measure=measure,
    summaries=(Summary(("space",), ("rmse", "right_digit")),),
    outputs=outputs,
)
