"""Permutation test of the correspondence of the features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array
from harmonicalign.engines.threads import in_threads
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.evidence.relations import Relations
from harmonicalign.paper.bands import bandlimiting_weights
from harmonicalign.paper.harmonics import Harmonics

__all__ = ["Significance", "false_discovery", "permutation_test", "tail_probability"]


_BLOCK_BYTES = 2**20
"""Permutations are compared together while their spectra take no more than this, and stay in the cache."""


@dataclass(frozen=True)
class Significance:
    """Result of the permutation test against wrongly paired features.

    Attributes
    ----------
    z
        Observed agreement minus its mean under permutation, in standard deviations.
    p
        Probability of an agreement at least as large if features are paired at random, or reflected at random
        in what all have in common; the larger of the two.
    observed
        Agreement of the features as they are paired: the largest of the statistics, each standardised by its
        mean and standard deviation under permutation.
    null
        The same for permuted or reflected features, whichever gives the larger p; empty if there are too few
        features for a test.
    opposed
        Whether corresponding features seem to have opposite signs, as if those of one dataset were negated.
    chance
        The alignment is not significant if p is larger.
    untested
        Why no test was made; empty if there are too few features, or if it was made.
    """

    __repr__ = short_repr

    z: float
    p: float
    observed: float
    null: Array
    opposed: bool = False
    chance: float = EVIDENCE.chance
    untested: str = ""

    @property
    def tested(self) -> bool:
        """Whether there were enough features for a test; if not, z is 0 and p is 1."""
        return self.null.size > 0

    @property
    def by_chance(self) -> bool:
        """Whether the test was made and is not significant."""
        return self.tested and self.p > self.chance

    def summary(self) -> dict[str, float | bool]:
        """`z`, `p`, `tested` and `opposed` as plain Python values."""
        return {"z": float(self.z), "p": float(self.p), "tested": self.tested, "opposed": self.opposed}

    def __str__(self) -> str:
        if not self.tested:
            reason = self.untested or f"fewer than {EVIDENCE.fewest_features} features vary in both datasets"
            return f"not tested: {reason}"
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
    """Compare the agreement of two datasets' features with that of wrongly paired features.

    Three statistics are standardised, and the largest is compared with the largest under each permutation.
    The nuclear norm of the bandlimited correlation C is what the best rotation attains (``max_T ⟨T, C⟩``);
    all signals contribute equally, so it is sensitive to many weakly informative ones.
    ``(Σ max(c_s, 0)⁴)^¼`` over the scores of the features, under a rotation found with learned weights, is
    sensitive to a few strongly informative signals. ``Σ max(c_s, 0)³`` over the scores of the relations needs
    no rotation and is sensitive with few features, which some rotation always makes agree.

    There are two nulls, and the larger p counts. Features are permuted among features of similar
    smoothness only, because two low-frequency features correlate better than a low- and a high-frequency
    one whatever they mean. All permutations within the blocks are equally likely, so that the rank of the
    agreement among the permuted ones is an exact p-value where the features of a block are exchangeable.
    They are not where columns have unequal scales, the same in both datasets: a column of large scale is
    smooth on both graphs, and so agrees with itself more than with others. For the first two statistics,
    which use the graphs, features are therefore also reflected at random in what all features share,
    ``b_s → 2 m − b_s``. Each keeps its smoothness then, and the factor that raises all features (depth, size,
    brightness), by which any two datasets agree; it loses what sets it apart from the others. Where features
    share nothing this negates them, and the rank is exact for independent columns of any scales. The third
    statistic does not depend on scales.

    Smaller p follow from the tail (`tail_probability`). More are drawn while p is too near `chance` to tell,
    given their number. Fewer than five features that vary in both datasets are not tested.

    The test does not detect opposite signs: if the features of one dataset are negated, a wrong rotation can
    make them agree nearly as well. The relations detect this (`harmonicalign.evidence.relations`); see
    `Significance.opposed`.

    Parameters
    ----------
    hx, hy
        Harmonics of the two datasets, equally many, with calibrated frequencies.
    spectral_x, spectral_y
        Fourier coefficients of their signals.
    relations
        Relations between their features; if None, the third statistic is omitted.
    n_bands
        Number of bands of the correlation.
    random_state
        Seed of the permutations.
    config
        Constants of the test.
    """
    fx, fy = hx.frequencies, hy.frequencies
    bands = bandlimiting_weights(fx, fy, n_bands)
    a, b = _unit_columns(fx, spectral_x), _unit_columns(fy, spectral_y)
    informative = (np.abs(a).max(axis=0) > 0) & (np.abs(b).max(axis=0) > 0)
    a, b = a[:, informative], b[:, informative]
    if a.shape[1] < config.fewest_features:
        return Significance(z=0.0, p=1.0, observed=0.0, null=np.zeros(0), chance=config.chance)

    least = config.block_features
    # Reflections have draws of their own, so that the permutations do not depend on them.
    rng, side_rng = np.random.RandomState(random_state), np.random.RandomState([random_state, 1])
    smoothness = _smoothness(fx, a) + _smoothness(fy, b)
    order = np.argsort(smoothness, kind="stable")
    every = np.full(len(informative), -np.inf)  # uninformative features are sorted first
    every[informative] = smoothness
    of_related = None if relations is None else np.argsort(every[relations.features], kind="stable")
    either_side = np.hstack([b, _reflected(fy, b)])

    def related(n: int | None) -> list[Array]:
        if relations is None or of_related is None:
            return []
        return [_relatedness(relations, _draws(of_related, rng, least, n))]

    def drawn(n: int) -> Array:
        """Statistics of n permutations and of n random reflections, (2, n, number of statistics)."""
        permuted = _agreements(a, b, fx, bands, _draws(order, rng, least, n))
        third = related(n)
        sides = np.empty((n, len(order)), dtype=np.int64)
        sides[:, order] = side_rng.randint(2, size=sides.shape)  # whatever the order of the columns
        reflected = _agreements(a, either_side, fx, bands, np.arange(len(order)) + len(order) * sides)
        return np.stack([np.column_stack([permuted, *third]), np.column_stack([reflected, *third])])

    as_paired = np.column_stack(
        [_agreements(a, b, fx, bands, _draws(order, rng, least, None)), *related(None)]
    )
    nulls = np.empty((2, 0, as_paired.shape[1]))
    for n in _stages(config):
        nulls = np.concatenate([nulls, drawn(n)], axis=1)
        tests = [_compared(as_paired[0], null, relations, config) for null in nulls]
        test = max(tests, key=lambda t: t.p)
        if _is_clear(test.p, nulls.shape[1], config):
            break
    return test


def _stages(config: EvidenceConfig) -> list[int]:
    """How many more draws are made, as long as the test is not clear."""
    totals = [config.permutations]
    if config.clear_permutations:
        totals = [max(config.clear_permutations, config.tail_draws + 1), *totals]
    while totals[-1] < config.most_permutations:
        totals.append(min(2 * totals[-1] + 1, config.most_permutations))
    reached = np.maximum.accumulate(totals)
    return [int(n) for n in np.diff(reached, prepend=0) if n]


def _is_clear(p: float, n: int, config: EvidenceConfig) -> bool:
    """Whether no more draws are needed after n."""
    if n < config.permutations:
        return p < config.clear_p
    error = np.sqrt(config.chance * (1 - config.chance) / n)
    return bool(abs(p - config.chance) > config.clear_errors * error)


def _compared(
    as_paired: Array, permuted: Array, relations: Relations | None, config: EvidenceConfig
) -> Significance:
    """The test from the statistics of the features as they are paired, and permuted."""
    mean, spread = permuted.mean(axis=0), permuted.std(axis=0, ddof=1)
    spread = np.maximum(spread, 1e-12 * np.maximum(as_paired, 1e-300))
    standing = (as_paired - mean) / spread
    observed = float(standing.max())
    opposed = False
    if relations is not None and relations.opposed:
        negated = float(_relatedness(relations.negated())[0])
        beyond = (negated - mean[-1]) / max(spread[-1], 1e-12 * negated)  # no wrong pair may agree at all
        opposed = bool(beyond > max(config.clearly, standing[-1]))
    null = ((permuted - mean) / spread).max(axis=1)
    # If nothing varies, only rounding errors are left and must not be amplified.
    z = (observed - float(null.mean())) / max(float(null.std(ddof=1)), config.least_spread)
    # Of few features a draw may be the order given; whether its last digits are the same is no matter.
    p = tail_probability(observed - 1e-9 * max(abs(observed), 1.0), null, config)
    return Significance(z=z, p=p, observed=observed, null=null, opposed=opposed, chance=config.chance)


def _agreements(a: Array, b: Array, frequencies: Array, bands: Array, partners: Array) -> Array:
    """The first two statistics for each row of partners of the features of b, (m, 2)."""
    features = np.ascontiguousarray(b.T)  # whole rows are quick to take
    weighted = np.ascontiguousarray((frequencies[:, None] * a).T)
    length = np.linalg.norm(weighted, axis=1)

    def agreement(rotation: Array, other: Array) -> Array:
        turned = other @ (frequencies[:, None] * rotation).mT
        norm = length * np.sqrt(np.einsum("mdk,mdk->md", turned, turned))
        found = np.einsum("dk,mdk->md", weighted, turned)
        return np.asarray(np.maximum(np.divide(found, norm, out=np.zeros_like(norm), where=norm > 0), 0))

    def compare(some: Array) -> Array:
        other = features.take(some, axis=0)
        rotation, singular_values = _rotations(bands * (a @ other))
        weights = agreement(rotation, other) ** 2
        # Where no feature agrees the first rotation stays, as it does with equal weights.
        weights[~weights.any(axis=1)] = 1
        rotation = _rotations(bands * ((a * weights[:, None]) @ other))[0]
        agreeing = np.linalg.norm(agreement(rotation, other), 4, axis=1)
        return np.column_stack([singular_values.sum(axis=1), agreeing])

    step = max(1, _BLOCK_BYTES // (8 * max(b.size, bands.size)))
    blocks = [partners[start : start + step] for start in range(0, len(partners), step)]
    return np.concatenate(in_threads(compare, blocks))


def _rotations(c: Array) -> tuple[Array, Array]:
    """Partial isometries and singular values of several matrices, as `orthogonalize` has them of one."""
    u, s, vt = np.linalg.svd(c, full_matrices=False)
    determined = s > max(c.shape[1:]) * np.finfo(np.float64).eps * s[:, :1]
    return (u * determined[:, None]) @ vt, s


def tail_probability(observed: float, null: Array, config: EvidenceConfig = EVIDENCE) -> float:
    r"""Probability of a value at least as large as `observed`, from draws of the null distribution.

    Among the draws it is the rank, ``(1 + draws at least as large) / (1 + draws)``. Beyond the m largest it
    falls with the excess over the next one, u, in units of the mean excess e of those m,

    .. math:: \frac{m + 1}{B + 1} \left(1 + \frac{t - u}{a\, e}\right)^{-a}.

    With a = m this is exact for exponential tails, as e is itself estimated; a smaller power a is cautious,
    for tails that are heavier.

    Parameters
    ----------
    observed
        The value t.
    null
        Draws, (B,).
    config
        The number of draws in the tail, the power, and a lower bound on e.
    """
    largest = np.sort(null)[::-1]
    n_tail = min(config.tail_draws, len(null) - 1)
    threshold = largest[n_tail]
    if observed <= threshold:
        return float((1 + np.sum(null >= observed)) / (1 + len(null)))
    excess = max(float((largest[:n_tail] - threshold).mean()), config.least_spread)
    beyond = 1 + (observed - threshold) / (config.tail_power * excess)
    return float((n_tail + 1) / (len(null) + 1) * beyond**-config.tail_power)


def _relatedness(relations: Relations, partners: Array | None = None) -> Array:
    """Agreement of the relations for each row of partners; cubes are scores times weights."""
    found = relations.scores(partners)
    return np.asarray((np.maximum(found, 0) ** 3).sum(axis=-1)).reshape(-1)


def false_discovery(p_values: Array, rate: float = 0.05) -> Array:
    """Which features correspond, with at most the given false discovery rate (Benjamini-Hochberg)."""
    return np.asarray(stats.false_discovery_control(p_values) <= rate)


def _unit_columns(frequencies: Array, spectral: Array) -> Array:
    """Signals scaled to unit smooth energy, so that none dominates."""
    energy = np.linalg.norm(frequencies[:, None] * spectral, axis=0)
    least = 1e-9 * energy.max() if energy.size else 0.0
    return np.asarray(np.divide(spectral, energy, out=np.zeros_like(spectral), where=energy > least))


def _reflected(frequencies: Array, spectral: Array) -> Array:
    """Signals of unit smooth energy on the other side of what they share, with unit smooth energy again.

    That is their mean, less the share of it that independent signals would have (James-Stein): these are
    negated, because a reflection in their mean would mix them and so make them agree less with anything.
    """
    mean = spectral.mean(axis=1, keepdims=True)
    energy = float(np.sum((frequencies[:, None] * mean) ** 2))
    independent = 1 / spectral.shape[1]  # mean energy of the mean of so many signals of unit energy
    shared = max(0.0, 1 - independent / energy) if energy > 0 else 0.0
    return _unit_columns(frequencies, 2 * shared * mean - spectral)


def _smoothness(frequencies: Array, spectral: Array) -> Array:
    """Mean eigenvalue of every signal's coefficients."""
    power = spectral**2
    return np.asarray(frequencies @ power / power.sum(axis=0))


def _draws(order: Array, rng: np.random.RandomState, least: int, n: int | None) -> Array:
    """So many permutations of the features, (n, d), or for None their own order."""
    if n is None:
        return np.arange(len(order))[None]
    return np.array([_shuffled(order, rng, least) for _ in range(n)]).reshape(n, len(order))


def _shuffled(order: Array, rng: np.random.RandomState, least: int) -> Array:
    """A random permutation within blocks of similar smoothness."""
    d = len(order)
    size = min(d, max(least, d // 20))
    out = np.empty(d, dtype=np.int64)
    by = rng.randint(size)
    rolled = np.concatenate([order[d - by :], order[: d - by]])
    for start in range(0, d - size + 1, size):
        stop = start + size if start + 2 * size <= d else d
        block = rolled[start:stop]
        out[block] = rng.permutation(block)
    return out
