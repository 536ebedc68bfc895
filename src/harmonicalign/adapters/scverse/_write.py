"""Results of an alignment in AnnData; everything is computed before anything is written."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign._version import __version__
from harmonicalign.adapters.scverse._data import Parts
from harmonicalign.adapters.scverse._graph import N_NEIGHBORS, neighbour_graph
from harmonicalign.adapters.scverse._prepare import Options, Prepared
from harmonicalign.estimator import HarmonicAlignment
from harmonicalign.evidence.significance import Significance
from harmonicalign.inputs.links import link_signals

if TYPE_CHECKING:
    from anndata import AnnData
    from mudata import MuData

__all__ = ["Slots", "annotate", "summary", "write_results"]


@dataclass(frozen=True)
class Slots:
    """Names of everything that an alignment writes."""

    key: str
    neighbors_key: str

    @property
    def embedding(self) -> str:
        """In obsm: aligned coordinates."""
        return f"X_{self.key}"

    @property
    def batch(self) -> str:
        """In obs: the dataset of each row, where several columns together identify it."""
        return f"{self.key}_batch"

    @property
    def confidence(self) -> str:
        """In obs: confidence of each row."""
        return f"{self.key}_confidence"

    def graph(self, what: str) -> str:
        """In obsp; scanpy's own graph has no prefix."""
        return what if self.neighbors_key == "neighbors" else f"{self.neighbors_key}_{what}"


def write_results(
    parts: Parts,
    options: Options,
    prepared: Prepared,
    model: HarmonicAlignment,
    slots: Slots,
    record: dict[str, Any],
) -> None:
    """Write a fitted alignment into the data it was fitted on."""
    graph = neighbour_graph(model.joint_.graph)
    confidence = model.confidence_
    common = summary(model, slots, model.model_.significance)
    features = _features(model, prepared)
    if parts.form == "batches":
        order = np.concatenate([part.rows for part in parts.parts if part.rows is not None])
        back = np.argsort(order, kind="stable")
        annotate(
            parts.data,
            slots,
            embedding=np.concatenate(model.embedding_)[back],
            confidence=np.concatenate(confidence)[back],
            graph=[matrix[back][:, back] for matrix in graph],
            uns={
                **common,
                "input": _input(options, 0, prepared, record, ""),
                **_table(features, prepared, 0),
            },
            var=_variables(features, prepared, 0, parts.data.n_vars),
        )
        if isinstance(parts.batch_key, tuple):
            _write_batches(parts, order, slots.batch)
        elif slots.batch in parts.parts[0].adata.obs and slots.batch != parts.batch_key:
            del parts.parts[0].adata.obs[slots.batch]  # of an earlier alignment by several keys
        return
    edges = np.concatenate([[0], np.cumsum([part.n_rows for part in parts.parts])])
    for i, part in enumerate(parts.parts):
        own = slice(edges[i], edges[i + 1])
        annotate(
            part.adata,
            slots,
            embedding=model.embedding_[i].copy(),
            confidence=confidence[i].copy(),
            graph=[matrix[own, own] for matrix in graph],
            uns={
                **common,
                "input": _input(options, i, prepared, record, str(part.key)),
                **_table(features, prepared, i),
            },
            var=_variables(features, prepared, i, part.adata.n_vars),
        )
    if parts.form == "modalities":
        _write_whole(parts, model, slots, graph, confidence, {**common, "input": {**record, "dataset": ""}})


def _write_batches(parts: Parts, order: Array, name: str) -> None:
    """A column of obs with the dataset of every row; `order` has the rows of one dataset after another."""
    import pandas as pd

    codes = np.empty(len(order), dtype=np.int64)
    codes[order] = np.repeat(np.arange(len(parts.parts)), [part.n_rows for part in parts.parts])
    parts.data.obs[name] = pd.Categorical.from_codes(codes, categories=parts.keys)


def annotate(
    target: AnnData | MuData,
    slots: Slots,
    *,
    embedding: Array,
    confidence: Array,
    graph: Any,
    uns: dict[str, Any],
    var: dict[str, Array] | None = None,
) -> None:
    """Put results into an AnnData (or a MuData as a whole)."""
    with warnings.catch_warnings():
        # A view becomes an AnnData of its own when it is written to, which is what is wanted here.
        warnings.filterwarnings("ignore", message=".*view.*", category=UserWarning)
        target.obsm[slots.embedding] = embedding
        target.obs[slots.confidence] = confidence
        for what, matrix in zip(("connectivities", "distances"), graph, strict=True):
            target.obsp[slots.graph(what)] = matrix
        target.uns[slots.key] = uns
        if slots.neighbors_key != slots.key:
            target.uns[slots.neighbors_key] = {
                name: uns[name] for name in ("connectivities_key", "distances_key", "params")
            }
        for name, values in (var or {}).items():
            target.var[f"{slots.key}_{name}"] = values


def summary(model: HarmonicAlignment, slots: Slots, test: Significance | None) -> dict[str, Any]:
    """Entries of uns about an alignment, in types that every file format keeps."""
    settings = model.settings_
    out: dict[str, Any] = {
        "connectivities_key": slots.graph("connectivities"),
        "distances_key": slots.graph("distances"),
        "params": {
            "n_neighbors": N_NEIGHBORS,
            "method": "umap",
            "metric": "euclidean",
            "use_rep": slots.embedding,
            "random_state": 0,
        },
        "datasets": np.array([str(key) for key in model.keys_], dtype=object),
        "settings": {
            "method": model.method,
            "n_neighbors": np.array(settings.n_neighbors),
            # 0: on all columns, without a PCA.
            "n_pca": np.array([n or 0 for n in settings.n_pca]),
            "n_harmonics": np.array(settings.n_harmonics),
            "n_bands": settings.n_bands,
            "t": settings.t,
            "calibrate": settings.calibrate,
            "reasons": dict(settings.reasons),
        },
        "timings": {name.replace("/", " "): float(value) for name, value in model.timings_.items()},
        "version": __version__,
    }
    if test is not None:
        out["significance"] = test.summary()
        out["share"] = float(model.share_)
    return out


def _input(options: Options, i: int, prepared: Prepared, record: dict[str, Any], dataset: str) -> Any:
    """How a dataset's matrices were found, so that others can be brought to the same form."""
    out = {
        **record,
        "dataset": dataset,
        "use_rep": options.use_rep[i] or "",
        "layer": options.layer[i] or "",
        "normalize": options.normalize[i],
    }
    represented = prepared.represented[i]
    if represented is not None:
        out["represented"] = np.array(represented, dtype=object)
    return out


def _features(model: HarmonicAlignment, prepared: Prepared) -> dict[str, Array] | None:
    """Weight, score and selection of every signal (or link), and the signals' numbers by dataset."""
    if model.model_.correspondence is None:
        return None
    out = {
        "weight": model.feature_weights_,
        "score": model.feature_scores_,
        "selected": model.feature_selected_,
    }
    if prepared.links is not None and prepared.signals is not None:
        out["first"], out["second"] = link_signals(prepared.links, *prepared.signals)
    return out


def _variables(
    features: dict[str, Array] | None, prepared: Prepared, i: int, n_vars: int
) -> dict[str, Array]:
    """What var gets: NaN for variables that are no signals; of several links the best one."""
    columns = prepared.columns[i]
    if features is None or columns is None:
        return {}
    if prepared.links is not None:
        columns = columns[features["first" if i == 0 else "second"]]
    # The largest weight of a variable is written last and stays.
    order = np.argsort(features["weight"], kind="stable")
    out = {"weight": np.full(n_vars, np.nan), "score": np.full(n_vars, np.nan)}
    for name, values in out.items():
        values[columns[order]] = features[name][order]
    out["selected"] = np.zeros(n_vars, dtype=bool)
    out["selected"][columns[features["selected"]]] = True
    return out


def _table(features: dict[str, Array] | None, prepared: Prepared, i: int) -> dict[str, Any]:
    """The signals as a table, where var cannot hold them: they are no variables of the data, or links."""
    if features is None:
        return {}
    found = {name: np.asarray(features[name]) for name in ("weight", "score", "selected")}
    if prepared.links is not None:
        for side, name in enumerate(("first", "second")):
            found[name] = np.array(prepared.names[side], dtype=object)[features[name]]
        return {"links": found}
    if prepared.columns[i] is not None:
        return {}
    return {"signals": {"name": np.array(prepared.names[0], dtype=object), **found}}


def _write_whole(
    parts: Parts,
    model: HarmonicAlignment,
    slots: Slots,
    graph: tuple[sp.csr_matrix, sp.csr_matrix],
    confidence: list[Array],
    uns: dict[str, Any],
) -> None:
    """Results for a MuData as a whole, if no row is in two modalities and so has two positions."""
    mdata = parts.data
    mdata.uns[slots.key] = uns
    places = [np.flatnonzero(np.asarray(mdata.obsmap[key])) for key in parts.keys]
    counts = np.bincount(np.concatenate(places), minlength=mdata.n_obs)
    if len(counts) != mdata.n_obs or (counts != 1).any():
        return
    # obsmap counts a modality's rows from 1.
    edges = np.concatenate([[0], np.cumsum([part.n_rows for part in parts.parts])])
    back = np.empty(mdata.n_obs, dtype=np.int64)
    for place, key, start in zip(places, parts.keys, edges, strict=False):
        back[place] = start + np.asarray(mdata.obsmap[key])[place].astype(np.int64) - 1
    annotate(
        mdata,
        slots,
        embedding=np.concatenate(model.embedding_)[back],
        confidence=np.concatenate(confidence)[back],
        graph=[matrix[back][:, back] for matrix in graph],
        uns=uns,
    )
