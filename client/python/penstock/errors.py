"""The exceptions that penstock raises. The text of each one says what is wrong and what to do.

All derive from `Error`. Where Python has an exception that callers catch anyway (FileNotFoundError,
TimeoutError, ...), penstock's exception also derives from that one. `code` is the errno, or 0 if
there is none.
"""

import errno
import re

from . import notation

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "AssignmentError",
    "ClosedError",
    "CopyError",
    "DaemonError",
    "DaemonMemoryError",
    "DatasetError",
    "DetachedError",
    "DeviceError",
    "Error",
    "ForkError",
    "GroupError",
    "HeldError",
    "IteratorError",
    "MemoryLimitError",
    "ReadOnlyError",
    "SourceNotFoundError",
    "StateError",
    "TransformError",
    "WaitTimeoutError",
]


class Error(Exception):
    """The base class of all exceptions that penstock raises."""

    code = 0


class ArgumentError(Error, ValueError):
    """An argument or an environment variable has a value that is not allowed, or does not exist; or
    the source is not a dataset (then it is a DatasetError)."""


class ArgumentTypeError(ArgumentError, TypeError):
    """The loader does not have this argument, or the argument's value has the wrong type."""


class AssignmentError(Error, AttributeError):
    """An attribute of a loader, or of its dataset, is assigned, which would change nothing; the text
    names the argument to pass instead."""


class DatasetError(ArgumentError):
    """The source exists but is not a dataset: it contains no images, labels are missing, or a file
    is not a tar file."""


class SourceNotFoundError(Error, FileNotFoundError):
    """The source does not exist, or penstockd was not found and cannot be started."""


class StateError(Error, ValueError):
    """The state does not fit: it belongs to another dataset, seed or order, or is not a state."""


class TransformError(Error, RuntimeError):
    """A function in transforms=[...] raised an exception, which is this one's __cause__, or returned
    something other than a row. The loader has left out the batch and remains usable."""


class MemoryLimitError(Error, MemoryError):
    """The stream does not fit into the daemon's memory; the text says what would fit."""


class DaemonError(Error, ConnectionError):
    """The daemon is gone, cannot be started, or violates the protocol."""


class DaemonMemoryError(MemoryLimitError, DaemonError):
    """No daemon can be started with so little memory= for its threads; the text says what it
    needs."""


class WaitTimeoutError(Error, TimeoutError):
    """No batch came in time; the text names the slow stage and the file that it is working on. The
    loader remains usable."""


class GroupError(Error):
    """The group refuses this trainer: its options or its state differ, or its rank is taken. Or the
    daemon refuses to give this process more streams."""


class DetachedError(Error):
    """This trainer kept its batches for too long and was detached from its group."""


class HeldError(Error):
    """Views in this process hold all slots, so the process would wait for itself."""


class DeviceError(Error, ValueError):
    """The device does not exist or cannot be used."""


class ForkError(Error, RuntimeError):
    """A loader is used in a process that was forked after the loader was created."""


class ClosedError(Error, RuntimeError):
    """A loader is used after close()."""


class CopyError(Error, TypeError):
    """A loader is copied or pickled. Each process must create its own."""


class IteratorError(Error, RuntimeError):
    """An iterator is used after a newer iterator of the same loader was started."""


class ReadOnlyError(Error, ValueError):
    """A zero-copy view is written to. Its memory belongs to the daemon, and other trainers may read
    it."""


_TYPES = {
    errno.ENOENT: SourceNotFoundError,
    errno.EINVAL: ArgumentError,
    errno.ENOMEM: MemoryLimitError,
    errno.ESTALE: StateError,
    errno.EBUSY: GroupError,
    errno.ECANCELED: DetachedError,
    errno.EDEADLK: HeldError,
    errno.ETIMEDOUT: WaitTimeoutError,
    errno.EBADF: ForkError,
    errno.ENODEV: DeviceError,
    errno.EPIPE: DaemonError,
    errno.ESHUTDOWN: DaemonError,
    errno.ECONNREFUSED: DaemonError,
    errno.EPROTO: DaemonError,
}


# Advice of libpenstock and the daemon to users of streams, and the same advice for a loader.
# tests/python/test_notation.py finds each of these sentences in C's sources.
_SAID_HERE = {
    "a new stream opened with the saved state goes on": "the next iteration of this loader goes on",
    "set laggard to block": 'use laggard="block"',
    "the state was taken with another ": "the state belongs to another ",
    ", or by a release that ": ", or was taken by a release that ",
    "open the stream as it was, or begin without the state": "create the loader with the arguments that it had when the "
    "state was taken, or begin without a state",
}

# As State.check_fits says it.
_KEYS = {"dataset": "fingerprint", "seed": "seed", "order": "order"}
_DIFFERS = re.compile(r"(?<=the state belongs to another )((dataset|seed|order)\b.*?) \((\w+), here (\w+)\)")


def _differs(found: "re.Match[str]") -> str:
    what, key, mine, its = found.groups()
    return f"{what}: its {_KEYS[key]} is {mine}, and the loader's is {its}"


# The last line of the log of a daemon that has less memory than its threads need. Its path and time
# say nothing to the user. tests/python/test_notation.py finds the sentence in C's sources.
_TOO_SMALL = re.compile(
    r"ended at once: .*(memory: .+ is too small for (\d+) decoding threads?): penstockd needs at least (\w+); "
    r"raise memory or lower threads"
)


def _too_small(found: "re.Match[str]") -> str:
    sentence, threads, needs = found.groups()
    fewer = ", or fewer threads=" if int(threads) > 1 else ""
    return f'{sentence}: pass memory="{needs}" or more{fewer}'


def from_code(code: int, sentence: str) -> Error:
    """The exception for a failure of libpenstock. `code` is a negative errno."""
    for theirs, ours in _SAID_HERE.items():
        sentence = sentence.replace(theirs, ours)
    sentence = _DIFFERS.sub(_differs, sentence)
    small = _TOO_SMALL.search(sentence)
    kind = DaemonMemoryError if small else _TYPES.get(-code, Error)
    error = kind(_too_small(small) if small else notation.python(sentence))
    error.code = -code
    return error
