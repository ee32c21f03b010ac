#!/usr/bin/env python3
"""The loader with Hugging Face Accelerate, stopped and resumed.

    accelerate launch train_accelerate.py --train ~/imagenet/train --val ~/imagenet/val --resume
    # the same command continues after the last checkpoint, on any number of processes

    torchrun --nproc-per-node 2 train_accelerate.py ...     # two processes on the CPU

The loader is not passed to accelerator.prepare(), which divides a DataLoader among processes and
moves its batches (prepare() returns a penstock.Loader as it is). penstock's loader divides its
batches itself, by RANK and WORLD_SIZE, which `accelerate launch` sets, and its batches are already
on the device. register_for_checkpointing() makes save_state() save the loader's position.

save_state() writes several files. Each checkpoint is a folder of its own, and the link `last` is
replaced when the folder is whole: a job that is killed while it saves keeps the one before.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

import torch
import torchvision
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn

import penstock


@torch.inference_mode()
def evaluate(accelerator: Accelerator, model: nn.Module, loader: penstock.Loader) -> float:
    """The share of correct predictions. It counts every image once, for any number of processes."""
    model.eval()
    sums = torch.zeros(2, dtype=torch.float64, device=accelerator.device)
    for batch in loader.batches():
        counts = torch.from_numpy(batch.valid).to(accelerator.device)
        right = model(batch.images).argmax(1) == batch.labels
        sums += torch.stack([(right & counts).sum(), counts.sum()])
    right_all, count = accelerator.reduce(sums, "sum").tolist()
    return right_all / count


def save(accelerator: Accelerator, folder: Path, loader: penstock.Loader) -> None:
    """Saves one moment: weights, optimizer, random states and the loader's position."""
    name = "epoch-{epoch}-sample-{position}".format_map(loader.state_dict())
    accelerator.save_state(str(folder / name))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        link = folder / "new"
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        os.replace(link, folder / "last")
        for old in folder.glob("epoch-*"):
            if old.name != name:
                shutil.rmtree(old)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", required=True, help="a folder of class folders, or tar files")
    parser.add_argument("--val")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=256, help="per process")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="stop after this many steps of this run")
    parser.add_argument("--mixed-precision", default=None, help="no, fp16 or bf16")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint"), help="a folder")
    parser.add_argument("--checkpoint-steps", type=int, default=1000)
    parser.add_argument("--resume", action="store_true", help="from the last checkpoint, if there is one")
    args = parser.parse_args()

    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    common = {"batch_size": args.batch_size, "image_size": args.image_size, "device": accelerator.device}
    loader = penstock.Loader(args.train, train=True, seed=args.seed, **common)
    val = penstock.Loader(args.val, train=False, **common) if args.val else None

    set_seed(args.seed)
    net = torchvision.models.get_model(args.model, num_classes=args.classes).to(memory_format=torch.channels_last)
    model, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9))
    accelerator.register_for_checkpointing(loader)
    if args.resume and (args.checkpoint / "last").exists():
        accelerator.load_state(str(args.checkpoint / "last"))

    step = 0
    for epoch in range(loader.epoch, args.epochs):
        loader.set_epoch(epoch)  # changes nothing after a state of this epoch was loaded
        model.train()
        for images, labels in loader:
            with accelerator.autocast():
                loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            if step % args.checkpoint_steps == 0 or step == args.steps or not loader.remaining:
                save(accelerator, args.checkpoint, loader)
            if step == args.steps:
                accelerator.print(f"leaving after {step} steps; --resume goes on")
                accelerator.end_training()
                return
        accuracy = f", {100 * evaluate(accelerator, model, val):.2f} % right" if val else ""
        accelerator.print(f"epoch {epoch}: loss {loss.item():.3f}{accuracy}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
