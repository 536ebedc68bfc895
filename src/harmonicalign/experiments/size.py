"""Fig. 2c and Appendix C: labels recovered under corruption, against the number of points."""

from __future__ import annotations

from typing import Any

from harmonicalign.experiments._data import corrupted_digits, digits_name
from harmonicalign.experiments._figures import curve, figure, finish, label, methods_in, style
from harmonicalign.experiments._methods import embed_digits, names, tuned
from harmonicalign.experiments._runner import Cell, Experiment, Outcome, Plan, Summary
from harmonicalign.experiments._tables import Row
from harmonicalign.experiments._training import keep_curves, training_outputs
from harmonicalign.metrics import knn_label_agreement

PRESERVED = 0.35
METHODS = ("none", "mnn", "wang", "magan", "paper", "default")


def usable() -> list[str]:
    """Methods of the comparison whose packages are installed."""
    lacks = names()
    return [method for method in METHODS if not lacks[method]]


def cells(plan: Plan) -> list[Cell]:
    """Every size, pair of samples and method."""
    data = digits_name(plan)
    sizes = (100, 200, 400) if plan.quick else (200, 400, 800, 1200, 1600)
    return [
        {"data": data, "size": size, "pair": pair, "method": method, **tuned(method, plan.quick)}
        for method in usable()
        for pair in plan.repeats(3, 1 if method == "magan" else 2)
        for size in sizes
    ]


def measure(plan: Plan, cell: Cell) -> Outcome:
    """5-nearest-neighbour accuracy of one method on one pair."""
    n = cell["size"]
    pair = corrupted_digits(plan, cell["pair"], n, n, PRESERVED)
    found = embed_digits(cell["method"], [pair.x, pair.y], seed=cell["pair"], quick=plan.quick)
    zx, zy = found.coordinates
    row = {key: cell[key] for key in ("size", "pair", "method")} | {
        "accuracy": knn_label_agreement(zx, pair.labels_x, zy, pair.labels_y, 5),
        "seconds": found.cpu_seconds,
    }
    return Outcome([row], keep_curves(found))


def outputs(rows: list[Row], extras: list[tuple[Cell, dict[str, Any]]]) -> dict[str, Any]:
    """Accuracy against size, and MAGAN's training."""
    fig, axes = figure(size=(8.6, 4.6))
    ax = axes[0, 0]
    for method in methods_in(rows):
        own = [row for row in rows if row["method"] == method]
        curve(ax, own, "size", "accuracy", name=label(method), look=style(method))
    finish(
        ax,
        "rows in each dataset",
        "accuracy of 5 nearest neighbours",
        legend="beside",
        ylim=(0, 1),
        title=f"{PRESERVED:.0%} of the pixels preserved",
    )
    return {"size.png": fig, **training_outputs(extras, "size")}


EXPERIMENT = Experiment(
    name="size",
    title=f"Labels of corrupted digits ({PRESERVED:.0%} of the pixels preserved) by number of points; "
    "seconds are of the processor.",
    cells=cells,
    measure=measure,
    summaries=(
        Summary(("size", "method"), ("accuracy",)),
        Summary(("size", "method"), ("seconds",), digits=1),
    ),
    outputs=outputs,
)
