"""The command line: ``harmonicalign align a.h5ad b.h5ad``.

Commands read files, call what the Python interface offers, and write files; results equal those of the
same calls from Python.
"""

from __future__ import annotations

import signal
import sys
from typing import Any, NoReturn

__all__ = ["application", "main"]


def application() -> Any:
    """The Typer application, to which further commands can be added."""
    from harmonicalign.adapters.cli._app import app

    return app


def main() -> NoReturn:
    """Run the command line and exit with its code."""

    def stop(number: int, frame: Any) -> NoReturn:
        # As on Ctrl-C, partial files are removed; without this they would remain.
        raise SystemExit(128 + number)

    try:
        signal.signal(signal.SIGTERM, stop)
        try:
            from harmonicalign.adapters.cli._app import app
        except ModuleNotFoundError as error:
            if error.name not in ("typer", "rich"):
                raise
            print(
                "harmonicalign: the command line needs typer and rich: pip install 'harmonicalign[cli]'",
                file=sys.stderr,
            )
            sys.exit(2)
        app(prog_name="harmonicalign")
    except KeyboardInterrupt:  # before a command had begun
        sys.exit(130)
    sys.exit(0)
