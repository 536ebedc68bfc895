"""Which engine a device's name stands for, and where searches run meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from harmonicalign.engines.protocols import NeighbourEngine

__all__ = ["available", "neighbours_on", "resolve", "search_device", "searching_on"]

logger = logging.getLogger("harmonicalign")

_searching: ContextVar[Any] = ContextVar("search device", default="cpu")


def resolve(device: Any) -> Any:
    """The engine for `device`: "cpu" for numpy's, or a device of torch.

    Parameters
    ----------
    device
        "cpu"; "cuda" or "cuda:1", which must be there; "auto": CUDA where there is any, else the CPU,
        and the log says so; "torch": torch's engine on the CPU, which is what tests of it run on.
    """
    if not isinstance(device, str) or not (
        device in ("cpu", "auto", "torch", "cuda") or device.startswith("cuda:")
    ):
        raise ValueError(f"device is {device!r}; expected 'cpu', 'cuda', 'cuda:0', … or 'auto'")
    if device == "cpu":
        return "cpu"
    try:
        from harmonicalign.engines.torch_device import resolve_device
    except ImportError as error:
        if device == "auto":
            logger.warning("device='auto': torch is not installed, so the CPU is used")
            return "cpu"
        raise ImportError(
            f"device={device!r} needs torch: install it with pip install 'harmonicalign[gpu]'"
        ) from error
    if device == "torch":
        return resolve_device("cpu")
    found = resolve_device(device)
    if found.type == "cpu":
        logger.warning("device='auto': no CUDA device was found, so the CPU is used")
        return "cpu"
    return found


def available(device: Any) -> Any:
    """As `resolve`, but the CPU where the device is absent: a model may come from another machine."""
    try:
        return resolve(device)
    except (ImportError, RuntimeError) as error:
        logger.warning("%s; the CPU is used", error)
        return "cpu"


def neighbours_on(device: Any) -> NeighbourEngine | None:
    """Neighbour engine on a device of `resolve`; None where the CPU's own is meant."""
    if device == "cpu":
        return None
    from harmonicalign.engines.torch_neighbours import TorchNeighbours

    return TorchNeighbours(device, exact=False)


@contextmanager
def searching_on(device: Any) -> Iterator[None]:
    """Have large searches of neighbours in single precision run on a device of `resolve`."""
    before = _searching.set(device)
    try:
        yield
    finally:
        _searching.reset(before)


def search_device() -> Any:
    """The device that large searches run on."""
    return _searching.get()
