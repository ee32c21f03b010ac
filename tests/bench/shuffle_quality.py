#!/usr/bin/env python3
"""How good a shuffle is: penstock's full shuffle and its shuffle by blocks, windows one after the other, and the shuffles of webdataset,
mosaicml-streaming and litdata with as many samples in memory.

    tests/bench/shuffle_quality.py [--webdataset PYTHON] [--streaming PYTHON] [--litdata PYTHON] [--samples N] [--block M] [--epochs E]
                                   [--windows 1,4,16,64] [--seeds N]

PYTHON has that package; without it, its rows are left out. Their orders are computed by their own code, with shards of one block. Needs
NumPy; the training run needs torch. The dataset is sorted by class, two blocks to a class, which is the worst case. Columns:

  blocks a batch     of how many blocks a batch has samples
  neighbors          pairs of samples that are neighbors in storage and in one batch, as a multiple of a full shuffle's
  chi-square         of a batch's class counts, divided by what a full shuffle has: 1 is as good
  classes            in a batch, as a share of a full shuffle's
  accuracy           of a small network on a test set after E epochs, mean and deviation of several seeds

Prints a table in Markdown."""
import argparse
import json
import subprocess
import sys
import tempfile

import numpy as np

import orders

WEBDATASET = """
import json, random, sys
from webdataset.filters import _shuffle
samples, block, room, seed = map(int, sys.argv[1:])
rng = random.Random(seed)
shards = list(range(-(-samples // block)))
rng.shuffle(shards)
stored = (s for shard in shards for s in range(shard * block, min((shard + 1) * block, samples)))
print(json.dumps(list(_shuffle(stored, room, room, rng=rng))))
"""
STREAMING = """
import json, sys
import numpy as np
from streaming.base.shuffle.py1e import get_shuffle_py1e
samples, block, room, seed = map(int, sys.argv[1:])
sizes = np.array([min(block, samples - at) for at in range(0, samples, block)], np.int64)
print(json.dumps(get_shuffle_py1e(sizes, 1, 7, seed, room).tolist()))
"""
LITDATA = """
import json, sys, tempfile
import numpy as np
from litdata import StreamingDataset
from litdata.streaming.writer import BinaryWriter
samples, block, room, seed = map(int, sys.argv[1:])
with tempfile.TemporaryDirectory() as folder:
    writer = BinaryWriter(folder, chunk_size=room)
    for at in range(samples):
        writer[at] = at
    writer.done(); writer.merge()
    read = StreamingDataset(folder, shuffle=True, drop_last=False, seed=seed, item_shuffle_window="full")
    print(json.dumps([int(at) for at in read]))
"""


def peer(python, program, samples, block, room, seed):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([python, "-c", program, *map(str, (samples, block, room, seed))], capture_output=True, text=True, cwd=folder)
    if done.returncode:
        sys.exit(f"{python}: {done.stderr[-800:]}")
    return np.array(json.loads(done.stdout.splitlines()[-1]))


def apart(samples, block, window, seed, epoch):
    """The alternative to a sliding window: the permuted blocks are cut into windows, one after the other, each mixed by itself."""
    rng = np.random.default_rng([seed, epoch])
    count = -(-samples // block)
    stored = rng.permutation(count)
    cuts = [g * count // -(-count // window) for g in range(-(-count // window) + 1)]
    every = [np.concatenate([np.arange(b * block, min((b + 1) * block, samples)) for b in stored[x:y]]) for x, y in zip(cuts, cuts[1:])]
    return np.concatenate([rng.permutation(one) for one in every])


def measure(order, batch, block, labels):
    order = order[:len(order) // batch * batch].reshape(-1, batch)
    where = np.full(len(labels), -1)
    where[order.ravel()] = np.repeat(np.arange(len(order)), batch)
    together = np.mean((where[1:] == where[:-1]) & (where[1:] >= 0))
    classes = labels.max() + 1
    counts = np.stack([np.bincount(labels[row], minlength=classes) for row in order])
    expected = batch / classes
    return {
        "blocks": np.mean([len(set(row // block)) for row in order]),
        "neighbors": together * len(order),
        "chi": np.mean(((counts - expected) ** 2 / expected).sum(1)) / (classes - 1),
        "classes": np.mean((counts > 0).sum(1)),
    }


def train(make, epochs, batch, labels, seed):
    """Accuracy of a network with batch normalization on Gaussian classes that overlap."""
    import torch
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    classes = int(labels.max()) + 1
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(classes, 32)).astype(np.float32)
    draw = lambda of: torch.from_numpy(centers[of] + rng.normal(scale=1.1, size=(len(of), 32)).astype(np.float32))
    inputs, targets, held = draw(labels), torch.from_numpy(labels), rng.integers(classes, size=4096)
    tests = draw(held)
    net = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.BatchNorm1d(256), torch.nn.ReLU(), torch.nn.Linear(256, classes))
    steps = epochs * (len(labels) // batch)
    descent = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    decay = torch.optim.lr_scheduler.OneCycleLR(descent, 0.2, total_steps=steps + 1)
    for epoch in range(epochs):
        order = torch.from_numpy(make(seed, epoch).copy())
        for at in range(0, len(labels) - batch + 1, batch):
            rows = order[at:at + batch]
            if len(rows) < batch:
                continue
            loss = torch.nn.functional.cross_entropy(net(inputs[rows]), targets[rows])
            descent.zero_grad()
            loss.backward()
            descent.step()
            decay.step()
    net.eval()
    with torch.no_grad():
        return 100 * float((net(tests).argmax(1).numpy() == held).mean())


def main():
    parse = argparse.ArgumentParser()
    for name in ("webdataset", "streaming", "litdata"):
        parse.add_argument(f"--{name}")
    for name, value in (("samples", 32768), ("block", 128), ("batch", 256), ("epochs", 4), ("seeds", 3)):
        parse.add_argument(f"--{name}", type=int, default=value)
    parse.add_argument("--windows", default="1,4,16,64")
    got = parse.parse_args()
    orders.check()
    n, m = got.samples, got.block
    labels = np.arange(n) // (2 * m)
    rows = {"full shuffle": lambda s, e: orders.full(n, s, e)}
    for window in map(int, got.windows.split(",")):
        rows[f"penstock, blocks, window {window}"] = lambda s, e, w=window: orders.blocks(n, m, w, s, e)
        if window > 1:
            rows[f"windows of {window} blocks, one after the other"] = lambda s, e, w=window: apart(n, m, w, s, e)
        for name, program in (("webdataset", WEBDATASET), ("streaming", STREAMING), ("litdata", LITDATA)):
            python, what = getattr(got, name), {"webdataset": "buffer", "streaming": "py1e", "litdata": "chunks"}[name]
            if python and window > 1:
                rows[f"{name}, {what} of {window} blocks"] = \
                    lambda s, e, p=python, g=program, w=window: peer(p, g, n, m, w * m, 1000 * s + e)
    try:
        import torch  # noqa: F401
        trains = True
    except ImportError:
        trains = False
    print(f"{n} samples, {labels.max() + 1} classes, blocks of {m}, batches of {got.batch}, {got.epochs} epochs\n")
    print("| order | blocks a batch | neighbors | chi-square | classes | accuracy |\n|---|---|---|---|---|---|")
    base = None
    for name, make in rows.items():
        cache = {}

        def order(seed, epoch, make=make, cache=cache):
            if (seed, epoch) not in cache:
                cache[seed, epoch] = make(seed, epoch)
                assert len(set(cache[seed, epoch].tolist())) == n, name
            return cache[seed, epoch]

        told = [measure(order(1, epoch), got.batch, m, labels) for epoch in range(2)]
        mean = {key: np.mean([one[key] for one in told]) for key in told[0]}
        base = base or mean
        accuracy = [train(order, got.epochs, got.batch, labels, seed) for seed in range(1, got.seeds + 1)] if trains else []
        print(f"| {name} | {mean['blocks']:.1f} | {mean['neighbors'] / base['neighbors']:.1f} | {mean['chi'] / base['chi']:.2f} | "
              f"{mean['classes'] / base['classes']:.2f} | "
              f"{f'{np.mean(accuracy):.1f} ± {np.std(accuracy):.1f} %' if accuracy else ''} |", flush=True)


if __name__ == "__main__":
    main()
