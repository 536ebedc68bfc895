"""Variables matched by name across datasets, and messages about names without a match."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.adapters.scverse._data import Part, examples

__all__ = ["shared_names", "unique_names"]

logger = logging.getLogger("harmonicalign")


def shared_names(parts: Sequence[Part]) -> tuple[list[str], list[Array]]:
    """Names of variables that all datasets have, in the order of the first, and where each has them."""
    if all(part.adata is parts[0].adata for part in parts):
        return parts[0].names, [np.arange(parts[0].adata.n_vars)] * len(parts)
    names = [unique_names(part) for part in parts]
    others = [set(own) for own in names[1:]]
    shared = [name for name in names[0] if all(name in own for own in others)]
    _report(parts, names, shared)
    number = [{name: i for i, name in enumerate(own)} for own in names]
    return shared, [np.array([n[name] for name in shared], dtype=np.int64) for n in number]


def unique_names(part: Part) -> list[str]:
    names = part.names
    if len(set(names)) < len(names):
        unique, counts = np.unique(names, return_counts=True)
        raise ValueError(
            f"var_names of dataset {part.key!r} are not unique ({str(unique[counts > 1][0])!r} occurs "
            f"{counts.max()} times); call var_names_make_unique() first"
        )
    return names


def _report(parts: Sequence[Part], names: Sequence[list[str]], shared: Sequence[str]) -> None:
    """Report names without a match; raise an error if none matches."""
    if not shared:
        raise ValueError(_no_shared_names(parts, names))
    if all(len(own) == len(shared) for own in names):
        return
    known = set(shared)
    lost = "; ".join(
        f"{len(own) - len(shared)} of dataset {part.key!r} are not: "
        f"{examples(n for n in own if n not in known)}"
        for part, own in zip(parts, names, strict=True)
        if len(own) > len(shared)
    )
    few = 2 * len(shared) < min(map(len, names))
    logger.log(
        logging.WARNING if few else logging.INFO,
        "%d variable names are shared by all datasets; %s",
        len(shared),
        lost,
    )


def _no_shared_names(parts: Sequence[Part], names: Sequence[list[str]]) -> str:
    """The sentence for an empty intersection, with what would have matched."""
    first = "; ".join(f"{p.key!r}: {examples(own)}" for p, own in zip(parts, names, strict=True))
    message = f"no variable name is shared by all datasets ({first})"
    others = set.intersection(*(set(own) for own in names[1:]))
    folded = {name.lower() for name in others}
    same = sum(name.lower() in folded for name in names[0])
    if same:
        return f"{message}; {same} names differ in case only: rename them"
    for part, rest in ((parts[0], others), (parts[-1], set(names[0]))):
        for column in part.adata.var.columns:
            hits = len(rest.intersection(map(str, part.adata.var[column])))
            if hits:
                return (
                    f"{message}; {hits} names agree with var[{column!r}] of dataset {part.key!r}: "
                    f"set its var_names to that column"
                )
    return f"{message}; rename those that correspond, or say which do by links, or by peaks and genes"
