"""Small datasets on a common manifold, and their harmonics."""

import numpy as np

from harmonicalign import harmonics, kernel_graph


def sample(n, seed, width=12):
    rng = np.random.RandomState(seed)
    latent = rng.uniform(-1, 1, (n, 2)) * [2, 1]
    maps = np.random.RandomState(99).randn(2, width)
    return np.c_[latent, np.sin(2 * latent @ maps), np.cos(3 * latent @ maps)]


def basis(rows, k=None, **options):
    return harmonics(kernel_graph(rows, n_neighbors=8, **options), k)
