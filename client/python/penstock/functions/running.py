"""Applies functions to the rows of a batch, on threads.

Thread t of n takes the rows t, t + n, ...; the calling thread is one of them. What a row gets does
not depend on the threads: its generator follows from the seed, the salt, the epoch, the position
and the view. If functions fail for several rows, the first row is reported, whatever the threads.
Nothing here relies on Python's global lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from .reading import Function

__all__ = ["Failure", "Runner", "default_threads"]

_MOST_BY_DEFAULT = 4


def default_threads() -> int:
    """The CPUs that this process may use, at most 4: the daemon and the trainer need the rest."""
    try:
        usable = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # some sandboxes do not have the call
        usable = os.cpu_count() or 1
    return min(usable, _MOST_BY_DEFAULT)


@dataclass(frozen=True)
class Failure:
    """The row of the batch, what went wrong, and the function's exception, if it raised one."""

    row: int
    what: str
    cause: Optional[Exception]


def _seeded(seed: int, salt: int, epoch: int, position: int, view: int) -> Callable[[], Any]:
    """Makes the row's generator when a function first asks for it; the functions of a row share
    it."""
    made: "list[Any]" = []

    def generator() -> Any:
        if not made:
            key, counter = np.array([seed, salt], np.uint64), np.array([0, position, epoch, view], np.uint64)
            made.append(np.random.Generator(np.random.Philox(key=key, counter=counter)))
        return made[0]

    return generator


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    return "None (it must return the row, also if it changes it in place)" if value is None else f"an object of {type(value).__name__}"


class Runner:
    """One thread at a time may call `apply`."""

    def __init__(self, functions: Sequence[Function], threads: int, seed: int, salt: int) -> None:
        self._functions = tuple(functions)
        self._threads = threads
        self._seed, self._salt = seed, salt
        self._executor: Optional[ThreadPoolExecutor] = None

    def _row(self, row: Any, generator: Callable[[], Any]) -> "tuple[str, Optional[Exception]]":
        """Applies the functions to a row in place. ("", None), or what went wrong."""
        value = row
        for function in self._functions:
            try:
                value = function.apply(value, generator)
            except Exception as error:
                return f"{function.where}: {function.name} raised {type(error).__name__}: {error}", error
        last = self._functions[-1]
        try:
            array = np.asarray(value)
        except Exception as error:  # the object's own code runs here
            return f"{last.where}: {last.name} returned {_describe(value)}, which NumPy cannot read", error
        if array.shape != row.shape or array.dtype != row.dtype:
            expected = f"expected an array like the row, of shape {row.shape} and dtype {row.dtype}"
            return f"{last.where}: {last.name} returned {_describe(value)}: {expected}", None
        if array is not row:
            row[...] = array
        return "", None

    def _some(self, rows: Any, samples: Any, skip: Any, epoch: int, first: int, step: int) -> Optional[Failure]:
        for i in range(first, len(rows), step):
            if skip[i]:
                continue
            position, view = int(samples["position"][i]), int(samples["view"][i])
            what, cause = self._row(rows[i], _seeded(self._seed, self._salt, epoch, position, view))
            if what:
                return Failure(i, what, cause)
        return None

    def apply(self, rows: Any, samples: Any, skip: Any, epoch: int) -> Optional[Failure]:
        """Applies the functions to `rows`, uint8 (rows, height, width, 3), in place, except to those
        that `skip` names. None, or the first failure."""
        count = min(self._threads, len(rows))
        if count > 1 and self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads - 1, "penstock-map")
        others = [self._executor.submit(self._some, rows, samples, skip, epoch, t, count) for t in range(1, count) if self._executor]
        try:
            found = [self._some(rows, samples, skip, epoch, 0, max(count, 1))]
        finally:
            # Also if Ctrl-C ends the calling thread's part, or a function raises SystemExit: the rows belong to the
            # threads until all of them are done.
            wait(others)
        done = [other.result() for other in others]
        failures = [failure for failure in [*found, *done] if failure is not None]
        return min(failures, key=lambda failure: failure.row, default=None)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None
