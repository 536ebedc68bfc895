"""Options that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Anchors",
    "Arcsinh",
    "AsJson",
    "Backed",
    "BatchKey",
    "Debug",
    "Device",
    "Engine",
    "Force",
    "Genes",
    "KeyAdded",
    "Layer",
    "Links",
    "Method",
    "ModelIn",
    "NVars",
    "Normalize",
    "ObsColumns",
    "Params",
    "Peaks",
    "Quiet",
    "Scheduler",
    "Seed",
    "Strict",
    "Transpose",
    "UseRep",
]

_INPUT, _FIT, _RUN = "Reading", "Alignment", "Running"


def _methods() -> list[str]:
    return ["refined", "paper"]


def _devices() -> list[str]:
    return ["auto", "cpu", "cuda"]


def _engines() -> list[str]:
    return ["memory", "dask"]


BatchKey = Annotated[
    str | None,
    typer.Option(
        "--batch-key",
        "-b",
        help="With one input: the column of obs that identifies the datasets.",
        rich_help_panel=_INPUT,
    ),
]
Backed = Annotated[
    bool, typer.Option("--backed", help="Leave the matrices of h5ad files on disk.", rich_help_panel=_INPUT)
]
ObsColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--obs",
        help="In tables: a numeric column that annotates rows; may be repeated. Text columns always do.",
        rich_help_panel=_INPUT,
    ),
]
Transpose = Annotated[
    bool,
    typer.Option(
        "--transpose", help="In tables: rows are features, columns are cells.", rich_help_panel=_INPUT
    ),
]
Arcsinh = Annotated[
    float | None,
    typer.Option(
        "--arcsinh",
        metavar="COFACTOR",
        help="Take arcsinh(X / COFACTOR), as for cytometry.",
        rich_help_panel=_INPUT,
    ),
]
UseRep = Annotated[
    str | None,
    typer.Option("--use-rep", help="Entry of obsm to build graphs on, such as X_pca.", rich_help_panel=_FIT),
]
Layer = Annotated[
    str | None, typer.Option("--layer", help="Layer to use instead of X.", rich_help_panel=_FIT)
]
NVars = Annotated[
    str | None,
    typer.Option("--n-vars", help="Number of shared features to use, or 'all'.", rich_help_panel=_FIT),
]
Normalize = Annotated[
    bool,
    typer.Option(
        "--normalize", help="Scale counts to equal totals and take log(1 + x).", rich_help_panel=_FIT
    ),
]
Links = Annotated[
    Path | None,
    typer.Option(
        "--links",
        help="Table of related features: name, name and optionally a weight.",
        rich_help_panel=_FIT,
    ),
]
Peaks = Annotated[
    str | None,
    typer.Option("--peaks", help="Dataset whose features are peaks of chromatin.", rich_help_panel=_FIT),
]
Genes = Annotated[
    Path | None,
    typer.Option(
        "--genes", help="With --peaks: GTF file or table with gene positions.", rich_help_panel=_FIT
    ),
]
Anchors = Annotated[
    str | None,
    typer.Option("--anchors", help="'obs_names': rows with the same name match.", rich_help_panel=_FIT),
]
KeyAdded = Annotated[
    str, typer.Option("--key-added", help="Name under which results are stored.", rich_help_panel=_FIT)
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        help="'refined', or 'paper' for the published method.",
        autocompletion=_methods,
        rich_help_panel=_FIT,
    ),
]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="NAME=VALUE",
        help="Any parameter of HarmonicAlignment; may be repeated.",
        rich_help_panel=_FIT,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device", help="Where to compute: cpu, cuda or auto.", autocompletion=_devices, rich_help_panel=_FIT
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        help="'memory', or 'dask' for zarr and h5ad files larger than memory, read and written in blocks.",
        autocompletion=_engines,
        rich_help_panel=_FIT,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="With --engine dask: a Dask scheduler; by default the threads of this process.",
        rich_help_panel=_FIT,
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed.", rich_help_panel=_FIT)]
ModelIn = Annotated[
    Path | None,
    typer.Option(
        "--model",
        "-m",
        help="Model that align saved; without it the inputs are aligned first.",
        rich_help_panel=_FIT,
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing files.", rich_help_panel=_RUN)]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Exit with code 3 if the alignment is not significant or was not tested.",
        rich_help_panel=_RUN,
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.", rich_help_panel=_RUN)
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print only JSON on standard output.", rich_help_panel=_RUN),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.", rich_help_panel=_RUN)]
