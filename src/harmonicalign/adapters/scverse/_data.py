"""The accepted forms of single-cell data, as parts: one AnnData and some of its rows per dataset."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np

from harmonicalign._typing import Array

if TYPE_CHECKING:
    from anndata import AnnData
    from mudata import MuData

__all__ = [
    "AnnDatas",
    "ByDataset",
    "Part",
    "Parts",
    "UnknownNameError",
    "examples",
    "is_anndata",
    "is_mudata",
    "joined_labels",
    "levels_by_dataset",
    "lookup",
    "modality_prefix",
    "per_dataset",
    "require_anndata",
    "split",
    "switches",
    "unknown",
]


AnnDatas: TypeAlias = "AnnData | Sequence[AnnData] | Mapping[Any, AnnData] | MuData"
"""Annotated data as users pass them: one AnnData, a list or dict of them, or a MuData."""

_T = TypeVar("_T")

ByDataset: TypeAlias = _T | Mapping[Any, _T]
"""One value for all datasets, or a dict with one for each."""

_FEWEST_ROWS = 3


class UnknownNameError(KeyError, ValueError):
    """An unknown key, layer, variable or parameter."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the sentence in quotes


def unknown(where: str, name: Any, known: Iterable[Any]) -> UnknownNameError:
    """The error for a name that `where` lacks, with the nearest one that it has."""
    names = [str(k) for k in known if k is not None]  # from anndata 0.13 on X is the layer None
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    lower = [k for k in names if k.lower() == str(name).lower()]
    if near or lower:
        hint = f"did you mean {(lower or near)[0]!r}?"
    else:
        hint = f"it has {examples(names, 8)}" if names else "it is empty"
    return UnknownNameError(f"{where} has no {str(name)!r}; {hint}")


def examples(names: Iterable[Any], most: int = 3) -> str:
    """Some names, for a message."""
    shown = [str(n) for n in names]
    return ", ".join(shown[:most]) + (", …" if len(shown) > most else "")


def lookup(where: str, mapping: Any, name: Any) -> Any:
    """An entry of a mapping-like slot (obs, obsm, layers), or an error that suggests one."""
    if name not in mapping:
        raise unknown(where, name, mapping.keys())
    return mapping[name]


@dataclass(frozen=True)
class Part:
    """One dataset: an AnnData, or some rows of it (in ascending order).

    `prefix` is what the names of all its variables begin with and is removed from them: MuData makes
    names unique by putting the modality before them.
    """

    key: Any
    adata: AnnData
    rows: Array | None = None
    prefix: str = ""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.adata.n_obs) if self.rows is None else len(self.rows)

    @property
    def names(self) -> list[str]:
        """Names of the variables."""
        return [str(name).removeprefix(self.prefix) for name in self.adata.var_names]

    def take(self, values: Any) -> Any:
        """The part's rows of something that has one entry per row of the AnnData."""
        if self.rows is None:
            return values
        return values.iloc[self.rows] if hasattr(values, "iloc") else values[self.rows]


@dataclass(frozen=True)
class Parts:
    """Datasets in the order of the fit.

    Attributes
    ----------
    form
        "batches" (one AnnData), "list", "dict" or "modalities" (a MuData).
    data
        What was passed in.
    batch_key
        For "batches": the column of obs that tells them apart, or several of them.
    parts
        The datasets.
    """

    form: str
    data: Any
    batch_key: str | tuple[str, ...] | None
    parts: tuple[Part, ...]

    @property
    def keys(self) -> list[Any]:
        """Names of the datasets."""
        return [part.key for part in self.parts]

    @property
    def objects(self) -> list[Any]:
        """The AnnData objects, each once."""
        return [self.parts[0].adata] if self.form == "batches" else [part.adata for part in self.parts]

    def one_to_one(self, values: Sequence[Any]) -> Any:
        """Values in the form in which the estimator takes datasets."""
        return list(values) if self.form == "list" else dict(zip(self.keys, values, strict=True))


def split(data: AnnDatas, batch_key: str | Sequence[str] | None = None) -> Parts:
    """Determine the form of the data and the rows of each dataset."""
    if is_mudata(data):
        found, form = dict(cast(Any, data).mod), "modalities"
    elif isinstance(data, Mapping):
        found, form = dict(data), "dict"
    elif isinstance(data, list | tuple):
        found, form = dict(enumerate(data)), "list"
    elif is_anndata(data):
        return _batches(data, batch_key)
    else:
        raise ValueError(
            f"data is of type {type(data).__name__}; expected an AnnData with batch_key, a list or dict of "
            "AnnData, or a MuData (matrices go to harmonicalign.HarmonicAlignment)"
        )
    if batch_key is not None:
        what = "a MuData" if form == "modalities" else f"a {form} of AnnData"
        raise ValueError(f"batch_key goes with one AnnData, but data is {what}; drop it")
    for key, value in found.items():
        if not is_anndata(value):
            raise ValueError(f"data[{key!r}] is of type {type(value).__name__}; expected an AnnData")
        if value.isbacked and value.is_view:
            raise ValueError(
                f"data[{key!r}] is a view of a backed file and cannot hold results; pass the whole file, "
                "with batch_key if it holds several datasets, or load the view with to_memory()"
            )
    if len(found) < 2:
        raise ValueError(f"data holds {len(found)} dataset(s); an alignment needs at least two")
    if len({id(value) for value in found.values()}) < len(found):
        raise ValueError("data holds one AnnData object twice; pass a copy, so that each gets its results")
    parts = tuple(Part(key, value, prefix=modality_prefix(key, value)) for key, value in found.items())
    _enough_rows(parts, "dataset")
    return Parts(form, data, None, parts)


def _batches(adata: AnnData, batch_key: str | Sequence[str] | None) -> Parts:
    if batch_key is None or not (names := [batch_key] if isinstance(batch_key, str) else list(batch_key)):
        raise ValueError(
            "batch_key is missing: name the column of obs that identifies the datasets "
            f"(obs has {examples(adata.obs.keys(), 8) or 'no columns'}), or pass a list of AnnData"
        )
    columns = [_batch_labels(adata, name) for name in names]
    labels = columns[0] if len(columns) == 1 else joined_labels(columns)
    where = " and ".join(f"obs[{name!r}]" for name in names)
    keys, codes = np.unique(labels, return_inverse=True)
    if len(keys) < 2:
        raise ValueError(
            f"{where} holds one value only ({keys.tolist()[0]!r}); an alignment needs at least two batches"
        )
    parts = tuple(Part(key, adata, np.flatnonzero(codes == i)) for i, key in enumerate(keys.tolist()))
    _enough_rows(parts, f"batch of {where}")
    return Parts("batches", adata, names[0] if len(names) == 1 else tuple(names), parts)


def _batch_labels(adata: AnnData, name: str) -> Array:
    """A column of obs without missing values, of one type."""
    column = lookup("obs", adata.obs, name)
    missing = int(column.isna().sum())
    if missing:
        raise ValueError(
            f"obs[{name!r}] has no value for {missing} of {adata.n_obs} rows; fill or drop those rows"
        )
    labels = np.asarray(column)
    if labels.dtype.kind == "O" and len({type(v) for v in labels.tolist()}) > 1:
        labels = labels.astype(str)
    return labels


def joined_labels(columns: Sequence[Array]) -> Array:
    """One label per row of several columns of labels."""
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return np.array([" | ".join(map(str, row)) for row in rows])


def levels_by_dataset(parts: Parts, columns: str | Sequence[str]) -> list[list[Any]]:
    """A label for every row of every dataset from columns of obs; None where one of them has no value.

    Parameters
    ----------
    parts
        The datasets.
    columns
        Columns of obs; of several, every combination of values is a label.
    """
    found = []
    for part in parts.parts:
        where = "obs" if parts.form == "batches" else f"obs of dataset {part.key!r}"
        held = [
            part.take(lookup(where, part.adata.obs, name))
            for name in ([columns] if isinstance(columns, str) else columns)
        ]
        rows = zip(*(column.astype(object).where(column.notna(), None) for column in held), strict=True)
        found.append([None if None in row else " | ".join(map(str, row)) for row in rows])
    return found


def _enough_rows(parts: Sequence[Part], what: str) -> None:
    small = [part for part in parts if part.n_rows < _FEWEST_ROWS]
    if small:
        sizes = ", ".join(f"{part.key!r}: {part.n_rows}" for part in small[:5])
        raise ValueError(
            f"each {what} needs at least {_FEWEST_ROWS} rows, but {len(small)} have fewer ({sizes}); "
            "leave those out or merge them with others"
        )


def per_dataset(name: str, value: object, parts: Parts, default: object = None) -> list[Any]:
    """An option that is one value for all datasets, or a dict by dataset."""
    if not isinstance(value, Mapping):
        return [value] * len(parts.parts)
    for key in value:
        if key not in parts.keys:
            raise unknown(f"data (named in {name})", key, parts.keys)
    return [value.get(key, default) for key in parts.keys]


def switches(name: str, value: object, parts: Parts) -> list[bool]:
    """A boolean option: for all datasets, by dataset, or true for those named."""
    if isinstance(value, bool | np.bool_ | Mapping):
        chosen = per_dataset(name, value, parts, False)
    else:
        named = [value] if isinstance(value, str) or not isinstance(value, Collection) else list(value)
        chosen = per_dataset(name, dict.fromkeys(named, True), parts, False)
    if not all(isinstance(v, bool | np.bool_) for v in chosen):
        raise ValueError(f"{name} is {value!r}; expected True, False or names of datasets")
    return [bool(v) for v in chosen]


def modality_prefix(key: Hashable, adata: AnnData) -> str:
    """``"<key>:"`` where all names of variables begin with it, else nothing."""
    prefix = f"{key}:"
    return prefix if all(str(name).startswith(prefix) for name in adata.var_names) else ""


def is_anndata(value: object) -> bool:
    """Whether this is an AnnData; works without anndata installed."""
    return all(hasattr(value, name) for name in ("obs", "var", "obsm", "obsp", "n_obs", "layers")) and not (
        is_mudata(value)
    )


def is_mudata(value: object) -> bool:
    """Whether this is a MuData."""
    return hasattr(value, "mod") and hasattr(value, "obsmap")


def require_anndata() -> Any:
    """The module anndata, or an error with the pip command."""
    try:
        import anndata
    except ImportError as error:
        raise ImportError(
            "harmonicalign.scverse needs anndata; install it with: pip install 'harmonicalign[scverse]'"
        ) from error
    return anndata
