"""Batches on a CUDA device, as torch tensors: what the loader uses for device="cuda".

If the extension was built with nvcc, it contains libpenstock_cuda, whose thread copies batches
ahead of need and whose kernels normalize them. Otherwise, and if the kernels do not support the
driver or the device, torch copies them through pinned memory, in a CUDA stream apart from the
trainer's. Both produce the values that penstock_convert produces on the CPU, bit for bit.

The tensors belong to torch. They are allocated for each batch and written in the CUDA stream that
is torch's current one when `next` is called. torch's allocator therefore works as usual, and so
does record_stream for tensors that are used in another CUDA stream.
"""

from __future__ import annotations

import atexit
import errno
import sys
import time
import warnings
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

import numpy as np

from . import _penstock, errors
from .batch import SAMPLE, Yielded
from .fields import Fields
from .frameworks import TorchArrays
from .grouped import delivering
from .readers import OwnedReader, Reader, StreamReader

if TYPE_CHECKING:
    from ._penstock import Stream
    from .functions.reader import Functions
    from .mixing import Mixing

__all__ = ["CudaReader", "DeviceBatch"]

_CHANNELS = 3


@dataclass(frozen=True)
class DeviceBatch:
    """The facts about a batch in addition to its tensors, on the host. Its slot has already been
    returned."""

    count: int  # valid rows: the rows of the tensors
    last: bool  # whether it is the last batch of its epoch
    epoch: int
    batch: int
    samples: bytes  # 64 bytes for each row, as in `Batch.view("samples")`: for np.frombuffer
    fields: Any = None  # on the host; None: the stream has none


class _DeviceMemory:
    """Memory of the device, in the form that torch.as_tensor reads."""

    def __init__(self, address: int, shape: Tuple[int, ...], kind: str) -> None:
        self.__cuda_array_interface__ = {"shape": shape, "typestr": kind, "data": (address, False), "version": 3}


class Tensors:
    """The functions of torch that are needed. Tests replace this class for a device that torch does
    not know."""

    def __init__(self, device: Any, dtype: str, channels_last: bool) -> None:
        import torch

        self._torch = torch
        self.device = torch.device(device)
        self.dtype = dtype
        self.channels_last = channels_last
        self._element = getattr(torch, dtype)
        self._format = torch.channels_last if channels_last else torch.contiguous_format

    @property
    def ordinal(self) -> int:
        return int(self.device.index)

    def queue(self) -> int:
        """The current CUDA stream."""
        return int(self._torch.cuda.current_stream(self.device).cuda_stream)

    def images(self, rows: int, height: int, width: int) -> Tuple[Any, int]:
        """A new tensor for images, and its address."""
        shape = (rows, _CHANNELS, height, width)
        tensor = self._torch.empty(shape, dtype=self._element, device=self.device, memory_format=self._format)
        return tensor, int(tensor.data_ptr())

    def copy(self, address: int, shape: Tuple[int, ...], kind: str) -> Any:
        """A copy of memory on the device that does not belong to torch."""
        return self._torch.as_tensor(_DeviceMemory(address, shape, kind), device=self.device).clone()

    def targets(self, rows: int, classes: int) -> Tuple[Any, int]:
        """A new tensor for soft labels, and its address."""
        tensor = self._torch.empty((rows, classes), dtype=self._torch.float32, device=self.device)
        return tensor, int(tensor.data_ptr())

    def planes(self, pixels: Any) -> Any:
        """Pixels (rows, height, width, 3) as images."""
        images = pixels.permute(0, 3, 1, 2)
        return images if self.channels_last else images.contiguous()


_attached: "weakref.WeakSet[_Attached]" = weakref.WeakSet()
_LEAVE_S = 5.0  # for all attachments together


def _leave() -> None:
    """At the end of the process: detaches, because the driver shuts down while the attachments'
    threads use it. A device that does not finish, as when a collective waits for a rank that has
    died, must not keep the process alive."""
    end = time.monotonic() + _LEAVE_S
    for reader in list(_attached):
        lack = reader.leave(max(0, int(1000 * (end - time.monotonic()))))
        if lack is not None:
            print(f"penstock: {lack}", file=sys.stderr, flush=True)


atexit.register(_leave)


class _Attached:
    """Reads through libpenstock_cuda."""

    def __init__(
        self,
        stream: Stream,
        tensors: Tensors,
        mean: Sequence[float],
        std: Sequence[float],
        mixing: Optional[Mixing] = None,
    ) -> None:
        info = stream.info
        self._classes = 0 if mixing is None else mixing.classes_of(info)
        self._mixing = mixing
        drawn = {} if mixing is None else mixing.drawn()
        self._rows, self._height, self._width = info["batch_size"], info["height"], info["width"]
        self._raw = tensors.dtype == "uint8"
        self._stream = stream
        self._tensors = tensors
        if self._raw:
            dtype, mean, std = "float32", (0, 0, 0), (1, 1, 1)  # not used: raw pixels are copied
        else:
            dtype = tensors.dtype
        self._cuda = _penstock.Cuda(
            stream, tensors.ordinal, dtype, tensors.channels_last, tuple(mean), tuple(std), **drawn
        )
        self._state = self._cuda.state()
        self._left = False
        _attached.add(self)

    def _images(self, address: int, count: int, queue: int) -> Any:
        if self._raw:
            return self._tensors.planes(self._tensors.copy(address, (count, self._height, self._width, _CHANNELS), "|u1"))
        images, out = self._tensors.images(self._rows, self._height, self._width)
        self._cuda.transform(out, queue)
        return images if count == self._rows else images[:count]

    def _labels(self, address: int, count: int, samples: bytes, epoch: int, queue: int) -> Any:
        if not self._classes or self._mixing is None:
            return self._tensors.copy(address, (count,), "<i8")
        labels = np.frombuffer(samples, SAMPLE)["label"]  # checked here: a kernel cannot raise
        if count and labels.max() >= self._classes:
            raise errors.ArgumentError(
                f"labels[{labels.argmax()}] is {labels.max()}, and num_classes is {self._classes}: expected a label "
                "below that"
            )
        targets, out = self._tensors.targets(self._rows, self._classes)
        self._cuda.targets(out, queue, self._classes, self._mixing.smoothing_in(epoch))
        return targets if count == self._rows else targets[:count]

    def next(self, timeout_ms: int) -> Optional[Yielded]:
        """If the tensors of a batch cannot be made (no memory, Ctrl-C), the batch stays held, and
        the next call returns it again."""
        given = self._cuda.next(timeout_ms)
        if given is None:
            return None
        count, last, epoch, batch, samples, images_at, labels_at = given
        queue = self._tensors.queue()
        self._cuda.wait(queue)
        images = self._images(images_at, count, queue)
        labels = self._labels(labels_at, count, samples, epoch, queue)
        self._cuda.release(queue)
        self._state = self._cuda.state()
        return images, labels, DeviceBatch(count, last, epoch, batch, samples)

    def state(self) -> str:
        return self._state

    def path(self, index: int) -> str:
        return self._cuda.path(index)

    def samples(self, first: int) -> str:
        return self._cuda.samples(first)

    def stats(self) -> str:
        return self._cuda.stats()

    def leave(self, timeout_ms: int) -> Optional[str]:
        """See _leave. None, or why it was left."""
        lack = self._cuda.leave(timeout_ms)
        self._left = lack is not None
        return lack

    def close(self) -> None:
        if self._left:
            return
        _attached.discard(self)
        self._cuda.detach()
        self._stream.close()


class Normalizer:
    """(x / 255 - mean) / std on torch's devices, with the rounding of penstock_convert: one
    operation at a time.

    255 is a tensor, because torch replaces division by a number on CUDA devices with multiplication
    by its reciprocal, which rounds differently."""

    def __init__(self, tensors: Tensors, mean: Sequence[float], std: Sequence[float]) -> None:
        import torch

        self._torch = torch
        self._raw = tensors.dtype == "uint8"
        self._tensors = tensors
        self._element = getattr(torch, tensors.dtype)

        def channels(values: Sequence[float]) -> Any:
            return torch.tensor(list(values), dtype=torch.float32, device=tensors.device).view(1, -1, 1, 1)

        self._full, self._mean, self._std = channels([255.0]), channels(mean), channels(std)

    def __call__(self, pixels: Any) -> Any:
        images = self._tensors.planes(pixels)
        if self._raw:
            return images
        values = images.to(self._torch.float32)
        return values.div_(self._full).sub_(self._mean).div_(self._std).to(self._element)


class _Copies:
    """A CUDA stream for copies to the device, so that they do not wait for the kernels that the
    trainer has queued."""

    def __init__(self, device: Any) -> None:
        import torch

        self._cuda: Any = torch.cuda
        self._device = device
        self._queue = self._cuda.Stream(device)

    def move(self, tensors: Sequence[Any], done: Any, non_blocking: bool) -> List[Any]:
        """The tensors on the device, for torch's current CUDA stream, which waits for them. Records
        the event `done` after the copies. If not `non_blocking`, the host waits for the copies, and
        for nothing else."""
        user = self._cuda.current_stream(self._device)
        with self._cuda.stream(self._queue):
            moved = [tensor.to(self._device, non_blocking=non_blocking) for tensor in tensors]
            done.record(self._queue)
        user.wait_event(done)
        for tensor in moved:
            # Its memory belongs to the stream of the copies: without this, torch's allocator would
            # give it to a later copy while the trainer's kernels still read it.
            tensor.record_stream(user)
        return moved


class _Pinned:
    """Pinned memory of the host from which the device copies, and the event of the last copy."""

    def __init__(self, rows: int, height: int, width: int, copies: _Copies) -> None:
        import torch

        cuda: Any = torch.cuda
        self._copies = copies
        self._pixels = torch.empty((rows, height, width, _CHANNELS), dtype=torch.uint8, pin_memory=True)
        self._labels = torch.empty((rows,), dtype=torch.int64, pin_memory=True)
        self._copied = cuda.Event()

    def fill(self, batch: Any) -> None:
        self._copied.synchronize()
        np.copyto(self._pixels.numpy()[: batch.count], np.asarray(batch.view("images")))
        np.copyto(self._labels.numpy()[: batch.count], np.asarray(batch.view("labels")))

    def copy(self, count: int) -> Tuple[Any, Any]:
        pixels, labels = self._copies.move((self._pixels[:count], self._labels[:count]), self._copied, non_blocking=True)
        return pixels, labels


class _Copied(StreamReader):
    """Reads through torch. Of two buffers, one is filled while the device copies from the other."""

    def __init__(
        self, stream: Stream, normalize: Normalizer, buffers: List[Any], fields: Optional[Fields] = None
    ) -> None:
        super().__init__(stream)
        self._fields = Fields(stream.fields) if fields is None else fields
        self._normalize = normalize
        self._buffers = buffers

    def next(self, timeout_ms: int) -> Optional[Yielded]:
        batch = self._stream.next(timeout_ms)
        if batch is None:
            return None
        buffer = self._buffers[0]
        self._buffers.reverse()
        buffer.fill(batch)
        fields = self._fields.read(batch)
        told = DeviceBatch(batch.count, batch.last, batch.epoch, batch.batch, bytes(batch.view("samples")), fields)
        batch.release()
        pixels, labels = buffer.copy(told.count)
        return self._normalize(pixels), labels, told


class _Moved(OwnedReader):
    """Makes batches on the CPU and copies the result: for everything that neither the kernels nor
    torch do exactly as libpenstock does."""

    def __init__(
        self,
        stream: Stream,
        tensors: Tensors,
        mean: Sequence[float],
        std: Sequence[float],
        mixing: Optional[Mixing],
        functions: Optional[Functions] = None,
        fields: Optional[Fields] = None,
    ) -> None:
        arrays = TorchArrays(tensors.dtype, tensors.channels_last)
        converter = _penstock.Converter(tensors.dtype, tensors.channels_last, mean, std)
        super().__init__(stream, arrays, converter, tensors.dtype, mixing, functions, fields)
        import torch

        cuda: Any = torch.cuda
        self._copies = _Copies(tensors.device)
        self._copied = cuda.Event()

    def next(self, timeout_ms: int) -> Optional[Yielded]:
        given = super().next(timeout_ms)
        if given is None:
            return None
        images, labels, told = given
        views = delivering.flattened(images)
        *moved, labels = self._copies.move((*views, labels), self._copied, non_blocking=False)
        return delivering.like(images, moved), labels, told


def _torch_device(device: Any) -> Any:
    """The device with its index. DeviceError if it does not exist."""
    try:
        import torch
    except ImportError:
        raise errors.DeviceError(f'device="{device}" needs PyTorch: install it, or use device="cpu"') from None
    if not torch.cuda.is_available():
        raise errors.DeviceError(
            f'device="{device}", but torch finds no CUDA device in this process (torch.cuda.is_available() is False): '
            'use device="cpu"'
        )
    named = torch.device(device)
    index = torch.cuda.current_device() if named.index is None else named.index
    count = torch.cuda.device_count()
    if named.type != "cuda" or index >= count:
        raise errors.DeviceError(
            f'device="{device}", but torch sees {count} CUDA devices: expected cuda:0 to cuda:{count - 1}'
        )
    return torch.device("cuda", index)


def _through_torch(
    stream: Stream,
    tensors: Tensors,
    mean: Sequence[float],
    std: Sequence[float],
    mixing: Optional[Mixing] = None,
    fields: Optional[Fields] = None,
) -> Reader:
    if mixing is not None:
        return _Moved(stream, tensors, mean, std, mixing, None, fields)
    info = stream.info
    copies = _Copies(tensors.device)
    buffers = [_Pinned(info["batch_size"], info["height"], info["width"], copies) for _ in range(2)]
    return _Copied(stream, Normalizer(tensors, mean, std), buffers, fields)


def _make_reader(
    stream: Stream,
    tensors: Tensors,
    mean: Sequence[float],
    std: Sequence[float],
    mixing: Optional[Mixing] = None,
    fields: Optional[Fields] = None,
) -> Reader:
    # libpenstock_cuda returns a batch before Python could read its fields.
    if not hasattr(_penstock, "Cuda") or (fields is not None and fields.names):
        return _through_torch(stream, tensors, mean, std, mixing, fields)
    try:
        return _Attached(stream, tensors, mean, std, mixing)
    except errors.Error as error:
        if error.code != errno.ENOTSUP:
            raise
        warnings.warn(f"torch copies batches, and not ahead of need: {error}", RuntimeWarning, stacklevel=3)
    return _through_torch(stream, tensors, mean, std, mixing, fields)


class CudaReader:
    """Reads a stream onto a device.

    `stream` is open, preferably with the option `pin_memory` 1, and belongs to the reader until
    `close()`: only its `info` and `closed` may be used. `device` is anything that torch.device()
    accepts; "cuda" without an index means torch's current device. `dtype` is "uint8", "float32",
    "float16" or "bfloat16". `mean` and `std` have three channels each and are ignored for uint8.
    The kernels of libpenstock_cuda do the `mixing`, or else the CPU. Batches with `functions` of
    the user, with several views, with labels of several values, or (`one_size` False) with images
    whose size changes with the epoch are made on the CPU and copied; those with fields are copied by
    torch. One thread may use it at a time, like the stream itself.

    DeviceError: torch does not support CUDA, or the device does not exist. Then the stream is
    unchanged and still belongs to the caller.
    """

    def __init__(
        self,
        stream: Stream,
        device: Any,
        dtype: str,
        mean: Sequence[float],
        std: Sequence[float],
        channels_last: bool,
        mixing: Optional[Mixing] = None,
        one_size: bool = True,
        functions: Optional[Functions] = None,
        fields: Optional[Fields] = None,
    ) -> None:
        fields = Fields(stream.fields) if fields is None else fields
        tensors = Tensors(_torch_device(device), dtype, channels_last)
        info = stream.info
        plain = info["views"] == 1 and not stream.groups and not info["label_type"] and info["label_width"] == 1
        usual = one_size and plain and functions is None
        self._reader: Reader
        if usual:
            self._reader = _make_reader(stream, tensors, mean, std, mixing, fields)
        else:
            self._reader = _Moved(stream, tensors, mean, std, mixing, functions, fields)

    def next(self, timeout_ms: int) -> Optional[Yielded]:
        """(images, labels, batch); None after the last epoch. The tensors are new and belong to the
        caller: images (count, 3, height, width); labels int64, (count,), or soft labels float32,
        (count, classes). Like those of torch.empty, they are valid on torch's current CUDA stream.
        `timeout_ms` and the errors are those of Stream.next."""
        return self._reader.next(timeout_ms)

    def state(self) -> str:
        """As Stream.state: the position after the last batch that `next` returned, no matter how
        many batches the device has prefetched."""
        return self._reader.state()

    def path(self, index: int) -> str:
        """As Stream.path."""
        return self._reader.path(index)

    def samples(self, first: int) -> str:
        """As Stream.samples."""
        return self._reader.samples(first)

    def stats(self) -> str:
        """As Stream.stats."""
        return self._reader.stats()

    def close(self) -> None:
        """Detaches and closes the stream, which is ahead of `state()` by the prefetched batches.
        Tensors stay valid. A second call does nothing. Never fails, not even in a forked child."""
        self._reader.close()
