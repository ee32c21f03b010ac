#!/usr/bin/env python3
"""config/penstock.sbatch as it stands, under Slurm: several nodes, each with its daemon, and ranks over the nodes.

    tests/slurm/run.py BUILD SOURCE_DIR [CASE...]

Exit status 77: Slurm is not installed, or cannot be started here. PENSTOCK_SLURM_KILLS: how many jobs each case ends in mid-epoch and
continues; 1, and 20 with PENSTOCK_TEST_NIGHTLY=1. Up to WAVE jobs run at a time.

All nodes of the cluster are on this machine. Each slurmd has a mount namespace with a /tmp of its own, as nodes have, so the
socket that the script puts there is the node's own. The trainers' records show what was read: every sample of every epoch exactly
once, at the place that it has in the order of a single rank."""
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

import cluster

BUILD, TOP = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
NIGHTLY = os.environ.get("PENSTOCK_TEST_NIGHTLY") == "1"
KILLS, WAVE = int(os.environ.get("PENSTOCK_SLURM_KILLS", "20" if NIGHTLY else "1")), 5
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "0")) or time.time_ns() % 1000000
CHECKPOINT, LIMIT = 4, 600  # steps between two checkpoints of trainer.py; seconds for the jobs of a wave to end
minutes = unittest.skipUnless(NIGHTLY, "takes minutes: PENSTOCK_TEST_NIGHTLY=1")
SAMPLES, BATCH, EPOCHS, TASKS = 192, 4, 2, 2  # tasks of a node


def images(folder):
    """192 small JPEGs in three classes."""
    sys.path.insert(0, str(TOP / "tests"))
    from PIL import Image  # pylint: disable=import-outside-toplevel

    for number in range(SAMPLES):
        of = folder / f"class{number % 3}"
        of.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40 + number % 7, 36 + number % 5), (number, 255 - number, number * 7 % 256)).save(of / f"{number:03}.jpg")


def single_rank_order(source, home):
    """[epoch][position] -> sample, as one rank on one machine reads it."""
    program = (
        "import json, penstock\n"
        f"with penstock.Loader({str(source)!r}, batch_size={BATCH}, image_size=32, seed=3, dtype='uint8', framework='numpy', device='cpu',\n"
        "                     rank=0, world_size=1) as loader:\n"
        f"    print(json.dumps([[int(row['index']) for batch in loader.batches() for row in batch.samples] for _ in range({EPOCHS})]))\n")
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "PENSTOCKD": str(BUILD / "bin/penstockd"), "XDG_RUNTIME_DIR": str(home),
                   "XDG_CACHE_HOME": str(home), "XDG_STATE_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", program], check=True, env=environment, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


class Slurm(unittest.TestCase):
    counts = {}  # how many jobs were ended, by the way in which

    @classmethod
    def setUpClass(cls):
        print(f"PENSTOCK_TEST_SEED={SEED}", flush=True)
        cls.random = random.Random(SEED)
        # Not in /tmp, of which each node has its own.
        cls.room = Path(tempfile.mkdtemp(prefix="penstock-slurm-", dir="/var/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.room, ignore_errors=True)
        cls.source = cls.room / "images"
        images(cls.source)
        (cls.room / "one").mkdir()
        cls.order = single_rank_order(cls.source, cls.room / "one")
        (cls.room / "cluster").mkdir()
        cls.cluster = cluster.Cluster(cls.room / "cluster", nodes=3, shared=(TOP, BUILD, sys.prefix)).__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)

    def begin(self, *options, memory="64M", **variables):
        """Submits the script. Returns the job's number and its folder."""
        folder = Path(tempfile.mkdtemp(prefix="job-", dir=self.room))
        (folder / "penstock.yaml").write_text(f"memory: {memory}\nthreads: 1\ncache_dir: {folder}/cache\n", encoding="ascii")
        trainer = folder / "trainer"
        trainer.write_text(f"#!/bin/sh\nexec {sys.executable} {TOP}/tests/slurm/trainer.py\n", encoding="ascii")
        trainer.chmod(0o755)
        export = ",".join(f"{name}={value}" for name, value in {**self.given(folder), **variables}.items())
        job = self.cluster.submit(TOP / "config/penstock.sbatch", f"--export={export}", "--nodes=2", f"--ntasks-per-node={TASKS}",
                                  "--cpus-per-task=1", "--mem=1000M", f"--output={folder}/output", *options, cwd=folder)
        self.addCleanup(self.cluster.run, "scancel", "--full", job, check=False)  # of a test that failed
        return job, folder

    def given(self, folder):
        """The environment of a job."""
        return {"HOME": str(folder), "OUT": str(folder), "SOURCE": str(self.source), "EPOCHS": str(EPOCHS), "PYTHONPATH": str(BUILD / "python"),
                "PENSTOCKD": str(BUILD / "bin/penstockd"), "PATH": f"{BUILD}/bin:{cluster.SEARCH}", "XDG_STATE_HOME": str(folder / "state")}

    def steps(self, folder, run):
        """What each rank read in one run of a job."""
        return {path.name.split(".")[0]: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
                for path in folder.glob(f"rank-*.{run}")}

    def check_rows(self, folder, runs=1):
        """Every sample of every epoch exactly once, at its place: of each run, the steps up to the checkpoint with which the next run
        began, which is the last one that was there."""
        read = [self.steps(folder, run) for run in range(runs)]
        self.assertEqual([len(ranks) for ranks in read], [2 * TASKS] * runs, self.say(folder))
        self.assertFalse(list(folder.glob(f"rank-*.{runs}")), "it was started more often than the test did")
        begins = [{lines[0]["step"] for lines in ranks.values()} for ranks in read]
        self.assertEqual([len(begin) for begin in begins], [1] * runs, f"ranks of a run began at different steps: {begins}")
        begins = [min(begin) for begin in begins]
        self.assertEqual(begins[0], 1)
        for ranks, begin in zip(read, begins[1:]):
            done = min(lines[-1]["step"] for lines in ranks.values())
            self.assertIn(begin - 1, {(done - 1) // CHECKPOINT * CHECKPOINT, done // CHECKPOINT * CHECKPOINT}, "the last checkpoint")
        found = [{} for _ in range(EPOCHS)]
        for ranks, end in zip(read, [*begins[1:], 1 << 30]):
            for line in (line for lines in ranks.values() for line in lines if line["step"] < end):
                for position, index in line["rows"]:
                    self.assertNotIn(position, found[line["epoch"]], f"position {position} came twice")
                    found[line["epoch"]][position] = index
        for epoch in range(EPOCHS):
            self.assertEqual([found[epoch].get(position) for position in range(SAMPLES)], self.order[epoch])

    def say(self, folder):
        return (folder / "output").read_text(encoding="utf-8", errors="replace") if (folder / "output").exists() else "no output"

    def under_way(self, folder, run, step):
        """Waits until all ranks of a run have read a step."""
        def there():
            found = self.steps(folder, run)
            return len(found) == 2 * TASKS and all(lines and lines[-1]["step"] >= step for lines in found.values())

        self.cluster.until(there, f"step {step} of run {run} in {folder}", within=240)

    # ---- cases

    def test_as_it_stands(self):
        job, folder = self.begin()
        self.assertEqual(self.cluster.wait(job, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"), "COMPLETED", self.say(folder))
        self.check_rows(folder)
        nodes = [{line["node"] for line in lines} for lines in self.steps(folder, 0).values()]
        self.assertEqual(sorted(len(names) for names in nodes), [1] * (2 * TASKS))
        self.assertEqual(len(set().union(*nodes)), 2, "ranks on two nodes")
        self.assertEqual(self.say(folder).count("penstockd ends"), 2, self.say(folder))
        # One daemon for each node: its socket is in the node's own /tmp.
        sockets = [node for node in self.cluster.nodes if (self.cluster.own(node) / f"penstock-{job}").exists()]
        self.assertEqual(set(sockets), set().union(*nodes))

    # Jobs that are ended in mid-epoch and go on.

    def waves(self, way, *options, pause="1" if NIGHTLY else "0.3", size=WAVE):
        """For each wave: its jobs, {number: folder}, after each has taken some steps. Counts them."""
        for first in range(0, KILLS, size):
            jobs = dict(self.begin("--requeue", *options, PAUSE=pause) for _ in range(min(size, KILLS - first)))
            for folder in jobs.values():
                self.under_way(folder, 0, self.random.randrange(2, 9))
            yield jobs
            self.counts[way] = self.counts.get(way, 0) + len(jobs)
            print(f"{self.counts[way]} of {KILLS} {way}, all rows exact", flush=True)

    def nodes_of(self, folder, run=0):
        return {line["node"] for lines in self.steps(folder, run).values() for line in lines}

    def ends_well(self, jobs, runs=2, daemons=2):
        """Each job comes to its end, with its daemons, and has read every row once."""
        for folder in jobs.values():
            (folder / "hurry").touch()
        for job, folder in jobs.items():
            self.assertEqual(self.cluster.wait(job, "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "CANCELLED", within=LIMIT), "COMPLETED", self.say(folder))
            self.check_rows(folder, runs)
            # The script's own daemons have served the last run, which replaces the output: a trainer that finds none starts another.
            self.assertEqual(self.say(folder).count("penstockd ends"), daemons, self.say(folder))

    @minutes
    def test_time_limit_and_requeue(self):
        # Slurm counts minutes, and looks at its jobs every 30 s.
        for jobs in self.waves("jobs ended by their time limit", "--time=1", pause="5", size=2 * WAVE):
            for job, folder in jobs.items():
                self.assertEqual(self.cluster.wait(job, "TIMEOUT", "COMPLETED", "FAILED"), "TIMEOUT", self.say(folder))
            self.cluster.requeue(*jobs)
            self.ends_well(jobs)

    def test_requeue_in_mid_epoch(self):
        for jobs in self.waves("jobs requeued"):
            self.cluster.requeue(*jobs)
            self.ends_well(jobs)

    def test_drained_node(self):
        """It finishes the jobs that it has, and gets no other."""
        job, folder = self.begin("--nodelist=n1,n2", PAUSE="0.05")
        self.under_way(folder, 0, 3)
        self.cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")
        try:
            after, other = self.begin()
            self.assertEqual(self.cluster.wait(job, "COMPLETED", "FAILED"), "COMPLETED", self.say(folder))
            self.check_rows(folder)
            self.assertEqual(self.cluster.wait(after, "COMPLETED", "FAILED"), "COMPLETED", self.say(other))
            self.check_rows(other)
            self.assertEqual(self.nodes_of(other), {"n2", "n3"})
        finally:
            self.cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME", check=False)

    def test_drained_node_and_requeue(self):
        """Jobs that shall not wait for their end leave a node that is drained: they go on on the others."""
        for jobs in self.waves("jobs moved from a drained node"):
            node = sorted(set.intersection(*map(self.nodes_of, jobs.values())))[0]
            self.cluster.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
            try:
                self.cluster.requeue(*jobs)
                self.ends_well(jobs)
            finally:
                self.cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
            for folder in jobs.values():
                self.assertEqual(self.nodes_of(folder, 1), set(self.cluster.nodes) - {node})

    @minutes
    def test_killed_node(self):
        """All processes of a node end, with slurmd and the daemons. Slurm notices, and starts its jobs again on the others."""
        for jobs in self.waves("jobs that lost a node", pause="2"):
            node = self.random.choice(sorted(set.intersection(*map(self.nodes_of, jobs.values()))))
            self.cluster.kill_node(node)
            self.cluster.until(lambda node=node: self.cluster.node_state(node).startswith("DOWN"), f"Slurm to notice that {node} is gone",
                               within=60 + 4 * cluster.SILENT)
            for job in jobs:
                # srun may see it before Slurm does: then the job has failed, and is not started again by itself.
                if self.cluster.wait(job, "PENDING", "FAILED", "NODE_FAIL", "CANCELLED") != "PENDING":
                    self.cluster.run("scontrol", "requeue", job)
            self.cluster.start_again(*jobs)
            self.ends_well(jobs)
            for folder in jobs.values():
                self.assertEqual(self.nodes_of(folder, 1), set(self.cluster.nodes) - {node})
            self.cluster.boot_node(node)

    def test_killed_daemon(self):
        """The daemon of one of a job's nodes is killed, and another one is started in the job: the trainers go on with it."""
        for jobs in self.waves("jobs that lost a daemon"):
            killed = {job: self.random.choice(sorted(self.nodes_of(folder))) for job, folder in jobs.items()}
            before = {job: self.cluster.daemons(job, node) for job, node in killed.items()}
            for job, node in killed.items():
                self.assertEqual(len(before[job]), 1, f"daemons of job {job} on {node}")
                os.kill(before[job][0], signal.SIGKILL)
            for job, node in killed.items():
                self.start_daemon(job, jobs[job], node)
            for job, node in killed.items():
                self.cluster.until(lambda job=job, node=node: set(self.cluster.daemons(job, node)) - set(before[job]), f"another daemon of job {job}")
            self.ends_well(jobs, runs=1, daemons=1)

    def start_daemon(self, job, folder, node):
        """As the script does, on one node."""
        environment = {**self.cluster.environment, **self.given(folder), "PENSTOCK_SOCKET": f"/tmp/penstock-{job}/penstock.sock"}
        with open(folder / "daemon", "wb") as output:
            one = subprocess.Popen(["srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={node}", "--cpu-bind=none",
                                    "penstockd", "--config", folder / "penstock.yaml"], env=environment, cwd=folder,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        self.addCleanup(one.wait)
        self.addCleanup(one.kill)

    def test_memory_of_the_job(self):
        """slurmd ends a job that takes more than --mem: one with a greedy trainer, and not one whose daemon may have 64 MiB."""
        job, folder = self.begin("--mem=300M", PAUSE="0.25", HOG=str(400 << 20))
        self.assertIn(self.cluster.wait(job, "COMPLETED", "FAILED", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL"),
                      ("FAILED", "CANCELLED", "OUT_OF_MEMORY"), self.say(folder))
        self.assertIn("memory", self.say(folder).lower())
        job, folder = self.begin("--mem=300M", PAUSE="0.1")
        self.assertEqual(self.cluster.wait(job, "COMPLETED", "FAILED", "CANCELLED", "OUT_OF_MEMORY"), "COMPLETED", self.say(folder))
        self.check_rows(folder)

    def test_rank_beyond_the_world(self):
        job, folder = self.begin(WORLD_SIZE="2", RANK="5", PENSTOCK_RANKS="as given")
        self.assertEqual(self.cluster.wait(job, "COMPLETED", "FAILED"), "COMPLETED", self.say(folder))
        # The script sets both for each task, so what the submitter's shell had does no harm.
        self.check_rows(folder)


if __name__ == "__main__":
    WHY = cluster.missing()
    if WHY:
        print(f"skipped: {WHY}")
        sys.exit(77)
    result = unittest.main(argv=[sys.argv[0], *(f"Slurm.test_{case}" for case in sys.argv[3:])], exit=False, verbosity=2).result
    if result.wasSuccessful() and NIGHTLY:
        print(f"promise: {', '.join(f'{count} {way}' for way, count in Slurm.counts.items())}; every row of every epoch exactly once", flush=True)
    sys.exit(not result.wasSuccessful())
