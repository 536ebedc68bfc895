from __future__ import annotations

import numpy as np
import pytest
from baseline_toys import transfer_accuracy

from harmonicalign.experiments.baselines.magan import MAGAN

torch = pytest.importorskip("torch", reason="MAGAN is trained with torch")

SMALL = {"generator_layers": (32, 32), "discriminator_layers": (32, 32), "batch_size": 64}


def rotated_mixtures(seed):
    """Three Gaussians turned by a right angle in the first two columns; the third column is untouched."""
    rng = np.random.default_rng(seed)
    centres = np.array([[4.0, 0, -2], [-2, 3, 0], [-2, -4, 2]])
    labels_x, labels_y = rng.integers(3, size=300), rng.integers(3, size=300)
    x = centres[labels_x] + 0.4 * rng.normal(size=(300, 3))
    y = centres[labels_y] + 0.4 * rng.normal(size=(300, 3))
    y[:, :2] = y[:, :2] @ [[0, -1], [1, 0]]
    return x, y, labels_x, labels_y


MEETING = {"columns": ((2, 2),), "correspondence_weight": 10, "max_iter": 1000, "window": 250, **SMALL}


@pytest.fixture(scope="module")
def trained():
    x, y, labels_x, labels_y = rotated_mixtures(0)
    return MAGAN(**MEETING, device="cpu").fit([x, y]), x, y, labels_x, labels_y


def test_rotated_mixtures_meet_through_one_known_column(trained):
    fit, x, y, labels_x, labels_y = trained
    assert transfer_accuracy([x, y], labels_x, labels_y) < 0.1
    assert transfer_accuracy(fit.embeddings, labels_x, labels_y) > 0.95
    np.testing.assert_array_equal(fit.embeddings[0], x)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_mixtures_meet_on_a_gpu_too():
    x, y, labels_x, labels_y = rotated_mixtures(0)
    fit = MAGAN(**MEETING, device="cuda").fit([x, y])
    assert transfer_accuracy(fit.embeddings, labels_x, labels_y) > 0.95
    assert fit.history_["reconstruction"][-50:].mean() < 0.2 * fit.history_["reconstruction"][:5].mean()


def test_training_curves_are_kept_and_fall(trained):
    fit = trained[0]
    assert set(fit.history_) == {"adversarial", "reconstruction", "correspondence", "discriminator"}
    lengths = {len(curve) for curve in fit.history_.values()}
    assert len(lengths) == 1
    assert lengths.pop() <= 1000
    for loss in ("reconstruction", "correspondence"):
        assert fit.history_[loss][-50:].mean() < 0.2 * fit.history_[loss][:5].mean()


def test_stops_once_the_curves_level_off():
    x, y, *_ = rotated_mixtures(1)
    fit = MAGAN(max_iter=60, window=20, tol=100.0, **SMALL).fit([x, y])
    assert fit.converged
    assert len(fit.history_["adversarial"]) == 40
    assert not MAGAN(max_iter=30, window=20, tol=100.0, **SMALL).fit([x, y]).converged


def test_the_seed_decides_and_the_global_one_is_left_alone():
    x, y, *_ = rotated_mixtures(1)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    a = MAGAN(max_iter=10, **SMALL).fit_transform([x, y])[1]
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(4)
    np.testing.assert_array_equal(MAGAN(max_iter=10, **SMALL).fit_transform([x, y])[1], a)
    assert not np.array_equal(MAGAN(max_iter=10, random_state=1, **SMALL).fit_transform([x, y])[1], a)


def test_reduced_first():
    x, y, *_ = rotated_mixtures(0)
    wide = np.random.default_rng(0).normal(size=(3, 40))
    fit = MAGAN(n_components=3, max_iter=5, **SMALL).fit([x @ wide, y @ wide])
    assert [z.shape for z in fit.embeddings] == [(300, 3), (300, 3)]
    distances = np.linalg.norm(fit.embeddings[0] - fit.embeddings[0][0], axis=1)
    np.testing.assert_allclose(distances, np.linalg.norm((x - x[0]) @ wide, axis=1), rtol=1e-6)
    with pytest.raises(ValueError, match="n_components=0"):
        MAGAN(n_components=0)


def test_without_correspondence_columns_may_differ():
    x, y, *_ = rotated_mixtures(1)
    fit = MAGAN(columns="none", max_iter=5, **SMALL).fit([x, y[:, :2]])
    assert fit.embeddings[1].shape == x.shape
    assert (fit.history_["correspondence"] == 0).all()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([(0, 3)], r"\[0, 3\].*3 and 3 columns"),
        ([0, 1], "integer pairs"),
        ([(0, -1)], "number columns from 0"),
    ],
)
def test_bad_columns_are_named(columns, message):
    x, y, *_ = rotated_mixtures(1)
    with pytest.raises(ValueError, match=message):
        MAGAN(columns=columns).fit([x, y])


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="columns='some'"):
        MAGAN(columns="some")
    with pytest.raises(ValueError, match="correspondence_weight=-1"):
        MAGAN(correspondence_weight=-1)
    with pytest.raises(ValueError, match=r"datasets\[0\]: all rows are equal"):
        MAGAN().fit([np.ones((5, 2)), np.eye(5)[:, :2]])
