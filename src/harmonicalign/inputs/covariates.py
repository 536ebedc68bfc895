"""Differences to keep: rows that hold the levels of a covariate in equal shares in every dataset.

Where one dataset holds mostly treated rows and another mostly controls, the nearest rows across datasets are
often of different levels, and an alignment on all rows removes a part of the treatment's effect. On rows with
equal shares of the levels it has no reason to; the other rows then follow the maps found on these.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from harmonicalign._typing import Array, Covariates
from harmonicalign.inputs.frames import check_row_labels
from harmonicalign.inputs.labels import is_missing, label_objects
from harmonicalign.inputs.parse import Inputs

__all__ = ["FEWEST_ROWS", "balanced_rows", "levels_of"]

FEWEST_ROWS = 20
"""Minimum number of balanced rows of a dataset. With 21 of 120 simulated rows the levels were still kept."""


def levels_of(covariates: Covariates, inputs: Inputs) -> list[Array]:
    """The level of every row of every dataset, as numbers; −1 where there is none.

    Parameters
    ----------
    covariates
        A label per row, in the form of the datasets: a list, a dict, or one sequence for a stacked matrix.
    inputs
        The datasets.
    """
    sizes = [d.shape[0] for d in inputs.datasets]
    parts = _by_dataset(covariates, inputs)
    for i, (key, part, n) in enumerate(zip(inputs.keys, parts, sizes, strict=True)):
        if len(part) != n:
            raise ValueError(f"covariates of {key!r} has {len(part)} labels where X has {n} rows")
        if inputs.form != "stacked":
            inputs.check_order(i, "covariates", part)
    found = [label_objects(f"covariates of {key!r}", p) for key, p in zip(inputs.keys, parts, strict=True)]
    numbers: dict[Hashable, int] = {}
    return [
        np.array([-1 if is_missing(v) else numbers.setdefault(v, len(numbers)) for v in part], dtype=np.int64)
        for part in found
    ]


def _by_dataset(covariates: Any, inputs: Inputs) -> list[Any]:
    """Labels of every dataset, in the order of the datasets."""
    if inputs.form == "stacked":
        n = sum(map(len, inputs.rows))
        if isinstance(covariates, Mapping) or len(covariates) != n:
            raise ValueError(f"covariates must hold one label for each of the {n} rows of X")
        check_row_labels("covariates", covariates, inputs.all_row_labels(), "X")
        items = label_objects("covariates", covariates)
        return [[items[row] for row in rows] for rows in inputs.rows]
    if inputs.form == "dict":
        if not isinstance(covariates, Mapping) or set(covariates) != set(inputs.keys):
            raise ValueError(f"covariates must be a dict with the keys of X ({inputs.keys})")
        return [covariates[key] for key in inputs.keys]
    wanted = len(inputs.keys)
    if not isinstance(covariates, list | tuple) or len(covariates) != wanted:
        raise ValueError(f"covariates must be a list of {wanted} sequences of labels, one for each dataset")
    return list(covariates)


def balanced_rows(
    levels: Sequence[Array], most: int, random_state: int, keys: Sequence[Hashable]
) -> list[Array]:
    """Rows of every dataset, sampled so that all datasets hold the levels in the same shares.

    The shares are in proportion to the smallest number of rows that any dataset has of a level, which keeps
    the most rows of the dataset with the fewest. Levels that a dataset lacks have no share.

    Parameters
    ----------
    levels
        The level of every row of every dataset, −1 where there is none.
    most
        Maximum number of rows of each dataset.
    random_state
        Seed of the sample.
    keys
        Names of the datasets, for messages.
    """
    n_levels = 1 + max(int(own.max(initial=-1)) for own in levels)
    counts = np.array([np.bincount(own[own >= 0], minlength=n_levels) for own in levels])
    least = counts.min(axis=0, initial=np.iinfo(np.int64).max) if n_levels else np.zeros(0, dtype=np.int64)
    shared = np.flatnonzero(least)
    if not shared.size:
        raise ValueError(
            "covariates: no level occurs in all datasets, so the difference between datasets cannot be told "
            "from that between levels; leave covariates out, or align the datasets of each level on their own"
        )
    share = least[shared] / least[shared].sum()
    out = []
    for i, (own, held) in enumerate(zip(levels, counts, strict=True)):
        size = min(most, int((held[shared] / share).min()))
        rng, rows = np.random.default_rng([random_state, i]), []
        for level, part in zip(shared, share, strict=True):
            rows.append(rng.permutation(np.flatnonzero(own == level))[: round(size * part)])
        out.append(np.sort(np.concatenate(rows)))
    small = int(np.argmin([len(rows) for rows in out]))
    if len(out[small]) < FEWEST_ROWS:
        raise ValueError(
            f"covariates: only {len(out[small])} rows of dataset {keys[small]!r} are left where all datasets "
            f"hold the levels in equal shares, and {FEWEST_ROWS} are needed; leave covariates out, or merge "
            "levels"
        )
    return out
