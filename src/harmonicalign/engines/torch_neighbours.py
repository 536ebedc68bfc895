"""Nearest neighbours on a torch device: exact in tiles, or an inverted file over k-means lists.

The inverted file sorts the rows by list and searches list by list: all queries of a list share the
candidates of the lists around its centroid, so that the work is dense products of contiguous blocks and not
gathers. On CUDA devices fused kernels do it (`torch_cuda`), on others plain torch operations, here.

Cost for n rows, d columns and quota Q: ``O(n d min(n / LIST_SIZE, MAX_LISTS))`` to sort the rows into lists
and ``O(n d Q)`` for the scan. Q grew no faster than ``n^½`` in what was measured, and is at most MAX_QUOTA,
so that beyond 4·10⁶ rows all of it is linear. Memory is ``O(n (d + k))`` beside work space of a few GiB.

Distances are within 1e-5 relative of those in double precision (they are differences in full float32,
whatever found the candidates). On one device a fixed `random_state` repeats bit for bit: sums run in a fixed
order.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from harmonicalign._typing import Array
from harmonicalign.engines.distances import in_single, measured_again
from harmonicalign.engines.protocols import Neighbours, check_k
from harmonicalign.engines.torch_cuda import scan_fused
from harmonicalign.engines.torch_device import resolve_device, to_device, to_host
from harmonicalign.engines.torch_lists import (
    CALIBRATION_ROWS,
    MAX_QUOTA,
    Index,
    Plan,
    build_index,
    plan_lists,
    quota_of,
    ragged,
    sample_rows,
)
from harmonicalign.engines.torch_tiles import (
    MARGIN,
    exact_search,
    kernels_for,
    nearest_centre,
    pieces,
    rerank,
    workspace,
)

__all__ = ["EXACT_BELOW", "TorchNeighbours", "knn", "knn_in_lists", "search"]

logger = logging.getLogger("harmonicalign")

EXACT_BELOW = 20_000  # rows under which tiles of the full distance matrix are quick enough

RECALL_ROWS = 1000  # queries that the recall of an inverted file is measured on


@dataclass(frozen=True)
class TorchNeighbours:
    """The k nearest rows by torch, from host to host.

    Attributes
    ----------
    device
        Where the search runs: "cpu", "cuda", "cuda:1", … or "auto".
    exact
        True computes the distances of the neighbours found again in float64, on the host.
    exact_below
        With fewer rows all pairs are compared; from there on an inverted file is searched.
    random_state
        Seed of the inverted file.
    """

    device: str | torch.device = "auto"
    exact: bool = True
    exact_below: int = EXACT_BELOW
    random_state: int = 0

    def __call__(self, x: Array, k: int, queries: Array | None = None) -> Neighbours:
        """The k rows of `x` nearest to each query; see `NeighbourEngine`."""
        where = resolve_device(self.device)
        base, sought, scale = in_single(x, queries)
        found = knn(
            to_device(base, where),
            k,
            None if queries is None else to_device(sought, where),
            exact_below=self.exact_below,
            random_state=self.random_state,
        )
        indices = to_host(found.indices)
        if self.exact:
            return measured_again(indices, x if queries is None else queries, x, found.recall)
        return Neighbours(indices, to_host(found.distances).astype("float64") * scale, found.recall)


def knn(
    x: Tensor,
    k: int,
    queries: Tensor | None = None,
    *,
    exact_below: int = EXACT_BELOW,
    random_state: int = 0,
) -> Neighbours:
    """Nearest `k` rows of `x` to every query, Euclidean, ascending, as tensors on their device.

    Parameters
    ----------
    x
        Rows, float32.
    k
        Neighbours per query.
    queries
        Rows to find neighbours of; None: `x` itself, each row without itself.
    exact_below
        Fewer rows than this are compared with all queries in tiles, ``O(n²)``; more are sorted into an
        inverted file, about ``O(n^1.5)``.
    random_state
        Seed of the inverted file.
    """
    check_k(k, len(x), queries is None)
    if len(x) < exact_below:
        own = torch.arange(len(x), device=x.device) if queries is None else None
        return exact_search(x, x if queries is None else queries, k, own)
    index = build_index(x, random_state)
    order, found = search(index, k, queries, random_state=random_state)
    indices, distances = torch.empty_like(found.indices), torch.empty_like(found.distances)
    indices[order] = index.order[found.indices]
    distances[order] = found.distances
    return Neighbours(indices, distances, found.recall)


def knn_in_lists(
    x: Tensor, k: int, *, exact_below: int = EXACT_BELOW, random_state: int = 0
) -> tuple[Tensor | None, Neighbours]:
    """`knn` of the rows themselves, in the order of the inverted file, in which near rows are near in memory.

    Returns
    -------
    order
        Number of the row that each place in that order belongs to; None where it is the order of the rows.
    neighbours
        Neighbours of the rows in that order, numbered by it.
    """
    if len(x) < exact_below:
        return None, knn(x, k, exact_below=exact_below)
    check_k(k, len(x), True)
    return search(build_index(x, random_state), k, random_state=random_state)


def search(
    index: Index,
    k: int,
    queries: Tensor | None = None,
    *,
    coverage: float = 0.975,
    max_quota: int = MAX_QUOTA,
    random_state: int = 0,
) -> tuple[Tensor, Neighbours]:
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
    max_quota
        Candidates per query at most.
    random_state
        Seed of the samples.

    Returns
    -------
    order
        Original number of each returned query.
    neighbours
        Its nearest sorted rows (``index.order`` translates their numbers), and the recall on a sample.
    """
    own = queries is None
    if queries is None:
        order, sought, bounds = index.order, index.rows, index.bounds
    else:
        padded = torch.zeros(
            (len(queries), index.rows.shape[1]), dtype=index.rows.dtype, device=index.rows.device
        )
        torch.sub(queries, index.mean, out=padded[:, : queries.shape[1]])
        label = nearest_centre(padded, index.centroids)
        order = label.argsort(stable=True)
        sought = padded[order]
        bounds = torch.zeros_like(index.bounds)
        torch.cumsum(torch.bincount(label, minlength=len(index.centroids)), 0, out=bounds[1:])
    chosen = sample_rows(len(sought), min(CALIBRATION_ROWS, len(sought)), random_state + 1, sought.device)
    home = torch.searchsorted(bounds, chosen, right=True) - 1
    true = exact_search(index.rows, sought[chosen], k, chosen if own else None)
    quota = quota_of(index, home, true, coverage, max_quota)
    logger.debug("inverted file: %d of %d rows per query", quota, len(index.rows))
    found = _scan(index, sought, bounds, plan_lists(index, quota), k, own)
    return order, replace(found, recall=_recall(index.rows, sought, found, own, random_state))


def _scan(index: Index, queries: Tensor, bounds: Tensor, plan: Plan, k: int, own: bool) -> Neighbours:
    """Search by the fused kernels where they can run, else by plain torch."""
    kernels = kernels_for(index.rows)
    if kernels is not None:
        try:
            return scan_fused(kernels, index, queries, bounds, plan, k, own)
        except kernels.OutOfResources:
            logger.info("the fused search does not fit this GPU; the slower plain torch path runs")
    return _scan_plain(index, queries, bounds, plan, k, own)


def _scan_plain(index: Index, queries: Tensor, bounds: Tensor, plan: Plan, k: int, own: bool) -> Neighbours:
    """Search list by list with plain torch operations: any device, no bins, one product per list."""
    device = queries.device
    distances = torch.empty((len(queries), k), dtype=queries.dtype, device=device)
    indices = torch.empty((len(queries), k), dtype=torch.int64, device=device)
    edges, cuts = bounds.tolist(), plan.bounds.tolist()
    for number, (lo, hi) in enumerate(pairwise(edges)):
        if lo == hi:
            continue
        lists = plan.lists[cuts[number] : cuts[number + 1]]
        members = ragged(index.bounds[lists], index.sizes[lists])
        centre = index.centroids[number]
        y = index.rows[members] - centre
        norms = y.square().sum(1)
        starts = pieces(hi - lo, len(members), workspace(device))
        for start in starts:
            part = slice(lo + start, min(hi, lo + start + starts.step))
            d = torch.addmm(norms[None, :], queries[part] - centre, y.T, alpha=-2)
            slot = d.topk(min(k + own + MARGIN, len(members)), dim=1, largest=False).indices
            self_row = torch.arange(part.start, part.stop, device=device) if own else None
            best = rerank(queries[part], index.rows, members[slot], k, self_row)
            indices[part], distances[part] = best.indices, best.distances
    return Neighbours(indices, distances)


def _recall(rows: Tensor, queries: Tensor, found: Neighbours, own: bool, random_state: int) -> float:
    """Share of the true neighbours of a sample of queries that were found; equally distant ones count."""
    chosen = sample_rows(len(queries), min(RECALL_ROWS, len(queries)), random_state, queries.device)
    true = exact_search(rows, queries[chosen], found.k, chosen if own else None)
    return float((found.distances[chosen] <= true.distances[:, -1:] * (1 + 1e-5)).float().mean())
