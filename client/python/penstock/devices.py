"""Which device batches go to: what `device=` means with each framework, and where it is wrong."""

from __future__ import annotations

import re
from typing import Any, Optional

from .checks import shown
from .environment import local_rank
from .errors import ArgumentTypeError, DeviceError

__all__ = ["jax_device", "read", "torch_cuda"]

_NAME = re.compile(r"auto|cpu|cuda(:\d+)?")


def read(device: Any) -> str:
    """ "auto", "cpu", "cuda" or "cuda:N", also of a torch.device."""
    if not isinstance(device, str) and type(device).__module__ != "torch":
        raise ArgumentTypeError(
            f'device: expected "auto", "cpu", "cuda", "cuda:N" or a torch.device, got {shown(device)}'
        )
    name = str(device)
    if name == "cpu:0":
        return "cpu"
    if not _NAME.fullmatch(name):
        raise DeviceError(
            f'device={name!r}: expected "auto", "cpu", "cuda" or "cuda:N". For any other device take device="cpu" and '
            'move the '
            "batch in the loop: images.to(...)"
        )
    return name


def _index(name: str) -> Optional[int]:
    return int(name.split(":")[1]) if ":" in name else None


def _local(count: int) -> Optional[int]:
    """This process's own of the node's devices; a launcher may also have shown it a single one."""
    rank = local_rank()
    return rank if rank is not None and rank < count else None


def torch_cuda(name: str) -> Optional[str]:
    """The CUDA device's name to torch; None: the CPU."""
    if name == "cpu":
        return None
    import torch

    available = torch.cuda.is_available()
    if name == "auto" and not available:
        return None
    if not available:
        raise DeviceError(
            f"device={name!r}, but torch finds no CUDA device in this process (torch.cuda.is_available() is False): "
            "take "
            'device="cpu", or "auto"'
        )
    count = torch.cuda.device_count()
    index = _local(count) if name == "auto" else _index(name)
    if index is not None and index >= count:
        raise DeviceError(f"device={name!r}, but torch sees {count} CUDA devices: expected cuda:0 to cuda:{count - 1}")
    return "cuda" if index is None else f"cuda:{index}"


def jax_device(name: str) -> Any:
    import jax

    if name == "auto":
        return jax.local_devices()[0]
    try:
        found = jax.local_devices(backend="cpu" if name == "cpu" else "cuda")
    except RuntimeError as error:
        raise DeviceError(f'device={name!r}, but JAX has none ({error}): take device="auto" or "cpu"') from None
    index = _index(name) or 0
    if index >= len(found):
        raise DeviceError(f"device={name!r}, but JAX sees {len(found)} of them, numbered from 0")
    return found[index]
