"""What `HarmonicAlignment` does with dask arrays: fits on a cluster, and models whose rows stay there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from harmonicalign._progress import Progress
from harmonicalign._typing import Array
from harmonicalign.adapters.distributed.blocks import is_dask
from harmonicalign.adapters.distributed.chunks import fit_chunks
from harmonicalign.adapters.distributed.inputs import LazyInputs, parse_lazy
from harmonicalign.adapters.distributed.landmarks import choose_landmarks, default_landmarks, fit_landmarks
from harmonicalign.adapters.distributed.result import DistributedResult
from harmonicalign.inputs.links import link_signals
from harmonicalign.inputs.parse import Inputs
from harmonicalign.inputs.settings import Settings
from harmonicalign.inputs.validate import check_data, check_integer, random_state_from
from harmonicalign.method.model import RefinedModel
from harmonicalign.paper.model import PaperModel

__all__ = ["DistributedFit"]


PAPER_LANDMARKS = 4000
"""Landmarks of each dataset for the paper's method, whose kernel looks at all pairs of them."""


class DistributedFit:
    """Methods of an estimator that may be fitted on a cluster."""

    _lazy: tuple[LazyInputs, DistributedResult] | None = None

    if TYPE_CHECKING:
        embedding_: list[Any]
        keys_: list[Any]
        settings_: Settings
        timings_: dict[str, float]
        signal_names_: list[str] | None
        method: str
        metric: str
        first_band: int
        random_state: Any
        verbose: bool
        _inputs: Inputs
        _links: Any
        _seed: int
        _signals_given: bool
        _n_features_out: int

        # Members of the estimator that these methods stand on.
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...  # noqa: D102
        def _anchor_pairs(self, anchors: Any, keys: list[Any], sizes: list[int]) -> dict[Any, Any]: ...
        def _kernel_options(self, method: str) -> dict[str, Any]: ...
        def _link(self, i: int, signals: Any) -> Any: ...
        def _model_fit(
            self, method: str, keys: list[Any], anchors: dict[Any, Any], progress: Progress
        ) -> Callable[[list[Any], list[Any]], PaperModel | RefinedModel]: ...
        def _position(self, dataset: Any) -> int: ...
        def _settle(self, method: str, shapes: list[tuple[int, int]]) -> Settings: ...
        def _wrap(self, result: Array, original: Any) -> Any: ...

    @cached_property
    def model_(self) -> PaperModel | RefinedModel:
        """Everything that was fitted; after a distributed fit it is fetched when it is first asked for."""
        if self._lazy is None:
            raise AttributeError("model_ is there after fit")
        return self._lazy[1].fetch_model()

    def in_memory(self) -> Self:
        """After a distributed fit: the same model with its landmarks as the datasets, in memory.

        It places new rows as this one does, and can do what needs rows at hand: save, transfer,
        correct, denoise, impute, add.
        """
        check_is_fitted(self, "embedding_")
        if self._lazy is None:
            return self
        if self._links is not None:
            raise ValueError("in_memory needs signals that correspond column by column; this model has links")
        inputs, result = self._lazy
        rows, signals = result.fetch_sample()
        out = type(self)(**self.get_params(deep=False))
        left = ("_lazy", "embedding_", "confidence_", "joint_")
        vars(out).update({name: value for name, value in vars(self).items() if name not in left})
        out.model_ = self.model_
        out.embedding_ = out.model_.coordinates()
        form = inputs.form if inputs.form in ("list", "single") else "dict"
        out._inputs = Inputs(form, inputs.keys, [], rows, signals, None, [None] * len(inputs.keys))
        return out

    def _fit_distributed(
        self,
        X: Any,
        batch: Any,
        signals: Any,
        anchors: Any,
        links: Any,
        client: Any,
        landmark_rows: int | None,
        chunk_rows: int | None,
    ) -> Self:
        """Fit by landmarks, or by chunks of `chunk_rows` rows."""
        if self.metric != "euclidean":
            raise ValueError(f"a distributed fit needs rows, but metric is {self.metric!r}")
        inputs = parse_lazy(X, batch, signals, corresponding=links is None)
        self._signals_given = signals is not None
        self._links = None if links is None else link_signals(links, *inputs.signals)
        self._seed = random_state_from(self.random_state).randint(2**31)
        progress = Progress(self.verbose)
        with progress.stage("fit on the cluster"):
            if chunk_rows is None:
                result = self._fit_landmarks(inputs, anchors, client, landmark_rows)
            else:
                result = self._fit_chunks(inputs, anchors, client, chunk_rows)
        self.keys_, self.signal_names_, self.timings_ = inputs.keys, None, progress.timings
        self._lazy = inputs, result
        self.embedding_ = inputs.split(result.embedding)
        self._n_features_out = result.width
        return self

    def _fit_landmarks(
        self, inputs: LazyInputs, anchors: Any, client: Any, most: int | None
    ) -> DistributedResult:
        method = "paper" if len(inputs.keys) == 1 else self.method
        sizes = [n for n, _ in inputs.shapes]
        pairs = {} if method == "paper" else self._anchor_pairs(anchors, inputs.keys, sizes)
        if most is None:
            wide = default_landmarks(inputs.matrices + inputs.signals)
            most = min(wide, PAPER_LANDMARKS) if method == "paper" else wide
        most = check_integer("landmark_rows", most, minimum=10)
        chosen = choose_landmarks(sizes, most, self._seed, [_rows_of(pairs, i) for i in range(len(sizes))])
        among = {
            (i, j): np.stack([np.searchsorted(chosen[i], p[:, 0]), np.searchsorted(chosen[j], p[:, 1])], 1)
            for (i, j), p in pairs.items()
        }
        self.settings_ = self._settle(
            method, [(len(c), d) for c, (_, d) in zip(chosen, inputs.shapes, strict=True)]
        )
        same = not self._signals_given and self._links is None
        return fit_landmarks(
            inputs.matrices,
            None if same else [self._link(i, s) for i, s in enumerate(inputs.signals)],
            fit_local=self._model_fit(method, inputs.keys, among, Progress(False)),
            landmarks=chosen,
            batch=inputs.batch,
            client=client,
            seed=self._seed,
        )

    def _fit_chunks(
        self, inputs: LazyInputs, anchors: Any, client: Any, chunk_rows: int
    ) -> DistributedResult:
        if (
            (self.method != "paper" and len(inputs.keys) > 1)
            or inputs.batch is not None
            or anchors is not None
        ):
            raise ValueError(
                "chunk_rows is for method='paper', datasets in a list or dict, and no anchors; leave it out "
                "to fit on landmarks"
            )
        self.settings_ = self._settle("paper", [(min(n, chunk_rows), d) for n, d in inputs.shapes])
        return fit_chunks(
            inputs.matrices,
            [self._link(i, s) for i, s in enumerate(inputs.signals)],
            settings=self.settings_,
            kernel=self._kernel_options("paper"),
            chunk_rows=chunk_rows,
            first_band=self.first_band,
            client=client,
            seed=self._seed,
        )

    def _transform_distributed(self, X: Any, dataset: Any, signals: Any) -> Any:
        """Rows placed by the model: dask arrays block by block where they are, others here."""
        assert self._lazy is not None
        if dataset is None and len(self.keys_) > 1:
            raise ValueError("name the dataset these rows belong to: transform(rows, dataset=…)")
        i = 0 if dataset is None else self._position(dataset)
        if signals is None and self._signals_given:
            raise ValueError("the model was fitted with signals=…; give those of the new rows too")
        if is_dask(X):
            return self._lazy[1].place(i, X, self._link(i, X if signals is None else signals))
        rows = check_data("X", X)
        shared = rows if signals is None else check_data("signals", signals)
        return self._wrap(self.model_.place(i, rows, self._link(i, shared)), X)

    def _at_hand(self) -> None:
        """Refuse what needs the rows in memory."""
        check_is_fitted(self, "embedding_")
        if self._lazy is not None:
            raise ValueError(
                "this model was fitted on a cluster and its rows are not at hand; use model.in_memory(), "
                "the same model with its landmarks as the datasets"
            )


def _rows_of(pairs: dict[Any, Array], i: int) -> Array:
    """Rows of dataset i that have a known partner."""
    rows = [p[:, pair.index(i)] for pair, p in pairs.items() if i in pair]
    return np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
