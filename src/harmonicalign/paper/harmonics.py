r"""A graph to its harmonics: eigenbasis, graph Fourier transform, diffusion map (Sec. 3.1 and 3.2).

The harmonics ``ψ_j`` are eigenvectors of ``A = D^-½ K D^-½ = I − 𝓛`` with eigenvalues ``λ_j``,
largest (lowest frequency) first. Diffusion coordinates are ``φ_j = (D/ΣD)^-½ ψ_j``: dividing D by
its sum gives entries of size about 1 however many rows there are.

Conventions: the trivial eigenvector ``√D/‖√D‖`` is known exactly and deflated; so are the
other eigenvectors of a disconnected graph with eigenvalue 1 (its components), which are kept; every
harmonic's entry of largest magnitude is positive.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._exceptions import DisconnectedGraphWarning
from harmonicalign._repr import short_repr
from harmonicalign._typing import Array
from harmonicalign.engines.eigen import HostSolver
from harmonicalign.engines.protocols import EigenSolver
from harmonicalign.engines.rows import canonical_signs
from harmonicalign.inputs.validate import check_integer, check_number, random_state_from
from harmonicalign.paper.graph import Graph

__all__ = ["Harmonics", "harmonics"]


_LEAST_EIGENVALUE = 0.02
"""Extension to new rows divides by eigenvalues; those below this are treated as this."""


@dataclass(frozen=True)
class Harmonics:
    """The leading harmonics of one dataset.

    Attributes
    ----------
    psi
        Orthonormal eigenvectors ψ of A, one per column, (n, k); the trivial one is left out.
    eigenvalues
        Their eigenvalues λ, largest first, (k,).
    degrees
        Degrees of the graph's rows, (n,).
    graph
        The graph, for extension to new rows.
    exponent
        Power τ to which the eigenvalues are raised where frequencies of several datasets are
        compared (see `harmonicalign.paper.align.calibrate`); 1 leaves them as they are.
    """

    __repr__ = short_repr

    psi: Array
    eigenvalues: Array
    degrees: Array
    graph: Graph
    exponent: float = 1.0

    @property
    def n_rows(self) -> int:
        """Number of rows of the dataset."""
        return int(self.psi.shape[0])

    @property
    def k(self) -> int:
        """Number of harmonics."""
        return int(self.psi.shape[1])

    @property
    def frequencies(self) -> Array:
        """Eigenvalues as frequencies, ``max(λ, 0)^τ`` in [0, 1]; 1 is the lowest frequency."""
        return np.asarray(np.clip(self.eigenvalues, 0.0, 1.0) ** self.exponent)

    @property
    def phi(self) -> Array:
        """Diffusion coordinates ``φ_j = (D/ΣD)^-½ ψ_j``, (n, k)."""
        scale = np.sqrt(self.degrees.sum() / self.degrees)
        return np.asarray(self.psi * scale.astype(self.psi.dtype, copy=False)[:, None])

    def diffusion_map(self, t: float = 1.0) -> Array:
        """Diffusion map ``Φ_t = Φ Λ^t``, (n, k)."""
        return self.phi * self.frequencies ** check_number("t", t, minimum=0)

    def gft(self, signals: Any) -> Array:
        """Graph Fourier transform ``f̂ = Ψᵀ f`` of every column, (k, number of signals)."""
        if signals.shape[0] != self.n_rows:
            raise ValueError(f"signals has {signals.shape[0]} rows; the dataset has {self.n_rows}")
        if sp.issparse(signals):
            return np.asarray((signals.T @ self.psi).T)
        return np.asarray(self.psi.T @ signals)

    def inverse_gft(self, coefficients: Array) -> Array:
        """Signals with the given Fourier coefficients, ``Ψ f̂``, (n, number of signals)."""
        return np.asarray(self.psi @ coefficients)

    def truncate(self, k: int) -> Harmonics:
        """The first k of these harmonics."""
        return replace(self, psi=self.psi[:, :k], eigenvalues=self.eigenvalues[:k])

    def extend(self, transitions: sp.csr_matrix) -> Array:
        """Diffusion coordinates of new rows by the Nyström formula ``φ(x) = Σ_y p(x, y) φ(y) / λ``.

        High frequencies cannot be extended reliably: eigenvalues below 0.02 are treated as 0.02,
        which shrinks their coordinates instead of amplifying noise.

        Parameters
        ----------
        transitions
            Probabilities p from new rows to the dataset's rows, from `Graph.extend`, (m, n).
        """
        return self.over_eigenvalues(transitions @ self.phi)

    def over_eigenvalues(self, averages: Array) -> Array:
        """Diffusion coordinates of rows from the averages over their neighbours, ``P φ / λ``."""
        return np.asarray(averages) / np.maximum(self.eigenvalues, _LEAST_EIGENVALUE)


def harmonics(
    graph: Graph,
    k: int | None = None,
    *,
    random_state: Any = 0,
    name: str = "the data",
    solver: EigenSolver | None = None,
) -> Harmonics:
    """Leading harmonics of a graph.

    Parameters
    ----------
    graph
        The kernel graph of one dataset.
    k
        Number of harmonics, at most n − 1; by default all, from a full decomposition.
    random_state
        Seed of the eigensolver's start vector.
    name
        Name of the dataset in warnings.
    solver
        What finds the eigenpairs (see `harmonicalign.engines.EigenSolver`); by default the package's own
        solver on the CPU.

    Returns
    -------
    harmonics
        Eigenvectors and eigenvalues, lowest frequency first.

    Warns
    -----
    DisconnectedGraphWarning
        If the graph has several components. Its harmonics then start with combinations of the
        components' indicators (eigenvalue 1).
    """
    n = graph.n_rows
    k = n - 1 if k is None else check_integer("k", k, minimum=1, maximum=n - 1)
    sizes = graph.component_sizes
    if sizes.size > 1:
        shown = ", ".join(str(size) for size in np.sort(sizes)[::-1][:8]) + (", …" if sizes.size > 8 else "")
        warnings.warn(
            f"the graph of {name} has {sizes.size} components (sizes {shown}); raise n_neighbors, "
            "or align the components separately",
            DisconnectedGraphWarning,
            stacklevel=2,
        )
    stationary = _component_vectors(graph)
    indicators = _orthogonal_to_trivial(stationary, graph, k)
    solver = HostSolver() if solver is None else solver
    values, vectors = solver(
        graph.operator,
        k - indicators.shape[1],
        deflate=stationary,
        random_state=random_state_from(random_state),
    )
    psi = canonical_signs(np.hstack([indicators, vectors]))
    eigenvalues = np.concatenate([np.ones(indicators.shape[1]), values])
    return Harmonics(psi=psi, eigenvalues=eigenvalues, degrees=graph.degrees, graph=graph)


def _component_vectors(graph: Graph) -> sp.csr_matrix:
    """Eigenvectors of eigenvalue 1: √D restricted to each component, unit length, (n, components)."""
    root = np.sqrt(graph.degrees)
    length = np.sqrt(np.bincount(graph.components, weights=graph.degrees))
    n, c = graph.n_rows, length.size
    return sp.csr_matrix((root / length[graph.components], (np.arange(n), graph.components)), shape=(n, c))


def _orthogonal_to_trivial(stationary: sp.csr_matrix, graph: Graph, k: int) -> Array:
    """The first k vectors of an orthonormal basis of the eigenvalue-1 space without the trivial eigenvector.

    The components come heaviest first; vector j contrasts component j with all lighter ones,
    so that the leading vectors separate the large components.
    """
    mass = np.bincount(graph.components, weights=graph.degrees)
    c = mass.size
    root = np.sqrt(mass / mass.sum())
    # A graph can fall apart into tens of thousands of components: only the vectors that are wanted are made.
    basis = np.zeros((c, min(c - 1, k)))
    for j in range(basis.shape[1]):
        rest = mass[j + 1 :].sum()
        basis[j, j] = np.sqrt(rest / (mass[j] + rest))
        basis[j + 1 :, j] = -root[j] * root[j + 1 :] / np.sqrt((mass[j] + rest) * rest) * mass.sum()
    return np.asarray(stationary @ basis)
