"""What the fitted models of both methods have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from harmonicalign._typing import Array
from harmonicalign.evidence.correspondence import Correspondence
from harmonicalign.evidence.significance import Significance
from harmonicalign.method.problem import PairAlignment
from harmonicalign.paper.align import MultiAlignment
from harmonicalign.paper.harmonics import Harmonics
from harmonicalign.paper.joint import Joint
from harmonicalign.paper.reduction import Reduction

__all__ = ["AlignedModel"]


class AlignedModel(Protocol):
    """What the models of both methods offer; what only the default method knows is None for the other."""

    method: ClassVar[str]

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """Principal components of every dataset."""

    @property
    def harmonics(self) -> tuple[Harmonics, ...]:
        """Harmonics of every dataset."""

    @property
    def alignment(self) -> MultiAlignment:
        """Correlations and rotations between pairs of datasets."""

    @property
    def correspondence(self) -> Correspondence | None:
        """What the features say, over all pairs."""

    @property
    def significance(self) -> Significance | None:
        """Permutation test of the weakest pair."""

    def parent_of(self, i: int) -> int | None:
        """The dataset that dataset i was aligned with."""

    def pair_of(self, i: int) -> PairAlignment | None:
        """The alignment of dataset i with its parent."""

    def tests_of(self, i: int) -> list[Significance]:
        """Permutation tests of dataset i against its parent and its children."""

    def history(self) -> list[tuple[int, dict[str, Any]]]:
        """Number of a dataset, and the record of a step of its refinement."""

    def coordinates(self) -> list[Array]:
        """Aligned coordinates of every dataset's rows."""

    def place(self, i: int, rows: Any, signals: Any, device: Any = "cpu") -> Array:
        """Aligned coordinates of rows of dataset i, computed on a device of `engines.devices.resolve`."""

    def joint_geometry(self, seed: int) -> Joint:
        """Graph and harmonics over the joint coordinates of all datasets."""

    def confidence(self, datasets: Sequence[Any], signals: Sequence[Any], seed: int) -> list[Array] | None:
        """How well other datasets support each row's place."""

    def slim(self) -> AlignedModel:
        """Only what places rows."""
