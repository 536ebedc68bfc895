import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import harmonicalign
from harmonicalign import demo

SOURCE = Path(harmonicalign.__file__).parent
ROOT = Path(__file__).parents[1]

# The order of the data: a module may import from those above it, never from those below.
ORDER = [
    "_exceptions",
    "_version",
    "_validation",
    "_progress",
    "backends",
    "_rows",
    "reduction",
    "_inputs",
    "_metric_inputs",
    "_transfer_inputs",
    "graph",
    "harmonics",
    "planes",
    "bands",
    "align",
    "joint",
    "anchors",
    "confidence",
    "correspondence",
    "maps",
    "relations",
    "significance",
    "refine",
    "space",
    "links",
    "settings",
    "models",
    "_blocks",
    "metrics",
    "smooth",
    "correct",
    "calibration",
    "votes",
    "transfer",
    "storage",
    "memory",
    "distributed",
    "report",
    "uses",
    "estimator",
    "datasets",
    "_drawing",
    "plot",
    "scverse",
    "io",
    "demo",
    "experiments",
    "cli",
]


def imports(path):
    """Modules of the package that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("harmonicalign"):
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]


def test_modules_import_only_from_those_above():
    for path in SOURCE.rglob("*.py"):
        module = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if module == "__init__":
            continue
        assert module in ORDER, f"{module} has no place in the order of the data"
        for imported in imports(path):
            assert ORDER.index(imported) <= ORDER.index(module), f"{module} imports {imported}"


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_import_loads_nothing_optional():
    heavy = ["torch", "anndata", "dask", "matplotlib", "faiss", "typer", "plotly"]
    loaded = run(f"import sys, harmonicalign; print([m for m in {heavy} if m in sys.modules])")
    assert loaded == "[]"


def test_import_is_quick():
    code = (
        "import time, sklearn.base, sklearn.utils.validation, scipy.sparse.linalg, scipy.sparse.csgraph;"
        "start = time.process_time(); import harmonicalign; print(time.process_time() - start)"
    )
    assert float(run(code)) < 1


def test_public_names_exist_and_are_documented():
    for name in harmonicalign.__all__:
        value = getattr(harmonicalign, name)
        assert name == "__version__" or value.__doc__


def test_demo_of_a_plain_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    demo.main(["--out", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "none: pictures need matplotlib: pip install 'harmonicalign[report]'" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


# --- what is published --------------------------------------------------------------------------------------


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def bounds(*extras):
    """Lowest versions of the dependencies, by name, with those of some extras."""
    options = project()["optional-dependencies"]
    found = {}
    for requirement in [*project()["dependencies"], *(r for extra in extras for r in options[extra])]:
        name, inner, version = re.fullmatch(r"([a-z-]+)(?:\[(.+)\])?(?:>=(.+))?", requirement).groups()
        if name == "harmonicalign":
            found |= bounds(*inner.split(","))
        else:
            found[name] = version
    return found


def test_recipe_names_the_dependencies_of_the_command_line():
    if not (ROOT / "recipe").is_dir():
        pytest.skip("the recipe is in the repository only")
    recipe = (ROOT / "recipe" / "meta.yaml").read_text()
    assert re.search(r'set version = "(.+)"', recipe)[1] == harmonicalign.__version__
    sections = re.findall(r"^  (\w+):\n((?:    .+\n)+)", recipe, flags=re.MULTILINE)
    needed, allowed = (
        dict(re.findall(r"- (\S+) >=(\S+)", dict(sections)[name])) for name in ("run", "run_constrained")
    )
    elsewhere = {"matplotlib": "matplotlib-base", "dask": "dask-core", "torch": "pytorch"}
    names = {elsewhere.get(name, name): version for name, version in bounds("cli").items()}
    python = project()["requires-python"].removeprefix(">=")
    assert needed == {**names, "python": python}
    others = {elsewhere.get(name, name): version for name, version in bounds("all").items()}
    assert allowed == {name: version for name, version in others.items() if name not in names}


def test_workflows_try_every_version_of_python_that_is_promised():
    if not (ROOT / ".github").is_dir():
        pytest.skip("the workflows are in the repository only")
    prefix = "Programming Language :: Python :: 3."
    promised = [c.removeprefix(prefix[:-2]) for c in project()["classifiers"] if c.startswith(prefix)]
    assert promised[0] == project()["requires-python"].removeprefix(">=")
    for name in ("tests.yml", "release.yml"):
        text = (ROOT / ".github" / "workflows" / name).read_text()
        assert re.findall(r'"([\d.]+)"', re.search(r"python: \[(.+)\]", text)[1]) == promised
