"""Read-only arrays over a batch's own memory, for zero_copy=True.

This process must not write to the daemon's memory: the kernel would kill it. NumPy learns from the
buffer that it is read-only and refuses; this module turns the refusal into an error of penstock
that says what to do. Copies of such an array, and results computed from it, are ordinary arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import numpy as np

from .errors import ReadOnlyError

__all__ = ["SlotArray"]


def _refuse() -> NoReturn:
    raise ReadOnlyError(
        "this array is a zero-copy view of the daemon's memory, which cannot be written to: make a copy "
        "(array.copy()), or create the loader with zero_copy=False"
    )


def _plain(value: Any) -> Any:
    """The value as an ordinary ndarray, also within nested arguments."""
    if isinstance(value, SlotArray):
        return value.view(np.ndarray)
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_plain(part) for part in value)
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return value


def _writing(name: str) -> Callable[..., Any]:
    """A method of ndarray that changes the array in place."""

    def method(self: SlotArray, *args: Any, **kwargs: Any) -> Any:
        if not self.flags.writeable:
            _refuse()
        return getattr(np.ndarray, name)(self, *args, **kwargs)

    method.__name__ = name
    return method


class SlotArray(np.ndarray):
    """An ndarray whose memory lives as long as any view of it: the batch's slot is returned with
    the last view."""

    def _check_writing(self) -> None:
        if not self.flags.writeable:
            _refuse()

    __setitem__ = _writing("__setitem__")
    fill = _writing("fill")
    itemset = _writing("itemset")
    partition = _writing("partition")
    put = _writing("put")
    resize = _writing("resize")
    setfield = _writing("setfield")
    sort = _writing("sort")

    def setflags(self, write: Any = None, align: Any = None, uic: Any = None) -> None:
        if write and not self.flags.writeable:
            _refuse()
        super().setflags(write=write, align=align, uic=uic)

    def byteswap(self, inplace: bool = False) -> Any:
        if inplace:
            self._check_writing()
        return self.view(np.ndarray).byteswap(inplace)

    def __dlpack__(self, **kwargs: Any) -> Any:
        """Refuses, unless a copy is asked for. Only torch would accept the view, and torch has no
        read-only tensors: the first write to one would kill the process without a message."""
        if not self.flags.writeable and kwargs.pop("copy", None) is not True:
            raise ReadOnlyError(
                "this array is a zero-copy view of the daemon's memory, and a consumer of DLPack may write to it: "
                "pass a copy (array.copy()), or create the loader with zero_copy=False"
            )
        return self.copy().__dlpack__(**kwargs)

    def copy(self, order: Any = "C") -> Any:
        return self.view(np.ndarray).copy(order)

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        return self.view(np.ndarray).astype(*args, **kwargs)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __reduce__(self) -> Any:
        return self.copy().__reduce__()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        written = [*kwargs.get("out", ()), *(inputs[:1] if method == "at" else ())]
        for array in written:
            if isinstance(array, SlotArray):
                array._check_writing()
        return getattr(ufunc, method)(*_plain(inputs), **_plain(kwargs))

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Iterable[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """For np.copyto, np.put, np.place and the like: NumPy itself notices that they would
        write."""
        try:
            return func(*_plain(tuple(args)), **_plain(dict(kwargs)))
        except ValueError as error:
            if "read-only" in str(error):
                _refuse()
            raise
