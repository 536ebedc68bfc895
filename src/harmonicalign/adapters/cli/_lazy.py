"""``align --engine dask``: files of any size, read, aligned and written block by block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harmonicalign.adapters import io
from harmonicalign.adapters.cli._fit import Fit
from harmonicalign.adapters.cli._inputs import Source, parameters
from harmonicalign.adapters.cli._results import Writing, beside, check_targets
from harmonicalign.adapters.cli._session import Session
from harmonicalign.adapters.cli._verdict import assessed, conclude

__all__ = ["align_lazily", "check_engine"]

_FORMATS = ("zarr", "h5ad")


def check_engine(engine: str, scheduler: str | None) -> None:
    """Check the options that say where to compute."""
    if engine not in ("memory", "dask"):
        raise ValueError(f"--engine is {engine!r}; expected 'memory' or 'dask'")
    if scheduler is not None and engine != "dask":
        raise ValueError("--scheduler needs --engine dask")


def align_lazily(
    run: Session,
    inputs: Sequence[Source],
    fit: Fit,
    *,
    scheduler: str | None,
    out: Path | None,
    model_file: Path | None,
    unused: dict[str, Any],
    force: bool,
) -> None:
    """Align matrices in Zarr stores or h5ad files on a Dask cluster; nothing is held in memory as a whole.

    Parameters
    ----------
    run
        The session.
    inputs
        The files.
    fit
        How to align.
    scheduler
        Address of a Dask scheduler; None for the threads of this process.
    out
        A Zarr store to write, with the coordinates of every dataset as an array of its name.
    model_file
        Where to save the model with its landmarks, or None.
    unused
        Other options by name, none of which may be set.
    force
        Overwrite existing files.
    """
    key, options = _checked(inputs, fit, unused)
    out = out or beside(inputs[0].path, ".aligned.zarr")
    targets = {"out": out} | ({} if model_file is None else {"model": model_file})
    check_targets(targets, {"out": (".zarr",), "model": (".npz",)}, force)
    # Dask is loaded here only, for other commands start without it.
    from harmonicalign.adapters.distributed import open_lazy, write_embedding
    from harmonicalign.adapters.distributed.blocks import connect
    from harmonicalign.estimator import HarmonicAlignment

    client = connect(scheduler)
    try:
        with run.stages.stage("opening"):
            try:
                rows = {source.name: open_lazy(source.path.resolve(), key) for source in inputs}
            except KeyError as error:  # its message says what there is
                raise ValueError(str(error.args[0])) from error
        model = HarmonicAlignment(random_state=fit.seed, **options)
        with run.stages.stage("fit on the cluster"):
            model.fit(rows, client=client)
        with Writing(run, targets, force) as results:
            with results.to("out") as store:
                for name, values in zip(model.keys_, model.embedding_, strict=True):
                    write_embedding(values, store.resolve(), str(name), client=client)
            if model_file is not None:
                with results.to("model") as file:
                    model.in_memory().save(file)
        _tell(run, model, rows, targets)
    finally:
        if client is not None:
            client.close()


def _checked(inputs: Sequence[Source], fit: Fit, unused: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The matrix to read of every file, and parameters of the estimator."""
    given = [option for option, value in unused.items() if value]
    if given:
        raise ValueError(
            f"--engine dask does not use {', '.join(given)}; leave it out, or prepare the matrix in the file"
        )
    for source in inputs:
        kind = io.find_format(source.path).name
        if kind not in _FORMATS or source.key is not None:
            raise ValueError(
                f"{source.path} cannot be read block by block; --engine dask takes .zarr stores and .h5ad "
                "files, of which --use-rep or --layer names the matrix"
            )
    if len(inputs) < 2:
        raise ValueError("--engine dask needs two or more files, one for each dataset")
    if fit.use_rep is not None and fit.layer is not None:
        raise ValueError("--use-rep and --layer both name a matrix; give one of them")
    options = parameters(fit.params, fit.method)
    if fit.device is not None:
        options["device"] = fit.device
    if fit.use_rep is not None:
        return f"obsm/{fit.use_rep}", options
    return ("X" if fit.layer is None else f"layers/{fit.layer}"), options


def _tell(run: Session, model: Any, rows: dict[str, Any], written: dict[str, Path]) -> None:
    sizes = {name: int(x.shape[0]) for name, x in rows.items()}
    verdict = conclude(run, assessed(run, model.in_memory()))
    run.say("  datasets: " + ", ".join(f"{name} ({n} rows)" for name, n in sizes.items()))
    for path in written.values():
        run.say(f"  wrote {path}")
    run.finish(
        **verdict,
        datasets=sizes,
        coordinates=int(model.fitted_.width),
        stages=model.timings_,
        files=written,
    )
