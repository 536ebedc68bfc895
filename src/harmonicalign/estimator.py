"""`HarmonicAlignment`: validates, calls the stages, remembers. The maths lives in the stages."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from harmonicalign._inputs import Inputs, parse
from harmonicalign._progress import Progress
from harmonicalign._validation import check_rows, random_state_from
from harmonicalign.align import calibrate, joint_signal_basis, multi_align
from harmonicalign.graph import kernel_graph
from harmonicalign.harmonics import harmonics
from harmonicalign.joint import Joint, joint_geometry, synchronize, unified_blocks
from harmonicalign.reduction import reduce_rows
from harmonicalign.settings import resolve

__all__ = ["HarmonicAlignment"]

Array = np.ndarray[Any, Any]


class HarmonicAlignment(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[misc,call-arg]
    """Align datasets that measure the same thing, without knowing which rows match.

    Parameters
    ----------
    method
        "paper": exactly Harmonic Alignment as published, with all features counted alike.
    n_neighbors
        Neighbours that set each row's kernel bandwidth; "auto" settles it from the data.
    n_pca
        Principal components of each dataset on which its graph is built; None uses all columns.
    signal_pca
        Rank of one joint projection of the signals; None uses them as they are.
    n_harmonics
        Harmonics per dataset; None means all of them (a full decomposition).
    n_bands
        Number ℓ of frequency bands.
    first_band
        0 (the lemma) or 1 (the sum as printed); see `bandlimiting_weights`.
    t
        Diffusion time of the map, a real number ≥ 0.
    calibrate
        Compare frequencies at one diffusion time; "auto" does so except for ``method="paper"``.
    frame
        "blocks": the paper's unified map, one block of columns per dataset. "common": one frame
        whose width does not grow with the number of datasets.
    bandwidth, decay, thresh, anisotropy, max_neighbors, metric
        The kernel; see `kernel_graph`.
    random_state
        Seed, `RandomState` or `Generator`. The global seed is never touched.
    verbose
        Print each stage and its time to standard error.

    Attributes
    ----------
    embedding_ : list of arrays
        Aligned coordinates of every dataset.
    alignment_ : MultiAlignment
        Correlations and rotations between all pairs.
    harmonics_ : tuple of Harmonics
        The harmonics of every dataset.
    settings_ : Settings
        Parameters in force and the reasons for them.
    timings_ : dict
        Seconds per stage.
    joint_ : Joint
        Graph and diffusion map over the aligned rows of all datasets; computed when first asked for.
    keys_ : list
        Names of the datasets: positions, dictionary keys or batch labels.
    signal_names_ : list of str or None
        Column names of the signals, where data frames gave them.

    Examples
    --------
    >>> from harmonicalign import HarmonicAlignment
    >>> from sklearn.datasets import load_digits
    >>> x, y = load_digits().data[:300], load_digits().data[300:600]
    >>> zx, zy = HarmonicAlignment(random_state=0).fit_transform([x, y])
    >>> zx.shape, zy.shape
    ((300, 200), (300, 200))
    """

    def __init__(
        self,
        *,
        method: str = "paper",
        n_neighbors: int | str = "auto",
        n_pca: int | str | None = "auto",
        signal_pca: int | None = None,
        n_harmonics: int | str | None = "auto",
        n_bands: int | str = "auto",
        first_band: int = 0,
        t: float | str = "auto",
        calibrate: bool | str = "auto",
        frame: str = "blocks",
        bandwidth: Any = "knn",
        decay: float = 2.0,
        thresh: float = 1e-4,
        anisotropy: float = 1.0,
        max_neighbors: int | None = None,
        metric: str = "euclidean",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.n_neighbors = n_neighbors
        self.n_pca = n_pca
        self.signal_pca = signal_pca
        self.n_harmonics = n_harmonics
        self.n_bands = n_bands
        self.first_band = first_band
        self.t = t
        self.calibrate = calibrate
        self.frame = frame
        self.bandwidth = bandwidth
        self.decay = decay
        self.thresh = thresh
        self.anisotropy = anisotropy
        self.max_neighbors = max_neighbors
        self.metric = metric
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, batch: Any = None, signals: Any = None) -> Self:
        """Align datasets.

        Parameters
        ----------
        X
            A list or dict of datasets (rows by columns: arrays, scipy sparse matrices or data
            frames), or one matrix with `batch`. One matrix alone is one dataset, and the result
            is its diffusion map.
        y
            Ignored; there for scikit-learn's sake.
        batch
            With one matrix: the label of the dataset of every row.
        signals
            Columns that mean the same in every dataset, in the form of `X`. By default the
            datasets themselves, so their columns must then correspond.
        """
        self._reset()
        inputs = self._parse(X, batch, signals)
        seed = random_state_from(self.random_state).randint(2**31)
        progress = Progress(self.verbose)
        settings = resolve(
            [d.shape for d in inputs.datasets],
            method=self.method,
            n_neighbors=self.n_neighbors,
            n_pca=None if self.metric != "euclidean" else self.n_pca,
            n_harmonics=self.n_harmonics,
            n_bands=self.n_bands,
            t=self.t,
            calibrate=self.calibrate,
        )
        reductions, spectra = [], []
        for i, (key, data) in enumerate(zip(inputs.keys, inputs.datasets, strict=True)):
            with progress.stage(f"graph of {key!r}"):
                reduction, rows = reduce_rows(data, settings.n_pca[i], seed)
                graph = kernel_graph(rows, **self._kernel_options(settings.n_neighbors[i]))
            with progress.stage(f"harmonics of {key!r}"):
                spectra.append(
                    harmonics(graph, settings.n_harmonics[i], random_state=seed, name=f"dataset {key!r}")
                )
            reductions.append(reduction)
        with progress.stage("alignment"):
            shared = calibrate(spectra) if settings.calibrate else tuple(spectra)
            alignment = multi_align(
                shared,
                self._alignment_signals(inputs.signals, seed),
                n_bands=settings.n_bands,
                first_band=self.first_band,
            )
        self.settings_, self.timings_ = settings, progress.timings
        self.reductions_, self.harmonics_, self.alignment_ = reductions, shared, alignment
        self.keys_, self.signal_names_ = inputs.keys, inputs.signal_names
        self._inputs, self._seed = inputs, seed
        self.frames_ = synchronize(alignment) if self.frame == "common" else None
        with progress.stage("unified map"):
            self.embedding_ = [self._place(i, h.phi) for i, h in enumerate(shared)]
        self._n_features_out = self.embedding_[0].shape[1]
        return self

    def fit_transform(self, X: Any, y: Any = None, *, batch: Any = None, signals: Any = None) -> Any:
        """Align datasets and return their aligned coordinates in the form of the input."""
        self.fit(X, batch=batch, signals=signals)
        return self._hand_back(self._inputs, self.embedding_)

    def transform(self, X: Any, *, dataset: Any = None) -> Any:
        """Aligned coordinates of rows of a known dataset, new or old.

        Parameters
        ----------
        X
            Rows of one dataset; or, without `dataset`, a list or dict of rows for every dataset.
        dataset
            Which dataset the rows belong to: its position, key or batch label. May be left out if
            the model was fitted on one dataset.

        Returns
        -------
        coordinates
            Rows that were in the fit get the coordinates they had there; others are placed by
            the Nyström extension of the dataset's harmonics.
        """
        check_is_fitted(self, "embedding_")
        if dataset is None and len(self.keys_) > 1:
            inputs = parse(X)
            if inputs.keys != self.keys_:
                raise ValueError(
                    f"transform got the datasets {inputs.keys}, the model knows {self.keys_}; "
                    "name the one these rows belong to: transform(rows, dataset=…)"
                )
            return self._hand_back(inputs, [self._extend(i, d) for i, d in enumerate(inputs.datasets)])
        position = 0 if dataset is None else self._position(dataset)
        if len(self.keys_) == 1 and self._inputs.form == "single":
            rows = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        else:
            rows = check_rows("X", X)
        return self._wrap(self._extend(position, rows), X)

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
        """Graph and diffusion map over the aligned rows of all datasets."""
        check_is_fitted(self, "embedding_")
        return joint_geometry(self.embedding_, random_state=self._seed)

    def _reset(self) -> None:
        """Forget an earlier fit, so that fitting again equals fitting anew."""
        if self.method != "paper":
            raise ValueError(f"method is {self.method!r}; expected 'paper'")
        if self.frame not in ("blocks", "common"):
            raise ValueError(f"frame is {self.frame!r}; expected 'blocks' or 'common'")
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _parse(self, X: Any, batch: Any, signals: Any) -> Inputs:
        if not isinstance(X, list | tuple | dict) and batch is None:
            # One plain matrix: scikit-learn's own checks give its messages and remember its names.
            validate_data(self, X, accept_sparse=True, dtype=None, ensure_min_samples=3)
        inputs = parse(X, batch, signals)
        widths = {d.shape[1] for d in inputs.datasets}
        if len(widths) == 1:
            self.n_features_in_ = widths.pop()
        names = getattr(inputs.containers[0], "columns", None)
        if inputs.form == "stacked" and names is not None and all(isinstance(c, str) for c in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)
        return inputs

    def _kernel_options(self, n_neighbors: int) -> dict[str, Any]:
        return {
            "n_neighbors": n_neighbors,
            "bandwidth": self.bandwidth,
            "decay": self.decay,
            "thresh": self.thresh,
            "anisotropy": self.anisotropy,
            "metric": self.metric,
            "max_neighbors": self.max_neighbors,
        }

    def _alignment_signals(self, signals: list[Any], seed: int) -> list[Any]:
        if self.signal_pca is None:
            return signals
        basis = joint_signal_basis(signals, self.signal_pca, seed)
        return [np.asarray(s @ basis) for s in signals]

    def _place(self, i: int, phi: Array) -> Array:
        """Aligned coordinates of rows of dataset i from their diffusion coordinates."""
        h, t = self.harmonics_[i], self.settings_.t
        if self.frames_ is not None:
            return np.asarray((phi * h.frequencies**t) @ self.frames_[i])
        rotations = [self.alignment_.rotation(i, j) for j in range(len(self.keys_))]
        return unified_blocks(phi, rotations, [other.frequencies for other in self.harmonics_], t)

    def _extend(self, i: int, rows: Any) -> Array:
        """Coordinates of rows of dataset i; rows of the fit are recognised and keep theirs."""
        h = self.harmonics_[i]
        if h.graph.rows is None:
            raise ValueError(f"transform needs rows, but the model was fitted with metric={self.metric!r}")
        expected = self._inputs.datasets[i].shape[1]
        if rows.shape[1] != expected:
            raise ValueError(
                f"X has {rows.shape[1]} features; dataset {self.keys_[i]!r} was fitted with {expected}"
            )
        transitions, nearest = h.graph.extend(self.reductions_[i].apply(rows))
        out = self._place(i, h.extend(transitions))
        known = _equal_rows(self._inputs.datasets[i][nearest], rows)
        out[known] = self.embedding_[i][nearest[known]]
        return out

    def _position(self, dataset: Any) -> int:
        if dataset in self.keys_:
            return self.keys_.index(dataset)
        if isinstance(dataset, int | np.integer) and 0 <= dataset < len(self.keys_):
            return int(dataset)
        raise ValueError(f"dataset is {dataset!r}; the model knows {self.keys_}")

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


def _equal_rows(a: Any, b: Any) -> Array:
    """Which rows of two matrices of the same shape are equal in every entry."""
    if sp.issparse(a) or sp.issparse(b):
        return np.asarray(np.asarray((sp.csr_matrix(a) != sp.csr_matrix(b)).sum(axis=1)).ravel() == 0)
    return np.asarray((a == b).all(axis=1))
