"""Two ranks with torchrun and gloo on the CPU: what they read together, that their gradients are
averaged, and how a job continues after one rank was killed, with another number of ranks.

192 images, 8 in a rank's batch: 24 steps with one rank, 12 with two; no image is left over.

    torch_distributed.py --worker FOLDER EPOCHS [KILL_RANK KILL_STEP]      one rank, as torchrun starts it
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

BATCH, SAMPLES = 8, 192
CHECKPOINT_STEPS = 4  # an even number of steps of one rank, so that two ranks continue without half a batch left over


def worker(folder: Path, source: str, epochs: int, kill_rank: int, kill_step: int) -> None:
    """Trains one layer and writes a line for each step: the rows that it saw, and its gradient."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import penstock

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = torch.nn.Linear(3 * 32 * 32, 3)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = penstock.Loader(source, batch_size=BATCH, image_size=32, seed=7, device="cpu")
    step = 0
    path = folder / "checkpoint.pt"
    if path.exists():
        checkpoint = torch.load(path, weights_only=True)
        net.load_state_dict(checkpoint["model"])
        loader.load_state_dict(checkpoint["loader"])
        step = checkpoint["step"]
    with open(folder / f"rank{rank}of{world}", "w") as log:
        while loader.epoch < epochs:
            for batch in loader.batches():
                step += 1
                x = batch.images.reshape(BATCH, -1)
                loss = torch.nn.functional.cross_entropy(model(x), batch.labels)
                # The gradient of only this rank's rows.
                own = torch.nn.functional.cross_entropy(net(x), batch.labels)
                alone = torch.autograd.grad(own, net.weight)[0]
                optimizer.zero_grad()
                loss.backward()
                assert net.weight.grad is not None
                dist.all_reduce(alone)
                error = float((net.weight.grad - alone / world).abs().max() / alone.abs().max())
                optimizer.step()
                line = {"step": step, "epoch": batch.epoch, "rows": batch.samples["index"].tolist(), "error": error,
                        "positions": batch.samples["position"].tolist(), "norm": float(net.weight.norm())}
                log.write(json.dumps(line) + "\n")
                log.flush()
                if rank == kill_rank and step == kill_step:
                    os.kill(os.getpid(), signal.SIGKILL)
                if step % CHECKPOINT_STEPS == 0:
                    if rank == 0:
                        parts = {"model": net.state_dict(), "loader": loader.state_dict(), "step": step}
                        torch.save(parts, folder / "new")
                        os.replace(folder / "new", path)
                    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__" and sys.argv[1:2] == ["--worker"]:
    worker(Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:7]))
    sys.exit(0)

import support  # noqa: E402

support.require("torch")

import torch  # noqa: E402

from support import penstock  # noqa: E402


def launch(folder: Path, ranks: int, epochs: int, kill: "tuple[int, int]" = (-1, -1)) -> "subprocess.CompletedProcess[str]":
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    arguments = ["--worker", str(folder), support.dataset(per_class=64), str(epochs), *map(str, kill)]
    return subprocess.run([sys.executable, *launcher, str(Path(__file__).resolve()), *arguments],
                          env={**os.environ, "OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=2 * support.LIMIT)


def log(folder: Path, rank: int, ranks: int) -> "list[dict[str, Any]]":
    return [json.loads(line) for line in (folder / f"rank{rank}of{ranks}").read_text().splitlines()]


def undisturbed(epochs: int) -> "list[tuple[int, int]]":
    """(epoch, row) in the order of a single loader."""
    with penstock.Loader(support.dataset(per_class=64), batch_size=BATCH, image_size=32, seed=7, dtype="uint8") as loader:
        batches = (batch for _ in range(epochs) for batch in loader.batches())
        return [(batch.epoch, int(row)) for batch in batches for row in batch.samples["index"]]


def seen(folder: Path, ranks: int) -> "dict[int, list[tuple[int, int]]]":
    """By step: the rows that the ranks got, in the order of ranks."""
    steps: "dict[int, list[tuple[int, int]]]" = {}
    for rank in range(ranks):
        for line in log(folder, rank, ranks):
            steps.setdefault(line["step"], []).extend((line["epoch"], row) for row in line["rows"])
    return steps


class Ranks(unittest.TestCase):
    def setUp(self) -> None:
        self.home = support.folder / self.id().rsplit(".", 1)[1]
        self.home.mkdir()

    def finish(self, ranks: int, epochs: int) -> None:
        answer = launch(self.home, ranks, epochs)
        self.assertEqual(answer.returncode, 0, answer.stdout[-6000:])

    def test_two_ranks_are_one_epoch(self) -> None:
        self.finish(2, 1)
        first, second = (log(self.home, rank, 2) for rank in (0, 1))
        self.assertEqual(len(first), SAMPLES // BATCH // 2)
        self.assertEqual(len(second), len(first), "unequal numbers of steps")
        rows = [[row for line in lines for row in line["rows"]] for lines in (first, second)]
        self.assertEqual(sorted(rows[0] + rows[1]), list(range(SAMPLES)), "together they are not each sample once")
        self.assertEqual([pair for _, pairs in sorted(seen(self.home, 2).items()) for pair in pairs], undisturbed(1))
        for one, other in zip(first, second):
            self.assertEqual(one["norm"], other["norm"], "the ranks' weights differ")
            self.assertLess(max(one["error"], other["error"]), 1e-4, "what was applied is not the mean of the ranks' gradients")

    def kill_and_go_on(self, before: int, after: int, kill: "tuple[int, int]") -> None:
        """The job ends with the rank that is killed in mid-epoch; a job with another world size
        continues from its last checkpoint."""
        answer = launch(self.home, before, 2, kill)
        self.assertNotEqual(answer.returncode, 0, "the job outlived a rank that was killed")
        self.assertIn("SIGKILL", answer.stdout)
        saved = torch.load(self.home / "checkpoint.pt", weights_only=True)["step"]
        self.assertTrue(0 < saved <= kill[1], saved)
        given = [pair for step, pairs in sorted(seen(self.home, before).items()) if step <= saved for pair in pairs]
        self.assertEqual(len(given), saved * before * BATCH)
        self.finish(after, 2)
        given += [pair for _, pairs in sorted(seen(self.home, after).items()) for pair in pairs]
        self.assertEqual(given, undisturbed(2))

    def test_two_ranks_killed_one_goes_on(self) -> None:
        self.kill_and_go_on(2, 1, (1, 9))

    def test_one_rank_killed_two_go_on(self) -> None:
        self.kill_and_go_on(1, 2, (0, 10 + SAMPLES // BATCH))  # in the second epoch


NODES = """
import os, socket, sys
from datetime import timedelta
import torch.distributed as dist
import penstock
rank = int(os.environ["RANK"])
socket.gethostname = lambda: f"n{rank + 1}"
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/meet", rank=rank, world_size=2, timeout=timedelta(seconds=60))
def read(folder, **keys):
    os.chdir(folder)
    try:
        with penstock.Loader("data", batch_size=8, image_size=32, device="cpu", **keys) as loader:
            print("reads", loader.state_dict()["fingerprint"], flush=True)
    except penstock.GroupError as error:
        print("refused:", error, flush=True)
if rank == 0:
    read(sys.argv[2], seed=1)         # a loader that only this rank has: it waits for no other one
read(sys.argv[2 + rank], rank=0, world_size=1)
read(sys.argv[2], seed=2)
if rank == 0:
    read(sys.argv[2])
dist.barrier()
if rank == 1:
    read(sys.argv[3])
dist.barrier()
"""


class Nodes(unittest.TestCase):
    def test_a_node_with_another_version_is_refused(self) -> None:
        """Two ranks, on two nodes as far as they know: each with a daemon, and with its own version of the dataset "data"."""
        folders = [support.folder / "old", support.folder / "new"]
        for folder, seed in zip(folders, (1, 2)):
            folder.mkdir()
            os.symlink(support.dataset(per_class=8, seed=seed), folder / "data")
        for rank in (0, 1):
            (support.folder / f"run/{rank}").mkdir(mode=0o700)
        ranks = [subprocess.Popen([sys.executable, "-c", NODES, str(support.folder), *map(str, folders)], stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "XDG_RUNTIME_DIR": str(support.folder / f"run/{rank}")})
                 for rank in (0, 1)]
        texts = [rank.communicate(timeout=2 * support.LIMIT)[0].splitlines() for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0])
        old, new = texts[0][0], texts[1][0]
        self.assertNotEqual(old, new)
        self.assertEqual(texts[0], [old] * 4)
        self.assertEqual(texts[1][:2], [new, old])
        self.assertEqual(texts[1][2:], [
            f"refused: rank 1 on node n2 reads other samples than rank 0 on node n1: the fingerprint is {new.split()[1]} on n2 and "
            f"{old.split()[1]} on n1; give all nodes the same version of the dataset, and start the job again"])


if __name__ == "__main__":
    support.main()
