"""Reference mapping: new data are placed in an existing alignment."""

from __future__ import annotations

import copy as copies
import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.adapters.scverse._data import AnnDatas, Part, examples, is_anndata, lookup
from harmonicalign.adapters.scverse._graph import neighbour_graph
from harmonicalign.adapters.scverse._matrix import Matrix, Store, read
from harmonicalign.adapters.scverse._names import unique_names
from harmonicalign.adapters.scverse._placed import Placed, datasets_of, info_of, placed
from harmonicalign.adapters.scverse._prepare import own_columns, representation
from harmonicalign.adapters.scverse._uses import column_values, write_transfers
from harmonicalign.adapters.scverse._write import Slots, annotate, summary
from harmonicalign.estimator import HarmonicAlignment
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.significance import Significance
from harmonicalign.inputs.frames import Named
from harmonicalign.method.config import DEFAULT
from harmonicalign.paper.graph import kernel_graph
from harmonicalign.uses.transfer import transfer_labels, transfer_values

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["map_query"]

logger = logging.getLogger("harmonicalign")


def map_query(
    query: AnnData,
    model: HarmonicAlignment,
    *,
    reference: AnnDatas | None = None,
    dataset: Hashable = None,
    key: Hashable = "query",
    obs: str | Sequence[str] = (),
    obsm: str | Sequence[str] = (),
    use_rep: str | None = None,
    layer: str | None = None,
    normalize: bool | None = None,
    signals: str | None = None,
    key_added: str = "harmonic",
    copy: bool = False,
) -> Any:
    """Place new data in an existing alignment without moving existing rows.

    Parameters
    ----------
    query
        AnnData of new rows.
    model
        The alignment of the reference, from `align` or from a file. It stays as it is.
    reference
        What `align` annotated. It records how matrices were chosen, and holds the entries named
        in `obs` and `obsm`. Without it, use `use_rep`, `layer`, `normalize` and `signals`.
    dataset
        If the rows are more of a dataset that the model knows (the same donor, the same run): its name.
        By default they are a new dataset, which may have its own batch effect.
    key
        Name of the new dataset.
    obs
        Columns of the reference's obs to transfer; they go to ``obs["<name>_pred"]`` and
        ``obs["<name>_conf"]`` as in `transfer_labels`.
    obsm
        Entries of the reference's obsm to transfer, such as "X_umap": every row gets the mean of the
        reference's rows near by, so that the query can be plotted with the reference.
    use_rep, layer, normalize, signals
        As in `align`; by default as it was for the reference. Where the query lacks `use_rep`, its
        graph is built on its variables.
    key_added
        Where results go, as in `align`; also where those of the reference are.
    copy
        Leave `query` as it is and return an annotated copy too.

    Returns
    -------
    model
        A model that knows the reference and the query (with `dataset`, the model itself); with `copy`,
        the annotated copy and the model. `query` gets coordinates, a graph of its own rows, confidence
        and, in ``uns[key_added]["significance"]``, the significance of the mapping.
    """
    _check(query, model)
    query = query.copy() if copy else query
    given = _Given(use_rep, layer, normalize, signals)
    reading = _reading(reference, dataset, key_added, given)
    part, slots = Part(key if dataset is None else dataset, query), Slots(key_added, key_added)
    held = [] if reference is None else placed(reference, model, key_added)
    carried = _carried(held, obs, obsm)
    mapped = _new(part, model, reading, key) if dataset is None else _more(part, model, reading, dataset)
    found = [_carry(held, values, mapped, model) for _, _, values in carried]
    annotate(
        query,
        slots,
        embedding=mapped.embedding.copy(),
        confidence=mapped.confidence,
        graph=_own_graph(mapped.joint),
        uns={
            **summary(mapped.model, slots, mapped.test),
            "input": reading.record(str(part.key), dataset is not None),
        },
    )
    whole = Placed(part, -1, np.arange(len(mapped.embedding)))
    for (slot, name, _), transfer in zip(carried, found, strict=True):
        if slot == "obs":
            write_transfers([whole], [transfer], name)
        else:
            query.obsm[name] = transfer.values
    return (query, mapped.model) if copy else mapped.model


def _check(query: Any, model: HarmonicAlignment) -> None:
    """Refuse what cannot be mapped, and models that cannot take it."""
    if not is_anndata(query):
        raise ValueError(f"query is of type {type(query).__name__}; expected an AnnData")
    if model.signal_names_ is None:
        raise ValueError(
            "the model has no names of shared signals (it has links, or "
            "was fitted on arrays); fit it with harmonicalign.adapters.scverse.align and shared variables"
        )
    if model.model_.method != "refined":
        raise ValueError('map_query needs a model of method="refined"')


@dataclass(frozen=True)
class _Mapped:
    """A query in its place.

    Attributes
    ----------
    model
        The model that knows it.
    embedding, joint
        Aligned coordinates of its rows, and where they are in the joint space.
    support, confidence
        How well the reference supports where rows are, and where they were before they were moved.
    test
        Whether the mapping means anything.
    """

    model: HarmonicAlignment
    embedding: Array
    joint: Array
    support: Array
    confidence: Array
    test: Significance | None


def _new(part: Part, model: HarmonicAlignment, reading: _Reading, key: Any) -> _Mapped:
    """The query as a dataset of its own."""
    grown = copies.copy(model)
    rows, shown = _named(model, *_new_dataset(part, model, reading))
    z = grown.add(rows, key=key, signals=shown)
    fitted = grown.fitted_.at_hand()
    z = fitted.embedding[-1]
    *reference, joint = fitted.joint_coordinates()
    test = fitted.model.tests_of(len(reference))[0]
    return _Mapped(grown, z, joint, _support(reference, joint, fitted.seed), fitted.confidence[-1], test)


def _more(part: Part, model: HarmonicAlignment, reading: _Reading, dataset: Any) -> _Mapped:
    """The query as more rows of a dataset that the model knows."""
    rows, shown = _named(model, *_known_dataset(part, model, reading, dataset))
    fitted = model.fitted_.at_hand()
    z = fitted.place(fitted.position(dataset), rows, shown)
    support = _support(fitted.embedding, z, fitted.seed)
    return _Mapped(model, z, z, support, support, model.significance_)


def _named(model: HarmonicAlignment, rows: Matrix, signals: Matrix) -> tuple[Any, Named]:
    """Rows and signals with the names of the model's signals, for models that were fitted on data frames."""
    shown = Named(signals, list(model.signal_names_ or []))
    return (shown if rows is signals else rows), shown


def _support(reference: Sequence[Array], joint: Array, seed: int) -> Array:
    """How well the rows of the reference, all together, support those of the query."""
    return row_confidence([np.vstack(list(reference)), joint], random_state=seed)[1]


def _own_graph(rows: Array) -> Any:
    """Neighbours of the query's rows among themselves."""
    n = len(rows)
    if n < 3:
        return sp.csr_matrix((n, n)), sp.csr_matrix((n, n))
    near = min(n - 1, DEFAULT.joint_neighbours)
    return neighbour_graph(kernel_graph(rows, n_neighbors=near, max_neighbors=min(30, n - 1)))


@dataclass(frozen=True)
class _Reading:
    """How the query's matrices are found."""

    use_rep: str | None
    must_have_rep: bool
    layer: str | None
    normalize: bool
    signals: str | None
    represented: list[str] | None

    def store(self, part: Part) -> Store:
        name = "X of the query" if self.layer is None else f"layers[{self.layer!r}] of the query"
        return Store(part.adata, self.layer, self.normalize, name)

    def record(self, dataset: str, known: bool) -> dict[str, Any]:
        """What uns stores; new rows of a known dataset are not a dataset of the model."""
        return {
            "form": "query",
            "batch_key": "",
            "peaks": "",
            "signals": self.signals or "",
            "dataset": f"{dataset} (new rows)" if known else dataset,
            "use_rep": self.use_rep or "",
            "layer": self.layer or "",
            "normalize": self.normalize,
        }


@dataclass(frozen=True)
class _Given:
    """What the user said of how the query's matrices are found; None leaves it to the reference."""

    use_rep: str | None
    layer: str | None
    normalize: bool | None
    signals: str | None


def _reading(reference: Any, dataset: Any, alignment: str, given: _Given) -> _Reading:
    info: dict[str, Any] = {}
    if reference is not None:
        objects = datasets_of(reference)
        infos = [info_of(adata, alignment) for adata in objects]
        own = [i for i in infos if i["dataset"] == str(dataset)]
        info = (own or infos)[0]
        if info["peaks"]:
            raise ValueError("map_query needs variables, but the reference was aligned through gene activity")
    represented = info.get("represented")
    return _Reading(
        given.use_rep or info.get("use_rep") or None,
        given.use_rep is not None or dataset is not None,
        given.layer or info.get("layer") or None,
        bool(info.get("normalize", False)) if given.normalize is None else given.normalize,
        given.signals or info.get("signals") or None,
        None if represented is None else [str(name) for name in represented],
    )


def _new_dataset(part: Part, model: HarmonicAlignment, reading: _Reading) -> tuple[Matrix, Any]:
    """Rows and signals of a dataset of its own, as `HarmonicAlignment.add` takes them."""
    shown, _ = _signals(part, model, reading)
    has_rep = reading.use_rep is not None and (reading.must_have_rep or reading.use_rep in part.adata.obsm)
    if has_rep and reading.use_rep is not None:
        rows = representation(part, reading.use_rep)
    elif reading.use_rep is not None or model.fitted_.signals_given:
        if reading.use_rep is not None:
            logger.info("the query has no obsm[%r]: its graph is built on its variables", reading.use_rep)
        store = reading.store(part)
        (rows,) = read(store, [None], [own_columns(part, store)])
    else:
        rows = shown
    return rows, shown


def _known_dataset(
    part: Part, model: HarmonicAlignment, reading: _Reading, dataset: Any
) -> tuple[Matrix, Matrix]:
    """Rows and signals of more rows of a dataset that the model knows."""
    shown, missing = _signals(part, model, reading)
    if missing.size:
        # Replace unmeasured variables by the mean of the dataset, which is neutral.
        known = model.fitted_.inputs.signals[model.fitted_.position(dataset)]
        means = np.asarray(known.mean(axis=0)).ravel()[missing]
        shown = shown.toarray() if sp.issparse(shown) else shown.copy()
        shown[:, missing] = means
    if reading.use_rep is not None:
        return representation(part, reading.use_rep), shown
    if reading.represented is None:
        return shown, shown
    number = {name: i for i, name in enumerate(unique_names(part))}
    lost = [name for name in reading.represented if name not in number]
    if lost:
        raise ValueError(
            f"the query lacks {len(lost)} of {len(reading.represented)} variables that dataset {dataset!r} "
            f"is represented by ({examples(lost)}); leave out dataset to map it as one of its own"
        )
    columns = np.array([number[name] for name in reading.represented])
    return read(reading.store(part), [None], [columns])[0], shown


def _signals(part: Part, model: HarmonicAlignment, reading: _Reading) -> tuple[Matrix, Array]:
    """The query's signals in the model's order, and the numbers of those that it lacks, which are zero."""
    names = model.signal_names_
    assert names is not None
    if reading.signals is not None:
        return _signals_in_obsm(part, reading.signals, names), np.empty(0, dtype=np.int64)
    number = {name: i for i, name in enumerate(unique_names(part))}
    present = np.array([i for i, name in enumerate(names) if name in number], dtype=np.int64)
    missing = np.setdiff1d(np.arange(len(names)), present)
    if not present.size:
        raise ValueError(
            f"the query has none of the {len(names)} variables that the model compares ({examples(names)}; "
            f"query: {examples(part.names)}); rename those that correspond"
        )
    if missing.size:
        logger.log(
            logging.WARNING if 2 * missing.size > len(names) else logging.INFO,
            "the query lacks %d of %d variables that the model compares: %s",
            missing.size,
            len(names),
            examples((names[i] for i in missing), 5),
        )
    columns = np.array([number[names[i]] for i in present])
    (matrix,) = read(reading.store(part), [None], [columns])
    if not missing.size:
        return matrix, missing
    if sp.issparse(matrix):
        spread = sp.csr_matrix(
            (np.ones(len(present), dtype=matrix.dtype), (np.arange(len(present)), present)),
            shape=(len(present), len(names)),
        )
        return sp.csr_matrix(matrix @ spread), missing
    out = np.zeros((len(matrix), len(names)), dtype=matrix.dtype)
    out[:, present] = matrix
    return out, missing


def _signals_in_obsm(part: Part, key: str, names: Sequence[str]) -> Matrix:
    """Signals that are columns of an entry of obsm: by name as `align` took them, else by position."""
    values = representation(part, key)
    columns = getattr(part.adata.obsm[key], "columns", None)
    if columns is None or list(names) == [f"{key}{i}" for i in range(len(names))]:
        return values
    number = {str(column): i for i, column in enumerate(columns)}
    lost = [name for name in names if name not in number]
    if lost:
        raise ValueError(
            f"obsm[{key!r}] of the query lacks {len(lost)} of the {len(names)} columns that the model "
            f"compares ({examples(lost)})"
        )
    return values[:, [number[name] for name in names]]


def _carried(
    held: Sequence[Placed], obs: str | Sequence[str], obsm: str | Sequence[str]
) -> list[tuple[str, str, list[Any]]]:
    """What to transfer: the slot, the name, and the values of every dataset of the reference."""
    wanted = [
        ("obs", [obs] if isinstance(obs, str) else obs),
        ("obsm", [obsm] if isinstance(obsm, str) else obsm),
    ]
    out = []
    for slot, names in wanted:
        for name in names:
            if not held:
                raise ValueError(f"{slot} names {name!r}, which the reference holds; pass reference=…")
            if slot == "obs":
                values = [column_values(one, name) for one in held]
            else:
                where = f"obsm of dataset {held[0].part.key!r}"
                values = [
                    np.asarray(one.part.take(lookup(where, one.part.adata.obsm, name)), dtype=np.float64)
                    for one in held
                ]
            out.append((slot, name, values))
    return out


def _carry(held: Sequence[Placed], values: list[Any], mapped: _Mapped, model: HarmonicAlignment) -> Any:
    places, seed = [model.embedding_[one.number][one.positions] for one in held], model.fitted_.seed
    if all(np.asarray(v).dtype.kind == "f" for v in values):
        return transfer_values(places, values, mapped.embedding, random_state=seed)
    return transfer_labels(places, values, mapped.embedding, support=mapped.support, random_state=seed)
