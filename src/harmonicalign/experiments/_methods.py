"""One interface to our methods and the comparison methods."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harmonicalign._exceptions import AlignmentWarning
from harmonicalign._typing import Array, MatrixLike
from harmonicalign.estimator import HarmonicAlignment
from harmonicalign.experiments import baselines
from harmonicalign.shape.alignment import ShapeAlignment

__all__ = ["OURS", "QUICK_MAGAN", "TUNED", "Embedded", "by_shape", "embed", "embed_digits", "names", "tuned"]


OURS = ("paper", "default")

TUNED: dict[str, dict[str, Any]] = {
    "mnn": {"k": 5, "sigma": 0.2},
    "magan": {
        "n_components": 50,
        "correspondence_weight": 0.02,
        "learning_rate": 3e-5,
        "generator_layers": (200, 200),
        "discriminator_layers": (200, 100),
        "batch_size": 256,
    },
}
"""Settings of the comparison methods on corrupted digits, from a small search on a separate pair.

Our methods have their defaults. The search used 1000 and 1000 images of MNIST with 35 % of the pixels
preserved: MNN over k of 2 to 100 and σ of 0.05 to 0.5, with and without PCA; MAGAN over the weight of the
correspondence loss, the learning rate, the number of principal components and the layers, trained until it
converged (0.874; at its published settings 0.81, as large discriminators overfit so few rows). Of
48 settings of Wang & Mahadevan the best had 0.153, where chance is 0.1, so it stays at its defaults.
"""

QUICK_MAGAN: dict[str, Any] = {
    "max_iter": 250,
    "learning_rate": 1e-3,
    "generator_layers": (64,),
    "discriminator_layers": (64,),
}
"""Very short training of MAGAN, for the quick form."""


@dataclass(frozen=True)
class Embedded:
    """Rows of all datasets in one space.

    Attributes
    ----------
    coordinates
        One array per dataset.
    seconds, cpu_seconds
        Wall-clock time and processor time; the latter hardly depends on other processes.
    model
        The fitted estimator, for our methods.
    curves
        Training curves of MAGAN.
    """

    coordinates: list[Array]
    seconds: float
    cpu_seconds: float
    model: HarmonicAlignment | None = None
    curves: dict[str, Array] | None = None


def names() -> dict[str, str]:
    """Every method that needs no known pairs, with the missing package (empty if it can be used)."""
    blind = {k: v for k, v in baselines.available().items() if k not in ("cca", "procrustes")}
    return blind | dict.fromkeys(OURS, "")


def embed(
    method: str,
    datasets: Sequence[MatrixLike],
    *,
    signals: Sequence[MatrixLike] | None = None,
    seed: int = 0,
    anchors: Any = None,
    keys: Sequence[str] | None = None,
    **options: Any,
) -> Embedded:
    """Embed datasets by the method of that name.

    Parameters
    ----------
    method
        "default", "paper" or a comparison method's name.
    datasets
        Matrices. Their columns correspond unless `signals` is given.
    signals
        Columns that correspond. Our methods build graphs on `datasets` and compare `signals`; the comparison
        methods take one matrix per dataset, the signals.
    seed
        Seed of the method.
    anchors
        For the default: rows known to match, from which signals are learned where none are given.
    keys
        Names of the datasets, for messages of our methods.
    **options
        Parameters of the method.
    """
    start = time.perf_counter(), time.process_time()

    def spent() -> tuple[float, float]:
        return time.perf_counter() - start[0], time.process_time() - start[1]

    if method in OURS:
        model = HarmonicAlignment(
            method="paper" if method == "paper" else "refined", random_state=seed, **options
        )
        given = None if signals is None else list(signals)
        learned = anchors is not None and signals is None
        wanted: Any = "anchors" if learned else given
        shape: Any = list(datasets)
        if keys is not None:
            shape = dict(zip(keys, datasets, strict=True))
            wanted = dict(zip(keys, given, strict=True)) if given is not None else wanted
        model.fit(shape, signals=wanted, anchors=anchors)
        return Embedded(model.embedding_, *spent(), model=model)
    shown = list(datasets if signals is None else signals)
    if method in ("magan", "harmony", "scanorama", "scvi"):
        options = {"random_state": seed, **options}
    other = baselines.get(method, **options)
    if method == "magan":
        fit = other.fit(shown)  # type: ignore[attr-defined]
        return Embedded(fit.embeddings, *spent(), curves=fit.history_)
    return Embedded(other.fit_transform(shown), *spent())


def by_shape(datasets: Sequence[MatrixLike], seed: int = 0) -> Embedded:
    """Two datasets aligned by shape alone, refused or not."""
    start = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)
        found = ShapeAlignment(random_state=seed).fit(list(datasets)).embedding_
    return Embedded(found, time.perf_counter() - start[0], time.process_time() - start[1])


def tuned(method: str, quick: bool = False) -> dict[str, Any]:
    """Settings of a method on digits, for a cell; empty for the defaults."""
    settings = TUNED.get(method)
    if quick and method == "magan":
        settings = TUNED[method] | QUICK_MAGAN | {"n_components": 30}
    return {} if settings is None else {"settings": settings}


def embed_digits(
    method: str, datasets: Sequence[MatrixLike], *, seed: int = 0, quick: bool = False
) -> Embedded:
    """Embed corrupted digits, with the settings in `TUNED` for comparison methods."""
    return embed(method, datasets, seed=seed, **tuned(method, quick).get("settings", {}))
