"""Private daemons, each a job's own: elected by whoever comes first, tied to none of those who came, found by the command, gone
with their folders. Whole processes: trainers (dump_batches), penstockd, penstock."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, Skip, Trainer, folder, listens, make_dataset, penstock_processes, rows, run_tests, tool, wait_until

SMALL = {"image_size": 32, "batch_size": 8, "daemon_memory": "160M", "daemon_threads": 2, "private": 1}
RANKS = 8
# A private daemon ends ten seconds after its last client. Where a test waits for that, it starts this in penstockd's place: the
# option that comes last is the one that counts.
HASTY = '#!/bin/sh\nexec "{penstockd}" "$@" --idle-exit 1\n'


class Rank(Trainer):
    def __init__(self, environment, how, keys):
        command = [tool("dump_batches"), *(f"{k}={v}" for k, v in keys.items())]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **how)
        self.seen = []

    def rest(self):
        """What it prints to its end, behind the lines that were taken one by one."""
        out = self.process.stdout.read().splitlines()
        self.process.communicate(timeout=LIMIT)
        return out


class Node:
    """A user's place on a machine, without a daemon: dataset, runtime folder, and an environment that names no job."""

    def __init__(self, home, hasty=False):
        self.home = home
        self.data = make_dataset(home / "images", per_class=20)
        self.run = home / "run"
        self.run.mkdir(mode=0o700)
        self.penstock = self.run / "penstock"
        program = tool("penstockd")
        if hasty:
            program = home / "hasty"
            program.write_text(HASTY.format(penstockd=tool("penstockd")))
            program.chmod(0o700)
        jobs = ("PENSTOCK_", "TORCHELASTIC_", "SLURM_", "MASTER_", "RANK", "WORLD_SIZE")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(jobs)}
        self.environment.update({"XDG_RUNTIME_DIR": str(self.run), "XDG_CACHE_HOME": str(home / "cache"),
                                 "XDG_STATE_HOME": str(home / "state"), "PENSTOCKD": str(program)})

    def of_job(self, job):
        return {**self.environment, **({"PENSTOCK_JOB": job} if job else {})}

    def trainer(self, job=None, how=None, **keys):
        """`how`: of subprocess.Popen."""
        return Rank(self.of_job(job), how or {}, {"source": self.data, "daemon": 1, **SMALL, **keys})

    def command(self, *arguments, job=None):
        return subprocess.run([tool("penstock"), *arguments], env=self.of_job(job), capture_output=True, text=True, timeout=LIMIT)

    def folders(self):
        return sorted(p for p in self.penstock.glob("job-*")) if self.penstock.exists() else []

    @contextlib.contextmanager
    def own(self):
        """A daemon that somebody started, once it listens: bound, its socket is there before."""
        process = subprocess.Popen([tool("penstockd"), "--memory", "160M", "--threads", "2"], env=self.environment, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: listens(self.penstock / "penstock.sock"), "the daemon's socket")
            yield process
        finally:
            process.terminate()
            assert process.wait(LIMIT) == 0

    def sockets(self):
        """Of those who listen."""
        return [s for f in (self.penstock, *self.folders()) for s in [f / "penstock.sock"] if s.exists()]

    def daemons(self):
        """Processes that serve here."""
        found = []
        for pid, program in penstock_processes():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                if program == "penstockd" and any(w.startswith(str(self.run)) for w in words):
                    found.append(pid)
        return found

    def end(self):
        for pid in self.daemons():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.daemons(), "the daemons' end")


@contextlib.contextmanager
def node(**keys):
    with folder() as home:
        here = Node(home, **keys)
        try:
            yield here
        finally:
            here.end()


def daemon_of(trainer):
    """The process that serves it, once it has opened."""
    line = trainer.line()
    assert line.startswith("daemon "), (line, trainer.process.poll())
    return int(line.split()[1])


def stat_fields(pid):
    """State, parent, group, session, terminal ... of /proc/PID/stat."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()


def environment_of(pid):
    words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(w.split("=", 1) for w in words if "=" in w)


# ---- one for all ranks, tied to none ----

def test_eight_ranks_at_once_have_one_daemon():
    with node() as here:
        keys = {"share": "split", "world_size": RANKS, "wait_for": RANKS, "batch_size": 2, "epochs": 2}
        ranks = [here.trainer("j", rank=r, **keys) for r in range(RANKS)]
        served_by = {daemon_of(t) for t in ranks}
        assert len(served_by) == 1 and here.daemons() == list(served_by)
        lines = [rows(t.rest()) for t in ranks]
        assert all(len(each) == 2 * (60 // (2 * RANKS)) for each in lines), lines
        assert len(here.folders()) == 1 and here.folders()[0].stat().st_mode & 0o777 == 0o700


def test_it_is_not_tied_to_the_rank_that_started_it():
    with node() as here:
        one = min(os.sched_getaffinity(0))
        with open(here.home / "held", "w", encoding="ascii") as held_open:
            # Pinned to a processor, leading a session, with a descriptor of its own that an exec keeps.
            first = here.trainer("j", batches=0, sleep_ms=20, how={
                "preexec_fn": lambda: os.sched_setaffinity(0, {one}), "start_new_session": True, "pass_fds": (held_open.fileno(),)})
            daemon = daemon_of(first)
        rank = first.process.pid
        assert os.sched_getaffinity(rank) == {one}
        assert os.sched_getaffinity(daemon) >= os.sched_getaffinity(0), "what is allowed to this test, at least"
        assert os.getpgid(daemon) != os.getpgid(rank) and os.getsid(daemon) not in (os.getsid(rank), os.getsid(0))
        assert stat_fields(daemon)[4] == "0", "no terminal"
        assert int(stat_fields(daemon)[1]) not in (rank, os.getpid()), "nobody's child here"
        assert os.readlink(f"/proc/{daemon}/cwd") == "/"
        log = str(here.folders()[0] / "penstockd.log")
        assert [os.readlink(f"/proc/{daemon}/fd/{fd}") for fd in range(3)] == ["/dev/null", "/dev/null", log]
        theirs = {os.readlink(f"/proc/{rank}/fd/{fd}") for fd in (1, 2)} | {str(here.home / "held")}
        held = {os.readlink(f"/proc/{daemon}/fd/{fd}") for fd in os.listdir(f"/proc/{daemon}/fd")}
        assert not theirs & held, "nothing that its starter has open"
        others = [here.trainer("j", batches=0, sleep_ms=20, seed=s) for s in (1, 2)]
        assert {daemon_of(t) for t in others} == {daemon}
        os.killpg(rank, signal.SIGKILL)
        first.process.communicate()
        before = [t.line() for t in others]
        after = [[t.line() for _ in range(12)][-1] for t in others]  # more than lay ready
        assert all(before) and all(after) and before != after
        assert here.daemons() == [daemon]
        for t in others:
            t.kill()


def test_it_ends_after_the_last_client_and_its_folder_goes():
    with node(hasty=True) as here:
        first, second = (here.trainer("j", batches=0, sleep_ms=20, seed=s) for s in (0, 1))
        daemon = daemon_of(first)
        assert daemon_of(second) == daemon
        first.kill()
        assert second.line() and here.daemons() == [daemon]
        second.kill()
        wait_until(lambda: not here.daemons(), "the end of a daemon that nobody needs")
        assert here.folders() == [] and here.penstock.is_dir()
        # And nothing is left that would hinder the next.
        assert rows(here.trainer("j", epochs=1).finish())


# ---- several jobs ----

def test_two_jobs_have_two_daemons():
    with node() as here:
        jobs = [here.trainer(j, batches=0, sleep_ms=20, daemon_memory=m) for j, m in (("a", "160M"), ("b", "192M"))]
        pids = [daemon_of(t) for t in jobs]
        assert len(set(pids)) == 2 and len(here.folders()) == 2
        budgets = [json.loads(here.command("status", "--json", job=j).stdout)["memory"]["budget"] for j in "ab"]
        assert budgets == [160 << 20, 192 << 20], budgets
        os.kill(pids[0], signal.SIGKILL)
        assert jobs[0].process.communicate(timeout=LIMIT) and jobs[0].process.returncode == 1
        assert [jobs[1].line() for _ in range(12)][-1] and here.daemons() == [pids[1]]
        jobs[1].kill()


def fnv1a(text):
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value


def test_a_job_is_what_its_launcher_says():
    """As PROTOCOL.md has it, so that others can find the place too."""
    everything = {"PENSTOCK_JOB": "own", "TORCHELASTIC_RUN_ID": "run", "SLURM_JOB_ID": "17", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
    names = ["job-own", "torch-run", "slurm-17", "master-node1:29500"]
    with node() as here:
        for name in names:
            here.environment.update(everything)
            t = here.trainer(batches=0, sleep_ms=20)
            daemon = daemon_of(t)
            assert [f.name for f in here.folders()] == [f"job-{fnv1a(name):016x}"], (name, here.folders())
            assert here.command("stop").returncode == 0
            assert daemon not in here.daemons()
            t.kill()
            # The next says less.
            here.environment.pop(next(iter(everything)))
            everything.pop(next(iter(everything)))
        for half in ({"MASTER_ADDR": "node1"}, {"MASTER_PORT": "29500"}, {"TORCHELASTIC_RUN_ID": "none"}, {"PENSTOCK_JOB": ""}):
            here.environment = {k: v for k, v in here.environment.items() if not k.startswith("MASTER_")}
            here.environment.update(half)
            t = here.trainer(batches=0, sleep_ms=20)
            daemon_of(t)
            assert here.folders() == [] and len(here.sockets()) == 1, half
            t.kill()


def test_outside_a_job_it_listens_for_all():
    with node() as here:
        daemon = daemon_of(alone := here.trainer(batches=0, sleep_ms=20))
        assert here.folders() == [] and here.sockets() == [here.penstock / "penstock.sock"]
        assert daemon_of(in_job := here.trainer("j", batches=0)) == daemon
        alone.kill()
        in_job.kill()


def test_one_that_somebody_started_serves_jobs_too():
    with node() as here:
        with here.own() as own:
            for job in ("a", "b", None):
                t = here.trainer(job, batches=3)
                assert daemon_of(t) == own.pid
                t.finish()
            assert here.folders() == []
        assert here.penstock.is_dir(), "that folder is the user's"


def test_a_job_goes_on_with_the_daemon_that_it_has():
    """Its processes have to meet, also where one comes after somebody has started another daemon."""
    with node() as here:
        first = here.trainer("j", batches=0, sleep_ms=20)
        daemon = daemon_of(first)
        with here.own() as own:
            late = here.trainer("j", batches=0, sleep_ms=20, seed=1)
            other = here.trainer("k", batches=0, sleep_ms=20)
            assert daemon_of(late) == daemon and daemon_of(other) == own.pid
            for t in (first, late, other):
                t.kill()


def test_a_named_socket_is_the_only_place():
    with node() as here, folder() as elsewhere:
        named = elsewhere / "s" / "p.sock"
        t = here.trainer("j", socket=named, batches=0, sleep_ms=20)
        assert daemon_of(t) and named.exists() and here.sockets() == []
        t.kill()
        subprocess.run([tool("penstock"), "stop", "--socket", str(named)], check=True, timeout=LIMIT)
        assert named.parent.is_dir(), "a folder that somebody named stays"


# ---- its death ----

def test_restarted_three_times_with_the_next_batch():
    with node() as here:
        undisturbed = rows(here.trainer("u", batches=60, seed=5).finish())
        t = here.trainer("j", batches=0, seed=5, sleep_ms=10, reconnect_ms=60000, restarts=3)
        daemon_of(t)
        lines = []
        job = here.folders()
        for n in range(4):
            lines += [t.line() for _ in range(6)]
            mine = [p for p in here.daemons() if "j" == environment_of(p).get("PENSTOCK_JOB")]
            assert len(mine) == 1, (n, mine)
            os.kill(mine[0], signal.SIGKILL)
        lines += t.rest()
        assert t.process.returncode == 1
        sentence = lines.pop()
        assert lines == undisturbed[:len(lines)], "each once, in order"
        assert sentence.startswith("error -32 ") and "restarted 3 times" in sentence and "penstock why" in sentence, sentence
        assert any(str(f / "penstockd.log") in sentence for f in job), sentence


def test_what_the_dead_left_is_tidied_up_by_the_next():
    with node() as here:
        for job in ("a", "b", "c"):
            t = here.trainer(job, batches=0, sleep_ms=20)
            os.kill(daemon_of(t), signal.SIGKILL)
            t.process.communicate(timeout=LIMIT)
        live = here.trainer("live", batches=0, sleep_ms=20)
        daemon = daemon_of(live)
        assert len(here.folders()) == 1, here.folders()
        kept = here.folders()[0]
        # Neither who runs is touched, nor what is not ours.
        foreign = here.penstock / "job-0123456789abcdef"
        foreign.mkdir()
        (foreign / "mine.txt").write_text("mine")
        (here.penstock / "job-notes").mkdir()
        t = here.trainer("d", batches=3)
        daemon_of(t)
        t.finish()
        assert (foreign / "mine.txt").read_text() == "mine" and (here.penstock / "job-notes").is_dir()
        assert (kept / "penstock.sock").exists() and live.line() and daemon in here.daemons()
        live.kill()


# ---- the command ----

def test_the_command_finds_the_one_that_runs():
    with node() as here:
        none = here.command("status")
        assert none.returncode == 1 and "no penstockd is running at" in none.stderr
        a = here.trainer("a", batches=0, sleep_ms=20)
        daemon = daemon_of(a)
        assert json.loads(here.command("status", "--json").stdout)["pid"] == daemon
        assert str(here.folders()[0] / "penstock.sock") == json.loads(here.command("top", "--json").stdout)["socket"]
        bench = here.command("bench", "stream:none", "--seconds", "1")
        assert bench.returncode and "none" in bench.stderr and "no penstockd" not in bench.stderr, bench.stderr

        b = here.trainer("b", batches=0, sleep_ms=20)
        daemon_of(b)
        sockets = sorted(str(s) for s in here.sockets())
        assert len(sockets) == 2
        for words in (("status",), ("stop",), ("top", "--count", "1"), ("bench", "stream:none"), ("show", "stream:none")):
            several = here.command(*words)
            assert several.returncode in (1, 2), (words, several)
            assert all(s in several.stderr for s in sockets) and "--socket" in several.stderr, (words, several.stderr)
        assert len(here.daemons()) == 2, "nobody was ended"
        # In a job its own is meant.
        assert json.loads(here.command("status", "--json", job="a").stdout)["pid"] == daemon
        assert here.command("status", "--socket", sockets[0]).returncode == 0
        assert here.command("stop", job="a").returncode == 0
        wait_until(lambda: daemon not in here.daemons(), "its end")
        assert here.command("stop").returncode == 0 and not here.daemons()
        assert here.folders() == []
        for t in (a, b):
            t.kill()


@contextlib.contextmanager
def listening_as(user, path):
    """A listener of another user at `path`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os.close(writer)
                os.setuid(user)
                listener.listen(8)
                os.read(reader, 1)
            os._exit(0)
        os.close(reader)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                wait_until(lambda: probe.connect_ex(str(path)) == 0, "the other user's listener")
            yield
        finally:
            os.close(writer)
            os.waitpid(child, 0)


def test_another_users_daemons_are_none_of_ones_own():
    """In /tmp anybody may have made the folder, and put there what looks like jobs."""
    if os.geteuid():
        raise Skip("only root can become another user")
    with node() as here, contextlib.ExitStack() as stack:
        here.penstock.mkdir(mode=0o700)
        for name in ("job-0123456789abcdee", "job-0123456789abcdef"):
            (here.penstock / name).mkdir()
            stack.enter_context(listening_as(65534, here.penstock / name / "penstock.sock"))
            answer = here.command("status")
            assert answer.returncode == 1 and "no penstockd is running at" in answer.stderr, answer.stderr
            assert "--socket" not in answer.stderr and "job-" not in answer.stderr, answer.stderr


def test_the_path_has_to_fit():
    """The common socket's fits into an address, the job's does not: said only where one would be started there."""
    with folder() as home:
        here = Node(home)
        try:
            room = 107 - len(str(here.run)) - len("/penstock/penstock.sock") - 1
            deep = here.run / ("x" * room)
            deep.mkdir(mode=0o700)
            here.environment["XDG_RUNTIME_DIR"] = str(deep)
            sentence = here.trainer("j", daemon=0).error()
            assert "too long (at most 107 bytes)" in sentence and "PENSTOCK_SOCKET" in sentence, sentence
            assert "XDG_RUNTIME_DIR" in sentence and sentence.startswith("error -36 "), sentence
            assert rows(here.trainer(daemon=0, epochs=1).finish())
            assert rows(here.trainer("j", daemon=0, epochs=1).finish()), "one that runs is found all the same"
        finally:
            here.end()


if __name__ == "__main__":
    run_tests(globals())
