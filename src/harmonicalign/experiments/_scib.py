"""Metrics of scIB, through the package scib-metrics, for those who want the figures of that benchmark."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.engines.faiss_neighbours import nearest_rows

__all__ = ["SCIB", "scib_scores"]

SCIB = ("scib_ilisi", "scib_clisi", "scib_silhouette_label", "scib_silhouette_batch", "scib_connectivity")

_NEIGHBOURS = 90


def scib_scores(places: Sequence[Array], labels: Sequence[Array] | None) -> dict[str, float]:
    """Scores of an embedding by scib-metrics; all but one need labels.

    Parameters
    ----------
    places
        Rows of every dataset in one space.
    labels
        Their labels; rows with an empty one are left out of what needs labels.
    """
    if find_spec("scib_metrics") is None:
        raise ImportError("scIB metrics need scib-metrics: pip install scib-metrics")
    import scib_metrics
    from scib_metrics.nearest_neighbors import NeighborsResults

    rows = np.ascontiguousarray(np.vstack(list(places)), dtype=np.float32)
    batch = np.repeat(np.arange(len(places)), [len(p) for p in places])
    known = np.ones(len(rows), dtype=bool) if labels is None else np.concatenate(list(labels)) != ""
    rows, batch = rows[known], batch[known]
    # The first neighbour of a row is itself, as that package expects.
    found = nearest_rows(rows, min(_NEIGHBOURS, len(rows)), exact=False, queries=rows)
    near = NeighborsResults(indices=found.indices, distances=found.distances.astype(np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = {"scib_ilisi": float(scib_metrics.ilisi_knn(near, batch))}
        if labels is not None:
            codes = np.unique(np.concatenate(list(labels))[known], return_inverse=True)[1]
            out |= {
                "scib_clisi": float(scib_metrics.clisi_knn(near, codes)),
                "scib_silhouette_label": float(scib_metrics.silhouette_label(rows, codes)),
                "scib_silhouette_batch": float(scib_metrics.silhouette_batch(rows, codes, batch)),
                "scib_connectivity": float(scib_metrics.graph_connectivity(near, codes)),
            }
    return out
