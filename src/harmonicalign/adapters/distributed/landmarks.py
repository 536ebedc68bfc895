"""Landmarks: a model of a sample of the rows, and every other row placed by its extension.

The sample is drawn block by block, the model is fitted by one task on one worker, and blocks are placed
where they are. Rows of the sample keep the coordinates they have in the model, so with a sample of all
rows the result is that of a fit in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.adapters.distributed.blocks import (
    blocks_of,
    connect,
    evaluate,
    keep,
    load_dask,
    matched,
    noted,
    stacked,
)
from harmonicalign.adapters.distributed.result import DistributedResult
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.threads import owned
from harmonicalign.fitted.protocol import AlignedModel
from harmonicalign.inputs.validate import check_data, check_integer, check_rows
from harmonicalign.method.model import placed_confidence

__all__ = ["N_LANDMARKS", "choose_landmarks", "fit_landmarks"]


N_LANDMARKS = 20_000
"""Landmarks of each dataset: on MNIST half as many cost 0.006 of accuracy, twice as many double the time."""

SAMPLE_BYTES = 2**28
"""Fewer landmarks are drawn of datasets with so many plain columns that they would take more than this."""


def choose_landmarks(
    sizes: Sequence[int], n_landmarks: int, seed: int, must: Sequence[Array] | None = None
) -> list[Array]:
    """Row numbers of a random sample of every dataset, sorted.

    They depend on the seed and on the numbers of rows alone, not on the blocks.

    Parameters
    ----------
    sizes
        Rows of every dataset.
    n_landmarks
        Most rows of each; a dataset with no more is taken whole.
    seed
        Seed of the samples.
    must
        For every dataset, rows that the sample must hold (those with known partners).
    """
    rng = np.random.default_rng(seed)
    out = []
    for i, n in enumerate(sizes):
        needed = np.empty(0, dtype=np.int64) if must is None else np.unique(must[i]).astype(np.int64)
        if n <= n_landmarks:
            chosen = np.arange(n)
        else:
            drawn = rng.choice(n, n_landmarks, replace=False)
            free = drawn[~np.isin(drawn, needed)][: max(0, n_landmarks - len(needed))]
            chosen = np.sort(np.concatenate([needed, free]))
        out.append(chosen)
    return out


def default_landmarks(datasets: Sequence[Any]) -> int:
    """Landmarks per dataset that one worker can be expected to hold."""
    wide = max((d.shape[1] for d in datasets if not sp.issparse(getattr(d, "_meta", d))), default=1)
    return int(np.clip(SAMPLE_BYTES // (8 * wide), 2000, N_LANDMARKS))


def fit_landmarks(
    datasets: Sequence[Any],
    signals: Sequence[Any] | None = None,
    *,
    fit_local: Callable[[list[Any], list[Any]], AlignedModel],
    landmarks: int | str | Sequence[Array] = "auto",
    batch: Any = None,
    client: Any = None,
    dtype: Any = np.float32,
    seed: int = 0,
) -> DistributedResult:
    """Fit a model on landmarks of every dataset, and place all rows by it.

    Parameters
    ----------
    datasets
        Dask arrays, rows by columns; blocks are plain or CSR.
    signals
        Corresponding signals of the same rows; by default the datasets.
    fit_local
        From rows and signals of the landmarks of every dataset to a model. It is called on a worker,
        so it must be possible to pickle it, and equal seeds should give equal models.
    landmarks
        Most landmarks of each dataset, drawn at random; "auto" is 20,000, fewer where plain rows are very
        wide. Or the row numbers of the landmarks in every dataset, sorted.
    batch
        With a single matrix: the number 0, 1, … of the dataset that every row belongs to.
    client
        A `distributed.Client`, the address of a scheduler, or None for dask's own choice.
    dtype
        Type of the coordinates.
    seed
        Seed of the sample.

    Returns
    -------
    result
        Coordinates are computed when they are asked for; the model is fitted when this returns.
    """
    dask = load_dask()
    x, s = matched(datasets, signals)
    members = None if batch is None else _batch_rows(batch, x)
    sizes = [d.shape[0] for d in x] if members is None else [len(rows) for rows in members]
    if isinstance(landmarks, str) and landmarks == "auto":
        landmarks = default_landmarks([*x, *s])
    if isinstance(landmarks, list | tuple):
        kept = list(landmarks)
    else:
        kept = choose_landmarks(sizes, check_integer("landmarks", landmarks, minimum=3), seed)
    if members is not None:
        kept = [rows[chosen] for rows, chosen in zip(members, kept, strict=True)]
    source = list(range(len(x))) if members is None else [0] * len(members)
    client = connect(client)

    def samples() -> list[Any]:
        """Rows and then signals of the landmarks; new tasks each time (see `fit_chunks`)."""
        parts = [x] if signals is None else [x, s]
        found = [[_picked(p[j], chosen) for j, chosen in zip(source, kept, strict=True)] for p in parts]
        return [*found[0], *found[-1]]

    fitted = keep(dask.delayed(_fit)(fit_local, *samples()), client)
    place = keep(dask.delayed(_slim)(fitted), client)
    width, refined, told = evaluate(dask.delayed(_note)(fitted), client)
    told.repeat_warnings()
    which = _which(x, batch)
    embedding = [
        _mapped(_place_block, d, g, w, place, kept, dtype, width) for d, g, w in zip(x, s, which, strict=True)
    ]
    support = None
    if refined:
        known = dask.delayed(_support)(place, *samples())
        support = [
            _mapped(_support_block, d, g, w, place, known, dtype, None)
            for d, g, w in zip(x, s, which, strict=True)
        ]
    model, sample = dask.delayed(_value)(fitted), dask.delayed(_halves)(*samples())
    return DistributedResult(embedding, width, model, place, sample, support, client, np.dtype(dtype))


def _batch_rows(batch: Any, x: Sequence[Any]) -> list[Array]:
    """Row numbers of every dataset in one stacked matrix."""
    labels = np.asarray(batch)
    if len(x) != 1:
        raise ValueError(f"batch goes with one stacked matrix, but there are {len(x)} datasets; drop it")
    if labels.shape != (x[0].shape[0],) or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise ValueError(
            f"batch has shape {labels.shape} and type {labels.dtype}; expected the number 0, 1, … of a "
            f"dataset for each of {x[0].shape[0]} rows"
        )
    rows = [np.flatnonzero(labels == i) for i in range(int(labels.max()) + 1)]
    short = [i for i, r in enumerate(rows) if len(r) < 3]
    if short:
        raise ValueError(f"batch gives fewer than 3 rows to dataset(s) {', '.join(map(str, short))}")
    return rows


def _which(x: Sequence[Any], batch: Any) -> list[Any]:
    """For every matrix the number of each row and of its dataset, in blocks as the matrix."""
    da = load_dask().array
    out = []
    for i, d in enumerate(x):
        chunks = d.chunks[0]
        numbers = da.arange(d.shape[0], chunks=(chunks,), dtype=np.int64)
        own = (
            da.full(d.shape[0], i, chunks=(chunks,), dtype=np.int64)
            if batch is None
            else da.from_array(np.asarray(batch, dtype=np.int64), chunks=(chunks,))
        )
        out.append(da.stack([numbers, own], axis=1).rechunk({1: -1}))
    return out


def _picked(x: Any, rows: Array) -> Any:
    """Some rows of a dask array as one delayed matrix."""
    dask = load_dask()
    ends = np.cumsum(x.chunks[0])
    parts = []
    for block, stop, size in zip(blocks_of(x), ends, x.chunks[0], strict=True):
        low, high = np.searchsorted(rows, [stop - size, stop])
        if high > low:
            parts.append(dask.delayed(_take)(block, rows[low:high] - (stop - size)))
    return dask.delayed(stacked)(*parts)


def _mapped(
    function: Callable[..., Array], x: Any, s: Any, which: Any, place: Any, extra: Any, dtype: Any, width: Any
) -> Any:
    """A function of rows, signals and row numbers over all blocks."""
    dask = load_dask()
    chunks = (x.chunks[0],) if width is None else (x.chunks[0], (width,))
    return dask.array.map_blocks(
        function,
        x,
        s,
        which,
        place=place,
        # One node of the graph, not a copy in every task.
        extra=dask.delayed(extra),
        as_type=dtype,
        dtype=dtype,
        meta=np.empty((0,) * len(chunks), dtype),
        chunks=chunks,
        drop_axis=[1] if width is None else None,
    )


def _take(block: Any, rows: Array) -> Any:
    return check_rows("datasets", block[rows])


def _halves(*matrices: Any) -> tuple[list[Any], list[Any]]:
    """Rows and signals of every dataset, which come one after the other (see `blocks.keep`)."""
    half = len(matrices) // 2
    return list(matrices[:half]), list(matrices[half:])


@owned()
def _fit(fit_local: Callable[..., Any], *matrices: Any) -> Any:
    rows, signals = _halves(*matrices)
    # Where the rows are the signals they stay one matrix, not two copies.
    checked = {id(m): check_data("datasets", m) for m in matrices}
    return noted(fit_local, [checked[id(r)] for r in rows], [checked[id(s)] for s in signals])


def _value(fitted: Any) -> Any:
    return fitted.value


def _slim(fitted: Any) -> Any:
    return fitted.value.slim()


def _note(fitted: Any) -> tuple[int, bool, Any]:
    """What the client learns of the fit: the width of the coordinates, its kind, its warnings."""
    model = fitted.value
    width = model.coordinates()[0].shape[1]
    return width, model.method == "refined", replace(fitted, value=None)


@owned()
def _place_block(
    rows: Any, signals: Any, which: Array, *, place: Any, extra: Sequence[Array], as_type: Any
) -> Array:
    """Coordinates of one block: of landmarks as fitted, of others by extension."""
    rows, signals = check_rows("datasets", rows), check_rows("signals", signals)
    numbers, own = which.T
    out: Array | None = None
    for i in np.unique(own):
        mine = np.flatnonzero(own == i)
        position = np.minimum(np.searchsorted(extra[i], numbers[mine]), len(extra[i]) - 1)
        known = extra[i][position] == numbers[mine]
        new = mine[~known]
        if out is None:
            fitted = place.coordinates()
            out = np.empty((rows.shape[0], fitted[i].shape[1]), dtype=as_type)
        out[mine[known]] = fitted[i][position[known]]
        if new.size:
            out[new] = place.place(i, rows[new], signals[new])
    assert out is not None
    return out


def _support(place: Any, *matrices: Any) -> list[tuple[Array, Array]]:
    """Rigid coordinates and confidence of the landmarks of every dataset."""
    parts = zip(*_halves(*matrices), strict=True)
    placed = [_rigidly(place, i, rows, signals) for i, (rows, signals) in enumerate(parts)]
    return list(zip(placed, placed_confidence(placed), strict=True))


@owned()
def _support_block(
    rows: Any, signals: Any, which: Array, *, place: Any, extra: list[tuple[Array, Array]], as_type: Any
) -> Array:
    """Confidence of the rows of one block: the mean over the nearest landmarks of their dataset."""
    out = np.empty(rows.shape[0], dtype=as_type)
    for i in np.unique(which[:, 1]):
        mine = np.flatnonzero(which[:, 1] == i)
        places, support = extra[i]
        new = _rigidly(place, i, rows[mine], signals[mine])
        near = nearest_rows(places, min(10, len(places)), new, exact=False).indices
        out[mine] = support[near].mean(axis=1)
    return out


def _rigidly(place: Any, i: int, rows: Any, signals: Any) -> Array:
    rows, signals = check_rows("datasets", rows), check_rows("signals", signals)
    return np.asarray(place.place_rigidly(i, rows, signals))
