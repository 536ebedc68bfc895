"""The report on a fitted alignment; see `harmonicalign.adapters.report`."""

from harmonicalign.adapters.report import *  # noqa: F403
from harmonicalign.adapters.report import __all__ as __all__
