"""The default with its constants chosen without a family of data, from the runs of `ablation.py`.

Every constant has a value and others that were tried. Without a family, a constant takes the tried value that
is best on the tasks of all *other* families, where it gains at least `LEAST_GAIN` there; otherwise it keeps
its own. What is then measured on the family had no part in the choice of these values. (The rules themselves
were written with all families in sight; no table can undo that.)
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tasks

from harmonicalign.evidence.config import constants
from harmonicalign.method import DEFAULT, MethodConfig

RESULTS = Path(__file__).parent / "results"
LEAST_GAIN = 0.003
"""Gains of accuracy below this are within the spread between seeds."""


def without(family: str, path: Path | None = None) -> tuple[MethodConfig, dict[str, Any]]:
    """The configuration chosen without a family, and the constants that differ from the default's."""
    if family not in tasks.FAMILIES:
        raise ValueError(f"no family is named {family!r}; there are {', '.join(tasks.FAMILIES)}")
    gains = gains_without(family, path or runs())
    changed = {}
    for constant in constants(DEFAULT):
        known = [
            (gains[constant.name, repr(v)], v) for v in constant.tried if (constant.name, repr(v)) in gains
        ]
        gain, value = max(known, key=lambda pair: pair[0], default=(0.0, None))
        if gain >= LEAST_GAIN:
            changed[constant.name] = value
    return replace(DEFAULT, **changed), changed


def runs() -> Path:
    """The runs of the ablation. They must be of the present default, over which other values gain."""
    path = RESULTS / "ablation.csv"
    if not path.exists():
        raise ValueError("no runs of other values are known; run benchmarks/ablation.py first")
    return path


def gains_without(family: str, path: Path) -> dict[tuple[str, str], float]:
    """Gain of accuracy of every other value, by constant and value: the mean over the other families."""
    with path.open(newline="", encoding="utf-8") as file:
        runs = {
            (r["constant"], r["value"], r["task"], r["seed"]): float(r["accuracy"])
            for r in csv.DictReader(file)
        }
    by_family: dict[tuple[str, str], dict[str, list[float]]] = {}
    for (name, value, task, seed), accuracy in runs.items():
        base = runs.get(("", "None", task, seed))
        own = tasks.family(task)
        if name and base is not None and own != family:
            by_family.setdefault((name, value), {}).setdefault(own, []).append(accuracy - base)
    return {key: float(np.mean([np.mean(v) for v in of.values()])) for key, of in by_family.items()}
