#!/usr/bin/env python3
"""client/python/examples/ray_train.py as it stands, on a Ray cluster of several nodes on this machine.

Each node is a raylet with a folder of its own as XDG_RUNTIME_DIR, so its workers have a daemon of their own, as on a machine.
The head has no CPUs for workers. A node is killed by SIGKILL to all of its processes at once, its daemon included."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import kills
from kills import CHECKPOINT, EPOCHS, GLOBAL, HERE, SEED, Job

kills.support.require("torch", "torchvision", "ray")

# Before Ray is imported: how soon the head notices that a node is gone, and what the tests do not need.
os.environ.update({"RAY_TMPDIR": str(kills.support.folder),
                   "RAY_health_check_initial_delay_ms": "0", "RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "3",
                   "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5", "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "10",
                   "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0",
                   "RAY_enable_metrics_collection": "0",
                   "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(HERE), str(kills.EXAMPLES)])})

import ray  # noqa: E402
import torch  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402


class Nodes:
    """A head, and nodes with two CPUs each."""

    def __init__(self) -> None:
        self.cluster = Cluster(initialize_head=True, head_node_args={
            "num_cpus": 0, "include_dashboard": False, "object_store_memory": 100 << 20})
        ray.init(self.cluster.address, log_to_driver=False, logging_level="warning")
        self.nodes: "dict[str, Any]" = {}
        self.made = 0

    def add(self) -> str:
        self.made += 1
        home = kills.support.folder / f"node-{self.made}"
        home.mkdir(mode=0o700)
        self.nodes[str(home)] = self.cluster.add_node(num_cpus=2, object_store_memory=100 << 20, env_vars={
            "XDG_RUNTIME_DIR": str(home), "XDG_CACHE_HOME": str(home)})
        return str(home)

    @staticmethod
    def processes(home: str) -> "list[int]":
        """Those of a node: the raylet, its agents, its workers and its daemon."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if f"XDG_RUNTIME_DIR={home}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.append(int(pid))
        return found

    def remove(self, home: str) -> None:
        """After its processes were killed."""
        self.cluster.remove_node(self.nodes.pop(home), allow_graceful=False)
        for pid in self.processes(home):  # workers that Ray was just starting
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        kills.support.wait_until(self.known, "Ray to notice that the node is gone", kills.LIMIT)
        self.offered()

    def known(self) -> bool:
        """Ray counts exactly the nodes that run."""
        wanted = {node.node_id for node in (self.cluster.head_node, *self.nodes.values())}
        return wanted == {node["NodeID"] for node in ray.nodes() if node["Alive"]}

    def offered(self) -> "dict[str, float] | None":
        """The CPUs of each node that Ray Train would give to a job that asks for all now. None: no job has run yet.

        An actor that outlives the jobs divides the CPUs. It looks at the nodes every 20 seconds: until then, a job
        that may have two or four workers would begin with two where a node was killed and another one came. This
        asks it as a job does, and makes it look at the nodes first."""
        try:
            coordinator = ray.get_actor("AutoscalingCoordinator", namespace="AutoscalingCoordinator")
        except ValueError:
            return None
        ray.get(coordinator.request_resources.remote("test", [{"CPU": 1}] * (2 * len(self.nodes)), 60))
        found = ray.get(coordinator.get_reserved_resources.remote("test", recompute=True))
        ray.get(coordinator.cancel_request.remote("test"))
        return {node: resources.get("CPU", 0) for node, resources in found.items()}

    def until_free(self) -> None:
        """Waits until no job has a CPU, and Ray and Ray Train offer exactly those of the nodes that run."""

        def free() -> bool:
            if not self.known() or ray.available_resources().get("CPU", 0) != 2 * len(self.nodes):
                return False
            return self.offered() in (None, {node.node_id: 2 for node in self.nodes.values()})

        kills.support.wait_until(free, "the CPUs of the job before to be free", kills.LIMIT)

    def end(self) -> None:
        ray.shutdown()
        homes = list(self.nodes)
        self.cluster.shutdown()
        for home in homes:
            for pid in self.processes(home):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class RayTrain(kills.Case):
    nodes: Nodes

    @classmethod
    def setUpClass(cls) -> None:
        cls.nodes = Nodes()
        cls.addClassCleanup(cls.nodes.end)
        for _ in range(2):
            cls.nodes.add()

    def start(self, job: Job, workers: str, failures: int = 3) -> None:
        self.nodes.until_free()
        job.start(sys.executable, HERE / "ray_driver.py", "--train", kills.dataset(), "--model", "shufflenet_v2_x0_5", "--classes", 3,
                  "--image-size", 32, "--global-batch-size", GLOBAL, "--lr", 0.01, "--epochs", EPOCHS, "--seed", SEED, "--workers", workers,
                  "--storage", job.home / "storage", "--name", "run", "--checkpoint-steps", CHECKPOINT, "--max-failures", failures,
                  RAY_ADDRESS=self.nodes.cluster.address)

    def finish(self, job: Job) -> "dict[str, Any]":
        """Returns the weights of the last checkpoint."""
        self.assertEqual(job.end(), 0, job.said())
        last = max((job.home / "storage/run").glob("checkpoint_*/checkpoint.pt"), key=lambda path: path.stat().st_mtime_ns)
        parts = torch.load(last, weights_only=True)
        self.assertEqual((parts["step"], parts["loader"]["epoch"], parts["loader"]["position"]), (kills.STEPS, EPOCHS, 0))
        return dict(parts["model"])

    def test_worker_killed(self) -> None:
        job = self.job("whole")
        self.start(job, "2")
        whole = self.finish(job)
        kills.check(self, job.records, [2])
        for turn, steps in enumerate(kills.rounds()):
            with self.subTest(steps=steps):
                job = self.job(str(turn))
                self.start(job, "2", failures=len(steps))
                for number, step in enumerate(steps):
                    job.kill(next(rank.pid for rank in job.under_way(step, 2, number) if rank.rank == number % 2), last=step == steps[-1])
                self.same_weights(self.finish(job), whole)
                self.resumed(kills.check(self, job.records, [2] * (len(steps) + 1)), steps)

    def test_node_killed(self) -> None:
        """Four workers on two nodes, of which one is killed: the job goes on with the two of the other node."""
        for turn, step in enumerate(step for steps in kills.rounds() for step in steps):
            with self.subTest(step=step):
                job, home = self.job(str(turn)), list(self.nodes.nodes)[turn % 2]
                self.start(job, "2:4")
                ranks = job.under_way(step, 4, 0)
                pids = self.nodes.processes(home)
                self.assertEqual(len(set(pids) & {rank.pid for rank in ranks}), 2, "workers on the node")
                job.kill(*pids)
                self.nodes.remove(home)
                self.finish(job)
                self.resumed(kills.check(self, job.records, [4, 2]), [step])
                self.nodes.add()

    def test_another_number_of_workers(self) -> None:
        """The job ends with its worker; the same command with another number of workers continues it."""
        for turn, steps in enumerate(kills.rounds()):
            with self.subTest(steps=steps):
                job, sizes = self.job(str(turn)), [2, 3, 4, 1, 2][:len(steps) + 1]
                for number, (workers, step) in enumerate(zip(sizes, steps)):
                    self.start(job, str(workers), failures=0)
                    job.kill(next(rank.pid for rank in job.under_way(step, workers, number) if rank.rank == number % workers),
                             last=step == steps[-1])
                    self.assertNotEqual(job.end(), 0, "the job outlived a worker, with --max-failures 0")
                self.start(job, str(sizes[-1]))
                self.finish(job)
                self.resumed(kills.check(self, job.records, sizes), steps)

    def resumed(self, begins: "list[tuple[int, int]]", steps: "list[int]") -> None:
        """Each run went on from the last checkpoint that Ray knew: the one before the kill, or, if its report had not arrived, the
        one before that."""
        for begin, step in zip(begins[1:], steps):
            self.assertGreaterEqual(kills.step_of(begin), kills.checkpoint_before(step - 1 - CHECKPOINT))


if __name__ == "__main__":
    kills.main("Ray Train")
