# mypy: ignore-errors
"""Triton kernels behind the torch engine; imported only where CUDA and Triton are present.

Loops that plain torch cannot run at the chip's speed, because it would write and read back all intermediates:
the nearest centroid of every row, the best candidates of every row, their distances in full precision, and a
sparse product fused with the three-term recurrence of the Chebyshev filter.
"""

import torch
import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources

__all__ = [
    "NEAREST_COLUMNS",
    "SCAN_BLOCK",
    "SCAN_TILE",
    "OutOfResources",
    "nearest",
    "pair_distances",
    "scan",
    "spmm",
]

SCAN_TILE = 128  # candidates per step of the scan, and bins per row
SCAN_BLOCK = 128  # queries per program
NEAREST_COLUMNS = 128  # columns up to which the nearest centroid's working set fits a multiprocessor


@triton.jit
def _nearest_kernel(
    rows,
    centres,
    norms,
    out,
    n_rows,
    n_centres,
    CHUNKS: tl.constexpr,
    BK: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, BN)
    k = tl.arange(0, BK)
    width = CHUNKS * BK
    best = tl.full([BM, BN], float("inf"), tl.float32)
    step = tl.zeros([BM, BN], tl.int32)
    for start in range(0, n_centres, BN):
        acc = tl.zeros([BM, BN], tl.float32)
        inside = start + c < n_centres
        for chunk in tl.static_range(CHUNKS):
            x = tl.load(
                rows + r[:, None] * width + chunk * BK + k[None, :], mask=(r < n_rows)[:, None], other=0.0
            )
            y = tl.load(
                centres + (start + c)[:, None] * width + chunk * BK + k[None, :],
                mask=inside[:, None],
                other=0.0,
            )
            acc = tl.dot(x, tl.trans(y), acc, input_precision="tf32x3")
        norm = tl.load(norms + start + c, mask=inside, other=float("inf"))
        d = norm[None, :] - 2.0 * acc
        better = d < best
        best = tl.where(better, d, best)
        step = tl.where(better, start, step)
    lowest = tl.min(best, axis=1)
    label = tl.where(best == lowest[:, None], step + c[None, :], n_centres)
    tl.store(out + r, tl.min(label, axis=1), mask=r < n_rows)


@triton.jit
def _scan_kernel(
    queries,
    query_norms,
    rows,
    centres,
    scales,
    query_list,
    query_start,
    query_end,
    probe_bounds,
    probe_start,
    probe_end,
    out_key,
    out_row,
    first_tile,
    first_query,
    n_splits,
    INDEX_MASK: tl.constexpr,
    CHUNKS: tl.constexpr,
    BK: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    tile = first_tile + tl.program_id(0)
    split = tl.program_id(1)
    home = tl.load(query_list + tile)
    q = tl.load(query_start + tile) + tl.arange(0, BM)
    q_inside = q < tl.load(query_end + tile)
    q = q.to(tl.int64) - first_query
    b = tl.arange(0, BN)
    k = tl.arange(0, BK)
    width = CHUNKS * BK
    scale = tl.load(scales + home)
    centres += home.to(tl.int64) * width
    q_norm = tl.load(query_norms + q, mask=q_inside, other=0.0)

    first = tl.full([BM, BN], 0x7FFFFFFF, tl.int32)
    second = tl.full([BM, BN], 0x7FFFFFFF, tl.int32)
    begin = tl.load(probe_bounds + home)
    end = tl.load(probe_bounds + home + 1)
    for p in range(begin + split, end, n_splits):
        r = tl.load(probe_start + p) + b
        r_inside = r < tl.load(probe_end + p)
        r = r.to(tl.int64)
        norm = tl.zeros([BN], tl.float32)
        dot = tl.zeros([BM, BN], tl.float32)
        for chunk in tl.static_range(CHUNKS):
            at = chunk * BK + k
            x = tl.load(queries + q[:, None] * width + at[None, :], mask=q_inside[:, None], other=0.0)
            y = tl.load(rows + r[:, None] * width + at[None, :], mask=r_inside[:, None], other=0.0)
            y = (y - tl.load(centres + at)[None, :]) * scale
            norm += tl.sum(y * y, axis=1)
            # a clamped product is too small, which leaves a far candidate far
            y = tl.minimum(tl.maximum(y, -60000.0), 60000.0).to(tl.float16)
            dot = tl.dot(x, tl.trans(y), dot)
        norm = tl.where(r_inside, norm, float("inf"))
        d = tl.maximum(q_norm[:, None] + norm[None, :] - 2.0 * dot, 0.0)
        # bits of a float that is not negative order as an integer; the lowest ones carry the step
        key = (d.to(tl.int32, bitcast=True) & ~INDEX_MASK) | (p - begin).to(tl.int32)
        second = tl.minimum(second, tl.maximum(first, key))
        first = tl.minimum(first, key)

    o = q[:, None] * (n_splits * 2 * BN) + split * (2 * BN) + b[None, :]
    for depth in tl.static_range(2):
        key = first if depth == 0 else second
        known = key < 0x7F800000
        row = tl.load(probe_start + begin + (key & INDEX_MASK), mask=known, other=0) + b[None, :]
        key = tl.where(known, key, 0x7F800000)
        tl.store(out_key + o + depth * BN, key, mask=q_inside[:, None])
        tl.store(out_row + o + depth * BN, tl.where(known, row, -1), mask=q_inside[:, None])


@triton.jit
def _pair_kernel(
    queries,
    rows,
    candidates,
    out,
    n_candidates,
    CHUNKS: tl.constexpr,
    BK: tl.constexpr,
    BC: tl.constexpr,
):
    q = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BC)
    k = tl.arange(0, BK)
    width = CHUNKS * BK
    inside = c < n_candidates
    j = tl.load(candidates + q * n_candidates + c, mask=inside, other=-1).to(tl.int64)
    known = j >= 0
    d = tl.zeros([BC], tl.float32)
    for chunk in tl.static_range(CHUNKS):
        x = tl.load(queries + q * width + chunk * BK + k)
        y = tl.load(rows + j[:, None] * width + chunk * BK + k[None, :], mask=known[:, None], other=0.0)
        y -= x[None, :]
        d += tl.sum(y * y, axis=1)
    tl.store(out + q * n_candidates + c, tl.where(known, d, float("inf")), mask=inside)


@triton.jit
def _spmm_kernel(
    crow,
    col,
    val,
    x,
    z,
    out,
    alpha,
    beta,
    gamma,
    width,
    HAS_Z: tl.constexpr,
    BE: tl.constexpr,
    BP: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BP + tl.arange(0, BP)
    c_inside = c < width
    entry = tl.arange(0, BE)
    begin = tl.load(crow + row)
    end = tl.load(crow + row + 1)
    acc = tl.zeros([BP], tl.float32)
    for start in range(begin, end, BE):
        inside = start + entry < end
        j = tl.load(col + start + entry, mask=inside, other=0).to(tl.int64)
        v = tl.load(val + start + entry, mask=inside, other=0.0)
        g = tl.load(x + j[:, None] * width + c[None, :], mask=inside[:, None] & c_inside[None, :], other=0.0)
        acc += tl.sum(v[:, None] * g, axis=0)
    own = tl.load(x + row * width + c, mask=c_inside, other=0.0)
    y = alpha * acc + beta * own
    if HAS_Z:
        y += gamma * tl.load(z + row * width + c, mask=c_inside, other=0.0)
    tl.store(out + row * width + c, y, mask=c_inside)


def _chunks(width: int) -> tuple[int, int]:
    """Number and size of the column chunks: the widest power of two up to 64 that divides the width."""
    size = next(b for b in (64, 32, 16) if width % b == 0)
    return width // size, size


def nearest(rows: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    """Number of the nearest centre of every row; widths must be multiples of 16."""
    out = torch.empty(len(rows), dtype=torch.int32, device=rows.device)
    chunks, size = _chunks(rows.shape[1])
    norms = centres.square().sum(1)
    grid = (triton.cdiv(len(rows), 128),)
    with torch.cuda.device(rows.device):
        _nearest_kernel[grid](
            rows,
            centres,
            norms,
            out,
            len(rows),
            len(centres),
            chunks,
            size,
            128,
            64,
            num_warps=8,
            num_stages=2,
        )
    return out.long()


def scan(
    queries: torch.Tensor,
    query_norms: torch.Tensor,
    rows: torch.Tensor,
    centres: torch.Tensor,
    scales: torch.Tensor,
    query_tiles: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    probe_bounds: torch.Tensor,
    probes: tuple[torch.Tensor, torch.Tensor],
    *,
    tile_range: tuple[int, int],
    first_query: int,
    n_splits: int,
    index_bits: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Best candidates of a range of queries: keys of squared distance, and row numbers (-1: none).

    `queries` are half-precision differences from their list's centre, times the list's scale: products of
    such residuals lose little, however far from the origin or close together the rows are.
    """
    shape = (len(queries), n_splits * 2 * SCAN_TILE)
    key = torch.empty(shape, dtype=torch.int32, device=rows.device)
    row = torch.empty(shape, dtype=torch.int32, device=rows.device)
    chunks, size = _chunks(rows.shape[1])
    grid = (tile_range[1] - tile_range[0], n_splits)
    with torch.cuda.device(rows.device):
        _scan_kernel[grid](
            queries,
            query_norms,
            rows,
            centres,
            scales,
            *query_tiles,
            probe_bounds,
            *probes,
            key,
            row,
            tile_range[0],
            first_query,
            n_splits,
            (1 << index_bits) - 1,
            chunks,
            size,
            SCAN_BLOCK,
            SCAN_TILE,
            num_warps=8,
            num_stages=2 if chunks == 2 else 1,  # as measured; more chunks in flight do not fit
        )
    return key, row


def pair_distances(queries: torch.Tensor, rows: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Squared distance of every query to each of its candidates, in float32; infinite for candidate -1."""
    n, width = candidates.shape
    out = torch.empty((n, width), dtype=rows.dtype, device=rows.device)
    shape = (*_chunks(rows.shape[1]), triton.next_power_of_2(width))
    with torch.cuda.device(rows.device):
        _pair_kernel[(n,)](queries, rows, candidates, out, width, *shape, num_warps=2)
    return out


def spmm(
    crow: torch.Tensor,
    col: torch.Tensor,
    val: torch.Tensor,
    x: torch.Tensor,
    z: torch.Tensor | None,
    out: torch.Tensor,
    alpha: float,
    beta: float,
    gamma: float,
) -> torch.Tensor:
    """``out = alpha A x + beta x + gamma z`` for a square CSR matrix and row-major blocks."""
    width = x.shape[1]
    columns = next(
        (b for b in (128, 64, 32) if width % b == 0), min(128, max(16, triton.next_power_of_2(width)))
    )
    with torch.cuda.device(x.device):
        _spmm_kernel[(len(crow) - 1, triton.cdiv(width, columns))](
            crow,
            col,
            val,
            x,
            x if z is None else z,
            out,
            alpha,
            beta,
            gamma,
            width,
            z is not None,
            16 if columns < 128 else 8,  # stored entries per step, as measured
            columns,
            num_warps=1,
        )
    return out
