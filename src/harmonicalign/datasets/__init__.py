"""Data with known truth: the paper's corrupted digits, sampled manifolds, clusters; and MNIST from files.

Every generator takes a ``random_state`` (None, a seed, a ``RandomState`` or a ``Generator``) and does not
use the global one.
"""

from harmonicalign.datasets.clusters import ClustersPair, clusters_pair
from harmonicalign.datasets.corrupted import (
    CorruptedPair,
    corrupted_pair,
    corruption_matrix,
    load_digits_pair,
)
from harmonicalign.datasets.manifolds import ManifoldPair, sphere, swiss_roll, torus_knot, tree
from harmonicalign.datasets.mnist import load_mnist

__all__ = [
    "ClustersPair",
    "CorruptedPair",
    "ManifoldPair",
    "clusters_pair",
    "corrupted_pair",
    "corruption_matrix",
    "load_digits_pair",
    "load_mnist",
    "sphere",
    "swiss_roll",
    "torus_knot",
    "tree",
]
