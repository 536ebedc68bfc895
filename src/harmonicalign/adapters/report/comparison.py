"""What the report says of other methods: the table that `compare` made, or the command that makes it."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["COMMAND", "Comparison"]

COMMAND = "harmonicalign compare FILES --labels COLUMN --out methods.csv --picture methods.png"
"""The command where the report does not know the files."""

_HIDDEN = ("columns",)
"""Columns of the table that say nothing here."""


@dataclass(frozen=True)
class Comparison:
    """Methods side by side.

    Attributes
    ----------
    rows
        One dict per method, as `harmonicalign.experiments.compare` returns them; empty if it was not run.
    command
        The command that makes the table.
    """

    rows: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    command: str = COMMAND

    @classmethod
    def of(cls, table: Any, command: str = COMMAND) -> Comparison:
        """A table as users pass it: rows, or the CSV that the command wrote; None for none."""
        if table is None:
            return cls(command=command)
        rows = _read(Path(table)) if isinstance(table, str | os.PathLike) else list(table)
        if not rows or any(not isinstance(row, Mapping) or "method" not in row for row in rows):
            raise ValueError(
                "comparison must be the table of harmonicalign.experiments.compare, or the .csv that "
                "harmonicalign compare --out wrote: rows with a column 'method'"
            )
        return cls(rows, command)

    def facts(self) -> dict[str, Any]:
        """Rows and the names of the columns that have any value, as JSON can hold them."""
        rows = [{name: _plain(value) for name, value in row.items()} for row in self.rows]
        names = [n for n in dict.fromkeys(n for row in rows for n in row) if n not in _HIDDEN]
        shown = [n for n in names if any(row.get(n) is not None for row in rows)]
        return {
            "command": self.command,
            "columns": shown,
            "rows": [{name: row.get(name) for name in shown} for row in rows],
        }


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        raise FileNotFoundError(f"comparison: {path} does not exist")
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _number(value) for name, value in row.items()} for row in csv.DictReader(file)]


def _number(text: Any) -> Any:
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


def _plain(value: Any) -> str | float | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    number = float(value)
    return float(f"{number:.4g}") if math.isfinite(number) else None
