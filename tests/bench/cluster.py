#!/usr/bin/env python3
"""A job of many nodes on paper: what each node asks of storage in an epoch, computed with penstock's own order (orders.py), without a
daemon: requests, bytes, cache hits and how evenly they are divided.

    tests/bench/cluster.py [--nodes N] [--ranks R] [--samples S] [--bytes B] [--batch N] [--windows 1,2,4,16] [--looks N]

S samples of B bytes each on average; R ranks on each node, N samples a batch and rank. The positions of a global batch are divided among
the ranks in order, so a node's part of it is one piece. In each of `looks` batches, evenly spaced nodes are computed sample by sample;
the rest is arithmetic that the text of docs/evidence/measured/cluster.md explains. Prints Markdown."""
import argparse

import numpy as np

import orders

GAP, MOST = 64 << 10, 8 << 20  # as client/cli/inspect/plan_reads.h


def node_samples(got, window, block, epoch, start, count):
    """The samples at `count` positions from `start` on."""
    if not window:
        return orders.permuted(got.samples, got.seed, orders.order_model.SHUFFLE, epoch, np.arange(start, start + count))
    assert got.samples % block == 0 and got.samples > window * block, "choose samples that fill their blocks, and more than the window has"
    first, last = start // block, (start + count - 1) // block
    found = np.concatenate([orders.period(got.samples, block, window, got.seed, epoch, at) for at in range(first, last + 1)])
    return found[start - first * block:start - first * block + count]


def requests(samples, size, block, merged):
    """How many, and how many samples they read, those in between included."""
    if not merged:
        return len(samples), len(samples)
    samples = np.sort(samples)
    count = read = 0
    begin = end = None
    for sample in samples.tolist():
        if begin is None or (sample - end) * size > GAP or (sample + 1 - begin) * size > MOST or sample // block != begin // block:
            count += 1
            read += end - begin if begin is not None else 0
            begin = sample
        end = sample + 1
    return count, read + end - begin


def main():
    parse = argparse.ArgumentParser()
    for name, value in (("nodes", 1000), ("ranks", 8), ("samples", 10**9), ("bytes", 110000), ("batch", 64), ("seed", 7), ("looks", 4)):
        parse.add_argument(f"--{name}", type=int, default=value)
    parse.add_argument("--windows", default="1,2,4,16")
    got = parse.parse_args()
    orders.check()
    block = orders.order_model.block_size(got.samples, got.samples * got.bytes)
    own = got.ranks * got.batch
    whole = got.nodes * own
    batches = got.samples // whole
    print(f"{got.nodes:,} nodes of {got.ranks} ranks, {got.samples:,} samples of {got.bytes:,} bytes ({got.samples * got.bytes / 1e12:.0f} TB), "
          f"{got.batch} a batch and rank: {batches:,} global batches of {whole:,}, {batches * own:,} samples a node and epoch, "
          f"{got.samples - batches * whole:,} dropped. Blocks of {block} samples: {-(-got.samples // block):,}.\n")
    print("| order | requests a node and epoch | least and most | MB a request | read beyond its own | blocks of a node's part of a batch | "
          "nodes that share a block | blocks of a global batch |\n|---|---|---|---|---|---|---|---|")
    nodes = sorted({int(at) for at in np.linspace(0, got.nodes - 1, min(got.nodes, 16))})
    for window in [0] + [int(w) for w in got.windows.split(",")]:
        per_node, read, blocks, touched = np.zeros(len(nodes)), 0, 0, {}
        for look in range(got.looks):
            batch = look * batches // got.looks
            for i, node in enumerate(nodes):
                samples = node_samples(got, window, block, 0, batch * whole + node * own, own)
                count, bytes_ = requests(samples, got.bytes, block, window > 0)
                per_node[i] += count
                read += bytes_
                blocks += len(set((samples // block).tolist()))
        scale = batches / got.looks
        mean, taken = per_node.mean() * scale, got.looks * len(nodes)
        # A block is open for `window` periods of a block's samples each; a node's part of a batch is `own` positions.
        shared = (window + max(own / block, 1) - 1) * block / own if window else 1
        total = min(whole / block + window - 1, -(-got.samples // block)) if window else (1 - (1 - block / got.samples) ** whole) * got.samples / block
        print(f"| {f'blocks, window {window}' if window else 'full'} | {mean:,.0f} | {per_node.min() * scale:,.0f} to {per_node.max() * scale:,.0f} | "
              f"{read / per_node.sum() * got.bytes / 1e6:.2f} | {100 * (read / (taken * own) - 1):.1f} % | {blocks / taken:.1f} | {max(shared, 1):.1f} | {total:,.0f} |",
              flush=True)
    print("\nCache of a node, which keeps what it reads and replaces nothing: in each epoch a node gets other samples, so a sample is in its "
          "cache with the probability of the cache's share of the dataset.\n")
    print("| cache of a node | of the dataset | full after epochs | hits in later epochs | read by all nodes, TB an epoch |\n|---|---|---|---|---|")
    for share in (0, 1 / got.nodes, 0.01, 0.1, 0.5, 1):
        kept, epochs = 0.0, 0
        while share and kept < share * 0.999 and epochs < 10**5:
            kept = min(share, kept + (1 - kept) / got.nodes)
            epochs += 1
        print(f"| {share * got.samples * got.bytes / 1e12:.2f} TB | {100 * share:.1f} % | {epochs:,} | {100 * share:.1f} % | "
              f"{(1 - share) * batches * whole * got.bytes / 1e12:.1f} |")


if __name__ == "__main__":
    main()
