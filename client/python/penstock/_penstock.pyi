"""The compiled half: libpenstock. It computes and waits without the GIL.

Everything here is private to the package. Every failure is raised as the exception that
`penstock.errors.from_code(code, sentence)` returns. Waiting calls handle signals: Ctrl-C raises
KeyboardInterrupt within a fraction of a second and leaves the interrupted object unchanged.
"""

from typing import Any, Sequence

VERSION: str  # of libpenstock
LIBRARY: str  # path of this module, which contains libpenstock
# The keys of a stream, from proto/keys.h: (kind, option, who, value, low, high).
KEYS: dict[str, tuple[str, str, str, str, int, int]]

class Stream:
    """A stream of the daemon. Calls from several threads take turns. Views that other threads drop
    meanwhile still return their slots, also while `next` waits."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Opens the stream. The keys are the fields of struct penstock_options; a value of None
        counts as absent. An unknown key raises TypeError, because it is a mistake of the package.
        Runs without the GIL; signals interrupt it."""
    info: dict[str, int]  # the fields of struct penstock_stream_info
    # (views, height, width, name) of each group of views; empty if they are not divided into groups.
    groups: list[tuple[int, int, int, str]]
    fields: list[str]  # the names of what comes beside each image
    daemon_pid: int
    # How many daemons were replaced by others, and the pids of the last pair (0, 0, 0: none). May be
    # asked while a Cuda is attached.
    replaced: tuple[int, int, int]
    closed: bool
    def next(self, timeout_ms: int) -> "Batch | None":
        """The next batch, or None after the last epoch. `timeout_ms` -1: the stream's own timeout;
        -2: no limit."""
    def state(self) -> str: ...
    def classes(self) -> list[str]: ...
    def path(self, index: int) -> str:
        """With the surrogates of os.fsdecode where the path is not UTF-8."""
    def samples(self, first: int) -> str:
        """Lines of labels and paths, as penstock_stream_samples has them."""
    def stats(self) -> str: ...
    def config(self) -> str: ...
    def close(self) -> None:
        """Every later call raises ClosedError. Views that still exist stay readable; the stream is
        closed with the last of them. Never fails, not even in a forked child."""

class Batch:
    """A batch in shared memory. Its lease ends when this object and all its views are gone, or with
    `release`."""

    count: int  # valid samples; each has info["views"] rows
    height: int  # of its images; at most info["height"]
    width: int
    last: bool  # whether it is the last batch of its epoch
    epoch: int
    batch: int  # its number within the epoch, from 0
    def view(self, name: str, group: int = 0) -> "View":
        """The valid part of `images` (rows x height x width x 3, or in planes, of the stream's
        dtype; bfloat16 as uint16), `labels` (int64; or float32, count x label_width) or `samples`
        (64 bytes for each row)."""
    def field(self, number: int, copy: bool) -> "list[Any]":
        """The field of each valid sample: bytes; without `copy`, read-only memoryviews of the batch's
        memory, which keep it alive."""
    def release(self) -> None:
        """Returns the batch to the daemon now. HeldError if views are still alive. DetachedError if
        the daemon took the batch back meanwhile: then the data that was read must not be used. A
        second call does nothing."""

class View:
    """The read-only memory of a batch, which it keeps alive. It supports the buffer protocol, and
    DLPack on the CPU; because it is read-only, only consumers of DLPack 1.0 can take it."""

    shape: tuple[int, ...]
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Pool:
    """Blocks of memory of one size. It reuses blocks that are no longer held, because a new block
    costs a page fault for each 4 KiB."""

    def __init__(self, block_bytes: int, keep: int = 2) -> None:
        """Keeps up to `keep` unused blocks. The number of blocks in use has no limit."""
    def take(self) -> "Block": ...

class Block:
    """Writable memory, aligned to 4,096 bytes, with the buffer protocol. It returns to its pool with
    its last reference, in any thread."""

    nbytes: int
    address: int
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Converter:
    """penstock_convert: converts images into tensors."""

    def __init__(self, dtype: str, channels_last: bool, mean: Sequence[float], std: Sequence[float]) -> None:
        """dtype: "uint8", "float32", "float16", "bfloat16"."""
    def row_bytes(self, height: int, width: int) -> int: ...
    def images(self, batch: Batch, block: Block, group: int = 0) -> None:
        """Writes the batch's valid rows, of one group of views, into the block. Runs without the GIL."""
    def rows(self, source: Block, target: Block, count: int, height: int, width: int) -> None:
        """Converts `count` uint8 rows (height, width, 3) of one block into another. Runs without the
        GIL."""

class Mixer:
    """penstock_mix: erases and mixes (MixUp, CutMix) converted batches, and makes soft labels."""

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
        epochs: Sequence[tuple[int, float, float, float, float, float]] = (),
    ) -> None:
        """Takes the fields of struct penstock_mix_options; `epochs` has tuples of struct
        penstock_mix_epoch's fields. ArgumentError names a field that is out
        of range."""
    def plan(self, batch: Batch) -> bytes:
        """Draws what is done to the batch's rows: a struct penstock_mix_row, 64 bytes, for each."""
    def images(self, rows: bytes, block: Block, dtype: str, channels_last: bool, height: int, width: int) -> None:
        """Erases and mixes the images in place. Runs without the GIL."""
    def labels(self, rows: bytes, batch: Batch, block: Block) -> None:
        """Writes float32, (count, width). The width is `classes`, or that of the dataset's labels
        if they are already floats."""

def fill_images(batch: Batch, block: Block, group: int = 0) -> None:
    """Copies the images of the valid rows, unconverted. Runs without the GIL."""

def fill_labels(batch: Batch, block: Block) -> None:
    """Copies the labels of the valid samples: int64, or label_width float32 each."""

def daemon_status(socket: str | None) -> str:
    """The daemon's status, as JSON. None: the default socket."""

class Cuda:
    """libpenstock_cuda: a stream's batches on a CUDA device. It exists only if the extension was
    built with nvcc. It owns the stream while it is attached. One thread may use it at a time."""

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
        epochs: Sequence[tuple[int, float, float, float, float, float]] = (),
    ) -> None:
        """`dtype` is the type that `transform` writes: "float32", "float16" or "bfloat16"."""
    def next(self, timeout_ms: int) -> tuple[int, bool, int, int, bytes, int, int] | None:
        """(count, last, epoch, batch, samples, images, labels); images and labels are addresses on
        the device. None after the last epoch. A batch that was not released is returned again."""
    def transform(self, out: int, queue: int) -> None:
        """Makes the CUDA stream write the normalized images to `out`, device memory for batch_size
        rows."""
    def targets(self, out: int, queue: int, classes: int, smoothing: float) -> None:
        """Makes the CUDA stream write soft labels to `out`, device memory for batch_size x classes
        float32."""
    def wait(self, queue: int) -> None:
        """Makes the CUDA stream wait until the batch was copied."""
    def release(self, queue: int) -> None:
        """Returns the batch. Its memory is reused once the CUDA stream has reached this point."""
    def state(self) -> str: ...
    def path(self, index: int) -> str: ...
    def samples(self, first: int) -> str:
        """Lines of labels and paths, as penstock_stream_samples has them."""
    def stats(self) -> str: ...
    def leave(self, timeout_ms: int) -> str | None:
        """Detaches at the end of the process and waits at most this long for the device. None; or a
        sentence that says why the attachment was left as it is: then nothing may be called on the
        stream any more."""
    def detach(self) -> None:
        """Waits for the device and detaches. If another thread waits in `next`, that thread
        detaches."""
