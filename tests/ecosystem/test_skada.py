"""The SKADA-Bench solver: its adapter in a pipeline of skada, as the benchmark assembles it."""

import contextlib
import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from harmonicalign.datasets import load_digits_pair

FILE = Path(__file__).parents[2] / "ecosystem" / "skada" / "HARMONIC_ALIGNMENT.py"
if not FILE.is_file():
    pytest.skip("the solver is in the repository only", allow_module_level=True)
skada = pytest.importorskip("skada", reason="the extra 'adaptation' is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # skada's own, which change with its versions


@pytest.fixture(scope="module")
def solver():
    """The solver's file, with what it needs of the benchmark: a base class and a final estimator."""

    class FinalEstimator(LogisticRegression):
        def __init__(self, estimator_name="LR"):
            super().__init__(max_iter=2000)
            self.estimator_name = estimator_name

    class Import:
        failed_import = False

    benchopt = types.ModuleType("benchopt")
    benchopt.safe_import_context = lambda: contextlib.nullcontext(Import())
    base = types.ModuleType("benchmark_utils.base_solver")
    base.DASolver, base.FinalEstimator = object, FinalEstimator
    stubs = {
        "benchopt": benchopt,
        "benchmark_utils": types.ModuleType("benchmark_utils"),
        base.__name__: base,
    }
    sys.modules.update(stubs)
    try:
        spec = importlib.util.spec_from_file_location("solver", FILE)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        for name in stubs:
            del sys.modules[name]


@pytest.fixture(scope="module")
def domains():
    pair = load_digits_pair(preserved=0.35, n_x=300, n_y=300, random_state=0)
    x, domain = np.vstack([pair.x, pair.y]), np.repeat([1, -2], 300)
    masked = np.concatenate([pair.labels_x, np.full(300, -1)]).astype(int)
    shuffled = np.random.default_rng(0).permutation(600)
    return pair, x[shuffled], masked[shuffled], domain[shuffled]


def test_pipeline_predicts_the_target(solver, domains):
    pair, x, masked, domain = domains
    pipeline = solver.Solver().get_estimator()
    assert {"finalestimator__estimator_name"} == set(solver.Solver.default_param_grid)
    assert "finalestimator__estimator_name" in pipeline.get_params()
    pipeline.fit(x, masked, sample_domain=domain)
    found = pipeline.predict(pair.y, sample_domain=np.full(300, -2))
    source_only = LogisticRegression(max_iter=2000).fit(pair.x, pair.labels_x).score(pair.y, pair.labels_y)
    assert np.mean(found == pair.labels_y) > max(0.8, source_only + 0.3)


def test_adapter_returns_rows_in_the_order_given(solver, domains):
    _, x, _, domain = domains
    adapter = solver.HarmonicAdapter()
    adapted = adapter.fit_transform(x, sample_domain=domain)
    for number in (1, -2):
        rows = domain == number
        again = adapter.transform(x[rows], sample_domain=domain[rows], allow_source=True)
        np.testing.assert_allclose(again, adapted[rows], atol=1e-5)


def test_domains_that_were_not_aligned(solver, domains):
    pair, x, _, domain = domains
    adapter = solver.HarmonicAdapter().fit(x, sample_domain=domain)
    # Without a domain skada takes rows for a target; there is one only, so they are rows of that.
    known = adapter.transform(pair.y[:9], sample_domain=np.full(9, -2))
    np.testing.assert_allclose(adapter.transform(pair.y[:9], sample_domain=np.full(9, -7)), known)
    with pytest.raises(ValueError, match="domain 5 was not aligned"):
        adapter.transform(pair.x[:9], sample_domain=np.full(9, 5), allow_source=True)
