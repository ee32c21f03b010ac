"""The compiled half: libpenstock, without the GIL wherever it computes or waits.

Everything here is private to the package. All failures are raised as `penstock.errors.from_code(code, sentence)` makes
them. Signals are handled while anything waits: Ctrl-C raises KeyboardInterrupt within a fraction of a second, and leaves
what it interrupted as it was.
"""

from typing import Any, Sequence

VERSION: str  # of libpenstock
LIBRARY: str  # path of this module: libpenstock is inside
KEYS: dict[str, tuple[str, str, str, str, int, int]]  # of a stream: kind, option, who, value, low, high of proto/keys.h

class Stream:
    """A stream of the daemon. Calls from several threads take turns; views that other threads drop meanwhile give their slots
    back all the same, also while `next` waits."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Opens. Keys are the fields of struct penstock_options, None is as if absent: an unknown one is an error
        (TypeError: the package's own mistake). Runs without the GIL; interruptible."""
    info: dict[str, int]  # the fields of struct penstock_stream_info
    daemon_pid: int
    closed: bool
    def next(self, timeout_ms: int) -> "Batch | None":
        """None after the last epoch. -1: the stream's own timeout; -2: for ever."""
    def state(self) -> str: ...
    def classes(self) -> list[str]: ...
    def path(self, index: int) -> str:
        """With os.fsdecode's surrogates where it is no UTF-8."""
    def stats(self) -> str: ...
    def config(self) -> str: ...
    def close(self) -> None:
        """Everything after this is a ClosedError. Views that are still held stay readable (the stream goes when the last is
        gone); never fails, also in a forked child."""

class Batch:
    """A batch in shared memory: a lease that ends when this object and all its views are gone, or with `release`."""

    count: int  # valid samples; each has info["views"] rows
    height: int  # of its images: info's, or less
    width: int
    last: bool  # of its epoch
    epoch: int
    batch: int
    def view(self, name: str) -> "View":
        """`images` (rows x height x width x 3, or in planes, of the stream's dtype; bfloat16 as uint16), `labels` (int64; or
        float32, count x label_width), `samples` (64 bytes for each row): what is valid."""
    def release(self) -> None:
        """Now. HeldError while views are alive; DetachedError when the daemon took it back meanwhile, and what was read must
        not be used. Twice does nothing."""

class View:
    """Read-only memory of a batch, which it keeps alive: buffer protocol, and DLPack on the CPU (read-only, so for consumers of
    DLPack 1.0 alone)."""

    shape: tuple[int, ...]
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Pool:
    """Blocks of memory of one size, used again when nobody holds them: a fresh one costs a page fault for each 4 KiB."""

    def __init__(self, block_bytes: int, keep: int = 2) -> None:
        """Keeps up to `keep` unused blocks; more live at once if the user keeps more."""
    def take(self) -> "Block": ...

class Block:
    """Writable memory, aligned to 4,096 bytes: buffer protocol. Goes back to its pool when the last reference is gone, from
    whatever thread."""

    nbytes: int
    address: int
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Converter:
    """penstock_convert: what makes tensors of images."""

    def __init__(self, dtype: str, channels_last: bool, mean: Sequence[float], std: Sequence[float]) -> None:
        """dtype: "uint8", "float32", "float16", "bfloat16"."""
    def row_bytes(self, height: int, width: int) -> int: ...
    def images(self, batch: Batch, block: Block) -> None:
        """Writes the batch's valid rows. Without the GIL."""

class Mixer:
    """penstock_mix: erasing, MixUp and CutMix of converted batches, and soft labels."""

    def __init__(
        self,
        *,
        mixup: float = 0,
        cutmix: float = 0,
        mix: float = 1,
        mix_switch: float = 0.5,
        erase: float = 0,
        erase_scale: tuple[float, float] = (0.02, 0.33),
        erase_ratio: tuple[float, float] = (0.3, 3.3),
        erase_value: tuple[float, float, float] = (0, 0, 0),
        erase_random: bool = False,
        classes: int = 0,
        smoothing: float = 0,
    ) -> None:
        """The fields of struct penstock_mix_options; ArgumentError names one that is out of its range."""
    def plan(self, batch: Batch) -> bytes:
        """What is done to its rows: struct penstock_mix_row, 64 bytes for each."""
    def images(self, rows: bytes, block: Block, dtype: str, channels_last: bool, height: int, width: int) -> None:
        """In place. Without the GIL."""
    def labels(self, rows: bytes, batch: Batch, block: Block) -> None:
        """float32, (count, width): `classes` of them, or as many as the labels have that are floats already."""

def fill_images(batch: Batch, block: Block) -> None:
    """The images of the valid rows, as the stream has them. Without the GIL."""

def fill_labels(batch: Batch, block: Block) -> None:
    """The labels of the valid samples: int64, or float32 of label_width each."""

def daemon_status(socket: str | None) -> str: ...

class Cuda:
    """libpenstock_cuda: a stream's batches on a CUDA device. Only where the extension was built with nvcc. While it is
    attached the stream is its own; one thread at a time."""

    info: dict[str, Any]  # the fields of struct penstock_cuda_info
    def __init__(
        self,
        stream: Stream,
        device: int,
        dtype: str,
        channels_last: bool,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        prefetch: int = 2,
        *,
        mixup: float = 0,
        cutmix: float = 0,
        mix: float = 1,
        mix_switch: float = 0.5,
        erase: float = 0,
        erase_scale: tuple[float, float] = (0.02, 0.33),
        erase_ratio: tuple[float, float] = (0.3, 3.3),
        erase_value: tuple[float, float, float] = (0, 0, 0),
        erase_random: bool = False,
    ) -> None:
        """`dtype` is that of what `transform` writes: "float32", "float16", "bfloat16"."""
    def next(self, timeout_ms: int) -> tuple[int, bool, int, int, bytes, int, int] | None:
        """(count, last, epoch, batch, samples, images, labels): the last two are addresses on the device. A batch that is
        held, because it was not released, is given again."""
    def transform(self, out: int, queue: int) -> None:
        """Has the CUDA stream write the images, normalised, to device memory for batch_size rows."""
    def targets(self, out: int, queue: int, classes: int, smoothing: float) -> None:
        """Has the CUDA stream write soft labels, float32, to device memory for batch_size x classes of them."""
    def wait(self, queue: int) -> None:
        """Has the CUDA stream wait for the batch's copy."""
    def release(self, queue: int) -> None:
        """The batch's memory is used again when the CUDA stream has come so far."""
    def state(self) -> str: ...
    def path(self, index: int) -> str: ...
    def stats(self) -> str: ...
    def detach(self) -> None:
        """Waits for the device. Where another thread waits in `next`, that thread detaches."""
