"""A demonstration on data that come with scikit-learn: ``python -m harmonicalign.demo``.

Two disjoint halves of the digits; the second is multiplied by a random orthogonal matrix that keeps
35 % of its columns. Which ones is not known to the model. After alignment, the nearest images in the first
half show the same digit again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from harmonicalign.adapters import plot
from harmonicalign.datasets import CorruptedPair, load_digits_pair
from harmonicalign.estimator import HarmonicAlignment
from harmonicalign.metrics import knn_label_agreement

__all__ = ["main"]

NAMES = ["first half", "second half, corrupted"]


def main(argv: list[str] | None = None) -> None:
    """Run the demonstration and write its pictures and its report."""
    parser = argparse.ArgumentParser(prog="harmonicalign.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder for the pictures")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)

    pair = load_digits_pair(preserved=0.35, random_state=options.seed)
    print(
        f"Two halves of the digits, {len(pair.x)} and {len(pair.y)} images of {pair.x.shape[1]} pixels;\n"
        f"in the second half only {int(pair.preserved.sum())} pixels are preserved."
    )
    model = HarmonicAlignment(random_state=options.seed).fit([pair.x, pair.y])
    for name, score in scores(pair, model).items():
        print(f"  5-nearest-neighbour accuracy, {name:<30} {score:.3f}")
    found = model.feature_scores_[pair.preserved].mean(), model.feature_scores_[~pair.preserved].mean()
    print(f"  mean agreement of preserved pixels {found[0]:.2f}, of corrupted ones {found[1]:.2f}")
    print(f"  significance {model.significance_}; time {sum(model.timings_.values()):.2f} s")
    print("Pictures:")
    try:
        for path in draw(pair, model, options.out):
            print(f"  {path.resolve()}")
    except ImportError as error:  # the report needs nothing but the core
        print(f"  none: {error}")
    print("Report, to open in a browser:")
    print(f"  {report(pair, model, options.out).resolve()}")


def scores(pair: CorruptedPair, model: HarmonicAlignment) -> dict[str, float]:
    """Share of images of the second half whose neighbours in the first half show the same digit."""
    x, y = model.embedding_

    def agreement(a: Any, b: Any) -> float:
        return knn_label_agreement(a, pair.labels_x, b, pair.labels_y, k=5)

    return {
        "unaligned": agreement(pair.x, pair.y),
        "aligned": agreement(x, y),
        "without corruption (a bound)": agreement(pair.x, pair.y_clean),
    }


def report(pair: CorruptedPair, model: HarmonicAlignment, out: Path) -> Path:
    """Write the report and return its path."""
    return model.report(
        out / "report.html",
        labels={"digit": [pair.labels_x, pair.labels_y]},
        names=NAMES,
        feature_names=pixel_names(pair),
        title="Two halves of the digits, one of them corrupted",
        force=True,
    )


def pixel_names(pair: CorruptedPair) -> list[str]:
    """Names of the pixels that tell which of them are corrupted."""
    return [f"pixel {i}" + ("" if kept else " (corrupted)") for i, kept in enumerate(pair.preserved)]


def draw(pair: CorruptedPair, model: HarmonicAlignment, out: Path) -> list[Path]:
    """Write the pictures and return their paths."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'harmonicalign[report]'") from error
    matplotlib.use("Agg")
    out.mkdir(parents=True, exist_ok=True)
    names = NAMES
    labels = [pair.labels_x, pair.labels_y]
    # Bands and rotation are best seen in the published method, on which the default builds.
    paper = HarmonicAlignment(method="paper", random_state=0).fit([pair.x, pair.y])
    first = paper.alignment_.pairs[0, 1]
    pixels = pixel_names(pair)
    axes: dict[str, Any] = {
        "before_after.png": plot.before_after([pair.x, pair.y], model.embedding_, labels=labels, names=names)[
            0
        ],
        "spectrum.png": plot.spectrum(
            [h.frequencies for h in paper.harmonics_], paper.settings_.n_bands, names=names
        ),
        "correlation.png": plot.correlation(
            [first.products, first.correlation, first.rotation],
            ["correlation of harmonics", "band-limited", "rotation"],
        )[0],
        "feature_weights.png": plot.feature_weights(model.feature_scores_.clip(0), names=pixels, top=30),
        "confidence.png": plot.confidence(model.confidence_, names=names),
    }
    written = []
    for name, ax in axes.items():
        path = out / name
        ax.figure.savefig(path, dpi=120, bbox_inches="tight")
        written.append(path)
    return written


if __name__ == "__main__":
    main()
