"""What users ask of a fit, checked: parameters, and rows known to match."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from harmonicalign._exceptions import AlignmentWarning
from harmonicalign._progress import Progress
from harmonicalign._typing import Array, Covariates
from harmonicalign.engines.devices import available
from harmonicalign.engines.devices import resolve as resolve_device
from harmonicalign.inputs.covariates import balanced_rows, levels_of
from harmonicalign.inputs.parse import Inputs, position_of
from harmonicalign.inputs.settings import FitOptions, Settings, resolve
from harmonicalign.inputs.validate import check_integer
from harmonicalign.method import memory
from harmonicalign.method.anchors import known_pairs
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.fit import add_dataset, fit_refined
from harmonicalign.method.model import RefinedModel
from harmonicalign.paper.model import PaperModel, fit_paper

__all__ = [
    "N_COMPONENTS",
    "N_LANDMARKS",
    "Parameters",
    "anchor_pairs",
    "balanced_landmarks",
    "links_by_number",
]


_CHOICES = {
    "method": ("refined", "paper"),
    "frame": ("blocks", "common"),
    "metric": ("euclidean", "distance", "affinity"),
}

N_LANDMARKS = 2000
"""Rows of each dataset on which the default finds the alignment; another number was chosen by the user."""

N_COMPONENTS = 50
"""Maximum number of aligned coordinates of the default."""


@dataclass(frozen=True, eq=False)
class Parameters:
    """Parameters of `HarmonicAlignment` that decide on the result, but the seed, as users gave them."""

    method: str
    n_neighbors: int | str
    n_pca: int | str | None
    n_harmonics: int | str | None
    n_bands: int | str
    t: float | str
    calibrate: bool | str
    n_landmarks: int
    frame: str
    signal_pca: int | None
    first_band: int
    bandwidth: Any
    decay: float
    thresh: float
    anisotropy: float | str
    max_neighbors: int | str | None
    metric: str
    device: str
    config: MethodConfig | None
    n_components: int | str = "auto"

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Parameters:
        """Parameters of an estimator that decide on the result, checked."""
        parameters = cls(**{k: v for k, v in given.items() if k not in ("random_state", "verbose")})
        parameters.check()
        return parameters

    def check(self) -> None:
        """Refuse values that do not exist, and parameters that the method does not use."""
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in known:
                expected = ", ".join(map(repr, known[:-1])) + f" or {known[-1]!r}"
                raise ValueError(f"{name} is {value!r}; expected {expected}")
        check_integer("n_landmarks", self.n_landmarks, minimum=10)
        if not _is(self.n_components, "auto"):
            check_integer("n_components", self.n_components, minimum=1)
        if not isinstance(self.config, MethodConfig | None):
            raise ValueError(
                f"config is {self.config!r}; expected a harmonicalign.method.MethodConfig or None"
            )
        if self.method == "paper":
            unused = {
                "n_landmarks": self.n_landmarks != N_LANDMARKS,
                "config": self.config is not None,
            }
            other = "refined"
        else:
            unused = {
                "calibrate": isinstance(self.calibrate, bool | np.bool_) and not self.calibrate,
                "frame": self.frame != "blocks",
                "signal_pca": self.signal_pca is not None,
            }
            other = "paper"
        for name, given in unused.items():
            if given:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} serves method={other!r} and is not used by "
                    f"method={self.method!r}; drop {name}, or use method={other!r}"
                )

    @property
    def rules(self) -> MethodConfig:
        """Numbers and rules of the default method."""
        return DEFAULT if self.config is None else self.config

    def method_for(self, n_datasets: int) -> str:
        """The method that serves so many datasets: of one there is only the paper's diffusion map."""
        if n_datasets > 1 and self.method == "refined" and not _is(self.t, "auto"):
            raise ValueError(
                f"t={self.t!r} serves method='paper' and is not used by method='refined'; drop t, or ask for "
                "joint_.harmonics.diffusion_map(t) after the fit"
            )
        if n_datasets > 1 and self.method == "paper" and not _is(self.n_components, "auto"):
            raise ValueError(
                f"n_components={self.n_components!r} serves method='refined' and is not used by "
                "method='paper' with several datasets; drop n_components, or lower n_harmonics"
            )
        return "paper" if n_datasets == 1 else self.method

    @property
    def width(self) -> int:
        """Maximum number of aligned coordinates of the default method."""
        return N_COMPONENTS if isinstance(self.n_components, str) else self.n_components

    def settle(
        self, method: str, shapes: Sequence[tuple[int, int]] | Mapping[int, tuple[int, int]]
    ) -> Settings:
        """Values in force for datasets of the given shapes, in order or by their numbers."""
        return resolve(
            shapes,
            rules=None if method == "paper" else self.rules,
            n_neighbors=self.n_neighbors,
            n_pca=None if self.metric != "euclidean" else self.n_pca,
            n_harmonics=self._harmonics_for(method, len(shapes)),
            n_bands=self.n_bands,
            t=self.t,
            calibrate=self.calibrate,
        )

    def _harmonics_for(self, method: str, n_datasets: int) -> int | str | None:
        """Harmonics asked for: of one dataset the diffusion map has `n_components` columns, if given."""
        alone = method == "paper" and n_datasets == 1 and not _is(self.n_components, "auto")
        return self.n_components if alone and _is(self.n_harmonics, "auto") else self.n_harmonics

    def kernel(self, method: str) -> dict[str, Any]:
        """Options of `harmonicalign.kernel_graph`."""
        rules = self.rules
        anisotropy, most = (1.0, None) if method == "paper" else (rules.anisotropy, rules.kernel_neighbours)
        return {
            "bandwidth": self.bandwidth,
            "decay": self.decay,
            "thresh": self.thresh,
            "anisotropy": anisotropy if _is(self.anisotropy, "auto") else self.anisotropy,
            "metric": self.metric,
            "max_neighbors": most if _is(self.max_neighbors, "auto") else self.max_neighbors,
        }

    def check_memory(
        self, method: str, settings: Settings, datasets: Sequence[Any], signals: Sequence[Any]
    ) -> None:
        """Raise an error early if a fit will not fit into memory."""
        if self.metric != "euclidean":
            return
        memory.check(
            [d.shape[0] for d in datasets],
            [width or d.shape[1] for width, d in zip(settings.n_pca, datasets, strict=True)],
            settings.n_harmonics,
            settings.n_neighbors,
            method=method,
            n_landmarks=self.n_landmarks,
            n_signals=signals[0].shape[1],
            itemsize=max(d.dtype.itemsize for d in datasets),
        )

    def fit_function(
        self,
        method: str,
        keys: Sequence[Any],
        settings: Settings,
        *,
        anchors: dict[tuple[int, int], Array],
        landmarks: Sequence[Array] | None = None,
        seed: int,
        progress: Progress,
    ) -> Callable[[list[Any], list[Any]], PaperModel | RefinedModel]:
        """The fit as a function of datasets and signals alone, which can be sent to a worker."""
        device, kernel = resolve_device(self.device), self.kernel(method)
        common: dict[str, Any] = {
            "names": [f"dataset {key!r}" for key in keys],
            "options": FitOptions(
                settings, kernel, self.first_band, seed, device, self.width, landmarks=landmarks
            ),
            "progress": progress,
        }
        if method == "paper":
            return partial(fit_paper, signal_pca=self.signal_pca, common=self.frame == "common", **common)
        return partial(
            fit_refined, anchors=anchors, n_landmarks=self.n_landmarks, config=self.rules, **common
        )

    def grow(
        self,
        model: RefinedModel,
        known: tuple[Sequence[Any], Sequence[Any]],
        new: tuple[Any, Any],
        settings: Settings,
        seed: int,
    ) -> RefinedModel:
        """A model that knows one dataset more.

        Parameters
        ----------
        model
            The model that there is.
        known, new
            Datasets and signals that it was fitted on; dataset and signals that join.
        settings
            Those of the new dataset alone.
        seed
            Seed of the fit.
        """
        device = available(self.device)
        options = FitOptions(settings, self.kernel("refined"), self.first_band, seed, device)
        return add_dataset(model, *known, *new, options, n_landmarks=self.n_landmarks)


def anchor_pairs(
    anchors: Any, method: str, keys: list[Any], sizes: Sequence[int]
) -> dict[tuple[int, int], Array]:
    """Rows known to match by numbers of datasets, checked; refused where they would not be used.

    Parameters
    ----------
    anchors
        As users give them.
    method
        The method that was asked for.
    keys, sizes
        Names and numbers of rows of the datasets.
    """
    if anchors is None:
        return {}
    if method == "paper":
        raise ValueError(
            "anchors serve method='refined' and are not used by method='paper'; drop anchors, or use "
            "method='refined'"
        )
    if len(keys) == 1:
        raise ValueError("anchors join rows of two datasets, but there is one; drop them")
    if not isinstance(anchors, dict):
        if len(keys) != 2:
            raise ValueError("anchors for more than two datasets must be a dict: {(dataset, dataset): pairs}")
        anchors = {(keys[0], keys[1]): anchors}
    out: dict[tuple[int, int], Array] = {}
    for pair, pairs in anchors.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"anchors has the key {pair!r}; expected two datasets, (dataset, dataset)")
        i, j = (position_of(key, keys, "anchors") for key in pair)
        if i == j:
            raise ValueError(f"anchors has the key {pair!r}; expected two datasets, (dataset, dataset)")
        known_pairs(pairs, sizes[i], sizes[j])
        rows = np.asarray(pairs)
        if (j, i) in out:
            i, j, rows = j, i, rows[:, ::-1]
        out[i, j] = np.vstack([out[i, j], rows]) if (i, j) in out else rows
    _mention_contradictions(out, keys, sizes)
    return out


def _mention_contradictions(
    anchors: dict[tuple[int, int], Array], keys: Sequence[Any], sizes: Sequence[int]
) -> None:
    """Warn if known pairs say, one after another, that two rows of one dataset are the same."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    pairs = [rows + starts[[i, j]] for (i, j), rows in anchors.items() if len(rows)]
    if not pairs:
        return
    x, y = np.vstack(pairs).T
    graph = sp.csr_matrix((np.ones(len(x)), (x, y)), shape=(starts[-1],) * 2)
    rows = np.unique(np.concatenate([x, y]))
    group = connected_components(graph, directed=False)[1][rows]
    dataset = np.searchsorted(starts, rows, side="right") - 1
    claims = group * len(keys) + dataset
    _, first, number, counts = np.unique(claims, return_index=True, return_inverse=True, return_counts=True)
    if (counts > 1).any():
        which = int(np.argmax(counts > 1))
        same, i = rows[number == which][:3], dataset[first[which]]
        warnings.warn(
            f"anchors contradict each other: they join rows {', '.join(map(str, same - starts[i]))} of "
            f"dataset {keys[i]!r} through the same rows of other datasets, and so for "
            f"{int((counts > 1).sum())} group(s) of rows. Each row is drawn towards all of its partners; if "
            "that is not meant, give every row one partner",
            AlignmentWarning,
            stacklevel=2,
        )


def balanced_landmarks(
    covariates: Covariates | None, parameters: Parameters, inputs: Inputs, seed: int, *, paired: bool
) -> list[Array] | None:
    """Rows that hold the levels of a covariate in equal shares; refused where they would not be used.

    Parameters
    ----------
    covariates
        As users give them, or None.
    parameters
        How to align.
    inputs
        The datasets.
    seed
        Random seed.
    paired
        Whether rows are known to match.
    """
    if covariates is None:
        return None
    if parameters.method == "paper":
        raise ValueError("covariates serve method='refined' and are not used by method='paper'; drop one")
    if paired:
        raise ValueError("covariates choose the rows that are compared, and so do anchors; drop one of them")
    if len(inputs.keys) == 1:
        raise ValueError("covariates keep differences within several datasets, but there is one; drop them")
    return balanced_rows(levels_of(covariates, inputs), parameters.n_landmarks, seed, inputs.keys)


def links_by_number(links: Mapping[Any, Any], keys: list[Any]) -> dict[tuple[int, int], Any]:
    """Links by numbers of datasets.

    Parameters
    ----------
    links
        By pair of names, as users give them.
    keys
        Names of the datasets.
    """
    out: dict[tuple[int, int], Any] = {}
    for pair, matrix in links.items():
        if not isinstance(pair, tuple) or len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"links has the key {pair!r}; expected two datasets, (dataset, dataset)")
        i, j = (position_of(key, keys, "links") for key in pair)
        if (j, i) in out:
            raise ValueError(f"links names the datasets {pair[0]!r} and {pair[1]!r} twice; give one matrix")
        out[i, j] = matrix
    return out


def _is(value: Any, word: str) -> bool:
    """Whether a parameter is a certain word; other values need not be comparable with text."""
    return isinstance(value, str) and value == word
