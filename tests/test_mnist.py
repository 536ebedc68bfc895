"""The paper's own experiment on the real data: corrupted MNIST."""

import numpy as np
import pytest

from harmonicalign import HarmonicAlignment
from harmonicalign.datasets import corrupted_pair
from harmonicalign.metrics import knn_label_agreement

pytestmark = [pytest.mark.data, pytest.mark.slow]


def accuracy(mnist, n_x, n_y, seed, **options):
    pair = corrupted_pair(*mnist, n_x, n_y, preserved=0.35, random_state=seed)
    x, y = HarmonicAlignment(method="paper", random_state=0, **options).fit_transform([pair.x, pair.y])
    return knn_label_agreement(x, pair.labels_x, y, pair.labels_y)


def test_paper_method_recovers_neighbourhoods(mnist):
    assert np.mean([accuracy(mnist, 1000, 1000, seed) for seed in range(3)]) >= 0.80


def test_more_points_align_better(mnist):
    means = [np.mean([accuracy(mnist, n, n, seed) for seed in range(3)]) for n in (200, 400, 800)]
    assert means[0] < means[1] < means[2]


def test_imbalance_costs_nothing(mnist):
    balanced = accuracy(mnist, 600, 600, 0)
    assert accuracy(mnist, 600, 2400, 0, calibrate=True) >= balanced - 0.015


def test_calibration_rescues_spectra_that_differ(mnist):
    # A fixed number of neighbours is a shorter step where there are more rows.
    local = {"n_neighbors": 20, "max_neighbors": 60}
    plain = accuracy(mnist, 600, 2400, 0, **local)
    assert accuracy(mnist, 600, 2400, 0, calibrate=True, **local) > plain + 0.1
