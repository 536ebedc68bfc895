"""What users know beside the datasets, checked: matches, links and differences to keep."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from harmonicalign._exceptions import AlignmentWarning
from harmonicalign._typing import Array, Covariates
from harmonicalign.fitted.parameters import Parameters
from harmonicalign.inputs.covariates import balanced_rows, levels_of
from harmonicalign.inputs.parse import Inputs, position_of
from harmonicalign.method.anchors import known_pairs

__all__ = ["Given", "anchor_pairs", "balanced_landmarks", "links_by_number"]


@dataclass(frozen=True, eq=False)
class Given:
    """What users know beside the datasets, as they give it to `HarmonicAlignment.fit`.

    Attributes
    ----------
    anchors
        Rows known to match.
    links
        Weights between signals that differ.
    covariates
        Labels of rows whose differences are kept.
    signals
        Whether signals were given apart from the datasets.
    """

    anchors: Any = None
    links: Any = None
    covariates: Covariates | None = None
    signals: bool = False


def anchor_pairs(
    anchors: Any, method: str, keys: list[Any], sizes: Sequence[int]
) -> dict[tuple[int, int], Array]:
    """Rows known to match by numbers of datasets, checked; refused where they would not be used.

    Parameters
    ----------
    anchors
        As users give them.
    method
        The method that was asked for.
    keys, sizes
        Names and numbers of rows of the datasets.
    """
    if method == "paper":
        raise ValueError(
            "anchors serve method='refined' and are not used by method='paper'; drop anchors, or use "
            "method='refined'"
        )
    if len(keys) == 1:
        raise ValueError("anchors join rows of two datasets, but there is one; drop them")
    if not isinstance(anchors, dict):
        if len(keys) != 2:
            raise ValueError("anchors for more than two datasets must be a dict: {(dataset, dataset): pairs}")
        anchors = {(keys[0], keys[1]): anchors}
    out: dict[tuple[int, int], Array] = {}
    for pair, pairs in anchors.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"anchors has the key {pair!r}; expected two datasets, (dataset, dataset)")
        i, j = (position_of(key, keys, "anchors") for key in pair)
        if i == j:
            raise ValueError(f"anchors has the key {pair!r}; expected two datasets, (dataset, dataset)")
        known_pairs(pairs, sizes[i], sizes[j])
        rows = np.asarray(pairs)
        if (j, i) in out:
            i, j, rows = j, i, rows[:, ::-1]
        out[i, j] = np.vstack([out[i, j], rows]) if (i, j) in out else rows
    _mention_contradictions(out, keys, sizes)
    return out


def _mention_contradictions(
    anchors: dict[tuple[int, int], Array], keys: Sequence[Any], sizes: Sequence[int]
) -> None:
    """Warn if known pairs say, one after another, that two rows of one dataset are the same."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    pairs = [rows + starts[[i, j]] for (i, j), rows in anchors.items() if len(rows)]
    if not pairs:
        return
    x, y = np.vstack(pairs).T
    graph = sp.csr_matrix((np.ones(len(x)), (x, y)), shape=(starts[-1],) * 2)
    rows = np.unique(np.concatenate([x, y]))
    group = connected_components(graph, directed=False)[1][rows]
    dataset = np.searchsorted(starts, rows, side="right") - 1
    claims = group * len(keys) + dataset
    _, first, number, counts = np.unique(claims, return_index=True, return_inverse=True, return_counts=True)
    if (counts > 1).any():
        which = int(np.argmax(counts > 1))
        same, i = rows[number == which][:3], dataset[first[which]]
        warnings.warn(
            f"anchors contradict each other: they join rows {', '.join(map(str, same - starts[i]))} of "
            f"dataset {keys[i]!r} through the same rows of other datasets, and so for "
            f"{int((counts > 1).sum())} group(s) of rows. Each row is drawn towards all of its partners; if "
            "that is not meant, give every row one partner",
            AlignmentWarning,
            stacklevel=2,
        )


def balanced_landmarks(
    given: Given, parameters: Parameters, inputs: Inputs, seed: int
) -> tuple[list[Array], list[Array]]:
    """Rows that hold the levels of a covariate in equal shares, and the level of every row.

    Refused where they would not be used.

    Parameters
    ----------
    given
        The covariates, and what else users know.
    parameters
        How to align.
    inputs
        The datasets.
    seed
        Random seed.
    """
    assert given.covariates is not None
    if parameters.method == "paper":
        raise ValueError("covariates serve method='refined' and are not used by method='paper'; drop one")
    if given.anchors is not None:
        raise ValueError("covariates choose the rows that are compared, and so do anchors; drop one of them")
    if len(inputs.keys) == 1:
        raise ValueError("covariates keep differences within several datasets, but there is one; drop them")
    levels = levels_of(given.covariates, inputs)
    return balanced_rows(levels, parameters.n_landmarks, seed, inputs.keys), levels


def links_by_number(links: Mapping[Any, Any], keys: list[Any]) -> dict[tuple[int, int], Any]:
    """Links by numbers of datasets.

    Parameters
    ----------
    links
        By pair of names, as users give them.
    keys
        Names of the datasets.
    """
    out: dict[tuple[int, int], Any] = {}
    for pair, matrix in links.items():
        if not isinstance(pair, tuple) or len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"links has the key {pair!r}; expected two datasets, (dataset, dataset)")
        i, j = (position_of(key, keys, "links") for key in pair)
        if (j, i) in out:
            raise ValueError(f"links names the datasets {pair[0]!r} and {pair[1]!r} twice; give one matrix")
        out[i, j] = matrix
    return out
