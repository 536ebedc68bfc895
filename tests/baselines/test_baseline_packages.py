"""Harmony and Scanorama through their packages."""

from __future__ import annotations

import random

import numpy as np
import pytest
from baseline_toys import same_batch_share, shifted_clusters, transfer_accuracy

from harmonicalign.experiments.baselines.harmony import Harmony
from harmonicalign.experiments.baselines.scanorama import Scanorama


@pytest.fixture(params=[Harmony, Scanorama])
def method(request):
    package = {"harmony": "harmonypy", "scanorama": "scanorama"}[request.param.name]
    pytest.importorskip(package, reason=f"{request.param.name} runs through the package {package}")
    return request.param


def test_shifted_batches_merge(method):
    x, y, labels_x, labels_y = shifted_clusters()
    z = method(n_components=5).fit_transform([x, y])
    assert same_batch_share([x, y]) > 0.95
    assert same_batch_share(z) < 0.8
    assert transfer_accuracy(z, labels_x, labels_y) > 0.95


def test_rows_come_out_as_rows_even_when_square_like(method):
    """Harmony turned its result's orientation around between versions."""
    rng = np.random.default_rng(0)
    z = method(n_components=50).fit_transform(
        [rng.uniform(1, 2, size=(26, 60)), rng.uniform(1, 2, size=(25, 60))]
    )
    assert [len(rows) for rows in z] == [26, 25]
    assert z[0].shape[1] == z[1].shape[1] <= 50


def test_the_callers_random_state_and_output_stay(method, capsys):
    random.seed(5)
    expected = random.random()
    random.seed(5)
    method().fit_transform(list(shifted_clusters()[:2]))
    assert random.random() == expected
    assert capsys.readouterr().out == ""
