"""The application with all commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from harmonicalign._version import __version__
from harmonicalign.adapters.cli._groups import flat
from harmonicalign.adapters.cli._options import Command, Group
from harmonicalign.adapters.cli._session import EXIT_CODES
from harmonicalign.adapters.cli.align import align
from harmonicalign.adapters.cli.check import check
from harmonicalign.adapters.cli.features import correct, denoise, impute
from harmonicalign.adapters.cli.info import info
from harmonicalign.adapters.cli.mapping import map_query
from harmonicalign.adapters.cli.reports import report
from harmonicalign.adapters.cli.studies import compare, demo, reproduce
from harmonicalign.adapters.cli.transfer import transfer

__all__ = ["app"]


def _paragraphs(title: str, lines: list[str]) -> str:
    """Lines separated by blank lines, without which the help would join them."""
    return "\n\n".join([f"[bold]{title}[/bold]", *(f"  {line}" for line in lines)])


_CODES = _paragraphs("Exit codes", [f"{code:>3}  {meaning}" for code, meaning in EXIT_CODES.items()])

_EXAMPLES = {
    "check": [
        "harmonicalign check ref.h5ad query.h5ad",
        "harmonicalign check cells.h5ad --batch-key donor",
        "harmonicalign check a.h5ad b.h5ad --var-key gene_ids",
    ],
    "align": [
        "harmonicalign align ref.h5ad query.h5ad",
        "harmonicalign align cells.h5ad --batch-key donor --labels cell_type --out aligned.h5ad",
        "harmonicalign align cells.h5ad --batch-key plate --covariate treatment",
        "harmonicalign align day1.fcs day2.fcs --arcsinh 5 --out aligned.parquet",
        "harmonicalign align rna=rna.h5ad protein=adt.csv.gz --links genes_to_proteins.csv",
        "harmonicalign align counts.h5ad log.h5ad --normalize counts --strict",
        "harmonicalign align multi.h5mu --model model.npz --no-report --json",
        "harmonicalign align data.npz::first data.npz::second --param n_pca=30 --seed 1",
    ],
    "transfer": [
        "harmonicalign transfer ref.h5ad query.h5ad --labels cell_type",
        "harmonicalign transfer cells.aligned.h5ad -b donor --model model.npz -l cell_type --target donor3",
    ],
    "correct": [
        "harmonicalign correct ref.h5ad query.h5ad --reference ref --out corrected.h5ad",
        "harmonicalign correct cells.h5ad --batch-key donor --out corrected.csv.gz",
    ],
    "denoise": [
        "harmonicalign denoise cells.h5ad --batch-key donor --var CD3E --var CD19 --out smooth.csv",
        "harmonicalign denoise cells.aligned.h5ad --model model.npz",
    ],
    "impute": [
        "harmonicalign impute rna.h5ad spatial.h5ad --source rna --out predicted.h5ad",
        "harmonicalign impute rna.h5ad spatial.h5ad --source rna --var GAD1 --var SST",
    ],
    "map": [
        "harmonicalign map model.npz new.h5ad --reference aligned.h5ad --labels cell_type",
        "harmonicalign map model.npz more.h5ad --dataset donor1 --out more.csv",
    ],
    "compare": [
        "harmonicalign compare a.h5ad b.h5ad --labels cell_type",
        "harmonicalign compare cells.h5ad -b donor -l cell_type --method mnn --picture methods.png",
    ],
    "report": [
        "harmonicalign report model.npz",
        "harmonicalign report model.npz aligned.h5ad --labels cell_type --out report.html",
    ],
    "reproduce": [
        "harmonicalign reproduce all --quick",
        "harmonicalign reproduce corruption --data mnist.npz --jobs 4",
        "harmonicalign reproduce batch --data before.fcs --data after.fcs",
    ],
    "demo": ["harmonicalign demo --out demo-output"],
    "info": ["harmonicalign info", "harmonicalign info cells.h5ad model.npz", "harmonicalign info --json"],
}

app = typer.Typer(
    name="harmonicalign",
    cls=Group,
    help="Align datasets by Harmonic Alignment.\n\n"
    "Inputs are h5ad, h5mu, zarr, csv, tsv (also .gz), parquet, npy, npz or FCS files, or folders with "
    "matrix.mtx. [bold]name=file[/bold] names a dataset; [bold]file::matrix[/bold] takes one matrix of an "
    "npz or one modality of an h5mu.",
    epilog=_CODES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_COMMANDS: dict[str, Callable[..., None]] = {
    "check": check,
    "align": align,
    "transfer": transfer,
    "map": map_query,
    "correct": correct,
    "denoise": denoise,
    "impute": impute,
    "report": report,
    "compare": compare,
    "info": info,
    "demo": demo,
    "reproduce": reproduce,
}


def _flowing(text: str) -> str:
    """Paragraphs without the line breaks of the source, which would stay in the middle of lines."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


for _name, _command in _COMMANDS.items():
    _examples = _paragraphs("Examples", _EXAMPLES[_name])
    _help = _flowing(inspect.getdoc(_command) or "")
    app.command(_name, cls=Command, help=_help, epilog=f"{_examples}\n\n{_CODES}")(flat(_command))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"harmonicalign {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
