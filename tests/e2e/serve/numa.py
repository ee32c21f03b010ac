#!/usr/bin/env python3
"""A daemon on a made-up topology of two NUMA nodes: its threads are bound as planned, it tells so, and its rows are the same; without
several nodes, with `numa: off` and with files that cannot be understood nothing is bound."""
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import *

CPUS = sorted(os.sched_getaffinity(0))


def topology(home, *nodes, online=None):
    """A folder as /sys/devices/system/node is, for the environment."""
    (home / "nodes").mkdir(parents=True)
    (home / "nodes/online").write_text(online or f"0-{len(nodes) - 1}\n")
    for number, cpus in enumerate(nodes):
        (home / f"nodes/node{number}").mkdir()
        (home / f"nodes/node{number}/cpulist").write_text(f"{cpus}\n")
    return {"PENSTOCK_NUMA_FOLDER": str(home / "nodes")}


def affinities(daemon, name):
    """How many threads of this name may run on which CPUs. Threads name themselves, which may be after the daemon listens."""
    named = lambda: sum((task / "comm").read_text().strip() == "penstock-work" for task in Path(f"/proc/{daemon.process.pid}/task").iterdir())
    wait_until(lambda: named() == daemon.status()["threads"], "the workers' names")
    found = Counter()
    for task in Path(f"/proc/{daemon.process.pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            found[tuple(sorted(os.sched_getaffinity(int(task.name))))] += 1
    return found


def halves():
    if len(CPUS) < 2:
        raise Skip("two nodes need two CPUs")
    return tuple(CPUS[:1]), tuple(CPUS[1:])


def text_of(cpus):
    return ",".join(map(str, cpus))


def lines_of(daemon):
    answer = subprocess.run([tool("penstock"), "status", "--socket", daemon.socket], capture_output=True, text=True, timeout=LIMIT)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_two_nodes():
    first, second = halves()
    workers = 2 * len(CPUS)
    with folder() as home:
        make_dataset(home / "images", per_class=8)
        keys = dict(source=home / "images", epochs=2, batch_size=4)
        (home / "off").mkdir()
        with Daemon(home / "off", "--memory", "256M", config="numa: off\n") as daemon:
            expected = rows(daemon.batches(**keys))
        assert len(expected) == 12
        for reader in ("io_uring", "pread"):
            where = home / reader
            environment = topology(where, text_of(first), text_of(second))
            with Daemon(where, "--reader", reader, "--threads", str(workers), "--memory", "256M", config="seccomp: on\n",
                        environment=environment) as daemon:
                assert rows(daemon.batches(**keys)) == expected
                assert affinities(daemon, "penstock-work") == {first: 2 * len(first), second: 2 * len(second)}
                readers = affinities(daemon, "penstock-fetch")
                assert set(readers) == {first, second}, readers
                assert affinities(daemon, "penstock-serve") == {tuple(CPUS): 1} or affinities(daemon, "penstockd") == {tuple(CPUS): 1}
                with Link(daemon.socket) as link:
                    # The trainer is this process: where it may run on one node only, its streams are there.
                    os.sched_setaffinity(0, second)
                    try:
                        link.open(**keys).opened()
                    finally:
                        os.sched_setaffinity(0, CPUS)
                    told = daemon.status()["numa"]
                    assert [(node["node"], node["cpus"], node["workers"], node["reader_threads"]) for node in told] == [
                        (number, len(cpus), 2 * len(cpus), readers[cpus]) for number, cpus in enumerate((first, second))], told
                    assert [node["streams"] for node in told] == [0, 1], told
                    text = lines_of(daemon)
                    assert f"node 0: CPUs {len(first)}, decoding threads {2 * len(first)}, " in text, text
                    assert "streams 1\n" in text and "node 1: " in text, text
                assert "NUMA: 2 nodes; bound to them: " in daemon.text()
                # This machine has no node 1, or has one: then the kernel places memory there.
                refused = "not placed by NUMA node: the kernel refuses" in daemon.text()
                assert refused or Path("/sys/devices/system/node/node1").exists(), daemon.text()
                assert daemon.text().count("the kernel refuses node") <= 1


def test_nothing_to_place():
    everything = text_of(CPUS)
    garbage = "expected a list of numbers below 8192"
    cases = {"one": (everything,), "memory": (everything, ""), "none": None, "garbage": (everything, "what?")}
    with folder() as home:
        make_dataset(home / "images", per_class=2)
        for name, nodes in cases.items():
            environment = topology(home / name, *nodes) if nodes else {"PENSTOCK_NUMA_FOLDER": str(home / "missing")}
            (home / name).mkdir(exist_ok=True)
            with Daemon(home / name, "--threads", "2", environment=environment) as daemon:
                assert len(rows(daemon.batches(source=home / "images", epochs=1, batch_size=2))) == 3
                assert set(affinities(daemon, "penstock-work")) == {tuple(CPUS)}
                assert set(affinities(daemon, "penstock-fetch")) == {tuple(CPUS)}
                assert daemon.status()["numa"] == [] and "numa" not in lines_of(daemon)
                assert (garbage in daemon.text()) == (name == "garbage"), daemon.text()
                assert "NUMA:" not in daemon.text()


def test_off_and_few():
    """`off` with two nodes; and fewer workers than nodes, which may run anywhere."""
    first, second = halves()
    with folder() as home:
        for name, config, threads in (("off", "numa: off\n", "2"), ("few", "{}\n", "1")):
            environment = topology(home / name, text_of(first), text_of(second))
            with Daemon(home / name, "--threads", threads, config=config, environment=environment) as daemon:
                assert affinities(daemon, "penstock-work") == {tuple(CPUS): int(threads)}
                assert len(daemon.status()["numa"]) == (0 if name == "off" else 2)


def test_a_bad_value():
    with folder() as home:
        (home / "bad.yaml").write_text("numa: on\n")
        done = subprocess.run([tool("penstockd"), "--check-config", "--config", str(home / "bad.yaml")], capture_output=True, text=True,
                              timeout=LIMIT)
        assert done.returncode == 2 and "numa: expected auto or off, got \"on\"" in done.stderr, done


if __name__ == "__main__":
    run_tests(globals())
