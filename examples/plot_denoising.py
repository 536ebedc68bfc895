"""
Denoising
=========

Single rows are noisy, but many rows are similar to each other. Denoising by diffusion replaces each row by a
mean over rows near it. Two datasets offer more rows to average over, provided that neighbours are found
across datasets; this requires an alignment.

Here a large dataset and a small one are sampled from one tree, with noise of a third of its spread on every
marker. The small one comes from a second instrument that has its own gain and offset for each marker.
Without alignment the two datasets do not overlap: diffusion smooths each separately, and the difference
between the instruments remains. After alignment and correction, each row of the small dataset is averaged
over its neighbours in both.

Averaging has a cost: it shortens the tips of the branches and rounds off the forks, as the figure shows.

Run it with ``python examples/plot_denoising.py --out example-output``.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from harmonicalign import HarmonicAlignment
from harmonicalign.datasets import tree
from harmonicalign.metrics import earth_movers_distance
from harmonicalign.smooth import balanced_transitions, denoise

parser = argparse.ArgumentParser(description="Denoise a small dataset with the help of a large one.")
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for the figure")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
plt.switch_backend("agg")  # figures are written to files; no display is needed

# %%
# A large dataset and a small one
# -------------------------------
# The same seed with ``noise=0`` gives the true values of the same points.

sizes = {"n_x": 1500, "n_y": 300, "depth": 3, "n_features": 12, "rotate": False}
noisy = tree(**sizes, noise=0.3, random_state=options.seed)
true = tree(**sizes, noise=0.0, random_state=options.seed)

rng = np.random.default_rng(options.seed)
gain = np.exp(rng.normal(0, 0.15, noisy.x.shape[1]))
offset = rng.normal(0, 1, noisy.x.shape[1]) * noisy.x.std(axis=0)
large, small = noisy.x, noisy.y * gain + offset

# %%
# Denoising with and without alignment
# ------------------------------------
# ``model.denoise`` takes the stacked rows of all datasets, here after ``model.correct`` has brought them to
# one scale: an average over two instruments is meaningful only if their values agree. The comparison is the
# same diffusion on the unaligned rows. The number of steps is chosen from the data.

model = HarmonicAlignment(random_state=options.seed).fit([large, small])
corrected = model.correct(reference=0).values
aligned = model.denoise(np.vstack(corrected))
alone = [model.denoise(corrected[i], dataset=i).values for i in (0, 1)]
unaligned = denoise(np.vstack([large, small]), balanced_transitions([large, small]))

# %%
# Scores
# ------
# The error of the small dataset's values against the truth, in units of the tree's spread, and the earth
# mover's distance between the two datasets, which are samples of one tree. Two samples differ a little even
# without noise (the last line); averages over common neighbours can have a smaller distance than that.

n = len(large)
spread = np.sqrt(true.y.var(axis=0).mean())
versions = {
    "as measured": (large, small),
    "denoised without alignment": (unaligned.values[:n], unaligned.values[n:]),
    "aligned and corrected": tuple(corrected),
    "then each denoised by itself": tuple(alone),
    "then denoised together": (aligned.values[:n], aligned.values[n:]),
    "true values": (true.x, true.y),
}
scores = {
    name: (
        np.sqrt(np.mean((values - true.y) ** 2)) / spread,
        earth_movers_distance(reference, values).mean() / spread,
    )
    for name, (reference, values) in versions.items()
}
print(f"{'small dataset':<32} {'error':>9} {'distance':>9}")
for name, numbers in scores.items():
    print(f"  {name:<30} " + " ".join(f"{number:9.3f}" for number in numbers))
print(f"steps of diffusion, chosen automatically: {aligned.t}")

# %%
# The figure
# ----------
# The first two principal components of the true values, the same in every panel.

titles = {
    "as measured": "as measured",
    "denoised without alignment": "denoised without alignment",
    "then denoised together": "aligned, corrected, denoised together",
    "true values": "true values",
}
plane = PCA(2).fit(true.x)
figure, axes = plt.subplots(2, 2, figsize=(8.6, 7.0), sharex=True, sharey=True, layout="constrained")
for ax, (name, title) in zip(axes.flat, titles.items(), strict=True):
    (a, b), (c, d) = (plane.transform(values).T for values in versions[name])
    ax.scatter(a, b, s=6, color="#0072B2", alpha=0.5, linewidths=0, label="large dataset")
    ax.scatter(c, d, s=16, color="#E69F00", marker="^", linewidths=0, label="small dataset")
    ax.set(title=title, xticks=[], yticks=[])
    ax.set(xlabel="principal component 1", ylabel="principal component 2")
    ax.label_outer()
    ax.spines[["top", "right"]].set_visible(False)
figure.legend(
    *axes[0, 0].get_legend_handles_labels(),
    loc="outside lower center",
    ncols=2,
    frameon=False,
    markerscale=2,
)
options.out.mkdir(parents=True, exist_ok=True)
figure.savefig(options.out / "denoising.png", dpi=120)
print(f"Figure: {options.out / 'denoising.png'}")
