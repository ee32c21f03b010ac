"""Batches on a CUDA device, as torch tensors: what the loader uses for device="cuda".

Through libpenstock_cuda, which is inside the extension where that was built with nvcc: copied ahead of need by a thread of
its own, normalised by its kernels. Otherwise, and where the driver or the device is none that its kernels know, by torch
itself, through pinned memory. Both give the values that penstock_convert gives on the CPU, bit for bit.

The tensors are torch's, made for each batch in the CUDA stream that is torch's current one when `next` is called, and
written there: so torch's allocator, and record_stream where they are used in another CUDA stream, do as they always do.
"""

from __future__ import annotations

import errno
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

import numpy as np

from . import _penstock, errors
from .batch import SAMPLE, Yielded
from .frameworks import TorchArrays
from .readers import OwnedReader, Reader, StreamReader

if TYPE_CHECKING:
    from ._penstock import Stream
    from .mixing import Mixing

__all__ = ["CudaReader", "DeviceBatch"]

_CHANNELS = 3


@dataclass(frozen=True)
class DeviceBatch:
    """What is known of a batch besides its tensors, on the host. The slot it came from has been given back."""

    count: int  # valid rows, as many as the tensors have
    last: bool  # of its epoch
    epoch: int
    batch: int
    samples: bytes  # 64 bytes for each row, as `Batch.view("samples")` has them: for np.frombuffer


class _Lent:
    """Memory of the device, as torch.as_tensor understands it."""

    def __init__(self, address: int, shape: Tuple[int, ...], kind: str) -> None:
        self.__cuda_array_interface__ = {"shape": shape, "typestr": kind, "data": (address, False), "version": 3}


class Tensors:
    """What is asked of torch. Tests have one of their own, for a device that torch does not know."""

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
        """A tensor to be written, and where."""
        shape = (rows, _CHANNELS, height, width)
        tensor = self._torch.empty(shape, dtype=self._element, device=self.device, memory_format=self._format)
        return tensor, int(tensor.data_ptr())

    def copy(self, address: int, shape: Tuple[int, ...], kind: str) -> Any:
        """Of memory on the device that is somebody else's."""
        return self._torch.as_tensor(_Lent(address, shape, kind), device=self.device).clone()

    def targets(self, rows: int, classes: int) -> Tuple[Any, int]:
        """Soft labels to be written, and where."""
        tensor = self._torch.empty((rows, classes), dtype=self._torch.float32, device=self.device)
        return tensor, int(tensor.data_ptr())

    def planes(self, pixels: Any) -> Any:
        """Pixels (rows, height, width, 3) as images."""
        images = pixels.permute(0, 3, 1, 2)
        return images if self.channels_last else images.contiguous()


class _Attached:
    """Through libpenstock_cuda."""

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
        self._smoothing = 0.0 if mixing is None else mixing.smoothing
        drawn = {} if mixing is None else mixing.drawn()
        self._rows, self._height, self._width = info["batch_size"], info["height"], info["width"]
        self._raw = tensors.dtype == "uint8"
        self._stream = stream
        self._tensors = tensors
        if self._raw:
            dtype, mean, std = "float32", (0, 0, 0), (1, 1, 1)  # nothing is transformed
        else:
            dtype = tensors.dtype
        self._cuda = _penstock.Cuda(
            stream, tensors.ordinal, dtype, tensors.channels_last, tuple(mean), tuple(std), **drawn
        )
        self._state = self._cuda.state()

    def _images(self, address: int, count: int, queue: int) -> Any:
        if self._raw:
            return self._tensors.planes(self._tensors.copy(address, (count, self._height, self._width, _CHANNELS), "|u1"))
        images, out = self._tensors.images(self._rows, self._height, self._width)
        self._cuda.transform(out, queue)
        return images if count == self._rows else images[:count]

    def _labels(self, address: int, count: int, samples: bytes, queue: int) -> Any:
        if not self._classes:
            return self._tensors.copy(address, (count,), "<i8")
        labels = np.frombuffer(samples, SAMPLE)["label"]  # a kernel has nobody to tell
        if count and labels.max() >= self._classes:
            raise errors.ArgumentError(
                f"labels[{labels.argmax()}] is {labels.max()}, and num_classes {self._classes}: expected a label below it"
            )
        targets, out = self._tensors.targets(self._rows, self._classes)
        self._cuda.targets(out, queue, self._classes, self._smoothing)
        return targets if count == self._rows else targets[:count]

    def next(self, timeout_ms: int) -> Optional[Yielded]:
        """A batch whose tensors could not be made (no memory, Ctrl-C) stays held, and is given again."""
        given = self._cuda.next(timeout_ms)
        if given is None:
            return None
        count, last, epoch, batch, samples, images_at, labels_at = given
        queue = self._tensors.queue()
        self._cuda.wait(queue)
        images = self._images(images_at, count, queue)
        labels = self._labels(labels_at, count, samples, queue)
        self._cuda.release(queue)
        self._state = self._cuda.state()
        return images, labels, DeviceBatch(count, last, epoch, batch, samples)

    def state(self) -> str:
        return self._state

    def path(self, index: int) -> str:
        return self._cuda.path(index)

    def stats(self) -> str:
        return self._cuda.stats()

    def close(self) -> None:
        self._cuda.detach()
        self._stream.close()


class Normaliser:
    """(x / 255 - mean) / std on torch's devices, rounded as penstock_convert rounds it: one operation at a time.

    255 is a tensor: by a number torch divides on CUDA devices as a multiplication with its reciprocal, which rounds
    otherwise."""

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


class _Pinned:
    """Memory of the host that the device copies from, and when it has."""

    def __init__(self, rows: int, height: int, width: int, device: Any) -> None:
        import torch

        cuda: Any = torch.cuda
        self._cuda = cuda
        self._device = device
        self._pixels = torch.empty((rows, height, width, _CHANNELS), dtype=torch.uint8, pin_memory=True)
        self._labels = torch.empty((rows,), dtype=torch.int64, pin_memory=True)
        self._copied = cuda.Event()

    def fill(self, batch: Any) -> None:
        self._copied.synchronize()
        np.copyto(self._pixels.numpy()[: batch.count], np.asarray(batch.view("images")))
        np.copyto(self._labels.numpy()[: batch.count], np.asarray(batch.view("labels")))

    def copy(self, count: int) -> Tuple[Any, Any]:
        pixels = self._pixels[:count].to(self._device, non_blocking=True)
        labels = self._labels[:count].to(self._device, non_blocking=True)
        self._copied.record(self._cuda.current_stream(self._device))
        return pixels, labels


class _Copied(StreamReader):
    """Through torch. Two buffers: one is filled while the device copies from the other."""

    def __init__(self, stream: Stream, normalise: Normaliser, buffers: List[Any]) -> None:
        super().__init__(stream)
        self._normalise = normalise
        self._buffers = buffers

    def next(self, timeout_ms: int) -> Optional[Yielded]:
        batch = self._stream.next(timeout_ms)
        if batch is None:
            return None
        buffer = self._buffers[0]
        self._buffers.reverse()
        buffer.fill(batch)
        told = DeviceBatch(batch.count, batch.last, batch.epoch, batch.batch, bytes(batch.view("samples")))
        batch.release()
        pixels, labels = buffer.copy(told.count)
        return self._normalise(pixels), labels, told


class _Moved(OwnedReader):
    """Made on the CPU, and copied as it is: what neither the kernels nor torch do as libpenstock does it."""

    def __init__(
        self,
        stream: Stream,
        tensors: Tensors,
        mean: Sequence[float],
        std: Sequence[float],
        mixing: Optional[Mixing],
    ) -> None:
        arrays = TorchArrays(tensors.dtype, tensors.channels_last)
        converter = _penstock.Converter(tensors.dtype, tensors.channels_last, mean, std)
        super().__init__(stream, arrays, converter, tensors.dtype, mixing)
        self._device = tensors.device

    def next(self, timeout_ms: int) -> Optional[Yielded]:
        given = super().next(timeout_ms)
        if given is None:
            return None
        images, labels, told = given
        if isinstance(images, tuple):
            images = tuple(view.to(self._device) for view in images)
        else:
            images = images.to(self._device)
        return images, labels.to(self._device), told


def _torch_device(device: Any) -> Any:
    """With an index. DeviceError where there is none such."""
    try:
        import torch
    except ImportError:
        raise errors.DeviceError(f'device="{device}" needs PyTorch: install it, or give device="cpu"') from None
    if not torch.cuda.is_available():
        raise errors.DeviceError(
            f'device="{device}", but torch finds no CUDA device in this process (torch.cuda.is_available() is False): give '
            'device="cpu"'
        )
    named = torch.device(device)
    index = torch.cuda.current_device() if named.index is None else named.index
    count = torch.cuda.device_count()
    if named.type != "cuda" or index >= count:
        raise errors.DeviceError(f'device="{device}", but torch sees {count} CUDA devices: expected cuda:0 to cuda:{count - 1}')
    return torch.device("cuda", index)


def _through_torch(
    stream: Stream, tensors: Tensors, mean: Sequence[float], std: Sequence[float], mixing: Optional[Mixing]
) -> Reader:
    if mixing is not None:
        return _Moved(stream, tensors, mean, std, mixing)
    info = stream.info
    buffers = [_Pinned(info["batch_size"], info["height"], info["width"], tensors.device) for _ in range(2)]
    return _Copied(stream, Normaliser(tensors, mean, std), buffers)


def _way(
    stream: Stream, tensors: Tensors, mean: Sequence[float], std: Sequence[float], mixing: Optional[Mixing] = None
) -> Reader:
    if not hasattr(_penstock, "Cuda"):
        return _through_torch(stream, tensors, mean, std, mixing)
    try:
        return _Attached(stream, tensors, mean, std, mixing)
    except errors.Error as error:
        if error.code != errno.ENOTSUP:
            raise
        warnings.warn(f"batches go through torch, not ahead of need: {error}", RuntimeWarning, stacklevel=3)
    return _through_torch(stream, tensors, mean, std, mixing)


class CudaReader:
    """Reads a stream onto a device.

    `stream` is open (best with the option `pin_memory` 1), and the reader's alone until `close()`: nothing but `info` and
    `closed` of it may be used. `device` is what torch.device() takes: "cuda", "cuda:1", an index-less "cuda" meaning
    torch's current device. `dtype` is "uint8", "float32", "float16" or "bfloat16"; `mean` and `std` are of three channels,
    and not looked at for uint8. `mixing` is done by libpenstock_cuda's kernels, or else on the CPU. Streams of several views,
    of labels that are floats, and (`one_size` False) of images whose size changes with the epoch are made on the CPU, and
    copied. One thread at a time, as the stream itself.

    DeviceError: no torch with CUDA, or no such device. Then the stream is untouched, and the caller's still.
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
    ) -> None:
        tensors = Tensors(_torch_device(device), dtype, channels_last)
        info = stream.info
        usual = one_size and info["views"] == 1 and not info["label_type"]
        self._way = (_way if usual else _Moved)(stream, tensors, mean, std, mixing)

    def next(self, timeout_ms: int) -> Optional[Yielded]:
        """(images, labels, batch), None after the last epoch. The tensors are new and the caller's: images of shape
        (count, 3, height, width), labels int64 of (count,), or soft ones, float32 of (count, classes), valid on torch's current CUDA stream of the device, as those
        of torch.empty are. `timeout_ms` as of Stream.next, and so are the errors."""
        return self._way.next(timeout_ms)

    def state(self) -> str:
        """As Stream.state: after the last batch that `next` gave, whatever lies ahead on the device."""
        return self._way.state()

    def path(self, index: int) -> str:
        """As Stream.path."""
        return self._way.path(index)

    def stats(self) -> str:
        """As Stream.stats."""
        return self._way.stats()

    def close(self) -> None:
        """Detaches and closes the stream too, which is ahead of `state()` by what was prefetched. Tensors stay. Twice does
        nothing; never fails, also in a forked child."""
        self._way.close()
