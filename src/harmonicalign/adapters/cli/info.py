"""``info``: contents of files and models, and installed versions."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer

from harmonicalign._exceptions import ModelFileError
from harmonicalign._version import __version__
from harmonicalign.adapters import io
from harmonicalign.adapters.cli._contents import kind_of
from harmonicalign.adapters.cli._groups import SAYING, Saying
from harmonicalign.adapters.cli._inputs import Source, sources
from harmonicalign.adapters.cli._session import Session
from harmonicalign.adapters.io import FORMATS, DataFileError

__all__ = ["info"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "anndata", "mudata", "zarr", "pyarrow", "flowio",
             "matplotlib", "torch", "dask", "scanpy", "harmonypy", "scanorama")  # fmt: skip
_SHOWN = 8
_MOST = 12


def info(
    files: Annotated[
        list[str] | None, typer.Argument(help="Data or model files; if none, describe this installation.")
    ] = None,
    saying: Saying = SAYING,
) -> None:
    """Describe files or models; without any, versions, devices and formats."""
    with saying.session("info") as run:
        if not files:
            found = installation()
            _show_installation(run, found)
            run.finish(**found)
            return
        described = []
        for source in sources(files):
            about = describe(source)
            described.append(about)
            run.say(about["path"], "bold")
            for name, value in about.items():
                if name not in ("path", "significance") and value not in (None, [], {}):
                    run.say(f"  {name.replace('_', ' ')}: {_line(value)}")
        run.finish(files=described)


def describe(source: Source) -> dict[str, Any]:
    """What a file of data or a model holds."""
    if source.path.suffix == ".npz" and source.key is None:
        from harmonicalign.estimator import HarmonicAlignment

        try:
            return _model(source, HarmonicAlignment.load(source.path))
        except ModelFileError as error:
            try:
                return _data(source)
            except DataFileError as failure:
                # A truncated model file should be reported as a damaged model, not as invalid data.
                raise error if "is a model" in str(failure) else failure from None
    return _data(source)


def _model(source: Source, model: Any) -> dict[str, Any]:
    from harmonicalign.adapters.verdict import assess

    fitted = model.fitted_.at_hand()
    rows = {str(key): len(z) for key, z in zip(model.keys_, model.embedding_, strict=True)}
    about: dict[str, Any] = {
        "path": str(source.path),
        "kind": "model",
        "megabytes": round(source.path.stat().st_size / 1e6, 1),
        "method": model.method,
        "datasets": rows,
        "coordinates": int(model.embedding_[0].shape[1]),
        "features": fitted.inputs.signals[0].shape[1],
        "feature_names": model.signal_names_,
        "values": kind_of(fitted.inputs.signals[0][: min(300, rows[str(model.keys_[0])])]),
        "takes_new_cells": model.signal_names_ is not None and model.method == "refined",
        "contains": "the values of these features in all rows: share the file as you would share the data",
    }
    assessment = assess(model)
    about["verdict"] = assessment.verdict.headline
    about["scores"] = assessment.scores()
    test = model.model_.significance
    if test is not None:
        about["significance"] = test.summary()
    if assessment.features is not None:
        about["features_selected"] = int(assessment.features.selected.sum())
    defaults = type(model)().get_params()
    about["parameters"] = {
        k: v for k, v in model.get_params().items() if k != "method" and repr(v) != repr(defaults[k])
    }
    return about


def _data(source: Source) -> dict[str, Any]:
    kind = io.find_format(source.path)
    data = io.read(source.path, key=source.key, backed=kind.name == "h5ad")
    about: dict[str, Any] = {"path": str(source.path), "kind": kind.title}
    if hasattr(data, "mod"):
        about["modalities"] = {name: list(part.shape) for name, part in data.mod.items()}
        about["obs"] = [str(c) for c in data.obs.columns]
        return about
    matrix = data.X
    about |= {
        "rows": data.n_obs,
        "columns": data.n_vars,
        "X": "none" if matrix is None else _matrix(matrix),
        "row_names": [str(n) for n in data.obs_names[:3]],
        "column_names": [str(n) for n in data.var_names[:_SHOWN]],
        "obs": {str(c): _column(data.obs[c]) for c in data.obs.columns},
        "layers": [name for name in data.layers if name is not None],  # from anndata 0.13 on None is X
        "obsm": {str(k): list(np.shape(v)) for k, v in data.obsm.items()},
        "obsp": list(data.obsp),
        "aligned": _alignment(data),
    }
    if data.isbacked:
        data.file.close()
    return about


def _matrix(matrix: Any) -> str:
    sparse = sp.issparse(matrix) or hasattr(matrix, "group")
    return f"{'sparse' if sparse else 'dense'} {np.dtype(matrix.dtype).name}"


def _column(values: Any) -> str:
    if values.dtype.kind in "fiu":
        return f"{values.min():g} to {values.max():g}"
    found = [str(v) for v in values.dropna().unique()]
    return ", ".join(found[:5]) + (f", … ({len(found)} values)" if len(found) > 5 else "")


def _alignment(data: Any) -> dict[str, Any] | None:
    """Results of an alignment in the data, if any."""
    for key, value in data.uns.items():
        if isinstance(value, dict) and "connectivities_key" in value and "datasets" in value:
            test = value.get("significance", {})
            out: dict[str, Any] = {"key": key, "datasets": [str(d) for d in value["datasets"]]}
            if test:
                out["significance"] = {
                    k: bool(v) if k in ("tested", "opposed") else float(v) for k, v in test.items()
                }
            return out
    return None


def installation() -> dict[str, Any]:
    """Versions, devices and formats."""
    found: dict[str, Any] = {"harmonicalign": __version__, "python": platform.python_version()}
    packages: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {
        **found,
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "devices": _devices(),
        "packages": packages,
        "formats": {f.name: list(f.suffixes) for f in FORMATS.values()},
    }


def _devices() -> list[str]:
    devices = ["cpu"]
    if find_spec("torch") is not None:
        import torch

        devices += [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    return devices


def _show_installation(run: Session, found: dict[str, Any]) -> None:
    run.say(f"harmonicalign {found['harmonicalign']}, Python {found['python']}, {found['system']}", "bold")
    run.say(f"  devices: {', '.join(found['devices'])}")
    have = [f"{k} {v}" for k, v in found["packages"].items() if v]
    lack = [k for k, v in found["packages"].items() if not v]
    run.say(f"  packages: {', '.join(have)}")
    if lack:
        run.say(f"  not installed: {', '.join(lack)}")
    run.say("  reads and writes: " + "; ".join(f.title for f in FORMATS.values()))


def _line(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and "tested" in value:
        return _test(value)
    if isinstance(value, dict):
        shown = [f"{k}: {_line(v)}" for k, v in list(value.items())[:_MOST]]
        return "; ".join(shown) + (f"; … ({len(value) - _MOST} more)" if len(value) > _MOST else "")
    if isinstance(value, list):
        return ", ".join(map(str, value[:_SHOWN])) + (", …" if len(value) >= _SHOWN else "")
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _test(test: dict[str, Any]) -> str:
    """The permutation test in words."""
    if not test["tested"]:
        return "not tested (too few features)"
    ways = ", but columns run opposite ways" if test["opposed"] else ""
    return f"z = {test['z']:.1f}, p = {test['p']:.2g}{ways}"
