"""Parameters of a fit as users give them, checked, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from harmonicalign._progress import Progress
from harmonicalign._typing import Array
from harmonicalign.engines.devices import available
from harmonicalign.engines.devices import resolve as resolve_device
from harmonicalign.inputs.settings import FitOptions, Settings, resolve
from harmonicalign.inputs.validate import check_integer
from harmonicalign.method import memory
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.fit import add_dataset, fit_refined
from harmonicalign.method.model import RefinedModel
from harmonicalign.method.pooling import PooledModel
from harmonicalign.paper.model import PaperModel, fit_paper

__all__ = [
    "N_COMPONENTS",
    "N_LANDMARKS",
    "Parameters",
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

    def settle(
        self, method: str, shapes: Sequence[tuple[int, int]] | Mapping[int, tuple[int, int]]
    ) -> Settings:
        """Values in force for datasets of the given shapes, in order or by their numbers."""
        n_harmonics = self.n_harmonics
        if method == "paper" and len(shapes) == 1 and _is(n_harmonics, "auto"):
            # The diffusion map of one dataset has `n_components` columns, if given.
            n_harmonics = n_harmonics if _is(self.n_components, "auto") else self.n_components
        return resolve(
            shapes,
            rules=None if method == "paper" else self.rules,
            n_neighbors=self.n_neighbors,
            n_pca=None if self.metric != "euclidean" else self.n_pca,
            n_harmonics=n_harmonics,
            n_bands=self.n_bands,
            t=self.t,
            calibrate=self.calibrate,
        )

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
        names: Sequence[str],
        settings: Settings,
        *,
        anchors: dict[tuple[int, int], Array],
        balanced: tuple[Sequence[Array], Sequence[Array]] | None = None,
        linked: bool = False,
        seed: int,
        progress: Progress,
    ) -> Callable[[list[Any], list[Any]], PaperModel | RefinedModel]:
        """The fit as a function of datasets and signals alone, which can be sent to a worker."""
        device = "cpu" if _is(self.device, "cpu") else resolve_device(self.device)
        kernel = self.kernel(method)
        width = N_COMPONENTS if isinstance(self.n_components, str) else self.n_components
        common: dict[str, Any] = {
            "names": names,
            "options": FitOptions(
                settings,
                kernel,
                self.first_band,
                seed,
                device,
                width,
                linked=linked,
                balanced=balanced,
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
        model: RefinedModel | PooledModel,
        known: tuple[Sequence[Any], Sequence[Any]],
        new: tuple[Any, Any],
        settings: Settings,
        seed: int,
    ) -> RefinedModel | PooledModel:
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
        if isinstance(model, PooledModel):
            known = model.stacked(known[0]), model.stacked(known[1])
            grown = add_dataset(model.model, *known, *new, options, n_landmarks=self.n_landmarks)
            return replace(model, model=grown)
        return add_dataset(model, *known, *new, options, n_landmarks=self.n_landmarks)


def _is(value: Any, word: str) -> bool:
    """Whether a parameter is a certain word; other values need not be comparable with text."""
    return isinstance(value, str) and value == word
