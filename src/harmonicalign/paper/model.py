"""The published method as a fitted model: coordinates of all datasets, and the placement of new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from harmonicalign._progress import Progress
from harmonicalign._repr import short_repr
from harmonicalign._typing import Array
from harmonicalign.engines.devices import neighbours_on
from harmonicalign.inputs.settings import FitOptions
from harmonicalign.paper.align import MultiAlignment, calibrate, joint_signal_basis, multi_align
from harmonicalign.paper.graph import EXACT_ROWS, kernel_graph
from harmonicalign.paper.harmonics import Harmonics, harmonics
from harmonicalign.paper.joint import Joint, joint_geometry, synchronize, unified_blocks
from harmonicalign.paper.reduction import Reduction, reduce_rows

__all__ = ["PaperModel", "fit_paper"]


@dataclass(frozen=True)
class PaperModel:
    """Harmonic Alignment as published: unified map, or a common frame.

    Attributes
    ----------
    reductions
        Principal components of every dataset's representation.
    harmonics
        Harmonics of every dataset.
    alignment
        Pairwise correlations and rotations.
    frames
        Rotations into a common frame; None for the unified map's blocks.
    t
        Diffusion time.
    """

    __repr__ = short_repr

    method: ClassVar[str] = "paper"

    # Attributes of the default method only.
    correspondence: ClassVar[None] = None
    significance: ClassVar[None] = None

    reductions: tuple[Reduction, ...]
    harmonics: tuple[Harmonics, ...]
    alignment: MultiAlignment
    frames: tuple[Array, ...] | None
    t: float

    def coordinates(self) -> list[Array]:
        """Aligned coordinates of the rows of every dataset."""
        return [self._rotate(i, h.phi) for i, h in enumerate(self.harmonics)]

    def place(self, i: int, rows: Any, signals: Any, device: Any = "cpu") -> Array:
        """Coordinates of rows of dataset i, by the Nyström extension of its harmonics."""
        h, neighbours = self.harmonics[i], neighbours_on(device)
        new = self.reductions[i].apply(rows)
        return self._rotate(i, h.extend(h.graph.extend(new, neighbours=neighbours)))

    def joint_geometry(self, seed: int) -> Joint:
        """Graph and harmonics of the aligned coordinates of all datasets."""
        return joint_geometry(self.coordinates(), random_state=seed)

    def confidence(self, datasets: Sequence[Any], signals: Sequence[Any], seed: int) -> None:
        """None: the published method defines no confidence of rows."""

    def parent_of(self, i: int) -> None:
        """None: all pairs of datasets are aligned, without a tree."""

    def pair_of(self, i: int) -> None:
        """None: no pair is aligned by the default method."""

    def tests_of(self, i: int) -> list[Any]:
        """Empty: nothing is tested."""
        return []

    def history(self) -> list[tuple[int, dict[str, Any]]]:
        """Empty: there is one step."""
        return []

    def slim(self) -> PaperModel:
        """The part of the model that places rows, without the kernels of the graphs."""
        bare = [replace(h, graph=replace(h.graph, kernel=None)) for h in self.harmonics]
        return replace(self, harmonics=tuple(bare))

    def _rotate(self, i: int, phi: Array) -> Array:
        if self.frames is not None:
            return np.asarray((phi * self.harmonics[i].frequencies ** self.t) @ self.frames[i])
        rotations = [self.alignment.rotation(i, j) for j in range(len(self.harmonics))]
        return unified_blocks(phi, rotations, [h.frequencies for h in self.harmonics], self.t)


def fit_paper(
    datasets: Sequence[Any],
    signals: Sequence[Any],
    names: Sequence[str],
    options: FitOptions,
    *,
    signal_pca: int | None,
    common: bool,
    progress: Progress,
) -> PaperModel:
    """Alg. HarmonicAlignment and Alg. MultiAlignment.

    Parameters
    ----------
    datasets, signals
        Representation and signals of every dataset.
    names
        Their names, for messages.
    options
        Options of the user.
    signal_pca
        Rank of a joint projection of the signals, or None.
    common
        Whether to compute rotations into one common frame.
    progress
        Receives every stage.
    """
    settings, kernel, seed, first_band = options.settings, options.kernel, options.seed, options.first_band
    engine = neighbours_on(options.device)
    reductions, found = [], []
    for i, (data, name) in enumerate(zip(datasets, names, strict=True)):
        with progress.stage(f"graph of {name}"):
            reduction, rows = reduce_rows(data, settings.n_pca[i], seed)
            # Of few rows all distances are computed, and of matrices of distances none.
            search = engine if kernel["metric"] == "euclidean" and len(rows) > EXACT_ROWS else None
            graph = kernel_graph(rows, n_neighbors=settings.n_neighbors[i], neighbours=search, **kernel)
        with progress.stage(f"harmonics of {name}"):
            k = settings.n_harmonics[i]
            found.append(harmonics(graph, k, random_state=seed, name=name))
        reductions.append(reduction)
    with progress.stage("alignment"):
        if signal_pca is not None:
            basis = joint_signal_basis(signals, signal_pca, seed)
            signals = [np.asarray(s @ basis) for s in signals]
        shared = calibrate(found) if settings.calibrate else tuple(found)
        alignment = multi_align(shared, signals, n_bands=settings.n_bands, first_band=first_band)
        frames = tuple(synchronize(alignment)) if common else None
    return PaperModel(tuple(reductions), shared, alignment, frames, settings.t)
