"""Every number that decides what shape alignment does."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT_SHAPE", "LEAST_ROWS", "ShapeConfig"]

LEAST_ROWS = 50
"""Fewer rows have too little shape: ranks of their distances change with every row."""


@dataclass(frozen=True)
class ShapeConfig:
    """Numbers of `harmonicalign.ShapeAlignment`.

    Attributes
    ----------
    n_neighbors
        Neighbours of the graphs on which hops are counted and diffusion runs; several settings are used at
        once, since no single one suits both datasets.
    n_harmonics
        Harmonics of the diffusion distances and of the coordinates.
    rank
        Rank at which matrices of distances are held.
    n_coarse
        Rows of each dataset on which all starts are tried.
    n_draws
        Random choices of those rows.
    n_signed
        Leading harmonics whose orders and signs are starts, all of them: 3! · 2³ for three.
    start_rate, rate
        Step of the proximal iteration, for starts and for the last rounds; smaller steps give sharper plans.
    start_rounds, rounds
        Most rounds of each.
    n_balance
        Sinkhorn iterations in each round.
    same
        Solutions whose images of a row are on average less than this share of rows apart are one solution.
    different
        Solutions that are at least so far apart contradict each other. Independent ones are 0.5 apart.
    n_kept
        Most solutions that are carried on from the coarse search.
    least_ratio
        An alignment is refused if the loss of the best different solution, over its own, is below this.
    most_loss
        It is refused too if its loss, over that of independent datasets, is above this.
    """

    n_neighbors: tuple[int, ...] = (10, 20)
    n_harmonics: int = 20
    rank: int = 40
    n_coarse: int = 300
    n_draws: int = 2
    n_signed: int = 3
    start_rate: float = 0.01
    rate: float = 0.005
    start_rounds: int = 12
    rounds: int = 40
    n_balance: int = 15
    same: float = 0.2
    different: float = 0.25
    n_kept: int = 5
    least_ratio: float = 1.5
    most_loss: float = 0.25


DEFAULT_SHAPE = ShapeConfig()
