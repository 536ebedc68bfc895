"""Install the wheel in fresh environments, and do there what users do first.

    python benchmarks/installs.py                 # this Python; no extras, scverse, cli
    python benchmarks/installs.py --pythons python3.11 python3.12 python3.13 --extras none scverse cli all
    python benchmarks/installs.py --lowest        # every dependency at its stated lower bound
    python benchmarks/installs.py --components --pythons python3.11     # those of Open Problems

Prints a line for every environment and exits with 1 if one of them cannot be installed or fails. The wheel is
built from this checkout. With ``all`` torch is installed, in the build that `--torch` names. With
``--components`` an environment has what the components' ``config.vsh.yaml`` installs and nothing else, and
their scripts are run by it on the files of `tests/ecosystem/test_components.py` (which needs pytest here).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]

PLAIN = """
from harmonicalign import HarmonicAlignment
from harmonicalign.datasets import load_digits_pair

pair = load_digits_pair(preserved=0.7, n_x=150, n_y=140, random_state=0)
model = HarmonicAlignment(random_state=0).fit({"a": pair.x, "b": pair.y})
assert model.significance_.p < 0.05
assert (model.transfer(pair.labels_x, source="a", target="b").labels == pair.labels_y).mean() > 0.7
model.correct(reference="a"), model.denoise()
assert HarmonicAlignment.load(model.save("model.npz")).keys_ == ["a", "b"]
HarmonicAlignment(method="paper", random_state=0).fit([pair.x, pair.y])
"""

ANNDATA = """
import anndata
from harmonicalign import scverse

parts = {}
for name, rows, labels in (("a", pair.x, pair.labels_x), ("b", pair.y, pair.labels_y)):
    parts[name] = anndata.AnnData(rows.astype("float32") / 16)
    parts[name].obs_names = [f"{name}{i}" for i in range(len(rows))]
    parts[name].var_names = [f"pixel{j}" for j in range(64)]
    parts[name].obs["digit"] = labels.astype(str)
    parts[name].write_h5ad(f"{name}.h5ad")
scverse.concat(parts, scverse.align(parts)).write_h5ad("joined.h5ad")
"""

COMMANDS = (
    "--version",
    "check a.h5ad b.h5ad",
    "align a.h5ad b.h5ad --labels digit --out aligned.h5ad --model model.npz --force",
    "info aligned.h5ad model.npz",
    "map model.npz a.h5ad --name new --reference aligned.h5ad --labels digit --out new.csv",
    "compare a.h5ad b.h5ad --labels digit --method none --method mnn",
)


def run(line: Sequence[str | Path], folder: Path) -> None:
    """Run a line; what it says is shown only if it fails."""
    done = subprocess.run([str(word) for word in line], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, line))[:100]}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")


def lowest(uv: Path, python: Path, extra: str, pinned: Sequence[str], folder: Path) -> None:
    """Install an extra's dependencies at their lower bounds, or the first versions that this Python has."""
    chosen = [] if extra == "none" else ["--extra", extra]
    line = [uv, "pip", "install", "--quiet", "--python", python, "--only-binary", ":all:"]
    line += ["--resolution", "lowest-direct", "-r", ROOT / "pyproject.toml", *chosen, *pinned]
    run(line, folder)


def attempt(
    wheel: Path, python: str, extra: str, pinned: Sequence[str], folder: Path, uv: Path | None = None
) -> None:
    """Make an environment, install (with `uv` lower bounds), use the package as far as the extra goes."""
    run([python, "-m", "venv", "env"], folder)
    inside = folder / "env" / "bin"
    name = str(wheel) if extra == "none" else f"{wheel}[{extra}]"
    if uv is not None:
        lowest(uv, inside / "python", extra, pinned, folder)
    run([inside / "python", "-m", "pip", "install", "--quiet", name, *pinned], folder)
    run([inside / "python", "-m", "pip", "check"], folder)
    code = PLAIN if extra in ("none", "gpu", "report") else PLAIN + ANNDATA
    run([inside / "python", "-c", code], folder)
    for line in COMMANDS if extra in ("cli", "all") else ():
        run([inside / "harmonicalign", *line.split()], folder)


def components(wheel: Path, python: str, folder: Path) -> None:
    """Run the components of Open Problems in an environment with what they install."""
    run([python, "-m", "venv", "env"], folder)
    inside = folder / "env" / "bin" / "python"
    configs = sorted((ROOT / "ecosystem" / "openproblems").glob("*/config.vsh.yaml"))
    wanted = {
        line
        for config in configs
        for block in re.findall(r"pypi:\n((?:\s+- \S+\n)+)", config.read_text(encoding="utf-8"))
        for line in re.findall(r"- (\S+)", block)
    }
    own = {re.sub(r"^harmonicalign(\[.*\])?.*", rf"{wheel}\1", line) for line in wanted}
    run([inside, "-m", "pip", "install", "--quiet", *sorted(own)], folder)
    os.environ["HARMONICALIGN_COMPONENT_PYTHON"] = str(inside)
    run([sys.executable, "-m", "pytest", "-q", ROOT / "tests" / "ecosystem" / "test_components.py"], ROOT)


def main() -> int:
    """Try every Python with every extra."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", nargs="+", default=[sys.executable])
    parser.add_argument("--extras", nargs="+", default=["none", "scverse", "cli"])
    parser.add_argument("--lowest", action="store_true", help="dependencies at their lower bounds")
    parser.add_argument("--components", action="store_true", help="the scripts for Open Problems")
    parser.add_argument("--torch", default="torch", help="what to install for torch, such as torch==2.13.0")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        run([sys.executable, "-m", "venv", "build"], Path(place))
        builder = Path(place) / "build" / "bin" / "python"
        tools = ["build", "uv"] if options.lowest else ["build"]
        run([builder, "-m", "pip", "install", "--quiet", *tools], Path(place))
        uv = builder.parent / "uv" if options.lowest else None
        run([builder, "-m", "build", "--wheel", "--outdir", place, ROOT], Path(place))
        (wheel,) = Path(place).glob("*.whl")
        for python in options.pythons:
            for extra in ["components"] if options.components else options.extras:
                pinned = [options.torch] if extra in ("all", "gpu") else []
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        if options.components:
                            components(wheel, python, Path(folder))
                        else:
                            attempt(wheel, python, extra, pinned, Path(folder), uv)
                        said = "works"
                    except RuntimeError as error:
                        failed, said = failed + 1, f"fails: {error}"
                print(f"{python} {extra:8} {said}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
