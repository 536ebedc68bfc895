"""Lines of results to tables: tidy CSV, means with their spread, Markdown."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from typing import Any

__all__ = ["Row", "summarise", "to_csv", "to_markdown"]

Row = dict[str, Any]


def to_csv(rows: Sequence[Row]) -> str:
    """Lines as CSV text, with every column that any line has, in order of appearance."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _short(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _short(value: object) -> object:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def summarise(rows: Sequence[Row], by: Sequence[str], values: Sequence[str]) -> list[Row]:
    """Mean, standard deviation and number of every value over the lines that share `by`.

    Lines without a value (missing or None) do not count for it; groups without any value are left out.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if all(key in row for key in by):
            groups.setdefault(tuple(row[key] for key in by), []).append(row)
    table = []
    for key, members in groups.items():
        line: Row = dict(zip(by, key, strict=True))
        for value in values:
            known = [row[value] for row in members if row.get(value) is not None]
            if known:
                line[f"{value}_mean"] = statistics.fmean(known)
                line[f"{value}_sd"] = statistics.stdev(known) if len(known) > 1 else None
                line[f"{value}_n"] = len(known)
        if len(line) > len(by):
            table.append(line)
    return table


def to_markdown(table: Sequence[Row], by: Sequence[str], values: Sequence[str], digits: int = 3) -> str:
    """Means with their spread as Markdown.

    Results by method make one table for each value, methods side by side; others one table with a
    column for each value.
    """
    if "method" not in by or len(by) == 1:
        lines = [
            [*(str(line[key]) for key in by), *(_cell(line, value, digits) for value in values)]
            for line in table
        ]
        return _markdown([*by, *values], lines)
    down = [key for key in by if key != "method"]
    parts = []
    for value in values:
        found: dict[tuple[Any, ...], dict[str, str]] = {}
        for line in table:
            if f"{value}_mean" in line:
                place = found.setdefault(tuple(line[key] for key in down), {})
                place[line["method"]] = _cell(line, value, digits)
        methods = list(dict.fromkeys(method for cells in found.values() for method in cells))
        body = [[*map(str, key), *(cells.get(m, "") for m in methods)] for key, cells in found.items()]
        parts.append(f"{value}:\n\n" + _markdown([*down, *methods], body))
    return "\n\n".join(parts)


def _markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body))


def _cell(line: Row, value: str, digits: int) -> str:
    """``mean ± standard deviation``; the mean alone where there is one value."""
    if f"{value}_mean" not in line:
        return ""
    sd = line[f"{value}_sd"]
    return f"{line[f'{value}_mean']:.{digits}f}" + ("" if sd is None else f" ± {sd:.{digits}f}")
