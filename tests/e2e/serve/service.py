#!/usr/bin/env python3
"""penstockd as a service: what systemd is told (this test is the systemd), when the watchdog is no longer told that the daemon is alive, and what
`systemd-analyze` says of the units that are installed."""
import ctypes
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import *

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000
UNITS = {"penstockd": 20, "penstockd-user": 65}  # the most that each is exposed, in tenths of what systemd-analyze prints


class Manager:
    """What NOTIFY_SOCKET leads to."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.settimeout(LIMIT)
        self.socket.bind(str(path))
        self.path, self.said = str(path), []

    def hear(self, limit=None):
        """(pid, lines) of the next message; None when none comes in `limit` seconds."""
        if not select.select([self.socket], [], [], LIMIT if limit is None else limit)[0]:
            assert limit is not None, f"nothing was told; before: {self.said}"
            return None
        data, ancillary, _, _ = self.socket.recvmsg(4096, 256)
        pid = struct.unpack("iII", ancillary[0][2])[0]
        lines = data.decode().splitlines()
        self.said += lines
        return pid, lines

    def until(self, word):
        while True:
            pid, lines = self.hear()
            if any(line.startswith(word) for line in lines):
                return pid, lines

    def forget(self):
        """What has been told by now."""
        while self.hear(0):
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


@contextlib.contextmanager
def service(*options, watchdog=None, path=None, **keys):
    with folder() as home, Manager(path or home / "notify") as manager:
        make_dataset(home / "images")
        environment = {"NOTIFY_SOCKET": manager.path.replace("\0", "@")}
        if watchdog:
            environment["WATCHDOG_USEC"] = str(int(watchdog * 1e6))
        with Daemon(home, *options, environment=environment, **keys) as daemon:
            yield home, manager, daemon


def test_life():
    with service(config="log_level: info\n") as (home, manager, daemon):
        pid, lines = manager.until("READY=1")
        assert pid == daemon.process.pid and daemon.listens()
        manager.until("STATUS=serves 0 streams to 0 clients")
        with Link(daemon.socket) as link:
            stream = link.open(source=home / "images", batch_size=8)
            stream.opened()
            manager.until("STATUS=serves 1 stream to 1 client")
        manager.until("STATUS=serves 0 streams to 0 clients")
        daemon.process.send_signal(signal.SIGHUP)
        _, lines = manager.until("RELOADING=1")
        assert any(line.startswith("MONOTONIC_USEC=") for line in lines), lines
        manager.until("READY=1")
        assert not any("WATCHDOG" in line for line in manager.said)
        daemon.process.send_signal(signal.SIGTERM)
        manager.until("STOPPING=1")


def test_confined_with_an_abstract_socket():
    """Landlock leaves the way to systemd open."""
    name = f"\0penstock-service-{os.getpid()}"
    with folder() as data:
        with service("--root", data, path=name, watchdog=2) as (_, manager, daemon):
            manager.until("READY=1")
            manager.until("WATCHDOG=1")
            manager.until("WATCHDOG=1")


def test_a_client_s_daemon_tells_nobody():
    with folder() as home, Manager(home / "notify") as manager:
        read, write = os.pipe()
        daemon = subprocess.Popen([tool("penstockd"), "--socket", str(home / "run/s.sock"), "--ready-fd", str(write)], pass_fds=[write],
                                  env={**os.environ, "NOTIFY_SOCKET": manager.path, "XDG_CACHE_HOME": str(home / "cache")},
                                  stderr=subprocess.DEVNULL)
        os.close(write)
        try:
            assert os.read(read, 1) == b"1"
        finally:
            os.close(read)
            daemon.terminate()
            daemon.wait(timeout=LIMIT)
        assert manager.hear(0) is None


def test_a_stopped_daemon_is_not_well():
    with service(watchdog=2) as (_, manager, daemon):
        manager.until("WATCHDOG=1")
        daemon.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: Path(f"/proc/{daemon.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", "it to stop")
        manager.forget()
        assert manager.hear(3) is None
        daemon.process.send_signal(signal.SIGCONT)
        manager.until("WATCHDOG=1")


def threads(pid, name):
    return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if (task / "comm").read_text().strip().startswith(name)]


@contextlib.contextmanager
def held(tids):
    """Stops threads, and no others of the process."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for tid in tids:
        if libc.ptrace(PTRACE_SEIZE, tid, None, None) or libc.ptrace(PTRACE_INTERRUPT, tid, None, None):
            raise Skip(f"a thread cannot be stopped here: {os.strerror(ctypes.get_errno())}")
        os.waitpid(tid, WALL)
    try:
        yield
    finally:
        for tid in tids:
            libc.ptrace(PTRACE_DETACH, tid, None, None)


def test_threads_that_hang():
    """Workers that do nothing while rows wait for them; the event loop goes on. Then they go on as well."""
    with service("--threads", "1", "--reader", "pread", watchdog=4) as (home, manager, daemon):
        manager.until("READY=1")
        # Each gives itself its name, when it first runs.
        workers = wait_until(lambda: threads(daemon.process.pid, "penstock-work"), "the worker to run")
        with Link(daemon.socket) as link:
            with held(workers):
                stream = link.open(source=home / "images", batch_size=8)
                stream.opened()
                wait_until(lambda: re.fullmatch(r"decoding: \d+ rows left to decode with 1 worker", stream.query(WAIT)), "the wait's words")
                wait_until(lambda: "is no longer told that the daemon is alive" in daemon.text(), "the log to say it")
                manager.forget()
                assert manager.hear(3) is None
                assert daemon.status()["pid"] == daemon.process.pid
            manager.until("WATCHDOG=1")
            assert len(stream.read(3)) == 3


def test_a_watchdog_that_cannot_be_served():
    for watchdog, warned in ((0.5, True), (2, False), (1e12, False)):
        with service(watchdog=watchdog) as (_, manager, daemon):
            manager.until("READY=1")
            manager.until("STATUS=")
            assert ("WatchdogSec= is" in daemon.text()) == warned, daemon.text()
            manager.until("WATCHDOG=1")


def test_a_trainer_that_holds_all_is_no_hang():
    with service(watchdog=2) as (home, manager, daemon):
        with Link(daemon.socket) as link:
            stream = link.open(source=home / "images", batch_size=8)
            slots = stream.opened().slots
            for _ in range(slots):
                stream.next()
            manager.forget()
            for _ in range(4):
                manager.until("WATCHDOG=1")


def analyze(*words, unit, text):
    """Exit code and output of systemd-analyze about a unit."""
    if not shutil.which("systemd-analyze"):
        raise Skip("there is no systemd-analyze")
    with folder() as home:
        path = home / f"{unit}.service"
        path.write_text(text)
        answer = subprocess.run(["systemd-analyze", "--no-pager", *words, str(path)], capture_output=True, text=True, timeout=LIMIT,
                                env={**os.environ, "XDG_RUNTIME_DIR": str(home), "SYSTEMD_LOG_LEVEL": "info"})
    return answer.returncode, answer.stdout + answer.stderr


def unit_text(unit):
    return (ROOT / f"config/{unit}.service.in").read_text().replace("@PENSTOCKD@", tool("penstockd"))


def test_units_are_units():
    for unit in UNITS:
        text = unit_text(unit)
        code, said = analyze("verify", "--man=no", *(["--user"] if "user" in unit else []), unit=unit, text=text)
        assert code == 0 and not said.strip(), (unit, said)
    code, said = analyze("verify", "--man=no", unit="penstockd", text=text.replace("WatchdogSec=60", "WatchdogSec=often"))
    assert said.strip(), "a wrong unit was not seen"


def test_units_are_hardened():
    for unit, most in UNITS.items():
        words = ("security", "--offline=true", f"--threshold={most}")
        code, said = analyze(*words, unit=unit, text=unit_text(unit))
        if "unrecognized option" in said:
            raise Skip("this systemd-analyze is too old for units that do not run")
        assert code == 0, said
    code, said = analyze(*words, unit="penstockd", text="[Service]\nExecStart=/bin/true\n")
    assert code != 0, "a unit without any hardening passed"


def test_units_leave_trainers_alone():
    """Trainers are of the same user: with RemoveIPC= systemd would take their shared memory away whenever the daemon ends. (It counts as hardening.)"""
    for unit in UNITS:
        assert not re.search(r"^RemoveIPC=(?!no$|0$|false$|off$)", unit_text(unit), re.MULTILINE), unit


def known_calls(group, seen):
    """System calls of one of systemd's groups, and of those in it."""
    if group in seen:
        return set()
    seen.add(group)
    answer = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter", group], capture_output=True, text=True, timeout=LIMIT)
    assert answer.returncode == 0, answer.stderr
    words = [line.strip() for line in answer.stdout.splitlines()[1:]]
    calls = {word for word in words if re.fullmatch(r"[a-z0-9_]+", word)}
    return calls.union(*(known_calls(word, seen) for word in words if word.startswith("@")))


def test_units_allow_what_the_daemon_does():
    """What penstockd lets itself do, the unit lets it do as well."""
    if not shutil.which("systemd-analyze"):
        raise Skip("there is no systemd-analyze")
    table = (ROOT / "daemon/confine/table.c").read_text()
    made = set()
    for name in ("table_both", "table_daemon", "table_witness"):
        made |= set(re.findall(r"SCMP_SYS\((\w+)\)", re.search(rf"{name}\[\] = {{(.*?)}};", table, re.DOTALL).group(1)))
    made |= {"clone", "clone3", "socket", "fchmod", "io_uring_setup", "io_uring_register", "bind", "listen", "socketpair", "execve"}
    for unit in UNITS:
        allowed = set()
        for line in re.findall(r"^SystemCallFilter=(.*)$", unit_text(unit), re.MULTILINE):
            calls = set()
            for word in line.lstrip("~").split():
                calls |= known_calls(word, set()) if word.startswith("@") else {word}
            allowed = allowed - calls if line.startswith("~") else allowed | calls
        assert len(allowed) > 200 and not made - allowed, (unit, sorted(made - allowed))


if __name__ == "__main__":
    run_tests(globals())
