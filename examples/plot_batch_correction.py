"""
Batch correction
================

Two similar samples are measured on two days, and the instrument has drifted: every marker has its own gain
and offset on the second day. The samples differ as well. The cells form a tree; on the second day one of its
branches is missing, and young cells are more frequent.

A correction should remove the drift and keep the difference between the samples. Matching the quantiles of
each marker, the usual simple correction, cannot distinguish the two: it makes the marginal distributions of
the two days equal by giving young cells the values of old ones. ``model.correct`` maps quantiles within
neighbourhoods of the aligned space, where cells of the same state are compared.

The data are generated, so that the true values of the second day are known.

Run it with ``python examples/plot_batch_correction.py --out example-output``.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from harmonicalign import HarmonicAlignment, plot
from harmonicalign.datasets import tree
from harmonicalign.metrics import earth_movers_distance, knn_label_agreement

parser = argparse.ArgumentParser(description="Correct a batch effect between two unlike samples.")
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for the figures")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
plt.switch_backend("agg")  # figures are written to files; no display is needed

# %%
# Two days
# --------
# Cells lie on a tree of seven branches in 12 markers. ``density=1`` makes the root of the tree more
# frequent on the second day. Its last branch is then removed.

pair = tree(
    1000, 1000, depth=3, n_features=12, noise=0.15, density=1.0, rotate=False, random_state=options.seed
)
present = pair.labels_y != pair.labels_y.max()
day1, branch1 = pair.x, pair.labels_x
truth, branch2 = pair.y[present], pair.labels_y[present]

rng = np.random.default_rng(options.seed)
gain = np.exp(rng.normal(0, 0.3, day1.shape[1]))
offset = rng.normal(0, 1, day1.shape[1]) * day1.std(axis=0)
day2 = truth * gain + offset

# %%
# Correction
# ----------
# Neither pairs nor labels are known. The first day is the reference and is returned unchanged. The second is
# returned in the units of the first.

model = HarmonicAlignment(random_state=options.seed).fit({"day 1": day1, "day 2": day2})
corrected = model.correct(reference="day 1").values["day 2"]

ranks = day2.argsort(axis=0).argsort(axis=0) / (len(day2) - 1)
matched = np.column_stack([np.quantile(v, r) for v, r in zip(day1.T, ranks.T, strict=True)])

# %%
# Scores
# ------
# The error of the values, in units of the markers' spread, is the main measure; it needs the truth. The earth
# mover's distance compares the days branch by branch, so that composition does not matter. Its lower limit is
# the distance of the true values, which are another sample. The last column is the share of cells whose
# nearest neighbours on the first day are of the same branch.

spread = np.sqrt(day1.var(axis=0).mean())
shared = np.unique(branch2)


def report(values):
    """Error of the values, distance between the days within branches, agreement on the branch."""
    error = np.sqrt(np.mean((values - truth) ** 2)) / spread
    distances = [earth_movers_distance(day1[branch1 == b], values[branch2 == b]).mean() for b in shared]
    return error, np.mean(distances) / spread, knn_label_agreement(day1, branch1, values, branch2)


versions = {
    "uncorrected": day2,
    "quantiles matched": matched,
    "harmonicalign": corrected,
    "true values": truth,
}
scores = {name: report(values) for name, values in versions.items()}
print(f"{'second day':<20} {'error':>9} {'distance':>9} {'branch':>9}")
for name, numbers in scores.items():
    print(f"  {name:<18} " + " ".join(f"{number:9.3f}" for number in numbers))

# %%
# The cells
# ---------
# Both days in the first two principal components of the first day, the same in every panel. The missing
# branch should stay missing and the others should keep their shape. Quantile matching distorts the tree.

blue, orange, grey = "#0072B2", "#E69F00", "#D0D0D0"
plane = PCA(2).fit(day1)
figure, axes = plt.subplots(2, 2, figsize=(9.2, 7.0), sharex=True, sharey=True, layout="constrained")
for ax, (name, values) in zip(axes.flat, versions.items(), strict=True):
    days = [plane.transform(day1), plane.transform(values)]
    plot.embedding(days, ax=ax, names=["day 1", "day 2"], title=name)
    ax.set(xlabel="principal component 1", ylabel="principal component 2")
    ax.label_outer()
    if ax is not axes[0, 1]:
        ax.get_legend().remove()
options.out.mkdir(parents=True, exist_ok=True)
figure.savefig(options.out / "batch_correction_cells.png", dpi=120)

# %%
# One marker
# ----------
# Distributions of the marker in which the samples truly differ most. The corrected second day should follow
# its true values (grey), not the first day.

marker = int(np.argmax(earth_movers_distance(day1, truth) / day1.std(axis=0)))
shown = np.concatenate([v[:, marker] for v in (day1, *versions.values())])
edges = np.linspace(shown.min(), shown.max(), 33)
figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.2), sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, list(versions.items())[:3], strict=True):
    ax.hist(truth[:, marker], edges, density=True, color=grey, label="day 2, true values")
    for data, colour, style, label in (
        (day1, blue, "-", "day 1"),
        (values, orange, "--", "day 2, as shown"),
    ):
        ax.stairs(
            np.histogram(data[:, marker], edges, density=True)[0],
            edges,
            color=colour,
            linestyle=style,
            linewidth=1.8,
            label=label,
        )
    ax.set(title=name, xlabel=f"marker {marker}")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("density of cells")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
figure.savefig(options.out / "batch_correction_marker.png", dpi=120)
print(f"Figures: {options.out / 'batch_correction_cells.png'}, {options.out / 'batch_correction_marker.png'}")
