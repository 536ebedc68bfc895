"""Damaged and hostile files: read, or refused in our own words; nothing in them is ever run."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import harmonicalign as ha

pytest.importorskip("anndata")
pytest.importorskip("mudata")
pytest.importorskip("zarr")
pytest.importorskip("pyarrow")
pytest.importorskip("flowio")

FUZZ = Path(__file__).parents[1] / "fuzz"

few = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages that read damaged files


@pytest.fixture(scope="module", autouse=True)
def _paths():
    sys.path.insert(0, str(FUZZ))
    yield
    sys.path.remove(str(FUZZ))


def outcome_of(name, number, module="files"):
    from importlib import import_module

    from verdict import judge

    case = getattr(import_module(module), name)
    outcome, detail = judge(lambda: case(np.random.default_rng([2, number])))
    assert outcome != "violation", detail


@few
@given(st.integers(0, 2**31))
def test_files_of_data_end_well(number):
    outcome_of("data_file_case", number)


@few
@given(st.integers(0, 2**31))
def test_files_of_models_end_well(number):
    outcome_of("model_file_case", number)


@settings(few, max_examples=25)
@given(st.integers(0, 2**31))
def test_files_that_are_meant_to_harm_end_well(number):
    outcome_of("hostile_file_case", number, "hostile")


@settings(few, max_examples=5)
@given(st.integers(0, 2**31))
def test_graphs_in_many_pieces_end_well(number):
    outcome_of("components_case", number, "hostile")


@settings(few, max_examples=10)
@given(st.integers(0, 2**31))
def test_anndata_ends_well(number):
    outcome_of("anndata_case", number)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    rng = np.random.RandomState(0)
    rows = np.tanh(rng.randn(50, 3) @ rng.randn(3, 8))
    model = ha.HarmonicAlignment(random_state=0).fit([rows[:25], rows[25:]])
    with np.load(model.save(tmp_path_factory.mktemp("model") / "m.npz")) as file:
        return dict(file)


def changed(stored, path, change):
    """A model file with another header."""
    header = json.loads(bytes(stored["header"]).decode())
    change({key[0] if isinstance(key, list) else key: value for key, value in header["tree"]["dict"]}, header)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with path.open("wb") as file:
        np.savez(file, **{**stored, "header": text})
    return path


def fields(tree, *path):
    """Fields of the fitted alignment, or of a part of it."""
    node = tree["fitted"]["fields"]
    for name in path:
        node = node[name]["fields"]
    return node


@pytest.mark.parametrize(
    "change",
    [
        lambda tree, header: header["tree"]["dict"].pop(2),
        lambda tree, header: header["tree"]["dict"].__setitem__(0, ["params", 3]),
        lambda tree, header: header["tree"]["dict"].append(["transform", "replaced"]),
        lambda tree, header: tree["params"]["dict"].append(["nonsense", 1]),
        lambda tree, header: tree["features"]["dict"].append(["transform", "replaced"]),
        lambda tree, header: fields(tree).update(transform="replaced"),
        lambda tree, header: fields(tree).pop("model"),
        lambda tree, header: fields(tree).update(model=5),
        lambda tree, header: fields(tree).update(model=fields(tree)["inputs"]),
        lambda tree, header: fields(tree).update(embedding=5),
        lambda tree, header: fields(tree).update(seed="seed"),
        lambda tree, header: fields(tree).update(settings=None),
        lambda tree, header: fields(tree).update(parameters=None),
        lambda tree, header: fields(tree).update(inputs=None),
        lambda tree, header: header["tree"].update(dict=[["fitted", 3], *header["tree"]["dict"][:2]]),
        lambda tree, header: fields(tree, "inputs")["datasets"]["list"].pop(),
        lambda tree, header: fields(tree, "inputs").update(signals=fields(tree, "inputs")["rows"]),
    ],
)
def test_models_whose_parts_do_not_fit(tmp_path, stored, change):
    with pytest.raises(ha.ModelFileError, match=r"does not hold a whole model|is damaged or not"):
        ha.load(changed(stored, tmp_path / "m.npz", change))


def test_models_with_arrays_of_another_shape(tmp_path, stored):
    for name, array in stored.items():
        if name.endswith(".displacement") or (name.endswith(".matrix") and "space" in name):
            with (tmp_path / "m.npz").open("wb") as file:
                np.savez(file, **{**stored, name: array[:1]})
            with pytest.raises(ha.ModelFileError):
                ha.load(tmp_path / "m.npz")


def test_an_untouched_model_loads(tmp_path, stored):
    model = ha.load(changed(stored, tmp_path / "m.npz", lambda tree, header: None))
    assert len(model.embedding_) == 2


@pytest.mark.parametrize(
    ("script", "said"), [("while True: pass", "gets lost"), ("import os; os.abort()", "crashes")]
)
def test_damage_that_the_hdf5_library_does_not_survive(tmp_path, monkeypatch, script, said):
    import anndata

    from harmonicalign.adapters import io
    from harmonicalign.adapters.io import _scverse

    path = io.write(anndata.AnnData(np.eye(4)), tmp_path / "d.h5ad")
    other = tmp_path / "other.py"
    other.write_text(script)
    monkeypatch.setattr(_scverse, "_SURVEY", str(other))
    monkeypatch.setattr(_scverse, "_PATIENCE", 1)
    with pytest.raises(io.DataFileError, match=f"is damaged: the HDF5 library {said}"):
        io.read(path)


def test_without_an_interpreter_files_are_read_all_the_same(tmp_path, monkeypatch):
    import anndata

    from harmonicalign.adapters import io

    path = io.write(anndata.AnnData(np.eye(4)), tmp_path / "d.h5ad")
    monkeypatch.setattr(sys, "executable", "")
    assert io.read(path).n_obs == 4
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert io.read(path).n_obs == 4
