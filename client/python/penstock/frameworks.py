"""The arrays of torch, NumPy and JAX that a loader yields, made from blocks of memory without a
copy.

torch or JAX is imported when a loader that yields its arrays is created, and not before: importing
penstock needs only NumPy. The shape is always (rows, 3, height, width). With channels_last, the
memory has the daemon's order (rows of pixels), and the strides say so. JAX's arrays have no
strides, so their memory has the order of their shape.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .errors import ArgumentError

if TYPE_CHECKING:
    from ._penstock import Block

__all__ = ["Arrays", "JaxArrays", "NumpyArrays", "TorchArrays", "choose", "numpy_dtype"]

_CHANNELS = 3


class Arrays(Protocol):
    """Makes arrays from blocks. An array keeps its block alive."""

    channels_last: bool  # the order in which the memory must be written

    def images(self, block: Block, count: int, height: int, width: int) -> Any: ...
    def labels(self, block: Block, count: int, width: int, floats: bool) -> Any:
        """int64 or (`floats`) float32; of shape (count,) if `width` is 0, else (count, width)."""


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def choose(framework: str) -> str:
    """The framework that "auto" means, or `framework` itself. ArgumentError if it is not
    installed."""
    if framework == "auto":
        return "torch" if _installed("torch") else "numpy"
    if not _installed(framework):
        raise ArgumentError(
            f"framework={framework!r}, but {framework} is not installed in this Python: run `pip install {framework}`, "
            "or leave framework out"
        )
    return framework


def numpy_dtype(name: str) -> "np.dtype[Any]":
    """ArgumentError if it is bfloat16 and ml_dtypes is not installed."""
    if name != "bfloat16":
        return np.dtype(name)
    if not _installed("ml_dtypes"):
        raise ArgumentError(
            'dtype="bfloat16", which NumPy does not have: run `pip install ml_dtypes`, use framework="torch", or use '
            'dtype="float32" or "float16"'
        )
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def _flat(block: Any, dtype: "np.dtype[Any]", count: int) -> Any:
    return np.frombuffer(block, dtype, count)


class NumpyArrays:
    def __init__(self, dtype: str, channels_last: bool) -> None:
        self.channels_last = channels_last
        self._dtype = numpy_dtype(dtype)

    def images(self, block: Block, count: int, height: int, width: int) -> Any:
        array = _flat(block, self._dtype, count * height * width * _CHANNELS)
        if self.channels_last:
            return array.reshape(count, height, width, _CHANNELS).transpose(0, 3, 1, 2)
        return array.reshape(count, _CHANNELS, height, width)

    def labels(self, block: Block, count: int, width: int, floats: bool) -> Any:
        flat = _flat(block, np.dtype(np.float32 if floats else np.int64), count * (width or 1))
        return flat.reshape(count, width) if width else flat


class TorchArrays:
    def __init__(self, dtype: str, channels_last: bool) -> None:
        import torch

        self.channels_last = channels_last
        self._torch: Any = torch
        self._dtype = getattr(torch, dtype)

    def images(self, block: Block, count: int, height: int, width: int) -> Any:
        tensor = self._torch.frombuffer(block, dtype=self._dtype, count=count * height * width * _CHANNELS)
        if self.channels_last:
            return tensor.view(count, height, width, _CHANNELS).permute(0, 3, 1, 2)
        return tensor.view(count, _CHANNELS, height, width)

    def labels(self, block: Block, count: int, width: int, floats: bool) -> Any:
        dtype = self._torch.float32 if floats else self._torch.int64
        flat = self._torch.frombuffer(block, dtype=dtype, count=count * (width or 1))
        return flat.view(count, width) if width else flat


class JaxArrays:
    """Makes arrays on `device`, one of jax.devices(). On the CPU an array uses the block itself if
    the block has the order of the array's shape: JAX never writes to its arrays."""

    def __init__(self, dtype: str, device: Any, channels_last: bool = False) -> None:
        import jax

        self.channels_last = channels_last
        self._jax: Any = jax
        self._device = device
        self._host: Any = jax.devices("cpu")[0]
        self._numpy = NumpyArrays(dtype, channels_last)

    def _place(self, array: Any) -> Any:
        if self._device == self._host:
            return self._jax.dlpack.from_dlpack(array)
        return self._jax.device_put(array, self._device)

    def images(self, block: Block, count: int, height: int, width: int) -> Any:
        array = np.ascontiguousarray(self._numpy.images(block, count, height, width))
        if array.dtype.kind not in "uf":  # NumPy exports only its own dtypes by DLPack
            return self._jax.device_put(array, self._device)
        return self._place(array)

    def labels(self, block: Block, count: int, width: int, floats: bool) -> Any:
        """int32 unless 64 bits are enabled in JAX: the numbers of classes fit."""
        return self._jax.device_put(self._numpy.labels(block, count, width, floats), self._device)
