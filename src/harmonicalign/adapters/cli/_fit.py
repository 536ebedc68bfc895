"""The alignment step shared by several commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harmonicalign.adapters.cli._groups import Fitting, Reading
from harmonicalign.adapters.cli._inputs import (
    Source,
    check_entry,
    dataset_names,
    parameters,
    plain_names,
    read_table,
)
from harmonicalign.adapters.cli._preflight import Preflight, examine, normalized_layer
from harmonicalign.adapters.cli._results import is_annotated
from harmonicalign.adapters.cli._session import Session
from harmonicalign.adapters.cli._stages import fit_plan
from harmonicalign.engines.devices import resolve

__all__ = ["Fit", "aligned", "load_model", "n_datasets"]


@dataclass(frozen=True)
class Fit:
    """How to align: the options of the command line, as `harmonicalign.scverse.align` takes them."""

    batch_key: str | None = None
    use_rep: str | None = None
    layer: str | None = None
    n_vars: str | None = None
    normalize: Sequence[str] | None = None
    links: Path | None = None
    peaks: str | None = None
    genes: Path | None = None
    anchors: str | None = None
    covariates: Sequence[str] | None = None
    key_added: str = "harmonic"
    device: str | None = None
    seed: int = 0
    method: str = "refined"
    params: Sequence[str] | None = None
    arcsinh: float | None = None

    @classmethod
    def of(cls, reading: Reading, fitting: Fitting, **more: Any) -> Fit:
        """From the groups of options that commands share, and further options."""
        return cls(batch_key=reading.batch_key, arcsinh=reading.arcsinh, **vars(fitting), **more)

    def options(self) -> dict[str, Any]:
        """Keyword arguments of `harmonicalign.scverse.align`, checked before anything is read."""
        out: dict[str, Any] = {
            "batch_key": self.batch_key,
            "use_rep": self.use_rep,
            "key_added": self.key_added,
            "random_state": self.seed,
            **parameters(self.params, self.method),
        }
        if self.n_vars is not None:
            out["n_vars"] = self._n_vars()
        if self.links is not None:
            out["links"] = read_table(self.links, "--links")
        if self.genes is not None and not self.genes.exists():
            raise FileNotFoundError(f"--genes: {self.genes} does not exist")
        for name in ("peaks", "genes", "anchors", "covariates"):
            if getattr(self, name) is not None:
                out[name] = getattr(self, name)
        if self.device is not None:
            resolve(self.device)
            out["device"] = self.device
        return out

    def _n_vars(self) -> int | str | None:
        if self.n_vars is None or self.n_vars == "all":
            return self.n_vars
        if not self.n_vars.isdigit():
            raise ValueError(f"--n-vars is {self.n_vars!r}; expected a whole number or 'all'")
        return int(self.n_vars)

    def preflight(self, data: Any, inputs: Sequence[Source]) -> Preflight:
        """What the data hold, and what will be done with them."""
        check_entry(data, "layers", self.layer, "--layer")
        check_entry(data, "obsm", self.use_rep, "--use-rep")
        names = dataset_names(data, self.batch_key, self.key_added)
        plain = names if self.arcsinh is not None else plain_names(inputs, names)
        return examine(
            data,
            batch_key=self.batch_key,
            layer=self.layer,
            normalize=self.normalize,
            linked=self.links is not None or self.peaks is not None,
            plain=plain,
            anchored=self.anchors is not None,
            n_vars=self._n_vars(),
        )

    def say_preflight(self, run: Session, data: Any, inputs: Sequence[Source]) -> Preflight:
        """The same, said aloud and kept for the result."""
        seen = self.preflight(data, inputs)
        run.preflight = seen.summary()
        for text in seen.plan:
            run.remark(text)
        for text in seen.warnings:
            run.warn(text)
        if seen.problems:
            raise ValueError("; ".join(seen.problems))
        return seen

    def run(self, run: Session, data: Any, options: dict[str, Any], inputs: Sequence[Source]) -> Any:
        """Align; the data get the results, and the model is returned."""
        from harmonicalign.adapters import scverse

        run.stages.expect_first(fit_plan(n_datasets(data, self.batch_key), self.method))
        seen = self.say_preflight(run, data, inputs)
        reading = {"layer": self.layer, **self._normalization(run, data, seen)}
        return scverse.align(data, **options, **reading)

    def _normalization(self, run: Session, data: Any, seen: Preflight) -> dict[str, Any]:
        """What to normalise, in the terms of `align`."""
        if isinstance(data, dict) or hasattr(data, "mod") or len(seen.normalize) in (0, len(seen.datasets)):
            some = 0 < len(seen.normalize) < len(seen.datasets)
            return {"normalize": seen.normalize if some else bool(seen.normalize)}
        layer = normalized_layer(data, self.batch_key, self.layer, seen.normalize)
        run.remark(f"some batches hold counts and others do not; layer {layer!r} has all as logarithms")
        return {"normalize": False, "layer": layer}


def load_model(path: Path) -> Any:
    """A model that was saved."""
    from harmonicalign.estimator import HarmonicAlignment

    if not path.exists():
        raise FileNotFoundError(f"--model: {path} does not exist")
    return HarmonicAlignment.load(path)


def n_datasets(data: Any, batch_key: str | None) -> int:
    """How many datasets there are; the rest of what `split` checks is checked there."""
    if isinstance(data, dict):
        return len(data)
    if hasattr(data, "mod"):
        return len(data.mod)
    return int(data.obs[batch_key].nunique()) if batch_key in data.obs else 1


def aligned(
    run: Session, fit: Fit, data: Any, inputs: Sequence[Source], model_file: Path | None
) -> tuple[Any, Any]:
    """The data with an alignment in it, and its model: as saved, or fitted now."""
    if model_file is None:
        return data, fit.run(run, data, fit.options(), inputs)
    model = load_model(model_file)
    if not is_annotated(data, fit.key_added):
        raise ValueError(
            f"--model goes with data that align wrote, and the inputs have no uns[{fit.key_added!r}]; "
            "give that file, drop --model to align anew, or place new cells with: harmonicalign map"
        )
    return data, model
