"""The manifold-aligning generative adversarial network.

References
----------
M. Amodio, S. Krishnaswamy. MAGAN: Aligning biological manifolds. Proceedings of the 35th International
Conference on Machine Learning (ICML), PMLR 80, 215-223 (2018). arXiv:1803.00385
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from harmonicalign.experiments.baselines._common import (
    Dataset,
    Embedding,
    check_dense,
    check_positive,
    joint_pca,
)

if TYPE_CHECKING:
    import torch

_LOSSES = ("adversarial", "reconstruction", "correspondence", "discriminator")


@dataclass(frozen=True)
class MAGANFit:
    """A trained MAGAN's result.

    Parameters
    ----------
    embeddings
        The first dataset as it is, and the second mapped into its space.
    history_
        Training curves, one value per iteration: the generators' "adversarial", "reconstruction" and
        "correspondence" losses (unweighted), and the "discriminator" loss.
    converged
        Whether training stopped because the curves had levelled off, not because `max_iter` was reached.
    """

    embeddings: list[Embedding]
    history_: dict[str, NDArray[np.float64]]
    converged: bool


@dataclass(frozen=True)
class MAGAN:
    """Map two datasets into each other's space by a pair of adversarial networks.

    Each generator maps one dataset into the other's space, where a discriminator tells mapped rows from real
    ones. Mapping there and back must reproduce a row (reconstruction), and what is known to correspond must
    stay the same on the way (correspondence): of all maps between the manifolds, this selects
    one that matches related points.

    Parameters
    ----------
    columns
        What corresponds: "all" (each column to the one at the same place), "none" (no correspondence loss: a
        plain cycle-consistent GAN), or pairs (column of the first, column of the second).
    reconstruction_weight, correspondence_weight
        Weights of the two losses against the adversarial one.
    generator_layers, discriminator_layers
        Widths of the hidden layers.
    batch_size
        Rows of each dataset per iteration.
    learning_rate
        Of Adam, for all four networks.
    max_iter
        Iterations at most.
    window, tol
        Training has converged when reconstruction and correspondence loss, weighted, have fallen by less than
        the share `tol` from one `window` iterations to the next. The adversarial losses are not
        used: a discriminator that overfits keeps lowering its own.
    random_state
        Seed of the networks and the batches. The global seed is not changed.
    device
        Where to train, "cpu" or "cuda"; "auto" takes a GPU where there is one.
    n_components
        Reduce the rows together to this many principal components first, which trains several times faster on
        wide data; the embeddings are then in these components. None keeps the columns.

    Notes
    -----
    Two generators, two discriminators, and the sum of adversarial, reconstruction (mean squared error of the
    cycle) and correspondence loss (squared difference before and after mapping, summed over the columns that
    correspond). Layers, weights, learning rate, batches and the number of iterations are those that its
    authors published with the method. The scaling (each dataset is centred and divided by its root mean
    variance) and the test of convergence are ours.
    """

    name: ClassVar[str] = "magan"

    columns: str | Sequence[tuple[int, int]] = "all"
    reconstruction_weight: float = 1.0
    correspondence_weight: float = 1.0
    generator_layers: tuple[int, ...] = (200, 100, 50)
    discriminator_layers: tuple[int, ...] = (800, 400, 200, 100, 50)
    batch_size: int = 100
    learning_rate: float = 1e-3
    max_iter: int = 100_000
    window: int = 5000
    tol: float = 0.005
    random_state: int = 0
    device: str = "auto"
    n_components: int | None = None

    def __post_init__(self) -> None:
        check_positive(
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            max_iter=self.max_iter,
            window=self.window,
            n_components=self.n_components,
        )
        if isinstance(self.columns, str) and self.columns not in ("all", "none"):
            raise ValueError(
                f"columns={self.columns!r}: choose 'all', 'none' or pairs (column of x, column of y)"
            )
        for label, weight in (
            ("reconstruction_weight", self.reconstruction_weight),
            ("correspondence_weight", self.correspondence_weight),
        ):
            if weight < 0:
                raise ValueError(f"{label}={weight}: must not be negative; use 0 to leave this loss out")

    def fit_transform(self, datasets: Sequence[Dataset]) -> list[Embedding]:
        """Train, and map the second dataset into the space of the first.

        Parameters
        ----------
        datasets
            Two matrices, with equally many columns if `columns` is "all".

        Returns
        -------
        list of ndarray
            The first dataset as it is, and the second mapped into its space.
        """
        return self.fit(datasets).embeddings

    def fit(self, datasets: Sequence[Dataset]) -> MAGANFit:
        """Train, and keep the training curves beside the embeddings.

        Parameters
        ----------
        datasets
            Two matrices, with equally many columns if `columns` is "all".

        Returns
        -------
        MAGANFit
            Embeddings, training curves, and whether training converged.
        """
        reduce = self.n_components is not None
        x, y = check_dense(datasets, exactly=2, same_columns=reduce or self._correspondence == "all")
        if self.n_components is not None:
            x, y = joint_pca([x, y], self.n_components, self.random_state)
        pairs = self._column_pairs(x.shape[1], y.shape[1])
        import torch

        from harmonicalign.engines.torch_device import resolve_device

        x_mean, x_scale = _centre_and_scale(x, 0)
        y_mean, y_scale = _centre_and_scale(y, 1)
        device = resolve_device(self.device)
        tx = torch.as_tensor((x - x_mean) / x_scale, dtype=torch.float32, device=device)
        ty = torch.as_tensor((y - y_mean) / y_scale, dtype=torch.float32, device=device)
        # Networks draw their weights from the global generator: restore its state.
        with torch.random.fork_rng():
            torch.manual_seed(self.random_state)
            game = _Game(self, tx, ty, torch.as_tensor(pairs, device=device))
        history, converged = self._train(game)
        with torch.no_grad():
            mapped = game.to_x(ty).cpu().numpy().astype(float) * x_scale + x_mean
        return MAGANFit([x.copy(), mapped], history, converged)

    @property
    def _correspondence(self) -> str:
        return self.columns if isinstance(self.columns, str) else "pairs"

    def _column_pairs(self, width_x: int, width_y: int) -> NDArray[np.intp]:
        if self._correspondence == "all":
            return np.column_stack([np.arange(width_x), np.arange(width_x)])
        if self._correspondence == "none":
            return np.empty((0, 2), dtype=np.intp)
        pairs = np.asarray(self.columns)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
            raise ValueError(
                f"columns: expected integer pairs, found {pairs.dtype} of shape {pairs.shape}; "
                "give (column of x, column of y) for each"
            )
        if pairs.min() < 0 or np.any(pairs.max(axis=0) >= (width_x, width_y)):
            raise ValueError(
                f"columns: numbers run from {pairs.min()} to {pairs.max(axis=0).tolist()} for datasets of "
                f"{width_x} and {width_y} columns; number columns from 0"
            )
        return pairs.astype(np.intp)

    def _train(self, game: _Game) -> tuple[dict[str, NDArray[np.float64]], bool]:
        import torch

        device = game.x.device
        batches = np.random.default_rng(self.random_state)
        play: Callable[[torch.Tensor], torch.Tensor] = game
        curves = np.empty((0, len(_LOSSES)))
        while len(curves) < self.max_iter and not self._levelled_off(curves):
            shape = min(self.window, self.max_iter - len(curves)), self.batch_size
            drawn = np.stack([batches.integers(n, size=shape) for n in (len(game.x), len(game.y))], axis=1)
            rows = torch.as_tensor(drawn, device=device)
            if device.type == "cuda" and play is game:
                play = _Recorded(game, rows[0])
            losses = torch.empty((shape[0], len(_LOSSES)), device=device)
            for step in range(shape[0]):
                losses[step] = play(rows[step])
            curves = np.vstack([curves, losses.cpu().numpy()])
        return {name: curves[:, i].copy() for i, name in enumerate(_LOSSES)}, self._levelled_off(curves)

    def _levelled_off(self, curves: NDArray[np.float64]) -> bool:
        if len(curves) < 2 * self.window:
            return False
        watched = self.reconstruction_weight * curves[:, 1] + self.correspondence_weight * curves[:, 2]
        before, now = watched[-2 * self.window : -self.window].mean(), watched[-self.window :].mean()
        return bool(now >= (1 - self.tol) * before)


class _Game:
    """Four networks and their losses; called with rows of x and of y it trains for one iteration."""

    def __init__(self, settings: MAGAN, x: torch.Tensor, y: torch.Tensor, pairs: torch.Tensor) -> None:
        self.settings, self.x, self.y = settings, x, y
        width_x, width_y = x.shape[1], y.shape[1]
        self.to_y = _network(width_x, settings.generator_layers, width_y).to(x.device)
        self.to_x = _network(width_y, settings.generator_layers, width_x).to(x.device)
        self.judge_x = _network(width_x, settings.discriminator_layers, 1).to(x.device)
        self.judge_y = _network(width_y, settings.discriminator_layers, 1).to(x.device)
        self.columns_x, self.columns_y = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
        self.generators = self._adam(self.to_x, self.to_y)
        self.judges = self._adam(self.judge_x, self.judge_y)

    def _adam(self, *networks: torch.nn.Sequential) -> torch.optim.Adam:
        from torch.optim import Adam

        parameters = [parameter for network in networks for parameter in network.parameters()]
        on_gpu = self.x.device.type == "cuda"
        return Adam(parameters, self.settings.learning_rate, betas=(0.5, 0.99), fused=True, capturable=on_gpu)

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        import torch
        from torch.nn.functional import mse_loss, softplus

        x, y = self.x[rows[0]], self.y[rows[1]]
        xy, yx = self.to_y(x), self.to_x(y)
        # softplus(-a) is -log of the probability that a discriminator with logit a gives to "real"
        adversarial = softplus(-self.judge_y(xy)).mean() + softplus(-self.judge_x(yx)).mean()
        reconstruction = mse_loss(self.to_x(xy), x) + mse_loss(self.to_y(yx), y)
        correspondence = self._moved(x, xy) + self._moved(yx, y)
        loss = (
            adversarial
            + self.settings.reconstruction_weight * reconstruction
            + self.settings.correspondence_weight * correspondence
        )
        self.generators.zero_grad()
        torch.autograd.backward(loss)
        self.generators.step()

        judged = (
            softplus(-self.judge_x(x)).mean()
            + softplus(self.judge_x(yx.detach())).mean()
            + softplus(-self.judge_y(y)).mean()
            + softplus(self.judge_y(xy.detach())).mean()
        )
        self.judges.zero_grad()
        torch.autograd.backward(judged)
        self.judges.step()
        return torch.stack([adversarial, reconstruction, correspondence, judged]).detach()

    def _moved(self, in_x: torch.Tensor, in_y: torch.Tensor) -> torch.Tensor:
        """How far columns that correspond are moved by a mapping."""
        moved = in_x.index_select(1, self.columns_x) - in_y.index_select(1, self.columns_y)
        return moved.square().sum(dim=1).mean()


class _Recorded:
    """An iteration recorded as a CUDA graph.

    The networks are small: started one by one, their operations take the GPU a tenth of the time that it
    takes to start them. Three iterations on the first rows come before the recording, as CUDA requires.
    """

    def __init__(self, game: _Game, rows: torch.Tensor) -> None:
        import torch

        self.rows = rows.clone()
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            for _ in range(3):
                game(self.rows)
        here.wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.losses = game(self.rows)

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        self.rows.copy_(rows)
        self.graph.replay()
        return self.losses


def _network(width_in: int, hidden: tuple[int, ...], width_out: int) -> torch.nn.Sequential:
    from torch import nn

    widths = (width_in, *hidden)
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], width_out))


def _centre_and_scale(x: NDArray[np.float64], i: int) -> tuple[NDArray[np.float64], float]:
    """Column means, and one scale for all columns so that their proportions stay."""
    scale = float(np.sqrt(x.var(axis=0).mean()))
    if scale == 0:
        raise ValueError(f"datasets[{i}]: all rows are equal, nothing can be learned; leave it out")
    return x.mean(axis=0), scale
