import numpy as np
import pytest
from test_align import basis, sample

from harmonicalign import (
    Alignment,
    DisconnectedGraphWarning,
    MultiAlignment,
    align,
    common_frame,
    joint_geometry,
    multi_align,
    synchronize,
    unified_map,
)


def orthogonal(rng, k):
    return np.linalg.qr(rng.randn(k, k))[0]


def with_rotations(harmonics, rotations):
    pairs = {}
    for (i, j), rotation in rotations.items():
        hx, hy = harmonics[i], harmonics[j]
        pairs[i, j] = Alignment(
            (hx, hy), rotation, np.ones_like(rotation), rotation, np.ones(len(rotation)), hx.k
        )
    return MultiAlignment(tuple(harmonics), pairs)


def test_self_alignment_makes_the_halves_coincide():
    rows = sample(80, 0)
    h = basis(rows, 15)
    a, b = unified_map(align(h, h, rows, rows))
    assert a == pytest.approx(b, abs=1e-8)
    assert a[:, :15] == pytest.approx(h.diffusion_map(1))


def test_unified_map_blocks():
    x, y = sample(60, 0), sample(70, 1)
    hx, hy = basis(x, 8), basis(y, 6)
    a = align(hx, hy, x, y)
    ux, uy = unified_map(a, 1.7)
    t = a.rotation
    assert ux == pytest.approx(np.c_[hx.phi * hx.frequencies**1.7, hx.phi @ t * hy.frequencies**1.7])
    assert uy == pytest.approx(np.c_[hy.phi @ t.T * hx.frequencies**1.7, hy.phi * hy.frequencies**1.7])
    for multi, pair in zip(unified_map(multi_align([hx, hy], [x, y]), 1.7), (ux, uy), strict=True):
        assert multi == pytest.approx(pair)
    with pytest.raises(ValueError, match="t must be"):
        unified_map(a, -0.5)


def test_synchronisation_returns_consistent_rotations_exactly():
    rng = np.random.RandomState(0)
    hs = [basis(sample(40, i), 7) for i in range(5)]
    frames = [orthogonal(rng, 7) for _ in hs]
    rotations = {(i, j): frames[i] @ frames[j].T for i in range(5) for j in range(i + 1, 5)}
    found = synchronize(with_rotations(hs, rotations))
    assert found[0] == pytest.approx(np.eye(7), abs=1e-10)
    for (i, j), rotation in rotations.items():
        assert found[i] @ found[j].T == pytest.approx(rotation, abs=1e-10)
    # A chain of pairs is enough.
    chain = {pair: rotation for pair, rotation in rotations.items() if pair[1] == pair[0] + 1}
    found = synchronize(with_rotations(hs, chain))
    assert found[0] @ found[4].T == pytest.approx(rotations[0, 4], abs=1e-8)


def test_synchronisation_averages_noise_out():
    rng = np.random.RandomState(0)
    hs = [basis(sample(40, i), 5) for i in range(12)]
    frames = [orthogonal(rng, 5) for _ in hs]

    def noisy(i, j):
        u, _, vt = np.linalg.svd(frames[i] @ frames[j].T + 0.3 * rng.randn(5, 5))
        return u @ vt

    rotations = {(i, j): noisy(i, j) for i in range(12) for j in range(i + 1, 12)}
    found = synchronize(with_rotations(hs, rotations))
    truth = {(i, j): frames[i] @ frames[j].T for i, j in rotations}
    error = [np.linalg.norm(found[i] @ found[j].T - truth[i, j]) for i, j in rotations]
    assert np.mean(error) < 0.5 * np.mean([np.linalg.norm(rotations[p] - truth[p]) for p in rotations])


def test_common_frame_has_one_width_and_keeps_each_geometry():
    rows = [sample(n, n) for n in (50, 60, 70)]
    hs = [basis(r, k) for r, k in zip(rows, (9, 8, 10), strict=True)]
    maps = common_frame(multi_align(hs, rows), t=1.5)
    assert [m.shape for m in maps] == [(50, 8), (60, 8), (70, 8)]
    hs = [h.truncate(8) for h in hs]
    for h, m in zip(hs, common_frame(multi_align(hs, rows), t=1.5), strict=True):
        own = h.diffusion_map(1.5)
        assert m @ m.T == pytest.approx(own @ own.T, abs=1e-8)


def test_joint_geometry():
    rows = sample(120, 0)
    joint = joint_geometry([rows[:50], rows[50:]], n_harmonics=10)
    assert joint.harmonics.k == 10
    assert [len(part) for part in joint.split(joint.harmonics.phi)] == [50, 70]
    assert joint.graph.component_sizes.tolist() == [120]


def test_joint_graph_widens_until_datasets_meet():
    rng = np.random.RandomState(0)
    a = rng.randn(100, 2)
    b = rng.randn(100, 2) + [7, 0]
    joint = joint_geometry([a, b], n_neighbors=3, decay=20)
    assert joint.graph.n_neighbors > 3
    assert joint.graph.component_sizes[0] > 100


def test_datasets_that_never_meet_are_named():
    rng = np.random.RandomState(0)
    parts = [rng.randn(300, 2), rng.randn(300, 2), rng.randn(300, 2) + 1e6]
    with pytest.warns(DisconnectedGraphWarning, match=r"dataset\(s\) 2 share no component"):
        joint_geometry(parts, n_neighbors=3)
