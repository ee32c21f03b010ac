"""Files from which the daemon reads long lists of numbers: which samples, and their weights.

The daemon accepts neither lists in messages nor descriptors from clients, so lists are passed in
files. A folder in the user's cache has one file for each content, named by the content's hash. All
ranks of a node therefore name the same file, and opening the same stream again writes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time

from .errors import ArgumentError

__all__ = ["keep"]

_KEPT_S = 30 * 24 * 3600


def _usable(folder: str) -> bool:
    """Creates the folder. False if it is not writable or belongs to another user."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return os.stat(folder).st_uid == os.getuid() and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def _folders(name: str) -> list[str]:
    """The folders that can have the files, in order of preference."""
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~")
    folders = [cache] if os.path.isabs(cache) else [os.path.join(home, ".cache")] if os.path.isabs(home) else []
    folders = [os.path.join(folder, "penstock", name) for folder in folders]
    return [*folders, os.path.join(tempfile.gettempdir(), f"penstock-{os.getuid()}", name)]


def _folder(name: str) -> str:
    for folder in _folders(name):
        if _usable(folder):
            return folder
    raise ArgumentError(
        f"{name}: cannot write their file, because none of these folders is writable: {', '.join(_folders(name))}; set "
        "XDG_CACHE_HOME to a folder that is"
    )


def _is_good(path: str, content: bytes) -> bool:
    """Whether the file exists and is complete. It is marked as used before it is read, so that no
    other process removes it afterwards."""
    try:
        os.utime(path)
        with open(path, "rb") as file:
            return file.read() == content
    except OSError:
        return False


def _write(name: str, path: str, content: bytes) -> None:
    """Writes another file and renames it, so that a reader finds the whole file or none."""
    file, beside = tempfile.mkstemp(prefix=".new-", suffix=".npy", dir=os.path.dirname(path))
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise ArgumentError(
            f"{name}: cannot write {path}: {error.strerror}; free some space, or set XDG_CACHE_HOME to another folder"
        ) from error


def _sweep(folder: str, keep: str) -> None:
    """Removes files that were not used for 30 days, including those that a killed process left."""
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


def keep(name: str, content: bytes) -> str:
    """The absolute path of a file with `content`, that of a .npy file. `name` is the argument."""
    folder = _folder(name)
    path = os.path.join(folder, hashlib.sha256(content).hexdigest()[:32] + ".npy")
    if not _is_good(path, content):
        _write(name, path, content)
        _sweep(folder, path)
    return path
