import ast
import subprocess
import sys
from pathlib import Path

import harmonicalign

SOURCE = Path(harmonicalign.__file__).parent

# The order of the data: a module may import from those above it, never from those below.
ORDER = [
    "_exceptions",
    "_version",
    "_validation",
    "_progress",
    "_rows",
    "backends",
    "reduction",
    "_inputs",
    "graph",
    "harmonics",
    "bands",
    "align",
    "joint",
    "anchors",
    "confidence",
    "correspondence",
    "significance",
    "refine",
    "space",
    "links",
    "settings",
    "models",
    "metrics",
    "smooth",
    "correct",
    "transfer",
    "storage",
    "memory",
    "distributed",
    "report",
    "uses",
    "estimator",
    "datasets",
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
