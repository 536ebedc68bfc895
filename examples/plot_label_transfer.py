"""
Label transfer
==============

One half of the digits is labelled. The other half has no labels, and 65 % of its pixels are scrambled.
After alignment the labels are transferred, each with a confidence: the calibrated probability that it is
right.

A useful confidence has two properties. It is calibrated: of the labels given with 80 %, about 80 % are right.
And it is low for classes that the labelled half lacks. To show this, all fours are removed from the labelled
half. The fours of the other half then have no right answer and should be left "unassigned", while few other
digits should be.

The comparison is the same vote among the nearest labelled images without alignment.

Run it with ``python examples/plot_label_transfer.py --out example-output``.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from harmonicalign import HarmonicAlignment
from harmonicalign.datasets import load_digits_pair
from harmonicalign.metrics import expected_calibration_error
from harmonicalign.transfer import transfer_labels

parser = argparse.ArgumentParser(description="Transfer labels to corrupted digits, with confidence.")
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for the figure")
parser.add_argument("--threshold", type=float, default=0.5, help="labels below it are unassigned")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
plt.switch_backend("agg")  # figures are written to files; no display is needed

# %%
# A labelled half without fours
# -----------------------------
# Labels are text here, so that "unassigned" has the same type.

missing = "4"
pair = load_digits_pair(preserved=0.35, random_state=options.seed)
labels, truth = pair.labels_x.astype(str), pair.labels_y.astype(str)
known = labels != missing
labels, labelled = labels[known], pair.x[known]

# %%
# Transfer
# --------
# ``method`` is "knn" (the default), "diffusion" or "svm". The unaligned comparison calls the function behind
# ``model.transfer`` on the pixels themselves.

model = HarmonicAlignment(random_state=options.seed).fit([labelled, pair.y])
found = model.transfer(labels, source=0, target=1, threshold=options.threshold)
unaligned = transfer_labels(labelled, labels, pair.y, threshold=options.threshold)

# %%
# Scores
# ------
# The most likely label of every row, assigned or not, is compared with the truth; a four is never right.

new = truth == missing
for name, transfer in {"without alignment": unaligned, "with alignment": found}.items():
    likeliest = transfer.classes[transfer.probabilities.argmax(axis=1)]
    right = likeliest == truth
    assigned = transfer.labels != "unassigned"
    print(f"{name}:")
    print(f"  accuracy, digits that have labels          {right[~new].mean():.3f}")
    print(f"  accuracy, assigned rows                    {right[assigned].mean():.3f}")
    print(f"  unassigned, of the fours (unknown)         {1 - assigned[new].mean():.3f}")
    print(f"  unassigned, of the other digits            {1 - assigned[~new].mean():.3f}")
    print(
        f"  calibration error                          "
        f"{expected_calibration_error(transfer.confidence, right):.3f}"
    )

# %%
# The figure
# ----------
# Left: how often labels of a given confidence are right; calibrated labels lie on the diagonal. The size of a
# marker shows the number of rows (bins of fewer than five are left out). Right: the confidence of rows whose
# digit has labels, and of the fours.


def calibration_curve(transfer, n_bins=10):
    """Mean confidence, share of right labels and number of rows in bins of equal width."""
    right = transfer.classes[transfer.probabilities.argmax(axis=1)] == truth
    bins = np.clip((transfer.confidence * n_bins).astype(int), 0, n_bins - 1)
    points = [
        (transfer.confidence[bins == b].mean(), right[bins == b].mean(), (bins == b).sum())
        for b in range(n_bins)
        if (bins == b).sum() >= 5
    ]
    return np.array(points).T


blue, orange, grey = "#0072B2", "#E69F00", "#7F7F7F"
figure, (left, right_panel) = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
left.plot([0, 1], [0, 1], ":", color=grey, label="as often as claimed")
for transfer, colour, marker, style, name in (
    (unaligned, orange, "^", "--", "without alignment"),
    (found, blue, "o", "-", "with alignment"),
):
    confidence, accuracy, size = calibration_curve(transfer)
    left.plot(confidence, accuracy, style, color=colour, marker=marker, label=name)
    left.scatter(confidence, accuracy, s=1.2 * size, color=colour, alpha=0.25, linewidths=0)
left.set(xlabel="confidence", ylabel="share of labels that are right", xlim=(-0.02, 1.06), ylim=(-0.02, 1.06))
left.legend(loc="upper left", frameon=False)

edges = np.linspace(0, 1, 21)
for rows, colour, style, name in (
    (~new, blue, "-", "digits that have labels"),
    (new, orange, "--", "fours, which have none"),
):
    share = 100 * np.histogram(found.confidence[rows], edges)[0] / rows.sum()
    right_panel.stairs(share, edges, color=colour, alpha=0.15, fill=True)
    right_panel.stairs(share, edges, color=colour, linestyle=style, linewidth=1.8, label=name)
right_panel.axvline(options.threshold, ymax=0.72, color=grey, linestyle=":")
right_panel.text(options.threshold - 0.02, 50, '"unassigned"', color="#4D4D4D", ha="right")
right_panel.text(options.threshold + 0.02, 50, "assigned", color="#4D4D4D")
right_panel.set(xlabel="confidence, with alignment", ylabel="rows (%)", xlim=(0, 1))
right_panel.legend(loc="upper center", frameon=False)
for ax in (left, right_panel):
    ax.spines[["top", "right"]].set_visible(False)
options.out.mkdir(parents=True, exist_ok=True)
figure.savefig(options.out / "label_transfer.png", dpi=120)
print(f"Figure: {options.out / 'label_transfer.png'}")
