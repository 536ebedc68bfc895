"""A fitted alignment whose rows stay on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from harmonicalign.adapters.distributed.inputs import LazyInputs
from harmonicalign.adapters.distributed.result import DistributedResult
from harmonicalign.fitted.alignment import FittedAlignment
from harmonicalign.fitted.conventions import Wrapper
from harmonicalign.fitted.parameters import Parameters
from harmonicalign.fitted.protocol import AlignedModel
from harmonicalign.inputs.frames import Layout, is_dask
from harmonicalign.inputs.names import columns_like
from harmonicalign.inputs.parse import Inputs, position_of
from harmonicalign.inputs.settings import Settings
from harmonicalign.inputs.validate import check_data
from harmonicalign.paper.joint import Joint

__all__ = ["DistributedAlignment"]


@dataclass(frozen=True, eq=False)
class DistributedAlignment:
    """Datasets aligned on a cluster; read like `harmonicalign.fitted.FittedAlignment`.

    Attributes
    ----------
    inputs
        The datasets as dask arrays, and the form in which they came.
    result
        Coordinates, and the model that is held by a worker.
    settings, timings, seed, parameters, links, signals_given
        As in `harmonicalign.fitted.FittedAlignment`; settings are those of the landmarks or chunks.
    """

    inputs: LazyInputs
    result: DistributedResult
    settings: Settings
    timings: dict[str, float]
    seed: int
    parameters: Parameters
    links: Any = None
    signals_given: bool = False

    @property
    def keys(self) -> list[Any]:
        """Names of the datasets."""
        return list(self.inputs.keys)

    @property
    def sizes(self) -> list[int]:
        """Rows of every dataset."""
        return [n for n, _ in self.inputs.shapes]

    @property
    def width(self) -> int:
        """Number of aligned coordinates."""
        return self.result.width

    @property
    def signal_names(self) -> None:
        """None: dask arrays have no names of columns."""

    @property
    def is_one_matrix(self) -> bool:
        """False: rows are not checked as scikit-learn would, which needs them in memory."""
        return False

    @cached_property
    def embedding(self) -> tuple[Any, ...]:
        """Aligned coordinates of every dataset, dask arrays."""
        return tuple(self.inputs.split(self.result.embedding))

    @cached_property
    def model(self) -> AlignedModel:
        """Everything that was fitted; it is fetched when it is first asked for."""
        return self.result.fetch_model()

    @cached_property
    def joint(self) -> Joint:
        """Graph and diffusion map over the landmarks of all datasets."""
        return self.model.joint_geometry(self.seed)

    @cached_property
    def confidence(self) -> tuple[Any, ...]:
        """How well other datasets support each row's place, dask arrays."""
        if self.result.confidence is None:
            raise AttributeError("only a refined alignment has confidence_ after a distributed fit")
        return tuple(self.inputs.split(self.result.confidence))

    def position(self, dataset: Any) -> int:
        """Number of a dataset given its key or its number."""
        return position_of(dataset, self.inputs.keys)

    def linked(self, i: int, signals: Any) -> Any:
        """Signals of dataset i with linked columns side by side, where links were given."""
        return signals if self.links is None else signals[:, self.links[i]]

    def restored(self, wrapper: Wrapper) -> Any:
        """Aligned coordinates in the form of the input, dask arrays whatever the container."""
        return self.inputs.restore(self.result.embedding)

    def place(self, i: int, X: Any, signals: Any = None) -> Any:
        """Rows of dataset i placed by the model: dask arrays block by block where they are, others here."""
        names, whose = self.inputs.names, f"dataset {self.keys[i]!r}"
        named = None if self.signals_given else names
        if self.parameters.method_for(len(self.keys)) == "paper":
            if signals is not None:
                raise ValueError("signals are not used where method='paper' places rows; drop signals")
            if is_dask(X):
                return self.result.place(i, X)
            rows = check_data("X", columns_like("X", X, named, named, whose))
            return self.model.place(i, rows, rows)
        if signals is None and self.signals_given:
            raise ValueError("the model was fitted with signals=…; pass signals of the new rows too")
        if is_dask(X):
            return self.result.place(i, X, self.linked(i, X if signals is None else signals))
        rows = check_data("X", columns_like("X", X, named, named, whose))
        given = rows if signals is None else columns_like("signals", signals, names, names, whose)
        shared = rows if signals is None else check_data("signals", given)
        return self.model.place(i, rows, self.linked(i, shared))

    def place_all(self, X: Any, signals: Any = None) -> NoReturn:
        """Refused: rows of one dataset are placed at a time."""
        raise ValueError("name the dataset these rows belong to: transform(rows, dataset=…)")

    def at_hand(self) -> NoReturn:
        """Refused: the rows are not in memory."""
        raise ValueError(
            "this model was fitted on a cluster and its rows are not at hand; use model.in_memory(), "
            "the same model with its landmarks as the datasets"
        )

    def in_memory(self) -> FittedAlignment:
        """The same model with its landmarks as the datasets, in memory."""
        if self.links is not None:
            raise ValueError("in_memory needs signals that correspond column by column; this model has links")
        rows, signals = self.result.fetch_sample()
        n, named = len(self.keys), Layout(self.inputs.names)
        layouts = [Layout() if self.signals_given else named] * n
        form = self.inputs.form if self.inputs.form in ("list", "single") else "dict"
        return FittedAlignment(
            model=self.model,
            inputs=Inputs(
                form, self.keys, [], rows, signals, self.inputs.names, [None] * n, layouts, [named] * n
            ),
            embedding=tuple(self.model.coordinates()),
            settings=self.settings,
            timings=self.timings,
            seed=self.seed,
            parameters=self.parameters,
            signals_given=self.signals_given,
        )
