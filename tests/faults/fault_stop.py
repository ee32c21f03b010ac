"""One of four trainers is stopped by SIGSTOP: the others get all their batches meanwhile, and with SIGCONT it goes on exactly."""
import signal

from faults import TINY, FaultTrainer, killed_after, say, tiny_dataset, undisturbed, watched
from harness import folder, run_tests

STEPS = ["welcomed", "open-sent", "opened", "mapped", "batch-received", "reading", "full", "before-release", "released", "query-sent"]
BATCHES = 60
TRAINERS = 4
# While none is stopped and while one is, the others are counted for so many batches.
RATE_BATCHES = 400


def private_definitions(home):
    return [{"source": home / "images", **TINY, "seed": seed} for seed in range(TRAINERS)]


def rate(trainers, batches):
    """Batches per second of each, over its last `batches`."""
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


def detach_one(home, socket, want, mode, step):
    """It is stopped while it holds all of its group's slots, is detached, and learns of it when it goes on."""
    definition = {"source": home / "images", **TINY, "group": f"{mode}-{step}", "share": "all", "wait_for": 3, "laggard": "detach",
                  "laggard_timeout_s": 1}
    others = [FaultTrainer(home, socket, definition, batches=BATCHES) for _ in range(2)]
    victim = FaultTrainer(home, socket, definition, mode=mode, batches=BATCHES, at=step, occurrence=4 if step == "reading" else 1, do="stop", hold=3)
    with killed_after([victim, *others]):
        victim.wait_note("at")
        for other in others:
            assert other.finish() == want[:BATCHES], "the others have all of theirs"
        victim.signal(signal.SIGCONT)
        victim.finish_with_error()
        last, row = victim.notes()[-1], victim.batches()
        # The raw one looks at the slot's head as the library does, and sees that it was filled again.
        assert last.text.startswith("-125 ") or last.text == "the slot holds another batch", last
        assert row[:3] == want[:3], "what it had read before is right"
        if mode == "lib":
            assert last.text.startswith("-125 ") and "batch" in last.text, last
    return last


def test_detached():
    with folder() as home:
        tiny_dataset(home)
        with watched(home) as (daemon, watch):
            want = undisturbed(home, daemon.socket, {"source": home / "images", **TINY}, BATCHES)
            watch.settle()
            for mode in ("raw", "lib"):
                for step in ("full", "reading"):
                    say(f"{mode}, stopped at {step}: {detach_one(home, daemon.socket, want, mode, step)}")
                    watch.back()


def count_rates(home, socket, definitions, stopped):
    """Batches per second of the last three trainers, while all four run or the first is stopped."""
    options = {"at": "reading", "occurrence": 20, "do": "stop"} if stopped else {}
    first = FaultTrainer(home, socket, definitions[0], batches=1, linger=1, sleep_us=2000, **options)
    others = [FaultTrainer(home, socket, d, batches=RATE_BATCHES, sleep_us=2000) for d in definitions[1:]]
    with killed_after([first, *others]):
        for other in others:
            other.finish()
        return rate(others, RATE_BATCHES * 3 // 4)


def test_rates():
    """Printed, not checked: on a busy machine the figure means little."""
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
