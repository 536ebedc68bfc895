"""One process, many alignments; one model, many threads."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import harmonicalign as ha

SOAK = Path(__file__).parents[1] / "fuzz" / "soak.py"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell memory in use")
@pytest.mark.skipif(not SOAK.exists(), reason="the driver is not part of the distribution")
def test_memory_does_not_grow():
    # A process of its own, as other tests' garbage would count here.
    done = subprocess.run(
        [sys.executable, str(SOAK), "--fits", "24", "--warm", "10"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize("method", ["refined", "paper"])
@pytest.mark.filterwarnings("ignore::harmonicalign.AlignmentWarning")
def test_eight_threads_share_a_model(method, rng):
    mixing = rng.randn(3, 10)
    rows = np.tanh(rng.randn(200, 3) @ mixing)
    model = ha.HarmonicAlignment(method=method, random_state=0).fit([rows[:60], rows[60:120]])
    parts = [rows[100 + 2 * i : 140 + 2 * i] for i in range(24)]
    expected = [model.transform(part, dataset=i % 2) for i, part in enumerate(parts)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: model.transform(parts[i], dataset=i % 2), range(len(parts))))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_eight_threads_fit_at_once(rng):
    rows = np.tanh(rng.randn(80, 3) @ rng.randn(3, 10))
    halves = [rows[:40], rows[40:]]
    expected = ha.HarmonicAlignment(random_state=0).fit(halves).embedding_
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda _: ha.HarmonicAlignment(random_state=0).fit(halves).embedding_, range(8))
        for embedding in found:
            for a, b in zip(embedding, expected, strict=True):
                np.testing.assert_array_equal(a, b)
