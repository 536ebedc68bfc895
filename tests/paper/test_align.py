from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import basis, sample

from harmonicalign import (
    MultiAlignment,
    align,
    bandlimiting_weights,
    calibrate,
    multi_align,
)
from harmonicalign.paper.align import align_spectra, joint_signal_basis, orthogonalize


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 10**6), st.integers(1, 12))
def test_rotation_is_a_partial_isometry(rows, columns, seed, rank):
    rng = np.random.RandomState(seed)
    rank = min(rank, rows, columns)
    c = rng.randn(rows, rank) @ rng.randn(rank, columns)
    for complete in (True, False):
        rotation, _, found = orthogonalize(c, complete=complete)
        kept = min(rows, columns) if complete else rank
        assert found == rank
        values = np.linalg.svd(rotation, compute_uv=False)
        assert values[:kept] == pytest.approx(np.ones(kept), abs=1e-10)
        assert values[kept:] == pytest.approx(np.zeros(len(values) - kept), abs=1e-10)
        # It is the best of its kind: no other agrees better with the correlation.
        assert np.sum(rotation * c) == pytest.approx(np.linalg.svd(c, compute_uv=False).sum())


def test_completion_is_the_identity_where_nothing_is_known():
    assert orthogonalize(np.zeros((4, 4)))[0] == pytest.approx(np.eye(4))
    assert not orthogonalize(np.zeros((4, 4)), complete=False)[0].any()
    half = np.diag([1.0, 1, 0, 0])
    assert orthogonalize(half)[0] == pytest.approx(np.eye(4))


def test_a_dataset_aligned_with_itself():
    rows = sample(80, 0)
    h = basis(rows, 15)
    a = align(h, h, rows, rows)
    assert a.rank == 15
    assert a.rotation == pytest.approx(np.eye(15), abs=1e-8)


def test_unequal_numbers_of_harmonics():
    x, y = sample(80, 0), sample(70, 1)
    t = align(basis(x, 15), basis(y, 10), x, y).rotation
    assert t.shape == (15, 10)
    assert t.T @ t == pytest.approx(np.eye(10), abs=1e-10)


def test_isometry_of_the_representation_changes_nothing():
    x, y = sample(80, 0), sample(70, 1)
    turn = np.linalg.qr(np.random.RandomState(3).randn(x.shape[1], x.shape[1]))[0]
    one = align(basis(x, 6), basis(y, 6), x, y).rotation
    two = align(basis(x @ turn + 5, 6), basis(y, 6), x, y).rotation
    assert two == pytest.approx(one, abs=1e-6)


def test_permuting_rows_changes_nothing():
    x, y = sample(80, 0), sample(70, 1)
    order = np.random.RandomState(3).permutation(80)
    one = align(basis(x, 6), basis(y, 6), x, y).rotation
    assert align(basis(x[order], 6), basis(y, 6), x[order], y).rotation == pytest.approx(one, abs=1e-7)


def test_sparse_signals_and_weights():
    x, y = sample(80, 0), sample(70, 1)
    hx, hy = basis(x, 6), basis(y, 6)
    one = align(hx, hy, x, y)
    assert align(hx, hy, sp.csr_matrix(x), sp.csc_matrix(y)).products == pytest.approx(one.products)
    uniform = align(hx, hy, x, y, feature_weights=np.ones(x.shape[1]))
    assert uniform.rotation == pytest.approx(one.rotation)
    first = np.arange(x.shape[1]) < 8
    kept = align(hx, hy, x[:, first], y[:, first])
    assert align(hx, hy, x, y, feature_weights=first).products == pytest.approx(kept.products)
    assert one.correlation == pytest.approx(one.products * one.band_weights)


def one_pair(hx, hy, x, y, **options):
    return multi_align([hx, hy], [x, y], **options).pairs[0, 1]


@pytest.mark.parametrize("way", [align, one_pair])
def test_options_of_an_alignment(way):
    x, y = sample(80, 0), sample(70, 1)
    hx, hy = basis(x, 40), basis(y, 40)
    x, y = x[:, :1], y[:, :1]
    plain = way(hx, hy, x, y)
    assert plain.band_weights == pytest.approx(bandlimiting_weights(hx.frequencies, hy.frequencies, 8, 0))
    assert plain.products == pytest.approx((hx.psi.T @ x) @ (hy.psi.T @ y).T)
    assert plain.singular_values == pytest.approx(np.linalg.svd(plain.correlation, compute_uv=False))
    assert plain.rank < 40
    assert plain.rotation.T @ plain.rotation == pytest.approx(np.eye(40), abs=1e-10)
    other = way(hx, hy, x, y, n_bands=3, first_band=1, complete=False)
    expected = bandlimiting_weights(hx.frequencies, hy.frequencies, 3, 1)
    assert other.band_weights == pytest.approx(expected)
    assert not np.allclose(expected, bandlimiting_weights(hx.frequencies, hy.frequencies, 3, 0))
    assert np.linalg.matrix_rank(other.rotation) == other.rank < 40
    again = align_spectra(hx, hy, plain.products)
    assert again.band_weights == pytest.approx(plain.band_weights)
    assert again.rotation == pytest.approx(plain.rotation)
    weighted = way(hx, hy, x, y, feature_weights=[3])
    assert weighted.products == pytest.approx(3 * plain.products)


def test_the_other_order_of_the_datasets():
    x, y = sample(80, 0), sample(70, 1)
    hx, hy = basis(x, 8), basis(y, 6)
    there, back = align(hx, hy, x, y).transposed, align(hy, hx, y, x)
    assert there.harmonics == back.harmonics
    for name in ("products", "band_weights", "rotation", "singular_values"):
        assert getattr(there, name) == pytest.approx(getattr(back, name), abs=1e-9)


def test_numbers_of_other_kinds_are_weights():
    x, y = sample(80, 0), sample(70, 1)
    hx, hy = basis(x, 6), basis(y, 6)
    weights = np.arange(x.shape[1])
    one = align(hx, hy, x, y, feature_weights=weights)
    assert align(hx, hy, x, y, feature_weights=weights.astype(object)).products == pytest.approx(one.products)


def test_one_signal_basis_for_all_keeps_inner_products():
    x, y = sample(20, 0, 50), sample(15, 1, 50)
    hx, hy = basis(x), basis(y)
    b = joint_signal_basis([x, y])
    assert b.shape == (x.shape[1], 35)
    expected = align(hx, hy, x, y).products
    assert align(hx, hy, x @ b, y @ b).products == pytest.approx(expected, abs=1e-9)
    sparse = joint_signal_basis([sp.csr_matrix(x), y], 3)
    dense = joint_signal_basis([x, y], 3)
    assert sparse @ sparse.T == pytest.approx(dense @ dense.T, abs=1e-6)


def test_rank_of_the_signal_basis(rng):
    x, y = rng.randn(20, 50), rng.randn(15, 50)
    axes = np.linalg.svd(np.r_[x, y], full_matrices=False)[2]
    for rank in (12, 34, 35, 100):  # more than a third of what there is: exactly, whatever the form
        leading = axes[:rank].T @ axes[:rank]
        for signals in ([x, y], [sp.csr_matrix(x), sp.csr_matrix(y)], [np.r_[x, y]]):
            found = joint_signal_basis(signals, rank)
            assert found.shape == (50, min(rank, 35))
            assert np.abs(found @ found.T - leading).max() < 1e-10
    one = joint_signal_basis([x, y], 1)
    assert one.shape == (50, 1)
    assert np.array_equal(one, joint_signal_basis([x, y], 1))
    assert np.array_equal(one, joint_signal_basis([x, y], 1, random_state=0))
    assert not np.array_equal(one, joint_signal_basis([x, y], 1, random_state=1))
    with pytest.raises(ValueError, match=r"^signal_pca must be"):
        joint_signal_basis([x, y], 0)
    y[3, 4] = np.nan
    with pytest.raises(ValueError, match=r"^signals\[1\] contains 1 NaN"):
        joint_signal_basis([x, y])


def with_eigenvalues(h, values):
    return replace(h, eigenvalues=np.array(values), psi=h.psi[:, : len(values)])


def test_calibration_leaves_out_what_has_no_time_scale():
    h = basis(sample(60, 0), 10)
    one = with_eigenvalues(h, [1, 0.5, 0.25, -0.1])
    two = with_eigenvalues(h, [0.5**2, 0.25**2, 1e-12, 0])
    assert [a.exponent for a in calibrate([one, two])] == pytest.approx([2**0.5, 0.5**0.5])
    # Only as many eigenvalues as all have are compared.
    longer = with_eigenvalues(h, [1, 0.5, 0.25, -0.1, 1e-3])
    assert [a.exponent for a in calibrate([longer, two])] == pytest.approx([2**0.5, 0.5**0.5])
    nothing = with_eigenvalues(h, [1, 0, 0, 0])
    assert [a.exponent for a in calibrate([one, nothing, two])] == pytest.approx([2**0.5, 1, 0.5**0.5])
    assert [a.exponent for a in calibrate([nothing, nothing])] == [1, 1]
    assert calibrate([one, nothing])[0].frequencies == pytest.approx([1, 0.5, 0.25, 0])


def test_calibration_makes_mean_log_eigenvalues_agree():
    hs = calibrate([basis(sample(n, n), 10) for n in (60, 120, 240)])
    rates = [np.log(h.frequencies).mean() for h in hs]
    assert rates == pytest.approx([rates[0]] * 3)
    assert hs[0].exponent < hs[1].exponent < hs[2].exponent
    h = basis(sample(60, 0), 10)
    assert [a.exponent for a in calibrate([h, h])] == pytest.approx([1, 1])


def test_multi_alignment_of_two_is_the_pair():
    x, y, z = (sample(n, n) for n in (60, 70, 80))
    hs = [basis(r, 8) for r in (x, y, z)]
    pair = align(hs[0], hs[1], x, y)
    multi = multi_align(hs, [x, y, z])
    assert set(multi.pairs) == {(0, 1), (0, 2), (1, 2)}
    assert multi.rotation(0, 1) == pytest.approx(pair.rotation)
    assert multi.rotation(1, 0) == pytest.approx(pair.rotation.T)
    assert multi.rotation(2, 2) == pytest.approx(np.eye(8))
    part = MultiAlignment(multi.harmonics, {(0, 1): multi.pairs[0, 1]})
    with pytest.raises(ValueError, match="datasets 2 and 0 were not aligned with each other"):
        part.rotation(2, 0)


def test_bad_signals():
    x, y = sample(60, 0), sample(70, 1)
    hx, hy = basis(x, 5), basis(y, 5)
    with pytest.raises(
        ValueError, match=r"26 signals and y has 25; .*: select the shared ones, in the same order$"
    ):
        align(hx, hy, x, y[:, 1:])
    with pytest.raises(ValueError, match="69 rows"):
        align(hx, hy, x, y[1:])
    for weights in (np.ones(3), -np.ones(26), np.zeros(26), np.full(26, np.nan), ["a"] * 26):
        with pytest.raises(ValueError, match=r"^feature_weights (has shape|must be (finite|numbers))"):
            align(hx, hy, x, y, feature_weights=weights)
        with pytest.raises(ValueError, match=r"^feature_weights (has shape|must be (finite|numbers))"):
            multi_align([hx, hy], [x, y], feature_weights=weights)
    hole = y.copy()
    hole[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"^x contains 1 NaN"):
        align(hy, hy, hole, y)
    with pytest.raises(ValueError, match=r"^y contains 1 NaN"):
        align(hx, hy, x, hole)
    with pytest.raises(ValueError, match=r"^signals\[1\] contains 1 NaN"):
        multi_align([hx, hy], [x, hole])
    with pytest.raises(ValueError, match=r"\(25, 26\); they must correspond .*, in the same order$"):
        multi_align([hx, hy], [x, y[:, 1:]])
    with pytest.raises(ValueError, match="2 datasets"):
        multi_align([hx, hy], [x])
    with pytest.raises(ValueError, match=r"^harmonics is empty"):
        multi_align([], [])
