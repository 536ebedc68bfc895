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

# The order of the rooms: code may import from rooms above its own, never from those below. Some adapters
# serve the estimator (model files, clusters, reports) and stand above it; the others use it and stand below.
ROOMS = [
    "_version",
    "_exceptions",
    "_typing",
    "_progress",
    "_hidden",
    "_repr",
    "engines",
    "inputs",
    "paper",
    "evidence",
    "method",
    "shape",
    "uses",
    "metrics",
    "fitted",
    "adapters.storage",
    "adapters.distributed",
    "adapters.verdict",
    "adapters.report",
    "estimator",
    "datasets",
    "adapters.plot",
    "adapters.scverse",
    "adapters.io",
    "demo",
    "experiments",
    "adapters.cli",
]
# Short public paths to what is kept in a room.
DOORS = ["scverse", "io", "plot", "report", "distributed", "cli", "transfer", "correct", "smooth", "verdict"]


def room_of(module):
    """The room of a dotted name below the package."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "adapters" and len(parts) > 1 else parts[0]


def imports(path):
    """Modules of the package that a file imports, those under `TYPE_CHECKING` included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "harmonicalign":
            base = node.module.removeprefix("harmonicalign").removeprefix(".")
            for alias in node.names:
                full = f"{base}.{alias.name}".strip(".")
                file = SOURCE / full.replace(".", "/")
                yield full if not base or file.is_dir() or file.with_suffix(".py").exists() else base
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("harmonicalign."):
                    yield alias.name.removeprefix("harmonicalign.")


def modules():
    """Every file of the package with its dotted name."""
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield path, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_rooms_import_only_from_rooms_above():
    for path, module in modules():
        room = room_of(module)
        if not module or room in DOORS or module == "adapters":
            continue
        assert room in ROOMS, f"{module} is in no known room"
        for imported in imports(path):
            other = room_of(imported)
            assert other not in DOORS, f"{module} imports the public door {imported}; import the room itself"
            if other in ROOMS:
                assert ROOMS.index(other) <= ROOMS.index(room), (
                    f"{module} imports {imported}, which is below it"
                )


def test_every_room_says_what_it_is_for():
    for path, module in modules():
        if path.name == "__init__.py":
            assert len((ast.get_docstring(ast.parse(path.read_text())) or "").split()) >= 5, module


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
    others = {elsewhere.get(name, name): version for name, version in bounds("all", "compare").items()}
    assert allowed == {name: version for name, version in others.items() if name not in names}


def test_all_brings_no_package_under_the_gpl():
    assert "harmonypy" in bounds("compare")
    assert "harmonypy" not in bounds("all")


def test_the_demonstration_installs_the_core_and_matplotlib_only():
    makefile = (ROOT / "Makefile").read_text()
    rule = re.search(r"^\$\(DEMO_STAMP\):.*\n((?:\t.+\n)+)", makefile, flags=re.MULTILINE)[1]
    (extras,) = re.findall(r"-e '\.\[(.+)\]'", rule)
    assert re.search(r"^demo: \$\(DEMO_STAMP\) ", makefile, flags=re.MULTILINE)
    assert set(bounds(*extras.split(","))) - set(bounds()) == {"matplotlib"}


def test_versions_agree():
    if not (ROOT / "CITATION.cff").is_file():
        pytest.skip("the citation is in the repository only")
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.+)$", citation, flags=re.MULTILINE)[1] == harmonicalign.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1]
    assert newest == harmonicalign.__version__


def test_actions_are_pinned_by_commit_and_may_only_read():
    if not (ROOT / ".github").is_dir():
        pytest.skip("the workflows are in the repository only")
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text()
        used = re.findall(r"uses: (.+)", text)
        assert used
        for action in used:
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), (
                path.name,
                action,
            )
        assert re.search(r"^permissions:\n  contents: read\n\n", text, flags=re.MULTILINE), path.name


def test_workflows_try_every_version_of_python_that_is_promised():
    if not (ROOT / ".github").is_dir():
        pytest.skip("the workflows are in the repository only")
    prefix = "Programming Language :: Python :: 3."
    promised = [c.removeprefix(prefix[:-2]) for c in project()["classifiers"] if c.startswith(prefix)]
    assert promised[0] == project()["requires-python"].removeprefix(">=")
    for name in ("tests.yml", "release.yml"):
        text = (ROOT / ".github" / "workflows" / name).read_text()
        assert re.findall(r'"([\d.]+)"', re.search(r"python: \[(.+)\]", text)[1]) == promised
