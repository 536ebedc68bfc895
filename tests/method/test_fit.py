"""Fits of datasets, and of one dataset more, with every number taken from the configuration."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from two_sides import plain_side, surface

from harmonicalign import AlignmentWarning
from harmonicalign._progress import FEW_DATASETS, Progress
from harmonicalign.datasets import corrupted_pair
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.evidence.significance import Significance
from harmonicalign.inputs.settings import FitOptions, resolve
from harmonicalign.method import DEFAULT, add_dataset, fit_refined
from harmonicalign.method.fit import (
    _affordable,
    _anchored_rows,
    _best_parent,
    _known,
    _landmarks,
    _largest_first,
    _weakest,
)
from harmonicalign.method.model import placed_confidence
from harmonicalign.method.verdicts import warn


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
    other = replace(DEFAULT, tangent_rows=0, shift_rounds=0, centring_rounds=0, left_out=("relations",))
    changed = fit([digits.x, digits.y], other)
    assert changed.config == changed.embedding.config == other
    assert changed.embedding.places is None, "rows are projected in spite of the config"
    assert not any(s.displacement.any() for s in changed.space.shifts), (
        "rows are shifted in spite of the config"
    )
    assert "relations" not in {step["start"] for _, step in changed.history()}


def test_places_of_the_rows_that_were_fitted(digits, model):
    places = np.split(model.embedding.places, [100])
    for i, (rows, expected) in enumerate(zip((digits.x, digits.y), model.coordinates(), strict=True)):
        z = model.space.place(i, model.reductions[i].apply(rows), rows)
        np.testing.assert_allclose(places[i], z, atol=1e-6)
        found = model.place(i, rows, rows)
        off = np.linalg.norm(found - expected, axis=1).mean() / np.linalg.norm(expected, axis=1).mean()
        assert off < 0.2, f"fitted rows come {off:.2f} of their length away from where they are"


def test_new_rows_are_placed_by_the_space_and_the_embedding(digits, model):
    new = digits.x[:5] + 0.3
    z = model.space.place(0, model.reductions[0].apply(new), new)
    np.testing.assert_allclose(model.place(0, new, new), model.embedding.place(z), atol=1e-6)
    rigid = model.space.place_rigidly(0, model.reductions[0].apply(new), new)
    np.testing.assert_allclose(model.place_rigidly(0, new, new), rigid)


def test_one_dataset_more_moves_nothing_that_is_there(digits, model):
    new = np.vstack([digits.y[:30], digits.x[:20]]) + 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)
        datasets = [digits.x, digits.y]
        grown = add_dataset(model, datasets, datasets, new, new, options([new]), n_landmarks=1000)
    for before, after in zip(model.coordinates(), grown.coordinates(), strict=False):
        assert np.array_equal(before, after), "a dataset that was there has moved"
    assert grown.coordinates()[2].shape == (50, model.coordinates()[0].shape[1])
    assert grown.parent_of(2) in (0, 1)
    z = grown.space.place(2, grown.reductions[2].apply(new), new)
    np.testing.assert_allclose(grown.added[0], model.embedding.place(z, together=True), atol=1e-6)
    assert grown.joint_geometry(0).harmonics.phi.shape[0] == 240, "the joint map leaves out what was added"


# The tree of datasets.


def test_large_datasets_come_first_and_partners_of_known_pairs_beside_each_other(rng):
    sides = [plain_side(scale * rng.randn(5, 2)) for scale in (1, 2, 3, 1)]
    assert _largest_first(sides, [40, 70, 50, 60], {}) == [1, 3, 2, 0]
    assert _largest_first(sides, [40, 40, 40, 40], {}) == [
        2,
        1,
        *sorted([0, 3], key=lambda i: -sides[i].components.var(axis=0).sum()),
    ]
    assert _largest_first(sides, [40, 70, 50, 60], {(0, 1): []}) == [1, 0, 3, 2]
    assert _largest_first(sides, [40, 70, 50, 60], {(2, 0): []}) == [1, 3, 2, 0]
    assert _largest_first(sides, [40, 70, 60, 50], {(3, 1): [], (0, 3): []}) == [1, 3, 0, 2]


def significance(p=0.0, opposed=False, tested=True):
    return Significance(z=0.0, p=p, observed=0.0, null=np.ones(3 if tested else 0), opposed=opposed)


@dataclass
class Aligned:
    """What the choice of a parent looks at."""

    significance: Significance
    support: float


@pytest.mark.parametrize(
    ("pairs", "parent", "tried"),
    [
        ([(significance(), 0.1), (significance(), 0.9)], 0, 1),
        ([(significance(1.0), 0.9), (significance(), 0.1)], 1, 2),
        ([(significance(opposed=True), 0.9), (significance(), 0.1)], 1, 2),
        ([(significance(1.0), 0.2), (significance(1.0), 0.9), (significance(1.0), 0.3)], 1, 3),
        ([(significance(1.0, tested=False), 0.1), (significance(), 0.9)], 0, 1),  # untested is not chance
    ],
)
def test_the_parent_is_the_first_that_corresponds_or_the_best_supported(pairs, parent, tried):
    asked = []

    def align(j):
        asked.append(j)
        return Aligned(*pairs[j])

    found, pair = _best_parent(range(len(pairs)), align)
    assert (found, len(asked)) == (parent, tried)
    assert pair.support == pairs[parent][1]


def test_every_dataset_is_aligned_with_the_largest_that_it_corresponds_with(rng):
    centres = 4 * rng.randn(4, 6)
    datasets = [centres[rng.randint(4, size=n)] + rng.randn(n, 6) for n in (40, 70, 50, 60)]
    datasets[2] = rng.randn(50, 6)  # has nothing in common with any
    found = fit(datasets, replace(DEFAULT, n_rounds=1, n_steps=1))
    assert [found.parent_of(i) for i in (0, 1, 3)] == [1, None, 1]
    assert found.pair_of(1) is None
    assert found.pairs[0].significance in found.tests_of(1)
    assert found.tests_of(3) == [found.pairs[3].significance]
    only = fit(datasets, replace(DEFAULT, n_rounds=1, n_steps=1, n_parents=1))
    assert [only.parent_of(i) for i in range(4)] == [1, None, 1, 1], "another than the largest was tried"


def test_rows_known_to_match_decide_first(rng):
    datasets = [rng.randn(n, 6) for n in (60, 50, 40)]
    pairs = np.c_[np.arange(30), np.arange(30)]
    with_known = fit(datasets, replace(DEFAULT, n_rounds=1, n_steps=1, n_parents=1), anchors={(1, 2): pairs})
    assert with_known.parent_of(2) == 1, "a dataset is not aligned with the one that its known pairs are in"
    assert with_known.pairs[2].start == "anchors"


def test_small_datasets_do_not_decide_the_significance():
    tests = [(1000, significance(0.01)), (99, significance(0.9)), (500, significance(0.03))]
    assert _weakest(tests, 1000, DEFAULT).p == 0.03
    assert _weakest(tests, 990, DEFAULT).p == 0.9, "a tenth of the largest is enough to count"
    assert _weakest(tests[1:2], 1000, DEFAULT).p == 0.9, "of small datasets alone, the weakest counts"
    opposed = [(500, significance(0.03)), (500, significance(0.01, opposed=True))]
    assert _weakest(opposed, 1000, DEFAULT).opposed
    untested = [(500, significance(1.0, tested=False)), (500, significance(0.2))]
    assert _weakest(untested, 1000, DEFAULT).p == 0.2, "what was not tested is held against the alignment"


def test_warnings_name_the_datasets():
    def said(*tests):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn([("hub", f"d{i}", test) for i, test in enumerate(tests)])
        assert all(w.category is AlignmentWarning for w in caught)
        return [str(w.message) for w in caught]

    assert said(significance(), significance()) == []
    [untested] = said(significance(), significance(1.0, tested=False))
    assert "hub" in untested
    assert "d1" in untested
    assert "d0" not in untested
    assert "not tested" in untested
    [chance] = said(significance(0.5), significance())
    assert "no better than chance" in chance
    assert "d0" in chance
    [opposed] = said(significance(opposed=True))
    assert "opposite" in opposed
    assert len(said(significance(0.5, opposed=True), significance(1.0, tested=False))) == 3


def test_of_many_doubtful_alignments_a_few_are_named():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn([("hub", f"d{i}", significance(0.5)) for i in range(9)])
    said = [str(w.message) for w in caught]
    assert len(said) == FEW_DATASETS + 1
    assert all(f"hub and d{i}" in said[i] for i in range(FEW_DATASETS))
    assert said[-1].startswith(f"{9 - FEW_DATASETS} more alignments")


# Landmarks.


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
    assert _landmarks(100, 3, np.array([3, 5, 90]), generator(0)).tolist() == [3, 5, 90]


def test_of_too_many_known_pairs_a_sample_is_kept():
    pairs = np.c_[np.arange(50), np.arange(50)[::-1]]
    sizes = [100, 60, 80]
    assert len(_affordable({(0, 1): pairs}, sizes, 100, 0)[0, 1]) == 50, "all rows are landmarks"
    kept = _affordable({(0, 1): pairs}, sizes, 40, 0)[0, 1]
    assert len(kept) == 40
    assert {tuple(pair) for pair in kept} <= {tuple(pair) for pair in pairs}
    both = _affordable({(0, 1): pairs, (2, 0): pairs}, sizes, 40, 0)
    assert [len(some) for some in both.values()] == [20, 20], "partners share the landmarks of a dataset"
    other = _affordable({(0, 1): pairs}, sizes, 40, 1)[0, 1]
    assert not np.array_equal(kept, other), "the sample does not depend on the seed"


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
