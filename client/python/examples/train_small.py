#!/usr/bin/env python3
# A map of this folder:
#   train_small.py       PyTorch on the CPU, the smallest one: start here
#   train_imagenet.py    PyTorch on ImageNet: one GPU, many under torchrun, or the CPU
#   torchrun_elastic.py  PyTorch under torchrun, while nodes die and come back
#   train_accelerate.py  Hugging Face Accelerate
#   train_lightning.py   Lightning
#   ray_train.py         Ray Train
#   train_jax.py         JAX
#   train_numpy.py       NumPy only
#   buckets.py           images of several shapes: each batch has one of them
#   clip.py              images and their captions: the fields beside an image
#   dino.py              self-distillation with multi-crop: views of two sizes
#   reid.py              re-identification: tall images, batches of P identities with K images
#   imagenet_val.py      sorts ImageNet's validation images into their classes
"""Trains a small net on the CPU in a minute; you can stop and resume it at any time.

    make_dataset images                               # or your own folder of class folders
    train_small.py images --checkpoint small.pt       # Ctrl-C
    train_small.py images --checkpoint small.pt       # continues

No matter how often and where it was stopped, the weights at the end are those of an uninterrupted
run, to the last bit (on the same machine, with the same version of PyTorch and the same number of
threads). The last line prints a checksum of the weights.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

import penstock


def small_net(classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def save(path: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, loader: penstock.Loader) -> None:
    """Saves one moment: the weights after a step, and the loader's position after the same step."""
    parts = {"step": step, "loader": loader.state_dict()}
    parts |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
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
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="stop after this many steps of this run")
    parser.add_argument("--checkpoint", type=Path)
    args = parser.parse_args()

    # A signal only sets a flag, so that the current step is finished: the weights must not be those
    # of half a step.
    stop: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda which, frame: stop.append(which))

    loader = penstock.Loader(args.source, batch_size=64, image_size=64, seed=args.seed, device="cpu")
    torch.manual_seed(args.seed)
    model = small_net(len(loader.classes)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    step = epoch = 0
    if args.checkpoint and args.checkpoint.exists():
        checkpoint: dict[str, Any] = torch.load(args.checkpoint, weights_only=True)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        loader.load_state_dict(checkpoint["loader"])
        step, epoch = checkpoint["step"], checkpoint["loader"]["epoch"]
        print(f"going on after step {step}, in epoch {epoch}", flush=True)

    last = step + args.steps if args.steps else None
    for epoch in range(epoch, args.epochs):
        loader.set_epoch(epoch)  # changes nothing after a state of this epoch was loaded
        right = rows = 0
        began = time.perf_counter()
        for images, labels in loader:
            scores = model(images)
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            right += int((scores.argmax(1) == labels).sum())
            rows += len(labels)
            if stop or step == last:
                break
        rate = rows / (time.perf_counter() - began)
        print(f"epoch {epoch} step {step}: {100 * right / max(rows, 1):.1f} % right, {rate:.0f} images/s", flush=True)
        if args.checkpoint:
            save(args.checkpoint, step, model, optimizer, loader)
        if stop or step == last:
            break
    print(f"{'stopped' if stop else 'done'} after step {step}, weights {hash_of(model):08x}")


if __name__ == "__main__":
    main()
