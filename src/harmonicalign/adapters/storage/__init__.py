"""Models in one file, from which nothing is ever executed: `trees` of known types, and what `models` hold."""

from harmonicalign.adapters.storage.models import TYPES, Stored, read_alignment, write_alignment
from harmonicalign.adapters.storage.trees import FORMAT, read_tree, write_tree

__all__ = ["FORMAT", "TYPES", "Stored", "read_alignment", "read_tree", "write_alignment", "write_tree"]
