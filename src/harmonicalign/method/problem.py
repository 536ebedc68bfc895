r"""One pair of datasets as a problem: quantities shared by all runs, and the result of a run.

The frequencies of both datasets are calibrated, their signals transformed, and a first rotation and first
feature weights learned from them (`harmonicalign.evidence.correspondence`). The permutation test
(`harmonicalign.evidence.significance`) and the relations between features
(`harmonicalign.evidence.relations`) are computed once.

A run maps the principal components P of both datasets into one space and their weighted signals S into
another (`harmonicalign.method.maps`). With the share φ of the signals' energy that corresponds, joint
coordinates are ``J = [(1 − φ) Q, φ S]``, with Q the mapped components; rows keep a part of their length.
`harmonicalign.method.space`, which places all rows, uses another balance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from harmonicalign._typing import Array, Pair
from harmonicalign.engines.rows import blend, softened
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.correspondence import Correspondence, correspondence, learn_rotation
from harmonicalign.evidence.relations import relate
from harmonicalign.evidence.significance import Significance, permutation_test
from harmonicalign.method.anchors import find_anchors, masses
from harmonicalign.method.axes import Products
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.maps import (
    LinearMap,
    Side,
    by_products,
    reversed_maps,
    typical_length,
    weighted_axes,
)
from harmonicalign.paper.align import Alignment, calibrate, orthogonalize
from harmonicalign.paper.bands import bandlimiting_weights

__all__ = ["PairAlignment", "PairProblem", "justified"]


def justified(test: Significance, config: MethodConfig) -> float:
    """Share of a displacement that a permutation test justifies: ``1 − p^q``, and all of it if none was made.

    Few features can tell little, so that p is rarely small even if they correspond; that they do not is only
    likely where p is large.
    """
    return 1 - test.p**config.doubt_power if test.tested else 1.0


@dataclass(frozen=True)
class PairAlignment:
    """Alignment of a pair: the result of one run.

    Attributes
    ----------
    alignment
        The rotation T between the harmonics, and the correlation from which it was computed.
    correspondence
        Scores and weights of the features, and the share of the signals that corresponds.
    pairing
        Anchors Π between the landmarks, (n_x, n_y).
    maps
        Maps of the principal components of both datasets into those of the first.
    centres
        Means of the signals of both datasets over the anchors, by which the signals are centred.
    significance
        Permutation test of the correspondence of the features.
    support
        Mean confidence of the rows, in [0, 1]; the larger of the two datasets' means.
    start
        Name of the hypothesis: "offset", "doubtful offset", "units", "harmonics", "relations" or "anchors".
    worth
        Score by which runs are compared, from feature agreement and confidence.
    history
        One record per step: the hypothesis, the step, and the objective after it.
    turned
        Whether the common space is turned for this pair (`harmonicalign.method.choose`).
    factors
        Factors that bring the signals of the second dataset to the units of the first
        (`harmonicalign.method.units`); None if they have the same.
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
    history: tuple[dict[str, Any], ...]
    turned: bool = False
    factors: Array | None = None

    def reversed(self, sides: tuple[Side, Side]) -> PairAlignment:
        """The same alignment with the datasets exchanged; `sides` are in the new order."""
        return replace(
            self,
            alignment=self.alignment.transposed,
            pairing=self.pairing.T.tocsr(),
            maps=reversed_maps(self.maps, masses(self.pairing)[1] @ sides[0].components),
            centres=self.centres[::-1],
            factors=None if self.factors is None else 1 / self.factors,
        )


class PairProblem:
    """Two datasets to align, with the quantities shared by all runs.

    Parameters
    ----------
    x, y
        The two datasets.
    config
        Configuration of the method.
    known
        Pairs of rows known to match, a sparse (n_x, n_y) matrix, or None.
    own_columns
        Whether the signals are the columns from which the components were computed.
    n_bands, first_band
        Bands of the correlation; see `harmonicalign.align`.
    random_state
        Seed of the null distributions and samples.

    Attributes
    ----------
    sides
        The datasets with equally many harmonics and calibrated frequencies.
    spectral
        Fourier coefficients of their signals.
    rotation, weights, objective
        First rotation and feature weights, and the objective after each step of learning them.
    relations
        Relations between features in both datasets.
    significance
        Permutation test of the correspondence of the features.
    """

    def __init__(
        self,
        x: Side,
        y: Side,
        config: MethodConfig = DEFAULT,
        *,
        known: Any = None,
        own_columns: bool = True,
        n_bands: int = 8,
        first_band: int = 0,
        random_state: int = 0,
    ) -> None:
        k = min(x.harmonics.k, y.harmonics.k)
        hx, hy = calibrate([x.harmonics.truncate(k), y.harmonics.truncate(k)])
        self.harmonics = hx, hy
        self.sides = replace(x, harmonics=hx), replace(y, harmonics=hy)
        self.config, self.known, self.random_state = config, known, random_state
        self.own_columns = own_columns
        self.spectral = self.sides[0].spectral(), self.sides[1].spectral()
        self.bands = bandlimiting_weights(hx.frequencies, hy.frequencies, n_bands, first_band)
        self.rotation, self.weights, self.objective = learn_rotation(
            self.bands,
            hx.frequencies,
            *self.spectral,
            n_iterations=config.learning_steps,
            tolerance=config.learning_tolerance,
        )
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
        """Correspondence of the features under a rotation, always against the same wrong partners."""
        rng, config = np.random.RandomState(self.random_state), self.config
        return correspondence(rotation, self.harmonics[0].frequencies, *self.spectral, rng, config)

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

    @cached_property
    def products(self) -> tuple[Products, ...] | None:
        """Products of both datasets' signals, if their axes follow from these."""
        if not by_products(self.sides, self.config):
            return None
        return tuple(Products.of(side.signals) for side in self.sides)

    def axes(
        self,
        centres: Sequence[Array],
        weights: Array,
        worth: Array,
        start: int | Array = 0,
        factors: Sequence[Array] | None = None,
    ) -> tuple[LinearMap, ...]:
        """Maps of both datasets' signals to the joint components of the weighted signals: `weighted_axes`."""
        return weighted_axes(self.sides, centres, weights, worth, start, self.config, factors, self.products)

    def mapped(self, maps: Sequence[LinearMap]) -> Pair:
        """Principal components of both datasets, mapped into those of the first."""
        return maps[0].apply(self.sides[0].components), maps[1].apply(self.sides[1].components)

    def signals(self, axes: Sequence[LinearMap]) -> Pair:
        """Weighted signals of both datasets in one space."""
        return axes[0].apply(self.sides[0].signals), axes[1].apply(self.sides[1].signals)

    def directions(self, rows: Pair) -> Pair:
        """Rows of both datasets with softened lengths, so that depth or contrast do not decide on anchors."""
        typical, relative = typical_length(rows), self.config.soft_length
        return softened(rows[0], typical, relative), softened(rows[1], typical, relative)

    def joint(self, maps: Sequence[LinearMap], signals: Pair | None, share: float) -> Pair:
        """Joint coordinates of both datasets; without signals, the mapped components alone."""
        q = self.directions(self.mapped(maps))
        if signals is None:
            return q
        s = self.directions(signals)
        return blend(q[0], s[0], share), blend(q[1], s[1], share)

    def rotation_of(self, pairing: Any) -> tuple[Array, Array, Array, int]:
        """Correlation between harmonics estimated from anchors; with rotation, singular values and rank."""
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
        """Result of a run from its anchors and joint coordinates.

        Parameters
        ----------
        start
            Name of the hypothesis.
        pairing, maps, joint, centres
            Anchors, maps of the components, joint coordinates of both datasets and centres of their signals.
        trust_columns
            Whether all columns correspond by hypothesis and get weight 1.
        history
            Records of earlier steps.
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
            history=(*history, step),
        )

    def worth_of(self, joint: Pair, config: MethodConfig | None = None) -> float:
        """Score of any joint coordinates: that of the anchors found in them."""
        config = config or self.config
        found = self.judge(self.rotation_of(find_anchors(*joint, config, known=self.known))[1])
        confidence = row_confidence(joint, random_state=self.random_state, config=config)
        return self._worth(found, max(float(c.mean()) for c in confidence))

    def _worth(self, found: Correspondence, support: float) -> float:
        """Score of a run: feature agreement times a power of confidence.

        A wrong rotation can make a few features agree, but rows then have low confidence.
        """
        return float(found.agreement * support**self.config.worth_power)
