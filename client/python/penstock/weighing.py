"""Turns the arguments `weights`, which says how often each sample is drawn, and `sampling`, which
says how many classes a batch has, into the stream's options."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from .checks import number, shown
from .errors import ArgumentError, ArgumentTypeError
from .kept import keep

__all__ = ["BALANCED", "option", "per_class"]

BALANCED = "balanced"
_EXPECTED = (
    'weights: expected "balanced", the path of a .npy file, or a sequence, array or tensor with one dimension and one '
    "number, 0 or more, for each sample of the dataset, or a dict of a folder's samples, {path: number}"
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
        raise ArgumentError(f"weights[{place}] is {array[place]}: expected a finite number, 0 or more")
    if not array.any():
        raise ArgumentError(f"weights: none of the {array.size} weights is above 0: expected at least one")
    return array


def _bytes(array: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def option(weights: Any) -> str:
    """The stream's option `weights`. The daemon checks the number of weights."""
    if isinstance(weights, str) and weights == BALANCED:
        return weights
    if not isinstance(weights, (str, os.PathLike)):
        return keep("weights", _bytes(_checked(weights)))
    path = os.path.expanduser(os.fsdecode(weights))
    if not os.path.isfile(path):
        raise ArgumentError(f"{_EXPECTED}; got {path!r}, which is not a file")
    return os.path.abspath(path)


_PER_CLASS = 'sampling: expected a dict such as {"classes": 16, "per_class": 4}'


def per_class(sampling: Any, batch_size: Any) -> str:
    """The stream's option `sampling`: batches of P classes with K samples of each."""
    if not isinstance(sampling, Mapping):
        raise ArgumentTypeError(f"{_PER_CLASS}, got {shown(sampling)}")
    if set(sampling) != {"classes", "per_class"}:
        raise ArgumentError(f"{_PER_CLASS}, got {shown(dict(sampling))}")
    told = {key: number(f"sampling[{key!r}]", sampling[key], 1, 65536) for key in ("classes", "per_class")}
    block = told["classes"] * told["per_class"]
    if batch_size % block:
        raise ArgumentError(
            f"batch_size is {batch_size}, and sampling={dict(told)} needs a multiple of {told['classes']} x "
            f"{told['per_class']} = {block}"
        )
    return json.dumps(told)
