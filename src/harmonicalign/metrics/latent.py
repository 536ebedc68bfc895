"""Sampled manifolds: the error of an alignment in the coordinates they were sampled from."""

from __future__ import annotations

import numpy as np

from harmonicalign._typing import MatrixLike
from harmonicalign.metrics.checks import neighbour_blocks, of_one_width

__all__ = ["latent_error"]


def latent_error(x: MatrixLike, y: MatrixLike, latent_x: MatrixLike, latent_y: MatrixLike) -> float:
    r"""Error of the alignment of sampled manifolds, measured in the coordinates they were sampled from.

    For every row of ``x`` take the nearest row of ``y`` in the aligned space and ask how far apart the two
    lie on the manifold, in units of what a random row would give; then the same from ``y``:

    .. math:: \frac12 \left( \frac{\sum_i ‖u_i − v_{n(i)}‖}{\sum_i \operatorname{mean}_j ‖u_i − v_j‖} +
              \frac{\sum_j ‖v_j − u_{m(j)}‖}{\sum_j \operatorname{mean}_i ‖v_j − u_i‖} \right).

    0 is perfect (and, for separately sampled rows, out of reach: the next row is some way off); 1 is
    chance. The rows need not be paired, and the datasets may differ in size.

    Parameters
    ----------
    x, y
        The aligned datasets, (n_x, d) and (n_y, d).
    latent_x, latent_y
        Their true coordinates u and v on the manifold, (n_x, m) and (n_y, m), in which straight
        distance is meaningful (see :class:`harmonicalign.datasets.ManifoldPair`).

    Returns
    -------
    error
        At least 0, smaller is better.

    Examples
    --------
    >>> u = np.array([[0.0], [1.0], [2.0]])
    >>> latent_error(u, u, u, u)
    0.0
    """
    x, y = of_one_width("x", x, "y", y)
    u, v = of_one_width("latent_x", latent_x, "latent_y", latent_y)
    for name, latent, other, own in (("latent_x", u, "x", x), ("latent_y", v, "y", y)):
        if len(latent) != len(own):
            raise ValueError(f"{name} has {len(latent)} rows but {other} has {len(own)}; pass one per row")
    errors = []
    for source, target, from_, to in ((x, y, u, v), (y, x, v, u)):
        found = random = 0.0
        for rows, neighbours in neighbour_blocks(target, source, 1, width=len(target) * to.shape[1]):
            found += float(np.linalg.norm(from_[rows] - to[neighbours[:, 0]], axis=1).sum())
            apart = np.linalg.norm(from_[rows, None, :] - to[None, :, :], axis=2)
            random += float(apart.mean(axis=1).sum())
        if random == 0:
            raise ValueError("latent_x and latent_y hold one single point; the error has no scale")
        errors.append(found / random)
    return float(np.mean(errors))
