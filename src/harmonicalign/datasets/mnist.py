"""MNIST, fetched or from files."""

from __future__ import annotations

import gzip
import importlib.util
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harmonicalign._typing import Array, PathLike

__all__ = ["load_mnist"]


def load_mnist(path: PathLike | None = None) -> tuple[Array, Array]:
    """The 70,000 handwritten digits of MNIST, or of any file in the same format.

    Parameters
    ----------
    path
        An ``.npz`` file with arrays ``X`` and ``y``; or a folder with the original idx files (``train-images-
        idx3-ubyte``, ``t10k-labels-idx1-ubyte`` and so on, gzipped or not; one of the two sets is enough).
        None fetches them from OpenML through scikit-learn, which keeps a copy in its data folder.

    Returns
    -------
    X
        (n, 784), unsigned bytes, training images first.
    y
        (n,), the digits.
    """
    if path is None:
        return _fetch_mnist()
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"path {str(path)!r} does not exist; pass an .npz file with X and y, a folder with idx files, "
            "or None to download MNIST from OpenML"
        )
    data, target = _read_idx_folder(path) if path.is_dir() else _read_npz(path)
    if len(data) != len(target):
        raise ValueError(f"path {str(path)!r} holds {len(data)} images but {len(target)} labels")
    return np.ascontiguousarray(data.reshape(len(data), -1)), target.astype(np.int64)


def _fetch_mnist(fetch: Callable[..., Any] | None = None) -> tuple[Array, Array]:
    """MNIST from OpenML, by scikit-learn's `fetch_openml` or a function that does the same."""
    from sklearn.datasets import fetch_openml

    # pandas reads the file in seconds, scikit-learn's own parser in a minute; pandas is optional.
    parser = "pandas" if importlib.util.find_spec("pandas") else "liac-arff"
    try:
        bunch = (fetch or fetch_openml)("mnist_784", version=1, as_frame=False, parser=parser)
    except OSError as error:  # URLError among them
        raise OSError(
            f"MNIST could not be fetched from OpenML ({error}); download it elsewhere and pass path="
        ) from error
    return np.asarray(bunch.data).astype(np.uint8), np.asarray(bunch.target).astype(np.int64)


def _read_npz(path: Path) -> tuple[Array, Array]:
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"path {str(path)!r} is not a readable .npz file; is it complete, and the right one?"
        )
    with np.load(path, allow_pickle=False) as file:
        if not {"X", "y"} <= set(file.files):
            found = ", ".join(file.files) or "nothing"
            raise ValueError(f"path {str(path)!r} holds {found}; it must hold the arrays X and y")
        return file["X"], file["y"]


def _read_idx_folder(folder: Path) -> tuple[Array, Array]:
    images, labels = [], []
    for part in ("train", "t10k"):
        found = [_find_idx(folder, f"{part}-{kind}") for kind in ("images-idx3", "labels-idx1")]
        if all(found):
            images.append(_read_idx(found[0]))
            labels.append(_read_idx(found[1]))
    if not images:
        raise FileNotFoundError(
            f"path {str(folder)!r} has neither train-images-idx3-ubyte and train-labels-idx1-ubyte nor the "
            "t10k files (with or without .gz)"
        )
    return np.concatenate(images), np.concatenate(labels)


def _find_idx(folder: Path, stem: str) -> Path | None:
    names = [f"{stem}-ubyte", f"{stem}-ubyte.gz", f"{stem.replace('-idx', '.idx')}-ubyte"]
    return next((folder / name for name in names if (folder / name).exists()), None)


def _read_idx(path: Path | None) -> Array:
    """One idx file: two zero bytes, type (8: unsigned bytes), number of axes, their lengths, the values."""
    assert path is not None
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08":
        raise ValueError(f"{str(path)!r} does not start as an idx file of bytes does; is it the right file?")
    n_axes = raw[3]
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", n_axes, offset=4))
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * n_axes)
    if values.size != int(np.prod(shape)):
        raise ValueError(
            f"{str(path)!r} announces {int(np.prod(shape))} bytes and holds {values.size}; download it again"
        )
    return np.asarray(values.reshape(shape))
