"""A fitted model and what is given with it (labels, other coordinates, names), validated and normalised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from harmonicalign._typing import Array
from harmonicalign.inputs.rows import AbsentRows
from harmonicalign.inputs.validate import check_rows
from harmonicalign.paper.reduction import Reduction, reduce_rows

__all__ = ["Subject", "allot", "gather", "joint_components", "sample", "subject_of"]


_COMPONENTS = 50
_MOST_REDUCED = 10_000


@dataclass(frozen=True)
class Subject:
    """A fitted model with everything per dataset, in the order of its keys.

    Attributes
    ----------
    model
        The fitted `HarmonicAlignment`.
    names
        Names of the datasets.
    sizes
        Rows of each.
    before, after
        Coordinates of the unaligned and the aligned rows that were given, or None.
    labels
        By name, one array of labels per dataset; None for a dataset without.
    signals
        Corresponding columns, or None where they do not correspond.
    feature_names
        Names of those columns.
    reduction
        Principal components of the signals of all datasets together.
    """

    model: Any
    names: list[str]
    sizes: list[int]
    before: list[Array] | None
    after: list[Array] | None
    labels: dict[str, list[Array | None]]
    signals: list[Any] | None
    feature_names: list[str]
    reduction: Reduction | None

    def unaligned(self, chosen: Sequence[Array]) -> list[Array] | None:
        """Joint principal components of some rows of every dataset: the view before alignment."""
        if self.signals is None or self.reduction is None:
            return None
        return [self.reduction.apply(rows) for rows in gather(self.signals, chosen)]


def subject_of(
    model: Any,
    *,
    before: Any = None,
    after: Any = None,
    labels: Any = None,
    names: Any = None,
    feature_names: Any = None,
) -> Subject:
    """Validate the input of a report."""
    check_is_fitted(model, "fitted_")
    sizes = model.fitted_.at_hand().sizes
    signals = _signals(model)
    return Subject(
        model=model,
        names=_dataset_names(names, model),
        sizes=sizes,
        before=_coordinates("before", before, model, sizes),
        after=_coordinates("after", after, model, sizes),
        labels=_labels(labels, model, sizes),
        signals=signals,
        feature_names=_feature_names(feature_names, model, signals),
        reduction=None if signals is None else joint_components(signals),
    )


def sample(sizes: Sequence[int], most: int) -> list[Array]:
    """Indices of a deterministic sample of the rows of all datasets."""
    rng = np.random.RandomState(0)
    return [np.sort(rng.permutation(n)[:m]) for n, m in zip(sizes, allot(sizes, most), strict=True)]


def allot(sizes: Sequence[int], most: int) -> list[int]:
    """How many rows to take of each dataset: in proportion to sizes, with a minimum for small datasets."""
    total = sum(sizes)
    if total <= most:
        return list(sizes)
    floor = most // (4 * len(sizes))
    least = [min(n, floor) for n in sizes]
    rest = most - sum(least)
    spare = [n - m for n, m in zip(sizes, least, strict=True)]
    return [m + rest * s // sum(spare) for m, s in zip(least, spare, strict=True)]


def gather(parts: Sequence[Any], chosen: Sequence[Array]) -> list[Any]:
    """The chosen rows of every dataset."""
    return [p if len(c) == p.shape[0] else p[c] for p, c in zip(parts, chosen, strict=True)]


def _signals(model: Any) -> list[Any] | None:
    """Columns that correspond, side by side where links say so; None for distances, or if not kept."""
    fitted = model.fitted_
    if isinstance(fitted.inputs.signals[0], AbsentRows):
        return None
    if fitted.metric != "euclidean" and not fitted.signals_given:
        return None
    return list(fitted.signals)


def joint_components(signals: list[Any]) -> Reduction:
    """Principal components of all datasets together; a sample of the rows is enough to find them."""
    rows = gather(signals, sample([s.shape[0] for s in signals], _MOST_REDUCED))
    stacked = sp.vstack(rows, format="csr") if any(map(sp.issparse, rows)) else np.vstack(rows)
    return reduce_rows(stacked, _COMPONENTS)[0]


def _coordinates(name: str, values: Any, model: Any, sizes: list[int]) -> list[Array] | None:
    if values is None:
        return None
    parts = _per_dataset(name, values, model, sizes)
    if any(p is None for p in parts):
        raise ValueError(f"{name} lacks the rows of a dataset; give coordinates of all of them or none")
    checked = []
    for i, part in enumerate(parts):
        rows = check_rows(f"{name} of {model.keys_[i]!r}", part)
        checked.append(np.asarray(rows.toarray() if sp.issparse(rows) else rows))
    widths = sorted({c.shape[1] for c in checked})
    if len(widths) > 1 or widths[0] < 2:
        raise ValueError(
            f"{name} has {' and '.join(map(str, widths))} column(s); give all datasets the same, two or more"
        )
    return checked


def _labels(labels: Any, model: Any, sizes: list[int]) -> dict[str, list[Array | None]]:
    if labels is None:
        return {}
    if isinstance(labels, Mapping) and not _by_key(labels, model, sizes):
        given = {str(name): values for name, values in labels.items()}
    else:
        given = {"label": labels}
    out = {}
    for name, values in given.items():
        parts = _per_dataset(f"labels {name!r}" if name != "label" else "labels", values, model, sizes)
        if all(p is None for p in parts):
            raise ValueError(f"labels {name!r} has no dataset with labels; leave it out")
        arrays = [None if p is None else np.asarray(p) for p in parts]
        for i, array in enumerate(arrays):
            if array is not None and array.ndim != 1:
                raise ValueError(
                    f"labels {name!r} of {model.keys_[i]!r} has shape {array.shape}; give one label per row"
                )
        out[name] = arrays
    return out


def _by_key(values: Mapping[Any, Any], model: Any, sizes: list[int]) -> bool:
    """Whether a mapping holds one entry per row of each of the model's datasets."""
    if not values or not set(values) <= set(model.keys_):
        return False
    size_of = dict(zip(model.keys_, sizes, strict=True))
    return all(v is None or _length(v) == size_of[key] for key, v in values.items())


def _per_dataset(name: str, values: Any, model: Any, sizes: list[int]) -> list[Any]:
    """Values by dataset, from a dict by key, a list by dataset, or one array over all rows."""
    keys = model.keys_
    parts: list[Any]
    if isinstance(values, Mapping):
        unknown = [key for key in values if key not in keys]
        if unknown:
            raise ValueError(f"{name} names {unknown[0]!r}; the datasets are {keys}")
        parts = [values.get(key) for key in keys]
    elif isinstance(values, list | tuple) and len(values) == len(keys) and _are_parts(values):
        parts = list(values)
    elif _length(values) == sum(sizes):
        stacked = np.asarray(values)
        rows = model.fitted_.inputs.rows
        bounds = np.cumsum(sizes)[:-1]
        parts = [stacked[r] for r in rows] if rows else list(np.split(stacked, bounds))
    else:
        raise ValueError(
            f"{name} has {_length(values)} entries; give one array for each of the {len(keys)} datasets, "
            f"or one over all {sum(sizes)} rows"
        )
    for key, part, n in zip(keys, parts, sizes, strict=True):
        if part is not None and _length(part) != n:
            raise ValueError(f"{name} has {_length(part)} entries for dataset {key!r}, which has {n} rows")
    return parts


def _are_parts(values: Sequence[Any]) -> bool:
    return all(v is None or (hasattr(v, "__len__") and not isinstance(v, str | bytes)) for v in values)


def _length(values: Any) -> int:
    shape = getattr(values, "shape", None)
    return int(shape[0]) if shape else len(values) if hasattr(values, "__len__") else 0


def _dataset_names(names: Any, model: Any) -> list[str]:
    if names is None:
        return [f"dataset {key}" if isinstance(key, int | np.integer) else str(key) for key in model.keys_]
    if isinstance(names, Mapping):
        names = [names.get(key, key) for key in model.keys_]
    given = [str(name) for name in names]
    if len(given) != len(model.keys_):
        raise ValueError(f"names has {len(given)} entries; there are {len(model.keys_)} datasets")
    return given


def _feature_names(names: Any, model: Any, signals: list[Any] | None) -> list[str]:
    if signals is None:
        return []
    n = signals[0].shape[1]
    links = model.fitted_.links
    if links is not None and (names is None or len(names) == 2 < n):
        # Every link joins a feature of the first dataset with one of the second.
        sides = [None, None] if names is None else names
        named = [
            [f"feature {j}" if side is None else str(side[j]) for j in columns]
            for side, columns in zip(sides, links, strict=True)
        ]
        return [f"{a} – {b}" for a, b in zip(*named, strict=True)]
    names = model.signal_names_ if names is None else names
    if names is None:
        return [f"feature {j}" for j in range(n)]
    if len(names) != n:
        raise ValueError(f"feature_names has {len(names)} entries; the signals have {n} columns")
    return [str(name) for name in names]
