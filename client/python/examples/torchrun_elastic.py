"""Trains under torchrun while nodes die and come back, and reads every sample of every epoch exactly
once.

    torchrun --nnodes=3:4 --nproc-per-node=2 --max-restarts=100 ... torchrun_elastic.py \
        "s3://bucket/train-{000000..000146}.tar" --checkpoints /shared/run

docs/guides/torchrun.md, in penstock's repository, has the whole command. When a node dies or joins,
torchrun ends all ranks and starts them again with another WORLD_SIZE. Three things make the job
exact then:

- The global batch stays the same. Each rank takes --global-batch / WORLD_SIZE samples of it, so a
  number that every possible world size divides is needed: 48 for 6 and 8 ranks.
- The loader's state is saved with the weights of the same step. What ranks did after the newest
  checkpoint is done again.
- A checkpoint has a name of its own and is never changed. Rank 0 says which one all ranks load, so
  ranks on nodes that see the shared folder at different times still load the same one.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import penstock

KEPT = 2  # checkpoints


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", help="tar files or a folder of class folders, local or in a bucket")
    parser.add_argument("--checkpoints", type=Path, required=True, help="a folder that all nodes share")
    parser.add_argument("--checkpoint-steps", type=int, default=10)
    parser.add_argument("--global-batch", type=int, default=48, help="samples of a step, of all ranks together")
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--classes", type=int, help="default: the number of class folders, or 1000 if there are none")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def small_net(classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.GroupNorm(4, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def share_of(global_batch: int, world: int) -> int:
    """The samples of each rank in a step."""
    if global_batch % world:
        raise SystemExit(
            f"--global-batch is {global_batch}, and {world} ranks cannot divide it evenly: choose a number that every "
            "number of ranks divides with which the job may run"
        )
    return global_batch // world


def newest(folder: Path) -> Optional[str]:
    """The name of the newest checkpoint. Rank 0 looks, and all ranks get its answer."""
    found: list[Optional[str]] = [None]
    if dist.get_rank() == 0:
        found[0] = max((path.name for path in folder.glob("step-*.pt")), default=None)
    dist.broadcast_object_list(found, src=0)
    return found[0]


def save(folder: Path, step: int, parts: "dict[str, Any]") -> None:
    """Called by rank 0 after a step. DDP has averaged the gradients of all ranks in it, so all ranks have read the
    same batches, and the state of rank 0's loader is valid for all of them."""
    temporary = folder / "new"
    with open(temporary, "wb") as file:
        torch.save(parts, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, folder / f"step-{step:09}.pt")
    for old in sorted(folder.glob("step-*.pt"))[:-KEPT]:
        old.unlink()


def main() -> None:
    args = parse()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)

    # After init_process_group(), the loader also compares the nodes' datasets.
    loader = penstock.Loader(args.source, batch_size=share_of(args.global_batch, world), image_size=args.image_size,
                             seed=args.seed, device=device)
    torch.manual_seed(args.seed)
    net = small_net(args.classes or len(loader.classes) or 1000).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    step = 0
    args.checkpoints.mkdir(parents=True, exist_ok=True)
    name = newest(args.checkpoints)
    if name is not None:
        checkpoint = torch.load(args.checkpoints / name, map_location=device, weights_only=True)
        net.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        loader.load_state_dict(checkpoint["loader"])
        step = checkpoint["step"]
    if rank == 0:
        print(f"{world} ranks begin after step {step}, in epoch {loader.epoch}", flush=True)
    model = DistributedDataParallel(net)

    while loader.epoch < args.epochs:
        epoch, loss = loader.epoch, torch.zeros(())
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if rank == 0 and (step % args.checkpoint_steps == 0 or loader.remaining == 0):
                save(args.checkpoints, step, {"step": step, "model": net.state_dict(), "optimizer": optimizer.state_dict(),
                                              "loader": loader.state_dict()})
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
