"""`reproduce`: one experiment of the paper, or all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from harmonicalign._typing import PathLike
from harmonicalign.experiments._figures import figure
from harmonicalign.experiments._runner import Experiment, Plan, Report, run
from harmonicalign.inputs.validate import check_integer

__all__ = ["NAMES", "describe", "reproduce"]

_EXPERIMENTS = (
    "corruption",
    "reconstruction",
    "size",
    "transfer",
    "batch",
    "fusion",
    "multi",
    "chunks",
    "manifolds",
)

NAMES = (*_EXPERIMENTS, "all")
"""Names that `reproduce` knows."""


def describe() -> dict[str, str]:
    """Every experiment's name, with what it shows in one line."""
    return {name: _experiment(name).title for name in _EXPERIMENTS}


def reproduce(
    name: str,
    *,
    data: PathLike | Sequence[PathLike] | None = None,
    seeds: int | None = None,
    quick: bool = False,
    out: PathLike = "reproduce-output",
    jobs: int = 1,
    progress: bool = True,
    markers: Sequence[str] = (),
) -> list[Report]:
    """Run an experiment of the paper; write its numbers and figures.

    What was measured is kept, cell by cell: after an interruption the same call continues.

    Parameters
    ----------
    name
        One of `NAMES`; "all" for every experiment.
    data
        File or files, or a folder of data sets. By default MNIST comes from OpenML and the others from the
        folder that the environment variable ``HARMONICALIGN_DATA`` names. `batch` takes any two or more FCS,
        CSV or h5ad files with shared markers, `fusion` any h5mu file with two modalities or two h5ad files
        with the same cells.
    seeds
        Repeats; by default the experiment's own number.
    quick
        Small data from scikit-learn or simulated; all experiments take minutes.
    out
        Folder; every experiment gets one of its own inside.
    jobs
        Processes at a time.
    progress
        Show progress on standard error.
    markers
        For `batch`: the two markers to draw; by default those that differ most.

    Returns
    -------
    reports
        One for each experiment: its folder, files and tables.

    Raises
    ------
    ValueError
        If the name or a parameter is wrong, or (its subclass `DataError`) if data are missing, unreadable or
        do not fit together. Nothing has been written then.

    Examples
    --------
    >>> from harmonicalign.experiments import reproduce
    >>> [report] = reproduce("manifolds", quick=True, out="my-results")  # doctest: +SKIP
    >>> print(report.summary)  # doctest: +SKIP
    """
    if name not in NAMES:
        raise ValueError(f"name is {name!r}; the experiments are {', '.join(NAMES)}")
    if seeds is not None:
        seeds = check_integer("seeds", seeds, minimum=1)
    jobs = check_integer("jobs", jobs, minimum=1)
    named = () if data is None else (data,) if isinstance(data, str | os.PathLike) else tuple(data)
    plan = Plan(quick, seeds, tuple(os.fspath(path) for path in named), tuple(markers))
    if quick and plan.data:
        raise ValueError("the quick form has data of its own; leave out data, or quick")
    figure()  # raises now, rather than after hours, if matplotlib is missing
    # All data are checked before the first experiment starts.
    chosen = [_experiment(n) for n in (_EXPERIMENTS if name == "all" else (name,))]
    planned = [(experiment, experiment.cells(plan)) for experiment in chosen]
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out is {str(folder)!r}, which is a file; name a folder")
    return [
        run(experiment, plan, cells, folder / experiment.name, jobs=jobs, progress=progress)
        for experiment, cells in planned
    ]


def _experiment(name: str) -> Experiment:
    experiment: Experiment = import_module(f"harmonicalign.experiments.{name}").EXPERIMENT
    return experiment
