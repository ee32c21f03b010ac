#!/usr/bin/env python3
"""What several trainers cost and how little they harm each other, measured in one run.

    tests/bench/groups.py BUILD IMAGES [--rounds 5] [--seconds 5] [--kills 200] [--threads N] [--json FILE] [--only PART...]

BUILD holds bin/penstock, IMAGES a folder of some hundred. Each round runs every measurement once, single trainer and many side by side;
what counts is the median over the rounds, of a round's ratio where it is one, for machines drift. Prints a table in Markdown, with the
floor of each figure.

  shared     daemon CPU per image, and each trainer's rate, with 4 trainers of one group, as multiples of one trainer's
  disk       bytes read from the disk by 4 private streams of one dataset in two epochs (--io direct, --cache on), as multiples of one's
  killed     SIGKILL of a trainer that holds all slots: until the daemon has them back
  stopped    SIGSTOP of one of 4 trainers: the rate of the other three, as a multiple of theirs before
  announce   from a batch being complete to `next` returning it, one trainer, one decoding thread"""
import argparse
import json
import mmap
import os
import signal
import statistics
import subprocess
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

TRAINERS = 4
BATCH = 64
PARTS = ["shared", "disk", "killed", "stopped", "announce"]


class Bench:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.penstock = str(Path(options.build) / "bin/penstock")
        self.environment = {"XDG_CACHE_HOME": str(scratch / "cache"), "XDG_STATE_HOME": str(scratch / "state")}  # one index and one set of entry points for all
        self.threads = ["--threads", str(options.threads)] if options.threads else []
        self.samples = {}  # name -> figures, over all rounds

    def note(self, name, *figures):
        self.samples.setdefault(name, []).extend(figures)

    def bench(self, *arguments):
        done = subprocess.run([self.penstock, "bench", self.options.images, "--seconds", str(self.options.seconds), "--json", *arguments],
                              env=os.environ | self.environment, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)

    def daemon(self, *arguments):
        home = self.scratch / "home"
        home.mkdir(exist_ok=True)
        return harness.Daemon(home, *self.threads, *arguments, environment=self.environment)

    # ---- 4 trainers in one group ----

    def shared(self):
        one = self.bench(*self.threads)
        all_ = self.bench(*self.threads, "--trainers", str(TRAINERS), "--share", "all")
        self.note("shared_cpu_ratio", (all_["cpu_s"] / all_["images"]) / (one["cpu_s"] / one["images"]))
        self.note("shared_rate_ratio", min(all_["trainer_images_per_s"]) / one["images_per_s"])
        self.note("one_images_per_s", one["images_per_s"])
        self.note("one_cpu_us_per_image", one["cpu_s"] / one["images"] * 1e6)

    # ---- 4 private streams over one cache ----

    def disk_of(self, streams):
        """Bytes that the daemon read while so many private streams went through two epochs, by the kernel's count and by its own."""
        with self.daemon("--io", "direct", "--cache", "on", "--memory", "2G") as daemon:
            links = [harness.Link(daemon.socket) for _ in range(streams)]
            before = disk_bytes(daemon.process.pid)
            opened = [link.open(source=self.options.images, batch_size=BATCH, epochs=2, seed=seed, drop_last=False) for seed, link in enumerate(links)]
            for stream in opened:
                stream.opened()
            going = list(opened)
            while going:
                for stream in list(going):
                    if not skip(stream):
                        going.remove(stream)
            read = disk_bytes(daemon.process.pid) - before, daemon.status()["read_bytes"]
            for link in links:
                link.close()
        return read

    def disk(self):
        one, many = self.disk_of(1), self.disk_of(TRAINERS)
        self.note("disk_kernel_ratio", many[0] / one[0] if one[0] else float("nan"))
        self.note("disk_daemon_ratio", many[1] / one[1])
        self.note("disk_one_kernel_bytes", one[0])
        self.note("disk_one_daemon_bytes", one[1])

    # ---- a trainer is killed ----

    def killed(self):
        with self.daemon() as daemon, harness.Link(daemon.socket) as link, harness.Link(daemon.socket) as probe:
            self.kill_alone(daemon, probe)
            self.kill_one_of_a_group(daemon, link, probe)

    def kills(self):
        return range(max(1, self.options.kills // self.options.rounds))

    def victim(self, daemon, **keys):
        """A trainer that has been given every slot and releases none, of a process of its own."""
        trainer = daemon.trainer(source=self.options.images, batch_size=BATCH, sleep_ms=3600000, **keys)
        assert trainer.line()[:1].isdigit(), trainer.seen
        return trainer

    def time_kill(self, trainer, back, name):
        begin = time.monotonic_ns()
        trainer.process.kill()
        while not back():
            pass
        self.note(name, (time.monotonic_ns() - begin) / 1e6)
        trainer.kill()

    def kill_alone(self, daemon, probe):
        """All that a stream had returns: until its memory is the daemon's again."""
        reserved = status(probe)["memory"]["reserved"]
        for _ in self.kills():
            trainer = self.victim(daemon)
            harness.wait_until(lambda: held(probe) == slots(probe), "the victim to hold everything")
            self.time_kill(trainer, lambda: status(probe)["memory"]["reserved"] <= reserved, "killed_alone_ms")

    def kill_one_of_a_group(self, daemon, link, probe):
        """The others go on: until what it held may be filled again."""
        survivor = link.open(source=self.options.images, batch_size=BATCH, group="kills")
        skip(survivor)
        every = slots(probe)
        for _ in self.kills():
            trainer = self.victim(daemon, group="kills")
            while held(probe, trainer.process.pid) < every:
                skip_all(survivor)
            skip_all(survivor)
            self.time_kill(trainer, lambda: status(probe)["streams"][0]["leased"] < every, "killed_in_group_ms")
        survivor.close()

    # ---- a trainer is stopped ----

    def stopped(self):
        for share in ("split", "private"):
            with self.daemon() as daemon:
                self.stop_one(daemon, share)

    def stop_one(self, daemon, share):
        counts = mmap.mmap(-1, 8 * TRAINERS)
        trainers = [fork_trainer(daemon, counts, i, self.keys_of(share, i)) for i in range(TRAINERS)]
        try:
            harness.wait_until(lambda: all(count > 2 for count in images(counts)), "all trainers to be under way")
            before = rates(counts, self.options.seconds)
            os.kill(trainers[0], signal.SIGSTOP)
            time.sleep(0.5)  # what it was given already has gone its way
            after = rates(counts, self.options.seconds)
            assert after[0] == 0, "the stopped one goes on"
        finally:
            for pid in trainers:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            counts.close()
        self.note(f"stopped_{share}_ratio", sum(after[1:]) / sum(before[1:]))
        self.note(f"stopped_{share}_least_ratio", min(a / b for a, b in zip(after[1:], before[1:])))

    def keys_of(self, share, i):
        keys = {"source": self.options.images, "batch_size": BATCH}
        if share == "split":
            return {**keys, "group": "ranks", "share": "split", "rank": i, "world_size": TRAINERS}
        return {**keys, "seed": i}

    # ---- announcing ----

    def announce(self):
        report = self.bench("--threads", "1")
        self.note("announce_p50_us", report["announce_p50_us"])
        self.note("announce_p99_us", report["announce_p99_us"])


def skip(stream):
    """Takes a batch and gives it back; False at the end."""
    batch = stream.next()
    if batch:
        stream.release(batch)
    return batch is not None


def skip_all(stream):
    while stream.pending():
        skip(stream)


def status(probe):
    return json.loads(probe.query(harness.STATUS))


def held(probe, pid=None):
    trainers = [t for stream in status(probe)["streams"] for t in stream["trainers"]]
    return sum(t["held"] for t in trainers if pid in (None, t["pid"]))


def slots(probe):
    return status(probe)["streams"][0]["slots"]


def disk_bytes(pid):
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return int(dict(line.split(": ") for line in file)["read_bytes"])


def fork_trainer(daemon, counts, i, keys):
    """A process that takes batches and gives them back as fast as they come; writes down how many."""
    pid = os.fork()
    if pid:
        return pid
    try:
        with harness.Link(daemon.socket) as link:
            stream = link.open(**keys)
            for count in range(1, 1 << 60):
                skip(stream)
                counts[8 * i:8 * i + 8] = count.to_bytes(8, "little")
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def images(counts):
    return [int.from_bytes(counts[8 * i:8 * i + 8], "little") for i in range(TRAINERS)]


def rates(counts, seconds):
    begin, first = time.monotonic(), images(counts)
    time.sleep(seconds)
    spent = time.monotonic() - begin
    return [(b - a) * BATCH / spent for a, b in zip(first, images(counts))]


def median(figures):
    return statistics.median(figures)


def quantile(figures, q):
    ordered = sorted(figures)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def p99(figures):
    return quantile(figures, 0.99)


# what, which samples, how many become one figure, floor (None: reported), digits
FIGURES = [
    ("daemon CPU per image, 4 trainers of a group / 1", "shared_cpu_ratio", median, ("<=", 1.05), 3),
    ("slowest trainer's rate, 4 of a group / 1", "shared_rate_ratio", median, (">=", 0.95), 3),
    ("disk bytes, 4 private streams / 1, by the kernel's count", "disk_kernel_ratio", median, ("<=", 1.05), 3),
    ("disk bytes, 4 private streams / 1, by the daemon's count", "disk_daemon_ratio", median, ("<=", 1.05), 3),
    ("SIGKILL of one alone, memory back, median ms", "killed_alone_ms", median, None, 2),
    ("the same, p99", "killed_alone_ms", p99, None, 2),
    ("the same, max", "killed_alone_ms", max, ("<=", 100), 2),
    ("SIGKILL of one of a group, slots back, median ms", "killed_in_group_ms", median, None, 2),
    ("the same, p99", "killed_in_group_ms", p99, None, 2),
    ("the same, max", "killed_in_group_ms", max, ("<=", 100), 2),
    ("SIGSTOP of one of 4 ranks, the others' rate / before", "stopped_split_ratio", median, (">=", 0.95), 3),
    ("the same, the one that lost most", "stopped_split_least_ratio", median, (">=", 0.95), 3),
    ("SIGSTOP of one of 4 private streams, the others' rate / before", "stopped_private_ratio", median, (">=", 0.95), 3),
    ("the same, the one that lost most", "stopped_private_least_ratio", median, (">=", 0.95), 3),
    ("complete to `next` returning, median us", "announce_p50_us", median, ("<=", 50), 1),
    ("the same, p99", "announce_p99_us", median, None, 1),
    ("images/s of one trainer", "one_images_per_s", median, None, 0),
    ("daemon CPU per image of one trainer, us", "one_cpu_us_per_image", median, None, 1),
    ("bytes that one stream reads, by the kernel's count", "disk_one_kernel_bytes", median, None, 0),
    ("bytes that one stream reads, by the daemon's count", "disk_one_daemon_bytes", median, None, 0),
]


def judge(samples):
    rows = []
    for what, name, summary, floor, digits in FIGURES:
        if name not in samples:
            continue
        value = summary(samples[name])
        holds = None
        if floor:
            holds = value <= floor[1] if floor[0] == "<=" else value >= floor[1]
        value, least, most = (round(figure, digits or None) for figure in (value, min(samples[name]), max(samples[name])))
        rows.append({"what": what, "value": value, "least": least, "most": most, "samples": len(samples[name]),
                     "floor": f"{floor[0]} {floor[1]}" if floor else "", "holds": holds})
    return rows


def print_table(rows):
    print("| what | value | least to most | of | floor | |\n|---|---|---|---|---|---|")
    for row in rows:
        verdict = {True: "holds", False: "MISSED", None: ""}[row["holds"]]
        print(f"| {row['what']} | {row['value']:,} | {row['least']:,} to {row['most']:,} | {row['samples']} | {row['floor']} | {verdict} |")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("images", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--threads", type=int, help="the daemon's decoding threads; default: as many as it chooses")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="which parts to measure")
    parser.add_argument("--json", help="where to write all figures")
    return parser.parse_args()


def main():
    with harness.folder() as scratch:
        bench = Bench(OPTIONS, scratch)
        bench.bench(*bench.threads)  # makes the index and the entry points, warms the page cache
        for number in range(OPTIONS.rounds):
            for part in OPTIONS.only:
                print(f"round {number + 1} of {OPTIONS.rounds}: {part}", file=sys.stderr, flush=True)
                getattr(bench, part)()
    rows = judge(bench.samples)
    if OPTIONS.json:
        Path(OPTIONS.json).write_text(json.dumps({"figures": rows, "samples": bench.samples}, indent=1) + "\n", encoding="utf-8")
    print(f"{OPTIONS.rounds} rounds, {OPTIONS.seconds:g} s a window.\n")
    print_table(rows)


if __name__ == "__main__":
    OPTIONS = parse()
    os.environ["PENSTOCK_BIN"] = str(Path(OPTIONS.build).resolve() / "bin")
    import harness  # looks at PENSTOCK_BIN
    main()
