"""Tables and numbers of the pages are made from CSVs, and what cannot be traced to one is named."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are in the repository only", allow_module_level=True)


@pytest.fixture
def benchmark(monkeypatch):
    """Import a script of the benchmarks by name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    known = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(ROOT / "benchmarks")):
            del sys.modules[name]


@pytest.fixture
def publish(benchmark, monkeypatch, tmp_path):
    module = benchmark("publish")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


def accuracies(publish, folder, methods, value):
    lines = ["task,method,accuracy,mixing"]
    tasks = [task for task, _ in publish.LISTS["long"]] + ["worms"]
    for i, task in enumerate(tasks):
        lines += [f"{task},{method},{value(i, j):.4f},0.5" for j, method in enumerate(methods)]
    (folder / "accuracy.csv").write_text("\n".join(lines) + "\n")


PEERS = ["none", "mnn", "harmony", "scanorama", "paper", "default"]


def test_accuracy_table(publish, tmp_path):
    accuracies(publish, tmp_path, PEERS, lambda i, j: 0.1 * (j + 1) + (0.4 if j == 1 else 0))
    page = "before\n<!-- table: accuracy short -->\n\n| old |\n\n<!-- end -->\nafter\n"
    kept = []
    made = publish.remade(page, kept).splitlines()
    assert not kept
    assert made[3] == "| | none | MNN | Harmony | Scanorama | paper | **harmonicalign** |"
    # The best is bold, ties included, and shares are written without their zero.
    assert made[5] == (
        "| MNIST, 35 % of pixels preserved | .100 | **.600** | .300 | .400 | .500 | **.600** |"
    )
    assert (made[0], made[-1]) == ("before", "after")
    text = "\n".join(made)
    assert publish.remade(text, []) == text


def test_column_without_the_family_appears_once_it_is_complete(publish, tmp_path):
    page = "<!-- table: accuracy long -->\n\n| old |\n\n<!-- end -->"
    accuracies(publish, tmp_path, [*PEERS, "left_out"], lambda i, j: 0.1 * (j + 1))
    made = publish.remade(page, [])
    assert "**harmonicalign** | chosen without it |" in made
    assert "**.600** | .700 |" in made  # it is shown beside the comparison and never wins it
    rows = (tmp_path / "accuracy.csv").read_text().splitlines()
    (tmp_path / "accuracy.csv").write_text(
        "\n".join(r for r in rows if r.split(",")[:2] != ["coil", "left_out"])
    )
    assert "chosen without it" not in publish.remade(page, [])


def test_what_has_no_results_stays_and_is_named(publish, tmp_path):
    page = "<!-- table: accuracy short -->\n\n| old |\n\n<!-- end -->\nreaches "
    page += "<!--accuracy worms default-->.801<!--/-->."
    kept = []
    assert publish.remade(page, kept) == page
    assert len(kept) == 2
    assert all("no accuracy.csv" in reason for reason in kept)
    accuracies(publish, tmp_path, PEERS[1:], lambda i, j: 0.25)
    kept = []
    made = publish.remade(page, kept)
    assert "reaches <!--accuracy worms default-->.250<!--/-->." in made
    assert len(kept) == 1
    assert "accuracy.csv lacks mnist_p35 by none, mnist_p10 by none, mnist_p5 by none and others" in kept[0]


def test_of_several_runs_the_last_counts(publish, tmp_path):
    accuracies(publish, tmp_path, PEERS, lambda i, j: 0.25)
    with (tmp_path / "accuracy.csv").open("a") as file:
        file.write("worms,default,0.75,0.5\n")
    assert publish.suite_number("worms default") == ".750"


def test_experiment_tables_keep_their_head(publish, tmp_path):
    (tmp_path / "reproduce" / "size").mkdir(parents=True)
    rows = [
        "size,pair,method,accuracy",
        "200,0,none,0.1",
        "200,1,none,0.3",
        "200,0,default,0.8",
        "400,0,default,0.9",
    ]
    (tmp_path / "reproduce" / "size" / "results.csv").write_text("\n".join(rows) + "\n")
    spec = {"experiment": "size", "rows": ["size"], "value": "accuracy", "column": "method"}
    spec["order"] = ["none", "default"]
    head = "| rows | unaligned | **default** |\n|---|---|---|"
    page = f"<!-- table: pivot {json.dumps(spec)} -->\n\n{head}\n| 1 | 2 | 3 |\n\n<!-- end -->"
    made = publish.remade(page, []).splitlines()
    assert made[2:6] == [*head.splitlines(), "| 200 | 0.200 ± 0.141 | 0.800 |", "| 400 | – | 0.900 |"]
    with pytest.raises(ValueError, match="columns for the head"):
        publish.remade(page.replace("| rows | unaligned |", "| rows |"), [])


def test_methods_that_were_not_measured_anew_keep_their_earlier_means(publish, tmp_path):
    folder = tmp_path / "reproduce"
    (folder / "size").mkdir(parents=True)
    (folder / "size" / "results.csv").write_text(
        "size,pair,method,accuracy\n200,0,default,0.8\n200,1,default,0.9\n400,0,default,1.0\n"
    )
    (folder / "earlier.csv").write_text(
        "experiment,value,method,size,mean,sd\n"
        "size,accuracy,magan,200,0.675,0.048\n"
        "size,accuracy,magan,400,0.752,0.008\n"
        "size,accuracy,default,200,0.1,0.1\n"
        "other,accuracy,magan,200,0.3,0.1\n"
    )
    spec = '{"experiment": "size", "rows": ["size"], "value": "accuracy", "column": "method", '
    spec += '"order": ["magan", "default"]}'
    page = f"<!-- table: pivot {spec} -->\n\n| rows | MAGAN | default |\n|---|---|---|\n\n<!-- end -->"
    made = publish.remade(page, []).splitlines()
    assert made[4:6] == ["| 200 | 0.675 ± 0.048 | 0.850 ± 0.071 |", "| 400 | 0.752 ± 0.008 | 1.000 |"]
    numbers = {
        "size; accuracy; method=magan; along size; digits 2": "0.68, 0.75",
        "size; accuracy; method=default; size=200; percent": "85.0 %",
        "size; accuracy; method=default; range; digits 1": "0.8 to 1.0",
        "size; accuracy; method=default; size=200; sd": "0.071",
    }
    for what, shown in numbers.items():
        assert publish.remade(f"<!--paper {what}-->?<!--/-->", []) == f"<!--paper {what}-->{shown}<!--/-->"
    kept = []
    publish.remade("<!--paper size; accuracy; method=mnn-->?<!--/-->", kept)
    assert "size/results.csv has no accuracy where {'method': 'mnn'}" in kept[0]


def test_one_method_is_measured_anew_and_the_others_stay(benchmark, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib", reason="experiments draw figures")
    script = benchmark("paper_results")
    from harmonicalign.experiments._runner import Experiment, Outcome

    monkeypatch.setattr(script, "RESULTS", tmp_path)
    monkeypatch.setattr(script, "FIGURES", tmp_path)
    drawn, value = [], {"none": 0.1, "default": 0.5}

    def cells(plan):
        return [{"method": m, "size": n, "pair": p} for m in value for p in (0, 1) for n in (200, 400)]

    def measure(plan, cell):
        return Outcome([cell | {"accuracy": value[cell["method"]]}])

    def outputs(rows, extras):
        drawn[:] = rows
        return {}

    experiment = Experiment("toy", "counts", cells, measure, (), outputs)
    (tmp_path / "earlier.csv").write_text(
        "experiment,value,method,size,mean,sd\ntoy,accuracy,magan,200,0.5,0.1\ntoy,accuracy,default,200,0.9,0.1\n"
    )

    def renew(methods, where, cache):
        script.renew(experiment, methods, where, tmp_path / cache, 1)
        return script.read(tmp_path / "toy" / "results.csv")

    assert len(renew({"none", "default"}, {}, "first")) == 8
    value |= {"none": 0.2, "default": 0.6}
    rows = renew({"default"}, {"size": "400"}, "second")
    # Only the cells asked for, of the method asked for; what stays of it is of no other state of the code.
    assert [(r["method"], r["size"], r["accuracy"]) for r in rows] == [
        *(("none", n, 0.1) for n in (200, 400, 200, 400)),
        *(("default", 400, 0.6) for _ in range(2)),
    ]
    stood_in = [r for r in drawn if r["method"] == "magan"]
    assert [round(r["accuracy"], 3) for r in stood_in] == [0.4, 0.5, 0.6]
    runs = script.read(tmp_path / "runs.csv")
    assert [(r["experiment"], r["method"]) for r in runs] == [("toy", "default"), ("toy", "none")]


def test_claims_are_judged_by_the_numbers(publish, tmp_path, benchmark):
    numbers = benchmark("paper_numbers")
    (tmp_path / "size").mkdir()

    def verdict(*values):
        rows = [f"{n},{m},{v}" for m in ("paper", "default") for n, v in zip((200, 400), values, strict=True)]
        (tmp_path / "size" / "results.csv").write_text("size,method,accuracy\n" + "\n".join(rows) + "\n")
        return numbers.rises_with_size(tmp_path)[2]

    assert verdict(0.5, 0.6) == "yes"
    assert verdict(0.6, 0.5) == "not at every step for paper and default"


def test_numbers_without_a_source_are_found(benchmark):
    trace = benchmark("trace")
    page = "# One\nAccuracy is .937 and takes 3 s.\n\n## Two\n.5 by `python benchmarks/scib.py`.\n"
    page += (
        "## Three\n<!--accuracy a b-->.801<!--/--> of $0.3$ in `0.2`, version 1.2.3, at 35 % of the pixels\n"
    )
    page += "## Four\n```sh\npython benchmarks/null.py\n```\nIt has 0.44.\n"
    assert trace.untraced(page) == [
        (2, ".937", "Accuracy is .937 and takes 3 s."),
        (2, "3 s", "Accuracy is .937 and takes 3 s."),
        (7, "35 %", "of  in , version 1.2.3, at 35 % of the pixels"),
    ]
    assert len(trace.untraced(page, ("35 % of the pixels",))) == 2


def test_every_number_of_the_pages_has_a_source(benchmark):
    trace = benchmark("trace")
    for name in trace.PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        given = trace.GIVEN.get(name, ())
        assert trace.untraced(text, given) == [], name
        assert all(piece in text for piece in given), name


def test_pages_are_what_the_results_say(benchmark):
    """Tables and numbers are made anew whenever a CSV has changed: `python benchmarks/publish.py`."""
    publish = benchmark("publish")
    for name in publish.PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        kept = []
        assert publish.remade(text, kept) == text, name
        assert kept == [], name


def test_scib_tables(publish, tmp_path):
    head = "task,method,seed,seconds,version,Silhouette,Total\n"
    peers = [
        "a,pca,0,1,,0.5,0.50",
        "a,harmony,0,1,,0.5,0.60",
        "a,harmony,1,1,,0.5,0.70",
        "b,pca,0,1,,0.7,0.40",
    ]
    (tmp_path / "scib_peers.csv").write_text(head + "\n".join(peers) + "\n")
    (tmp_path / "scib.csv").write_text(head + "a,harmonicalign,0,1,0.2.0,0.9,0.625\n")
    made = publish.scib_table("tasks Total", "").splitlines()
    assert made[0] == "| | PCA | Harmony | **harmonicalign** |"
    assert made[2:] == ["| a | .500 | **.650** ± .050 | .625 |", "| b | **.400** | – | – |"]
    assert publish.scib_table("metrics", "").splitlines()[2] == "| Silhouette | .500 | .500 | **.900** |"


def test_pages_name_makers_that_exist(publish):
    for name in publish.PAGES:
        text = (ROOT / name).read_text()
        assert text.count("<!-- table:") == len(publish.TABLE.findall(text)), name
        assert text.count("<!--/-->") == len(publish.NUMBER.findall(text)), name
        for maker, what, _ in publish.TABLE.findall(text):
            assert maker in publish.TABLES
            if maker == "pivot":
                assert {"experiment", "rows"} <= set(json.loads(what))
        assert all(maker in publish.NUMBERS for maker, _, _ in publish.NUMBER.findall(text))


def test_constants_are_chosen_on_the_other_families(benchmark, tmp_path):
    chosen = benchmark("chosen")
    constant = next(c for c in chosen.constants(chosen.DEFAULT) if c.tried)
    value = constant.tried[0]
    runs = ["constant,value,task,seed,accuracy,mixing"]
    for task, gain in (("pancreas_200", 0.1), ("coil", -0.2)):
        runs.append(f",None,{task},0,0.5,1")
        runs.append(f'{constant.name},"{value!r}",{task},0,{0.5 + gain},1')
    path = tmp_path / "ablation.csv"
    path.write_text("\n".join(runs) + "\n")
    # Another value is better on the pancreas and worse on the objects: it depends on which of them is seen.
    config, changed = chosen.without("objects", path)
    assert changed == {constant.name: value}
    assert getattr(config, constant.name) == value
    assert chosen.without("pancreas", path) == (chosen.DEFAULT, {})
    assert chosen.without("pbmc", path) == (chosen.DEFAULT, {})
    with pytest.raises(ValueError, match="no family is named 'apples'"):
        chosen.without("apples", path)


def test_families_are_held_out_of_the_choice(benchmark, tmp_path):
    ablation = benchmark("ablation")
    constant = next(c for c in ablation.constants(ablation.DEFAULT) if c.tried)
    value = constant.tried[0]
    changed = repr({constant.name: value})
    runs = ["constant,value,task,seed,accuracy,mixing"]
    for task, gain in (("pancreas_200", 0.1), ("coil_300", -0.2)):
        runs.append(f",None,{task},0,0.5,1")
        runs.append(f'{constant.name},"{value!r}",{task},0,{0.5 + gain},1')
    path = tmp_path / "ablation.csv"
    options = ablation.argparse.Namespace(tasks=["pancreas_200", "coil_300"], seeds=[0], csv=path)
    path.write_text("\n".join(runs) + "\n")
    assert ablation.left_out(options, ablation.read(path)) == []  # families were not run yet
    runs += ["without pancreas,{},pancreas_200,0,0.5,1", f'without objects,"{changed}",coil_300,0,0.3,1']
    path.write_text("\n".join(runs) + "\n")
    lines = ablation.left_out(options, ablation.read(path))
    # What helped the pancreas is chosen without the objects, and harms them.
    assert lines[-3:] == [
        "| pancreas | nothing | 0.500 | 0.500 |",
        f"| objects | `{constant.name}` = {value} | 0.500 | 0.300 |",
        "| all tasks | | 0.500 | 0.400 |",
    ]


def test_designs_are_replaced_and_shown(publish, benchmark, tmp_path):
    accuracy, path = benchmark("accuracy"), tmp_path / "designs.csv"
    row = {"table": "regimes", "method": "none", "data": "mean", "accuracy": 0.5, "joint": 0.5, "mixing": 0.5}
    rows = [row | {"design": d, "method": m} for d in publish.DESIGNS["regimes"] for m in ("none", "default")]
    accuracy.replace_designs(path, rows)
    new = [
        row | {"design": "same", "method": "default", "data": d, "accuracy": v}
        for d, v in (("a", 0.7), ("b", 0.8))
    ]
    accuracy.replace_designs(path, new)
    made = publish.designs_table("regimes", "").splitlines()
    assert made[:4] == [
        "| the second half | none | **harmonicalign** |",
        "|---|---|---|",
        "| as it is | .500 | **.750** |",
        "| moved by ½ standard deviation per column | **.500** | **.500** |",
    ]
    assert publish.design_number("regimes; same; b; default") == ".800"
    with pytest.raises(publish.NoResultsError, match="lacks same of b by none"):
        publish.design_number("regimes; same; b; none")


def test_counts_come_back_from_normalised_values(benchmark, rng):
    scib, tasks = benchmark("scib"), benchmark("tasks")
    counts = rng.poisson(0.5, (30, 60))
    counts[:, 0] = 1  # every row has a count of one
    found = scib.counts_of(tasks.log_normalise(scib.sp.csr_matrix(counts)))
    assert (found.toarray() == counts).all()
    with pytest.raises(ValueError, match="no normalised counts"):
        scib.counts_of(rng.normal(size=(10, 5)) ** 2)
    with pytest.raises(ValueError, match="no normalised counts"):
        scib.counts_of(rng.normal(size=(10, 5)))


def test_placeholder_addresses_are_listed():
    """Addresses that do not exist yet stand in one list, with every file that has them."""
    pattern = re.compile(r"github\.com/harmonicalign\b|harmonicalign\.github\.io")
    suffixes = {".py", ".md", ".toml", ".yaml", ".yml", ".cff", ".csv"}
    files = [
        path
        for folder in ("src", "docs", "ecosystem", "recipe", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and "_build" not in path.parts
    ] + [path for path in ROOT.iterdir() if path.suffix in suffixes]
    found = {str(p.relative_to(ROOT)) for p in files if pattern.search(p.read_text(encoding="utf-8"))}
    listing = (ROOT / "ecosystem" / "README.md").read_text()
    assert found - {"ecosystem/README.md"} == set(re.findall(r"^- `(\S+)`$", listing, flags=re.MULTILINE))
