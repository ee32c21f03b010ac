"""Shared by the tests of the Python package: a private folder and environment, a small dataset, and
a check at the end.

    import support
    from support import penstock

    class Epochs(unittest.TestCase):
        def test_length(self):
            with penstock.Loader(support.dataset(), ...) as loader: ...

    if __name__ == "__main__":
        support.main()

Importing this module creates a folder for HOME, XDG_CACHE_HOME, XDG_STATE_HOME and XDG_RUNTIME_DIR,
so that each test has its own private daemon, and removes the variables that name ranks, jobs and
daemons from the environment. main() stops the daemon and removes the folder; a process that is left
is an error. A program in which every test was skipped exits with 77, which CTest reports as
skipped.

By hand: PYTHONPATH=BUILD/python python3 tests/python/test_NAME.py [TEST...]."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import gc
import importlib
import importlib.util
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import unittest
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator

_ROOT = Path(__file__).resolve().parents[2]


def _skip_program(reason: str) -> None:
    print(f"skipped: {reason}", flush=True)
    sys.exit(77)


def require(*modules: str) -> None:
    """Skips the whole program if one of them is not installed."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            _skip_program(f"{sys.executable} has no {module}")


require("numpy")
_package = importlib.util.find_spec("penstock")
if _package is None or not _package.submodule_search_locations:
    _skip_program("penstock cannot be imported: set PYTHONPATH to BUILD/python")
else:
    BUILD = Path(list(_package.submodule_search_locations)[0]).parents[1]

folder = Path(tempfile.mkdtemp(prefix="penstock-python-"))
_owner = os.getpid()
_FOLDERS = {"HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "run"}
_STRANGE = re.compile(r"PENSTOCK(_SOCKET|_JOB|D)?|(LOCAL_|NODE_|GROUP_)?(RANK|WORLD_SIZE)|MASTER_(ADDR|PORT)|"
                      r"(TORCHELASTIC|SLURM|OMPI|PMI)_.*")
for _name in [name for name in os.environ if _STRANGE.fullmatch(name)]:
    del os.environ[_name]
for _name, _below in _FOLDERS.items():
    (folder / _below).mkdir(mode=0o700)
    os.environ[_name] = str(folder / _below)
os.environ.setdefault("PENSTOCK_BIN", str(BUILD / "bin"))

# A sanitizer's runtime: this process has already loaded it, and penstockd is linked with it.
_PRELOAD = os.environ.pop("LD_PRELOAD", None)
SANITIZED = _PRELOAD is not None

sys.path.insert(0, str(_ROOT / "tests/e2e"))
import harness  # noqa: E402

PHOTOGRAPHS = harness.PHOTOGRAPHS
wait_until = harness.wait_until
LIMIT = harness.LIMIT


class _Later:
    """Imports penstock when it is first used: a test of only the extension does not need it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("penstock"), name)


penstock: Any = _Later()


def photographs() -> "list[Path]":
    """All photographs, in the order of a dataset of PHOTOGRAPHS; none where there are none."""
    try:
        return harness.photographs()
    except harness.Skip:
        return []


@functools.lru_cache(maxsize=None)
def dataset(per_class: int = 20, classes: int = 3, tars: bool = False, seed: int = 0, min_side: int = 64,
            max_side: int = 160) -> str:
    """A folder of small painted images (with `tars`: of shards), made once per program: beach,
    bricks, forest, ..."""
    kind = "tars" if tars else "images"
    path = folder / f"{kind}-{classes}x{per_class}-{seed}-{min_side}-{max_side}"
    return str(harness.make_dataset(path, per_class, classes, tars, seed, min_side, max_side))


def daemons() -> "dict[int, str]":
    """The processes of penstock that this program or its children have started: pid and program."""
    mine = f"XDG_RUNTIME_DIR={folder}/run".encode()
    found = {}
    for pid, program in harness.penstock_processes():
        with contextlib.suppress(OSError):
            if mine in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found[pid] = program
    return found


def stop_daemons(sig: int = signal.SIGTERM) -> None:
    for pid, program in daemons().items():
        if program == "penstockd":
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sig)
    wait_until(lambda: not daemons(), "the private daemon's end")


def python(code: str, *arguments: str, check: bool = True, limit: float = LIMIT,
           **environment: str) -> "subprocess.CompletedProcess[str]":
    """Runs a program in another Python process; if it fails, fails with its output."""
    preload = {"LD_PRELOAD": _PRELOAD} if _PRELOAD else {}
    if preload:
        code = f"import os; os.environ.pop('LD_PRELOAD')\n{code}"
    answer = subprocess.run([sys.executable, "-c", code, *arguments], env={**os.environ, **preload, **environment},
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            timeout=limit)
    if check:
        assert answer.returncode == 0, f"ended with {answer.returncode}: {answer.stdout}{answer.stderr}"
    return answer


@contextlib.contextmanager
def started(code: str, **environment: str) -> "Iterator[subprocess.Popen[str]]":
    """Runs a program in another Python process until the block ends."""
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **environment}, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def forked(function: "Callable[[], Any]") -> Any:
    """The result of a function in a forked child, which then exits without Python's cleanup."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 and later warn about other threads, which these tests need.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            answer = (True, function())
        except BaseException:
            answer = (False, traceback.format_exc())
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(pickle.dumps(answer))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    status = os.waitpid(pid, 0)[1]
    assert status == 0 and data, f"the child ended with status {status}"
    good, answer = pickle.loads(data)
    assert good, f"in the child: {answer}"
    return answer


def mappings() -> int:
    """The number of extents of shared memory that this process has mapped."""
    return sum("memfd:penstock" in line for line in Path("/proc/self/maps").read_text().splitlines())


@contextlib.contextmanager
def nothing_left(what: str = "") -> "Iterator[None]":
    """Checks that the numbers of descriptors and mappings are the same afterwards."""
    before = (sorted(os.listdir("/proc/self/fd")), mappings())
    yield
    after = (sorted(os.listdir("/proc/self/fd")), mappings())
    assert after == before, f"left behind{what and ' by '}{what}: descriptors and mappings were {before}, are {after}"


def _clean_up() -> None:
    if os.getpid() == _owner and folder.exists():
        # A daemon that is told to stop waits for its trainers; the garbage collector may still have
        # some.
        gc.collect()
        try:
            stop_daemons()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Runs the tests of the program and exits."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(4 * LIMIT, exit=True)
    result = unittest.main(module="__main__", exit=False, buffer=False).result
    faulthandler.cancel_dump_traceback_later()
    _clean_up()
    skipped = len(result.skipped)
    for test, reason in result.skipped:
        print(f"skipped {test}: {reason}")
    sys.exit(1 if not result.wasSuccessful() else 77 if result.testsRun == skipped else 0)


atexit.register(_clean_up)
