"""Tables and numbers of ``docs/results.md`` from the CSVs that ``paper_results.py`` writes, for `publish`.

A number of the text is ``<!--paper EXPERIMENT; VALUE; KEY=VALUE; …; OPTION-->``: the mean over the rows that
match. Options: ``along KEY``, one mean for every value of a column; ``sd``; ``count``, how many rows match;
``range``, the smallest and the largest; ``percent``; ``digits N`` (three).
"""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

Row = dict[str, str]
BANDS = tuple(f"paper, ℓ = {n}" for n in (2, 4, 8, 64))
NAMES = {"none": "unaligned", "mnn": "MNN", "magan": "MAGAN", "default": "**default**"}


class NoResultsError(Exception):
    """What a table or number is made of has not been measured."""


class Results:
    """Rows of one experiment; of methods that were not measured anew, means and standard deviations.

    Parameters
    ----------
    folder
        With ``EXPERIMENT/results.csv`` and ``earlier.csv``.
    experiment
        Its name.
    """

    def __init__(self, folder: Path, experiment: str) -> None:
        self.name = experiment
        self.rows = lines(folder / experiment / "results.csv")
        self.kept = [row for row in lines(folder / "earlier.csv") if row["experiment"] == experiment]
        if not self.rows and not self.kept:
            raise NoResultsError(f"no {experiment}/results.csv")

    def values(self, value: str, **where: str) -> list[float]:
        """All values in the rows that match."""
        return [float(r[value]) for r in self.rows if matches(r, where) and r.get(value)]

    def summary(self, value: str, **where: str) -> tuple[float, float | None] | None:
        """Mean and standard deviation, None if there is nothing (or one value)."""
        found = self.values(value, **where)
        if found:
            return statistics.fmean(found), statistics.stdev(found) if len(found) > 1 else None
        known = [row for row in self.kept if row["value"] == value and matches(row, where)]
        if len(known) == 1:
            return float(known[0]["mean"]), float(known[0]["sd"]) if known[0]["sd"] else None
        return (statistics.fmean(float(row["mean"]) for row in known), None) if known else None

    def mean(self, value: str, **where: str) -> float:
        """Mean; an error if there is nothing."""
        found = self.summary(value, **where)
        if found is None:
            raise NoResultsError(f"{self.name}/results.csv has no {value} where {where}")
        return found[0]

    def along(self, key: str, value: str, **where: str) -> list[str]:
        """Values of a column for which there is something, in order of appearance."""
        here = [row for row in self.rows if row.get(value)]
        here += [row for row in self.kept if row["value"] == value]
        return list(dict.fromkeys(row[key] for row in here if matches(row, where) and row.get(key)))


def lines(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def matches(row: Row, where: dict[str, str]) -> bool:
    return all(row.get(key) == str(value) for key, value in where.items())


# --------------------------------------------------------------------------------------------------------
# tables and numbers


def pivot(what: str, old: str, folder: Path) -> str:
    """Rows of an experiment as mean ± standard deviation; the head of the page is kept.

    ``what`` is JSON: ``experiment``; ``rows``, the columns that name a row; ``value`` with ``column`` and the
    ``order`` of its values, or ``values``; ``where``, values that are shown; ``range``, a value whose ends
    are shown last; ``digits``.
    """
    spec = json.loads(what)
    found, digits, body = Results(folder, spec["experiment"]), spec.get("digits", 3), []
    shown = {k: [str(v) for v in values] for k, values in spec.get("where", {}).items()}
    rows = [r for r in found.kept + found.rows if all(r.get(k) in values for k, values in shown.items())]
    keys = dict.fromkeys(
        tuple(r[k] for k in spec["rows"]) for r in rows if all(r.get(k) for k in spec["rows"])
    )
    for key in keys:
        own = dict(zip(spec["rows"], key, strict=True)) | {k: v[0] for k, v in shown.items() if len(v) == 1}
        if "values" in spec:
            cells = [found.summary(value, **own) for value in spec["values"]]
        else:
            cells = [found.summary(spec["value"], **own, **{spec["column"]: c}) for c in spec["order"]]
        if not any(cells):
            continue
        texts = [with_spread(cell, digits) for cell in cells]
        if "range" in spec:
            ends = sorted(found.values(spec["range"], **own))
            texts.append(f"{ends[0]:.2g} to {ends[-1]:.2g}" if ends else "–")
        body.append([*key, *texts])
    if not body:
        raise NoResultsError(f"{spec['experiment']}: results.csv has none of these rows")
    head = old.splitlines()[:2]
    if head[0].count("|") != len(body[0]) + 1:
        raise ValueError(f"{spec['experiment']}: {len(body[0])} columns for the head {head[0]!r}")
    return "\n".join([*head, *(f"| {' | '.join(line)} |" for line in body)])


def with_spread(cell: tuple[float, float | None] | None, digits: int) -> str:
    if cell is None:
        return "–"
    return f"{cell[0]:.{digits}f}" + ("" if cell[1] is None else f" ± {cell[1]:.{digits}f}")


def number(what: str, folder: Path) -> str:
    """One number of the text, or several with commas between them."""
    name, value, *rest = (part.strip() for part in what.split(";"))
    found, where, options = Results(folder, name), {}, {}
    for part in rest:
        key, equals, text = part.partition("=")
        if equals:
            where[key.strip()] = text.strip()
        else:
            key, _, text = part.partition(" ")
            options[key] = text
    digits = int(options.get("digits", 1 if "percent" in options else 3))

    def shown(x: float) -> str:
        return f"{100 * x:.{digits}f} %" if "percent" in options else f"{x:.{digits}f}"

    if "count" in options:
        return str(len(found.values(value, **where)))
    if "range" in options:
        ends = sorted(found.values(value, **where))
        if not ends:
            raise NoResultsError(f"{name}/results.csv has no {value} where {where}")
        return f"{shown(ends[0])} to {shown(ends[-1])}"
    if "sd" in options:
        one = found.summary(value, **where)
        if one is None or one[1] is None:
            raise NoResultsError(f"{name}/results.csv has not two of {value} where {where}")
        return shown(one[1])
    if "along" in options:
        key = options["along"]
        if not found.along(key, value, **where):
            raise NoResultsError(f"{name}/results.csv has no {value} where {where}")
        return ", ".join(
            shown(found.mean(value, **where, **{key: at})) for at in found.along(key, value, **where)
        )
    return shown(found.mean(value, **where))


def state(folder: Path) -> str:
    """With which code and packages the experiments were run."""
    runs = lines(folder / "runs.csv")
    if not runs:
        raise NoResultsError("no runs.csv")
    others = sorted({r["experiment"] for r in runs if r["method"] not in ("all", "default", "shape")})
    kinds = ("code", "python", "numpy", "scipy", "scikit-learn", "faiss-cpu")
    found = {k: " and ".join(sorted({r[k] for r in runs})) for k in kinds}
    packages = ", ".join(f"{k} {v}" for k, v in found.items() if k != "code")
    also = f"; in {' and '.join(others)} the other methods, too" if others else ""
    return f"default{also}: harmonicalign {found['code']}; {packages}"


# --------------------------------------------------------------------------------------------------------
# the summary of claims


def claims(folder: Path) -> str:
    """What the paper claims, what was found, and whether it holds: found and judged from the CSVs."""
    made = [claim(folder) for claim in CLAIMS]
    lines = [f"| {' | '.join(line)} |" for line in (("claim", "found", "holds"), *made)]
    return "\n".join([lines[0], "|---|---|---|", *lines[1:]])


Claim = tuple[str, str, str]


def nothing_at_zero(folder: Path) -> Claim:
    found = Results(folder, "corruption")
    at = {m: found.mean("accuracy", percent="0", method=m) for m in ("none", "mnn", *BANDS, "default")}
    above = [NAMES.get(m, m) for m, v in at.items() if v > 0.15]
    p = found.values("p", percent="0", method="default")
    chance = sum(v > 0.05 for v in p)
    test = f"the significance test calls {chance} of its {len(p)} pairs chance"
    test += f" (p from {min(p):.2g} to {max(p):.2g})"
    verdict = f"yes for all but {' and '.join(above)}; {test}" if above else f"yes; {test}"
    return (
        "corruption: nothing recovers at p = 0 (chance: 0.1)",
        ", ".join(f"{NAMES.get(m, m)} {v:.2f}" for m, v in at.items()),
        verdict,
    )


def spread_of_bands(folder: Path) -> Claim:
    found = Results(folder, "corruption")
    spread: dict[bool, list[float]] = {True: [], False: []}
    for percent in found.along("percent", "accuracy"):
        at = [found.mean("accuracy", percent=percent, method=m) for m in BANDS[:3]]
        if percent != "0":
            spread[int(percent) >= 35].append(max(at) - min(at))
    high, low = max(spread[True]), max(spread[False])
    words = {True: "yes", False: "**no**"}
    return (
        "corruption: ℓ hardly matters, except 64",
        f"largest difference among ℓ = 2, 4, 8 from 35 % on: {high:.3f}; from 5 to 30 %: {low:.3f}",
        f"from 35 % on {words[high < 0.05]}; below {words[low < 0.05]}",
    )


def over_eighty(folder: Path) -> Claim:
    found = Results(folder, "corruption")
    at = {m: found.mean("accuracy", percent="35", method=m) for m in (*BANDS, "default")}
    missed = [m for m, v in at.items() if v < 0.8]
    bands = ", ".join(f"{at[m]:.3f}" for m in BANDS)
    return (
        "corruption: over 80 % at 35 %",
        f"ℓ = 2, 4, 8, 64: {bands}; default {at['default']:.3f}",
        "yes" if not missed else f"yes for all but {', '.join(missed)}",
    )


def above_mnn(folder: Path) -> Claim:
    found = Results(folder, "corruption")
    shares = ("5", "10", "15", "20", "25")

    def gains(method: str) -> list[float]:
        return [
            found.mean("accuracy", percent=p, method=method) - found.mean("accuracy", percent=p, method="mnn")
            for p in shares
        ]

    own = {m: gains(m) for m in (BANDS[2], BANDS[0])}
    text = "; ".join(f"{m[7:]}: {', '.join(f'{g:+.2f}' for g in of)}" for m, of in own.items())
    verdict = "yes for the paper's ℓ = 8" if min(own[BANDS[2]]) > 0 else "**no**"
    return (
        "corruption: `paper` above MNN below 30 %",
        f"less MNN at 5 … 25 %, {text}",
        verdict + (", not for ℓ = 2" if min(own[BANDS[0]]) < 0 else ""),
    )


def default_above(folder: Path) -> Claim:
    found = Results(folder, "corruption")
    shares = [p for p in found.along("percent", "accuracy") if p != "0"]
    gains = []
    for percent in shares:
        others = max(found.mean("accuracy", percent=percent, method=m) for m in ("none", "mnn", *BANDS))
        gains.append(found.mean("accuracy", percent=percent, method="default") - others)
    return (
        "corruption: default above every other curve for p ≥ 5 %",
        f"at {sum(g > 0 for g in gains)} of {len(gains)} shares, by {min(gains):+.3f} to {max(gains):+.3f}",
        "yes" if min(gains) > 0 else "**no**",
    )


def rises_with_size(folder: Path) -> Claim:
    found = Results(folder, "size")
    at = {
        m: [found.mean("accuracy", size=n, method=m) for n in found.along("size", "accuracy")]
        for m in ("paper", "default")
    }
    flat = [m for m, v in at.items() if any(b <= a for a, b in pairwise(v))]
    return (
        "size: the accuracy of `paper` and `default` rises with size",
        "; ".join(f"{m} {' '.join(f'{x:.3f}' for x in v)}" for m, v in at.items()),
        "yes" if not flat else f"not at every step for {' and '.join(flat)}",
    )


def batch_distance(folder: Path) -> Claim:
    found = Results(folder, "batch")

    def left(against: str) -> list[float]:
        return found.values("share_left", compared=f"aligned (default), denoised, against {against}")

    alone, both = left("each batch denoised alone"), left("denoised over both, unaligned")
    count = [sum(v <= 0.1 for v in values) for values in (alone, both)]
    shown = [", ".join(f"{100 * v:.1f} %" for v in values) for values in (alone, both)]
    return (
        "batch: distance falls to ≤ 10 % on denoised data",
        f"{shown[0]} of that of the days denoised alone; {shown[1]} of that denoised over a joint graph",
        f"for {count[0]} of {len(alone)} pairs by the first, for {count[1]} by the second",
    )


def shared_signals(folder: Path) -> Claim:
    found = Results(folder, "fusion")
    text, best = [], []
    for name in ("CITE-seq", "SNARE-seq cortex"):
        at = {
            m: found.mean("beyond_chance", set=name, form="shared", percent="10", method=m)
            for m in ("default", "mnn", "none")
        }
        each = ", ".join(f"{NAMES[m].strip('*')} {v:.3f}" for m, v in at.items())
        text.append(f"{name} {each}")
        better = [NAMES[m] for m in ("mnn", "none") if at["default"] > at[m]]
        best.append(f"{name}: above {' and '.join(better)}" if better else f"{name}: **no**")
    return (
        "fusion with shared signals: clearly above chance, unaligned data and MNN",
        f"10 % neighbourhoods, beyond chance: {'; '.join(text)}",
        "; ".join(best),
    )


CLAIMS: Sequence[Callable[[Path], Claim]] = (
    nothing_at_zero,
    spread_of_bands,
    over_eighty,
    above_mnn,
    default_above,
    rises_with_size,
    batch_distance,
    shared_signals,
)
