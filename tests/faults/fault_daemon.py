"""The daemon is SIGKILLed at random moments and started again: trainers get an error within a second, and the rows that they
get from one daemon after the other are, put together, the undisturbed ones. Nightly: five hundred kills on real images."""
import os
import shutil
import signal
import time

from faults import (NIGHTLY, SLOW, TINY, FaultTrainer, Rank, check_rows, killed_after, promise_latency, same_place, say, seeded, shares,
                    tiny_dataset, undisturbed)
from harness import PHOTOGRAPHS, Daemon, Skip, folder, make_dataset, photographs, run_tests

ROUNDS = 15 if NIGHTLY else 8 if SLOW == 1 else 4
NIGHTLY_ROUNDS = {"private": 170, "all": 170, "split": 160}
REAL = {"batch_size": 16, "image_size": 224, "prefetch": 4}


def kill_rounds(home, ranks, rounds, random, most_s, own_places=False):
    """Puts the rows of all ranks together over `rounds` killed daemons. Returns the seconds until each trainer noticed."""
    latencies = []
    for _ in range(rounds):
        daemon = Daemon(home, "--threads", "2")
        try:
            for rank in ranks:
                rank.start(home, daemon.socket, sleep_us=200, hold=random.randint(0, 2))
            for rank in ranks if own_places else []:  # or it would have no place yet
                if not rank.state:
                    rank.trainer.wait_note("opened")
            if random.random() < 0.8:
                ranks[0].trainer.wait_note("batch")
            time.sleep(random.uniform(0, most_s))
        finally:
            since = time.monotonic()
            daemon.stop(signal.SIGKILL)
        latencies += [rank.lost(since) for rank in ranks]
        if not own_places:
            same_place(ranks)
    return [s for s in latencies if s is not None]


def run_kills(home, definition, name, rounds, most_s):
    ranks = [Rank(d) for d in shares(definition, name)]
    latencies = kill_rounds(home, ranks, rounds, seeded(f"daemon/{name}"), most_s)
    say(f"{name}: {rounds} daemons killed; {check_rows(home, ranks)} batches, none lost or repeated")
    promise_latency(f"{name}: the daemon's death to the trainer's error", latencies, 1)


def run_small(name):
    with folder() as home:
        tiny_dataset(home)
        run_kills(home, {"source": home / "images", **TINY}, name, ROUNDS, 0.03)


def run_real(name):
    if not NIGHTLY:
        raise Skip("nightly")
    photographs()
    with folder() as home:
        run_kills(home, {"source": PHOTOGRAPHS, **REAL}, name, NIGHTLY_ROUNDS[name], 0.15)


def test_private():
    run_small("private")


def test_share_all():
    run_small("all")


def test_split():
    run_small("split")


def run_own_places(name, rounds, wait_for=None):
    random = seeded(f"daemon/{name}/own places")
    with folder() as home:
        tiny_dataset(home)
        ranks = [Rank(d) for d in shares({"source": home / "images", **TINY, "reconnect": True}, name)]
        kill_rounds(home, ranks, 1, random, 0.03, own_places=True)
        for rank in ranks:
            rank.definition["wait_for"] = wait_for or rank.definition.get("wait_for", 1)
        kill_rounds(home, ranks, rounds, random, 0.03, own_places=True)
        assert all(rank.row for rank in ranks), "each has come on"
        say(f"{name}, each from its own place: {rounds + 1} daemons killed; {check_rows(home, ranks)} batches, none lost or repeated")


def test_each_from_its_own_place():
    """With `reconnect` trainers need not agree first: each says which batch it needs, and gets it."""
    for name in ("private", "all", "split"):
        run_own_places(name, ROUNDS)


def test_those_who_come_back_are_waited_for():
    """A group that does not wait at its first start waits two seconds for trainers that come back."""
    run_own_places("all", 4, wait_for=1)


def test_real_private():
    run_real("private")


def test_real_share_all():
    run_real("all")


def test_real_split():
    run_real("split")


def forget(home):
    """Indexes and entry points, finished and unfinished."""
    shutil.rmtree(home / "cache", ignore_errors=True)
    left = [f for f in (home / "tars").iterdir() if f.suffix != ".tar"]
    for file in left:
        file.unlink()


def test_killed_while_it_writes():
    """Killed while index and entry points are written: whatever exists at that moment, the next daemon gives the same batches."""
    random = seeded("daemon/writing")
    rounds, cut = (60 if NIGHTLY else 8 if SLOW == 1 else 4), 0
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
