"""SIGTERM ends every stream at a batch boundary: the trainers were given whole batches, and the next daemon continues right after them."""
import signal
import time

from faults import NIGHTLY, SLOW, TINY, Rank, check_rows, harness, killed_after, same_place, say, seeded, shares, tiny_dataset
from harness import Daemon, folder, run_tests

ROUNDS = 60 if NIGHTLY else 12 if SLOW == 1 else 4


def given_and_read(trainer):
    given = [n.text for n in trainer.notes("given")]
    assert [line.rsplit(" ", 2)[0] for line in trainer.batches()] == given, "each batch that was given could be read to its end"


def drain_one(home, ranks, wait_s):
    """The ranks' trainers until the daemon drains: they were given whole batches."""
    with Daemon(home, "--threads", "2") as daemon:
        for number, rank in enumerate(ranks):
            rank.start(home, daemon.socket, hold=number, sleep_us=300)
        trainers = [rank.trainer for rank in ranks]
        with killed_after(trainers):
            for trainer in trainers:
                trainer.wait_note("batch")
            time.sleep(wait_s)
            daemon.process.send_signal(signal.SIGTERM)
            for trainer in trainers:
                trainer.process.wait(timeout=harness.LIMIT)
                last = trainer.notes()[-1]
                assert last.kind == "error" and last.text.startswith("-108 "), f"-ESHUTDOWN is the last word, not {last}"
                given_and_read(trainer)
            for rank in ranks:
                rank.take()


def run_rounds(name):
    random = seeded(f"drain/{name}")
    with folder() as home:
        tiny_dataset(home)
        ranks = [Rank(d) for d in shares({"source": home / "images", **TINY}, name)]
        for _ in range(ROUNDS):
            drain_one(home, ranks, random.uniform(0, 0.03))
            if name == "all":
                assert ranks[0].row == ranks[1].row, "a group ends at one batch boundary"
            same_place(ranks)
        say(f"{name}: {ROUNDS} drains, {check_rows(home, ranks)} batches, none lost or repeated")


def test_private():
    run_rounds("private")


def test_share_all():
    run_rounds("all")


def test_split():
    run_rounds("split")


if __name__ == "__main__":
    run_tests(globals())
