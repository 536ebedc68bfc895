"""`ShapeAlignment`: two datasets without any shared feature, aligned or refused."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from harmonicalign._exceptions import AlignmentWarning
from harmonicalign._progress import Progress
from harmonicalign._typing import Array, Matrix
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.inputs.parse import Inputs, parse, position_of
from harmonicalign.inputs.validate import check_integer, random_state_from
from harmonicalign.paper.graph import Graph
from harmonicalign.paper.reduction import Reduction, reduce_rows
from harmonicalign.shape.config import DEFAULT_SHAPE, LEAST_ROWS, ShapeConfig
from harmonicalign.shape.geometry import Geometry, describe
from harmonicalign.shape.search import Solution, search, search_plan

__all__ = ["ShapeAlignment", "ShapeVerdict"]


@dataclass(frozen=True)
class ShapeVerdict:
    """Whether shape alone tells how two datasets lie on each other, and why.

    Attributes
    ----------
    aligned
        Whether the alignment may be used.
    loss
        Relative loss of the best solution: 0 is the same shape, 1 is nothing in common.
    ratio
        Loss of the best solution that contradicts it, over its own; infinite if none was found.
    differs
        How far that other solution is from it, from 0 (the same) to about 0.5 (independent).
    reason
        The verdict in words.
    """

    aligned: bool
    loss: float
    ratio: float
    differs: float
    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class _Side:
    """One dataset: its reduction, the landmarks among its rows, and their geometry."""

    reduction: Reduction
    landmarks: Array
    geometry: Geometry
    graph: Graph


class ShapeAlignment(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[misc,call-arg]
    """Align two datasets that share no feature, by the distances within each; refuse where that cannot tell.

    Prefer `HarmonicAlignment` wherever some features mean the same in both datasets, or some rows are known
    to match: shape alone is weak evidence. The datasets should hold the same kinds of rows in about the same
    proportions.

    Parameters
    ----------
    n_landmarks
        The alignment is found on at most so many rows of each dataset, then applied to all.
    n_pca
        Principal components of each dataset on which distances are measured; None uses all columns.
    config
        Numbers of the method, where they are not to be `harmonicalign.shape.config.DEFAULT_SHAPE`.
    random_state
        Seed, `RandomState` or `Generator`.
    verbose
        Print each stage, its time and about how much is left to standard error.

    Attributes
    ----------
    aligned_ : bool
        False if the alignment was refused; coordinates are there all the same, for those who ask for them.
    verdict_ : ShapeVerdict
        How sure the alignment is, in numbers and in words.
    alternatives_ : list of Solution
        The solutions that were found, best first: plan between landmarks, loss, and how far each is from the
        best. `embedding_of` gives the coordinates of any of them.
    embedding_ : list of arrays
        Coordinates of both datasets under the best solution.
    pairs_ : array
        Rows that are each other's best match under the best solution, (m, 2): may serve as a first guess, not
        as known pairs.
    landmarks_ : list of arrays
        Rows on which the alignment was found.
    keys_ : list
        Names of the datasets.
    timings_ : dict
        Seconds per stage.

    Examples
    --------
    >>> import numpy as np
    >>> from harmonicalign import ShapeAlignment
    >>> rng = np.random.default_rng(0)
    >>> t = rng.uniform(size=(2, 150)) ** 2
    >>> x = np.column_stack([t[0], np.sin(3 * t[0])])
    >>> y = np.column_stack([np.cos(2 * t[1]), 2 * t[1], np.zeros(150)])
    >>> model = ShapeAlignment(random_state=0).fit([x, y])
    >>> [z.shape for z in model.embedding_]
    [(150, 40), (150, 40)]
    """

    def __init__(
        self,
        *,
        n_landmarks: int = 2000,
        n_pca: int | None = 30,
        config: ShapeConfig | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.n_pca = n_pca
        self.config = config
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, *, batch: Any = None, signals: Any = None, anchors: Any = None
    ) -> Self:
        """Align two datasets.

        Parameters
        ----------
        X
            A list or dict of two datasets (rows by columns; columns need not correspond), or one matrix with
            `batch`.
        y
            Ignored; for compatibility with scikit-learn.
        batch
            With one matrix: the label of the dataset of every row.
        signals, anchors
            Refused: they are evidence that `HarmonicAlignment` uses and shape does not.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        config = self._checked(signals, anchors)
        inputs = _two_datasets(X, batch)
        rng = np.random.default_rng(random_state_from(self.random_state).randint(2**31))
        progress = Progress(self.verbose)
        first, second = (min(d.shape[0], self.n_landmarks) for d in inputs.datasets)
        progress.expect(search_plan((first, second), config))
        with threadpool_limits(None if self.n_landmarks > config.n_coarse else 1, user_api="blas"):
            sides = []
            for key, data in zip(inputs.keys, inputs.datasets, strict=True):
                with progress.stage(f"shape of dataset {key!r}"):
                    sides.append(self._side(data, config, f"dataset {key!r}", rng))
            found = search(sides[0].geometry, sides[1].geometry, config, rng, progress)
        self._inputs = inputs
        self._sides = sides
        self.keys_ = list(inputs.keys)
        self.landmarks_ = [side.landmarks for side in sides]
        self.alternatives_ = found
        self.verdict_ = _judge(found, config)
        self.aligned_ = self.verdict_.aligned
        self.timings_ = progress.timings
        self.embedding_ = self.embedding_of(0)
        if not self.aligned_:
            warnings.warn(f"the alignment is refused: {self.verdict_}", AlignmentWarning, stacklevel=2)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Align two datasets and return their coordinates in the form of the input."""
        self.fit(X, **fit_params)
        return self._inputs.restore(list(self.embedding_))

    def transform(self, X: Any, *, dataset: Any) -> Array:
        """Coordinates of rows of a dataset, new or old, under the best solution.

        Parameters
        ----------
        X
            Rows with the columns of that dataset.
        dataset
            Which dataset: its position, key or batch label.
        """
        check_is_fitted(self, "alternatives_")
        i = position_of(dataset, self.keys_)
        rows = self._inputs.more_rows(i, X)
        width = self._inputs.datasets[i].shape[1]
        if rows.shape[1] != width:
            raise ValueError(f"X has {rows.shape[1]} columns; dataset {self.keys_[i]!r} has {width}")
        return self._place(i, rows, self._landmark_coordinates(0)[i])

    def embedding_of(self, alternative: int) -> list[Array]:
        """Coordinates of both datasets under one of the `alternatives_`; 0 is the best.

        Parameters
        ----------
        alternative
            Its position in `alternatives_`.
        """
        check_is_fitted(self, "alternatives_")
        check_integer("alternative", alternative, maximum=len(self.alternatives_) - 1)
        placed = self._landmark_coordinates(alternative)
        return [self._place(i, data, placed[i]) for i, data in enumerate(self._inputs.datasets)]

    @property
    def pairs_(self) -> Array:
        """Rows that are each other's best match."""
        check_is_fitted(self, "alternatives_")
        plan = self.alternatives_[0].plan
        best = plan.argmax(axis=1)
        mutual = np.flatnonzero(plan.argmax(axis=0)[best] == np.arange(len(plan)))
        return np.column_stack([self.landmarks_[0][mutual], self.landmarks_[1][best[mutual]]])

    def _checked(self, signals: Any, anchors: Any) -> ShapeConfig:
        check_integer("n_landmarks", self.n_landmarks, minimum=LEAST_ROWS, maximum=5000)
        if self.n_pca is not None:
            check_integer("n_pca", self.n_pca, minimum=1)
        if not isinstance(self.config, ShapeConfig | None):
            raise ValueError(f"config is {self.config!r}; expected a ShapeConfig or None")
        for name, given in {"signals": signals, "anchors": anchors}.items():
            if given is not None:
                raise ValueError(
                    f"ShapeAlignment compares shapes only and would not use {name}, which are better "
                    f"evidence: use HarmonicAlignment().fit(X, {name}=…), or drop them"
                )
        return DEFAULT_SHAPE if self.config is None else self.config

    def _side(self, data: Matrix, config: ShapeConfig, name: str, rng: np.random.Generator) -> _Side:
        seed, n = int(rng.integers(2**31)), data.shape[0]
        reduction, rows = reduce_rows(data, self.n_pca, seed)
        most = self.n_landmarks
        chosen = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
        geometry, graph = describe(rows[chosen], config, name, seed)
        return _Side(reduction, chosen, geometry, graph)

    def _landmark_coordinates(self, alternative: int) -> tuple[Array, Array]:
        """Both maps side by side; where a row has no place of its own, the mean of those it lies on."""
        plan = self.alternatives_[alternative].plan.astype(np.float64)
        x, y = (_unit(side.geometry.coordinates) for side in self._sides)
        onto_y = plan / plan.sum(axis=1, keepdims=True)
        onto_x = (plan / plan.sum(axis=0)).T
        return np.hstack([x, onto_y @ y]), np.hstack([onto_x @ x, y])

    def _place(self, i: int, data: Matrix, placed: Array) -> Array:
        """Coordinates of rows: those of a landmark, or the weighted mean of the nearest landmarks'."""
        side = self._sides[i]
        rows = side.reduction.apply(data)
        out = np.asarray(side.graph.extend(rows) @ placed)
        assert side.graph.rows is not None
        nearest = nearest_rows(side.graph.rows, 1, rows)
        same = nearest.distances[:, 0] <= 1e-7 * np.abs(rows).max(initial=1.0)
        out[same] = placed[nearest.indices[same, 0]]
        return out.astype(np.float32)


def _two_datasets(X: Any, batch: Any) -> Inputs:
    inputs = parse(X, batch, None, corresponding=False)
    if len(inputs.keys) == 1:
        raise ValueError(
            "ShapeAlignment lays one dataset onto another, but there is one; give two, or use "
            "HarmonicAlignment for the diffusion map of one"
        )
    if len(inputs.keys) > 2:
        raise ValueError(
            f"ShapeAlignment takes two datasets, but there are {len(inputs.keys)}; align each of the others "
            "with the largest, one at a time"
        )
    for key, data in zip(inputs.keys, inputs.datasets, strict=True):
        if data.shape[0] < LEAST_ROWS:
            raise ValueError(
                f"dataset {key!r} has {data.shape[0]} rows; fewer than {LEAST_ROWS} have too little shape to "
                "tell: give more rows, or shared features or known pairs to HarmonicAlignment"
            )
    return inputs


def _judge(found: Sequence[Solution], config: ShapeConfig) -> ShapeVerdict:
    """Whether the best solution stands out from those that contradict it."""
    best = found[0]
    others = [s for s in found[1:] if s.differs >= config.different]
    rival = min(others, key=lambda s: s.loss) if others else None
    ratio = np.inf if rival is None else rival.loss / max(best.loss, 1e-6)
    differs = 0.0 if rival is None else rival.differs
    facts = f"relative loss {best.loss:.3f}" + (
        "; no solution was found that contradicts it"
        if rival is None
        else f"; the best solution that contradicts it has {ratio:.2f} times that loss"
    )
    if best.loss > config.most_loss:
        reason = (
            f"the two shapes differ too much ({facts}; at most {config.most_loss:g} is accepted). Do the "
            "datasets hold the same kinds of rows? Give shared features or known pairs to HarmonicAlignment"
        )
    elif ratio < config.least_ratio:
        reason = (
            f"shape cannot tell which of several solutions is right ({facts}; at least "
            f"{config.least_ratio:g} times is asked for). Look at alternatives_, or give shared features or "
            "known pairs to HarmonicAlignment"
        )
    else:
        return ShapeVerdict(True, best.loss, float(ratio), differs, f"aligned by shape ({facts})")
    return ShapeVerdict(False, best.loss, float(ratio), differs, reason)


def _unit(coordinates: Array) -> Array:
    """Centred, with rows of mean squared length 1."""
    centred = coordinates - coordinates.mean(axis=0)
    spread = float(np.sqrt((centred**2).sum(axis=1).mean()))
    return np.asarray(centred / spread if spread > 0 else centred)
