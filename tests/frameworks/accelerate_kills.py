#!/usr/bin/env python3
"""client/python/examples/train_accelerate.py as it stands, over several processes, killed and resumed by Accelerate's checkpoints."""

from __future__ import annotations

import sys
from typing import Any

import kills
from kills import CHECKPOINT, EPOCHS, GLOBAL, HERE, SEED, Job

kills.support.require("torch", "torchvision", "accelerate")

from safetensors.torch import load_file  # noqa: E402


class Accelerate(kills.Case):
    def start(self, job: Job, ranks: int) -> None:
        """The same command begins and resumes. `accelerate launch --cpu` starts one process, whatever --num_processes says (unless
        mpirun starts the others), so torchrun starts them."""
        job.start(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, HERE / "recording.py",
                  "--train", kills.dataset(), "--model", "shufflenet_v2_x0_5", "--classes", 3, "--image-size", 32, "--batch-size", GLOBAL // ranks,
                  "--lr", 0.01, "--epochs", EPOCHS, "--seed", SEED, "--checkpoint-steps", CHECKPOINT, "--checkpoint", job.home / "checkpoints", "--resume",
                  ACCELERATE_USE_CPU="true", EXAMPLE=str(kills.EXAMPLES / "train_accelerate.py"))

    def finish(self, job: Job, ranks: int) -> "dict[str, Any]":
        """Returns the weights."""
        self.start(job, ranks)
        self.assertEqual(job.end(), 0, job.said())
        last = job.home / "checkpoints/last"
        self.assertEqual(str(last.readlink()), f"epoch-{EPOCHS}-sample-0")
        return dict(load_file(last / "model.safetensors"))

    def killed(self, job: Job, sizes: "list[int]", steps: "list[int]") -> None:
        """Starts the job with each number of ranks in turn, and kills a rank of each run after its step."""
        for number, (ranks, step) in enumerate(zip(sizes, steps)):
            self.start(job, ranks)
            job.kill(next(rank.pid for rank in job.under_way(step, ranks, number) if rank.rank == number % ranks), last=step == steps[-1])
            self.assertNotEqual(job.end(), 0, "the job outlived a rank that was killed")
            job.stop()

    def check(self, job: Job, sizes: "list[int]", steps: "list[int]") -> None:
        begins = kills.check(self, job.records, sizes)
        for first, begin, step in zip(begins, begins[1:], steps):
            self.assertGreaterEqual(kills.step_of(begin), kills.checkpoint_before(step - 1, kills.step_of(first)))

    def test_rank_killed(self) -> None:
        whole = self.finish(self.job("whole"), 2)
        for turn, steps in enumerate(kills.rounds()):
            with self.subTest(steps=steps):
                job = self.job(str(turn))
                self.killed(job, [2] * len(steps), steps)
                self.same_weights(self.finish(job, 2), whole)
                self.check(job, [2] * (len(steps) + 1), steps)

    def test_another_number_of_processes(self) -> None:
        for turn, steps in enumerate(kills.rounds()):
            with self.subTest(steps=steps):
                job, sizes = self.job(str(turn)), [2, 3, 1, 4, 2][:len(steps) + 1]
                self.killed(job, sizes, steps)
                self.finish(job, sizes[-1])
                self.check(job, sizes, steps)


if __name__ == "__main__":
    kills.main("Accelerate")
