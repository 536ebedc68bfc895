"""From AnnData to matrices: which columns a dataset's graph is built on, and which signals are compared.

Signals
    Variables whose names all datasets share; or those that `links` joins; or, for chromatin, gene activity;
    or the columns of a named entry of obsm. Of many shared variables those flagged in
    ``var["highly_variable"]`` are taken, or else the most variable ones.
Representation
    An entry of obsm (`use_rep`); or the signals themselves; or, where less than half of a dataset's
    variables are shared, its own most variable ones.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.adapters.scverse._activity import gene_activity
from harmonicalign.adapters.scverse._data import Part, Parts, lookup, per_dataset, switches, unknown
from harmonicalign.adapters.scverse._links import link_matrix
from harmonicalign.adapters.scverse._matrix import Matrix, Store, column_variances, looks_like_counts, read
from harmonicalign.adapters.scverse._names import shared_names, unique_names
from harmonicalign.inputs.validate import check_integer

__all__ = [
    "N_VARS",
    "Options",
    "Prepared",
    "most_variable",
    "own_columns",
    "prepare",
    "representation",
    "stores",
]

logger = logging.getLogger("harmonicalign")

_MANY = 4000
"""Where more variables than this are shared, the most variable ones are chosen: the others only cost time."""

N_VARS = 2000
"""How many are then chosen."""

_FEWEST_FLAGGED = 200
"""Variables flagged in all datasets; where there are fewer, those flagged in any are taken."""


@dataclass(frozen=True)
class Options:
    """How the matrices of every dataset are found.

    Attributes
    ----------
    use_rep, layer, normalize
        By dataset.
    n_vars
        None, "all" or a number.
    signals
        Entry of obsm that holds the signals; None means variables.
    """

    use_rep: list[str | None]
    layer: list[str | None]
    normalize: list[bool]
    n_vars: int | str | None = None
    signals: str | None = None

    @classmethod
    def of(
        cls, parts: Parts, use_rep: Any, layer: Any, normalize: Any, n_vars: Any, signals: str | None
    ) -> Options:
        """Options as users give them, checked."""
        if n_vars is not None and n_vars != "all":
            n_vars = check_integer("n_vars", n_vars, minimum=2)
        return cls(
            per_dataset("use_rep", use_rep, parts),
            per_dataset("layer", layer, parts),
            switches("normalize", normalize, parts),
            n_vars,
            signals,
        )


@dataclass(frozen=True)
class Prepared:
    """What the estimator is given.

    Attributes
    ----------
    datasets
        Representations.
    signals
        Signals; None where they are the representations.
    links
        Weights between the signals of two datasets, or None.
    names
        Names of the signals: one list where they correspond one to one, else one per dataset.
    columns
        For every dataset, which of its variables its signals are; None where they are none.
    represented
        For every dataset, the names of the variables it is represented by, where these are not the
        signals; else None.
    """

    datasets: list[Matrix]
    signals: list[Matrix] | None
    links: Any
    names: list[list[str]]
    columns: list[Array | None]
    represented: list[list[str] | None]


def prepare(
    parts: Parts,
    options: Options,
    *,
    links: Any = None,
    peaks: Any = None,
    genes: Any = None,
    paired: bool = False,
) -> Prepared:
    """Choose and read representation and signals of all datasets.

    Parameters
    ----------
    parts, options
        The datasets, and how their matrices are found.
    links, peaks, genes
        What joins different variables; see `align`.
    paired
        Whether rows are known to match, so that no variable needs to.
    """
    if links is not None and len(parts.parts) != 2:
        raise ValueError(f"links joins the variables of two datasets, but data holds {len(parts.parts)}")
    if parts.form == "batches" and (links is not None or genes is not None or peaks is not None):
        raise ValueError("links, peaks and genes join different variables, but batches have the same ones")
    if options.signals is not None:
        if links is not None or genes is not None or peaks is not None:
            raise ValueError("signals names what corresponds; drop links, peaks and genes")
        prepared = _from_obsm(parts, options, options.signals)
    elif parts.form == "batches" and options.use_rep[0] is not None and _no_x(parts.parts[0], options, 0):
        prepared = _from_obsm(parts, options, options.use_rep[0])
    elif links is not None:
        prepared = _from_links(parts, options, links)
    elif paired and parts.form != "batches" and peaks is None and genes is None and _names_differ(parts):
        return _from_pairs(parts, options)
    else:
        prepared = _from_names(parts, options, peaks, genes)
    datasets: list[Matrix | None] = list(prepared.datasets) or [None] * len(parts.parts)
    signals = prepared.signals
    assert signals is not None
    represented = list(prepared.represented)
    for i, part in enumerate(parts.parts):
        rep = options.use_rep[i]
        if rep is not None:
            datasets[i] = representation(part, rep)
            represented[i] = None
    same = all(d is None for d in datasets)
    return replace(
        prepared,
        datasets=[s if d is None else d for d, s in zip(datasets, signals, strict=True)],
        signals=None if same and links is None else signals,
        represented=represented,
    )


def _names_differ(parts: Parts) -> bool:
    """Whether no variable has its name in all datasets."""
    return not set.intersection(*(set(part.names) for part in parts.parts))


def _from_pairs(parts: Parts, options: Options) -> Prepared:
    """No signals: they are learned from known pairs."""
    held = stores(parts.parts, options)
    datasets: list[Matrix] = []
    represented: list[list[str] | None] = []
    for part, store, rep in zip(parts.parts, held, options.use_rep, strict=True):
        if rep is not None:
            datasets.append(representation(part, rep))
            represented.append(None)
            continue
        own = own_columns(part, store, options.n_vars)
        datasets.append(read(store, [part.rows], [own])[0])
        represented.append([part.names[j] for j in own])
    _hint_at_counts(parts, options)
    n = len(parts.parts)
    return Prepared(datasets, None, None, [[]], [None] * n, represented)


def representation(part: Part, key: str) -> Matrix:
    """The part's rows of an entry of obsm."""
    values = part.take(lookup(f"obsm of dataset {part.key!r}", part.adata.obsm, key))
    if hasattr(values, "iloc"):
        return np.ascontiguousarray(values.to_numpy())
    if hasattr(values, "dask"):
        values = values.compute()
    return values if sp.issparse(values) else np.ascontiguousarray(values)


def stores(parts: Sequence[Part], options: Options) -> list[Store]:
    """The matrix of every dataset; batches of one AnnData share theirs."""
    known: dict[int, Store] = {}
    for i, part in enumerate(parts):
        if id(part.adata) not in known:
            layer = options.layer[i]
            where = "X" if layer is None else f"layers[{layer!r}]"
            name = where if part.rows is not None else f"{where} of dataset {part.key!r}"
            known[id(part.adata)] = Store(part.adata, layer, options.normalize[i], name)
    return [known[id(part.adata)] for part in parts]


def most_variable(variances: Sequence[Array], n: int) -> Array:
    """The n columns of best mean rank by variance over the datasets, in ascending order."""
    ranks = sum(np.argsort(np.argsort(-v, kind="stable"), kind="stable") for v in variances)
    return np.sort(np.argsort(ranks, kind="stable")[:n])


def _no_x(part: Part, options: Options, i: int) -> bool:
    return options.layer[i] is None and not part.adata.isbacked and part.adata.X is None


def _from_obsm(parts: Parts, options: Options, key: str) -> Prepared:
    """Signals that are columns of an entry of obsm: by name where it is a data frame, else by position."""
    import pandas as pd

    found = [part.adata.obsm.get(key) for part in parts.parts]
    signals = [representation(part, key) for part in parts.parts]
    framed = all(isinstance(f, pd.DataFrame) for f in found)
    if framed:
        columns = [list(map(str, f.columns)) for f in found]
        names = [c for c in columns[0] if all(c in own for own in columns)]
        if not names:
            raise ValueError(f"obsm[{key!r}]: no column name is shared by all datasets")
        signals = [s[:, [own.index(c) for c in names]] for s, own in zip(signals, columns, strict=True)]
    else:
        widths = {s.shape[1] for s in signals}
        if len(widths) > 1:
            raise ValueError(
                f"obsm[{key!r}] has {' and '.join(map(str, sorted(widths)))} columns; signals must "
                "correspond column by column"
            )
        names = [f"{key}{i}" for i in range(widths.pop())]
    n = len(parts.parts)
    return Prepared([], signals, None, [names], [None] * n, [None] * n)


def _from_names(parts: Parts, options: Options, peaks: Any, genes: Any) -> Prepared:
    """Signals that are variables with shared names, or gene activity where peaks take their place."""
    measured = _with_activity(parts, options, peaks, genes)
    names, columns = shared_names(measured)
    held = stores(measured, options)
    _hint_at_counts(parts, options)
    chosen = _choose(measured, held, columns, options.n_vars)
    columns = [c[chosen] for c in columns]
    represented: list[list[str] | None] = []
    own: list[Array | None] = []
    apart = stores(parts.parts, options)
    for i, (part, shown) in enumerate(zip(parts.parts, measured, strict=True)):
        derived = shown.adata is not part.adata
        few = 2 * len(names) < part.adata.n_vars
        alone = options.use_rep[i] is None and (derived or few)
        own.append(own_columns(part, apart[i], options.n_vars) if alone else None)
        represented.append(None if own[-1] is None else np.array(part.names, dtype=object)[own[-1]].tolist())
    signals = _read_all(held, measured, columns)
    datasets = [
        None if o is None else read(store, [part.rows], [o])[0]
        for o, store, part in zip(own, apart, parts.parts, strict=True)
    ]
    variables = [
        c if shown.adata is part.adata else None
        for c, part, shown in zip(columns, parts.parts, measured, strict=True)
    ]
    return Prepared(datasets, signals, None, [[names[j] for j in chosen]], variables, represented)


def _from_links(parts: Parts, options: Options, links: Any) -> Prepared:
    """Signals that are the linked variables of two datasets."""
    names = [unique_names(part) for part in parts.parts]
    matrix = link_matrix(links, *names)
    matrix.eliminate_zeros()
    columns = [np.flatnonzero(np.diff(m.indptr)) for m in (matrix.tocsr(), matrix.tocsc())]
    _hint_at_counts(parts, options)
    held = stores(parts.parts, options)
    own = [
        None if rep is not None else own_columns(part, store, options.n_vars)
        for part, store, rep in zip(parts.parts, held, options.use_rep, strict=True)
    ]
    return Prepared(
        [
            None if o is None else read(s, [p.rows], [o])[0]
            for s, p, o in zip(held, parts.parts, own, strict=True)
        ],
        [read(s, [p.rows], [c])[0] for s, p, c in zip(held, parts.parts, columns, strict=True)],
        matrix.tocsr()[columns[0]][:, columns[1]],
        [[own_names[j] for j in c] for own_names, c in zip(names, columns, strict=True)],
        list(columns),
        [None if o is None else [own_names[j] for j in o] for own_names, o in zip(names, own, strict=True)],
    )


def _with_activity(parts: Parts, options: Options, peaks: Any, genes: Any) -> list[Part]:
    """The parts, with gene activity in the place of peaks."""
    if peaks is None and genes is None:
        return list(parts.parts)
    if peaks is None or genes is None:
        given, missing = ("genes", "peaks") if peaks is None else ("peaks", "genes")
        raise ValueError(
            f"{given} needs {missing}: peaks names the chromatin dataset, genes gives positions of genes"
        )
    if peaks not in parts.keys:
        raise unknown("data (named in peaks)", peaks, parts.keys)
    i = parts.keys.index(peaks)
    others = set.intersection(*(set(p.names) for p in parts.parts if p.key != peaks))
    part = parts.parts[i]
    if options.use_rep[i] is None:
        logger.warning(
            "the graph of %r is built on single peaks; a reduction such as LSI, named in use_rep, usually "
            "shows more of what chromatin tells",
            peaks,
        )
    activity = gene_activity(part.adata, genes, layer=options.layer[i], names=others)
    out = list(parts.parts)
    out[i] = Part(part.key, activity)
    return out


def _choose(parts: Sequence[Part], held: Sequence[Store], columns: Sequence[Array], n_vars: Any) -> Array:
    """Which of the shared variables to use, as positions among them."""
    n = len(columns[0])
    if n_vars == "all" or n < 2:
        return np.arange(n)
    flags = [part.adata.var.get("highly_variable") for part in parts]
    if n_vars is None and all(f is not None for f in flags):
        table = np.array([np.asarray(f, dtype=bool)[c] for f, c in zip(flags, columns, strict=True)])
        chosen = np.flatnonzero(table.all(axis=0))
        if len(chosen) < _FEWEST_FLAGGED:
            chosen = np.flatnonzero(table.any(axis=0))
        if len(chosen) > 1:
            logger.info("%d of %d variables are used, those flagged as highly variable", len(chosen), n)
            return chosen
    if n <= (_MANY if n_vars is None else n_vars):
        return np.arange(n)
    wanted = N_VARS if n_vars is None else int(n_vars)
    logger.info("the %d most variable of %d variables are used; n_vars changes that", wanted, n)
    variances: list[Array] = []
    for group in _groups(held):
        found = column_variances(held[group[0]], [parts[i].rows for i in group])
        variances += [v[columns[i]] for i, v in zip(group, found, strict=True)]
    return most_variable(variances, wanted)


def own_columns(part: Part, store: Store, n_vars: Any = None) -> Array:
    """Variables that a dataset is represented by where others do not share them."""
    return _choose([part], [store], [np.arange(part.adata.n_vars)], n_vars)


def _groups(held: Sequence[Store]) -> list[list[int]]:
    """Numbers of datasets that lie in one matrix, together."""
    found: dict[int, list[int]] = {}
    for i, store in enumerate(held):
        found.setdefault(id(store), []).append(i)
    return list(found.values())


def _read_all(held: Sequence[Store], parts: Sequence[Part], columns: Sequence[Array]) -> list[Matrix]:
    """The chosen columns of every dataset."""
    out: list[Matrix] = [None] * len(parts)
    for group in _groups(held):
        found = read(held[group[0]], [parts[i].rows for i in group], [columns[i] for i in group])
        for i, matrix in zip(group, found, strict=True):
            out[i] = matrix
    return out


def _hint_at_counts(parts: Parts, options: Options) -> None:
    for store in {id(s): s for s in stores(parts.parts, options)}.values():
        if not store.normalize and looks_like_counts(store):
            logger.warning(
                "%s looks like counts; if so, pass normalize=True, which scales rows to equal totals and "
                "takes log(1 + x)",
                store.name,
            )
