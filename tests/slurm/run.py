#!/usr/bin/env python3
"""config/penstock.sbatch as it stands, under Slurm: several nodes, each with its daemon, and ranks over the nodes.

    tests/slurm/run.py BUILD SOURCE_DIR [CASE...]

Exit status 77: Slurm is not installed, or cannot be started here. PENSTOCK_SLURM_ROUNDS: how often each case runs.

All nodes of the cluster are on this machine. Each slurmd has a mount namespace with a /tmp of its own, as nodes have, so the
socket that the script puts there is the node's own. The trainers' records show what was read: every sample of every epoch exactly
once, at the place that it has in the order of a single rank."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cluster

BUILD, TOP = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
ROUNDS = int(os.environ.get("PENSTOCK_SLURM_ROUNDS", "1"))
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
    @classmethod
    def setUpClass(cls):
        # Not in /tmp, of which each node has its own.
        cls.room = Path(tempfile.mkdtemp(prefix="penstock-slurm-", dir="/var/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.room, ignore_errors=True)
        cls.source = cls.room / "images"
        images(cls.source)
        (cls.room / "one").mkdir()
        cls.order = single_rank_order(cls.source, cls.room / "one")
        (cls.room / "cluster").mkdir()
        cls.cluster = cluster.Cluster(cls.room / "cluster", nodes=3).__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)

    def begin(self, *options, memory="64M", **variables):
        """Submits the script. Returns the job's number and its folder."""
        folder = Path(tempfile.mkdtemp(prefix="job-", dir=self.room))
        (folder / "penstock.yaml").write_text(f"memory: {memory}\nthreads: 1\ncache_dir: {folder}/cache\n", encoding="ascii")
        trainer = folder / "trainer"
        trainer.write_text(f"#!/bin/sh\nexec {sys.executable} {TOP}/tests/slurm/trainer.py\n", encoding="ascii")
        trainer.chmod(0o755)
        given = {"HOME": folder, "OUT": folder, "SOURCE": self.source, "EPOCHS": EPOCHS, "PYTHONPATH": BUILD / "python",
                 "PENSTOCKD": BUILD / "bin/penstockd", "PATH": f"{BUILD}/bin:{cluster.SEARCH}", "XDG_STATE_HOME": folder / "state", **variables}
        export = ",".join(f"{name}={value}" for name, value in given.items())
        job = self.cluster.submit(TOP / "config/penstock.sbatch", f"--export={export}", "--nodes=2", f"--ntasks-per-node={TASKS}",
                                  "--cpus-per-task=1", "--mem=1000M", f"--output={folder}/output", *options, cwd=folder)
        return job, folder

    def steps(self, folder, run):
        """What each rank read in one run of a job."""
        return {path.name.split(".")[0]: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
                for path in folder.glob(f"rank-*.{run}")}

    def check_rows(self, folder, runs=1):
        """Every sample of every epoch exactly once, at its place, with the runs before the last one counted up to their checkpoint."""
        ends = {}
        for run in range(1, runs):  # where each later run began
            ends[run - 1] = min(line["step"] for lines in self.steps(folder, run).values() for line in lines[:1]) - 1
        found = [{} for _ in range(EPOCHS)]
        for run in range(runs):
            for lines in self.steps(folder, run).values():
                for line in lines:
                    if line["step"] > ends.get(run, 1 << 30):
                        continue
                    for position, index in line["rows"]:
                        self.assertNotIn(position, found[line["epoch"]], f"position {position} came twice")
                        found[line["epoch"]][position] = index
        for epoch in range(EPOCHS):
            self.assertEqual([found[epoch].get(position) for position in range(SAMPLES)], self.order[epoch])
        return ends

    def say(self, folder):
        return (folder / "output").read_text(encoding="utf-8", errors="replace") if (folder / "output").exists() else "no output"

    def under_way(self, folder, run, step):
        """Waits until all ranks of a run have read a step."""
        def there():
            found = self.steps(folder, run)
            return len(found) == 2 * TASKS and all(lines and lines[-1]["step"] >= step for lines in found.values())

        self.cluster.until(there, f"step {step} of run {run}: {self.say(folder)}")

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

    @unittest.skipUnless(os.environ.get("PENSTOCK_TEST_NIGHTLY") == "1", "takes three minutes: PENSTOCK_TEST_NIGHTLY=1")
    def test_time_limit_and_requeue(self):
        # Slurm counts minutes, and looks at its jobs every 30 s.
        job, folder = self.begin("--time=1", "--requeue", PAUSE="6")
        self.under_way(folder, 0, 4)
        self.assertEqual(self.cluster.wait(job, "TIMEOUT", "COMPLETED", "FAILED"), "TIMEOUT", self.say(folder))
        self.cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=10", check=False)
        self.cluster.requeue(job)
        self.under_way(folder, 1, 1)
        self.assertEqual(self.cluster.wait(job, "COMPLETED", "FAILED", "TIMEOUT"), "COMPLETED", self.say(folder))
        ends = self.check_rows(folder, runs=2)
        self.assertGreater(ends[0], 0, "the second run began anew")

    def test_requeue_in_mid_epoch(self):
        for turn in range(ROUNDS):
            with self.subTest(turn=turn):
                job, folder = self.begin("--requeue", PAUSE="0.05")
                self.under_way(folder, 0, 5 + turn % 7)
                self.cluster.requeue(job)
                self.assertEqual(self.cluster.wait(job, "COMPLETED", "FAILED"), "COMPLETED", self.say(folder))
                ends = self.check_rows(folder, runs=2)
                self.assertGreater(ends[0], 0, "the second run began anew")

    def test_drained_node(self):
        for turn in range(ROUNDS):
            with self.subTest(turn=turn):
                job, folder = self.begin("--nodelist=n1,n2", PAUSE="0.05")
                self.under_way(folder, 0, 3)
                self.cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")
                try:
                    after, other = self.begin()
                    self.assertEqual(self.cluster.wait(job, "COMPLETED", "FAILED"), "COMPLETED", self.say(folder))
                    self.check_rows(folder)
                    self.assertEqual(self.cluster.wait(after, "COMPLETED", "FAILED"), "COMPLETED", self.say(other))
                    self.check_rows(other)
                    self.assertEqual({line["node"] for lines in self.steps(other, 0).values() for line in lines}, {"n2", "n3"})
                finally:
                    self.cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME", check=False)

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
    unittest.main(argv=[sys.argv[0], *(f"Slurm.test_{case}" for case in sys.argv[3:])], verbosity=2)
