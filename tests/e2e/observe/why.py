"""`penstock why` after real ends: trainers and daemons that are killed by a memory limit, by signals, by an error of their own and by
time, each with the flight recorder watching; machines that went down and kernels that tell nothing, by a file that was changed
(why_doctor). Only the standard library.

    why.py [PATTERN ...]                      the tests
    why.py --trainer WHAT SOCKET SOURCE       a Python trainer that reads some batches and then: raises | hogs | burns
"""
import contextlib
import fcntl
import json
import os
import pty
import resource
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, NOBODY, SLOW, Daemon, Link, folder, make_dataset, run_tests, tool, tools_for, wait_until
from memory_limit import MIB, MemoryLimit

KINDS = {"START": 1, "ATTACH": 2, "LEAVE": 3, "EXIT": 4, "END": 5}  # enum record_kind
TRAINER_LIMIT, DAEMON_LIMIT = 96 * MIB, 256 * MIB
STREAM = {"batch_size": 4, "image_size": 16}


# ---- a trainer in Python ----

def trainer(what, socket, source):
    """Never closes its stream: what happens to it happens in the middle."""
    with Link(socket) as link:
        stream = link.open(source=source, epochs=0, **STREAM)
        stream.read(3)
        print("has 3 batches", flush=True)
        if what == "raises":
            raise RuntimeError("the loss is NaN")
        if what == "burns":
            while True:
                pass
        kept = []
        child = os.fork() if what == "parents" else 0
        if child:  # as a data loader whose worker was killed: it says so, and gives up
            os.waitpid(child, 0)
            sys.exit(1)
        while what in ("hogs", "parents"):
            kept.append(bytearray(b"x") * (8 * MIB))
            time.sleep(0.25)


def python(what, socket, source, **options):
    return subprocess.Popen([sys.executable, __file__, "--trainer", what, socket, str(source)], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, **options)


# ---- daemons with a recorder ----

def plain_crashes():
    """A sanitizer that catches SIGSEGV would make it an exit code."""
    names = ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")
    return {name: ":".join(filter(None, [os.environ.get(name), "handle_segv=0", "handle_abort=0"])) for name in names}


class Recorded(Daemon):
    """A daemon whose recorder writes below `home`, and trainers that end with it."""

    def __init__(self, home, *options, **keys):
        self.state = Path(home) / "state"
        environment = {"XDG_STATE_HOME": str(self.state), **plain_crashes(), **keys.pop("environment", {})}
        self.started = []
        super().__init__(home, "--memory", "96M", "--threads", "1", *options, environment=environment, **keys)

    def dump(self, *prefix, **keys):
        """dump_batches, which goes on until somebody ends it; `prefix`: what starts it."""
        keys = {"socket": self.socket, "private": 0, "sleep_ms": 20, "epochs": 0, **STREAM, **keys}
        command = [*prefix, tool("dump_batches"), *(f"{k}={v}" for k, v in keys.items())]
        return self.start(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self.environment))

    def start(self, process):
        self.started.append(process)
        assert process.stdout.readline(), "the trainer printed nothing"
        return process

    def busy(self, source):
        """A trainer that takes all that the daemon can make."""
        command = [tool("dump_batches"), f"socket={self.socket}", "private=0", "epochs=0", "batch_size=16", f"source={source}"]
        self.started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment))

    def sampled(self, *pids):
        """The recorder has looked at each of them, and the daemon has told of itself."""
        for pid in pids:
            self.tell(pid, "running", lambda end: end["memory"]["last"] and end["penstock"]["reserved"])

    def pids(self):
        """Of the daemon itself (behind a prefix it is not the process that we started), and its recorder."""
        status = self.status()
        return status["pid"], (status.get("recorder") or {}).get("pid")

    def records(self):
        return sorted((self.state / "penstock").glob("recorder-*.ring"))

    def why(self, *operands, code=0, parse=True):
        return why(*operands, code=code, parse=parse, environment=self.environment)

    def tell(self, pid, cause, ready=lambda end: True):
        """What is told of the process once its end is in the file, and is `ready`: recorder and daemon may write a second late."""
        limit, end = time.monotonic() + 10 * SLOW, None
        while time.monotonic() < limit:
            answer = subprocess.run([tool("penstock"), "why", "--json", str(pid)], env=self.environment, capture_output=True, timeout=LIMIT)
            if answer.returncode == 0:
                end = json.loads(answer.stdout)["records"][0]["ends"][0]
                if end["cause"] == cause and ready(end):
                    return end
            time.sleep(0.05)
        raise AssertionError(f"expected {cause} of {pid}, got {json.dumps(end)}")

    def __exit__(self, kind, value, trace):
        for process in self.started:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        if self.process.poll() is None:
            super().__exit__(kind, value, trace)
        else:
            self.out.close()
            if kind:
                sys.stderr.write(self.text()[-6000:])


def why(*operands, code=0, parse=True, environment=None):
    options = ["--json"] if parse else []
    answer = subprocess.run([tool("penstock"), "why", *options, *map(str, operands)], env=environment, capture_output=True, text=True,
                            timeout=LIMIT)
    assert answer.returncode == code, (answer.returncode, answer.stdout, answer.stderr)
    return json.loads(answer.stdout) if parse and code == 0 else answer.stdout if code == 0 else answer.stderr


def on_terminal(width, operands, environment):
    """Its lines on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    process = subprocess.Popen([tool("penstock"), "why", *map(str, operands)], stdout=theirs, env=environment)
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while chunk := os.read(ours, 65536):
            text += chunk
    os.close(ours)
    assert process.wait(timeout=LIMIT) == 0
    return text.decode().splitlines()


def begins(end, text):
    assert end["sentence"].startswith(text), (text, end["sentence"])
    assert end["advice"] or end["cause"] in ("asked", "order"), end


def was_given(end):
    """The daemon has said what it had: when its connection was over."""
    return (end["batches"]["given"] or 0) >= 3


def says_its_memory(end):
    assert end["memory"]["last"] and end["memory"]["peak"] >= end["memory"]["first"] > MIB, end["memory"]
    assert end["penstock"]["budget"] == 96 * MIB and end["penstock"]["reserved"] <= 96 * MIB, end["penstock"]


@contextlib.contextmanager
def home():
    """A folder, and a small dataset in it."""
    with folder() as path:
        yield path, make_dataset(path / "images", min_side=24, max_side=48)


# ---- trainers ----

def limit_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (1, resource.RLIM_INFINITY))


def killed_by_another():
    """What is known of a process that SIGKILL ended. Without cgroups in /sys, as in a bare chroot, nothing counts what the OOM killer does."""
    if os.access("/sys/fs/cgroup", os.R_OK) and os.listdir("/sys/fs/cgroup"):
        return "was killed by SIGKILL, which the kernel's OOM killer did not send: another process did"
    return "was killed by SIGKILL; no counter tells whether memory was short"


def test_trainer_ends():
    """By signals, by an exception, by time, by leaving: all at once, since each is a process of its own."""
    with home() as (path, images), Recorded(path) as daemon:
        ended = {sig: daemon.dump(source=images) for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV)}
        raises = daemon.start(python("raises", daemon.socket, images))
        burns = daemon.start(python("burns", daemon.socket, images, preexec_fn=limit_cpu))
        slow = daemon.dump("timeout", "-s", "KILL", "2", source=images)
        timed, = Path(f"/proc/{slow.pid}/task/{slow.pid}/children").read_text().split()
        orderly = daemon.dump(source=images, batches=2)
        orderly.wait(timeout=LIMIT)
        daemon.sampled(*(process.pid for process in ended.values()))
        for sig, process in ended.items():
            process.send_signal(sig)

        end = daemon.tell(ended[signal.SIGTERM].pid, "signal", was_given)
        begins(end, f"trainer {end['pid']} was ended by SIGTERM: another process asked it to end")
        assert end["wait_status"] == signal.SIGTERM and end["batches"]["epoch"] is not None, end
        assert end["command"].startswith(tool("dump_batches")) and end["batch_size"] == 4, end
        says_its_memory(end)
        end = daemon.tell(ended[signal.SIGKILL].pid, "signal")
        begins(end, f"trainer {end['pid']} {killed_by_another()}")
        end = daemon.tell(ended[signal.SIGSEGV].pid, "crash")
        begins(end, f"trainer {end['pid']} crashed with SIGSEGV")
        end = daemon.tell(raises.pid, "exit_code", was_given)
        begins(end, f"trainer {end['pid']} ended with exit code 1 without closing its stream: an exception")
        assert end["wait_status"] == 1 << 8, end
        end = daemon.tell(timed, "time")
        begins(end, f"trainer {timed} was killed by SIGKILL")
        assert end["time_limit"] == "timeout" and end["time_limit_s"] == 2 and end["parent_command"].startswith("timeout -s KILL 2"), end
        end = daemon.tell(burns.pid, "time")
        begins(end, f"trainer {end['pid']} was ended by SIGXCPU: it used up its CPU time (RLIMIT_CPU): the limit is 1 s")
        assert end["time_limit"] == "cpu" and end["time_limit_s"] == 1, end
        end = daemon.tell(orderly.pid, "order")
        begins(end, f"trainer {end['pid']} ended normally")

        text = daemon.why(parse=False)
        assert f"trainer {raises.pid} ended with exit code 1" in text and f"trainer {orderly.pid}" not in text, text
        assert f"trainer {orderly.pid} ended normally" in daemon.why("--all", parse=False)
        whole = daemon.why(ended[signal.SIGTERM].pid, parse=False)
        for label in ("command", "stream", "lived", "memory", "machine", "batches", "penstock", "to do"):
            assert f"\n  {label:10} " in whole, (label, whole)


def fault(daemon, home, images, what, at="batch-received"):
    return subprocess.Popen(
        [tool("fault_trainer"), "lib", f"socket={daemon.socket}", f"out={home / what}", f"source={images}", f"at={at}", "occurrence=3",
         f"do={what}", "batch_size=4", "image_size=16"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_trainer_leaves():
    """Exit code 0 in the middle; killed while a child of it keeps the socket; another program in its place."""
    with home() as (path, images), Recorded(path) as daemon:
        leaves = {what: fault(daemon, path, images, what) for what in ("exit", "fork", "exec")}
        try:
            end = daemon.tell(leaves["exit"].pid, "unclosed")
            begins(end, f"trainer {end['pid']} ended with exit code 0 without closing its stream")
            end = daemon.tell(leaves["fork"].pid, "signal")
            begins(end, f"trainer {end['pid']} was killed by SIGKILL")
            end = daemon.tell(leaves["exec"].pid, "hung_up")
            begins(end, f"trainer {end['pid']} hung up without closing its stream; its process is still running")
        finally:
            child = [line.split()[1] for line in (path / "fork").read_text().splitlines() if line.startswith("forked")]
            for pid in map(int, child):
                os.kill(pid, signal.SIGKILL)
            for process in leaves.values():
                process.kill()
                process.wait()


def test_trainer_memory():
    """The OOM killer of a cgroup's limit, with a memory that grows before."""
    with home() as (path, images), MemoryLimit(TRAINER_LIMIT) as limit, Recorded(path) as daemon:
        hog = daemon.start(python("hogs", daemon.socket, images, preexec_fn=limit.enter))
        end = daemon.tell(hog.pid, "cgroup_oom")
        begins(end, f"trainer {hog.pid} was killed: ")
        assert end["confidence"] == "certain" and "OOM killer (+" in end["sentence"], end
        assert end["wait_status"] == signal.SIGKILL and end["oom_kills"] >= 1, end
        assert end["cgroup"]["limit"] == TRAINER_LIMIT and end["cgroup"]["path"].endswith(limit.path.name), end
        assert "its memory rose from" in end["sentence"] and end["memory"]["last"] > end["memory"]["first"], end
        says_its_memory(end)


def test_memory_of_a_child():
    with home() as (path, images), MemoryLimit(TRAINER_LIMIT) as limit, Recorded(path) as daemon:
        parent = daemon.start(python("parents", daemon.socket, images, preexec_fn=limit.enter))
        end = daemon.tell(parent.pid, "exit_code")
        begins(end, f"trainer {parent.pid} ended with exit code 1 without closing its stream")
        assert "the OOM killer ended 1 other process of its cgroup" in end["sentence"] and end["oom_kills"] == 1, end


def test_two_at_once():
    with home() as (path, images), Recorded(path) as daemon:
        both = [daemon.dump(source=images, share="split", world_size=2, rank=rank, group="job") for rank in range(2)]
        for process in both:
            process.kill()
        for process in both:
            daemon.tell(process.pid, "signal")
        told = daemon.why()["records"][0]
        assert len(told["events"]) == 1 and told["events"][0]["sentence"].startswith("2 trainers ended "), told["events"]
        assert {end["rank"] for end in told["ends"]} == {0, 1} and {end["event"] for end in told["ends"]} == {0}, told["ends"]
        assert "2 trainers ended " in daemon.why(parse=False)
        for width in (80, 40):
            for operands in ((), (both[0].pid,)):
                lines = on_terminal(width, operands, daemon.environment)
                # The file's path alone stays in one piece, to be copied.
                wide = [line for line in lines if len(line) > width and "/recorder-" not in line]
                assert len(lines) > 5 and not wide, (width, wide)


# ---- daemons ----

@contextlib.contextmanager
def daemon_of(path, prefix=()):
    """(daemon, its pid): behind a prefix it may be another process than the one that was started."""
    path.mkdir()
    with Recorded(path, prefix=prefix) as daemon:
        yield daemon, daemon.pids()[0]


def tell_daemon(daemon, pid, cause):
    end = daemon.tell(pid, cause)
    assert end["who"] == "daemon" and end["penstock"]["budget"] == 96 * MIB, end
    assert f"penstockd {pid} " in daemon.why(parse=False)
    return end


def test_daemon_signals():
    cases = {signal.SIGTERM: ("asked", f"ended on request: by signal 15 from pid {os.getpid()}"),
             signal.SIGKILL: ("signal", killed_by_another()),
             signal.SIGSEGV: ("crash", "crashed with SIGSEGV"),
             signal.SIGABRT: ("crash", "crashed with SIGABRT: it aborted")}
    with home() as (path, images), contextlib.ExitStack() as stack:
        daemons = {sig: stack.enter_context(daemon_of(path / sig.name)) for sig in cases}
        for daemon, _ in daemons.values():
            daemon.dump(source=images)
        for sig, (daemon, pid) in daemons.items():
            daemon.sampled(pid)
            os.kill(pid, sig)
        for sig, (daemon, pid) in daemons.items():
            cause, text = cases[sig]
            end = tell_daemon(daemon, pid, cause)
            begins(end, f"penstockd {pid} {text}")
            assert end["wait_status"] & 127 == (0 if sig == signal.SIGTERM else sig), end
            says_its_memory(end)


def test_daemon_time():
    """The limit of timeout, that of CPU time, and its own of being idle: together, since they are waited for."""
    with home() as (path, images), contextlib.ExitStack() as stack:
        timed, timed_pid = stack.enter_context(daemon_of(path / "timeout", ("timeout", "-s", "KILL", "2")))
        burning, burning_pid = stack.enter_context(daemon_of(path / "cpu", ("prlimit", "--cpu=1:unlimited")))
        (path / "idle").mkdir()
        idle = stack.enter_context(Recorded(path / "idle", "--idle-exit", "1"))
        burning.busy(images)
        end = tell_daemon(timed, timed_pid, "time")
        begins(end, f"penstockd {timed_pid} was killed by SIGKILL")
        assert end["time_limit"] == "timeout" and end["time_limit_s"] == 2, end
        end = tell_daemon(burning, burning_pid, "time")
        begins(end, f"penstockd {burning_pid} was ended by SIGXCPU: it used up its CPU time")
        assert end["time_limit"] == "cpu" and end["time_limit_s"] == 1, end
        end = tell_daemon(idle, idle.process.pid, "idle")
        begins(end, f"penstockd {end['pid']} ended because no trainer needed it: no client for 1 s")


def test_daemon_memory():
    """A process beside it takes what its cgroup has; the kernel prefers the daemon."""
    hog = "import sys, time\nkept = []\nwhile True:\n kept.append(bytearray(b'x') * (8 << 20))\n time.sleep(0.02)\n"

    with home() as (path, images), MemoryLimit(DAEMON_LIMIT) as limit:
        with daemon_of(path / "oom", limit.prefix()) as (daemon, pid):
            daemon.dump(source=images)
            daemon.sampled(pid)
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
            beside = subprocess.Popen([sys.executable, "-c", hog], preexec_fn=limit.enter)
            daemon.process.wait(timeout=LIMIT)
            beside.kill()
            beside.wait()
            end = tell_daemon(daemon, pid, "cgroup_oom")
        begins(end, f"penstockd {pid} was killed: the cgroup's OOM killer (+")
        assert end["confidence"] == "certain" and end["oom_kills"] >= 1 and end["cgroup"]["limit"] == DAEMON_LIMIT, end
        assert "it held" in end["sentence"] and "of its 96.0 MiB" in end["sentence"], end["sentence"]


def test_trainer_that_goes_on():
    """It belongs under the daemon that ended, asked or killed, and is no culprit; the next daemon's record knows it."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        with home() as (path, images), Recorded(path) as first:
            trainer = first.dump(source=images, reconnect_ms=60000, sleep_ms=5)
            first.sampled(trainer.pid)
            first.process.send_signal(sig)
            first.process.wait(timeout=LIMIT)
            first.tell(trainer.pid, "outlived", lambda end: end["lives"] and end["went_on_with"] is None)
            assert "1 trainer was connected; it kept running" in first.why(parse=False)
            with Recorded(path) as second:
                second.tell(trainer.pid, "running")
                text = " ".join(second.why(parse=False).split())
                assert f"1 trainer was connected; it continued with penstockd {second.process.pid}" in text, text
                assert f"penstockd {first.process.pid} " in text and " ended at once" not in text and "the first was" not in text, text
                assert f"trainer {trainer.pid}" not in text and "fix what" not in text, text
                ends = [end for record in second.why("--all")["records"] for end in record["ends"] if end["pid"] == trainer.pid]
                assert [end["cause"] for end in ends] == ["running", "outlived"], ends
                assert ends[1]["went_on_with"] == second.process.pid and ends[1]["advice"] == "", ends[1]


# ---- what nobody saw ----

def test_vanished_and_rebooted():
    """The recorder goes with the daemon, as when a container or the machine does."""
    with home() as (path, images), Recorded(path) as daemon:
        trainer = daemon.dump(source=images)
        pid, recorder = daemon.pids()
        # It makes its file in its own time: one that goes before has told nobody of anything.
        daemon.tell(trainer.pid, "running")
        os.kill(recorder, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        daemon.process.wait(timeout=LIMIT)
        end = daemon.tell(pid, "vanished")
        begins(end, f"penstockd {pid} vanished: the record stops")
        file, = daemon.records()
        doctored = path / "doctored.ring"
        subprocess.run([tool("why_doctor"), file, doctored, "boot_id=0000-before"], check=True, timeout=LIMIT)
        told = why(doctored)["records"][0]
        end, = (end for end in told["ends"] if end["who"] == "daemon")
        assert end["cause"] == "reboot" and end["confidence"] == "likely", end
        begins(end, f"penstockd {pid} went down with the machine")
        end, = (end for end in told["ends"] if end["who"] == "trainer")
        assert end["cause"] == "reboot" and end["confidence"] == "possible" and end["pid"] == trainer.pid, end


def test_kernel_that_tells_nothing():
    """Before 6.15 nobody but the parent learns the status."""
    with home() as (path, images), Recorded(path) as daemon:
        trainer = daemon.dump(source=images)
        trainer.kill()
        daemon.tell(trainer.pid, "signal")
        file, = daemon.records()
        doctored = path / "doctored.ring"
        subprocess.run([tool("why_doctor"), file, doctored, "unknown=1"], check=True, timeout=LIMIT)
        end, = why(doctored, "--all")["records"][0]["ends"][:1]
        assert end["cause"] == "ended" and end["wait_status"] is None and end["pid"] == trainer.pid, end
        begins(end, f"trainer {trainer.pid} ended without closing its stream; the reason is unknown: kernels before 6.15")


# ---- what is no good ----

def test_nothing_to_tell():
    with home() as (path, images):
        environment = {**os.environ, "XDG_STATE_HOME": str(path / "none")}
        assert "no record: " in why(code=1, environment=environment)
        (path / "none/penstock").mkdir(parents=True)
        assert "no record: no daemon" in why(code=1, environment=environment)
        with Recorded(path) as daemon:
            trainer = daemon.dump(source=images)
            wait_until(daemon.records, "the recorder's file")
            pid = daemon.process.pid
            wait_until(lambda: f"trainer {trainer.pid}" in daemon.why(code=1, parse=False), "the trainer in the record")
            text = daemon.why(code=1, parse=False)
            assert "no record of a failure" in text and f"penstockd {pid}" in text, text
            text = daemon.why(999999, code=1, parse=False)
            assert "no record of process 999999; there are records of" in text and f"trainer {trainer.pid}" in text, text
            running = daemon.why(pid)["records"][0]["ends"][0]
            assert running["cause"] == "running" and running["sentence"].startswith(f"penstockd {pid} is running"), running


def test_bad_files():
    with folder() as path:
        good, bad = path / "penstock", path / "bad.ring"
        good.mkdir()
        bad.write_bytes(b"")
        assert "bad.ring" in why(bad, code=2)
        bad.write_bytes(os.urandom(1 << 20))
        assert "is not a flight recorder's file" in why(bad, code=2)
        bad.write_bytes(b"PENSTREC" + (99).to_bytes(4, "little") + bytes(1 << 20))
        assert "version" in why(bad, code=2)
        assert "No such file" in why(path / "none.ring", code=2)
        assert "expected a process ID" in why("99999999999999999999", code=2)
        assert "give only one of them" in why("--folder", path, bad, code=2)
        assert "one more" in why("1", "2", code=2)
        if os.geteuid() == 0:
            path.chmod(0o755)
            bad.chmod(0o600)
            with tools_for(NOBODY):
                answer = subprocess.run([tool("penstock"), "why", str(bad)], user=NOBODY, capture_output=True, text=True, timeout=LIMIT)
                assert answer.returncode == 2 and "bad.ring: Permission denied" in answer.stderr, answer
        bad.rename(good / "recorder-20990101T000000Z-1.ring")
        assert "no record could be read" in why("--folder", good, code=1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--trainer"]:
        trainer(*sys.argv[2:])
    else:
        run_tests(globals())
