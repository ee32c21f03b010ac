"""SIGKILLs at random steps: a hundred in CI, a thousand nightly. Trainers that share, and ranks that split, go on through all
of it and get every batch. A single trainer and a rank that are killed again and again, and come back at once each time, have
the undisturbed row in the end. Descriptors, mappings, threads, slots and memory of the daemon end where they began."""
import signal

from faults import NIGHTLY, SLOW, TINY, FaultTrainer, Rank, harness, killed_after, promise_latency, say, seeded, tiny_dataset, undisturbed, watched
from harness import folder, run_tests

KILLS = 1000 if NIGHTLY else 100 if SLOW == 1 else 25
TOGETHER = 4
STEPS = ["connected", "hello-sent", "welcomed", "open-sent", "opened", "extent-received", "mapped", "batch-received", "reading", "read", "full",
         "before-release", "released", "query-sent", "answered", "error-received", "close-sent", "closed"]
REPEATED = {"batch-received", "reading", "read", "full", "before-release", "released"}
# What an allocator may keep of what came and went. Two kilobytes lost with each kill would be as much in the nightly run.
PSS_KIB = 2048
WARM = 20


LIB_STEPS = ["opened", "batch-received", "reading", "read", "full", "before-release", "released", "closed"]


def strike(random, orderly, steps):
    """What a trainer does, and when it is killed. A trainer that keeps old batches while others of its group keep new ones waits for
    them for ever, as `block` says: so well-behaved trainers return the oldest first."""
    step = random.choice(steps)
    return {"at": step, "occurrence": random.randint(1, 6) if step in REPEATED else 1, "do": "kill",
            "hold": 3 if step == "full" else random.randint(0, 3), "newest": 0 if orderly else random.randint(0, 1), "query": 2, "batches": 12}


def stranger(home, random, number):
    """A trainer of a private stream, of the group that goes on, or of a group of strangers only."""
    group = random.choice([None, "steady", f"short-{number}"])
    return Rank({"source": home / "images", **TINY, **({"group": group} if group else {})})


def split(home, rank):
    return {"source": home / "images", **TINY, "group": "split", "share": "split", "rank": rank, "world_size": 2}


class Returning(Rank):
    """It comes back where it was. It has a state from the beginning, since it may be killed before it gets one."""

    def begin(self, home, socket):
        trainer = FaultTrainer(home, socket, {k: v for k, v in self.definition.items() if k != "reconnect"}, batches=1)
        trainer.finish()
        self.state = trainer.state(begin=True)


def kill_round(home, daemon, watch, random, ranks):
    """Seconds from the first one's death until its leases were back."""
    for rank in ranks:
        mode = "raw" if isinstance(rank, Returning) else random.choice(["raw", "lib"])
        rank.start(home, daemon.socket, mode=mode, **strike(random, "group" in rank.definition, STEPS if mode == "raw" else LIB_STEPS))
    with killed_after([rank.trainer for rank in ranks]):
        for rank in ranks:
            rank.trainer.process.wait(timeout=harness.LIMIT)
        dead = max((rank.trainer for rank in ranks), key=lambda t: t.notes("at")[0].time)
        seconds = watch.gone(dead.pid, dead.notes("at")[0].time)
        for rank in ranks:
            rank.killed()
    return seconds


def steady_rows(home, daemon, rounds):
    """Trainers that live while rounds() kills others; returns pairs of a definition and the row that was given."""
    group = {"source": home / "images", **TINY, "group": "steady", "wait_for": 2}
    definitions = [group, group, split(home, 0)]
    steady = [FaultTrainer(home, daemon.socket, d, batches=1, linger=1, sleep_us=1000) for d in definitions]
    with killed_after(steady):
        for one in steady:
            one.wait_note("batch")
        rounds()
        for one in steady:
            one.enough()
        return [(d, one.finish()) for d, one in zip(definitions, steady)]


def check(home, daemon, pairs):
    """The undisturbed rows of the same definitions."""
    longest = max(len(row) for _, row in pairs)
    ranks = [FaultTrainer(home, daemon.socket, {**split(home, rank), "group": "undisturbed"}, batches=longest) for rank in range(2)]
    with killed_after(ranks):
        want = [t.finish() for t in ranks]
    alone = undisturbed(home, daemon.socket, {"source": home / "images", **TINY}, longest)
    for definition, row in pairs:
        whole = want[definition["rank"]] if "rank" in definition else alone
        assert row == whole[:len(row)], f"none lost, none repeated: {definition}"


def test_kills():
    random = seeded("kills")
    with folder() as home:
        tiny_dataset(home)
        with watched(home) as (daemon, watch):
            before = watch.pss_kib()
            returning = [Returning({"source": home / "images", **TINY, "reconnect": True}), Returning({**split(home, 1), "reconnect": True})]
            latencies, pss = [], []

            def rounds():
                for one in returning:
                    one.begin(home, daemon.socket)
                for number in range(KILLS // TOGETHER):
                    strangers = [stranger(home, random, number) for _ in range(TOGETHER - len(returning))]
                    latencies.append(kill_round(home, daemon, watch, random, [*returning, *strangers]))
                    pss.append(watch.pss_kib())

            pairs = steady_rows(home, daemon, rounds)
            pairs += [(r.definition, r.row) for r in returning]
            watch.back()
            say(f"PSS of the daemon with no stream open: {before} KiB before, {watch.pss_kib()} KiB after")
            grown = pss[-1] - pss[WARM // TOGETHER]
            say(f"{KILLS} kills; PSS of the daemon from kill {WARM} on: {grown:+d} KiB; descriptors, mappings, threads, clients, bytes reserved: "
                f"{watch.figures()}, before: {watch.baseline}")
            check(home, daemon, pairs)
            say(f"rows: {[len(row) for _, row in pairs]} batches, none lost or repeated; the last two by trainers that were killed "
                f"{KILLS // TOGETHER} times each")
            assert SLOW > 1 or grown <= PSS_KIB, f"the daemon grew by {grown} KiB"
    promise_latency("SIGKILL to leases back", latencies, 0.1)


def test_others_go_on():
    """A trainer that holds all slots of its group is killed: the others, which waited for it, get their next batch."""
    seconds = []
    with folder() as home:
        tiny_dataset(home)
        with watched(home) as (daemon, watch):
            for number in range(KILLS // 5):
                definition = {"source": home / "images", **TINY, "group": f"g{number}", "wait_for": 3}
                others = [FaultTrainer(home, daemon.socket, definition, batches=12) for _ in range(2)]
                holder = FaultTrainer(home, daemon.socket, definition, at="full", do="stop", hold=3)
                with killed_after([holder, *others]):
                    holder.wait_note("at")
                    for other in others:
                        other.wait_note("batch", TINY["prefetch"])
                    since = holder.signal(signal.SIGKILL)
                    for other in others:
                        other.finish()
                        assert len(other.batches()) == 12
                        seconds.append(other.notes("given")[TINY["prefetch"]].time - since)
            watch.back()
    assert min(seconds) > 0, "they waited for it"
    promise_latency("SIGKILL of one that holds everything to the others' next batch", seconds, 0.1)


if __name__ == "__main__":
    run_tests(globals())
