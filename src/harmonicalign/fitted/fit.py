"""From datasets in memory to a fitted alignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harmonicalign._progress import Progress
from harmonicalign._typing import Covariates
from harmonicalign.engines.devices import resolve, searching_on
from harmonicalign.evidence.hub import signals_from_links
from harmonicalign.evidence.known import signals_from_pairs
from harmonicalign.fitted.alignment import FittedAlignment
from harmonicalign.fitted.parameters import (
    Parameters,
    anchor_pairs,
    balanced_landmarks,
    links_by_number,
)
from harmonicalign.inputs.links import link_signals
from harmonicalign.inputs.parse import Inputs

__all__ = ["fit_alignment"]


def fit_alignment(
    inputs: Inputs,
    parameters: Parameters,
    *,
    anchors: Any = None,
    links: Any = None,
    covariates: Covariates | None = None,
    signals_given: bool = False,
    seed: int = 0,
    verbose: bool = False,
) -> FittedAlignment:
    """Align datasets in memory; arguments as in `HarmonicAlignment.fit`, parsed.

    Parameters
    ----------
    inputs
        The datasets.
    parameters
        How to align them.
    anchors, links
        Rows known to match; weights between signals that differ.
    covariates
        Labels of rows whose differences are kept.
    signals_given
        Whether the signals were given apart from the datasets.
    seed
        Random seed.
    verbose
        Print each stage and its time.
    """
    method = parameters.method_for(len(inputs.keys))
    pairs = anchor_pairs(anchors, parameters.method, inputs.keys, [d.shape[0] for d in inputs.datasets])
    landmarks = balanced_landmarks(covariates, parameters, inputs, seed, paired=anchors is not None)
    learned = None
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
    progress = Progress(verbose)
    settings = parameters.settle(method, [d.shape for d in inputs.datasets])
    parameters.check_memory(method, settings, inputs.datasets, inputs.signals)
    fit = parameters.fit_function(
        method, inputs.keys, settings, anchors=pairs, landmarks=landmarks, seed=seed, progress=progress
    )
    with searching_on(resolve(parameters.device)):
        model = fit(inputs.datasets, signals)
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
        signals_given,
        learned=learned,
    )
