"""The commands on two files of 25,000 cells: time, size of the report, and one set of figures.

    python benchmarks/commands.py
    python benchmarks/commands.py --cells 2000 --only check
    python benchmarks/commands.py --keep FOLDER       # leaves the files and the report there

Prints seconds of ``check`` and ``align``, on the clock and of the processors (which hardly depend on what
else the machine does), the report's megabytes, and whether the verdict and the figures of the JSON, of the
report and of Python are the same; a difference is an error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

import harmonicalign
from harmonicalign import io, scverse
from harmonicalign.verdict import assess

N_GENES, N_KINDS, BLOCK = 2000, 8, 2000


def counts(n: int, batch: int) -> anndata.AnnData:
    """Sparse counts of a batch, made block by block."""
    profiles = np.random.RandomState(0).gamma(0.2, 1, (N_KINDS, N_GENES))
    rng = np.random.RandomState(batch)
    effect = np.exp(rng.normal(0, 0.4, N_GENES))
    kind = rng.randint(0, N_KINDS, n)
    blocks = []
    for start in range(0, n, BLOCK):
        rate = profiles[kind[start : start + BLOCK]] * effect
        rate *= rng.lognormal(7, 0.3, len(rate))[:, None] / rate.sum(axis=1, keepdims=True)
        blocks.append(sp.csr_matrix(rng.poisson(rate).astype(np.float32)))
    obs = pd.DataFrame({"kind": pd.Categorical([f"kind {k}" for k in kind])},
                       index=[f"b{batch}c{i}" for i in range(n)])  # fmt: skip
    return anndata.AnnData(
        sp.vstack(blocks, format="csr"), obs=obs, var=pd.DataFrame(index=[f"GENE{i}" for i in range(N_GENES)])
    )


def run(*arguments: Any) -> tuple[dict[str, Any], str]:
    """The result of a command, and its seconds in words."""
    start, before = time.perf_counter(), os.times()
    line = [sys.executable, "-m", "harmonicalign.adapters.cli", *map(str, arguments), "--json"]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    now = os.times()
    spent = now.children_user + now.children_system - before.children_user - before.children_system
    return json.loads(done.stdout), f"{time.perf_counter() - start:6.1f} s, {spent:6.1f} s of processors"


def main() -> None:
    """Make the files, run the commands, compare what they say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=25_000, help="cells of each file")
    parser.add_argument("--only", choices=["check"], help="stop after this command")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the files there")
    options = parser.parse_args()
    with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        files = [io.write(counts(options.cells, i), folder / f"{name}.h5ad") for i, name in enumerate("ab")]
        found, seconds = run("check", *files)
        print(f"check   {seconds}   expects {found['seconds_expected']} s")
        if options.only == "check":
            return
        out, model_file = folder / "out.h5ad", folder / "model.npz"
        result, seconds = run("align", *files, "-l", "kind", "-o", out, "-m", model_file)
        page = out.with_suffix(".html")
        size = page.stat().st_size / 1e6
        print(f"align   {seconds}   report {size:.1f} MB   {result['verdict']['headline']}")
        facts = json.loads(re.search(r'id="facts">(.*?)</script>', page.read_text(), re.S)[1])  # type: ignore[index]
        if facts["verdict"] != result["verdict"]:
            raise SystemExit("the report and the JSON have different verdicts")
        data, model = io.read(out), harmonicalign.load(model_file)
        kinds = [data.obs["kind"][data.obs["dataset"] == key].astype(str).to_numpy() for key in model.keys_]
        found = assess(model, labels={"kind": kinds}).verdict
        if (found.headline, found.sentences) != tuple(
            result["verdict"][k] for k in ("headline", "sentences")
        ):
            raise SystemExit("Python and the JSON have different verdicts")
        again = scverse.score(data, model, "kind")
        for name, value in again.items():
            if not np.isclose(value, result["scores"][name]):
                raise SystemExit(f"{name}: {value} in Python, {result['scores'][name]} on the command line")
        print("one verdict, one set of figures:", {k: round(v, 3) for k, v in again.items() if " " not in k})


if __name__ == "__main__":
    main()
