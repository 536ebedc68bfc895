"""
Reference mapping
=================

A reference is fitted once and used for a long time: the model is saved, loaded elsewhere, places rows that
arrive later, and takes in datasets that nobody had thought of. Nothing that is there moves meanwhile, so
that results of last month stay comparable with those of today.

The reference is a set of labelled digits. Site A sends digits of which half of the pixels are scrambled,
and is part of the fit. Then come 200 more images from site A, which ``transform`` places, and a whole dataset
from site B, scrambled in another way, which ``add`` lets join. For each, the figure printed is the share of
images whose 5 nearest neighbours in the reference are mostly of the right digit, on the pixels as they
arrived and after mapping.

Run it with ``python examples/plot_reference_mapping.py --out example-output``.
"""

import argparse
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import harmonicalign
from harmonicalign import HarmonicAlignment, plot
from harmonicalign.datasets import corruption_matrix
from harmonicalign.metrics import knn_label_agreement

parser = argparse.ArgumentParser(description="Fit, save, load, place new rows, add a dataset.")
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for the pictures")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
plt.switch_backend("agg")  # pictures go to files, so no screen is needed

# %%
# A reference and two sites
# -------------------------

images, digits = load_digits(return_X_y=True)
order = np.random.default_rng(options.seed).permutation(len(images))
reference, site_a, later_a, site_b = np.split(order, [700, 1250, 1450])
scramble_a, _ = corruption_matrix(64, 0.5, random_state=options.seed)
scramble_b, _ = corruption_matrix(64, 0.5, random_state=options.seed + 100)

# %%
# Fit and save
# ------------
# One ``.npz`` file; nothing in it is executed when it is read.

fitted = HarmonicAlignment(random_state=options.seed)
fitted.fit({"reference": images[reference], "site A": images[site_a] @ scramble_a})
with tempfile.TemporaryDirectory() as folder:
    path = fitted.save(Path(folder) / "reference.npz")
    print(f"saved {path.name}: {path.stat().st_size / 2**20:.1f} MiB")
    model = harmonicalign.load(path)

# %%
# New rows of a known site, and a new site
# ----------------------------------------
# ``transform`` is told which site the rows come from. ``add`` changes the model, which knows the new site
# from then on, but no coordinates of the others.

rows_a, rows_b = images[later_a] @ scramble_a, images[site_b] @ scramble_b
placed = model.transform(rows_a, dataset="site A")
same = np.array_equal(placed, fitted.transform(rows_a, dataset="site A"))
print(f"  loaded model places rows as the saved one did: {same}")
added = model.add(rows_b, key="site B")
stayed = all(np.array_equal(a, b) for a, b in zip(fitted.embedding_, model.embedding_[:2], strict=True))
print(f"  nothing moved when site B was added: {stayed}")

# %%
# What improved
# -------------

home = model.embedding_[0]
cases = {
    "site A, part of the fit": (images[site_a] @ scramble_a, model.embedding_[1], digits[site_a]),
    "site A, new rows": (rows_a, placed, digits[later_a]),
    "site B, added": (rows_b, added, digits[site_b]),
}
scores = {
    name: (
        knn_label_agreement(images[reference], digits[reference], before, kinds),
        knn_label_agreement(home, digits[reference], after, kinds),
    )
    for name, (before, after, kinds) in cases.items()
}
print(f"{'right digit':<28} {'before':>9} {'mapped':>9}")
for name, numbers in scores.items():
    print(f"  {name:<26} " + " ".join(f"{number:9.3f}" for number in numbers))

# %%
# The pictures
# ------------
# First where the new rows and the new site land among the reference: before mapping apart, afterwards on top.

names = ["reference", "site A, new rows", "site B, added"]
figure = plt.figure(figsize=(9.6, 7.6), layout="constrained")
plot.before_after(
    [images[reference], rows_a, rows_b],
    [home, placed, added],
    labels=[digits[reference], digits[later_a], digits[site_b]],
    names=names,
    axes=figure.subplots(2, 2).ravel(),
)
options.out.mkdir(parents=True, exist_ok=True)
figure.savefig(options.out / "reference_mapping.png", dpi=120)

# %%
# Then the figures printed above.

figure, ax = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
places = np.arange(len(scores))
for shift, column, colour, name in ((-0.2, 0, "#E69F00", "as they arrived"), (0.2, 1, "#0072B2", "mapped")):
    bars = ax.barh(places + shift, [s[column] for s in scores.values()], 0.36, color=colour, label=name)
    ax.bar_label(bars, fmt="%.2f", padding=3, fontsize="small")
ax.set_yticks(places, list(scores))
ax.invert_yaxis()
ax.set(xlabel="share of images whose neighbours tell the right digit", xlim=(0, 1.08))
ax.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside upper center", ncols=2, frameon=False)
figure.savefig(options.out / "reference_mapping_accuracy.png", dpi=120)
print(f"Pictures: {options.out / 'reference_mapping.png'}, {options.out / 'reference_mapping_accuracy.png'}")
