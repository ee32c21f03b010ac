#!/usr/bin/env python3
"""Trains on images of several shapes: each batch has the one shape that fits its images best.

    buckets.py ~/imagenet/train --checkpoint buckets.pt       # Ctrl-C
    buckets.py ~/imagenet/train --checkpoint buckets.pt       # continues

A bucket is a shape, (height, width). Each image goes to the bucket whose aspect ratio is nearest to
its own, so that little of it is cut off. Which batch has which shape is a function of the seed and
the epoch: a run resumes exactly, also with another number of ranks, and all ranks have batches of
the same shape at the same step. The net takes images of any size.
"""

from __future__ import annotations

import argparse
import os
import signal
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import nn

import penstock


def shape(text: str) -> "tuple[int, int]":
    height, width = text.lower().split("x")
    return int(height), int(width)


def small_net(classes: int) -> nn.Module:
    layers: "list[nn.Module]" = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def save(path: Path, **parts: Any) -> None:
    temporary = path.with_suffix(".new")
    torch.save(parts, temporary)
    os.replace(temporary, path)


def hash_of(model: nn.Module) -> int:
    value = 0
    for tensor in model.state_dict().values():
        value = zlib.crc32(tensor.numpy().tobytes(), value)
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", help="a folder of class folders")
    parser.add_argument("--buckets", type=shape, nargs="+", default=[(256, 192), (224, 224), (192, 256)], metavar="HxW")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="stop after this many steps of this run")
    parser.add_argument("--checkpoint", type=Path)
    args = parser.parse_args()

    stop: "list[int]" = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda which, frame: stop.append(which))

    loader = penstock.Loader(args.source, batch_size=args.batch_size, buckets=args.buckets, seed=args.seed, device="cpu")
    torch.manual_seed(args.seed)
    model = small_net(len(loader.classes)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    step = epoch = 0
    if args.checkpoint and args.checkpoint.exists():
        checkpoint: "dict[str, Any]" = torch.load(args.checkpoint, weights_only=True)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        loader.load_state_dict(checkpoint["loader"])
        step, epoch = checkpoint["step"], checkpoint["loader"]["epoch"]
        print(f"going on after step {step}, in epoch {epoch}", flush=True)

    last = step + args.steps if args.steps else None
    for epoch in range(epoch, args.epochs):
        loader.set_epoch(epoch)  # changes nothing after a state of this epoch was loaded
        losses, shapes = [], Counter()
        for images, labels in loader:  # (batch_size, 3, height, width), of this batch's bucket
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            shapes[f"{images.shape[2]}x{images.shape[3]}"] += 1
            step += 1
            if stop or step == last:
                break
        told = ", ".join(f"{count} of {name}" for name, count in sorted(shapes.items()))
        print(f"epoch {epoch} step {step}: loss {sum(losses) / max(len(losses), 1):.3f}; batches: {told}", flush=True)
        if args.checkpoint:
            save(args.checkpoint, step=step, loader=loader.state_dict(), model=model.state_dict(), optimizer=optimizer.state_dict())
        if stop or step == last:
            break
    print(f"{'stopped' if stop else 'done'} after step {step}, weights {hash_of(model):08x}")


if __name__ == "__main__":
    main()
