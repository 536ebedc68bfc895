"""Denoised and imputed features; see `harmonicalign.uses.smooth`."""

from harmonicalign.uses.smooth import *  # noqa: F403
from harmonicalign.uses.smooth import __all__ as __all__
