"""The order of samples as daemon/order/order.h and proto/philox.h describe it, written down apart from the C code."""

SHUFFLE, SUBSTITUTE = 1, 2
ROUNDS = 10
MASK = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & MASK, p0 >> 32 ^ c[3] ^ k[1], p0 & MASK]
        k = [k[0] + 0x9E3779B9 & MASK, k[1] + 0xBB67AE85 & MASK]
    return c


def place(samples, seed, epoch, position):
    """Which of so many is shown at `position` of a shuffled epoch."""
    key, half = (seed & MASK, seed >> 32), ((samples - 1).bit_length() + 1) // 2 if samples > 1 else 1
    value = position
    while True:
        left, right = value >> half, value & (1 << half) - 1
        for turn in range(ROUNDS):
            left, right = right, left ^ philox((right, turn, epoch, SHUFFLE), key)[0] & (1 << half) - 1
        value = left << half | right
        if value < samples:
            break
    if value > 1 or samples < 2:
        return value
    return value ^ philox((0, ROUNDS, epoch, SHUFFLE), key)[0] & 1


def substitute(samples, seed, epoch, position, attempt):
    """Which of so many is shown there when the one wanted is broken."""
    counter = (position & MASK, position >> 32 & 0xFFFF | attempt << 16, epoch, SUBSTITUTE)
    high, low, *_ = philox(counter, (seed & MASK, seed >> 32))
    return (high << 32 | low) * samples >> 64


def epoch_of(indices, seed, epoch, shuffle):
    """The samples of an epoch over a subset, by position."""
    if not shuffle:
        return list(indices)
    return [indices[place(len(indices), seed, epoch, p)] for p in range(len(indices))]
