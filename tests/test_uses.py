"""Using an alignment: transfer, correction, denoising, imputation, added datasets, saved models."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import harmonicalign
from harmonicalign import HarmonicAlignment, ModelFileError
from harmonicalign.adapters.storage import read_alignment, write_alignment
from harmonicalign.datasets import load_digits_pair
from harmonicalign.inputs.rows import find_rows
from harmonicalign.method import DEFAULT
from harmonicalign.metrics import earth_movers_distance, knn_label_agreement


@pytest.fixture(scope="module")
def digits():
    return load_digits_pair(preserved=0.6, n_x=350, n_y=300, random_state=0)


@pytest.fixture(scope="module")
def model(digits):
    return HarmonicAlignment(random_state=0).fit({"a": digits.x, "b": digits.y})


@pytest.mark.parametrize("method", ["knn", "diffusion", "svm"])
def test_labels_are_carried_over(digits, model, method):
    found = model.transfer(digits.labels_x, source="a", target="b", method=method)
    assert np.mean(found.labels == digits.labels_y) > 0.85
    assert found.confidence.shape == (300,)
    right = found.labels == digits.labels_y
    assert found.confidence[right].mean() > found.confidence[~right].mean()


def test_values_are_carried_over(digits, model):
    found = model.transfer(digits.labels_x.astype(float), source="a", target="b")
    assert np.corrcoef(found.values.ravel(), digits.labels_y)[0, 1] > 0.8


def test_several_sources_and_doubtful_labels(digits):
    parts = {"a": digits.x[:200], "b": digits.x[200:], "c": digits.y}
    model = HarmonicAlignment(random_state=0).fit(parts)
    labels = {"a": digits.labels_x[:200].astype(str), "b": digits.labels_x[200:].astype(str)}
    found = model.transfer(labels, target="c", threshold=0.8)
    kept = found.labels != "unassigned"
    assert 0 < kept.mean() < 1
    assert np.mean(found.labels[kept] == digits.labels_y[kept].astype(str)) > 0.85
    with pytest.raises(ValueError, match="among the sources"):
        model.transfer(labels, target="a")
    with pytest.raises(ValueError, match="names 'z'"):
        model.transfer(labels, target="z")


def test_correction_brings_marginals_together(rng):
    x = rng.gamma(2.0, size=(300, 12)) * np.repeat(rng.uniform(1, 5, (3, 12)), 100, axis=0)
    batch = np.r_[x[::2], x[1::2] * 1.3 + 0.5]
    first, second = batch[:150], batch[150:]
    model = HarmonicAlignment(random_state=0).fit([first, second])
    corrected = model.correct(reference=0).values
    assert corrected[0] == pytest.approx(first)
    before = earth_movers_distance(first, second).mean()
    assert earth_movers_distance(first, corrected[1]).mean() < 0.5 * before


def test_denoising_smooths(digits, model):
    noisy = np.r_[digits.x, digits.y_clean] + 6 * np.random.RandomState(0).randn(650, 64)
    clean = np.r_[digits.x, digits.y_clean]
    smooth = model.denoise(noisy)
    assert np.abs(smooth.values - clean).mean() < np.abs(noisy - clean).mean()
    alone = model.denoise(noisy[:350], dataset="a", t=1)
    assert alone.t == 1
    assert alone.values.shape == (350, 64)


def test_denoising_asks_for_the_rows_of_the_model(digits, model):
    with pytest.raises(ValueError, match="values has 350 rows; expected the 650 rows of all datasets"):
        model.denoise(digits.x)
    with pytest.raises(ValueError, match="values has 350 rows; expected the 300 rows of dataset 'b'"):
        model.denoise(digits.x, dataset="b")


def test_values_are_smoothed_in_the_form_they_come_in(digits):
    halves = {"a": digits.x[:120], "b": digits.y[:100]}
    model = HarmonicAlignment(random_state=0).fit(halves)
    wanted = model.denoise(np.vstack(list(halves.values())), t=2).values
    by_key = model.denoise(dict(reversed(halves.items())), t=2)
    assert by_key.t == 2
    assert list(by_key.values) == ["a", "b"]
    np.testing.assert_array_equal(np.vstack(list(by_key.values.values())), wanted)
    np.testing.assert_array_equal(np.vstack(model.denoise(list(halves.values()), t=2).values), wanted)
    keyed = sp.dok_array(np.vstack(list(halves.values())))  # a mapping, but one matrix
    np.testing.assert_array_equal(model.denoise(keyed, t=2).values, wanted)
    by_default = model.denoise(t=2).values
    np.testing.assert_array_equal(by_default["b"], wanted[120:])
    np.testing.assert_array_equal(
        model.denoise(dataset="b", t=1).values, model.denoise(halves["b"], dataset="b", t=1).values
    )
    assert type(model.correct()).__name__ == "Corrected"
    assert model.correct(reference="b").reference == "b"

    order = np.random.RandomState(0).permutation(220)
    stacked = np.vstack(list(halves.values()))[order]
    together = HarmonicAlignment(random_state=0).fit(stacked, batch=np.repeat(["a", "b"], [120, 100])[order])
    # Rows of one matrix stay where they are, whatever the order of the datasets.
    np.testing.assert_allclose(
        together.denoise(stacked, t=2).values, together.denoise(t=2).values, atol=1e-12
    )
    own = together.denoise(t=2).values
    gap = np.abs(own - stacked).mean()
    assert gap < 0.8 * np.abs(own - np.roll(stacked, 1, axis=0)).mean()


def test_values_that_do_not_belong_to_the_rows(digits):
    model = HarmonicAlignment(random_state=0).fit({"a": digits.x[:120], "b": digits.y[:110]})
    with pytest.raises(ValueError, match=r"values has the datasets \['a'\]; the model has"):
        model.denoise({"a": digits.x[:120]})
    with pytest.raises(ValueError, match="values has 3 matrices but the model 2 datasets"):
        model.denoise([digits.x[:120]] * 3)
    with pytest.raises(ValueError, match="values of 'b' has 120 rows; expected the 110"):
        model.denoise([digits.x[:120]] * 2)
    with pytest.raises(ValueError, match="pass the same columns"):
        model.denoise([digits.x[:120], digits.y[:110, :5]])
    linked = HarmonicAlignment(random_state=0).fit(
        [digits.x[:120], digits.y[:110, :40]], links=np.eye(64)[:, :40]
    )
    with pytest.raises(ValueError, match="the datasets have different signals"):
        linked.denoise()


def test_results_are_shown_in_a_line(digits):
    model = HarmonicAlignment(random_state=0).fit({"a": digits.x[:120], "b": digits.y[:110]})
    width = model.embedding_[0].shape[1]
    assert repr(model.fitted_) == (
        f"FittedAlignment('refined', rows={{'a': 120, 'b': 110}}, coordinates={width})"
    )
    smooth = model.denoise(digits.x[:120], dataset="a", t=2)
    assert repr(smooth) == "Denoised(values=<120 × 64 float64>, t=2)"
    assert "<110 × 64 float64>" in repr(model.correct())
    for shown in (
        model.transfer(digits.labels_x[:120]),
        model.impute(digits.x[:120], source="a", target="b"),
        model.significance_,
        model.alignment_,
        model.harmonics_[0],
        model.harmonics_[0].graph,
        digits,
    ):
        assert len(repr(shown)) < 600
        assert "array(" not in repr(shown)


def test_imputation(digits, model):
    found = model.impute(digits.x, source="a", target="b")
    guess = np.corrcoef(found.values.ravel(), digits.y_clean.ravel())[0, 1]
    assert guess > 0.8
    assert found.correlation.shape == (64,)


def test_an_added_dataset_joins_without_moving_the_others(digits):
    model = HarmonicAlignment(random_state=0).fit([digits.x[:250], digits.y])
    before = [z.copy() for z in model.embedding_]
    new = model.add(digits.x[250:])
    assert all((a == b).all() for a, b in zip(before, model.embedding_[:2], strict=True))
    labels = np.r_[digits.labels_x[:250], digits.labels_y]
    assert knn_label_agreement(np.vstack(before), labels, new, digits.labels_x[250:]) > 0.85
    assert (model.transform(digits.x[250:], dataset=2) == new).all()
    assert [len(c) for c in model.confidence_] == [250, 300, 100]
    assert model.joint_.graph.n_rows == 650
    assert len(model.correct(reference=0).values) == 3
    with pytest.raises(ValueError, match="taken"):
        model.add(digits.x[250:], key=1)
    with pytest.raises(ValueError, match="signals has shape"):
        model.add(digits.x[250:, :5])
    paper = HarmonicAlignment(method="paper").fit([digits.x[:100], digits.y[:100]])
    with pytest.raises(AttributeError, match="refined"):
        paper.add(digits.x)


def test_an_added_dataset_has_the_settings_that_the_user_gave(digits):
    given = {"n_pca": 12, "n_neighbors": 7, "n_harmonics": 20}
    x, y, new = digits.x[:200], digits.y[:200], digits.x[200:]
    model = HarmonicAlignment(random_state=0, **given).fit([x, y])
    model.add(new)
    for name, value in given.items():
        assert getattr(model.settings_, name) == getattr(model, f"{name}_") == [value] * 3
    fitted = model.model_
    assert fitted.reductions[2].axes.shape == (64, 12)
    assert fitted.harmonics[2].k == 20
    assert fitted.harmonics[2].graph.n_neighbors == 7
    with (
        pytest.warns(UserWarning, match="n_neighbors is 7, but dataset 3 has only 5 rows beside each row"),
        pytest.raises(ValueError, match="n_harmonics is 20, but dataset 3 has 6 rows"),
    ):
        model.add(new[:6])
    assert len(model.keys_) == 3
    plain = HarmonicAlignment(random_state=0).fit([x, y])
    plain.add(new)
    assert plain.settings_.n_harmonics == [50, 50, 37]
    assert plain.settings_.n_pca == [50, 50, 50]


def test_the_joint_geometry_after_a_dataset_was_added_is_built_as_before(digits):
    """The same kernel, neighbours and harmonics, over the embedded rows of all datasets."""
    model = HarmonicAlignment(random_state=0).fit([digits.x[:200], digits.y[:200]])
    before = model.joint_
    model.add(digits.x[200:])
    after = model.joint_
    whole = HarmonicAlignment(random_state=0).fit([digits.x[:200], digits.y[:200], digits.x[200:]]).joint_
    assert after.graph.n_rows == 550
    for name in ("decay", "thresh", "anisotropy"):
        assert getattr(after.graph, name) == getattr(before.graph, name)
    assert after.graph.n_neighbors == whole.graph.n_neighbors
    assert after.harmonics.k == whole.harmonics.k
    assert type(after) is type(before)
    np.testing.assert_allclose(after.graph.rows, np.vstack(model.embedding_))
    labels = np.r_[digits.labels_x[:200], digits.labels_y[:200], digits.labels_x[200:]]
    graph = after.graph.transitions[400:, :400]
    votes = [np.bincount(labels[:400], np.asarray(row).ravel(), 10).argmax() for row in graph.toarray()]
    assert np.mean(votes == labels[400:]) > 0.8


def test_joint_coordinates_of_an_added_dataset_are_kept(tmp_path, digits):
    model = HarmonicAlignment(random_state=0).fit([digits.x[:200], digits.y[:200]])
    new = model.add(digits.x[200:])
    joint = model.fitted_.joint_coordinates()
    assert [len(z) for z in joint] == [200, 200, 150]
    np.testing.assert_array_equal(joint[2], new[:, -joint[2].shape[1] :])
    back = harmonicalign.load(model.save(tmp_path / "grown.npz"))
    np.testing.assert_array_equal(back.fitted_.joint_coordinates()[2], joint[2])
    assert back.settings_ == model.settings_
    np.testing.assert_array_equal(back.add(digits.y[200:]), model.add(digits.y[200:]))


def test_a_dataset_is_added_by_the_parameters_of_the_fit(digits):
    one, two = (HarmonicAlignment(n_pca=12, random_state=0).fit([digits.x[:200], digits.y]) for _ in range(2))
    two.set_params(n_pca=30, n_bands=3)
    np.testing.assert_array_equal(one.add(digits.x[200:]), two.add(digits.x[200:]))


def test_what_an_added_dataset_needs(digits):
    x, y = digits.x[:100], digits.y[:100]
    apart = HarmonicAlignment(random_state=0).fit([x, y], signals=[x[:, :40], y[:, :40]])
    with pytest.raises(ValueError, match="fitted with signals=…; give those of the new dataset too"):
        apart.add(digits.x[100:200])
    new = apart.add(digits.x[100:200], key="new", signals=digits.x[100:200, :40])
    assert (apart.embedding_[2] == new).all()
    assert apart.keys_ == [0, 1, "new"]
    linked = HarmonicAlignment(random_state=0).fit([x, y], links=np.eye(64))
    with pytest.raises(ValueError, match="correspond column by column; this model has links"):
        linked.add(digits.x[100:200])


def test_corrected_rows_of_a_stacked_sparse_matrix(digits):
    """They come back sparse and in the order in which they were given."""
    batch = np.tile(["a", "b"], 100)
    stacked = np.empty((200, 64))
    stacked[::2], stacked[1::2] = digits.x[:100], digits.y_clean[:100] + 1
    together = HarmonicAlignment(random_state=0).fit(sp.csr_matrix(stacked), batch=batch)
    parts = {key: sp.csr_matrix(stacked[batch == key]) for key in ("a", "b")}
    apart = HarmonicAlignment(random_state=0).fit(parts)
    found, expected = together.correct("a").values, apart.correct("a").values
    assert sp.issparse(found)
    for key in ("a", "b"):
        assert (found[batch == key] != expected[key]).nnz == 0


@pytest.mark.parametrize("method", ["refined", "paper"])
def test_a_saved_model_is_the_same_model(tmp_path, digits, method):
    model = HarmonicAlignment(method=method, random_state=0).fit({"a": digits.x, "b": digits.y[:250]})
    path = model.save(tmp_path / "model.npz")
    back = harmonicalign.load(path)
    assert back.get_params() == model.get_params()
    assert (back.transform(digits.y[250:], dataset="b") == model.transform(digits.y[250:], dataset="b")).all()
    for one, two in zip(back.embedding_, model.embedding_, strict=True):
        assert (one == two).all()
    if method == "refined":
        assert (back.feature_weights_ == model.feature_weights_).all()
        assert back.significance_.p == model.significance_.p
        assert (back.correct("a").values["b"] == model.correct("a").values["b"]).all()
        added = back.add(digits.y[250:], key="c")
        assert (harmonicalign.load(back.save(tmp_path / "grown.npz")).embedding_[2] == added).all()


def test_a_configuration_survives_saving_and_serves_what_is_added(tmp_path, digits):
    config = replace(DEFAULT, n_components=11, n_parents=1)
    model = HarmonicAlignment(config=config, random_state=0).fit([digits.x[:200], digits.y[:200]])
    assert model.settings_.n_pca == [11, 11]
    back = harmonicalign.load(model.save(tmp_path / "model.npz"))
    assert back.config == back.fitted_.parameters.config == config
    np.testing.assert_array_equal(back.add(digits.x[200:]), model.add(digits.x[200:]))
    assert back.settings_.n_pca == [11] * 3


def test_sparse_signals_survive_saving(tmp_path, digits):
    model = HarmonicAlignment(random_state=0).fit([sp.csr_matrix(digits.x), sp.csr_matrix(digits.y_clean)])
    back = harmonicalign.load(model.save(tmp_path / "model.npz"))
    one, two = model.correct().values, back.correct().values
    assert sp.issparse(one[1])
    assert (one[1] != two[1]).nnz == 0


def test_a_model_of_distances_and_of_a_generator(tmp_path, digits):
    """Distances cannot be tried out on loading; a generator has no meaning in another process."""
    distances = [np.linalg.norm(d[:, None] - d[None], axis=2) for d in (digits.x[:60], digits.y[:50])]
    seed = np.random.RandomState(3)
    model = HarmonicAlignment(method="paper", metric="distance", random_state=seed)
    model.fit(distances, signals=[digits.x[:60], digits.y[:50]])
    back = harmonicalign.load(model.save(tmp_path / "model.npz"))
    assert back.random_state is None
    assert model.random_state is seed
    for one, two in zip(back.embedding_, model.embedding_, strict=True):
        assert (one == two).all()


def fewer_rows(fitted):
    return replace(fitted, embedding=tuple(z[1:] for z in fitted.embedding))


def no_numbers(fitted):
    return replace(fitted, embedding=tuple(z * np.nan for z in fitted.embedding))


def nowhere(fitted):
    frames = tuple(f * np.nan for f in fitted.model.frames)
    return replace(fitted, model=replace(fitted.model, frames=frames))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (fewer_rows, "rows of its data and of its coordinates differ in number"),
        (no_numbers, "its coordinates are not finite numbers"),
        (nowhere, "its rows cannot be placed"),
    ],
)
def test_a_file_whose_parts_do_not_belong_together(tmp_path, digits, spoil, message):
    model = HarmonicAlignment(method="paper", frame="common").fit([digits.x[:60], digits.y[:50]])
    path = model.save(tmp_path / "model.npz")
    stored = read_alignment(path)
    write_alignment(path, replace(stored, fitted=spoil(stored.fitted)))
    with pytest.raises(ModelFileError, match=rf"does not hold a whole model \(ValueError: {message}\)"):
        harmonicalign.load(path)


def wide(rows):
    return np.full(len(rows), 40.0)


@pytest.mark.filterwarnings("ignore:there is one dataset:harmonicalign.AlignmentWarning")
def test_what_cannot_be_saved_or_loaded(tmp_path, digits):
    model = HarmonicAlignment(method="paper", bandwidth=wide).fit([digits.x[:50]])
    with pytest.raises(ValueError, match="function"):
        model.save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    with pytest.raises(ModelFileError, match=r"other\.npz"):
        harmonicalign.load(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError):
        harmonicalign.load(tmp_path / "absent.npz")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_kill_while_saving_leaves_the_earlier_file_whole(tmp_path, digits):
    path = HarmonicAlignment(random_state=0).fit([digits.x, digits.y]).save(tmp_path / "model.npz")
    expected = path.read_bytes()
    code = (
        f"import harmonicalign\nmodel = harmonicalign.load({str(path)!r})\nprint('ready', flush=True)\n"
        f"while True: model.save({str(path)!r})"
    )
    for delay in (0.0, 0.01, 0.03, 0.05):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert path.read_bytes() == expected
        harmonicalign.load(path)


def test_rows_are_found_exactly(rng):
    known = rng.randn(50, 4)
    known[3, 1] = 0.0
    rows = np.r_[known[[7, 3]], rng.randn(2, 4)]
    rows[1, 1] = -0.0
    assert find_rows(known, rows).tolist() == [7, 3, -1, -1]
    assert find_rows(sp.csr_matrix(known), rows).tolist() == [7, 3, -1, -1]
    assert find_rows(known, sp.csr_matrix(rows)).tolist() == [7, 3, -1, -1]
    assert find_rows(known, rows[:, :3]).tolist() == [-1] * 4
