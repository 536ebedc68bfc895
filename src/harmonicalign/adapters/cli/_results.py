"""Aligned data and models to files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from harmonicalign.adapters.cli._inputs import stem
from harmonicalign.adapters.cli._session import Session
from harmonicalign.adapters.io import DataFileError, check_target, find_format, replacing
from harmonicalign.adapters.io._errors import is_refusal, write_error

__all__ = [
    "Writing",
    "beside",
    "check_targets",
    "coordinates",
    "is_annotated",
    "joined",
    "keeps_everything",
    "labels_by_key",
]


_WHOLE = ("h5ad", "zarr", "h5mu")


def keeps_everything(path: Path) -> bool:
    """Whether a file of that name holds all of an AnnData or MuData, or only a matrix."""
    return find_format(path).name in _WHOLE


def beside(first: Path, ending: str) -> Path:
    """A sibling path of a file."""
    return first.parent / f"{stem(first)}{ending}"


def check_targets(
    targets: dict[str, Path],
    endings: dict[str, tuple[str, ...]],
    force: bool,
    inputs: Sequence[Path | None] = (),
    overwrite_input: bool = False,
) -> None:
    """Check early that all targets can be written, and that none takes the place of an input unasked."""
    for option, path in targets.items():
        if option in endings and path.suffix not in endings[option]:
            raise ValueError(f"--{option} is {path}; its name must end in {' or '.join(endings[option])}")
        for source in inputs:
            if source is not None and not overwrite_input and _is_part_of(path, source):
                raise ValueError(
                    f"--{option} is {path}, which is the input {source}; choose another name, or replace "
                    "the input with --force --overwrite-input"
                )
        check_target(path, force=force, folder=_is_folder(path))
    places = [path.resolve() for path in targets.values()]
    for option, path in targets.items():
        if places.count(path.resolve()) > 1:
            raise ValueError(f"--{option} is {path}, where something else is to be written too")


def _is_part_of(path: Path, source: Path) -> bool:
    """Whether writing one would change the other: the same file by any link, or one inside the other."""
    if path.exists() and source.exists() and path.samefile(source):
        return True
    one, other = path.resolve(), source.resolve()
    return one.is_relative_to(other) or other.is_relative_to(one)


class Writing:
    """Several output files that are written atomically: all or none.

    Parameters
    ----------
    run
        The session.
    targets
        Where to, by option.
    force
        Overwrite existing files.
    """

    def __init__(self, run: Session, targets: dict[str, Path], force: bool) -> None:
        self.run, self.targets, self.force = run, targets, force
        self.temporary: dict[str, Path] = {}
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for option, path in self.targets.items():
                held = replacing(path, force=self.force, folder=_is_folder(path))
                self.temporary[option] = stack.enter_context(held)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self.stack.__exit__(*error)

    @contextmanager
    def to(self, option: str) -> Iterator[Path]:
        """A temporary path for one of the results; error messages show the final path."""
        target, temporary = self.targets[option], self.temporary[option]
        try:
            with self.run.stages.stage(f"writing {target.name}"):
                yield temporary
        except DataFileError as error:
            raise DataFileError(str(error).replace(str(temporary), str(target))) from error
        except Exception as error:
            if is_refusal(error):
                raise write_error(target, error) from error
            raise


def _is_folder(path: Path) -> bool:
    return path.suffix not in (".html", ".htm", ".png", ".pdf", ".svg") and find_format(path).folder


def is_annotated(data: Any, alignment: str) -> bool:
    """Whether the data hold results of `align`."""
    parts = data.values() if isinstance(data, dict) else data.mod.values() if hasattr(data, "mod") else [data]
    return all(alignment in part.uns for part in parts)


def joined(data: Any, model: Any, alignment: str) -> Any:
    """One AnnData of all rows with the whole joint graph; a single AnnData is returned unchanged."""
    from harmonicalign.adapters import scverse

    if not isinstance(data, dict):
        return data
    shared = set.intersection(*(set(part.var_names) for part in data.values()))
    # Datasets that links bring together may share no feature; then all of them are kept.
    return scverse.concat(data, model, alignment=alignment, join="inner" if shared else "outer")


def coordinates(data: Any, model: Any, alignment: str) -> Any:
    """Aligned coordinates of all rows, in the order of the inputs, with dataset and confidence."""
    import anndata
    import pandas as pd

    from harmonicalign.adapters.scverse._placed import placed

    held = placed(data, model, alignment)
    values = np.concatenate([model.embedding_[one.number][one.positions] for one in held])
    names = [str(name) for one in held for name in one.part.take(one.part.adata.obs_names)]
    frame = pd.DataFrame(
        {
            "dataset": np.repeat([str(one.part.key) for one in held], [one.part.n_rows for one in held]),
            "confidence": np.concatenate([model.confidence_[one.number][one.positions] for one in held]),
        },
        index=names,
    )
    if not frame.index.is_unique:  # as where datasets are joined
        frame.index = [f"{name}-{dataset}" for name, dataset in zip(names, frame["dataset"], strict=True)]
    if held[0].part.rows is not None:
        back = np.argsort(np.concatenate([one.part.rows for one in held]), kind="stable")
        frame, values = frame.iloc[back], values[back]
    return anndata.AnnData(values, obs=frame, var=pd.DataFrame(index=list(model.get_feature_names_out())))


def labels_by_key(data: Any, model: Any, alignment: str, column: str) -> dict[Any, Any]:
    """A column of obs in the order of the model's rows, by dataset; None for datasets without it."""
    from harmonicalign.adapters.scverse._placed import placed
    from harmonicalign.adapters.scverse._uses import column_values, in_model

    held = placed(data, model, alignment)
    found: dict[Any, Any] = dict.fromkeys(model.keys_)
    for one in held:
        if column in one.part.adata.obs:
            if one.part.take(one.part.adata.obs[column]).isna().all():
                continue
            found[model.keys_[one.number]] = in_model(one, column_values(one, column), model)
    if all(labels is None for labels in found.values()):
        raise ValueError(
            f"--labels: obs[{column!r}] has no value in any row of the model; name another column"
        )
    return found
