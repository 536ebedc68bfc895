"""Nearest neighbours on a torch device: exact in tiles, or an inverted file over k-means lists.

The inverted file sorts the rows by list and searches list by list: all queries of a list share the
candidates of the lists around its centroid, so that the work is dense products of contiguous blocks and not
gathers. How many candidates are needed depends on the data's intrinsic dimension, so it is not guessed: the
neighbours of some hundred queries are found exactly, and the quota is the smallest that covers the wanted
share of them.

Cost for n rows, d columns and quota Q: ``O(n d min(n / LIST_SIZE, MAX_LISTS))`` to sort the rows into lists
and ``O(n d Q)`` for the scan. Q grew no faster than ``n^½`` in what was measured, and is at most MAX_QUOTA,
so that beyond 4·10⁶ rows all of it is linear. Memory is ``O(n (d + k))`` beside work space of a few GiB.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["LIST_SIZE", "Index", "accelerated", "build_index", "exact_search", "rerank", "search"]

logger = logging.getLogger("harmonicalign")

LIST_SIZE = 256  # mean rows per list, until there are
MAX_LISTS = 16_384
LLOYD_STEPS = 5
TRAINING_ROWS = 32  # rows per list that the centroids are trained on
CALIBRATION_ROWS = 512
MARGIN = 16  # candidates beyond k that are ranked again in full precision
MAX_FUSED_COLUMNS = 512  # the fused kernels unroll their columns
MAX_QUOTA = 1 << 18  # candidates per query at most
MAX_INDEX_BITS = 12  # of a 32-bit key, to name the scan's step; the rest is the distance


class Index(NamedTuple):
    """Rows sorted by list, and where each list begins."""

    rows: Tensor  # centred, zero-padded to whole chunks of columns, in list order
    order: Tensor  # original number of each sorted row
    bounds: Tensor  # first sorted row of each list, and n at the end
    centroids: Tensor
    mean: Tensor

    @property
    def sizes(self) -> Tensor:
        """Rows in each list."""
        return self.bounds.diff()


def accelerated(device: torch.device) -> ModuleType | None:
    """Triton kernels where they can run, or None."""
    if device.type != "cuda":
        return None
    try:
        from harmonicalign.engines import triton
    except ImportError:
        logger.info("triton is not installed; the GPU runs the slower plain torch path")
        return None
    return triton


def _kernels_for(rows: Tensor) -> ModuleType | None:
    """Fused kernels if they can take these rows: float32, whole chunks of columns, not too many."""
    d = rows.shape[1]
    if rows.dtype != torch.float32 or d % 16 or d > MAX_FUSED_COLUMNS or not rows.is_contiguous():
        return None
    return accelerated(rows.device)


def _pieces(n: int, width: int, budget: int = 1 << 28) -> range:
    """Starts of row pieces whose blocks of `width` numbers stay within `budget` numbers."""
    return range(0, n, max(1, budget // max(1, width)))


def _budget(device: torch.device) -> int:
    return 1 << 30 if device.type == "cuda" else 1 << 24


def rerank(
    queries: Tensor, rows: Tensor, candidates: Tensor, k: int, own: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Nearest `k` of each query's candidates, by differences in full precision.

    A candidate of -1 and each query's `own` row count as infinitely far.
    """
    n, width = candidates.shape
    kernels = _kernels_for(rows)
    distances = torch.empty((n, k), dtype=rows.dtype, device=rows.device)
    indices = torch.empty((n, k), dtype=torch.int64, device=rows.device)
    starts = _pieces(n, width * rows.shape[1], _budget(rows.device))
    for start in starts:
        part = slice(start, start + starts.step)
        c = candidates[part]
        if own is not None:
            c = torch.where(c == own[part, None], -1, c)
        if kernels is None:
            block = rows[c.clamp(min=0).flatten()].view(*c.shape, -1)
            d = block.sub_(queries[part, None, :]).square_().sum(2).masked_fill_(c < 0, torch.inf)
        else:
            d = kernels.pair_distances(queries[part], rows, c)
        best, slot = d.topk(k, dim=1, largest=False, sorted=True)
        distances[part] = best.sqrt_()
        indices[part] = c.gather(1, slot).long()
    return distances, indices


def exact_search(
    rows: Tensor, queries: Tensor, k: int, own: Tensor | None = None, *, budget: int | None = None
) -> tuple[Tensor, Tensor]:
    """Exact neighbours by tiles of the distance matrix: ``O(q n d)`` time, tile-sized memory."""
    mean = rows.mean(0)
    x, q = rows - mean, queries - mean
    norms = x.square().sum(1)
    keep = min(len(x), k + (own is not None) + MARGIN)
    distances, indices = [], []
    starts = _pieces(len(q), len(x), budget or _budget(rows.device) // 4)
    for start in starts:
        part = slice(start, start + starts.step)
        candidates = (
            torch.addmm(norms[None, :], q[part], x.T, alpha=-2).topk(keep, dim=1, largest=False).indices
        )
        d, i = rerank(q[part], x, candidates, k, None if own is None else own[part])
        distances.append(d)
        indices.append(i)
    return torch.cat(distances), torch.cat(indices)


def _nearest(rows: Tensor, centres: Tensor) -> Tensor:
    """Nearest centre of every row."""
    kernels = _kernels_for(rows)
    if kernels is not None and rows.shape[1] <= kernels.NEAREST_COLUMNS:
        try:
            label: Tensor = kernels.nearest(rows, centres)
            return label
        except kernels.OutOfResources:  # a smaller GPU than the kernel was shaped for
            logger.debug("the fused k-means kernel does not fit this GPU")
    norms = centres.square().sum(1)
    starts = _pieces(len(rows), len(centres), _budget(rows.device))
    return torch.cat(
        [
            torch.addmm(norms[None, :], rows[start : start + starts.step], centres.T, alpha=-2).argmin(1)
            for start in starts
        ]
    )


def _lloyd(rows: Tensor, centres: Tensor, steps: int) -> Tensor:
    """Lloyd's iterations; sums run over rows sorted by label, so they do not depend on thread order."""
    for _ in range(steps):
        label = _nearest(rows, centres)
        count = torch.bincount(label, minlength=len(centres))
        total = torch.segment_reduce(rows[label.argsort(stable=True)], "sum", lengths=count, axis=0)
        centres = torch.where(count[:, None] > 0, total / count.clamp(min=1)[:, None], centres)
    return centres


def _sample(n: int, size: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Row numbers drawn on the CPU (the same on every device), repetition allowed."""
    return torch.randint(n, (size,), generator=generator).to(device)


def build_index(x: Tensor, random_state: int = 0) -> Index:
    """Sort the rows of `x` into lists around k-means centroids, near lists next to each other."""
    n, d = x.shape
    chunk = 16 if d <= 16 else 32 if d <= 32 else 64
    mean = x.double().mean(0).to(x.dtype) if n < 1 << 20 else x.mean(0)
    rows = torch.zeros((n, -(-d // chunk) * chunk), dtype=x.dtype, device=x.device)
    torch.sub(x, mean, out=rows[:, :d])

    generator = torch.Generator().manual_seed(random_state)
    n_lists = min(MAX_LISTS, max(1, n // LIST_SIZE))
    training = rows[_sample(n, TRAINING_ROWS * n_lists, generator, x.device)]
    centroids = _lloyd(training, training[:n_lists].clone(), LLOYD_STEPS)
    del training
    # number the lists so that near ones are near in memory too: the scan and every product with the
    # graph then find more of what they need in the cache
    groups = _lloyd(centroids, centroids[:: max(1, int(n_lists**0.5))].clone(), LLOYD_STEPS)
    centroids = centroids[_nearest(centroids, groups).argsort(stable=True)]
    label = _nearest(rows, centroids)
    order = label.argsort(stable=True)
    bounds = torch.zeros(n_lists + 1, dtype=torch.int64, device=x.device)
    torch.cumsum(torch.bincount(label, minlength=n_lists), 0, out=bounds[1:])
    return Index(rows[order], order, bounds, centroids, mean)


def _cover(
    index: Index, queries: Tensor, bounds: Tensor, k: int, own: bool, coverage: float, random_state: int
) -> int:
    """Fewest candidates per list that hold `coverage` of the true neighbours of a sample of the queries."""
    n = len(index.rows)
    generator = torch.Generator().manual_seed(random_state + 1)
    chosen = _sample(len(queries), min(CALIBRATION_ROWS, len(queries)), generator, queries.device)
    _, true = exact_search(index.rows, queries[chosen], k, chosen if own else None)
    home = torch.searchsorted(bounds, chosen, right=True) - 1
    near = torch.cdist(index.centroids[home], index.centroids).argsort(dim=1)
    size = index.sizes[near]
    before = torch.empty_like(size).scatter_(1, near, size.cumsum(1) - size)
    needed = before.gather(1, torch.searchsorted(index.bounds, true, right=True) - 1).flatten().sort().values
    quota = int(needed[int(coverage * (len(needed) - 1))].item()) + 1
    if quota > MAX_QUOTA:
        share = float((needed < MAX_QUOTA).float().mean())
        logger.warning(
            "the inverted file reaches about %.2f of the neighbours: the rows have too many dimensions; "
            "reduce them or use exact=True",
            share,
        )
    return min(n, MAX_QUOTA, max(quota, 4 * (k + MARGIN), 2 * LIST_SIZE))


class _Plan(NamedTuple):
    """Which lists each list probes, nearest first, as one flat table."""

    bounds: Tensor
    lists: Tensor


def _plan(index: Index, quota: int) -> _Plan:
    """Lists around each list's centroid, nearest first, until they hold `quota` rows."""
    n_lists = len(index.centroids)
    mean_size = len(index.rows) / n_lists
    width = min(n_lists, int(2 * quota / mean_size) + 8)
    chosen, count = [], []
    starts = _pieces(n_lists, n_lists, _budget(index.rows.device))
    for start in starts:
        gap = torch.cdist(index.centroids[start : start + starts.step], index.centroids)
        gap[torch.arange(len(gap), device=gap.device), start + torch.arange(len(gap), device=gap.device)] = -1
        near = gap.topk(width, dim=1, largest=False, sorted=True).indices
        size = index.sizes[near]
        wanted = ((size.cumsum(1) - size) < quota) & (size > 0)
        chosen.append(near[wanted])
        count.append(wanted.sum(1))
    bounds = torch.zeros(n_lists + 1, dtype=torch.int64, device=index.rows.device)
    torch.cumsum(torch.cat(count), 0, out=bounds[1:])
    return _Plan(bounds, torch.cat(chosen))


def _ragged(starts: Tensor, lengths: Tensor) -> Tensor:
    """Concatenated ranges ``starts[i] … starts[i] + lengths[i] - 1``."""
    ends = lengths.cumsum(0)
    total = int(ends[-1].item()) if len(ends) else 0
    offset = torch.repeat_interleave(starts - (ends - lengths), lengths, output_size=total)
    return offset + torch.arange(total, device=starts.device)


def _tiles(bounds: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cut every list into tiles: list, start and end of each tile, and each list's first tile."""
    count = (bounds.diff() + width - 1) // width
    first = count.cumsum(0) - count
    owner = torch.repeat_interleave(torch.arange(len(count), device=bounds.device), count)
    start = bounds[owner] + (torch.arange(len(owner), device=bounds.device) - first[owner]) * width
    return owner, start, torch.minimum(start + width, bounds[owner + 1]), first


def _scales(queries: Tensor, centroids: Tensor, home: Tensor, counts: Tensor) -> Tensor:
    """Factor for each list that brings its queries' residuals well inside the range of half precision."""
    reach = torch.empty(len(queries), dtype=queries.dtype, device=queries.device)
    starts = _pieces(len(queries), queries.shape[1], _budget(queries.device))
    for start in starts:
        part = slice(start, start + starts.step)
        reach[part] = (queries[part] - centroids[home[part]]).abs_().amax(1)
    widest = torch.segment_reduce(reach, "max", lengths=counts, initial=0.0)
    return 64 / widest.clamp(min=1e-12)


def _scan_fused(
    kernels: ModuleType, index: Index, queries: Tensor, bounds: Tensor, plan: _Plan, k: int, own: bool
) -> tuple[Tensor, Tensor]:
    """Search with the fused kernel.

    Each query keeps the two best candidates of every one of 128 bins per split, and there is a split per 32
    neighbours. The r-th neighbour is lost where two nearer ones share its bin, with probability about
    ``(r / bins)²/2``: at k = 32, 3 % of the last neighbours and 1 % of all.
    """
    device = queries.device
    block = kernels.SCAN_BLOCK
    n_splits = -(-k // 32)
    owner, q_start, q_end, _ = _tiles(bounds, block)
    _, start, end, first = _tiles(index.bounds, kernels.SCAN_TILE)
    per_list = (index.sizes + kernels.SCAN_TILE - 1) // kernels.SCAN_TILE
    probes = _ragged(first[plan.lists], per_list[plan.lists])
    ends = torch.zeros(len(plan.lists) + 1, dtype=torch.int64, device=device)
    torch.cumsum(per_list[plan.lists], 0, out=ends[1:])
    probe_bounds = ends[plan.bounds]
    longest = int(probe_bounds.diff().max().item())
    if longest > 1 << MAX_INDEX_BITS:  # more steps than a key can name: leave out the farthest
        length = probe_bounds.diff().clamp(max=1 << MAX_INDEX_BITS)
        probes = probes[_ragged(probe_bounds[:-1], length)]
        probe_bounds = torch.cat([length.new_zeros(1), length.cumsum(0)])
        longest = 1 << MAX_INDEX_BITS
    index_bits = max(1, (longest - 1).bit_length())
    query_tiles = (owner.int(), q_start.int(), q_end.int())
    probe_tiles = (start.int()[probes], end.int()[probes])
    probe_bounds = probe_bounds.int()

    distances = torch.empty((len(queries), k), dtype=queries.dtype, device=device)
    indices = torch.empty((len(queries), k), dtype=torch.int64, device=device)
    lists, counts = torch.arange(len(index.centroids), device=device), bounds.diff()
    home = torch.repeat_interleave(lists, counts)
    scales = _scales(queries, index.centroids, home, counts)
    keep = k + own + MARGIN
    per_call = max(1, (1 << 28) // (2 * kernels.SCAN_TILE * n_splits * block))  # 2 GiB of candidates
    edges = list(range(0, len(owner), per_call))
    froms = [*q_start[edges].tolist(), len(queries)]
    for step, tile in enumerate(edges):
        lo, hi = froms[step], froms[step + 1]
        part = home[lo:hi]
        residual = (queries[lo:hi] - index.centroids[part]) * scales[part, None]
        key, row = kernels.scan(
            residual.half(),
            residual.square().sum(1),
            index.rows,
            index.centroids,
            scales,
            query_tiles,
            probe_bounds,
            probe_tiles,
            tile_range=(tile, min(tile + per_call, len(owner))),
            first_query=lo,
            n_splits=n_splits,
            index_bits=index_bits,
        )
        slot = key.topk(keep, dim=1, largest=False, sorted=False).indices
        self_row = torch.arange(lo, hi, device=device) if own else None
        distances[lo:hi], indices[lo:hi] = rerank(
            queries[lo:hi], index.rows, row.gather(1, slot), k, self_row
        )
    return distances, indices


def _scan_plain(
    index: Index, queries: Tensor, bounds: Tensor, plan: _Plan, k: int, own: bool
) -> tuple[Tensor, Tensor]:
    """Search list by list with plain torch operations: any device, no bins, one product per list."""
    device = queries.device
    distances = torch.empty((len(queries), k), dtype=queries.dtype, device=device)
    indices = torch.empty((len(queries), k), dtype=torch.int64, device=device)
    edges, cuts = bounds.tolist(), plan.bounds.tolist()
    for number, (lo, hi) in enumerate(pairwise(edges)):
        if lo == hi:
            continue
        lists = plan.lists[cuts[number] : cuts[number + 1]]
        members = _ragged(index.bounds[lists], index.sizes[lists])
        centre = index.centroids[number]
        y = index.rows[members] - centre
        norms = y.square().sum(1)
        starts = _pieces(hi - lo, len(members), _budget(device))
        for start in starts:
            part = slice(lo + start, min(hi, lo + start + starts.step))
            d = torch.addmm(norms[None, :], queries[part] - centre, y.T, alpha=-2)
            slot = d.topk(min(k + own + MARGIN, len(members)), dim=1, largest=False).indices
            self_row = torch.arange(part.start, part.stop, device=device) if own else None
            distances[part], indices[part] = rerank(queries[part], index.rows, members[slot], k, self_row)
    return distances, indices


def search(
    index: Index, k: int, queries: Tensor | None = None, *, coverage: float = 0.975, random_state: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Search an inverted file; everything returned is in list order.

    Parameters
    ----------
    index
        The rows to search.
    k
        Neighbours per query.
    queries
        Rows to find neighbours of; None: the indexed rows themselves, each without itself.
    coverage
        Share of the true neighbours of a sample of the queries that the candidates must hold.
    random_state
        Seed of the calibration sample.

    Returns
    -------
    order
        Original number of each returned query.
    distances, indices
        Ascending distances, and sorted row numbers (``index.order`` translates them).
    """
    own = queries is None
    if queries is None:
        order, sorted_queries, bounds = index.order, index.rows, index.bounds
    else:
        padded = torch.zeros(
            (len(queries), index.rows.shape[1]), dtype=index.rows.dtype, device=index.rows.device
        )
        torch.sub(queries, index.mean, out=padded[:, : queries.shape[1]])
        label = _nearest(padded, index.centroids)
        order = label.argsort(stable=True)
        sorted_queries = padded[order]
        bounds = torch.zeros_like(index.bounds)
        torch.cumsum(torch.bincount(label, minlength=len(index.centroids)), 0, out=bounds[1:])
    quota = _cover(index, sorted_queries, bounds, k, own, coverage, random_state)
    logger.debug("inverted file: %d of %d rows per query", quota, len(index.rows))
    plan = _plan(index, quota)
    kernels = _kernels_for(index.rows)
    if kernels is not None:
        try:
            return order, *_scan_fused(kernels, index, sorted_queries, bounds, plan, k, own)
        except kernels.OutOfResources:
            logger.info("the fused search does not fit this GPU; the slower plain torch path runs")
    return order, *_scan_plain(index, sorted_queries, bounds, plan, k, own)
