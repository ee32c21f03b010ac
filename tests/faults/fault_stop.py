"""One of four trainers is stopped by SIGSTOP: the others get all their batches meanwhile, and with SIGCONT it goes on exactly."""
import signal

from faults import TINY, FaultTrainer, killed_after, say, tiny_dataset, watched
from harness import folder, run_tests

STEPS = ["welcomed", "open-sent", "opened", "mapped", "batch-received", "reading", "full", "before-release", "released", "query-sent"]
BATCHES = 60
TRAINERS = 4
# While none is stopped and while one is, the others are counted for so many batches.
RATE_BATCHES = 400


def private_definitions(home):
    return [{"source": home / "images", **TINY, "seed": seed} for seed in range(TRAINERS)]


def rate(trainers, batches):
    """Batches a second of each, over its last `batches`."""
    rates = []
    for trainer in trainers:
        times = [n.time for n in trainer.notes("batch")][-batches:]
        rates.append((len(times) - 1) / max(times[-1] - times[0], 1e-9))
    return rates


def stop_one(home, socket, definitions, want, step):
    """The others' end, while it is stopped at this step; then its own."""
    others = [FaultTrainer(home, socket, d, batches=BATCHES) for d in definitions[1:]]
    victim = FaultTrainer(home, socket, definitions[0], batches=BATCHES, at=step, do="stop", hold=3, query=3)
    with killed_after([victim, *others]):
        victim.wait_note("at")
        victim.wait_stopped()
        for other, lines in zip(others, want[1:]):
            assert other.finish() == lines, f"{step}: the others have all of theirs"
        victim.signal(signal.SIGCONT)
        assert victim.finish() == want[0], f"{step}: it goes on exactly"


def split_definitions(home, group="g"):
    return [{"source": home / "images", **TINY, "group": group, "share": "split", "rank": rank, "world_size": TRAINERS, "wait_for": TRAINERS}
            for rank in range(TRAINERS)]


def run_together(home, socket, definitions):
    trainers = [FaultTrainer(home, socket, d, batches=BATCHES) for d in definitions]
    with killed_after(trainers):
        return [t.finish() for t in trainers]


def run_steps(name):
    with folder() as home:
        tiny_dataset(home)
        with watched(home) as (daemon, watch):
            want = run_together(home, daemon.socket, DEFINITIONS[name](home))
            watch.settle()
            # A rank that was not let in yet is waited for.
            for step in STEPS[2 if name == "split" else 0:]:
                stop_one(home, daemon.socket, DEFINITIONS[name](home), want, step)
                watch.back()


def test_private():
    run_steps("private")


def test_split():
    run_steps("split")


def count_rates(home, socket, definitions, stopped):
    """Batches a second of the last three trainers, while all four run or the first is stopped."""
    options = {"at": "reading", "occurrence": 20, "do": "stop"} if stopped else {}
    first = FaultTrainer(home, socket, definitions[0], batches=1, linger=1, sleep_us=2000, **options)
    others = [FaultTrainer(home, socket, d, batches=RATE_BATCHES, sleep_us=2000) for d in definitions[1:]]
    with killed_after([first, *others]):
        for other in others:
            other.finish()
        return rate(others, RATE_BATCHES * 3 // 4)


def test_rates():
    """Said, not judged: a machine that does other things too says little."""
    with folder() as home:
        tiny_dataset(home)
        with watched(home) as (daemon, _watch):
            for name, definitions in DEFINITIONS.items():
                running = count_rates(home, daemon.socket, definitions(home), False)
                stopped = count_rates(home, daemon.socket, definitions(home), True)
                say(f"{name}: rate of the others with one of four stopped, over their rate with all running: "
                    + ", ".join(f"{s / r:.2f}" for s, r in zip(stopped, running)))


DEFINITIONS = {"private": private_definitions, "split": split_definitions}

if __name__ == "__main__":
    run_tests(globals())
