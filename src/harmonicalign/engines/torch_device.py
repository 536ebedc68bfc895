"""The torch engine: neighbours, kernel graphs and harmonics on the CPU or one CUDA device.

Functions take and return tensors and stay on their device; the ``*_numpy`` functions at the end go from
host to host. Nothing here is imported unless a device is asked for. Float32 throughout, small matrices in
float64.

Tolerances against the CPU: distances within 1e-5 relative (they are differences in full float32, whatever
found the candidates); neighbours exact up to ties below `EXACT_BELOW` rows, with a measured recall above;
eigenpairs with a residual of 1e-5, so eigenvalues within 1e-5. On one device a fixed `random_state` repeats
bit for bit: sums run in a fixed order.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harmonicalign._typing import FloatArray
from harmonicalign.engines.torch_neighbours import Index, build_index, exact_search, search
from harmonicalign.engines.torch_spectral import Csr, eigenpairs, gram, kernel, normalise

__all__ = [
    "EXACT_BELOW",
    "Csr",
    "Spectrum",
    "eigenpairs",
    "eigenpairs_numpy",
    "gram",
    "harmonics",
    "harmonics_numpy",
    "kernel",
    "kernel_numpy",
    "knn",
    "knn_numpy",
    "normalise",
    "recall",
    "resolve_device",
    "to_device",
    "to_host",
]

logger = logging.getLogger("harmonicalign")

EXACT_BELOW = 20_000  # rows under which tiles of the full distance matrix are quick enough

STAGING = 1 << 23  # numbers in a page-locked buffer on the way to the host


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """Device named by ``"cpu"``, ``"cuda"``, ``"cuda:1"`` … or ``"auto"``: CUDA where present, else the CPU.

    Raises
    ------
    RuntimeError
        A CUDA device was asked for by name and is not there.
    """
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        logger.info("device='auto': no CUDA device was found, the CPU is used")
        return torch.device("cpu")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', not {device!r}") from error
    if found.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', not {device!r}")
    if found.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise RuntimeError(
                f"device={str(device)!r} was asked for, but torch {torch.__version__} finds no CUDA device; "
                "use device='auto' to fall back to the CPU, or install a CUDA build of torch"
            )
        number = torch.cuda.current_device() if found.index is None else found.index
        if number >= count:
            raise RuntimeError(
                f"device={str(device)!r} was asked for, but there are only {count} CUDA devices"
            )
        return torch.device("cuda", number)
    return found


def _check_k(k: int, n: int, own: bool) -> None:
    if not 1 <= k <= n - own:
        raise ValueError(f"k must be between 1 and {n - own} for {n} rows, not {k}")


def knn(
    x: Tensor,
    k: int,
    *,
    queries: Tensor | None = None,
    random_state: int = 0,
    exact: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Nearest `k` rows of `x` to every query, Euclidean, ascending.

    Parameters
    ----------
    x
        Rows, float32.
    k
        Neighbours per query.
    queries
        Rows to find neighbours of; None: `x` itself, each row without itself.
    random_state
        Seed of the inverted file.
    exact
        True: tiles of the full distance matrix, ``O(n²)``; False: inverted file, about ``O(n^1.5)``;
        None: exact under `EXACT_BELOW` rows.

    Returns
    -------
    distances, indices
        Of shape ``(len(queries), k)``.
    """
    _check_k(k, len(x), queries is None)
    if exact if exact is not None else len(x) < EXACT_BELOW:
        own = torch.arange(len(x), device=x.device) if queries is None else None
        return exact_search(x, x if queries is None else queries, k, own)
    index = build_index(x, random_state)
    order, found_distances, found = search(index, k, queries, random_state=random_state)
    distances, indices = torch.empty_like(found_distances), torch.empty_like(found)
    distances[order] = found_distances
    indices[order] = index.order[found]
    return distances, indices


def recall(x: Tensor, indices: Tensor, n_sample: int = 1000, *, random_state: int = 0) -> float:
    """Share of the true neighbours of a sample of rows that `indices` holds; equally distant ones count."""
    k = indices.shape[1]
    generator = torch.Generator().manual_seed(random_state)
    chosen = torch.randint(len(x), (min(n_sample, len(x)),), generator=generator).to(x.device)
    true, _ = exact_search(x, x[chosen], k, chosen)
    found = (x[indices[chosen]] - x[chosen, None, :]).norm(dim=2)
    return float((found <= true[:, -1:] * (1 + 1e-5)).float().mean())


class Spectrum(NamedTuple):
    """Harmonics of one dataset's graph, rows as given."""

    values: Tensor
    vectors: Tensor
    degrees: Tensor
    distances: Tensor
    indices: Tensor


def harmonics(
    x: Tensor,
    k: int,
    *,
    n_neighbors: int = 30,
    n_bandwidth: int = 15,
    decay: float = 2.0,
    thresh: float = 1e-4,
    anisotropy: float = 0.0,
    tol: float = 1e-5,
    random_state: int = 0,
    exact: bool | None = None,
) -> Spectrum:
    """Rows to harmonics in one go: `knn`, `kernel`, `normalise`, `eigenpairs`.

    The same as calling the four, but the graph is kept in the inverted file's order, in which near rows are
    near in memory and sparse products find them in the cache.
    """
    _check_k(n_neighbors, len(x), True)
    index: Index | None = None
    if exact if exact is not None else len(x) < EXACT_BELOW:
        distances, found = knn(x, n_neighbors, exact=True)
    else:
        index = build_index(x, random_state)
        _, distances, found = search(index, n_neighbors, random_state=random_state)
        index = index._replace(rows=index.rows[:0])  # free the rows before the graph is built
    graph, degrees, _, _ = kernel(
        distances, found, n_bandwidth=n_bandwidth, decay=decay, thresh=thresh, anisotropy=anisotropy
    )
    values, vectors = eigenpairs(normalise(graph, degrees), degrees, k, tol=tol, random_state=random_state)
    if index is None:
        return Spectrum(values, vectors, degrees, distances, found)
    place = torch.empty_like(index.order)
    place[index.order] = torch.arange(len(place), device=place.device)
    return Spectrum(values, vectors[place], degrees[place], distances[place], index.order[found[place]])


def to_device(x: FloatArray, device: torch.device) -> Tensor:
    """Copy of an array in float32."""
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)).to(device)


def to_host(x: Tensor) -> NDArray[Any]:
    """Copy of a tensor as an array, through a page-locked buffer: several times quicker than ``.cpu()``."""
    if x.device.type == "cpu" or x.numel() < STAGING:
        array: NDArray[Any] = x.cpu().numpy()
        return array
    out = torch.empty(x.shape, dtype=x.dtype)
    flat, target = x.contiguous().view(-1), out.view(-1)
    stage = torch.empty(STAGING, dtype=x.dtype, pin_memory=True)
    for start in range(0, len(flat), STAGING):
        piece = flat[start : start + STAGING]
        target[start : start + STAGING].copy_(stage[: len(piece)].copy_(piece))
    return out.numpy()


def knn_numpy(
    x: FloatArray,
    k: int,
    *,
    queries: FloatArray | None = None,
    device: str = "auto",
    random_state: int = 0,
    exact: bool | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """`knn` from host to host."""
    where = resolve_device(device)
    rows = to_device(x, where)
    distances, indices = knn(
        rows,
        k,
        queries=None if queries is None else to_device(queries, where),
        random_state=random_state,
        exact=exact,
    )
    return to_host(distances), to_host(indices)


def kernel_numpy(
    distances: FloatArray,
    indices: NDArray[np.integer[Any]],
    *,
    n_bandwidth: int,
    decay: float = 2.0,
    thresh: float = 1e-4,
    anisotropy: float = 0.0,
    device: str = "auto",
) -> tuple[Any, NDArray[np.float32]]:
    """`kernel` from host to host: a ``scipy.sparse.csr_array`` and the degrees."""
    from scipy.sparse import csr_array

    where = resolve_device(device)
    graph, degrees, _, _ = kernel(
        to_device(distances, where),
        torch.from_numpy(np.ascontiguousarray(indices, dtype=np.int64)).to(where),
        n_bandwidth=n_bandwidth,
        decay=decay,
        thresh=thresh,
        anisotropy=anisotropy,
    )
    crow, col, val = (to_host(part) for part in graph)
    return csr_array((val, col, crow), shape=(graph.n, graph.n)), to_host(degrees)


def eigenpairs_numpy(
    operator: Any,
    degrees: FloatArray,
    k: int,
    *,
    tol: float = 1e-5,
    random_state: int = 0,
    device: str = "auto",
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """`eigenpairs` of a scipy CSR operator from host to host."""
    where = resolve_device(device)
    index = np.int32 if operator.nnz < 1 << 31 else np.int64
    crow, col = (
        torch.from_numpy(part.astype(index)).to(where) for part in (operator.indptr, operator.indices)
    )
    values, vectors = eigenpairs(
        Csr(crow, col, to_device(operator.data, where)),
        to_device(degrees, where),
        k,
        tol=tol,
        random_state=random_state,
    )
    return to_host(values), to_host(vectors)


def harmonics_numpy(
    x: FloatArray, k: int, *, device: str = "auto", **options: Any
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """`harmonics` from host to host: eigenvalues, eigenvectors, degrees."""
    spectrum = harmonics(to_device(x, resolve_device(device)), k, **options)
    return to_host(spectrum.values), to_host(spectrum.vectors), to_host(spectrum.degrees)
