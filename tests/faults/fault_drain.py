"""SIGTERM ends every stream at a batch boundary: what was given are whole batches, and the next daemon goes on right behind them."""
import signal
import time

from faults import NIGHTLY, SLOW, TINY, FaultTrainer, killed_after, say, seeded, tiny_dataset, undisturbed
from harness import Daemon, folder, run_tests

ROUNDS = 60 if NIGHTLY else 12 if SLOW == 1 else 4
TRAINERS = 3


def given_and_read(trainer):
    given = [n.text for n in trainer.notes("given")]
    assert [line.rsplit(" ", 2)[0] for line in trainer.batches()] == given, "each batch that was given could be read to its end"


def drain_one(home, definition, state, wait_s):
    """Trainers of one definition until the daemon drains: the rows they were given, in whole batches."""
    if state:
        definition = {**definition, "state": state}
    with Daemon(home, "--threads", "2") as daemon:
        trainers = [FaultTrainer(home, daemon.socket, definition, hold=i, sleep_us=300) for i in range(TRAINERS)]
        with killed_after(trainers):
            for trainer in trainers:
                trainer.wait_note("batch")
            time.sleep(wait_s)
            daemon.process.send_signal(signal.SIGTERM)
            for trainer in trainers:
                trainer.finish(1)
                last = trainer.notes()[-1]
                assert last.kind == "error" and last.text.startswith("-108 "), f"-ESHUTDOWN is the last word, not {last}"
                given_and_read(trainer)
    return trainers


def run_rounds(name, group):
    random = seeded(name)
    with folder() as home:
        tiny_dataset(home)
        definition = {"source": home / "images", **TINY, **group}
        rows, states = [[] for _ in range(TRAINERS)], None
        for _ in range(ROUNDS):
            trainers = drain_one(home, definition, states, random.uniform(0, 0.03))
            got = [t.batches() for t in trainers]
            if not group:  # each has its own row: all go on from the first one's place
                assert all(one[:min(map(len, got))] == got[0][:min(map(len, got))] for one in got)
            # The trainers of a group end at the same batch; private ones are resumed from the first's state.
            assert not group or got[0] == got[1] == got[2], "a group ends at one batch boundary"
            for row in rows:
                row += got[0]
            states = trainers[0].state()
        with Daemon(home, "--threads", "2") as daemon:
            want = undisturbed(home, daemon.socket, definition, len(rows[0]))
        for row in rows:
            assert row == want, "a prefix in whole batches each time, and the next goes on right behind"
        say(f"{ROUNDS} drains, {len(want)} batches, none lost or repeated")


def test_private():
    run_rounds("drain/private", {})


def test_share_all():
    run_rounds("drain/all", {"group": "g", "wait_for": TRAINERS})


if __name__ == "__main__":
    run_tests(globals())
