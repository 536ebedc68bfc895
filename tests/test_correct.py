import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign import HarmonicAlignment
from harmonicalign.metrics import earth_movers_distance
from harmonicalign.uses.correct import _chunks, correct
from harmonicalign.uses.smooth import balanced_transitions, denoise, impute


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def population(rng, n, shares=(0.5, 0.3, 0.2)):
    """Rows of three groups: joint coordinates, five signals, group."""
    group = rng.choice(3, size=n, p=np.asarray(shares))
    latent = rng.standard_normal((n, 4)) * 0.3
    centres = np.eye(3, 4) * 4
    means = np.array([[0, 3, 1, 5, 2], [4, 0, 1, 2, 2], [2, 6, 5, 0, 2]], dtype=float)
    loadings = np.array([[1, 0, 0.5, 0.2, 0], [0, 1, 0, 0.5, 0], [0, 0, 1, 1, 0], [0.3, 0, 0, 0, 1]])
    signals = means[group] + latent @ loadings + 0.1 * rng.standard_normal((n, 5))
    return unit(centres[group] + latent), signals, group


def batch_effect(signals, group):
    """What the second dataset's instrument does: another scale and offset, and another one by group."""
    return 0.7 * signals + 1 + 0.4 * group[:, None]


@pytest.fixture(scope="module")
def two():
    rng = np.random.RandomState(0)
    zx, x, gx = population(rng, 900)
    zy, truth, gy = population(rng, 700)
    return zx, x, gx, zy, truth, gy, batch_effect(truth, gy)


# --- correct ----------------------------------------------------------------------------------------------


def test_correction_brings_distributions_and_rows_to_the_truth(two):
    zx, x, _, zy, truth, _, y = two
    fixed = correct([x, y], [zx, zy], 0).values[1]
    before, after = earth_movers_distance(x, y).mean(), earth_movers_distance(x, fixed).mean()
    assert after < 0.15 * before
    assert np.abs(fixed - truth).mean() < 0.15 * np.abs(y - truth).mean()


def test_the_reference_comes_back_unchanged_and_inputs_are_not_written_to(two):
    zx, x, _, zy, _, _, y = two
    kept = x.copy(), y.copy()
    fixed = correct([x, y], [zx, zy], 0).values
    np.testing.assert_array_equal(fixed[0], x)
    assert fixed[0] is not x
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(y, kept[1])
    np.testing.assert_array_equal(correct([x, y], [zx, zy], 1).values[1], y)


def test_a_dataset_equal_to_the_reference_does_not_change(two, rng):
    zx, x, *_ = two
    heaped = np.maximum(x - 2, 0)
    for values in (x, heaped):
        moved = unit(zx + 0.01 * rng.standard_normal(zx.shape))  # an alignment is never exact
        order = rng.permutation(len(x))
        same, near, shuffled = correct([values] * 2 + [values[order]], [zx, moved, zx[order]], 0).values
        for found, expected in ((same, values), (near, values), (shuffled, values[order])):
            assert np.abs(found - expected).max() <= 1e-6


def test_two_samples_of_one_population_hardly_change(rng):
    (zx, x, _), (zy, y, _) = population(rng, 600), population(rng, 600)
    fixed = correct([x, y], [zx, zy], 0).values[1]
    assert np.abs(fixed - y).mean() < 0.05 * y.std()


def test_an_absent_population_does_not_distort_the_others(two):
    zx, x, gx, zy, truth, gy, y = two
    present = gx != 1
    fixed = correct([x[present], y], [zx[present], zy], 0).values[1]
    others = gy != 1
    error = np.abs(fixed - truth)[others].mean()
    assert error < 0.2 * np.abs(y - truth)[others].mean()
    ranks = np.argsort(np.argsort(y, axis=0), axis=0) / (len(y) - 1)
    globally = np.stack([np.quantile(x[present][:, j], ranks[:, j]) for j in range(5)], axis=1)
    assert error < 0.3 * np.abs(globally - truth)[others].mean()
    # Rows nobody in the reference resembles move as their values do elsewhere: no worse than before.
    assert np.abs(fixed - truth)[~others].mean() < np.abs(y - truth)[~others].mean()


def test_heaps_at_zero_spread_and_keep_correlations(two):
    zx, x, _, zy, truth, _, _ = two
    x, truth = np.maximum(x - 1, 0), np.maximum(truth - 1, 0)
    y = np.maximum(truth - 1, 0)  # a higher limit of detection
    fixed = correct([x, y], [zx, zy], 0).values[1]
    shares = [(v < 0.05).mean() for v in (truth, y, fixed)]
    assert shares[1] > shares[0] + 0.1
    assert abs(shares[2] - shares[0]) < 0.05
    assert earth_movers_distance(x, fixed).mean() < 0.15 * earth_movers_distance(x, y).mean()
    above = np.triu_indices(5, 1)
    kept = np.corrcoef(np.corrcoef(y.T)[above], np.corrcoef(fixed.T)[above])[0, 1]
    assert kept > 0.95


@pytest.mark.parametrize(("shares", "most"), [((0.2, 0.3, 0.5), 0.15), ((0.02, 0.18, 0.8), 0.3)])
def test_another_composition_is_no_batch_effect(shares, most, rng):
    (zx, x, _), (zy, truth, group) = population(rng, 900), population(rng, 700, shares)
    y = batch_effect(truth, group)
    fixed = correct([x, y], [zx, zy], 0).values[1]
    assert np.abs(fixed - truth).mean() < most * np.abs(y - truth).mean()
    ranks = np.argsort(np.argsort(y, axis=0), axis=0) / (len(y) - 1)
    globally = np.stack([np.quantile(x[:, j], ranks[:, j]) for j in range(5)], axis=1)
    assert np.abs(fixed - truth).mean() < 0.3 * np.abs(globally - truth).mean()


def test_size_of_chunks_does_not_matter(two):
    zx, x, _, zy, _, _, y = two
    whole = correct([x, y], [zx, zy], 0).values[1]
    many = [np.tile(v, 160) for v in (x, y)]
    assert len(list(_chunks(many))) > 1
    # Ranks of many columns share one axis of the interpolation, which costs them some digits.
    np.testing.assert_allclose(correct(many, [zx, zy], 0).values[1], np.tile(whole, 160), atol=1e-4)


@pytest.mark.parametrize("form", [np.asarray, sp.csc_matrix])
def test_chunks_cover_every_column_once(rng, form):
    matrices = [form(rng.rand(n, 12) * (rng.rand(n, 12) < 0.3)) for n in (40, 30)]
    for size in (1, 100, 500, 10**6):
        found = list(_chunks(matrices, size))
        assert [j for part in found for j in range(part.start, part.stop)] == list(range(12))
    assert len(found) == 1


def test_the_same_seed_gives_the_same_result(two):
    zx, x, _, zy, _, _, y = two
    heaped = np.maximum(y - 2, 0)
    first, second = (correct([x, heaped], [zx, zy], 0, random_state=3).values[1] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_sparse_stays_sparse_with_its_pattern_and_type(two):
    zx, x, _, zy, truth, _, y = two
    rng = np.random.RandomState(1)
    sparse = [sp.csr_matrix(v * (rng.rand(*v.shape) < 0.4)).astype(np.float32) for v in (x, y)]
    fixed = correct(sparse, [zx, zy], 0).values
    for before, after in zip(sparse, fixed, strict=True):
        assert sp.issparse(after)
        assert after.format == "csr"
        assert after.dtype == np.float32
        np.testing.assert_array_equal(after.indptr, before.indptr)
        np.testing.assert_array_equal(after.indices, before.indices)
    np.testing.assert_array_equal(fixed[0].data, sparse[0].data)
    stored = sparse[1].nonzero()
    error = [np.abs(np.asarray(v[stored]).ravel() - truth[stored]).mean() for v in (fixed[1], sparse[1])]
    assert error[0] < 0.25 * error[1]


def test_columns_with_nothing_stored_are_left_alone(two):
    zx, _, _, zy, *_ = two
    empty = [sp.csr_matrix((len(z), 3)) for z in (zx, zy)]
    assert correct(empty, [zx, zy], 0).values[1].nnz == 0
    one_sided = correct([empty[0], sp.csr_matrix(np.ones((len(zy), 3)))], [zx, zy], 0).values[1]
    np.testing.assert_array_equal(one_sided.toarray(), 1)
    constant = correct([np.ones((len(zx), 1)), np.full((len(zy), 1), 3.0)], [zx, zy], 0).values[1]
    np.testing.assert_allclose(constant, 1)


def test_several_datasets_and_tiny_ones(rng):
    parts = [population(rng, n) for n in (300, 200, 12)]
    signals = [parts[0][1], parts[1][1] + 2, parts[2][1] + 2]
    fixed = correct(signals, [p[0] for p in parts], 0).values
    assert np.abs(fixed[1] - parts[1][1]).mean() < 0.6
    assert [f.shape for f in fixed] == [s.shape for s in signals]
    assert all(np.isfinite(f).all() for f in fixed)


def test_doubtful_rows_have_no_say(two):
    zx, x, _, zy, truth, _, y = two
    spoilt, wrong = y.copy(), np.arange(len(y)) % 3 == 0
    spoilt[wrong] += 30
    sure = [np.ones(len(x)), np.where(wrong, 0.1, 1.0)]
    fixed = correct([x, spoilt], [zx, zy], 0, confidence=sure).values[1]
    blind = correct([x, spoilt], [zx, zy], 0, confidence=[np.ones(len(x)), np.ones(len(y))]).values[1]
    error = [np.abs(v - truth)[~wrong].mean() for v in (fixed, blind)]
    assert error[0] < 0.5 * error[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reference": 2}, "reference must be between 0 and 1"),
        ({"n_clusters": 0}, "n_clusters must be between 1"),
        ({"n_clusters": "many"}, "n_clusters must be a whole number"),
        ({"signals": [np.ones((20, 2)), np.ones((20, 3))]}, "columns; pass the shared ones"),
        ({"signals": [np.ones((20, 2)), np.ones((19, 2))]}, "pass the same datasets"),
        ({"signals": [np.ones((20, 2)), sp.csr_matrix(np.ones((20, 2)))]}, "partly dense and partly sparse"),
        ({"signals": [np.ones((20, 2)), np.full((20, 2), np.nan)]}, r"signals\[1\] contains 40 NaN"),
        ({"coordinates": [np.ones((20, 2)), np.ones((20, 3))]}, "one joint space"),
        ({"confidence": [np.ones(20), np.ones(5)]}, "confidence has shapes"),
        ({"confidence": [np.ones(20), np.full(20, 2.0)]}, r"confidence must lie in \[0, 1\]"),
    ],
)
def test_correct_says_what_is_wrong(change, message, rng):
    arguments = {
        "signals": [rng.rand(20, 2), rng.rand(20, 2)],
        "coordinates": [rng.rand(20, 2), rng.rand(20, 2)],
        "reference": 0,
    } | change
    with pytest.raises(ValueError, match=message):
        correct(**arguments)


# --- denoise ----------------------------------------------------------------------------------------------


def test_balanced_transitions_are_stochastic_and_draw_on_every_dataset(two):
    zx, _, _, zy, *_ = two
    sure = [np.ones(len(zx)), np.ones(len(zy))]
    p = balanced_transitions([zx, zy], confidence=sure)
    n = len(zx)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert p.data.min() >= 0
    np.testing.assert_allclose(p[:n, n:].sum(axis=1), 0.5)
    doubtful = balanced_transitions([zx, zy], confidence=[sure[0], np.zeros(len(zy))])
    assert doubtful[n:, :n].sum() < 1e-3
    # Every row gives about as much as it takes.
    taken = np.asarray(p[:n, n:].sum(axis=0)).ravel()
    assert taken.std() < 0.2 * taken.mean()


def test_denoising_joins_datasets_and_removes_noise(two):
    zx, x, _, zy, _, _, _ = two
    rng = np.random.RandomState(0)
    noiseless = np.vstack([zx, zy])
    noisy = noiseless + 0.3 * rng.standard_normal(noiseless.shape)
    noisy[len(x) :] += 0.5
    p = balanced_transitions([zx, zy])
    found = denoise(noisy, p)
    assert 1 < found.t <= 20
    left = found.values[: len(x)].mean(axis=0) - found.values[len(x) :].mean(axis=0)
    true = zx.mean(axis=0) - zy.mean(axis=0)
    assert np.abs(left - true).max() < 0.1
    aligned = found.values - found.values.mean(axis=0)
    assert np.abs(aligned - noiseless + noiseless.mean(axis=0)).mean() < 0.4 * 0.3


def test_denoise_is_a_power_of_the_transitions_for_any_layout(two, rng):
    zx, _, _, zy, *_ = two
    p = balanced_transitions([zx[:60], zy[:50]], n_neighbors=5)
    values = rng.rand(110, 7) * (rng.rand(110, 7) < 0.5)
    expected = np.linalg.matrix_power(p.toarray(), 3) @ values
    for form in (values, sp.csr_matrix(values)):
        found = denoise(form, p, t=3)
        assert found.t == 3
        np.testing.assert_allclose(found.values, expected, atol=1e-12)
        np.testing.assert_allclose(denoise(form, p, t=0).values, values)
    assert denoise(values, p).t == denoise(sp.csr_matrix(values), p).t
    assert denoise(values.astype(np.float32), p).values.dtype == np.float32
    np.testing.assert_allclose(denoise(np.ones((110, 1)), p).values, 1)
    many = denoise(np.tile(values, 3000), p, t=3).values  # more than are worked on at once
    np.testing.assert_allclose(many, np.tile(expected, 3000), atol=1e-12)


def test_denoise_says_what_is_wrong(rng):
    p = balanced_transitions([rng.rand(10, 2)], n_neighbors=3)
    with pytest.raises(ValueError, match="stack the values of all datasets"):
        denoise(rng.rand(9, 2), p)
    with pytest.raises(ValueError, match="t must be a whole number"):
        denoise(rng.rand(10, 2), p, t="long")
    with pytest.raises(ValueError, match="coordinates is empty; pass the joint coordinates of every dataset"):
        balanced_transitions([])


def test_denoising_stops_at_the_longest_time(rng):
    """Along a chain, values keep changing for long; no more steps are taken than are allowed."""
    n = 200
    chain = sp.diags_array([np.full(n - 1, 0.5), np.full(n - 1, 0.5)], offsets=[-1, 1]).tolil()
    chain[0, 1] = chain[n - 1, n - 2] = 1.0
    values = rng.rand(n, 3)
    assert denoise(values, chain.tocsr(), max_t=4).t == 4
    found = denoise(values, chain.tocsr(), max_t=1)
    assert found.t == 1
    np.testing.assert_allclose(found.values, chain @ values)


# --- impute -----------------------------------------------------------------------------------------------


def test_imputation_predicts_and_knows_its_error(two):
    zx, x, _, zy, truth, *_ = two
    values = np.c_[x, np.random.RandomState(0).standard_normal((len(x), 1)), np.ones((len(x), 1))]
    found = impute(values, zx, zy)
    assert found.values.shape == (len(zy), 7)
    rmse = np.sqrt(np.mean((found.values[:, :5] - truth) ** 2, axis=0))
    correlation = [np.corrcoef(found.values[:, j], truth[:, j])[0, 1] for j in range(5)]
    np.testing.assert_allclose(found.rmse[:5], rmse, rtol=0.25)
    np.testing.assert_allclose(found.correlation[:5], correlation, atol=0.1)
    assert abs(found.correlation[5]) < 0.15
    assert np.isnan(found.correlation[6])
    np.testing.assert_allclose(found.values[:, 6], 1)
    same = impute(sp.csr_matrix(values), zx, zy)
    np.testing.assert_allclose(same.values, found.values)
    np.testing.assert_allclose(same.rmse, found.rmse)


def test_impute_says_what_is_wrong(rng):
    with pytest.raises(ValueError, match="values has 9 rows but source has 10"):
        impute(rng.rand(9, 2), rng.rand(10, 2), rng.rand(4, 2))
    with pytest.raises(ValueError, match="source and target have"):
        impute(rng.rand(10, 2), rng.rand(10, 2), rng.rand(4, 3))
    with pytest.raises(ValueError, match="n_neighbors must be between 1 and 9"):
        impute(rng.rand(10, 2), rng.rand(10, 2), rng.rand(4, 2), n_neighbors=10)


# --- real data --------------------------------------------------------------------------------------------


@pytest.mark.data
def test_two_days_of_blood(data_dir):
    with np.load(data_dir / "cytof_shaham" / "cytof_shaham.npz") as stored:
        raw = [np.log1p(stored[f"X_p1d{day}_baseline"]) for day in (1, 2)]
    pooled = np.vstack(raw)
    x, y = ((v - pooled.mean(axis=0)) / pooled.std(axis=0) for v in raw)
    model = HarmonicAlignment(random_state=0).fit([x, y])
    fixed = model.correct(reference=0).values[1]
    assert earth_movers_distance(x, fixed).mean() < 0.3 * earth_movers_distance(x, y).mean()
    above = np.triu_indices(25, 1)
    assert np.corrcoef(np.corrcoef(y.T)[above], np.corrcoef(fixed.T)[above])[0, 1] > 0.95
    together = model.denoise(np.vstack([x, y])).values
    apart = [denoise(v, balanced_transitions([v])).values for v in (x, y)]
    left = earth_movers_distance(together[: len(x)], together[len(x) :]).mean()
    assert left < 0.25 * earth_movers_distance(*apart).mean()
