"""How often each sample is drawn: what a user passes as `weights`, made what the daemon reads."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np

from .checks import shown
from .errors import ArgumentError, ArgumentTypeError
from .kept import keep

__all__ = ["BALANCED", "option"]

BALANCED = "balanced"
_EXPECTED = (
    'weights: expected "balanced", the path of a .npy file, or one number from 0 on for each sample of the dataset: a '
    "sequence, an array or a tensor with one dimension"
)


def _array(weights: Any) -> Any:
    if hasattr(weights, "detach") and hasattr(weights, "cpu"):
        weights = weights.detach().cpu()
    if isinstance(weights, (bytes, dict, set)) or not hasattr(weights, "__len__"):
        raise ArgumentTypeError(f"{_EXPECTED}; got {shown(weights)}")
    try:
        array = np.asarray(weights)
        if array.dtype.kind not in "fiu":
            raise TypeError(array.dtype.name)
        array = array.astype("<f8")
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentTypeError(f"{_EXPECTED}; got {type(weights).__name__} ({error})") from None
    if array.ndim != 1:
        raise ArgumentError(f"{_EXPECTED}; got the shape {array.shape}")
    return array


def _checked(weights: Any) -> Any:
    array = _array(weights)
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        place = int(wrong.argmax())
        raise ArgumentError(f"weights[{place}] is {array[place]}: expected a finite number from 0 on")
    if not array.any():
        raise ArgumentError(f"weights: of {array.size} none is above 0: an epoch needs one sample")
    return array


def _bytes(array: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def option(weights: Any) -> str:
    """For the stream's option `weights`. How many there are to be is the daemon's to know."""
    if isinstance(weights, str) and weights == BALANCED:
        return weights
    if not isinstance(weights, (str, os.PathLike)):
        return keep("weights", _bytes(_checked(weights)))
    path = os.path.expanduser(os.fsdecode(weights))
    if not os.path.isfile(path):
        raise ArgumentError(f"{_EXPECTED}; got {path!r}, where there is no file")
    return os.path.abspath(path)
