"""What the fault scenarios share: trainers that act at named steps, the daemon's figures before and after, undisturbed rows.

Each fault_*.py is one scenario and one ctest; the comment at its top says what it promises. Only the standard library."""
import contextlib
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
from harness import ANSWER, NIGHTLY, QUERY, SLOW, Daemon, Raw, make_dataset, message, tool, wait_until  # noqa: E402, F401

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "5"))
# Batches of four tiny images: a case takes milliseconds, and a row has many batches.
TINY = {"batch_size": 4, "image_size": 16, "prefetch": 4}
WORLD = 3  # ranks of a job that splits
FIGURES = ("fds", "memfd mappings", "threads", "clients", "reserved bytes")


def seeded(name):
    """The scenario's random numbers; the seed is printed, so that a failure can be repeated."""
    print(f"{name}: PENSTOCK_TEST_SEED={SEED}", flush=True)
    return random.Random(f"{name}/{SEED}")


def say(text):
    """A figure of the nightly run."""
    print(f"{'promise:' if NIGHTLY else '    '} {text}", flush=True)


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def tiny_dataset(home):
    return make_dataset(home / "images", per_class=20, min_side=24, max_side=48)


# ---- trainers ----

class Note:
    """One line that a trainer wrote: its first word, the rest, and when (seconds, CLOCK_MONOTONIC)."""

    def __init__(self, line):
        text, stamp = line.rsplit(" ", 1)
        self.kind, _, self.text = text.partition(" ")
        self.time = int(stamp) / 1e6

    def __repr__(self):
        return f"{self.kind} {self.text}"


class FaultTrainer:
    """fault_trainer below `home`, reading `definition`; options as at the top of trainer.c."""
    made = 0

    def __init__(self, home, socket, definition=None, mode="raw", environment=None, **options):
        FaultTrainer.made += 1
        self.out = Path(home) / f"notes-{FaultTrainer.made}"
        command = [tool("fault_trainer"), mode, f"socket={socket}", f"out={self.out}", *(f"{k}={v}" for k, v in options.items())]
        definition = definition or {}
        if mode == "lib":
            command += [f"{k}={json.dumps(v) if isinstance(v, dict) else v}" for k, v in definition.items()]
        elif definition:
            command.append("open=" + json.dumps({k: str(v) if isinstance(v, Path) else v for k, v in definition.items()}))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        self.pid, self.mode = self.process.pid, mode

    def notes(self, *kinds):
        try:
            lines = self.out.read_text().split("\n")[:-1]
        except FileNotFoundError:
            lines = []
        notes = map(Note, lines)
        return [n for n in notes if not kinds or n.kind in kinds]

    def wait_note(self, kind, count=1):
        """Its note number `count` of this kind, waited for."""
        def found():
            notes = self.notes(kind)
            if len(notes) < count and self.process.poll() is not None:
                notes = self.notes(kind)
                assert len(notes) >= count, f"the trainer ended before {kind}: {self.notes()[-3:]}"
            return notes[count - 1] if len(notes) >= count else None
        return wait_until(found, f"a trainer's {kind}")

    def batches(self):
        """The batches that it was given and read to the end: EPOCH BATCH POSITION COUNT FLAGS IDS BYTES."""
        return [n.text for n in self.notes("batch")]

    def state(self, begin=False):
        """Its place, or its beginning, as penstock_stream_state gives it."""
        opened = self.notes("opened")[0].text.split()
        fingerprint, order, transform = opened[:3]
        seed, epoch, _, position, size, rank, world, _ = map(int, opened[3:])
        if not begin and (batches := self.batches()):
            epoch, _, position, _, flags = map(int, batches[-1].split()[:5])
            epoch, position = (epoch + 1, 0) if flags & 1 else (epoch, position - rank * size + world * size)
        return {"version": 1, "fingerprint": fingerprint, "order": order, "transform": transform, "seed": seed, "epoch": epoch,
                "position": position}

    def signal(self, number):
        """Sends it; when (seconds, CLOCK_MONOTONIC)."""
        now = time.monotonic()
        self.process.send_signal(number)
        return now

    def wait_stopped(self):
        """Waits for SIGSTOP to have worked."""
        wait_until(lambda: Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", "the trainer to be stopped")

    def enough(self):
        """A lingering trainer ends after the batch that it is at."""
        self.process.stdin.close()

    def finish(self, code=0):
        """Waits for its end; its batches."""
        got = self.process.wait(timeout=harness.LIMIT)
        self.process.stdin.close()
        assert got == code, f"trainer ended with {got}, not {code}: {self.notes()[-3:]}"
        return self.batches()

    def finish_with_error(self):
        got = self.process.wait(timeout=harness.LIMIT)
        assert got == 1, f"trainer ended with {got}: {self.notes()[-3:]}"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.kill_children()

    def kill_children(self):
        """Of a trainer that forked: its children have its memory, which counts until they end."""
        for note in self.notes("forked"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(note.text), signal.SIGKILL)


@contextlib.contextmanager
def killed_after(trainers):
    """Whatever happens, none of these trainers outlives the block."""
    try:
        yield trainers
    finally:
        for trainer in trainers:
            trainer.kill()


def undisturbed(home, socket, definition, batches):
    """The first batches of an undisturbed stream."""
    alone = {k: v for k, v in definition.items() if k not in ("group", "wait_for", "state", "reconnect")}
    return FaultTrainer(home, socket, alone, batches=batches).finish()


# ---- jobs: trainers that belong together ----

def shares(definition, name):
    """What each trainer of a job opens."""
    if name == "private":
        return [definition]
    if name == "all":
        return [{**definition, "group": "g", "wait_for": 2} for _ in range(2)]
    return [{**definition, "group": "g", "share": "split", "rank": rank, "world_size": WORLD, "wait_for": WORLD} for rank in range(WORLD)]


class Rank:
    """One place of a job: its row so far, and the state after it."""

    def __init__(self, definition):
        self.definition, self.row, self.state = definition, [], None
        self.trainer = None

    def start(self, home, socket, **options):
        definition = {k: v for k, v in self.definition.items() if k != "reconnect" or self.state}
        if self.state:
            definition["state"] = self.state
        self.trainer = FaultTrainer(home, socket, definition, **options)

    def take(self):
        """Its trainer has ended: takes the batches that it was given."""
        if self.trainer.notes("opened"):
            self.row += self.trainer.batches()
            self.state = self.trainer.state() if self.trainer.mode == "raw" else None
        self.trainer.kill()
        self.trainer.out.unlink()

    def lost(self, since):
        """The daemon is gone. Returns the seconds that its trainer took to notice; None if it had not joined yet."""
        code = self.trainer.process.wait(timeout=harness.LIMIT)
        last = self.trainer.notes()[-1]
        assert code == 3 or last.text == "nobody listens", f"ended with {code}: {last}"
        self.take()
        return last.time - since if code == 3 else None

    def killed(self):
        """Its trainer has killed itself at its step."""
        self.trainer.finish(-signal.SIGKILL)
        self.take()


def same_place(ranks):
    """All go on from the place of the one that is least far, as from a common checkpoint."""
    least = min(ranks, key=lambda r: len(r.row))
    for rank in ranks:
        rank.row, rank.state = rank.row[:len(least.row)], least.state


def check_rows(home, ranks):
    """Each rank's row is that of the same job undisturbed."""
    longest = max(len(r.row) for r in ranks)
    with Daemon(home, "--threads", "2") as daemon:
        if "rank" not in ranks[0].definition:
            want = [undisturbed(home, daemon.socket, ranks[0].definition, longest)] * len(ranks)
        else:
            plain = [{k: v for k, v in r.definition.items() if k != "reconnect"} for r in ranks]
            trainers = [FaultTrainer(home, daemon.socket, d, batches=longest) for d in plain]
            with killed_after(trainers):
                want = [t.finish() for t in trainers]
    for rank, lines in zip(ranks, want):
        assert rank.row == lines[:len(rank.row)], "no batch lost, none repeated, the same bytes"
    return longest


# ---- the daemon's figures ----

def proc_pss_kib(pid):
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise AssertionError("no Pss in smaps_rollup")


def threads_of(pid):
    """Without the kernel's threads for io_uring (iou-wrk), of which one stays once a read had to wait for storage."""
    names = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            names.append(Path(f"/proc/{pid}/task/{task}/comm").read_text())
    return sum(not name.startswith("iou-") for name in names)


class Watch:
    """A connection that asks the daemon for its status, and its process's figures beside it."""

    def __init__(self, daemon):
        self.pid = daemon.process.pid
        self.raw = Raw(daemon.socket)
        self.request = 1
        self.baseline = None

    def status(self):
        self.request += 1
        self.raw.send(message(QUERY, struct.pack("<IIQ", 1, 0, 0), self.request))
        body = self.raw.until(ANSWER)
        return json.loads(body[16:])

    def figures(self):
        status = self.status()
        with open(f"/proc/{self.pid}/maps", encoding="utf-8", errors="replace") as maps:
            memfds = sum("/memfd:" in line for line in maps)
        return (len(os.listdir(f"/proc/{self.pid}/fd")), memfds, threads_of(self.pid), status["clients"],
                status["memory"]["reserved"])

    def settle(self):
        """The present figures, with no stream open, are those to which everything must return."""
        wait_until(lambda: not self.status()["streams"], "the streams to go")
        def calm():
            first = self.figures()
            time.sleep(0.05)
            return first if first == self.figures() else None
        self.baseline = wait_until(calm, "the daemon's figures to settle")

    def back(self):
        """Waits until the figures are those of settle() again."""
        try:
            wait_until(lambda: all(now <= then for now, then in zip(self.figures(), self.baseline)) and not self.status()["streams"], "the baseline")
        except AssertionError as error:
            raise AssertionError(f"{error}: {dict(zip(FIGURES, zip(self.figures(), self.baseline)))}; {self.status()['streams']}") from None

    def gone(self, pid, since):
        """Seconds from `since` until the daemon holds nothing for this trainer any more."""
        def held():
            return any(t["pid"] == pid for s in self.status()["streams"] for t in s["trainers"])
        wait_until(lambda: not held(), f"the leases of trainer {pid} to go")
        return time.monotonic() - since

    def returned(self, since):
        """Seconds from `since` until the memory of all streams has come back."""
        wait_until(lambda: self.status()["memory"]["reserved"] <= self.baseline[-1], "the memory to come back")
        return time.monotonic() - since

    def pss_kib(self):
        return proc_pss_kib(self.pid)

    def close(self):
        self.raw.close()


@contextlib.contextmanager
def watched(home, *options, **keys):
    """A daemon with a watch that has settled after a first stream, so that everything that is made once exists."""
    keys.setdefault("environment", {"MALLOC_PERTURB_": "0"})
    with Daemon(home, "--threads", "2", *options, **keys) as daemon:
        watch = Watch(daemon)
        try:
            if (home / "images").exists():
                undisturbed(home, daemon.socket, {"source": home / "images", **TINY}, 4)
            watch.settle()
            yield daemon, watch
        finally:
            watch.close()


def promise_latency(name, seconds, limit):
    """Prints the figure; held to `limit` where nothing else runs (nightly), to a generous one elsewhere."""
    median, p99 = quantile(seconds, 0.5), quantile(seconds, 0.99)
    say(f"{name}: {len(seconds)} times, median {median * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, most {max(seconds) * 1e3:.1f} ms")
    most = limit if NIGHTLY and SLOW == 1 else max(10 * limit, 5) * SLOW
    assert p99 <= most, f"{name}: p99 is {p99:.3f} s, promised {most} s"
