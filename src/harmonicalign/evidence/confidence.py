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
    of the others together: about one where the others have similar rows, small where they have none. Both are
    measured against samples of equal size, so that a dense dataset does not appear close to everything; the
    size depends on the dataset itself and on all others together, so that a small dataset decides nothing.
    The ratio is averaged over neighbours in the same dataset and cut at 1.

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
    n_smooth = config.confidence_smoothing if n_smooth is None else n_smooth
    sizes = [len(c) for c in coordinates]
    order = [rng.permutation(size) for size in sizes]
    together = np.vstack(list(coordinates)) if len(coordinates) > 2 else None
    shuffled = rng.permutation(sum(sizes)) if together is not None else None
    batch = np.repeat(np.arange(len(sizes)), sizes)
    out = []
    for i, rows in enumerate(coordinates):
        size = min(config.confidence_sample, sizes[i], sum(sizes) - sizes[i])
        k = min(config.confidence_neighbours, size - 1)
        if k < 1:
            out.append(np.ones(len(rows)))
            continue
        sample = np.sort(order[i][:size])
        if together is None or shuffled is None:
            others = coordinates[1 - i][np.sort(order[1 - i][:size])]
        else:
            others = together[np.sort(shuffled[batch[shuffled] != i][:size])]
        out.append(_confidence(rows, sample, others, k, n_smooth))
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


def _confidence(rows: Array, sample: Array, others: Array, k: int, n_smooth: int) -> Array:
    """Confidence of the rows of one dataset, of which some are a sample, against as many rows of others."""
    found = nearest_rows(rows[sample], k + 1, rows, exact=False)
    near, indices = found.distances, found.indices
    # A sampled row finds itself first, which is dropped; other rows drop their last neighbour instead.
    sampled = np.zeros(len(rows), dtype=bool)
    sampled[sample] = True
    own = np.where(sampled[:, None], near[:, 1:], near[:, :-1]).mean(axis=1)
    other = nearest_rows(others, k, rows, exact=False).distances.mean(axis=1)
    ratio = np.divide(own, other, out=np.ones(len(rows)), where=other > 0)
    for _ in range(n_smooth):
        # The neighbours are sampled rows, also for rows outside the sample.
        ratio = 0.5 * ratio + 0.5 * ratio[sample][indices].mean(axis=1)
    return np.asarray(np.clip(ratio, 0, 1))
