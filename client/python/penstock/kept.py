"""Files that the daemon reads in the place of a long list of numbers: which samples, how much each weighs.

The daemon takes no lists by message and no descriptors from clients, so they go by file: a folder of the user's cache
holds one for each content, named by its hash. So all ranks of a node name the same file, and whoever opens the same
stream again writes nothing.
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
    """Makes the folder; false where it cannot be written to, or is another user's."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return os.stat(folder).st_uid == os.getuid() and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def _folders(name: str) -> list[str]:
    """Where the files may lie, the first that can be used first."""
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~")
    folders = [cache] if os.path.isabs(cache) else [os.path.join(home, ".cache")] if os.path.isabs(home) else []
    folders = [os.path.join(folder, "penstock", name) for folder in folders]
    return [*folders, os.path.join(tempfile.gettempdir(), f"penstock-{os.getuid()}", name)]


def _folder(name: str) -> str:
    for folder in _folders(name):
        if _usable(folder):
            return folder
    raise ArgumentError(
        f"{name}: no folder for their file can be written to ({', '.join(_folders(name))}): set XDG_CACHE_HOME"
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


def _write(name: str, path: str, content: bytes) -> None:
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
            f"{name}: cannot write {path}: {error.strerror}: free some space, or set XDG_CACHE_HOME"
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


def keep(name: str, content: bytes) -> str:
    """The absolute path of a file with this content, a .npy file's; `name` is the argument that it is of."""
    folder = _folder(name)
    path = os.path.join(folder, hashlib.sha256(content).hexdigest()[:32] + ".npy")
    if not _is_good(path, content):
        _write(name, path, content)
        _sweep(folder, path)
    return path
