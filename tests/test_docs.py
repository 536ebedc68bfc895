"""The code of the documentation runs, page by page, from top to bottom."""

import os
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest

DOCS = Path(__file__).parents[1] / "docs"
if not DOCS.is_dir():
    pytest.skip("the documentation is in the repository only", allow_module_level=True)

# Pages whose code Sphinx runs too (`make docs`); the tag says so at their top.
NOTEBOOKS = sorted(
    path.relative_to(DOCS).as_posix()
    for path in DOCS.rglob("*.md")
    if "_build" not in path.parts and path.read_text(encoding="utf-8").startswith("---\nfile_format: mystnb")
)


def run(code, folder):
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    (folder / "page.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "page.py"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("page", NOTEBOOKS)
def test_code_of_a_page_runs_in_order(page, tmp_path):
    text = (DOCS / page).read_text(encoding="utf-8")
    if "import scanpy" in text:
        pytest.importorskip("scanpy")
    if "import mudata" in text:
        pytest.importorskip("mudata")
    cells = re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert cells
    code = "\n".join(re.sub(r"^:tags:.*\n", "", cell, flags=re.MULTILINE) for cell in cells)
    run("import matplotlib.pyplot as plt\nplt.show = lambda *a, **k: plt.close('all')\n" + code, tmp_path)


@pytest.mark.slow
@pytest.mark.data
def test_the_page_on_citeseq(data_dir, tmp_path):
    """The data are not part of the package, so Sphinx cannot run this page; the figures in it are checked."""
    anndata = pytest.importorskip("anndata")
    pytest.importorskip("scanpy")
    from test_scverse_uses import stored

    z = stored(data_dir / "citeseq_citefuse" / "citeseq_citefuse.npz")
    for name, counts, variables in (("rna", "rna", "genes"), ("protein", "adt", "proteins")):
        adata = anndata.AnnData(z[counts].astype(np.float32))
        adata.obs_names = z["cells"].astype(str)
        adata.var_names = [str(v).removeprefix("hg19_") for v in z[variables]]
        adata.var_names_make_unique()
        adata.write_h5ad(tmp_path / f"{name}.h5ad")
    text = (DOCS / "tutorials" / "citeseq.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    said = run("\n".join([*blocks, "print(scores['foscttm'], right, table.head(8).to_string())"]), tmp_path)
    foscttm = float(said.splitlines()[1])
    stated = float(re.search(r'round\(scores\["foscttm"\], 3\)\)  # (\S+)', text)[1])
    assert foscttm < stated + 0.02


def test_every_page_is_in_a_table_of_contents():
    text = {
        path: path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md") if "_build" not in path.parts
    }
    listed = set()
    for path, page in text.items():
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL):
            for entry in block.split():
                base = DOCS if entry.startswith("/") else path.parent
                listed.add((base / f"{entry.lstrip('/')}.md").resolve())
    missing = {path for path in text if path.resolve() not in listed and path.name != "index.md"}
    assert not missing, f"no table of contents names {sorted(map(str, missing))}"


def named_objects():
    """Every object that a page asks Sphinx to document: the page, its module and its name."""
    for page in sorted(DOCS.rglob("*.md")):
        module = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            if found := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = found[1]
            elif found := re.match(r"\.\. auto(?:class|function|data|exception|method):: (\S+)", line):
                yield page.relative_to(DOCS).as_posix(), module, found[1]


def test_what_the_pages_document_exists():
    names = list(named_objects())
    assert len(names) > 100
    missing = [f"{page}: {name}" for page, module, name in names if not exists(module, name)]
    assert not missing


def exists(module, name):
    """Whether there is an object of this name in the module or, if that is its full name, anywhere."""
    for full in (f"{module}.{name}", name):
        try:
            resolve_name(full)
        except (ImportError, AttributeError, ValueError):
            continue
        return True
    return False
