"""The rows as points to draw: the sample, positions before and after, and colours."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.adapters.report.encode import as_categories, as_numbers, as_places, base64_of
from harmonicalign.adapters.report.layout import neighbour_layout, principal_plane
from harmonicalign.adapters.verdict import Features, Subject, gather, sample
from harmonicalign.adapters.verdict.values import as_text, is_categorical

__all__ = ["drawn_points"]


_FEATURE_BYTES = 2_500_000
"""Room for features to colour by: all of them in small data, the best in large."""

_MOST_FEATURES = 400


def drawn_points(
    subject: Subject, features: Features | None, confidence: list[Array] | None, max_points: int
) -> dict[str, Any]:
    """Data of the scatter plots."""
    chosen = sample(subject.sizes, max_points)
    taken = [len(c) for c in chosen]
    sampled = sum(taken) < sum(subject.sizes)
    panels = []
    before = subject.unaligned(chosen) if subject.before is None else gather(subject.before, chosen)
    if before is not None and len(taken) > 1:
        panels.append(_panel("Before alignment", before, given=subject.before is not None))
    after = gather(subject.model.embedding_ if subject.after is None else subject.after, chosen)
    title = "The data" if len(taken) == 1 else "After alignment"
    panels.append(_panel(title, after, given=subject.after is not None))
    return {
        "n": sum(taken),
        "total": sum(subject.sizes),
        "counts": taken,
        # Without a sample the row numbers follow from the order.
        "rows": base64_of(np.concatenate(_row_numbers(subject, chosen)), "<u4")
        if sampled or _stacked(subject)
        else None,
        "panels": panels,
        "columns": [
            *_label_columns(subject, chosen),
            *_confidence_column(confidence, chosen),
            *_feature_columns(subject, features, chosen),
        ],
    }


def _stacked(subject: Subject) -> bool:
    return bool(subject.model.fitted_.inputs.rows)


def _row_numbers(subject: Subject, chosen: list[Array]) -> list[Array]:
    """Row numbers in the user's data: in the stacked matrix if there was one, otherwise per dataset."""
    if not _stacked(subject):
        return chosen
    return [numbers[c] for numbers, c in zip(subject.model.fitted_.inputs.rows, chosen, strict=True)]


def _panel(title: str, parts: list[Array], *, given: bool) -> dict[str, Any]:
    rows = np.vstack(parts)
    if given and rows.shape[1] == 2:
        layouts = [{"name": "as given", **as_places(rows)}]
    else:
        sizes = [len(p) for p in parts]
        layouts = [
            {"name": "neighbours", **as_places(neighbour_layout(rows, sizes))},
            {"name": "components", **as_places(principal_plane(rows))},
        ]
    return {"title": title, "layouts": layouts}


def _label_columns(subject: Subject, chosen: list[Array]) -> list[dict[str, Any]]:
    columns = []
    for name, values in subject.labels.items():
        known = [v for v in values if v is not None]
        parts = [None if v is None else v[c] for v, c in zip(values, chosen, strict=True)]
        if all(map(is_categorical, known)):
            text = [
                np.full(len(c), "") if p is None else as_text(p) for p, c in zip(parts, chosen, strict=True)
            ]
            column = as_categories(np.concatenate(text))
        else:
            numbers = [
                np.full(len(c), np.nan) if p is None else p.astype(float)
                for p, c in zip(parts, chosen, strict=True)
            ]
            column = as_numbers(np.concatenate(numbers), bits=16)
        columns.append({"name": name, "group": "label", **column})
    return columns


def _confidence_column(confidence: list[Array] | None, chosen: list[Array]) -> list[dict[str, Any]]:
    if confidence is None:
        return []
    values = np.concatenate(gather(confidence, chosen))
    return [{"name": "confidence", "group": "confidence", **as_numbers(values, limits=(0, 1))}]


def _feature_columns(
    subject: Subject, features: Features | None, chosen: list[Array]
) -> list[dict[str, Any]]:
    """The features that agree best, up to a size limit."""
    if subject.signals is None:
        return []
    merit = _spread(subject.signals[0]) if features is None else features.scores
    room = min(_MOST_FEATURES, max(1, _FEATURE_BYTES // max(1, sum(map(len, chosen)))))
    best = np.argsort(-merit, kind="stable")[:room]
    columns = []
    parts = [_take(s, c, best) for s, c in zip(subject.signals, chosen, strict=True)]
    values = np.vstack(parts)
    for place, number in enumerate(best.tolist()):
        columns.append(
            {
                "name": subject.feature_names[number],
                "group": "feature",
                "feature": number,
                **as_numbers(values[:, place]),
            }
        )
    return columns


def _take(signals: Any, rows: Array, columns: Array) -> Array:
    part = signals[rows][:, columns]
    return np.asarray(part.toarray() if sp.issparse(part) else part)


def _spread(signals: Any) -> Array:
    if sp.issparse(signals):
        mean = np.asarray(signals.mean(axis=0)).ravel()
        return np.asarray(np.asarray(signals.multiply(signals).mean(axis=0)).ravel() - mean**2)
    return np.asarray(np.var(signals, axis=0))
