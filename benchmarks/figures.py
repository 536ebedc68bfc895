"""Write the figures of speed into the pages that tell them: ``python benchmarks/figures.py [--check]``.

All come from ``docs/_static/speed.csv``, whose rows are what ``scale.py`` and ``gpu.py`` printed, so that no
two pages can differ. ``publish.py`` does this too. In a page, what stands between ``<!-- speed: NAME -->``
and ``<!-- /speed -->`` is replaced; NAME is one of `BLOCKS`. With ``--check`` nothing is written, and a page
that differs is an error.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "docs" / "_static" / "speed.csv"
PAGES = ("README.md", "docs/scaling.md", "docs/tutorials/gpu.md")

Row = dict[str, str]


def power(rows: str) -> str:
    """A number of rows as 7·10⁴."""
    text = rows.rstrip("0")
    if len(text) > 1:
        raise SystemExit(f"{SOURCE.name} has {rows} rows; expected a digit and zeros")
    exponent = str(len(rows) - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{exponent}" if text == "1" else f"{text}·10{exponent}"


def told(seconds: str) -> str:
    """Seconds in a sentence, as minutes where they are many."""
    return f"{float(seconds) / 60:.0f} minutes" if float(seconds) >= 120 else f"{seconds} s"


def table(rows: list[Row], columns: dict[str, str], first: Callable[[Row], str] | None = None) -> str:
    """A table of rows; `first` says what stands in front instead of their number."""
    head = [
        " | ".join(["rows" if first is None else "datasets", *columns.values()]),
        "|".join(["---"] * (len(columns) + 1)),
    ]
    first = first or (lambda r: power(r["rows"]))
    body = [" | ".join([first(r), *(r[c] or "–" for c in columns)]) for r in rows]
    return "\n".join(["", f"| {head[0]} |", f"|{head[1]}|", *(f"| {line} |" for line in body), ""])


def on(machine: str, rows: list[Row], *, many: bool = False) -> list[Row]:
    return [r for r in rows if r["machine"] == machine and (int(r["datasets"]) > 2) == many]


def each(row: Row) -> str:
    """So many datasets of so many rows."""
    return f"{row['datasets']} × {int(row['rows']) // int(row['datasets'])}"


def sentence(rows: list[Row]) -> str:
    million = [[r for r in on(name, rows) if r["rows"] == "1000000"] for name in ("two cores", "H200")]
    if not all(million):
        raise SystemExit(f"{SOURCE.name}: the sentence needs 10⁶ rows on both machines")
    cpu, gpu = (found[-1] for found in million)
    return (
        f"\nA million rows of 50 columns take {told(cpu['seconds'])} and {cpu['memory_gib']} GiB on two "
        f"cores, {gpu['seconds']} s on one H200\n"
        '(`HarmonicAlignment(device="cuda")`).\n'
    )


BLOCKS: dict[str, Callable[[list[Row]], str]] = {
    "sentence": sentence,
    "two cores": lambda rows: table(
        on("two cores", rows),
        {
            "seconds": "seconds",
            "memory_gib": "peak memory, GiB",
            "recall": "neighbour recall",
            "accuracy": "5-NN accuracy",
            "harmony_seconds": "Harmony, seconds",
        },
    ),
    "datasets": lambda rows: table(
        on("two cores", rows, many=True),
        {
            "processor_seconds": "processor seconds",
            "memory_gib": "peak memory, GiB",
            "accuracy": "5-NN accuracy",
            "harmony_processor_seconds": "Harmony, processor seconds",
            "harmony_accuracy": "Harmony, accuracy",
        },
        each,
    ),
    "H200": lambda rows: table(on("H200", rows), {"seconds": "seconds", "memory_gib": "GPU memory, GiB"}),
}


def filled(page: str, rows: list[Row]) -> str:
    """A page with its figures."""

    def block(match: re.Match[str]) -> str:
        name = match[1]
        if name not in BLOCKS:
            raise SystemExit(f"no figures are called {name!r}; there are {', '.join(BLOCKS)}")
        return f"<!-- speed: {name} -->\n{BLOCKS[name](rows)}\n<!-- /speed -->"

    return re.sub(r"<!-- speed: ([^>]+?) -->\n.*?<!-- /speed -->", block, page, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    with SOURCE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for name in PAGES:
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        if "<!-- speed: " not in page:
            raise SystemExit(
                f"{name} has no block of figures; put <!-- speed: NAME --> and <!-- /speed --> there"
            )
        new = filled(page, rows)
        if new != page and args.check:
            raise SystemExit(f"{name} differs from {SOURCE.name}; run python benchmarks/figures.py")
        if new != page:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
