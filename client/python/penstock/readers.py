"""How a batch leaves shared memory on the CPU: as a copy in the user's memory, or as views of the
slot.

A copy stays valid as long as the user keeps it. The copy is also the conversion to floats, so every
pixel is read once and written once. The reader takes a block before it waits, so that the pages of
a new block exist when the batch comes, and it returns the slot as soon as the copy is made. It
keeps one unused block: a loop that keeps no batch alternates between two blocks, one that it works
on and one that is being filled. Blocks have room for the largest batch; smaller images use a part
of a block. MixUp, CutMix and erasing change the copy.

cuda.CudaReader does the same for CUDA devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Protocol, Tuple

import numpy as np

from ._penstock import Mixer, Pool, fill_labels
from .batch import SAMPLE, Told
from .fields import Fields
from .frameworks import numpy_dtype
from .functions.reader import Mapped
from .grouped import delivering
from .views import SlotArray

if TYPE_CHECKING:
    from ._penstock import Batch, Converter, Stream
    from .frameworks import Arrays
    from .functions.reader import Functions
    from .mixing import Mixing

__all__ = ["DTYPES", "OwnedReader", "Reader", "StreamReader", "ViewReader", "split"]

_KEEP = 1  # unused blocks of a pool
DTYPES = ("uint8", "float32", "float16", "bfloat16")  # enum penstock_dtype
_ITEM_BYTES = {"uint8": 1, "float32": 4, "float16": 2, "bfloat16": 2}


def split(images: Any, views: int) -> Any:
    """Rows of several views, which are next to each other, as a tuple with an array for each view.
    A single view is returned unchanged."""
    return images if views == 1 else delivering.split(images, views)


class Reader(Protocol):
    """Owns the stream. `next` returns (images, labels, other facts), or None after the last epoch.
    `state` is the position after the last batch that `next` returned."""

    def next(self, timeout_ms: int) -> Optional[Tuple[Any, Any, Told]]: ...
    def state(self) -> str: ...
    def path(self, index: int) -> str: ...
    def samples(self, first: int) -> str: ...
    def stats(self) -> str: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class _Told:
    count: int
    last: bool
    epoch: int
    batch: int
    samples: Any  # bytes, or an array
    fields: Any = None  # by name; None: the stream has none


class StreamReader:
    """The base of readers that take batches directly from the stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def state(self) -> str:
        return self._stream.state()

    def path(self, index: int) -> str:
        return self._stream.path(index)

    def samples(self, first: int) -> str:
        return self._stream.samples(first)

    def stats(self) -> str:
        return self._stream.stats()

    def close(self) -> None:
        self._stream.close()


class _Mixed:
    """Mixes and erases a converted batch, and makes soft labels."""

    def __init__(self, mixing: Mixing, info: "dict[str, int]", dtype: str, channels_last: bool) -> None:
        drawn = mixing.drawn()
        self.classes = mixing.classes_of(info)  # width of soft labels; 0: labels do not change
        counted = 0 if info["label_type"] else self.classes
        self._mixer = Mixer(**drawn, classes=counted, smoothing=mixing.smoothing)
        self._images = mixing.of_floats
        self._layout = (dtype, channels_last)

    def labels(self, batch: Batch, block: Any) -> bytes:
        """Writes the labels, while the batch is held. Returns the plan for its images."""
        rows = self._mixer.plan(batch)
        if self.classes:
            self._mixer.labels(rows, batch, block)
        else:
            fill_labels(batch, block)
        return rows

    def images(self, rows: bytes, block: Any, height: int, width: int) -> None:
        if self._images:
            self._mixer.images(rows, block, *self._layout, height, width)


class OwnedReader(StreamReader):
    """Copies batches. `converter` None: images are copied unconverted; they already have `dtype`
    and the order of `arrays`. `functions` of the user change the rows before they are converted."""

    def __init__(
        self,
        stream: Stream,
        arrays: Arrays,
        converter: Optional[Converter],
        dtype: str,
        mixing: Optional[Mixing] = None,
        functions: Optional[Functions] = None,
        fields: Optional[Fields] = None,
    ) -> None:
        super().__init__(stream)
        self._fields = Fields(stream.fields) if fields is None else fields
        info = stream.info
        self._arrays = arrays
        self._converter = converter
        self._mixed = None if mixing is None else _Mixed(mixing, info, dtype, arrays.channels_last)
        self._mapped = None if functions is None else Mapped(stream, functions)
        soft = self._mixed.classes if self._mixed is not None else 0
        self._floats = bool(soft or info["label_type"])
        self._label_width = soft or (info["label_width"] if info["label_type"] or info["label_width"] > 1 else 0)
        self._images = delivering.images_of(stream, _ITEM_BYTES[dtype] * 3, _KEEP)
        self._labels = Pool(info["batch_size"] * (self._label_width or 1) * (4 if self._floats else 8), _KEEP)

    def next(self, timeout_ms: int) -> Optional[Tuple[Any, Any, Told]]:
        images, labels = self._images.take(), self._labels.take()
        batch = self._stream.next(timeout_ms)
        if batch is None:
            return None
        rows = None
        if self._mapped is not None:
            rows = self._mapped.take(batch)
        else:
            self._images.fill(batch, images, self._converter)
        if self._mixed is not None:
            plan = self._mixed.labels(batch, labels)
        else:
            fill_labels(batch, labels)
        fields = self._fields.read(batch)
        told = _Told(batch.count, batch.last, batch.epoch, batch.batch, bytes(batch.view("samples")), fields)
        height, width = batch.height, batch.width
        batch.release()
        if self._mapped is not None:
            assert self._converter is not None
            self._mapped.finish(rows, images, self._converter, told, height, width)
        if self._mixed is not None:
            self._mixed.images(plan, images, height, width)
        made = self._images.deliver(self._arrays, images, told.count, height, width)
        return made, self._arrays.labels(labels, told.count, self._label_width, self._floats), told

    def close(self) -> None:
        if self._mapped is not None:
            self._mapped.close()
        super().close()


class ViewReader(StreamReader):
    """Delivers views. The slot is returned with the last view of it."""

    def __init__(self, stream: Stream, fields: Optional[Fields] = None) -> None:
        super().__init__(stream)
        self._fields = Fields(stream.fields) if fields is None else fields
        info = stream.info
        self._views = info["views"]
        self._groups = delivering.groups_of(stream)
        self._planes = bool(info["layout"])
        self._dtype = numpy_dtype(DTYPES[info["dtype"]])

    @staticmethod
    def _view(batch: Batch, name: str, group: int = 0) -> Any:
        return np.asarray(batch.view(name, group)).view(SlotArray)

    def _rows(self, batch: Batch, group: int = 0) -> Any:
        images = self._view(batch, "images", group).view(self._dtype)
        return images if self._planes else images.transpose(0, 3, 1, 2)

    def _images(self, batch: Batch) -> Any:
        if not self._groups:
            return split(self._rows(batch), self._views)
        made = [delivering.split(self._rows(batch, i), group.views) for i, group in enumerate(self._groups)]
        return delivering.arranged(self._groups, made)

    def next(self, timeout_ms: int) -> Optional[Tuple[Any, Any, Told]]:
        batch = self._stream.next(timeout_ms)
        if batch is None:
            return None
        records: Any = batch.view("samples")
        samples = np.frombuffer(records, SAMPLE).view(SlotArray)
        fields = self._fields.read(batch, copy=False)
        told = _Told(batch.count, batch.last, batch.epoch, batch.batch, samples, fields)
        return self._images(batch), self._view(batch, "labels"), told
