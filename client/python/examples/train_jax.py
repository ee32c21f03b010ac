#!/usr/bin/env python3
"""The loader with JAX: a small convolutional net, jitted.

    make_dataset images                     # or your own folder of class folders
    train_jax.py images

framework="jax" yields JAX's arrays, on the CPU without another copy. Here they are raw uint8
pixels, which are a quarter of the bytes to transfer to a device, and are normalized there. With
several processes (jax.distributed), each process gets its part of every global batch, by rank and
world_size. This example has run only on the CPU, in one process.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp

import penstock

Weights = list[tuple[jax.Array, jax.Array]]

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CHANNELS = (3, 16, 32, 64)


def init(key: jax.Array, classes: int) -> Weights:
    weights: Weights = []
    for before, after in zip(CHANNELS, CHANNELS[1:]):
        key, draw = jax.random.split(key)
        kernel = jax.random.normal(draw, (3, 3, before, after)) * (2 / (9 * before)) ** 0.5
        weights.append((kernel, jnp.zeros(after)))
    matrix = jax.random.normal(key, (CHANNELS[-1], classes)) * (1 / CHANNELS[-1]) ** 0.5
    return [*weights, (matrix, jnp.zeros(classes))]


def scores(weights: Weights, pixels: jax.Array) -> jax.Array:
    mean, std = (jnp.array(values).reshape(3, 1, 1) for values in (MEAN, STD))
    x = (pixels.astype(jnp.float32) / 255 - mean) / std
    for kernel, bias in weights[:-1]:
        x = jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NCHW", "HWIO", "NCHW"))
        x = jax.nn.relu(x + bias[:, None, None])
    matrix, bias = weights[-1]
    return x.mean((2, 3)) @ matrix + bias


def loss(weights: Weights, pixels: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    logits = scores(weights, pixels)
    rows = jnp.arange(len(labels))
    return -jax.nn.log_softmax(logits)[rows, labels].mean(), (logits.argmax(1) == labels).sum()


@jax.jit
def step(
    weights: Weights, momentum: Weights, pixels: jax.Array, labels: jax.Array
) -> tuple[Weights, Weights, jax.Array]:
    slopes, right = jax.grad(loss, has_aux=True)(weights, pixels, labels)
    momentum = jax.tree.map(lambda m, slope: 0.9 * m + slope, momentum, slopes)
    return jax.tree.map(lambda w, m: w - 0.05 * m, weights, momentum), momentum, right


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", help="a folder of class folders")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    loader = penstock.Loader(args.source, batch_size=64, image_size=64, seed=args.seed, dtype="uint8", framework="jax",
                             rank=jax.process_index(), world_size=jax.process_count())
    weights = init(jax.random.key(args.seed), len(loader.classes))
    momentum: Weights = jax.tree.map(jnp.zeros_like, weights)
    for epoch in range(args.epochs):
        loader.set_epoch(epoch)
        right, rows, began = 0, 0, time.perf_counter()
        for images, labels in loader:
            weights, momentum, correct = step(weights, momentum, images, labels)
            right, rows = right + correct, rows + len(labels)
        seconds = time.perf_counter() - began
        print(f"epoch {epoch}: {100 * float(right) / rows:.1f} % right, {rows / seconds:.0f} images/s", flush=True)


if __name__ == "__main__":
    main()
