"""The methods that Harmonic Alignment is compared with, with one interface.

Every method is a frozen dataclass: its parameters are fields with defaults, and ``fit_transform`` takes the
datasets and returns one embedding for each, all with the same columns, so that rows of different datasets can
be compared by their distance::

    from harmonicalign.experiments import baselines

    baselines.available()                       # {"none": "", ..., "magan": "needs torch: pip install torch"}
    zx, zy = baselines.get("mnn", k=20).fit_transform([x, y])

Methods that need an optional package import it only when they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from typing import ClassVar, NamedTuple, Protocol

from harmonicalign.experiments.baselines._common import Dataset, Embedding

__all__ = ["Baseline", "Dataset", "Embedding", "available", "get"]


class Baseline(Protocol):
    """Interface of the comparison methods."""

    name: ClassVar[str]

    def fit_transform(self, datasets: Sequence[Dataset]) -> list[Embedding]:
        """Embed every dataset in one common space; all results have the same columns."""
        ...


class _Entry(NamedTuple):
    module: str
    cls: str
    package: str | None = None  # the optional package, by its import name
    distribution: str | None = None  # its name on PyPI, where that is another


_REGISTRY: dict[str, _Entry] = {
    "none": _Entry("unaligned", "Unaligned"),
    "mnn": _Entry("mnn", "MNN"),
    "magan": _Entry("magan", "MAGAN", "torch"),
    "wang": _Entry("wang", "WangMahadevan"),
    "cca": _Entry("cca", "CCA"),
    "procrustes": _Entry("procrustes", "Procrustes"),
    "harmony": _Entry("harmony", "Harmony", "harmonypy"),
    "scanorama": _Entry("scanorama", "Scanorama", "scanorama"),
    "scvi": _Entry("scvi", "ScVI", "scvi", "scvi-tools"),
}


def _missing(entry: _Entry) -> str:
    if entry.package is None or find_spec(entry.package) is not None:
        return ""
    wanted = entry.distribution or entry.package
    return f"needs {wanted}: pip install {wanted}"


def available() -> dict[str, str]:
    """Name of every method, with the missing package.

    Returns
    -------
    dict of str to str
        An empty string for a method that can be used now; otherwise the missing package and the command that
        installs it.
    """
    return {name: _missing(entry) for name, entry in _REGISTRY.items()}


def get(name: str, **parameters: object) -> Baseline:
    """Build the comparison method of that name.

    Parameters
    ----------
    name
        One of the names that `available` lists.
    **parameters
        Fields of the method's dataclass; those left out keep their defaults.

    Returns
    -------
    Baseline
        The method, ready for ``fit_transform``.

    Raises
    ------
    ValueError
        If the name or a parameter is unknown.
    ImportError
        If the method's optional package is not installed.
    """
    if name not in _REGISTRY:
        raise ValueError(f"name={name!r} is no comparison method; choose one of {', '.join(_REGISTRY)}")
    entry = _REGISTRY[name]
    if lack := _missing(entry):
        raise ImportError(f"the comparison method {name!r} {lack}")
    cls = getattr(import_module(f"{__name__}.{entry.module}"), entry.cls)
    known = [f.name for f in fields(cls)]
    if unknown := [p for p in parameters if p not in known]:
        raise ValueError(
            f"parameters: {name!r} has no parameter {', '.join(unknown)}; it has {', '.join(known)}"
        )
    method: Baseline = cls(**parameters)
    return method
