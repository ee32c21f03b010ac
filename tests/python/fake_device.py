"""Replaces torch by a device of the FAKE driver of tests/cuda: tensors in the fake's memory, and a
CUDA stream.

The fake keeps "device memory" in the host's memory, where only its own calls can read it, and
detects accesses that are not ordered: then the program exits with 86."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import support

import numpy as np
from penstock import _penstock, cuda

BATCH = 8
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1}
FAULTS = 10  # the order in the fake's table of functions, fake_driver.h
LACK = "this build has no libpenstock_cuda, or no fake driver"

_FAKE = support.BUILD / "tests/cuda/driver/libcuda.so.1"


class Driver:
    """Loads the fake, once; libpenstock_cuda then finds it as libcuda.so.1."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(_FAKE))
        self.library.fake_cuda.restype = ctypes.POINTER(ctypes.c_void_p)
        self.table = self.library.fake_cuda()

    def __call__(self, name: str, *arguments: Any) -> None:
        result = getattr(self.library, name)(*arguments)
        assert result == 0, f"{name}: {result}"

    def threads_that_leave(self) -> int:
        """How many threads of this process still detach (client/cuda/leave.c)."""
        return sum(path.read_text() == "penstock-leave\n" for path in Path("/proc/self/task").glob("*/comm"))

    def faults(self) -> int:
        return int(ctypes.CFUNCTYPE(ctypes.c_uint)(self.table[FAULTS])())


driver: Any = Driver() if hasattr(_penstock, "Cuda") and _FAKE.exists() else None


class Memory:
    """A tensor of the device."""

    def __init__(self, device: "Device", nbytes: int) -> None:
        self.device, self.nbytes, self.address = device, nbytes, ctypes.c_uint64()
        driver("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(nbytes))
        device.memory.append(self)

    def __getitem__(self, rows: slice) -> "Part":
        return Part(self, rows.stop)

    def bytes(self, nbytes: "int | None" = None) -> bytes:
        return self.device.read(self.address.value, self.nbytes if nbytes is None else nbytes)


class Part:
    def __init__(self, memory: Memory, rows: int) -> None:
        self.memory, self.rows = memory, rows

    def bytes(self) -> bytes:
        return self.memory.bytes(self.rows * self.memory.nbytes // BATCH)


class Device(cuda.Tensors):
    """Replaces torch."""

    ordinal = 0

    def __init__(self, dtype: str, channels_last: bool = True) -> None:
        self.dtype, self.channels_last = dtype, channels_last
        self.memory: "list[Memory]" = []
        self.context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        driver("cuInit", 0)
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        driver("cuCtxPushCurrent_v2", self.context)
        driver("cuStreamCreate", ctypes.byref(self.stream), 1)

    def queue(self) -> int:
        assert self.stream.value is not None
        return self.stream.value

    def images(self, rows: int, height: int, width: int) -> "tuple[Memory, int]":
        memory = Memory(self, rows * height * width * 3 * BYTES[self.dtype])
        return memory, memory.address.value

    def targets(self, rows: int, classes: int) -> "tuple[Memory, int]":
        memory = Memory(self, rows * classes * 4)
        return memory, memory.address.value

    def read(self, address: int, nbytes: int) -> bytes:
        to = ctypes.create_string_buffer(nbytes)
        driver("cuMemcpyDtoHAsync_v2", to, ctypes.c_uint64(address), ctypes.c_size_t(nbytes), self.stream)
        driver("cuStreamSynchronize", self.stream)
        return to.raw

    def copy(self, address: int, shape: "tuple[int, ...]", kind: str) -> Any:
        dtype = np.dtype(kind)
        return np.frombuffer(self.read(address, dtype.itemsize * int(np.prod(shape))), dtype).reshape(shape)

    def planes(self, pixels: Any) -> Any:
        return pixels.transpose(0, 3, 1, 2)

    def close(self) -> None:
        driver("cuStreamSynchronize", self.stream)
        for memory in self.memory:
            driver("cuMemFree_v2", memory.address)
        driver("cuStreamDestroy_v2", self.stream)
        driver("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        driver("cuDevicePrimaryCtxRelease_v2", 0)
