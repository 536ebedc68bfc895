r"""The paper's chunking (Appendix A.3): datasets in chunks of N_c rows, each with its own harmonics.

Aligning all pairs of chunks would cost their number squared. Here a few chunks of every dataset are
hubs: they are aligned with each other and synchronised into one frame,

.. math:: R_h, \quad R_g R_h^T ≈ T_{g→h} \text{ for all pairs of hubs,}

and every other chunk is aligned with the hubs of its own dataset, whose signals it shares entirely. Its
frame ``R = polar(Σ_h T_h R_h)`` agrees with them best, and its coordinates are ``Φ Λ^t R``.

A chunk must be a sample of its dataset, but files are often sorted. So rows are dealt out: blocks far
apart in the dataset form a group, and each chunk of the group gets a share of each of its blocks.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import scipy.linalg

from harmonicalign._exceptions import DisconnectedGraphWarning
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
from harmonicalign.inputs.settings import Settings
from harmonicalign.inputs.validate import check_data, check_integer, check_rows
from harmonicalign.paper.align import MultiAlignment, align_spectra, calibrate
from harmonicalign.paper.graph import Graph, kernel_graph
from harmonicalign.paper.harmonics import Harmonics, harmonics
from harmonicalign.paper.joint import synchronize
from harmonicalign.paper.model import PaperModel
from harmonicalign.paper.reduction import Reduction, reduce_rows

__all__ = ["CHUNK_ROWS", "Description", "fit_chunks"]


CHUNK_ROWS = 1000
"""N_c: on MNIST chunks of this size cost 0.006 of accuracy; 250 cost 0.02, 4000 cost 0.003."""

_GROUP = 16
"""Blocks among which rows are dealt out to chunks."""


@dataclass(frozen=True)
class Description:
    """How chunks are described and aligned.

    Attributes
    ----------
    settings
        Of the "paper" method for datasets of as many rows as a chunk has.
    kernel
        Options of `harmonicalign.kernel_graph`.
    first_band
        See `harmonicalign.bandlimiting_weights`.
    seed
        Seed of the chunks and of the eigensolver.
    """

    settings: Settings
    kernel: dict[str, Any]
    first_band: int = 0
    seed: int = 0

    def for_rows(self, n: int) -> Description:
        """The same with harmonics and neighbours that chunks of n rows have room for, the same for all."""
        settings = replace(
            self.settings,
            n_harmonics=[min(*self.settings.n_harmonics, n - 1)] * len(self.settings.n_harmonics),
            n_neighbors=[min(k, n - 1) for k in self.settings.n_neighbors],
        )
        return replace(self, settings=settings)


@dataclass(frozen=True)
class Spectrum:
    """What alignment needs of a chunk: nothing that has a row for each of its rows.

    Attributes
    ----------
    harmonics
        Its eigenvalues; the eigenvectors and the graph are left out.
    coefficients
        Fourier coefficients of its signals, (k, d).
    """

    harmonics: Harmonics
    coefficients: Array


@dataclass(frozen=True)
class Hubs:
    """Chunks in a common frame, to which all others are aligned.

    Attributes
    ----------
    spectra
        Of every hub.
    frames
        Rotation of every hub into the common frame, (k, k).
    dataset
        The dataset that every hub belongs to.
    how
        How chunks are described and aligned.
    """

    spectra: tuple[Spectrum, ...]
    frames: tuple[Array, ...]
    dataset: tuple[int, ...]
    how: Description


def fit_chunks(
    datasets: Sequence[Any],
    signals: Sequence[Any] | None = None,
    *,
    how: Description,
    chunk_rows: int = CHUNK_ROWS,
    n_hubs: int = 3,
    client: Any = None,
    dtype: Any = np.float32,
) -> DistributedResult:
    """Align datasets chunk by chunk, by the method of the paper.

    Parameters
    ----------
    datasets
        Dask arrays, rows by columns; blocks are plain or CSR.
    signals
        Corresponding signals of the same rows; by default the datasets.
    how
        How chunks are described and aligned.
    chunk_rows
        N_c. Chunks have about this many rows; a smaller dataset is one chunk.
    n_hubs
        Hubs of each dataset.
    client
        A `distributed.Client`, the address of a scheduler, or None for dask's own choice.
    dtype
        Type of the coordinates.

    Returns
    -------
    result
        Coordinates in the common frame are computed when they are asked for; the hubs are aligned
        when this returns.
    """
    dask = load_dask()
    chunk_rows = check_integer("chunk_rows", chunk_rows, minimum=10)
    n_hubs = check_integer("n_hubs", n_hubs, minimum=1)
    x, s = matched(datasets, signals)
    widths = {g.shape[1] for g in s}
    if len(widths) > 1:
        raise ValueError(f"signals have {', '.join(map(str, sorted(widths)))} columns; they must correspond")
    client = connect(client)
    # Dealt twice: tasks that two computations share under one name upset the scheduler if it lets go of
    # them in between and each has been merged with different neighbours.
    dealt, for_hubs = (
        [_deal(d, g, chunk_rows, (how.seed, i)) for i, (d, g) in enumerate(zip(x, s, strict=True))]
        for _ in range(2)
    )
    how = how.for_rows(min(chunk.n_rows for deck in dealt for chunk in deck.chunks))
    chosen = [
        (i, deck.chunks[j])
        for i, deck in enumerate(for_hubs)
        for j in np.unique(np.linspace(0, len(deck.chunks) - 1, n_hubs).round().astype(int))
    ]
    described = [dask.delayed(_describe)(i, how, *chunk.pieces) for i, chunk in chosen]
    fitted = keep(dask.delayed(_align_hubs)([i for i, _ in chosen], how, *described), client)
    hubs = keep(dask.delayed(_hubs)(fitted), client)
    width, told = evaluate(dask.delayed(_note)(fitted), client)
    told.repeat_warnings()
    embedding = [
        _coordinates(d, deck, i, hubs, how.seed, width, dtype)
        for i, (d, deck) in enumerate(zip(x, dealt, strict=True))
    ]
    first = [next(chunk for j, chunk in chosen if j == i) for i in range(len(x))]
    sample = dask.delayed(_samples)(*(dask.delayed(_gathered)(*chunk.pieces) for chunk in first))
    model, place = dask.delayed(_model)(fitted), dask.delayed(_slim)(fitted)
    return DistributedResult(embedding, width, model, place, sample, None, client, np.dtype(dtype))


def _coordinates(x: Any, deck: _Deck, i: int, hubs: Any, seed: int, width: int, dtype: Any) -> Any:
    """Coordinates of dataset i as a dask array, in blocks as the dataset."""
    dask = load_dask()
    coordinates = [
        dask.delayed(_embed, nout=chunk.n_pieces)(hubs, i, dtype, *chunk.pieces) for chunk in deck.chunks
    ]
    blocks = []
    for b, size in enumerate(x.chunks[0]):
        members, position = deck.members[b]
        pieces = [coordinates[c][position] for c in members]
        block = dask.delayed(_undeal)(size, (seed, i, b), *pieces)
        blocks.append(dask.array.from_delayed(block, (size, width), dtype=dtype))
    return dask.array.concatenate(blocks)


@dataclass(frozen=True)
class _Chunk:
    """A chunk before it is made: delayed pieces of blocks, (rows, signals) each."""

    pieces: list[Any]
    n_rows: int

    @property
    def n_pieces(self) -> int:
        return len(self.pieces)


@dataclass(frozen=True)
class _Deck:
    """One dataset dealt out: its chunks, and for every block its chunks and its place in them."""

    chunks: list[_Chunk]
    members: list[tuple[list[int], int]]


def _deal(x: Any, s: Any, chunk_rows: int, key: tuple[int, int]) -> _Deck:
    """Deal the rows of one dataset out to chunks."""
    dask = load_dask()
    sizes = x.chunks[0]
    n_groups = max(1, len(sizes) // _GROUP)
    rows, signals = blocks_of(x), blocks_of(s)
    chunks: list[_Chunk] = []
    members: list[tuple[list[int], int]] = [([], 0)] * len(sizes)
    for g in range(n_groups):
        group = list(range(g, len(sizes), n_groups))
        total = sum(sizes[b] for b in group)
        parts = -(-total // chunk_rows)
        dealt = [
            dask.delayed(_split, nout=parts)(rows[b], None if s is x else signals[b], parts, (*key, b))
            for b in group
        ]
        for position, b in enumerate(group):
            members[b] = (list(range(len(chunks), len(chunks) + parts)), position)
        for c in range(parts):
            n = sum(_share(sizes[b], parts, c) for b in group)
            chunks.append(_Chunk([deal[c] for deal in dealt], n))
    return _Deck(chunks, members)


def _share(size: int, parts: int, c: int) -> int:
    """Rows of a block of the given size that chunk c gets."""
    return size // parts + (c < size % parts)


def _order(size: int, key: tuple[int, ...]) -> Array:
    """In which order a block's rows are dealt; the same wherever and whenever it is asked for."""
    return np.random.default_rng(key).permutation(size)


def _split(rows: Any, signals: Any, parts: int, key: tuple[int, ...]) -> tuple[Any, ...]:
    """One block dealt out, (rows, signals) for every chunk; signals are None where rows serve as such."""
    rows = check_rows("datasets", rows)
    signals = None if signals is None else check_rows("signals", signals)
    shares = np.array_split(_order(rows.shape[0], key), parts)
    return tuple((rows[take], None if signals is None else signals[take]) for take in shares)


def _undeal(size: int, key: tuple[int, ...], *pieces: Array) -> Array:
    """Coordinates of one block, its rows in order again."""
    out = np.empty((size, pieces[0].shape[1]), dtype=pieces[0].dtype)
    out[_order(size, key)] = np.vstack(pieces)
    return out


def _gathered(*pieces: Any) -> tuple[Any, Any]:
    """Rows and signals of one chunk."""
    rows = stacked(*(r for r, _ in pieces))
    return rows, rows if pieces[0][1] is None else stacked(*(s for _, s in pieces))


def _samples(*chunks: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    rows, signals = zip(*chunks, strict=True)
    return list(rows), list(signals)


def _describe(i: int, how: Description, *pieces: Any) -> tuple[Reduction, Harmonics, Spectrum]:
    """Harmonics of a chunk of dataset i and the spectrum of its signals."""
    settings = how.settings
    rows, signals = _gathered(*pieces)
    reduction, components = reduce_rows(check_data("datasets", rows), settings.n_pca[i], how.seed)
    graph = kernel_graph(components, n_neighbors=settings.n_neighbors[i], **how.kernel)
    with warnings.catch_warnings():
        # A chunk falls apart more easily than its dataset; its harmonics then start with the pieces.
        warnings.simplefilter("ignore", DisconnectedGraphWarning)
        found = harmonics(graph, settings.n_harmonics[i], random_state=how.seed)
    return reduction, found, Spectrum(_without_rows(found), found.gft(signals))


def _without_rows(found: Harmonics) -> Harmonics:
    return replace(found, psi=found.psi[:0], degrees=found.degrees[:0], graph=cast(Graph, None))


def _align_hubs(
    dataset: Sequence[int], how: Description, *described: tuple[Reduction, Harmonics, Spectrum]
) -> Any:
    """All hubs in one frame; and the first hub of every dataset as a model, which places new rows."""

    def aligned() -> tuple[Hubs, PaperModel]:
        spectra = [spectrum for _, _, spectrum in described]
        if how.settings.calibrate:
            shared = calibrate([spectrum.harmonics for spectrum in spectra])
            spectra = [replace(one, harmonics=h) for one, h in zip(spectra, shared, strict=True)]
        pairs = {
            (a, b): _aligned(spectra[a], spectra[b], how)
            for a in range(len(spectra))
            for b in range(a + 1, len(spectra))
        }
        frames = synchronize(MultiAlignment(tuple(s.harmonics for s in spectra), pairs))
        first = [list(dataset).index(i) for i in range(max(dataset) + 1)]
        model = PaperModel(
            reductions=tuple(described[h][0] for h in first),
            harmonics=tuple(replace(described[h][1], exponent=spectra[h].harmonics.exponent) for h in first),
            alignment=MultiAlignment(
                tuple(spectra[h].harmonics for h in first),
                {(i, j): pairs[g, h] for j, h in enumerate(first) for i, g in enumerate(first[:j])},
            ),
            frames=tuple(frames[h] for h in first),
            t=how.settings.t,
        )
        return Hubs(tuple(spectra), tuple(frames), tuple(dataset), how), model

    return noted(aligned)


def _aligned(x: Spectrum, y: Spectrum, how: Description) -> Any:
    products = x.coefficients @ y.coefficients.T
    n_bands, first_band = how.settings.n_bands, how.first_band
    return align_spectra(x.harmonics, y.harmonics, products, n_bands=n_bands, first_band=first_band)


def _embed(hubs: Hubs, i: int, dtype: Any, *pieces: Any) -> tuple[Array, ...]:
    """Coordinates of a chunk of dataset i in the common frame, cut into the pieces it was dealt."""
    _, found, own = _describe(i, hubs.how, *pieces)
    mine = [h for h, j in enumerate(hubs.dataset) if j == i]
    if hubs.how.settings.calibrate:
        own = replace(own, harmonics=_calibrated(own.harmonics, hubs.spectra[mine[0]].harmonics))
    votes = [_aligned(own, hubs.spectra[h], hubs.how).rotation @ hubs.frames[h] for h in mine]
    u, _, vt = scipy.linalg.svd(np.sum(votes, axis=0), full_matrices=False)
    frequencies = own.harmonics.frequencies**hubs.how.settings.t
    coordinates = np.asarray((found.phi * frequencies) @ (u @ vt), dtype=dtype)
    ends = np.cumsum([rows.shape[0] for rows, _ in pieces])
    return tuple(np.split(coordinates, ends[:-1]))


def _calibrated(own: Harmonics, hub: Harmonics) -> Harmonics:
    """A chunk's frequencies at the diffusion time that the hubs have in common."""
    mine, theirs = calibrate([own, hub])
    return replace(mine, exponent=mine.exponent * hub.exponent / theirs.exponent)


def _note(fitted: Any) -> tuple[int, Any]:
    """What the client learns of the hubs: the width of the frame, and warnings."""
    return fitted.value[0].frames[0].shape[1], replace(fitted, value=None)


def _hubs(fitted: Any) -> Hubs:
    hubs: Hubs = fitted.value[0]
    return hubs


def _model(fitted: Any) -> PaperModel:
    model: PaperModel = fitted.value[1]
    return model


def _slim(fitted: Any) -> Any:
    return fitted.value[1].slim()
