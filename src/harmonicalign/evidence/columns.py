"""What the columns of two datasets look like: separate decompositions, or columns in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from harmonicalign._typing import Array
from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig
from harmonicalign.evidence.relations import Relations
from harmonicalign.inputs.rows import dense_columns

__all__ = ["Order", "other_order", "separate_decompositions"]


@dataclass(frozen=True)
class Order:
    """Another order of the second dataset's columns, under which the columns agree better.

    Attributes
    ----------
    kind
        "shifted"; "reversed"; or, for pictures whose columns are their pixels row by row, "mirrored" (left
        and right) and "upside down".
    by
        Columns by which they are shifted, also after being reversed; or the width of the pictures.
    partners
        For each column of the first dataset, the column of the second that it looks like, or −1.
    agreement, as_given
        Agreement of the relations between columns, in [−1, 1], in this order and in the one given.
    """

    kind: str
    by: int
    partners: Array
    agreement: float
    as_given: float

    def __str__(self) -> str:
        how = {
            "shifted": f"shifted by {self.by:+d}",
            "reversed": "in reverse order" + (f" and shifted by {self.by:+d}" if self.by else ""),
            "mirrored": f"pixels of pictures {self.by} wide that are mirrored left to right",
            "upside down": f"pixels of pictures {self.by} wide that are upside down",
        }[self.kind]
        kept = np.flatnonzero(self.partners >= 0)
        j = int(kept[len(kept) // 2])
        return (
            f"{how}: column {j} of the first looks like column {self.partners[j]} of the second (agreement "
            f"of the correlations between columns {self.agreement:.2f}, and {self.as_given:.2f} as given)"
        )


def other_order(relations: Relations, config: EvidenceConfig = EVIDENCE) -> Order | None:
    """The order of the second dataset's columns that fits clearly better than the one given, or None.

    The correlations between columns are the same in both datasets if columns correspond, whatever the rows.
    They are compared after shifts, after reversal, and after mirroring pictures of every possible width.
    Neighbouring columns of spectra and pictures are alike, so that the best order must leave clearly less
    disagreement than the one given.
    """
    d = relations.n_features
    used = relations.features[_leading(relations, config.ordered_features)]
    place = np.full(d, -1)
    place[relations.features] = np.arange(len(relations.features))
    as_given = _agreement(relations, used, place, np.arange(d), 0.0)
    best: Order | None = None
    for kind, by, partners in _orders(d, config.most_shift):
        found = _agreement(relations, used, place, partners, config.least_overlap)
        if best is None or found > best.agreement:
            best = Order(kind, by, np.where((partners >= 0) & (partners < d), partners, -1), found, as_given)
    if best is None or best.agreement < config.order_agreement:
        return None
    left = (1 - best.agreement) / max(1 - as_given, 1e-12)
    near_all = best.agreement >= config.order_near_all >= as_given
    return best if left <= (2 * config.order_left if near_all else config.order_left) else None


def _leading(relations: Relations, most: int) -> Array:
    """Positions of the features with the strongest relations in the first dataset, in order."""
    strength = (relations.x[0] ** 2).sum(axis=1) + (relations.y[0] ** 2).sum(axis=1)
    return np.sort(np.argsort(-strength, kind="stable")[:most])


def _orders(d: int, most: int) -> list[tuple[str, int, Array]]:
    """Orders other than the one given: what they are, and the partner of every column."""
    i, reach = np.arange(d), min(most, d // 2)
    out = [("shifted", k, i + k) for k in range(-reach, reach + 1) if k]
    out += [("reversed", k, d - 1 - i + k) for k in range(-reach, reach + 1)]
    for width in range(3, d // 3 + 1):
        if d % width == 0:
            mirrored = (i // width) * width + (width - 1 - i % width)
            out += [("mirrored", width, mirrored), ("upside down", width, d - 1 - mirrored)]
    return out


def _agreement(relations: Relations, used: Array, place: Array, partners: Array, overlap: float) -> float:
    """Cosine between the correlations of columns and those of their partners; −1 if too few have one."""
    other = partners[used]
    there = (other >= 0) & (other < len(place))
    there[there] = place[other[there]] >= 0
    if there.sum() < max(EVIDENCE.fewest_features, overlap * len(used)):
        return -1.0
    p, q = place[used[there]], place[other[there]]
    x, y = (r[0].take(o, axis=0).take(o, axis=1) for r, o in ((relations.x, p), (relations.y, q)))
    size = _length(x, relations.n_rows[0]) * _length(y, relations.n_rows[1])
    return min(1.0, float(np.vdot(x, y)) / size) if size > 0 else 0.0


def _length(correlations: Array, n_rows: int) -> float:
    """Norm of a table of correlations, without the noise of few rows; 0 if that is most of it."""
    squares = correlations.astype(np.float64) ** 2
    noise = float(((1 - squares) ** 2).sum() - len(squares)) / n_rows if n_rows else 0.0
    rest = float(squares.sum()) - noise
    return float(np.sqrt(rest)) if rest > noise else 0.0


def separate_decompositions(x: Any, y: Any, agreeing: float = 0.0, config: EvidenceConfig = EVIDENCE) -> bool:
    """Whether the columns look like the components of two separate PCAs or SVDs.

    Such columns do not correspond, even if some of the first agree up to their sign. Within either dataset
    they are uncorrelated, and in order of their variance. If they are exactly uncorrelated in both, the
    decompositions were separate. If they are as uncorrelated as a sample of the rows would be, this is taken
    to be so unless most columns correspond, as after one decomposition of all rows together.

    Parameters
    ----------
    x, y
        Signals of both datasets.
    agreeing
        Share of the columns that correspond when held out.
    config
        Bounds.
    """
    if min(x.shape) < config.fewest_features or min(y.shape) < config.fewest_features:
        return False
    found = [_uncorrelated(s) for s in (x, y)]
    if not all(ordered for _, ordered in found):
        return False
    bound = (
        config.exactly_uncorrelated if agreeing >= config.one_decomposition else config.nearly_uncorrelated
    )
    return all(size <= bound for size, _ in found)


def _uncorrelated(signals: Any) -> tuple[float, bool]:
    """Root mean square correlation of the columns in units of that of independent ones; whether in order.

    Correlations are taken about the means (PCA) and about zero (SVD), and the smaller figure counts.
    """
    n, d = signals.shape
    columns = np.arange(min(d, 200))
    dense = dense_columns(signals, columns).astype(np.float64)
    sizes, in_order = [], False
    for z in (dense - dense.mean(axis=0), dense):
        length = np.linalg.norm(z, axis=0)
        if not (length > 1e-12 * max(float(length.max()), 1e-300)).all():
            return np.inf, False
        products = (z / length).T @ (z / length)
        sizes.append(float(np.sqrt(n * np.mean(products[~np.eye(len(columns), dtype=bool)] ** 2))))
        rank = stats.spearmanr(length, -columns).statistic if np.ptp(length) > 0 else 0.0
        in_order |= bool(rank >= 0.9)
    return min(sizes), in_order
