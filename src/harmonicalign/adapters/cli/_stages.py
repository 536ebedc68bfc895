"""Progress: current stage, fraction done, time left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from harmonicalign import _progress

__all__ = ["Stages", "fit_plan"]

Plan = Sequence[tuple[str, float]]


def fit_plan(n_datasets: int, method: str = "refined") -> Plan:
    """Stages of a fit in their order, with the share of the time that each takes, roughly."""
    if method == "paper" or n_datasets == 1:
        return [*[("graph", 1.0), ("harmonics", 2.0)] * n_datasets, ("alignment", 0.5)]
    # Before data are read, their sizes are not known; stages of the commands cost a few times this.
    return [(name, 3 * cost) for name, cost in _progress.fit_plan([2000] * n_datasets, n_datasets - 1, 2000)]


class Stages:
    """A bar on a terminal, a line per stage elsewhere, nothing if quiet; on standard error.

    The time left is extrapolated from finished stages.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self.console, self.quiet = console, quiet
        self.plan: list[tuple[str, float]] = []
        self.spent: list[tuple[str, float]] = []
        self.done = 0.0
        self.bar: Any = None
        if console.is_terminal and not quiet:
            self.bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                console=console,
                transient=True,
            )
            self.task = self.bar.add_task("", total=1.0, left="")

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the bar before results are printed."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
            self.quiet = True

    def expect(self, plan: Plan) -> None:
        """Stages that will follow what is planned already."""
        self.plan.extend(plan)
        self._show()

    def expect_first(self, plan: Plan) -> None:
        """Stages that come before what is planned already."""
        self.plan[:0] = plan
        self._show()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """One stage of the command itself."""
        self.began(name)
        start = time.perf_counter()
        yield
        self.ended(name, time.perf_counter() - start)

    def began(self, name: str) -> None:
        """A stage has begun."""
        if self.bar is not None:
            self.bar.update(self.task, description=name)

    def ended(self, name: str, seconds: float) -> None:
        """A stage has ended."""
        self.spent.append((name, seconds))
        # Plans are estimates: the next stage of a similar name is marked as done, with all before it.
        place = next((i for i, (planned, _) in enumerate(self.plan) if name.startswith(planned)), None)
        if place is not None:
            self.done += sum(weight for _, weight in self.plan[: place + 1])
            del self.plan[: place + 1]
        if self.bar is not None:
            self._show()
        elif not self.quiet:
            self.console.print(Text(f"{name} ({seconds:.1f} s)"))

    def note(self, text: Text) -> None:
        """A permanent line of output."""
        (self.console if self.bar is None else self.bar.console).print(text)

    def left(self) -> float | None:
        """Seconds until the end, or None before the first stage has ended."""
        rest = sum(weight for _, weight in self.plan)
        if not self.done:
            return None
        return sum(seconds for _, seconds in self.spent) / self.done * rest

    def _show(self) -> None:
        if self.bar is None:
            return
        rest = sum(weight for _, weight in self.plan)
        share = self.done / (self.done + rest) if self.done + rest else 0.0
        left = self.left()
        text = (
            ""
            if left is None
            else f"about {left:.0f} s left"
            if left < 90
            else f"about {left / 60:.0f} min left"
        )
        following = self.plan[0][0] if self.plan else ""
        self.bar.update(self.task, completed=share, left=text, description=following)
