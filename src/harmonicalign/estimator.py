"""`HarmonicAlignment`: validates, calls, remembers. What it remembers is in `harmonicalign.fitted`."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from harmonicalign._typing import (
    Anchors,
    Array,
    Bandwidth,
    Covariates,
    Datasets,
    Labels,
    MatrixLike,
    PathLike,
    RandomState,
)
from harmonicalign.adapters.distributed import DistributedAlignment, parse_lazy
from harmonicalign.adapters.distributed.fit import Cluster, fit_distributed
from harmonicalign.adapters.storage import Stored, read_alignment, write_alignment
from harmonicalign.evidence.significance import Significance, false_discovery
from harmonicalign.fitted import conventions
from harmonicalign.fitted.alignment import FittedAlignment
from harmonicalign.fitted.bare import without_data
from harmonicalign.fitted.conventions import attribute, exclusive, method
from harmonicalign.fitted.fit import fit_alignment
from harmonicalign.fitted.given import Given
from harmonicalign.fitted.parameters import N_LANDMARKS, Parameters
from harmonicalign.fitted.protocol import AlignedModel
from harmonicalign.inputs.frames import layout_of
from harmonicalign.inputs.parse import holds_dask
from harmonicalign.inputs.settings import Settings
from harmonicalign.inputs.validate import random_state_from
from harmonicalign.method.config import MethodConfig
from harmonicalign.paper.align import MultiAlignment
from harmonicalign.paper.harmonics import Harmonics
from harmonicalign.paper.joint import Joint

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["HarmonicAlignment"]


class HarmonicAlignment(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[misc,call-arg]
    """Align datasets that measure the same phenomenon, without known matches between rows.

    Parameters
    ----------
    method
        "refined", the default: learns which features correspond, and refines the alignment through anchors.
        "paper": exactly Harmonic Alignment as published. Parameters that a method does not use are refused.
    n_neighbors
        Neighbours that set each row's kernel bandwidth; "auto" chooses it from the data.
    n_pca
        Principal components of each dataset on which its graph is built; None uses all columns.
    n_harmonics
        Harmonics per dataset; None means all of them (a full decomposition).
    n_bands
        Number ℓ of frequency bands.
    t
        For "paper": diffusion time of the map, a real number ≥ 0.
    calibrate
        For "paper": compare frequencies at one diffusion time; "auto" does not. "refined" always does.
    n_components
        For "refined", and for one dataset alone: maximum number of aligned coordinates; "auto" is 50, or all
        harmonics of one dataset.
    n_landmarks
        For "refined": the alignment is found on at most so many rows of each dataset, then applied to all.
    frame
        For "paper": "blocks", its unified map, a block of columns per dataset; "common", one frame for all.
    signal_pca
        For "paper": rank of one joint projection of the signals; None uses them as they are.
    first_band
        0 (the lemma) or 1 (the sum as printed); see `bandlimiting_weights`.
    bandwidth, decay, thresh, anisotropy, max_neighbors, metric
        The kernel; see `kernel_graph`. "auto": the paper's choice, or a more local kernel for "refined".
    device
        Where all rows are worked on: "cpu"; "cuda" (or "cuda:1", …), which must be there in a fit; or "auto",
        which takes CUDA where there is any. Needs torch. New rows are placed there too, if it is there then.
    config
        For "refined": its numbers and rules, where they are not to be `harmonicalign.method.DEFAULT`.
    random_state
        Seed, `RandomState` or `Generator`. The global random state is not used.
    verbose
        Print each stage and its time to standard error.

    Attributes
    ----------
    embedding_ : list of arrays
        Aligned coordinates of every dataset.
    fitted_ : FittedAlignment or DistributedAlignment
        The alignment itself, immutable; all other attributes read from it.
    model_ : PaperModel or RefinedModel
        Everything that was fitted; after a distributed fit it is fetched when it is first asked for.
    alignment_ : MultiAlignment
        Correlations and rotations between pairs of datasets.
    feature_weights_ : array
        "refined": how far every signal is believed to correspond, in [0, 1]: ``max(feature_scores_, 0)²``,
        drawn towards the mean over all signals the less the signal varies. The weights that the fit used
        are ``model_.correspondence.weights``.
    feature_scores_ : array
        Agreement of every signal across the datasets under an alignment found without it, in [−1, 1].
    feature_selected_ : array of bool
        Signals that correspond at a false discovery rate of 5 %, judged in the same way; none if the
        alignment is not significant.
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
        Parameters in force and the reasons for them; what depends on the dataset has an entry for each.
    n_neighbors_, n_pca_, n_harmonics_, n_bands_, t_
        Aliases of ``settings_.n_neighbors`` and so on.
    timings_ : dict
        Seconds per stage.
    joint_ : Joint
        Graph and diffusion map over the aligned rows (landmarks, if Dask was used) of all datasets.
    keys_ : list
        Names of the datasets: positions, dictionary keys or batch labels.
    signal_names_ : list of str or None
        Column names of the signals, if data frames were given.

    Examples
    --------
    >>> from harmonicalign import HarmonicAlignment
    >>> from harmonicalign.datasets import load_digits_pair
    >>> pair = load_digits_pair(preserved=0.5, n_x=200, n_y=200, random_state=0)
    >>> model = HarmonicAlignment(random_state=0)
    >>> zx, zy = model.fit_transform([pair.x, pair.y])  # of one width
    >>> bool(model.significance_.p < 0.01)
    True
    """

    fitted_: FittedAlignment | DistributedAlignment

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
        n_components: int | str = "auto",
        n_landmarks: int = N_LANDMARKS,
        frame: str = "blocks",
        signal_pca: int | None = None,
        first_band: int = 0,
        bandwidth: Bandwidth = "knn",
        decay: float = 2.0,
        thresh: float = 1e-4,
        anisotropy: float | str = "auto",
        max_neighbors: int | str | None = "auto",
        metric: str = "euclidean",
        device: str = "cpu",
        config: MethodConfig | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.n_neighbors = n_neighbors
        self.n_pca = n_pca
        self.n_harmonics = n_harmonics
        self.n_bands = n_bands
        self.t = t
        self.calibrate = calibrate
        self.n_components = n_components
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

    @exclusive
    def fit(
        self,
        X: Datasets,
        y: object = None,
        *,
        batch: Labels | None = None,
        signals: Datasets | None = None,
        anchors: Anchors | None = None,
        links: MatrixLike | None = None,
        covariates: Covariates | None = None,
        client: Client | str | None = None,
        landmark_rows: int | None = None,
        chunk_rows: int | None = None,
    ) -> Self:
        """Align datasets.

        Parameters
        ----------
        X
            A list or dict of datasets (rows by columns: arrays, sparse matrices, data frames or dask arrays),
            or one matrix with `batch`. One dataset alone gives its diffusion map, by either method.
        y
            Ignored, with a warning unless there is `batch`; for compatibility with scikit-learn.
        batch
            With one matrix: the label of the dataset of every row.
        signals
            Columns that mean the same everywhere, in the form of `X`, which is the default; or "anchors".
        anchors
            For "refined". Rows known to match: an (m, 2) array of row numbers in two datasets, or a dict of
            such arrays by pair. With ``signals="anchors"``, or if widths differ, ten are evidence enough.
        links
            For two datasets whose signals differ: weights between the signals of the first and those of the
            second (genes to proteins, orthologues); 0 is no link. For more datasets, a dict by pair.
        covariates
            For "refined". A label per row, in the form of `X`, whose differences are to be kept (treatment):
            the alignment is found on rows that hold the labels in equal shares in all datasets, and the
            others follow. Refused where datasets share no label. Rows whose label is missing only follow.
        client
            A `distributed.Client`, or the address of a Dask scheduler, to fit there block by block; dask
            arrays are fitted so with Dask's own scheduler. The model is fitted on landmarks and places the
            other rows; `embedding_` holds lazy dask arrays. See `harmonicalign.distributed`.
        landmark_rows
            With Dask: rows of each dataset that the model is fitted on; by default 20,000.
        chunk_rows
            With Dask and ``method="paper"``: align in chunks of so many rows instead of by landmarks.
        """
        parameters = Parameters.of(self.get_params(deep=False))
        conventions.forget(self)
        given = Given(anchors, links, covariates, signals is not None and not isinstance(signals, str))
        seed = int(random_state_from(self.random_state).randint(2**31))
        if client is not None or holds_dask(X):
            lazy = parse_lazy(X, batch, signals, corresponding=links is None)
            conventions.mention_what_is_not_aligned(y, batch, len(lazy.keys))
            cluster = Cluster(client, landmark_rows, chunk_rows)
            self.fitted_ = fit_distributed(lazy, parameters, cluster, given, seed=seed, verbose=self.verbose)
        elif landmark_rows is not None or chunk_rows is not None:
            raise ValueError("landmark_rows and chunk_rows need dask arrays or client=…")
        else:
            inputs = conventions.parse_for(self, X, batch, signals, given)
            conventions.mention_what_is_not_aligned(y, batch, len(inputs.keys))
            self.fitted_ = fit_alignment(inputs, parameters, given, seed=seed, verbose=self.verbose)
        return self

    def fit_transform(self, X: Datasets, y: object = None, **fit_params: Any) -> Any:
        """Align datasets as `fit` does and return their aligned coordinates in the form of the input."""
        self.fit(X, y, **fit_params)
        return self.fitted_.restored(conventions.wrapper_for(self))

    def transform(
        self, X: Datasets, *, dataset: Hashable = None, batch: Labels | None = None, signals: Any = None
    ) -> Any:
        """Aligned coordinates of rows of known datasets, new or old.

        Parameters
        ----------
        X
            Rows of one dataset; one matrix with `batch`; or a list or dict of rows for every dataset. Tables
            are matched by name; arrays have the columns of that dataset in its own order.
        dataset
            Which dataset the rows belong to: its position, key or batch label. One dataset needs none.
        batch
            With one matrix: the dataset of every row. Not all datasets need to occur.
        signals
            Signals of the rows, if `fit` was given separate signals, by the same rule.

        Returns
        -------
        coordinates
            Rows of the fit keep theirs; others are placed by the fitted maps.
        """
        return conventions.placed_for(self, X, dataset, batch, signals)

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the aligned coordinates: harmonic0, harmonic1, …"""
        check_is_fitted(self, "fitted_")
        return np.asarray([f"harmonic{i}" for i in range(self.fitted_.width)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of results: "default", "pandas" or "polars"."""
        if transform is not None:
            self._sklearn_output_config = {"transform": conventions.check_container(transform)}
        return self

    model_: AlignedModel = attribute("model")
    embedding_: list[Any] = attribute(lambda fitted: list(fitted.embedding))
    keys_: list[Any] = attribute("keys")
    settings_: Settings = attribute("settings")
    timings_: dict[str, float] = attribute("timings")
    signal_names_: list[str] | None = attribute("signal_names")
    joint_: Joint = attribute("joint")
    confidence_: list[Any] = attribute(lambda fitted: list(fitted.confidence))
    harmonics_: tuple[Harmonics, ...] = attribute("model.harmonics")
    alignment_: MultiAlignment = attribute("model.alignment")
    n_neighbors_: list[int] = attribute("settings.n_neighbors")
    n_pca_: list[int | None] = attribute("settings.n_pca")
    n_harmonics_: list[int] = attribute("settings.n_harmonics")
    n_bands_: int = attribute("settings.n_bands")
    t_: float = attribute("settings.t")
    feature_weights_: Array = attribute("model.correspondence.belief", refined=True)
    feature_scores_: Array = attribute("model.correspondence.scores", refined=True)
    feature_selected_: Array = attribute(
        lambda fitted: false_discovery(fitted.model.correspondence.p_values), refined=True
    )
    share_: float = attribute("model.correspondence.share", refined=True)
    significance_: Significance = attribute("model.significance", refined=True)
    history_: list[dict[str, Any]] = attribute(
        lambda fitted: [{"dataset": fitted.keys[i], **step} for i, step in fitted.model.history()],
        refined=True,
    )

    transfer = method(FittedAlignment.transfer)
    correct = method(FittedAlignment.correct)
    denoise = method(FittedAlignment.denoise)
    impute = method(FittedAlignment.impute)

    @exclusive
    def add(self, X: MatrixLike, *, key: Hashable = None, signals: MatrixLike | None = None) -> Any:
        """Add a dataset without moving existing rows.

        Parameters
        ----------
        X
            The new dataset.
        key
            Its name; by default the next number.
        signals
            Its signals, if the model was fitted with separate signals.

        Returns
        -------
        coordinates
            Aligned coordinates of the new rows. The model then includes the dataset; if the call is
            interrupted, it stays as it was.
        """
        self.fitted_ = grown = conventions.at_hand(self).with_dataset(X, key=key, signals=signals)
        return conventions.wrapper_for(self).wrap(grown.embedding[-1], layout_of(X).index)

    def in_memory(self) -> Self:
        """After a distributed fit: the same model with its landmarks as the datasets, in memory.

        It places new rows as this one does, and can do what needs rows at hand: `save`, `transfer`, `add`, …
        """
        check_is_fitted(self, "fitted_")
        fitted = self.fitted_.in_memory()
        if fitted is self.fitted_:
            return self
        out = copy.copy(self)
        out.fitted_ = fitted
        return out

    def report(self, path: PathLike, **options: Any) -> Path:
        """Write a report on this alignment, one HTML file; options as in `write_report`."""
        from harmonicalign.adapters.report import write_report

        return write_report(self, path, **options)

    def save(self, path: PathLike, *, with_data: bool = True) -> Path:
        """Write the fitted model to one ``.npz`` file, all of it or nothing; see `harmonicalign.load`.

        Without the data (`with_data`) it places rows and transfers, imputes and denoises what it is given;
        `correct` and `add` raise an error. Such a file is smaller, but not anonymous.
        """
        fitted = conventions.at_hand(self) if with_data else without_data(conventions.at_hand(self))
        features, container = conventions.feature_facts(self), conventions.container_of(self)
        return write_alignment(path, Stored(self.get_params(deep=False), features, fitted, container))

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a model that `save` wrote. Nothing in the file is executed."""
        stored = read_alignment(path)
        model = cls(**stored.params)
        model.__dict__.update(stored.features, fitted_=stored.fitted)
        return model.set_output(transform=stored.container)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.metric != "euclidean"
        return tags
