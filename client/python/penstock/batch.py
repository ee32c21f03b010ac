"""A batch as `Loader.batches()` yields it, and the records of its rows."""

from __future__ import annotations

from typing import Any, Protocol, Tuple

import numpy as np

__all__ = ["FLIPPED", "FLIPPED_VERTICALLY", "INVALID", "PADDED", "SAMPLE", "SUBSTITUTED", "Batch", "Told"]

FLIPPED = 1  # mirrored left to right
SUBSTITUTED = 2  # the sample wanted is broken: `index` is the one shown in its place
PADDED = 4  # repeated, so that ranks get equally many batches: leave it out of metrics
INVALID = 8  # broken, in evaluation: the row is zero; leave it out of metrics
FLIPPED_VERTICALLY = 16  # upside down

# struct penstock_sample, as it lies in shared memory.
SAMPLE: "np.dtype[np.void]" = np.dtype(
    {
        "names": ["index", "label", "crop_x", "crop_y", "crop_w", "crop_h", "src_w", "src_h", "flags", "view", "position"],
        "formats": ["<u8", "<i8", "<u4", "<u4", "<u4", "<u4", "<u4", "<u4", "<u4", "<u4", "<u8"],
        "offsets": [0, 8, 16, 20, 24, 28, 32, 36, 40, 44, 48],
        "itemsize": 64,
    }
)


class Told(Protocol):
    """What a reader knows of a batch besides its tensors."""

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


class Batch:
    """`images, labels = batch`, or by name. What is in it is the user's, for as long as it is kept. Of several views,
    `images` is a tuple with a tensor for each."""

    __slots__ = ("_records", "batch", "count", "epoch", "images", "labels", "last")

    def __init__(self, images: Any, labels: Any, told: Told) -> None:
        self.images = images
        self.labels = labels
        self.count: int = told.count  # samples; below batch_size only at the end of an evaluation epoch
        self.last: bool = told.last  # of its epoch
        self.epoch: int = told.epoch
        self.batch: int = told.batch  # its number in the epoch, from 0
        self._records: Any = told.samples

    @property
    def samples(self) -> Any:
        """A structured array with one record for each row: index, label, crop_x, crop_y, crop_w, crop_h, src_w, src_h,
        flags, view, position; of several views each sample has as many, next to each other. The caller's own, or a read-only view where the loader is zero_copy."""
        if isinstance(self._records, bytes):
            self._records = np.frombuffer(bytearray(self._records), SAMPLE)
        return self._records

    def __iter__(self) -> Any:
        return iter((self.images, self.labels))

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return (
            f"<penstock.Batch {self.batch} of epoch {self.epoch}: {self.count} samples{', the last' if self.last else ''}>"
        )


Yielded = Tuple[Any, Any, Told]
