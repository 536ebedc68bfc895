"""Arguments of the command line to arguments of the Python interface."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from harmonicalign.adapters import io
from harmonicalign.adapters.cli._session import Session
from harmonicalign.adapters.io import FORMATS, DataFileError

__all__ = [
    "Source",
    "by_batch",
    "check_column",
    "check_entry",
    "check_features",
    "check_names",
    "dataset_names",
    "load",
    "parameters",
    "plain_names",
    "read_table",
    "reading_plan",
    "sources",
    "stem",
]


@dataclass(frozen=True)
class Source:
    """One input: a file, perhaps one matrix of it, and its name."""

    name: str
    path: Path
    key: str | None = None


def sources(specs: Sequence[str]) -> list[Source]:
    """Inputs as given: ``file``, ``file::matrix`` or ``name=file``; default names are those of files.

    Parameters
    ----------
    specs
        The arguments.
    """
    found = [_source(spec) for spec in specs]
    for source in found:
        if not source.path.exists():
            io.read(source.path)  # raises with a suggestion
    names = _unique([s.name or source_name(s) for s in found], found)
    return [Source(name, s.path, s.key) for name, s in zip(names, found, strict=True)]


def _source(spec: str) -> Source:
    if Path(spec).exists():
        return Source("", Path(spec))
    name = ""
    if "=" in spec:
        name, _, rest = spec.partition("=")
        if not name or "/" in name:
            name, rest = "", spec
        spec = rest
    path, mark, key = spec.rpartition("::")
    return Source(name, Path(path), key) if mark and not Path(spec).exists() else Source(name, Path(spec))


def source_name(source: Source) -> str:
    """Default name of an input: its matrix, or its file without the extension."""
    return source.key or stem(source.path)


def stem(path: Path) -> str:
    """A file name without the extension of its format."""
    for known in FORMATS.values():
        for suffix in sorted(known.suffixes, key=len, reverse=True):
            if suffix and path.name.lower().endswith(suffix) and len(path.name) > len(suffix):
                return path.name[: -len(suffix)]
    return path.absolute().name if path.is_dir() and path.name not in ("", "..") else path.resolve().stem


def _unique(names: list[str], found: Sequence[Source]) -> list[str]:
    """Unique names: by folder where file names are equal, otherwise by number."""
    if len(set(names)) < len(names):
        names = [
            f"{s.path.resolve().parent.name}/{n}" if names.count(n) > 1 and not s.name else n
            for n, s in zip(names, found, strict=True)
        ]
    return [n if names.count(n) == 1 else f"{n}-{names[:i].count(n) + 1}" for i, n in enumerate(names)]


def reading_plan(inputs: Sequence[Source]) -> list[tuple[str, float]]:
    """The stages in which inputs are read."""
    return [("reading", 0.5)] * len(inputs)


def load(
    run: Session,
    inputs: Sequence[Source],
    *,
    batch_key: str | None = None,
    backed: bool = False,
    obs: Sequence[str] | None = None,
    transpose: bool = False,
    arcsinh: float | None = None,
    alignment: str | None = None,
    var_key: str | None = None,
    alone: bool = False,
) -> Any:
    """Read inputs into what `harmonicalign.scverse` takes.

    Parameters
    ----------
    run
        The session.
    inputs
        What to read.
    batch_key
        Column of obs that identifies the datasets, with one input.
    backed, obs, transpose, arcsinh
        As for `harmonicalign.io.read`; `backed`, `obs` and `transpose` apply to formats that support them.
    alignment
        Name of results that `align` left: data that have them need no `batch_key`.
    var_key
        Column of var that takes the place of the names of the features.
    alone
        Return one input as it is, without asking for its datasets.

    Returns
    -------
    data
        One AnnData or MuData, or a dict of AnnData by name.
    """
    if batch_key is not None and len(inputs) > 1:
        raise ValueError(f"--batch-key needs exactly one input; there are {len(inputs)}; drop it")
    data = {}
    for source in inputs:
        kind = io.find_format(source.path).name
        table = kind in ("csv", "tsv", "parquet")
        with run.stages.stage(f"reading {source.path.name}"):
            data[source.name] = io.read(
                source.path,
                key=source.key,
                backed=backed and kind == "h5ad",
                obs=[c for c in obs or () if table],
                transpose=transpose and table,
                arcsinh=arcsinh,
            )
    if var_key is not None:
        _name_by(run, data, var_key)
    if len(inputs) > 1:
        whole = [s for s in inputs if hasattr(data[s.name], "mod")]
        if whole:
            modalities = " or ".join(f"{whole[0].path.name}::{m}" for m in list(data[whole[0].name].mod)[:2])
            raise ValueError(
                f"{whole[0].path} holds several modalities; beside other inputs name one, as {modalities}"
            )
        return data
    only = data[inputs[0].name]
    if alone:
        return only
    if hasattr(only, "mod"):
        if batch_key is not None:
            raise ValueError(f"--batch-key goes with one AnnData, and {inputs[0].path} is a MuData; drop it")
        return only
    if batch_key is None and alignment not in only.uns:
        columns = ", ".join(map(str, only.obs.columns[:8])) or "no columns"
        raise ValueError(
            f"one input needs --batch-key, the column of obs that identifies its datasets "
            f"({inputs[0].path} has {columns}); or give two or more inputs"
        )
    if batch_key is not None:
        check_column(only, batch_key, "--batch-key")
    return only


def plain_names(inputs: Sequence[Source], names: Sequence[str]) -> list[str]:
    """Datasets whose whole numbers are not counts of molecules: matrices without names, and cytometry.

    Parameters
    ----------
    inputs
        The files.
    names
        Names of the datasets in them, one for each file or all in one.
    """
    plain = [io.find_format(s.path).name in ("npy", "fcs") for s in inputs]
    if len(inputs) == 1:
        return list(names) if plain[0] else []
    return [name for name, one in zip(names, plain, strict=True) if one]


def _name_by(run: Session, data: dict[str, Any], column: str) -> None:
    """Features named by a column of var; the names that were there go to var["feature_name"]."""
    from harmonicalign.adapters.scverse._data import unknown

    parts = {
        name if key is None else f"{name}, {key}": part
        for name, one in data.items()
        for key, part in (one.mod.items() if hasattr(one, "mod") else [(None, one)])
    }
    if not any(column in part.var for part in parts.values()):
        raise unknown("--var-key: var", column, dict.fromkeys(c for p in parts.values() for c in p.var))
    for name, part in parts.items():
        if column not in part.var:
            run.remark(f"{name} has no var[{column!r}]: its features keep their names")
            continue
        values = part.var[column]
        if values.isna().any():
            raise ValueError(
                f"--var-key: var[{column!r}] of {name} has no value for {int(values.isna().sum())} features; "
                "fill it, or drop those features"
            )
        if "feature_name" not in part.var:
            part.var["feature_name"] = part.var_names.astype(str)
        part.var_names = [str(v) for v in values]


def _parts(data: Any) -> dict[str, Any]:
    """Every AnnData of the data, by name."""
    if isinstance(data, dict):
        return data
    return dict(data.mod) if hasattr(data, "mod") else {"the input": data}


def check_column(data: Any, column: str | None, option: str) -> None:
    """Check early that a column of obs exists."""
    from harmonicalign.adapters.scverse._data import unknown

    columns = dict.fromkeys(str(c) for part in _parts(data).values() for c in part.obs.columns)
    if column is not None and column not in columns:
        raise unknown(f"{option}: obs", column, columns)


def check_entry(data: Any, slot: str, entry: str | None, option: str) -> None:
    """Check early that every dataset has an entry of obs, obsm or layers."""
    from harmonicalign.adapters.scverse._data import unknown

    for name, part in _parts(data).items():
        if entry is not None and entry not in getattr(part, slot):
            raise unknown(f"{option}: {slot} of {name}", entry, getattr(part, slot).keys())


def check_features(data: Any, features: Sequence[str] | None) -> None:
    """Check early that the features named by ``--var`` exist, before anything is aligned for them."""
    from harmonicalign.adapters.scverse._data import unknown

    known = {str(name) for part in _parts(data).values() for name in part.var_names}
    known |= {name.partition(":")[2] for name in known if ":" in name}  # MuData puts the modality first
    for feature in features or ():
        if feature not in known:
            raise unknown("--var: the data", feature, sorted(known))


def dataset_names(data: Any, batch_key: str | None, alignment: str) -> list[str]:
    """Names of the datasets, for any form of data."""
    if isinstance(data, dict):
        return list(data)
    if hasattr(data, "mod"):
        return list(data.mod)
    if batch_key is None:
        return [str(key) for key in data.uns[alignment]["datasets"]]
    return [str(key) for key in data.obs[batch_key].unique()] if batch_key in data.obs else []


def check_names(named: Sequence[str | None], names: Sequence[str], option: str) -> None:
    """Check early that dataset names exist."""
    from harmonicalign.adapters.scverse._data import unknown

    for name in named:
        if name is not None and names and name not in names:
            raise unknown(f"{option}: the data", name, names)


def by_batch(data: Any, batch_key: str | None) -> dict[str, Any]:
    """Datasets by name, for any form of data."""
    if isinstance(data, dict):
        return data
    if hasattr(data, "mod"):
        return dict(data.mod)
    from harmonicalign.adapters.scverse._data import split

    return {str(part.key): data[part.rows].to_memory() for part in split(data, batch_key).parts}


def parameters(given: Sequence[str] | None, method: str) -> dict[str, Any]:
    """Parameters of the estimator from ``name=value``."""
    from harmonicalign.estimator import HarmonicAlignment

    known = [
        name for name in signature(HarmonicAlignment).parameters if name not in ("random_state", "verbose")
    ]
    out: dict[str, Any] = {} if method == "refined" else {"method": method}
    for text in given or ():
        name, mark, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not mark or name not in known:
            raise ValueError(f"--param is {text!r}; expected NAME=VALUE with one of {', '.join(known)}")
        try:
            out[name] = ast.literal_eval(value.strip())
        except (SyntaxError, ValueError):
            out[name] = value.strip()
    return out


def read_table(path: Path, option: str) -> Any:
    """A table of names and numbers as a data frame, row names in its index where it has them."""
    import pandas as pd

    if not path.exists():
        raise FileNotFoundError(f"{option}: {path} does not exist")
    try:
        if path.suffix in (".parquet", ".pq"):
            return pd.read_parquet(path)
        frame = pd.read_csv(path, sep=None, engine="python")
    except Exception as error:  # any error raised by a damaged file
        raise DataFileError(f"{option}: {path} cannot be read as a table ({type(error).__name__})") from error
    numbers = [dtype.kind in "fiub" for dtype in frame.dtypes]
    # One column of names and then only weights: a matrix with names of the other dataset as its heading.
    return (
        frame.set_index(frame.columns[0])
        if len(numbers) > 1 and not numbers[0] and all(numbers[1:])
        else frame
    )
