"""Facts and static files to one self-contained page, written atomically."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import uuid
from importlib import resources
from pathlib import Path
from typing import Any

__all__ = ["render", "target", "write_whole"]

_SCRIPTS = ("data.js", "colours.js", "points.js", "scatter.js", "charts.js", "tables.js", "main.js")


def render(facts: dict[str, Any]) -> str:
    """The page as text.

    Facts stand in a block that browsers do not execute, and the policy allows nothing but the
    scripts and the style sheet whose hashes it names: names of rows, labels and features are
    displayed and never executed.
    """
    style, early = _static("report.css"), _static("theme.js")
    script = '(() => {\n"use strict";\n' + "\n".join(map(_static, _SCRIPTS)) + "\n})();"
    policy = (
        f"default-src 'none'; script-src '{_digest(early)}' '{_digest(script)}'; "
        f"style-src '{_digest(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    verdict = facts["verdict"]
    words = [verdict["headline"] + ".", *verdict["sentences"], *verdict["checks"]]
    parts = {
        "policy": policy,
        "title": html.escape(facts["title"]),
        "early": early,
        "style": style,
        "script": script,
        "facts": _inert(json.dumps(facts, allow_nan=False, separators=(",", ":"))),
        "words": "".join(f"<p>{html.escape(text)}</p>" for text in words),
    }
    page = _static("report.html")
    pieces = page.split("{{")
    out = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        out += [parts[name], rest]
    return "".join(out)


def target(path: str | os.PathLike[str], *, force: bool) -> Path:
    """The file to write, checked before any work is done."""
    file = Path(path)
    if file.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path is {str(file)!r}; a report ends in .html")
    if file.is_dir():
        raise IsADirectoryError(f"path {str(file)!r} is a folder; name a file in it")
    if file.exists() and not force:
        raise FileExistsError(f"path {str(file)!r} exists; choose another name or pass force=True")
    return file


def write_whole(file: Path, text: str, *, force: bool) -> Path:
    """Write atomically: to a temporary file in the same folder, then rename."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex}.tmp")
    # Permissions follow the umask, as with `open`; `tempfile` makes files that only their owner can read.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            # Unpaired surrogates cannot be encoded in UTF-8.
            stream.write(text.encode("utf-8", "replace"))
            stream.flush()
            os.fsync(stream.fileno())
        if not force and file.exists():
            raise FileExistsError(f"path {str(file)!r} appeared meanwhile; nothing was overwritten")
        os.replace(temporary, file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return file


def _static(name: str) -> str:
    return (resources.files("harmonicalign.adapters.report") / "static" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _inert(text: str) -> str:
    """JSON escaped so that it cannot close its script block or open a comment."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
