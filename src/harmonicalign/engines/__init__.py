"""Array engines: neighbours, eigenpairs and tall products for numpy, faiss and torch.

The lowest room. It knows arrays and devices, and nothing of datasets, graphs or users.
"""
