#!/usr/bin/env python3
"""Trainers that come, go, stop and die for an hour, in a cgroup of the daemon's budget and 5 %, every batch of theirs compared with an
undisturbed row.

    soak.py      PENSTOCK_TEST_SOAK_S: seconds, default 3600 nightly and 12 otherwise

Some return with their state again and again, alone or as ranks of a split job, so that their rows must go on where they were; groups
that share all are strangers of which some die and the others must have everything; some read photographs, some augmented floats; one
keeps asking for the status. They leave by closing, by hanging up, by SIGKILL at a step of the protocol, by ending without a word; some
are stopped for a while (SIGSTOP). At the end descriptors, mappings, threads, reserved bytes are what they were, and what the daemon
keeps has not grown."""
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / part) for part in ("e2e", "faults")]
from faults import TINY, FaultTrainer, Rank, Watch, proc_pss_kib, seeded, tiny_dataset, undisturbed  # noqa: E402
from harness import NIGHTLY, PHOTOGRAPHS, Daemon, Skip, folder, make_dataset, promise, run_tests  # noqa: E402
from memory_limit import MIB, MemoryLimit  # noqa: E402

SECONDS = int(os.environ.get("PENSTOCK_TEST_SOAK_S", "3600" if NIGHTLY else "12"))
BUDGET = 192 * MIB
ROW = 240 if SECONDS > 60 else 60  # batches that are known of each row; whoever has had them all begins anew
TOGETHER = 5
GROWTH_KIB = 4096
STEPS = ["welcomed", "open-sent", "opened", "extent-received", "mapped", "batch-received", "reading", "read", "before-release", "released"]
LEAVES = ["kill", "kill", "exit", "disconnect", None, None]


class Visitor(Rank):
    """Comes again and again with the state that it left with; its row must be the known one."""

    def __init__(self, definition, known):
        super().__init__(definition)
        self.known, self.visits, self.read, self.resume_at, self.codes, self.hangs_up = known, 0, 0, None, (), False

    def come(self, home, socket, draw):
        what, step = draw.choice(LEAVES), draw.choice(STEPS)
        at = {"at": step, "occurrence": draw.randint(1, 5) if step in STEPS[5:] else 1, "do": what} if what else {}
        # A step that it does not come to is not taken.
        self.codes = (0, -signal.SIGKILL) if what in ("kill", "disconnect") else (0,)
        self.hangs_up = what == "disconnect"
        left = ROW - len(self.row)
        self.start(home, socket, batches=max(1, min(left, draw.randint(1, 25))), hold=draw.randint(0, 2), **at)
        self.visits += 1
        self.resume_at = None
        if draw.random() < 0.15:
            self.trainer.signal(signal.SIGSTOP)
            self.resume_at = time.monotonic() + draw.uniform(0.05, 2)

    def resumed(self):
        if self.resume_at and time.monotonic() >= self.resume_at:
            self.trainer.signal(signal.SIGCONT)
            self.resume_at = None

    def left(self):
        """Whether its trainer has ended; then its row is looked at."""
        self.resumed()
        if self.hangs_up and self.trainer.notes("disconnected"):
            self.trainer.process.kill()  # it only waits, without its socket
        if self.trainer.process.poll() is None:
            return False
        before = len(self.row)
        code = self.trainer.process.returncode
        assert code in self.codes, f"ended with {code}: {self.trainer.notes()[-3:]}"
        if self.trainer.notes("opened"):
            self.row += self.trainer.batches()
            self.state = self.trainer.state()
        self.trainer.kill()
        self.trainer.out.unlink(missing_ok=True)
        assert self.row[before:] == self.known[before:len(self.row)], f"{self.definition}: not the known row from batch {before} on"
        self.read += len(self.row) - before
        if len(self.row) >= ROW:
            self.row, self.state = [], None
        return True

    def end(self):
        self.trainer.kill()


class Party:
    """A group of strangers that share all from the beginning, or the ranks of a job; each comes once, one may die."""

    def __init__(self, definitions, known):
        self.definitions, self.known, self.number, self.visits, self.read = definitions, known, 0, 0, 0
        self.trainers, self.doomed = [], None

    def come(self, home, socket, draw):
        self.number += 1
        name = f"party-{os.getpid()}-{id(self) % 9973}-{self.number}"
        batches = draw.randint(2, min(ROW, 30))
        self.doomed = draw.randrange(len(self.definitions)) if draw.random() < 0.6 else None
        self.trainers = []
        for place, definition in enumerate(self.definitions):
            at = {"at": draw.choice(STEPS[5:]), "occurrence": draw.randint(1, 3), "do": draw.choice(["kill", "exit"])} if place == self.doomed else {}
            self.trainers.append(FaultTrainer(home, socket, {**definition, "group": name, "wait_for": len(self.definitions)}, batches=batches, **at))
            self.visits += 1

    def left(self):
        if any(t.process.poll() is None for t in self.trainers):
            return False
        for place, (trainer, known) in enumerate(zip(self.trainers, self.known)):
            got = trainer.batches()
            assert got == known[:len(got)], f"{self.definitions[place]}: not the known row"
            assert place == self.doomed or trainer.process.returncode == 0, trainer.notes()[-3:]
            self.read += len(got)
            trainer.kill()
            trainer.out.unlink(missing_ok=True)
        return True

    def end(self):
        for trainer in self.trainers:
            trainer.kill()


def knows(home, socket, definition):
    return undisturbed(home, socket, definition, ROW)


def visitors(home, socket):
    """Everyone who may come, each with the row that it must be given."""
    tiny, photographs = home / "images", home / "large" if (home / "large").is_dir() else PHOTOGRAPHS
    augmented = {"source": tiny, "batch_size": 4, "image_size": 32, "seed": 9, "dtype": "float32", "layout": "NCHW",
                 "transforms": [{"RandomResizedCrop": {"size": 32}}, "RandomHorizontalFlip", "RandAugment"]}
    alone = [{"source": tiny, **TINY, "seed": seed} for seed in range(3)] + [augmented]
    alone += [{"source": photographs.resolve(), "batch_size": 8, "image_size": 64, "seed": seed, "prefetch": 3} for seed in range(2)]
    shared = {"source": tiny, **TINY, "seed": 4}
    ranks = [{"source": tiny, **TINY, "seed": 5, "share": "split", "rank": rank, "world_size": 2} for rank in range(2)]
    together = [FaultTrainer(home, socket, {**d, "group": "known", "wait_for": 2}, batches=ROW) for d in ranks]
    split = [t.finish() for t in together]
    whole = knows(home, socket, shared)
    return ([Visitor(d, knows(home, socket, d)) for d in alone] + [Party([shared] * 3, [whole] * 3) for _ in range(2)] + [Party(ranks, split)])


def pss_kib(daemon):
    """Of the daemon and its witness."""
    children = Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children").read_text().split()
    return sum(proc_pss_kib(int(pid)) for pid in [daemon.process.pid, *children])


def soak(home, place, daemon, watch):
    draw, all_of_them, here = seeded("soak"), visitors(home, daemon.socket), []
    with ending(here):
        return soaked(home, place, daemon, watch, draw, all_of_them, here)


@contextlib.contextmanager
def ending(here):
    """Whoever is still there when a test fails goes."""
    try:
        yield
    finally:
        for visitor in here:
            visitor.end()


def soaked(home, place, daemon, watch, draw, all_of_them, here):
    begin, peak, looked, sizes = time.monotonic(), 0, 0, []
    # Ten times nobody is left: after the first tenth what is made once is made, and the cache has had what it may have.
    for until in (begin + SECONDS * tenth / 10 for tenth in range(1, 11)):
        while here or time.monotonic() < until:
            while len(here) < TOGETHER and time.monotonic() < until:
                visitor = draw.choice([v for v in all_of_them if v not in here])
                visitor.come(home, daemon.socket, draw)
                here.append(visitor)
            here[:] = [v for v in here if not v.left()]
            if time.monotonic() > looked + 0.2:
                looked = time.monotonic()
                peak = max(peak, place.kept() if place else pss_kib(daemon) * 1024)
                assert daemon.process.poll() is None, "the daemon has ended"
            time.sleep(0.01)
        if not sizes:
            watch.settle()
        watch.back()
        sizes.append(place.kept() // 1024 if place else pss_kib(daemon))
        print(f"     after {time.monotonic() - begin:.0f} s with no stream open: {sizes[-1]} KiB, {sum(v.visits for v in all_of_them)} visits", flush=True)
    return all_of_them, peak, sizes


def test_soak():
    os.environ.pop("MALLOC_PERTURB_", None)
    with folder() as home:
        tiny_dataset(home)
        if not any(PHOTOGRAPHS.glob("*")):
            make_dataset(home / "large", per_class=20, min_side=200, max_side=500)
        try:
            place = MemoryLimit(int(BUDGET * 1.05))
        except Skip as reason:
            place = None
            print(f"     no cgroup, measured by Pss: {reason}", flush=True)
        try:
            with Daemon(home, "--threads", "2", "--memory", f"{BUDGET // MIB}M", prefix=place.prefix() if place else (),
                        environment={"MALLOC_PERTURB_": "0"}) as daemon:
                watch = Watch(daemon)
                all_of_them, peak, sizes = soak(home, place, daemon, watch)
                kills = place.oom_kills() if place else 0
                watch.close()
        finally:
            if place:
                place.__exit__()
        visits, batches = sum(v.visits for v in all_of_them), sum(v.read for v in all_of_them)
        assert kills == 0 and peak <= BUDGET * 1.05 and batches > visits, (kills, peak, batches, visits)
        assert sizes[-1] - sizes[0] <= GROWTH_KIB, f"with no stream open, by tenths of the time: {sizes} KiB"
        promise(f"{SECONDS} s, {visits} visits, {batches} batches, each as it must be; no kill under {BUDGET * 1.05 / MIB:.0f} MiB, at most "
                f"{peak / MIB:.1f} MiB kept; with no stream open {sizes[0] / 1024:.1f} MiB after a tenth, {sizes[-1] / 1024:.1f} at the end")


if __name__ == "__main__":
    run_tests(globals(), limit=2 * SECONDS + 600)
