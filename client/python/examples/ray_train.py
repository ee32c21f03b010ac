#!/usr/bin/env python3
"""The loader with Ray Train: the job goes on after it lost a worker or a node.

    ray_train.py --train ~/imagenet/train --storage /shared/runs --name first --workers 8
    ray_train.py ... --workers 6        # the same storage and name: goes on, with six workers
    ray_train.py ... --workers 2:8      # with as many of eight as the cluster has, and at least two

Each worker creates its loader within train_loop, where Ray has set RANK and WORLD_SIZE, so nothing
has to be configured: a worker gets its part of every global batch, and the workers of a node share
one daemon. The loader is not passed to ray.train.torch.prepare_data_loader(), which divides a
DataLoader among workers. ray.train.report() saves the loader's position beside the weights.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any, Union

import ray.train
import ray.train.torch
import torch
import torchvision
from torch import nn

import penstock


def save(step: int, loss: float, net: nn.Module, optimizer: torch.optim.Optimizer, loader: penstock.Loader) -> None:
    """Every worker reports, and the one with rank 0 adds a checkpoint: the weights and the loader's
    position after the same step."""
    state = loader.state_dict()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if ray.train.get_context().get_world_rank() == 0:
            parts = {"step": step, "loader": state, "model": net.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(parts, Path(folder) / "checkpoint.pt")
            checkpoint = ray.train.Checkpoint.from_directory(folder)
        ray.train.report({"step": step, "epoch": state["epoch"], "loss": loss}, checkpoint=checkpoint)


def train_loop(config: dict[str, Any]) -> None:
    """What each worker runs."""
    world_size = ray.train.get_context().get_world_size()
    batch_size, rest = divmod(config["global_batch_size"], world_size)
    if rest:
        raise ValueError(f"a global batch of {config['global_batch_size']} cannot be divided among {world_size} workers")
    device = ray.train.torch.get_device()
    loader = penstock.Loader(config["train"], batch_size=batch_size, image_size=config["image_size"],
                             seed=config["seed"], device=device)
    torch.manual_seed(config["seed"])
    net = torchvision.models.get_model(config["model"], num_classes=config["classes"]).to(memory_format=torch.channels_last)
    model = ray.train.torch.prepare_model(net)  # moves it to the device, and averages gradients of all workers
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9, weight_decay=1e-4)
    step = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            parts = torch.load(Path(folder) / "checkpoint.pt", map_location=device, weights_only=True)
        net.load_state_dict(parts["model"])
        optimizer.load_state_dict(parts["optimizer"])
        loader.load_state_dict(parts["loader"])
        step = parts["step"]
        print(f"going on after step {step}, in epoch {loader.epoch}, with {world_size} workers", flush=True)

    while loader.epoch < config["epochs"]:
        model.train()
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % config["checkpoint_steps"] == 0 or not loader.remaining:
                save(step, loss.item(), net, optimizer, loader)


def workers(text: str) -> Union[int, tuple[int, int]]:
    """`8`, or `2:8`."""
    numbers = [int(number) for number in text.split(":")]
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", required=True, help="a folder of class folders, or tar files, as all nodes see it")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--global-batch-size", type=int, default=256, help="of all workers together")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=workers, default=1, metavar="N or MIN:MAX")
    parser.add_argument("--gpu", action="store_true", help="a GPU for each worker")
    parser.add_argument("--storage", required=True, help="a folder or a URL that all nodes can write to")
    parser.add_argument("--name", required=True, help="of the run; the same storage and name continue it")
    parser.add_argument("--checkpoint-steps", type=int, default=1000)
    parser.add_argument("--max-failures", type=int, default=3, help="how often lost workers are replaced")
    args = parser.parse_args()

    trainer = ray.train.torch.TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ray.train.ScalingConfig(num_workers=args.workers, use_gpu=args.gpu),
        run_config=ray.train.RunConfig(
            name=args.name,
            storage_path=args.storage,
            failure_config=ray.train.FailureConfig(max_failures=args.max_failures),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"done: {result.metrics}, checkpoint {result.checkpoint.path if result.checkpoint else None}")


if __name__ == "__main__":
    main()
