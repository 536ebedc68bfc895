"""Fig. 3d: overlap of neighbourhoods of cells measured in two modalities, aligned without the pairing."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.experiments import _paired
from harmonicalign.experiments._data import seed_of
from harmonicalign.experiments._figures import curve, figure, finish, label, methods_in, style
from harmonicalign.experiments._methods import QUICK_MAGAN, Embedded, by_shape, embed, names
from harmonicalign.experiments._runner import Cell, Experiment, Outcome, Plan, Summary
from harmonicalign.experiments._tables import Row
from harmonicalign.experiments._training import keep_curves, training_outputs
from harmonicalign.metrics import foscttm, neighbourhood_overlap

METHODS = ("none", "mnn", "magan", "paper", "default")
PERCENT = (0.5, 1, 2, 5, 10, 20)
FORMS = {
    "independent": "independent SVDs",
    "shared": "shared signals",
    "noisy": "half of the links wrong",
    "pairs 10": "no links, 10 % known pairs",
    "pairs 50": "no links, 50 % known pairs",
}
"""What is known of the correspondence; the last is the ceiling."""

_NO_LINKS = ("independent", "pairs 10", "pairs 50")


def methods_of(form: str) -> tuple[str, ...]:
    """Methods that can use what a form knows."""
    if form.startswith("pairs"):
        return ("default",)
    return (*METHODS, "shape") if form == "independent" else METHODS


def cells(plan: Plan) -> list[Cell]:
    """Every data set, form, method and repeat."""
    files = _named(plan)
    if plan.quick:
        sets = ["interleaved digits"]
    elif files:
        sets = [" + ".join(Path(path).name for path in files)]
    else:
        sets = _paired.there(plan)
    lacks = names()
    out: list[Cell] = []
    for name in sets:
        for form in FORMS if _linked(plan, name) else _NO_LINKS:
            out += [
                {"set": name, "form": form, "method": method, "repeat": repeat}
                for method in methods_of(form)
                if not lacks.get(method)
                for repeat in plan.repeats(full=3, quick=1)
            ]
    # One data set after the other, so that each is loaded once.
    out.sort(key=lambda cell: (sets.index(cell["set"]), cell["repeat"]))
    sizes = [Path(path).stat().st_size for path in files]
    return [cell | {"sizes": sizes} for cell in out] if files else out


def _named(plan: Plan) -> tuple[str, ...]:
    """Files given by the user, if these are not a folder of data sets."""
    chosen = [path for path in plan.data if Path(path).suffix in (".h5mu", ".h5ad")]
    if plan.data and len(chosen) == len(plan.data):
        return plan.data
    return ()


def _linked(plan: Plan, name: str) -> bool:
    """Whether any features are known to correspond; reads the user's files, so that errors are raised now."""
    if plan.quick:
        return True
    if name in _paired.SETS:
        return name not in ("sci-CAR A549", "SNARE-seq lines")
    return _paired.from_files(plan.data, None).signals is not None


@lru_cache(maxsize=1)
def _load(plan: Plan, name: str, repeat: int) -> _paired.Paired:
    seed = seed_of("fusion", repeat)
    if plan.quick:
        return _paired.interleaved_digits(seed)
    if name in _paired.SETS:
        return _paired.load(plan, name, seed)
    return _paired.from_files(plan.data, seed)


def measure(plan: Plan, cell: Cell) -> Outcome:
    """Overlap of the neighbourhoods of paired rows, by their size, after aligning shuffled rows."""
    pair = _load(plan, cell["set"], cell["repeat"])
    rng = np.random.RandomState(seed_of("shuffle", cell["repeat"]))
    shuffle = rng.permutation(len(pair.y))
    found = _found(pair, cell, shuffle, QUICK_MAGAN if plan.quick else {})
    zx, zy = found.coordinates[0], found.coordinates[1][np.argsort(shuffle)]
    shared = {key: cell[key] for key in ("set", "form", "repeat", "method")}
    sizes = [max(1, round(percent / 100 * len(zx))) for percent in PERCENT]
    wrong = rng.permutation(len(zx))
    overlap = _overlap(zx, zy, pair, sizes, np.arange(len(zx)))
    by_chance = _overlap(zx, zy, pair, sizes, wrong)
    rows = [
        shared
        | {
            "percent": percent,
            "neighbours": size,
            "overlap": overlap[i],
            "by_chance": by_chance[i],
            "beyond_chance": overlap[i] - by_chance[i],
        }
        for i, (percent, size) in enumerate(zip(PERCENT, sizes, strict=True))
    ]
    score = shared | {"foscttm": foscttm(zx, zy), "seconds": found.cpu_seconds}
    if cell["method"] == "default" and found.model is not None:
        score["p"] = found.model.significance_.p
    return Outcome([*rows, score | {"rows": len(zx), "links": pair.n_links}], keep_curves(found))


def _found(pair: _paired.Paired, cell: Cell, shuffle: Array, magan: dict[str, Any]) -> Embedded:
    """Both modalities aligned with what the cell's form knows; rows of the second are shuffled.

    Parameters
    ----------
    pair
        The data.
    cell
        Form, method and repeat.
    shuffle
        Order of the rows of the second.
    magan
        Options of MAGAN.
    """
    method, form, seed = cell["method"], cell["form"], cell["repeat"]
    data = [pair.x, pair.y[shuffle]]
    options: dict[str, Any] = magan if method == "magan" else {}
    if method == "shape":
        return by_shape(data, seed)
    if form.startswith("pairs"):
        share = int(form.split()[1]) / 100
        known = np.random.RandomState(seed_of("known pairs", seed)).permutation(len(pair.x))
        known = known[: max(10, round(share * len(known)))]
        pairs = np.column_stack([known, np.argsort(shuffle)[known]])
        return embed(method, data, seed=seed, anchors=pairs)
    if form == "independent":
        # The components of two separate decompositions do not correspond, but are treated as if they did.
        width = min(pair.x.shape[1], pair.y.shape[1])
        return embed(method, [rows[:, :width] for rows in data], seed=seed, **options)
    assert pair.signals is not None
    columns = np.arange(pair.n_links)
    if form == "noisy":
        mixed = np.random.RandomState(seed_of("wrong links", seed)).permutation(columns)[: len(columns) // 2]
        columns[mixed] = np.roll(mixed, 1)
    signals = [pair.signals[0], pair.signals[1][shuffle][:, columns]]
    if method == "magan" and pair.n_links > 50:
        options = options | {"n_components": 50}
    if method == "mnn" and pair.n_links < 3:
        options = {"cosine": False}
    return embed(method, data, signals=signals, seed=seed, **options)


def _overlap(zx: Array, zy: Array, pair: _paired.Paired, sizes: list[int], partner: Array) -> Array:
    """Mean of both directions of the overlap, with row i of y as the partner of row partner[i] of x.

    Wrong partners give the overlap by chance in this space. Some rows are close to most others, especially in
    decompositions of counts without centring, and chance is then well above the size of the neighbourhood.
    """
    back = np.argsort(partner)
    here = neighbourhood_overlap(zx, zy[back], sizes, reference=pair.x)
    there = neighbourhood_overlap(zy, zx[partner], sizes, reference=pair.y)
    return (here + there) / 2


def outputs(rows: list[Row], extras: list[tuple[Cell, dict[str, Any]]]) -> dict[str, Any]:
    """Overlap against the size of the neighbourhood, in total and beyond chance."""
    curves = [row for row in rows if "overlap" in row]
    return {
        "fusion.png": _panels(curves, "beyond_chance", "overlap beyond chance (%)"),
        "fusion_overlap.png": _panels(curves, "overlap", "overlap (%)"),
        **training_outputs(extras, "set"),
    }


def _panels(curves: list[Row], value: str, words: str) -> Any:
    """One column per data set, one row per form."""
    sets = list(dict.fromkeys(row["set"] for row in curves))
    fig, axes = figure(len(FORMS), len(sets), size=(2.9 * len(sets) + 2.6, 3.1 * len(FORMS)))
    for i, (form, title) in enumerate(FORMS.items()):
        for j, name in enumerate(sets):
            ax = axes[i, j]
            own = [row for row in curves if row["set"] == name and row["form"] == form]
            if not own:
                ax.text(0.5, 0.5, "no feature is known\nto correspond", ha="center", va="center")
                ax.set_axis_off()
                continue
            for method in methods_in(own):
                these = [row for row in own if row["method"] == method]
                curve(ax, these, "percent", value, name=label(method), look=style(method), scale=100)
            if value == "overlap":
                # Chance differs between spaces; show its range.
                curve(ax, own, "percent", "by_chance", name=label("chance"), look=style("chance"), scale=100)
            else:
                ax.axhline(0, color="#A0A0A0", linestyle=":", linewidth=1.2, label="chance")
            ax.set_xscale("log")
            ax.set_xticks(PERCENT, [f"{percent:g}" for percent in PERCENT])
            ax.minorticks_off()
            finish(
                ax,
                "neighbourhood (% of cells)" if form == "pairs 50" else "",
                f"{title}\n{words}" if j == 0 else "",
                title=name if i == 0 else "",
                legend=False,
            )
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return fig


EXPERIMENT = Experiment(
    name="fusion",
    title="Paired cells with the pairing hidden: overlap of neighbourhoods across modalities by their size "
    "(beyond_chance: less what permuted pairs have in the same space), fraction of cells closer than the "
    "true match (0.5: chance), p of the significance test. With shared signals, with half of the links "
    "wrong, with none (the default, and by shape alone), and with known pairs in their place.",
    cells=cells,
    measure=measure,
    summaries=(
        Summary(("set", "form", "percent", "method"), ("overlap", "beyond_chance")),
        Summary(("set", "form", "method"), ("foscttm", "p")),
    ),
    outputs=outputs,
)
