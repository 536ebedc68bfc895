"""The experiments of the paper and the methods it compares with.

``reproduce("corruption", data="mnist.npz")`` runs one experiment, ``reproduce("all", quick=True)`` all of
them on small data that need no download; ``compare`` runs every method on datasets of your own.
"""

from harmonicalign.experiments._data import DataError
from harmonicalign.experiments._runner import Report
from harmonicalign.experiments.compare import compare
from harmonicalign.experiments.reproduce import NAMES, describe, reproduce

__all__ = ["NAMES", "DataError", "Report", "compare", "describe", "reproduce"]
