"""The same seed gives the same bits in any process; threads and versions change no more than rounding."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import harmonicalign as ha

GOLDEN = Path(__file__).parent / "golden" / "digits.npz"

CODE = """
import hashlib, numpy as np, harmonicalign as ha
from harmonicalign.datasets import load_digits_pair
pair = load_digits_pair(preserved=0.5, n_x={n}, n_y={n}, random_state=0)
model = ha.HarmonicAlignment(method={method!r}, random_state=0).fit([pair.x, pair.y])
digest = hashlib.sha256()
for z in model.embedding_:
    digest.update(np.ascontiguousarray(z).tobytes())
print(digest.hexdigest())
"""


def pair():
    from harmonicalign.datasets import load_digits_pair

    return load_digits_pair(preserved=0.5, n_x=150, n_y=120, random_state=0)


def digest(method, n, **environment):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(method=method, n=n)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout.strip()


@pytest.mark.parametrize("method", ["refined", "paper"])
def test_same_bits_in_another_process_and_whatever_the_order_of_hashes(method):
    one = digest(method, 120, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONHASHSEED="1")
    two = digest(method, 120, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONHASHSEED="2")
    assert one == two
    assert len(one) == hashlib.sha256().digest_size * 2


@pytest.mark.parametrize("method", ["refined", "paper"])
def test_threads_change_no_more_than_the_order_of_sums(method):
    data = pair()

    def fit(n):
        with threadpool_limits(n):
            return gram(ha.HarmonicAlignment(method=method, random_state=0).fit([data.x, data.y]))

    one, two = fit(1), fit(2)
    assert np.abs(one - two).max() < 1e-6 * np.abs(one).max()


@pytest.mark.parametrize("method", ["refined", "paper"])
@pytest.mark.parametrize("kind", ["seed", "state", "generator"])
def test_same_bits_again(method, kind):
    data = pair()
    states = {
        "seed": lambda: 3,
        "state": lambda: np.random.RandomState(3),
        "generator": lambda: np.random.default_rng(3),
    }
    first, second = (
        ha.HarmonicAlignment(method=method, random_state=states[kind]()).fit([data.x, data.y]).embedding_
        for _ in range(2)
    )
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def gram(model):
    """Inner products between the rows of the two datasets, which no sign of a harmonic can change."""
    x, y = model.embedding_
    return x @ y.T


def golden_values():
    """What is stored: angles between rows, weights of features and significance, of both methods."""
    data = pair()
    out = {}
    for method in ("refined", "paper"):
        model = ha.HarmonicAlignment(method=method, random_state=0).fit([data.x, data.y])
        out[f"{method}_gram"] = gram(model)[::10, ::8].astype(np.float32)
        out[f"{method}_spectra"] = np.stack([h.eigenvalues[:20] for h in model.harmonics_])
        if method == "refined":
            out["weights"] = model.feature_weights_
            out["scores"] = model.feature_scores_
            out["share"] = np.array(model.share_)
            out["z"] = np.array(model.significance_.z)
    return out


def test_nothing_drifts_between_versions():
    # After an intended change: python tests/test_determinism.py, and a line in the changelog.
    with np.load(GOLDEN) as stored:
        golden = dict(stored)
    found = golden_values()
    assert set(found) == set(golden)
    for name in ("refined_spectra", "paper_spectra"):
        np.testing.assert_allclose(found[name], golden[name], atol=1e-6)
    # Pictures of a digit have columns that hardly vary, and their scores hang on single rows.
    for name, close in (("weights", 0.02), ("scores", 0.02), ("share", 0.02), ("z", 0.3)):
        np.testing.assert_allclose(found[name], golden[name], atol=close, err_msg=name)
    for name in ("refined_gram", "paper_gram"):
        scale = np.abs(golden[name]).max()
        assert np.abs(found[name] - golden[name]).max() < 1e-3 * scale, name


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    np.savez_compressed(GOLDEN, **golden_values())
