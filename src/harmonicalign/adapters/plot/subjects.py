"""What may be drawn: plain arrays, a fitted model, or AnnData that an alignment has annotated."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from harmonicalign._typing import Array, ArrayLike, Matrix, MatrixLike
from harmonicalign.estimator import HarmonicAlignment

if TYPE_CHECKING:
    from anndata import AnnData
    from mudata import MuData

__all__ = [
    "Annotated",
    "Drawable",
    "PerRow",
    "annotated",
    "confidence_of",
    "coordinates_of",
    "is_annotated",
    "names_in",
    "per_row",
    "starting_point",
    "weights_of",
]

Annotated: TypeAlias = "AnnData | MuData | Sequence[AnnData] | Mapping[Hashable, AnnData]"
"""What `harmonicalign.scverse.align` has written its results into."""

Drawable: TypeAlias = "HarmonicAlignment | Annotated | Sequence[MatrixLike] | Mapping[Hashable, MatrixLike]"
"""Arrays of every dataset, in a list or by name; a fitted model; or annotated data."""

_T = TypeVar("_T")

PerRow: TypeAlias = str | Sequence[_T] | Mapping[Hashable, _T] | None
"""Something for the rows of every dataset; or the name of a column of obs."""


@dataclass(frozen=True)
class _Rows:
    """Rows of one dataset in an AnnData; None are all of them."""

    name: str
    adata: AnnData
    rows: Array | None = None

    def take(self, values: Any) -> Any:
        if self.rows is None:
            return values
        return values.iloc[self.rows] if hasattr(values, "iloc") else values[self.rows]


def is_annotated(subject: object) -> bool:
    """Whether this is an AnnData, a MuData, or several AnnData."""
    if _is_anndata(subject) or hasattr(subject, "mod"):
        return True
    values = list(subject.values()) if isinstance(subject, Mapping) else subject
    return isinstance(values, list | tuple) and len(values) > 0 and all(map(_is_anndata, values))


def _is_anndata(value: object) -> bool:
    return all(hasattr(value, name) for name in ("obs", "obsm", "uns", "n_obs"))


def annotated(subject: Annotated, key: str) -> list[_Rows]:
    """Rows of every dataset that `align` annotated under a key, in the order of the alignment."""
    if hasattr(subject, "mod"):
        objects = list(subject.mod.values())
    elif isinstance(subject, Mapping):
        objects = list(subject.values())
    else:
        objects = list(subject) if isinstance(subject, list | tuple) else [subject]
    found = []
    for adata in objects:
        if key not in adata.uns or "input" not in adata.uns[key]:
            raise ValueError(
                f"uns[{key!r}] holds no alignment: run harmonicalign.scverse.align first, or pass its "
                "key_added as alignment"
            )
        info = adata.uns[key]["input"]
        if info["form"] != "batches":
            found.append(_Rows(str(info["dataset"]), adata))
            continue
        labels = np.asarray(adata.obs[info["batch_key"]].astype(str))
        names = [str(name) for name in adata.uns[key]["datasets"]]
        found += [_Rows(name, adata, np.flatnonzero(labels == name)) for name in names if name in labels]
    return found


def names_in(subject: Drawable) -> list[str] | None:
    """Names of the datasets, if the subject knows them."""
    if isinstance(subject, HarmonicAlignment):
        keys = subject.keys_
        return None if keys == list(range(len(keys))) else [str(key) for key in keys]
    return [str(key) for key in subject] if isinstance(subject, Mapping) else None


def coordinates_of(
    subject: Drawable, names: Sequence[str] | None, alignment: str, basis: str | None = None
) -> tuple[Sequence[MatrixLike], Sequence[str] | None]:
    """Coordinates of the rows of every dataset, and names of the datasets.

    Parameters
    ----------
    subject
        What is drawn.
    names
        Names that were given, which take precedence.
    alignment
        The `key_added` of `align`, for annotated data.
    basis
        For annotated data: another entry of obsm than the aligned coordinates.
    """
    if is_annotated(subject):
        held, slot = annotated(subject, alignment), basis or f"X_{alignment}"
        for one in held:
            if slot not in one.adata.obsm:
                raise ValueError(
                    f"obsm of dataset {one.name!r} has no {slot!r}; it has {list(one.adata.obsm)}"
                )
        coordinates = [np.asarray(one.take(one.adata.obsm[slot])) for one in held]
        return coordinates, names or [one.name for one in held]
    if basis is not None:
        raise ValueError("basis names an entry of obsm, so it goes with AnnData only; drop it")
    names = names or names_in(subject)
    if isinstance(subject, HarmonicAlignment):
        return [np.asarray(z) for z in subject.embedding_], names
    return list(subject.values()) if isinstance(subject, Mapping) else subject, names


def per_row(subject: Drawable, values: PerRow[Any], alignment: str) -> list[Any] | None:
    """A label or value for the rows of every dataset: as given, by name of a dataset, or a column of obs."""
    if values is None:
        return None
    if not isinstance(values, str):
        return list(values.values() if isinstance(values, Mapping) else values)
    if not is_annotated(subject):
        raise ValueError(
            f"{values!r} names a column of obs, which AnnData has; pass one array per dataset instead"
        )
    held = annotated(subject, alignment)
    for one in held:
        if values not in one.adata.obs:
            raise ValueError(f"obs of dataset {one.name!r} has no {values!r}; it has {list(one.adata.obs)}")
    columns = [one.take(one.adata.obs[values]) for one in held]
    return [
        np.asarray(c, dtype=np.float64) if c.dtype.kind == "f" else np.asarray(c.astype(str)) for c in columns
    ]


def starting_point(subject: HarmonicAlignment | Annotated, alignment: str) -> list[Matrix]:
    """Rows of every dataset before alignment: signals of a model; X_pca of AnnData, or its variables."""
    if isinstance(subject, HarmonicAlignment):
        return list(subject.fitted_.at_hand().inputs.signals)
    held = annotated(subject, alignment)
    if all("X_pca" in one.adata.obsm for one in held):
        return [np.asarray(one.take(one.adata.obsm["X_pca"])) for one in held]
    column = f"{alignment}_weight"
    for one in held:
        if column not in one.adata.var:
            raise ValueError(
                f"dataset {one.name!r} has neither obsm['X_pca'] nor var[{column!r}] to draw it by before "
                "alignment; pass coordinates of every dataset as before and the AnnData as after"
            )
    return [one.adata[_all(one), one.adata.var[column].notna().to_numpy()].X for one in held]


def _all(one: _Rows) -> Array | slice:
    return slice(None) if one.rows is None else one.rows


def confidence_of(
    subject: Drawable, names: Sequence[str] | None, alignment: str
) -> tuple[Sequence[ArrayLike], Sequence[str] | None]:
    """Confidence of the rows of every dataset, and names of the datasets."""
    if is_annotated(subject):
        values = per_row(subject, f"{alignment}_confidence", alignment)
        assert values is not None
        return values, names or [one.name for one in annotated(subject, alignment)]
    names = names or names_in(subject)
    if isinstance(subject, HarmonicAlignment):
        return [np.asarray(c) for c in subject.confidence_], names
    return list(subject.values()) if isinstance(subject, Mapping) else subject, names


def weights_of(
    subject: ArrayLike | HarmonicAlignment | AnnData, alignment: str
) -> tuple[Any, list[str] | None]:
    """Weights of the features and their names, if these are known."""
    if isinstance(subject, HarmonicAlignment):
        return subject.feature_weights_, subject.signal_names_
    if not _is_anndata(subject):
        return subject, None
    adata: Any = subject
    column = f"{alignment}_weight"
    if column in adata.var:
        known = adata.var[column].dropna()
        return known.to_numpy(), [str(name) for name in known.index]
    table = adata.uns.get(alignment, {})
    if "links" in table:
        pairs = zip(table["links"]["first"], table["links"]["second"], strict=True)
        return table["links"]["weight"], [f"{a} – {b}" for a, b in pairs]
    if "signals" in table:
        return table["signals"]["weight"], [str(name) for name in table["signals"]["name"]]
    raise ValueError(f"var has no {column!r}: only the default method of align learns weights of features")
