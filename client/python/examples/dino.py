#!/usr/bin/env python3
"""Self-distillation with multi-crop, as DINO does it: two large and some small views of each image.

    dino.py ~/imagenet/train --checkpoint dino.pt       # Ctrl-C
    dino.py ~/imagenet/train --checkpoint dino.pt       # continues

The daemon decodes each image once and makes all its views: each has its own recipe, its own size
and its own draws. The teacher sees the large views and the student sees all of them. The net is
small, so that the example runs on a CPU: put a vision transformer in its place.
"""

from __future__ import annotations

import argparse
import copy
import os
import signal
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import log_softmax, normalize, softmax

import penstock


def recipe(size: int, scale: "tuple[float, float]", blur: float, solarize: float = 0.0) -> "list[Any]":
    """The transforms of one kind of view. `radius` is Pillow's blur, which DINO uses."""
    jitter = {"ColorJitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.1}}
    return [
        {"RandomResizedCrop": {"size": size, "scale": scale, "interpolation": "bicubic"}},
        "RandomHorizontalFlip",
        {"RandomApply": {"transforms": [jitter], "p": 0.8}},
        {"RandomGrayscale": {"p": 0.2}},
        {"RandomApply": {"transforms": [{"GaussianBlur": {"radius": (0.1, 2.0)}}], "p": blur}},
        {"RandomSolarize": {"threshold": 128, "p": solarize}},
    ]


class Net(nn.Module):
    """Takes images of any size and returns `width` scores of each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers: "list[nn.Module]" = []
        for before, after in ((3, 16), (16, 32), (32, 64)):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.GroupNorm(4, after), nn.GELU()]
        self.backbone = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32))
        self.last = nn.Linear(32, width, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.last(normalize(self.head(self.backbone(images)), dim=-1))


class Distillation(nn.Module):
    """The student, its slow average (the teacher), and the mean of the teacher's scores."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.student = Net(width)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.register_buffer("center", torch.zeros(width))

    def loss(self, views: "tuple[torch.Tensor, ...]") -> torch.Tensor:
        """The mean cross-entropy of each student's view and each teacher's view of the same image
        that are not the same view. The first two views are the teacher's."""
        with torch.no_grad():
            targets = torch.stack([self.teacher(view) for view in views[:2]])
            sharp = softmax((targets - self.center) / 0.04, dim=-1)
            self.center.lerp_(targets.mean((0, 1)), 0.1)
        guesses = [log_softmax(self.student(view) / 0.1, dim=-1) for view in views]
        pairs = [-(sharp[i] * guess).sum(-1).mean() for i in range(2) for j, guess in enumerate(guesses) if i != j]
        return torch.stack(pairs).mean()

    @torch.no_grad()
    def follow(self, momentum: float) -> None:
        for slow, fast in zip(self.teacher.parameters(), self.student.parameters()):
            slow.lerp_(fast, 1 - momentum)


def save(path: Path, **parts: Any) -> None:
    temporary = path.with_suffix(".new")
    torch.save(parts, temporary)
    os.replace(temporary, path)


def hash_of(model: nn.Module) -> int:
    value = 0
    for tensor in model.state_dict().values():
        value = zlib.crc32(tensor.cpu().numpy().tobytes(), value)
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", help="a folder of images, with or without class folders, or tar files")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--sizes", type=int, nargs=2, default=(224, 96), help="of large and small views")
    parser.add_argument("--small-views", type=int, default=8)
    parser.add_argument("--width", type=int, default=256, help="scores that the head gives")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="stop after this many steps of this run")
    parser.add_argument("--checkpoint", type=Path)
    args = parser.parse_args()

    stop: "list[int]" = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda which, frame: stop.append(which))

    large, small = args.sizes
    loader = penstock.Loader(args.source, batch_size=args.batch_size, seed=args.seed, labels="none", device="cpu", views=[
        {"transforms": recipe(large, (0.4, 1.0), blur=1.0)},
        {"transforms": recipe(large, (0.4, 1.0), blur=0.1, solarize=0.2)},
        {"transforms": recipe(small, (0.05, 0.4), blur=0.5), "count": args.small_views},
    ])
    torch.manual_seed(args.seed)
    model = Distillation(args.width)
    optimizer = torch.optim.AdamW(model.student.parameters(), lr=1e-3)
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
        losses = []
        for views, _ in loader:  # two tensors of large views, then one of each small view
            loss = model.loss(views)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.follow(0.99)
            losses.append(loss.item())
            step += 1
            if stop or step == last:
                break
        print(f"epoch {epoch} step {step}: loss {sum(losses) / max(len(losses), 1):.3f}", flush=True)
        if args.checkpoint:
            save(args.checkpoint, step=step, loader=loader.state_dict(), model=model.state_dict(), optimizer=optimizer.state_dict())
        if stop or step == last:
            break
    print(f"{'stopped' if stop else 'done'} after step {step}, weights {hash_of(model):08x}")


if __name__ == "__main__":
    main()
