"""How well each row's neighbourhood is supported by the other datasets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.engines import cpu
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig

__all__ = ["row_confidence"]


def row_confidence(
    coordinates: Sequence[Array],
    *,
    n_smooth: int | None = None,
    random_state: int = 0,
    config: EvidenceConfig = EVIDENCE,
) -> list[Array]:
    """Confidence of every row, in [0, 1].

    The mean distance of a row to its k nearest rows of its own dataset, over that to its k nearest
    rows of any other: about one where another dataset has rows like it, small where none has. Both
    are measured against samples of one size, so that a dense dataset does not look near to
    everything, and the ratio is averaged over the row's own neighbours.

    Parameters
    ----------
    coordinates
        Joint coordinates of every dataset.
    n_smooth
        How often the ratio is averaged over a row's own neighbours; by default as the method does.
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
        near, indices = cpu.nearest(rows[samples[i]], k + 1, rows, exact=False)
        # A sampled row finds itself first; the others get as many neighbours from one place later.
        sampled = np.zeros(len(rows), dtype=bool)
        sampled[samples[i]] = True
        own = np.where(sampled[:, None], near[:, 1:], near[:, :-1]).mean(axis=1)
        others = [
            cpu.nearest(c[s], k, rows, exact=False)[0]
            for j, (c, s) in enumerate(zip(coordinates, samples, strict=True))
            if j != i
        ]
        other = np.sort(np.hstack(others), axis=1)[:, :k].mean(axis=1)
        ratio = np.divide(own, other, out=np.ones(len(rows)), where=other > 0)
        for _ in range(n_smooth):
            # Rows outside the sample take the mean over sampled neighbours, which is what smooths them.
            ratio = 0.5 * ratio + 0.5 * ratio[samples[i]][indices].mean(axis=1)
        out.append(np.clip(ratio, 0, 1))
    return out
