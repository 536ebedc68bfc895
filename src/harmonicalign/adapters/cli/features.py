"""``correct``, ``denoise`` and ``impute``: features after an alignment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from harmonicalign.adapters import io
from harmonicalign.adapters.cli import _options as options
from harmonicalign.adapters.cli._fit import Fit, aligned
from harmonicalign.adapters.cli._groups import FITTING, READING, RUNNING, Fitting, Reading, Running
from harmonicalign.adapters.cli._inputs import (
    Source,
    check_features,
    check_names,
    dataset_names,
    load,
    reading_plan,
    sources,
)
from harmonicalign.adapters.cli._results import Writing, beside, check_targets, joined, keeps_everything
from harmonicalign.adapters.cli._session import Session
from harmonicalign.adapters.cli._verdict import assessed, conclude, say_files

__all__ = ["correct", "denoise", "impute"]

_Variables = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME", help="Feature; may be repeated. By default see above."),
]


def correct(
    files: options.Files,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Default: FIRST.corrected.h5ad."),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", "-r", metavar="NAME", help="Reference dataset; default the largest."),
    ] = None,
    model_file: options.ModelIn = None,
    reading: Reading = READING,
    fitting: Fitting = FITTING,
    running: Running = RUNNING,
) -> None:
    r"""Correct the features of all datasets to match a reference dataset, in original units.

    h5ad and zarr get them in layers\["harmonic_corrected"] beside the original data; other formats hold
    the corrected features alone.
    """
    with running.session("correct") as run:
        fit = Fit.of(reading, fitting)
        inputs, out = _places(run, files, out, ".corrected.h5ad", model_file, running)
        data = load(run, inputs, **vars(reading), alignment=fit.key_added if model_file else None)
        check_names([reference], dataset_names(data, fit.batch_key, fit.key_added), "--reference")
        data, model = aligned(run, fit, data, inputs, model_file)
        from harmonicalign.adapters import scverse

        added = "harmonic_corrected"
        with run.stages.stage("correction"):
            scverse.correct(data, model, reference=reference, layer_added=added, alignment=fit.key_added)
        _write_layer(run, data, model, out, fit.key_added, added, running.force)
        _tell(run, model, out, running.strict)


def denoise(
    files: options.Files,
    variables: _Variables = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Default: FIRST.denoised.h5ad."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", metavar="NUMBER", min=1, help="Steps of the diffusion; chosen by default."),
    ] = None,
    model_file: options.ModelIn = None,
    reading: Reading = READING,
    fitting: Fitting = FITTING,
    running: Running = RUNNING,
) -> None:
    r"""Smooth features by diffusion over the rows of all datasets.

    Without --var all features are smoothed: h5ad and zarr get them in layers\["harmonic_denoised"] beside the
    original data (dense, so name some where there are many), other formats hold them alone. With --var the
    file holds those features alone.
    """
    with running.session("denoise") as run:
        fit = Fit.of(reading, fitting)
        inputs, out = _places(run, files, out, ".denoised.h5ad", model_file, running)
        data = load(run, inputs, **vars(reading), alignment=fit.key_added if model_file else None)
        check_features(data, variables)
        data, model = aligned(run, fit, data, inputs, model_file)
        from harmonicalign.adapters import scverse

        added = "harmonic_denoised"
        with run.stages.stage("smoothing"):
            found = scverse.denoise(
                data, model, variables, t=steps or "auto", key_added=added, alignment=fit.key_added
            )
            t = next(iter(found.values())).t
        if variables:
            _write_table(run, data, out, fit.key_added, added, running.force)
        else:
            _write_layer(run, data, model, out, fit.key_added, added, running.force)
        run.say(f"{t} step{'s' if t > 1 else ''} of diffusion")
        _tell(run, model, out, running.strict, steps=t)


def impute(
    files: options.Files,
    source: Annotated[
        str, typer.Option("--source", "-s", metavar="NAME", help="Dataset that has the features.")
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", metavar="NAME", help="Dataset to predict them for; by default all others."
        ),
    ] = None,
    variables: _Variables = None,
    neighbors: Annotated[
        int,
        typer.Option(
            "--neighbors", metavar="NUMBER", min=1, help="Rows of the source that a prediction is drawn from."
        ),
    ] = 15,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Default: FIRST.imputed.h5ad."),
    ] = None,
    model_file: options.ModelIn = None,
    reading: Reading = READING,
    links: options.Links = None,
    fitting: Fitting = FITTING,
    running: Running = RUNNING,
) -> None:
    r"""Predict features that a dataset lacks from another dataset that has them.

    By default all features that the target lacks (of more than 4,000 the 2,000 most variable). The file holds
    the predictions alone, a row for every row of the target; in h5ad, var\["correlation"] says how well each
    feature is predicted within the source. Pass the inputs of align, not the joined file that it wrote, which
    keeps shared features only.
    """
    with running.session("impute") as run:
        fit = Fit.of(reading, fitting, links=links)
        inputs, out = _places(run, files, out, ".imputed.h5ad", model_file, running)
        data = load(run, inputs, **vars(reading), alignment=fit.key_added if model_file else None)
        names = dataset_names(data, fit.batch_key, fit.key_added)
        check_names([source], names, "--source")
        check_names([target], names, "--target")
        check_features(data, variables)
        data, model = aligned(run, fit, data, inputs, model_file)
        from harmonicalign.adapters import scverse

        added = "harmonic_imputed"
        with run.stages.stage("prediction"):
            found = scverse.impute(
                data, model, source=source, target=target, variables=variables or None,
                n_neighbors=neighbors, key_added=added, alignment=fit.key_added,
            )  # fmt: skip
        _write_table(run, data, out, fit.key_added, added, running.force)
        quality = {str(key): float(np.mean(one.correlation)) for key, one in found.items()}
        for key, mean in quality.items():
            width = found[next(k for k in found if str(k) == key)].values.shape[1]
            run.say(f"{key}: {width:,} features predicted; mean correlation within {source} {mean:.2f}")
        _tell(run, model, out, running.strict, correlation=quality)


def _places(
    run: Session,
    files: Sequence[str],
    out: Path | None,
    ending: str,
    model_file: Path | None,
    running: Running,
) -> tuple[list[Source], Path]:
    """Inputs and target, checked."""
    inputs = sources(files)
    out = out or beside(inputs[0].path, ending)
    known = [*(s.path for s in inputs), model_file]
    check_targets({"out": out}, {}, running.force, known, running.overwrite_input)
    run.stages.expect([*reading_plan(inputs), ("correction", 3.0), ("writing", 1.0)])
    return inputs, out


def _write_layer(
    run: Session, data: Any, model: Any, out: Path, alignment: str, layer: str, force: bool
) -> None:
    """All data with the layer, or the layer alone where the format holds one matrix."""
    with Writing(run, {"out": out}, force) as results, results.to("out") as file:
        whole = joined(data, model, alignment)
        io.write(whole if keeps_everything(out) else _only(whole, alignment, layer), file)


def _write_table(run: Session, data: Any, out: Path, alignment: str, slot: str, force: bool) -> None:
    """Features in an entry of obsm, of all datasets that have them, as a matrix of their own."""
    import anndata

    objects = (
        data.values() if isinstance(data, dict) else data.mod.values() if hasattr(data, "mod") else [data]
    )
    tables = []
    for adata in objects:
        if slot not in adata.obsm:
            continue
        frame = adata.obsm[slot]
        known = frame.notna().all(axis=1).to_numpy()  # batches that nothing was predicted for have none
        described = adata.obs[[c for c in adata.obs.columns if not str(c).startswith(f"{alignment}_")]]
        table = anndata.AnnData(frame.to_numpy()[known], obs=described[known])
        table.var_names = [str(c) for c in frame.columns]
        for column, values in adata.uns.get(slot, {}).get("quality", {}).items():
            table.var[column] = np.asarray(values)
        tables.append(table)
    names = [str(n) for t in tables for n in t.obs_names]
    unique = None if len(set(names)) == len(names) else "-"
    whole = tables[0] if len(tables) == 1 else anndata.concat(tables, join="outer", index_unique=unique)
    with Writing(run, {"out": out}, force) as results, results.to("out") as file:
        io.write(whole, file)


def _only(whole: Any, alignment: str, layer: str) -> Any:
    """A layer alone, with names and description of the rows."""
    import anndata

    keep = [c for c in whole.obs.columns if not str(c).startswith(f"{alignment}_")]
    return anndata.AnnData(whole.layers[layer], obs=whole.obs[keep], var=whole.var[[]])


def _tell(run: Session, model: Any, out: Path, strict: bool, **more: Any) -> None:
    result = conclude(run, assessed(run, model), strict, brief=True)
    say_files(run, {"out": out})
    run.finish(**result, **more, files={"out": out})
