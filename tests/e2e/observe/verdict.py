"""The verdict in a matrix of artificial bottlenecks: real daemons, real trainers, and one thing that is slow.

What is asserted is the kind. Shares depend on the machine and on who else uses it, so a case waits until the daemon says it. The cases
that hardly use a processor run side by side; those about processors come after them, one by one."""
import contextlib
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, SLOW, Daemon, Link, Skip, folder, make_dataset, run_tests, tool, wait_until

KINDS = ("trainer", "decode", "read", "memory", "held", "waiting", "none", "unknown")
SHARES = ("share", "trainer_wait", "slots_full", "workers_idle", "permit_wait", "cpu_busy", "cpu_stolen", "read_busy", "buffers_full")
PATIENCE = 30 * SLOW


class Case:
    """A daemon in a folder of its own, and trainers whose output is discarded."""

    def __init__(self, stack, *options, environment=None, affinity=None):
        self.home = stack.enter_context(folder())
        before = os.sched_getaffinity(0)
        try:  # a child inherits it
            os.sched_setaffinity(0, before if affinity is None else {affinity})
            self.daemon = stack.enter_context(Daemon(self.home, *options, config="entry_points: off\n", environment=environment))
        finally:
            os.sched_setaffinity(0, before)
        self.stack, self.status = stack, None

    def trainer(self, source, **keys):
        keys = {"socket": self.daemon.socket, "private": 0, "source": source, "epochs": 0, "batch_size": 8, "image_size": 64, **keys}
        environment = {k: v for k, v in self.daemon.environment.items() if k != "LD_PRELOAD"}
        process = subprocess.Popen([tool("dump_batches"), *(f"{k}={v}" for k, v in keys.items())], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=environment)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def bottleneck(self):
        """The bottleneck of the only stream; None while the stream is being opened."""
        self.status = self.daemon.status()
        assert len(self.status["streams"]) <= 1, self.status
        if not self.status["streams"] or "bottleneck" not in self.status["streams"][0]:
            return None
        stream = self.status["streams"][0]
        found = {**stream["bottleneck"], "verdict": stream["verdict"], "remedy": stream["remedy"], "all": self.status["verdict"]}
        assert self.status["remedy"] == found["remedy"] and "\n" not in found["remedy"], self.status
        assert found["kind"] in KINDS and all(0 <= found[share] <= 1 for share in SHARES), found
        return found

    def says(self, *kinds, words=""):
        """Waits until the verdict is one of these kinds, with these words. Returns the evidence."""
        end, found = time.monotonic() + PATIENCE, None
        while time.monotonic() < end:
            found = self.bottleneck()
            if found and found["kind"] in kinds and words in found["verdict"]:
                assert found["all"].endswith(found["verdict"]), found
                print(f"     {found['kind']}: {found['verdict']}", flush=True)
                return found
            assert self.daemon.process.poll() is None, self.daemon.text()
            time.sleep(0.2)
        raise AssertionError(f"expected {' or '.join(kinds)} \"{words}\", got {found}")


THROTTLE = os.environ.get("PENSTOCK_THROTTLE", "")


def slow_disk(**numbers):
    """The environment that gives a daemon with `--reader pread` a slow disk. The sanitizers want to be loaded first, but this library
    does not use them."""
    if not os.path.exists(THROTTLE):
        raise Skip("PENSTOCK_THROTTLE does not name the library that slows reads down")
    sanitizer = f"verify_asan_link_order=0:{os.environ.get('ASAN_OPTIONS', '')}"
    return {"LD_PRELOAD": THROTTLE, "ASAN_OPTIONS": sanitizer, **{k.upper(): str(v) for k, v in numbers.items()}}


def least_memory(threads):
    """The smallest budget that penstockd accepts, from its own message."""
    with folder() as home:
        refused = subprocess.run([tool("penstockd"), "--socket", str(home / "s"), "--memory", "1M", "--threads", str(threads)],
                                 env={**os.environ, "XDG_CACHE_HOME": str(home)}, capture_output=True, text=True, timeout=LIMIT)
    return int(re.search(r"at least (\d+)M", refused.stderr)[1])


def budget_named(found):
    return int(re.fullmatch(r"raise memory to (\d+)M", found["remedy"])[1])


def interlaced_png(path, side, seed):
    """A PNG that needs much memory: all of its pixels before its first row is complete."""
    rows = b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        width, height = (side - x0 + dx - 1) // dx, (side - y0 + dy - 1) // dy
        rows += b"".join(b"\0" + bytes([(seed + y) % 256]) * (3 * width) for y in range(height))

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 1)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


# ---- cases that leave the processors alone ----

def case_slow_disk(stack, images):
    case = Case(stack, "--reader", "pread", "--threads", 2, environment=slow_disk(throttle_bytes_per_s=500000))
    case.trainer(images["small"])
    found = case.says("read", words="disk-bound: ")
    assert "faster storage" in found["remedy"], found
    assert 0 < found["read_bytes_per_s"] < 2e6 and found["read_busy"] > 0.5 and found["pid"] is None, found
    case.says("read", words=", at best ")  # and the best second that it saw


def case_slow_trainer(stack, images):
    case = Case(stack, "--threads", 1)
    case.trainer(images["small"], sleep_ms=300)
    found = case.says("trainer", words="complete batches wait for the trainer")
    assert found["share"] > found["trainer_wait"] and found["more_cpus"] is None and found["remedy"] == "", found


def case_stopped_alone(stack, images):
    case = Case(stack, "--threads", 1)
    trainer = case.trainer(images["small"], sleep_ms=20)
    case.says("trainer")
    trainer.send_signal(signal.SIGSTOP)
    found = case.says("held", words=f"trainer-bound: pid {trainer.pid} holds all 4 batches")
    assert found["pid"] == trainer.pid, found
    trainer.send_signal(signal.SIGCONT)
    case.says("trainer", words="complete batches")


def case_stopped_in_a_group(stack, images):
    case = Case(stack, "--threads", 1)
    keys = {"group": "pair", "wait_for": 2, "sleep_ms": 5}
    case.trainer(images["small"], **keys)
    case.says("waiting", words="1 of 2")
    stopped = case.trainer(images["small"], **keys)
    wait_until(lambda: len(case.daemon.status()["streams"][0]["trainers"]) == 2 and case.bottleneck()["kind"] != "waiting",
               "the group's first batches")
    stopped.send_signal(signal.SIGSTOP)
    found = case.says("held", words=f"one trainer holds its batches: pid {stopped.pid} has 4 of 4 and has returned none for")
    assert found["pid"] == stopped.pid, found
    waits = {t["pid"]: t["waits"] for t in case.status["streams"][0]["trainers"]}
    assert waits.pop(stopped.pid) < min(waits.values()), waits


def case_few_buffers(stack, images):
    """Storage that is slow for each read but could serve many at a time: a small budget has room for few."""
    memory = least_memory(2) + 8
    case = Case(stack, "--reader", "pread", "--threads", 2, "--memory", f"{memory}M", environment=slow_disk(throttle_latency_ms=500))
    case.trainer(images["large"], batch_size=2, decode="fast")
    found = case.says("memory", words="for buffers")
    assert budget_named(found) > memory and found["buffers_full"] > 0, found


def case_few_slots(stack, images):
    """Two batches of the eight that were asked for, and a trainer that takes them all, keeps them for a while and returns them at once.
    Reads take long, so penstock needs the time in which it has no free batch."""
    memory = least_memory(1)
    case = Case(stack, "--reader", "pread", "--threads", 1, "--memory", f"{memory}M", environment=slow_disk(throttle_latency_ms=150))
    over = threading.Event()

    def train():
        with Link(case.daemon.socket) as link:
            stream = link.open(source=images["small"], batch_size=16, image_size=192, prefetch=8)
            slots = stream.opened().slots
            while not over.is_set():
                batches = [stream.next() for _ in range(slots)]
                over.wait(0.3)
                for batch in batches:
                    stream.release(batch)
    thread = threading.Thread(target=train)
    thread.start()
    stack.callback(thread.join)
    stack.callback(over.set)
    found = case.says("memory", words="of 8 batches fit the budget")
    assert budget_named(found) > memory, found


def case_no_trainer(stack, images):
    case = Case(stack)
    status = case.daemon.status()
    assert status["streams"] == [] and status["verdict"] == "no trainer" and status["cpus"] >= 1, status
    assert list(status["stages"]) == ["read", "decode", "pixel", "serve"] and status["images"] == status["batches"] == 0, status


def case_ended(stack, images):
    """Nothing holds up an evaluation that has received all of its batches and is still open."""
    case = Case(stack)
    with Link(case.daemon.socket) as link:
        stream = link.open(source=images["small"], batch_size=8, image_size=64, epochs=1)
        while batch := stream.next():
            stream.release(batch)
        found = case.says("none", words="nothing to do: every trainer has received its last batch")
        assert found["share"] == found["trainer_wait"] == 0, found


# ---- cases about processors: one by one ----

def case_slow_decode(stack, images):
    case = Case(stack, "--threads", 1)
    case.trainer(images["middling"], image_size=224)
    found = case.says("decode", words="decode-bound: ")
    assert found["cpu_busy"] > 0 and found["trainer_wait"] > 0.5 and found["remedy"], found
    if found["trainer_wait"] > 0.75:  # it only takes batches: no number of cores is enough
        assert "would feed" not in found["remedy"] and found["more_cpus"] is None, found
    if case.status["cpus"] > 1 and (found["cpus_idle"] or 0) > 0.6 and found["verdict"].endswith("1 decoding thread"):
        assert re.fullmatch(r"try --threads (\d+), in Python threads=\1", found["remedy"]), found
    status = case.status
    assert status["images"] > 0 and status["batches"] > 0 and status["stages"]["decode"] > 0, status


def case_keeps_batches(stack, images):
    """A trainer that always keeps two batches does not look as if it waited."""
    case = Case(stack, "--threads", 1)
    case.trainer(images["middling"], image_size=224, hold=2)
    found = case.says("decode")
    assert found["trainer_wait"] < 0.05 and found["more_cpus"] is None and found["remedy"], found


def case_large_images(stack, images):
    case = Case(stack, "--threads", 4, "--memory", "100M")
    if case.daemon.status()["cpus"] < 2:
        return  # with one processor they wait for that
    case.trainer(images["interlaced"], batch_size=2)
    found = case.says("memory", words="the memory of large images")
    assert budget_named(found) > 100, found
    assert found["permit_wait"] > 0.2, found


def burners(stack, cpu, count):
    """Other processes of the same priority that take as much of that processor as they can get."""
    for _ in range(count):
        process = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
        stack.callback(process.wait)
        stack.callback(process.kill)


def case_taken_by_others(stack, images):
    """The reader and the decoder lack a processor, and both wait: that is not a slow disk. A slow disk beside it still is one."""
    cpu = min(os.sched_getaffinity(0))
    burners(stack, cpu, 3)
    robbed = Case(stack, affinity=cpu)
    robbed.trainer(images["middling"])
    disk = Case(stack, "--reader", "pread", environment=slow_disk(throttle_bytes_per_s=200000), affinity=cpu)
    disk.trainer(images["small"])
    found = robbed.says("decode", words="other programs took ")
    assert found["cpu_stolen"] > 0.1, found
    disk.says("read")


# ---- running them ----

def alone(case, images, failures):
    try:
        with contextlib.ExitStack() as stack:
            case(stack, images)
        print(f"     {case.__name__} passed", flush=True)
    except BaseException:
        failures.append(f"{case.__name__}:\n{traceback.format_exc()}")


def small(path):
    make_dataset(path, min_side=48, max_side=96)


def middling(path):
    make_dataset(path, per_class=8, min_side=500, max_side=700)


def large(path):
    make_dataset(path, per_class=2, min_side=2000, max_side=2400)


def interlaced(path):
    path.mkdir()
    for i in range(6):
        interlaced_png(path / f"{i}.png", 1600, i)


def run_cases(cases, kinds, beside):
    """Runs the cases on datasets of these kinds, side by side or one by one, and reports all failures."""
    failures = []
    with folder() as home:
        images = {make.__name__: home / make.__name__ for make in kinds}
        for make in kinds:
            make(images[make.__name__])
        if beside:
            threads = [threading.Thread(target=alone, args=(case, images, failures)) for case in cases]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            for case in cases:
                alone(case, images, failures)
    assert not failures, "\n".join(failures)


def test_idle_processors():
    run_cases((case_slow_disk, case_slow_trainer, case_stopped_alone, case_stopped_in_a_group, case_few_buffers, case_few_slots,
               case_no_trainer, case_ended), (small, large), beside=True)


def test_busy_processors():
    run_cases((case_slow_decode, case_keeps_batches, case_large_images, case_taken_by_others), (small, middling, interlaced), beside=False)


if __name__ == "__main__":
    run_tests(globals())
