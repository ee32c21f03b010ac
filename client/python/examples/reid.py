#!/usr/bin/env python3
"""Learns to tell persons apart: tall images, batches of P identities with K images of each, and the
triplet loss.

    reid.py ~/market1501/train --checkpoint reid.pt       # Ctrl-C
    reid.py ~/market1501/train --checkpoint reid.pt       # continues

The source is a folder with one folder per identity, or tars with .cls members. With --manifest it
is a folder of images, as that of Market-1501, and a CSV file of each image's identity and camera
(path,pid,camid); images that the file does not name are left out. Every batch has exactly P x K
rows: the K rows of an identity are adjacent. An identity with fewer than K images repeats some of
them. The net is small, so that the example runs on a CPU.
"""

from __future__ import annotations

import argparse
import os
import signal
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

import penstock

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def recipe(height: int, width: int) -> "list[Any]":
    """The usual recipe of re-identification: resize, pad, crop, flip, erase."""
    return [
        {"Resize": {"size": (height, width), "interpolation": "bicubic"}},
        {"RandomCrop": {"size": (height, width), "padding": 10}},
        "RandomHorizontalFlip",
        "ToTensor",
        {"Normalize": {"mean": MEAN, "std": STD}},
        {"RandomErasing": {"p": 0.5, "scale": (0.02, 0.4), "ratio": (0.3, 3.3)}},
    ]


class Net(nn.Module):
    """Returns an embedding of each image, and the scores of the identities."""

    def __init__(self, identities: int) -> None:
        super().__init__()
        layers: "list[nn.Module]" = []
        for before, after in ((3, 16), (16, 32), (32, 64)):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        self.backbone = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.neck = nn.BatchNorm1d(64)
        self.classifier = nn.Linear(64, identities, bias=False)

    def forward(self, images: torch.Tensor) -> "tuple[torch.Tensor, torch.Tensor]":
        embedding = self.backbone(images)
        return embedding, self.classifier(self.neck(embedding))


def triplet_loss(embeddings: torch.Tensor, labels: torch.Tensor, margin: float = 0.3) -> torch.Tensor:
    """Of each row: its farthest row of the same identity must be nearer than its nearest row of
    another one."""
    distances = torch.cdist(embeddings, embeddings)
    same = labels[:, None] == labels[None, :]
    farthest = distances.masked_fill(~same, float("-inf")).amax(1)
    nearest = distances.masked_fill(same, float("inf")).amin(1)
    return nn.functional.margin_ranking_loss(nearest, farthest, torch.ones_like(nearest), margin)


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
    parser.add_argument("source", help="a folder with one folder per identity, or tar files")
    parser.add_argument("--manifest", help="a CSV file with the columns path, pid and camid")
    parser.add_argument("--identities", type=int, default=16, help="of a batch (P)")
    parser.add_argument("--images", type=int, default=4, help="of each identity of a batch (K)")
    parser.add_argument("--size", type=int, nargs=2, default=(256, 128), help="height and width")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="stop after this many steps of this run")
    parser.add_argument("--checkpoint", type=Path)
    args = parser.parse_args()

    stop: "list[int]" = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda which, frame: stop.append(which))

    # Each label is then (pid, camid). `sampling` takes the first as the class.
    named: "dict[str, Any]" = {"labels": {"manifest": args.manifest, "type": "classes", "only": True}} if args.manifest else {}
    loader = penstock.Loader(args.source, batch_size=args.identities * args.images, seed=args.seed, device="cpu", **named,
                             sampling={"classes": args.identities, "per_class": args.images}, transforms=recipe(*args.size))
    torch.manual_seed(args.seed)
    people = 1 + max(pid for pid, _ in loader.dataset.targets) if args.manifest else len(loader.classes)
    model = Net(people).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=3.5e-3, weight_decay=5e-4)
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
        for images, labels in loader:
            identities = labels[:, 0] if args.manifest else labels
            embeddings, scores = model(images)
            loss = nn.functional.cross_entropy(scores, identities) + triplet_loss(embeddings, identities)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
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
