"""Pictures of datasets and alignments; see `harmonicalign.adapters.plot`."""

from harmonicalign.adapters.plot import *  # noqa: F403
from harmonicalign.adapters.plot import __all__ as __all__
