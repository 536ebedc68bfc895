"""Fits on a Dask cluster; see `harmonicalign.adapters.distributed`."""

from harmonicalign.adapters.distributed import *  # noqa: F403
from harmonicalign.adapters.distributed import __all__ as __all__
