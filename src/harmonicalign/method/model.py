"""The default method as a fitted model: coordinates of all datasets, and the placement of new rows.

It is immutable and does not parse user input; `HarmonicAlignment` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.correspondence import Correspondence
from harmonicalign.evidence.significance import Significance
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.embed import Embedding
from harmonicalign.method.problem import PairAlignment
from harmonicalign.method.space import JointSpace
from harmonicalign.method.tangents import project
from harmonicalign.paper.align import MultiAlignment
from harmonicalign.paper.harmonics import Harmonics
from harmonicalign.paper.joint import Joint
from harmonicalign.paper.reduction import Reduction

__all__ = ["RefinedModel", "placed_confidence"]


@dataclass(frozen=True)
class RefinedModel:
    """The default method: learned correspondence, anchors, and one compact space.

    Attributes
    ----------
    reductions
        Principal components of every dataset's representation.
    landmarks
        Landmarks of every dataset: the rows on which the alignment was found.
    harmonics
        Harmonics of the landmarks.
    pairs
        By dataset index, its alignment with its parent in the tree of datasets.
    space
        The common space.
    correspondence
        Correspondence of the features, pooled over all pairs.
    significance
        Permutation test of the weakest pair, small datasets left out.
    embedding
        The embedded rows of the fit, and what places others among them.
    added
        Embedded rows of the datasets that were added later, in order.
    """

    method: ClassVar[str] = "refined"

    reductions: tuple[Reduction, ...]
    landmarks: tuple[Array, ...]
    harmonics: tuple[Harmonics, ...]
    pairs: dict[int, PairAlignment]
    space: JointSpace
    correspondence: Correspondence
    significance: Significance
    embedding: Embedding
    added: tuple[Array, ...] = ()

    @property
    def config(self) -> MethodConfig:
        """Configuration of the fit."""
        return self.space.config

    @property
    def alignment(self) -> MultiAlignment:
        """Correlations and rotations between datasets and their parents in the tree."""
        # Pairs have the parent first; here the smaller index comes first.
        found = {}
        for i, pair in self.pairs.items():
            j = self.space.parents[i]
            found[min(i, j), max(i, j)] = pair.alignment if j < i else pair.alignment.transposed
        return MultiAlignment(self.harmonics, found)

    def parent_of(self, i: int) -> int | None:
        """The dataset that dataset i was aligned with; None for the root of the tree."""
        return None if self.space.parents[i] < 0 else self.space.parents[i]

    def pair_of(self, i: int) -> PairAlignment | None:
        """The alignment of dataset i with its parent; None for the root of the tree."""
        return self.pairs.get(i)

    def tests_of(self, i: int) -> list[Significance]:
        """Permutation tests of dataset i against its parent and its children in the tree."""
        return [pair.significance for j, pair in self.pairs.items() if i in (j, self.space.parents[j])]

    def history(self) -> list[tuple[int, dict[str, Any]]]:
        """Every step of the alignments: the index of the dataset, and the record of the step."""
        return [(i, step) for i, pair in self.pairs.items() for step in pair.history]

    def coordinates(self) -> list[Array]:
        """Embedding of every dataset."""
        return [*self.embedding.split(), *self.added]

    def place(self, i: int, rows: Any, signals: Any, device: Any = "cpu") -> Array:
        """Embedding of rows of dataset i: its maps and shift, then their place among the fitted rows."""
        components = self.reductions[i].apply(rows)
        if device == "cpu":
            return self.embedding.place(self.space.place(i, components, signals))
        return self.embedding.place(self.space.place_on(device, i, components, signals))

    def place_rigidly(self, i: int, rows: Any, signals: Any) -> Array:
        """Coordinates of rows of dataset i in the common space before local shifts."""
        return np.asarray(self.space.place_rigidly(i, self.reductions[i].apply(rows), signals))

    def joint_geometry(self, seed: int) -> Joint:
        """Graph and harmonics of the embedded rows of all datasets, including those added later."""
        return self.embedding.joint_geometry(self.coordinates(), seed)

    def confidence(self, datasets: Sequence[Any], signals: Sequence[Any], seed: int) -> list[Array]:
        """Confidence of each row, before local shifts."""
        parts = zip(datasets, signals, strict=True)
        placed = [self.place_rigidly(i, *part) for i, part in enumerate(parts)]
        return placed_confidence(placed, seed, self.config)

    def slim(self) -> RefinedModel:
        """The part of the model that places rows: without harmonics and alignments of pairs."""
        return replace(self, harmonics=(), pairs={})


def placed_confidence(
    coordinates: Sequence[Array], random_state: int = 0, config: MethodConfig = DEFAULT
) -> list[Array]:
    """Confidence of rows from their coordinates before local shifts.

    As `row_confidence`, on rows projected onto tangent planes: noise makes rows equally far from their own
    and from other datasets, and the projection removes most of it.
    """
    if sum(map(len, coordinates)) <= config.tangent_rows:
        rows = np.vstack(coordinates)
        flat = project(rows, rows, config)
        coordinates = np.split(flat, np.cumsum([len(part) for part in coordinates])[:-1])
    return row_confidence(
        coordinates, n_smooth=config.reported_smoothing, random_state=random_state, config=config
    )
