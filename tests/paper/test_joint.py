import numpy as np
import pytest
from samples import basis, sample

from harmonicalign import (
    Alignment,
    DisconnectedGraphWarning,
    MultiAlignment,
    align,
    common_frame,
    harmonics,
    joint_geometry,
    kernel_graph,
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
    assert unified_map(a, 0)[0] == pytest.approx(np.c_[hx.phi, hx.phi @ t])
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


def test_synchronisation_of_many_datasets():
    # More than are solved by a full decomposition, each aligned with some others only.
    rng = np.random.RandomState(0)
    n, k = 400, 4
    h = basis(sample(20, 0), k)
    frames = [orthogonal(rng, k) for _ in range(n)]
    pairs = sorted({(min(p), max(p)) for p in rng.randint(n, size=(4000, 2)) if p[0] != p[1]})
    noise = {pair: np.linalg.qr(np.eye(k) + 0.2 * rng.randn(k, k))[0] for pair in pairs}
    noise = {pair: q * np.sign(np.diag(q)) for pair, q in noise.items()}
    alignment = with_rotations([h] * n, {(i, j): frames[i] @ noise[i, j] @ frames[j].T for i, j in pairs})
    found = synchronize(alignment)
    assert found[0] == pytest.approx(np.eye(k), abs=1e-9)
    blocks = np.eye(n * k)
    for (i, j), pair in alignment.pairs.items():
        blocks[k * i : k * i + k, k * j : k * j + k] = pair.rotation
        blocks[k * j : k * j + k, k * i : k * i + k] = pair.rotation.T
    leading = np.linalg.eigh(blocks)[1][:, -k:].reshape(n, k, k)
    u, _, vt = np.linalg.svd(leading)
    expected = u @ vt
    for i in range(n):
        assert np.abs(found[i] - expected[i] @ expected[0].T).max() < 1e-8
    for once, again in zip(found, synchronize(alignment), strict=True):
        assert np.array_equal(once, again)


def test_common_frame_takes_given_frames():
    hs = [basis(sample(40, i), 4) for i in range(2)]
    rng = np.random.RandomState(0)
    frames = [orthogonal(rng, 4), orthogonal(rng, 4)]
    alignment = with_rotations(hs, {(0, 1): np.eye(4)})
    for h, frame, m in zip(hs, frames, common_frame(alignment, frames=frames), strict=True):
        assert m == pytest.approx(h.phi * h.frequencies @ frame)


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
    assert joint_geometry([rows[:50], rows[50:]], n_harmonics=1).harmonics.k == 1
    for bad in (0, 1.5):
        with pytest.raises(ValueError, match=r"^n_harmonics must be"):
            joint_geometry([rows[:50], rows[50:]], n_harmonics=bad)


def test_joint_geometry_is_a_graph_over_all_rows():
    rows = sample(900, 0)
    graph = kernel_graph(rows, n_neighbors=15, decay=2, thresh=1e-4, anisotropy=1, max_neighbors=3 * 15)
    joint = joint_geometry([rows[:300], rows[300:]])
    assert (joint.graph.kernel != graph.kernel).nnz == 0
    assert joint.batch.tolist() == [0] * 300 + [1] * 600
    expected = harmonics(graph, 50)
    assert np.array_equal(joint.harmonics.psi, expected.psi)
    assert np.array_equal(joint.harmonics.psi, harmonics(graph, 50, random_state=0).psi)
    other = joint_geometry([rows[:300], rows[300:]], random_state=1).harmonics.psi
    assert not np.array_equal(other, expected.psi)
    assert np.array_equal(other, harmonics(graph, 50, random_state=1).psi)
    options = {"decay": 4.0, "thresh": 1e-2, "anisotropy": 0.3}
    own = joint_geometry([rows[:300], rows[300:]], n_neighbors=8, n_harmonics=3, **options).graph
    graph = kernel_graph(rows, n_neighbors=8, max_neighbors=30, **options)
    assert (own.kernel != graph.kernel).nnz == 0


def test_joint_geometry_of_few_rows():
    rows = sample(8, 0)
    joint = joint_geometry([rows[:3], rows[3:]])
    assert (joint.graph.n_neighbors, joint.graph.max_neighbors, joint.harmonics.k) == (7, 7, 7)
    rows = sample(20, 0)
    joint = joint_geometry([rows[:10], rows[10:]], n_neighbors=5)
    assert (joint.graph.n_neighbors, joint.graph.max_neighbors, joint.harmonics.k) == (5, 19, 19)


def test_joint_graph_widens_until_datasets_meet():
    rng = np.random.RandomState(0)
    a = rng.randn(100, 2)
    b = rng.randn(100, 2) + [7, 0]
    rows = np.r_[a, b]

    def meets(n_neighbors):
        most = max(3 * n_neighbors, 30)
        labels = kernel_graph(rows, n_neighbors=n_neighbors, decay=20, max_neighbors=most).components
        return bool(set(labels[:100]) & set(labels[100:]))

    joint = joint_geometry([a, b], n_neighbors=3, decay=20)
    assert joint.graph.n_neighbors == next(k for k in (3, 6, 12, 24, 48) if meets(k)) > 6
    assert joint.graph.component_sizes[0] > 100


def test_datasets_that_never_meet_are_named():
    rng = np.random.RandomState(0)
    parts = [rng.randn(300, 2), rng.randn(300, 2), rng.randn(300, 2) + 1e6]
    with pytest.warns(DisconnectedGraphWarning, match=r"dataset\(s\) 2 share no component") as seen:
        joint = joint_geometry(parts, n_neighbors=3)
    assert joint.graph.n_neighbors == 48
    assert any("even with 48 neighbours" in str(warning.message) for warning in seen)
    parts[1] += 1e9
    with pytest.warns(DisconnectedGraphWarning, match=r"dataset\(s\) 0, 1, 2 share no component"):
        joint_geometry(parts, n_neighbors=3)


def test_a_single_dataset_has_nobody_to_meet():
    rows = np.random.RandomState(0).randn(60, 2)
    rows[30:] += 1e6
    joint = joint_geometry([rows], n_neighbors=3, n_harmonics=4)
    assert joint.graph.component_sizes.tolist() == [30, 30]
    assert joint.graph.n_neighbors == 3


def test_joint_geometry_by_torch():
    torch = pytest.importorskip("torch")
    from harmonicalign.engines.torch_joint import JointGraph

    rows = sample(300, 0)
    options = {"n_neighbors": 9, "decay": 4.0, "thresh": 1e-3, "anisotropy": 0.5, "n_harmonics": 6}
    expected = joint_geometry([rows[:100], rows[100:]], **options)
    parts = [torch.from_numpy(part.astype(np.float32)) for part in (rows[:100], rows[100:])]
    found = joint_geometry(parts, device="torch", **options)
    assert found.batch.tolist() == expected.batch.tolist()
    assert found.graph.components.tolist() == expected.graph.components.tolist()
    for name in ("n_neighbors", "max_neighbors", "decay", "thresh", "anisotropy", "recall"):
        assert getattr(found.graph, name) == getattr(expected.graph, name)
    for name in ("rows", "degrees", "density", "bandwidth"):
        assert getattr(found.graph, name) == pytest.approx(getattr(expected.graph, name), rel=1e-3, abs=1e-5)
    assert abs(found.graph.kernel - expected.graph.kernel).max() < 1e-4 * expected.graph.kernel.max()
    assert found.harmonics.eigenvalues == pytest.approx(expected.harmonics.eigenvalues, abs=1e-4)
    assert found.harmonics.degrees is found.graph.degrees
    assert found.harmonics.graph is found.graph
    cosines = np.abs((found.harmonics.psi[:, :3] * expected.harmonics.psi[:, :3]).sum(axis=0))
    assert cosines == pytest.approx(np.ones(3), abs=1e-3)
    assert found.harmonics.psi.dtype == np.float32
    # The solver for many rows starts from random vectors.
    own = {name: getattr(found.graph, name) for name in ("n_neighbors", "max_neighbors", "decay", "thresh")}
    rows = torch.cat(parts)

    def filtered(seed):
        return JointGraph(rows, seed=seed, anisotropy=0.5, **own).harmonics(6, 1e-5, dense_below=100)

    (values, one), (_, two), (_, other) = (filtered(seed) for seed in (0, 0, 1))
    assert values == pytest.approx(expected.harmonics.eigenvalues, abs=1e-4)
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)
