"""What the inputs hold, before anything is computed, and what will be done with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign.adapters.cli._contents import IN_WORDS, About, about_part
from harmonicalign.adapters.scverse._data import Parts, split, unknown
from harmonicalign.adapters.scverse._matrix import Store
from harmonicalign.adapters.scverse._prepare import N_VARS

__all__ = ["Preflight", "examine", "normalized_layer", "which_to_normalize"]

_MANY = 4000
"""Of more shared features than this the most variable ones are compared."""

LAYER = "log_normalized"
"""Where one file holds counts in some batches and logarithms in others, both as logarithms."""


@dataclass(frozen=True)
class Preflight:
    """All inputs together.

    Attributes
    ----------
    datasets
        What each holds.
    shared
        Number of features whose names all datasets have.
    normalize
        Names of the datasets that will be normalised.
    plan
        What will be done, in sentences.
    warnings
        What may go wrong.
    problems
        What prevents an alignment.
    """

    datasets: list[About]
    shared: int
    normalize: list[str] = field(default_factory=list)
    plan: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "datasets": {about.name: {k: v for k, v in vars(about).items() if k != "name"}
                         for about in self.datasets},
            "shared_features": self.shared,
            "normalize": self.normalize,
            "plan": self.plan,
            "warnings": self.warnings,
            "problems": self.problems,
        }  # fmt: skip


def examine(
    data: Any,
    *,
    batch_key: str | None = None,
    layer: str | None = None,
    normalize: Sequence[str] | None = None,
    linked: bool = False,
    plain: Sequence[str] = (),
    anchored: bool = False,
    n_vars: int | str | None = None,
) -> Preflight:
    """Look at some rows of every dataset.

    Parameters
    ----------
    data
        What `load` returned.
    batch_key
        Column of obs that identifies the datasets of one AnnData.
    layer
        Layer to look at instead of X.
    normalize
        What ``--normalize`` says.
    linked
        Whether links, peaks or an entry of obsm say what corresponds, so that names need not.
    plain
        Datasets whose whole numbers are not counts of molecules (images, cytometry).
    anchored
        Whether cells of the same name are taken as the same.
    n_vars
        What ``--n-vars`` says.
    """
    parts = split(data, batch_key)
    datasets = [about_part(part, layer) for part in parts.parts]
    names = [set(part.names) for part in parts.parts]
    shared = len(set.intersection(*names))
    chosen = which_to_normalize(normalize, datasets, plain)
    out = Preflight(datasets, shared, chosen)
    _say_normalization(out, normalize)
    _say_units(out)
    _say_names(out, parts, names, linked or (anchored and not shared), n_vars)
    _say_rows(out, parts, anchored)
    return out


def which_to_normalize(
    given: Sequence[str] | None, datasets: Sequence[About], plain: Sequence[str] = ()
) -> list[str]:
    """Names of the datasets to normalise, from what ``--normalize`` says."""
    names = [about.name for about in datasets]
    given = list(given or ["auto"])
    for word in ("auto", "all", "none"):
        if word in given and len(given) > 1:
            raise ValueError(f"--normalize {word} says it for all datasets; drop the other values")
    if given == ["none"]:
        return []
    if given == ["all"]:
        return names
    if given == ["auto"]:
        return [a.name for a in datasets if a.values == "counts" and a.name not in plain]
    for name in given:
        if name not in names:
            raise unknown("--normalize: the data (beside auto, all and none)", name, names)
    return [name for name in names if name in given]


def normalized_layer(data: Any, batch_key: str | None, layer: str | None, chosen: Sequence[str]) -> str:
    """A layer in which the rows of some batches are normalised and the others are as they were."""
    if data.isbacked:
        raise ValueError(
            f"batches {', '.join(chosen)} hold counts and the others do not, which --backed leaves as it is; "
            "drop --backed, or store all batches in one unit"
        )
    pieces: list[Any] = []
    parts = split(data, batch_key).parts
    for part in parts:
        store = Store(data[part.rows], layer, str(part.key) in chosen, f"batch {part.key!r}")
        blocks = [block for _, block in store.blocks()]
        pieces.append(sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.vstack(blocks))
    back = np.argsort(np.concatenate([part.rows for part in parts if part.rows is not None]), kind="stable")
    sparse = sp.issparse(pieces[0])
    stacked = sp.vstack(pieces, format="csr") if sparse else np.vstack(pieces)
    data.layers[LAYER] = stacked[back]
    return LAYER


def _say_normalization(out: Preflight, given: Sequence[str] | None) -> None:
    rest = [a.name for a in out.datasets if a.name not in out.normalize]
    if not out.normalize:
        counts = [a.name for a in out.datasets if a.values == "counts"]
        if counts and list(given or ["auto"]) == ["none"]:
            out.warnings.append(
                f"{_some(counts)} hold{_s(counts)} counts, which --normalize none leaves as they are"
            )
        return
    said = f"{_some(out.normalize)}: counts are scaled to equal totals, then log(1 + x)"
    if rest:
        said += f"; {_some(rest)}: left as {'they are' if len(rest) > 1 else 'it is'}"
    out.plan.append(said + " (--normalize none changes that)")
    wrong = [a.name for a in out.datasets if a.name in out.normalize and a.values in ("log", "scaled")]
    if wrong:
        out.warnings.append(
            f"{_some(wrong)} do{'es' if len(wrong) == 1 else ''} not look like counts, but --normalize says "
            "to normalise; drop it if they are logarithms already"
        )


def _say_units(out: Preflight) -> None:
    """Datasets whose values cannot be compared."""
    unit = {
        a.name: "log" if a.name in out.normalize or a.values == "log" else a.values
        for a in out.datasets
        if a.values in ("counts", "log", "scaled")
    }
    found: dict[str, list[str]] = {}
    for name, kind in unit.items():
        found.setdefault(IN_WORDS[kind], []).append(name)
    if len(found) > 1:
        said = "; ".join(f"{_some(names)}: {kind}" for kind, names in found.items())
        out.warnings.append(f"the datasets are in different units ({said}); bring them to one first")
    for about in out.datasets:
        if not about.finite:
            out.problems.append(f"{about.name} contains NaN or infinity; drop or impute those values first")


def _say_names(
    out: Preflight, parts: Parts, names: Sequence[set[str]], told: bool, n_vars: int | str | None
) -> None:
    """Features: shared, repeated, under another name; `told`: names need not say which correspond."""
    repeated = [a for a in out.datasets if a.repeated_features]
    for about in {(a.features, a.repeated_features): a for a in repeated}.values():
        whose = "" if parts.form == "batches" else f" of {about.name}"
        said = f"feature names{whose} are not unique: {about.repeated_features} occur more than once"
        if parts.form == "batches":
            out.warnings.append(said)
        else:
            out.problems.append(f"{said}; make them unique, or match by another column with --var-key")
    if told or parts.form == "batches":
        return
    least = min(a.features for a in out.datasets)
    if not out.shared:
        out.problems.append(
            f"no feature name is shared by all datasets{_by_column(parts, names) or _examples(parts)}; "
            "rename features, or say which correspond with --links, or with --peaks and --genes"
        )
    elif 2 * out.shared < least:
        out.warnings.append(
            f"only {out.shared:,} of {least:,} feature names are shared by all datasets"
            f"{_by_column(parts, names)}"
        )
    if out.shared:
        out.plan.append(_compared(out.shared, parts, n_vars))


def _compared(shared: int, parts: Parts, n_vars: int | str | None) -> str:
    """Which of the shared features `align` will use."""
    if n_vars is None and all("highly_variable" in part.adata.var for part in parts.parts):
        return f"those of {shared:,} shared features that are marked as highly variable are compared"
    wanted = shared if n_vars == "all" else int(n_vars or (N_VARS if shared > _MANY else shared))
    if wanted >= shared:
        return f"{shared:,} of {shared:,} shared features are compared"
    return f"{wanted:,} of {shared:,} shared features are compared, the most variable (--n-vars changes that)"


def _examples(parts: Parts) -> str:
    """A few names of every dataset."""
    listed = [f"{part.key}: {', '.join(part.names[:3])}, …" for part in parts.parts[:4]]
    return f" ({'; '.join(listed)})"


def _by_column(parts: Parts, names: Sequence[set[str]]) -> str:
    """A column of var that matches the names of the other datasets."""
    for i, part in enumerate(parts.parts):
        others = set.union(*(own for j, own in enumerate(names) if j != i))
        for column in part.adata.var.columns:
            values = part.adata.var[column]
            if values.dtype.kind in "fiub":
                continue
            hits = len(others.intersection(map(str, values)))
            if hits > max(10, len(names[i] & others)):
                return (
                    f" ({hits:,} of the others are in var[{column!r}] of {part.key}: try --var-key {column})"
                )
    return ""


def _say_rows(out: Preflight, parts: Parts, anchored: bool) -> None:
    """Rows of the same name, and small datasets."""
    small = [a for a in out.datasets if a.rows < 50]
    if small:
        listed = ", ".join(f"{a.name} ({a.rows})" for a in small[:5])
        out.warnings.append(f"few cells to find a geometry in: {listed}; fifty or more are better")
    if parts.form == "batches":
        return
    for a, b in combinations(parts.parts, 2):
        names = set(map(str, a.adata.obs_names)) & set(map(str, b.adata.obs_names))
        # Numbers of rows are no names.
        both = sum(not name.isdecimal() for name in names)
        if not both:
            continue
        same = f"{both:,} cells have the same name in {a.key} and {b.key}"
        if anchored:
            out.plan.append(f"{same}, and are taken as the same cells (--anchors obs_names)")
        elif 2 * both > min(a.n_rows, b.n_rows):
            out.plan.append(
                f"{same}: if they are the same cells, --anchors obs_names uses that; without it they are "
                "aligned as strangers, and the scores tell how far apart they land (foscttm)"
            )
        else:
            out.warnings.append(f"{same}, by chance or because the files overlap; names get a suffix")


def _some(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _s(names: Sequence[str]) -> str:
    return "s" if len(names) == 1 else ""
