"""AnnData and MuData in and out; see `harmonicalign.adapters.scverse`."""

from harmonicalign.adapters.scverse import *  # noqa: F403
from harmonicalign.adapters.scverse import __all__ as __all__
