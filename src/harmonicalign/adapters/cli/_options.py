"""Options that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = [
    "Anchors",
    "Arcsinh",
    "AsJson",
    "Backed",
    "BatchKey",
    "Command",
    "Covariates",
    "Debug",
    "Device",
    "Engine",
    "Files",
    "Force",
    "Genes",
    "Group",
    "KeyAdded",
    "Layer",
    "Links",
    "Method",
    "ModelIn",
    "NVars",
    "Normalize",
    "ObsColumns",
    "OverwriteInput",
    "Params",
    "Peaks",
    "Quiet",
    "Scheduler",
    "Seed",
    "Strict",
    "Transpose",
    "UseRep",
    "VarKey",
]

_INPUT, _FIT, _RUN = "Reading", "Alignment", "Running"


class _PlainHelp:
    """Help that shows no type beside options that are switches."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class Command(_PlainHelp, TyperCommand):
    """A command of the application."""


class Group(_PlainHelp, TyperGroup):
    """The application."""


def _methods() -> list[str]:
    return ["refined", "paper"]


def _devices() -> list[str]:
    return ["auto", "cpu", "cuda"]


def _engines() -> list[str]:
    return ["memory", "dask"]


def _normalizations() -> list[str]:
    return ["auto", "all", "none"]


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES",
        help="Inputs as for align; with --model the aligned data that align wrote beside it.",
    ),
]
BatchKey = Annotated[
    str | None,
    typer.Option(
        "--batch-key",
        "-b",
        metavar="COLUMN",
        help="With one input: the column of obs that identifies the datasets.",
        rich_help_panel=_INPUT,
    ),
]
VarKey = Annotated[
    str | None,
    typer.Option(
        "--var-key",
        metavar="COLUMN",
        help="Column of var to match features by instead of their names, such as gene_ids.",
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
        metavar="COLUMN",
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
    typer.Option(
        "--use-rep",
        metavar="NAME",
        help="Entry of obsm to build graphs on, such as X_pca.",
        rich_help_panel=_FIT,
    ),
]
Layer = Annotated[
    str | None,
    typer.Option("--layer", metavar="NAME", help="Layer to use instead of X.", rich_help_panel=_FIT),
]
NVars = Annotated[
    str | None,
    typer.Option(
        "--n-vars",
        metavar="NUMBER",
        help="Number of shared features to use, or 'all'. Default: those marked as highly variable; else "
        "all, or the 2,000 most variable of more than 4,000.",
        rich_help_panel=_FIT,
    ),
]
Normalize = Annotated[
    list[str] | None,
    typer.Option(
        "--normalize",
        metavar="WHICH",
        help="Datasets to scale to equal totals and take log(1 + x) of: 'auto' (default) those that hold "
        "counts, 'all', 'none', or the name of one; may be repeated.",
        autocompletion=_normalizations,
        rich_help_panel=_FIT,
    ),
]
Links = Annotated[
    Path | None,
    typer.Option(
        "--links",
        metavar="FILE",
        help="Table of related features: name, name and optionally a weight.",
        rich_help_panel=_FIT,
    ),
]
Peaks = Annotated[
    str | None,
    typer.Option(
        "--peaks",
        metavar="NAME",
        help="Dataset whose features are peaks of chromatin.",
        rich_help_panel=_FIT,
    ),
]
Genes = Annotated[
    Path | None,
    typer.Option(
        "--genes",
        metavar="FILE",
        help="With --peaks: GTF file or table with gene positions.",
        rich_help_panel=_FIT,
    ),
]
Anchors = Annotated[
    str | None,
    typer.Option(
        "--anchors",
        metavar="obs_names",
        help="'obs_names': rows of the same name are the same cell.",
        rich_help_panel=_FIT,
    ),
]
Covariates = Annotated[
    list[str] | None,
    typer.Option(
        "--covariate",
        metavar="COLUMN",
        help="Column of obs whose differences are to be kept, such as a treatment; may be repeated.",
        rich_help_panel=_FIT,
    ),
]
KeyAdded = Annotated[
    str,
    typer.Option(
        "--key-added", metavar="NAME", help="Name under which results are stored.", rich_help_panel=_FIT
    ),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
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
        "--device",
        metavar="NAME",
        help="Where to compute: cpu, cuda or auto.",
        autocompletion=_devices,
        rich_help_panel=_FIT,
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
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
Seed = Annotated[
    int, typer.Option("--seed", metavar="NUMBER", min=0, help="Random seed.", rich_help_panel=_FIT)
]
ModelIn = Annotated[
    Path | None,
    typer.Option(
        "--model",
        "-m",
        metavar="FILE",
        help="Model that align saved; without it the inputs are aligned first.",
        rich_help_panel=_FIT,
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing files.", rich_help_panel=_RUN)]
OverwriteInput = Annotated[
    bool,
    typer.Option(
        "--overwrite-input",
        help="Let a result take the place of an input, which --force alone does not.",
        rich_help_panel=_RUN,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Exit with code 3 unless the verdict is 'Aligned', without doubts.",
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
