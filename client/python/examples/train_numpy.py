#!/usr/bin/env python3
"""The loader without PyTorch: two layers and their gradients in NumPy.

    make_dataset images                     # or your own folder of class folders
    train_numpy.py images [--checkpoint small.npz]

The loader yields NumPy arrays with the shapes and values of the torch tensors. It does so if torch
is not installed, or with framework="numpy". Ctrl-C stops the run after a step. With --checkpoint,
the next run continues from there, to the last bit.
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
    """The mean and the standard deviation of each of 16 x 16 cells, from normalized images (rows,
    3, 64, 64)."""
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
    """The gradients of the mean cross-entropy, and the number of correct predictions."""
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
    """Saves one moment. The file is either the old one or the new one, never half of one."""
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
    parser.add_argument("--steps", type=int, help="stop after this many steps of this run")
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
        loader.set_epoch(epoch)  # changes nothing after a state of this epoch was loaded
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
