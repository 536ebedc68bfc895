"""Tables: text and parquet. Columns of numbers go to ``X``; other columns describe the rows."""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Matrix
from harmonicalign.adapters.io._errors import DataFileError, missing
from harmonicalign.adapters.io._limits import check_fits, check_growth, check_text, packer

if TYPE_CHECKING:
    from anndata import AnnData
    from pandas import DataFrame, Index

__all__ = ["read_parquet", "read_text", "write_parquet", "write_text"]

logger = logging.getLogger("harmonicalign")

_CHUNK = 1_000_000
"""Values that are made dense at a time when a sparse matrix is written as text."""

_METADATA = b"harmonicalign"

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|nan)"
_MARKED = r"('*[=+\-@\t\r])(?=.)"
_FORMULA = rf"(?s)^(?!(?:{_NUMBER})$){_MARKED}"
"""Texts that a spreadsheet takes for a formula, unless they are numbers, and these after apostrophes.

A sign alone, as for a strand of DNA, is none. An apostrophe before such a text makes it text there; `_shown`
puts it there and `_stored` takes it away.
"""


def read_text(path: Path, *, separator: str, obs: Sequence[str] = (), transpose: bool = False) -> AnnData:
    """A table of text as AnnData.

    The first column names the rows if it has no heading or holds text without repetition. A first
    line of numbers only is data, unless these are column numbers.
    """
    import pandas as pd

    check_text(path, lambda: unpacked(path))
    with unpacked(path) as file:
        first = file.readline()
        if not first.strip():
            raise DataFileError(f"{path} has an empty first line where names of columns are expected")
        separator = _separator(first, separator)
        _mention_doubtful_heading(path, first, file.readline(), separator)
        file.seek(0)
        frame = pd.read_csv(
            file,
            sep=separator,
            header=None if _is_data(first, separator) else 0,
            low_memory=False,
            encoding="utf-8-sig",
            **_every_digit(pd.__version__),
        )
    if len(frame) == 0:
        raise DataFileError(f"{path} has no rows")
    _mention_repeated_names(path, first, separator)
    if isinstance(frame.index, pd.RangeIndex) and _names_rows(frame):
        frame = frame.set_index(frame.columns[0])
    frame = _stored(frame)
    if transpose:
        texts = [str(c) for c in frame.columns if frame[c].dtype.kind not in "fiu"]
        if texts:
            raise DataFileError(
                f"{path} cannot be turned round: {_holding_text(texts)}; drop such columns first"
            )
        frame = frame.T
    return from_frame(frame, path, obs)


def read_parquet(
    path: Path, *, obs: Sequence[str] = (), transpose: bool = False, trusted: bool = False
) -> AnnData:
    """A parquet table as AnnData."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing("pyarrow", "a parquet table") from error
    with pq.ParquetFile(path) as table:
        schema, metadata = table.schema_arrow, table.metadata
    if nested := [field.name for field in schema if pa.types.is_nested(field.type)]:
        raise DataFileError(
            f"{path}: {_listed(nested)} {'holds' if len(nested) == 1 else 'hold'} lists or structures, not "
            "numbers or text; drop such columns"
        )
    promised = _promised(metadata)
    check_fits(path, promised)
    if not trusted:
        check_growth(path, promised, path.stat().st_size)
    # A text that is stored once may stand in billions of rows; it is to stay one text.
    texts = [field.name for field in schema if _is_text(pa, field.type)]
    with pq.ParquetFile(path, read_dictionary=texts) as table:
        frame = table.read().to_pandas()
    for name in texts:
        if name in frame:
            frame[name] = frame[name].astype(object).where(frame[name].notna(), None)
    if frame.index.dtype == "category":
        frame.index = frame.index.astype(object)
    stored = (schema.metadata or {}).get(_METADATA)
    if stored is not None and not obs:
        obs = [str(name) for name in json.loads(stored)["obs"]]
    if len(frame) == 0:
        raise DataFileError(f"{path} has no rows")
    return from_frame(frame.T if transpose else frame, path, obs)


def _promised(metadata: Any) -> int:
    """Bytes that the columns of a parquet file take in memory, texts that are repeated counted once."""
    # Numbers exist as a table of arrow, as columns of a frame, and as the rows of a matrix, the first two
    # at the same time.
    total = 0
    for group in (metadata.row_group(i) for i in range(metadata.num_row_groups)):
        for j in range(metadata.num_columns):
            column = group.column(j)
            width = max(8, metadata.schema.column(j).length)
            total += max(column.total_uncompressed_size, 2 * width * max(column.num_values, group.num_rows))
    return int(max(total, metadata.num_rows * metadata.num_columns * 8))


def _is_text(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def from_frame(frame: DataFrame, path: Path, obs: Sequence[str]) -> AnnData:
    """AnnData of a data frame: numbers to `X`, all other columns and `obs` to ``obs``."""
    import anndata

    frame = frame.copy(deep=False)
    frame.columns, frame.index = frame.columns.map(str), frame.index.map(str)
    if absent := [name for name in obs if name not in frame.columns]:
        raise DataFileError(f"{path} has no column {_listed(absent)}; it has {_listed(list(frame.columns))}")
    texts = [c for i, c in enumerate(frame.columns) if c in obs or frame.iloc[:, i].dtype.kind not in "fiu"]
    measured = frame.loc[:, ~frame.columns.isin(texts)]
    if measured.shape[1] == 0:
        raise DataFileError(
            f"{path} has no column of numbers ({_holding_text(texts)}); check its separator and decimal point"
        )
    _mention_almost_numbers(frame, [c for c in texts if c not in obs], path)
    if described := [c for c in texts if c not in obs]:
        logger.info("%s: %s; such columns describe the rows", path, _holding_text(described))
    described_rows = frame.loc[:, texts].copy()
    return anndata.AnnData(
        # Row-major as everywhere else: the memory layout affects the last digits of results.
        X=np.ascontiguousarray(measured.to_numpy()),
        obs=described_rows,
        var=measured.iloc[:0].T.loc[:, []],
    )


def write_text(data: AnnData, path: Path, *, separator: str, packed: bool, chunk: int = _CHUNK) -> None:
    """Write names, description and values of the rows as a table of text, about `chunk` values at a time."""
    import pandas as pd

    columns = _columns(data)
    described = data.obs
    rows = max(1, chunk // max(1, data.n_vars))
    with (
        packer(path) if packed else path.open("wb") as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="") as file,
    ):
        for start in range(0, max(1, data.n_obs), rows):
            part = slice(start, start + rows)
            values = pd.DataFrame(_dense(data.X[part]), index=data.obs_names[part], columns=columns)
            frame = _shown(pd.concat([described.iloc[part], values], axis=1))
            frame.to_csv(file, sep=separator, header=start == 0, index_label="")


def _shown(frame: DataFrame) -> DataFrame:
    """The same with texts that a spreadsheet would run as a formula written as texts."""
    return _replaced(frame, _FORMULA, r"'\1")


def _stored(frame: DataFrame) -> DataFrame:
    """The same with such texts as they were."""
    return _replaced(frame, rf"(?s)^'{_MARKED}", r"\1")


def _replaced(frame: DataFrame, pattern: str, by: str) -> DataFrame:
    """A frame with a pattern replaced in its names, in the names of its rows and in columns of text."""
    import pandas as pd

    wanted = re.compile(pattern)

    def one(value: Any) -> Any:
        return wanted.sub(by, value) if isinstance(value, str) else value

    out = frame.copy(deep=False)
    for i, kind in enumerate(frame.dtypes):
        if isinstance(kind, pd.CategoricalDtype):
            if any(one(value) != value for value in kind.categories):
                out.isetitem(i, frame.iloc[:, i].astype(object).map(one))
        elif kind.kind not in "fiubmM":
            out.isetitem(i, frame.iloc[:, i].map(one))
    out.columns, out.index = frame.columns.map(one), frame.index.map(one)
    return out


def write_parquet(data: AnnData, path: Path) -> None:
    """Write names, description and values of the rows as a parquet table."""
    import pandas as pd

    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing("pyarrow", "a parquet table") from error
    values = pd.DataFrame(_dense(data.X), index=data.obs_names, columns=_columns(data))
    table = pa.Table.from_pandas(pd.concat([data.obs, values], axis=1))
    note = json.dumps({"obs": [str(c) for c in data.obs.columns]}).encode()
    pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), _METADATA: note}), path)


def _columns(data: AnnData) -> Index:
    """Names of the features; none may also be the name of a column of ``obs``."""
    if data.X is None:
        raise DataFileError("the data has no matrix X, which is what a table holds; write h5ad or zarr")
    both = [name for name in data.obs.columns if name in data.var_names]
    if both or not data.var_names.is_unique:
        names = both or list(data.var_names[data.var_names.duplicated()])
        raise DataFileError(
            f"a table needs a name of its own for every column, but {_listed(names)} would come twice; "
            "rename or write h5ad"
        )
    return data.var_names


def _dense(matrix: Matrix) -> Array:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """A seekable stream over a text file, decompressed if necessary, whatever its name."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not packed:
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as stream:
            yield cast(IO[bytes], stream)


def _separator(first: bytes, default: str) -> str:
    """Separator of the columns: by the file name, unless the first line does not contain it."""
    line = first.decode("utf-8", errors="replace")
    if default in line:
        return default
    return max("\t;, ", key=lambda mark: (line.count(mark), mark == default))


def _is_data(first: bytes, separator: str) -> bool:
    """Whether the first line is data: numbers other than column numbers."""
    fields = _numbers_in(first, separator)
    return None not in fields and not _counts_up(fields)


def _counts_up(numbers: Sequence[float | None]) -> bool:
    """Whether numbers are those of columns, counted from 0 or from 1."""
    return any(list(numbers) == list(range(start, start + len(numbers))) for start in (0, 1))


def _numbers_in(line: bytes, separator: str) -> list[float | None]:
    """The fields of a line as numbers, None where they are not."""
    found: list[float | None] = []
    for field in line.decode("utf-8-sig", errors="replace").strip("\r\n").split(separator):
        try:
            found.append(float(field.strip().strip('"')))
        except ValueError:
            found.append(None)
    return found


def _mention_repeated_names(path: Path, first: bytes, separator: str) -> None:
    """Warn if names in the first line come several times: only the first of each keeps its name."""
    if not _is_data(first, separator):
        names = next(csv.reader([first.decode("utf-8-sig").strip()], delimiter=separator), [])
        repeated = [name for name, times in Counter(names).items() if name and times > 1]
        if repeated:
            logger.warning(
                "%s: %s comes several times among the names of columns; all but the first get a number, and "
                "are matched under that name",
                path,
                _listed(repeated),
            )


def _mention_doubtful_heading(path: Path, first: bytes, second: bytes, separator: str) -> None:
    """Warn if the first line is taken as names but reads like data, or as data but reads like names.

    Numbers in order (wavelengths, masses, times) are plausible names of columns; measurements seldom are in
    order.
    """
    fields = _numbers_in(first, separator)
    numbers = [number for number in fields if number is not None and np.isfinite(number)]
    whole = all(number == round(number) for number in numbers)
    in_order = (len(numbers) > 2 or whole) and bool(
        (np.diff(numbers) > 0).all() or (np.diff(numbers) < 0).all()
    )
    if _is_data(first, separator):
        following = [number for number in _numbers_in(second, separator) if number is not None]
        if in_order and len(following) > 2 and not (np.diff(following) > 0).all():
            logger.warning(
                "%s: the first line is numbers in order and is taken as a row of data; if they are names of "
                "columns, put a column of row names before them",
                path,
            )
    elif numbers and not in_order and not (whole and None in fields[1:]):
        logger.warning(
            "%s: the first line is taken as names of columns, although some are numbers (%s); if it is data, "
            "put a line of names before it",
            path,
            _listed([f"{number:g}" for number in numbers], 3),
        )


_ALMOST = 0.5
"""Share of cells that are numbers from which a column with text among them is probably measured."""


def _mention_almost_numbers(frame: DataFrame, names: Sequence[str], path: Path) -> None:
    """Warn of columns that describe rows only because some of their cells are not plain numbers."""
    import pandas as pd

    for name in names:
        column = frame.loc[:, name]
        if getattr(column, "ndim", 1) != 1 or column.dtype.kind in "bMm":
            continue
        cells = column.dropna().astype(str).str.strip()
        plain = pd.to_numeric(cells, errors="coerce").notna()
        # Signs of a limit, commas and units around a number.
        close = pd.to_numeric(cells.str.replace(r"^[<>≤≥~=\s]+|[,'\s]|%$", "", regex=True), errors="coerce")
        odd = cells[~plain]
        if len(odd) and close.notna().mean() >= _ALMOST:
            logger.warning(
                "%s: column %r has numbers, but %d of %d cells are not plain ones (%s), so it describes the "
                "rows and is not compared; to use it, replace these cells by numbers",
                path,
                str(name),
                len(odd),
                len(cells),
                _listed(list(dict.fromkeys(odd)), 3),
            )


def _names_rows(frame: DataFrame) -> bool:
    """Whether the first column names the rows."""
    first = frame.columns[0]
    if frame.shape[1] < 2:
        return False
    if isinstance(first, str) and (not first.strip() or first == "Unnamed: 0"):
        return True
    column = frame.iloc[:, 0]
    return bool(column.dtype.kind == "O" and column.notna().all() and column.is_unique)


def _every_digit(version: str) -> dict[str, Any]:
    """Options of `pandas.read_csv` for numbers exactly as they were written.

    Up to version 3.0 the default is quicker and off by one in the last digit; from 3.1 on it is exact, and
    asking for it gives a warning.
    """
    major, minor = (int(number) for number in version.split(".")[:2])
    return {"float_precision": "round_trip"} if (major, minor) < (3, 1) else {}


def _holding_text(names: Sequence[object]) -> str:
    return f"{_listed(names)} {'holds' if len(names) == 1 else 'hold'} text"


def _listed(names: Sequence[object], most: int = 5) -> str:
    shown = ", ".join(repr(str(name)) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
