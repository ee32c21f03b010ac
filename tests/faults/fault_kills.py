"""SIGKILLs at random steps: a hundred in CI, a thousand nightly. Two trainers of one group go on through all of it and get every batch,
and descriptors, mappings, threads, slots and memory of the daemon end where they began."""
import signal

from faults import (NIGHTLY, SLOW, TINY, FaultTrainer, killed_after, promise_latency, say, seeded, tiny_dataset, undisturbed, watched)
from harness import folder, run_tests

KILLS = 1000 if NIGHTLY else 100 if SLOW == 1 else 25
TOGETHER = 4
STEPS = ["connected", "hello-sent", "welcomed", "open-sent", "opened", "extent-received", "mapped", "batch-received", "reading", "read", "full",
         "before-release", "released", "query-sent", "answered", "error-received", "close-sent", "closed"]
REPEATED = {"batch-received", "reading", "read", "full", "before-release", "released"}
# What an allocator may keep of what came and went. Two kilobytes lost with each kill would be as much in the nightly run.
PSS_KIB = 2048
WARM = 20


def victim(home, daemon, random, number):
    """One of a private stream of its own, of the group that goes on, or of a group that the victims have for themselves. In a group all
    give the oldest back first: who keeps old ones while another keeps new ones waits for that other for ever, as `block` says."""
    where = random.choice(["", "steady", f"short-{number // TOGETHER}"])
    step = random.choice(STEPS)
    options = {"at": step, "occurrence": random.randint(1, 6) if step in REPEATED else 1, "do": "kill", "hold": random.randint(0, 3),
               "newest": 0 if where else random.randint(0, 1), "query": 2, "batches": 12}
    if step == "full":
        options["hold"] = 3
    definition = {"source": home / "images", **TINY}
    if where:
        definition["group"] = where
    return FaultTrainer(home, daemon.socket, definition, **options)


def kill_some(home, daemon, watch, random, first, count):
    """Seconds from each kill until its leases were back."""
    victims = [victim(home, daemon, random, first + i) for i in range(count)]
    latencies = []
    with killed_after(victims):
        for one in victims:
            one.finish(-signal.SIGKILL)
            # The later of a few were dead before they were looked at: their figures would be the others' time.
            if one is victims[0]:
                latencies.append(watch.gone(one.pid, one.notes("at")[0].time))
            one.out.unlink()
    return latencies


def test_kills():
    random = seeded("kills")
    with folder() as home:
        tiny_dataset(home)
        with watched(home) as (daemon, watch):
            definition = {"source": home / "images", **TINY, "group": "steady", "wait_for": 2}
            steady = [FaultTrainer(home, daemon.socket, definition, batches=1, linger=1, sleep_us=1000) for _ in range(2)]
            with killed_after(steady):
                latencies, pss = [], 0
                for first in range(0, KILLS, TOGETHER):
                    latencies += kill_some(home, daemon, watch, random, first, min(TOGETHER, KILLS - first))
                    if first == WARM:
                        pss = watch.pss_kib()
                grown = watch.pss_kib() - pss
                for one in steady:
                    one.enough()
                rows = [one.finish() for one in steady]
            watch.back()
            say(f"{KILLS} kills; daemon's PSS from kill {WARM} on: {grown:+d} KiB; descriptors, mappings, threads, clients, bytes reserved: "
                f"{watch.figures()}, before: {watch.baseline}")
            want = undisturbed(home, daemon.socket, {"source": home / "images", **TINY}, max(map(len, rows)))
            for row in rows:
                assert row == want[:len(row)], "those that lived got every batch"
            assert SLOW > 1 or grown <= PSS_KIB, f"the daemon grew by {grown} KiB"
    promise_latency("SIGKILL to leases back", latencies, 0.1)


if __name__ == "__main__":
    run_tests(globals())
