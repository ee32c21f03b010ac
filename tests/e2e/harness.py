"""What the end-to-end tests share: a daemon in a folder of its own, the dump_batches trainer, small datasets, raw messages.

Only the standard library. Every process that a test starts is ended with it; every wait has a limit. A test is a function whose name
begins with test_; run_tests() runs those of a module, each with an alarm, and counts what is left behind."""
import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

BIN = Path(os.environ.get("PENSTOCK_BIN", Path(__file__).resolve().parents[2] / "build/release/bin")).resolve()
ROOT = Path(__file__).resolve().parents[2]
IMAGENET = ROOT.parent / "shared/data/imagenet"
SLOW = float(os.environ.get("PENSTOCK_TEST_SLOW", "1"))  # sanitizers: how many times longer a wait may take
LIMIT = 60 * SLOW


class Skip(Exception):
    pass


def tool(name):
    return str(BIN / name)


def wait_until(condition, what, limit=None):
    end = time.monotonic() + (limit or LIMIT)
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {limit or LIMIT:.0f} s for {what}")


@contextlib.contextmanager
def folder():
    path = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Daemon:
    """penstockd with a socket, a cache and a log below `home`."""

    def __init__(self, home, *options, config=None, expect_start=True, environment=None):
        self.home = Path(home)
        self.socket = str(self.home / "run/s.sock")
        self.log = self.home / "log"
        self.out = open(self.log, "ab")
        command = [tool("penstockd"), "--socket", self.socket, *map(str, options)]
        if config is not None:
            self.config = self.home / "penstock.yaml"
            self.config.write_text(config)
            command += ["--config", str(self.config)]
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(self.home / "cache"), **(environment or {})}
        self.process = subprocess.Popen(command, stderr=self.out, stdout=self.out, stdin=subprocess.DEVNULL, env=self.environment)
        if expect_start:
            wait_until(lambda: self.listens() or self.process.poll() is not None, "the daemon's socket")
            assert self.process.poll() is None, self.text()

    def listens(self):
        """A socket that is there may be a dead daemon's."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            return probe.connect_ex(self.socket) == 0

    def text(self):
        return self.log.read_text(errors="replace")

    def trainer(self, **keys):
        return Trainer(self.socket, self.environment, **keys)

    def batches(self, **keys):
        """Runs a trainer to its end; its lines."""
        return self.trainer(**keys).finish()

    def status(self):
        import json
        answer = subprocess.run([tool("penstock"), "status", "--json"], env={**self.environment, "PENSTOCK_SOCKET": self.socket},
                                capture_output=True, timeout=LIMIT)
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        code = self.process.wait(timeout=LIMIT)
        self.out.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        code = self.stop()
        if kind:
            sys.stderr.write(self.text()[-6000:])
        else:
            assert code == 0, f"penstockd ended with {code}:\n{self.text()[-6000:]}"


class Trainer:
    def __init__(self, socket_path, environment, **keys):
        keys = {"socket": socket_path, "private": 0, **keys}
        command = [tool("dump_batches"), *(f"{k}={v}" for k, v in keys.items())]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.seen = []

    def line(self):
        """The next line it prints."""
        text = self.process.stdout.readline().rstrip("\n")
        self.seen.append(text)
        return text

    def finish(self, code=0):
        out, err = self.process.communicate(timeout=LIMIT)
        self.seen += out.splitlines()
        assert self.process.returncode == code, f"trainer ended with {self.process.returncode}, not {code}: {self.seen[-3:]} {err}"
        return [line for line in self.seen if line]

    def error(self):
        """It must end with an error; the sentence."""
        last = self.finish(code=1)[-1]
        assert last.startswith("error "), last
        return last

    def kill(self):
        self.process.kill()
        self.process.communicate()


def rows(lines):
    """Batch lines alone, without state, path, end."""
    return [line for line in lines if line[:1].isdigit()]


def make_dataset(path, per_class=20, classes=3, tars=False, seed=0, min_side=64, max_side=160, per_shard=25):
    command = [tool("make_dataset"), str(path), "--classes", classes, "--per-class", per_class, "--seed", seed, "--min-side", min_side,
               "--max-side", max_side]
    if tars:
        command += ["--tars", "--per-shard", per_shard]
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, timeout=LIMIT)
    return path


# ---- raw messages: for clients that do not use libpenstock (proto/wire.h) ----

MAGIC = 0x4B434F54534E4550
HELLO, OPEN, RELEASE, CLOSE, QUERY, STOP = 1, 2, 3, 4, 5, 6
WELCOME, OPENED, EXTENT, WITHDRAWN, BATCH, END, ERROR, ANSWER = 101, 102, 103, 104, 105, 106, 107, 108


def message(kind, body=b"", request=0, stream=0, size=None):
    return struct.pack("<IIII", kind, 16 + len(body) if size is None else size, request, stream) + body


def hello(low=1, high=1, magic=MAGIC):
    return message(HELLO, struct.pack("<QIIQ", magic, low, high, 0), request=1)


def open_stream(text, stream=1, request=2):
    text = text.encode()
    return message(OPEN, struct.pack("<II", len(text), 0) + text, request, stream)


def release(extent, slot, serial, stream=1):
    return message(RELEASE, struct.pack("<IIQ", extent, slot, serial), stream=stream)


class Raw:
    """A client that says what it likes."""

    def __init__(self, path, greet=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(LIMIT)
        self.socket.connect(path)
        if greet:
            self.send(hello())
            assert self.receive()[0] == WELCOME

    def send(self, data):
        self.socket.send(data)

    def receive(self):
        """(type, body) of the next message; (None, b"") when the daemon hung up. Descriptors are closed."""
        try:
            data, ancillary, _, _ = self.socket.recvmsg(65536, 256)
        except (ConnectionResetError, BrokenPipeError):
            return None, b""
        for _, _, fds in ancillary:
            for fd in struct.unpack(f"{len(fds) // 4}i", fds):
                os.close(fd)
        return (struct.unpack_from("<I", data)[0], data[16:]) if data else (None, b"")

    def until(self, kind):
        while True:
            got, body = self.receive()
            if got == kind:
                return body
            assert got is not None, f"hung up while waiting for message {kind}"

    def error(self):
        """The sentence of the error that must come next."""
        body = self.until(ERROR)
        return body[8:].decode()

    def closed(self):
        while True:
            kind, _ = self.receive()
            if kind is None:
                return True

    def close(self):
        self.socket.close()


def penstock_processes():
    names = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            exe = os.readlink(f"/proc/{pid}/exe")
            if exe.startswith(str(BIN)):
                names.add((int(pid), os.path.basename(exe)))
    return names


def run_tests(module):
    """Runs test_* of a module's globals, those named on the command line or all; exits 1 when one fails, 77 when all were skipped."""
    tests = [(n, f) for n, f in module.items() if n.startswith("test_") and (not sys.argv[1:] or n in sys.argv[1:])]
    failed = passed = 0

    def alarm(_signal, _frame):
        raise AssertionError("the test's alarm rang")

    signal.signal(signal.SIGALRM, alarm)
    for name, test in tests:
        begin = time.monotonic()
        before = len(os.listdir("/proc/self/fd"))
        signal.alarm(int(4 * LIMIT))
        try:
            test()
            after = len(os.listdir("/proc/self/fd"))
            assert after <= before + 1, f"left {after - before} descriptors open"
            passed += 1
            print(f"ok   {name} ({time.monotonic() - begin:.1f} s)", flush=True)
        except Skip as reason:
            print(f"skip {name}: {reason}", flush=True)
        except BaseException:
            failed += 1
            print(f"FAIL {name}", flush=True)
            traceback.print_exc()
        finally:
            signal.alarm(0)
    print(f"{passed} passed, {failed} failed, {len(tests) - passed - failed} skipped")
    sys.exit(1 if failed else 0 if passed else 77)
