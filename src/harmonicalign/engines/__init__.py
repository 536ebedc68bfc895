"""Array engines: neighbours, eigenpairs and tall products for numpy, faiss and torch.

The lowest room. It knows arrays and devices, and nothing of datasets, graphs or users. What any engine
promises is in `protocols`; `faiss_neighbours`, `torch_neighbours` and `torch_cuda` find neighbours, `eigen`,
`block` and `torch_spectral` eigenpairs, and `rows` holds what is the same for arrays of every kind.
"""

from harmonicalign.engines.protocols import Eigenpairs, EigenSolver, NeighbourEngine, Neighbours

__all__ = ["EigenSolver", "Eigenpairs", "NeighbourEngine", "Neighbours"]
