"""Fig. 3a-c: cytometry batches; markers before and after denoising, with and without alignment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.experiments._data import DataError, npz_file, read_npz, seed_of
from harmonicalign.experiments._figures import figure, finish
from harmonicalign.experiments._methods import embed
from harmonicalign.experiments._runner import Cell, Experiment, Outcome, Plan, Summary
from harmonicalign.experiments._tables import Row
from harmonicalign.metrics import earth_movers_distance
from harmonicalign.paper.graph import kernel_graph
from harmonicalign.uses.smooth import balanced_transitions, denoise

MOST_ROWS = 4000  # of each batch, as in the paper
_SHAHAM = (
    "the CyTOF batches are those of https://github.com/ushaham/BatchEffectRemoval; or name two or more FCS, "
    "CSV or h5ad files with shared markers: data=[FILE, FILE], on the command line --data FILE --data FILE"
)
STAGES = {
    "raw": "raw",
    "denoised apart": "each batch denoised alone",
    "denoised together": "denoised over both, unaligned",
    "paper": "aligned (paper), denoised",
    "default": "aligned (default), denoised",
    "corrected": "aligned (default), corrected",
}
DRAWN = ("raw", "denoised together", "default")
_NO_MARKERS = ("time", "event_length", "event #", "eventnum")


def cells(plan: Plan) -> list[Cell]:
    """One cell for every pair of batches."""
    if plan.quick:
        return [{"pair": f"simulated {i + 1}", "number": i} for i in plan.repeats(2, 2)]
    if plan.data and all(Path(text).is_file() and Path(text).suffix != ".npz" for text in plan.data):
        names = _check_files(plan)
        found = [(f"{names[0]} / {other}", i + 1) for i, other in enumerate(names[1:])]
        sizes = [Path(text).stat().st_size for text in plan.data]
        return [
            {
                "pair": pair,
                "number": number,
                "files": list(plan.data),
                "sizes": sizes,
                "markers": plan.markers,
            }
            for pair, number in found
        ]
    file = npz_file(plan, "cytof_shaham/cytof_shaham.npz", _SHAHAM)
    stored = read_npz(file)
    wanted = [(person, time) for person in (1, 2) for time in ("baseline", "3month")]
    lacking = [key for p, t in wanted for d in (1, 2) if (key := f"X_p{p}d{d}_{t}") not in stored]
    if lacking:
        raise DataError(f"{file} lacks the arrays {', '.join(lacking[:3])}; {_SHAHAM}")
    return [{"pair": f"person {p}, {t}", "key": [p, t]} for p, t in wanted]


def measure(plan: Plan, cell: Cell) -> Outcome:
    """Earth mover's distance of every marker between the batches, at every stage."""
    x, y, markers = _batches(plan, cell)
    pooled = np.vstack([x, y])
    scale = pooled.std(axis=0)
    x, y = ((v - pooled.mean(axis=0)) / np.where(scale > 0, scale, 1) for v in (x, y))
    both = np.vstack([x, y])

    def parts(values: Array) -> tuple[Array, Array]:
        return values[: len(x)], values[len(x) :]

    combined = kernel_graph(both, n_neighbors=10, max_neighbors=30).transitions
    model = embed("default", [x, y]).model
    paper = embed("paper", [x, y]).model
    assert model is not None
    assert paper is not None
    aligned = model.denoise(both)
    stages = {
        "raw": (x, y),
        "denoised apart": tuple(denoise(v, balanced_transitions([v]), t=aligned.t).values for v in (x, y)),
        "denoised together": parts(denoise(both, combined, t=aligned.t).values),
        "paper": parts(paper.denoise(both, t=aligned.t).values),
        "default": parts(aligned.values),
        "corrected": tuple(model.correct(reference=0).values),
    }
    distances = {stage: earth_movers_distance(*values) for stage, values in stages.items()}
    rows = [
        {"pair": cell["pair"], "stage": stage, "marker": marker, "emd": emd}
        for stage, values in distances.items()
        for marker, emd in zip(markers, values, strict=True)
    ]
    before = {"corrected": "raw"}
    rows += [
        {
            "pair": cell["pair"],
            "compared": f"{STAGES[stage]}, against {STAGES[base]}",
            "share_left": distances[stage].mean() / distances[base].mean(),
        }
        for stage in ("paper", "default", "corrected")
        for base in ([before[stage]] if stage in before else ["denoised apart", "denoised together"])
    ]
    shown = _drawn_markers(
        markers, distances["denoised together"], plan.markers or tuple(cell.get("markers", ()))
    )
    chosen = np.random.RandomState(0).permutation(min(len(x), len(y)))[:800]
    picture = {stage: [v[chosen][:, shown].round(3).tolist() for v in stages[stage]] for stage in DRAWN}
    emds = {stage: distances[stage][shown[0]].round(4) for stage in DRAWN}
    return Outcome(rows, {"markers": [markers[j] for j in shown], "values": picture, "emd": emds})


def _drawn_markers(markers: list[str], distances: Array, wanted: tuple[str, ...]) -> list[int]:
    """The given markers, or the two that differ most between the batches."""
    if wanted:
        return [markers.index(name) for name in wanted]
    return [int(j) for j in np.argsort(-distances)[:2]]


# --- batches ------------------------------------------------------------------------------------------------


def _batches(plan: Plan, cell: Cell) -> tuple[Array, Array, list[str]]:
    """Two batches on a logarithmic scale, and the names of their markers."""
    if plan.quick:
        return simulated(seed_of("batch", cell["number"]))
    if "files" in cell:
        read = [_read(cell["files"][i]) for i in (0, cell["number"])]
        markers = [m for m in read[0][1] if m in set(read[1][1])]
        x, y = (values[:, [names.index(m) for m in markers]] for values, names in read)
        return _some_rows(x), _some_rows(y), markers
    stored = read_npz(npz_file(plan, "cytof_shaham/cytof_shaham.npz", _SHAHAM))
    person, time = cell["key"]
    x, y = (np.log1p(stored[f"X_p{person}d{day}_{time}"]) for day in (1, 2))
    return _some_rows(x), _some_rows(y), [f"marker {j + 1}" for j in range(x.shape[1])]


def simulated(seed: int, n: int = 800, n_markers: int = 15) -> tuple[Array, Array, list[str]]:
    """Two samples of six populations; in the second every marker has its own gain, offset and dropouts.

    The populations have the same proportions in both, so all differences are batch effects.

    Parameters
    ----------
    seed
        Seed of all random draws.
    n
        Number of cells per batch.
    n_markers
        Number of columns.
    """
    rng = np.random.RandomState(seed)
    centres = rng.gamma(2.0, 1.2, (6, n_markers))
    batches = []
    for _ in range(2):
        classes = rng.choice(6, n, p=(0.3, 0.25, 0.15, 0.12, 0.1, 0.08))
        batches.append(np.maximum(centres[classes] + 0.35 * rng.standard_normal((n, n_markers)), 0))
    gain, offset = rng.uniform(0.75, 1.3, n_markers), rng.uniform(-0.2, 0.8, n_markers)
    second = np.maximum(gain * batches[1] + offset, 0)
    second[rng.random_sample(second.shape) < 0.05] = 0
    return batches[0], second, [f"marker {j + 1}" for j in range(n_markers)]


def _some_rows(values: Array) -> Array:
    if len(values) <= MOST_ROWS:
        return values
    return values[np.random.RandomState(0).permutation(len(values))[:MOST_ROWS]]


def _check_files(plan: Plan) -> list[str]:
    """Names of the batches, after checking that every file can be read and shares markers with the first."""
    if len(plan.data) < 2:
        raise DataError(f"data names one file, {plan.data[0]}; batches are two or more files, name another")
    markers = [_read(text)[1] for text in plan.data]
    for text, own in zip(plan.data[1:], markers[1:], strict=True):
        shared = [m for m in markers[0] if m in set(own)]
        if len(shared) < 2:
            raise DataError(
                f"{Path(plan.data[0]).name} and {Path(text).name} share {len(shared)} marker(s), two are "
                f"needed: the first has {', '.join(markers[0][:4])} …, the other {', '.join(own[:4])} …; "
                "rename them alike"
            )
        lacking = [m for m in plan.markers if m not in shared]
        if lacking or len(plan.markers) not in (0, 2):
            raise DataError(
                f"markers must be two that all files share, found {', '.join(plan.markers)}; "
                f"shared are {', '.join(shared[:12])}"
            )
    return [Path(text).stem for text in plan.data]


def _read(text: str) -> tuple[Array, list[str]]:
    """Values of a file, on a logarithmic scale, and its markers."""
    from harmonicalign.adapters import io

    path = Path(text)
    if not path.exists():
        raise DataError(f"{path} does not exist; {_SHAHAM}")
    try:
        table = io.read(path)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read ({error}); FCS, CSV and h5ad files are understood") from error
    values = table.X.toarray() if hasattr(table.X, "toarray") else np.asarray(table.X)
    names = [str(name) for name in table.var_names]
    kept = [j for j, name in enumerate(names) if name.lower() not in _NO_MARKERS]
    values = np.asarray(values[:, kept], dtype=np.float64)
    if len(values) < 50 or not np.isfinite(values).all():
        raise DataError(
            f"{path} has {len(values)} rows or values that are not numbers; 50 whole rows are needed"
        )
    if values.max() > 100:  # raw intensities: apply the usual transform of cytometry
        values = np.arcsinh(values / 5)
    return values, [names[j] for j in kept]


# --- figures ------------------------------------------------------------------------------------------------


def outputs(rows: list[Row], extras: list[tuple[Cell, dict[str, Any]]]) -> dict[str, Any]:
    """Scatter plot of two markers above histograms of the first, for every pair of batches."""
    out = {}
    for i, (cell, kept) in enumerate(extras):
        name = "batch.png" if i == 0 else f"batch_{i + 1}.png"
        out[name] = _scatter_and_histograms(cell["pair"], kept)
    return out


def _scatter_and_histograms(pair: str, kept: dict[str, Any]) -> Any:
    first, second = kept["markers"]
    fig, axes = figure(2, len(DRAWN), size=(10.5, 6.4))
    values = {stage: [np.asarray(v) for v in kept["values"][stage]] for stage in DRAWN}
    for j, stage in enumerate(DRAWN):
        low, high = np.percentile(np.vstack(values[stage]), (0.5, 99.5), axis=0)
        for number, (v, colour, marker) in enumerate(
            zip(values[stage], ("#0072B2", "#D55E00"), ("o", "^"), strict=True)
        ):
            look = {"s": 7, "alpha": 0.5, "linewidths": 0, "color": colour, "marker": marker}
            axes[0, j].scatter(v[:, 0], v[:, 1], label=f"batch {number + 1}", **look)
            bins = np.linspace(low[0], high[0], 41)
            clipped = np.clip(v[:, 0], low[0], high[0])
            axes[1, j].hist(clipped, bins=bins, color=colour, alpha=0.5, density=True)
        finish(axes[0, j], first, second if j == 0 else "", title=STAGES[stage], legend=False)
        emd = float(kept["emd"][stage])
        finish(
            axes[1, j],
            first,
            "density" if j == 0 else "",
            title=f"earth mover's distance {emd:.3f}",
            legend=False,
        )
    fig.legend(
        *axes[0, 0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=2,
        frameon=False,
        markerscale=3,
    )
    fig.suptitle(f"{pair} (values in standard deviations of both batches)")
    return fig


EXPERIMENT = Experiment(
    name="batch",
    title="Earth mover's distance between cytometry batches, mean over markers, by stage; "
    "and the share that alignment leaves of it.",
    cells=cells,
    measure=measure,
    summaries=(Summary(("pair", "stage"), ("emd",)), Summary(("compared", "pair"), ("share_left",))),
    outputs=outputs,
)
