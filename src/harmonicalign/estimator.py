"""`HarmonicAlignment`: validates, calls the stages, remembers. The maths lives in the stages."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from harmonicalign._progress import Progress
from harmonicalign._typing import Array
from harmonicalign.adapters.distributed.inputs import holds_dask
from harmonicalign.adapters.uses import AlignmentUses
from harmonicalign.engines.devices import resolve as resolve_device
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.significance import Significance, false_discovery
from harmonicalign.inputs.links import link_signals
from harmonicalign.inputs.parse import Inputs, parse
from harmonicalign.inputs.rows import find_rows
from harmonicalign.inputs.settings import FitOptions, Settings, resolve
from harmonicalign.inputs.validate import check_data, check_integer, random_state_from
from harmonicalign.method import memory
from harmonicalign.method.anchors import known_pairs
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.fit import fit_refined
from harmonicalign.method.model import RefinedModel, placed_confidence
from harmonicalign.paper.align import MultiAlignment
from harmonicalign.paper.harmonics import Harmonics
from harmonicalign.paper.joint import Joint, joint_geometry
from harmonicalign.paper.model import PaperModel, fit_paper

__all__ = ["HarmonicAlignment"]


_CHOICES = {
    "method": ("refined", "paper"),
    "frame": ("blocks", "common"),
    "metric": ("euclidean", "distance", "affinity"),
}


class HarmonicAlignment(AlignmentUses, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[misc,call-arg]
    """Align datasets that measure the same thing, without knowing which rows match.

    Parameters
    ----------
    method
        "refined", the default: learns which features correspond, and refines the alignment
        through anchors. "paper": exactly Harmonic Alignment as published.
    n_neighbors
        Neighbours that set each row's kernel bandwidth; "auto" settles it from the data.
    n_pca
        Principal components of each dataset on which its graph is built; None uses all columns.
    n_harmonics
        Harmonics per dataset; None means all of them (a full decomposition).
    n_bands
        Number ℓ of frequency bands.
    t
        Diffusion time of the map, a real number ≥ 0.
    calibrate
        Compare frequencies at one diffusion time; "auto" does so except for ``method="paper"``.
    n_landmarks
        "refined" finds the alignment on at most so many rows of each dataset, and then applies it
        to all.
    frame
        For "paper". "blocks": its unified map, one block of columns per dataset. "common": one
        frame whose width does not grow with the number of datasets.
    signal_pca
        For "paper": rank of one joint projection of the signals; None uses them as they are.
    first_band
        0 (the lemma) or 1 (the sum as printed); see `bandlimiting_weights`.
    bandwidth, decay, thresh, anisotropy, max_neighbors, metric
        The kernel; see `kernel_graph`. "auto" is the paper's choice there and a more local,
        density-aware kernel for "refined".
    device
        Where the work on all rows is done: "cpu"; "cuda" (or "cuda:1", …), which must be there; or
        "auto", which takes CUDA where there is any. Needs torch; serves the "refined" method.
    random_state
        Seed, `RandomState` or `Generator`. The global seed is never touched.
    verbose
        Print each stage and its time to standard error.

    Attributes
    ----------
    embedding_ : list of arrays
        Aligned coordinates of every dataset.
    model_ : PaperModel or RefinedModel
        Everything that was fitted.
    feature_weights_ : array
        "refined": how far every signal is believed to correspond, in [0, 1]; as far as all are in the mean
        where it varies so little that nothing can be told.
    feature_scores_ : array
        Agreement of every signal across the datasets, in [−1, 1].
    feature_selected_ : array of bool
        Signals that correspond at a false discovery rate of 5 %.
    share_ : float
        Share of the signals' smooth variation that corresponds.
    significance_ : Significance
        z and p of the alignment against permuted features.
    confidence_ : list of arrays
        For every row, how well other datasets support its place, in [0, 1].
    history_ : list of dict
        The objective after every step of the refinement.
    harmonics_ : tuple of Harmonics
        The harmonics of every dataset.
    settings_ : Settings
        Parameters in force and the reasons for them.
    n_neighbors_, n_pca_, n_harmonics_, n_bands_, t_
        The same, one by one; those that depend on the dataset are lists.
    timings_ : dict
        Seconds per stage.
    joint_ : Joint
        Graph and diffusion map over the aligned rows of all datasets.
    keys_ : list
        Names of the datasets: positions, dictionary keys or batch labels.
    signal_names_ : list of str or None
        Column names of the signals, where data frames gave them.

    Examples
    --------
    >>> from harmonicalign import HarmonicAlignment
    >>> from harmonicalign.datasets import load_digits_pair
    >>> pair = load_digits_pair(preserved=0.5, n_x=200, n_y=200, random_state=0)
    >>> model = HarmonicAlignment(random_state=0)
    >>> zx, zy = model.fit_transform([pair.x, pair.y])
    >>> zx.shape == zy.shape
    True
    >>> bool(model.significance_.p < 0.01)
    True
    """

    def __init__(
        self,
        *,
        method: str = "refined",
        n_neighbors: int | str = "auto",
        n_pca: int | str | None = "auto",
        n_harmonics: int | str | None = "auto",
        n_bands: int | str = "auto",
        t: float | str = "auto",
        calibrate: bool | str = "auto",
        n_landmarks: int = 2000,
        frame: str = "blocks",
        signal_pca: int | None = None,
        first_band: int = 0,
        bandwidth: Any = "knn",
        decay: float = 2.0,
        thresh: float = 1e-4,
        anisotropy: float | str = "auto",
        max_neighbors: int | str | None = "auto",
        metric: str = "euclidean",
        device: str = "cpu",
        config: MethodConfig | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.n_neighbors = n_neighbors
        self.n_pca = n_pca
        self.n_harmonics = n_harmonics
        self.n_bands = n_bands
        self.t = t
        self.calibrate = calibrate
        self.n_landmarks = n_landmarks
        self.frame = frame
        self.signal_pca = signal_pca
        self.first_band = first_band
        self.bandwidth = bandwidth
        self.decay = decay
        self.thresh = thresh
        self.anisotropy = anisotropy
        self.max_neighbors = max_neighbors
        self.metric = metric
        self.device = device
        self.config = config
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        batch: Any = None,
        signals: Any = None,
        anchors: Any = None,
        links: Any = None,
        client: Any = None,
        landmark_rows: int | None = None,
        chunk_rows: int | None = None,
    ) -> Self:
        """Align datasets.

        Parameters
        ----------
        X
            A list or dict of datasets (rows by columns: arrays, scipy sparse matrices, data frames
            or dask arrays), or one matrix with `batch`. One matrix alone is one dataset, and the result
            is its diffusion map.
        y
            Ignored; there for scikit-learn's sake.
        batch
            With one matrix: the label of the dataset of every row.
        signals
            Columns that mean the same in every dataset, in the form of `X`. By default the
            datasets themselves, so their columns must then correspond.
        anchors
            Rows known to match: an (m, 2) array of row numbers in two datasets, or a dict of such
            arrays by pair of datasets.
        links
            For two datasets whose signals differ: a matrix of weights between the signals of the
            first and those of the second (genes to proteins, orthologues); 0 is no link.
        client
            A `distributed.Client`, or the address of a Dask scheduler, to fit there block by block;
            dask arrays are fitted in this way on whatever Dask is set to use. The model is fitted on
            landmarks of every dataset and places the other rows; `embedding_` holds dask arrays that
            are computed when they are asked for. See `harmonicalign.distributed`.
        landmark_rows
            With Dask: rows of each dataset that the model is fitted on; by default 20,000.
        chunk_rows
            With Dask and ``method="paper"``: align in chunks of so many rows, the paper's way to
            divide and conquer, instead of by landmarks.
        """
        self._reset()
        if client is not None or holds_dask(X):
            return self._fit_distributed(X, batch, signals, anchors, links, client, landmark_rows, chunk_rows)
        if landmark_rows is not None or chunk_rows is not None:
            raise ValueError(
                "landmark_rows and chunk_rows go with dask arrays or client=…, not with a fit in memory"
            )
        inputs = self._parse(X, batch, signals, links)
        self._signals_given = signals is not None
        self._links = None if links is None else link_signals(links, *inputs.signals)
        linked = [self._link(i, s) for i, s in enumerate(inputs.signals)]
        method = "paper" if len(inputs.datasets) == 1 else self.method
        self._seed = random_state_from(self.random_state).randint(2**31)
        progress = Progress(self.verbose)
        self.settings_ = self._settle(method, [d.shape for d in inputs.datasets])
        sizes = [d.shape[0] for d in inputs.datasets]
        self._plan_memory(method, inputs)
        known = {} if method == "paper" else self._anchor_pairs(anchors, inputs.keys, sizes)
        self.model_ = self._model_fit(method, inputs.keys, known, progress)(inputs.datasets, linked)
        self.keys_, self.signal_names_, self.timings_ = inputs.keys, inputs.signal_names, progress.timings
        self._inputs = inputs
        self.embedding_ = self.model_.coordinates()
        self._n_features_out = self.embedding_[0].shape[1]
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Align datasets and return their aligned coordinates in the form of the input.

        Parameters as in `fit`.
        """
        self.fit(X, **fit_params)
        if self._lazy is not None:
            inputs, result = self._lazy
            return inputs.restore(result.embedding)
        return self._hand_back(self._inputs, self.embedding_)

    def transform(self, X: Any, *, dataset: Any = None, signals: Any = None) -> Any:
        """Aligned coordinates of rows of a known dataset, new or old.

        Parameters
        ----------
        X
            Rows of one dataset; or, without `dataset`, a list or dict of rows for every dataset.
        dataset
            Which dataset the rows belong to: its position, key or batch label. May be left out if
            the model was fitted on one dataset.
        signals
            Signals of the rows, if `fit` was given signals apart from the datasets.

        Returns
        -------
        coordinates
            Rows that were in the fit get the coordinates they had there; others are placed by
            the extension of the fitted maps and harmonics.
        """
        check_is_fitted(self, "embedding_")
        if self._lazy is not None:
            return self._transform_distributed(X, dataset, signals)
        if dataset is None and len(self.keys_) > 1:
            inputs = parse(X, signals=signals, corresponding=self._links is None)
            if inputs.keys != self.keys_:
                raise ValueError(
                    f"transform got the datasets {inputs.keys}, the model knows {self.keys_}; "
                    "name the one these rows belong to: transform(rows, dataset=…)"
                )
            given = [None if signals is None else signals[key] for key in inputs.keys]
            parts = zip(inputs.containers, given, strict=True)
            return self._hand_back(inputs, [self._place(i, rows, s) for i, (rows, s) in enumerate(parts)])
        position = 0 if dataset is None else self._position(dataset)
        if len(self.keys_) == 1 and self._inputs.form == "single":
            rows = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        else:
            rows = X
        return self._wrap(self._place(position, rows, signals), X)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the aligned coordinates: harmonic0, harmonic1, …"""
        check_is_fitted(self, "embedding_")
        return np.asarray([f"harmonic{i}" for i in range(self._n_features_out)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of results: "default", "pandas" or "polars"."""
        if transform is not None:
            if transform not in ("default", "pandas", "polars"):
                raise ValueError(f"transform is {transform!r}; expected 'default', 'pandas' or 'polars'")
            self._sklearn_output_config = {"transform": transform}
        return self

    @cached_property
    def joint_(self) -> Joint:
        """Graph and diffusion map over the aligned rows (landmarks, if Dask was used) of all datasets."""
        check_is_fitted(self, "embedding_")
        if self._lazy is not None and not isinstance(self.model_, RefinedModel):
            return self.in_memory().joint_
        if isinstance(self.model_, RefinedModel) and self.model_.joint.batch.max() == len(self.keys_) - 1:
            return self.model_.joint
        return joint_geometry(self._joint_rows(), random_state=self._seed)

    @cached_property
    def confidence_(self) -> list[Array]:
        """How well other datasets support each row's place, before rows are moved towards each other."""
        check_is_fitted(self, "embedding_")
        if self._lazy is not None:
            inputs, result = self._lazy
            if result.confidence is None:
                raise AttributeError("only a refined alignment has confidence_ after a distributed fit")
            return inputs.split(result.confidence)
        model = self.model_
        if not isinstance(model, RefinedModel):
            return row_confidence(self.embedding_, n_smooth=4, random_state=self._seed)
        parts = zip(self._inputs.datasets, self._inputs.signals, strict=True)
        rigid = [
            model.space.place_rigidly(i, model.reductions[i].apply(rows), self._link(i, signals))
            for i, (rows, signals) in enumerate(parts)
        ]
        return placed_confidence(rigid, self._seed)

    @property
    def n_neighbors_(self) -> list[int]:
        """Neighbours in force, by dataset."""
        return self._settled().n_neighbors

    @property
    def n_pca_(self) -> list[int | None]:
        """Principal components in force, by dataset; None uses all columns."""
        return self._settled().n_pca

    @property
    def n_harmonics_(self) -> list[int]:
        """Harmonics in force, by dataset."""
        return self._settled().n_harmonics

    @property
    def n_bands_(self) -> int:
        """Number of bands in force."""
        return self._settled().n_bands

    @property
    def t_(self) -> float:
        """Diffusion time in force."""
        return self._settled().t

    @property
    def harmonics_(self) -> tuple[Harmonics, ...]:
        """Harmonics of every dataset."""
        return self._fitted_model().harmonics

    @property
    def alignment_(self) -> MultiAlignment:
        """Correlations and rotations between pairs of datasets."""
        model = self._fitted_model()
        if isinstance(model, PaperModel):
            return model.alignment
        # Refinements have the parent first; here the smaller number comes first.
        pairs = {}
        for i, refinement in model.pairs.items():
            j = model.space.parents[i]
            pairs[min(i, j), max(i, j)] = refinement.alignment if j < i else refinement.alignment.transposed
        return MultiAlignment(model.harmonics, pairs)

    @property
    def feature_weights_(self) -> Array:
        """How far every signal is believed to correspond, in [0, 1]."""
        return self._refined().correspondence.belief

    @property
    def feature_scores_(self) -> Array:
        """Agreement of every signal across the datasets."""
        return self._refined().correspondence.scores

    @property
    def feature_selected_(self) -> Array:
        """Signals that correspond at a false discovery rate of 5 %."""
        return false_discovery(self._refined().correspondence.p_values)

    @property
    def share_(self) -> float:
        """Share of the signals' smooth variation that corresponds."""
        return self._refined().correspondence.share

    @property
    def significance_(self) -> Significance:
        """Permutation test of the alignment; of the weakest pair where there are several."""
        return self._refined().significance

    @property
    def history_(self) -> list[dict[str, Any]]:
        """The objective after every step of the refinement."""
        refinements = self._refined().pairs
        return [{"dataset": self.keys_[i], **step} for i, r in refinements.items() for step in r.history]

    def _fitted_model(self) -> PaperModel | RefinedModel:
        check_is_fitted(self, "model_")
        return self.model_

    def _refined(self) -> RefinedModel:
        model = self._fitted_model()
        if not isinstance(model, RefinedModel):
            raise AttributeError("only a refined alignment of two or more datasets has this")
        return model

    def _settled(self) -> Settings:
        check_is_fitted(self, "settings_")
        return self.settings_

    def _reset(self) -> None:
        """Forget an earlier fit, so that fitting again equals fitting anew."""
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in known:
                expected = ", ".join(map(repr, known[:-1])) + f" or {known[-1]!r}"
                raise ValueError(f"{name} is {value!r}; expected {expected}")
        check_integer("n_landmarks", self.n_landmarks, minimum=10)
        self._lazy = None
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _parse(self, X: Any, batch: Any, signals: Any, links: Any) -> Inputs:
        if batch is None and (sp.issparse(X) or not isinstance(X, list | tuple | dict)):
            if len(set(map(str, getattr(X, "columns", ())))) < len(getattr(X, "columns", ())):
                raise ValueError("X has a column name more than once; make names unique")
            # One plain matrix: scikit-learn's own checks give its messages and remember its names.
            validate_data(self, X, accept_sparse="csr", dtype=None, ensure_min_samples=3)
        inputs = parse(X, batch, signals, corresponding=links is None)
        widths = {d.shape[1] for d in inputs.datasets}
        if len(widths) == 1:
            self.n_features_in_ = widths.pop()
        names = getattr(inputs.containers[0], "columns", None)
        if inputs.form == "stacked" and names is not None and all(isinstance(c, str) for c in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)
        return inputs

    def _settle(self, method: str, shapes: list[tuple[int, int]]) -> Settings:
        """Parameters in force for datasets of the given shapes."""
        return resolve(
            shapes,
            rules=None if method == "paper" else self.config or DEFAULT,
            n_neighbors=self.n_neighbors,
            n_pca=None if self.metric != "euclidean" else self.n_pca,
            n_harmonics=self.n_harmonics,
            n_bands=self.n_bands,
            t=self.t,
            calibrate=self.calibrate,
        )

    def _plan_memory(self, method: str, inputs: Inputs) -> None:
        """Refuse work that will not fit into memory before it begins."""
        if self.metric != "euclidean":
            return
        settings = self.settings_
        memory.check(
            [d.shape[0] for d in inputs.datasets],
            [width or d.shape[1] for width, d in zip(settings.n_pca, inputs.datasets, strict=True)],
            settings.n_harmonics,
            settings.n_neighbors,
            method=method,
            n_landmarks=self.n_landmarks,
            n_signals=inputs.signals[0].shape[1],
            itemsize=max(d.dtype.itemsize for d in inputs.datasets),
        )

    def _model_fit(
        self, method: str, keys: list[Any], anchors: dict[tuple[int, int], Any], progress: Progress
    ) -> Callable[[list[Any], list[Any]], PaperModel | RefinedModel]:
        """The fit as a function of datasets and signals alone, which can be called elsewhere."""
        device = resolve_device(self.device)
        if device != "cpu" and method == "paper":
            raise ValueError(f"device={self.device!r} serves method='refined'; use device='cpu' with 'paper'")
        common: dict[str, Any] = {
            "names": [f"dataset {key!r}" for key in keys],
            "options": FitOptions(
                self.settings_, self._kernel_options(method), self.first_band, self._seed, device
            ),
            "progress": progress,
        }
        if method == "paper":
            return partial(fit_paper, signal_pca=self.signal_pca, common=self.frame == "common", **common)
        return partial(
            fit_refined,
            anchors=anchors,
            n_landmarks=self.n_landmarks,
            config=self.config or DEFAULT,
            **common,
        )

    def _kernel_options(self, method: str) -> dict[str, Any]:
        paper = method == "paper"
        return {
            "bandwidth": self.bandwidth,
            "decay": self.decay,
            "thresh": self.thresh,
            "anisotropy": (1.0 if paper else (self.config or DEFAULT).anisotropy)
            if _auto(self.anisotropy)
            else self.anisotropy,
            "metric": self.metric,
            "max_neighbors": (None if paper else (self.config or DEFAULT).kernel_neighbours)
            if _auto(self.max_neighbors)
            else self.max_neighbors,
        }

    def _anchor_pairs(self, anchors: Any, keys: list[Any], sizes: list[int]) -> dict[tuple[int, int], Any]:
        """Known pairs by numbers of datasets, checked."""
        if anchors is None:
            return {}
        if not isinstance(anchors, dict):
            if len(keys) != 2:
                raise ValueError(
                    "anchors for more than two datasets must be a dict: {(dataset, dataset): pairs}"
                )
            anchors = {(keys[0], keys[1]): anchors}
        out = {}
        for pair, pairs in anchors.items():
            if not isinstance(pair, tuple) or len(pair) != 2 or pair[0] == pair[1]:
                raise ValueError(f"anchors has the key {pair!r}; expected two datasets, (dataset, dataset)")
            a, b = pair
            i, j = (_position_of(key, keys, "anchors") for key in (a, b))
            known_pairs(pairs, sizes[i], sizes[j])
            out[i, j] = np.asarray(pairs)
        return out

    def _link(self, i: int, signals: Any) -> Any:
        """Signals of dataset i with linked columns side by side, where links were given."""
        return signals if self._links is None else signals[:, self._links[i]]

    def _place(self, i: int, X: Any, signals: Any) -> Array:
        """Coordinates of rows of dataset i as they were given."""
        rows = check_data("X", self._inputs.in_order(i, X))
        if isinstance(self.model_, PaperModel):
            return self._extend(i, rows, rows)
        if signals is None and self._signals_given:
            raise ValueError("the model was fitted with signals=…; give those of the new rows too")
        # Columns that are compared by place are the rows' own, and these have been checked.
        own = signals is None and self.signal_names_ is None
        return self._extend(i, rows, rows if own else self._by_name(X if signals is None else signals))

    def _by_name(self, signals: Any) -> Any:
        """Signals of new rows, by name where the fit matched by name."""
        if self.signal_names_ is not None and hasattr(signals, "columns"):
            missing = [name for name in self.signal_names_ if name not in set(map(str, signals.columns))]
            if missing:
                raise ValueError(
                    f"signals lacks the column(s) {', '.join(missing[:5])} that the model was fitted with"
                )
            columns = {str(c): j for j, c in enumerate(signals.columns)}
            signals = signals.iloc[:, [columns[name] for name in self.signal_names_]]
        return check_data("signals", signals)

    def _extend(self, i: int, rows: Any, signals: Any) -> Array:
        """Coordinates of rows of dataset i; rows of the fit are recognised and keep theirs."""
        if self.metric != "euclidean":
            raise ValueError(f"transform needs rows, but the model was fitted with metric={self.metric!r}")
        fitted = self._inputs.datasets[i]
        if rows.shape[1] != fitted.shape[1]:
            raise ValueError(
                f"X has {rows.shape[1]} features; dataset {self.keys_[i]!r} was fitted with {fitted.shape[1]}"
            )
        expected = rows.shape[0], self._inputs.signals[i].shape[1]
        if isinstance(self.model_, RefinedModel) and signals.shape != expected:
            raise ValueError(
                f"signals has shape {signals.shape}; expected {expected}, rows of X by signals of the fit"
            )
        out = self.model_.place(i, rows, self._link(i, signals))
        known = find_rows(fitted, rows)
        out[known >= 0] = self.embedding_[i][known[known >= 0]]
        return out

    def _position(self, dataset: Any) -> int:
        return _position_of(dataset, self.keys_, "dataset")

    def _hand_back(self, inputs: Inputs, results: list[Array]) -> Any:
        if inputs.form == "stacked":
            return self._wrap(inputs.restore(results), None)
        wrapped = [self._wrap(r, c) for r, c in zip(results, inputs.containers, strict=True)]
        return inputs.restore(wrapped)

    def _wrap(self, result: Array, original: Any) -> Any:
        """Result in the container that `set_output` or scikit-learn's configuration asks for."""
        import sklearn

        chosen = getattr(self, "_sklearn_output_config", {}).get("transform")
        chosen = chosen or sklearn.get_config()["transform_output"]
        if chosen == "pandas":
            import pandas as pd

            index = getattr(original, "index", None)
            return pd.DataFrame(result, columns=self.get_feature_names_out(), index=index, copy=False)
        if chosen == "polars":
            import polars as pl

            return pl.DataFrame(result, schema=list(self.get_feature_names_out()), orient="row")
        return result

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.metric != "euclidean"
        return tags


def _auto(value: Any) -> bool:
    """Whether a parameter is left to us; other values need not be comparable with text."""
    return isinstance(value, str) and value == "auto"


def _position_of(dataset: Any, keys: list[Any], name: str) -> int:
    """Number of a dataset given its key or its number."""
    known = isinstance(dataset, Hashable) and dataset in keys
    if known:
        return keys.index(dataset)
    if isinstance(dataset, int | np.integer) and 0 <= dataset < len(keys):
        return int(dataset)
    raise ValueError(f"{name} names {dataset!r}; the datasets are {keys}")
