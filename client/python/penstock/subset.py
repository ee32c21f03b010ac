"""Turns the argument `indices`, a subset of a dataset, into the file that the daemon reads
(kept.py)."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ArgumentError
from .kept import keep

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.integer[Any]]

__all__ = ["check_mask", "chosen", "mask_length", "save"]

_EXPECTED = (
    "indices: expected the numbers of samples: a sequence of ints, a range, an array or tensor of integers with one "
    "dimension; a mask with one bool for each sample of the dataset; or a list of paths of a folder's samples"
)


def _plain(indices: Any) -> Any:
    """The indices in a form that NumPy reads: tensors from any device, and ranges as arrays."""
    if isinstance(indices, range):
        if not indices:
            return np.empty(0, np.int64)
        if not all(-(2**63) <= edge < 2**63 for edge in (indices[0], indices[-1])):
            raise ArgumentError(f"{_EXPECTED}; got {indices}, whose numbers do not fit into 64 bits")
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
    """The number of samples that a mask is for; None if `indices`, which save accepted, is not a
    mask."""
    return len(indices) if np.asarray(_plain(indices)[:1]).dtype == np.bool_ else None


def check_mask(length: int | None, samples: int) -> None:
    """ArgumentError if a mask's length is not that of the dataset. save cannot check that if it
    does not know the dataset."""
    if length is not None and length != samples:
        raise ArgumentError(
            f"indices: expected a mask with one bool for each of the dataset's {samples} samples, got {length} bools"
        )


def _chosen(array: npt.NDArray[Any], samples: int | None) -> Numbers:
    """The numbers of the samples that a mask selects, or the array itself."""
    if array.dtype != np.bool_:
        return array
    if samples is not None:
        check_mask(array.size, samples)
    return np.flatnonzero(array)


def _numbers(indices: Any, samples: int | None) -> Numbers:
    """Checks the indices. `samples` is the dataset's number of samples; None: the daemon checks for
    numbers beyond it."""
    array = _array(indices)
    if not array.size:
        raise ArgumentError("indices is empty: expected at least one sample")
    numbers = _chosen(array, samples)
    if not np.issubdtype(numbers.dtype, np.integer):
        raise ArgumentError(f"{_EXPECTED}; got {numbers.dtype.name}")
    if not numbers.size:
        raise ArgumentError(f"indices: none of the mask's {array.size} bools is True: expected at least one sample")
    lowest, highest = int(numbers.min()), int(numbers.max())
    if lowest < 0 or (samples is not None and highest >= samples):
        place = int(numbers.argmin() if lowest < 0 else numbers.argmax())
        limit = f" to {samples - 1}" if samples is not None else ""
        raise ArgumentError(f"indices[{place}] is {int(numbers[place])}, but samples are numbered from 0{limit}")
    return numbers


def _bytes(numbers: Numbers) -> bytes:
    narrow = int(numbers.max()) < 2**32
    file = io.BytesIO()
    np.lib.format.write_array(file, numbers.astype("<u4" if narrow else "<u8"), version=(1, 0), allow_pickle=False)
    return file.getvalue()


def chosen(indices: Any, samples: int) -> "list[int]":
    """The numbers that `indices` chooses from that many samples."""
    numbers: "list[int]" = _numbers(indices, samples).tolist()
    return numbers


def save(indices: Any, samples: int | None = None) -> str:
    """Writes Loader(indices=...) to a file and returns its absolute path, for the stream's option
    `indices`.

    `indices`: a sequence of ints, a range, an array or tensor of integers, the `.indices` of a
    Subset, or a mask of bools. Order and repetitions are kept. `samples` is the dataset's number of
    samples, or None if it is not known yet: then the daemon checks for numbers beyond the dataset,
    and check_mask checks the length of a mask. ArgumentError says what is wrong, and where."""
    return keep("indices", _bytes(_numbers(indices, samples)))
