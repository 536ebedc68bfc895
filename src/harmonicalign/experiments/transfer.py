"""Fig. 2d: labels of a thousand digits transferred to one to eight thousand corrupted ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from harmonicalign.experiments._data import corrupted_digits, digits_name
from harmonicalign.experiments._figures import curve, figure, finish, label, methods_in, style
from harmonicalign.experiments._methods import embed_digits, tuned
from harmonicalign.experiments._runner import Cell, Experiment, Outcome, Plan, Summary
from harmonicalign.experiments._tables import Row
from harmonicalign.experiments._training import keep_curves, training_outputs
from harmonicalign.experiments.size import PRESERVED, usable
from harmonicalign.metrics import knn_label_agreement
from harmonicalign.uses.transfer import transfer_labels

CLASSIFIERS = {"knn": "5 nearest neighbours", "svm": "linear SVM"}


def cells(plan: Plan) -> list[Cell]:
    """Every size of the target, pair of samples and method."""
    data = digits_name(plan)
    source, sizes = (150, (150, 300, 600)) if plan.quick else (1000, (1000, 2000, 4000, 8000))
    return [
        {
            "data": data,
            "source": source,
            "target": size,
            "pair": pair,
            "method": method,
            **tuned(method, plan.quick),
        }
        for method in usable()
        for pair in plan.repeats(3, 1 if method == "magan" else 2)
        for size in sizes
    ]


def measure(plan: Plan, cell: Cell) -> Outcome:
    """Accuracy of both classifiers, trained on the source, for one method."""
    pair = corrupted_digits(plan, cell["pair"], cell["source"], cell["target"], PRESERVED)
    found = embed_digits(cell["method"], [pair.x, pair.y], seed=cell["pair"], quick=plan.quick)
    zx, zy = found.coordinates
    svm = transfer_labels(zx, pair.labels_x, zy, method="svm", random_state=0)
    accuracy = {
        "knn": knn_label_agreement(zx, pair.labels_x, zy, pair.labels_y, 5),
        "svm": np.mean(svm.labels == pair.labels_y),
    }
    shared = {key: cell[key] for key in ("target", "pair", "method")}
    rows = [shared | {"classifier": name, "accuracy": value} for name, value in accuracy.items()]
    return Outcome([*rows, shared | {"seconds": found.cpu_seconds}], keep_curves(found))


def outputs(rows: list[Row], extras: list[tuple[Cell, dict[str, Any]]]) -> dict[str, Any]:
    """One panel for each classifier."""
    fig, axes = figure(1, 2, size=(11, 4.4))
    for ax, (classifier, words) in zip(axes[0], CLASSIFIERS.items(), strict=True):
        scored = [row for row in rows if row.get("classifier") == classifier]
        for method in methods_in(scored):
            own = [row for row in scored if row["method"] == method]
            curve(ax, own, "target", "accuracy", name=label(method), look=style(method))
        ax.set_xscale("log", base=2)
        sizes = sorted({row["target"] for row in scored})
        ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
        ax.minorticks_off()
        legend = "beside" if classifier == "svm" else False
        finish(ax, "rows of the corrupted target", "accuracy", title=words, legend=legend, ylim=(0, 1))
    return {"transfer.png": fig, **training_outputs(extras, "target")}


EXPERIMENT = Experiment(
    name="transfer",
    title=f"Labels transferred to larger corrupted targets ({PRESERVED:.0%} of the pixels preserved); "
    "seconds are of the processor.",
    cells=cells,
    measure=measure,
    summaries=(
        Summary(("classifier", "target", "method"), ("accuracy",)),
        Summary(("target", "method"), ("seconds",), digits=1),
    ),
    outputs=outputs,
)
