"""The same run gives the same verdict and the same figures in words, as JSON, in Python and in the report."""

import json
import re

import numpy as np
import pytest

anndata = pytest.importorskip("anndata")
pytest.importorskip("typer")

from simulated_cells import counts, logged  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

import harmonicalign  # noqa: E402
from harmonicalign import scverse  # noqa: E402
from harmonicalign.adapters import io  # noqa: E402
from harmonicalign.adapters.cli._app import app  # noqa: E402
from harmonicalign.verdict import assess  # noqa: E402


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == code, done.stderr or done.exception
    return done.stdout


def shuffled(data):
    out = data.copy()
    out.X = out.X[:, np.random.RandomState(0).permutation(out.n_vars)]
    return out


def negated(data):
    out = data.copy()
    out.X = -out.X
    return out


def renamed(data):
    out = data.copy()
    out.obs["kind"] = ("other " + out.obs["kind"].astype(str)).astype("category")
    return out


def narrow(data):
    return data[:, :4].copy()


def unlabelled(data):
    out = data.copy()
    del out.obs["kind"]
    return out


def batches(parts):
    return anndata.concat(parts, label="donor", keys=[f"d{i}" for i in range(len(parts))], merge="same")


A, B = counts(110, 1), counts(100, 2)

CASES = {
    "counts": (lambda: [A, B], {"good"}),
    "logarithms": (lambda: [logged(A), logged(B)], {"good"}),
    "counts beside logarithms": (lambda: [A, logged(B)], {"good"}),
    "shuffled genes": (lambda: [logged(A), shuffled(logged(B))], {"bad"}),
    "negated": (lambda: [logged(A), negated(logged(B))], {"bad", "doubtful"}),
    "too few genes": (lambda: [narrow(logged(A)), narrow(logged(B))], {"doubtful"}),
    "labels on one side": (lambda: [A, unlabelled(B)], {"good"}),
    "no label in common": (lambda: [A, renamed(B)], {"good", "doubtful"}),
    "no kind in common": (
        lambda: [counts(90, 1, types=(0, 1)), counts(90, 2, types=(2, 3))],
        {"good", "doubtful", "bad"},
    ),
    "ten batches": (lambda: [batches([counts(30, b) for b in range(10)])], {"good", "doubtful", "bad"}),
    "counts beside logarithms in one file": (lambda: [batches([A, logged(B)])], {"good"}),
}


@pytest.fixture(scope="module", params=CASES)
def told(request, tmp_path_factory):
    """What was said of a case in every way."""
    folder = tmp_path_factory.mktemp("case")
    make, levels = CASES[request.param]
    parts = make()
    files = [io.write(part.copy(), folder / f"{name}.h5ad") for name, part in zip("ab", parts, strict=False)]
    key = ["-b", "donor"] if len(parts) == 1 else []
    labels = ["-l", "kind"]
    out = folder / "out.h5ad"
    targets = ["-o", out, "-m", folder / "m.npz"]
    result = json.loads(run("align", *files, *key, *labels, *targets, "--json"))
    words = run("report", folder / "m.npz", out, *labels, "-o", folder / "again.html")
    return {
        "case": request.param,
        "levels": levels,
        "files": [*files, *key],
        "json": result,
        "words": words,
        "page": facts(folder / "out.html"),
        "again": facts(folder / "again.html"),
        "data": io.read(out),
        "model": harmonicalign.load(folder / "m.npz"),
        "folder": folder,
    }


def facts(page):
    return json.loads(re.search(r'id="facts">(.*?)</script>', page.read_text(), re.S)[1])


def own(checks):
    """Without what the run warned of, which only the run knows."""
    return [check for check in checks if not check.startswith("The run warned")]


def test_the_verdict_is_one(told):
    verdict = told["json"]["verdict"]
    assert verdict["level"] in told["levels"]
    assert told["json"]["aligned"] is verdict["aligned"]
    assert verdict["aligned"] is {"good": True, "bad": False}.get(verdict["level"])
    assert told["page"]["verdict"] == verdict
    assert told["words"].splitlines()[0] == f"{verdict['headline']}."
    found = assess(told["model"], labels=labels_of(told)).verdict
    assert (found.level, found.headline, found.sentences) == (
        verdict["level"],
        verdict["headline"],
        verdict["sentences"],
    )
    assert own(verdict["checks"]) == found.checks
    assert own(told["again"]["verdict"]["checks"]) == found.checks
    for sentence in found.sentences:
        assert sentence in told["words"]


def labels_of(told):
    data, model = told["data"], told["model"]
    column = data.obs["donor" if "donor" in data.obs else "dataset"].astype(str).to_numpy()
    kinds = data.obs["kind"].astype(object).to_numpy()
    parts = [kinds[column == str(key)] for key in model.keys_]
    return {"kind": [None if all(v != v or v is None for v in part) else part for part in parts]}


def test_the_figures_are_one(told):
    scores = told["json"]["scores"]
    lone = told["case"] in ("labels on one side", "no label in common", "no kind in common")
    found = scverse.score(told["data"], told["model"], None if lone else "kind")
    assert found == pytest.approx(scores, rel=1e-12)
    assert ("label_agreement" in scores) == (not lone)
    shown = {m["name"]: m for m in told["page"]["measures"]["list"]}
    assert shown["Mixing"]["after"] == pytest.approx(scores["mixing"], rel=1e-4)
    assert shown["Mixing"]["before"] == pytest.approx(scores["mixing_before"], rel=1e-4)
    if not lone:
        rows = [m["after"] for name, m in shown.items() if name.startswith("Kind found again")]
        assert np.mean(rows) == pytest.approx(scores["label_agreement"], rel=1e-4)
    assert f"{scores['mixing']:.2f}" in {f["value"] for f in told["page"]["figures"]}
    medians = {d["name"]: d["median"] for d in told["page"]["datasets"]}
    assert medians == pytest.approx(told["json"]["confidence"], rel=1e-4)
    if told["model"].significance_.tested:
        assert scores["p"] == told["model"].significance_.p
        assert min(f["z"] for f in told["page"]["pairs"]["list"]) <= scores["z"] + 1e-3 * abs(scores["z"])


def test_strict_follows_the_verdict(told):
    code = 0 if told["json"]["aligned"] else 3
    kind = [] if told["case"] == "no label in common" else ["-l", "kind"]
    page = told["folder"] / "strict.html"
    run("report", told["folder"] / "m.npz", told["folder"] / "out.h5ad", *kind, "-o", page, "--strict", "-f",
        code=code)  # fmt: skip


def test_few_lines_are_printed(told):
    assert len(told["words"].splitlines()) < 25


def test_a_comparison_states_the_same(told):
    if told["case"] not in ("counts beside logarithms", "ten batches"):
        pytest.skip("two cases are enough")
    table = json.loads(run("compare", *told["files"], "-l", "kind", "--method", "none", "--method",
                           "harmonicalign", "--json"))["table"]  # fmt: skip
    scores = told["json"]["scores"]
    assert table[1]["method"] == "harmonicalign"
    assert table[1]["verdict"] == told["json"]["verdict"]["headline"]
    for name in ("label_agreement", "mixing", "mixing_within_labels"):
        assert table[0][name] == pytest.approx(scores[f"{name}_before"], rel=1e-6)
        assert table[1][name] == pytest.approx(scores[name], rel=1e-6)
    assert table[1]["p"] == pytest.approx(scores["p"])
