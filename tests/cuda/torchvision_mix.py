#!/usr/bin/env python3
"""What mix.c plans, against torchvision's own transforms.

    torchvision_mix.py MIX_ROWS        MIX_ROWS: the program of mix_rows.c

Exactly: torch's random calls are answered with the numbers that mix.c draws (made again here, from Philox and libm), and
what torchvision.transforms.v2 then does to pictures and labels must be what the rows say. In distribution: torchvision with
its own random numbers against the rows, by the two-sample test of Kolmogorov and Smirnov, with fixed seeds.

Needs torch and torchvision; without them it says so and ends with 77. Last run with torch 2.15.0, torchvision 0.29.2."""

import math
import os
import subprocess
import sys
from contextlib import contextmanager
from unittest import mock

try:
    import torch
    import torchvision
    from torchvision.transforms import v2
except ImportError as error:
    print(f"skipped: {error} (pip install torch torchvision)")
    sys.exit(77)

MIX, FLIP, ERASE = 5, 6, 7  # enum philox_operation
FLIPPED, ERASED, MIXED = 1, 2, 4  # PENSTOCK_CUDA_ROW_*
MASK = 0xFFFFFFFF


def philox(seed, epoch, position, operation, step):
    """Philox 4x32-10 on the counter and key of proto/philox.h: four words."""
    counter = [position & MASK, (position >> 32 & 0xFFFF) | step << 16, epoch, operation]
    key = [seed & MASK, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [b >> 32 ^ counter[1] ^ key[0], b & MASK, a >> 32 ^ counter[3] ^ key[1], a & MASK]
        key = [key[0] + 0x9E3779B9 & MASK, key[1] + 0xBB67AE85 & MASK]
    return counter


def unit(high, low=0):
    return ((high << 32 | low) >> 11) * 2.0**-53


def below(high, low, bound):
    return (high << 32 | low) * bound >> 64


def beta(alpha, words):
    """Devroye's formula for a symmetric Beta distribution, its smaller end written without a difference."""
    u, v = 1 - unit(*words[:2]), unit(*words[2:])
    exponent = -math.log(u) / alpha
    if exponent > 700:
        return 0.0 if v < 0.5 else 1.0
    odds = math.expm1(exponent) * math.cos(math.pi / 2 * (2 * v % 1)) ** 2
    low = 0.5 / (1 + odds) / (1 + math.sqrt(odds / (1 + odds)))
    return low if v < 0.5 else 1 - low


class Row:
    def __init__(self, line):
        fields = line.split()
        self.position, self.flags = int(fields[0]), int(fields[1])
        self.erase, self.cut = tuple(map(int, fields[2:6])), tuple(map(int, fields[6:10]))
        self.partner = int(fields[10])
        self.blend, self.partner_blend, self.weight, self.partner_weight = map(float.fromhex, fields[11:])


def rows_of(program, seed, epoch, first, count, batches, height, width, **options):
    """A list of batches, each a list of rows."""
    numbers = [seed, epoch, first, count, batches, height, width]
    done = subprocess.run([program, *map(str, numbers), *(f"{k}={v!r}" for k, v in options.items())],
                          capture_output=True, text=True, check=True, timeout=120)
    rows = [Row(line) for line in done.stdout.splitlines()]
    assert len(rows) == count * batches
    return [rows[i:i + count] for i in range(0, len(rows), count)]


@contextmanager
def forced(rand=(), uniform=(), randint=()):
    """torch.rand, Tensor.uniform_ and torch.randint give these, in order. `randint`: pairs of words."""
    rand, uniform, randint = iter(rand), iter(uniform), iter(randint)

    def some_randint(low, high=None, **_):
        low, high = (0, low) if high is None else (low, high)
        return torch.tensor([low + below(*next(randint), high - low)])

    with mock.patch.object(torch, "rand", lambda *_, **__: torch.tensor([next(rand)])), \
            mock.patch.object(torch.Tensor, "uniform_", lambda self, a, b: self.fill_(a + next(uniform) * (b - a))), \
            mock.patch.object(torch, "randint", some_randint):
        yield


def box_of(mask):
    """x, y, w, h of a rectangle of True in a picture of False; zeros where there is none."""
    ys, xs = torch.where(mask)
    if not len(ys):
        return 0, 0, 0, 0
    x, y = int(xs.min()), int(ys.min())
    w, h = int(xs.max()) - x + 1, int(ys.max()) - y + 1
    assert len(ys) == w * h, "not a rectangle"
    return x, y, w, h


def erase_attempts(seed, epoch, position):
    """The numbers of ten attempts, in the order in which torchvision asks for them: those of corners only for the attempt
    that fits, which is unknown here, so that they are looked up when they are asked for."""
    words = [philox(seed, epoch, position, ERASE, step) for step in range(1, 11)]
    asked = []

    def uniforms():
        for attempt in words:
            asked.append(attempt)
            yield unit(attempt[0])
            yield unit(attempt[1])

    def corners():
        yield asked[-1][2], 0
        yield asked[-1][3], 0

    return uniforms(), corners()


def check_flip(program):
    seed, epoch = 0x123456789ABC, 3
    picture = torch.arange(6.0).reshape(1, 2, 3)
    transform = v2.RandomHorizontalFlip(p=0.4)
    seen = 0
    for (row,) in rows_of(program, seed, epoch, 2**33, 1, 2000, 8, 8, flip=0.4):
        with forced(rand=[unit(*philox(seed, epoch, row.position, FLIP, 0)[:2])]):
            flipped = not torch.equal(transform(picture), picture)
        assert flipped == bool(row.flags & FLIPPED)
        seen += flipped
    return f"2000 flips: {seen} flipped"


def check_erase_boxes(program):
    seed, epoch, seen, total = 77, 5, 0, 0
    for height, width, scale, ratio in [(224, 224, (0.02, 0.33), (0.3, 3.3)), (37, 91, (0.02, 0.33), (0.3, 3.3)),
                                        (64, 64, (0.0, 1.0), (0.1, 10.0)), (1, 1, (0.02, 0.33), (0.3, 3.3)),
                                        (5, 2, (0.1, 0.9), (0.5, 3.0)), (300, 7, (0.5, 0.9), (0.9, 1.1))]:
        transform = v2.RandomErasing(p=0.75, scale=scale, ratio=ratio, value=1)
        assert transform._log_ratio.dtype == torch.float64  # as mix.c reckons
        picture = torch.zeros(1, height, width)
        for (row,) in rows_of(program, seed, epoch, 0, 1, 1500, height, width, erase=0.75, erase_scale_from=scale[0],
                              erase_scale_to=scale[1], erase_ratio_from=ratio[0], erase_ratio_to=ratio[1]):
            uniforms, corners = erase_attempts(seed, epoch, row.position)
            with forced([unit(*philox(seed, epoch, row.position, ERASE, 0)[:2])], uniforms, corners):
                box = box_of(transform(picture)[0] == 1)
            assert box == row.erase, f"position {row.position}: torchvision {box}, planned {row.erase}"
            assert bool(row.flags & ERASED) == (box[2] > 0)
            seen, total = seen + (box[2] > 0), total + 1
    return f"{total} erasures: {seen} rectangles"


def mixed(transform, rows, images, key, alpha):
    """What torchvision makes of a batch, given the lambda of the plan."""
    lam = beta(alpha, philox(*key, MIX, 1))
    transform._dist.sample = lambda *_: torch.tensor([lam])
    centre = philox(*key, MIX, 2)
    labels = torch.arange(len(rows))
    with forced(randint=[centre[:2], centre[2:]]):
        return transform(images, labels)


def check_labels(rows, labels):
    """Labels of torchvision, (rows, rows), equal what the rows' weights make of one-hot labels."""
    want = torch.zeros_like(labels)
    for i, row in enumerate(rows):
        want[i, i] += row.weight
        want[i, row.partner] += row.partner_weight
    assert torch.equal(labels, want)


def check_mixup(program):
    seed, epoch, count, total = 2**40 + 1, 8, 5, 0
    images = torch.rand(count, 3, 4, 6, dtype=torch.float32, generator=torch.Generator().manual_seed(1))
    for alpha in (0.01, 0.2, 1.0, 8.0, 100.0):
        transform = v2.MixUp(alpha=alpha, num_classes=count)
        for rows in rows_of(program, seed, epoch, 0, count, 300, 4, 6, mixup=alpha):
            got, labels = mixed(transform, rows, images, (seed, epoch, rows[0].position), alpha)
            for i, row in enumerate(rows):
                assert row.flags == MIXED and row.partner == (i - 1) % count
                own, partner = (torch.tensor(x, dtype=torch.float32) for x in (row.blend, row.partner_blend))
                assert torch.equal(got[i], images[row.partner] * partner + images[i] * own)
            check_labels(rows, labels)
            total += 1
    return f"{total} batches through MixUp, values and labels bit for bit"


def check_cutmix(program):
    seed, epoch, count, cut, total = 99, 0, 4, 0, 0
    for height, width, alpha in [(224, 224, 1.0), (37, 91, 0.3), (8, 3, 1.0), (1, 1, 1.0), (60, 60, 32.0)]:
        images = torch.arange(count, dtype=torch.float32).reshape(count, 1, 1, 1).expand(count, 1, height, width).clone()
        transform = v2.CutMix(alpha=alpha, num_classes=count)
        for rows in rows_of(program, seed, epoch, 2**47, count, 400, height, width, cutmix=alpha):
            got, labels = mixed(transform, rows, images, (seed, epoch, rows[0].position), alpha)
            for i, row in enumerate(rows):
                box = box_of(got[i, 0] == (i - 1) % count)
                assert box == row.cut, f"position {row.position}: torchvision {box}, planned {row.cut}"
                assert (row.blend, row.partner_blend) == (1, 0) and bool(row.flags & MIXED) == (box[2] > 0)
            check_labels(rows, labels)
            cut, total = cut + (rows[0].cut[2] > 0), total + 1
    return f"{total} batches through CutMix: {cut} boxes"


def check_single(program):
    """A batch of one row: torchvision mixes it with itself."""
    image, label = torch.rand(1, 3, 8, 8, dtype=torch.float32), torch.tensor([0])
    for transform, name in ((v2.MixUp(alpha=1.0, num_classes=1), "mixup"), (v2.CutMix(alpha=1.0, num_classes=1), "cutmix")):
        got, labels = transform(image, label)
        assert torch.allclose(got, image) and torch.allclose(labels, torch.ones(1, 1, dtype=torch.float32))
        for (row,) in rows_of(program, 1, 0, 0, 1, 50, 8, 8, **{name: 1.0}):
            assert row.flags == 0 and row.partner == 0 and row.weight == 1
    return "batches of one row stay as they are"


def distance(a, b):
    """Kolmogorov and Smirnov's, scaled: above 1.95 for one of 1,000 pairs of samples from one distribution."""
    a, b = (torch.tensor(x, dtype=torch.float64).sort().values for x in (a, b))
    both = torch.cat([a, b])
    ranks = [torch.searchsorted(x, both, right=True) / len(x) for x in (a, b)]
    return float((ranks[0] - ranks[1]).abs().max()) * math.sqrt(len(a) * len(b) / (len(a) + len(b)))


def alike(what, a, b):
    worst = distance(a, b)
    assert worst < 1.95, f"{what}: distance {worst:.2f}"
    return f"{what} {worst:.2f}"


def check_distributions(program):
    torch.manual_seed(5)
    n, side, report = 20000, 224, []
    for alpha in (0.2, 0.8, 1.0, 4.0, 100.0):
        ours = [rows[0].blend for rows in rows_of(program, 4, 0, 0, 2, n, side, side, mixup=alpha)]
        theirs = v2.MixUp(alpha=alpha, num_classes=2)._dist.sample((n,)).flatten().tolist()
        report.append(alike(f"MixUp lambda, alpha {alpha}:", ours, theirs))
    image = torch.zeros(2, 1, side, side)
    for alpha in (0.3, 1.0):
        ours = [rows[0] for rows in rows_of(program, 4, 0, 0, 2, n, side, side, cutmix=alpha)]
        transform = v2.CutMix(alpha=alpha, num_classes=2)
        theirs = [transform.make_params([image]) for _ in range(n)]
        report.append(alike(f"CutMix lambda, alpha {alpha}:", [row.weight for row in ours], [p["lam_adjusted"] for p in theirs]))
        ours = [row.cut for row in ours if row.cut[2]]
        theirs = [p["box"] for p in theirs if p["lam_adjusted"] < 1]
        report.append(alike(f"CutMix column, alpha {alpha}:", [x for x, _, _, _ in ours], [box[0] for box in theirs]))
        report.append(alike(f"CutMix row, alpha {alpha}:", [y for _, y, _, _ in ours], [box[1] for box in theirs]))
    ours = [row.erase for (row,) in rows_of(program, 4, 0, 0, 1, n, side, side, erase=1.0)]
    transform = v2.RandomErasing(p=1)
    theirs = [transform.make_params([image[0]]) for _ in range(n)]
    for i, name in enumerate("jiwh"):
        report.append(alike(f"RandomErasing {name}:", [box[i] for box in ours], [p[name] for p in theirs]))
    return "; ".join(report)


def main():
    program = os.path.abspath(sys.argv[1])
    torch.set_default_dtype(torch.float64)
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
    for check in (check_flip, check_erase_boxes, check_mixup, check_cutmix, check_single, check_distributions):
        print(check(program), flush=True)


if __name__ == "__main__":
    main()
