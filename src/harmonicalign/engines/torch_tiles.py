"""Exact neighbours on a torch device, by tiles of the distance matrix, and what any search there needs."""

from __future__ import annotations

import logging
from types import ModuleType

import torch
from torch import Tensor

from harmonicalign.engines.protocols import Neighbours

__all__ = [
    "MARGIN",
    "accelerated",
    "exact_search",
    "kernels_for",
    "nearest_centre",
    "pieces",
    "rerank",
    "workspace",
]

logger = logging.getLogger("harmonicalign")

MARGIN = 16  # candidates beyond k that are ranked again in full precision
MAX_FUSED_COLUMNS = 512  # the fused kernels unroll their columns


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


def kernels_for(rows: Tensor) -> ModuleType | None:
    """Fused kernels if they can take these rows: float32, whole chunks of columns, not too many."""
    d = rows.shape[1]
    if rows.dtype != torch.float32 or d % 16 or d > MAX_FUSED_COLUMNS or not rows.is_contiguous():
        return None
    return accelerated(rows.device)


def pieces(n: int, width: int, budget: int = 1 << 28) -> range:
    """Starts of row pieces whose blocks of `width` numbers stay within `budget` numbers."""
    return range(0, n, max(1, budget // max(1, width)))


def workspace(device: torch.device) -> int:
    """Numbers that temporaries may hold on a device."""
    return 1 << 30 if device.type == "cuda" else 1 << 24


def rerank(queries: Tensor, rows: Tensor, candidates: Tensor, k: int, own: Tensor | None) -> Neighbours:
    """Nearest `k` of each query's candidates, by differences in full precision.

    A candidate of -1 and each query's `own` row count as infinitely far.
    """
    n, width = candidates.shape
    kernels = kernels_for(rows)
    distances = torch.empty((n, k), dtype=rows.dtype, device=rows.device)
    indices = torch.empty((n, k), dtype=torch.int64, device=rows.device)
    starts = pieces(n, width * rows.shape[1], workspace(rows.device))
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
    return Neighbours(indices, distances)


def exact_search(
    rows: Tensor, queries: Tensor, k: int, own: Tensor | None = None, *, budget: int | None = None
) -> Neighbours:
    """Exact neighbours by tiles of the distance matrix: ``O(q n d)`` time, tile-sized memory."""
    mean = rows.mean(0)
    x, q = rows - mean, queries - mean
    norms = x.square().sum(1)
    keep = min(len(x), k + (own is not None) + MARGIN)
    found = []
    starts = pieces(len(q), len(x), budget or workspace(rows.device) // 4)
    for start in starts:
        part = slice(start, start + starts.step)
        candidates = (
            torch.addmm(norms[None, :], q[part], x.T, alpha=-2).topk(keep, dim=1, largest=False).indices
        )
        found.append(rerank(q[part], x, candidates, k, None if own is None else own[part]))
    return Neighbours(torch.cat([f.indices for f in found]), torch.cat([f.distances for f in found]))


def nearest_centre(rows: Tensor, centres: Tensor) -> Tensor:
    """Nearest centre of every row."""
    kernels = kernels_for(rows)
    if kernels is not None and rows.shape[1] <= kernels.NEAREST_COLUMNS:
        try:
            label: Tensor = kernels.nearest(rows, centres)
            return label
        except kernels.OutOfResources:  # a smaller GPU than the kernel was shaped for
            logger.debug("the fused k-means kernel does not fit this GPU")
    norms = centres.square().sum(1)
    starts = pieces(len(rows), len(centres), workspace(rows.device))
    return torch.cat(
        [
            torch.addmm(norms[None, :], rows[start : start + starts.step], centres.T, alpha=-2).argmin(1)
            for start in starts
        ]
    )
