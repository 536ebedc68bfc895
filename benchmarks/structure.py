"""Counts that describe the structure of the code, for this checkout or any other source tree.

    python benchmarks/structure.py                   # the counts of this checkout
    python benchmarks/structure.py --verbose         # and everything that was counted
    python benchmarks/structure.py --src OTHER/src   # those of another state of the code
    python benchmarks/structure.py --check           # exit with 1 where a, b or c goes beyond a limit

a. Functions of more than 60 lines and of more than 8 parameters. Lines are those that hold code, from
   ``def`` to the end: no decorators, docstring, blank lines or comments, but with functions defined inside.
   Parameters are all but ``self`` and ``cls``, and ``*args`` and ``**options`` count as one each. Those that
   `EXCEPTIONS` and `USERS_OPTIONS` name are told, and break no limit.
b. Modules of more than 400 lines, of any kind.
c. Groups of modules that import each other in a circle: by what they import at the top, under
   ``TYPE_CHECKING`` too; and then by what they import within functions as well. ``from package import name``
   leads to the module of that name where there is one, and to the package's ``__init__`` otherwise. That
   Python runs a package's ``__init__`` before its modules is left out.
d. Files and functions that one default fit enters: ``HarmonicAlignment(random_state=0).fit_transform`` of two
   digits datasets of 200 rows, in all its threads. A function is a file and a name, so lambdas,
   comprehensions and generator expressions count once per kind and file; bodies of modules and classes and
   what dataclasses generate do not count. Python 3.12 and later run list, set and dict comprehensions inside
   the function they are in, which lowers the count; that of named functions is the same in all versions.
e. Parameters annotated ``Any``, and definitions of ``Array``.
f. ``isinstance`` checks against classes of fitted models, and uses of a model's attributes whose names begin
   with an underscore, in modules other than the one that defines these. The last count is of such uses on any
   object, whatever it is called.
g. ``monkeypatch.setattr`` in the tests, which show where they reach into the code.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

PACKAGE = "harmonicalign"

MOST_LINES = 60
MOST_PARAMETERS = 8
MOST_MODULE_LINES = 400

EXCEPTIONS = {
    "*cli/*:*": "command",  # every option of the command line is a parameter
    "*triton*:*": "kernel",  # in a language of its own, compiled for the GPU
}
"""Functions, by patterns of ``path:qualified name``, that may be longer and take more; and why."""

USERS_OPTIONS = (
    "*:HarmonicAlignment.__init__",
    "*:HarmonicAlignment.fit",
    "*datasets/clusters.py:clusters_pair",
    "*datasets/manifolds.py:sphere",
    "*datasets/manifolds.py:swiss_roll",
    "*datasets/manifolds.py:torus_knot",
    "*datasets/manifolds.py:tree",
    "*experiments/compare.py:compare",
    "*paper/graph.py:kernel_graph",
    "*report/__init__.py:write_report",
    "*scverse/*:align",
    "*scverse/*:impute",
    "*scverse/*:map_query",
    "*scverse/*:transfer_labels",
    "*transfer.py:transfer_labels",
)
"""Public functions whose parameters are what users may choose; these may take more, but not be longer."""

MODEL_CLASS = re.compile(r"(Paper|Refined)\w*|\w*Model")
"""Names of classes of fitted models."""

MODEL_NAME = re.compile(r"\w*model_?")
"""Names of variables and attributes that hold a model."""

PRIVATE = re.compile(r"(?!_(asdict|fields|make|replace)$)_[a-z]\w*")
"""Names that begin with one underscore, but those that are public in named tuples."""

FIT = """
import json, sys, threading
from harmonicalign import HarmonicAlignment
from harmonicalign.datasets import load_digits_pair

pair = load_digits_pair(preserved=0.5, n_x=200, n_y=200, random_state=0)
model = HarmonicAlignment(random_state=0)
entered = set()

def note(frame, event, _):
    if event == "call":
        entered.add(frame.f_code)

threading.setprofile(note)
sys.setprofile(note)
model.fit_transform([pair.x, pair.y])
sys.setprofile(None)
threading.setprofile(None)
# Bodies of modules and classes have no fast local variables.
codes = [(c.co_filename, c.co_name, c.co_qualname) for c in entered if c.co_flags & 1]
print(json.dumps({"package": sys.modules["harmonicalign"].__file__, "codes": codes}))
"""
"""Runs in a process of its own: what one default fit enters, as JSON."""


# --------------------------------------------------------------------------------------------------------
# what there is


@dataclass(frozen=True)
class Module:
    """One file of a package: its path in it, its dotted name, its text and its syntax tree."""

    path: str
    name: str
    text: str
    tree: ast.Module


@dataclass(frozen=True)
class Function:
    """One function or method: where it is, its lines of code and its parameters."""

    module: Module
    name: str
    line: int
    n_lines: int
    parameters: list[ast.arg]

    def __str__(self) -> str:
        return f"{self.module.path}:{self.line} {self.name}"

    def exception(self, what: str) -> str | None:
        """Why it may have more lines or parameters than others; None where it may not."""
        place = f"{self.module.path}:{self.name}"
        for pattern, why in EXCEPTIONS.items():
            if fnmatchcase(place, pattern):
                return why
        options = what == "parameters" and any(fnmatchcase(place, pattern) for pattern in USERS_OPTIONS)
        return "users' options" if options else None


def read_modules(src: Path) -> list[Module]:
    """Every module of the package under `src`, by path."""
    out = []
    for file in sorted((src / PACKAGE).rglob("*.py")):
        path = file.relative_to(src / PACKAGE)
        parts = [PACKAGE, *path.with_suffix("").parts]
        text = file.read_text(encoding="utf-8")
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        out.append(Module(path.as_posix(), name, text, ast.parse(text, file.as_posix())))
    if not out:
        raise SystemExit(f"{src} holds no package {PACKAGE}")
    return out


def functions(module: Module) -> list[Function]:
    """Every function of a module, those within classes and functions too."""
    code = _code_lines(module.text)
    out = []

    def visit(node: ast.AST, prefix: str, in_class: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = code & set(range(child.lineno, (child.end_lineno or child.lineno) + 1))
                lines -= _docstring_lines(child)
                parameters = _parameters(child, in_class)
                out.append(Function(module, prefix + child.name, child.lineno, len(lines), parameters))
                visit(child, f"{prefix}{child.name}.", False)
            elif isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.", True)
            else:
                visit(child, prefix, in_class)

    visit(module.tree, "", False)
    return out


def _code_lines(text: str) -> set[int]:
    """Numbers of the lines that hold more than space and comments."""
    empty = (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
    out: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in empty:
            out.update(range(token.start[0], token.end[0] + 1))
    return out


def _docstring_lines(function: ast.AST) -> set[int]:
    """Lines of the docstrings of a function and of all that is defined in it."""
    out: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(
            node
        ):
            first = node.body[0]
            out.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return out


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef, in_class: bool) -> list[ast.arg]:
    """All parameters of a function but ``self`` and ``cls``."""
    given = function.args
    named = [*given.posonlyargs, *given.args]
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)
    if in_class and not static:
        named = named[1:]
    return [*named, *given.kwonlyargs, *(a for a in (given.vararg, given.kwarg) if a is not None)]


# --------------------------------------------------------------------------------------------------------
# imports in a circle


def imports(modules: Sequence[Module], within_functions: bool) -> dict[str, set[str]]:
    """The modules of the package that each one imports."""
    names = {m.name for m in modules}
    packages = {m.name for m in modules if m.path.endswith("__init__.py")}
    out: dict[str, set[str]] = {}
    for module in modules:
        found: set[str] = set()
        for node in _import_nodes(module.tree, within_functions):
            found.update(_targets(node, module.name, module.name in packages, names))
        out[module.name] = found - {module.name}
    return out


def _import_nodes(node: ast.AST, within_functions: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif within_functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _import_nodes(child, within_functions)


def _targets(
    node: ast.Import | ast.ImportFrom, module: str, is_package: bool, names: set[str]
) -> Iterator[str]:
    """Modules of the package that one import statement leads to."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in names)
        return
    base = node.module or ""
    if node.level:
        parts = module.split(".")
        above = parts[: len(parts) - node.level + is_package]
        base = ".".join([*above, *([base] if base else [])])
    for alias in node.names:
        submodule = f"{base}.{alias.name}"
        if submodule in names:
            yield submodule
        elif base in names:
            yield base


def circles(graph: dict[str, set[str]]) -> list[tuple[list[str], list[str]]]:
    """Groups of modules that all lead to each other, and a shortest circle in each."""
    names = sorted(graph)
    number = {name: i for i, name in enumerate(names)}
    edges = [(number[a], number[b]) for a in names for b in graph[a]]
    if not edges:
        return []
    rows, columns = np.array(edges).T
    matrix = csr_array((np.ones(len(edges)), (rows, columns)), shape=(len(names), len(names)))
    n, group = connected_components(matrix, directed=True, connection="strong")
    members = [[names[i] for i in np.flatnonzero(group == g)] for g in range(n)]
    groups = sorted((m for m in members if len(m) > 1), key=lambda m: (-len(m), m))
    return [(m, min((_way_back(graph, name) for name in m), key=len)) for m in groups]


def _way_back(graph: dict[str, set[str]], start: str) -> list[str]:
    """The shortest way from a module to itself, one that is known to have one."""
    came: dict[str, str] = {}
    queue = deque([start])
    while start not in came:
        name = queue.popleft()
        for following in sorted(graph[name]):
            if following not in came:
                came[following] = name
                queue.append(following)
    way = [start]
    while len(way) == 1 or way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]


# --------------------------------------------------------------------------------------------------------
# the other counts


def entered(src: Path) -> list[tuple[str, str, str]]:
    """File, name and qualified name of each of our functions that one default fit enters."""
    environment = {**os.environ, "PYTHONPATH": str(src), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", FIT]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"the fit of {src} failed:\n{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    home = (src / PACKAGE).resolve()
    if Path(found["package"]).resolve().parent != home:
        raise SystemExit(f"{PACKAGE} was imported from {found['package']}, not from {src}")
    files = [(Path(file).resolve(), name, whole) for file, name, whole in found["codes"]]
    return sorted(
        (file.relative_to(home).as_posix(), name, whole)
        for file, name, whole in files
        if file.is_relative_to(home)
    )


def is_any(annotation: ast.expr | None) -> bool:
    """Whether an annotation is ``Any`` itself."""
    return annotation is not None and ast.unparse(annotation) in ("Any", "typing.Any")


def array_definitions(module: Module) -> list[str]:
    """Where a module defines ``Array`` for itself."""
    out = []
    for node in _by_line(module.tree):
        if isinstance(node, ast.Assign):
            targets: list[Any] = list(node.targets)
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:  # ``type Array = …``, from Python 3.12 on
            targets = [getattr(node, "name", None)] if type(node).__name__ == "TypeAlias" else []
        out += [f"{module.path}:{t.lineno}" for t in targets if isinstance(t, ast.Name) and t.id == "Array"]
    return out


def model_checks(module: Module) -> list[str]:
    """Where a module asks of which class a fitted model is."""
    out = []
    for node in _by_line(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            classes = {_own_name(n) for n in ast.walk(node.args[-1])}
            if any(MODEL_CLASS.fullmatch(name) for name in classes):
                out.append(f"{module.path}:{node.lineno} {ast.unparse(node)}")
    return out


def private_uses(module: Module, only_models: bool) -> list[str]:
    """Where a module uses underscored attributes that it does not define, of other objects than ``self``."""
    own = _defined(module.tree)
    out = []
    for node in _by_line(module.tree):
        if not isinstance(node, ast.Attribute) or not PRIVATE.fullmatch(node.attr) or node.attr in own:
            continue
        holder = _own_name(node.value)
        if holder in ("self", "cls") or (only_models and not MODEL_NAME.fullmatch(holder)):
            continue
        out.append(f"{module.path}:{node.lineno} {ast.unparse(node)}")
    return out


def _by_line(tree: ast.Module) -> list[ast.AST]:
    """All nodes of a tree in the order of their lines."""
    return sorted(ast.walk(tree), key=lambda node: getattr(node, "lineno", 0))


def _own_name(node: ast.AST) -> str:
    """The name of a variable or attribute; nothing for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _defined(tree: ast.Module) -> set[str]:
    """Names that a module gives to functions, classes, fields and attributes of ``self``.

    What stands under ``TYPE_CHECKING`` tells of names that are defined elsewhere.
    """
    out: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                out.add(child.name)
            elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                out.add(child.id)
            elif isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store):
                out.update({child.attr} if _own_name(child.value) == "self" else ())
            visit(child)

    visit(tree)
    return out


def patches(tests: Path) -> list[str]:
    """Where the tests replace something by ``monkeypatch.setattr``."""
    out = []
    for file in sorted(tests.rglob("*.py")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            count = line.count("monkeypatch.setattr")
            out += [f"{file.relative_to(tests).as_posix()}:{number} {line.strip()}"] * count
    return out


# --------------------------------------------------------------------------------------------------------
# telling


def tell(text: str, items: Sequence[str] = (), listed: bool = True) -> None:
    """Print a count and, if they are to be listed, what was counted."""
    print(text)
    if listed:
        for item in items:
            print(f"     {item}")


def tell_functions(modules: Sequence[Module]) -> int:
    """Print count a; return how many functions break a limit."""
    found = [f for module in modules for f in functions(module)]
    broken: set[str] = set()
    for what, most, size in (
        ("lines", MOST_LINES, lambda f: f.n_lines),
        ("parameters", MOST_PARAMETERS, lambda f: len(f.parameters)),
    ):
        over = sorted((f for f in found if size(f) > most), key=lambda f: -size(f))
        why = {str(f): f.exception(what) for f in over}
        breaking = [place for place, reason in why.items() if reason is None]
        broken.update(breaking)
        tell(
            f"a. functions of more than {most} {what}: {len(breaking)}"
            f" (and {len(over) - len(breaking)} exceptions) of {len(found)}",
            [f"{size(f):4d}  {f}" + (f"  [{why[str(f)]}]" if why[str(f)] else "") for f in over],
        )
    return len(broken)


def tell_modules(modules: Sequence[Module]) -> int:
    """Print counts b and c; return how often a limit is broken."""
    long = [(len(m.text.splitlines()), m.path) for m in modules]
    long = sorted((pair for pair in long if pair[0] > MOST_MODULE_LINES), reverse=True)
    tell(
        f"b. modules of more than {MOST_MODULE_LINES} lines: {len(long)} of {len(modules)}",
        [f"{n:4d}  {path}" for n, path in long],
    )
    broken = len(long)
    for within, what in ((False, "at the top or for types"), (True, "within functions too")):
        found = circles(imports(modules, within))
        tell(
            f"c. circles of imports, {what}: {len(found)}, of {sum(len(m) for m, _ in found)} modules",
            [f"{len(m)} modules; shortest: {' > '.join(way)}" for m, way in found],
        )
        broken += len(found)
    return broken


def tell_fit(src: Path, verbose: bool) -> None:
    """Print count d."""
    found = entered(src)
    named = {(file, whole) for file, name, whole in found if not name.startswith("<")}
    tell(
        f"d. one default fit enters {len({(file, name) for file, name, _ in found})} functions, "
        f"{len(named)} of them named, in {len({file for file, _, _ in found})} files",
        [f"{file} {whole}" for file, whole in sorted(named)],
        listed=verbose,
    )


def tell_types(modules: Sequence[Module], verbose: bool) -> None:
    """Print count e."""
    parameters = [(f, a) for module in modules for f in functions(module) for a in f.parameters]
    loose = [f"{f}({a.arg})" for f, a in parameters if is_any(a.annotation)]
    tell(f"e. parameters annotated Any: {len(loose)} of {len(parameters)}", loose, listed=verbose)
    arrays = [place for module in modules for place in array_definitions(module)]
    tell(f"e. definitions of Array: {len(arrays)}", arrays, listed=verbose)


def tell_reaches(modules: Sequence[Module], tests: Path, verbose: bool) -> None:
    """Print counts f and g."""
    checks = [place for module in modules for place in model_checks(module)]
    tell(f"f. isinstance checks of fitted models: {len(checks)}", checks, listed=verbose)
    reached = [place for module in modules for place in private_uses(module, only_models=True)]
    tell(
        f"f. underscored attributes of models used by other modules: {len(reached)}", reached, listed=verbose
    )
    reached = [place for module in modules for place in private_uses(module, only_models=False)]
    tell(f"f. underscored attributes of anything but self: {len(reached)}", reached, listed=verbose)
    if tests.is_dir():
        patched = patches(tests)
        tell(f"g. monkeypatch.setattr in the tests: {len(patched)}", patched, listed=verbose)
    else:
        tell(f"g. no tests at {tests}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("--src", type=Path, default=here / "src", help="folder that holds the package")
    parser.add_argument("--tests", type=Path, help="folder of the tests; by default that beside the source")
    parser.add_argument("--verbose", action="store_true", help="list everything that was counted")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a, b or c breaks a limit")
    options = parser.parse_args()
    src = options.src.resolve()
    modules = read_modules(src)
    broken = tell_functions(modules) + tell_modules(modules)
    tell_fit(src, options.verbose)
    tell_types(modules, options.verbose)
    tell_reaches(modules, options.tests or src.parent / "tests", options.verbose)
    if options.check and broken:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
