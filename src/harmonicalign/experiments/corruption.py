"""Fig. 2a: labels recovered from neighbours, against the share of pixels that the corruption preserves."""

from __future__ import annotations

from typing import Any

from harmonicalign.experiments._data import corrupted_digits, digits_name
from harmonicalign.experiments._figures import curve, figure, finish, label, methods_in, shade, style
from harmonicalign.experiments._methods import embed_digits
from harmonicalign.experiments._runner import Cell, Experiment, Outcome, Plan, Summary
from harmonicalign.experiments._tables import Row
from harmonicalign.metrics import knn_label_agreement
from harmonicalign.paper.align import multi_align
from harmonicalign.paper.joint import unified_map

BANDS = (2, 4, 8, 64)
METHODS = ("none", "mnn", "paper", "default")
NEIGHBOURS = 5
LOOKS = {f"paper, ℓ = {n_bands}": shade(i) for i, n_bands in enumerate(BANDS)}


def cells(plan: Plan) -> list[Cell]:
    """The cells of a plan, after checking its digits."""
    return grid(plan, digits_name(plan))


def grid(plan: Plan, data: str) -> list[Cell]:
    """Every share of pixels, pair of samples, corruption matrix and method, sweep by sweep."""
    percentages = (0, 5, 10, 20, 35, 50, 75, 100) if plan.quick else range(0, 101, 5)
    matrices, size = (1, 300) if plan.quick else (3, 1000)
    return [
        {"data": data, "percent": p, "pair": pair, "matrix": matrix, "size": size, "method": method}
        for matrix in range(matrices)
        for pair in plan.repeats(full=3, quick=2)
        for p in percentages
        for method in METHODS
    ]


def measure(plan: Plan, cell: Cell) -> Outcome:
    """5-nearest-neighbour accuracy of one method on one pair; the paper's with every number of bands."""
    n = cell["size"]
    pair = corrupted_digits(plan, cell["pair"], n, n, cell["percent"] / 100, cell["matrix"])
    data = [pair.x, pair.y]
    found = embed_digits(cell["method"], data)
    spaces = {cell["method"]: found.coordinates}
    if cell["method"] == "paper":
        # Graphs and harmonics do not depend on the bands, so the published method is fitted once.
        assert found.model is not None
        spaces = {
            f"paper, ℓ = {n_bands}": unified_map(
                multi_align(found.model.harmonics_, data, n_bands=n_bands), t=1.0
            )
            for n_bands in BANDS
        }
    shared = {key: cell[key] for key in ("percent", "pair", "matrix")}
    rows: list[Row] = [
        shared
        | {
            "method": method,
            "accuracy": knn_label_agreement(zx, pair.labels_x, zy, pair.labels_y, NEIGHBOURS),
        }
        for method, (zx, zy) in spaces.items()
    ]
    if cell["method"] == "default" and found.model is not None:
        rows[0]["p"] = found.model.significance_.p
    return Outcome(rows)


def outputs(rows: list[Row], extras: list[tuple[Cell, dict[str, Any]]]) -> dict[str, Any]:
    """One curve for every method."""
    fig, axes = figure(size=(8.6, 4.8))
    ax = axes[0, 0]
    for method in methods_in(rows):
        curve(
            ax,
            [row for row in rows if row["method"] == method],
            "percent",
            "accuracy",
            name=label(method),
            look=LOOKS.get(method) or style(method),
        )
    ax.axhline(0.1, color="#A0A0A0", linestyle=":", linewidth=1.2, label="chance")
    finish(
        ax,
        "pixels preserved (%)",
        "accuracy of 5 nearest neighbours",
        legend="beside",
        ylim=(0, 1),
        title="Labels recovered under feature corruption",
    )
    return {"corruption.png": fig}


EXPERIMENT = Experiment(
    name="corruption",
    title="Labels of corrupted digits from their 5 nearest uncorrupted neighbours, by pixels preserved.",
    cells=cells,
    measure=measure,
    summaries=(Summary(("percent", "method"), ("accuracy",)),),
    outputs=outputs,
)
