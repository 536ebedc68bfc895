r"""One pair of datasets as a problem: what every run shares is computed once, and what a run ends in.

The harmonics of both datasets are calibrated to one diffusion time, their signals transformed, and a first
rotation and first weights of the features learned from them (`harmonicalign.evidence.correspondence`).
Whether features correspond at all is tested once (`harmonicalign.evidence.significance`), and how they
relate to each other is measured once (`harmonicalign.evidence.relations`).

A run maps the principal components P of both datasets into one space and their weighted signals S into
another (`harmonicalign.method.maps`). With the share φ of the signals' energy that corresponds, joint
coordinates are ``J = [(1 − φ) Q, φ S]``, Q the mapped components; rows of both parts have unit length, or
nearly where they have few columns. `harmonicalign.method.space`, which places all rows in the end, uses
another balance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harmonicalign._typing import Array, Pair
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.correspondence import Correspondence, correspondence, learn_rotation
from harmonicalign.evidence.relations import relate
from harmonicalign.evidence.significance import Significance, permutation_test
from harmonicalign.method.anchors import masses
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.maps import LinearMap, Side, blend, directions, reversed_maps, typical_length
from harmonicalign.paper.align import Alignment, calibrate, orthogonalize
from harmonicalign.paper.bands import bandlimiting_weights

__all__ = ["PairAlignment", "PairProblem"]


@dataclass(frozen=True)
class PairAlignment:
    """An alignment of two datasets, as one run ended.

    Attributes
    ----------
    alignment
        The rotation T between the harmonics, and the correlation it came from.
    correspondence
        Scores and weights of the features, and the share that corresponds.
    pairing
        Anchors Π between the rows that took part, (n_x, n_y).
    maps
        Maps of the two datasets' principal components into the first one's.
    centres
        Means of the two datasets' signals over their anchors: what corresponds is centred alike.
    significance
        Permutation test of the correspondence of the features.
    support
        Mean confidence of the rows of the dataset with the higher mean, in [0, 1].
    start
        Name of the hypothesis: "as is", "offset", "columns", "harmonics", "relations", "again" or "anchors".
    worth
        Score by which runs are compared: features agree, and rows of the two datasets meet.
    kinship
        How well the two datasets belong together, in [0, 1]: rows support each other, and features agree,
        not by chance and not oppositely.
    history
        One record per step: the start, what was done, and the objective after it.
    """

    alignment: Alignment
    correspondence: Correspondence
    pairing: Any
    maps: tuple[LinearMap, LinearMap]
    centres: Pair
    significance: Significance
    support: float
    start: str
    worth: float
    kinship: float
    history: tuple[dict[str, Any], ...]

    def reversed(self, sides: tuple[Side, Side]) -> PairAlignment:
        """The same alignment seen from the other dataset; `sides` are in the new order."""
        return replace(
            self,
            alignment=self.alignment.transposed,
            pairing=self.pairing.T.tocsr(),
            maps=reversed_maps(self.maps, masses(self.pairing)[1] @ sides[0].components),
            centres=self.centres[::-1],
        )


class PairProblem:
    """Two datasets to align, with everything that all runs share.

    Parameters
    ----------
    x, y
        The two datasets.
    config
        Numbers and rules of the method.
    known
        Pairs of rows known to match, a sparse (n_x, n_y) matrix, or None.
    n_bands, first_band
        Bands of the correlation; see `harmonicalign.align`.
    random_state
        Seed of the null distributions and samples.

    Attributes
    ----------
    sides
        The datasets with as many harmonics each, calibrated to one diffusion time.
    spectral
        Fourier coefficients of their signals.
    rotation, weights, objective
        First rotation and weights of the features, and the objective after each step of learning them.
    relations
        How the features relate to each other in either dataset.
    significance
        Permutation test of their correspondence.
    """

    def __init__(
        self,
        x: Side,
        y: Side,
        config: MethodConfig = DEFAULT,
        *,
        known: Any = None,
        n_bands: int = 8,
        first_band: int = 0,
        random_state: int = 0,
    ) -> None:
        k = min(x.harmonics.k, y.harmonics.k)
        hx, hy = calibrate([x.harmonics.truncate(k), y.harmonics.truncate(k)])
        self.harmonics = hx, hy
        self.sides = replace(x, harmonics=hx), replace(y, harmonics=hy)
        self.config, self.known, self.random_state = config, known, random_state
        self.spectral = self.sides[0].spectral(), self.sides[1].spectral()
        self.bands = bandlimiting_weights(hx.frequencies, hy.frequencies, n_bands, first_band)
        self.rotation, self.weights, self.objective = learn_rotation(
            self.bands,
            hx.frequencies,
            *self.spectral,
            n_iterations=config.learning_steps if config.learn_weights else 1,
            tolerance=config.learning_tolerance,
        )
        if not config.learn_weights:
            self.weights = np.ones_like(self.weights)
        self.relations = relate(x.signals, y.signals, config)
        self.significance = permutation_test(
            hx,
            hy,
            *self.spectral,
            relations=self.relations,
            n_bands=n_bands,
            random_state=random_state,
            config=config,
        )

    def judge(self, rotation: Array) -> Correspondence:
        """What the features say of a rotation, against the same wrong partners every time."""
        rng, config = np.random.RandomState(self.random_state), self.config
        found = correspondence(rotation, self.harmonics[0].frequencies, *self.spectral, rng, config)
        return found if config.learn_weights else replace(found, weights=np.ones_like(found.weights))

    def means(self) -> Pair:
        """Mean of each dataset's signals."""
        x, y = (np.asarray(side.signals.mean(axis=0)).ravel() for side in self.sides)
        return x, y

    def centres(self, pairing: Any) -> Pair:
        """Mean of each dataset's signals over its anchors."""
        x, y = (
            np.asarray(mass @ side.signals).ravel()
            for mass, side in zip(masses(pairing), self.sides, strict=True)
        )
        return x, y

    def mapped(self, maps: Sequence[LinearMap]) -> Pair:
        """Principal components of both datasets in the first one's coordinates."""
        return maps[0].apply(self.sides[0].components), maps[1].apply(self.sides[1].components)

    def signals(self, axes: Sequence[LinearMap]) -> Pair:
        """Weighted signals of both datasets in one space."""
        return axes[0].apply(self.sides[0].signals), axes[1].apply(self.sides[1].signals)

    def on_one_scale(self, rows: Pair) -> Pair:
        """Directions of both datasets' rows, with one typical length for both."""
        scale = typical_length(rows, self.config)
        return directions(rows[0] / scale, self.config), directions(rows[1] / scale, self.config)

    def joint(self, maps: Sequence[LinearMap], signals: Pair | None, share: float) -> Pair:
        """Joint coordinates of both datasets; without signals, the mapped components alone."""
        q = self.on_one_scale(self.mapped(maps))
        if signals is None:
            return q
        s = self.on_one_scale(signals)
        return blend(q[0], s[0], share), blend(q[1], s[1], share)

    def rotation_of(self, pairing: Any) -> tuple[Array, Array, Array, int]:
        """Anchors as a second estimate of the correlation between harmonics: that, and its rotation."""
        products = self.harmonics[0].psi.T @ (pairing @ self.harmonics[1].psi)
        return products, *orthogonalize(products, complete=False)

    def outcome(
        self,
        start: str,
        pairing: Any,
        maps: tuple[LinearMap, LinearMap],
        joint: Pair,
        centres: Pair,
        *,
        trust_columns: bool = False,
        history: Sequence[dict[str, Any]] = (),
    ) -> PairAlignment:
        """What follows from a run's anchors and joint coordinates.

        Parameters
        ----------
        start
            Name of the hypothesis.
        pairing, maps, joint, centres
            Anchors, maps of the components, joint coordinates of both datasets and centres of their signals.
        trust_columns
            Whether all columns correspond by hypothesis: then all weigh alike.
        history
            Records of the steps before.
        """
        products, turn, singular_values, rank = self.rotation_of(pairing)
        found = self.judge(turn)
        if trust_columns:
            found = replace(found, share=1.0, weights=np.ones_like(found.weights))
        confidence = row_confidence(joint, random_state=self.random_state, config=self.config)
        support = max(float(c.mean()) for c in confidence)
        step = {"start": start, "step": "anchors", "objective": found.agreement, "support": support}
        return PairAlignment(
            alignment=Alignment(
                self.harmonics, products, np.ones_like(self.bands), turn, singular_values, rank
            ),
            correspondence=found,
            pairing=pairing,
            maps=maps,
            centres=centres,
            significance=self.significance,
            support=support,
            start=start,
            worth=self._worth(found, support),
            kinship=self._kinship(found, support),
            history=(*history, step),
        )

    def _worth(self, found: Correspondence, support: float) -> float:
        """A wrong rotation can make a few features agree, but then rows do not meet everywhere.

        The fewer features there are, the more easily they agree, and the more confidence counts.
        """
        n_features = max(1, int(np.count_nonzero(found.energy)))
        power = self.config.worth_power * (1 + self.config.few_features / n_features)
        return float(found.agreement * support**power)

    def _kinship(self, found: Correspondence, support: float) -> float:
        doubtful = self.significance.by_chance or self.significance.opposed
        chance = self.config.chance_kinship if doubtful else 1.0
        return chance * support * (1 + found.agreement) / 2
