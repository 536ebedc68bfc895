"""What a long fit tells while it runs: stages, with the time each took."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Progress"]

logger = logging.getLogger("harmonicalign")


class Progress:
    """Reports stages to the log, and to standard error if `verbose`.

    Attributes
    ----------
    timings
        Seconds spent in every stage so far, by name.
    """

    def __init__(self, verbose: bool = False) -> None:
        self.verbose = verbose
        self.timings: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time one stage."""
        start = time.perf_counter()
        if self.verbose:
            print(f"harmonicalign: {name} …", end="", file=sys.stderr, flush=True)
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            self.timings[name] = self.timings.get(name, 0.0) + seconds
            logger.debug("%s took %.2f s", name, seconds)
            if self.verbose:
                print(f" {seconds:.2f} s", file=sys.stderr, flush=True)
