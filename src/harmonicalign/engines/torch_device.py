"""Devices of torch, and the way of arrays to them and back; imported only where one is asked for."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harmonicalign._typing import FloatArray

__all__ = ["resolve_device", "to_device", "to_host"]

logger = logging.getLogger("harmonicalign")

STAGING = 1 << 23  # numbers in a page-locked buffer on the way to the host


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """Device named by ``"cpu"``, ``"cuda"``, ``"cuda:1"`` … or ``"auto"``: CUDA where present, else the CPU.

    Raises
    ------
    RuntimeError
        A CUDA device was asked for by name and is not there.
    """
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        logger.info("device='auto': no CUDA device was found, the CPU is used")
        return torch.device("cpu")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', not {device!r}") from error
    if found.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', not {device!r}")
    if found.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise RuntimeError(
                f"device={str(device)!r} was asked for, but torch {torch.__version__} finds no CUDA device; "
                "use device='auto' to fall back to the CPU, or install a CUDA build of torch"
            )
        number = torch.cuda.current_device() if found.index is None else found.index
        if number >= count:
            raise RuntimeError(
                f"device={str(device)!r} was asked for, but there are only {count} CUDA devices"
            )
        return torch.device("cuda", number)
    return found


def to_device(x: FloatArray, device: torch.device) -> Tensor:
    """Copy of an array in float32."""
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)).to(device)


def to_host(x: Tensor, *, staging: int = STAGING) -> NDArray[Any]:
    """Copy of a tensor as an array, through a page-locked buffer: several times quicker than ``.cpu()``."""
    if x.device.type == "cpu" or x.numel() < staging:
        array: NDArray[Any] = x.cpu().numpy()
        return array
    out = torch.empty(x.shape, dtype=x.dtype)
    flat, target = x.contiguous().view(-1), out.view(-1)
    stage = torch.empty(staging, dtype=x.dtype, pin_memory=True)
    for start in range(0, len(flat), staging):
        piece = flat[start : start + staging]
        target[start : start + staging].copy_(stage[: len(piece)].copy_(piece))
    return out.numpy()
