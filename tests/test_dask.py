"""Distributed fits: equal to fits in memory, on any cluster, whatever happens to its workers."""

import gc
import os
import pickle
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign import AlignmentWarning, HarmonicAlignment
from harmonicalign.datasets import load_digits_pair
from harmonicalign.inputs.settings import resolve
from harmonicalign.metrics import knn_label_agreement

da = pytest.importorskip("dask.array", reason="needs harmonicalign[dask]")
distributed = pytest.importorskip("distributed", reason="needs harmonicalign[dask]")
zarr = pytest.importorskip("zarr", reason="needs harmonicalign[dask]")

from harmonicalign.adapters.distributed import (  # noqa: E402
    Description,
    choose_landmarks,
    fit_chunks,
    fit_landmarks,
    holds_dask,
    open_lazy,
    parse_lazy,
    write_embedding,
)
from harmonicalign.adapters.distributed import landmarks as landmarks_module  # noqa: E402

pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def pair():
    return load_digits_pair(preserved=0.35, n_x=320, n_y=300, random_state=0)


@pytest.fixture(scope="module")
def in_memory(pair):
    return HarmonicAlignment(random_state=0).fit([pair.x, pair.y])


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit="2GiB"
    ) as running:
        yield running


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as connected:
        connected.wait_for_workers(2, timeout=120)
        yield connected


def fit_here(datasets, signals):
    return HarmonicAlignment(random_state=0).fit(datasets, signals=signals).model_


def blocks(*matrices, rows=100):
    return [da.from_array(m, chunks=(rows, -1), asarray=not sp.issparse(m)) for m in matrices]


SAMPLE = {"landmarks": 200, "seed": 3}


@pytest.fixture(scope="module")
def whole(pair):
    return fit_landmarks(blocks(pair.x, pair.y), fit_local=fit_here, dtype=np.float64)


@pytest.fixture(scope="module")
def sampled(pair):
    return fit_landmarks(blocks(pair.x, pair.y), fit_local=fit_here, **SAMPLE)


def close(a, b):
    """Nearly equal but for a few rows: images of whole numbers have neighbours at equal distance."""
    return np.mean(np.abs(a - b).max(axis=1) < 1e-3) > 0.97


def values(result):
    return [array.compute() for array in result.embedding]


def accuracy(pair, embedding):
    return knn_label_agreement(embedding[0], pair.labels_x, embedding[1], pair.labels_y)


def paper_chunks(datasets, chunk_rows, seed=0, **options):
    settings = resolve(
        [(min(chunk_rows, d.shape[0]), d.shape[1]) for d in datasets],
        rules=None,
        n_neighbors="auto",
        n_pca="auto",
        n_harmonics="auto",
        n_bands="auto",
        t="auto",
        calibrate=True,
    )
    how = Description(settings, {"anisotropy": 1.0}, seed=seed)
    return fit_chunks(datasets, how=how, chunk_rows=chunk_rows, **options)


# ------------------------------------------------------------------------------------------ landmarks


def test_all_rows_as_landmarks_is_the_fit_in_memory(whole, in_memory):
    for ours, theirs in zip(values(whole), in_memory.embedding_, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_few_landmarks_place_all_rows_well(pair, in_memory, sampled):
    found = values(sampled)
    assert [len(z) for z in found] == [320, 300]
    assert found[0].dtype == np.float32
    assert accuracy(pair, found) >= accuracy(pair, in_memory.embedding_) - 0.05
    # Rows outside the sample alone: they have never been part of any fit.
    kept = choose_landmarks([320, 300], 200, 3)
    new = [np.setdiff1d(np.arange(len(z)), k) for z, k in zip(found, kept, strict=True)]
    labels = pair.labels_x[new[0]], pair.labels_y[new[1]]
    assert knn_label_agreement(found[0][new[0]], labels[0], found[1][new[1]], labels[1]) > 0.7


def test_the_sample_does_not_depend_on_blocks(pair, sampled):
    again = fit_landmarks(blocks(pair.x, pair.y, rows=1000), fit_local=fit_here, **SAMPLE)
    for a, b in zip(values(sampled), values(again), strict=True):
        assert close(a, b)


def test_one_matrix_with_batches_keeps_its_order(pair, in_memory, rng):
    codes = np.repeat([0, 1], [320, 300])
    order = rng.permutation(620)
    stacked = np.vstack([pair.x, pair.y])[order]
    result = fit_landmarks(blocks(stacked), batch=codes[order], fit_local=fit_here)
    (found,) = values(result)
    assert len(found) == 620
    parts = [found[codes[order] == i] for i in range(2)]
    labels = np.concatenate([pair.labels_x, pair.labels_y])[order]
    score = knn_label_agreement(parts[0], labels[codes[order] == 0], parts[1], labels[codes[order] == 1])
    assert score == pytest.approx(accuracy(pair, in_memory.embedding_), abs=0.03)


def test_signals_apart_and_sparse_blocks(pair):
    dense = fit_landmarks(
        blocks(pair.x[:, :40], pair.y[:, :40]),
        blocks(pair.x, pair.y, rows=90),
        fit_local=fit_here,
        landmarks=200,
    )
    sparse = fit_landmarks(
        blocks(sp.csr_matrix(pair.x[:, :40]), sp.csr_matrix(pair.y[:, :40])),
        blocks(sp.csr_matrix(pair.x), sp.csr_matrix(pair.y)),
        fit_local=fit_here,
        landmarks=200,
    )
    for a, b in zip(values(dense), values(sparse), strict=True):
        assert close(a, b)


def test_more_rows_are_placed_by_the_model(pair, sampled):
    found = sampled.place(1, *blocks(pair.y)).compute()
    assert close(found, sampled.fetch_model().place(1, pair.y, pair.y))
    rows, signals = sampled.fetch_sample()
    assert [r.shape[0] for r in rows] == [200, 200]
    np.testing.assert_array_equal(rows[0], signals[0])


def test_confidence_is_that_of_the_landmarks_nearby(whole, in_memory):
    for ours, theirs in zip(whole.confidence, in_memory.confidence_, strict=True):
        found = ours.compute()
        assert found.shape == theirs.shape
        assert ((found >= 0) & (found <= 1)).all()
        assert np.corrcoef(found, theirs)[0, 1] > 0.8


def test_known_rows_are_among_the_landmarks():
    must = [np.array([999_999, 5]), np.arange(50)]
    one, two = choose_landmarks([1_000_000, 80], 100, 0, must)
    assert len(one) == 100
    assert {5, 999_999} <= set(one.tolist())
    assert (np.diff(one) > 0).all()
    np.testing.assert_array_equal(two, np.arange(80))
    assert choose_landmarks([1000], 10, 0)[0].tolist() != choose_landmarks([1000], 10, 1)[0].tolist()


def test_warnings_of_the_fit_reach_the_caller(rng):
    noise = blocks(rng.randn(150, 30), rng.randn(150, 30))
    with pytest.warns(AlignmentWarning, match="no better than chance"):
        fit_landmarks(noise, fit_local=fit_here)


def test_only_small_values_come_to_the_client(pair, monkeypatch):
    received = []

    def recording(value, client):
        found = landmarks_module.evaluate.__wrapped__(value, client)
        received.append(len(pickle.dumps(found)))
        return found

    recording.__wrapped__ = landmarks_module.evaluate
    monkeypatch.setattr(landmarks_module, "evaluate", recording)
    fit_landmarks(blocks(pair.x, pair.y), fit_local=fit_here, landmarks=100)
    assert len(received) == 1
    assert received[0] < 1000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"datasets": lambda x, y: [x[:, 0], y]}, "rows by columns"),
        ({"datasets": lambda x, y: [x[x[:, 0] > -1], y]}, "compute_chunk_sizes"),
        ({"signals": lambda x, y: [x]}, "1 matrices for 2 datasets"),
        ({"signals": lambda x, y: [x, x]}, r"expected 300 rows"),
        ({"batch": lambda x, y: np.zeros(3)}, "one stacked matrix"),
        ({"landmarks": lambda x, y: 1}, "landmarks must be >= 3"),
        ({"landmarks": lambda x, y: "few"}, "landmarks must be a whole number"),
        ({"datasets": lambda x, y: [x.astype(str), y]}, r"datasets\[0\] has entries of type .* real numbers"),
        ({"datasets": lambda x, y: [x, y[:2]]}, r"has shape \(2, 64\); at least 3 rows and 1 column"),
        (
            {"datasets": lambda x, y: [x], "batch": lambda x, y: np.zeros(320)},
            "type float64; expected the num",
        ),
        (
            {"datasets": lambda x, y: [x], "batch": lambda x, y: np.r_[np.zeros(318, int), 1, 1]},
            r"batch gives fewer than 3 rows to dataset\(s\) 1",
        ),
    ],
)
def test_wrong_arguments_are_named(pair, change, message):
    x, y = blocks(pair.x, pair.y)
    options = {name: make(x, y) for name, make in change.items()}
    datasets = options.pop("datasets", [x, y])
    with pytest.raises(ValueError, match=message):
        fit_landmarks(datasets, options.pop("signals", None), fit_local=fit_here, **options)


def test_missing_values_are_found_where_they_are(pair):
    broken = pair.x.copy()
    broken[303, 7] = np.nan
    kept = [np.arange(100), np.arange(100)]
    result = fit_landmarks(blocks(broken, pair.y), fit_local=fit_here, landmarks=kept)
    with pytest.raises(ValueError, match="1 NaN"):
        result.embedding[0].compute()


# --------------------------------------------------------------------------------------------- chunks


def test_one_chunk_each_is_the_paper_in_memory(pair):
    model = HarmonicAlignment(method="paper", frame="common", calibrate=True, random_state=0)
    expected = model.fit([pair.x, pair.y]).embedding_
    found = values(paper_chunks(blocks(pair.x, pair.y), 1000, dtype=np.float64))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_chunks_of_sorted_rows_share_one_frame(pair):
    # Sorted by label, the blocks of a file look nothing like each other.
    order = [np.argsort(labels, kind="stable") for labels in (pair.labels_x, pair.labels_y)]
    datasets = blocks(pair.x[order[0]], pair.y[order[1]], rows=40)
    whole = values(paper_chunks(datasets, 1000))
    found = values(paper_chunks(datasets, 140))
    labels = pair.labels_x[order[0]], pair.labels_y[order[1]]
    score, reference = (knn_label_agreement(z[0], labels[0], z[1], labels[1]) for z in (found, whole))
    assert score >= reference - 0.08
    assert score > 0.6
    # Within one dataset, chunks must agree: neighbours across chunks have the same label.
    agreement = knn_label_agreement(found[0][::2], labels[0][::2], found[0][1::2], labels[0][1::2])
    assert agreement > 0.8


def test_wrong_signals_of_chunks_are_named(pair):
    x, y = blocks(pair.x, pair.y)
    with pytest.raises(ValueError, match="signals has 1 matrices for 2 datasets"):
        paper_chunks([x, y], 150, signals=[x])
    with pytest.raises(ValueError, match="signals have 9, 64 columns; they must correspond"):
        paper_chunks([x, y], 150, signals=[x, y[:, :9]])


def test_chunks_are_deterministic_and_place_new_rows(pair):
    datasets = blocks(pair.x, pair.y, rows=90)
    result = paper_chunks(datasets, 150, seed=5)
    first = values(result)
    np.testing.assert_array_equal(first[1], values(paper_chunks(datasets, 150, seed=5))[1])
    placed = result.place(1, datasets[1]).compute()
    assert knn_label_agreement(first[0], pair.labels_x, placed, pair.labels_y) > 0.5
    rows, _ = result.fetch_sample()
    assert all(100 <= r.shape[0] <= 160 for r in rows)


# --------------------------------------------------------------------------------------------- inputs


def test_inputs_come_back_in_their_form(pair):
    x, y = blocks(pair.x, pair.y)
    assert holds_dask([x, pair.y])
    assert holds_dask({"a": x})
    assert not holds_dask([pair.x, pair.y])
    named = parse_lazy({"a": x, "b": pair.y})
    assert named.keys == ["a", "b"]
    assert named.shapes == [(320, 64), (300, 64)]
    assert named.restore([1, 2]) == {"a": 1, "b": 2}
    labels = np.repeat(["v", "u"], [320, 300])
    mixed = parse_lazy(da.concatenate([x, y]), batch=labels)
    assert mixed.keys == ["u", "v"]
    assert mixed.shapes == [(300, 64), (320, 64)]
    parts = mixed.split([da.concatenate([x, y])])
    np.testing.assert_array_equal(parts[1].compute(), pair.x)
    assert parse_lazy(x).restore([7]) == 7
    apart = parse_lazy([x, y], signals=[pair.x[:, :9], sp.csr_matrix(pair.y[:, :9])])
    assert [s.chunks[0] for s in apart.signals] == [x.chunks[0], y.chunks[0]]
    np.testing.assert_array_equal(apart.signals[0].compute(), pair.x[:, :9])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": []}, "no dataset"),
        ({"batch": np.zeros(5)}, "one stacked matrix"),
        ({"signals": "first"}, "1 matrices for 2"),
        ({"signals": {}}, "form of X"),
        ({"signals": "narrow"}, "correspond"),
        ({"X": "stacked", "batch": np.zeros(5)}, r"batch has shape \(5,\) but X has 320 rows"),
    ],
)
def test_wrong_inputs_are_named(pair, change, message):
    x, y = blocks(pair.x, pair.y)
    stand_in = {"first": [x], "narrow": [x, y[:, :9]], "stacked": x}
    options = {k: stand_in.get(v, v) if isinstance(v, str) else v for k, v in change.items()}
    with pytest.raises(ValueError, match=message):
        parse_lazy(options.pop("X", [x, y]), **options)


def test_large_blocks_are_cut_and_wide_ones_joined():
    tall = da.zeros((50_000, 3), chunks=((0, 45_000, 5000), (2, 1)))
    (found,) = parse_lazy([tall]).matrices
    assert found.chunks == ((15_000, 15_000, 15_000, 5000), (3,))
    wide = da.zeros((30_000, 4000), chunks=(30_000, -1), dtype=np.float32)
    (found,) = parse_lazy([wide]).matrices
    assert max(found.chunks[0]) * 4000 * 4 <= 2**26


# ------------------------------------------------------------------------------------------ estimator


def test_the_estimator_takes_dask_arrays(pair, in_memory, tmp_path):
    x, y = blocks(pair.x, pair.y)
    model = HarmonicAlignment(random_state=0)
    found = model.fit_transform({"a": x, "b": y})
    assert "model_" not in vars(model)  # nothing was fetched
    np.testing.assert_allclose(found["a"].compute(), in_memory.embedding_[0], atol=1e-6)
    np.testing.assert_array_equal(model.feature_scores_, in_memory.feature_scores_)
    assert model.joint_.batch.shape == (620,)
    assert model.confidence_[1].shape == (300,)
    placed = model.transform(y, dataset="b")
    assert holds_dask(placed)
    assert close(placed.compute(), model.transform(pair.y, dataset="b"))

    with pytest.raises(ValueError, match="in_memory"):
        model.transfer(pair.labels_x, source="a", target="b")
    at_hand = model.in_memory()
    moved = at_hand.transfer(pair.labels_x, source="a", target="b")
    expected = in_memory.transfer(pair.labels_x, source=0, target=1)
    np.testing.assert_array_equal(moved.labels, expected.labels)
    again = HarmonicAlignment.load(at_hand.save(tmp_path / "model.npz"))
    np.testing.assert_allclose(again.transform(pair.y, dataset="b"), at_hand.embedding_[1])


@pytest.mark.filterwarnings("ignore:there is one dataset:harmonicalign.AlignmentWarning")
def test_the_estimator_with_batches_anchors_and_chunks(pair, in_memory, rng):
    x, y = blocks(pair.x, pair.y)
    order = rng.permutation(620)
    labels = np.repeat(["u", "v"], [320, 300])[order]
    stacked = HarmonicAlignment(random_state=0).fit_transform(
        da.concatenate([x, y])[order], batch=labels, landmark_rows=250
    )
    assert stacked.shape[0] == 620
    digits = np.concatenate([pair.labels_x, pair.labels_y])[order]
    z = stacked.compute()
    score = knn_label_agreement(
        z[labels == "u"], digits[labels == "u"], z[labels == "v"], digits[labels == "v"]
    )
    assert score > accuracy(pair, in_memory.embedding_) - 0.06

    # Rows of one dataset, known to match themselves: they must be among the landmarks.
    pairs = np.stack([np.arange(290, 320)] * 2, axis=1)
    anchored = HarmonicAlignment(random_state=0).fit([x, x], anchors=pairs, landmark_rows=100)
    assert next(iter(anchored.model_.pairs.values())).start == "anchors"
    rows, _ = anchored.fitted_.result.fetch_sample()
    assert {tuple(r) for r in pair.x[290:320].tolist()} <= {tuple(r) for r in rows[0].tolist()}

    chunked = HarmonicAlignment(method="paper", calibrate=True, random_state=0).fit([x, y], chunk_rows=160)
    assert accuracy(pair, [e.compute() for e in chunked.embedding_]) > 0.6
    with pytest.raises(ValueError, match="landmark_rows=100 is not used by a fit in chunks"):
        HarmonicAlignment(method="paper").fit([x, y], chunk_rows=160, landmark_rows=100)
    with pytest.raises(ValueError, match="signal_pca=3 is not used by a fit in chunks"):
        HarmonicAlignment(method="paper", signal_pca=3).fit([x, y], chunk_rows=160)
    with pytest.raises(ValueError, match="anchors serve method='refined'"):
        HarmonicAlignment(method="paper").fit([x, y], anchors=[[0, 0]])
    with pytest.raises(ValueError, match="but there is one"):
        HarmonicAlignment().fit(x, links=np.eye(64))
    with pytest.raises(ValueError, match="method='paper'"):
        HarmonicAlignment().fit([x, y], chunk_rows=160)
    with pytest.raises(ValueError, match="need dask arrays"):
        HarmonicAlignment().fit([pair.x, pair.y], chunk_rows=160)
    with pytest.raises(ValueError, match="metric"):
        HarmonicAlignment(metric="distance").fit([x, y])


def test_the_published_method_on_landmarks(pair, tmp_path):
    x, y = blocks(pair.x, pair.y)
    model = HarmonicAlignment(method="paper", frame="common", random_state=0).fit([x, y], landmark_rows=200)
    assert accuracy(pair, [e.compute() for e in model.embedding_]) > 0.5
    with pytest.raises(AttributeError, match="only a refined alignment has confidence_ after a distributed"):
        _ = model.confidence_
    assert model.joint_.batch.shape == (400,)  # over the landmarks
    with pytest.raises(ValueError, match=r"transform\(rows, dataset=…\)"):
        model.transform(x)
    at_hand = model.in_memory()
    assert at_hand.in_memory() is at_hand
    with pytest.raises(ValueError, match=r"rows are not at hand; use model\.in_memory\(\)"):
        model.report(tmp_path / "report.html")
    assert at_hand.report(tmp_path / "report.html").is_file()
    np.testing.assert_array_equal(at_hand.joint_.batch, model.joint_.batch)


def test_a_distributed_model_with_signals_or_links(pair):
    x, y = blocks(pair.x, pair.y)
    apart = HarmonicAlignment(random_state=0).fit([x, y], signals=[x[:, :40], y[:, :40]], landmark_rows=100)
    with pytest.raises(ValueError, match="fitted with signals=…; pass signals of the new rows too"):
        apart.transform(x, dataset=0)
    here = apart.transform(pair.x[:5], dataset=0, signals=pair.x[:5, :40])
    there = apart.transform(x[:5], dataset=0, signals=x[:5, :40])
    np.testing.assert_allclose(here, there.compute(), atol=1e-5)
    linked = HarmonicAlignment(random_state=0).fit([x, y], links=np.eye(64), landmark_rows=100)
    with pytest.raises(ValueError, match=r"in_memory needs signals that correspond .* this model has links"):
        linked.in_memory()


def test_signals_of_new_rows_are_refused_where_a_distributed_model_does_not_use_them(pair):
    x, y = blocks(pair.x, pair.y)
    signals = [x[:, :40], y[:, :40]]
    model = HarmonicAlignment(method="paper", random_state=0).fit([x, y], signals=signals, landmark_rows=100)
    here = model.transform(pair.x[:5], dataset=0)
    np.testing.assert_allclose(here, model.transform(x[:5], dataset=0).compute(), atol=1e-5)
    with pytest.raises(ValueError, match="signals are not used where method='paper' places rows"):
        model.transform(x[:5], dataset=0, signals=x[:5, :40])


def test_labels_of_batches_are_checked_as_they_are_in_memory(pair):
    (x,) = blocks(np.vstack([pair.x, pair.y]))
    for labels, message in (
        (["a"] * 619 + [np.nan], "batch contains NaN: 1 of 620"),
        ([1] * 319 + ["1"] * 301, "batch mixes labels"),
        (["a"] * 3, r"batch has shape \(3,\) but X has 620 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_lazy(x, labels)


def test_before_the_fit_there_is_no_model():
    assert not hasattr(HarmonicAlignment(), "model_")
    with pytest.raises(AttributeError, match="not fitted yet"):
        _ = HarmonicAlignment().model_


def test_chunks_may_keep_their_own_diffusion_times(pair):
    x, y = blocks(pair.x, pair.y)
    plain, tuned = (
        HarmonicAlignment(method="paper", calibrate=calibrate, random_state=0).fit([x, y], chunk_rows=160)
        for calibrate in (False, True)
    )
    exponents = [{h.exponent for h in model.harmonics_} for model in (plain, tuned)]
    assert exponents[0] == {1}
    assert exponents[1] != {1}
    assert accuracy(pair, [e.compute() for e in plain.embedding_]) > 0.5


# -------------------------------------------------------------------------------------------- cluster


def test_a_cluster_gives_the_same_result(pair, cluster, sampled):
    here = values(sampled)
    result = fit_landmarks(
        blocks(pair.x, pair.y), fit_local=fit_here, **SAMPLE, client=cluster.scheduler_address
    )
    try:
        embedding = result.embedding
        for a, b in zip(here, values(result), strict=True):
            assert close(a, b)
        # The arrays alone keep on the cluster what they need.
        client = result.client
        del result
        gc.collect()
        assert embedding[0][:50].compute().shape == (50, embedding[0].shape[1])
    finally:
        client.close()


def stop_here(marker):
    """The first to come here tells its process number and waits to be killed."""
    marker = Path(marker)
    try:
        handle = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return
    with os.fdopen(handle, "w") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(60)


def killer(marker, victims):
    """A thread that kills processes once the file is there that tells which one has stopped."""
    killed = []

    def run():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            text = marker.read_text() if marker.exists() else ""
            if text.endswith("\n"):
                killed.extend({int(text), *victims()})
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.05)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, killed


def fit_and_stop(datasets, signals, marker):
    stop_here(marker)
    return fit_here(datasets, signals)


def pass_and_stop(block, marker, block_id=None):
    if block_id[0] == 2:
        stop_here(marker)
    return block


@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signals")
def test_lost_workers_change_nothing(pair, client, tmp_path):
    datasets = blocks(pair.x, pair.y)
    undisturbed = fit_landmarks(datasets, fit_local=fit_here, **SAMPLE, client=client)
    expected = [undisturbed.place(i, d).compute() for i, d in enumerate(datasets)]
    everything = values(undisturbed)

    # One worker is lost in the middle of the fit.
    marker = tmp_path / "fitting"
    thread, killed = killer(marker, list)
    fit_local = partial(fit_and_stop, marker=str(marker))
    result = fit_landmarks(datasets, fit_local=fit_local, **SAMPLE, client=client)
    thread.join()
    assert len(killed) == 1
    client.wait_for_workers(2, timeout=120)
    processes = client.run(os.getpid)
    assert killed[0] not in processes.values()

    # Every worker that holds the model is lost in the middle of the placing.
    def holders():
        held = client.who_has(distributed.futures_of(result.placer))
        return [processes[address] for workers in held.values() for address in workers]

    marker = tmp_path / "placing"
    thread, killed = killer(marker, holders)
    disturbed = [
        d.map_blocks(pass_and_stop, marker=str(marker), dtype=d.dtype, meta=d._meta) for d in datasets
    ]
    found = [result.place(i, d).compute() for i, d in enumerate(disturbed)]
    thread.join()
    assert killed
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(values(result), everything, strict=True):
        np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------------------------------------- files


@pytest.fixture
def anndata():
    return pytest.importorskip("anndata", reason="needs harmonicalign[scverse]")


def written(anndata, matrix, path):
    adata = anndata.AnnData(matrix)
    adata.layers["counts"] = sp.csr_matrix(matrix)
    adata.layers["columns"] = sp.csc_matrix(matrix)
    adata.obsm["X_pca"] = matrix[:, :5].copy()
    adata.write_h5ad(path) if path.suffix == ".h5ad" else adata.write_zarr(path)
    return path


@pytest.mark.parametrize("name", ["a.h5ad", "a.zarr"])
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_anndata_is_read_and_written_in_blocks(name, pair, anndata, tmp_path):
    path = written(anndata, pair.x, tmp_path / name)
    for key, expected in (("X", pair.x), ("layers/counts", pair.x), ("obsm/X_pca", pair.x[:, :5])):
        lazy = open_lazy(path, key, chunk_rows=100)
        assert lazy.numblocks == (4, 1)
        found = (
            lazy.compute(scheduler="sync")
            if key != "layers/counts"
            else sp.vstack([b.compute(scheduler="sync") for b in lazy.to_delayed().ravel()])
        )
        assert sp.issparse(found) == (key == "layers/counts")
        np.testing.assert_array_equal(found.toarray() if sp.issparse(found) else found, expected)
    with pytest.raises(ValueError, match="convert it to CSR"):
        open_lazy(path, "layers/columns")
    with pytest.raises(KeyError, match="no 'nothing'"):
        open_lazy(path, "nothing")

    other = written(anndata, pair.y, tmp_path / f"b-{name}")
    datasets = [open_lazy(p, "layers/counts", chunk_rows=130) for p in (path, other)]
    result = fit_landmarks(datasets, fit_local=fit_here, landmarks=150)
    write_embedding(result, [path, other])
    write_embedding(result, [path, other], in_place=True)  # again, over what is there
    read = anndata.read_h5ad if name.endswith("h5ad") else anndata.read_zarr
    for p, embedding, matrix in zip((path, other), values(result), (pair.x, pair.y), strict=True):
        adata = read(p)
        np.testing.assert_array_equal(adata.obsm["X_harmonic"], embedding)
        np.testing.assert_array_equal(adata.X, matrix)
        assert set(adata.obsm) == {"X_harmonic", "X_pca"}
    leftovers = [p.name for p in tmp_path.rglob(".*") if p.name.endswith(".tmp") or "X_harmonic" in p.name]
    assert leftovers == []


def fail_late(block, block_id=None):
    if block_id == (3, 0):
        raise RuntimeError("the power went")
    return block


@pytest.mark.parametrize("name", ["a.h5ad", "a.zarr"])
def test_an_interrupted_write_leaves_what_was_there(name, tmp_path):
    pytest.importorskip("h5py")
    path = tmp_path / name
    good = da.ones((400, 3), chunks=(100, 3), dtype=np.float32)
    write_embedding(good, path)
    bad = (2 * good).map_blocks(fail_late, dtype=np.float32, meta=np.empty((0, 0), np.float32))
    with pytest.raises(RuntimeError, match="the power went"):
        write_embedding(bad, path)
    np.testing.assert_array_equal(open_lazy(path, "obsm/X_harmonic").compute(), np.ones((400, 3)))
    with pytest.raises(ValueError, match="2 file"):
        write_embedding(good, [path, tmp_path / "b.zarr"])


def test_what_cannot_be_read_or_written_in_blocks(tmp_path):
    root = zarr.open_group(tmp_path / "d.zarr", mode="w")
    root["totals"] = np.arange(5.0)
    with pytest.raises(ValueError, match=r"'totals' of .* has 1 dimension\(s\); expected rows by columns"):
        open_lazy(tmp_path / "d.zarr", "totals")
    array = da.from_array(np.arange(12.0).reshape(6, 2), chunks=(4, 2))
    with pytest.raises(ValueError, match="path names the same file twice"):
        write_embedding([array, array], [tmp_path / "e.zarr", tmp_path / "." / "e.zarr"])
    assert not (tmp_path / "e.zarr").exists()
    zarr.save_array(tmp_path / "bare.zarr", np.arange(12.0).reshape(6, 2))
    np.testing.assert_array_equal(open_lazy(tmp_path / "bare.zarr", "").compute(), array.compute())


def test_unequal_blocks_become_a_regular_store(tmp_path):
    array = da.from_array(np.arange(60.0).reshape(30, 2), chunks=((7, 12, 11), 2))
    write_embedding(array, tmp_path / "z.zarr", "deep/inside/Z")
    np.testing.assert_array_equal(open_lazy(tmp_path / "z.zarr", "deep/inside/Z").compute(), array.compute())
    with pytest.raises(FileNotFoundError, match="no Zarr store"):
        open_lazy(tmp_path / "missing.zarr")


def test_workers_read_and_write_files_themselves(pair, client, tmp_path):
    for name, matrix in (("x", pair.x), ("y", pair.y)):
        write_embedding(*blocks(matrix.astype(np.float32)), tmp_path / f"{name}.zarr", "X", client=client)
    datasets = [open_lazy(tmp_path / f"{name}.zarr", chunk_rows=150) for name in "xy"]
    result = paper_chunks(datasets, 200, client=client)
    write_embedding(result, [tmp_path / "x.zarr", tmp_path / "y.zarr"])
    found = [open_lazy(tmp_path / f"{name}.zarr", "obsm/X_harmonic").compute() for name in "xy"]
    for a, b in zip(found, values(result), strict=True):
        np.testing.assert_array_equal(a, b)


def test_data_frames_on_a_cluster_are_matched_by_name(pair, client):
    pd = pytest.importorskip("pandas")
    names = [f"pixel{i}" for i in range(64)]
    x, y = (pd.DataFrame(rows, columns=names) for rows in (pair.x, pair.y))
    turned = names[::-1]
    with pytest.raises(
        ValueError, match=r"different names or another order; select the same columns of each"
    ):
        HarmonicAlignment(random_state=0).fit([x, y[turned]], client=client)
    model = HarmonicAlignment(random_state=0).fit([x, y], client=client, landmark_rows=100)
    expected = model.transform(pair.y[:20], dataset=1)
    np.testing.assert_allclose(model.transform(y[turned][:20], dataset=1), expected, atol=1e-8)
    at_hand = model.in_memory()
    expected = at_hand.transform(pair.y[:20], dataset=1)
    np.testing.assert_allclose(at_hand.transform(y[turned][:20], dataset=1), expected, atol=1e-8)
    with pytest.raises(ValueError, match=r"X lacks the column\(s\) pixel3"):
        model.transform(y.drop(columns="pixel3"), dataset=1)
