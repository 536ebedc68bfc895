"""
Reference mapping
=================

A reference is fitted once and then used repeatedly: the model is saved, loaded elsewhere, places new rows,
and accepts new datasets. Existing coordinates do not move, so that earlier results stay comparable.

The reference is a set of labelled digits. Site A provides digits of which half of the pixels are scrambled,
and is part of the fit. Later, ``transform`` places 200 more images from site A, and ``add`` adds a dataset
from site B, whose pixels are scrambled differently. The score of each is the share of images whose 5 nearest
neighbours in the reference mostly show the right digit, on the original pixels and after mapping.

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
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for the figures")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
plt.switch_backend("agg")  # figures are written to files; no display is needed

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
# The model is one ``.npz`` file; reading it executes no code.

fitted = HarmonicAlignment(random_state=options.seed)
fitted.fit({"reference": images[reference], "site A": images[site_a] @ scramble_a})
with tempfile.TemporaryDirectory() as folder:
    path = fitted.save(Path(folder) / "reference.npz")
    print(f"saved {path.name}: {path.stat().st_size / 2**20:.1f} MiB")
    model = harmonicalign.load(path)

# %%
# New rows of a known site, and a new site
# ----------------------------------------
# ``transform`` needs the name of the site that the rows come from. ``add`` changes the model, which then
# includes the new site; the coordinates of the others stay the same.

rows_a, rows_b = images[later_a] @ scramble_a, images[site_b] @ scramble_b
placed = model.transform(rows_a, dataset="site A")
same = np.array_equal(placed, fitted.transform(rows_a, dataset="site A"))
print(f"  loaded model places rows as the saved one did: {same}")
added = model.add(rows_b, key="site B")
stayed = all(np.array_equal(a, b) for a, b in zip(fitted.embedding_, model.embedding_[:2], strict=True))
print(f"  nothing moved when site B was added: {stayed}")

# %%
# Scores
# ------

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
# The figures
# -----------
# The first shows the new rows and the new site with the reference, before mapping (separate) and after.

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
# The second shows the scores printed above.

figure, ax = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
places = np.arange(len(scores))
for shift, column, colour, name in ((-0.2, 0, "#E69F00", "as they arrived"), (0.2, 1, "#0072B2", "mapped")):
    bars = ax.barh(places + shift, [s[column] for s in scores.values()], 0.36, color=colour, label=name)
    ax.bar_label(bars, fmt="%.2f", padding=3, fontsize="small")
ax.set_yticks(places, list(scores))
ax.invert_yaxis()
ax.set(xlabel="share of images whose neighbours show the right digit", xlim=(0, 1.08))
ax.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside upper center", ncols=2, frameon=False)
figure.savefig(options.out / "reference_mapping_accuracy.png", dpi=120)
print(f"Figures: {options.out / 'reference_mapping.png'}, {options.out / 'reference_mapping_accuracy.png'}")
