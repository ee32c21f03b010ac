"""The order of samples as daemon/order/*.h and proto/philox.h describe it, written down apart from the C code."""
from fractions import Fraction

SHUFFLE, SUBSTITUTE, WEIGHTED, SOURCES, SPLIT, CLASSES, CLASS_SAMPLES, BLOCKS, WINDOW, BLOCK_SAMPLES = 1, 2, 31, 32, 33, 36, 37, 41, 42, 43
ROUNDS = 10
MASK = 0xFFFFFFFF
BLOCK = 1000


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & MASK, p0 >> 32 ^ c[3] ^ k[1], p0 & MASK]
        k = [k[0] + 0x9E3779B9 & MASK, k[1] + 0xBB67AE85 & MASK]
    return c


def permuted(count, seed, operation, number, value):
    """What stands at place `value` of permutation `number` of so many."""
    key, half = (seed & MASK, seed >> 32), ((count - 1).bit_length() + 1) // 2 if count > 1 else 1

    def word(right, turn):
        return philox((right, turn | number >> 32 << 16, number & MASK, operation), key)[0]

    while True:
        left, right = value >> half, value & (1 << half) - 1
        for turn in range(ROUNDS):
            left, right = right, left ^ word(right, turn) & (1 << half) - 1
        value = left << half | right
        if value < count:
            break
    return value if value > 1 or count < 2 else value ^ word(0, ROUNDS) & 1


def place(samples, seed, epoch, position, part=0):
    """Which of so many is shown at `position` of a shuffled epoch."""
    return permuted(samples, seed, SHUFFLE, epoch | part << 32, position)


def substitute(samples, seed, epoch, position, attempt):
    """Which of so many is shown there when the one wanted is broken."""
    counter = (position & MASK, position >> 32 & 0xFFFF | attempt << 16, epoch, SUBSTITUTE)
    high, low, *_ = philox(counter, (seed & MASK, seed >> 32))
    return (high << 32 | low) * samples >> 64


def block_size(samples, size):
    """How many samples of so many bytes together a block has."""
    block = 1
    while block < samples and size * block * 2 <= samples << 24:
        block *= 2
    return block


def mixed_up(values, seed, epoch, operation, number, part):
    """In the order of a permutation whose seed is drawn."""
    high, low, *_ = philox((number & MASK, number >> 32 | part << 16, epoch, operation), (seed & MASK, seed >> 32))
    return [values[permuted(len(values), high << 32 | low, operation, 0, at)] for at in range(len(values))]


def blocks_of(samples, block, window, seed, epoch, part=0):
    """The samples of an epoch that is shuffled by blocks, period by period."""
    count = -(-samples // block)
    if count <= window:
        return [mixed_up(range(samples), seed, epoch, WINDOW, 0, part)]
    slots = []
    for slot in range(count):
        b = permuted(count, seed, BLOCKS, epoch | part << 32, slot)
        mine = mixed_up(range(b * block, min((b + 1) * block, samples)), seed, epoch, BLOCK_SAMPLES, b, part)
        slots.append([mine[k * len(mine) // window:(k + 1) * len(mine) // window] for k in range(window)])
    return [mixed_up([sample for k in range(window) for sample in slots[t - k][k]], seed, epoch, WINDOW, t, part) for t in range(count)]


def epoch_of(indices, seed, epoch, shuffle):
    """The samples of an epoch over a subset, by position."""
    if not shuffle:
        return list(indices)
    return [indices[place(len(indices), seed, epoch, p)] for p in range(len(indices))]


def of_class(by_class, seed, classes, per_class, block, row):
    """The sample at a row of a block of `classes` x `per_class`. `by_class` has the samples of each class, by label."""
    blocks = len(by_class) // classes
    which = permuted(len(by_class), seed, CLASSES, block // blocks, block % blocks * classes + row // per_class)
    samples, visit = by_class[which], block // blocks
    chunks = max(len(samples) // per_class, 1)
    at = (visit % chunks * per_class + row % per_class) % len(samples)
    return samples[permuted(len(samples), seed, CLASS_SAMPLES, visit // chunks | (which & 0xFFFF) << 32, at)]


def endless(samples, seed, length, epoch, position, repeats=1):
    """Which of so many, where the permutations go on from epoch to epoch."""
    item = epoch * -(-length // repeats) + position // repeats
    return place(samples, seed, item // samples, item % samples)


def split_of(samples, start, end):
    """The samples of a split, from one place of the fixed permutation to another."""
    return [permuted(samples, 0, SPLIT, 0, p) for p in range(start, end)]


def quotas(weights):
    """What each gets of a block: by largest remainder, the first of equal ones first."""
    shares = [Fraction(w) / sum(map(Fraction, weights)) * BLOCK for w in weights]
    got = [int(share) for share in shares]
    order = sorted(range(len(weights)), key=lambda i: (got[i] - shares[i], i))
    for i in order[:BLOCK - sum(got)]:
        got[i] += 1
    return got


def mixed_by(orders, weights, seed, length, epoch, position, repeats=1):
    """(source, its sample) there, of a mix; orders[i](k) is the k-th permutation of source i, as a list."""
    item = epoch * -(-length // repeats) + position // repeats
    block, rank = item // BLOCK, permuted(BLOCK, seed, SOURCES, item // BLOCK, item % BLOCK)
    for part, quota in enumerate(quotas(weights)):
        if rank < quota:
            ordinal = block * quota + rank
            turn, at = divmod(ordinal, len(orders[part](0)))
            return part, orders[part](turn)[at]
        rank -= quota


class Shuffled:
    """A permutation of so many that is computed where it is read."""

    def __init__(self, samples, seed, epoch, part):
        self.at = samples, seed, epoch, part

    def __len__(self):
        return self.at[0]

    def __getitem__(self, position):
        samples, seed, epoch, part = self.at
        return place(samples, seed, epoch, position, part)


def mixed(sizes, weights, seed, length, epoch, position, repeats=1):
    """(source, its sample) there, of a mix."""
    orders = [lambda turn, part=part, size=size: Shuffled(size, seed, turn, part) for part, size in enumerate(sizes)]
    return mixed_by(orders, weights, seed, length, epoch, position, repeats)


def alias(weights):
    """The table that weights come to: [(threshold, other)], as order/alias.h says."""
    n, column = len(weights), 1 << 32
    most = max(weights)
    bits = min(127 - 32 - 2 * n.bit_length(), 62)
    exponent = 0
    while Fraction(most) >= Fraction(2) ** exponent:
        exponent += 1
    while Fraction(most) < Fraction(2) ** (exponent - 1):
        exponent -= 1
    units = [max(int(Fraction(w) * Fraction(2) ** (bits - exponent)), w > 0) for w in weights]
    sums = [0]
    for unit in units:
        sums.append(sums[-1] + unit)
    reached = [s * (n << 32) // sums[-1] for s in sums]
    height = [b - a for a, b in zip(reached, reached[1:])]
    light, heavy = [i for i in range(n) if height[i] <= column], [i for i in range(n) if height[i] > column]
    table = [(0, i) for i in range(n)]
    for number, i in enumerate(heavy):
        while height[i] > column:
            j = light.pop(0)
            if height[j] < column:
                table[j] = (height[j], i)
                height[i] -= column - height[j]
        if height[i] < column:
            after = heavy[number + 1]
            table[i] = (height[i], after)
            height[after] -= column - height[i]
    return table


def drawn(table, seed, epoch, item, operation=WEIGHTED, attempt=0):
    """What is drawn by a table."""
    w = philox((item & MASK, item >> 32 & 0xFFFF | attempt << 16, epoch, operation), (seed & MASK, seed >> 32))
    at = (w[0] << 32 | w[1]) * len(table) >> 64
    return at if w[2] < table[at][0] else table[at][1]
