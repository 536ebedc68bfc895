"""Whether signals are functions of the geometry alone, such as heat kernel signatures or eccentricities.

Such signals agree between any two datasets of similar shape, whatever their rows mean, so that a test of
their agreement is no evidence. They are recognised because density, centrality and heat at several scales
predict them nearly completely; these predict little of what is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats
from scipy.spatial.distance import cdist

from harmonicalign._typing import Array
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.evidence.significance import Significance
from harmonicalign.inputs.rows import dense_columns
from harmonicalign.paper.harmonics import Harmonics

__all__ = ["geometric_share", "untested_if_geometric"]


def untested_if_geometric(
    significance: Significance,
    datasets: Sequence[tuple[Array, Harmonics, Any]],
    random_state: int = 0,
    config: EvidenceConfig = EVIDENCE,
) -> Significance:
    """The test as it is, or no test if the signals of both datasets are functions of the geometry alone.

    Parameters
    ----------
    significance
        The test.
    datasets
        Principal components, harmonics and signals of every dataset.
    random_state
        Seed of the sampled rows and signals.
    config
        Constants.
    """
    for described in datasets:
        share = geometric_share(*described, random_state=random_state, config=config)
        if not share >= config.geometric:
            return significance
    reason = (
        "the signals are functions of the geometry of their own dataset, such as densities or heat kernel "
        "signatures, which agree wherever shapes are alike"
    )
    return Significance(
        z=0.0, p=1.0, observed=0.0, null=np.zeros(0), chance=significance.chance, untested=reason
    )


def geometric_share(
    components: Array,
    harmonics: Harmonics,
    signals: Any,
    *,
    random_state: int = 0,
    config: EvidenceConfig = EVIDENCE,
) -> float:
    """Median share of the signals' variance that the geometry of the rows predicts, in [0, 1].

    Signals are replaced by their ranks, and predicted by a quadratic function of the leading components of
    the descriptions: degrees, heat kernel signatures, and distances to near, far and central rows. The share
    is adjusted for the number of predictors; with fewer than a hundred rows it is 0, because they could
    predict anything.

    Parameters
    ----------
    components
        Principal components of the representation, (n, p).
    harmonics
        Harmonics of the graph of the same rows.
    signals
        The signals, dense or CSR.
    random_state
        Seed of the sampled rows and signals.
    config
        Numbers of rows and signals.
    """
    rng, n = np.random.RandomState(random_state), len(components)
    if n < 100:
        return 0.0
    rows = np.sort(rng.permutation(n)[: config.examined_rows])
    columns = np.sort(rng.permutation(signals.shape[1])[: config.examined_features])
    ranks = stats.rankdata(dense_columns(signals[rows], columns), axis=0)
    ranks = ranks - ranks.mean(axis=0)
    ranks = ranks[:, np.abs(ranks).max(axis=0) > 0]
    if not ranks.shape[1]:
        return 0.0
    basis = _polynomials(_descriptions(components, harmonics, rows))
    explained = ((basis.T @ ranks) ** 2).sum(axis=0) / (ranks**2).sum(axis=0)
    free = len(rows) - basis.shape[1] - 1
    return float(np.clip(np.median(1 - (1 - explained) * (len(rows) - 1) / free), 0, 1))


def _descriptions(components: Array, harmonics: Harmonics, rows: Array) -> Array:
    """Degrees, heat kernel signatures and distances of some rows, as logarithms."""
    frequencies = np.clip(harmonics.eigenvalues, 1e-6, 1)
    heat = [harmonics.psi[rows] ** 2 @ frequencies**t for t in (1, 2, 4, 8, 16, 32, 64)]
    some = np.asarray(components[rows], dtype=np.float64)
    far = np.sort(cdist(some, some), axis=1)
    last = far.shape[1] - 1
    reach = [far[:, max(1, int(q * last))] for q in (0.01, 0.03, 0.1, 0.3, 0.5, 0.8, 1)]
    centre = np.linalg.norm(some - components.mean(axis=0), axis=1)
    described = np.stack([harmonics.degrees[rows], *heat, *reach, centre], axis=1)
    return np.asarray(np.log(np.maximum(described, 1e-12)))


def _polynomials(described: Array) -> Array:
    """Orthonormal basis of the leading components of the descriptions and their squares and products."""
    z = described - described.mean(axis=0)
    z = z / np.maximum(z.std(axis=0), 1e-12)
    u = np.linalg.svd(z, full_matrices=False)[0][:, :10]
    i, j = np.triu_indices(u.shape[1])
    if len(u) < 300:
        i = j = np.arange(u.shape[1])
    both = np.hstack([u, u[:, i] * u[:, j] * np.sqrt(len(u))])
    return np.linalg.svd(both - both.mean(axis=0), full_matrices=False)[0]
