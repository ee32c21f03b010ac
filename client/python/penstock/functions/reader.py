"""A reader whose batches pass through functions: uint8 rows are copied out of shared memory, the
functions change them, and then they are converted as OwnedReader converts them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import errors
from .._penstock import Pool, fill_images
from ..batch import INVALID, SAMPLE
from .reading import Function
from .running import Failure, Runner

if TYPE_CHECKING:
    from .._penstock import Batch, Converter, Stream

__all__ = ["Functions", "Mapped"]

_KEEP = 1  # unused blocks of the pool


@dataclass(frozen=True)
class Functions:
    """The functions of a loader, and how many threads run them."""

    each: Sequence[Function]
    threads: int


class Mapped:
    """Applies functions to batches of a stream, for a reader."""

    def __init__(self, stream: Stream, functions: Functions) -> None:
        info = stream.info
        self._stream = stream
        self._views = info["views"]
        self._rows = Pool(info["batch_size"] * self._views * info["height"] * info["width"] * 3, _KEEP)
        self._runner = Runner(functions.each, functions.threads, info["seed"], info["salt"])

    def take(self, batch: Batch) -> Any:
        """A copy of the batch's rows, while it is held."""
        block = self._rows.take()
        fill_images(batch, block)
        return block

    def finish(self, rows: Any, images: Any, converter: Converter, told: Any, height: int, width: int) -> None:
        """Applies the functions and converts the result. The batch is not held any more.
        TransformError if a function fails."""
        samples = np.frombuffer(told.samples, SAMPLE)
        count = len(samples)
        array = np.frombuffer(rows, np.uint8, count * height * width * 3).reshape(count, height, width, 3)
        failure = self._runner.apply(array, samples, (samples["flags"] & INVALID) != 0, told.epoch)
        if failure is not None:
            raise self._error(failure, samples, told) from failure.cause
        converter.rows(rows, images, count, height, width)

    def _error(self, failure: Failure, samples: Any, told: Any) -> errors.TransformError:
        index = int(samples["index"][failure.row])
        path = ""
        with contextlib.suppress(errors.Error):
            path = f" ({self._stream.path(index)})"
        view = f", view {failure.row % self._views}" if self._views > 1 else ""
        return errors.TransformError(
            f"{failure.what}; row {failure.row // self._views}{view} of batch {told.batch} of epoch {told.epoch} is sample "
            f"{index}{path}. The next batch can be read"
        )

    def close(self) -> None:
        self._runner.close()
