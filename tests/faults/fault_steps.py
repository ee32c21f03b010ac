"""A trainer dies in every way at every step: the others' rows stay exactly right, and the daemon comes back to where it was."""
import signal
import time

from faults import SLOW, TINY, WORLD, FaultTrainer, killed_after, promise_latency, tiny_dataset, undisturbed, watched
from harness import folder, run_tests

# Where it strikes: the step, and which time it is there. It keeps three of four slots and gives the newest back first.
EARLY = [("connected", 1), ("hello-sent", 1), ("welcomed", 1), ("open-sent", 1), ("opened", 1), ("extent-received", 1), ("mapped", 1)]
LATE = [("batch-received", 1), ("batch-received", 5), ("reading", 2), ("read", 1), ("full", 1), ("full", 3), ("before-release", 2), ("released", 1),
        ("released", 4), ("query-sent", 1), ("answered", 1), ("error-received", 1), ("close-sent", 1), ("closed", 1)]
ACTS = ["kill", "exit", "disconnect", "fork", "stop", "exec"]
OTHERS = 24
VICTIM = {"hold": 3, "newest": 1, "query": 2, "batches": 8}


def cases():
    every = [(step, occurrence, act) for step, occurrence in EARLY + LATE for act in ACTS if (step, act) != ("closed", "disconnect")]
    return every[::1 if SLOW == 1 else 5]


def strike(victim, act, watch):
    """Waits until it has acted, and is gone for the daemon. Returns the seconds from a SIGKILL until then, or None."""
    if act == "stop":
        victim.wait_note("at")
        victim.wait_stopped()
        since = victim.signal(signal.SIGKILL)
        victim.finish(-signal.SIGKILL)
    elif act in ("kill", "fork"):
        victim.finish(-signal.SIGKILL)
        since = victim.notes("at")[0].time
    elif act == "exit":
        victim.finish()
        since = None
    else:
        victim.wait_note("at")
        since = None
    seconds = watch.gone(victim.pid, since or time.monotonic())
    assert victim.notes("at"), "it struck at the step"
    return seconds if since else None


def check_victim(victim, want):
    got = victim.batches()
    assert got == want[:len(got)], "what it was given until then is right"


def come_back(home, daemon, definition, victim, want, witness=None):
    """Another trainer goes on from where the dead one was: together they have the undisturbed row. The dead one may have joined
    without having heard so; then the other begins at the beginning, which a witness knows."""
    state = {}
    if victim.notes("opened"):
        state = {"state": victim.state(), "reconnect": True}
    elif witness:
        state = {"state": witness.state(begin=True), "reconnect": True}
    row = victim.batches()
    row += FaultTrainer(home, daemon.socket, {**definition, "wait_for": 1, **state}, batches=OTHERS - len(row)).finish()
    assert row == want[:OTHERS], "none lost, none repeated"


def run_private(home, daemon, watch, want, case, _number):
    step, occurrence, act = case
    definition = {"source": home / "images", **TINY}
    victim = FaultTrainer(home, daemon.socket, definition, at=step, occurrence=occurrence, do=act, **VICTIM)
    with killed_after([victim]):
        seconds = strike(victim, act, watch)
        check_victim(victim, want)
        victim.kill()  # what it has, or a child of it, counts until they are gone
        watch.back()
        come_back(home, daemon, definition, victim, want)
    return seconds


def run_all(home, daemon, watch, want, case, number):
    step, occurrence, act = case
    early = (step, occurrence) in EARLY
    definition = {"source": home / "images", **TINY, "group": f"g{number}", "wait_for": 2 if early else 3}
    others = [FaultTrainer(home, daemon.socket, definition, batches=OTHERS, sleep_us=500) for _ in range(2)]
    with killed_after(others):
        if early:  # it comes late, or the group would begin with it instead of one of the others
            for other in others:
                other.wait_note("opened")
        victim = FaultTrainer(home, daemon.socket, definition, at=step, occurrence=occurrence, do=act, **VICTIM)
        with killed_after([victim]):
            seconds = strike(victim, act, watch)
            for other in others:
                assert other.finish() == want[:OTHERS], "the others' rows are exactly right"
            if not early:
                check_victim(victim, want)
            victim.kill()  # what it has, or a child of it, counts until they are gone
            watch.back()
    return seconds


def split_definitions(home, group, wait_for):
    return [{"source": home / "images", **TINY, "group": group, "share": "split", "rank": rank, "world_size": WORLD, "wait_for": wait_for}
            for rank in range(WORLD)]


def run_split(home, daemon, watch, want, case, number):
    step, occurrence, act = case
    # One that is killed before it is let in is not waited for.
    never = (step, occurrence) in EARLY[:4]
    definitions = split_definitions(home, f"s{number}", WORLD - 1 if never else WORLD)
    first, second = (FaultTrainer(home, daemon.socket, definitions[rank], batches=OTHERS, sleep_us=500) for rank in (0, 2))
    with killed_after([first, second]):
        first.wait_note("opened")
        second.wait_note("opened")
        victim = FaultTrainer(home, daemon.socket, definitions[1], at=step, occurrence=occurrence, do=act, **VICTIM)
        with killed_after([victim]):
            seconds = strike(victim, act, watch)
            check_victim(victim, want[1])
            come_back(home, daemon, definitions[1], victim, want[1], first)
            for other, row in ((first, want[0]), (second, want[2])):
                assert other.finish() == row[:OTHERS], "the others' rows are exactly right"
            victim.kill()  # what it has, or a child of it, counts until they are gone
            watch.back()
    return seconds


def row_alone(home, daemon):
    return undisturbed(home, daemon.socket, {"source": home / "images", **TINY}, 30)


def rows_split(home, daemon):
    trainers = [FaultTrainer(home, daemon.socket, d, batches=30) for d in split_definitions(home, "undisturbed", WORLD)]
    with killed_after(trainers):
        return [t.finish() for t in trainers]


def run_cases(run, row):
    with folder() as home:
        tiny_dataset(home)
        with watched(home) as (daemon, watch):
            want = row(home, daemon)
            watch.settle()
            latencies = []
            for number, case in enumerate(cases()):
                try:
                    latencies.append(run(home, daemon, watch, want, case, number))
                except BaseException as error:
                    raise AssertionError(f"{case}: {error}") from error
            assert row(home, daemon) == want
    promise_latency("SIGKILL to leases back", [s for s in latencies if s is not None], 0.1)


def test_private():
    run_cases(run_private, row_alone)


def test_share_all():
    run_cases(run_all, row_alone)


def test_split():
    run_cases(run_split, rows_split)


if __name__ == "__main__":
    run_tests(globals())
