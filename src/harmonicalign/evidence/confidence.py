"""Confidence of rows: how well the other datasets support their neighbourhoods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.evidence.significance import Significance

__all__ = ["doubted", "row_confidence"]


def row_confidence(
    coordinates: Sequence[Array],
    *,
    n_smooth: int | None = None,
    random_state: int = 0,
    config: EvidenceConfig = EVIDENCE,
) -> list[Array]:
    """Confidence of every row, in [0, 1].

    The mean distance of a row to its k nearest rows of its own dataset, divided by that to its k nearest rows
    of any other dataset: about one where another dataset has similar rows, small where none has. Both are
    measured against samples of equal size, so that a dense dataset does not appear close to everything. The
    ratio is averaged over neighbours in the same dataset and cut at 1.

    Parameters
    ----------
    coordinates
        Joint coordinates of every dataset.
    n_smooth
        How often the ratio is averaged over neighbours; by default as inside the method
        (``config.confidence_smoothing``).
    random_state
        Seed of the samples.
    config
        Numbers of neighbours and of sampled rows.
    """
    if len(coordinates) < 2:
        return [np.ones(len(c)) for c in coordinates]
    rng = np.random.RandomState(random_state)
    size = min(config.confidence_sample, min(len(c) for c in coordinates))
    k = min(config.confidence_neighbours, size - 1)
    n_smooth = config.confidence_smoothing if n_smooth is None else n_smooth
    samples = [np.sort(rng.permutation(len(c))[:size]) for c in coordinates]
    out = []
    for i, rows in enumerate(coordinates):
        found = nearest_rows(rows[samples[i]], k + 1, rows, exact=False)
        near, indices = found.distances, found.indices
        # A sampled row finds itself first, which is dropped; other rows drop their last neighbour instead.
        sampled = np.zeros(len(rows), dtype=bool)
        sampled[samples[i]] = True
        own = np.where(sampled[:, None], near[:, 1:], near[:, :-1]).mean(axis=1)
        others = [
            nearest_rows(c[s], k, rows, exact=False).distances
            for j, (c, s) in enumerate(zip(coordinates, samples, strict=True))
            if j != i
        ]
        other = np.sort(np.hstack(others), axis=1)[:, :k].mean(axis=1)
        ratio = np.divide(own, other, out=np.ones(len(rows)), where=other > 0)
        for _ in range(n_smooth):
            # The neighbours are sampled rows, also for rows outside the sample.
            ratio = 0.5 * ratio + 0.5 * ratio[samples[i]][indices].mean(axis=1)
        out.append(np.clip(ratio, 0, 1))
    return out


def doubted(confidence: Array, tests: Sequence[Significance], config: EvidenceConfig = EVIDENCE) -> Array:
    """Confidence of a dataset's rows if the alignment may mean nothing.

    Rows can be mixed perfectly by an alignment of columns that have nothing to do with each other, and their
    confidence says only that they were mixed. It is reduced if none of the dataset's alignments is
    significant.

    Parameters
    ----------
    confidence
        Confidence of the rows of one dataset.
    tests
        Tests of its alignments with other datasets.
    config
        Factor by which confidence is reduced.
    """
    meaningless = bool(tests) and all(test.by_chance or test.opposed for test in tests)
    return confidence * config.chance_confidence if meaningless else confidence
