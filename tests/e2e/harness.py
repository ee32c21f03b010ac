"""What the end-to-end tests share: a daemon in a folder of its own, the dump_batches trainer, small datasets, raw messages.

Only the standard library. Every process that a test starts is ended with it; every wait has a limit. A test is a function whose name
begins with test_; run_tests() runs those of a module, each with an alarm, and counts what is left behind."""
import collections
import contextlib
import fcntl
import fnmatch
import itertools
import json
import mmap
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import types
import zlib
from pathlib import Path

BIN = Path(os.environ.get("PENSTOCK_BIN", Path(__file__).resolve().parents[2] / "build/release/bin")).resolve()
ROOT = Path(__file__).resolve().parents[2]
PHOTOGRAPHS = BIN.parent / "photographs"  # cmake/PenstockPhotographs.cmake fills this folder
CORPUS = ROOT.parent / "shared/corpus/jpeg"  # odd JPEGs; few checkouts have them
F_GET_SEALS = 1034
SLOW = float(os.environ.get("PENSTOCK_TEST_SLOW", "1"))  # sanitizers: how many times longer a wait may take
LIMIT = 60 * SLOW
# Flight recorders write below it; CTest says where, and whoever starts a test by hand gets the same.
os.environ.setdefault("XDG_STATE_HOME", str(BIN.parent / "state"))


NIGHTLY = os.environ.get("PENSTOCK_TEST_NIGHTLY", "0") == "1"  # in full, not the part that a commit is tested by


class Skip(Exception):
    pass


def promise(figures):
    """What a nightly test says of the promise that it is named after; scripts/nightly collects these lines. Last, when all holds."""
    if NIGHTLY:
        print(f"promise: {figures}", flush=True)


def photographs():
    """All photographs, in the order of a dataset of the folder PHOTOGRAPHS."""
    found = sorted(PHOTOGRAPHS.iterdir(), key=lambda p: p.name.encode()) if PHOTOGRAPHS.is_dir() else []
    if not found:
        raise Skip("no photographs: scripts/install-deps gets some, then run cmake again")
    return found


def tool(name):
    return str(BIN / name)


NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


def may_start(user, program):
    return subprocess.run(["test", "-x", str(program)], user=user, group=user, extra_groups=[], cwd="/").returncode == 0


@contextlib.contextmanager
def tools_for(user, *more):
    """Inside, another user may start penstock, penstockd, dump_batches and `more` as tool() names them: the build's, or copies where
    that user may not enter the build's folder, as in root's home. Skips where this process cannot become that user."""
    global BIN
    if os.geteuid() or not shutil.which("setpriv"):
        raise Skip("only root, with setpriv, can become another user")
    build, before = BIN, os.environ.get("LD_LIBRARY_PATH")
    with folder() as home:
        home.chmod(0o755)
        if not may_start(user, home):
            raise Skip(f"another user cannot enter {home.parent}: set TMPDIR to a folder that all users can enter")
        if all(may_start(user, build / name) for name in ("penstockd", *more)):
            yield
            return
        (home / "bin").mkdir()
        for program in build.iterdir():
            here = home / "bin" / program.name
            if program.name in ("penstock", "penstockd", "dump_batches", *more):
                shutil.copyfile(program, here)
            else:
                here.symlink_to(program)
        shutil.copytree(build.parent / "lib", home / "lib", symlinks=True, ignore=shutil.ignore_patterns("*.a"))
        for path in (home / "bin", home / "lib", *home.glob("*/*")):
            if not path.is_symlink():
                path.chmod(0o755)
        BIN = home / "bin"
        # The programs name the build's folder as the place of libpenstock.
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(home / "lib"), before]))
        try:
            yield
        finally:
            BIN = build
            os.environ.pop("LD_LIBRARY_PATH")
            if before is not None:
                os.environ["LD_LIBRARY_PATH"] = before


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


def listens(path):
    """A socket that is there may be a dead daemon's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(str(path)) == 0


class Daemon:
    """penstockd with a socket, a cache, a flight recorder and a log below `home`. `prefix`: the words of what starts it."""

    def __init__(self, home, *options, config=None, expect_start=True, environment=None, prefix=()):
        self.home = Path(home)
        self.socket = str(self.home / "run/s.sock")
        self.log = self.home / "log"
        self.out = open(self.log, "ab")
        command = [*prefix, tool("penstockd"), "--socket", self.socket, *map(str, options)]
        if config is not None:
            self.config = self.home / "penstock.yaml"
            self.config.write_text(config)
            command += ["--config", str(self.config)]
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(self.home / "cache"), "XDG_STATE_HOME": str(self.home / "state"),
                            **(environment or {})}
        self.process = subprocess.Popen(command, stderr=self.out, stdout=self.out, stdin=subprocess.DEVNULL, env=self.environment)
        if expect_start:
            wait_until(lambda: self.listens() or self.process.poll() is not None, "the daemon's socket")
            assert self.process.poll() is None, self.text()

    def listens(self):
        return listens(self.socket)

    def text(self):
        return self.log.read_text(errors="replace")

    def trainer(self, **keys):
        return Trainer(self.socket, self.environment, **keys)

    def batches(self, **keys):
        """Runs a trainer to its end; its lines."""
        return self.trainer(**keys).finish()

    def status(self):
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
        """The next line it prints. No byte more is read: communicate() does not see what lies in a buffer of stdout's."""
        text = b""
        while not text.endswith(b"\n") and (byte := os.read(self.process.stdout.fileno(), 1)):
            text += byte
        self.seen.append(text.decode().rstrip("\n"))
        return self.seen[-1]

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
GROUPS, FIELDS, BUCKETS = 1, 2, 4  # of wire_feature: groups of views; fields; buckets
FEATURES = GROUPS | FIELDS | BUCKETS  # all that the daemon knows
HELLO, OPEN, RELEASE, CLOSE, QUERY, STOP = 1, 2, 3, 4, 5, 6
WELCOME, OPENED, EXTENT, WITHDRAWN, BATCH, END, ERROR, ANSWER = 101, 102, 103, 104, 105, 106, 107, 108


def message(kind, body=b"", request=0, stream=0, size=None):
    return struct.pack("<IIII", kind, 16 + len(body) if size is None else size, request, stream) + body


def hello(low=1, high=1, magic=MAGIC, features=0):
    return message(HELLO, struct.pack("<QIIQ", magic, low, high, features), request=1)


def open_stream(text, stream=1, request=2):
    text = text.encode()
    return message(OPEN, struct.pack("<II", len(text), 0) + text, request, stream)


def release(extent, slot, serial, stream=1):
    return message(RELEASE, struct.pack("<IIQ", extent, slot, serial), stream=stream)


def next_datagram(connection):
    """A daemon that closes with messages of ours unread resets the connection: the kernel says so once, before what the daemon
    sent last, which still lies in our queue."""
    try:
        return connection.recvmsg(65536, 256)
    except ConnectionResetError:
        return connection.recvmsg(65536, 256)


class Raw:
    """A client that says what it likes."""

    def __init__(self, path, greet=True, features=0):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(LIMIT)
        self.socket.connect(path)
        if greet:
            self.send(hello(features=features))
            kind, body = self.receive()
            assert kind == WELCOME and struct.unpack_from("<Q", body, 16)[0] == features & FEATURES

    def send(self, data):
        self.socket.send(data)

    def receive(self):
        """(type, body) of the next message; (None, b"") when the daemon hung up. Descriptors are closed."""
        try:
            data, ancillary, _, _ = next_datagram(self.socket)
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


# ---- streams by raw messages: what PROTOCOL.md promises, without the library between ----

STATUS, STREAM, CLASSES, PATH, WAIT, CONFIG = range(1, 7)
LAST = 1  # flag of a batch
PADDED, INVALID = 4, 8  # flags of a row
OPENED_FIELDS = ("samples epoch_samples batches fingerprint order transform seed epoch batch batch_size height width channels pixel_type "
                 "pixel_layout label_type label_width rank world_size classes shuffle train slots position views salt").split()

Batch = collections.namedtuple("Batch", "extent slot serial epoch batch position count flags")
# `content` is a hash of the record without its flags, the label and the pixels: how the row must be wherever and whenever it is made.
Row = collections.namedtuple("Row", "position flags index content")


class Refused(Exception):
    """The daemon's ERROR."""

    def __init__(self, body):
        self.code = struct.unpack_from("<i", body)[0]
        self.sentence = body[8:].decode()
        super().__init__(f"{self.code} {self.sentence}")


class HungUp(Exception):
    pass


class Link(Raw):
    """A connection whose streams are read one by one: what comes for another waits in that one's inbox."""

    def __init__(self, path, features=0):
        super().__init__(path, features=features)
        self.streams, self.answers = {}, {}
        self.requests, self.numbers = itertools.count(2), itertools.count(1)

    def take(self, limit=None):
        """Receives one message and files it; False when none came in `limit` seconds (None: it must come)."""
        if limit is not None and not select.select([self.socket], [], [], limit)[0]:
            return False
        try:
            data, ancillary, _, _ = next_datagram(self.socket)
        except (ConnectionResetError, BrokenPipeError):
            data, ancillary = b"", []
        fds = [fd for _, _, packed in ancillary for fd in struct.unpack(f"{len(packed) // 4}i", packed)]
        try:
            self.file(data, fds)
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def file(self, data, fds):
        if not data:
            raise HungUp
        kind, _, request, number = struct.unpack_from("<IIII", data)
        if request in self.answers:
            self.answers[request] = (kind, data[16:])
        elif number in self.streams:
            self.streams[number].file(kind, data[16:], fds)
        else:  # a stream that was closed meanwhile
            assert number, data

    def query(self, kind, argument=0, stream=0):
        """The text that answers; raises Refused."""
        request = next(self.requests)
        self.answers[request] = None
        self.send(message(QUERY, struct.pack("<IIQ", kind, 0, argument), request, stream))
        while self.answers[request] is None:
            self.take()
        kind, body = self.answers.pop(request)
        if kind == ERROR:
            raise Refused(body)
        return body[16:].decode()

    def open(self, **keys):
        """Asks for a stream; Stream.opened() waits for the answer."""
        return Stream(self, keys)

    def close(self):
        for stream in list(self.streams.values()):
            stream.forget()
        super().close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Stream:
    """One stream of a Link. Whatever it is given is checked as PROTOCOL.md tells a client to."""

    def __init__(self, link, keys):
        self.link, self.keys = link, keys
        self.number = next(link.numbers)
        self.inbox = collections.deque()  # BATCH, END, ERROR
        self.info, self.refusal, self.end = None, None, None
        self.extents, self.leases, self.serial = {}, {}, None
        link.streams[self.number] = self
        link.send(open_stream(json.dumps({k: str(v) if isinstance(v, Path) else v for k, v in keys.items()}), self.number,
                              next(link.requests)))

    def file(self, kind, body, fds):
        if kind == OPENED:
            values = struct.unpack_from("<9Q14IQ2I", body)
            self.info = types.SimpleNamespace(**dict(zip(OPENED_FIELDS, values)))
            groups, fields, cuts, _ = struct.unpack_from("<IIII", body, 144) if len(body) > 144 else (0, 0, 0, 0)
            assert len(body) == (144 + 16 + 80 * (groups + fields) + 16 * cuts if groups or fields or cuts else 144)
            # (views, height, width, name) of each group of views
            self.groups = [(*struct.unpack_from("<III", body, at), body[at + 16:at + 80].rstrip(b"\0").decode())
                           for at in range(160, 160 + 80 * groups, 80)]
            # (max_bytes, name) of each field
            self.fields = [(struct.unpack_from("<Q", body, at)[0], body[at + 16:at + 80].rstrip(b"\0").decode())
                           for at in range(160 + 80 * groups, 160 + 80 * (groups + fields), 80)]
            # [position, global batch] of each cut of a stream with buckets
            self.cuts = [list(struct.unpack_from("<QQ", body, 160 + 80 * (groups + fields) + 16 * i)) for i in range(cuts)]
        elif kind == EXTENT:
            number, slots, stride, size = struct.unpack_from("<IIQQ", body)
            # Seals: no further ones, no shrinking, no growing, no writing, which a sole reader may ask to be left out.
            seals = fcntl.fcntl(fds[0], F_GET_SEALS)
            self.writable = not seals & 16
            assert seals | 16 == 23 and ("pin_memory" in self.keys or not self.writable), seals
            assert len(fds) == 1 and number not in self.extents and os.fstat(fds[0]).st_size == size >= slots * stride
            self.extents[number] = (mmap.mmap(fds[0], size, mmap.MAP_SHARED, mmap.PROT_READ), stride)
        elif kind == ERROR and self.info is None:
            self.refusal = Refused(body)
            self.forget()  # its number is free again
        else:
            assert kind in (BATCH, END, ERROR, WITHDRAWN), kind
            assert self.end is None, "something came after the end"
            self.end = kind if kind in (END, ERROR) else None
            self.inbox.append((kind, body))

    def opened(self):
        """What OPENED says; raises Refused."""
        while not (self.info and self.extents):
            if self.refusal:
                raise self.refusal
            self.link.take()
        return self.info

    def pending(self):
        """How many messages wait for it, after all that is there was received."""
        while self.link.take(0):
            pass
        return len(self.inbox)

    def next(self):
        """The next batch, leased from now on; None at the end; raises Refused when the stream is over for another reason."""
        self.opened()
        while not self.inbox:
            self.link.take()
        kind, body = self.inbox.popleft()
        if kind == ERROR:
            raise Refused(body)
        if kind == END:
            self.ended = struct.unpack_from("<QQ", body)
            return None
        assert kind == BATCH, kind
        batch = Batch(*struct.unpack_from("<IIQQQQII", body))
        assert self.serial is None or batch.serial == self.serial + 1, "a batch left out or given twice"
        assert (batch.extent, batch.slot) not in self.leases and len(self.leases) < self.info.slots
        assert 1 <= batch.count <= self.info.batch_size
        assert self.head(batch)[:5] == (batch.serial, batch.epoch, batch.batch, batch.position, batch.count)
        self.serial = batch.serial
        self.leases[batch.extent, batch.slot] = batch
        return batch

    def head(self, batch):
        """Of its slot, as it is now: serial, epoch, batch, position, count, offsets of images, labels, records, bytes of a row."""
        memory, stride = self.extents[batch.extent]
        at = batch.slot * stride
        serial, epoch, number, position, count = struct.unpack_from("<QQQQI", memory, at + 16)
        row_bytes, images, labels, records = struct.unpack_from("<QQQQ", memory, at + 88)
        return serial, epoch, number, position, count, images, labels, records, row_bytes

    def rows(self, batch):
        memory, stride = self.extents[batch.extent]
        at = batch.slot * stride
        *_, images, labels, records, row_bytes = self.head(batch)
        rows = []
        for i in range(batch.count):
            record = memory[at + records + 64 * i:at + records + 64 * i + 64]
            index, = struct.unpack_from("<Q", record)
            flags, position = struct.unpack_from("<I4xQ", record, 40)
            content = zlib.crc32(record[:40] + memory[at + labels + 8 * i:at + labels + 8 * i + 8])
            content = zlib.crc32(memory[at + images + i * row_bytes:at + images + (i + 1) * row_bytes], content)
            rows.append(Row(position, flags, index, content))
        return rows

    def release(self, batch):
        self.leases.pop((batch.extent, batch.slot), None)
        self.link.send(release(batch.extent, batch.slot, batch.serial, self.number))

    def read(self, batches=None):
        """Reads and releases so many batches, or all to the end: (batch, rows) of each."""
        got = []
        while batches is None or len(got) < batches:
            batch = self.next()
            if batch is None:
                assert batches is None, f"ended after {len(got)} batches"
                break
            got.append((batch, self.rows(batch)))
            self.release(batch)
        return got

    def state(self, batch=None):
        """Where to go on after `batch`, or where it began."""
        info = self.info
        epoch, position = info.epoch, info.position
        if batch:
            step = (info.world_size - info.rank) * info.batch_size
            epoch, position = (batch.epoch + 1, 0) if batch.flags & LAST else (batch.epoch, batch.position + step)
        return {"version": 1, "fingerprint": f"{info.fingerprint:016x}", "order": f"{info.order:016x}",
                "transform": f"{info.transform:016x}", "seed": info.seed, "epoch": epoch, "position": position}

    def query(self, kind, argument=0):
        return self.link.query(kind, argument, self.number)

    def close(self):
        self.link.send(message(CLOSE, stream=self.number))
        self.forget()

    def forget(self):
        self.link.streams.pop(self.number, None)
        for memory, _ in self.extents.values():
            memory.close()
        self.extents = {}


def exe_of(pid):
    """What a process runs; "" where it is gone, or not ours to ask."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def program_of(pid):
    """The program of ours that a process runs, "" for others and the dead; a daemon's witness is one of its own by what it calls itself."""
    exe = exe_of(pid)
    if not exe.startswith(str(BIN)):
        return ""
    with contextlib.suppress(OSError):
        comm, fields = Path(f"/proc/{pid}/stat").read_text().split("(", 1)[1].rsplit(")", 1)
        # Between its fork and its first steps a witness has its parent's name.
        fresh = os.path.basename(exe) == "penstockd" and exe_of(fields.split()[1]) == exe
        return "penstock-record" if comm == "penstock-record" or fresh else os.path.basename(exe)
    return ""


def penstock_processes():
    """(pid, program) of ours that run."""
    programs = ((int(pid), program_of(pid)) for pid in filter(str.isdigit, os.listdir("/proc")))
    return {(pid, program) for pid, program in programs if program}


def run_tests(module, limit=4 * LIMIT):
    """Runs test_* of a module's globals, those that a pattern on the command line fits or all, and that no !PATTERN fits; exits 1 when one
    fails or none is left, 77 when all were skipped. Each test has `limit` seconds."""
    unwanted = [w[1:] for w in sys.argv[1:] if w.startswith("!")]
    wanted = [w for w in sys.argv[1:] if not w.startswith("!")] or ["*"]
    tests = [(n, f) for n, f in module.items() if n.startswith("test_") and any(fnmatch.fnmatchcase(n, w) for w in wanted)
             and not any(fnmatch.fnmatchcase(n, w) for w in unwanted)]
    if not tests:
        sys.exit(f"no test fits {' '.join(sys.argv[1:])}")
    failed = passed = 0

    def alarm(_signal, _frame):
        raise AssertionError("the test's alarm rang")

    signal.signal(signal.SIGALRM, alarm)
    for name, test in tests:
        begin = time.monotonic()
        before = len(os.listdir("/proc/self/fd"))
        signal.alarm(int(limit))
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
