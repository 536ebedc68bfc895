"""Whether rows belong to a class of the source at all, from the distances within and between two datasets.

A row is strange to the other dataset if its nearest rows there are farther than those in its own dataset, and
the same holds for these rows in turn; what both datasets are apart everywhere is then added to every row
alike. Rows of the source show how strange rows are whose class both datasets have. Where the target has more
rows that strange, by the ratio of the densities, the rest belong to classes that the source lacks.
"""

from __future__ import annotations

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.uses.votes import nearest_others

__all__ = ["FEWEST", "FEW_STRANGE", "known_probability", "probability_below"]

FEWEST = 100
"""With fewer rows in either dataset, densities cannot be compared."""

_MOST = 5000
"""Maximum number of rows of either dataset that are compared; others are judged as the nearest of these."""

_OUTLYING = 5.0
"""Source rows farther above the median, in robust standard deviations, may be of classes that the target
lacks.

Measured on digits and PBMC: 3 to 6 differ by .01 in calibration error; without, it is higher by .03 if both
datasets lack classes."""

FEW_STRANGE = 0.2
"""A smaller share of strange rows can be chance: up to .19 with all classes where one dataset is two or three
times as dense (digits, objects, cortex; .26 with 300 rows). With one of ten classes missing either rule is as
good."""

_SMOOTHINGS = 2


def known_probability(source: Array, target: Array, k: int) -> Array:
    """Probability that each target row belongs to a class of the source.

    Parameters
    ----------
    source, target
        Aligned coordinates, each of at least a hundred rows.
    k
        Number of neighbours.
    """
    rng = np.random.RandomState(0)
    some, these = (rows[np.sort(rng.permutation(len(rows))[:_MOST])] for rows in (source, target))
    of_source, of_target = _strangeness(some, these, min(k, FEWEST - 1))
    middle = np.median(of_source)
    spread = 1.4826 * np.median(np.abs(of_source - middle))
    found = probability_below(of_source[of_source <= middle + _OUTLYING * spread], of_target)
    if len(target) > len(these):
        found = found[nearest_rows(these, 1, target).indices[:, 0]]
    return found


def probability_below(known: Array, mixed: Array) -> Array:
    """Probability of every value of a mixture to be of the known part, if all others are larger.

    It is ``π f₀/f`` with the densities f₀ of known values and f of the mixture; their ratio falls with the
    value (isotonic regression). The share π of the known part follows from the mixture's values below the
    median of the known ones.
    """
    from sklearn.isotonic import IsotonicRegression

    values = np.concatenate([known, mixed])
    from_mixture = np.repeat([0.0, 1.0], [len(known), len(mixed)])
    weights = np.repeat([1 / len(known), 1 / len(mixed)], [len(known), len(mixed)])
    regression = IsotonicRegression(y_min=0, y_max=1)
    odds = regression.fit(values, from_mixture, sample_weight=weights).predict(mixed)
    share = min(1.0, 2 * float(np.mean(mixed <= np.median(known))))
    return np.asarray(np.minimum(1, share * (1 - odds) / np.maximum(odds, 1e-12)))


def _strangeness(x: Array, y: Array, k: int) -> tuple[Array, Array]:
    """How strange the rows of either dataset are to the other."""
    each, across = [], []
    for one, other in ((x, y), (y, x)):
        own, near = nearest_others(one, k, np.arange(len(one)))
        found = nearest_rows(other, k, one)
        far, close = found.distances.mean(axis=1), own.mean(axis=1)
        least = max(1e-6 * float(np.median(far)), 1e-300)  # rows may come several times
        apart = np.log((far + least) / (close + least))
        for _ in range(_SMOOTHINGS):
            apart = 0.5 * apart + 0.5 * apart[near].mean(axis=1)
        each.append(apart)
        across.append(found.indices)
    # Medians, because rows of a known class may have some neighbours of new ones. Rows of the source would
    # seem strange for these, and then too many rows of the target would seem known.
    near_x, near_y = (np.median(s[i], axis=1) for s, i in ((each[1], across[0]), (each[0], across[1])))
    return each[0] + near_x, each[1] + near_y
