"""The alignment step shared by several commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harmonicalign.adapters.cli._inputs import parameters, read_table
from harmonicalign.adapters.cli._session import NOT_ALIGNED, Session
from harmonicalign.adapters.cli._stages import fit_plan
from harmonicalign.engines.devices import resolve

__all__ = ["Fit", "load_model", "n_datasets", "significance", "told"]


@dataclass(frozen=True)
class Fit:
    """How to align: the options of the command line, as `harmonicalign.scverse.align` takes them."""

    batch_key: str | None = None
    use_rep: str | None = None
    layer: str | None = None
    n_vars: str | None = None
    normalize: bool = False
    links: Path | None = None
    peaks: str | None = None
    genes: Path | None = None
    anchors: str | None = None
    key_added: str = "harmonic"
    device: str | None = None
    seed: int = 0
    method: str = "refined"
    params: Sequence[str] | None = None

    def options(self) -> dict[str, Any]:
        """Keyword arguments of `harmonicalign.scverse.align`, checked before anything is read."""
        out: dict[str, Any] = {
            "batch_key": self.batch_key,
            "use_rep": self.use_rep,
            "layer": self.layer,
            "normalize": self.normalize,
            "key_added": self.key_added,
            "random_state": self.seed,
            **parameters(self.params, self.method),
        }
        if self.n_vars is not None:
            if self.n_vars != "all" and not self.n_vars.isdigit():
                raise ValueError(f"--n-vars is {self.n_vars!r}; expected a whole number or 'all'")
            out["n_vars"] = self.n_vars if self.n_vars == "all" else int(self.n_vars)
        if self.links is not None:
            out["links"] = read_table(self.links, "--links")
        if self.genes is not None and not self.genes.exists():
            raise FileNotFoundError(f"--genes: {self.genes} does not exist")
        for name, value in (("peaks", self.peaks), ("genes", self.genes), ("anchors", self.anchors)):
            if value is not None:
                out[name] = value
        if self.device is not None:
            resolve(self.device)
            out["device"] = self.device
        return out

    def run(self, run: Session, data: Any, options: dict[str, Any]) -> Any:
        """Align; the data get the results, and the model is returned."""
        from harmonicalign.adapters import scverse

        run.stages.expect_first(fit_plan(n_datasets(data, self.batch_key), self.method))
        return scverse.align(data, **options)


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


def significance(run: Session, model: Any, strict: bool) -> dict[str, Any]:
    """Significance for the result; with `strict` it determines the exit code."""
    test = getattr(model, "significance_", None)
    if test is None:
        return {"aligned": None}
    aligned = not (test.by_chance or test.opposed) if test.tested else None
    if strict and not aligned:
        run.exit_code = NOT_ALIGNED
    return {"aligned": aligned, "significance": test.summary()}


def told(model: Any) -> str:
    """The verdict in words."""
    test = getattr(model, "significance_", None)
    if test is None:
        return "aligned by the published method, which has no test of significance"
    verdict = "NOT aligned: no better than chance" if test.by_chance else "aligned"
    return f"{'probably NOT aligned' if test.opposed else verdict} ({test})"
