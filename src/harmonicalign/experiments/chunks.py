"""Appendix A.3: large datasets cut into chunks, aligned all together into one frame."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.experiments._data import corrupted_digits, digits_name
from harmonicalign.experiments._figures import curve, figure, finish, shade
from harmonicalign.experiments._runner import Cell, Experiment, Outcome, Plan, Summary
from harmonicalign.experiments._tables import Row
from harmonicalign.metrics import knn_label_agreement
from harmonicalign.paper.align import calibrate, multi_align
from harmonicalign.paper.graph import kernel_graph
from harmonicalign.paper.harmonics import harmonics
from harmonicalign.paper.joint import common_frame
from harmonicalign.paper.reduction import reduce_rows

__all__ = ["align_in_chunks"]


PRESERVED = 0.35


def align_in_chunks(
    datasets: Sequence[Array],
    chunk: int,
    rank: int,
    *,
    n_bands: int = 8,
    t: float = 1.0,
    n_pca: int = 100,
    random_state: int = 0,
) -> list[Array]:
    """Align datasets whose columns correspond by way of chunks of their rows (Appendix A.3).

    Every dataset is cut at random into chunks of nearly equal size; each chunk has a graph and harmonics of
    its own. All chunks of all datasets are then aligned pair by pair, and their rotations synchronised into
    one frame. With chunks of a fixed size the work on graphs grows in proportion to the rows.

    Parameters
    ----------
    datasets
        Rows by the same columns.
    chunk
        Rows of a chunk at most.
    rank
        Harmonics of a chunk; no more than its rows allow.
    n_bands, t
        As in `harmonicalign.paper.align` and `harmonicalign.unified_map`.
    n_pca
        Principal components, of each dataset as a whole, on which the graphs are built.
    random_state
        Seed of the cuts.

    Returns
    -------
    coordinates
        One array per dataset, rows in their order, of one width.
    """
    rng = np.random.RandomState(random_state)
    parts: list[tuple[int, Array]] = []
    found, signals = [], []
    for i, data in enumerate(datasets):
        rows = reduce_rows(data, n_pca if n_pca < min(data.shape) else None, random_state)[1]
        order = rng.permutation(len(data))
        for part in np.array_split(order, int(np.ceil(len(data) / chunk))):
            # 4 % of the rows as neighbours, the default of the published method.
            graph = kernel_graph(rows[part], n_neighbors=min(len(part) - 1, max(5, len(part) // 25)))
            found.append(harmonics(graph, min(rank, len(part) - 1)))
            signals.append(data[part])
            parts.append((i, part))
    coordinates = common_frame(multi_align(calibrate(found), signals, n_bands=n_bands), t=t)
    out = [np.empty((len(data), coordinates[0].shape[1])) for data in datasets]
    for (i, part), z in zip(parts, coordinates, strict=True):
        out[i][part] = z
    return out


def cells(plan: Plan) -> list[Cell]:
    """Every size of chunks, rank and pair of samples; a chunk of all rows means no chunks."""
    data = digits_name(plan)
    size = 400 if plan.quick else 4000
    chunks = [100, 200, 400] if plan.quick else [125, 250, 500, 1000, 2000, 4000]
    ranks = [20, 50] if plan.quick else [25, 50, 100]
    return [
        {"data": data, "size": size, "chunk": chunk, "rank": rank, "pair": pair}
        for pair in plan.repeats(full=3, quick=2)
        for rank in ranks
        for chunk in chunks
    ]


def measure(plan: Plan, cell: Cell) -> Outcome:
    """Accuracy and time for one size of chunks and rank."""
    n = cell["size"]
    pair = corrupted_digits(plan, cell["pair"], n, n, PRESERVED)
    start = time.process_time()
    zx, zy = align_in_chunks([pair.x, pair.y], cell["chunk"], cell["rank"])
    seconds = time.process_time() - start
    accuracy = knn_label_agreement(zx, pair.labels_x, zy, pair.labels_y, 5)
    shared = {key: cell[key] for key in ("chunk", "rank", "pair")}
    return Outcome([shared | {"accuracy": accuracy, "seconds": seconds}])


def outputs(rows: list[Row], extras: list[tuple[Cell, dict[str, Any]]]) -> dict[str, Any]:
    """Accuracy and time against the size of the chunks, one curve for each rank."""
    fig, axes = figure(1, 2, size=(10, 4.2))
    lowest = max(0.0, min(row["accuracy"] for row in rows) - 0.1)
    for ax, value, unit in zip(
        axes[0], ("accuracy", "seconds"), ("accuracy", "processor seconds"), strict=True
    ):
        for i, rank in enumerate(sorted({row["rank"] for row in rows})):
            own = [row for row in rows if row["rank"] == rank]
            curve(ax, own, "chunk", value, name=f"{rank} harmonics", look=shade(i + 1))
        ax.set_xscale("log", base=2)
        sizes = sorted({row["chunk"] for row in rows})
        ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
        ax.minorticks_off()
        limits = {"ylim": (lowest, 1)} if value == "accuracy" else {"ylim": (0, None)}
        finish(ax, "rows of a chunk (rightmost: all)", unit, legend=value == "accuracy", **limits)
    return {"chunks.png": fig}


EXPERIMENT = Experiment(
    name="chunks",
    title="The published method in chunks of rows, synchronised into one frame: accuracy and processor time.",
    cells=cells,
    measure=measure,
    summaries=(Summary(("rank", "chunk"), ("accuracy", "seconds")),),
    outputs=outputs,
)
