"""Whether datasets are aligned, and the figures that say so; see `harmonicalign.adapters.verdict`."""

from harmonicalign.adapters.verdict import Assessment, Finding, Verdict, assess

__all__ = ["Assessment", "Finding", "Verdict", "assess"]
