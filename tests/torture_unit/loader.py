"""The Python extension and Loader with the memory of each of their own call sites failing in turn (tests/inject).

What must hold: the batches that an undisturbed run gives, or MemoryError or penstock's own errors; never a signal, a hang, another
exception. Sites are those with libpenstock or the extension among the nearest callers: the interpreter's own are its own affair."""
import os
import subprocess
import sys
from pathlib import Path

FOLDERS = [str(Path(__file__).resolve().parents[1] / name) for name in ("e2e", "inject")]
sys.path[:0] = FOLDERS
from harness import NIGHTLY, SLOW, Daemon, Skip, folder, promise, run_tests, tool  # noqa: E402
from inject import LIBRARY, Inject  # noqa: E402

NEAREST = 5  # callers
SAMPLE = 8
CALLS = {"malloc": "ENOMEM", "calloc": "ENOMEM", "realloc": "ENOMEM", "mmap": "ENOMEM", "sendmsg": "ENOBUFS", "recvmsg": "ENOMEM",
         "socket": "EMFILE", "poll": "ENOMEM"}

CHILD = """
import sys, zlib
import numpy
import penstock, penstock.errors
sys.path[:0] = sys.argv[5:]
from inject import Shared
import mmap
file = open(sys.argv[3], "r+b")
shared = Shared.from_buffer(mmap.mmap(file.fileno(), 0))
own = (MemoryError, penstock.errors.Error)
crc = 0
shared.collect = int(sys.argv[4])
shared.rule[0].on = 1 - int(sys.argv[4])
try:
    loader = penstock.Loader(sys.argv[1], batch_size=2, image_size=32, socket=sys.argv[2], device="cpu", dtype="uint8")
    for images, labels in loader:
        crc = zlib.crc32(numpy.ascontiguousarray(images), zlib.crc32(numpy.ascontiguousarray(labels), crc))
    loader.state_dict()
    del loader
    said = "right %d" % crc
except own as error:
    said = "%s: %s" % (type(error).__name__, error)
shared.collect = 0
shared.rule[0].on = 0
print(said, flush=True)
"""


def child(home, daemon, inject, collect):
    """(exit code, last line, standard error) of a run; None: it hangs."""
    words = [sys.executable, "-c", CHILD, str(home / "set"), daemon.socket, str(inject.path), str(int(collect)), *FOLDERS]
    try:
        done = subprocess.run(words, env={**os.environ, **inject.environment()}, capture_output=True, text=True, timeout=30 * SLOW)
    except subprocess.TimeoutExpired:
        return None, "hangs", ""
    return done.returncode, (done.stdout.strip().splitlines() or [""])[-1], done.stderr


def own_sites(inject):
    """Those that penstock's libraries are near."""
    found = []
    for (call, site), (_, frames) in inject.sites().items():
        near = [inject.shared.module[m - 1].path.decode() for m, _ in frames[:NEAREST] if m]
        if call in CALLS and any("penstock" in os.path.basename(path) and "inject" not in path for path in near):
            found.append((call, site))
    return sorted(found)


def wrong(right, got):
    code, said, errors = got
    if code is None or code != 0:
        return f"exit code {code}: {said} {errors[-400:]}"
    if said.startswith("right") and said != right:
        return f"another result: {said}"
    return "" if said.startswith("right") or len(said.split(": ", 1)[-1]) > 3 else f"no sentence: {said}"


def test_loader():
    try:
        import numpy  # noqa: F401
        import penstock  # noqa: F401
    except ImportError as error:
        raise Skip(f"no package: {error}") from None
    if not LIBRARY.exists():
        raise Skip("libpenstock_inject.so is not built")
    with folder() as home:
        subprocess.run([tool("make_dataset"), str(home / "set"), "--per-class", "2", "--max-side", "220"], check=True, capture_output=True)
        with Daemon(home) as daemon:
            walk(home, daemon, Inject(home / "inject"))


def walk(home, daemon, inject):
    code, right, errors = child(home, daemon, inject, True)
    assert code == 0 and right.startswith("right"), f"undisturbed: {code}: {right} {errors}"
    sites = own_sites(inject)
    assert sites, "no call of the package was seen"
    step = 1 if NIGHTLY else max(1, len(sites) // SAMPLE)
    findings, refused = [], 0
    for call, site in sites[::step]:
        for persistent in (False, True) if NIGHTLY else (False,):
            inject.arm(call, CALLS[call], persistent=persistent, site=site)
            inject.disarm()  # the child says when
            got = child(home, daemon, inject, False)
            refused += not got[1].startswith("right")
            if wrong(right, got):
                findings.append(f"{call}@{site:x}{'+' if persistent else ''}: {wrong(right, got)}\n    {inject.failures()[-1:]}")
                print(findings[-1], flush=True)
    print(f"{len(sites)} sites, {refused} refused, {len(findings)} findings", flush=True)
    assert not findings, f"{len(findings)} findings"
    promise(f"Python's loader: {len(sites)} call sites, {refused} runs refused in words")


if __name__ == "__main__":
    run_tests(globals())
