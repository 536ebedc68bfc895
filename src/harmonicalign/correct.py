"""Corrected features; see `harmonicalign.uses.correct`."""

from harmonicalign.uses.correct import *  # noqa: F403
from harmonicalign.uses.correct import __all__ as __all__
