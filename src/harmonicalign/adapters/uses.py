"""What an aligned model is for: labels and values carried over, features corrected, new datasets, files.

`HarmonicAlignment` inherits these; each method gathers what a function of `harmonicalign.uses.transfer`,
`harmonicalign.uses.correct` or `harmonicalign.adapters.storage` needs and hands the result back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from harmonicalign._exceptions import ModelFileError
from harmonicalign._typing import Array
from harmonicalign.adapters.distributed.mixin import DistributedFit
from harmonicalign.adapters.storage import read_tree, write_tree
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.correspondence import Correspondence
from harmonicalign.evidence.significance import Significance
from harmonicalign.inputs.parse import Inputs, column_names
from harmonicalign.inputs.settings import Settings
from harmonicalign.inputs.validate import check_data
from harmonicalign.method.embed import JointMap
from harmonicalign.method.maps import LinearMap
from harmonicalign.method.model import AddedRows, RefinedModel, add_dataset
from harmonicalign.method.refine import Refinement
from harmonicalign.method.space import JointSpace, LocalShift
from harmonicalign.paper.align import Alignment, MultiAlignment
from harmonicalign.paper.graph import Graph
from harmonicalign.paper.harmonics import Harmonics
from harmonicalign.paper.joint import Joint
from harmonicalign.paper.model import PaperModel
from harmonicalign.paper.reduction import Reduction
from harmonicalign.uses.correct import correct
from harmonicalign.uses.smooth import Denoised, Imputation, balanced_transitions, denoise, impute
from harmonicalign.uses.transfer import LabelTransfer, ValueTransfer, transfer_labels, transfer_values

__all__ = ["AlignmentUses"]


_STORED = (
    AddedRows,
    Alignment,
    Correspondence,
    Graph,
    Harmonics,
    Inputs,
    Joint,
    JointMap,
    JointSpace,
    LinearMap,
    LocalShift,
    MultiAlignment,
    PaperModel,
    RefinedModel,
    Reduction,
    Refinement,
    Settings,
    Significance,
)
_TRIED_ROWS = 20
"""Rows of each dataset with which a model that was read is tried out."""

_TYPES = {cls.__name__: cls for cls in _STORED}


class AlignmentUses(DistributedFit):
    """Methods of a fitted alignment beyond its coordinates."""

    if TYPE_CHECKING:
        embedding_: list[Array]
        keys_: list[Any]
        settings_: Settings
        timings_: dict[str, float]
        signal_names_: list[str] | None
        verbose: bool
        n_landmarks: int
        first_band: int
        _inputs: Inputs
        _links: Any
        _seed: int
        _signals_given: bool
        _n_features_out: int

        # Members of the estimator that these methods stand on.
        @property
        def joint_(self) -> Joint: ...  # noqa: D102
        def _position(self, dataset: Any) -> int: ...
        def _by_name(self, signals: Any) -> Any: ...
        def _refined(self) -> RefinedModel: ...
        def _kernel_options(self, method: str) -> dict[str, Any]: ...
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...  # noqa: D102

    def transfer(
        self,
        labels: Any,
        *,
        source: Any = 0,
        target: Any = 1,
        method: str = "knn",
        threshold: float | None = None,
        **options: Any,
    ) -> LabelTransfer | ValueTransfer:
        """Carry labels or values of some datasets over to another.

        Parameters
        ----------
        labels
            One label (or value, or row of values) per row of `source`; a dict by dataset to use
            several. Floating-point arrays are values, anything else is labels.
        source
            Dataset the labels belong to; ignored if `labels` is a dict.
        target
            Dataset to label.
        method
            "knn", "diffusion" (over the joint graph) or, for labels, "svm".
        threshold
            Labels with a lower confidence become "unassigned".
        **options
            Passed on to `harmonicalign.uses.transfer.transfer_labels` or `transfer_values`.

        Returns
        -------
        transfer
            Labels with calibrated confidence, or values with their expected error.
        """
        self._at_hand()
        given = labels if isinstance(labels, Mapping) else {source: labels}
        sources = [self._position(key) for key in given]
        goal = self._position(target)
        if goal in sources:
            raise ValueError(f"target {target!r} is among the sources; name another dataset")
        options["transitions"] = self._transitions([*sources, goal]) if method == "diffusion" else None
        known = [np.asarray(values) for values in given.values()]
        places = [self.embedding_[i] for i in sources]
        common = {"method": method, "random_state": self._seed, **options}
        if all(values.dtype.kind == "f" for values in known):
            return transfer_values(places, known, self.embedding_[goal], **common)
        support = self._support()[goal]
        return transfer_labels(
            places, known, self.embedding_[goal], support=support, threshold=threshold, **common
        )

    def correct(self, reference: Any = 0, **options: Any) -> Any:
        """Every dataset's signals in the terms of a reference, in original units.

        Parameters
        ----------
        reference
            The dataset that stays as it is.
        **options
            Passed on to `harmonicalign.uses.correct.correct`.

        Returns
        -------
        corrected
            Signals in the form of the fitted input; sparse stays sparse.
        """
        self._at_hand()
        if self._links is not None:
            raise ValueError("correct needs signals that correspond column by column; this model has links")
        results = correct(
            self._inputs.signals,
            self._joint_rows(),
            self._position(reference),
            confidence=self._support(),
            random_state=self._seed,
            **options,
        )
        return self._inputs.restore(results)

    def denoise(self, values: Any, *, dataset: Any = None, t: int | str = "auto") -> Denoised:
        """Values smoothed by diffusion over the rows of all datasets.

        Parameters
        ----------
        values
            Columns over the rows of `dataset`, or over those of all datasets stacked in the order
            of `keys_`.
        dataset
            Which rows the values belong to; they are then smoothed over those rows alone.
        t
            Diffusion time, a whole number; "auto" chooses it.
        """
        self._at_hand()
        matrix, places = check_data("values", values), self._joint_rows()
        if dataset is not None:
            places = [places[self._position(dataset)]]
        n = sum(map(len, places))
        if matrix.shape[0] != n:
            whose = "all datasets, in the order of keys_" if dataset is None else f"dataset {dataset!r}"
            raise ValueError(f"values has {matrix.shape[0]} rows; expected the {n} rows of {whose}")
        support = self._support() if dataset is None else None
        return denoise(matrix, balanced_transitions(places, confidence=support), t=t)

    def impute(self, values: Any, *, source: Any, target: Any, n_neighbors: int = 15) -> Imputation:
        """Features that `target` never measured, from the rows of `source` near to its own.

        Parameters
        ----------
        values
            Features of the rows of `source`.
        source, target
            The two datasets.
        n_neighbors
            Rows of `source` that each prediction is drawn from.
        """
        self._at_hand()
        i, j = self._position(source), self._position(target)
        return impute(values, self.embedding_[i], self.embedding_[j], n_neighbors=n_neighbors)

    def add(self, X: Any, *, key: Any = None, signals: Any = None) -> Array:
        """Let a new dataset join without moving what is there.

        Parameters
        ----------
        X
            The new dataset.
        key
            Its name; by default the next number.
        signals
            Its signals, if the model was fitted with signals apart from the datasets.

        Returns
        -------
        coordinates
            Aligned coordinates of the new rows. The model knows the dataset from now on.
        """
        self._at_hand()
        model = self._refined()
        if self._links is not None:
            raise ValueError("add needs signals that correspond column by column; this model has links")
        key = len(self.keys_) if key is None else key
        if key in self.keys_:
            raise ValueError(f"key {key!r} is taken; the datasets are {self.keys_}")
        if signals is None and self._signals_given:
            raise ValueError("the model was fitted with signals=…; give those of the new dataset too")
        rows = check_data("X", X, min_rows=3)
        shared = self._by_name(X if signals is None else signals)
        expected = self._inputs.signals[0].shape[1]
        if shared.shape != (rows.shape[0], expected):
            raise ValueError(
                f"signals has shape {shared.shape}; expected {rows.shape[0]} rows of the {expected} columns "
                "that the model was fitted with"
            )
        self.model_ = add_dataset(
            model,
            self._inputs.datasets,
            self._inputs.signals,
            rows,
            shared,
            settings=self._settle("refined", [rows.shape]),
            kernel=self._kernel_options("refined"),
            first_band=self.first_band,
            n_landmarks=self.n_landmarks,
            seed=self._seed,
        )
        self._inputs = self._inputs.with_dataset(key, rows, shared, column_names(X))
        self.keys_ = self._inputs.keys
        for name in ("joint_", "confidence_"):
            vars(self).pop(name, None)
        self.embedding_ = [*self.embedding_, self.model_.coordinates()[-1]]
        return self.embedding_[-1]

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write a report on this alignment, one HTML file; options as in `write_report`."""
        from harmonicalign.adapters.report import write_report

        return write_report(self, path, **options)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted model to one ``.npz`` file, all of it or nothing; see `harmonicalign.load`."""
        self._at_hand()
        params = self.get_params(deep=False)
        if not isinstance(params["random_state"], int | np.integer | None):
            params["random_state"] = None  # a generator's state has no meaning in another process
        tree = {
            "params": params,
            "fitted": {name: vars(self)[name] for name in _FITTED if name in vars(self)},
            "inputs": self._inputs.without_containers(),
        }
        return write_tree(path, tree, _TYPES)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote. Nothing in the file is executed."""
        tree = read_tree(path, _TYPES)
        try:
            model = cls(**tree["params"])
            _check_parts(tree)
            vars(model).update(tree["fitted"], _inputs=tree["inputs"])
            if tree["params"]["metric"] == "euclidean":
                with np.errstate(all="ignore"):
                    model._try_out()
        except Exception as error:  # whatever parts that do not fit together provoke
            raise ModelFileError(
                f"{path} does not hold a whole model ({type(error).__name__}: {error}); "
                "it is damaged or foreign"
            ) from error
        return model

    def _try_out(self) -> None:
        """Place a few rows of every dataset, to see that the parts of a loaded model fit together."""
        for i, (data, signals) in enumerate(zip(self._inputs.datasets, self._inputs.signals, strict=True)):
            some = np.unique(np.linspace(0, data.shape[0] - 1, _TRIED_ROWS).astype(np.int64))
            shared = signals[some] if self._links is None else signals[some][:, self._links[i]]
            placed = self.model_.place(i, data[some], shared)
            if placed.shape != (len(some), self._n_features_out) or not np.isfinite(placed).all():
                raise ValueError("it places its own rows nowhere")

    def _joint_rows(self) -> list[Array]:
        """Where rows of every dataset are in the joint space; the embedding itself if there is none."""
        if not isinstance(self.model_, RefinedModel):
            return self.embedding_
        width = self.model_.joint.rows.shape[1]
        return [z[:, -width:] for z in self.embedding_]

    def _support(self) -> list[Array]:
        """Support of every row where it was finally placed, which is what neighbours are drawn from."""
        return row_confidence(self._joint_rows(), random_state=self._seed)

    def _transitions(self, order: list[int]) -> Any:
        """Transition matrix of the joint graph, with the given datasets first."""
        joint = self.joint_
        rest = [i for i in range(len(self.keys_)) if i not in order]
        rows = np.concatenate([np.flatnonzero(joint.batch == i) for i in [*order, *rest]])
        return joint.graph.transitions[rows][:, rows]


_FITTED = (
    "model_",
    "embedding_",
    "keys_",
    "settings_",
    "timings_",
    "signal_names_",
    "n_features_in_",
    "feature_names_in_",
    "_links",
    "_seed",
    "_signals_given",
    "_n_features_out",
)


def _check_parts(tree: Any) -> None:
    """Refuse a file whose parts do not belong together, before anything is done with them."""
    fitted, inputs = tree["fitted"], tree["inputs"]
    if not set(fitted) <= set(_FITTED):
        raise ValueError(f"it sets {sorted(set(map(str, fitted)) - set(_FITTED))}")
    needed = {"model_", "embedding_", "keys_", "_seed", "_n_features_out", "_links", "_signals_given"}
    if not needed <= set(fitted):
        raise ValueError(f"it lacks {sorted(needed - set(fitted))}")
    if not isinstance(inputs, Inputs) or not isinstance(fitted["model_"], PaperModel | RefinedModel):
        raise ValueError("the model or its data are of another type")
    embedding, keys, n = fitted["embedding_"], fitted["keys_"], len(inputs.datasets)
    lengths = {len(part) for part in (embedding, keys, inputs.keys, inputs.signals, inputs.containers)}
    if lengths != {n} or len(fitted["model_"].reductions) != n:
        raise ValueError("its parts are for different numbers of datasets")
    for z, data, signals in zip(embedding, inputs.datasets, inputs.signals, strict=True):
        if z.shape != (data.shape[0], fitted["_n_features_out"]) or signals.shape[0] != data.shape[0]:
            raise ValueError("rows of its data and of its coordinates differ in number")
        if z.dtype.kind != "f" or not np.isfinite(z).all():
            raise ValueError("its coordinates are not finite numbers")
