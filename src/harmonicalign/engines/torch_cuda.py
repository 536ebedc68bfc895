"""The search of an inverted file by fused kernels, on CUDA devices."""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from harmonicalign.engines.protocols import Neighbours
from harmonicalign.engines.torch_lists import Index, Plan, ragged
from harmonicalign.engines.torch_tiles import MARGIN, pieces, rerank, workspace

__all__ = ["scan_fused"]

MAX_INDEX_BITS = 12  # of a 32-bit key, to name the scan's step; the rest is the distance


def scan_fused(
    kernels: ModuleType, index: Index, queries: Tensor, bounds: Tensor, plan: Plan, k: int, own: bool
) -> Neighbours:
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
    probes = ragged(first[plan.lists], per_list[plan.lists])
    ends = torch.zeros(len(plan.lists) + 1, dtype=torch.int64, device=device)
    torch.cumsum(per_list[plan.lists], 0, out=ends[1:])
    probe_bounds = ends[plan.bounds]
    longest = int(probe_bounds.diff().max().item())
    if longest > 1 << MAX_INDEX_BITS:  # more steps than a key can name: leave out the farthest
        length = probe_bounds.diff().clamp(max=1 << MAX_INDEX_BITS)
        probes = probes[ragged(probe_bounds[:-1], length)]
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
        best = rerank(queries[lo:hi], index.rows, row.gather(1, slot), k, self_row)
        indices[lo:hi], distances[lo:hi] = best.indices, best.distances
    return Neighbours(indices, distances)


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
    starts = pieces(len(queries), queries.shape[1], workspace(queries.device))
    for start in starts:
        part = slice(start, start + starts.step)
        reach[part] = (queries[part] - centroids[home[part]]).abs_().amax(1)
    widest = torch.segment_reduce(reach, "max", lengths=counts, initial=0.0)
    return 64 / widest.clamp(min=1e-12)
