"""Which engine a device's name stands for."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["resolve"]

logger = logging.getLogger("harmonicalign")


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
