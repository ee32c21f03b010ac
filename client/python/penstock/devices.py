"""Which device batches go to: what `device=` means with each framework, and when it is an error."""

from __future__ import annotations

import re
from typing import Any, Optional

from .checks import shown
from .environment import local_rank
from .errors import ArgumentTypeError, DeviceError

__all__ = ["jax_device", "read", "torch_cuda"]

_NAME = re.compile(r"auto|cpu|cuda(:\d+)?")


def read(device: Any) -> str:
    """The device's name, "auto", "cpu", "cuda" or "cuda:N"; also reads a torch.device."""
    if not isinstance(device, str) and type(device).__module__ != "torch":
        raise ArgumentTypeError(
            f'device: expected "auto", "cpu", "cuda", "cuda:N" or a torch.device, got {shown(device)}'
        )
    name = str(device)
    if name == "cpu:0":
        return "cpu"
    if not _NAME.fullmatch(name):
        raise DeviceError(
            f'device={name!r}: expected "auto", "cpu", "cuda" or "cuda:N". For any other device use device="cpu" and '
            "move the batch in the loop: images.to(...)"
        )
    return name


def _index(name: str) -> Optional[int]:
    return int(name.split(":")[1]) if ":" in name else None


def _local(count: int) -> Optional[int]:
    """The number of this process's device on its node, by LOCAL_RANK. None if the launcher made
    fewer devices visible."""
    rank = local_rank()
    return rank if rank is not None and rank < count else None


def torch_cuda(name: str) -> Optional[str]:
    """The name by which torch knows the CUDA device; None: the CPU."""
    if name == "cpu":
        return None
    import torch

    available = torch.cuda.is_available()
    if name == "auto" and not available:
        return None
    if not available:
        raise DeviceError(
            f"device={name!r}, but torch finds no CUDA device in this process (torch.cuda.is_available() is False): "
            'use device="cpu" or "auto"'
        )
    count = torch.cuda.device_count()
    index = _index(name)
    # Under torchrun, the ranks of a node must not share its first device. If the program has chosen
    # another one (torch.cuda.set_device), "cuda" is that one, as in torch.
    chosen = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    if index is None and (name == "auto" or chosen == 0):
        index = _local(count)
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
        raise DeviceError(
            f'device={name!r}, but JAX has no such device ({error}): use device="auto" or "cpu"'
        ) from None
    index = _index(name) or 0
    if index >= len(found):
        raise DeviceError(f"device={name!r}, but JAX sees {len(found)} such devices: they are numbered from 0")
    return found[index]
