"""Artificial manifolds with rotation, noise and uneven density, whose true correspondence is known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from harmonicalign.datasets import ManifoldPair, sphere, swiss_roll, torus_knot, tree
from harmonicalign.experiments._data import seed_of
from harmonicalign.experiments._figures import curve, figure, finish, label, methods_in, style
from harmonicalign.experiments._methods import embed
from harmonicalign.experiments._runner import Cell, Experiment, Outcome, Plan, Summary
from harmonicalign.experiments._tables import Row
from harmonicalign.experiments.baselines.procrustes import Procrustes
from harmonicalign.metrics import latent_error

MANIFOLDS: dict[str, Callable[..., ManifoldPair]] = {
    "Swiss roll": swiss_roll,
    "tree": tree,
    "sphere": sphere,
    "torus knot (2, 3)": torus_knot,
    "torus knot (3, 5)": partial(torus_knot, turns=(3, 5)),
}
METHODS = ("none", "mnn", "paper", "default", "procrustes")


def cells(plan: Plan) -> list[Cell]:
    """Every manifold, noise, density, repeat and method."""
    size, noises = (200, (0.0, 0.1)) if plan.quick else (600, (0.0, 0.02, 0.05, 0.1, 0.2))
    names = list(MANIFOLDS)[:4] if plan.quick else list(MANIFOLDS)
    return [
        {
            "manifold": name,
            "noise": noise,
            "density": density,
            "size": size,
            "repeat": repeat,
            "method": method,
        }
        for repeat in plan.repeats(full=3, quick=1)
        for name in names
        for density in (0.0, 1.0)
        for noise in noises
        for method in METHODS
    ]


def measure(plan: Plan, cell: Cell) -> Outcome:
    """Alignment error of one method; some signals correspond, coordinates do not."""
    pair = MANIFOLDS[cell["manifold"]](
        cell["size"],
        cell["size"],
        noise=cell["noise"],
        density=cell["density"],
        random_state=seed_of("manifold", cell["manifold"], cell["repeat"]),
    )
    data, signals = [pair.x, pair.y], [pair.signals_x, pair.signals_y]
    if cell["method"] == "procrustes":
        # Result with known pairs; some error remains because of the sampling.
        z = Procrustes(pair.pairs).fit_transform(data)
    else:
        z = embed(cell["method"], data, signals=signals).coordinates
    row = {key: cell[key] for key in ("manifold", "density", "noise", "repeat", "method")}
    row["error"] = latent_error(z[0], z[1], pair.latent_x, pair.latent_y)
    drawn = {"method": "default", "repeat": 0, "density": 1.0, "noise": 0.1 if plan.quick else 0.05}
    return Outcome([row], _picture(pair, z) if drawn.items() <= cell.items() else {})


def _picture(pair: ManifoldPair, aligned: list[Any]) -> dict[str, Any]:
    """Two coordinates of both samples, before and after, coloured by the position on the manifold."""
    from sklearn.decomposition import PCA

    def flat(datasets: list[Any]) -> list[Any]:
        both = PCA(2, random_state=0).fit_transform(np.vstack(datasets))
        return [part.round(4).tolist() for part in np.split(both, [len(datasets[0])])]

    # Colour by the direction in which positions on the manifold vary most.
    latent = PCA(1).fit_transform(np.vstack([pair.latent_x, pair.latent_y]))[:, 0].round(4)
    place = [part.tolist() for part in np.split(latent, [len(pair.x)])]
    return {"before": flat([pair.x, pair.y]), "after": flat(aligned), "place": place}


def outputs(rows: list[Row], extras: list[tuple[Cell, dict[str, Any]]]) -> dict[str, Any]:
    """Error against noise for every manifold, evenly and unevenly sampled; plots of some alignments."""
    names = list(dict.fromkeys(row["manifold"] for row in rows))
    fig, axes = figure(2, len(names), size=(3.0 * len(names) + 1.8, 6.2))
    top = 1.05 * max(1.0, *(row["error"] for row in rows))
    for i, density in enumerate((0.0, 1.0)):
        for j, name in enumerate(names):
            ax = axes[i, j]
            own = [row for row in rows if row["manifold"] == name and row["density"] == density]
            for method in methods_in(own):
                these = [row for row in own if row["method"] == method]
                curve(ax, these, "noise", "error", name=label(method), look=style(method))
            ax.axhline(1, color="#A0A0A0", linestyle=":", linewidth=1.2, label="chance")
            words = "even" if density == 0 else "uneven"
            finish(
                ax,
                "noise (share of the spread)" if i else "",
                f"alignment error\n({words} density)" if j == 0 else "",
                title=name if i == 0 else "",
                legend=False,
                ylim=(0, top),
            )
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    out: dict[str, Any] = {"manifolds.png": fig}
    if extras:
        out["manifolds_pictures.png"] = _pictures(extras)
    return out


def _pictures(extras: list[tuple[Cell, dict[str, Any]]]) -> Any:
    fig, axes = figure(2, len(extras), size=(3.0 * len(extras), 6.0))
    for j, (cell, kept) in enumerate(extras):
        for i, when in enumerate(("before", "after")):
            ax = axes[i, j]
            for points, place, marker in zip(kept[when], kept["place"], ("o", "^"), strict=True):
                at = np.asarray(points)
                ax.scatter(at[:, 0], at[:, 1], c=place, s=9, marker=marker, cmap="viridis", linewidths=0)
            ax.set(xticks=[], yticks=[], title=cell["manifold"] if i == 0 else "")
            ax.set_ylabel(("as sampled", "aligned (default)")[i] if j == 0 else "")
    fig.suptitle(
        "two samples (circles, triangles) on their first principal components; colour: place on the manifold"
    )
    return fig


EXPERIMENT = Experiment(
    name="manifolds",
    title="Error of aligning two samples of a manifold, the second rotated "
    "(0: each row meets its place, 1: chance).",
    cells=cells,
    measure=measure,
    summaries=(Summary(("manifold", "density", "noise", "method"), ("error",)),),
    outputs=outputs,
)
