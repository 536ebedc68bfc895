"""Numbers of the pages that nothing in the repository makes.

    python benchmarks/trace.py            # lists them; the exit status is 1 if there are any

What counts is what looks measured: decimals, and numbers with a unit of time, memory or share. A number is
traced if it stands between marks that `publish` or `figures` fills from a CSV, or if its section, from one
heading to the next, names in code what makes it: a script of ``benchmarks``, a command, a test, a CSV, or
code whose output is shown (``.head(8)``).
Numbers in code, comments, addresses and formulas do not count. What is no measurement, such as the setting of
an experiment or a version, is listed in `GIVEN`.
"""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md"))))

GIVEN: dict[str, tuple[str, ...]] = {
    "README.md": ("has 65 % of its pixels scrambled", "65 % of the pixels are scrambled by a rotation"),
    "docs/api/scverse.md": ("a false discovery rate of 5 %",),
    "docs/dask.md": ("the same: 0.9 GiB for 2 × 20,000 × 50", "30 to 60 MB"),  # by the widths of arrays
    "docs/examples.md": ("30 % of the pixels are preserved",),
    "docs/glossary.md": ("of labels given with 80 % about 80 %",),
    "docs/index.md": ("65 % of the pixels are scrambled by a rotation",),
    "docs/inputs.md": ("A p above 0.05", "only just below 0.05"),
    "docs/licences.md": ("Python 3.11",),
    "docs/method.md": ("at least 0.9 of that", "is 0.9 or more", "a factor of 1.75"),
    "docs/parameters.md": ("0.5 is the default",),
    "docs/promises.md": ("at least .85 in that order", "if they agree to .95", "at most 0.25"),
    "docs/results.md": (
        "at 10 %: ℓ = 2",
        "from 5 % of the",
        "35 % of the pixels",
        "(*10 %*, *50 %*)",
        "neighbourhoods of 5 and 10 %",
        "0 perfect, 0.5 chance",
        "share only 12 % of the pixels",
        "at a noise of 0.05",
    ),
    "docs/scaling.md": ("a measured recall of 0.96", "are 20 GB"),
    "docs/start.md": ("65 % of the pixels are mixed", "If p is above 0.05"),
    "docs/troubleshooting.md": (
        "p above 0.05",
        "scanpy 1.11",
        "Python 3.11",
        "pynndescent 0.7",
        "up to Python 3.13",
    ),
    "docs/tutorials/citeseq.md": (".5 is chance",),
    "docs/tutorials/gpu.md": ("recall 0.96", "a device with 139 GiB"),
    "docs/tutorials/images.md": ("keeps 30 % of its pixels",),
    "docs/tutorials/no_shared_features.md": ("about 0.5",),
}
"""By page: pieces of text whose numbers are settings, bounds, definitions or versions."""

UNITS = "s|ms|min|minutes|seconds|hours|GiB|MiB|GB|MB|%"
NUMBER = re.compile(rf"(?<![\w.,/⁰-⁹-])\d*\.\d+(?![.\w]*\d)|\b\d[\d,]*(?:–\d+)?\s?(?:{UNITS})(?!\w)")
COMMAND = (
    r"benchmarks/\w+\.py|harmonicalign (?:reproduce|compare)|make (?:demo|test)|tests/[\w/]+|\w+\.csv"
    r"|\.head\(\d+\)"
)
MAKER = re.compile(rf"`[^`]*(?:{COMMAND})[^`]*`")
SHOWN = re.compile(r"^```(?!\{(?:note|tip|warning)).*?^```\s*$", re.MULTILINE | re.DOTALL)
MADE = re.compile(
    r"<!-- table: .*?<!-- end -->|<!-- speed: .*?<!-- /speed -->|<!--\w+ [^>]*?-->[^<]*<!--/-->|<!--.*?-->",
    re.DOTALL,
)
SKIPPED = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$|`[^`]*`|\]\([^)]*\)|doi:\S+|https?://\S+", re.DOTALL)


def blank(match: re.Match[str]) -> str:
    """As many lines with nothing in them, and the commands of a block of code that make numbers."""
    commands = re.findall(COMMAND, match[0]) if match[0].startswith("```") else []
    return " ".join(f"`{command}`" for command in commands) + "\n" * match[0].count("\n")


def sections(text: str) -> list[tuple[int, str]]:
    """Line number and text of every part from one heading to the next."""
    lines = MADE.sub(blank, SHOWN.sub(blank, text)).splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("#")]
    bounds = sorted({0, *starts, len(lines)})
    return [(a + 1, "\n".join(lines[a:b])) for a, b in pairwise(bounds)]


def untraced(text: str, given: tuple[str, ...] = ()) -> list[tuple[int, str, str]]:
    """Line, number and the line's text of every number without a source."""
    for piece in given:
        text = text.replace(piece, re.sub(r"[^\n]", " ", piece))
    found = []
    for start, part in sections(text):
        if not MAKER.search(part):
            for i, line in enumerate(SKIPPED.sub(blank, part).splitlines()):
                found += [(start + i, m[0], line.strip()) for m in NUMBER.finditer(line)]
    return found


def main() -> None:
    n = 0
    for name, pieces in GIVEN.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        for piece in (p for p in pieces if p not in text):
            print(f"{name} no longer says {piece!r}; take it out of GIVEN")
            n += 1
    for name in PAGES:
        for line, number, text in untraced((ROOT / name).read_text(encoding="utf-8"), GIVEN.get(name, ())):
            print(f"{name}:{line}: {number}: {text[:150]}")
            n += 1
    print(f"{n} numbers without a source")
    sys.exit(n > 0)


if __name__ == "__main__":
    main()
