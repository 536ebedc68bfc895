"""A fitted alignment: immutable, with everything that can be asked of it; `HarmonicAlignment` holds one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from harmonicalign._repr import brief
from harmonicalign._typing import Array, Datasets, Labels, MatrixLike
from harmonicalign.engines.devices import available
from harmonicalign.evidence.confidence import doubted, row_confidence
from harmonicalign.evidence.known import SignalMap
from harmonicalign.fitted.conventions import Wrapper
from harmonicalign.fitted.parameters import Parameters
from harmonicalign.fitted.protocol import AlignedModel
from harmonicalign.fitted.values import over_all_rows, over_rows_of
from harmonicalign.inputs.frames import check_row_labels, layout_of
from harmonicalign.inputs.parse import Inputs, new_key, parse, position_of
from harmonicalign.inputs.rows import at_hand, find_rows
from harmonicalign.inputs.settings import Settings
from harmonicalign.inputs.validate import check_data
from harmonicalign.method.model import RefinedModel
from harmonicalign.method.pooling import PooledModel
from harmonicalign.paper.joint import Joint
from harmonicalign.uses.checks import hold_values
from harmonicalign.uses.correct import Corrected, correct
from harmonicalign.uses.smooth import Denoised, Imputation, balanced_transitions, denoise, impute
from harmonicalign.uses.transfer import LabelTransfer, ValueTransfer, transfer_labels, transfer_values

__all__ = ["AlignedModel", "FittedAlignment"]


@dataclass(frozen=True, eq=False)
class FittedAlignment:
    """Datasets that were aligned, and what can be done with them.

    Attributes
    ----------
    model
        Everything that was fitted.
    inputs
        The datasets and their signals, and the form in which they came.
    embedding
        Aligned coordinates of every dataset.
    settings
        Parameters in force, with one entry per dataset where they depend on it, and their reasons.
    timings
        Seconds per stage.
    seed
        Random seed.
    parameters
        Parameters as they were given.
    links
        Columns of the two datasets' signals, side by side by link; None where columns correspond as they are.
    signals_given
        Whether signals were given apart from the datasets.
    known_confidence
        Confidence of each row, if the data are not kept.
    learned
        For every dataset the map from columns to signals, where it was learned from known pairs or links.
    """

    model: AlignedModel
    inputs: Inputs
    embedding: tuple[Array, ...]
    settings: Settings
    timings: dict[str, float]
    seed: int
    parameters: Parameters
    links: tuple[Array, Array] | None = None
    signals_given: bool = False
    known_confidence: tuple[Array, ...] | None = None
    learned: tuple[SignalMap, ...] | None = None

    def __repr__(self) -> str:
        rows = brief(dict(zip(self.keys, self.sizes, strict=True)))
        return f"FittedAlignment({self.model.method!r}, rows={rows}, coordinates={self.width})"

    @property
    def keys(self) -> list[Any]:
        """Names of the datasets."""
        return list(self.inputs.keys)

    @property
    def sizes(self) -> list[int]:
        """Rows of every dataset."""
        return [len(z) for z in self.embedding]

    @property
    def width(self) -> int:
        """Number of aligned coordinates."""
        return int(self.embedding[0].shape[1])

    @property
    def metric(self) -> str:
        """What the datasets hold: rows ("euclidean"), distances or affinities."""
        return self.parameters.metric

    @property
    def signal_names(self) -> list[str] | None:
        """Column names of the signals, if data frames were given."""
        return self.inputs.signal_names

    @property
    def is_one_matrix(self) -> bool:
        """Whether one plain matrix was fitted, as scikit-learn's transformers are."""
        return self.inputs.form == "single"

    @cached_property
    def signals(self) -> tuple[Any, ...]:
        """Signals of every dataset, linked columns side by side."""
        return tuple(self.linked(i, s) for i, s in enumerate(self.inputs.signals))

    @cached_property
    def joint(self) -> Joint:
        """Graph and diffusion map over the aligned rows of all datasets."""
        return self.model.joint_geometry(self.seed)

    @cached_property
    def confidence(self) -> tuple[Array, ...]:
        """Confidence of each row, before local shifts; reduced where the alignment may mean nothing."""
        if self.known_confidence is not None:
            return tuple(self.known_confidence)
        found: Sequence[Array] | None = self.model.confidence(self.inputs.datasets, self.signals, self.seed)
        if found is None:
            found = row_confidence(self.embedding, n_smooth=4, random_state=self.seed)
        rules = self.parameters.rules
        return tuple(doubted(c, self.model.tests_of(i), rules) for i, c in enumerate(found))

    def position(self, dataset: Any) -> int:
        """Number of a dataset given its key or its number."""
        return position_of(dataset, self.inputs.keys)

    def linked(self, i: int, signals: Any) -> Any:
        """Signals of dataset i with linked columns side by side, where links were given."""
        return signals if self.links is None else signals[:, self.links[i]]

    def joint_coordinates(self) -> list[Array]:
        """Where the rows of every dataset are in the joint space: the embedding is that space."""
        return list(self.embedding)

    def support(self) -> list[Array]:
        """Support of every row where it was finally placed, which is what neighbours are drawn from."""
        return row_confidence(self.embedding, random_state=self.seed)

    def transitions(self, order: Sequence[int]) -> Any:
        """Transition matrix of the joint graph, with the given datasets first."""
        joint = self.joint
        rest = [i for i in range(len(self.keys)) if i not in order]
        rows = np.concatenate([np.flatnonzero(joint.batch == i) for i in [*order, *rest]])
        return joint.graph.transitions[rows][:, rows]

    def restored(self, wrapper: Wrapper) -> Any:
        """Aligned coordinates in the form of the input."""
        return wrapper.hand_back(self.inputs, self.embedding)

    def at_hand(self) -> FittedAlignment:
        """The alignment itself: its rows are in memory."""
        return self

    in_memory = at_hand

    def with_signal_names(self, names: list[str] | None) -> FittedAlignment:
        """The same with names of the signals."""
        return replace(self, inputs=replace(self.inputs, signal_names=names))

    # ---------------------------------------------------------------------------------------- new rows

    def place(self, i: int, X: Any, signals: Any = None) -> Array:
        """Aligned coordinates of rows of dataset i; rows of the fit are recognised and keep theirs.

        Parameters
        ----------
        i
            Number of the dataset.
        X
            Its rows, as users give them.
        signals
            Their signals, if the fit was given signals apart from the datasets.
        """
        if self.metric != "euclidean":
            raise ValueError(f"transform needs rows, but the model was fitted with metric={self.metric!r}")
        rows, known = self.inputs.more_rows(i, X), self.inputs.datasets[i]
        if rows.shape[1] != known.shape[1]:
            raise ValueError(
                f"X has {rows.shape[1]} features; dataset {self.keys[i]!r} was fitted with {known.shape[1]}"
            )
        shared, own = self._shared(i, X, rows, signals)
        out = self.model.place(i, rows, shared, available(self.parameters.device))
        found = find_rows(known, rows, *own)
        out[found >= 0] = self.embedding[i][found[found >= 0]]
        return out

    def place_all(self, X: Any, signals: Any = None) -> tuple[Inputs, list[Array]]:
        """Rows of every dataset, in one of the forms of `HarmonicAlignment.fit`, and their coordinates."""
        inputs = parse(X, signals=signals, corresponding=False)  # rows are matched with those of the fit
        if inputs.keys != self.inputs.keys:
            raise ValueError(
                f"transform got the datasets {inputs.keys}, the model knows {self.inputs.keys}; "
                "pass the dataset of these rows: transform(rows, dataset=…)"
            )
        given = [None if signals is None else signals[key] for key in inputs.keys]
        parts = zip(inputs.containers, given, strict=True)
        return inputs, [self.place(i, rows, s) for i, (rows, s) in enumerate(parts)]

    def with_dataset(self, X: Any, *, key: Any = None, signals: Any = None) -> FittedAlignment:
        """An alignment that knows one dataset more, named `key`; nothing that is there moves.

        Parameters
        ----------
        X, signals
            The new dataset, and its signals if the fit was given signals apart from the datasets.
        key
            Its name; by default the next number.
        """
        if self.model.method != "refined":
            raise AttributeError("only a refined alignment of two or more datasets takes another one")
        if self.links is not None or self.learned is not None:
            how = "this model has links" if self.learned is None else "this model learned its signals"
            raise ValueError(f"add needs signals that correspond column by column; {how}: fit again")
        key = new_key(key, self.keys)
        if signals is None and self.signals_given:
            raise ValueError("the model was fitted with signals=…; give those of the new dataset too")
        rows = check_data("X", X, min_rows=3)
        given = ("X", X) if signals is None else ("signals", signals)
        shared = self.inputs.new_signals(*given)
        expected = self.inputs.signals[0].shape[1]
        if shared.shape != (rows.shape[0], expected):
            raise ValueError(
                f"signals has shape {shared.shape}; expected {rows.shape[0]} rows of the {expected} columns "
                "that the model was fitted with"
            )
        settings = self.parameters.settle("refined", {len(self.keys): rows.shape})
        known = self.inputs.datasets, self.inputs.signals
        model = cast(RefinedModel | PooledModel, self.model)
        grown = self.parameters.grow(model, known, (rows, shared), settings, self.seed)
        layouts = layout_of(X), layout_of(given[1])
        return replace(
            self,
            model=grown,
            inputs=self.inputs.with_dataset(key, rows, shared, layouts),
            embedding=(*self.embedding, grown.coordinates()[-1]),
            settings=self.settings.joined_by(settings),
        )

    def _shared(self, i: int, X: Any, rows: Any, signals: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        """Signals of more rows of dataset i; and known and new ones, if they are not columns of the rows."""
        if self.model.method == "paper":
            # The published method places rows by their own columns alone.
            if signals is not None:
                raise ValueError("signals are not used where method='paper' places rows; drop signals")
            return rows, []
        if signals is None and self.signals_given:
            raise ValueError("the model was fitted with signals=…; pass signals of the new rows too")
        if self.learned is not None:
            return self.learned[i].checked(rows if signals is None else signals, rows.shape[0]), []
        if signals is None:
            # Columns matched by position are those of the rows, which were already checked.
            by_position = self.signal_names is None
            return self.linked(i, rows if by_position else self.inputs.more_signals(i, X)), []
        check_row_labels("signals", signals, layout_of(X).index, "X")
        known, shared = self.inputs.signals[i], self.inputs.more_signals(i, signals)
        expected = rows.shape[0], known.shape[1]
        if shared.shape != expected:
            raise ValueError(
                f"signals has shape {shared.shape}; expected {expected}, rows of X by signals of the fit"
            )
        return self.linked(i, shared), [(known, shared)]

    # ---------------------------------------------------------------------------------------- uses

    def transfer(
        self,
        /,
        labels: Labels | Mapping[Any, Labels],
        *,
        source: Hashable = None,
        target: Hashable = None,
        method: str = "knn",
        threshold: float | None = None,
        **options: Any,
    ) -> LabelTransfer | ValueTransfer:
        """Transfer labels or values of some datasets to another.

        Parameters
        ----------
        labels
            One label (or value, or row of values) per row of `source`; a dict by dataset to use
            several. Floating-point arrays are values, anything else is labels.
        source
            Dataset the labels belong to, by default the first; ignored if `labels` is a dict.
        target
            Dataset to label, by default the second.
        method
            "knn", "diffusion" (over the joint graph) or, for labels, "svm".
        threshold
            Labels with a lower confidence become "unassigned".
        **options
            Passed on to `harmonicalign.uses.transfer.transfer_labels` or `transfer_values`.

        Returns
        -------
        transfer
            Labels with calibrated probabilities, or values with their expected error.
        """
        source = self.keys[0] if source is None else source
        target = self.keys[min(1, len(self.keys) - 1)] if target is None else target
        given = labels if isinstance(labels, Mapping) else {source: labels}
        sources, goal = [self.position(key) for key in given], self.position(target)
        if goal in sources:
            raise ValueError(f"target {target!r} is among the sources; name another dataset")
        if len(set(sources)) < len(sources):
            raise ValueError(f"labels names a dataset twice: {list(given)}")
        for i, values in zip(sources, given.values(), strict=True):
            self.inputs.check_order(i, "labels", values)
        places, new = [self.embedding[i] for i in sources], self.embedding[goal]
        walk = self.transitions([*sources, goal]) if method == "diffusion" else None
        common = {"method": method, "random_state": self.seed, "transitions": walk, **options}
        known = list(given.values())
        if hold_values([self.keys[i] for i in sources], known, threshold):
            return transfer_values(places, known, new, **common)
        common |= {"support": self.support()[goal], "threshold": threshold}
        return transfer_labels(places, known, new, **common)

    def correct(self, /, reference: Hashable = None, **options: Any) -> Corrected:
        """Signals of every dataset, corrected to match a reference dataset, in original units.

        Parameters
        ----------
        reference
            The reference dataset, which is not changed; by default the first.
        **options
            Passed on to `harmonicalign.uses.correct.correct`.

        Returns
        -------
        corrected
            Its ``values`` are the signals in the form of the fitted input: sparse stays sparse, and data
            frames are data frames of the shared columns, with their row labels.
        """
        if self.links is not None:
            raise ValueError("correct needs signals that correspond column by column; this model has links")
        target = 0 if reference is None else self.position(reference)
        given = {"confidence": self.support(), "random_state": self.seed, **options}
        signals = [at_hand(signals) for signals in self.inputs.signals]
        found = correct(signals, self.embedding, target, **given)
        return Corrected(self.inputs.restore_signals(found.values), self.keys[target])

    def denoise(
        self, /, values: Datasets | None = None, *, dataset: Hashable = None, t: int | str = "auto"
    ) -> Denoised:
        """Values smoothed by diffusion over the rows of all datasets.

        Parameters
        ----------
        values
            Columns over the rows of every dataset, in a list or dict; or one matrix over the rows of all, in
            the order of the fit (of several datasets: of `keys_`). By default the signals of the fit.
        dataset
            Which dataset the values belong to; they are then smoothed over its rows alone.
        t
            Diffusion time, a whole number; "auto" chooses it.
        """
        if dataset is None:
            given = over_all_rows(values, self.inputs, self.sizes)
            transitions = balanced_transitions(self.embedding, confidence=self.support())
            return given.restored(denoise(given.matrix, transitions, t=t))
        i = self.position(dataset)
        found = denoise(over_rows_of(i, values, self.inputs), balanced_transitions([self.embedding[i]]), t=t)
        layout = layout_of(values)
        return replace(found, values=layout.table(found.values, index=layout.index))

    def impute(
        self, values: MatrixLike, *, source: Hashable, target: Hashable, n_neighbors: int = 15
    ) -> Imputation:
        """Unmeasured features of `target`, predicted from the nearest rows of `source`.

        Parameters
        ----------
        values
            Features of the rows of `source`.
        source, target
            The two datasets.
        n_neighbors
            Number of rows of `source` per prediction.
        """
        i, j = self.position(source), self.position(target)
        self.inputs.check_order(i, "values", values)
        found = impute(values, self.embedding[i], self.embedding[j], n_neighbors=n_neighbors)
        return replace(found, values=layout_of(values).table(found.values, index=self.inputs.row_labels(j)))
