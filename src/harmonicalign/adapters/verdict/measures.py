"""Measures before and after alignment: whether datasets mix, and rows meet rows of their label.

Everything that states such a figure (the report, the commands, `scverse.score`, `experiments.compare`) takes
it from here, on the same sample of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.adapters.verdict.values import as_text, is_categorical
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.metrics import knn_label_agreement, mixing_entropy

__all__ = ["MOST_ROWS", "VOTERS", "Measure", "measure", "summarised"]

MOST_ROWS = 6000
"""Size of the sample of rows, over all datasets; larger samples hardly change the figures."""

VOTERS = 5
_NEIGHBOURS = 30


@dataclass(frozen=True)
class Measure:
    """One figure before and after alignment.

    Attributes
    ----------
    name
        What it is, in words.
    group
        Its topic: "mixing", "within:LABEL", "label:LABEL" or "value:LABEL".
    note
        How it is counted.
    before, after
        The figure; None where there is no view of the data before alignment.
    dataset
        The dataset whose rows it is about; empty for all.
    """

    name: str
    group: str
    note: str
    before: float | None
    after: float
    dataset: str = ""

    @property
    def kind(self) -> str:
        """The topic without the name of the label."""
        return self.group.partition(":")[0]

    @property
    def label(self) -> str:
        """Name of the label, if it is about one."""
        return self.group.partition(":")[2]


def measure(
    after: Sequence[Array],
    labels: Mapping[str, Sequence[Array | None]],
    names: Sequence[str],
    before: Sequence[Array] | None = None,
    n_voters: int = VOTERS,
) -> list[Measure]:
    """All measures of some rows of every dataset.

    Parameters
    ----------
    after
        Aligned coordinates.
    labels
        By name, labels or quantities of the rows; None for a dataset without.
    names
        Names of the datasets.
    before
        Coordinates of the same rows before alignment.
    n_voters
        Number of neighbours that vote on a label.
    """
    k = min(_NEIGHBOURS, sum(map(len, after)) - 1)
    if k < 2:
        return []

    def both(figure: Callable[[Sequence[Array]], float]) -> tuple[float | None, float]:
        return None if before is None else figure(before), figure(after)

    note = f"datasets met among the {k} nearest rows; 1 is mixed at random, 0 is separate"
    found = [Measure("mixing", "mixing", note, *both(lambda places: mixing_entropy(places, k)))]
    for name, values in labels.items():
        known = [v for v in values if v is not None]
        if len(known) < 2:
            continue
        if all(map(is_categorical, known)):
            text = [None if v is None else as_text(v) for v in values]
            found += _of_labels(name, text, names, both, n_voters)
            found += _mixing_within(name, text, both, k)
        else:
            found += _of_values(name, values, names, both, n_voters)
    return found


def summarised(measures: Sequence[Measure]) -> dict[str, float]:
    """Measures by short names, as they stand in JSON and in what `scverse.score` returns.

    Means over the datasets come first, then every dataset's own; ``_before`` marks figures before alignment.
    With more than one label its name is added.
    """
    several = len({m.label for m in measures if m.label}) > 1
    slots = {"mixing": "mixing", "within": "mixing_within_labels", "label": "label_agreement",
             "value": "value_agreement"}  # fmt: skip
    groups: dict[str, list[Measure]] = {}
    for m in measures:
        slot = slots[m.kind] + (f" ({m.label})" if several and m.label else "")
        groups.setdefault(slot, []).append(m)
    out: dict[str, float] = {}
    for slot, members in groups.items():
        out[slot] = float(np.mean([m.after for m in members]))
        known = [m.before for m in members if m.before is not None]
        if known:
            out[f"{slot}_before"] = float(np.mean(known))
    for slot, members in groups.items():
        out |= {f"{slot} {m.dataset}": float(m.after) for m in members if m.dataset}
    return out


_Both = Callable[[Callable[[Sequence[Array]], float]], tuple[float | None, float]]


def _mixing_within(name: str, labels: Sequence[Array | None], both: _Both, k: int) -> list[Measure]:
    """Mixing among rows of one label, independent of labels that are rare or absent on one side."""
    kinds = [set() if v is None else set(v.tolist()) - {""} for v in labels]
    shared = {kind for i, one in enumerate(kinds) for other in kinds[i + 1 :] for kind in one & other}
    inside = {i: np.isin(v, sorted(shared)) for i, v in enumerate(labels) if v is not None}
    present = [(i, rows, labels[i]) for i, rows in inside.items() if rows.any()]
    if len(present) < 2:
        return []
    kept = [v[rows] for _, rows, v in present if v is not None]

    def mixing(places: Sequence[Array]) -> float:
        return mixing_entropy([places[i][rows] for i, rows, _ in present], k, labels=kept)

    note = f"the same among rows of one {name}, for every {name} that several datasets have"
    return [Measure(f"mixing within {name}", f"within:{name}", note, *both(mixing))]


def _of_labels(
    name: str, labels: Sequence[Array | None], names: Sequence[str], both: _Both, n_voters: int
) -> list[Measure]:
    """Majority of the nearest rows of the other datasets, against the row's own label."""
    out = []
    for i, own in enumerate(labels):
        others = [(j, v) for j, v in enumerate(labels) if j != i and v is not None]
        if own is None or not others:
            continue
        # A label that no other dataset has cannot be found there.
        shared = np.isin(own, np.concatenate([v for _, v in others])) & (own != "")
        if not shared.any():
            continue
        agreement = _label_agreement(i, own[shared], shared, others, n_voters)
        left_out = int((~shared).sum())
        note = f"rows whose {n_voters} nearest rows of the other datasets vote for their own {name}"
        note += f"; {left_out} without a counterpart are left out" if left_out else ""
        out.append(
            Measure(f"{name} found again, {names[i]}", f"label:{name}", note, *both(agreement), names[i])
        )
    return out


def _label_agreement(
    i: int, own: Array, rows: Array, others: list[tuple[int, Array]], n_voters: int
) -> Callable[[Sequence[Array]], float]:
    def agreement(places: Sequence[Array]) -> float:
        train = np.concatenate([places[j][v != ""] for j, v in others])
        marks = np.concatenate([v[v != ""] for _, v in others])
        return knn_label_agreement(train, marks, places[i][rows], own, min(n_voters, len(train)))

    return agreement


def _of_values(
    name: str, values: Sequence[Any], names: Sequence[str], both: _Both, n_voters: int
) -> list[Measure]:
    """Correlation of a quantity with its mean over the nearest rows of the other datasets."""
    columns = [None if v is None else np.asarray(v, dtype=np.float64) for v in values]
    out = []
    for i, own in enumerate(columns):
        others = [(j, v) for j, v in enumerate(columns) if j != i and v is not None and np.isfinite(v).any()]
        if own is None or not others or np.isfinite(own).sum() < 3:
            continue
        agreement = _value_agreement(i, own, others, n_voters)
        note = f"correlation of {name} with its mean over the {n_voters} nearest rows of the other datasets"
        out.append(
            Measure(f"{name} found again, {names[i]}", f"value:{name}", note, *both(agreement), names[i])
        )
    return out


def _value_agreement(
    i: int, own: Array, others: list[tuple[int, Array]], n_voters: int
) -> Callable[[Sequence[Array]], float]:
    rows = np.isfinite(own)
    known = np.concatenate([v[np.isfinite(v)] for _, v in others])

    def agreement(places: Sequence[Array]) -> float:
        train = np.concatenate([places[j][np.isfinite(v)] for j, v in others])
        near = nearest_rows(train, min(n_voters, len(train)), places[i][rows], exact=False).indices
        guess = known[near].mean(axis=1)
        if guess.std() == 0 or own[rows].std() == 0:
            return 0.0
        return float(np.corrcoef(guess, own[rows])[0, 1])

    return agreement
