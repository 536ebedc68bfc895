"""Representations of results that fit on a line: shapes in the place of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

__all__ = ["brief", "short_repr"]

_LONGEST = 48
"""Maximum length of a single value, in characters."""

_MOST = 3
"""Maximum number of entries that are shown of a list."""


def short_repr(self: object) -> str:
    """What ``__repr__`` of a dataclass that holds arrays returns."""
    assert is_dataclass(self)
    shown = ", ".join(f"{f.name}={brief(getattr(self, f.name))}" for f in fields(self) if f.repr)
    return f"{type(self).__name__}({shown})"


def brief(value: object) -> str:
    """A value in a few characters."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and len(shape) > 0:
        kind = "sparse " if hasattr(value, "nnz") else ""
        return f"<{' × '.join(map(str, shape))} {kind}{getattr(value, 'dtype', type(value).__name__)}>"
    if isinstance(value, Mapping):
        entries = [f"{key!r}: {brief(entry)}" for key, entry in list(value.items())[:_MOST]]
        return "{" + _listed(entries, len(value)) + "}"
    if isinstance(value, list | tuple):
        entries = [brief(entry) for entry in value[:_MOST]]
        opened, closed = "[]" if isinstance(value, list) else "()"
        return opened + _listed(entries, len(value)) + closed
    if is_dataclass(value):
        return f"{type(value).__name__}(…)"
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _listed(entries: list[str], n: int) -> str:
    return ", ".join(entries) + (f", … ({n} in all)" if n > len(entries) else "")
