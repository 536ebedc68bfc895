"""Columns matched by name: between datasets, and between a dataset and more rows of it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from harmonicalign._typing import Matrix
from harmonicalign.inputs.frames import Layout, names_of, part_of

__all__ = ["columns_like", "match_by_name", "refuse_other_orders", "refuse_unnamed"]

logger = logging.getLogger("harmonicalign")


def match_by_name(
    containers: list[Matrix], layouts: Sequence[Layout], keys: Sequence[Hashable], name: str
) -> tuple[list[Matrix], list[str] | None]:
    """Corresponding columns of tables, by name; arrays are matched by position, and a mixture is refused.

    Parameters
    ----------
    containers, layouts
        The datasets, and how they were given.
    keys, name
        Their names, and that of the argument, for messages.

    Returns
    -------
    matched
        The same columns of every dataset, in the order of the first.
    names
        Their names; None if columns correspond by position.
    """
    columns = [layout.names for layout in layouts]
    for key, names in zip(keys, columns, strict=True):
        if names is not None:
            _refuse_repeated(f"{name} of {key!r}", names)
    if any(names is None for names in columns):
        _refuse_mixture(layouts, keys, name)
        return containers, None
    known = [names for names in columns if names is not None]
    if all(names == known[0] for names in known):
        return containers, known[0]
    others = [set(names) for names in known[1:]]
    shared = [c for c in known[0] if all(c in names for names in others)]
    if not shared:
        raise ValueError(
            f"{name}: no column name is shared by all datasets (first names: "
            + "; ".join(f"{key!r}: {', '.join(names[:3])}" for key, names in zip(keys, known, strict=True))
            + "); rename the columns that correspond, or pass arrays whose columns correspond by position"
        )
    if all(len(names) == len(shared) for names in known):
        logger.info("%s: columns are in different order in the datasets; matched by name", name)
    else:
        warnings.warn(
            f"{name}: {len(shared)} column names are shared by all datasets of "
            f"{', '.join(str(len(names)) for names in known)} columns; only those are used as signals",
            UserWarning,
            stacklevel=4,
        )
    positions = [{c: i for i, c in enumerate(names)} for names in known]
    return [
        part_of(table, columns=[p[c] for c in shared]) for table, p in zip(containers, positions, strict=True)
    ], shared


def columns_like(
    name: str, x: Any, own: list[str] | None, wanted: list[str] | None, whose: str, *, exact: bool = False
) -> Any:
    """Columns of more rows of a dataset, in the order in which the model has them.

    A table is matched by name. An array stands for the dataset that it belongs to, so it has all columns of
    that dataset in that dataset's own order.

    Parameters
    ----------
    name, x
        The argument, and its value.
    own
        Columns of the dataset in its own order; None if they have no names.
    wanted
        Columns that the model has, in its order; None if they have no names.
    whose
        The dataset, for messages.
    exact
        Whether columns that the dataset does not have are refused.
    """
    given = names_of(x)
    if wanted is None:
        return x
    if given is None:
        if own is None or own == wanted:
            return x
        x = x if hasattr(x, "shape") else np.asarray(x)
        if len(x.shape) != 2:
            return x
        if x.shape[1] != len(own):
            raise ValueError(
                f"{name} has {x.shape[1]} columns without names, but {whose} was fitted with {len(own)}; "
                "pass them all in the order that they had there, or a data frame, whose columns are found by "
                "name"
            )
        number = {column: j for j, column in enumerate(own)}
        return part_of(x, columns=[number[column] for column in wanted])
    _refuse_repeated(name, given)
    number = {column: j for j, column in enumerate(given)}
    if lost := [column for column in wanted if column not in number]:
        raise ValueError(
            f"{name} lacks the column(s) {', '.join(lost[:5])} that {whose} was fitted with"
            + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
        )
    if exact and len(given) > len(wanted):
        extra = [column for column in given if column not in set(wanted)]
        raise ValueError(
            f"{name} has the column(s) {', '.join(extra[:5])} that {whose} was not fitted with; drop them"
        )
    return x if given == wanted else part_of(x, columns=[number[column] for column in wanted])


def refuse_other_orders(name: str, tables: Sequence[Any]) -> None:
    """Refuse tables with the same columns in different orders, where columns are matched by position."""
    columns = [names_of(table) for table in tables]
    for names in columns:
        first = columns[0]
        if first is not None and names is not None and names != first and sorted(names) == sorted(first):
            raise ValueError(
                f"{name} have the same columns in different orders, and are matched by position; put them "
                "into one order, for example y[x.columns]"
            )


def refuse_unnamed(name: str, x: Any, names: Sequence[str]) -> None:
    """Refuse a new dataset without names of columns for a model that was fitted by names."""
    if names_of(x) is None:
        raise ValueError(
            f"{name} has no column names, but this model matched columns by name; pass a data frame, for "
            f"example pandas.DataFrame(rows, columns=[…]), with the columns {', '.join(names[:3])}, …"
        )


def _refuse_mixture(layouts: Sequence[Layout], keys: Sequence[Hashable], name: str) -> None:
    named = [k for k, x in zip(keys, layouts, strict=True) if x.names is not None and not x.is_numbered]
    if not named:
        return
    bare = [key for key, layout in zip(keys, layouts, strict=True) if layout.names is None]
    raise ValueError(
        f"{name} mixes data frames ({_listed(named)}) with arrays ({_listed(bare)}), whose columns have no "
        "names. To match columns by name, make data frames of all; to match them by position, pass arrays "
        "for all, for example frame.to_numpy()"
    )


def _refuse_repeated(name: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        seen: set[str] = set()
        repeated = next(c for c in names if c in seen or seen.add(c))  # type: ignore[func-returns-value]
        raise ValueError(f"{name} has the column name {repeated!r} more than once; make names unique")


def _listed(keys: Sequence[Hashable]) -> str:
    return ", ".join(map(repr, keys[:5])) + (", …" if len(keys) > 5 else "")
