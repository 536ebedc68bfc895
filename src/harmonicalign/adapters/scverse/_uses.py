"""Label transfer, concatenation of all datasets, and scores of an alignment."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.adapters.scverse._data import AnnDatas, is_anndata, lookup, require_anndata
from harmonicalign.adapters.scverse._graph import neighbour_graph
from harmonicalign.adapters.scverse._placed import Placed, find, info_of, placed
from harmonicalign.adapters.scverse._write import Slots, annotate
from harmonicalign.adapters.verdict import (
    MOST_ROWS,
    VOTERS,
    aligned_pairs,
    measure,
    sample,
    subject_of,
    summarised,
    weakest,
)
from harmonicalign.estimator import HarmonicAlignment
from harmonicalign.metrics import foscttm
from harmonicalign.uses.transfer import UNASSIGNED, LabelTransfer, ValueTransfer

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["column_values", "concat", "in_model", "same_rows", "score", "transfer_labels", "write_transfers"]

logger = logging.getLogger("harmonicalign")


def transfer_labels(
    data: AnnDatas,
    model: HarmonicAlignment,
    key: str,
    *,
    source: Hashable | Iterable[Hashable],
    target: Hashable | Iterable[Hashable] = None,
    key_added: str | None = None,
    method: str = "knn",
    threshold: float | None = None,
    alignment: str = "harmonic",
    **options: Any,
) -> dict[Any, LabelTransfer | ValueTransfer]:
    """Transfer a column of obs from some datasets to others.

    Parameters
    ----------
    data
        What `align` annotated. Rows may have been dropped or reordered since.
    model
        What `align` returned.
    key
        Column of obs. Text, categories and whole numbers are labels; floating-point numbers are
        values. Rows without a value are ignored.
    source
        Dataset that has the labels, or a list of several.
    target
        Dataset to label, or a list; by default all others.
    key_added
        Prefix of the columns that are written, `key` by default: ``obs["<prefix>_pred"]`` and
        ``obs["<prefix>_conf"]``, the probability that a label is right (for values
        ``obs["<prefix>_spread"]``, their expected error). Rows of other datasets have none.
    method
        "knn", "diffusion" or, for labels, "svm".
    threshold
        Labels with a lower confidence become "unassigned".
    alignment
        The `key_added` of `align`.
    **options
        Passed on to `HarmonicAlignment.transfer`.

    Returns
    -------
    transfers
        By target, the labels with the probabilities of all classes; or the values.
    """
    import pandas as pd

    held = placed(data, model, alignment)
    sources = [find("source", name, model, held) for name in _listed(source)]
    numbers = [one.number for one in sources]
    targets = (
        [one for one in held if one.number not in numbers]
        if target is None
        else [find("target", name, model, held) for name in _listed(target)]
    )
    if not targets:
        raise ValueError("target: data holds no dataset but the source; pass those to label too")
    known = {model.keys_[one.number]: in_model(one, column_values(one, key), model) for one in sources}
    if all(pd.isna(values).all() for values in known.values()):
        raise ValueError(f"obs[{key!r}] has no value in {', '.join(map(repr, known))}; name another source")
    found = {
        model.keys_[one.number]: model.transfer(
            known, target=model.keys_[one.number], method=method, threshold=threshold, **options
        )
        for one in targets
    }
    prefix = key if key_added is None else key_added
    write_transfers(targets, [found[model.keys_[one.number]] for one in targets], prefix)
    return found


def _listed(names: Any) -> list[Any]:
    return [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)


def column_values(one: Placed, key: str) -> Array:
    """A column of obs for a dataset's rows: numbers with NaN, or labels with None, where it has no value."""
    column = one.part.take(lookup(f"obs of dataset {one.part.key!r}", one.part.adata.obs, key))
    if column.dtype.kind == "f":
        return np.asarray(column, dtype=np.float64)
    return np.asarray(np.where(column.isna(), None, column.astype(object)))


def in_model(one: Placed, values: Array, model: HarmonicAlignment) -> Array:
    """Values in the model's order of rows; rows that the data no longer hold have none."""
    n = len(model.embedding_[one.number])
    out = np.full(n, np.nan) if values.dtype.kind == "f" else np.full(n, None, dtype=object)
    out[one.positions] = values
    return out


def write_transfers(targets: list[Placed], found: list[Any], prefix: str) -> None:
    """Columns of obs: one for all batches of an AnnData, or one in each AnnData."""
    import pandas as pd

    by_object: dict[int, list[tuple[Placed, Any]]] = {}
    for one, transfer in zip(targets, found, strict=True):
        by_object.setdefault(id(one.part.adata), []).append((one, transfer))
    for pairs in by_object.values():
        adata = pairs[0][0].part.adata
        first = pairs[0][1]
        certainty = np.full(adata.n_obs, np.nan)
        values = np.full(adata.n_obs, np.nan, dtype=object if isinstance(first, LabelTransfer) else float)
        for one, transfer in pairs:
            rows = slice(None) if one.part.rows is None else one.part.rows
            labelled = isinstance(transfer, LabelTransfer)
            values[rows] = (transfer.labels if labelled else transfer.values)[one.positions]
            certainty[rows] = (transfer.confidence if labelled else transfer.spread)[one.positions]
        if isinstance(first, LabelTransfer):
            classes = [c for c in first.classes.tolist() if c != UNASSIGNED]
            categories = classes + [UNASSIGNED] * bool((values == UNASSIGNED).any())
            values = pd.Categorical(values, categories=categories)
        adata.obs[f"{prefix}_pred"] = values
        adata.obs[f"{prefix}_{'conf' if isinstance(first, LabelTransfer) else 'spread'}"] = certainty


def concat(
    data: AnnDatas,
    model: HarmonicAlignment,
    *,
    label: str = "dataset",
    join: str = "inner",
    alignment: str = "harmonic",
    neighbors_key: str | None = None,
) -> AnnData:
    """One AnnData of the rows of all datasets, with the whole joint graph.

    Parameters
    ----------
    data
        A list or dict of AnnData, or a MuData, that `align` annotated.
    model
        What `align` returned.
    label
        Column of obs with the dataset of each row.
    join
        "inner" keeps variables that all datasets have, "outer" all of them. Matrices of backed files
        are left out. Layers are kept where all datasets have them; columns of obs always, with
        missing values in the rows of datasets without them.
    alignment
        The `key_added` of `align`.
    neighbors_key
        Name of the neighbour graph, `alignment` by default.

    Returns
    -------
    joined
        ``sc.tl.umap(joined, neighbors_key="harmonic")`` shows all datasets in one plot. All functions
        that accept data annotated by `align` accept this too.
    """
    anndata = require_anndata()
    if is_anndata(data):
        raise ValueError("data is one AnnData already; align has written the whole joint graph into it")
    slots = Slots(alignment, neighbors_key or alignment)
    held = placed(data, model, alignment)
    objects = list({id(one.part.adata): one.part.adata for one in held}.values())
    suffix = {id(one.part.adata): str(one.part.key) for one in reversed(held)}
    backed = any(adata.isbacked for adata in objects)
    if backed:
        logger.info("matrices of backed files are left out of the joined data")
    # From anndata 0.13 on X is among the layers, as None.
    layers = set() if backed else set.intersection(*(set(adata.layers) for adata in objects)) - {None}
    pieces = [
        anndata.AnnData(
            X=None if backed else adata.X,
            obs=adata.obs[[]],
            var=None if backed else adata.var,
            obsm={slots.embedding: adata.obsm[slots.embedding]},
            layers={name: adata.layers[name] for name in adata.layers if name in layers},
        )
        for adata in objects
    ]
    names = [str(name) for piece in pieces for name in piece.obs_names]
    naming = {
        "keys": [suffix[id(adata)] for adata in objects],
        "index_unique": None if len(set(names)) == len(names) else "-",
    }
    joined = anndata.concat(pieces, join=join, merge="same", **naming)
    # By themselves, as the way of joining variables would also decide which columns are kept.
    described = [anndata.AnnData(obs=adata.obs) for adata in objects]
    joined.obs = anndata.concat(described, join="outer", **naming).obs
    rows, labels = _rows_of(objects, held, model)
    joined.obs[label] = labels
    first = objects[0]
    annotate(
        joined,
        slots,
        embedding=joined.obsm[slots.embedding],
        confidence=joined.obs[slots.confidence].to_numpy(),
        graph=[matrix[rows][:, rows] for matrix in neighbour_graph(model.joint_.graph)],
        uns={
            **first.uns[alignment],
            "connectivities_key": slots.graph("connectivities"),
            "distances_key": slots.graph("distances"),
            "input": {**info_of(first, alignment), "form": "batches", "batch_key": label, "dataset": ""},
        },
        var={
            name: first.var[f"{alignment}_{name}"].reindex(joined.var_names).to_numpy()
            for name in ("weight", "score", "selected")
            if f"{alignment}_{name}" in first.var and not backed and join == "inner"
        },
    )
    return joined


def _rows_of(objects: list[Any], held: list[Placed], model: HarmonicAlignment) -> tuple[Array, Any]:
    """For the rows of AnnData objects, one after another: their numbers in the joint graph, and datasets."""
    import pandas as pd

    starts = np.concatenate([[0], np.cumsum([len(z) for z in model.embedding_])])
    rows = [np.empty(adata.n_obs, dtype=np.int64) for adata in objects]
    codes = [np.empty(adata.n_obs, dtype=np.int64) for adata in objects]
    for one in held:
        i = next(i for i, adata in enumerate(objects) if adata is one.part.adata)
        own = slice(None) if one.part.rows is None else one.part.rows
        rows[i][own] = starts[one.number] + one.positions
        codes[i][own] = one.number
    names = [str(key) for key in model.keys_]
    return np.concatenate(rows), pd.Categorical.from_codes(np.concatenate(codes), categories=names)


def score(
    data: AnnDatas,
    model: HarmonicAlignment,
    label_key: str | None = None,
    *,
    n_neighbors: int = VOTERS,
    max_rows: int = MOST_ROWS,
    alignment: str = "harmonic",
) -> dict[str, float]:
    """Scores of an alignment, the same for every form of data and the same as in the report.

    Parameters
    ----------
    data, model
        What `align` annotated, and what it returned.
    label_key
        Column of obs with labels that were not used for the alignment, such as cell types; rows
        without a label are ignored in scores that need labels.
    n_neighbors
        Neighbours that vote on a label.
    max_rows
        Maximum number of rows over all datasets; larger data are subsampled.
    alignment
        The `key_added` of `align`.

    Returns
    -------
    measures
        ``mixing``: from 0, separate, to 1, mixed at random. ``confidence``: median confidence of the rows.
        ``z``, ``p``: significance of the weakest pair of datasets. With labels, ``label_agreement``, the
        share of rows whose nearest rows of the other datasets vote for their own label, of labels that
        these have (the mean, and for every dataset), and ``mixing_within_labels``; for a column of
        quantities ``value_agreement``, their correlation with the mean over those rows. ``_before`` marks
        the same before alignment, in the principal components of the signals. Where two datasets are the
        same rows by name, ``foscttm``: from 0, perfect, to 0.5, chance.
    """
    held = [_in_order(one) for one in placed(data, model, alignment)]
    if len(held) < 2:
        raise ValueError(f"data holds {len(held)} dataset(s) of the model; a score needs at least two")
    subject = subject_of(model)
    kept = sample([len(one.positions) for one in held], max_rows)
    rows: list[Array] = [np.empty(0, dtype=np.int64)] * len(model.keys_)
    for one, k in zip(held, kept, strict=True):
        rows[one.number] = one.positions[k]
    before = subject.unaligned(rows)
    labels = {} if label_key is None else {label_key: _sampled(held, kept, label_key)}
    found = measure(
        [model.embedding_[one.number][rows[one.number]] for one in held],
        labels,
        [subject.names[one.number] for one in held],
        None if before is None else [before[one.number] for one in held],
        n_neighbors,
    )
    if label_key is not None and not any(m.label for m in found):
        raise ValueError(f"obs[{label_key!r}]: no two datasets have a label in common")
    out = summarised(found)
    confidence = [model.confidence_[one.number][one.positions] for one in held]
    out["confidence"] = float(np.median(np.concatenate(confidence)))
    test = weakest(aligned_pairs(subject))
    if test is not None:
        out |= {"z": float(test.z), "p": float(test.p)}
    return out | same_rows(data, model, alignment, max_rows)


def _in_order(one: Placed) -> Placed:
    """The rows in the order of the model, so that a sample does not depend on that of the data."""
    order = np.argsort(one.positions, kind="stable")
    rows = order if one.part.rows is None else one.part.rows[order]
    return Placed(replace(one.part, rows=rows), one.number, one.positions[order])


def _sampled(held: list[Placed], kept: list[Array], key: str) -> list[Array | None]:
    """A column of obs for the sampled rows of every dataset; None for those without a value."""
    out: list[Array | None] = []
    for one, k in zip(held, kept, strict=True):
        column = one.part.take(lookup(f"obs of dataset {one.part.key!r}", one.part.adata.obs, key))
        out.append(None if column.isna().all() else column_values(one, key)[k])
    return out


def same_rows(
    data: Any, model: HarmonicAlignment, alignment: str, max_rows: int = MOST_ROWS
) -> dict[str, float]:
    """``foscttm`` where two datasets are the same rows by name; else nothing."""
    held = [_in_order(one) for one in placed(data, model, alignment)]
    if len(held) != 2:
        return {}
    index = [one.part.take(one.part.adata.obs_names) for one in held]
    if len(index[0]) != len(index[1]) or set(index[0]) != set(index[1]) or not index[0].is_unique:
        return {}
    if all(str(name).isdecimal() for name in index[0]):
        return {}  # numbers of rows are no names
    kept = sample([len(one.positions) for one in held], max_rows)[0]
    z = [model.embedding_[one.number][one.positions] for one in held]
    return {"foscttm": float(foscttm(z[0][kept], z[1][index[1].get_indexer(index[0][kept])]))}
