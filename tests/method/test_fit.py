"""Fits of datasets, and of one dataset more, with every number taken from the configuration."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from two_sides import surface

from harmonicalign import AlignmentWarning
from harmonicalign._progress import Progress
from harmonicalign.datasets import corrupted_pair
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.inputs.settings import FitOptions, resolve
from harmonicalign.method import DEFAULT, add_dataset, fit_refined
from harmonicalign.method.embed import partly_projected
from harmonicalign.method.fit import _anchored_rows, _known, _landmarks
from harmonicalign.method.model import placed_confidence


def options(datasets, config=DEFAULT, seed=0):
    auto = dict.fromkeys(("n_neighbors", "n_pca", "n_harmonics", "n_bands", "t", "calibrate"), "auto")
    settings = resolve([d.shape for d in datasets], rules=config, **auto)
    kernel = {"anisotropy": config.anisotropy, "max_neighbors": config.kernel_neighbours}
    return FitOptions(settings, kernel, seed=seed)


def fit(datasets, config=DEFAULT, *, anchors=None, n_landmarks=1000, names=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)
        return fit_refined(
            datasets,
            datasets,
            names or [str(i) for i in range(len(datasets))],
            options(datasets, config),
            anchors=anchors or {},
            n_landmarks=n_landmarks,
            progress=Progress(verbose=False),
            config=config,
        )


@pytest.fixture(scope="module")
def digits():
    return corrupted_pair(*load_digits(return_X_y=True), 100, 90, 0.6, random_state=0)


@pytest.fixture(scope="module")
def model(digits):
    return fit([digits.x, digits.y])


def test_the_config_goes_with_the_model(digits, model):
    assert model.config == DEFAULT
    other = replace(DEFAULT, tangent_rows=0, shift_rounds=0, left_out=("relations", "again"))
    changed = fit([digits.x, digits.y], other)
    assert changed.config == changed.joint.config == other
    assert changed.joint.places is None, "rows are projected in spite of the config"
    assert not any(s.displacement.any() for s in changed.space.shifts), (
        "rows are shifted in spite of the config"
    )
    assert not {step["start"] for _, step in changed.history()} & {"relations", "again"}


def test_places_of_the_rows_that_were_fitted(digits, model):
    for i, (rows, expected) in enumerate(zip((digits.x, digits.y), model.coordinates(), strict=True)):
        z = model.space.place(i, model.reductions[i].apply(rows), rows)
        np.testing.assert_allclose(model.joint.split(model.joint.coordinates)[i], z, atol=1e-9)
        width = z.shape[1]
        joint = model.joint.split(model.joint.rows)[i]
        np.testing.assert_allclose(expected[:, -width:], partly_projected(z, joint, DEFAULT), atol=1e-9)
        np.testing.assert_allclose(model.place_jointly(i, rows, rows), expected[:, -width:], atol=1e-5)


def test_new_rows_are_placed_as_the_map_says(digits, model):
    new = digits.x[:5] + 0.3
    z = model.space.place(0, model.reductions[0].apply(new), new)
    projected = model.joint.project(z)
    found = model.place(0, new, new)
    np.testing.assert_allclose(found[:, -z.shape[1] :], partly_projected(z, projected, DEFAULT))
    phi = model.joint.extend(projected) * model.joint.harmonics.frequencies**model.t
    np.testing.assert_allclose(found[:, : phi.shape[1]], phi / np.linalg.norm(phi, axis=1, keepdims=True))


def test_one_dataset_more_moves_nothing_that_is_there(digits, model):
    new = np.vstack([digits.y[:30], digits.x[:20]]) + 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)
        datasets = [digits.x, digits.y]
        grown = add_dataset(model, datasets, datasets, new, new, options([new]), n_landmarks=1000)
    for before, after in zip(model.coordinates(), grown.coordinates(), strict=False):
        assert np.array_equal(before, after), "a dataset that was there has moved"
    assert len(grown.coordinates()[2]) == 50
    assert grown.parent_of(2) in (0, 1)
    z = grown.space.place(2, grown.reductions[2].apply(new), new)
    projected = model.joint.project(z, together=True)
    np.testing.assert_allclose(grown.added[0].places, z)
    np.testing.assert_allclose(grown.added[0].projected, projected)
    np.testing.assert_allclose(grown.added[0].phi, model.joint.extend(projected, together=True))


def test_every_dataset_is_aligned_with_the_largest_few(rng):
    centres = 4 * rng.randn(4, 6)
    datasets = [centres[rng.randint(4, size=n)] + rng.randn(n, 6) for n in (40, 70, 50, 60)]
    names, left_out = ["a", "b", "c", "d"], ("harmonics", "offset", "relations", "again")
    for n_hubs, expected in (
        (1, {("b", "a"), ("b", "c"), ("b", "d")}),
        (2, {("b", "a"), ("b", "c"), ("b", "d"), ("d", "a"), ("d", "c")}),
    ):
        progress = Progress(verbose=False)
        config = replace(DEFAULT, n_hubs=n_hubs, n_rounds=1, n_steps=1, left_out=left_out)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AlignmentWarning)
            fit_refined(
                datasets,
                datasets,
                names,
                options(datasets, config),
                anchors={},
                n_landmarks=1000,
                progress=progress,
                config=config,
            )
        aligned = {s.removeprefix("alignment of ") for s in progress.timings if s.startswith("alignment of ")}
        assert aligned == {f"{one} and {other}" for one, other in expected}


def test_rows_known_to_match_are_landmarks_and_honoured(digits):
    rows = np.arange(0, 20)
    pairs = np.c_[rows, rows + 30]
    known = fit([digits.x, digits.y], anchors={(0, 1): pairs}, n_landmarks=60)
    found = known.pairs[1] if 1 in known.pairs else known.pairs[0]
    assert found.start == "anchors"
    for i, column in enumerate((rows, rows + 30)):
        assert len(known.landmarks[i]) == 60
        assert np.isin(column, known.landmarks[i]).all(), "a row known to match is no landmark"


def test_landmarks(rng):
    nothing = np.empty(0, dtype=int)
    assert _landmarks(10, 10, nothing, rng).tolist() == [*range(10)], "all rows where they are few"
    generator = np.random.default_rng
    for must in (nothing, np.array([3, 90])):
        found = _landmarks(100, 20, must, generator(0))
        assert len(set(found.tolist())) == 20
        assert np.array_equal(found, np.sort(found))
        assert np.isin(must, found).all()
        assert np.array_equal(found, _landmarks(100, 20, must, generator(0)))
        assert not np.array_equal(found, _landmarks(100, 20, must, generator(1)))
    assert _landmarks(100, 2, np.array([3, 5, 90]), generator(0)).tolist() == [3, 5]


def test_known_pairs_in_terms_of_landmarks():
    landmarks = [np.array([2, 5, 7]), np.array([0, 4])]
    pairs = [[5, 4], [7, 0]]
    assert np.argwhere(_known({(0, 1): pairs}, 0, 1, landmarks).toarray()).tolist() == [[1, 1], [2, 0]]
    assert np.argwhere(_known({(0, 1): pairs}, 1, 0, landmarks).toarray().T).tolist() == [[1, 1], [2, 0]]
    assert _known({}, 0, 1, landmarks) is None
    assert _known({(0, 1): []}, 0, 1, landmarks) is None
    anchors = {(0, 1): pairs, (2, 0): [[8, 5], [9, 6]]}
    assert [_anchored_rows(anchors, i).tolist() for i in range(4)] == [[5, 6, 7], [0, 4], [8, 9], []]


def test_confidence_between_projected_rows_tells_more():
    # Two noisy samples of one surface; the second lacks a corner of it.
    (clean_x, x), (clean_y, y) = surface(600, 0.2), surface(600, 0.2, seed=1)
    y, alone = y[clean_y[:, 0] > -1], clean_x[:, 0] < -1.2
    smoothing = DEFAULT.reported_smoothing
    found, plain = placed_confidence([x, y])[0], row_confidence([x, y], n_smooth=smoothing)[0]
    assert found[alone].mean() < plain[alone].mean() - 0.05, "rows without counterpart are not told better"
    assert found[~alone].mean() > plain[~alone].mean() - 0.01
    many = replace(DEFAULT, tangent_rows=len(x) + len(y) - 1)
    np.testing.assert_array_equal(placed_confidence([x, y], config=many)[0], plain)
