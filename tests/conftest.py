from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public data sets kept beside the checkout; tests that need it skip without it."""
    path = Path(os.environ.get("HARMONICALIGN_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no public data sets at {path}; set HARMONICALIGN_DATA to their folder")
    return path


@pytest.fixture(scope="session")
def mnist(data_dir):
    file = data_dir / "mnist" / "mnist.npz"
    if not file.is_file():
        pytest.skip(f"no MNIST at {file}")
    with np.load(file, allow_pickle=False) as stored:
        return stored["X"].astype(np.float32) / 255, stored["y"].astype(int)


@pytest.fixture
def unmeasured() -> dict[str, str]:
    """The environment without what makes coverage follow a process.

    Where little or nothing can be written, its own file of data would be refused too.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE_", "COV_"))}


@pytest.fixture
def rng() -> np.random.RandomState:
    return np.random.RandomState(0)


@pytest.fixture
def curved(rng):
    """60 rows on a bent sheet with 12 smooth, well-conditioned signals."""
    latent = rng.uniform(-1, 1, (60, 2))
    rows = np.c_[latent, latent[:, 0] ** 2 - latent[:, 1], 0.3 * np.sin(3 * latent)]
    return np.c_[rows, rng.randn(60, 7)]


@pytest.fixture(scope="session")
def manifold():
    """Two samples of one manifold in rotated coordinates, with signals of which 30 % are corrupted."""
    from harmonicalign.datasets import swiss_roll

    return swiss_roll(300, 280, n_signals=40, corrupted=0.3, random_state=0)


@pytest.fixture(scope="session")
def sides(manifold):
    """The two samples as the method sees them."""
    from two_sides import side

    return side(manifold.x, manifold.signals_x), side(manifold.y, manifold.signals_y)


@pytest.fixture(scope="session")
def problem(sides):
    """Their alignment as a problem."""
    from harmonicalign.method import PairProblem

    return PairProblem(*sides)


@pytest.fixture(scope="session")
def solved(problem):
    """What the method makes of it."""
    from harmonicalign.method import solve

    return solve(problem)


@pytest.fixture(scope="session")
def tiny():
    """Two small datasets of equally many rows, turned against each other, with some signals in common."""
    from two_sides import side

    rng = np.random.RandomState(3)
    latent = rng.randn(50, 2) * [2, 1]
    rows = np.c_[latent, np.sin(latent[:, 0])]
    signals = np.c_[rows, np.cos(latent), latent[:, :1] * latent[:, 1:], rng.randn(50, 2)]
    signals += 0.1 * rng.randn(50, 8)
    turn = np.linalg.qr(rng.randn(3, 3))[0]
    return side(rows[:25], signals[:25], k=8), side(rows[25:] @ turn + 1, signals[25:] + 0.5, k=8)
