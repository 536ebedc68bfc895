"""Is an alignment more than chance? A permutation test over the correspondence of the features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy import stats

from harmonicalign._typing import Array
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.evidence.correspondence import learn_rotation, scores
from harmonicalign.evidence.relations import Relations
from harmonicalign.paper.bands import bandlimiting_weights
from harmonicalign.paper.harmonics import Harmonics

__all__ = ["Significance", "false_discovery", "permutation_test"]


@dataclass(frozen=True)
class Significance:
    """How far an alignment is from what wrongly paired features give.

    Attributes
    ----------
    z
        Observed agreement less the mean under permutation, in its standard deviations.
    p
        Probability of so large an agreement under permutation.
    observed
        Agreement of the features as they are paired: the largest of the statistics, each less its mean
        under permutation and in its standard deviations.
    null
        The same for permuted features; empty where there are too few features for a test.
    opposed
        Whether features that correspond seem to go opposite ways, as if one dataset's were negated.
    chance
        A larger p is no better than chance.
    """

    z: float
    p: float
    observed: float
    null: Array
    opposed: bool = False
    chance: float = EVIDENCE.chance

    @property
    def tested(self) -> bool:
        """Whether there were features enough for a test; without one, z is 0 and p is 1."""
        return self.null.size > 0

    @property
    def by_chance(self) -> bool:
        """Whether wrongly paired features agree as well, as far as that could be tested."""
        return self.tested and self.p > self.chance

    def summary(self) -> dict[str, float | bool]:
        """What it says, in plain numbers: z, p, and whether features were tested and go opposite ways."""
        return {"z": float(self.z), "p": float(self.p), "tested": self.tested, "opposed": self.opposed}

    def __str__(self) -> str:
        if not self.tested:
            return f"not tested: fewer than {EVIDENCE.fewest_features} features vary in both datasets"
        which_way = ", but the features go opposite ways" if self.opposed else ""
        return f"z = {self.z:.1f}, p = {self.p:.2g}{which_way}"


def permutation_test(
    hx: Harmonics,
    hy: Harmonics,
    spectral_x: Array,
    spectral_y: Array,
    *,
    relations: Relations | None = None,
    n_bands: int = 8,
    random_state: int = 0,
    config: EvidenceConfig = EVIDENCE,
) -> Significance:
    """Compare the correlation of two datasets' harmonics with that from wrongly paired features.

    Three statistics are looked at, and the one that stands out most is compared with the largest of them
    under each permutation. The nuclear norm of the bandlimited correlation C is what the best rotation
    attains (``max_T ⟨T, C⟩``); all signals count alike in it, and it serves where most of them say a
    little. ``(Σ max(c_s, 0)⁴)^¼`` over the scores of the features, under a rotation to which they
    contribute as much as they agree, serves where few of them say much. ``Σ max(c_s, 0)³`` over the
    features' relations to each other needs no rotation, and serves where there are few features in all,
    which some rotation always makes agree.

    A feature changes places only with features of like smoothness: two low-frequency features correlate
    better than a low and a high one whatever they mean, and that must not count as correspondence.
    Fewer than five features that vary in both datasets are not tested.

    Nor does the test ask which way features go: a wrong rotation can make them agree as well where one
    dataset's are negated. Their relations tell (`harmonicalign.evidence.relations`), and the result says so.

    Parameters
    ----------
    hx, hy
        Calibrated harmonics of the two datasets, equally many.
    spectral_x, spectral_y
        Fourier coefficients of their signals.
    relations
        How their features relate to each other; without it the third statistic is left out.
    n_bands
        Bands of the correlation.
    random_state
        Seed of the permutations.
    config
        Numbers of the test.
    """
    fx, fy = hx.frequencies, hy.frequencies
    bands = bandlimiting_weights(fx, fy, n_bands)
    a, b = _unit_columns(fx, spectral_x), _unit_columns(fy, spectral_y)
    informative = (np.abs(a).max(axis=0) > 0) & (np.abs(b).max(axis=0) > 0)
    a, b = a[:, informative], b[:, informative]
    if a.shape[1] < config.fewest_features:
        return Significance(z=0.0, p=1.0, observed=0.0, null=np.zeros(0), chance=config.chance)

    def statistics(other: Array) -> tuple[float, float]:
        nuclear = scipy.linalg.svdvals(bands * (a @ other.T)).sum()
        rotation = learn_rotation(bands, fx, a, other, n_iterations=2)[0]
        return float(nuclear), float(np.linalg.norm(np.maximum(scores(rotation, fx, a, other), 0), 4))

    rng, n_permutations = np.random.RandomState(random_state), config.permutations
    smoothness = _smoothness(fx, a) + _smoothness(fy, b)
    order = np.argsort(smoothness, kind="stable")
    as_paired = np.array(statistics(b))
    permuted = np.array(
        [statistics(b[:, _shuffled(order, rng, config.block_features)]) for _ in range(n_permutations)]
    )
    if relations is not None:
        every = np.full(len(informative), -np.inf)  # features that say nothing change places first
        every[informative] = smoothness
        order = np.argsort(every[relations.features], kind="stable")
        kin = [
            _relatedness(relations, _shuffled(order, rng, config.block_features))
            for _ in range(n_permutations)
        ]
        as_paired = np.append(as_paired, _relatedness(relations))
        permuted = np.column_stack([permuted, kin])
    mean, spread = permuted.mean(axis=0), permuted.std(axis=0, ddof=1)
    spread = np.maximum(spread, 1e-12 * np.maximum(as_paired, 1e-300))
    standing = (as_paired - mean) / spread
    observed = float(standing.max())
    opposed = False
    if relations is not None and relations.opposed:
        beyond = (_relatedness(relations.negated()) - mean[-1]) / spread[-1]
        opposed = bool(beyond > max(config.clearly, standing[-1]))
    null = ((permuted - mean) / spread).max(axis=1)
    # Where nothing varies, what is left is rounding and must not be blown up.
    z = (observed - float(null.mean())) / max(float(null.std(ddof=1)), config.least_spread)
    # Cyclic permutations of few features share 1/(d − 1) of their pairs and so vary less than they differ
    # from the features as they are paired, which share none with any. With more blocks than one it is
    # not noticed: measured on noise, the test then keeps its level without.
    d = a.shape[1]
    alike = d / (d - 2) if d < 2 * config.block_features else 1.0
    # The spread is estimated from few draws, hence Student's distribution of a new draw.
    p = float(stats.t.sf(z / np.sqrt(alike + 1 / n_permutations), n_permutations - 1))
    return Significance(z=z, p=p, observed=observed, null=null, opposed=opposed, chance=config.chance)


def _relatedness(relations: Relations, partners: Array | None = None) -> float:
    """How well features agree by their relations; cubes are scores times weights."""
    return float((np.maximum(relations.scores(partners), 0) ** 3).sum())


def false_discovery(p_values: Array, rate: float = 0.05) -> Array:
    """Which features correspond, with at most the given rate of false ones (Benjamini-Hochberg)."""
    return np.asarray(stats.false_discovery_control(p_values) <= rate)


def _unit_columns(frequencies: Array, spectral: Array) -> Array:
    """Signals of unit smooth energy, so that no single one decides."""
    energy = np.linalg.norm(frequencies[:, None] * spectral, axis=0)
    least = 1e-9 * energy.max() if energy.size else 0.0
    return np.asarray(np.divide(spectral, energy, out=np.zeros_like(spectral), where=energy > least))


def _smoothness(frequencies: Array, spectral: Array) -> Array:
    """Mean eigenvalue of every signal's coefficients."""
    power = spectral**2
    return np.asarray(frequencies @ power / power.sum(axis=0))


def _shuffled(order: Array, rng: np.random.RandomState, least: int) -> Array:
    """A permutation that moves every feature, within blocks of like smoothness."""
    d = len(order)
    size = min(d, max(least, d // 20))
    shift = rng.randint(size)
    out = np.empty(d, dtype=np.int64)
    rolled = np.roll(order, shift)
    for start in range(0, d - size + 1, size):
        stop = start + size if start + 2 * size <= d else d
        block = rng.permutation(rolled[start:stop])
        out[block] = np.roll(block, 1)
    return out
