"""From datasets in memory to a fitted alignment."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from harmonicalign._progress import Progress
from harmonicalign._typing import Array
from harmonicalign.engines.devices import resolve, searching_on
from harmonicalign.evidence.hub import signals_from_links
from harmonicalign.evidence.known import SignalMap, signals_from_pairs
from harmonicalign.fitted.alignment import FittedAlignment
from harmonicalign.fitted.given import Given, anchor_pairs, balanced_landmarks, links_by_number
from harmonicalign.fitted.parameters import Parameters
from harmonicalign.inputs.links import link_signals
from harmonicalign.inputs.parse import Inputs
from harmonicalign.inputs.rows import same_columns
from harmonicalign.method.model import RefinedModel
from harmonicalign.method.pooling import PooledModel, Pooling, pooled
from harmonicalign.paper.model import PaperModel

__all__ = ["fit_alignment"]

logger = logging.getLogger("harmonicalign")


def fit_alignment(
    inputs: Inputs,
    parameters: Parameters,
    given: Given,
    *,
    seed: int = 0,
    verbose: bool = False,
) -> FittedAlignment:
    """Align datasets in memory.

    Parameters
    ----------
    inputs
        The datasets.
    parameters
        How to align them.
    given
        What else is known.
    seed
        Random seed.
    verbose
        Print each stage and its time.
    """
    method = parameters.method_for(len(inputs.keys))
    pairs: dict[tuple[int, int], Array] = {}
    balanced = None
    if given.anchors is not None:
        sizes = [d.shape[0] for d in inputs.datasets]
        pairs = anchor_pairs(given.anchors, parameters.method, inputs.keys, sizes)
    if given.covariates is not None:
        balanced = balanced_landmarks(given, parameters, inputs, seed)
    inputs, signals, columns, learned = _shared(inputs, given, parameters, pairs, seed)
    progress = Progress(verbose)
    free = not pairs and balanced is None and method == "refined" and parameters.metric == "euclidean"
    pooling = _pooling(inputs, signals, parameters, seed) if free else None
    names, datasets = [f"dataset {key!r}" for key in inputs.keys], inputs.datasets
    if pooling is not None:
        logger.info("small datasets that do not differ are aligned as one: %d groups", len(pooling.members))
        names = [_together(names, members) for members in pooling.members]
        datasets, signals = pooling.stacked(datasets), pooling.stacked(signals)
    settings = parameters.settle(method, [d.shape for d in datasets])
    parameters.check_memory(method, settings, datasets, signals)
    fit = parameters.fit_function(
        method,
        names,
        settings,
        anchors=pairs,
        balanced=balanced,
        linked=given.links is not None,
        seed=seed,
        progress=progress,
    )
    model: PaperModel | RefinedModel | PooledModel
    with searching_on(resolve(parameters.device)):
        model = fit(datasets, signals)
    if pooling is not None:
        model = PooledModel(cast(RefinedModel, model), pooling)
        settings = settings.of_members(pooling.groups)
    embedding = tuple(model.coordinates())
    return FittedAlignment(
        model,
        inputs,
        embedding,
        settings,
        progress.timings,
        seed,
        parameters,
        columns,
        given.signals,
        learned=learned,
    )


def _shared(
    inputs: Inputs, given: Given, parameters: Parameters, pairs: Mapping[tuple[int, int], Array], seed: int
) -> tuple[Inputs, list[Any], Any, tuple[SignalMap, ...] | None]:
    """Inputs with the signals that are compared, these, linked columns if any, and learned signals if any."""
    links, learned = given.links, None
    if inputs.unshared:
        if parameters.metric != "euclidean":
            raise ValueError(f"metric={parameters.metric!r} needs signals=…: distances have no columns")
        learned = tuple(signals_from_pairs(inputs.datasets, pairs, seed, inputs.keys))
    elif isinstance(links, Mapping):
        joined = links_by_number(links, inputs.keys)
        widths = [s.shape[1] for s in inputs.signals]
        learned, links = tuple(signals_from_links(joined, widths, inputs.keys)), None
    if learned is not None:
        made = [known.apply(rows) for known, rows in zip(learned, inputs.signals, strict=True)]
        inputs = replace(inputs, signals=made)
    columns = None if links is None else link_signals(links, *inputs.signals)
    signals = inputs.signals
    if columns is not None:
        signals = [s[:, c] for s, c in zip(signals, columns, strict=True)]
    return inputs, signals, columns, learned


def _pooling(inputs: Inputs, signals: Sequence[Any], parameters: Parameters, seed: int) -> Pooling | None:
    """Small datasets that are aligned as one, where the signals are the datasets' own columns."""
    if not all(same_columns(d, s) for d, s in zip(inputs.datasets, signals, strict=True)):
        return None
    return pooled(inputs.datasets, seed, parameters.rules)


def _together(names: Sequence[str], members: Sequence[int]) -> str:
    """Name of a group of datasets for messages."""
    more = len(members) - 1
    return f"{names[members[0]]} (with {more} alike)" if more else names[members[0]]
