"""Progress of a long fit: its stages, the time each took, and about how much is left."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["FEW_DATASETS", "Progress", "fit_plan", "listening"]

logger = logging.getLogger("harmonicalign")

Listener = Callable[[str, float | None], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell `listener` of every stage of the fits inside: its name and None, then its name and seconds."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


FEW_DATASETS = 3
"""Up to so many datasets every one is a stage of its own; more are worked on side by side in one stage."""


def fit_plan(sizes: Sequence[int], n_pairs: int, n_landmarks: int) -> list[tuple[str, float]]:
    """Stages of a refined fit in their order, each with its cost relative to the others.

    Parameters
    ----------
    sizes
        Rows of every dataset.
    n_pairs
        Pairs of datasets that are aligned with each other.
    n_landmarks
        Rows of each that take part in that.
    """
    part = min(max(sizes), n_landmarks) / 2000
    n = sum(sizes)
    harmonics = [("harmonics", 0.2 * part + size / 1e6) for size in sizes]
    pairs = [("alignment", part)] * n_pairs
    if len(sizes) > FEW_DATASETS:
        harmonics = [("harmonics", sum(cost for _, cost in harmonics))]
        pairs = [("alignment", part * n_pairs)]
    return [
        *harmonics,
        *pairs,
        ("joint space", 0.3 * part + n / 1e5),
        ("embedding", n / 5e4),
    ]


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
        self._plan: list[tuple[str, float]] = []
        self._done = 0

    def expect(self, plan: Sequence[tuple[str, float]]) -> None:
        """Name the stages that will follow, with their relative costs."""
        self._plan = list(plan)

    @property
    def seconds_left(self) -> float | None:
        """Time left at the pace of the stages that have ended; None before the first has ended."""
        spent = sum(cost for _, cost in self._plan[: self._done])
        if not spent:
            return None
        return sum(self.timings.values()) / spent * sum(cost for _, cost in self._plan[self._done :])

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time one stage."""
        start = time.perf_counter()
        notify = _listener.get()
        if notify is not None:
            notify(name, None)
        if self.verbose:
            number = f"[{self._done + 1}/{len(self._plan)}] " if self._plan else ""
            print(f"harmonicalign: {number}{name} …", end="", file=sys.stderr, flush=True)
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            self.timings[name] = self.timings.get(name, 0.0) + seconds
            self._done += 1
            logger.debug("%s took %.2f s", name, seconds)
            if notify is not None:
                notify(name, seconds)
            if self.verbose:
                left = self.seconds_left
                rest = "" if left is None else f", about {left:.0f} s left"
                print(f" {seconds:.2f} s{rest}", file=sys.stderr, flush=True)
