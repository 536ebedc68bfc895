"""`align`: prepare, fit, then write."""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harmonicalign._typing import Anchors, Array, Covariates, MatrixLike, RandomState
from harmonicalign.adapters.scverse._data import (
    AnnDatas,
    ByDataset,
    Parts,
    levels_by_dataset,
    split,
    unknown,
)
from harmonicalign.adapters.scverse._prepare import Options, Prepared, prepare
from harmonicalign.adapters.scverse._write import Slots, write_results
from harmonicalign.estimator import HarmonicAlignment

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["align"]

logger = logging.getLogger("harmonicalign")


def align(
    data: AnnDatas,
    *,
    batch_key: str | Sequence[str] | None = None,
    use_rep: ByDataset[str | None] = None,
    layer: ByDataset[str | None] = None,
    n_vars: int | str | None = None,
    normalize: bool | Mapping[Any, bool] | Collection[Hashable] = False,
    signals: str | None = None,
    links: DataFrame | Mapping[str, Any] | MatrixLike | None = None,
    peaks: Hashable = None,
    genes: str | Path | DataFrame | None = None,
    anchors: str | Anchors | None = None,
    covariates: str | Sequence[str] | None = None,
    key_added: str = "harmonic",
    neighbors_key: str | None = None,
    copy: bool = False,
    random_state: RandomState = 0,
    rng: np.random.Generator | None = None,
    device: str = "cpu",
    **params: Any,
) -> Any:
    """Align the batches of an AnnData, several AnnData, or the modalities of a MuData.

    Only *signals* are compared between datasets: by default the variables whose names all of them
    share. The graph of each dataset may be built on anything.

    Parameters
    ----------
    data
        One AnnData with `batch_key`; a list or dict of AnnData; or a MuData, whose modalities are then
        the datasets. Matrices may be dense, sparse, backed by a file or chunked by Dask; of the last
        two only the columns that are used are held in memory.
    batch_key
        With one AnnData: the column of obs that identifies the datasets. Rows of a batch need
        not be contiguous. Of several columns every combination of values that occurs is a dataset, and
        ``obs["<key_added>_batch"]`` says which.
    use_rep
        Entry of obsm that the graphs are built on, for example ``"X_pca"``; a dict gives one by
        dataset. By default the signals themselves (reduced by PCA), or a dataset's own most variable
        variables where fewer than half of them are shared.
    layer
        Layer to read instead of X; a dict gives one by dataset.
    n_vars
        How many of the shared variables to use, the most variable ones in all datasets. By default
        those flagged in ``var["highly_variable"]`` (in all datasets; in any where that leaves fewer
        than 200); without flags all of them, or 2,000 where there are more than 4,000. "all" uses
        all.
    normalize
        Scale every row of counts to the same total and take ``log(1 + x)``, on the fly: nothing in
        `data` changes. True, or names of the datasets to normalise. Data that look like counts
        are mentioned in the log, but never normalised unless requested.
    signals
        Entry of obsm whose columns correspond, if these are to be compared instead of variables. With
        few columns, such as those of a PCA, the significance test is weak. With `use_rep` and no X, one
        AnnData's `use_rep` serves.
    links
        For two datasets with different variables, which are related: a table of names (and weights) or the
        path of one, a dict, or a matrix over all variables; `protein_links` makes one for surface proteins.
        A variable may have several partners. See `harmonicalign.HarmonicAlignment.fit`.
    peaks, genes
        For chromatin: the dataset whose variables are peaks, and the positions of genes (path of a
        GTF file, a table, or pairs of peak and gene). Activity of genes is then compared with
        genes of the same name in the other datasets; see `gene_activity`.
    anchors
        Rows known to match, as in `HarmonicAlignment.fit`; or "obs_names", for rows of the same name
        in two datasets. Where no variable is shared and there are no links, signals are learned from them.
    covariates
        Columns of obs whose differences are to be kept, such as a treatment: the alignment is found on rows
        that hold their values in equal shares in every dataset, and the other rows follow. Refused where
        datasets share no value, because their difference is then that of the treatment as well. Of several
        columns every combination counts.
    key_added
        Where results go: ``obsm["X_<key_added>"]``, ``uns[key_added]``, and so on.
    neighbors_key
        Name of the neighbour graph, `key_added` by default; "neighbors" makes it scanpy's default one.
    copy
        Leave `data` as it is and return an annotated copy too.
    random_state, rng
        Seed, or a generator, which takes precedence.
    device
        Where to compute.
    **params
        Parameters of `HarmonicAlignment`.

    Returns
    -------
    model
        The fitted `HarmonicAlignment`; with `copy`, the annotated copy and the model. Results are
        written to `data` as listed in `harmonicalign.scverse`; if an error occurs, `data` is unchanged.

    Notes
    -----
    The neighbour graph holds each row's 15 nearest among the aligned rows of all datasets, with the weights
    that UMAP defines, as `scanpy.pp.neighbors` does. Where every dataset has its own AnnData,
    each holds its own rows of the graph; `concat` makes one AnnData of all rows and the whole graph.

    Examples
    --------
    >>> import anndata
    >>> from harmonicalign.adapters import scverse
    >>> from harmonicalign.datasets import load_digits_pair
    >>> pair = load_digits_pair(preserved=0.5, n_x=150, n_y=150, random_state=0)
    >>> a, b = anndata.AnnData(pair.x), anndata.AnnData(pair.y)
    >>> model = scverse.align([a, b])
    >>> a.obsm["X_harmonic"].shape == (150, model.embedding_[0].shape[1])
    True
    """
    if device != "cpu":
        params["device"] = device
    seed = random_state if rng is None else rng
    model = HarmonicAlignment(random_state=seed, **_checked(params))
    parts = split(data, batch_key)
    if copy and any(adata.isbacked for adata in parts.objects):
        raise ValueError(
            "copy=True would read a backed file as a whole; drop it (the file itself is never written to), "
            "or load the data first"
        )
    if anchors is None:
        _mention_pairs(parts)
    levels = None if covariates is None else parts.one_to_one(levels_by_dataset(parts, covariates))
    options = Options.of(parts, use_rep, layer, normalize, n_vars, signals)
    prepared = prepare(parts, options, links=links, peaks=peaks, genes=genes, paired=anchors is not None)
    prepared = _fit(model, parts, prepared, _anchors(anchors, parts), levels)
    slots = Slots(key_added, neighbors_key or key_added)
    record = {
        "form": parts.form,
        "batch_key": slots.batch if isinstance(parts.batch_key, tuple) else parts.batch_key or "",
        "peaks": "" if peaks is None else str(peaks),
        "signals": signals or "",
        "random_state": int(seed) if isinstance(seed, int | np.integer) else str(type(seed).__name__),
        **({} if covariates is None else {"covariates": np.atleast_1d(np.asarray(covariates, dtype=str))}),
        "given": {name: str(value) for name, value in sorted(params.items())},
    }
    if copy:
        data = _copied(parts)
        parts = split(data, batch_key)
    write_results(parts, options, prepared, model, slots, record)
    return (data, model) if copy else model


def _checked(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the estimator; an unknown name raises an error."""
    known = HarmonicAlignment().get_params()
    own = align.__kwdefaults__ or {}
    for name in params:
        if name not in known:
            raise unknown("align (or HarmonicAlignment)", name, [*known, *own])
    return params


def _fit(
    model: HarmonicAlignment,
    parts: Parts,
    prepared: Prepared,
    anchors: Anchors | None,
    covariates: Covariates | None,
) -> Prepared:
    """Fit the estimator in the form of the data, and pass the names of the signals."""
    unnamed = prepared.names == [[]]
    signals = None if prepared.signals is None else parts.one_to_one(prepared.signals)
    model.fit(
        parts.one_to_one(prepared.datasets),
        signals="anchors" if unnamed else signals,
        links=prepared.links,
        anchors=anchors,
        covariates=covariates,
    )
    if unnamed:
        width = model.fitted_.at_hand().inputs.signals[0].shape[1]
        return replace(prepared, names=[[f"learned{i}" for i in range(width)]])
    names = prepared.names[0] if prepared.links is None else None
    model.fitted_ = model.fitted_.at_hand().with_signal_names(names)
    return prepared


def _anchors(anchors: str | Anchors | None, parts: Parts) -> Anchors | None:
    """Known pairs of rows; by name, those that occur once in each of two datasets."""
    if not isinstance(anchors, str):
        return anchors
    if anchors != "obs_names":
        raise ValueError(f"anchors is {anchors!r}; expected 'obs_names' or pairs of row numbers")
    if parts.form == "batches":
        raise ValueError("anchors='obs_names' needs datasets whose rows share names, not batches")
    found = _same_names(parts)
    if not found:
        raise ValueError("anchors='obs_names': no row name occurs in two datasets")
    return found


def _same_names(parts: Parts) -> dict[tuple[Any, Any], Array]:
    """Rows of the same name, by pair of datasets."""
    names = [np.asarray(part.adata.obs_names).astype(str) for part in parts.parts]
    found: dict[tuple[Hashable, Hashable], Array] = {}
    for i, a in enumerate(names):
        for j, b in enumerate(names[:i]):
            both, rows_b, rows_a = np.intersect1d(b, a, return_indices=True)
            if both.size:
                found[parts.keys[j], parts.keys[i]] = np.stack([rows_b, rows_a], axis=1)
    return found


def _mention_pairs(parts: Parts) -> None:
    """Say so if datasets of different variables seem to hold the same cells: the pairing is then known."""
    if parts.form == "batches":
        return
    parted = dict(zip(parts.keys, parts.parts, strict=True))
    for (a, b), pairs in _same_names(parts).items():
        first, second = parted[a].adata, parted[b].adata
        numbered = all(str(name).isdigit() for name in first.obs_names[pairs[:, 0]][:100])
        same_variables = set(map(str, first.var_names)) == set(map(str, second.var_names))
        if numbered or same_variables or 2 * len(pairs) < min(first.n_obs, second.n_obs):
            continue
        logger.warning(
            "%d rows have the same names in %r and %r. If they are the same cells, which is which need not "
            "be found: anchors='obs_names' passes the pairs on. For cells measured in both modalities there "
            "are tools made for pairs, such as weighted nearest neighbours (muon, Seurat), MOFA+, totalVI "
            "and MultiVI",
            len(pairs),
            a,
            b,
        )


def _copied(parts: Parts) -> Any:
    """A copy of the data in its form."""
    if parts.form in ("list", "dict"):
        return parts.one_to_one([part.adata.copy() for part in parts.parts])
    return parts.data.copy()
