"""What several generators draw or check."""

from __future__ import annotations

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.inputs.validate import check_number

__all__ = ["random_orthogonal", "share_of", "unit"]


def random_orthogonal(d: int, rng: np.random.RandomState, *, proper: bool = False) -> Array:
    """Uniformly distributed (Haar) orthogonal matrix; `proper` ones keep orientation."""
    q, r = np.linalg.qr(rng.normal(size=(d, d)))
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    if proper and np.linalg.det(q) < 0:
        q[:, 0] *= -1
    return np.asarray(q)


def unit(v: Array) -> Array:
    """Vectors at unit length."""
    return np.asarray(v / np.linalg.norm(v, axis=-1, keepdims=True))


def share_of(name: str, value: float) -> float:
    """A number from 0 to 1; the error says how to convert a percentage."""
    try:
        return float(check_number(name, value, minimum=0.0, maximum=1.0))
    except ValueError as error:
        raise ValueError(f"{error}; it is a share, so for 35 % pass 0.35") from None
