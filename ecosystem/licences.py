"""The licences of everything that harmonicalign installs, from the metadata of the installed packages.

    pip install -e '.[all,compare,docs,scib,adaptation,dev]'
    python ecosystem/licences.py              # writes docs/licences.md

Packages that pyproject.toml names are listed with the extras that name them; those that they bring along for
``harmonicalign[all]`` are listed by licence below. What is not installed stops the script: the table is
complete or not written.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"

# Texts and classifiers that packages give instead of an identifier of SPDX.
KNOWN = (
    (r"BSD[- ]?3|3-Clause", "BSD-3-Clause"),
    (r"BSD[- ]?2|2-Clause", "BSD-2-Clause"),
    (r"^MIT\b|MIT License", "MIT"),
    (r"Apache", "Apache-2.0"),
    (r"Mozilla|MPL", "MPL-2.0"),
    (r"Python Software Foundation|^PSF|matplotlib", "PSF-2.0"),
    (r"Lesser General Public|LGPL", "LGPL"),
    (r"General Public License|GPL", "GPL"),
    (r"BSD", "BSD"),
    (r"HPND|Historical Permission", "HPND"),
    (r"ISC", "ISC"),
    (r"Unlicense", "Unlicense"),
)
COPYLEFT = re.compile(r"(?<!L)GPL")
"""Whoever passes on a work that includes it must license all of that work alike. (The LGPL does not ask this.)"""


def normal(name: str) -> str:
    """A package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirement: str) -> str:
    """The package that a requirement names."""
    return normal(re.match(r"[A-Za-z0-9._-]+", requirement)[0])


def licence(name: str) -> str:
    """The licence of an installed package, as an SPDX expression where it can be told."""
    about = distribution(name).metadata
    if expression := about.get("License-Expression"):
        return expression
    kinds = [
        c.rsplit("::", 1)[-1].strip() for c in about.get_all("Classifier") or [] if c.startswith("License")
    ]
    first_line = (about.get("License") or "").strip().split("\n")[0]
    for text in (first_line, *kinds):
        for pattern, spdx in KNOWN:
            if re.search(pattern, text):
                return spdx
    raise ValueError(f"{name} does not say its licence in a known form: {first_line!r}, {kinds}")


def direct() -> dict[str, list[str]]:
    """Every package that pyproject.toml names, with the extras that name it ("–": always installed)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"–": project["dependencies"], **project["optional-dependencies"]}
    found: dict[str, list[str]] = {}
    for extra, requirements in groups.items():
        for name in map(named, requirements):
            if name != "harmonicalign":
                found.setdefault(name, []).append(extra)
    return found


def of_extra(extra: str) -> set[str]:
    """Packages that an extra names, those of the extras in it and the required ones included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {named(r) for r in project["dependencies"]}
    for requirement in project["optional-dependencies"][extra]:
        if named(requirement) == "harmonicalign":
            for inner in re.search(r"\[(.+)\]", requirement)[1].split(","):
                found |= of_extra(inner)
        else:
            found.add(named(requirement))
    return found


def closure(names: Iterable[str]) -> set[str]:
    """The packages and all that they require here, optional parts left out."""
    from packaging.requirements import Requirement

    found, waiting = set(), list(names)
    while waiting:
        name = normal(waiting.pop())
        if name in found:
            continue
        found.add(name)
        for text in distribution(name).requires or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


def page() -> str:
    """The page of documentation."""
    packages = direct()
    lines = [
        "# Licences of the dependencies",
        "",
        "harmonicalign is under BSD-3-Clause and contains no code of others. What it installs has licences of its own; made by",
        "`python ecosystem/licences.py` from the packages' metadata. Packages under the GPL are in **bold**: none is required, and",
        "none is in `harmonicalign[all]`. They are used through their public interface, for comparison, tests and documentation",
        "only.",
        "",
        "| package | extras | licence |",
        "|---|---|---|",
    ]
    for name in sorted(packages):
        terms = licence(name)
        shown = f"**{name}**" if COPYLEFT.search(terms) else name
        extras = ", ".join(e if e == "–" else f"`{e}`" for e in packages[name])
        lines.append(f"| {shown} | {'required' if extras == '–' else extras} | {terms} |")
    everything = of_extra("all")
    lines += [
        "",
        "## What these bring along",
        "",
        "Packages that those of `harmonicalign[all]` require in turn, by licence (versions of this table: Python "
        f"{sys.version_info.major}.{sys.version_info.minor}, Linux):",
        "",
        "| licence | packages |",
        "|---|---|",
    ]
    by_licence: dict[str, list[str]] = {}
    for name in sorted(closure(everything) - everything):
        by_licence.setdefault(licence(name), []).append(name)
    lines += [f"| {terms} | {', '.join(names)} |" for terms, names in sorted(by_licence.items())]
    return "\n".join(lines) + "\n"


def main() -> None:
    lacking = []
    for name in direct():
        try:
            distribution(name)
        except PackageNotFoundError:
            lacking.append(name)
    if lacking:
        sys.exit(
            f"not installed: {', '.join(sorted(lacking))}; the table needs all (see the head of this file)"
        )
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(direct())} packages")


if __name__ == "__main__":
    main()
