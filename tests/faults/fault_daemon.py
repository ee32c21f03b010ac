"""The daemon is SIGKILLed at random moments and started again: trainers have an error within a second, and the rows that they are given
from one daemon after the other are, put together, the undisturbed ones. Five hundred kills on real pictures nightly."""
import os
import shutil
import signal
import time

from faults import (NIGHTLY, SLOW, TINY, FaultTrainer, killed_after, promise_latency, say, seeded, tiny_dataset, undisturbed)
from harness import IMAGENET, Daemon, Skip, folder, make_dataset, run_tests

ROUNDS = 15 if SLOW == 1 else 4
NIGHTLY_ROUNDS = {"private": 170, "all": 170, "split": 160}
REAL = {"batch_size": 16, "image_size": 224, "prefetch": 4}
WORLD = 3


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
        definition = {**self.definition, **({"state": self.state} if self.state else {})}
        self.trainer = FaultTrainer(home, socket, definition, **options)

    def lost(self, since):
        """The daemon has gone: takes what was given. Seconds that it took to notice; None when it had not been let in yet."""
        code = self.trainer.process.wait(timeout=60)
        last = self.trainer.notes()[-1]
        assert code == 3 or last.kind.startswith("error"), f"ended with {code}: {last}"
        if self.trainer.notes("opened"):
            self.row += self.trainer.batches()
            self.state = self.trainer.state()
        self.trainer.kill()
        self.trainer.out.unlink()
        return last.time - since if code == 3 else None


def same_place(ranks):
    """All go on from the place of the one that has come least far, as from a common checkpoint."""
    least = min(ranks, key=lambda r: len(r.row))
    for rank in ranks:
        rank.row, rank.state = rank.row[:len(least.row)], least.state


def kill_rounds(home, definition, name, rounds, random, most_s, own_places=False):
    """The rows of all ranks put together over `rounds` killed daemons; seconds until each trainer knew."""
    ranks, latencies = [Rank(d) for d in shares(definition, name)], []
    for _ in range(rounds):
        daemon = Daemon(home, "--threads", "2")
        try:
            for rank in ranks:
                rank.start(home, daemon.socket, sleep_us=200, hold=random.randint(0, 2))
            if random.random() < 0.8:
                ranks[0].trainer.wait_note("batch")
            time.sleep(random.uniform(0, most_s))
        finally:
            since = time.monotonic()
            daemon.stop(signal.SIGKILL)
        latencies += [rank.lost(since) for rank in ranks]
        if not own_places:
            same_place(ranks)
    return ranks, [s for s in latencies if s is not None]


def check_rows(home, ranks):
    """Each rank's row is that of the same job undisturbed."""
    longest = max(len(r.row) for r in ranks)
    with Daemon(home, "--threads", "2") as daemon:
        if "rank" not in ranks[0].definition:
            want = [undisturbed(home, daemon.socket, ranks[0].definition, longest)] * len(ranks)
        else:
            trainers = [FaultTrainer(home, daemon.socket, r.definition, batches=longest) for r in ranks]
            with killed_after(trainers):
                want = [t.finish() for t in trainers]
    for rank, lines in zip(ranks, want):
        assert rank.row == lines[:len(rank.row)], "no batch lost, none repeated, the same bytes"
    return longest


def run_kills(home, definition, name, rounds, most_s):
    ranks, latencies = kill_rounds(home, definition, name, rounds, seeded(f"daemon/{name}"), most_s)
    say(f"{name}: {rounds} daemons killed; {check_rows(home, ranks)} batches, none lost or repeated")
    promise_latency(f"{name}: the daemon's death to the trainer's error", latencies, 1)


def run_small(name):
    with folder() as home:
        tiny_dataset(home)
        run_kills(home, {"source": home / "images", **TINY}, name, ROUNDS, 0.03)


def run_real(name):
    if not NIGHTLY:
        raise Skip("nightly")
    if not IMAGENET.exists():
        raise Skip(f"{IMAGENET} is not there")
    with folder() as home:
        run_kills(home, {"source": IMAGENET.resolve(), **REAL}, name, NIGHTLY_ROUNDS[name], 0.15)


def test_private():
    run_small("private")


def test_share_all():
    run_small("all")


def test_real_private():
    run_real("private")


def test_real_share_all():
    run_real("all")


def forget(home):
    """Indexes and checkpoints, and what was to become one."""
    shutil.rmtree(home / "cache", ignore_errors=True)
    left = [f for f in (home / "tars").iterdir() if f.suffix != ".tar"]
    for file in left:
        file.unlink()


def test_killed_while_it_writes():
    """Index and checkpoints are being written: whatever was there at that moment, the next daemon gives the same."""
    random = seeded("daemon/writing")
    rounds, cut = (60 if NIGHTLY else 20 if SLOW == 1 else 4), 0
    with folder() as home:
        make_dataset(home / "images", per_class=60, min_side=64, max_side=300)
        make_dataset(home / "tars", per_class=60, tars=True, min_side=64, max_side=300)
        definitions = [{"source": source, "batch_size": 8, "image_size": 32} for source in (home / "images", home / "tars/*.tar")]
        with Daemon(home, "--threads", "2") as daemon:
            want = [undisturbed(home, daemon.socket, d, 22) for d in definitions]
        for _ in range(rounds):
            forget(home)
            daemon = Daemon(home, "--threads", "2")
            trainers = [FaultTrainer(home, daemon.socket, d, batches=22) for d in definitions]
            with killed_after(trainers):
                time.sleep(random.uniform(0, 0.08 * SLOW))
                daemon.stop(signal.SIGKILL)
            cut += any(".tmp-" in name for _, _, names in os.walk(home) for name in names)
            with Daemon(home, "--threads", "2") as daemon:
                assert [undisturbed(home, daemon.socket, d, 22) for d in definitions] == want
    say(f"{rounds} daemons killed while they opened and read for the first time, {cut} of them while a file was being written")


if __name__ == "__main__":
    run_tests(globals())
