"""``check``: what the inputs hold and what align would do with them, before anything is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harmonicalign.adapters import io
from harmonicalign.adapters.cli import _options as options
from harmonicalign.adapters.cli._fit import Fit
from harmonicalign.adapters.cli._groups import READING, SAYING, Reading, Saying
from harmonicalign.adapters.cli._inputs import load, reading_plan, sources
from harmonicalign.adapters.cli._preflight import Preflight
from harmonicalign.adapters.cli._session import BAD_INPUT, Session

__all__ = ["check"]

_MOST_LINES = 20

_BASE_SECONDS, _SECONDS_PER_ROW, _SECONDS_PER_VALUE = 1.5, 8e-4, 2e-8
"""From benchmarks/commands.py, on a core of a busy machine."""

_BYTES_PER_VALUE, _BASE_BYTES = 8, 4e8


def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES", help="Inputs as for align: two or more, or one with --batch-key, or one h5mu."
        ),
    ],
    reading: Reading = READING,
    layer: options.Layer = None,
    normalize: options.Normalize = None,
    links: options.Links = None,
    peaks: options.Peaks = None,
    anchors: options.Anchors = None,
    saying: Saying = SAYING,
) -> None:
    """Look at the inputs, and say what align would do with them; nothing is computed or written.

    Counts, logarithms or scaled values; names of the features and how many are shared; batches; cells of the
    same name; time and memory. The exit code is 2 if align would refuse them.
    """
    with saying.session("check") as run:
        fit = Fit(batch_key=reading.batch_key, arcsinh=reading.arcsinh, layer=layer, normalize=normalize,
                  links=links, peaks=peaks, anchors=anchors)  # fmt: skip
        inputs = sources(files)
        run.stages.expect(reading_plan(inputs))
        # A matrix that is not transformed need not be read as a whole.
        data = load(run, inputs, **vars(reading), backed=reading.arcsinh is None)
        seen = fit.preflight(data, inputs)
        rows = sum(about.rows for about in seen.datasets)
        seconds, memory = _cost(seen, [source.path for source in inputs])
        _tell(run, seen, seconds, memory)
        if seen.problems:
            run.exit_code = BAD_INPUT
        run.finish(
            **seen.summary(), rows=rows, seconds_expected=round(seconds), gigabytes_expected=round(memory, 1)
        )


def _cost(seen: Preflight, files: list[Path]) -> tuple[float, float]:
    """Roughly how many seconds and GB an alignment takes, on one core."""
    rows = sum(about.rows for about in seen.datasets)
    values = sum(about.rows * about.features * (1 - about.zeros) for about in seen.datasets)
    seconds = _BASE_SECONDS + _SECONDS_PER_ROW * rows + _SECONDS_PER_VALUE * values
    # A sparse matrix holds a number and a column for every value that is not zero; joined, twice.
    memory = _BASE_BYTES + 2 * _BYTES_PER_VALUE * values
    packed = any(io.find_format(file).name in ("csv", "tsv") for file in files)
    return seconds * (1.5 if packed else 1.0), memory / 1e9


def _tell(run: Session, seen: Preflight, seconds: float, memory: float) -> None:
    lines = [about.line() for about in seen.datasets]
    run.table(lines[:_MOST_LINES], list(lines[0]))
    if len(lines) > _MOST_LINES:
        sizes = sorted(about.rows for about in seen.datasets)
        run.say(f"  … and {len(lines) - _MOST_LINES} more; the smallest of all has {sizes[0]:,} cells")
    run.say(f"  shared features: {seen.shared:,}")
    for text in seen.plan:
        run.say(f"  {text}")
    run.say(f"  about {_rounded(seconds)} and {memory:.1f} GB of memory")
    for text in seen.warnings:
        run.warn(text)
    for text in seen.problems:
        run.problem(text)
    if seen.problems:
        run.say("align would refuse these inputs.", "bold")
    else:
        run.say("align would take these inputs." if not seen.warnings else
                "align would take these inputs; mind the warnings.", "bold")  # fmt: skip


def _rounded(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{seconds / 60:.0f} min"
