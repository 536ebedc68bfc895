"""The picture on the landing page and in the README: ``make overview`` writes `_static/overview.png`."""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.manifold import TSNE

from harmonicalign import HarmonicAlignment, plot
from harmonicalign.datasets import load_digits_pair
from harmonicalign.metrics import knn_label_agreement

NAMES = ["clean camera", "scrambled camera"]


def draw(path: Path) -> dict[str, float]:
    """Draw two cameras' digits before and after alignment, and return the accuracies in the titles."""
    pair = load_digits_pair(preserved=0.35, random_state=0)
    model = HarmonicAlignment(random_state=0).fit([pair.x, pair.y])
    labels = [pair.labels_x, pair.labels_y]
    found = {
        name: knn_label_agreement(x, pair.labels_x, y, pair.labels_y)
        for name, (x, y) in {"before": (pair.x, pair.y), "after": model.embedding_}.items()
    }
    flat = two_columns(model)

    figure = plt.figure(figsize=(12.6, 3.7), layout="constrained")
    left, middle, right, side = figure.subplots(1, 4, width_ratios=[3, 3, 3, 1.15])
    plot.embedding([pair.x, pair.y], ax=left, names=NAMES)
    plot.embedding(flat, ax=middle, names=NAMES)
    plot.embedding(flat, labels=labels, ax=right, names=["clean", "scrambled"])
    left.set_title(f"before: {found['before']:.0%} of digits found")
    middle.set_title(f"after: {found['after']:.0%} of digits found")
    right.set_title("after, by digit")
    entries = left.get_legend().legend_handles
    for ax in (left, middle):
        ax.get_legend().remove()
        ax.legend(
            handles=entries,
            labels=NAMES,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            ncols=2,
            frameon=False,
            fontsize="small",
        )
    for ax in (left, middle, right):
        ax.set(xlabel="", ylabel="")
    weights(side, pair.preserved, model.feature_scores_)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return found


def two_columns(model: HarmonicAlignment) -> list[np.ndarray]:
    """A t-SNE of the aligned rows of all datasets, one array per dataset."""
    flat = TSNE(random_state=0, init="pca", perplexity=40).fit_transform(np.vstack(model.embedding_))
    return np.split(flat, np.cumsum([len(z) for z in model.embedding_])[:-1])


def weights(ax: plt.Axes, truth: np.ndarray, scores: np.ndarray) -> None:
    """Which pixels correspond, above, and what was learned of it, below."""
    ax.axis("off")
    for place, values, title in ((0.56, truth, "pixels that\ncorrespond"), (0.0, scores, "score learned")):
        panel = ax.inset_axes([0.0, place, 1.0, 0.38])
        panel.imshow(values.reshape(8, 8), cmap="viridis", vmin=0, vmax=1)
        panel.set_title(title, fontsize="small")
        panel.set(xticks=[], yticks=[])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "_static" / "overview.png")
    options = parser.parse_args()
    for when, share in draw(options.out).items():
        print(f"{when}: {share:.3f}")
