"""A subset of a dataset, as a user says it, made the file that the daemon reads.

The daemon takes no sample numbers by message and no descriptors from clients, so they go by file: a folder of the
user's cache holds one for each content, named by its hash. So all ranks of a node name the same file, and whoever
opens the same subset again writes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
import tempfile
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ArgumentError

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.integer[Any]]

__all__ = ["check_mask", "mask_length", "save"]

_KEPT_S = 30 * 24 * 3600
_EXPECTED = (
    "indices: expected the numbers of samples: a sequence of ints, a range, an array or tensor of integers with one "
    "dimension, or a mask with one bool for each sample of the dataset"
)


def _plain(indices: Any) -> Any:
    """What NumPy understands: tensors from wherever they are, ranges without a list of their numbers."""
    if isinstance(indices, range):
        if not indices:
            return np.empty(0, np.int64)
        if not all(-(2**63) <= edge < 2**63 for edge in (indices[0], indices[-1])):
            raise ArgumentError(f"{_EXPECTED}; got {indices}, which is beyond 64 bits")
        return indices[0] + np.arange(len(indices), dtype=np.int64) * indices.step
    if hasattr(indices, "detach") and hasattr(indices, "cpu"):
        return indices.detach().cpu()
    if isinstance(indices, (str, bytes, dict)) or not (hasattr(indices, "__len__") and hasattr(indices, "__getitem__")):
        advice = ": pass its .indices" if hasattr(indices, "indices") else ""
        raise ArgumentError(f"{_EXPECTED}; got {type(indices).__name__}{advice}")
    if hasattr(indices, "indices") and hasattr(indices, "dataset"):
        raise ArgumentError(f"{_EXPECTED}; got {type(indices).__name__}: pass its .indices")
    return indices


def _array(indices: Any) -> npt.NDArray[Any]:
    plain = _plain(indices)
    try:
        array = np.asarray(plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"{_EXPECTED}; got {type(indices).__name__} ({error})") from None
    if array.ndim != 1:
        raise ArgumentError(f"{_EXPECTED}; got the shape {array.shape}")
    return array


def mask_length(indices: Any) -> int | None:
    """How many samples a mask is for; None where `indices` (that save took) is none."""
    return len(indices) if np.asarray(_plain(indices)[:1]).dtype == np.bool_ else None


def check_mask(length: int | None, samples: int) -> None:
    """What save leaves to be seen where it does not know the dataset: ArgumentError where a mask is for another one."""
    if length is not None and length != samples:
        raise ArgumentError(
            f"indices: a mask has one bool for each of the {samples} samples of the dataset; this one has {length}"
        )


def _chosen(array: npt.NDArray[Any], samples: int | None) -> Numbers:
    """The numbers of a mask's true places, or the array itself."""
    if array.dtype != np.bool_:
        return array
    if samples is not None:
        check_mask(array.size, samples)
    return np.flatnonzero(array)


def _numbers(indices: Any, samples: int | None) -> Numbers:
    """Checked. `samples`: of the dataset; None: the daemon checks what lies beyond it."""
    array = _array(indices)
    if not array.size:
        raise ArgumentError("indices is empty: an epoch needs at least one sample")
    numbers = _chosen(array, samples)
    if not np.issubdtype(numbers.dtype, np.integer):
        raise ArgumentError(f"{_EXPECTED}; got {numbers.dtype.name}")
    if not numbers.size:
        raise ArgumentError(f"indices: of the mask's {array.size} bools none is true: an epoch needs one sample")
    lowest, highest = int(numbers.min()), int(numbers.max())
    if lowest < 0 or (samples is not None and highest >= samples):
        place = int(numbers.argmin() if lowest < 0 else numbers.argmax())
        limit = f" and the dataset has {samples}" if samples is not None else ""
        raise ArgumentError(f"indices[{place}] is {int(numbers[place])}, but samples are numbered from 0{limit}")
    return numbers


def _bytes(numbers: Numbers) -> bytes:
    narrow = int(numbers.max()) < 2**32
    file = io.BytesIO()
    np.lib.format.write_array(file, numbers.astype("<u4" if narrow else "<u8"), version=(1, 0), allow_pickle=False)
    return file.getvalue()


def _usable(folder: str) -> bool:
    """Makes the folder; false where it cannot be written to, or is another user's."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return os.stat(folder).st_uid == os.getuid() and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def _folders() -> list[str]:
    """Where the files may lie, the first that can be used first."""
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~")
    folders = [cache] if os.path.isabs(cache) else [os.path.join(home, ".cache")] if os.path.isabs(home) else []
    folders = [os.path.join(folder, "penstock", "indices") for folder in folders]
    return [*folders, os.path.join(tempfile.gettempdir(), f"penstock-{os.getuid()}", "indices")]


def _folder() -> str:
    for folder in _folders():
        if _usable(folder):
            return folder
    raise ArgumentError(
        f"indices: no folder for the subset's file can be written to ({', '.join(_folders())}): set XDG_CACHE_HOME"
    )


def _is_good(path: str, content: bytes) -> bool:
    """Whether the file is there and whole. It counts as used from now on, before it is looked at, so that nobody
    removes it afterwards."""
    try:
        os.utime(path)
        with open(path, "rb") as file:
            return file.read() == content
    except OSError:
        return False


def _write(path: str, content: bytes) -> None:
    """Beside its place and renamed: a reader finds all of it or nothing."""
    file, beside = tempfile.mkstemp(prefix=".new-", suffix=".npy", dir=os.path.dirname(path))
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise ArgumentError(
            f"indices: cannot write {path}: {error.strerror}: free some space, or set XDG_CACHE_HOME"
        ) from error


def _sweep(folder: str, keep: str) -> None:
    """Removes what nobody has used for 30 days, also what a process that was killed left."""
    oldest = time.time() - _KEPT_S
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                info = entry.stat(follow_symlinks=False)
                if (
                    entry.name.endswith(".npy")
                    and entry.path != keep
                    and stat.S_ISREG(info.st_mode)
                    and info.st_mtime < oldest
                ):
                    os.unlink(entry.path)


def save(indices: Any, samples: int | None = None) -> str:
    """Writes what a user passes as Loader(indices=...), and returns the file's absolute path, for the stream's option
    `indices`.

    `indices`: a sequence of ints, a range, an array or tensor of integers, a Subset's `.indices`, or a mask of bools.
    Order and repetitions are kept. `samples`: of the dataset; None where it is not known yet: then the daemon says what
    lies beyond the dataset, and check_mask what of a mask does not fit it. ArgumentError: what is wrong, and where."""
    content = _bytes(_numbers(indices, samples))
    folder = _folder()
    path = os.path.join(folder, hashlib.sha256(content).hexdigest()[:32] + ".npy")
    if not _is_good(path, content):
        _write(path, content)
        _sweep(folder, path)
    return path
