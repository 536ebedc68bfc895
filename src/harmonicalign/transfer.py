"""Labels and values transferred between datasets; see `harmonicalign.uses.transfer`."""

from harmonicalign.uses.transfer import *  # noqa: F403
from harmonicalign.uses.transfer import __all__ as __all__
