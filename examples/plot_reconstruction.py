"""
Reconstructing corrupted digits
===============================

Fig. 2b of the paper, on the digits that come with scikit-learn. One half of the images stays as it is. The
other half is multiplied by a random orthogonal matrix in which only 30 % of the columns are those of the
identity: 19 of 64 pixels keep their meaning, and the other 45 are scrambled. Which ones is unknown.

Each corrupted image is then reconstructed from clean ones. Among its 10 nearest neighbours in the clean half
the most frequent digit is found, and every pixel is averaged over the neighbours of that digit. Without
alignment the neighbours mostly show the wrong digit, and so does the reconstruction. After alignment they
show the right one, and the reconstruction is nearly as good as from uncorrupted images.

Run it with ``python examples/plot_reconstruction.py --out example-output``.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import NearestNeighbors

from harmonicalign import HarmonicAlignment
from harmonicalign.datasets import load_digits_pair

parser = argparse.ArgumentParser(description="Reconstruct corrupted digits with and without alignment.")
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for the figure")
parser.add_argument("--preserved", type=float, default=0.3, help="share of the pixels that are preserved")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
plt.switch_backend("agg")  # figures are written to files; no display is needed

# %%
# The data and the alignment
# --------------------------
# ``pair.x`` are the clean images and ``pair.y`` the corrupted ones; ``pair.y_clean`` is the truth, which is
# used only to measure errors and to draw the first row of the figure.

pair = load_digits_pair(preserved=options.preserved, random_state=options.seed)
model = HarmonicAlignment(random_state=options.seed).fit([pair.x, pair.y])


# %%
# Reconstruction
# --------------
# The rule is the same in every case; only the space of the neighbour search differs.


def reconstruct(clean, corrupted, images, labels, n_neighbors=10):
    """Average over the most frequent class among the nearest clean images, and that class."""
    nearest = NearestNeighbors(n_neighbors=n_neighbors).fit(clean).kneighbors(corrupted)[1]
    kinds = labels[nearest]
    counts = (kinds[:, :, None] == np.unique(labels)).sum(axis=1)
    dominant = np.unique(labels)[counts.argmax(axis=1)]
    chosen = kinds == dominant[:, None]
    return (images[nearest] * chosen[:, :, None]).sum(axis=1) / chosen.sum(axis=1, keepdims=True), dominant


spaces = {
    "without alignment": (pair.x, pair.y),
    "with alignment": tuple(model.embedding_),
    "had nothing been corrupted": (pair.x, pair.y_clean),
}
results = {name: reconstruct(*space, pair.x, pair.labels_x) for name, space in spaces.items()}

# %%
# Scores
# ------
# The error is the root mean square over all pixels (which run from 0 to 16) of all images.

print(f"{len(pair.y)} digits of which {int(pair.preserved.sum())} of 64 pixels are preserved")
for name, (images, dominant) in results.items():
    error = np.sqrt(np.mean((images - pair.y_clean) ** 2))
    print(f"  reconstruction error {name:<28} {error:.3f}")
    print(f"  right digit {name:<37} {np.mean(dominant == pair.labels_y):.3f}")

# %%
# The figure
# ----------
# One column for each digit, showing its first image in the corrupted half. A dot marks reconstructions of the
# wrong digit.

columns = [int(np.flatnonzero(pair.labels_y == digit)[0]) for digit in range(10)]
rows = {
    "input": (pair.y_clean, None),
    "corrupted": (pair.y, None),
    "reconstructed\nwithout alignment": results["without alignment"],
    "reconstructed\nwith alignment": results["with alignment"],
}
figure, axes = plt.subplots(len(rows), len(columns), figsize=(9.6, 4.3), layout="constrained")
for line, (name, (images, dominant)) in zip(axes, rows.items(), strict=True):
    for ax, column in zip(line, columns, strict=True):
        ax.imshow(images[column].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
        if dominant is not None and dominant[column] != pair.labels_y[column]:
            ax.plot(0.1, 0.9, "o", color="#D55E00", markersize=7, transform=ax.transAxes)
    line[0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=8)
figure.suptitle(f"digits with {100 * options.preserved:.0f} % of the pixels preserved (dot: wrong digit)")
options.out.mkdir(parents=True, exist_ok=True)
figure.savefig(options.out / "reconstruction.png", dpi=120)
print(f"Figure: {options.out / 'reconstruction.png'}")
