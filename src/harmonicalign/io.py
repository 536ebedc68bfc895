"""Data files of every kind, read and written; see `harmonicalign.adapters.io`."""

from harmonicalign.adapters.io import *  # noqa: F403
from harmonicalign.adapters.io import __all__ as __all__
