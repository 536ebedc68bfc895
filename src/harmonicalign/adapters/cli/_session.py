"""Shared by all commands: progress, messages, one result, and exit codes."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from harmonicalign._exceptions import AlignmentWarning
from harmonicalign._progress import listening
from harmonicalign._version import __version__
from harmonicalign.adapters.cli._stages import Stages
from harmonicalign.adapters.io._errors import is_refusal, one_line, write_error

__all__ = ["BAD_INPUT", "EXIT_CODES", "INTERRUPTED", "NOT_ALIGNED", "UNEXPECTED", "Session", "session"]

UNEXPECTED, BAD_INPUT, NOT_ALIGNED, INTERRUPTED = 1, 2, 3, 130

EXIT_CODES = {
    0: "done",
    UNEXPECTED: "unexpected error; --debug shows where",
    BAD_INPUT: "bad input, options or target: one sentence says which; nothing was written",
    NOT_ALIGNED: "with --strict: finished, but the verdict is not 'Aligned', or is in doubt",
    INTERRUPTED: "interrupted (Ctrl-C); no partial files are left",
}

_TERMS = (
    (r"allow replacing it \(force\)", "replace it with --force"),
    (r"normalize=True", "--normalize all"),
    (r"device='auto'", "--device auto"),
    (r"anchors='obs_names'", "--anchors obs_names"),
    (r"^covariates:", "--covariate:"),
    (r"leave covariates out", "leave --covariate out"),
    (r"set its var_names to that column", "match by it with --var-key"),
    (r"call var_names_make_unique\(\) first", "make them unique, or match by another column with --var-key"),
    (r"(?<![\w\-\[.])(batch_key|use_rep|n_vars|key_added)\b", lambda m: "--" + m[1].replace("_", "-")),
    (r"^methods has\b", "--method is"),
    (r"say which do by links, or by peaks and genes", "match by another column with --var-key, or say which "
     "correspond by --links, or by --peaks and --genes"),
    (r"n_vars changes that", "--n-vars changes that"),
    (r"variables=\[…\]", "--var"),
    (r"\b(\w+)=(\S+) serves method='(\w+)' and is not used by method='(\w+)'; drop \w+, or use method=\S+",
     r"--param \1=\2 is for --method \3 and is not used by --method \4; drop it"),
    (r"^comparison\b", "--comparison"),
    (r"^key ('[^']*') is taken", r"--name: \1 is taken"),
    (r"^(method|device|links|peaks|genes|anchors|layer|normalize)"
     r"(?= is\b| must be\b|:| needs\b| joins\b| names\b| expects\b)", r"--\1"),
    (r"^([a-z]+(?:_[a-z]+)+)(?= is\b| must be\b)", r"--param \1"),
)  # fmt: skip
"""Command line options for the corresponding Python parameters, as patterns."""

_SAID_BY_VERDICT = re.compile(
    r"the alignment .*no better than chance|better than chance was|more alignments are doubtful"
    r"|go opposite ways"
)
"""Warnings of a fit whose content the verdict tells in its own words; it repeats all others."""

_SAID_BY_PREFLIGHT = re.compile(r"the %d most variable of %d variables are used|%d of %d variables are used")
"""Messages of `align` whose content the preflight tells before it."""

_INPUT_CHECKS = ("harmonicalign", "sklearn.utils")
"""Errors raised in these modules are input errors; all others are internal."""


class Session:
    """One run of a command.

    Attributes
    ----------
    quiet
        Print only warnings and errors.
    as_json
        Print the result as JSON, and nothing else, on standard output.
    stages
        Shows what is going on, on standard error.
    warned
        Warnings so far.
    remarks
        Those of them that the verdict repeats, because it does not say the same itself.
    preflight
        What the inputs held, once they were looked at.
    exit_code
        Exit code after success.
    """

    def __init__(self, command: str, *, quiet: bool, as_json: bool, debug: bool) -> None:
        self.command, self.quiet, self.as_json, self.debug = command, quiet, as_json, debug
        self.errors = Console(stderr=True, highlight=False, soft_wrap=True)
        self.output = Console(highlight=False, soft_wrap=True)
        self.stages = Stages(self.errors, quiet=quiet)
        self.warned: list[str] = []
        self.remarks: list[str] = []
        self.preflight: dict[str, Any] | None = None
        self.exit_code = 0
        self.started = time.perf_counter()

    def say(self, text: str = "", style: str = "") -> None:
        """A line of the result in readable form."""
        self.stages.stop()
        if not (self.quiet or self.as_json):
            self.output.print(Text(text, style=style))

    def table(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Lines of a table for people."""
        if self.quiet or self.as_json or not rows:
            return
        cells = [list(columns), *([_shown(row.get(c)) for c in columns] for row in rows)]
        widths = [max(len(line[j]) for line in cells) for j in range(len(columns))]
        for i, line in enumerate(cells):
            padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
            self.say("  " + "  ".join(padded).rstrip(), "bold" if i == 0 else "")

    def remark(self, text: str) -> None:
        """Something to know while the command runs."""
        if not self.quiet:
            self.stages.note(Text(text, style="dim"))

    def warn(self, text: str, *, repeat: bool = True) -> None:
        """A warning, once; with `repeat` the verdict says it again."""
        text = _in_terms_of_options(text)
        if text not in self.warned:
            self.warned.append(text)
            if repeat:
                self.remarks.append(text)
            self.stages.note(Text.assemble(("warning: ", "yellow bold"), text))

    def problem(self, text: str) -> None:
        """Something that makes an alignment impossible, where the command itself goes on."""
        self.stages.note(Text.assemble(("problem: ", "red bold"), _in_terms_of_options(text)))

    def finish(self, **result: Any) -> None:
        """The result as JSON, if requested."""
        self.stages.stop()
        if self.as_json:
            whole = {
                "command": self.command,
                "status": "error" if self.exit_code == BAD_INPUT else "ok",
                "exit_code": self.exit_code,
                "version": __version__,
                **result,
                **({} if self.preflight is None else {"preflight": self.preflight}),
                "warnings": self.warned,
                "seconds": round(time.perf_counter() - self.started, 3),
            }
            print(json.dumps(plain(whole), ensure_ascii=False, allow_nan=False, indent=1))

    def fail(self, text: str, code: int) -> None:
        """An error, in readable form and, if requested, as JSON."""
        self.stages.stop()
        self.stages.note(Text.assemble(("error: ", "red bold"), text))
        if self.as_json:
            result = {"command": self.command, "status": "error", "exit_code": code, "error": text}
            print(json.dumps({**result, "version": __version__, "warnings": self.warned}, ensure_ascii=False))


@contextmanager
def session(
    command: str, *, quiet: bool = False, as_json: bool = False, debug: bool = False
) -> Iterator[Session]:
    """Run a command's body; exceptions become one message and an exit code."""
    run = Session(command, quiet=quiet, as_json=as_json, debug=debug)
    try:
        with _listening(run), run.stages:
            yield run
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        run.fail("interrupted; nothing is left half-written", INTERRUPTED)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        if debug:
            traceback.print_exc(file=sys.stderr)
        code, text = _judge(error)
        run.fail(text, code)
        raise typer.Exit(code) from None
    if run.exit_code:
        raise typer.Exit(run.exit_code)


def _judge(error: Exception) -> tuple[int, str]:
    """Exit code and sentence for an error."""
    if isinstance(error, MemoryError):
        return (
            BAD_INPUT,
            "out of memory; use fewer rows or columns, --use-rep with a reduction, or --backed",
        )
    if isinstance(error, ImportError) and "pip install" in str(error):
        return BAD_INPUT, str(error)
    if isinstance(error, ValueError | OSError | RuntimeError) and _raised_in(error).startswith(_INPUT_CHECKS):
        return BAD_INPUT, _in_terms_of_options(str(error))
    if isinstance(error, OSError) and is_refusal(error):
        return BAD_INPUT, str(write_error(Path(os.fsdecode(error.filename or "the result")), error))
    return (
        UNEXPECTED,
        f"unexpected {type(error).__name__}: {one_line(error)}; run again with --debug to see where, "
        "and please report it if the input is valid",
    )


def _in_terms_of_options(text: str) -> str:
    for python, option in _TERMS:
        text = re.sub(python, option, text)
    return text


def _raised_in(error: Exception) -> str:
    """Name of the module whose line raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))


@contextmanager
def _listening(run: Session) -> Iterator[None]:
    """Show warnings, log messages and stages of the library."""
    logger = logging.getLogger("harmonicalign")
    level, handler = logger.level, _Listener(run)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    def stage(name: str, seconds: float | None) -> None:
        if seconds is None:
            run.stages.began(name)
        else:
            run.stages.ended(name, seconds)

    try:
        with warnings.catch_warnings(), listening(stage):
            warnings.simplefilter("always" if run.debug else "ignore")
            warnings.simplefilter("always", UserWarning)

            def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
                # Some libraries derive what they deprecate from UserWarning, or set filters of their own.
                if run.debug or not issubclass(category, DeprecationWarning):
                    text = " ".join(str(message).split())
                    told = category is AlignmentWarning and _SAID_BY_VERDICT.search(text)
                    run.warn(text, repeat=not told)

            warnings.showwarning = show
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _Listener(logging.Handler):
    """Log handler that forwards messages of the library."""

    def __init__(self, run: Session) -> None:
        super().__init__(logging.INFO)
        self.run = run

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self.run.warn(record.getMessage())
        elif (
            record.levelno >= logging.INFO
            and not self.run.quiet
            and (self.run.debug or not (record.module == "settings" or _SAID_BY_PREFLIGHT.match(record.msg)))
        ):
            # Settings are many and stand in the report.
            self.run.stages.note(Text(_in_terms_of_options(record.getMessage()), style="dim"))


def plain(value: Any) -> Any:
    """The same in types that JSON has; what is not a number becomes null."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
