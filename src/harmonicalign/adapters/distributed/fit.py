"""Fits on a Dask cluster: by landmarks, or by chunks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from harmonicalign._progress import Progress
from harmonicalign._typing import Array
from harmonicalign.adapters.distributed.alignment import DistributedAlignment
from harmonicalign.adapters.distributed.chunks import Description, fit_chunks
from harmonicalign.adapters.distributed.inputs import LazyInputs
from harmonicalign.adapters.distributed.landmarks import choose_landmarks, default_landmarks, fit_landmarks
from harmonicalign.adapters.distributed.result import DistributedResult
from harmonicalign.fitted.given import Given, anchor_pairs
from harmonicalign.fitted.parameters import Parameters
from harmonicalign.inputs.links import link_signals
from harmonicalign.inputs.settings import Settings
from harmonicalign.inputs.validate import check_integer

__all__ = ["Cluster", "fit_distributed"]


PAPER_LANDMARKS = 4000
"""Landmarks of each dataset for the paper's method, whose kernel looks at all pairs of them."""


@dataclass(frozen=True)
class Cluster:
    """Where to fit and how to divide the work.

    Attributes
    ----------
    client
        A `distributed.Client`, the address of a scheduler, or None for dask's own choice.
    landmark_rows
        Rows of each dataset that the model is fitted on; None leaves it to their width.
    chunk_rows
        Rows of a chunk, to align chunk by chunk instead.
    """

    client: Any = None
    landmark_rows: int | None = None
    chunk_rows: int | None = None


def fit_distributed(
    inputs: LazyInputs,
    parameters: Parameters,
    cluster: Cluster,
    given: Given,
    *,
    seed: int = 0,
    verbose: bool = False,
) -> DistributedAlignment:
    """Align datasets on a cluster.

    Parameters
    ----------
    inputs
        The datasets as dask arrays.
    parameters
        How to align them.
    cluster
        Where, and in which parts.
    given
        What else is known; covariates are refused.
    seed
        Random seed.
    verbose
        Print the time it took.
    """
    if given.covariates is not None:
        raise ValueError("covariates are not used by a fit with Dask; drop them")
    if parameters.metric != "euclidean":
        raise ValueError(f"a distributed fit needs rows, but metric is {parameters.metric!r}")
    columns = None if given.links is None else link_signals(given.links, *inputs.signals)
    signals = None
    if columns is not None:
        signals = [s[:, c] for s, c in zip(inputs.signals, columns, strict=True)]
    elif given.signals:
        signals = inputs.signals
    progress = Progress(verbose)
    with progress.stage("fit on the cluster"):
        if cluster.chunk_rows is None:
            settings, result = _by_landmarks(inputs, signals, parameters, cluster, given, seed)
        else:
            settings, result = _by_chunks(inputs, signals, parameters, cluster, given.anchors, seed)
    return DistributedAlignment(
        inputs, result, settings, progress.timings, seed, parameters, columns, given.signals
    )


def _by_landmarks(
    inputs: LazyInputs,
    signals: list[Any] | None,
    parameters: Parameters,
    cluster: Cluster,
    given: Given,
    seed: int,
) -> tuple[Settings, DistributedResult]:
    method = parameters.method_for(len(inputs.keys))
    sizes = [n for n, _ in inputs.shapes]
    pairs = (
        {} if given.anchors is None else anchor_pairs(given.anchors, parameters.method, inputs.keys, sizes)
    )
    most = cluster.landmark_rows
    if most is None:
        wide = default_landmarks(inputs.matrices + inputs.signals)
        most = min(wide, PAPER_LANDMARKS) if method == "paper" else wide
    most = check_integer("landmark_rows", most, minimum=10)
    chosen = choose_landmarks(sizes, most, seed, [_rows_of(pairs, i) for i in range(len(sizes))])
    among = {
        (i, j): np.stack([np.searchsorted(chosen[i], p[:, 0]), np.searchsorted(chosen[j], p[:, 1])], 1)
        for (i, j), p in pairs.items()
    }
    shapes = [(len(c), d) for c, (_, d) in zip(chosen, inputs.shapes, strict=True)]
    settings = parameters.settle(method, shapes)
    names = [f"dataset {key!r}" for key in inputs.keys]
    fit_local = parameters.fit_function(
        method,
        names,
        settings,
        anchors=among,
        linked=given.links is not None,
        seed=seed,
        progress=Progress(False),
    )
    result = fit_landmarks(
        inputs.matrices,
        signals,
        fit_local=fit_local,
        landmarks=chosen,
        batch=inputs.batch,
        client=cluster.client,
        seed=seed,
    )
    return settings, result


def _by_chunks(
    inputs: LazyInputs,
    signals: list[Any] | None,
    parameters: Parameters,
    cluster: Cluster,
    anchors: Any,
    seed: int,
) -> tuple[Settings, DistributedResult]:
    if parameters.method_for(len(inputs.keys)) != "paper" or inputs.batch is not None or anchors is not None:
        raise ValueError(
            "chunk_rows is for method='paper', datasets in a list or dict, and no anchors; leave it out "
            "to fit on landmarks"
        )
    for name, value in (("landmark_rows", cluster.landmark_rows), ("signal_pca", parameters.signal_pca)):
        if value is not None:
            raise ValueError(f"{name}={value!r} is not used by a fit in chunks; drop {name} or chunk_rows")
    chunk_rows = check_integer("chunk_rows", cluster.chunk_rows, minimum=10)
    settings = parameters.settle("paper", [(min(n, chunk_rows), d) for n, d in inputs.shapes])
    result = fit_chunks(
        inputs.matrices,
        inputs.signals if signals is None else signals,
        how=Description(settings, parameters.kernel("paper"), parameters.first_band, seed),
        chunk_rows=chunk_rows,
        client=cluster.client,
    )
    return settings, result


def _rows_of(pairs: dict[tuple[int, int], Array], i: int) -> Array:
    """Rows of dataset i that have a known partner."""
    rows = [p[:, pair.index(i)] for pair, p in pairs.items() if i in pair]
    return np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
