"""Batch, which `Loader.batches()` yields, and the records of its rows."""

from __future__ import annotations

from typing import Any, Protocol, Tuple

import numpy as np

__all__ = ["FLIPPED", "FLIPPED_VERTICALLY", "INVALID", "PADDED", "SAMPLE", "SUBSTITUTED", "Batch", "Told"]

FLIPPED = 1  # mirrored left to right
SUBSTITUTED = 2  # the sample is broken: `index` is the sample that takes its place
PADDED = 4  # repeated so that all ranks get the same number of batches: leave it out of metrics
INVALID = 8  # broken, in evaluation: the row is zero; leave it out of metrics
FLIPPED_VERTICALLY = 16  # upside down

# struct penstock_sample, as in shared memory.
SAMPLE: "np.dtype[np.void]" = np.dtype(
    {
        "names": ["index", "label", "crop_x", "crop_y", "crop_w", "crop_h", "src_w", "src_h"]
        + ["flags", "view", "position"],
        "formats": ["<u8", "<i8", "<u4", "<u4", "<u4", "<u4", "<u4", "<u4", "<u4", "<u4", "<u8"],
        "offsets": [0, 8, 16, 20, 24, 28, 32, 36, 40, 44, 48],
        "itemsize": 64,
    }
)


class Told(Protocol):
    """What a reader knows about a batch in addition to its tensors."""

    @property
    def count(self) -> int: ...
    @property
    def last(self) -> bool: ...
    @property
    def epoch(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def samples(self) -> Any: ...
    @property
    def fields(self) -> Any: ...


class Batch:
    """A batch: unpack it (`images, labels = batch`) or use its attributes. Its contents belong to
    the user and stay valid as long as they are kept. `valid` says which rows count in a metric. With
    several views, `images` is a tuple with a tensor for each view. With fields=, it unpacks into
    three: images, labels and `fields`, a dict by name with a list of as many values as the batch has
    samples."""

    __slots__ = ("_fields", "_records", "batch", "count", "epoch", "images", "labels", "last")

    def __init__(self, images: Any, labels: Any, told: Told) -> None:
        self.images = images
        self.labels = labels
        # Samples; fewer than batch_size only in the last batch of an epoch without drop_last.
        self.count: int = told.count
        self.last: bool = told.last  # whether it is the last batch of its epoch
        self.epoch: int = told.epoch
        self.batch: int = told.batch  # its number in the epoch, from 0
        self._records: Any = told.samples
        self._fields: Any = told.fields

    @property
    def fields(self) -> "dict[str, Any]":
        """What comes beside each image, by name: for each sample bytes, or a str or an array as fields=
        says. Empty without fields=."""
        return {} if self._fields is None else self._fields

    @property
    def samples(self) -> Any:
        """A structured array with one record for each row: index, label, crop_x, crop_y, crop_w,
        crop_h, src_w, src_h, flags, view, position. With several views, each sample has that many
        records, next to each other. The array belongs to the caller; with zero_copy it is a
        read-only view."""
        if isinstance(self._records, bytes):
            self._records = np.frombuffer(bytearray(self._records), SAMPLE)
        return self._records

    @property
    def valid(self) -> Any:
        """A NumPy array with a bool for each sample: whether it counts in a metric, which means that
        it is neither PADDED nor INVALID."""
        flags = self.samples["flags"].reshape(self.count, -1)
        return np.asarray((flags & (PADDED | INVALID)) == 0).all(1)

    def __iter__(self) -> Any:
        return iter((self.images, self.labels) if self._fields is None else (self.images, self.labels, self._fields))

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return (
            f"<penstock.Batch {self.batch} of epoch {self.epoch}: {self.count} "
            f"samples{', the last batch' if self.last else ''}>"
        )


Yielded = Tuple[Any, Any, Told]
