#!/usr/bin/env python3
"""The loader without PyTorch: two layers and their gradients in NumPy.

    make_dataset pictures                   # or any folder of class folders of yours
    train_numpy.py pictures [--checkpoint small.npz]

The loader yields NumPy arrays of torch's shapes and values where torch is not installed, and by framework="numpy"
where it is. Ctrl-C stops it after a step, and with --checkpoint the next run goes on from there, to the bit.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import penstock

Weights = dict[str, Any]  # names to arrays

SIDE, CELLS, HIDDEN = 64, 16, 64


def features(images: Any) -> Any:
    """(rows, 3, 64, 64), normalised: the mean and the spread of each of 16 x 16 cells."""
    step = SIDE // CELLS
    cells = images.reshape(-1, 3, CELLS, step, CELLS, step)
    return np.concatenate([cells.mean((3, 5)), cells.std((3, 5))], 1).reshape(len(cells), -1)


def init(classes: int, seed: int) -> Weights:
    random, inputs = np.random.default_rng(seed), 6 * CELLS * CELLS
    return {
        "w1": (random.standard_normal((inputs, HIDDEN)) * (2 / inputs) ** 0.5).astype(np.float32),
        "b1": np.zeros(HIDDEN, np.float32),
        "w2": (random.standard_normal((HIDDEN, classes)) * (1 / HIDDEN) ** 0.5).astype(np.float32),
        "b2": np.zeros(classes, np.float32),
    }


def gradients(weights: Weights, x: Any, labels: Any) -> tuple[Weights, int]:
    """Of the mean cross-entropy; and how many were right."""
    hidden = np.maximum(x @ weights["w1"] + weights["b1"], 0)
    scores = hidden @ weights["w2"] + weights["b2"]
    right = int((scores.argmax(1) == labels).sum())
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    shares[np.arange(len(labels)), labels] -= 1
    shares /= len(labels)
    back = (shares @ weights["w2"].T) * (hidden > 0)
    return {"w1": x.T @ back, "b1": back.sum(0), "w2": hidden.T @ shares, "b2": shares.sum(0)}, right


def save(path: Path, step: int, weights: Weights, momentum: Weights, loader: penstock.Loader) -> None:
    """All of one moment, in a file that is the old one or the new one."""
    parts = {f"momentum_{name}": array for name, array in momentum.items()}
    temporary = path.with_suffix(".new")
    with open(temporary, "wb") as file:
        np.savez(file, step=step, loader=json.dumps(loader.state_dict()), **weights, **parts)
    os.replace(temporary, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", help="a folder of class folders")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="leave after so many of this run, as if it had been stopped")
    parser.add_argument("--checkpoint", type=Path)
    args = parser.parse_args()
    stop: list[int] = []
    signal.signal(signal.SIGINT, lambda which, frame: stop.append(which))

    loader = penstock.Loader(args.source, batch_size=64, image_size=SIDE, seed=args.seed, framework="numpy")
    weights = init(len(loader.classes), args.seed)
    momentum = {name: np.zeros_like(array) for name, array in weights.items()}
    step = epoch = 0
    if args.checkpoint and args.checkpoint.exists():
        with np.load(args.checkpoint) as saved:
            weights = {name: saved[name] for name in weights}
            momentum = {name: saved[f"momentum_{name}"] for name in weights}
            loader.load_state_dict(json.loads(str(saved["loader"])))
            step = int(saved["step"])
        epoch = loader.state_dict()["epoch"]
        print(f"going on after step {step}, in epoch {epoch}", flush=True)

    last = step + args.steps if args.steps else None
    for epoch in range(epoch, args.epochs):
        right = rows = 0
        for images, labels in loader:
            slopes, correct = gradients(weights, features(images), labels)
            for name, slope in slopes.items():
                momentum[name] = 0.9 * momentum[name] + slope
                weights[name] = weights[name] - 0.02 * momentum[name]
            step, right, rows = step + 1, right + correct, rows + len(labels)
            if stop or step == last:
                break
        print(f"epoch {epoch} step {step}: {100 * right / max(rows, 1):.1f} % right", flush=True)
        if args.checkpoint:
            save(args.checkpoint, step, weights, momentum, loader)
        if stop or step == last:
            break
    value = 0
    for array in weights.values():
        value = zlib.crc32(array.tobytes(), value)
    print(f"{'stopped' if stop else 'done'} after step {step}, weights {value:08x}")


if __name__ == "__main__":
    main()
