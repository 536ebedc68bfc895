"""What holds for every comparison method."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from harmonicalign.experiments import baselines

QUICK = {"magan": {"max_iter": 20, "generator_layers": (8,), "discriminator_layers": (8,)}}
NAMES = ["none", "mnn", "magan", "wang", "cca", "procrustes", "harmony", "scanorama"]


def build(name):
    lack = baselines.available()[name]
    if lack:
        pytest.skip(f"{name} {lack}")
    return baselines.get(name, **QUICK.get(name, {}))


@pytest.fixture
def two():
    rng = np.random.default_rng(1)
    return [rng.uniform(1, 3, size=(60, 12)), rng.uniform(1, 3, size=(60, 12))]


def test_the_registry_names_every_method():
    assert list(baselines.available()) == [
        "none",
        "mnn",
        "magan",
        "wang",
        "cca",
        "procrustes",
        "harmony",
        "scanorama",
        "scvi",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_one_embedding_per_dataset_with_the_same_columns(name, two):
    before = [x.copy() for x in two]
    method = build(name)
    z = method.fit_transform(two)
    assert method.name == name
    assert [len(rows) for rows in z] == [60, 60]
    assert z[0].shape[1] == z[1].shape[1]
    assert all(rows.dtype == np.float64 and np.isfinite(rows).all() for rows in z)
    assert all(np.array_equal(x, b) for x, b in zip(two, before, strict=True))  # input is left alone


@pytest.mark.parametrize("name", NAMES)
def test_the_same_twice(name, two):
    state = np.random.get_state()[1].copy()
    first, second = build(name).fit_transform(two), build(name).fit_transform(two)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.array_equal(np.random.get_state()[1], state)


@pytest.mark.parametrize("name", NAMES)
def test_sparse_equals_dense(name, two):
    method = build(name)
    dense = method.fit_transform(two)
    for a, b in zip(dense, method.fit_transform([sparse.csr_array(x) for x in two]), strict=True):
        # joint PCA uses another solver for sparse data: signs may differ, distances must not
        np.testing.assert_allclose(
            np.linalg.norm(a - a[0], axis=1), np.linalg.norm(b - b[0], axis=1), atol=1e-4
        )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda x, y: x, "list of matrices"),
        (lambda x, y: [x], "at least two"),
        (lambda x, y: [x, y[0]], r"datasets\[1\].*1 dimension"),
        (lambda x, y: [x, np.where(y > 2.9, np.nan, y)], r"datasets\[1\].*NaN"),
        (lambda x, y: [x[:0], y], r"datasets\[0\].*empty"),
        (lambda x, y: [x, np.full(y.shape, "a")], r"datasets\[1\].*numeric"),
    ],
)
def test_bad_datasets_are_named(name, bad, message, two):
    with pytest.raises(ValueError, match=message):
        build(name).fit_transform(bad(*two))


@pytest.mark.parametrize("name", ["none", "mnn", "magan", "harmony", "scanorama"])
def test_unequal_columns_are_refused_where_they_must_correspond(name, two):
    with pytest.raises(ValueError, match=r"same columns.*\[12, 9\]"):
        build(name).fit_transform([two[0], two[1][:, :9]])


@pytest.mark.parametrize("name", ["wang", "cca", "procrustes"])
def test_unequal_columns_are_fine_elsewhere(name, two):
    z = build(name).fit_transform([two[0], two[1][:, :9]])
    assert z[0].shape[1] == z[1].shape[1]


@pytest.mark.parametrize("name", ["none", "mnn", "harmony", "scanorama"])
def test_three_datasets(name, two):
    assert len(build(name).fit_transform([*two, two[0] + 1])) == 3


@pytest.mark.parametrize("name", ["magan", "wang", "cca", "procrustes"])
def test_methods_for_two_say_so(name, two):
    with pytest.raises(ValueError, match="exactly 2, found 3"):
        build(name).fit_transform([*two, two[0]])


def test_unknown_name_and_parameter():
    with pytest.raises(ValueError, match="'nmm' is no comparison method; choose one of none, mnn"):
        baselines.get("nmm")
    with pytest.raises(ValueError, match="no parameter kk; it has k, sigma"):
        baselines.get("mnn", kk=3)


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    for package in ("torch", "harmonypy"):
        monkeypatch.setitem(sys.modules, package, None)
    assert baselines.available()["magan"] == "needs torch: pip install torch"
    assert baselines.available()["mnn"] == ""
    with pytest.raises(ImportError, match="'harmony' needs harmonypy: pip install harmonypy"):
        baselines.get("harmony")


def test_optional_packages_are_not_imported_before_they_are_used():
    code = (
        "import sys; from harmonicalign.experiments import baselines as b; b.available(); b.get('magan'); "
        "print({'torch', 'harmonypy', 'scanorama'} & set(sys.modules))"
    )
    if baselines.available()["magan"]:
        code = code.replace("b.get('magan'); ", "")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_methods_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        baselines.get("mnn").k = 3


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("mnn", {"k": 0}),
        ("mnn", {"sigma": -1.0}),
        ("wang", {"mu": 0.0}),
        ("cca", {"n_pca": 0}),
        ("none", {"n_components": 0}),
    ],
)
def test_parameters_out_of_range(name, parameters):
    with pytest.raises(ValueError, match=f"{next(iter(parameters))}=.*must be positive"):
        baselines.get(name, **parameters)


def test_unaligned_is_the_data_or_its_joint_pca(two):
    z = baselines.get("none").fit_transform(two)
    np.testing.assert_array_equal(z[1], two[1])
    z = baselines.get("none", n_components=3).fit_transform(two)
    both = np.vstack(z)
    assert both.shape == (120, 3)
    np.testing.assert_allclose(both.mean(axis=0), 0, atol=1e-12)
    gram = both.T @ both
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)
