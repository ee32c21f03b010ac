"""How a batch leaves shared memory on the CPU: copied into memory of the user's own, or as views of the slot.

The copy is what makes a batch stay valid for as long as it is kept; it is also the conversion to floats, so that every
pixel is read and written once. A block is taken before the wait, so that the pages of a new one are there when the
batch is; the slot goes back as soon as the copy is made. One block is kept for use again: a loop that keeps nothing has
two of them in turn, the one it works on and the one being filled.

For CUDA devices cuda.CudaReader does the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Protocol, Tuple

import numpy as np

from ._penstock import Pool, fill_labels
from .batch import SAMPLE, Told
from .views import SlotArray

if TYPE_CHECKING:
    from ._penstock import Batch, Converter, Stream
    from .frameworks import Arrays

__all__ = ["OwnedReader", "Reader", "StreamReader", "ViewReader"]

_KEEP = 1  # unused blocks


class Reader(Protocol):
    """Owns the stream. `next` gives (images, labels, what is known besides), or None after the last epoch; `state` is
    where what was given ends."""

    def next(self, timeout_ms: int) -> Optional[Tuple[Any, Any, Told]]: ...
    def state(self) -> str: ...
    def path(self, index: int) -> str: ...
    def stats(self) -> str: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class _Told:
    count: int
    last: bool
    epoch: int
    batch: int
    samples: Any  # bytes, or an array


class StreamReader:
    """What all readers have that take batches from the stream itself."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def state(self) -> str:
        return self._stream.state()

    def path(self, index: int) -> str:
        return self._stream.path(index)

    def stats(self) -> str:
        return self._stream.stats()

    def close(self) -> None:
        self._stream.close()


class OwnedReader(StreamReader):
    def __init__(self, stream: Stream, arrays: Arrays, converter: Converter) -> None:
        super().__init__(stream)
        info = stream.info
        self._height, self._width = info["height"], info["width"]
        self._arrays = arrays
        self._converter = converter
        rows = info["batch_size"]
        self._images = Pool(rows * converter.row_bytes(self._height, self._width), _KEEP)
        self._labels = Pool(rows * 8, _KEEP)

    def next(self, timeout_ms: int) -> Optional[Tuple[Any, Any, Told]]:
        images, labels = self._images.take(), self._labels.take()
        batch = self._stream.next(timeout_ms)
        if batch is None:
            return None
        self._converter.images(batch, images)
        fill_labels(batch, labels)
        told = _Told(batch.count, batch.last, batch.epoch, batch.batch, bytes(batch.view("samples")))
        batch.release()
        count = told.count
        return (self._arrays.images(images, count, self._height, self._width), self._arrays.labels(labels, count), told)


class ViewReader(StreamReader):
    """The slot goes back when the last view of it is gone."""

    @staticmethod
    def _view(batch: Batch, name: str) -> Any:
        return np.asarray(batch.view(name)).view(SlotArray)

    def next(self, timeout_ms: int) -> Optional[Tuple[Any, Any, Told]]:
        batch = self._stream.next(timeout_ms)
        if batch is None:
            return None
        records: Any = batch.view("samples")
        samples = np.frombuffer(records, SAMPLE).view(SlotArray)
        told = _Told(batch.count, batch.last, batch.epoch, batch.batch, samples)
        return self._view(batch, "images").transpose(0, 3, 1, 2), self._view(batch, "labels"), told
