"""The cache of samples: several streams of one dataset read it from storage once, what is handed out of memory is the same, and all of it
stays within the budget and gives way."""
import atexit
import functools
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import SLOW, Daemon, Skip, folder, make_dataset, run_tests, wait_until

KEYS = {"image_size": 64, "batch_size": 16, "drop_last": 0}
COUNT = 300
EPOCH = -(-COUNT // KEYS["batch_size"])  # batches
MEMORY = "128M"  # for one decoding thread, with a dataset of some 25 MB


@functools.cache
def dataset(tars=True):
    """For all tests: making it takes longer than reading it."""
    home = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    path = make_dataset(home / "images", per_class=COUNT // 3, tars=tars, per_shard=50, min_side=300 if tars else 150,
                        max_side=700 if tars else 350)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.suffix in (".tar", ".jpg"))
    return (path / "*.tar" if tars else path), size


def daemon(home, *options, memory=MEMORY, io="direct"):
    return Daemon(home, "--io", io, "--memory", memory, "--threads", 1, *options)


def from_storage(served):
    """What the kernel read for the daemon from a disk; None where it does not say."""
    try:
        with open(f"/proc/{served.process.pid}/io") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("read_bytes"))
    except OSError:
        return None


def pss(served):
    with open(f"/proc/{served.process.pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024


def be_direct(status):
    if any("refuses O_DIRECT" in notice for notice in status["notices"]):
        raise Skip("the file system of the temporary folder refuses O_DIRECT")


def run(home, source, seeds, *options, epochs=2, **keys):
    """A trainer for each seed, at once, each with a stream of its own: status while the streams are open, bytes from storage, rows."""
    home.mkdir(exist_ok=True)
    with daemon(home, *options, **keys) as served:
        before = from_storage(served)
        trainers = [served.trainer(source=source, seed=seed, epochs=epochs + 1, **KEYS) for seed in seeds]
        wanted = epochs * EPOCH
        reads = [threading.Thread(target=lambda t=t: [t.line() for _ in range(wanted)]) for t in trainers]
        for read in reads:
            read.start()
        for read in reads:
            read.join()
        status = served.status()
        after = from_storage(served)
        for trainer in trainers:
            trainer.kill()
        wait_until(lambda: served.status()["cache"]["bytes"] == 0, "the cache to go with the last stream")
        assert all(len(t.seen) >= wanted and all(t.seen) for t in trainers), [t.seen[-1:] for t in trainers]
    be_direct(status)
    return status, None if before is None else after - before, [t.seen[:wanted] for t in trainers]


def test_four_streams_read_once():
    with folder() as home:
        source, size = dataset()
        run(home / "index", source, [0], epochs=1)  # the index is made
        one, one_storage, alone = run(home / "one", source, [1])
        assert size * 0.9 < one["read_bytes"] < size * 1.2, (size, one["read_bytes"])
        for name, seeds, epochs in (("other", [1, 2, 3, 4], 2), ("same", [1, 1, 1, 1], 1)):
            four, four_storage, seen = run(home / name, source, seeds, epochs=epochs)
            assert four["read_bytes"] <= 1.05 * one["read_bytes"], (name, one["read_bytes"], four["read_bytes"])
            if one_storage:
                assert four_storage <= 1.05 * one_storage, (name, one_storage, four_storage)
            assert seen[0] == alone[0][:len(seen[0])], "the same batches, from storage or memory"
            handed_on = four["cache"]["hits"] + four["cache"]["shared"]
            assert handed_on >= (4 * epochs - 1) * COUNT and four["cache"]["samples"] == COUNT, four["cache"]
        off, _, seen = run(home / "off", source, [1, 2], "--cache", "off", epochs=1)
        assert off["read_bytes"] > 1.8 * one["read_bytes"], "without it, each of them reads"
        assert off["cache"]["hits"] == off["cache"]["misses"] == off["cache"]["bytes"] == 0, off["cache"]
        assert seen[0] == alone[0][:EPOCH]


def test_folders_too():
    with folder() as home:
        source, size = dataset(tars=False)
        for reader in ("io_uring", "pread"):
            try:
                status, _, seen = run(home / reader, source, [1, 2], "--reader", reader, epochs=1)
            except AssertionError:
                if reader == "io_uring" and "io_uring is forbidden" in (home / reader / "log").read_text():
                    continue
                raise
            assert status["cache"]["samples"] == COUNT and status["cache"]["misses"] == COUNT, status["cache"]
            assert status["read_bytes"] < 1.4 * size, (status["read_bytes"], size)


def test_auto_leaves_the_page_cache_alone():
    with folder() as home:
        source, _ = dataset()
        status, _, _ = run(home / "auto", source, [1, 2], io="buffered", epochs=1)
        assert status["cache"]["misses"] == status["cache"]["bytes"] == 0, status["cache"]
        status, _, _ = run(home / "on", source, [1, 2], "--cache", "on", io="buffered", epochs=1)
        assert status["cache"]["misses"] == status["cache"]["samples"] == COUNT, status["cache"]


def within(served, budget):
    status = served.status()
    memory = status["memory"]
    held = sum(line["bytes"] for line in memory["lines"])
    assert held <= memory["budget"] == budget, memory
    if SLOW == 1:  # sanitizers take memory of their own
        assert pss(served) <= budget, (pss(served), budget, memory)
    return status


def go_on(served, trainer, condition, what):
    """The trainer, until the cache is so. It runs ahead of what is read of it here."""
    wait_until(lambda: trainer.line() and condition(served.status()["cache"]), what)


def asked(cache):
    return cache["hits"] + cache["misses"]


def test_it_stays_within_the_budget_and_gives_way():
    budget = 48 << 20
    with folder() as home:
        source, size = dataset()
        with daemon(home, memory=budget) as served:
            first = served.trainer(source=source, seed=1, epochs=100, **KEYS)
            go_on(served, first, lambda cache: asked(cache) > 1.5 * COUNT, "more than an epoch")
            status = within(served, budget)
            be_direct(status)
            full = status["cache"]
            assert 0 < full["samples"] < COUNT, "too little memory for all of it"
            assert [line["bytes"] for line in status["memory"]["lines"] if line["name"] == "cache"] == [full["bytes"]], status["memory"]
            # What it held it still holds, and of the rest nothing came in.
            go_on(served, first, lambda cache: asked(cache) > asked(full) + COUNT, "another epoch")
            again = within(served, budget)["cache"]
            assert again["samples"] == full["samples"] and again["shrinks"] == 0 and again["hits"] > full["hits"], (full, again)
            # A stream opens with half of what the cache has.
            rows_of = (full["bytes"] // 2) // (64 * 64 * 3) // 4
            second = served.trainer(source=source, seed=2, epochs=100, image_size=64, batch_size=rows_of, prefetch=4)
            assert second.line()[:1].isdigit(), second.seen
            shrunk = within(served, budget)["cache"]
            assert shrunk["shrinks"] >= 1 and 0 < shrunk["bytes"] < 0.7 * full["bytes"], (full, shrunk)
            second.kill()
            wait_until(lambda: len(served.status()["streams"]) == 1, "the second stream to go")
            go_on(served, first, lambda cache: cache["bytes"] > 0.9 * full["bytes"], "the cache to grow again")
            within(served, budget)
            first.kill()


def test_a_dataset_that_comes_takes_its_share():
    budget = 48 << 20
    with folder() as home:
        source, _ = dataset()
        other = make_dataset(home / "other", per_class=COUNT // 6, tars=True, per_shard=50, seed=5, min_side=300, max_side=700) / "*.tar"
        with daemon(home, memory=budget) as served:
            first = served.trainer(source=source, seed=1, epochs=100, **KEYS)
            go_on(served, first, lambda cache: asked(cache) > 1.5 * COUNT, "more than an epoch")
            status = within(served, budget)
            be_direct(status)
            alone = status["cache"]["samples"]
            second = served.trainer(source=other, seed=1, epochs=1000, **KEYS)
            for _ in range(EPOCH):
                second.line()
            os.kill(first.process.pid, signal.SIGSTOP)
            hits = within(served, budget)["cache"]["hits"]
            go_on(served, second, lambda cache: cache["hits"] > hits + COUNT, "hits of the second dataset: the first has only some slots to fill")
            assert within(served, budget)["cache"]["samples"] > 0.6 * alone
            first.kill()
            second.kill()


if __name__ == "__main__":
    run_tests(globals())
