"""Options that go together, as one parameter of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from harmonicalign.adapters.cli import _options as options
from harmonicalign.adapters.cli._session import Session, session

__all__ = ["FITTING", "READING", "RUNNING", "SAYING", "Fitting", "Reading", "Running", "Saying", "flat"]


@dataclass(frozen=True)
class Reading:
    """How inputs are read."""

    batch_key: options.BatchKey = None
    var_key: options.VarKey = None
    obs: options.ObsColumns = None
    transpose: options.Transpose = False
    arcsinh: options.Arcsinh = None


@dataclass(frozen=True)
class Fitting:
    """How an alignment is found, where there is none yet."""

    use_rep: options.UseRep = None
    layer: options.Layer = None
    n_vars: options.NVars = None
    normalize: options.Normalize = None
    key_added: options.KeyAdded = "harmonic"
    method: options.Method = "refined"
    params: options.Params = None
    device: options.Device = None
    seed: options.Seed = 0


@dataclass(frozen=True)
class Running:
    """What a command may replace, and what it says."""

    force: options.Force = False
    overwrite_input: options.OverwriteInput = False
    strict: options.Strict = False
    quiet: options.Quiet = False
    as_json: options.AsJson = False
    debug: options.Debug = False

    def session(self, command: str) -> AbstractContextManager[Session]:
        """A run of a command with these options."""
        return session(command, quiet=self.quiet, as_json=self.as_json, debug=self.debug)


@dataclass(frozen=True)
class Saying:
    """What a command says, where it has nothing to replace."""

    quiet: options.Quiet = False
    as_json: options.AsJson = False
    debug: options.Debug = False

    def session(self, command: str) -> AbstractContextManager[Session]:
        """A run of a command with these options."""
        return session(command, **vars(self))


READING, FITTING, RUNNING, SAYING = Reading(), Fitting(), Running(), Saying()
"""Every option at its default."""

_GROUPS = (Reading, Fitting, Running, Saying)


def flat(function: Callable[..., None]) -> Callable[..., None]:
    """A command whose groups are spelt out, one option for each member, as Typer needs it."""
    hints = get_type_hints(function, include_extras=True)
    spelt: list[inspect.Parameter] = []
    members: dict[str, tuple[str, ...]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if hints[name] not in _GROUPS:
            spelt.append(parameter.replace(annotation=hints[name]))
            continue
        inside, group = get_type_hints(hints[name], include_extras=True), fields(hints[name])
        members[name] = tuple(member.name for member in group)
        spelt += [
            parameter.replace(name=member.name, annotation=inside[member.name], default=member.default)
            for member in group
        ]

    def command(**given: Any) -> None:
        grouped = {
            name: hints[name](**{key: given.pop(key) for key in keys}) for name, keys in members.items()
        }
        function(**given, **grouped)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__signature__ = inspect.Signature(spelt)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in spelt}
    return command
