"""Batches on a CUDA device, as torch tensors: what the loader uses for device="cuda".

Through libpenstock_cuda where it is there (copied ahead of need by a thread of its own, normalised by its kernels), and
otherwise by torch itself, through pinned memory. Both give the same values as penstock_convert does on the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence, Tuple

from . import errors

if TYPE_CHECKING:
    from ._penstock import Stream

__all__ = ["CudaReader", "DeviceBatch"]


class DeviceBatch(NamedTuple):
    """What is known of a batch besides its tensors, on the host. The slot it came from has been given back."""

    count: int  # valid rows, as many as the tensors have
    last: bool  # of its epoch
    epoch: int
    batch: int
    samples: bytes  # 64 bytes for each row, as `Batch.view("samples")` has them: for np.frombuffer


class CudaReader:
    """Reads a stream onto a device.

    `stream` is open (best with the option `pin_memory` 1), and the reader's alone until `close()`: nothing but `info` and
    `closed` of it may be used. `device` is what torch.device() takes: "cuda", "cuda:1", an index-less "cuda" meaning
    torch's current device. `dtype` is "uint8", "float32", "float16" or "bfloat16"; `mean` and `std` are of three channels,
    and not looked at for uint8. One thread at a time, as the stream itself.

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
    ) -> None:
        raise errors.DeviceError("batches on CUDA devices are not there yet: give device='cpu'")

    def next(self, timeout_ms: int) -> Optional[Tuple[Any, Any, DeviceBatch]]:
        """(images, labels, batch), None after the last epoch. The tensors are new and the caller's: images of shape
        (count, 3, height, width), labels int64 of (count,), valid on torch's current CUDA stream of the device, as those
        of torch.empty are. `timeout_ms` as of Stream.next, and so are the errors."""
        raise NotImplementedError

    def state(self) -> str:
        """As Stream.state: after the last batch that `next` gave, whatever lies ahead on the device."""
        raise NotImplementedError

    def path(self, index: int) -> str:
        """As Stream.path."""
        raise NotImplementedError

    def stats(self) -> str:
        """As Stream.stats."""
        raise NotImplementedError

    def close(self) -> None:
        """Detaches and closes the stream too, which is ahead of `state()` by what was prefetched. Tensors stay. Twice does
        nothing; never fails, also in a forked child."""
        raise NotImplementedError
