"""Corrected, denoised and imputed variables."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.adapters.scverse._data import AnnDatas, Part, examples, unknown
from harmonicalign.adapters.scverse._matrix import Matrix, Store, column_variances, read
from harmonicalign.adapters.scverse._names import shared_names
from harmonicalign.adapters.scverse._placed import Placed, find, info_of, placed
from harmonicalign.adapters.scverse._prepare import N_VARS, most_variable
from harmonicalign.estimator import HarmonicAlignment
from harmonicalign.uses.correct import Corrected
from harmonicalign.uses.correct import correct as correct_signals
from harmonicalign.uses.smooth import Denoised, Imputation, balanced_transitions
from harmonicalign.uses.smooth import denoise as denoise_values
from harmonicalign.uses.smooth import impute as impute_values

__all__ = ["correct", "denoise", "impute"]

logger = logging.getLogger("harmonicalign")


@dataclass(frozen=True)
class _Values:
    """Rows of the datasets in the joint space, and the matrices of their variables."""

    held: list[Placed]
    stores: list[Store]
    coordinates: list[Array]
    support: list[Array]

    @property
    def parts(self) -> list[Part]:
        return [one.part for one in self.held]

    def read(self, columns: Sequence[Array]) -> list[Matrix]:
        """Columns of every dataset, all dense or all sparse."""
        pairs = zip(self.stores, self.parts, columns, strict=True)
        found = [read(store, [part.rows], [c])[0] for store, part, c in pairs]
        if any(map(sp.issparse, found)):
            found = [sp.csr_matrix(m) for m in found]
        return [m if m.dtype.kind == "f" else m.astype(np.float32) for m in found]


def _values(data: AnnDatas, model: HarmonicAlignment, alignment: str, layer: str | None) -> _Values:
    held = placed(data, model, alignment)
    stores = []
    for one in held:
        info = info_of(one.part.adata, alignment)
        used = layer or info["layer"] or None
        name = ("X" if used is None else f"layers[{used!r}]") + f" of dataset {one.part.key!r}"
        # A layer that is named here is taken as it is; what the alignment read, as it read it.
        stores.append(Store(one.part.adata, used, bool(info["normalize"]) and layer is None, name))
    fitted = model.fitted_.at_hand()
    joint, support = fitted.joint_coordinates(), fitted.support()
    return _Values(
        held,
        stores,
        [joint[one.number][one.positions] for one in held],
        [support[one.number][one.positions] for one in held],
    )


def correct(
    data: AnnDatas,
    model: HarmonicAlignment,
    *,
    reference: Hashable = None,
    layer: str | None = None,
    layer_added: str = "harmonic_corrected",
    alignment: str = "harmonic",
    **options: Any,
) -> dict[Any, Corrected]:
    """Correct the variables of every dataset to match a reference dataset, in original units.

    All variables that the datasets share are corrected, not only those that served as signals. Zeros
    of sparse matrices stay zero. Variables that not all datasets have are left as they are.

    Parameters
    ----------
    data, model
        What `align` annotated, and what it returned.
    reference
        Reference dataset, by default the largest; it is not changed.
    layer
        Layer to correct, as it is; by default what was aligned, normalised if it was then.
    layer_added
        Layer that the result goes to.
    alignment
        The `key_added` of `align`.
    **options
        Passed on to `harmonicalign.uses.correct.correct`.

    Returns
    -------
    corrected
        By dataset; columns are the shared variables, in the order of the first dataset.
    """
    values = _values(data, model, alignment, layer)
    held = values.held
    for one in held:
        if "links" in one.part.adata.uns[alignment] or info_of(one.part.adata, alignment)["peaks"]:
            raise ValueError(
                "correct needs variables that mean the same in all datasets, but these were aligned through "
                "links or gene activity; impute predicts one dataset's variables for the rows of another"
            )
    if len(held) < 2:
        raise ValueError(f"data holds {len(held)} dataset(s) of the model; correct needs at least two")
    target = max(held, key=lambda o: o.part.n_rows) if reference is None else None
    target = target or find("reference", reference, model, held)
    names, columns = shared_names(values.parts)
    logger.info("%d variables are corrected to the units of %r", len(names), target.part.key)
    corrected = correct_signals(
        values.read(columns),
        values.coordinates,
        held.index(target),
        confidence=values.support,
        random_state=model.fitted_.seed,
        **options,
    ).values
    layers = [
        (one.part.adata, _with_rest(values.stores[own[0]], columns[own[0]], _restored(own, held, corrected)))
        for own in _by_object(held)
        for one in [held[own[0]]]
    ]
    for adata, matrix in layers:
        adata.layers[layer_added] = matrix
    reference = model.keys_[target.number]
    pairs = zip(held, corrected, strict=True)
    return {model.keys_[one.number]: Corrected(matrix, reference) for one, matrix in pairs}


def _by_object(held: Sequence[Placed]) -> list[list[int]]:
    """Numbers of the datasets that are rows of one AnnData, together."""
    found: dict[int, list[int]] = {}
    for i, one in enumerate(held):
        found.setdefault(id(one.part.adata), []).append(i)
    return list(found.values())


def _restored(own: Sequence[int], held: Sequence[Placed], matrices: Sequence[Matrix]) -> Matrix:
    """Rows of all batches of an AnnData in its order."""
    rows = [r for r in (held[i].part.rows for i in own) if r is not None]
    if not rows:
        return matrices[own[0]]
    back = np.argsort(np.concatenate(rows))
    chosen = [matrices[i] for i in own]
    return (sp.vstack(chosen, format="csr") if sp.issparse(chosen[0]) else np.vstack(chosen))[back]


def _with_rest(store: Store, columns: Array, matrix: Matrix) -> Matrix:
    """Some columns replaced, the others as they were."""
    rest = np.setdiff1d(np.arange(store.adata.n_vars), columns)
    back = np.argsort(np.concatenate([columns, rest]))
    if not rest.size:
        return matrix[:, back]
    (others,) = read(store, [None], [rest])
    if sp.issparse(matrix):
        return sp.hstack([matrix, sp.csr_matrix(others)], format="csr")[:, back]
    return np.hstack([matrix, others])[:, back]


def denoise(
    data: AnnDatas,
    model: HarmonicAlignment,
    variables: Sequence[str] | None = None,
    *,
    t: int | str = "auto",
    layer: str | None = None,
    key_added: str = "harmonic_denoised",
    alignment: str = "harmonic",
) -> dict[Any, Denoised]:
    """Smooth variables by diffusion over the rows of all datasets.

    Parameters
    ----------
    data, model
        What `align` annotated, and what it returned.
    variables
        Names of variables, which go to the data frame ``obsm[key_added]``. By default all, which go
        to ``layers[key_added]``; the result is dense, so name some where there are many.
    t
        Steps of the diffusion; "auto" chooses.
    layer
        Layer to smooth, as it is; by default what was aligned, normalised if it was then.
    key_added
        Where the result goes.
    alignment
        The `key_added` of `align`.

    Returns
    -------
    denoised
        By dataset; columns are those of the data frame or layer. Variables that only some datasets have are
        smoothed for as many steps as those that all have.

    Notes
    -----
    Variables that all datasets have are averaged over the rows of all of them, others over the rows of
    their own dataset.
    """
    values = _values(data, model, alignment, layer)
    parts = values.parts
    known = [set(part.names) for part in parts]
    for name in variables or ():
        if not any(name in own for own in known):
            raise unknown("var_names", name, parts[0].names)
    wanted = [
        part.names if variables is None else [name for name in variables if name in own]
        for part, own in zip(parts, known, strict=True)
    ]
    shared = [name for name in wanted[0] if all(name in own for own in known)]
    common = set(shared)
    out = [
        np.empty((part.n_rows, len(own)), dtype=np.float32) for part, own in zip(parts, wanted, strict=True)
    ]
    if shared:
        matrices = values.read([_numbers(part, shared) for part in parts])
        stacked = sp.vstack(matrices, format="csr") if sp.issparse(matrices[0]) else np.vstack(matrices)
        transitions = balanced_transitions(values.coordinates, confidence=values.support)
        smooth = denoise_values(stacked, transitions, t=t)
        t, start = smooth.t, 0
        for block, own in zip(out, wanted, strict=True):
            # Datasets may have the same variables in different orders.
            place = {name: j for j, name in enumerate(own)}
            block[:, [place[name] for name in shared]] = smooth.values[start : start + len(block)]
            start += len(block)
    for i, (block, own) in enumerate(zip(out, wanted, strict=True)):
        rest = [name for name in own if name not in common]
        if rest:
            (matrix,) = read(values.stores[i], [parts[i].rows], [_numbers(parts[i], rest)])
            smooth = denoise_values(matrix, balanced_transitions([values.coordinates[i]]), t=t)
            t = smooth.t
            block[:, ~np.isin(own, shared)] = smooth.values
    _put(values.held, out, None if variables is None else wanted, key_added)
    pairs = zip(values.held, out, strict=True)
    return {model.keys_[one.number]: Denoised(block, int(t)) for one, block in pairs}


def _numbers(part: Part, names: Sequence[str]) -> Array:
    """Numbers of the part's variables of these names."""
    number = {name: i for i, name in enumerate(part.names)}
    return np.array([number[name] for name in names], dtype=np.int64)


def _put(held: Sequence[Placed], blocks: Sequence[Array], names: Any, key: str) -> None:
    """Dense results into obsm, by name, or into layers; rows of batches that have none are NaN."""
    import pandas as pd

    targets = []
    for own in _by_object(held):
        part, block = held[own[0]].part, blocks[own[0]]
        if part.rows is not None:
            block = np.full((part.adata.n_obs, block.shape[1]), np.nan, dtype=block.dtype)
            for i in own:
                block[held[i].part.rows] = blocks[i]
        targets.append((part.adata, block, None if names is None else names[own[0]]))
    for adata, block, columns in targets:
        if columns is None:
            adata.layers[key] = block
        elif len(columns):
            adata.obsm[key] = pd.DataFrame(block, index=adata.obs_names, columns=list(columns))


def impute(
    data: AnnDatas,
    model: HarmonicAlignment,
    *,
    source: Hashable,
    target: Hashable = None,
    variables: Sequence[str] | None = None,
    n_neighbors: int = 15,
    layer: str | None = None,
    key_added: str = "harmonic_imputed",
    alignment: str = "harmonic",
) -> dict[Any, Imputation]:
    """Predict unmeasured variables of a dataset from another dataset.

    Parameters
    ----------
    data, model
        What `align` annotated, and what it returned.
    source
        Dataset that has the variables.
    target
        Dataset to predict them for; by default all others.
    variables
        Names of variables of the source; by default those that the target lacks (of more than 4,000
        the 2,000 most variable).
    n_neighbors
        Rows of the source that each prediction is drawn from.
    layer
        Layer of the source to predict, as it is; by default what was aligned, normalised if it was
        then.
    key_added
        Predictions go to the data frame ``obsm[key_added]`` of the target, and how well each
        variable is predicted within the source to ``uns[key_added]``.
    alignment
        The `key_added` of `align`.

    Returns
    -------
    imputations
        By target; columns are in the order of the data frame's.
    """
    import pandas as pd

    values = _values(data, model, alignment, layer)
    origin = find("source", source, model, values.held)
    goals = (
        [one for one in values.held if one is not origin]
        if target is None
        else [find("target", target, model, values.held)]
    )
    if not goals or origin in goals:
        raise ValueError("target: name a dataset other than the source, and pass its rows too")
    store = values.stores[values.held.index(origin)]
    chosen = [_predicted(origin, store, goal, variables) for goal in goals]
    found = {}
    for goal, names in zip(goals, chosen, strict=True):
        (matrix,) = read(store, [origin.part.rows], [_numbers(origin.part, names)])
        places = (model.embedding_[one.number][one.positions] for one in (origin, goal))
        found[model.keys_[goal.number]] = impute_values(matrix, *places, n_neighbors=n_neighbors)
    # Batches of one AnnData are predicted the same variables, so one data frame holds them all.
    _put(goals, [i.values.astype(np.float32) for i in found.values()], chosen, key_added)
    for goal, names, imputation in zip(goals, chosen, found.values(), strict=True):
        goal.part.adata.uns[key_added] = {
            "source": str(origin.part.key),
            "quality": pd.DataFrame(
                {"correlation": imputation.correlation, "rmse": imputation.rmse}, index=list(names)
            ),
        }
    return found


def _predicted(origin: Placed, store: Store, goal: Placed, variables: Sequence[str] | None) -> list[str]:
    """Which variables of the source to predict."""
    known = origin.part.names
    if variables is not None:
        lost = set(variables).difference(known)
        if lost:
            raise unknown(f"var_names of dataset {origin.part.key!r}", min(lost), known)
        return list(variables)
    lacking = set(known).difference(goal.part.names)
    names = [name for name in known if name in lacking]
    if not names:
        raise ValueError(
            f"dataset {goal.part.key!r} has all variables of {origin.part.key!r}; name those to predict in "
            f"variables, for example {examples(known)}"
        )
    if len(names) <= 2 * N_VARS:
        return names
    logger.info(
        "the %d most variable of %d variables are predicted; variables=[…] chooses others", N_VARS, len(names)
    )
    spread = column_variances(store, [origin.part.rows])[0][_numbers(origin.part, names)]
    return [names[i] for i in most_variable([spread], N_VARS)]
