"""A hostile trainer, inside and outside the protocol. It tries every way to change the memory that it was given (attacker.c),
sends descriptors, takes all the connections, streams, answers and memory that it can, floods the log, and comes as another
user. Each time two trainers of one group and one of a stream of its own go on exactly, others can connect, and everything
that it held comes back."""
import array
import contextlib
import errno
import fcntl
import json
import os
import select
import socket
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

from faults import TINY, FaultTrainer, tiny_dataset, undisturbed, watched
from fault_floods import company, offender, private, query
import harness
from harness import (ANSWER, AS_NOBODY, BATCH, CLOSE, ERROR, EXTENT, NIGHTLY, NOBODY, OPENED, STOP, Daemon, Link, Refused, Skip, folder, hello, message,
                     next_datagram, run_tests, tool, tools_for, wait_until)

def text_of(definition):
    return json.dumps({**definition, "source": str(definition["source"])})


# ---- the memory ----

def attack(socket_path, definition, prefix=()):
    """Runs fault_attacker; how many attempts it made."""
    run = subprocess.run([*prefix, tool("fault_attacker"), socket_path, text_of(definition)], capture_output=True, text=True, timeout=harness.LIMIT)
    bad = [line for line in run.stdout.splitlines() if line.startswith("BAD")]
    assert run.returncode == 0 and not bad, f"{run.returncode}: {bad or run.stdout[-500:]} {run.stderr[-500:]}"
    return int(run.stdout.splitlines()[-1].split()[0])


def test_every_way_to_change_the_memory():
    with company() as (daemon, _watch, group):
        attempts = attack(daemon.socket, private(group))
        attack(daemon.socket, group)  # in the others' group: they wait meanwhile, for they share its pace
    harness.promise(f"{attempts} attempts to change shared memory as uid {os.geteuid()}: none changed a byte, its size or its seals")


def for_nobody(path):
    """Another user can enter this folder, and owns it."""
    for at in (path, *path.rglob("*")):
        os.chown(at, NOBODY, NOBODY)


def test_every_way_as_a_user_without_privileges():
    """Root is refused less, so this runs once more with a daemon, an attacker and a trainer of an unprivileged user."""
    with tools_for(NOBODY, "fault_attacker", "fault_trainer"), folder() as home:
        tiny_dataset(home)
        for_nobody(home)
        definition = {"source": home / "images", **TINY}
        with Daemon(home, "--threads", "2", prefix=AS_NOBODY) as daemon:
            want = undisturbed(home, daemon.socket, definition, 30)
            other = FaultTrainer(home, daemon.socket, definition, batches=1, linger=1, sleep_us=300)
            try:
                other.wait_note("batch")
                attack(daemon.socket, definition, AS_NOBODY)
                wait_until(lambda: len(other.batches()) >= 30, "the other to go on")
                other.enough()
                row = other.finish()
            finally:
                other.kill()
            assert row[:30] == want, "the other's rows are exactly right"


# ---- memory that is kept ----

class Keeper(Link):
    """It keeps the memory of streams that it has closed."""

    def __init__(self, path):
        super().__init__(path)
        self.kept = []

    def keep(self, **definition):
        stream = self.open(**definition)
        stream.opened()
        self.kept += [memory for memory, _ in stream.extents.values()]
        stream.extents = {}
        self.send(message(CLOSE, stream=stream.number))
        self.streams.pop(stream.number)

    def let_go(self):
        for memory in self.kept:
            memory.close()
        self.kept = []


def test_memory_that_is_kept_counts():
    """A client that keeps the memory of closed streams and opens more is refused before the budget is exceeded; all memory comes back when it lets go."""
    with folder() as home:
        tiny_dataset(home)
        with watched(home, "--memory", "96M") as (daemon, watch):
            definition = {"source": str(home / "images"), "batch_size": 16, "image_size": 224, "prefetch": 2}
            with contextlib.closing(Keeper(daemon.socket)) as keeper:
                before = watch.status()["memory"]
                try:
                    for kept in range(1, 60):
                        keeper.keep(**definition)
                        status = watch.status()
                        assert status["memory"]["reserved"] <= status["memory"]["budget"]
                    raise AssertionError("it could keep 60 streams")
                except Refused as refusal:
                    assert refusal.code in (-errno.ENOMEM, -errno.EBUSY), refusal
                status = watch.status()
                assert status["kept_bytes"] >= (kept - 1) * 2 * 16 * 224 * 224 * 3, status["kept_bytes"]
                assert sum(p["kept"] for p in status["peers"]) == kept - 1, status["peers"]
                keeper.let_go()
                wait_until(lambda: watch.status()["kept_bytes"] == 0, "the memory to come back")
                assert watch.status()["memory"]["reserved"] == before["reserved"]
                stream = keeper.open(**definition)
                assert stream.opened().slots == 2
            watch.back()
    harness.promise(f"{kept - 1} streams kept after their end were charged to the budget, none beyond it")


def test_as_many_kept_as_a_process_may():
    if not NIGHTLY:
        raise Skip("nightly: half a minute; tests/unit/serve/test_peer.c has the limit itself")
    with company() as (daemon, watch, group), contextlib.closing(Keeper(daemon.socket)) as keeper:
        definition = {**private(group), "source": str(group["source"])}
        try:
            for _ in range(200):
                keeper.keep(**definition)
            raise AssertionError("no limit")
        except Refused as refusal:
            assert refusal.code == -errno.EBUSY and "streams that have ended" in refusal.sentence and str(os.getpid()) in refusal.sentence, refusal
        assert len(keeper.kept) == 48, len(keeper.kept)
        other = FaultTrainer(daemon.home, daemon.socket, private(group), batches=4)
        assert len(other.finish()) == 4, "another process opens all the same"
        keeper.let_go()
        wait_until(lambda: watch.status()["kept_bytes"] == 0, "the memory to come back")


def test_memory_under_way_and_opened_anew():
    """A descriptor in a socket that is not read, one opened anew, one that is only a path: each keeps the memory."""
    with folder() as home:
        tiny_dataset(home)
        with watched(home) as (daemon, watch), offender(daemon) as one:
            one.open({"source": home / "images", **TINY})
            one.until(OPENED)
            data, ancillary, _, _ = next_datagram(one.socket)
            assert struct.unpack_from("<I", data)[0] == EXTENT
            fd, = struct.unpack("i", ancillary[0][2])
            ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            socket.send_fds(ends[0], [b"x"], [fd])
            again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
            path = os.open(f"/proc/self/fd/{fd}", os.O_PATH)
            os.close(fd)
            one.send(message(CLOSE, stream=1))

            def kept():
                wait_until(lambda: not watch.status()["streams"], "the stream to go")
                time.sleep(0.3)
                return watch.status()["kept_bytes"] > 0

            assert kept()
            os.close(again)
            assert kept(), "under way in a socket"
            for end in ends:
                end.close()
            assert kept(), "a path, which can be opened again"
            os.close(path)
            wait_until(lambda: watch.status()["kept_bytes"] == 0, "the memory to come back")


# ---- descriptors ----

@contextlib.contextmanager
def exotic():
    """(name, descriptor) of descriptors that could hurt a process that receives them."""
    with contextlib.ExitStack() as stack:
        def own(fd):
            stack.callback(os.close, fd)
            return fd

        full = os.pipe()
        for fd in full:
            own(fd)
        os.set_blocking(full[1], False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(full[1], bytes(65536))
        selfish = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in selfish:
            stack.callback(end.close)
        socket.send_fds(selfish[0], [b"x"], [selfish[1].fileno(), selfish[0].fileno()])  # in flight in itself: the kernel's collector's
        epoll = select.epoll()
        stack.callback(epoll.close)
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        pairs = {"a full pipe": full[1], "its other end": full[0], "a socket in itself": selfish[0].fileno(), "epoll": epoll.fileno(),
                 "a socket": listener.fileno(), "a folder": own(os.open("/", os.O_RDONLY)), "a path": own(os.open("/etc/passwd", os.O_PATH)),
                 "a memfd": own(os.memfd_create("attack")), "/dev/null": own(os.open("/dev/null", os.O_RDWR)),
                 "/proc/self/mem": own(os.open("/proc/self/mem", os.O_RDWR)), "a pidfd": own(os.pidfd_open(os.getpid()))}
        with contextlib.suppress(OSError):
            ring = syscall(425, 4, (b"\0" * 120))  # io_uring_setup
            pairs["io_uring"] = own(ring)
        yield list(pairs.items())


def syscall(number, *arguments):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "syscall")
    return result


def send_descriptors(client, datagram, fds, more=()):
    """True when the kernel let them through; then the connection must be over."""
    try:
        client.socket.sendmsg([datagram], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds)), *more])
    except PermissionError:
        return False
    except OSError as error:
        assert error.errno in (errno.ETOOMANYREFS, errno.EINVAL), error  # too many under way; rings may not be sent at all
        return False
    code, sentence = client.refused()
    assert code == -errno.EPROTO and "descriptor" in sentence, sentence
    return True


def test_descriptors():
    """The daemon never has one: the kernel refuses them, or drops them and the connection is closed."""
    SCM_CREDENTIALS = 2
    me = struct.pack("iII", os.getpid(), os.geteuid(), os.getegid())
    with company() as (daemon, watch, group), exotic() as fds:
        before, arrived = daemon.fds(), 0
        for count in (1, 2, 4, 5, 64, 253):
            for greet in (True, False):
                with offender(daemon, greet=greet) as client:
                    arrived += send_descriptors(client, query(1, 5) if greet else hello(), [fds[0][1]] * count)
        for _name, fd in fds:
            with offender(daemon) as client:
                arrived += send_descriptors(client, query(1, 5), [fd])
            with offender(daemon) as client:  # with a datagram that says nothing, and one that is no message
                arrived += send_descriptors(client, b"x", [fd])
        with offender(daemon) as client:
            arrived += send_descriptors(client, query(1, 5), [fds[0][1]], [(socket.SOL_SOCKET, SCM_CREDENTIALS, me)])
        with offender(daemon) as client:  # who it is, is what the kernel said when it connected
            client.socket.sendmsg([query(1, 5)], [(socket.SOL_SOCKET, SCM_CREDENTIALS, me)])
            client.until(ANSWER)
        with offender(daemon) as client:  # all that the daemon may get in one turn
            with contextlib.suppress(OSError):
                for _ in range(100):
                    client.socket.sendmsg([query(1, 5)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [f for _, f in fds]))])
        wait_until(lambda: daemon.fds() <= before, "the daemon to have no more descriptors than before")
        wait_until(lambda: watch.status()["clients"] == 4, "the daemon to let go of the last offender")
    harness.promise(f"descriptors of {len(fds)} kinds, 1 to 253 at once: none installed in the daemon ({arrived} messages came with some and ended the connection)")


# ---- taking all there is ----

CROWD = """
import os, socket, struct, sys
path, most, hello = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
crowd, last = [], b""
while len(crowd) < most:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.settimeout(60)
    one.connect(path)
    try:
        one.send(hello)
    except (BrokenPipeError, ConnectionResetError):
        pass
    try:
        last = one.recv(65536)
    except ConnectionResetError:
        last = one.recv(65536)
    if struct.unpack_from("<I", last)[0] != 102 - 1:
        break
    crowd.append(one)
print(len(crowd), last[24:].decode() if len(crowd) < most else "", flush=True)
sys.stdin.read()
"""


class Crowd:
    """A separate process that connects as often as it can."""

    def __init__(self, path, most=10000, prefix=()):
        self.process = subprocess.Popen([*prefix, sys.executable, "-c", CROWD, path, str(most), hello().hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        line = self.process.stdout.readline()
        assert line, "the crowd died"
        count, _, self.sentence = line.rstrip("\n").partition(" ")
        self.count = int(count)

    def go(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=harness.LIMIT)


@contextlib.contextmanager
def crowds(path, count):
    gone = []
    try:
        for _ in range(count):
            gone.append(Crowd(path))
        yield gone
    finally:
        for crowd in gone:
            crowd.go()


def test_all_connections():
    """One process gets a quarter, several leave an eighth to newcomers; a status request and a new trainer can connect."""
    with company() as (daemon, watch, group):
        with crowds(daemon.socket, 1) as (one,):
            assert one.count == 64 and f"process {one.process.pid} has 64 connections" in one.sentence and "max_clients" in one.sentence, one.sentence
            peer = next(p for p in watch.status()["peers"] if p["pid"] == one.process.pid)
            assert peer["clients"] == 64 and peer["uid"] == os.geteuid(), peer
        wait_until(lambda: watch.status()["clients"] == 4, "the crowd to go")
        with crowds(daemon.socket, 5) as many:
            assert [c.count for c in many[:3]] == [64] * 3 and "for processes that have none" in many[3].sentence, [c.sentence for c in many]
            assert sum(c.count for c in many) <= 224 and many[4].count == 1, [c.count for c in many]
            assert daemon.status()["clients"] > 220
            other = FaultTrainer(daemon.home, daemon.socket, private(group), batches=4)
            assert len(other.finish()) == 4, "a new trainer gets in"
        wait_until(lambda: watch.status()["clients"] == 4, "the crowds to go")
    harness.promise("one process takes 64 of 256 connections, five leave room: status and a new trainer got in")


def test_all_streams():
    with company() as (daemon, _watch, group):
        with contextlib.ExitStack() as stack:
            refusals = []
            for _ in range(3):
                one = stack.enter_context(offender(daemon))
                for number in range(1, 17):
                    one.open(private(group), number)
                    kind = None
                    while kind not in (OPENED, ERROR):
                        kind, body = one.receive()
                    if kind == ERROR:
                        refusals.append((struct.unpack_from("<i", body)[0], body[8:].decode()))
            assert len(refusals) == 48 - 32 and all(c == -errno.EBUSY and f"process {os.getpid()} has 32 streams" in t for c, t in refusals), refusals[:2]
            other = FaultTrainer(daemon.home, daemon.socket, private(group), batches=4)
            assert len(other.finish()) == 4, "another process opens all the same"
        wait_until(lambda: len(daemon.status()["streams"]) == 2, "the streams to go")


def long_classes(home):
    """A dataset whose class names do not fit a message."""
    image = next((home / "images").rglob("*.jp*g"))
    for i in range(250):
        at = home / "long" / f"{i:03d}{'n' * 180}"
        at.mkdir(parents=True)
        os.link(image, at / "a.jpg")
    return home / "long"


def test_long_answers_that_are_kept():
    with folder() as home:
        tiny_dataset(home)
        source = long_classes(home)
        with watched(home) as (daemon, watch), offender(daemon) as one:
            one.open({"source": source, **TINY})
            one.until(BATCH)

            def ask(request):
                """The descriptor of a long answer, or the refusal's sentence."""
                one.send(query(3, request, 1))
                while True:
                    data, ancillary, _, _ = next_datagram(one.socket)
                    kind, _, number, _ = struct.unpack_from("<IIII", data)
                    if number == request:
                        return struct.unpack("i", ancillary[0][2])[0] if kind == ANSWER else data[24:].decode()

            fds = [ask(10 + i) for i in range(4)]
            assert all(isinstance(fd, int) for fd in fds)
            for fd in fds:  # its own open file, read-only, which no lease or write gets at
                assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY and os.fstat(fd).st_size > 32768
                with contextlib.suppress(PermissionError), open(f"/proc/self/fd/{fd}", "r+b", buffering=0) as again:
                    again.write(b"x")
                    raise AssertionError("an answer was written to")
            sentence = ask(20)
            assert isinstance(sentence, str) and "4 long answers" in sentence and str(os.getpid()) in sentence, sentence
            assert watch.status()["kept_bytes"] >= 4 * 32768
            for i in range(20):  # who lets go asks on
                os.close(fds.pop())
                fds.append(ask(30 + i))
                assert isinstance(fds[-1], int), fds[-1]
            for fd in fds:
                os.close(fd)
            wait_until(lambda: watch.status()["kept_bytes"] == 0, "the answers to go")
            for i in range(100):  # sent, and not read: each is refused, or waits in the socket, at most four
                one.send(query(3, 100 + i, 1))
            wait_until(lambda: watch.status()["kept_bytes"] <= 4 * 60000, "no more than four")


def test_opening_what_hangs():
    """A source that would never be read (a FIFO, a device) is refused at once, and holds no thread."""
    with company() as (daemon, watch, group), offender(daemon) as one:
        place = daemon.home / "fifo.tar"
        os.mkfifo(place)
        npy = daemon.home / "list.npy"
        os.mkfifo(npy)
        for number, definition in enumerate([{"source": place}, {"source": "/dev/zero"}, {"source": "/dev/ptmx"}, {"source": "/proc/self/mem"},
                                             {"source": group["source"], "indices": str(npy)}, {"source": group["source"], "weights": str(npy)},
                                             {"source": group["source"], "indices": "/dev/zero"}, {"source": group["source"], "labels": {"manifest": str(place)}}], 1):
            one.open({**TINY, **definition}, number)
            code, size = struct.unpack_from("<iI", one.until(ERROR))
            assert code < 0 and size, definition
        wait_until(lambda: not sum(p["openings"] for p in watch.status()["peers"]), "the threads to end")


def test_the_log_does_not_fill():
    with folder() as home, watched(home) as (daemon, _watch):
        for _ in range(200):
            with offender(daemon) as one:
                one.send(message(4711))
                one.refused()
        assert daemon.text().count("breaks the protocol") <= 20
        if NIGHTLY:  # it takes ten seconds
            wait_until(lambda: "more lines about what clients did wrong were left out" in daemon.text(), "what was left out to be counted")


def test_asking_to_stop_again_and_again():
    """It is obeyed, and logged once: more lines would fill the log while others are told."""
    with folder() as home:
        tiny_dataset(home)
        with Daemon(home) as daemon, offender(daemon) as one, offender(daemon) as other:
            other.open({"source": home / "images", **TINY})
            other.until(OPENED)
            for request in range(10, 40):
                one.send(message(STOP, request=request))
            for request in range(10, 40):
                one.until(ANSWER)
            assert daemon.text().count("asks to stop") == 1, daemon.text()
            other.socket.close()
            assert daemon.process.wait(60) == 0


# ---- what is others' ----

def test_what_belongs_to_others():
    """Groups of one trainer have names that no client can give; streams belong to a connection."""
    with company() as (daemon, _watch, group), offender(daemon) as one:
        pid = os.getpid()
        for number, name in enumerate(("\n", f"\n{pid}/1/1", "a\nb", "\x01", "\x1b[31m"), 1):
            one.open({**private(group), "group": name}, number)
            assert struct.unpack_from("<i", one.until(ERROR))[0] == -errno.EINVAL, name
        for kind in range(2, 7):
            for number in (1, 2, 3):
                one.send(query(kind, 50 + kind, number))
                assert struct.unpack_from("<i", one.until(ERROR))[0] == -errno.EINVAL
        one.open({**group, "batch_size": 8}, 9)
        assert struct.unpack_from("<i", one.until(ERROR))[0] == -errno.EBUSY, "another definition under their group's name"


def test_another_user():
    """Folder and socket keep other users out; if both were opened to them, the daemon does."""
    with tools_for(NOBODY), company() as (daemon, watch, _group):
        run = Path(daemon.socket).parent
        assert stat.S_IMODE(run.stat().st_mode) == 0o700
        for name in os.listdir(run):
            assert not stat.S_IMODE((run / name).stat().st_mode) & 0o077, name
        knock = ("import socket,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\ns.settimeout(60)\ns.connect(sys.argv[1])\n"
                 "sys.stdout.buffer.write(s.recv(65536)[24:])")

        def come():
            return subprocess.run([*AS_NOBODY, "/usr/bin/python3", "-c", knock, daemon.socket], capture_output=True, text=True, timeout=harness.LIMIT)

        os.chmod(daemon.home, 0o755)
        if "PermissionError" not in (first := come()).stderr:
            raise Skip(f"no python3 for another user: {first.stderr[-200:]}")
        os.chmod(run, 0o755)
        os.chmod(daemon.socket, 0o666)
        answer = come()
        assert "belongs to another user" in answer.stdout, answer
        os.chmod(run, 0o700)
        assert watch.status()["clients"] == 4


def test_folders_and_sockets_that_are_not_its_own():
    """It does not start in a folder that others can write to or look into, nor through a link, nor over a file that is not a socket."""
    with folder() as home:
        run = home / "run"
        run.mkdir(0o755)
        run.chmod(0o755)
        for prepare, word in ((lambda: None, "yours alone"), (lambda: (run.rmdir(), (home / "real").mkdir(0o700), run.symlink_to(home / "real")), "yours alone"),
                              (lambda: (run.unlink(), run.mkdir(0o700), (run / "s.sock").write_text("mine")), "cannot listen"),
                              (lambda: ((run / "s.sock").unlink(), (run / "s.sock.lock").unlink(missing_ok=True), (run / "s.sock.lock").symlink_to("/etc/passwd")), "lock")):
            prepare()
            daemon = Daemon(home, expect_start=False)
            assert daemon.process.wait(timeout=harness.LIMIT) not in (0, None) and word in daemon.text(), daemon.text()[-500:]
            daemon.out.close()
            daemon.log.unlink()


def http(path, request):
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(harness.LIMIT)
        one.connect(path)
        one.sendall(request)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := one.recv(65536):
                answer += piece
        return answer


def test_the_page():
    """Its socket is this user's; a path in a request is text, not a file."""
    with company() as (daemon, _watch, _group):
        at = str(Path(daemon.socket).parent / "http.sock")
        if not os.path.exists(at):
            raise Skip("built without HTTP")
        assert stat.S_IMODE(os.stat(at).st_mode) == 0o600 or stat.S_IMODE(os.stat(Path(at).parent).st_mode) == 0o700
        for path in ("/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/status/../../etc/passwd", "/" + "a" * 3000,
                     "/sheet?stream=-1", "/sheet?stream=99999999999999999999", "/sheet?stream=../../etc/passwd", "/etc/passwd", "*", "http://[::1]/etc/passwd"):
            answer = http(at, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert b"root:" not in answer and not answer.startswith(b"HTTP/1.1 200"), (path, answer[:200])
        for method in ("POST", "PUT", "DELETE", "TRACE", "CONNECT", "X" * 500):
            answer = http(at, f"{method} /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode())
            assert not answer.startswith(b"HTTP/1.1 200"), (method, answer[:100])


# ---- what nothing protects from ----

def test_what_the_same_user_may_do():
    """A process of the same user may trace and end the daemon, as the kernel says: that is not part of the promise, and the
    documentation says so. The promise is that nothing in the protocol gives it more."""
    with company() as (daemon, _watch, _group):
        with open(f"/proc/{daemon.process.pid}/maps", encoding="utf-8", errors="replace") as maps:
            assert any("/memfd:penstock-batches" in line and " rw-s " in line for line in maps), "the daemon's own mapping, and nobody else's, is writable"


if __name__ == "__main__":
    run_tests(globals())
