"""stand_in: a CUDA device for torch where there is none, so that the Python programs of this folder can be tried. It is NOT a GPU.

    stand_in.py DRIVER PROGRAM ARGUMENTS...      DRIVER: the folder of the fake driver of tests/cuda

The program's tensors on "cuda" are in the CPU's memory, and its CUDA streams are those of the fake driver. torch.empty also allocates
memory of the fake driver, for libpenstock_cuda to write to: what it wrote is copied into the tensor at the tensor's next use. The first
line that the program writes to its errors says that this is a stand-in."""
import atexit
import contextlib
import ctypes
import runpy
import sys
import time
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode

SAYS = "stand-in: torch's CUDA device is the CPU, and the driver is the fake one of tests/cuda: no GPU is used"
SMALLER = {"reader": {"BUSY": 16}}  # constants of the programs that are meant for a GPU


class Driver:
    """The fake driver, with the context of its device 0."""

    def __init__(self, folder):
        self.library = ctypes.CDLL(str(Path(folder) / "libcuda.so.1"))
        self.context = ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self("cuCtxPushCurrent_v2", self.context)

    def __call__(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        assert result == 0, f"{name}: {result}"

    def allocate(self, count):
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(count))
        return address.value

    def free(self, address):
        self("cuMemFree_v2", ctypes.c_uint64(address))

    def read(self, address, count, to, queue):
        self("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(to), ctypes.c_uint64(address), ctypes.c_size_t(count), queue.handle)
        queue.synchronize()


class Stream:
    def __init__(self, device=None, **_):
        self.handle = ctypes.c_void_p()
        CUDA.driver("cuStreamCreate", ctypes.byref(self.handle), 1)
        self.cuda_stream = self.handle.value
        CUDA.streams.append(self)

    def synchronize(self):
        CUDA.driver("cuStreamSynchronize", self.handle)

    def wait_stream(self, other):
        other.synchronize()

    def wait_event(self, event):
        event.synchronize()


class Event:
    """torch's work is done when its call returns, so that an event is a time."""

    def __init__(self, **_):
        self.at = None

    def record(self, stream=None):
        self.at = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3


class Current:
    """torch.cuda.stream."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        self.before, CUDA.current = CUDA.current, self.stream

    def __exit__(self, *_):
        CUDA.current = self.before


class Memory:
    """The fake device's memory behind each tensor of torch.empty that nobody has read yet: by the address of the tensor's storage."""

    def __init__(self):
        self.blocks = {}

    def add(self, tensor):
        self.blocks[tensor.untyped_storage().data_ptr()] = CUDA.driver.allocate(tensor.untyped_storage().nbytes()), tensor
        return tensor

    def address(self, tensor):
        storage = tensor.untyped_storage().data_ptr()
        return self.blocks[storage][0] if storage in self.blocks else storage

    def fetch(self, tensor):
        block = self.blocks.pop(tensor.untyped_storage().data_ptr(), None)
        if block:
            address, whole = block
            CUDA.driver.read(address, whole.untyped_storage().nbytes(), whole.untyped_storage().data_ptr(), CUDA.current)
            CUDA.driver.free(address)

    def lent(self, interface):
        """A copy of memory that belongs to libpenstock_cuda."""
        dtype = {"<i8": torch.int64, "|u1": torch.uint8}[interface["typestr"]]
        copy = torch.empty(interface["shape"], dtype=dtype)
        CUDA.driver.read(interface["data"][0], copy.numel() * copy.element_size(), copy.data_ptr(), CUDA.current)
        return copy


def is_cuda(value):
    return isinstance(value, (str, torch.device)) and str(value).startswith("cuda")


class OnTheCpu(TorchFunctionMode):
    """Calls of torch with "cuda" in place of a device are made with "cpu"."""

    def __torch_function__(self, function, types, arguments=(), named=None):
        named = dict(named or {})
        if function is torch.device:
            return function(*arguments, **named)
        moved = is_cuda(named.get("device")) or any(map(is_cuda, arguments))
        named.pop("pin_memory", None)
        named.update({"device": "cpu"} if is_cuda(named.get("device")) else {})
        if function is torch.Tensor.data_ptr:
            return CUDA.memory.address(arguments[0])
        if function is torch.as_tensor and hasattr(arguments[0], "__cuda_array_interface__"):
            return CUDA.memory.lent(arguments[0].__cuda_array_interface__)
        for value in arguments:
            if isinstance(value, torch.Tensor):
                CUDA.memory.fetch(value)
        if function is torch.conv2d:
            # In place of autocast to bfloat16, for which most CPUs have no instructions.
            arguments = (arguments[0].float(), *arguments[1:])
        if function is torch.Tensor.to and moved:
            named["copy"] = True  # as from the host's memory to a device's
        result = function(*("cpu" if is_cuda(value) else value for value in arguments), **named)
        return CUDA.memory.add(result) if function is torch.empty and moved else result


class CUDA:
    """What torch.cuda is replaced by."""

    streams = []

    @classmethod
    def begin(cls, folder):
        cls.driver, cls.memory = Driver(folder), Memory()
        cls.current = Stream()
        atexit.register(cls.end)
        replaced = {"is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0, "Stream": Stream, "Event": Event,
                    "current_stream": lambda device=None: cls.current, "stream": Current, "synchronize": lambda device=None: None,
                    "max_memory_allocated": lambda device=None: 0, "reset_peak_memory_stats": lambda device=None: None,
                    "manual_seed_all": lambda seed: None}
        for name, value in replaced.items():
            setattr(torch.cuda, name, value)
        torch.accelerator.is_available = lambda: False  # the DataLoader asks it whether to pin memory
        torch.Tensor.record_stream = lambda tensor, queue: None
        torch.autocast = lambda device, **how: contextlib.nullcontext()
        OnTheCpu().__enter__()

    @classmethod
    def end(cls):
        for stream in cls.streams:
            stream.synchronize()
            cls.driver("cuStreamDestroy_v2", stream.handle)
        for address, _ in cls.memory.blocks.values():
            cls.driver.free(address)
        cls.driver("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        cls.driver("cuDevicePrimaryCtxRelease_v2", 0)


def main():
    driver, program, *arguments = sys.argv[1:]
    print(SAYS, file=sys.stderr, flush=True)
    CUDA.begin(driver)
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(Path(program).resolve().parent))
    found = runpy.run_path(program)
    found["main"].__globals__.update(SMALLER.get(Path(program).stem, {}))
    sys.exit(found["main"]())


if __name__ == "__main__":
    main()
