"""A fitted alignment without the data that it was fitted on."""

from __future__ import annotations

from dataclasses import replace

from harmonicalign.fitted.alignment import FittedAlignment
from harmonicalign.method.model import RefinedModel
from harmonicalign.method.pooling import PooledModel
from harmonicalign.paper.align import Alignment
from harmonicalign.paper.harmonics import Harmonics

__all__ = ["without_data"]


def without_data(fitted: FittedAlignment) -> FittedAlignment:
    """The same without the data: it places rows and transfers labels, but cannot correct or grow.

    The published method places rows by their neighbours among the principal components of the data, which
    stay; they are the data themselves where these have too few columns to be reduced.
    """
    model = fitted.model
    if isinstance(model, PooledModel):
        model = replace(model, model=_bare_model(model.model))
    elif isinstance(model, RefinedModel):
        model = _bare_model(model)
    confidence = tuple(fitted.confidence)
    return replace(fitted, model=model, inputs=fitted.inputs.without_data(), known_confidence=confidence)


def _bare_model(model: RefinedModel) -> RefinedModel:
    pairs = {i: replace(pair, alignment=_bare_alignment(pair.alignment)) for i, pair in model.pairs.items()}
    return replace(model, harmonics=tuple(map(_bare, model.harmonics)), pairs=pairs)


def _bare_alignment(alignment: Alignment) -> Alignment:
    one, other = alignment.harmonics
    return replace(alignment, harmonics=(_bare(one), _bare(other)))


def _bare(harmonics: Harmonics) -> Harmonics:
    """Harmonics whose graph does not hold the rows that it is built on."""
    return replace(harmonics, graph=replace(harmonics.graph, rows=None))
