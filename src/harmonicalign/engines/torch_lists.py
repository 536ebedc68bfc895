"""An inverted file on a torch device: rows sorted into lists, and which lists hold a query's neighbours.

How many candidates are needed depends on the data's intrinsic dimension, so it is not guessed: the
neighbours of some hundred queries are found exactly, and the quota is the smallest that covers the wanted
share of them.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import torch
from torch import Tensor

from harmonicalign.engines.protocols import Neighbours
from harmonicalign.engines.torch_tiles import MARGIN, nearest_centre, pieces, workspace

__all__ = [
    "CALIBRATION_ROWS",
    "LIST_SIZE",
    "MAX_QUOTA",
    "Index",
    "Plan",
    "build_index",
    "plan_lists",
    "quota_of",
    "ragged",
    "sample_rows",
]

logger = logging.getLogger("harmonicalign")

LIST_SIZE = 256  # mean rows per list, until there are
MAX_LISTS = 16_384
LLOYD_STEPS = 5
TRAINING_ROWS = 32  # rows per list that the centroids are trained on
CALIBRATION_ROWS = 512
MAX_QUOTA = 1 << 18  # candidates per query at most


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


def _lloyd(rows: Tensor, centres: Tensor, steps: int) -> Tensor:
    """Lloyd's iterations; sums run over rows sorted by label, so they do not depend on thread order."""
    for _ in range(steps):
        label = nearest_centre(rows, centres)
        count = torch.bincount(label, minlength=len(centres))
        total = torch.segment_reduce(rows[label.argsort(stable=True)], "sum", lengths=count, axis=0)
        centres = torch.where(count[:, None] > 0, total / count.clamp(min=1)[:, None], centres)
    return centres


def sample_rows(n: int, size: int, random_state: int, device: torch.device) -> Tensor:
    """Row numbers drawn on the CPU (the same on every device), repetition allowed."""
    generator = torch.Generator().manual_seed(random_state)
    return torch.randint(n, (size,), generator=generator).to(device)


def build_index(x: Tensor, random_state: int = 0) -> Index:
    """Sort the rows of `x` into lists around k-means centroids, near lists next to each other."""
    n, d = x.shape
    chunk = 16 if d <= 16 else 32 if d <= 32 else 64
    mean = x.double().mean(0).to(x.dtype) if n < 1 << 20 else x.mean(0)
    rows = torch.zeros((n, -(-d // chunk) * chunk), dtype=x.dtype, device=x.device)
    torch.sub(x, mean, out=rows[:, :d])

    n_lists = min(MAX_LISTS, max(1, n // LIST_SIZE))
    training = rows[sample_rows(n, TRAINING_ROWS * n_lists, random_state, x.device)]
    centroids = _lloyd(training, training[:n_lists].clone(), LLOYD_STEPS)
    del training
    # number the lists so that near ones are near in memory too: the scan and every product with the
    # graph then find more of what they need in the cache
    groups = _lloyd(centroids, centroids[:: max(1, int(n_lists**0.5))].clone(), LLOYD_STEPS)
    centroids = centroids[nearest_centre(centroids, groups).argsort(stable=True)]
    label = nearest_centre(rows, centroids)
    order = label.argsort(stable=True)
    bounds = torch.zeros(n_lists + 1, dtype=torch.int64, device=x.device)
    torch.cumsum(torch.bincount(label, minlength=n_lists), 0, out=bounds[1:])
    return Index(rows[order], order, bounds, centroids, mean)


def quota_of(index: Index, home: Tensor, true: Neighbours, coverage: float, max_quota: int) -> int:
    """Fewest candidates per list that hold `coverage` of the true neighbours of a sample of queries.

    Parameters
    ----------
    index
        The inverted file.
    home
        List of every query of the sample.
    true
        Their neighbours among the sorted rows.
    coverage
        Share of these that the candidates must hold.
    max_quota
        Candidates at most; if that is too few, a warning is logged.
    """
    near = torch.cdist(index.centroids[home], index.centroids).argsort(dim=1)
    size = index.sizes[near]
    before = torch.empty_like(size).scatter_(1, near, size.cumsum(1) - size)
    lists = torch.searchsorted(index.bounds, true.indices, right=True) - 1
    needed = before.gather(1, lists).flatten().sort().values
    quota = int(needed[int(coverage * (len(needed) - 1))].item()) + 1
    if quota > max_quota:
        share = float((needed < max_quota).float().mean())
        logger.warning(
            "the inverted file reaches about %.2f of the neighbours: the rows have too many dimensions; "
            "reduce them, or compare all of them",
            share,
        )
    return min(len(index.rows), max_quota, max(quota, 4 * (true.k + MARGIN), 2 * LIST_SIZE))


class Plan(NamedTuple):
    """Which lists each list probes, nearest first, as one flat table."""

    bounds: Tensor
    lists: Tensor


def plan_lists(index: Index, quota: int) -> Plan:
    """Lists around each list's centroid, nearest first, until they hold `quota` rows."""
    n_lists = len(index.centroids)
    mean_size = len(index.rows) / n_lists
    width = min(n_lists, int(2 * quota / mean_size) + 8)
    chosen, count = [], []
    starts = pieces(n_lists, n_lists, workspace(index.rows.device))
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
    return Plan(bounds, torch.cat(chosen))


def ragged(starts: Tensor, lengths: Tensor) -> Tensor:
    """Concatenated ranges ``starts[i] … starts[i] + lengths[i] - 1``."""
    ends = lengths.cumsum(0)
    total = int(ends[-1].item()) if len(ends) else 0
    offset = torch.repeat_interleave(starts - (ends - lengths), lengths, output_size=total)
    return offset + torch.arange(total, device=starts.device)
