"""Appendix A.2: several corrupted datasets at once, in pairwise blocks or in one common frame."""

from __future__ import annotations

from typing import Any

import numpy as np

from harmonicalign.datasets import corruption_matrix
from harmonicalign.experiments._data import digit_samples, digits_name, seed_of
from harmonicalign.experiments._figures import curve, figure, finish, shade, style
from harmonicalign.experiments._methods import embed
from harmonicalign.experiments._runner import Cell, Experiment, Outcome, Plan, Summary
from harmonicalign.experiments._tables import Row
from harmonicalign.metrics import knn_label_agreement

PRESERVED = 0.35
METHODS = {
    "paper, blocks": ("paper", {"frame": "blocks"}),
    "paper, common frame": ("paper", {"frame": "common"}),
    "default": ("default", {}),
}
LOOKS = {"paper, blocks": shade(2), "paper, common frame": shade(0), "default": style("default")}


def cells(plan: Plan) -> list[Cell]:
    """Every number of datasets, repeat and method."""
    data = digits_name(plan)
    size, counts = (160, (2, 4, 8)) if plan.quick else (500, (2, 3, 4, 6, 8, 10))
    return [
        {"data": data, "size": size, "datasets": n, "repeat": repeat, "method": method}
        for method in METHODS
        for repeat in plan.repeats(full=3, quick=1)
        for n in counts
    ]


def measure(plan: Plan, cell: Cell) -> Outcome:
    """One dataset is left as it is; every other one has its own corruption."""
    n = cell["datasets"]
    samples = digit_samples(plan, cell["repeat"], (cell["size"],) * n)
    data, labels = [samples[0][0]], [digits for _, digits in samples]
    for i, (images, _) in enumerate(samples[1:]):
        matrix, _ = corruption_matrix(images.shape[1], PRESERVED, seed_of("multi", cell["repeat"], i))
        data.append(images @ matrix)
    method, options = METHODS[cell["method"]]
    found = embed(method, data, seed=0, **options)
    z = found.coordinates

    def accuracy(test: int, train: list[int]) -> float:
        places, known = np.vstack([z[i] for i in train]), np.concatenate([labels[i] for i in train])
        return knn_label_agreement(places, known, z[test], labels[test], 5)

    others = [[j for j in range(n) if j != i] for i in range(n)]
    row = {key: cell[key] for key in ("datasets", "repeat", "method")} | {
        "from_clean": np.mean([accuracy(i, [0]) for i in range(1, n)]),
        "from_all": np.mean([accuracy(i, others[i]) for i in range(n)]),
        "width": z[0].shape[1],
        "seconds": found.cpu_seconds,
    }
    return Outcome([row])


def outputs(rows: list[Row], extras: list[tuple[Cell, dict[str, Any]]]) -> dict[str, Any]:
    """Accuracy, columns and time against the number of datasets."""
    panels = {
        "from_clean": ("accuracy", "labels from the uncorrupted dataset"),
        "from_all": ("accuracy", "labels from all other datasets"),
        "width": ("columns", "width of the aligned space"),
        "seconds": ("processor seconds", "time"),
    }
    fig, axes = figure(2, 2, size=(10, 7))
    for ax, (value, (unit, title)) in zip(axes.ravel(), panels.items(), strict=True):
        for name in METHODS:
            own = [row for row in rows if row["method"] == name]
            curve(ax, own, "datasets", value, name=name, look=LOOKS[name])
        limits = {"ylim": (0, 1)} if unit == "accuracy" else {"ylim": (0, None)}
        finish(ax, "datasets", unit, title=title, legend=value == "from_clean", **limits)
    return {"multi.png": fig}


EXPERIMENT = Experiment(
    name="multi",
    title="2 to 10 datasets of digits at once, all but one corrupted "
    f"({PRESERVED:.0%} of the pixels preserved); seconds are of the processor.",
    cells=cells,
    measure=measure,
    summaries=(
        Summary(("datasets", "method"), ("from_clean", "from_all")),
        Summary(("datasets", "method"), ("seconds",), digits=1),
    ),
    outputs=outputs,
)
