"""The manifold-aligning generative adversarial network.

References
----------
M. Amodio, S. Krishnaswamy. MAGAN: Aligning biological manifolds. Proceedings of the 35th International
Conference on Machine Learning (ICML), PMLR 80, 215-223 (2018). arXiv:1803.00385
"""

from __future__ import annotations

from collections.abc import Sequence
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
    stay the same on the way (correspondence): of all ways to lay one manifold over the other, it picks the
    one in which related points meet.

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
        Training has converged when the mean of reconstruction plus correspondence loss over `window`
        iterations differs from its mean over the `window` before by at most `tol`. Both are in units of the
        data's variance, so 0.002 is a fifth of a percent of it.
    random_state
        Seed of the networks and the batches. The global seed is left alone.
    device
        Where to train, "cpu" or "cuda".
    n_components
        Reduce the rows together to this many principal components first, which trains several times faster on
        wide data; the embeddings are then in these components. None keeps the columns.

    Notes
    -----
    From the paper, as we know it: two generators, two discriminators, and the sum of adversarial,
    reconstruction (mean squared error of the cycle) and correspondence loss (for shared features, their mean
    squared difference before and after mapping). The paper's layer widths, loss weights, learning rate and
    number of iterations were not at hand; those here are ours, as are the scaling (each dataset is centred
    and divided by its root mean variance) and the test of convergence. The correspondence weighs ten times
    the other losses because at equal weights training often settles with clusters swapped, which no later
    step undoes.
    """

    name: ClassVar[str] = "magan"

    columns: str | Sequence[tuple[int, int]] = "all"
    reconstruction_weight: float = 1.0
    correspondence_weight: float = 10.0
    generator_layers: tuple[int, ...] = (200, 200)
    discriminator_layers: tuple[int, ...] = (200, 100)
    batch_size: int = 256
    learning_rate: float = 1e-3
    max_iter: int = 10_000
    window: int = 500
    tol: float = 0.002
    random_state: int = 0
    device: str = "cpu"
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

        x_mean, x_scale = _centre_and_scale(x, 0)
        y_mean, y_scale = _centre_and_scale(y, 1)
        device = torch.device(self.device)
        tx = torch.as_tensor((x - x_mean) / x_scale, dtype=torch.float32, device=device)
        ty = torch.as_tensor((y - y_mean) / y_scale, dtype=torch.float32, device=device)

        with torch.random.fork_rng():  # networks draw their weights from the global generator: hand it back
            torch.manual_seed(self.random_state)
            to_y = _network(x.shape[1], self.generator_layers, y.shape[1]).to(device)
            to_x = _network(y.shape[1], self.generator_layers, x.shape[1]).to(device)
            judge_x = _network(x.shape[1], self.discriminator_layers, 1).to(device)
            judge_y = _network(y.shape[1], self.discriminator_layers, 1).to(device)
            history, converged = self._train(tx, ty, to_x, to_y, judge_x, judge_y, pairs)

        with torch.no_grad():
            mapped = to_x(ty).cpu().numpy().astype(float) * x_scale + x_mean
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

    def _train(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        to_x: torch.nn.Sequential,
        to_y: torch.nn.Sequential,
        judge_x: torch.nn.Sequential,
        judge_y: torch.nn.Sequential,
        pairs: NDArray[np.intp],
    ) -> tuple[dict[str, NDArray[np.float64]], bool]:
        import torch
        from torch.nn.functional import mse_loss, softplus

        generators = torch.optim.Adam(
            [*to_x.parameters(), *to_y.parameters()], self.learning_rate, betas=(0.5, 0.999), fused=True
        )
        judges = torch.optim.Adam(
            [*judge_x.parameters(), *judge_y.parameters()], self.learning_rate, betas=(0.5, 0.999), fused=True
        )
        columns_x = torch.as_tensor(pairs[:, 0], device=x.device)
        columns_y = torch.as_tensor(pairs[:, 1], device=x.device)
        batches = np.random.default_rng(self.random_state)
        curves = np.zeros((self.max_iter, len(_LOSSES)))
        for step in range(self.max_iter):
            bx = x[torch.as_tensor(batches.integers(len(x), size=self.batch_size), device=x.device)]
            by = y[torch.as_tensor(batches.integers(len(y), size=self.batch_size), device=x.device)]

            xy, yx = to_y(bx), to_x(by)
            # softplus(-a) is -log of the probability that a judge with logit a gives to "real"
            adversarial = softplus(-judge_y(xy)).mean() + softplus(-judge_x(yx)).mean()
            reconstruction = mse_loss(to_x(xy), bx) + mse_loss(to_y(yx), by)
            correspondence = torch.zeros((), device=x.device)
            if len(pairs):
                correspondence = mse_loss(xy[:, columns_y], bx[:, columns_x]) + mse_loss(
                    yx[:, columns_x], by[:, columns_y]
                )
            loss = (
                adversarial
                + self.reconstruction_weight * reconstruction
                + self.correspondence_weight * correspondence
            )
            generators.zero_grad()
            torch.autograd.backward(loss)
            generators.step()

            judged = (
                softplus(-judge_x(bx)).mean()
                + softplus(judge_x(yx.detach())).mean()
                + softplus(-judge_y(by)).mean()
                + softplus(judge_y(xy.detach())).mean()
            )
            judges.zero_grad()
            torch.autograd.backward(judged)
            judges.step()

            losses = torch.stack([adversarial, reconstruction, correspondence, judged])
            curves[step] = losses.detach().cpu().numpy()
            if self._levelled_off(curves[: step + 1]):
                curves = curves[: step + 1]
                break
        converged = self._levelled_off(curves)
        return {name: curves[:, i].copy() for i, name in enumerate(_LOSSES)}, converged

    def _levelled_off(self, curves: NDArray[np.float64]) -> bool:
        """The adversarial loss never settles, so reconstruction and correspondence are what is watched."""
        if len(curves) < 2 * self.window or len(curves) % self.window:
            return False
        watched = curves[:, 1] + curves[:, 2]
        before, now = watched[-2 * self.window : -self.window].mean(), watched[-self.window :].mean()
        return bool(abs(now - before) <= self.tol)


def _network(width_in: int, hidden: tuple[int, ...], width_out: int) -> torch.nn.Sequential:
    from torch import nn

    widths = (width_in, *hidden)
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Linear(widths[-1], width_out))


def _centre_and_scale(x: NDArray[np.float64], i: int) -> tuple[NDArray[np.float64], float]:
    """Column means, and one scale for all columns so that their proportions stay."""
    scale = float(np.sqrt(x.var(axis=0).mean()))
    if scale == 0:
        raise ValueError(f"datasets[{i}]: all rows are equal, nothing can be learned; leave it out")
    return x.mean(axis=0), scale
