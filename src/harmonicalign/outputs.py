"""Results in the containers and in the form that users ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.inputs.parse import Inputs

__all__ = ["CONTAINERS", "Wrapper"]

CONTAINERS = ("default", "pandas", "polars")
"""What `HarmonicAlignment.set_output` knows."""


@dataclass(frozen=True)
class Wrapper:
    """Puts coordinates into a container.

    Attributes
    ----------
    container
        One of `CONTAINERS`.
    columns
        Names of the coordinates.
    """

    container: str
    columns: list[str]

    def wrap(self, result: Array, original: Any) -> Any:
        """Coordinates in the container, with the row labels of what they were made of; dask arrays stay."""
        if not isinstance(result, np.ndarray):
            return result
        if self.container == "pandas":
            import pandas as pd

            index = getattr(original, "index", None)
            return pd.DataFrame(result, columns=self.columns, index=index, copy=False)
        if self.container == "polars":
            import polars as pl

            return pl.DataFrame(result, schema=self.columns, orient="row")
        return result

    def hand_back(self, inputs: Inputs, results: Sequence[Array]) -> Any:
        """Coordinates of every dataset in the form of the input."""
        if inputs.form == "stacked":
            return self.wrap(inputs.restore(list(results)), None)
        wrapped = [self.wrap(r, c) for r, c in zip(results, inputs.containers, strict=True)]
        return inputs.restore(wrapped)
