"""What counts as a violation: anything but a valid finite result or a refusal in our own words.

A refusal is one of the usual exceptions that a ``raise`` statement of the package itself raised, with a
sentence to read. Checks of input that are scikit-learn's own by design (`sklearn.utils`) count as ours.
Everything else is a violation:
errors from within numpy, scipy, faiss or anndata, a bare error from a line of ours, numbers that are not
finite, warnings of numpy about overflow and the like, and cases that take forever.
"""

from __future__ import annotations

import ast
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import harmonicalign

__all__ = ["Violation", "check_finite", "judge"]

_PACKAGE = Path(harmonicalign.__file__).parent
_REFUSALS = (ValueError, TypeError, ImportError, RuntimeError, OSError, AttributeError, KeyError, MemoryError)
_SHORTEST_MESSAGE = 15


class Violation(Exception):
    """A promise that a case broke."""


def judge(case: Callable[[], str]) -> tuple[str, str]:
    """Run a case.

    Parameters
    ----------
    case
        Does the work, checks what comes out, and returns one word for it.

    Returns
    -------
    outcome, detail
        "ok" with the case's word, "refused" with the message, or "violation" with what happened.
    """
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            outcome, detail = "ok", case()
        except Violation as broken:
            return "violation", f"{broken}\n{_where(broken)}"
        except Exception as error:
            fault = _fault(error)
            if fault:
                return "violation", f"{fault}\n{_where(error)}"
            outcome, detail = "refused", f"{type(error).__name__}: {error}"
    for warning in heard:
        if issubclass(warning.category, RuntimeWarning):
            return (
                "violation",
                f"leaked warning {warning.category.__name__}: {warning.message}\n"
                f"  {warning.filename}:{warning.lineno}",
            )
    return outcome, detail


def check_finite(name: str, value: Any) -> None:
    """Every number in a result is finite."""
    for where, array in _arrays(name, value):
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            raise Violation(f"{where} is not finite ({int((~np.isfinite(array)).sum())} of {array.size})")


def _arrays(name: str, value: Any) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    if sp.issparse(value):
        yield name, value.data if hasattr(value, "data") else value.tocsr().data
    elif isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, float | np.floating):
        yield name, np.asarray(value)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _arrays(f"{name}[{key!r}]", part)
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from _arrays(f"{name}[{i}]", part)


def _fault(error: Exception) -> str | None:
    """What is wrong with an error; None if it is a refusal in our own words."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    ours = Path(last.filename).is_relative_to(_PACKAGE) and _is_raise(last.filename, last.lineno or 0)
    checks = "sklearn/utils" in last.filename
    if not isinstance(error, _REFUSALS) or not (ours or checks):
        return f"bare {type(error).__name__}: {error}"
    if len(str(error)) < _SHORTEST_MESSAGE:
        return f"{type(error).__name__} without a helpful message: {error}"
    return None


@cache
def _raises(filename: str) -> frozenset[int]:
    """Lines that belong to ``raise`` statements."""
    tree = ast.parse(Path(filename).read_text(encoding="utf-8"))
    return frozenset(
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    )


def _is_raise(filename: str, line: int) -> bool:
    return line in _raises(filename)


def _where(error: BaseException) -> str:
    """The frames of the package and the one that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    kept = [f for f in frames if Path(f.filename).is_relative_to(_PACKAGE)]
    kept += [f for f in frames[-1:] if f not in kept]
    return "\n".join(f"  {f.filename}:{f.lineno} {f.name}: {f.line}" for f in kept)
