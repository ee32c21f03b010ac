"""Leftovers of dead processes never block a start: sockets, locks, indexes, entry points, and foreign files in the cache folder."""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from faults import TINY, FaultTrainer, killed_after, seeded, tiny_dataset, undisturbed
from harness import Daemon, folder, make_dataset, run_tests, tool

BATCHES = 30


@contextlib.contextmanager
def sources():
    """A folder and tars, and the rows of undisturbed trainers; the daemon was SIGKILLed afterwards."""
    with folder() as home:
        tiny_dataset(home)
        make_dataset(home / "tars", per_class=20, tars=True, min_side=24, max_side=48)
        both = [home / "images", home / "tars/*.tar"]
        with started(home) as daemon:
            want = [rows(home, daemon, source) for source in both]
        yield home, both, want


@contextlib.contextmanager
def started(home):
    """A daemon that ends by SIGKILL, so that each leaves its socket and its lock."""
    daemon = Daemon(home, "--threads", "2")
    try:
        yield daemon
    finally:
        daemon.stop(signal.SIGKILL)


def rows(home, daemon, source):
    return undisturbed(home, daemon.socket, {"source": source, **TINY}, BATCHES)


def check_start(home, both, want, what):
    try:
        with started(home) as daemon:
            for source, lines in zip(both, want):
                assert rows(home, daemon, source) == lines, f"{source}: the same as undisturbed"
    except BaseException as error:
        raise AssertionError(f"{what}: {error}") from error


def test_socket_of_a_dead_daemon():
    with sources() as (home, both, want):
        path = home / "run/s.sock"
        assert path.is_socket(), "left by the one that was killed"
        check_start(home, both, want, "its socket")
        for backlog in (0, 1):  # bound, and listened on, by somebody who has gone
            path.unlink()
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
                dead.bind(str(path))
                if backlog:
                    dead.listen(backlog)
            check_start(home, both, want, "a dead program's socket")
        path.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
            dead.bind(str(path))
        check_start(home, both, want, "a socket of another type")


def test_lock_of_the_dead():
    with sources() as (home, both, want):
        lock = home / "run/s.sock.lock"
        dead = subprocess.Popen(["true"])
        dead.wait()
        for what, data in (("empty", b""), ("a dead pid", b"%d\n" % dead.pid), ("the pid of another program", b"%d\n" % os.getpid()),
                           ("pid 1", b"1\n"), ("garbage", os.urandom(300)), ("no number", b"-99999999999999999999\n"), ("much", b"7" * 1000000)):
            lock.write_bytes(data)
            check_start(home, both, want, f"a lock that holds {what}")
        lock.unlink()
        check_start(home, both, want, "a lock that was removed")


def damaged(random, data):
    """States of a file after a crash, or after a user's mistake."""
    half = len(data) // 2
    return [("empty", b""), ("cut to half", data[:half]), ("cut by a byte", data[:-1]), ("with a byte more", data + b"\0"),
            ("zero from its middle on", data[:half] + bytes(len(data) - half)), ("zero", bytes(len(data))), ("noise", random.randbytes(len(data))),
            ("text", b"not what you think\n")]


def flip_bits(random, file):
    data = bytearray(file.read_bytes())
    for _ in range(3):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    file.write_bytes(data)


def test_index_and_checkpoints_damaged():
    random = seeded("stale")
    with sources() as (home, both, want):
        files = sorted([*(home / "tars").glob("*.idx"), *(home / "tars").glob("*.ckp"), *(home / "cache").rglob("*.idx"),
                        *(home / "cache").rglob("*.ckp")])
        assert {f.suffix for f in files} == {".idx", ".ckp"} and any("cache" in str(f) for f in files), files
        whole = {f: f.read_bytes() for f in files}
        for number in range(8):
            what = ""
            for file, data in whole.items():
                what, contents = damaged(random, data)[number]
                file.write_bytes(contents)
            check_start(home, both, want, f"indexes and checkpoints {what}")
        for file in files:
            file.unlink(missing_ok=True)
            file.mkdir()
        (files[0] / "inside").write_text("x")
        check_start(home, both, want, "folders in their places")


def test_bits_flipped_by_the_disk():
    """Damage that no crash does. Pages of an index are read when they are needed: then it is an error that names the file and what to do."""
    random = seeded("flipped")
    with sources() as (home, both, want):
        checkpoints, indexes = sorted((home / "tars").glob("*.ckp")), sorted((home / "tars").glob("*.idx"))
        for file in checkpoints:
            flip_bits(random, file)
        check_start(home, both, want, "checkpoints with flipped bits")
        for file in indexes:
            flip_bits(random, file)
        with started(home) as daemon:
            trainer = FaultTrainer(home, daemon.socket, {"source": both[1], **TINY}, batches=BATCHES)
            trainer.process.wait()
            end = trainer.notes()[-1]
            assert trainer.batches() == want[1] or (end.kind == "error" and ".idx" in end.text and "delete the index" in end.text), end
            assert rows(home, daemon, both[0]) == want[0], "other streams go on"
        for file in indexes:
            file.unlink(missing_ok=True)
        check_start(home, both, want, "indexes that were deleted, as the sentence says")


def test_written_by_one_that_was_killed():
    """Names that the daemon gives to unfinished files."""
    with sources() as (home, both, want):
        for file in [*(home / "tars").glob("*.idx"), *(home / "tars").glob("*.ckp"), *(home / "cache").rglob("*.idx")]:
            data = file.read_bytes()
            Path(f"{file}.tmp-a1B2c3").write_bytes(data[:len(data) // 3])
            Path(f"{file}.tmp-000000").write_bytes(b"")
            file.unlink()
        check_start(home, both, want, "half-written files beside where they were to be")


def test_cache_folder_of_strangers():
    with sources() as (home, both, want):
        cache = home / "cache/penstock"
        (cache / "notes.txt").write_text("mine")
        (cache / "folder.idx").mkdir()
        (cache / "dangling.idx").symlink_to(home / "nowhere")
        (cache / "loop").symlink_to(cache)
        os.mkfifo(cache / "pipe.idx")
        (cache / "quarantine.tsv").mkdir()
        (cache / ("x" * 200)).write_bytes(os.urandom(5000))
        check_start(home, both, want, "strangers' files in the cache folder")
        assert (cache / "notes.txt").read_text() == "mine", "they are left alone"
        shutil.rmtree(cache)
        check_start(home, both, want, "no cache folder")


def holder_of_lock(path):
    """A process that holds an flock on it."""
    script = "import fcntl,sys,time; f=open(sys.argv[1],'a'); fcntl.flock(f,fcntl.LOCK_EX); print(1,flush=True); time.sleep(100)"
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


def test_spawn_lock_of_the_dead():
    """Trainers that start a private daemon take a lock; a trainer that was killed while it held the lock blocks no other."""
    with folder() as home:
        tiny_dataset(home)
        (home / "run").mkdir(mode=0o700)
        lock, path = home / "run/spawn.lock", str(home / "run/s.sock")
        environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache"), "PENSTOCKD": tool("penstockd")}
        definition = {"source": home / "images", **TINY, "private_daemon": 1}
        lock.write_bytes(os.urandom(100))
        process = holder_of_lock(lock)
        trainer = FaultTrainer(home, path, definition, mode="lib", environment=environment, batches=3)
        with killed_after([trainer]):
            time.sleep(0.5)
            assert trainer.process.poll() is None and not trainer.notes(), "it waits for the lock"
            process.kill()
            process.wait()
            process.stdout.close()
            assert len(trainer.finish()) == 3
        stopped = subprocess.run([tool("penstock"), "stop"], env={**environment, "PENSTOCK_SOCKET": path}, capture_output=True, check=False)
        assert stopped.returncode == 0, stopped


if __name__ == "__main__":
    run_tests(globals())
