"""What penstock raises. Each error is a sentence that says what is wrong and what to do.

All derive from `Error`. Where Python has a type that a caller would catch anyway (FileNotFoundError, TimeoutError, ...),
ours derives from it too. `code` is the errno behind it, 0 where there is none.
"""

import errno

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "ClosedError",
    "CopyError",
    "DaemonError",
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
    "WaitTimeoutError",
]


class Error(Exception):
    """Anything that penstock raises."""

    code = 0


class ArgumentError(Error, ValueError):
    """An argument, or a variable of the environment, has a value that is not allowed, or is not known; or the source is
    no dataset (then it is a DatasetError)."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument that the loader does not have, or that is of another type than it takes."""


class DatasetError(ArgumentError):
    """The source is there and is no dataset: no images in it, labels that are missing, a tar that is none."""


class SourceNotFoundError(Error, FileNotFoundError):
    """No such source; or no penstockd to start."""


class StateError(Error, ValueError):
    """A state that does not fit: of another dataset, seed or order, or no state at all."""


class MemoryLimitError(Error, MemoryError):
    """The stream does not fit the daemon's memory; the sentence says what would."""


class DaemonError(Error, ConnectionError):
    """The daemon is gone, cannot be started, or does not speak as it should."""


class WaitTimeoutError(Error, TimeoutError):
    """No batch came in time; the sentence names the stage that is slow and the file it is at. The loader goes on."""


class GroupError(Error):
    """The group refuses: other options, another state, or a rank that is taken. Or the daemon, which gives this process no
    more streams."""


class DetachedError(Error):
    """This trainer kept its batches for too long and was detached from its group."""


class HeldError(Error):
    """All slots are held by views that this process keeps, so that waiting would be for itself."""


class DeviceError(Error, ValueError):
    """There is no such device, or it cannot be used."""


class ForkError(Error, RuntimeError):
    """A loader is used in a process that was forked after it had been made."""


class ClosedError(Error, RuntimeError):
    """A loader is used after close()."""


class CopyError(Error, TypeError):
    """A loader is copied, or pickled to be sent to another process: each process makes its own."""


class IteratorError(Error, RuntimeError):
    """An iterator is used after a newer one of the same loader was begun."""


class ReadOnlyError(Error, ValueError):
    """A zero-copy view is written to: its memory is the daemon's, and other trainers may read it."""


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


# What libpenstock and the daemon advise whom they give streams, and what that comes to with a loader.
_SAID_HERE = {
    "a new stream opened with the saved state goes on": "the next iteration of this loader goes on",
    "raise laggard_timeout_s": "raise laggard_timeout",
    "options.reconnect_ms": "reconnect",
    "options.restarts": "restarts",
}


def from_code(code: int, sentence: str) -> Error:
    """The error for a failure of libpenstock. `code` is a negative errno."""
    for theirs, ours in _SAID_HERE.items():
        sentence = sentence.replace(theirs, ours)
    error = _TYPES.get(-code, Error)(sentence)
    error.code = -code
    return error
