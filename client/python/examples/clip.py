#!/usr/bin/env python3
"""Learns images and their captions together, as CLIP does: each image must be nearest to its own caption.

    clip.py "shards/{000000..000009}.tar" --checkpoint clip.pt       # Ctrl-C
    clip.py "shards/{000000..000009}.tar" --checkpoint clip.pt       # continues

A sample is an image and a caption beside it, with the same name and the extension .txt, in tars
(cat.jpg, cat.txt) or in a folder. The daemon delivers the caption's bytes with the image. Both
encoders are small, so that the example runs on a CPU: the text encoder reads bytes, where you would
put a tokenizer and a transformer.
"""

from __future__ import annotations

import argparse
import os
import signal
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize

import penstock


def tokens_of(captions: "Sequence[bytes]", length: int) -> torch.Tensor:
    """The bytes of each caption, padded with 0."""
    rows = [list(caption[:length].ljust(length, b"\0")) for caption in captions]
    return torch.tensor(rows, dtype=torch.int64)


class Pair(nn.Module):
    """An image encoder, a text encoder, and the temperature of their products."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        layers: "list[nn.Module]" = []
        for before, after in ((3, 16), (16, 32), (32, width)):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        self.image = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, width))
        self.bytes = nn.Embedding(256, width, padding_idx=0)
        self.text = nn.Sequential(nn.Conv1d(width, width, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(),
                                  nn.Linear(width, width))
        self.scale = nn.Parameter(torch.tensor(2.0))

    def loss(self, images: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        image = normalize(self.image(images), dim=-1)
        text = normalize(self.text(self.bytes(tokens).transpose(1, 2)), dim=-1)
        scores = self.scale.exp() * image @ text.T
        target = torch.arange(len(scores))
        return (cross_entropy(scores, target) + cross_entropy(scores.T, target)) / 2


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
    parser.add_argument("source", help="tar files, or a folder, of images with a .txt beside each")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--caption-bytes", type=int, default=77, help="longer captions are cut")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="stop after this many steps of this run")
    parser.add_argument("--checkpoint", type=Path)
    args = parser.parse_args()

    stop: "list[int]" = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda which, frame: stop.append(which))

    loader = penstock.Loader(args.source, batch_size=args.batch_size, image_size=args.image_size, seed=args.seed, device="cpu",
                             labels="none", fields={"txt": {"max": args.caption_bytes, "long": "cut"}})
    torch.manual_seed(args.seed)
    model = Pair()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
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
        for images, _, fields in loader:  # fields["txt"]: the bytes of each caption
            loss = model.loss(images, tokens_of(fields["txt"], args.caption_bytes))
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
