"""penstock's order of samples in arrays of NumPy, as daemon/order/ computes it, for the programs that measure it. `check` compares it
with tests/e2e/order_model.py, which every test run compares with the daemon."""
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import order_model  # noqa: E402

MASK = np.uint64(0xFFFFFFFF)
BYTES = 16 << 20  # of a block at most


def philox(counter, key):
    """The first two words of each draw; the counter has four arrays or numbers, the key two numbers."""
    c = [np.uint64(0) + np.asarray(word, np.uint64) for word in counter]
    k = list(key)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [p1 >> np.uint64(32) ^ c[1] ^ np.uint64(k[0]), p1 & MASK, p0 >> np.uint64(32) ^ c[3] ^ np.uint64(k[1]), p0 & MASK]
        k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return c


def permuted(count, seed, operation, number, values):
    """The value at each place of permutation `number` of so many."""
    key, half = (seed & 0xFFFFFFFF, seed >> 32), np.uint64(((count - 1).bit_length() + 1) // 2 if count > 1 else 1)
    mask = (np.uint64(1) << half) - np.uint64(1)

    def word(right, turn):
        return philox((right, np.uint64(turn | number >> 32 << 16), np.uint64(number & 0xFFFFFFFF), np.uint64(operation)), key)[0]

    out = np.asarray(values, np.uint64).copy()
    open_ = np.arange(len(out))
    while len(open_):
        left, right = out[open_] >> half, out[open_] & mask
        for turn in range(order_model.ROUNDS):
            left, right = right, left ^ (word(right, turn) & mask)
        out[open_] = left << half | right
        open_ = open_[out[open_] >= count]
    if count > 1:
        small = out < 2
        out[small] ^= word(np.zeros(small.sum(), np.uint64), order_model.ROUNDS) & np.uint64(1)
    return out.astype(np.int64)


def full(samples, seed, epoch):
    return permuted(samples, seed, order_model.SHUFFLE, epoch, np.arange(samples))


def drawn_seed(seed, epoch, operation, number):
    high, low, *_ = order_model.philox((number & 0xFFFFFFFF, number >> 32, epoch, operation), (seed & 0xFFFFFFFF, seed >> 32))
    return high << 32 | low


def mixed(values, seed, epoch, operation, number):
    return values[permuted(len(values), drawn_seed(seed, epoch, operation, number), operation, 0, np.arange(len(values)))]


def part(samples, block, window, seed, epoch, number, k):
    """Part k of a block."""
    mine = mixed(np.arange(number * block, min((number + 1) * block, samples)), seed, epoch, order_model.BLOCK_SAMPLES, number)
    return mine[k * len(mine) // window:(k + 1) * len(mine) // window]


def period(samples, block, window, seed, epoch, at):
    """The samples of a period, where there are more blocks than the window has."""
    count = -(-samples // block)
    slots = permuted(count, seed, order_model.BLOCKS, epoch, (at - np.arange(window)) % count)
    parts = [part(samples, block, window, seed, epoch, int(b), k) for k, b in enumerate(slots)]
    return mixed(np.concatenate(parts), seed, epoch, order_model.WINDOW, at)


def blocks(samples, block, window, seed, epoch):
    count = -(-samples // block)
    if count <= window:
        return mixed(np.arange(samples), seed, epoch, order_model.WINDOW, 0)
    slots = []
    for b in permuted(count, seed, order_model.BLOCKS, epoch, np.arange(count)).tolist():
        mine = mixed(np.arange(b * block, min((b + 1) * block, samples)), seed, epoch, order_model.BLOCK_SAMPLES, b)
        slots.append([mine[k * len(mine) // window:(k + 1) * len(mine) // window] for k in range(window)])
    return np.concatenate([mixed(np.concatenate([slots[t - k][k] for k in range(window)]), seed, epoch, order_model.WINDOW, t)
                           for t in range(count)])


def check():
    for samples, block, window, seed, epoch in ((1000, 16, 4, 3, 2), (77, 4, 3, 1 << 40, 0), (5, 8, 1, 0, 9)):
        model = [at for part in order_model.blocks_of(samples, block, window, seed, epoch) for at in part]
        assert blocks(samples, block, window, seed, epoch).tolist() == model
        assert -(-samples // block) <= window or \
            [period(samples, block, window, seed, epoch, t).tolist() for t in range(-(-samples // block))] == \
            order_model.blocks_of(samples, block, window, seed, epoch)
        assert full(samples, seed, epoch).tolist() == [order_model.place(samples, seed, epoch, p) for p in range(samples)]
