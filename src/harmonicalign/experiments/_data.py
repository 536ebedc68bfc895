"""Where the experiments' data come from: files the user names, a folder of data sets, or scikit-learn."""

from __future__ import annotations

import os
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.datasets import CorruptedPair, corruption_matrix, load_mnist
from harmonicalign.experiments._runner import Plan

__all__ = ["DataError", "corrupted_digits", "digits_name", "image_shape", "npz_file", "read_npz", "seed_of"]


QUICK_WAY = "or take the quick form, which needs no data: quick=True, on the command line --quick"


class DataError(ValueError):
    """Data that an experiment needs are missing, unreadable or do not fit together."""


def seed_of(*key: object) -> int:
    """A seed that depends on the key alone, not on the order in which cells are measured."""
    return zlib.crc32(repr(key).encode())


# --- data sets kept as .npz -------------------------------------------------------------------------------


def npz_file(plan: Plan, relative: str, where: str) -> Path:
    """The file of a data set: named by the user, or in the folder of data sets.

    Parameters
    ----------
    plan
        Its `data` may name the file itself or the folder that holds `relative`; without it the environment
        variable ``HARMONICALIGN_DATA`` names the folder.
    relative
        Path within the folder, ``mnist/mnist.npz``.
    where
        Where to get the data, for the error message.
    """
    for text in plan.data:
        if not Path(text).exists():
            raise DataError(f"{text} does not exist: {where}; {QUICK_WAY}")
    name = Path(relative).name
    for text in plan.data or [os.environ.get("HARMONICALIGN_DATA", "")]:
        path = Path(text)
        found = [path] if path.name == name else [path / relative, path / name]
        for file in found:
            if text and file.is_file():
                return file
    looked = f"in {', '.join(plan.data)}" if plan.data else "as no data were named"
    raise DataError(f"{relative} was not found {looked}: {where}; {QUICK_WAY}")


@lru_cache(maxsize=4)
def read_npz(path: Path) -> dict[str, Any]:
    """Arrays of an .npz file; CSR matrices are kept in it as ``<name>_data/_indices/_indptr/_shape``."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            names = set(stored.files)
            sparse = {name.removesuffix("_indptr") for name in names if name.endswith("_indptr")}
            parts = {f"{name}_{part}" for name in sparse for part in ("data", "indices", "indptr", "shape")}
            out: dict[str, Any] = {name: stored[name] for name in names - parts}
            for name in sparse:
                arrays = (stored[f"{name}_data"], stored[f"{name}_indices"], stored[f"{name}_indptr"])
                out[name] = sp.csr_matrix(arrays, shape=tuple(int(n) for n in stored[f"{name}_shape"]))
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read as an .npz data set ({error}); is it complete?") from error
    return out


# --- the corrupted digits ---------------------------------------------------------------------------------


_MNIST = (
    "download MNIST (https://www.openml.org/d/554; an .npz file with X and y, or a folder with the idx "
    "files) and name it: data=PATH, on the command line --data PATH"
)


def digits_name(plan: Plan) -> str:
    """What the digits of a plan are, for the cells' keys; raises if they are not available."""
    images, _ = _digits(plan.quick, plan.data)
    return f"{'digits' if plan.quick else 'mnist'}, {len(images)} images"


def image_shape(plan: Plan) -> tuple[int, int]:
    """Height and width of the images."""
    side = round(_digits(plan.quick, plan.data)[0].shape[1] ** 0.5)
    return side, side


@lru_cache(maxsize=2)
def _digits(quick: bool, data: tuple[str, ...]) -> tuple[Array, Array]:
    """All images, between 0 and their largest value, and their digits."""
    if quick:
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        return images.astype(np.uint8), labels
    try:
        file: Path | None = npz_file(Plan(data=data), "mnist/mnist.npz", _MNIST)
    except DataError:
        if len(data) > 1:
            raise DataError(f"data names {len(data)} files, the digits are one; {_MNIST}") from None
        if data and not Path(data[0]).exists():
            raise
        file = Path(data[0]) if data else None
    try:
        images, labels = load_mnist(file)
    except (OSError, ValueError) as error:
        raise DataError(f"MNIST cannot be read: {error}; {_MNIST}; {QUICK_WAY}") from error
    side = round(images.shape[1] ** 0.5)
    if side**2 != images.shape[1] or len(images) < 4000:
        raise DataError(
            f"MNIST has square images, some thousands of them; found {images.shape}; {_MNIST}; {QUICK_WAY}"
        )
    return images, labels


def corrupted_digits(
    plan: Plan, pair: int, n_x: int, n_y: int, preserved: float, matrix: int = 0
) -> CorruptedPair:
    """The paper's experiment: digits against other digits, the latter corrupted.

    Parameters
    ----------
    plan
        Says which digits: scikit-learn's for the quick form, else MNIST.
    pair
        Number of the pair of samples. As many pairs as fit are disjoint; further ones are drawn anew.
    n_x, n_y
        Their sizes.
    preserved
        Share of the pixels that are not changed.
    matrix
        Number of the corruption matrix; it also depends on the pair and on `preserved`.
    """
    rows_x, rows_y = sample_rows(plan, pair, (n_x, n_y))
    images, labels = _digits(plan.quick, plan.data)
    scale = 16.0 if plan.quick else 255.0
    x, y = images[rows_x] / scale, images[rows_y] / scale
    o, mask = corruption_matrix(x.shape[1], preserved, seed_of("matrix", pair, matrix, preserved))
    return CorruptedPair(
        x=x,
        y=y @ o,
        labels_x=labels[rows_x],
        labels_y=labels[rows_y],
        y_clean=y,
        matrix=o,
        preserved=mask,
        rows_x=rows_x,
        rows_y=rows_y,
    )


def sample_rows(plan: Plan, number: int, sizes: tuple[int, ...]) -> list[Array]:
    """Rows of disjoint samples of the digits; samples of different numbers are disjoint while rows last."""
    n, total = len(_digits(plan.quick, plan.data)[0]), sum(sizes)
    if total > n:
        raise DataError(f"{total} images are needed and there are {n}; name the whole of MNIST")
    turn, block = divmod(number, n // total)
    order = np.random.RandomState(seed_of("rows", turn)).permutation(n)[block * total :]
    return np.split(order[:total], np.cumsum(sizes)[:-1])


def digit_samples(plan: Plan, number: int, sizes: tuple[int, ...]) -> list[tuple[Array, Array]]:
    """Disjoint samples of images, scaled to [0, 1], with their digits."""
    images, labels = _digits(plan.quick, plan.data)
    scale = 16.0 if plan.quick else 255.0
    return [(images[rows] / scale, labels[rows]) for rows in sample_rows(plan, number, sizes)]
