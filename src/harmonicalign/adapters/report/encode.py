"""Columns as compact text: whole numbers of one or two bytes in base64, which a page turns into arrays."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.adapters.verdict.values import as_text

__all__ = ["as_categories", "as_numbers", "as_places", "base64_of"]


_MOST_CATEGORIES = 60
"""Maximum number of categories; the rarest are merged."""


def base64_of(values: Array, dtype: str) -> str:
    """Bytes of `values` in the given little-endian type."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")


def as_numbers(values: Any, *, bits: int = 8, limits: tuple[float, float] | None = None) -> dict[str, Any]:
    """A column of quantities in 2**bits − 1 levels; the last code is a missing value.

    Without `limits` the levels span the values. A few extreme ones would leave the rest in one colour:
    where the outermost half percent takes more than a third of the range it is cut off, and the column
    says so.
    """
    values = np.asarray(values, dtype=np.float64)
    known = np.isfinite(values)
    low, high, clipped = _range(values[known]) if limits is None else (*limits, [False, False])
    top = 2**bits - 2
    scaled = (np.clip(values, low, high) - low) / (high - low) if high > low else np.zeros(len(values))
    codes = np.where(known, np.rint(np.where(known, scaled, 0) * top), top + 1)
    return {
        "kind": "number",
        "bits": bits,
        "low": low,
        "high": high,
        "clipped": clipped,
        "data": base64_of(codes, f"<u{bits // 8}"),
    }


def as_categories(values: Any) -> dict[str, Any]:
    """A categorical column; code 255 is a missing value."""
    text = as_text(values)
    kinds, codes, counts = np.unique(text, return_inverse=True, return_counts=True)
    # Commonest first where there are too many to show; then in the order a reader expects.
    named = [int(i) for i in np.argsort(-counts, kind="stable") if kinds[i] != ""]
    shown = named if len(named) <= _MOST_CATEGORIES else named[: _MOST_CATEGORIES - 1]
    shown = sorted(shown, key=lambda i: _natural(str(kinds[i])))
    names = [str(kinds[i]) for i in shown]
    place = np.full(len(kinds), len(shown))
    place[shown] = np.arange(len(shown))
    place[kinds == ""] = 255
    if len(named) > len(shown):
        names.append(f"{len(named) - len(shown)} others")
    return {"kind": "category", "bits": 8, "names": names, "data": base64_of(place[codes], "<u1")}


def as_places(plane: Array) -> dict[str, Any]:
    """Positions in the plane, x and y interleaved, on a common scale."""
    plane = np.asarray(plane, dtype=np.float64)
    low = plane.min(axis=0)
    span = float(np.ptp(plane, axis=0).max()) or 1.0
    return {"data": base64_of(np.rint((plane - low) / span * 65535), "<u2")}


def _range(values: Array) -> tuple[float, float, list[bool]]:
    """Limits of the levels, and whether values lie beyond them."""
    if not values.size:
        return 0.0, 0.0, [False, False]
    low, high = float(values.min()), float(values.max())
    inner_low, inner_high = map(float, np.quantile(values, [0.005, 0.995]))
    if not inner_high > inner_low:
        return low, high, [False, False]
    clipped = [inner_low - low > (high - low) / 3, high - inner_high > (high - low) / 3]
    return inner_low if clipped[0] else low, inner_high if clipped[1] else high, clipped


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Natural sort key: 'day 2' before 'day 10'."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts if p]
