"""Values of the "auto" parameters, each with the reason for it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from harmonicalign.inputs.validate import check_integer, check_number

__all__ = ["AutoRules", "FitOptions", "Settings", "resolve"]

logger = logging.getLogger("harmonicalign")


@dataclass(frozen=True)
class Settings:
    """Values used in one fit, with the reason for each."""

    n_neighbors: list[int]
    n_pca: list[int | None]
    n_harmonics: list[int]
    n_bands: int
    t: float
    calibrate: bool
    reasons: dict[str, str] = field(default_factory=dict)

    def joined_by(self, new: Settings) -> Settings:
        """The same with those of one dataset more; what holds for all datasets stays as it is."""
        return replace(
            self,
            n_neighbors=[*self.n_neighbors, *new.n_neighbors],
            n_pca=[*self.n_pca, *new.n_pca],
            n_harmonics=[*self.n_harmonics, *new.n_harmonics],
        )

    def of_members(self, groups: Sequence[int]) -> Settings:
        """For every dataset the values of the group with which it was fitted."""
        return replace(
            self,
            n_neighbors=[self.n_neighbors[g] for g in groups],
            n_pca=[self.n_pca[g] for g in groups],
            n_harmonics=[self.n_harmonics[g] for g in groups],
        )


@dataclass(frozen=True)
class FitOptions:
    """Options of the user that a fit needs.

    Attributes
    ----------
    settings
        Values used for the datasets.
    kernel
        Options of `harmonicalign.kernel_graph`.
    first_band
        First band of the sum in Eqn. 2.
    seed
        Random seed.
    device
        "cpu", or a torch device for computations on all rows.
    n_components
        Maximum number of aligned coordinates.
    own_columns
        Whether the signals are the columns of the datasets.
    linked
        Whether links join the signals, which then are different things in different units.
    balanced
        Rows of every dataset on which the alignment is found, which hold the levels of a covariate in equal
        shares, and the level of every row (−1 if it has none); None lets the fit choose.
    """

    settings: Settings
    kernel: Mapping[str, Any]
    first_band: int = 0
    seed: int = 0
    device: Any = "cpu"
    n_components: int = 50
    own_columns: bool = True
    linked: bool = False
    balanced: tuple[Sequence[Any], Sequence[Any]] | None = None


class AutoRules(Protocol):
    """Constants of the "auto" rules; those of the default are in its configuration."""

    @property
    def n_components(self) -> int: ...  # noqa: D102
    @property
    def neighbour_root(self) -> float: ...  # noqa: D102
    @property
    def neighbour_bounds(self) -> tuple[int, int]: ...  # noqa: D102
    @property
    def n_harmonics(self) -> int: ...  # noqa: D102
    @property
    def rows_per_harmonic(self) -> int: ...  # noqa: D102


def resolve(
    shapes: Sequence[tuple[int, int]] | Mapping[int, tuple[int, int]],
    *,
    rules: AutoRules | None,
    n_neighbors: int | str,
    n_pca: int | str | None,
    n_harmonics: int | str | None,
    n_bands: int | str,
    t: float | str,
    calibrate: bool | str,
) -> Settings:
    """Resolve every parameter for datasets of the given shapes, in order or by their numbers.

    "auto" follows `rules`, or the values of the paper if `rules` is None; a number is reduced, with a
    warning, if a dataset is too small for it. Every decision is logged.
    """
    reasons: dict[str, str] = {}
    numbered = dict(shapes if isinstance(shapes, Mapping) else enumerate(shapes))
    neighbours = [_neighbours(n_neighbors, n, i, rules, reasons) for i, (n, _) in numbered.items()]
    widths = [_pca_width(n_pca, n, d, rules, reasons) for n, d in numbered.values()]
    harmonics = [_harmonics(n_harmonics, n, i, rules, reasons) for i, (n, _) in numbered.items()]
    if isinstance(n_bands, str) and n_bands == "auto":
        bands = 8
        reasons["n_bands"] = "8: the paper's choice"
    else:
        bands = check_integer("n_bands", n_bands, minimum=1)
        reasons["n_bands"] = "as given"
    if isinstance(t, str) and t == "auto":
        time = 1.0
        reasons["t"] = "1: the paper's choice"
    else:
        time = check_number("t", t, minimum=0)
        reasons["t"] = "as given"
    if isinstance(calibrate, str) and calibrate == "auto":
        calibrate = rules is not None
        reasons["calibrate"] = (
            "sizes may differ" if calibrate else "the paper compares eigenvalues as they are"
        )
    elif not isinstance(calibrate, bool):
        raise ValueError(f"calibrate must be True, False or 'auto', got {calibrate!r}")
    settings = Settings(neighbours, widths, harmonics, bands, time, calibrate, reasons)
    for name, reason in reasons.items():
        logger.info("%s = %s (%s)", name, getattr(settings, name), reason)
    return settings


def _neighbours(value: int | str, n: int, i: int, rules: AutoRules | None, reasons: dict[str, str]) -> int:
    most = n - 1
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f"n_neighbors is {value!r}; expected 'auto' or a whole number")
        if rules is not None:
            least, largest = rules.neighbour_bounds
            reasons["n_neighbors"] = (
                f"square root of the rows divided by {rules.neighbour_root:g}, from {least} to {largest}"
            )
            return min(most, int(np.clip(round(n**0.5 / rules.neighbour_root), least, largest)))
        # A fixed share of the rows spans the same distance however densely the manifold is sampled, so
        # datasets of unequal size have similar spectra.
        reasons["n_neighbors"] = "4 % of the rows, at least 5, at most 400"
        return min(most, 400, max(5, n // 25))
    return reduced("n_neighbors", check_integer("n_neighbors", value, minimum=1), most, i, reasons)


def _pca_width(
    value: int | str | None, n: int, d: int, rules: AutoRules | None, reasons: dict[str, str]
) -> int | None:
    if value is None:
        reasons["n_pca"] = "as given"
        return None
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f"n_pca is {value!r}; expected 'auto', None or a whole number")
        width = 100 if rules is None else rules.n_components
        reasons["n_pca"] = f"{width} principal components if there are more columns"
    else:
        reasons["n_pca"] = "as given"
        width = check_integer("n_pca", value, minimum=1)
    if rules is not None and n <= width < d:
        # All there is in so few rows: the same distances in fewer columns than the matrix has.
        return max(1, n - 1)
    return width if width < min(n, d) else None


def _harmonics(
    value: int | str | None, n: int, i: int, rules: AutoRules | None, reasons: dict[str, str]
) -> int:
    most = n - 1
    if value is None:
        reasons["n_harmonics"] = "all, as given"
        return most
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f"n_harmonics is {value!r}; expected 'auto', None or a whole number")
        if rules is not None:
            reasons["n_harmonics"] = (
                f"{rules.n_harmonics}, but at most one per {rules.rows_per_harmonic} rows"
            )
            return min(most, rules.n_harmonics, max(2, n // rules.rows_per_harmonic))
        reasons["n_harmonics"] = "100, or one less than the rows if there are fewer"
        return min(most, 100)
    number = check_integer("n_harmonics", value, minimum=1)
    if number > most:
        raise ValueError(
            f"n_harmonics is {number}, but dataset {i} has {n} rows and so at most {most} harmonics; lower it"
        )
    reasons["n_harmonics"] = "as given"
    return number


def reduced(name: str, value: int, most: int, i: int, reasons: dict[str, str]) -> int:
    """`value`, or the maximum for dataset i, with a warning."""
    reasons[name] = "as given"
    if value > most:
        warnings.warn(
            f"{name} is {value}, but dataset {i} has only {most} rows beside each row; using {most} there",
            UserWarning,
            stacklevel=6,
        )
        reasons[name] = "as given, reduced if a dataset is smaller"
    return min(value, most)
