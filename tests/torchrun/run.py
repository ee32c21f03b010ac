#!/usr/bin/env python3
"""docs/guides/torchrun.md as it stands: four nodes under torchrun, one of which dies in mid-epoch and comes back.

    tests/torchrun/run.py BUILD SOURCE_DIR [CASE...]

Exit status 77: torch or SeaweedFS is not installed, or this machine has no network namespaces. PENSTOCK_TORCHRUN_KILLS: how many
times a node is killed, in jobs of five kills each; 1, and 20 with PENSTOCK_TEST_NIGHTLY=1.

Each node is a network namespace with a host name, a daemon, a cache and two ranks (network.py). The bucket is SeaweedFS, on this
machine. What torchrun starts is the page's example, with a loader that notes each row before the trainer gets it (trainer.py).

Which steps count follows from the checkpoints alone: of a run, those up to the checkpoint that the next run has loaded. These must
be each position of each epoch exactly once, with the sample and the pixels that a single rank finds there."""
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import network

BUILD, TOP = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path[:0] = [str(TOP / "tests/remote"), str(TOP / "tests/e2e")]
os.environ.setdefault("PENSTOCK_BIN", str(BUILD / "bin"))

import harness  # noqa: E402
import servers  # noqa: E402
from credentials import probe  # noqa: E402

PAGE, EXAMPLE = TOP / "docs/guides/torchrun.md", TOP / "client/python/examples/torchrun_elastic.py"
KILLS, KILLS_OF_A_JOB = int(os.environ.get("PENSTOCK_TORCHRUN_KILLS", "20" if harness.NIGHTLY else "1")), 5
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "0")) or time.time_ns() % 1000000
CLASSES, PER_CLASS, SHARDS, GLOBAL, RANKS = 3, 320, 4, 48, 2  # RANKS: of a node
SAMPLES = CLASSES * PER_CLASS
SIZE = 64
PACE, ENDLESS = 0.4, 1000000  # seconds of a step, and epochs, until the last kill is over
LIMIT = 240 * harness.SLOW  # seconds for ranks to begin


def environment(home, **more):
    """Of a process with a home of its own, which finds this build's programs, and this Python as python3 and torchrun."""
    path = os.pathsep.join((str(BUILD / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))
    folders = {name: str(home) for name in ("HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PENSTOCK", "SLURM_", "TORCH", "MASTER_"))}
    return {**kept, "PATH": path, "PYTHONPATH": str(BUILD / "python"), "PENSTOCKD": str(BUILD / "bin/penstockd"), "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1", "AWS_REGION": "us-east-1", **folders, **{name: str(value) for name, value in more.items()}}


def single_rank(source, home, epochs):
    """[epoch][position] -> [sample, hash of its pixels], as one rank on one machine reads it."""
    program = (
        "import json, sys, zlib, penstock\n"
        f"with penstock.Loader({str(source)!r}, batch_size={GLOBAL}, image_size={SIZE}, seed=0, device='cpu') as loader:\n"
        f"    for _ in range({epochs}):\n"
        "        rows = [(row, image) for batch in loader.batches() for row, image in zip(batch.samples, batch.images)]\n"
        "        print(json.dumps([[int(row['index']), zlib.crc32(image.contiguous().numpy().tobytes())] for row, image in rows]))\n")
    done = subprocess.run([sys.executable, "-c", program], check=True, env=environment(home), stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Job:
    """One job of torchrun on the nodes of a network. A context: it ends what it started."""

    def __init__(self, nodes, room, source, **more):
        self.nodes, self.room, self.name = nodes, room, f"test-{os.getpid()}-{room.name}"
        self.port = servers.free_ports(1)[0]
        self.head_block, self.node_block = (block.replace("29400", str(self.port)) for block in network.blocks(PAGE))
        self.out = room / "shared"
        (self.out / "runs").mkdir(parents=True)
        self.common = {"HEAD": nodes.head, "JOB": self.name, "SHARED": self.out, "SOURCE": source, "EPOCHS": ENDLESS, "OUT": self.out,
                       "EXAMPLE": EXAMPLE, "PACE": PACE, **more}
        self.running = {}

    def __enter__(self):
        (self.room / "head").mkdir()
        with open(self.room / "head.log", "ab") as log:
            self.head = subprocess.Popen(["bash", "-c", self.head_block], env=environment(self.room / "head"), stdin=subprocess.DEVNULL, stdout=log,
                                         stderr=log, start_new_session=True)
        for node in self.nodes.nodes:
            self.start(node)
        return self

    def __exit__(self, *ignored):
        for node in self.nodes.nodes:
            self.nodes.kill(node)
        for process in (self.head, *self.running.values()):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for folder in Path("/tmp").glob(f"penstock-{self.name}-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def start(self, node):
        home = self.room / node
        home.mkdir(exist_ok=True)
        (home / "penstock.yaml").write_text(
            f"memory: 64M\nthreads: 1\ncache_dir: {home}/cache\ncache_size: 64M\nrecorder: off\n"
            f"remote: {{plain_http: [{self.nodes.head}], timeout_s: 60}}\n", encoding="ascii")
        shutil.copy(Path(__file__).with_name("trainer.py"), home / "torchrun_elastic.py")
        (home / "block").write_text(self.node_block, encoding="utf-8")
        self.running[node] = self.nodes.start(node, home / "block", home, environment(home, ADDRESS=self.nodes.address[node], **self.common),
                                              self.room / f"{node}.log")

    def kill(self, node):
        self.nodes.kill(node)
        self.running.pop(node).wait()

    # ---- what was read

    def runs(self):
        """The names of the runs, the first one first: (time, world size)."""
        found = {tuple(map(int, path.name.split("-")[::2])) for path in (self.out / "runs").iterdir()}
        return sorted(found)

    def lines(self, run, rank):
        path = self.out / "runs" / f"{run[0]}-{rank}-{run[1]}"
        return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines(keepends=True) if line.endswith("\n")] if path.exists() else []

    def steps(self, run):
        """How many steps each rank of a run has noted."""
        paths = [self.out / "runs" / f"{run[0]}-{rank}-{run[1]}" for rank in range(run[1])]
        return [path.read_bytes().count(b"\n") if path.exists() else 0 for path in paths]

    def begun(self, world, after, steps):
        """Waits until each rank of a later run with this many ranks has begun its step number `steps`, and is within an epoch."""
        def there():
            runs = [run for run in self.runs() if run > after and run[1] == world]
            if not runs or min(self.steps(runs[-1])) < steps:
                return False
            last = self.lines(runs[-1], 0)[-1]["rows"][-1][0]
            return GLOBAL < last < SAMPLES - 2 * GLOBAL

        self.until(there, f"{world} ranks to take {steps} steps")
        return self.runs()[-1]

    def until(self, holds, what):
        end = time.monotonic() + LIMIT
        while not holds():
            ended = {node: process.returncode for node, process in self.running.items() if process.poll() is not None}
            assert not ended and time.monotonic() < end, f"waited for {what}; ended: {ended}\n{self.say()}"
            time.sleep(0.3)

    def say(self):
        return "\n".join(f"--- {path.name}\n{path.read_text(encoding='utf-8', errors='replace')[-3000:]}" for path in sorted(self.room.glob("*.log")))

    def finish(self):
        """Ends the job with the epoch after this one, which it returns."""
        last = self.lines(self.runs()[-1], 0)[-1]["epoch"] + 1
        (self.out / "last.new").write_text(str(last), encoding="ascii")
        os.replace(self.out / "last.new", self.out / "last")
        end = time.monotonic() + LIMIT
        for node, process in self.running.items():
            assert process.wait(max(1, end - time.monotonic())) == 0, f"{node} ended with {process.returncode}\n{self.say()}"
        return last

    def counted(self):
        """{place: [sample, hash]} of the steps that count, and the world sizes of the runs. Places are positions that go on over
        the epochs."""
        runs = [run for run in self.runs() if self.steps(run) and min(self.steps(run)) > 0]
        firsts = [{self.lines(run, rank)[0]["step"] for rank in range(run[1])} for run in runs]
        assert all(len(first) == 1 for first in firsts), f"ranks of a run have loaded different checkpoints: {firsts}"
        assert min(firsts[0]) == 1 and all(min(first) > 1 for first in firsts[1:]), f"a run began anew: {firsts}"
        found = {}
        for run, following in zip(runs, [*firsts[1:], {1 << 62}]):
            for rank in range(run[1]):
                for line in self.lines(run, rank):
                    places, due = self.places(line), (line["step"] - 1) * GLOBAL + rank * (GLOBAL // run[1])
                    assert places == list(range(due, due + GLOBAL // run[1])), f"rank {rank} of {run}: {places}, not from {due} on"
                    for place, row in zip(places, line["rows"]):
                        if line["step"] < min(following):
                            assert place not in found, f"place {place} came twice, the second time in run {run}"
                            found[place] = row[1:]
        return found, [world for _, world in runs]

    @staticmethod
    def places(line):
        return [line["epoch"] * SAMPLES + row[0] for row in line["rows"]]


class Torchrun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"PENSTOCK_TEST_SEED={SEED}", flush=True)
        cls.random = random.Random(SEED)
        cls.room = Path(tempfile.mkdtemp(prefix="penstock-torchrun-"))
        cls.addClassCleanup(shutil.rmtree, cls.room, ignore_errors=True)
        harness.make_dataset(cls.room / "images", per_class=PER_CLASS, classes=CLASSES, min_side=32, max_side=64)
        store = servers.seaweedfs(bind="0.0.0.0")
        cls.endpoint = store.__enter__()
        cls.addClassCleanup(store.__exit__, None, None, None)
        for name in ("home", "packed"):
            (cls.room / name).mkdir()
        cls.keys = {"AWS_ENDPOINT_URL": cls.endpoint, **servers.KEYS}
        assert probe("--put", "s3://bucket/", environment=cls.keys) == ["end"]
        for where in (f"{cls.room}/packed/", "s3://bucket/"):
            cls.pack(f"{where}train-%06d.tar")
        cls.shards = len(list((cls.room / "packed").glob("*.tar")))
        cls.nodes = network.Network(4).__enter__()
        cls.addClassCleanup(cls.nodes.remove)
        cls.keys["AWS_ENDPOINT_URL"] = cls.endpoint.replace("127.0.0.1", cls.nodes.head)

    @classmethod
    def pack(cls, where):
        """SeaweedFS answers before it has a place for the first object."""
        command = [BUILD / "bin/penstock", "pack", cls.room / "images", where, "--shard-size", "512K"]
        for _ in range(20):
            done = network.call("env", *(f"{name}={value}" for name, value in cls.keys.items()), *command, check=False)
            if done.returncode == 0:
                return
            time.sleep(1)
        raise AssertionError(done.stdout)

    def job(self, name, **more):
        room = self.room / name
        room.mkdir()
        source = f"s3://bucket/train-{{000000..{self.shards - 1:06}}}.tar"
        return Job(self.nodes, room, source, **self.keys, **more)

    def check(self, job, epochs):
        """Every sample of every epoch exactly once, in the order of a single rank, with its pixels."""
        found, worlds = job.counted()
        wanted = single_rank(self.room / "packed/train-*.tar", self.room / "home", epochs)
        self.assertEqual(len(found), epochs * SAMPLES)
        for epoch in range(epochs):
            self.assertEqual([found[epoch * SAMPLES + position] for position in range(SAMPLES)], wanted[epoch])
            self.assertEqual(sorted(row[0] for row in wanted[epoch]), list(range(SAMPLES)))
        return worlds

    def test_a_node_dies_and_comes_back(self):
        killed = 0
        for number in range(-(-KILLS // KILLS_OF_A_JOB)):
            kills = min(KILLS_OF_A_JOB, KILLS - killed)
            with self.job(f"kills-{number}") as job:
                whole = job.begun(4 * RANKS, (0, 0), 2)
                for kill in range(kills):
                    # Beyond its first checkpoint: steps that are done again begin in the middle of the job.
                    whole = job.begun(4 * RANKS, (whole[0] - 1, 0), self.random.randrange(11, 22))
                    node = self.random.choice(self.nodes.nodes)
                    job.kill(node)
                    rest = job.begun(3 * RANKS, whole, self.random.randrange(2, 14))
                    job.start(node)
                    whole = job.begun(4 * RANKS, rest, 2)
                    killed += 1
                    print(f"{killed}: {node} killed, {rest[1]} ranks went on, then {whole[1]}", flush=True)
                worlds = self.check(job, job.finish() + 1)
            self.assertLessEqual(set(worlds), {3 * RANKS, 4 * RANKS})
            print(f"{killed} of {KILLS} kills; {len(worlds)} runs with {worlds} ranks, all rows exact", flush=True)
        self.assertEqual(killed, KILLS)
        harness.promise(f"{killed} nodes killed in mid-epoch and brought back, every row of every epoch exactly once")


def why_not():
    for module in ("torch", "numpy"):
        if importlib.util.find_spec(module) is None:
            return f"{sys.executable} has no {module}"
    try:
        servers.program("weed")
    except harness.Skip as error:
        return str(error)
    return network.missing()


if __name__ == "__main__":
    WHY = why_not()
    if WHY:
        print(f"skipped: {WHY}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *(f"Torchrun.test_{case}" for case in sys.argv[3:])], verbosity=2)
